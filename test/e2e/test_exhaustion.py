"""What a process can run out of, and places that cannot be written: a message and status 1, and no half file."""
import os
import resource
import subprocess

import numpy as np
import pytest
from conftest import ROOT, SANITIZER, run, tool

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


def arrays(folder, rows):
    np.save(folder / "x.npy", np.zeros((rows, 64, 8), np.float32))
    return [tool("kimi-run"), ROOT / "test" / "data" / "kmod" / "mlp-v2.kmod", "--input", f"x={folder / 'x.npy'}"]


@pytest.mark.parametrize("name", ["y.npy", "y.npz"])
def test_arrays_that_do_not_fit(name, tmp_path):
    """The module's code is held in a file in memory, which the limit leaves room for; the output is larger."""
    (tmp_path / name).write_bytes(b"old")
    result = run(*arrays(tmp_path, 64), "--output", tmp_path / name, check=False,
                 preexec_fn=limited(resource.RLIMIT_FSIZE, 64 << 10))
    assert result.returncode == 1 and f"{name}: cannot be written: File too large; raise the limit" in result.stderr, result
    assert sorted(os.listdir(tmp_path)) == ["x.npy", name] and (tmp_path / name).read_bytes() == b"old"


def test_memory(tmp_path):
    """From little address space to enough: a message each time, until there is enough. Never a signal."""
    if SANITIZER:
        pytest.skip("a sanitizer reserves terabytes of address space")
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


def on_disk(options, folder, *command):
    """Runs a tool where `folder` is a disk of its own, mounted with these options; the result, and the files then on it.
    Needs a user that may mount in a namespace of its own."""
    script = 'mount -t tmpfs -o "$0" kimi "$1" || exit 99; (shift; "$@"); status=$?; find "$1" -type f >"$1.files"; exit $status'
    result = run("unshare", "-rm", "sh", "-c", script, options, folder, *command, check=False)
    if result.returncode == 99 or result.stderr.startswith("unshare: "):
        pytest.skip(f"no disk can be mounted here: {result.stderr}")
    return result, (folder.parent / f"{folder.name}.files").read_text().split()


@pytest.mark.parametrize("options,reason,advice", [
    ("size=64k", "No space left on device", "; make room there, or name another place"),
    ("ro", "Read-only file system", "; name a folder that can be written")], ids=["full", "read-only"])
def test_disks(options, reason, advice, tmp_path):
    """A disk that is full halfway, and one that cannot be written: why, what to do, and no file is left."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def refused(message, *command):
        result, files = on_disk(options, disk, *command)
        assert result.returncode == 1 and not files, (result, files)
        assert f"error: {message}" in result.stderr, (message, result)

    refused(f"cannot write '{disk / 'm.kmod'}': {reason}{advice}", tool("kimi-compile"), MODEL, "--bake", "-o", disk / "m.kmod")
    refused(f"cannot write '{disk / 'm.mlir'}': {reason}{advice}", tool("kimi-compile"), MODEL, "--emit=tile", "-o", disk / "m.mlir")
    for name in ("y.npy", "y.npz"):
        refused(f"{disk / name}: cannot be written: {reason}{advice}", *arrays(tmp_path, 64), "--output", disk / name)
    if options == "ro":
        refused(f"{disk / 'y'}: no such folder, and it cannot be made: {reason}{advice}", *arrays(tmp_path, 1), "--output", disk / "y")
        refused(f"{disk / 'report.json'}: cannot be written: {reason}{advice}", *arrays(tmp_path, 1), "--benchmark", "--json", disk / "report.json")
        prompt = [tool("kimi-run"), MODEL, "--prompt", "Once", "--tokens", "1", "--cache"]
        refused(f"the folder for compiled modules, {disk}, cannot be written: {reason}; name another with --cache", *prompt, disk)
        refused(f"cannot make the folder for compiled modules, {disk / 'k'}: {reason}; name another", *prompt, disk / "k")


def run_to(stdout, *command):
    return subprocess.run([str(c) for c in command], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=600)
