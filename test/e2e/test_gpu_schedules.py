"""The schedules of GPU kernels, executed on the CPU at their tile sizes: stored outputs of the exporter-made cases, the
trained mini model, and random graphs of odd shapes against the reference lowering."""
import json

import numpy as np
import onnx
import pytest
from conftest import ROOT, run, tool
from onnx import TensorProto, helper, numpy_helper

CASES = sorted(p.parent for p in (ROOT / "test" / "data" / "gpt2").glob("*/model.onnx"))
MINI = ROOT / "models" / "gpt2" / "mini"
GOLDEN = json.loads((MINI / "golden.json").read_text())["prompts"]


def compiled(model, folder, *flags):
    module = folder / "gpu.kmod"
    run(tool("kimi-compile"), model, "-o", module, "--gpu-schedules=90", *flags)
    return module


def outputs(module, feeds, folder, *flags):
    """The outputs of the module's graph entry for arrays by name."""
    words = []
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
        words += ["--input", f"{name}={folder / name}.npy"]
    run(tool("kimi-run"), module, *words, "--output", folder / "out.npz", *flags)
    return dict(np.load(folder / "out.npz"))


def assert_near(got, want, rtol=1e-3, atol=1e-4):
    assert got.shape == want.shape and np.isfinite(got).all()
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_gpt2_case(case, tmp_path):
    model = onnx.load(case / "model.onnx", load_external_data=False)
    module = compiled(case / "model.onnx", tmp_path, "--bake")
    folders = sorted(case.glob("test_data_set_*"))
    assert folders
    for folder in folders:
        def arrays(kind, ports):
            return {port.name: numpy_helper.to_array(onnx.load_tensor(folder / f"{kind}_{i}.pb"))
                    for i, port in enumerate(ports)}
        got = outputs(module, arrays("input", model.graph.input), tmp_path)
        for name, want in arrays("output", model.graph.output).items():
            assert_near(got[name], want)


@pytest.mark.parametrize("graph", ["gpt2_mini.onnx", "gpt2_mini_kv.onnx"])
def test_greedy_tokens(graph, tmp_path):
    """Prefill and decode entries: the caches are filled by the attention kernels themselves."""
    module, golden, report = compiled(MINI / graph, tmp_path, "--bake"), GOLDEN[0], tmp_path / "report.json"
    run(tool("kimi-run"), module, "--prompt", golden["prompt"], "--tokens", 40, "--ignore-eos", "--json", report,
        "--tokenizer", MINI)
    assert json.loads(report.read_text())["tokens"] == golden["greedy_ids"]


def weight(rng, name, *shape, scale=1.0):
    return numpy_helper.from_array((rng.standard_normal(shape) * scale).astype(np.float32), name)


def compare(nodes, inputs, weights, result, feeds, folder, precision="f32"):
    """The graph's one output through GPU schedules and through the reference lowering."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.checker.check_model(model)
    path = folder / "graph.onnx"
    onnx.save(model, path)
    got = outputs(compiled(path, folder, "--precision", precision), feeds, folder)["y"]
    want = outputs(path, feeds, folder, "--reference", "--cache", folder)["y"]
    assert got.shape == want.shape and np.isfinite(got).all() and np.linalg.norm(want) > 0
    if precision == "f32":
        assert_near(got, want)
    else:
        assert np.linalg.norm(got - want) <= 1e-2 * np.linalg.norm(want)


# Rows around every edge of the tiles; odd K and N; sums that are split (small grids, long K).
LINEAR = [(1, 768, 96), (3, 20, 7), (4, 33, 257), (5, 64, 50), (17, 100, 65), (31, 8, 1), (70, 2052, 33), (129, 48, 129),
          (200, 40, 300)]


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("norm", ["none", "layer", "rms"])
@pytest.mark.parametrize("m,k,n", LINEAR)
def test_linear(m, k, n, norm, precision, tmp_path):
    rng = np.random.default_rng(m * 1000 + k)
    nodes, weights, x = [], [weight(rng, "w", k, n, scale=k**-0.5), weight(rng, "b", n)], "x"
    if norm != "none":
        weights.append(weight(rng, "g", k))
        op, more = ("LayerNormalization", ["h"]) if norm == "layer" else ("RMSNormalization", [])
        if more:
            weights.append(weight(rng, "h", k))
        nodes.append(helper.make_node(op, ["x", "g"] + more, ["xn"], axis=-1, epsilon=1e-5))
        x = "xn"
    nodes += [helper.make_node("MatMul", [x, "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["q"]),
              helper.make_node("Gelu", ["q"], ["u"], approximate="tanh"), helper.make_node("Add", ["u", "r"], ["y"])]
    feeds = {"x": rng.standard_normal((1, m, k)).astype(np.float32) + 3, "r": rng.standard_normal((1, m, n)).astype(np.float32)}
    compare(nodes, [("x", ["b", "t", k]), ("r", ["b", "t", n])], weights, ["b", "t", n], feeds, tmp_path, precision)


# Heads of q and of k, tokens, keys, channels of q and v.
ATTENTION = [(1, 1, 1, 5, 64, 64), (4, 4, 1, 200, 32, 32), (8, 2, 1, 77, 64, 64), (40, 2, 1, 9, 16, 16),
             (2, 1, 7, 7, 192, 128), (3, 3, 16, 40, 128, 128), (2, 2, 65, 130, 64, 64), (6, 3, 130, 130, 20, 12),
             (1, 1, 70, 70, 256, 256), (2, 2, 33, 3, 64, 64)]


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("kind", ["full", "causal", "bool", "float"])
@pytest.mark.parametrize("shape", ATTENTION, ids=str)
def test_attention(shape, kind, precision, tmp_path):
    heads, key_heads, tokens, keys, depth, width = shape
    rng = np.random.default_rng(heads * 100 + tokens)
    feeds = {"q": rng.standard_normal((2, heads, tokens, depth)).astype(np.float32),
             "k": rng.standard_normal((2, key_heads, keys, depth)).astype(np.float32),
             "v": rng.standard_normal((2, key_heads, keys, width)).astype(np.float32)}
    inputs = [("q", ["b", heads, "t", depth]), ("k", ["b", key_heads, "s", depth]), ("v", ["b", key_heads, "s", width])]
    nodes, names = [], ["q", "k", "v"]
    if kind in ("bool", "float"):
        feeds["m"] = (rng.random((1, 1, tokens, keys)) < 0.7).astype(np.float32)
        inputs.append(("m", [1, 1, "t", "s"]))
        names.append("m")
        if kind == "bool":
            nodes.append(helper.make_node("Cast", ["m"], ["mb"], to=TensorProto.BOOL))
            names[-1] = "mb"
    nodes.append(helper.make_node("Attention", names, ["y"], is_causal=int(kind == "causal" and tokens == keys)))
    compare(nodes, inputs, [], ["b", heads, "t", width], feeds, tmp_path, precision)
