"""Loads one kernel that kimi-opt and ptxas made of a tile.kernel, and launches it on torch tensors.

A kernel is a folder with kernel.cubin and kernel.json: {symbol, threads, shared_bytes, tensor_maps: [{arg, box, dims,
swizzle, element_size}]} (see make_tile_kernel.py). Its parameters are those of the kernel ABI: for each tensor its address,
sizes and strides, the scalars, the grid's x extent, and the tensor maps.
"""
import ctypes
import json
import pathlib

import torch

cuda = ctypes.CDLL("libcuda.so.1")
DTYPES = {torch.bfloat16: 9, torch.float16: 6, torch.float32: 7}  # CUtensorMapDataType
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}                            # CUtensorMapSwizzle


def check(status, what):
    if status:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else status}")


def tensor_map(tensor, box, swizzle):
    """128 bytes, aligned to 64; `box` outermost first."""
    storage = (ctypes.c_uint8 * 192)()
    at = (ctypes.addressof(storage) + 63) // 64 * 64
    rank, size = tensor.dim(), tensor.element_size()
    extents = (ctypes.c_uint64 * rank)(*reversed(tensor.shape))
    strides = (ctypes.c_uint64 * rank)(*[size * s for s in reversed(tensor.stride()[:-1])])
    boxes = (ctypes.c_uint32 * rank)(*reversed(box))
    ones = (ctypes.c_uint32 * rank)(*[1] * rank)
    # interleave none, L2 promotion 256 bytes, out of bounds zero
    check(cuda.cuTensorMapEncodeTiled(ctypes.c_void_p(at), DTYPES[tensor.dtype], rank, ctypes.c_void_p(tensor.data_ptr()), extents,
                                      strides, boxes, ones, 0, SWIZZLES[swizzle], 3, 0), f"tensor map {list(tensor.shape)} box {box}")
    return storage, at


class Kernel:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.info = json.loads((folder / "kernel.json").read_text())
        torch.zeros(1, device="cuda")  # the context
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        image = (folder / "kernel.cubin").read_bytes()
        check(cuda.cuModuleLoadData(ctypes.byref(module), image), f"loading {folder}")
        check(cuda.cuModuleGetFunction(ctypes.byref(self.function), module, self.info["symbol"].encode()), self.info["symbol"])
        # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(cuda.cuFuncSetAttribute(self.function, 8, self.info["shared_bytes"]), "shared memory")

    def bind(self, tensors, scalars=(), grid=(1, 1, 1)):
        """A function that launches on the current stream; keeps the parameters alive."""
        words = []
        for tensor in tensors:
            words += [tensor.data_ptr(), *tensor.shape, *tensor.stride()]
        storage = [ctypes.c_int64(word) for word in (*words, *scalars, grid[0])]
        addresses = [ctypes.addressof(word) for word in storage]
        for m in self.info["tensor_maps"]:
            view = tensors[m["arg"]].permute(*m["dims"])
            kept, at = tensor_map(view, m["box"], m["swizzle"])
            storage.append(kept)
            addresses.append(at)
        parameters = (ctypes.c_void_p * len(addresses))(*addresses)
        threads, shared = self.info["threads"], self.info["shared_bytes"]

        def launch(keep=(storage, tensors)):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(cuda.cuLaunchKernel(self.function, *grid, threads, 1, 1, shared, stream, parameters, None), "launch")
        return launch
