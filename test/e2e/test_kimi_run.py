"""Exported K3 and Kimi Linear graphs compiled and run: logits of the reference, states that join, blocks in 16 bits, text."""
import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import run, tool
from kimi_blocks import Blocks
from kimi_models import CHECKPOINTS, FAMILY, LENGTHS, MINI, Runner, export, golden

from kimi import config, presets


class Compiled(Runner):
    """A graph with states under kimi-run."""

    def __init__(self, model, folder, cache, *options):
        self.model, self.folder = model, folder
        self.command = [tool("kimi-run"), model, "--entry", "main", "--cache", cache, *options]
        self.states = [_Port(i) for i in onnx.load(model, load_external_data=False).graph.input[1:]]

    def step(self, ids, states):
        np.savez(self.folder / "in.npz", input_ids=ids, **states)
        run(*self.command, "--input", self.folder / "in.npz", "--output", self.folder / "out.npz")
        with np.load(self.folder / "out.npz") as out:
            return out["logits"], {s.name: out[s.name.replace("past_key_values", "present")] for s in self.states}


class _Port:
    """A graph input as ONNX Runtime describes it."""

    def __init__(self, value):
        self.name = value.name
        self.shape = [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def exported(name, folder, *options):
    if not (CHECKPOINTS / name).exists():
        pytest.skip(f"the larger cases are not at {CHECKPOINTS}")
    return export(FAMILY[name], folder, "--checkpoint", CHECKPOINTS / name, *options)


@pytest.mark.parametrize("options", [[], ["--reference"]], ids=["kernels", "reference"])
@pytest.mark.parametrize("name, form", [("k3-64", []), ("k3-64", ["--cache", "expanded", "--unpack-experts"]), ("kl-64", [])],
                         ids=["k3-latent-mxfp4", "k3-expanded-unpacked", "kl-latent"])
def test_checkpoint_logits(name, form, options, tmp_path, cache):
    """fp32 logits within 1e-4 of the fp64 ones, in one pass and in parts through the states."""
    runner = Compiled(exported(name, tmp_path, *form), tmp_path, cache, *options)
    for length in LENGTHS:
        ids, want = golden(name, length)
        for parts in [[length], [length // 3, 1, length - length // 3 - 1]][:1 if length < 5 else 2]:
            error = np.abs(runner.run(ids, parts) - want).max()
            assert error <= 1e-4, f"T={length} in parts {parts}: {error}"


@pytest.mark.parametrize("form, options", [("bf16", []), ("f32", ["--precision", "bf16"]), ("f32", ["--precision", "fp16"])],
                         ids=["bf16-graph", "bf16", "fp16"])
@pytest.mark.parametrize("name", FAMILY)
def test_blocks_in_16_bits(name, form, options, tmp_path, cache):
    """Each kind of block of the first layers, given the reference's input, within 1e-2 of its output by norm."""
    if not (CHECKPOINTS / name).exists():
        pytest.skip(f"the larger cases are not at {CHECKPOINTS}")
    blocks = Blocks(name, tmp_path, "--dtype", form)

    def evaluate(block, feed):
        onnx.save(block, tmp_path / "block.onnx")
        np.savez(tmp_path / "in.npz", **feed)
        run(tool("kimi-run"), tmp_path / "block.onnx", "--entry", "main", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--cache",
            cache, *options)
        with np.load(tmp_path / "out.npz") as out:
            return out[block.graph.output[0].name]

    for layer in (0, 1, 3):  # KDA and dense, KDA and experts, MLA and experts
        error = blocks.error(*blocks.attention(layer), evaluate)
        assert error <= 1e-2, f"attention of layer {layer}: {error}"
        error = blocks.error(*blocks.feed_forward(layer), evaluate, blocks.same_routes(layer))
        assert error <= 1e-2, f"feed-forward of layer {layer}: {error}"


GOLDEN = json.loads((MINI / "golden.json").read_text())["prompts"]


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    return export("k3", tmp_path_factory.mktemp("mini"), "--checkpoint", MINI, "--cache", "none", "--bf16-weights")


@pytest.mark.parametrize("case", GOLDEN, ids=range(len(GOLDEN)))
def test_mini_writes_its_golden_text(case, mini, cache, tmp_path):
    result = run(tool("kimi-run"), mini, "--prompt", case["prompt"], "--tokens", len(case["greedy_ids"]), "--ignore-eos", "--cache", cache, "--json",
                 tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["tokens"] == case["greedy_ids"]
    assert result.stdout.rstrip("\n") == case["greedy_text"].rstrip("\n")
    assert "no decode entry" not in result.stderr


def test_memory_of_the_mini(mini, cache):
    """What a sequence keeps: as much after any number of tokens for the delta rule and its convolutions, some a token for attention."""
    c = config.load(MINI / "config.json")
    kda = (c.layers - len(c.mla_layers)) * (c.kda_heads * c.kda_dim ** 2 + 3 * c.kda_width * (c.conv - 1)) * 4
    attention = len(c.mla_layers) * (c.kv_lora + c.rope) * 4  # latents, not keys and values of every head
    told = run(tool("kimi-run"), mini, "--memory", "--cache", cache).stdout
    assert int(re.search(r"state, fixed +(\d+) bytes a sequence", told)[1]) == kda
    assert int(re.search(r"state, growing +(\d+) bytes a token of a sequence", told)[1]) == attention


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("cache_form", ["latent", "expanded", "none"])
@pytest.mark.parametrize("name", ["k3-tiny", "grouped", "kl-tiny"])
def test_every_part_is_recognised(name, cache_form, dtype, tmp_path):
    """The patterns of the exporters are those that the compiler raises to its own ops: as many of each as the layers have."""
    family, table = ("kimi_linear", presets.KIMI_LINEAR_PRESETS) if name == "kl-tiny" else ("k3", presets.K3_PRESETS)
    c = config.parse(table[name])
    path = export(family, tmp_path, "--config", name, "--no-data", "--cache", cache_form, "--dtype", dtype)
    listing = run(tool("kimi-compile"), path, "--emit=kimi", "--no-derive-decode").stdout
    main = listing[listing.index("func.func @main("):]
    main = main[:main.index("\n  }")]
    mla = len(c.mla_layers)
    kda, moe = c.layers - mla, sum(c.is_moe(i) for i in range(c.layers))
    want = {"delta_rule": kda, "causal_conv": 3 * kda, "gated_rms_norm": kda, "l2_norm": 2 * kda, "attention": mla, "router": moe, "moe": moe,
            "attn_res": 2 * c.layers if c.block else 0}
    assert {op: len(re.findall(rf"= kimi\.{op}\b", main)) for op in want} == want


def loads(chosen, experts):
    """[layers, experts]: how often each expert was chosen; no token may choose one twice."""
    counts = []
    for layer in chosen:
        rows = layer.reshape(-1, layer.shape[-1])
        assert all(len(set(row)) == len(row) for row in rows.tolist())
        counts.append(np.bincount(rows.reshape(-1), minlength=experts))
    return np.array(counts)


def test_experts_of_the_mini_share_the_load(mini, cache, tmp_path):
    """Over its golden texts no expert of the trained mini idles or is chosen more than 2.5 times as often as the mean, and in
    every layer the learnt bias spreads the load more evenly than the scores alone would."""
    model = onnx.load(mini)
    picks = [node.output[1] for node in model.graph.node if node.op_type == "TopK"]
    for name in picks:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "seq", 4]))
    onnx.save(model, tmp_path / "picks.onnx")
    texts = [np.array([case["ids"] + case["greedy_ids"]]) for case in GOLDEN]
    total = 0
    for ids in texts:
        np.savez(tmp_path / "in.npz", input_ids=ids)
        run(tool("kimi-run"), tmp_path / "picks.onnx", "--entry", "main", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--cache", cache)
        with np.load(tmp_path / "out.npz") as out:
            total = total + loads([out[name] for name in picks], 16)
    mean = 4 * sum(ids.size for ids in texts) / 16
    assert (total.sum(1) == 16 * mean).all()
    assert total.min() > 0 and total.max() < 2.5 * mean
    plain = onnx.load(export("k3", tmp_path / "plain", "--checkpoint", MINI, "--cache", "none", "--unpack-experts"))
    plain.graph.output.extend(model.graph.output[1:])
    for tensor in plain.graph.initializer:
        if tensor.name.endswith("e_score_correction_bias"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros(tensor.dims, np.float32), tensor.name))
    session = onnxruntime.InferenceSession(plain.SerializeToString())
    unbiased = sum(loads(session.run(picks, {"input_ids": ids}), 16) for ids in texts)
    assert (total.std(1) < unbiased.std(1)).all()


@pytest.mark.parametrize("options", [[], ["--reference"], ["--precision", "bf16"]], ids=["kernels", "reference", "bf16"])
def test_later_tokens_leave_earlier_logits_alone(options, mini, cache, tmp_path):
    """Whatever the tokens are from position P on, the logits before P are the same to the bit."""
    rng = np.random.default_rng()

    def logits(ids):
        np.savez(tmp_path / "in.npz", input_ids=ids)
        run(tool("kimi-run"), mini, "--entry", "main", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--cache", cache, *options)
        with np.load(tmp_path / "out.npz") as out:
            return out["logits"]

    ids = rng.integers(0, 1024, (1, 70))
    base = logits(ids)
    assert np.isfinite(base).all()
    for position in (1, 16, 17, 33, 64, 69):
        other = np.concatenate([ids[:, :position], rng.integers(0, 1024, (1, 70 - position))], 1)
        got = logits(other)
        assert got[:, :position].tobytes() == base[:, :position].tobytes(), f"position {position}"
        assert (got[:, position:] != base[:, position:]).any()


def test_full_size_compiles_without_its_weights(tmp_path):
    """The whole K3 graph is read, and its first four layers (both mixers, 896 experts) are compiled, with no file of weights."""
    whole = export("k3", tmp_path / "whole", "--config", "k3", "--no-data", "--dtype", "bf16")
    listing = run(tool("kimi-compile"), whole, "--emit=onnx").stdout
    assert listing.count('onnx.node "LinearAttention"') == 69 and "tensor<896x3072x3584xf4E2M1FN>" in listing
    some = export("k3", tmp_path / "some", "--config", "k3", "--layers", 4, "--no-data", "--dtype", "bf16")
    run(tool("kimi-compile"), some, "-o", tmp_path / "some.kmod")
    assert not list(tmp_path.rglob("*.data")) and (tmp_path / "some.kmod").stat().st_size < 64 << 20
