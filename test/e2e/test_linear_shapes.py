"""Linear kernels on shapes that leave edges everywhere, beside NumPy: rows that end within a block or a register block,
rows of x too long for a block, columns that are no multiple of a panel, a norm before and a residual behind."""
import numpy as np
import onnx
import pytest
from conftest import run, tool
from onnx import TensorProto, helper, numpy_helper

ROWS = [1, 3, 5, 13, 48, 50, 97, 145]


def linear(k, n, norm, rng):
    """x [rows, k] (-> LayerNormalization) -> MatMul -> Add bias -> Add residual [rows, n]; and what it computes."""
    w = rng.standard_normal((k, n), dtype=np.float32) / np.float32(np.sqrt(k))
    bias, gamma, beta = (rng.standard_normal(size, dtype=np.float32) for size in (n, k, k))
    nodes, source = [], "x"
    if norm:
        nodes.append(helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["normed"], axis=-1, epsilon=1e-5))
        source = "normed"
    nodes += [helper.make_node("MatMul", [source, "w"], ["p"]), helper.make_node("Add", ["p", "bias"], ["q"]),
              helper.make_node("Add", ["q", "residual"], ["y"])]
    value = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])  # noqa: E731
    weights = [numpy_helper.from_array(a, name) for a, name in ((w, "w"), (bias, "bias"), (gamma, "gamma"), (beta, "beta"))]
    graph = helper.make_graph(nodes, "linear", [value("x", k), value("residual", n)], [value("y", n)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def compute(x, residual):
        x = x.astype(np.float64)
        if norm:
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta
        return x @ w + bias + residual
    return model, compute


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"])
@pytest.mark.parametrize("k,n,norm", [(96, 200, True), (96, 16, False), (1040, 129, True), (1100, 500, False), (3000, 200, False)])
def test_linear(tmp_path, k, n, norm, cpu):
    rng = np.random.default_rng(k + n)
    model, compute = linear(k, n, norm, rng)
    onnx.save(model, tmp_path / "model.onnx")
    run(tool("kimi-compile"), f"--cpu={cpu}", tmp_path / "model.onnx", "-o", tmp_path / "model.kmod")
    for rows in ROWS:
        x, residual = (rng.standard_normal((rows, width), dtype=np.float32) for width in (k, n))
        np.savez(tmp_path / "in.npz", x=x, residual=residual)
        run(tool("kimi-run"), tmp_path / "model.kmod", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz",
            "--threads", 2)
        y = np.load(tmp_path / "out.npz")["y"]
        np.testing.assert_allclose(y, compute(x, residual), rtol=1e-4, atol=1e-4, err_msg=f"{rows} rows")
