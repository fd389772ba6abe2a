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


def compiled(model, folder, *flags, arch="90"):
    module = folder / "gpu.kmod"
    run(tool("kimi-compile"), model, "-o", module, f"--gpu-schedules={arch}", *flags)
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


class Graph:
    """Several independent pieces with an output each, compiled together."""

    def __init__(self):
        self.nodes, self.inputs, self.weights, self.outputs, self.feeds = [], [], [], [], {}
        self.rng = np.random.default_rng(7)

    def node(self, kind, names, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
        self.feeds[name] = array.astype(np.float32)
        return name

    def random(self, *shape):
        return self.input(self.rng.standard_normal(shape))

    def weight(self, *shape, scale=1.0):
        name = f"w{len(self.weights)}"
        values = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def output(self, name, *shape):
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def check(self, folder, precision, arch):
        """GPU schedules against the reference lowering in fp32."""
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
        onnx.checker.check_model(model)
        path = folder / "graph.onnx"
        onnx.save(model, path)
        got = outputs(compiled(path, folder, "--precision", precision, arch=arch), self.feeds, folder)
        want = outputs(path, self.feeds, folder, "--reference", "--cache", folder)
        assert len(want) == len(self.outputs)
        for port in self.outputs:
            a, b = got[port.name], want[port.name]
            assert a.shape == b.shape and np.isfinite(a).all() and np.linalg.norm(b) > 0
            if precision == "f32":
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=str(b.shape))
            else:
                assert np.linalg.norm(a - b) <= 1e-2 * np.linalg.norm(b), b.shape


# The tiles of fused multiply-adds, of mma and of wgmma.
ROADS = [("f32", "90"), ("bf16", "80"), ("bf16", "90a")]

# Rows around the edges of the tiles; odd K and N; sums that are split (a long K on a small grid).
LINEAR = [(1, 768, 96), (1, 1000, 3), (3, 20, 7), (4, 33, 257), (5, 64, 50), (17, 100, 65), (31, 8, 1), (70, 2052, 33),
          (129, 48, 129), (200, 40, 300),
          (1100, 64, 520), (700, 1024, 264)]


@pytest.mark.parametrize("precision,arch", ROADS)
@pytest.mark.parametrize("norm", ["none", "layer", "rms"])
def test_linear(norm, precision, arch, tmp_path):
    """Norm, product, bias, gelu and residual of odd shapes; the rows have a mean that is not small."""
    g = Graph()
    for m, k, n in LINEAR:
        x = g.input(g.rng.standard_normal((1, m, k)) + (3 if precision == "f32" else 0.3))
        if norm == "layer":
            x = g.node("LayerNormalization", [x, g.weight(k), g.weight(k)], axis=-1, epsilon=1e-5)
        elif norm == "rms":
            x = g.node("RMSNormalization", [x, g.weight(k)], axis=-1, epsilon=1e-5)
        y = g.node("Add", [g.node("MatMul", [x, g.weight(k, n, scale=k**-0.5)]), g.weight(n)])
        y = g.node("Add", [g.node("Gelu", [y], approximate="tanh"), g.random(1, m, n)])
        g.output(y, 1, m, n)
    g.check(tmp_path, precision, arch)


# Heads of q and of k, tokens, keys, channels of q and v.
ATTENTION = [(1, 1, 1, 5, 64, 64), (4, 4, 1, 200, 32, 32), (8, 2, 1, 77, 64, 64), (40, 2, 1, 9, 16, 16),
             (2, 1, 7, 7, 192, 128), (3, 3, 16, 40, 128, 128), (2, 2, 65, 130, 64, 64), (6, 3, 130, 130, 20, 12),
             (1, 1, 70, 70, 256, 256), (2, 2, 33, 3, 64, 64), (2, 2, 1, 1100, 32, 32), (12, 3, 1, 2069, 64, 48)]


@pytest.mark.parametrize("precision,arch", ROADS)
@pytest.mark.parametrize("kind", ["full", "causal", "bool", "float"])
def test_attention(kind, precision, arch, tmp_path):
    g = Graph()
    for heads, key_heads, tokens, keys, depth, width in ATTENTION:
        names = [g.random(2, heads, tokens, depth), g.random(2, key_heads, keys, depth),
                 g.random(2, key_heads, keys, width)]
        causal = kind == "causal" and tokens == keys
        if kind in ("bool", "float"):
            visible = g.input(g.rng.random((1, 1, tokens, keys)) < 0.7)
            names.append(g.node("Cast", [visible], to=TensorProto.BOOL) if kind == "bool" else visible)
        g.output(g.node("Attention", names, is_causal=int(causal)), 2, heads, tokens, width)
    g.check(tmp_path, precision, arch)


# Heads, tokens, latents, rank and shared channels: the widths of K3, few heads to a block, more than a block, shares of keys.
LATENT = [(3, 1, 40, 512, 64), (17, 1, 1300, 512, 64), (2, 5, 33, 512, 64), (2, 70, 70, 512, 64), (6, 1, 9, 64, 16),
          (6, 40, 40, 24, 8), (1, 1, 7, 32, 0)]


@pytest.mark.parametrize("precision,arch", ROADS)
@pytest.mark.parametrize("kind", ["causal", "float"])
def test_latent_attention(kind, precision, arch, tmp_path):
    """Values that are the first channels of their keys: one tile holds both."""
    g = Graph()
    g.weights += [numpy_helper.from_array(np.array([value], np.int64), name) for name, value in (("zero", 0), ("axis", 3))]
    for index, (heads, tokens, latents, rank, shared) in enumerate(LATENT):
        g.weights.append(numpy_helper.from_array(np.array([rank], np.int64), f"rank{index}"))
        q, key = g.random(2, heads, tokens, rank + shared), g.random(2, 1, latents, rank + shared)
        if precision == "bf16":  # as a narrow cache has them: inputs that are rounded would be two tensors
            q, key = (g.node("Cast", [x], to=TensorProto.BFLOAT16) for x in (q, key))
        names = [q, key, g.node("Slice", [key, "zero", f"rank{index}", "axis"])]
        if kind == "float":
            names.append(g.input(g.rng.random((2, heads, tokens, latents)) < 0.7))
        o = g.node("Attention", names, is_causal=int(kind == "causal" and tokens == latents))
        g.output(g.node("Cast", [o], to=TensorProto.FLOAT), 2, heads, tokens, rank)
    g.check(tmp_path, precision, arch)
    plan = run(tool("kimi-compile"), tmp_path / "graph.onnx", "--precision", precision, f"--gpu-schedules={arch}", "--emit=plan").stdout
    assert "attention_d576_v512" in plan


def language_model(path, vocabulary=1024, heads=4, key_heads=2, channels=32, twins=False):
    """One layer of grouped causal attention between an embedding and logits, random weights. With `twins`, the logits of
    the second half of the tokens are those of the first."""
    g, width = Graph(), heads * channels
    rows = (heads + 2 * key_heads) * channels
    emb, project, out = g.weight(vocabulary, width), g.weight(width, rows, scale=width**-0.5), g.weight(width, vocabulary)
    if twins:
        values = numpy_helper.to_array(g.weights[-1]).copy()
        values[:, -(vocabulary // 2):] = values[:, :vocabulary // 2]
        g.weights[-1].CopyFrom(numpy_helper.from_array(values, out))
    for name, values in (("four", [0, 0, -1, channels]), ("three", [0, 0, width]),
                         ("parts", [heads * channels, key_heads * channels, key_heads * channels])):
        g.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
    qkv = g.node("MatMul", [g.node("Gather", [emb, "input_ids"]), project])
    g.nodes.append(helper.make_node("Split", [qkv, "parts"], ["q", "k", "v"], axis=2))
    split = [g.node("Transpose", [g.node("Reshape", [x, "four"])], perm=[0, 2, 1, 3]) for x in "qkv"]
    o = g.node("Transpose", [g.node("Attention", split, is_causal=1)], perm=[0, 2, 1, 3])
    g.nodes.append(helper.make_node("MatMul", [g.node("Reshape", [o, "three"]), out], ["logits"]))
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", vocabulary])
    graph = helper.make_graph(g.nodes, "g", [ids], [logits], g.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)


@pytest.mark.parametrize("arch", ["90", "90a"])
def test_long_context(arch, tmp_path):
    """Decoding after 1,100 tokens shares the keys among blocks; grouped heads; both roads pick the same tokens."""
    model = tmp_path / "lm.onnx"
    language_model(model)
    plan = run(tool("kimi-compile"), model, f"--gpu-schedules={arch}", "--emit=plan").stdout
    assert "_append_share<" in plan and "_append_t1<" in plan
    (tmp_path / "prompt.txt").write_text(" ".join(str(i * i % 97) for i in range(900)))
    tokens = []
    run(tool("kimi-compile"), model, "-o", tmp_path / "cpu.kmod")
    for module in (compiled(model, tmp_path, arch=arch), tmp_path / "cpu.kmod"):
        report = tmp_path / "report.json"
        run(tool("kimi-run"), module, "--prompt-file", tmp_path / "prompt.txt", "--tokens", 12, "--ignore-eos", "--json",
            report, "--tokenizer", MINI, "--max-seq", 4096)
        tokens.append(json.loads(report.read_text())["tokens"])
    assert len(tokens[0]) == 12 and tokens[0] == tokens[1]


@pytest.mark.parametrize("precision,arch", ROADS)
def test_argmax_in_the_epilogue(precision, arch, tmp_path):
    """The next token of a batch, for each range of rows that has kernels of its own: the first place of the maximum of
    the logits beside it. Every maximum stands twice."""
    vocabulary = 1037
    language_model(tmp_path / "lm.onnx", vocabulary, twins=True)
    module = compiled(tmp_path / "lm.onnx", tmp_path, f"--precision={precision}", arch=arch)
    plan = run(tool("kimi-run"), module, "--describe").stdout
    last = plan[plan.index("prefill_last"):]
    assert "greedy_last on" in last and f"greedy_{vocabulary}" not in last
    rng = np.random.default_rng()
    for batch in (1, 3, 9, 40, 150, 1100):
        ids = rng.integers(0, vocabulary, (batch, 5))
        got = outputs(module, {"input_ids": ids}, tmp_path, "--entry", "prefill_last", "--batch", batch, "--max-seq", 8)
        logits = got["logits"].reshape(batch, vocabulary)
        assert np.isfinite(logits).all()
        want, best = logits.argmax(axis=1), np.sort(logits, axis=1)[:, -2:]
        ties = best[:, 0] == best[:, 1]  # all, unless the twins are summed in another order
        assert ties.any() and (want[ties] < vocabulary // 2).all()
        np.testing.assert_array_equal(got["next_token"].reshape(batch), want)
