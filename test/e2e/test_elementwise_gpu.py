"""The memory-bound kernels of GPUs (activations, gates, norms) beside NumPy in fp64, executed on the CPU at the tile sizes of
a GPU; the graphs are those that benchmarks/gpu times, at extents that are and are not multiples of vectors and tiles."""
import sys

import numpy as np
import onnx
import pytest
from conftest import ROOT, run, tool
from onnx import helper, numpy_helper

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))
import elementwise  # noqa: E402

#        kind, rows, heads, channels, sources
CASES = [("situ_glu", 5, 0, 3072, 1), ("situ_glu", 3, 0, 50, 1), ("situ_glu", 1, 0, 7, 1), ("l2_norm", 9, 3, 128, 1), ("l2_norm", 2, 5, 33, 1),
         ("rms_norm", 3, 0, 7168, 1), ("rms_norm", 17, 0, 100, 1), ("gated_rms_norm", 6, 4, 64, 1), ("gated_rms_norm", 3, 2, 256, 1),
         ("kda_gate", 11, 96, 128, 1), ("kda_gate", 2, 3, 20, 1), ("attn_res", 4, 0, 1024, 8)]


def rounded(array):
    """To the nearest bf16, ties to even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def expected(case, feeds):
    """fp64, not rounded."""
    constants = {name: array.astype(np.float64) for name, array in elementwise.vectors(case).items()}
    xs = [array.astype(np.float64) for array in feeds.values()]

    def norm(x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + elementwise.EPS) * constants["gamma"]
    if case.kind == "situ_glu":
        gate, up = np.split(xs[0], 2, axis=-1)
        beta, line = elementwise.BETA, elementwise.LINEAR_BETA
        return beta * np.tanh(gate / beta) * sigmoid(gate) * line * np.tanh(up / line)
    if case.kind == "l2_norm":
        return xs[0] / np.sqrt((xs[0] ** 2).sum(-1, keepdims=True) + elementwise.EPS)
    if case.kind == "rms_norm":
        return norm(xs[0])
    if case.kind == "gated_rms_norm":
        return norm(xs[0]) * sigmoid(xs[1])
    if case.kind == "kda_gate":
        return elementwise.BOUND * sigmoid(constants["rate"] * (xs[0] + constants["dt"]))
    stack = np.stack(xs, -2)
    scores = norm(stack) @ constants["query"]
    shares = np.exp(scores - scores.max(-2, keepdims=True))
    return (shares / shares.sum(-2, keepdims=True) * stack).sum(-2)


@pytest.mark.parametrize("target", ["80", "90a"])
@pytest.mark.parametrize("kind,rows,heads,channels,sources", CASES)
def test_against_numpy(tmp_path, kind, rows, heads, channels, sources, target):
    case = elementwise.Elementwise("case", kind, rows, heads, channels, sources)
    model = helper.make_model(elementwise.graph(case), opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, tmp_path / "model.onnx")
    feeds = {name: rounded(array) for name, array in elementwise.inputs(case, seed=rows * channels).items()}
    np.savez(tmp_path / "in.npz", **{name: (array.view(np.uint32) >> 16).astype(np.uint16).view("V2") for name, array in feeds.items()})
    run(tool("kimi-compile"), tmp_path / "model.onnx", "-o", tmp_path / "model.kmod", f"--gpu-schedules={target}")
    run(tool("kimi-run"), tmp_path / "model.kmod", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--threads", 2)
    got, want = np.load(tmp_path / "out.npz")["y"].astype(np.float64), expected(case, feeds)
    assert got.shape == want.shape and np.isfinite(got).all()
    digits = 1e-5 if kind == "kda_gate" else 2.0 ** -8  # of fp32, of bf16
    np.testing.assert_allclose(got, want, rtol=digits, atol=digits * 1e-2 * np.abs(want).max())


@pytest.mark.parametrize("target", ["80", "90a"])
def test_norms_and_what_is_around_them(tmp_path, target):
    """Heads of a part of a wider projection, SiLU before their norm; layer norm and softmax of rows that fill no vector."""
    heads, depth, rng = 6, 64, np.random.default_rng(5)
    gamma, beta = rng.random(50).astype(np.float32), rng.standard_normal(50).astype(np.float32)
    nodes = [helper.make_node("Split", ["x"], ["q", "k", "v"], axis=-1, num_outputs=3),
             helper.make_node("Reshape", ["k", "shape"], ["h"]), helper.make_node("Sigmoid", ["h"], ["open"]), helper.make_node("Mul", ["h", "open"], ["act"]),
             helper.make_node("LpNormalization", ["act"], ["l2"], axis=-1, p=2),
             helper.make_node("LayerNormalization", ["z", "gamma", "beta"], ["layer"], axis=-1, epsilon=1e-5),
             helper.make_node("Softmax", ["z"], ["soft"], axis=-1), helper.make_node("LogSoftmax", ["w"], ["log"], axis=-1)]
    weights = [numpy_helper.from_array(np.array([0, 0, heads, depth]), "shape"), numpy_helper.from_array(gamma, "gamma"), numpy_helper.from_array(beta, "beta")]
    def port(name, *shape):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "norms", [port("x", "b", "t", 3 * heads * depth), port("z", "n", 50), port("w", "n", 1000)],
                              [port("l2", "b", "t", heads, depth), port("layer", "n", 50), port("soft", "n", 50), port("log", "n", 1000)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), tmp_path / "model.onnx")
    feeds = {name: 3 * rng.standard_normal(shape).astype(np.float32) for name, shape in (("x", (2, 5, 3 * heads * depth)), ("z", (7, 50)), ("w", (7, 1000)))}
    feeds["x"][1, 2] = 0  # rows of zeros are zeros
    np.savez(tmp_path / "in.npz", **feeds)
    run(tool("kimi-compile"), tmp_path / "model.onnx", "-o", tmp_path / "model.kmod", f"--gpu-schedules={target}")
    plan = run(tool("kimi-compile"), tmp_path / "model.onnx", "-o", "-", "--emit=plan", f"--gpu-schedules={target}").stdout
    launches = sorted(name for name in ("l2_norm_64", "layer_norm_50", "softmax_50", "softmax_1000", "map_", "reduce_") if name in plan)
    assert launches == ["l2_norm_64", "layer_norm_50", "softmax_1000", "softmax_50"], plan
    run(tool("kimi-run"), tmp_path / "model.kmod", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--threads", 2)
    got, wide = np.load(tmp_path / "out.npz"), {name: array.astype(np.float64) for name, array in feeds.items()}
    h = np.split(wide["x"], 3, axis=-1)[1].reshape(2, 5, heads, depth)
    act = h * sigmoid(h)
    length = np.sqrt((act * act).sum(-1, keepdims=True))
    z, shifted = wide["z"], wide["w"] - wide["w"].max(-1, keepdims=True)
    power = np.exp(z - z.max(-1, keepdims=True))
    want = {"l2": np.divide(act, length, out=np.zeros_like(act), where=length > 0),
            "layer": (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5) * gamma + beta,
            "soft": power / power.sum(-1, keepdims=True), "log": shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))}
    for name, array in want.items():
        assert np.isfinite(got[name]).all()
        np.testing.assert_allclose(got[name], array, rtol=2e-5, atol=2e-6, err_msg=name)
