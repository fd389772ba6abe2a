"""What the tools do that a pipe cannot show, and graphs that once took too long."""
import os
import pty
import subprocess
import tarfile

import numpy as np
import onnx
import pytest
from conftest import ROOT, SHARED, run, tool

MINI = ROOT / "models" / "gpt2" / "mini" / "gpt2_mini.onnx"
FAMILY = SHARED / "cases" / "k3-family.tar.xz"


def test_progress_is_for_terminals_only(tmp_path):
    command = [tool("kimi-compile"), str(MINI), "-o", str(tmp_path / "m.kmod")]
    assert run(*command).stderr == ""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert b"\r\033[Kimport" in shown and b"\r\033[Kcodegen" in shown
    assert shown.endswith(b"\r\033[K")


def test_division_of_long_polynomials_ends(tmp_path):
    """An unrolled decode step of another family, whose shapes are quotients of long sums: inference gives up in time."""
    if not FAMILY.exists():
        pytest.skip(f"the larger cases are not at {FAMILY}")
    name = "torch_kl-tiny_decode_op20/model.onnx"
    with tarfile.open(FAMILY) as archive:
        wanted = [m for m in archive if m.name.endswith(name)]
        archive.extractall(tmp_path, wanted)
    run(tool("kimi-compile"), next(tmp_path.rglob("model.onnx")), "--emit=kimi", "-o", tmp_path / "out.mlir", timeout=120)
    assert (tmp_path / "out.mlir").stat().st_size > 0


def test_tensors_without_elements(cache, tmp_path):
    """Slices and concatenations of nothing, and an output of nothing."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ints = {name: onnx.numpy_helper.from_array(np.array(values, dtype=np.int64), name)
            for name, values in {"two": [2], "last": [1], "shape": [0, 3]}.items()}
    nodes = [helper.make_node("Slice", ["x", "two", "two", "last"], ["nothing"]),
             helper.make_node("Concat", ["nothing", "x"], ["y"], axis=1),
             helper.make_node("ConstantOfShape", ["shape"], ["none"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, [2, 3])],
                              [helper.make_tensor_value_info("y", kind, [2, 3]), helper.make_tensor_value_info("none", kind, [0, 3])],
                              list(ints.values()))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    run(tool("kimi-run"), tmp_path / "m.onnx", "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out.npz", "--cache", cache)
    out = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(out["y"], x)
    assert out["none"].shape == (0, 3)
