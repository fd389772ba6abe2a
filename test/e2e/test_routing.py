"""Routers and mixtures of experts beside NumPy: ties, groups, biases that change the choice but not the weights, NaN logits,
one token and many, experts that nobody chose; through the kernels and the reference lowering."""
import re

import numpy as np
import onnx
import pytest
from conftest import run, tool
from onnx import TensorProto, helper, numpy_helper

EXPERTS, TOP, WIDTH, HIDDEN = 12, 3, 24, 20
GPU = ["--gpu-schedules=90a"]  # its kernels, on the CPU


class Graph:
    """Collects nodes and weights of one ONNX graph over tokens [n, ..]."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        inputs = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names if outputs > 1 else names[0]

    def constant(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def save(self, path, inputs, outputs):
        value = lambda name, kind, width: helper.make_tensor_value_info(name, kind, ["n", width])  # noqa: E731
        graph = helper.make_graph(self.nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def last(*values):
    return np.array(values, np.int64)


def add_router(g, logits, bias, groups, kept, scale):
    scores = g.add("Sigmoid", logits)
    choice = g.add("Add", scores, bias)
    if groups > 1:
        split = g.add("Reshape", choice, last(-1, groups, EXPERTS // groups))
        best = g.add("TopK", split, last(2), outputs=2)[0]
        value = g.add("ReduceSum", best, last(-1), keepdims=0)
        chosen = g.add("TopK", value, last(kept), outputs=2)[1]
        mark = g.add("OneHot", chosen, last(groups), np.array([0, 1], np.float32))
        column = g.add("Unsqueeze", g.add("ReduceMax", mark, last(1), keepdims=0), last(-1))
        open_ = g.add("Greater", column, np.float32(0.5))
        choice = g.add("Reshape", g.add("Where", open_, split, np.float32(-np.inf)), last(-1, EXPERTS))
    indices = g.add("TopK", choice, last(TOP), outputs=2)[1]
    chosen = g.add("GatherElements", scores, indices, axis=-1)
    total = g.add("Add", g.add("ReduceSum", chosen, last(-1), keepdims=1), np.float32(1e-20))
    return indices, g.add("Mul", g.add("Div", chosen, total), np.float32(scale))


def route(logits, bias, groups, kept, scale):
    """Indices and weights, in fp64; equal values lowest index first."""
    scores = 1 / (1 + np.exp(-logits.astype(np.float64)))
    choice = scores + bias
    if groups > 1:
        split = choice.reshape(-1, groups, EXPERTS // groups)
        value = np.sort(split, -1)[..., -2:].sum(-1)
        order = np.argsort(-value, -1, kind="stable")[:, :kept]
        mask = np.full(split.shape, -np.inf)
        for row, best in enumerate(order):
            mask[row, best] = split[row, best]
        choice = mask.reshape(choice.shape)
    indices = np.argsort(-choice, -1, kind="stable")[:, :TOP]
    weights = np.take_along_axis(scores, indices, -1)
    return indices, weights / weights.sum(-1, keepdims=True) * scale


def compute(path, inputs, *mode):
    module = path.with_suffix(".kmod")
    run(tool("kimi-compile"), path, "-o", module, *mode)
    np.savez(path.parent / "in.npz", **inputs)
    run(tool("kimi-run"), module, "--input", path.parent / "in.npz", "--output", path.parent / "out.npz", "--threads", 2)
    return np.load(path.parent / "out.npz")


def is_raised(path, folder, op):
    run(tool("kimi-compile"), path, "--emit=onnx", "-o", folder / "onnx.mlir")
    return f"kimi.{op} " in run(tool("kimi-opt"), folder / "onnx.mlir", "--kimi-phase-raise").stdout


@pytest.mark.parametrize("mode", [[], ["--reference"], GPU], ids=["kernels", "reference", "gpu"])
@pytest.mark.parametrize("groups,kept", [(1, 1), (4, 2), (3, 1), (6, 3)])
@pytest.mark.parametrize("rows", [1, 37])
def test_router(tmp_path, rows, groups, kept, mode):
    rng = np.random.default_rng(rows + groups)
    bias = rng.standard_normal(EXPERTS).astype(np.float32)
    bias[[2, 5]] = 0.25, 0.25
    g = Graph()
    indices, weights = add_router(g, "logits", bias, groups, kept, 2.446)
    g.save(tmp_path / "m.onnx", [("logits", TensorProto.FLOAT, EXPERTS)],
           [(indices, TensorProto.INT64, TOP), (weights, TensorProto.FLOAT, TOP)])
    assert is_raised(tmp_path / "m.onnx", tmp_path, "router")
    logits = rng.standard_normal((rows, EXPERTS)).astype(np.float32)
    logits[:, 5] = logits[:, 2]  # equal scores and biases
    out = compute(tmp_path / "m.onnx", {"logits": logits}, *mode)
    expected = route(logits, bias, groups, kept, 2.446)
    np.testing.assert_array_equal(out[indices], expected[0])
    np.testing.assert_allclose(out[weights], expected[1], rtol=2e-6)


@pytest.mark.parametrize("mode", [[], GPU], ids=["kernels", "gpu"])
def test_router_of_nothing_but_ties(tmp_path, mode):
    g = Graph()
    indices, weights = add_router(g, "logits", np.zeros(EXPERTS, np.float32), 1, 1, 1.0)
    g.save(tmp_path / "m.onnx", [("logits", TensorProto.FLOAT, EXPERTS)],
           [(indices, TensorProto.INT64, TOP), (weights, TensorProto.FLOAT, TOP)])
    out = compute(tmp_path / "m.onnx", {"logits": np.zeros((2, EXPERTS), np.float32)}, *mode)
    np.testing.assert_array_equal(out[indices], [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_allclose(out[weights], np.full((2, 3), 1 / 3), rtol=1e-6)


def add_experts(g, x, indices, weights, w1, w3, w2):
    """Every expert computed, and a dense mask: [E, n, ..], as K3's builders write it."""
    shape = g.add("Concat", g.add("Shape", x, start=0, end=1), last(EXPERTS), axis=0)
    zeros = g.add("ConstantOfShape", shape, value=helper.make_tensor("z", TensorProto.FLOAT, [1], [0.0]))
    mask = g.add("ScatterElements", zeros, indices, weights, axis=-1)
    stacked = g.add("Unsqueeze", x, last(0))
    gate = g.add("MatMul", stacked, g.add("Transpose", w1, perm=[0, 2, 1]))
    up = g.add("MatMul", stacked, g.add("Transpose", w3, perm=[0, 2, 1]))
    hidden = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), up)
    outputs = g.add("MatMul", hidden, g.add("Transpose", w2, perm=[0, 2, 1]))
    column = g.add("Unsqueeze", g.add("Transpose", mask, perm=[1, 0]), last(-1))
    return g.add("ReduceSum", g.add("Mul", outputs, column), last(0), keepdims=0)


def mix(x, indices, weights, w1, w3, w2):
    x, w1, w3, w2 = (a.astype(np.float64) for a in (x, w1, w3, w2))
    y = np.zeros((len(x), w2.shape[1]))
    for n in range(len(x)):
        for e, w in zip(indices[n], weights[n], strict=True):
            gate = w1[e] @ x[n]
            y[n] += w * (w2[e] @ (gate / (1 + np.exp(-gate)) * (w3[e] @ x[n])))
    return y


@pytest.mark.parametrize("mode", [[], ["--reference"], ["--precision=bf16"], GPU, [*GPU, "--precision=bf16"], ["--gpu-schedules=80"]],
                         ids=["kernels", "reference", "bf16", "gpu", "gpu-bf16", "gpu-80"])
@pytest.mark.parametrize("rows", [0, 1, 5, 41, 307])  # the last: 77 pairs an expert, tiles of many rows
def test_experts(tmp_path, rows, mode):
    rng = np.random.default_rng(rows)
    draw = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)  # noqa: E731
    w1, w3, w2 = draw(EXPERTS, HIDDEN, WIDTH), draw(EXPERTS, HIDDEN, WIDTH), draw(EXPERTS, WIDTH, HIDDEN)
    bias = draw(EXPERTS)
    g = Graph()
    indices, weights = add_router(g, "logits", bias, 1, 1, 1.0)
    y = add_experts(g, "x", indices, weights, w1, w3, w2)
    g.save(tmp_path / "m.onnx", [("x", TensorProto.FLOAT, WIDTH), ("logits", TensorProto.FLOAT, EXPERTS)],
           [(y, TensorProto.FLOAT, WIDTH)])
    assert is_raised(tmp_path / "m.onnx", tmp_path, "moe")
    x = rng.standard_normal((rows, WIDTH)).astype(np.float32)
    logits = rng.standard_normal((rows, EXPERTS)).astype(np.float32)
    found = compute(tmp_path / "m.onnx", {"x": x, "logits": logits}, *mode)[y]
    expected = mix(x, *route(logits, bias, 1, 1, 1.0), w1, w3, w2)
    if "--precision=bf16" in mode:
        assert np.linalg.norm(found - expected) <= 1e-2 * np.linalg.norm(expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", [[], GPU], ids=["kernels", "gpu"])
def test_only_the_chosen_experts_are_computed(tmp_path, mode):
    """An expert of NaN that nobody chose does no harm, as it does where all are computed."""
    rng = np.random.default_rng(0)
    w1, w3, w2 = (rng.standard_normal(s).astype(np.float32) for s in
                  ((EXPERTS, HIDDEN, WIDTH), (EXPERTS, HIDDEN, WIDTH), (EXPERTS, WIDTH, HIDDEN)))
    for w in (w1, w3, w2):
        w[-1] = np.nan
    bias = np.zeros(EXPERTS, np.float32)
    bias[-1] = -10
    g = Graph()
    indices, weights = add_router(g, "logits", bias, 1, 1, 1.0)
    y = add_experts(g, "x", indices, weights, w1, w3, w2)
    g.save(tmp_path / "m.onnx", [("x", TensorProto.FLOAT, WIDTH), ("logits", TensorProto.FLOAT, EXPERTS)],
           [(y, TensorProto.FLOAT, WIDTH)])
    inputs = {"x": rng.standard_normal((4, WIDTH)).astype(np.float32),
              "logits": rng.standard_normal((4, EXPERTS)).astype(np.float32)}
    found = compute(tmp_path / "m.onnx", inputs, *mode)[y]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, mix(inputs["x"], *route(inputs["logits"], bias, 1, 1, 1.0), w1, w3, w2), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("mode,groups,kept", [([], 4, 2), ([], 1, 1), (GPU, 1, 1)], ids=["groups", "kernels", "gpu"])
def test_logits_of_nan_choose_experts_that_exist(tmp_path, mode, groups, kept):
    g = Graph()
    indices, weights = add_router(g, "logits", np.zeros(EXPERTS, np.float32), groups, kept, 1.0)
    g.save(tmp_path / "m.onnx", [("logits", TensorProto.FLOAT, EXPERTS)],
           [(indices, TensorProto.INT64, TOP), (weights, TensorProto.FLOAT, TOP)])
    logits = np.full((3, EXPERTS), np.nan, np.float32)
    logits[1, 3:] = 0.5
    found = compute(tmp_path / "m.onnx", {"logits": logits}, *mode)[indices]
    assert ((0 <= found) & (found < EXPERTS)).all()
    assert all(len(set(row)) == TOP for row in found)
    if groups == 1:  # NaN comes first, the lowest index of it
        np.testing.assert_array_equal(found, np.broadcast_to([0, 1, 2], found.shape))


@pytest.mark.parametrize("groups", [1, 4])
def test_cuda(tmp_path, groups):
    rng = np.random.default_rng(0)
    shapes = ((EXPERTS, HIDDEN, WIDTH), (EXPERTS, HIDDEN, WIDTH), (EXPERTS, WIDTH, HIDDEN))
    g = Graph()
    indices, weights = add_router(g, "logits", np.zeros(EXPERTS, np.float32), groups, 2 if groups > 1 else 1, 1.0)
    y = add_experts(g, "x", indices, weights, *(rng.standard_normal(s).astype(np.float32) for s in shapes))
    g.save(tmp_path / "m.onnx", [("x", TensorProto.FLOAT, WIDTH), ("logits", TensorProto.FLOAT, EXPERTS)],
           [(y, TensorProto.FLOAT, WIDTH)])
    run(tool("kimi-compile"), tmp_path / "m.onnx", "-o", tmp_path / "m.kmod", "--target=cuda:sm_90a")
    plan = run(tool("kimi-compile"), tmp_path / "m.onnx", "--emit=plan", "--target=cuda:sm_90a", "-o", "-").stdout
    assert re.search(r"loops_router<" if groups > 1 else r"router_12_3<", plan)
    assert re.search(r"moe_24x20_hidden_few<", plan) and re.search(r"moe_24x20_output<", plan)
