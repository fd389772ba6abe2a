"""models/k3 and models/kimi_linear: their graphs compute what the reference computes, whole, in parts and token by token.

ONNX Runtime has kernels for the fp32 graphs; for bf16 it has none, so those are run with bf16 made fp32, which proves all
but the rounding; MXFP4 experts are compared value for value with unpacked ones.
"""
import json
import resource
import sys
import time

import numpy as np
import onnx
import pytest
from conftest import ROOT, run
from kimi_models import CHECKPOINTS, FAMILY, LENGTHS, MINI, Runner, elements, export, golden, shrunk, spans, weights, widened
from kimi_oracle import Oracle
from onnx.reference import ReferenceEvaluator

from kimi import config, presets, sources


@pytest.fixture(scope="module")
def export_checkpoint(tmp_path_factory):
    """Exports one of the shared checkpoints, once for each set of options."""
    done = {}

    def do(name, *options):
        if not (CHECKPOINTS / name).exists():
            pytest.skip(f"the larger cases are not at {CHECKPOINTS}")
        if (name, options) not in done:
            done[name, options] = export(FAMILY[name], tmp_path_factory.mktemp(name), "--checkpoint", CHECKPOINTS / name, *options)
        return done[name, options]

    return do


@pytest.mark.parametrize("cache", ["latent", "expanded"])
@pytest.mark.parametrize("name", FAMILY)
def test_checkpoint_logits(export_checkpoint, name, cache):
    """fp32 logits within 1e-4 of the fp64 ones: one pass, two parts, a chunk at a time, token by token."""
    runner = Runner(export_checkpoint(name, "--cache", cache, "--unpack-experts"))
    for length in LENGTHS:
        ids, want = golden(name, length)
        for parts in ([length], [length // 3, length - length // 3], [16] * (length // 16) + [length % 16], [1] * length):
            got = runner.run(ids, [n for n in parts if n])
            assert np.abs(got - want).max() <= 1e-4, f"T={length} in parts {parts}"


@pytest.mark.parametrize("options", [["--cache", "none"], ["--bf16-weights"]], ids=["whole", "bf16-weights"])
@pytest.mark.parametrize("name", FAMILY)
def test_checkpoint_logits_of_other_forms(export_checkpoint, name, options):
    model = export_checkpoint(name, "--unpack-experts", *options)
    for length in LENGTHS:
        ids, want = golden(name, length)
        assert np.abs(Runner(model).run(ids) - want).max() <= 1e-4
    if "--bf16-weights" in options:
        assert spans(model)[-1][0] < 0.6 * spans(export_checkpoint(name, "--unpack-experts"))[-1][0]


@pytest.mark.parametrize("cache", ["latent", "expanded", "none"])
@pytest.mark.parametrize("name", FAMILY)
def test_bf16_graph_without_rounding(export_checkpoint, name, cache):
    path = export_checkpoint(name, "--dtype", "bf16", "--unpack-experts", "--cache", cache)
    onnx.checker.check_model(path, full_check=True)
    runner = Runner(widened(path))
    for length in (5, 17):
        ids, want = golden(name, length)
        for parts in [[length]] + ([[2, length - 2]] if cache != "none" else []):
            assert np.abs(runner.run(ids, parts) - want).max() <= 1e-4


def test_states_after_a_prompt(export_checkpoint):
    """The states themselves, in their documented layouts, against those of the reference."""
    for name in FAMILY:
        runner = Runner(export_checkpoint(name, "--unpack-experts"))
        acts = np.load(CHECKPOINTS / name / "acts_T17.npz")
        _, states = runner.step(golden(name, 17)[0][None], runner.start())
        seen = 0
        for key in (k for k in acts if k.startswith("state.")):
            layer, which = int(key.split(".")[1][1:]), key.split(".")[2]
            state = states[f"past_key_values.{layer}." + {"S": "recurrent_state", "lat": "latent"}.get(which, f"{which}_conv_state")][0]
            want = acts[key].T if which in "qkv" else acts[key]
            np.testing.assert_allclose(state, want, rtol=1e-3, atol=1e-4)
            seen += 1
        assert seen == len(states)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_mxfp4_is_kept(export_checkpoint, dtype):
    """The packed experts dequantise to exactly the unpacked ones; their bytes are those of the checkpoint."""
    packed = onnx.load(export_checkpoint("k3-64", "--dtype", dtype))
    plain = weights(export_checkpoint("k3-64", "--dtype", dtype, "--unpack-experts"))
    initializers = {t.name: t for t in packed.graph.initializer}
    c = config.load(CHECKPOINTS / "k3-64" / "config.json")
    source = sources.Checkpoint(str(CHECKPOINTS / "k3-64"), c)
    seen = 0
    for node in packed.graph.node:
        if node.op_type != "DequantizeLinear":
            continue
        values, scales = (initializers[n] for n in node.input)
        name = values.name.removesuffix(".packed")
        for index in range(c.experts):
            each = name.replace(".experts.", f".experts.{index}.") + ".weight"
            span = len(values.raw_data) // c.experts
            assert values.raw_data[index * span:(index + 1) * span] == source.load(each + "_packed").tobytes()
        graph = onnx.helper.make_graph([node], "one", [], [onnx.helper.make_empty_tensor_value_info(node.output[0])], [values, scales])
        model = onnx.helper.make_model(graph, opset_imports=packed.opset_import, ir_version=packed.ir_version)
        got, = ReferenceEvaluator(model).run(None, {})
        np.testing.assert_array_equal(got.astype(np.float32).swapaxes(1, 2), plain[f"{name}_t"].astype(np.float32))
        seen += 1
    assert seen == 3 * 8


@pytest.mark.parametrize("name", [n for n in presets.K3_PRESETS if n != "k3"] + ["kl-tiny"])
def test_tiny_configurations(name, tmp_path):
    """Valid, with every shape inferred; whole, in parts and token by token equal to the fp64 forward."""
    family, table = ("kimi_linear", presets.KIMI_LINEAR_PRESETS) if name == "kl-tiny" else ("k3", presets.K3_PRESETS)
    path = export(family, tmp_path, "--config", name, "--unpack-experts", "--seed", "7")
    onnx.checker.check_model(path, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path, load_external_data=False), check_type=True, strict_mode=True, data_prop=True)
    typed = {v.name for v in [*inferred.graph.value_info, *inferred.graph.output] if v.type.tensor_type.HasField("shape")}
    assert not [o for n in inferred.graph.node for o in n.output if o not in typed]
    c = config.parse(table[name], name)
    rng, runner = np.random.default_rng(), Runner(path)
    ids = rng.integers(0, c.vocab, 7)
    want = Oracle(c, sources.Random(c, 7)).logits(ids)
    for parts in ([7], [1, 2, 4], [1] * 7):
        np.testing.assert_allclose(runner.run(ids, parts), want, atol=1e-3 * np.abs(want).max())


SWITCHES = {
    "softmax router": dict(moe_router_activation_func="softmax"),
    "no latent": dict(routed_expert_hidden_size=None),
    "no latent norm": dict(latent_moe_use_norm=False),
    "no renormalisation": dict(moe_renormalize=False, latent_moe_use_norm=False),
    "scaling": dict(routed_scaling_factor=1.5, latent_moe_use_norm=False),
    "one expert": dict(num_experts_per_token=1),
    "no shared expert": dict(num_shared_experts=0),
    "dense": dict(num_experts=0),
    "every second layer": dict(num_hidden_layers=4, moe_layer_freq=2, first_k_dense_replace=0),
    "linear up": dict(activation_situ_linear_beta=None),
    "plain residuals": dict(attn_res_block_size=None),
    "direct queries": dict(q_lora_rank=None),
    "no output gate": dict(mla_use_output_gate=False),
    "tied": dict(tie_word_embeddings=True),
    "softplus gate, two taps": dict(linear_attn_config={"gate_lower_bound": None, "short_conv_kernel_size": 2, "use_full_rank_gate": False}),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_of_the_configuration(switch, tmp_path):
    """Each switch on its own equals the fp64 forward of the same configuration, and differs from the graph without it."""
    data = shrunk(presets.K3_TINY, **SWITCHES[switch])
    (tmp_path / "config.json").write_text(json.dumps(data))
    path = export("k3", tmp_path / "out", "--config", tmp_path / "config.json", "--unpack-experts")
    c = config.parse(data)
    ids = np.random.default_rng().integers(0, c.vocab, 9)
    want = Oracle(c, sources.Random(c)).logits(ids)
    np.testing.assert_allclose(Runner(path).run(ids, [4, 5]), want, atol=1e-3 * np.abs(want).max())
    alone = "latent_moe_use_norm" in SWITCHES[switch] and len(SWITCHES[switch]) > 1  # the norm would hide the switch
    base = config.parse(shrunk(presets.K3_TINY, **({"latent_moe_use_norm": False} if alone else {})))
    assert np.abs(Oracle(base, sources.Random(base)).logits(ids) - want).max() > 1e-2 * np.abs(want).max()


def test_sequences_of_a_batch_do_not_meet(tmp_path):
    path = export("k3", tmp_path, "--config", "k3-tiny", "--unpack-experts")
    runner, ids = Runner(path), np.random.default_rng().integers(0, 512, (3, 7))
    together, _ = runner.step(ids, runner.start(3))
    for row in range(3):
        np.testing.assert_allclose(together[row], runner.run(ids[row]), rtol=1e-3, atol=1e-4)


def test_random_weights_are_seeded(tmp_path):
    files = [export("k3", tmp_path / name, "--config", "k3-tiny", "--seed", seed).parent for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    models, data = ([(f / n).read_bytes() for f in files] for n in ("model.onnx", "model.onnx.data"))
    assert models[0] == models[1] == models[2] and data[0] == data[1] != data[2]
    assert sorted(p.name for p in files[0].iterdir()) == ["config.json", "model.onnx", "model.onnx.data"]


def test_full_size_graph(tmp_path):
    """K3 whole: 93 layers, 896 experts, every weight with its place in a file that is not written."""
    start = time.monotonic()
    path = export("k3", tmp_path, "--config", "k3", "--no-data", "--dtype", "bf16")
    assert time.monotonic() - start < 60
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20  # KiB; of the largest child so far
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.onnx"]
    placed, end = spans(path), 0
    for offset, length, tensor in placed:
        assert offset % 64 == 0 and offset >= end
        end = offset + length
    # the released text model, less 2 x 7168 of layer 0's unused mix and 69 x 32 of padding in A_log
    assert sum(elements(t) for _, _, t in placed if t.data_type != onnx.TensorProto.FLOAT8E8M0) == 2_779_484_478_208 - 14_336 - 2_208
    model = onnx.load(path, load_external_data=False)
    bits = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.BFLOAT16: 2}
    fixed = row = 0
    for port in model.graph.input[1:]:
        dims = [d.dim_value or d.dim_param for d in port.type.tensor_type.shape.dim][1:]
        size = bits[port.type.tensor_type.elem_type] * int(np.prod([d for d in dims if d != "past"]))
        if port.name.endswith("recurrent_state"):
            fixed += size
        elif "past" in dims:
            row += size
    assert (fixed, row) == (434_110_464, 27_648)


def test_full_size_kimi_linear(tmp_path):
    path = export("kimi_linear", tmp_path, "--config", "kimi-linear-48b", "--no-data")
    assert sum(elements(t) for _, _, t in spans(path)) == 49_122_681_728


@pytest.mark.parametrize("index", range(3))
def test_mini_greedy_tokens(index, tmp_path):
    """The trained mini: greedy tokens and the prompt's last logits, token by token through its states."""
    path = export("k3", tmp_path, "--checkpoint", MINI, "--unpack-experts")
    assert (tmp_path / "tokenizer.json").exists()
    case = json.loads((MINI / "golden.json").read_text())["prompts"][index]
    runner = Runner(path)
    logits, states = runner.step(np.array([case["ids"]]), runner.start())
    assert np.abs(logits[0, -1] - np.array(case["logits_last_prompt_position"])).max() <= 1e-4
    tokens = [int(logits[0, -1].argmax())]
    while len(tokens) < len(case["greedy_ids"]):
        logits, states = runner.step(np.array([tokens[-1:]]), states)
        tokens.append(int(logits[0, -1].argmax()))
    assert tokens == case["greedy_ids"]


def test_help_names_every_preset():
    for family, table in (("k3", presets.K3_PRESETS), ("kimi_linear", presets.KIMI_LINEAR_PRESETS)):
        text = " ".join(run(sys.executable, ROOT / "models" / family / "export.py", "--help").stdout.split())
        assert all(name in text for name in table)
