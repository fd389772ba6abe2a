"""Sequences step by step through the C API: what kimi-run's entries cannot do with arrays, run one entry after another on one
state. The runtime is linked into a shared library for Python."""
import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from conftest import BUILD, SANITIZER

MAX_RANK = 16
F32, I64 = 0, 4  # kimi_dtype
TYPES = {F32: np.float32, I64: np.int64}


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.c_int64 * MAX_RANK), ("data", ctypes.c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int32), ("max_seq", ctypes.c_int64), ("batch", ctypes.c_int64), ("device", ctypes.c_char_p),
                ("no_graphs", ctypes.c_int32), ("check_launches", ctypes.c_int32)]


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("fixed", "per_token", "weights", "derived", "arena")]


def library(folder):
    """The runtime as a shared library in `folder`, linked by the compiler of this machine."""
    compiler = shutil.which("c++") or shutil.which("clang++-22") or shutil.which("g++")
    archives = [BUILD / "runtime" / "libKimiRuntime.a", *(BUILD / "runtime" / part / f"libKimi{part.title()}.a" for part in ("files", "format"))]
    if not compiler or not archives[0].exists():
        pytest.skip("there is no compiler, or no build tree, to link the runtime with")
    path = folder / "libkimi-test.so"
    if not path.exists():
        defined = [] if SANITIZER else ["-Wl,-z,defs"]  # the sanitizer's functions are in the process
        subprocess.run([compiler, "-shared", *defined, "-o", path, "-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive", "-lz", "-lpthread",
                        "-ldl", "-lm"], check=True)
    lib = ctypes.CDLL(str(path))
    lib.kimi_last_error.restype = ctypes.c_char_p
    lib.kimi_session_length.restype = ctypes.c_int64
    return lib


def filled(array):
    tensor = Tensor(I64 if array.dtype == np.int64 else F32, array.ndim, (ctypes.c_int64 * MAX_RANK)(*array.shape))
    tensor.data = array.ctypes.data
    return tensor


class Session:
    """States of `batch` sequences and the entries of a module that move them on."""

    def __init__(self, lib, module, weights, batch=1, max_seq=256):
        self.lib, self.module, self.session = lib, ctypes.c_void_p(), ctypes.c_void_p()
        where = ctypes.c_char_p(str(weights).encode())
        self._check(lib.kimi_module_load(str(module).encode(), ctypes.byref(where), ctypes.byref(self.module)))
        options = Options(threads=2, max_seq=max_seq, batch=batch)
        self._check(lib.kimi_session_create(self.module, ctypes.byref(options), ctypes.byref(self.session)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.kimi_session_free(self.session)
        self.lib.kimi_module_free(self.module)

    def _check(self, status):
        assert status == 0, self.lib.kimi_last_error().decode()

    def run(self, entry, ids):
        """The first output, logits, of `entry` for ids [batch, T]; the states move on by T tokens."""
        ids = np.ascontiguousarray(ids, np.int64)
        index = self.lib.kimi_module_find_entry(self.module, entry.encode())
        assert index >= 0, entry
        count = self.lib.kimi_module_output_count(self.module, index)
        inputs, outputs = (Tensor * 1)(filled(ids)), (Tensor * count)()
        self._check(self.lib.kimi_session_output_shapes(self.session, index, inputs, 1, outputs, count))
        arrays = [np.full(out.dims[:out.rank], -77, TYPES[out.dtype]) for out in outputs]
        arrays[0][...] = np.nan  # what is not written is seen
        for out, array in zip(outputs, arrays):
            out.data = array.ctypes.data
        self._check(self.lib.kimi_session_run(self.session, index, inputs, 1, outputs, count))
        return arrays[0]

    def reset(self):
        self._check(self.lib.kimi_session_reset(self.session))

    def length(self):
        return self.lib.kimi_session_length(self.session)

    def memory(self):
        found = Memory()
        self._check(self.lib.kimi_session_memory(self.session, ctypes.byref(found)))
        return found
