"""The external data of a model: one file whose layout is planned first and written after, tensor by tensor.

Offsets are known before a byte is written, so a graph can be made without its data, and the room it needs be compared
with what the folder has.
"""
import math
import os
import shutil

import numpy as np
from onnx import TensorProto

from .errors import ExportError

ALIGNMENT = 256  # of each tensor, as GPU copies like it
BLOCK, PASSES = 32 << 20, 16  # bytes of one piece of a large tensor; at most so many pieces, as a transposed one is walked through for each
BITS = {TensorProto.FLOAT: 32, TensorProto.BFLOAT16: 16, TensorProto.FLOAT4E2M1: 4, TensorProto.FLOAT8E8M0: 8}


class DataFile:
    """Plans tensors for the file `location`, which stands beside the model."""

    def __init__(self, location):
        self.location, self.size, self.parts = location, 0, []

    def add(self, name, dtype, shape, pieces):
        """The TensorProto of an external tensor. `pieces()` yields arrays whose bytes, in order, are the tensor."""
        offset = -(-self.size // ALIGNMENT) * ALIGNMENT
        length = math.prod(shape) * BITS[dtype] // 8
        tensor = TensorProto(name=name, data_type=dtype, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.location), ("offset", str(offset)), ("length", str(length))):
            tensor.external_data.add(key=key, value=value)
        self.parts.append((name, offset, length, pieces))
        self.size = offset + length
        return tensor

    def write(self, path):
        """Writes all tensors to `path`; at most one piece is in memory."""
        free = shutil.disk_usage(os.path.dirname(path) or ".").free
        if self.size > free:
            raise ExportError(f"{self.location} takes {self.size:,} bytes; {os.path.dirname(path) or '.'} has {free:,} free")
        with open(path, "wb") as file:
            for name, offset, length, pieces in self.parts:
                file.write(b"\0" * (offset - file.tell()))
                for piece in pieces():
                    file.write(np.ascontiguousarray(piece).view(np.uint8).data)
                if file.tell() != offset + length:
                    raise ExportError(f"tensor '{name}' gave {file.tell() - offset} bytes instead of {length}")


def rows_of(array, dtype):
    """Pieces of an array as `dtype`, some rows at a time."""
    if array.ndim == 0 or array.nbytes <= BLOCK:
        yield array.astype(dtype, copy=False)
        return
    step = max(1, max(BLOCK, array.nbytes // PASSES) * len(array) // array.nbytes)
    for first in range(0, len(array), step):
        yield array[first:first + step].astype(dtype, copy=False)
