"""A reader of the safetensors format: 8 bytes of header length, a JSON header, then the data, which is mapped, not read.

Nothing in the file is trusted: lengths, types, shapes and offsets are checked before a tensor is handed out.
"""
import json
import math
import mmap
import os
import struct

import ml_dtypes
import numpy as np

from .errors import ExportError

MAX_HEADER = 100 << 20  # as in the format's own library
DTYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "F64": np.float64, "U8": np.uint8, "I8": np.int8, "I16": np.int16,
          "U16": np.uint16, "I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64, "BOOL": np.bool_}
OTHER_SIZES = {"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}  # bytes of types that may stand in a file but are never read


class SafeTensors:
    """One mapped file. `entries` maps a name to (dtype name, shape, first byte, bytes)."""

    def __init__(self, path):
        self.path, self.read = path, None
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < 8:
                    self.fail("is too short for a safetensors file")
                length, = struct.unpack("<Q", file.read(8))
                if length > min(MAX_HEADER, size - 8):
                    self.fail(f"gives a header of {length} bytes; the file has {size}")
                try:
                    header = json.loads(file.read(length))
                except (ValueError, RecursionError) as error:
                    self.fail(f"has a header that is not JSON: {error}")
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise ExportError(f"{path}: {error.strerror}") from None
        if not isinstance(header, dict):
            self.fail("has a header that is not a JSON object")
        header.pop("__metadata__", None)
        self.entries = {name: self.entry(name, fields, 8 + length, size) for name, fields in header.items()}

    def fail(self, what):
        raise ExportError(f"{self.path}: {what}")

    def entry(self, name, fields, start, size):
        if not isinstance(fields, dict):
            self.fail(f"tensor '{name}': its entry is not a JSON object")
        dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")

        def sizes(value, count=None):
            return isinstance(value, list) and all(type(i) is int and i >= 0 for i in value) and count in (None, len(value))

        if not isinstance(dtype, str) or dtype not in DTYPES and dtype not in OTHER_SIZES:
            self.fail(f"tensor '{name}': unknown dtype {json.dumps(dtype)}")
        if not sizes(shape) or not sizes(offsets, 2):
            self.fail(f"tensor '{name}': shape and data_offsets must be lists of sizes")
        length = math.prod(shape) * (np.dtype(DTYPES[dtype]).itemsize if dtype in DTYPES else OTHER_SIZES[dtype])
        if offsets[1] - offsets[0] != length:
            self.fail(f"tensor '{name}': {dtype} {shape} takes {length} bytes; its offsets span {offsets[1] - offsets[0]}")
        if start + offsets[1] > size:
            self.fail(f"tensor '{name}': ends at byte {start + offsets[1]} of a file of {size} bytes; is it cut off?")
        return dtype, tuple(shape), start + offsets[0], length

    def array(self, name):
        """A read-only view of the mapped tensor. Pages of the tensor read before are given back: of a large file only what is
        being read stays in memory."""
        dtype, shape, offset, length = self.entries[name]
        if self.read and hasattr(self.map, "madvise"):
            first = self.read[0] // mmap.PAGESIZE * mmap.PAGESIZE
            self.map.madvise(mmap.MADV_DONTNEED, first, self.read[1] - first)
        self.read = (offset, offset + length) if length else None
        return np.frombuffer(self.map, dtype=DTYPES[dtype], count=math.prod(shape), offset=offset).reshape(shape)
