"""Attention residuals beside NumPy in fp64: the direct kernel, the bank's and the merges, on the CPU and at the tile sizes of a
GPU; and whole models whose layers share their banks."""
import json
import re

import numpy as np
import onnx
import pytest
from conftest import run, tool
from kimi_models import export, shrunk
from onnx import TensorProto, helper, numpy_helper

from kimi import presets

EPS = 1e-5
TARGETS = {"cpu": [], "80": ["--gpu-schedules=80"], "90a": ["--gpu-schedules=90a"], "reference": ["--reference"]}
#        bank, mixes, channels
SHAPES = [(3, 5, 96), (1, 2, 33), (8, 9, 256), (5, 8, 1000), (2, 3, 7169), (8, 10, 7168)]


def model(path, bank, mixes, channels, narrow, vectors):
    """`mixes` mixes of the inputs b0.. and of an input of their own each; outputs y0.. `narrow`: in bf16 from the inputs on."""
    shape, nodes, weights = ["batch", "time", channels], [], [numpy_helper.from_array(np.array([-2]), "axis")]

    def source(name):
        last = name
        if narrow:
            nodes.append(helper.make_node("Cast", [name], [f"{name}.16"], to=TensorProto.BFLOAT16))
            last = f"{name}.16"
        nodes.append(helper.make_node("Unsqueeze", [last, "axis"], [f"{name}.row"]))
        return f"{name}.row"

    rows = [source(f"b{i}") for i in range(bank)]
    for j, (norm, proj) in enumerate(vectors):
        weights += [numpy_helper.from_array(norm, f"norm{j}"), numpy_helper.from_array(proj[:, None], f"proj{j}")]
        stack, mixed = f"stack{j}", f"y{j}.16" if narrow else f"y{j}"
        nodes.append(helper.make_node("Concat", [*rows, source(f"p{j}")], [stack], axis=-2))
        if narrow:
            nodes.append(helper.make_node("Cast", [stack], [f"wide{j}"], to=TensorProto.FLOAT))
            stack = f"wide{j}"
        nodes += [helper.make_node("RMSNormalization", [stack, f"norm{j}"], [f"keys{j}"], axis=-1, epsilon=EPS, stash_type=1),
                  helper.make_node("MatMul", [f"keys{j}", f"proj{j}"], [f"scores{j}"]),
                  helper.make_node("Softmax", [f"scores{j}"], [f"shares{j}"], axis=-2),
                  helper.make_node("Mul", [f"shares{j}", stack], [f"parts{j}"]),
                  helper.make_node("ReduceSum", [f"parts{j}", "axis"], [f"sum{j}" if narrow else mixed], keepdims=0)]
        if narrow:
            nodes += [helper.make_node("Cast", [f"sum{j}"], [mixed], to=TensorProto.BFLOAT16),
                      helper.make_node("Cast", [mixed], [f"y{j}"], to=TensorProto.FLOAT)]
    def ports(names):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
    graph = helper.make_graph(nodes, "mixes", ports([f"b{i}" for i in range(bank)] + [f"p{j}" for j in range(mixes)]),
                              ports([f"y{j}" for j in range(mixes)]), weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)


def mixed(sources, norm, proj):
    """[B, T, D] each -> [B, T, D], in fp64."""
    v = np.stack(sources, 2).astype(np.float64)
    keys = v / np.sqrt((v * v).mean(-1, keepdims=True) + EPS)
    scores = keys @ (norm.astype(np.float64) * proj)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return ((shares / shares.sum(-1, keepdims=True))[..., None] * v).sum(2)


def rounded(array):
    """To the nearest bf16, ties to even."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def call(module, feeds, folder):
    np.savez(folder / "in.npz", **feeds)
    run(tool("kimi-run"), module, "--input", folder / "in.npz", "--output", folder / "out.npz", "--threads", 2)
    return dict(np.load(folder / "out.npz"))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("bank,mixes,channels", SHAPES)
def test_mixes(tmp_path, bank, mixes, channels, dtype):
    narrow, rng = dtype == "bf16", np.random.default_rng(bank * channels + mixes)
    # Scores of some size, so that the softmax is neither flat nor a choice of one.
    vectors = [(1 + 0.1 * rng.standard_normal(channels).astype(np.float32),
                (2 * rng.standard_normal(channels) / np.sqrt(channels)).astype(np.float32)) for _ in range(mixes)]
    path = tmp_path / "model.onnx"
    model(path, bank, mixes, channels, narrow, vectors)
    # (m - 1) n e > 8 m, of at most 8 mixes at a time
    parts = [len(part) for part in np.array_split(np.arange(mixes), -(-mixes // 8))]
    shared = [size for size in parts if (size - 1) * bank * (2 if narrow else 4) > 8 * size]
    modules = {}
    for target, flags in TARGETS.items():
        modules[target] = tmp_path / f"{target}.kmod"
        run(tool("kimi-compile"), path, "-o", modules[target], *flags)
        if target == "reference":
            continue
        plan = run(tool("kimi-compile"), path, "--emit=plan", *flags).stdout
        if target == "80" and bank * channels * (2 if narrow else 4) > 160 * 1024:
            assert "attn_res_bank" not in plan  # more than a block holds there
            continue
        assert len(re.findall(rf"\battn_res_bank_{channels}_n{bank}_m\d+<", plan)) == len(shared)
        assert len(re.findall(rf"\battn_res_merge_{channels}<", plan)) == sum(shared)
        assert len(re.findall(rf"\battn_res_{channels}_n{bank + 1}<", plan)) == mixes - sum(shared)
        assert not re.search(r"\breduce_\w+<", plan)  # no loops beside the kernels
    for batch, time in [(1, 1), (2, 5), (1, 17)]:
        # Rows that differ in size by orders of magnitude: the norm takes that out of the scores.
        feeds = {name: rng.standard_normal((batch, time, channels)).astype(np.float32) * np.float32(10.0 ** rng.integers(-2, 3))
                 for name in [f"b{i}" for i in range(bank)] + [f"p{j}" for j in range(mixes)]}
        if narrow:
            feeds = {name: rounded(array) for name, array in feeds.items()}
        for target, module in modules.items():
            got = call(module, feeds, tmp_path)
            for j, (norm, proj) in enumerate(vectors):
                want = mixed([feeds[f"b{i}"] for i in range(bank)] + [feeds[f"p{j}"]], norm, proj)
                assert got[f"y{j}"].shape == want.shape and np.isfinite(got[f"y{j}"]).all()
                scale = np.abs(want).max(-1, keepdims=True)
                error = np.abs(got[f"y{j}"] - want).max() if not narrow else np.abs((got[f"y{j}"] - want) / scale).max()
                limit = 2.0**-8 if narrow else 1e-5 * scale.max()
                assert error <= limit, f"{target}, {batch}x{time}, mix {j}: {error}"


def test_extreme_scores(tmp_path):
    """One source takes all, whichever it is; rows of zeros; scores too far apart for exp."""
    channels, bank, mixes, rng = 64, 4, 8, np.random.default_rng(5)
    vectors = [(np.ones(channels, np.float32), rng.standard_normal(channels).astype(np.float32) * 30) for _ in range(mixes)]
    path = tmp_path / "model.onnx"
    model(path, bank, mixes, channels, False, vectors)
    feeds = {name: rng.standard_normal((1, 40, channels)).astype(np.float32)
             for name in [f"b{i}" for i in range(bank)] + [f"p{j}" for j in range(mixes)]}
    feeds["b1"][:, 3] = 0
    feeds["p2"][:, 5:9] = 0
    for flags in TARGETS.values():
        module = tmp_path / "m.kmod"
        run(tool("kimi-compile"), path, "-o", module, *flags)
        got = call(module, feeds, tmp_path)
        for j, (norm, proj) in enumerate(vectors):
            want = mixed([feeds[f"b{i}"] for i in range(bank)] + [feeds[f"p{j}"]], norm, proj)
            np.testing.assert_allclose(got[f"y{j}"], want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_layers_share_their_banks(tmp_path, dtype):
    """An exported model of many short blocks: the larger banks are shared, the small ones not, kernels by all layers of a kind, and
    the logits are those of the direct form."""
    data = shrunk(presets.K3_PRESETS["k3-tiny"], num_hidden_layers=14)
    (tmp_path / "config.json").write_text(json.dumps(data))
    path = export("k3", tmp_path / "model", "--config", tmp_path / "config.json", "--dtype", dtype, "--cache", "none")
    # Banks of 1 to 7 sources. Four mixes a bank (the last one's: three and the output's); the first layer's is alone.
    size = 4 if dtype == "f32" else 2
    banks = [bank for bank in range(1, 8) if 3 * bank * size > 8 * 4]
    assert banks
    listing = run(tool("kimi-compile"), path, "--emit=kimi", "--no-derive-decode").stdout
    main = listing[listing.index("func.func @main("):]
    assert len(re.findall(r"= kimi\.attn_res_bank\(", main)) == len(banks)
    assert len(re.findall(r"= kimi\.attn_res_merge ", main)) == 4 * len(banks)
    plan = run(tool("kimi-compile"), path, "--emit=plan", "--no-derive-decode").stdout
    kernels = set(re.findall(r"\b(attn_res_\w+)<", plan))
    assert kernels == ({"attn_res_merge_64"} | {f"attn_res_bank_64_n{bank}_m4" for bank in banks} |
                       {f"attn_res_64_n{bank + 1}" for bank in set(range(1, 8)) - set(banks)})  # one for all layers of a kind
    if dtype != "f32":
        return  # a flip of an expert is no error of the mixes; blocks are judged in test_kimi_blocks.py
    ids, logits = np.random.default_rng(3).integers(0, 97, (2, 21)), {}
    np.save(tmp_path / "ids.npy", ids)
    for target, flags in TARGETS.items():
        module = path.parent / f"{target}.kmod"  # beside its weights
        run(tool("kimi-compile"), path, "-o", module, "--no-derive-decode", *flags)
        run(tool("kimi-run"), module, "--input", f"input_ids={tmp_path / 'ids.npy'}", "--output", tmp_path / "out.npz", "--threads", 2)
        logits[target] = np.load(tmp_path / "out.npz")["logits"]
    assert np.isfinite(logits["reference"]).all()
    for target in ("cpu", "80", "90a"):  # fp32 through 14 layers, in another order
        error = np.linalg.norm(logits[target] - logits["reference"]) / np.linalg.norm(logits["reference"])
        assert error <= 5e-5, f"{target}: {error}"
        np.testing.assert_allclose(logits[target], logits["reference"], rtol=0, atol=1e-3, err_msg=target)
