"""The K3 and Kimi Linear graphs of every exporter give their stored outputs, and what was raised is what ran: routed
experts, attention residuals, gates and norms of heads as ops, MXFP4 packed. Needs ../shared/cases/k3-family.tar.xz."""
import collections
import json
import re
import tarfile

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import SHARED, run, tool
from onnx import numpy_helper

FAMILY = SHARED / "cases" / "k3-family.tar.xz"

# Ops that must be there after raising: (moe and router, situ_glu or swiglu, l2_norm, kda_gate, gated_rms_norm, attn_res).
RAISED = {
    "std27_k3-tiny": (8, 9, 12, 6, 6, 18),
    "std27_k3-tiny-128": None,
    "std27_k3-tiny-grp": (5, 6, 8, 4, 4, 12),
    "std27_k3-tiny-grp_inlined": None,
    "std27_k3-tiny_latent": (8, 9, 12, 6, 6, 18),
    "std27_k3-tiny_mxfp4": (8, 9, 12, 6, 6, 18),
    "std27_kl-tiny": (6, 7, 10, 5, 5, 0),
    "std24_k3-tiny_scan": (8, 9, 12, 6, 6, 18),
    "mob_k3-tiny": (8, 9, 12, 6, 6, 18),
    "mob_k3-tiny-grp": (5, 6, 8, 4, 4, 12),
    "mob_kl-tiny": (6, 7, 10, 5, 5, 0),
    "mob_qwen3next-tiny": (4, 4, 6, 3, 3, 0),
    "torch_k3-tiny-128_chunk_T70_op23": None,
    "torch_k3-tiny-128_decode_bf16_op23": (2, 3, 4, 2, 2, 6),
    "torch_k3-tiny_decode_op20": None,
    "torch_k3-tiny_decode_op23": (8, 9, 12, 6, 6, 18),
    "torch_k3-tiny_dyn_scan_op23": (8, 9, 12, 6, 6, 18),
    "torch_k3-tiny_loop_T5_op20": None,
    "torch_kl-tiny_decode_op20": None,
    "torch_kl-tiny_dyn_scan_op23": (6, 7, 10, 5, 5, 0),
    "ts113_torch_k3-tiny-grp_chunk_T17_op20": (5, 6, 8, 4, 4, 12),
    "ts113_ts_k3-tiny-grp_loop_T5_op17": None,
    "ts_k3-tiny-grp_loop_T5_op17": (5, 6, 8, 4, 4, 12),
    "ts_k3-tiny_decode_op17": None,
    "hf_kl-tiny_decode_op23": (3, 4, 6, 3, 3, 0),
    "hf_kl-tiny_static_T17_op23": (3, 4, 6, 3, 3, 0),
    "hf_kl-tiny_static_T70_op20": None,
    "hf_qwen3next-tiny_decode_op20": None,
    "hf_qwen3next-tiny_decode_op23": (4, 4, 6, 3, 3, 0),
    "hf_qwen3next-tiny_static_T17_op23": None,
    "hf_qwen3next-tiny_static_T70_op20": None,
}


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    if not FAMILY.exists():
        pytest.skip(f"the larger cases are not at {FAMILY}")
    folder = tmp_path_factory.mktemp("k3-family")
    with tarfile.open(FAMILY) as archive:
        archive.extractall(folder, [m for m in archive if m.name.split("/")[0] in {*RAISED, *NARROW}])
    return folder


# Graphs of one model: those with states, token by token or with a prompt of any length, say what a whole sequence says.
ONE_MODEL = {
    "hf_kl-tiny": ["hf_kl-tiny_static_T17_op23", "hf_kl-tiny_decode_op23"],
    "hf_qwen3next-tiny": ["hf_qwen3next-tiny_static_T17_op23", "hf_qwen3next-tiny_decode_op23", "hf_qwen3next-tiny_decode_op20"],
    "k3-tiny": ["torch_k3-tiny_dyn_scan_op23", "torch_k3-tiny_decode_op23", "torch_k3-tiny_decode_op20", "ts_k3-tiny_decode_op17", "std27_k3-tiny",
                "std27_k3-tiny_latent", "std24_k3-tiny_scan", "mob_k3-tiny"],
}


@pytest.mark.parametrize("model", ONE_MODEL)
def test_text_through_the_states_of_the_graph(family, model, cache, tmp_path):
    """The logits after 17 tokens; a graph for exactly one token is its own decode entry."""
    ids = np.random.default_rng().integers(0, 256, (1, 17))
    np.save(tmp_path / "ids.npy", ids)
    found = {}
    for name in ONE_MODEL[model]:
        result = run(tool("kimi-run"), family / name / "model.onnx", "--prompt-tokens", tmp_path / "ids.npy", "--tokens", 1, "--logits",
                     tmp_path / "logits.npy", "--cache", cache)
        assert ("no decode entry" in result.stderr) == ("static" in name), result.stderr
        found[name] = np.load(tmp_path / "logits.npy")
    want = found[ONE_MODEL[model][0]]
    assert np.isfinite(want).all() and want.std() > 0
    for name, got in found.items():
        assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max(), name


@pytest.mark.parametrize("name", RAISED)
def test_outputs(family, name, cache):
    tolerance = json.loads((family / name / "meta.json").read_text())["tol"]
    run(tool("kimi-run"), "--onnx-test", family / name, "--rtol", tolerance, "--atol", tolerance, "--cache", cache)


# Data sets of the 16-bit graphs. Their measure is that of the cases' README: the largest error over 1 + the largest value.
NARROW = {"mob_k3-tiny_f16": (0, 2, 3, 4, 5), "mob_k3-tiny-128_bf16": (0, 1, 2, 3)}
TIE = ("mob_k3-tiny_f16", 1, 6)  # the data set that is not among them, and a token of it


def data_set(folder, number):
    """(inputs, outputs) of a data set, by name."""
    arrays = {"input": {}, "output": {}}
    for path in (folder / f"test_data_set_{number}").glob("*.pb"):
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        arrays[path.name.split("_")[0]][tensor.name] = numpy_helper.to_array(tensor)
    return arrays["input"], arrays["output"]


def computed(folder, feeds, tmp_path, cache):
    words = []
    for i, (name, array) in enumerate(feeds.items()):
        np.save(tmp_path / f"{i}.npy", array)
        words += ["--input", f"{name}={tmp_path / f'{i}.npy'}"]
    run(tool("kimi-run"), folder / "model.onnx", "--entry", "main", *words, "--output", tmp_path / "out.npz", "--cache", cache)
    return dict(np.load(tmp_path / "out.npz"))


@pytest.mark.parametrize("name", NARROW)
def test_outputs_of_16_bits(family, name, cache, tmp_path):
    tolerance = json.loads((family / name / "meta.json").read_text())["tol"]
    for number in NARROW[name]:
        feeds, wanted = data_set(family / name, number)
        got = computed(family / name, feeds, tmp_path, cache)
        for output, want in wanted.items():
            want, have = want.astype(np.float64), got[output].astype(np.float64)
            assert have.shape == want.shape and np.isfinite(have).all()
            error = np.abs(have - want).max(initial=0) / (1 + np.abs(want).max(initial=0))
            assert error <= tolerance, (number, output, error)


def test_a_tie_that_16_bits_cannot_break(family, cache, tmp_path):
    """Why one data set is left out: ONNX Runtime's scores of the third and the fourth expert of one token differ by less
    than a tenth of what fp16 can tell apart. Before that token the outputs agree."""
    name, number, token = TIE
    model = onnx.load(family / name / "model.onnx")
    feeds, wanted = data_set(family / name, number)
    first = next(node for node in model.graph.node if "/gate/TopK" in node.name)
    model.graph.output.append(onnx.ValueInfoProto(name=first.input[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    scores = session.run([first.input[0]], feeds)[0].reshape(-1, 8)[token]
    third, fourth = np.sort(scores)[::-1][2:4]
    assert 0 <= third - fourth < 0.1 * np.spacing(np.float16(third))
    got, want = computed(family / name, feeds, tmp_path, cache)["logits"], wanted["logits"]
    assert np.abs(got[:, :token].astype(np.float64) - want[:, :token]).max() <= 0.1


def raised_ops(model, folder):
    """How often each kimi op stands in the graph after the raising phase."""
    run(tool("kimi-compile"), model, "--emit=onnx", "-o", folder / "onnx.mlir")
    text = run(tool("kimi-opt"), folder / "onnx.mlir", "--kimi-phase-raise").stdout
    return collections.Counter(re.findall(r"= kimi\.(\w+)", text))


@pytest.mark.parametrize("name", [name for name, wanted in RAISED.items() if wanted])
def test_raised(family, name, tmp_path):
    ops = raised_ops(family / name / "model.onnx", tmp_path)
    # An activation between the matrices of an expert went into the mixture; shared experts and dense layers keep theirs.
    found = (ops["moe"], ops["situ_glu"] + ops["swiglu"], ops["l2_norm"], ops["kda_gate"], ops["gated_rms_norm"], ops["attn_res"])
    assert found == RAISED[name] and ops["router"] == ops["moe"]


def test_experts_stay_packed(family):
    """The module holds half a byte a weight, and no launch at load time expands one."""
    plan = run(tool("kimi-compile"), family / "std27_k3-tiny_mxfp4" / "model.onnx", "--emit=plan", "-o", "-").stdout
    packed = re.findall(r"weight \d+ '[^']*experts\.w\d\.packed' \[\d+, \d+, (\d+)\] U8", plan)
    assert len(packed) == 24 and set(packed) <= {"32", "16"}
    assert not re.search(r"derived \d+ '[^']*\.experts\.", plan)


@pytest.mark.parametrize("name", ["std27_k3-tiny_mxfp4", "std27_kl-tiny", "torch_k3-tiny_decode_op23"])
def test_cuda(family, name, tmp_path):
    run(tool("kimi-compile"), family / name / "model.onnx", "-o", tmp_path / "m.kmod", "--target=cuda:sm_90a")


# How latent attention is computed in Hugging Face's graphs: the cache of the decode step holds latents.
LATENT = {"hf_kl-tiny_decode_op23": "absorbed (1 query and any number of latents)",
          "hf_kl-tiny_static_T17_op23": "expanded (17 queries and 17 latents)",
          "hf_kl-tiny_static_T70_op20": "expanded (70 queries and 70 latents)"}


@pytest.mark.parametrize("name", LATENT)
def test_latent_attention_is_found(family, name):
    report = run(tool("kimi-compile"), family / name / "model.onnx", "--emit=plan", "-v").stderr
    assert f"latent attention is computed {LATENT[name]}; the latents of a token are 48 numbers" in report
