"""The K3 and Kimi Linear graphs of every exporter give their stored outputs, and what was raised is what ran: routed
experts, attention residuals, gates and norms of heads as ops, MXFP4 packed. Needs ../shared/cases/k3-family.tar.xz."""
import collections
import json
import re
import tarfile

import numpy as np
import pytest
from conftest import SHARED, run, tool

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
        archive.extractall(folder, [m for m in archive if m.name.split("/")[0] in RAISED])
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
