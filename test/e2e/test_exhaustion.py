"""What a process can run out of, and places that cannot be written: a message and status 1, and no half file."""
import os
import resource
import subprocess

import numpy as np
import pytest
from conftest import ROOT, run, tool

MINI = ROOT / "models" / "gpt2" / "mini"
MODEL = MINI / "gpt2_mini_kv.onnx"


def limited(what, amount):
    return lambda: resource.setrlimit(what, (amount, amount))


def assert_refused(result, word, folder):
    assert result.returncode == 1 and "error: " in result.stderr and word in result.stderr, result
    assert not list(folder.glob("*.kmod*")) and not list(folder.glob("*.tmp")), list(folder.iterdir())


@pytest.mark.parametrize("size", [1, 8 << 10, 256 << 10])
def test_file_size(size, tmp_path):
    """As on a disk that is full: the write stops in the middle."""
    result = run(tool("kimi-compile"), MODEL, "-o", tmp_path / "m.kmod", "--bake", check=False,
                 preexec_fn=limited(resource.RLIMIT_FSIZE, size))
    assert_refused(result, "", tmp_path)


def test_an_older_module_survives(tmp_path):
    old = tmp_path / "m.kmod"
    old.write_bytes(b"old")
    result = run(tool("kimi-compile"), MODEL, "-o", old, "--bake", check=False,
                 preexec_fn=limited(resource.RLIMIT_FSIZE, 8 << 10))
    assert result.returncode == 1 and old.read_bytes() == b"old" and os.listdir(tmp_path) == ["m.kmod"]


def test_arrays_that_do_not_fit(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((64, 64, 8), np.float32))
    module = ROOT / "test" / "data" / "kmod" / "mlp-v2.kmod"
    result = run(tool("kimi-run"), module, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz",
                 check=False, preexec_fn=limited(resource.RLIMIT_FSIZE, 4 << 10))
    assert result.returncode == 1 and "error: " in result.stderr, result
    assert os.listdir(tmp_path) == ["x.npy"]


def test_memory(tmp_path):
    """From little address space to enough: a message each time, until there is enough. Never a signal."""
    statuses = []
    for megabytes in (500, 560, 640, 800, 1100, 1600, 3200):
        result = run(tool("kimi-compile"), MODEL, "-o", tmp_path / "m.kmod", check=False,
                     preexec_fn=limited(resource.RLIMIT_AS, megabytes << 20))
        statuses.append(result.returncode)
        if result.returncode == 0:
            break
        if result.returncode != 127:  # the libraries themselves did not fit
            assert_refused(result, "", tmp_path)
    assert statuses[-1] == 0 and 1 in statuses, statuses


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "none" / "m.kmod", tmp_path / "file" / "m.kmod", tmp_path):
        result = run(tool("kimi-compile"), MODEL, "-o", out, check=False)
        assert result.returncode == 1 and f"cannot write '{out}'" in result.stderr, result
    with open("/dev/full", "w") as full:
        result = run_to(full, tool("kimi-compile"), MODEL, "-o", "-")
        assert result.returncode == 1 and "No space left" in result.stderr, result
        result = run_to(full, tool("kimi-run"), ROOT / "test" / "data" / "kmod" / "mlp-v2.kmod", "--describe")
        assert result.returncode == 1 and "cannot be written" in result.stderr, result


def run_to(stdout, *command):

    return subprocess.run([str(c) for c in command], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=600)
