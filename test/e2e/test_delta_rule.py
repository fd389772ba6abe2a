"""The delta-rule family and the short convolution beside a token-by-token NumPy recurrence in fp64: every rule, heads
shared in both directions, channels that are no multiple of a tile, any split of a sequence."""
import json

import numpy as np
import onnx
import pytest
from conftest import ROOT, run, tool
from onnx import TensorProto, helper, numpy_helper

TOKENS = [1, 2, 5, 17, 70]


def recurrence(q, k, v, state, scale, decay=None, erase=None, write=None):
    """q [B,Hq,T,Dk], k, v, gates [B,H,T,1 or D], state [B,H,Dk,Dv] -> o [B,max(Hq,H),T,Dv], state; all fp64."""
    heads, states = max(q.shape[1], state.shape[1]), state.shape[1]
    k = np.repeat(k, states // k.shape[1], axis=1)
    state, rows = state.copy(), []
    for t in range(q.shape[2]):
        if decay is not None:
            state *= np.exp(decay[:, :, t, :, None])
        u = v[:, :, t] if write is None else write[:, :, t] * v[:, :, t]
        if erase is not None:
            u = u - np.einsum("bhi,bhij->bhj", erase[:, :, t] * k[:, :, t], state)
        state += k[:, :, t, :, None] * u[:, :, None, :]
        query = np.repeat(q[:, :, t], heads // q.shape[1], axis=1)
        rows.append(scale * np.einsum("bhi,bhij->bhj", query, np.repeat(state, heads // states, axis=1)))
    return np.stack(rows, 2), state


def packed(x):
    """[B, H, T, D] as [B, T, H*D]."""
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


def info(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save(path, nodes, inputs, outputs, weights=(), opset=20):
    graph = helper.make_graph(nodes, "mixer", inputs, outputs, list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def compiled(tmp_path, *flags):
    name = tmp_path / f"model{''.join(flags)}.kmod"
    run(tool("kimi-compile"), tmp_path / "model.onnx", "-o", name, *flags)

    def call(**inputs):
        np.savez(tmp_path / "in.npz", **{key: np.asarray(value, np.float32) for key, value in inputs.items()})
        run(tool("kimi-run"), name, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--threads", 2)
        return dict(np.load(tmp_path / "out.npz"))
    return call


RULES = {"linear": (False, None), "gated": (False, "channel"), "delta": (True, None), "gated_delta": (True, "channel"),
         "gated_delta_head": (True, "head")}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("heads,key_heads,states,dk,dv", [(3, 3, 3, 20, 12), (4, 2, 2, 32, 48), (2, 2, 4, 16, 33),
                                                           (2, 1, 2, 128, 128)])
def test_rules(tmp_path, rule, heads, key_heads, states, dk, dv):
    delta, decay = RULES[rule]
    rng = np.random.default_rng(heads * dk + dv)
    inputs = {"q": heads * dk, "k": key_heads * dk, "v": states * dv}
    inputs.update({"g": states * dk if decay == "channel" else states} if decay else {})
    inputs.update({"beta": states} if delta else {})
    names = ["q", "k", "v", "past", "g" if decay else "", "beta" if delta else ""]
    node = helper.make_node("LinearAttention", names, ["o", "present"], domain="com.microsoft", q_num_heads=heads,
                            kv_num_heads=states, update_rule=rule.removesuffix("_head"))
    memory = ["batch", states, dk, dv]
    save(tmp_path / "model.onnx", [node], [info(name, ["batch", "time", width]) for name, width in inputs.items()] + [info("past", memory)],
         [info("o", ["batch", "time", max(heads, states) * dv]), info("present", memory)])
    calls = [compiled(tmp_path, *flags) for flags in ([], ["--reference"], ["--delta-chunk=16"], ["--delta-chunk=64"],
                                                  ["--gpu-schedules=90a"])]
    for tokens in TOKENS:
        draw = lambda h, d: rng.standard_normal((2, h, tokens, d)).astype(np.float32)  # noqa: E731
        k = draw(key_heads, dk)
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        x = {"q": draw(heads, dk), "k": k, "v": draw(states, dv)}
        x.update({"g": -np.abs(draw(states, dk if decay == "channel" else 1))} if decay else {})
        x.update({"beta": 1 / (1 + np.exp(-draw(states, 1)))} if delta else {})
        past = rng.standard_normal((2, states, dk, dv)).astype(np.float32)
        gates = [x.get(name) for name in ("g", "beta", "beta")]
        wide = [None if array is None else array.astype(np.float64) for array in (x["q"], x["k"], x["v"], past, *gates)]
        o, state = recurrence(*wide[:4], dk**-0.5, *wide[4:])
        for call in calls:
            got = call(past=past, **{name: packed(array) for name, array in x.items()})
            np.testing.assert_allclose(got["o"], packed(o), rtol=1e-4, atol=1e-4, err_msg=f"{tokens} tokens")
            np.testing.assert_allclose(got["present"], state, rtol=1e-4, atol=1e-4, err_msg=f"{tokens} tokens")
        # The first tokens, then the rest from their state, is the same.
        cut = tokens // 2
        if cut:
            first = calls[0](past=past, **{name: packed(array[:, :, :cut]) for name, array in x.items()})
            rest = calls[0](past=first["present"], **{name: packed(array[:, :, cut:]) for name, array in x.items()})
            np.testing.assert_allclose(np.concatenate([first["o"], rest["o"]], 1), packed(o), rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(rest["present"], state, rtol=1e-4, atol=1e-4)


def kda_model(path, heads, dk, dv):
    """Gated delta rule with a decay a channel; inputs q, k, v, g, beta."""
    widths = {"q": heads * dk, "k": heads * dk, "v": heads * dv, "g": heads * dk, "beta": heads}
    node = helper.make_node("LinearAttention", ["q", "k", "v", "", "g", "beta"], ["o", ""], q_num_heads=heads, kv_num_heads=heads)
    save(path, [node], [info(name, ["batch", "time", width]) for name, width in widths.items()],
         [info("o", ["batch", "time", heads * dv])], opset=27)


def kda_inputs(rng, heads, tokens, dk, dv, gates):
    """Inputs as [B, H, T, D]; `gates`: what the decay's logarithms are."""
    draw = lambda d: rng.standard_normal((2, heads, tokens, d)).astype(np.float32)  # noqa: E731
    k = draw(dk)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    g = {"random": -np.abs(draw(dk)), "zero": np.zeros_like(k), "bound": np.full_like(k, -5), "large": -40 * np.abs(draw(dk)),
         "infinite": np.where(draw(dk) > 1.5, -np.inf, -np.abs(draw(dk)) / 8), "one_slow": np.full_like(k, -5)}[gates]
    if gates == "one_slow":
        g[..., 3] = -1e-3
    return {"q": draw(dk), "k": k, "v": draw(dv), "g": g.astype(np.float32), "beta": 1 / (1 + np.exp(-draw(1)))}


def off(got, expected):
    """|got - expected| / |expected|."""
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_gpu_schedules_in_16_bits(tmp_path, rule, arch):
    """The tile programs of a GPU that multiply bf16: sums of levels, and the inverse of the system."""
    delta, decay = RULES[rule]
    heads, dk, dv = 2, 32, 48
    widths = {"q": heads * dk, "k": heads * dk, "v": heads * dv}
    widths.update({"g": heads * dk if decay == "channel" else heads} if decay else {})
    widths.update({"beta": heads} if delta else {})
    node = helper.make_node("LinearAttention", ["q", "k", "v", "past", "g" if decay else "", "beta" if delta else ""], ["o", "present"],
                            q_num_heads=heads, kv_num_heads=heads, update_rule=rule.removesuffix("_head"))
    memory = ["batch", heads, dk, dv]
    save(tmp_path / "model.onnx", [node], [info(name, ["batch", "time", width]) for name, width in widths.items()] + [info("past", memory)],
         [info("o", ["batch", "time", heads * dv]), info("present", memory)], opset=27)
    call = compiled(tmp_path, "--precision=bf16", f"--gpu-schedules={arch}")
    rng = np.random.default_rng()
    for tokens in (7, 33, 130):
        x = kda_inputs(rng, heads, tokens, dk, dv, "random")
        if decay == "head":
            x["g"] = x["g"][..., :1]
        x = {name: x[name] for name in widths}
        past = rng.standard_normal((2, heads, dk, dv)).astype(np.float32)
        gates = [None if x.get(name) is None else x[name].astype(np.float64) for name in ("g", "beta", "beta")]
        o, state = recurrence(*(a.astype(np.float64) for a in (x["q"], x["k"], x["v"], past)), dk**-0.5, *gates)
        got = call(past=past, **{name: packed(array) for name, array in x.items()})
        assert off(got["o"], packed(o)) < 1e-2 and off(got["present"], state) < 1e-2


@pytest.mark.parametrize("precision,bound", [("f32", 1e-5), ("bf16", 1e-2), ("fp16", 1e-2)])
@pytest.mark.parametrize("gates", ["random", "zero", "lowest"])
def test_bounded_gates_on_gpu_schedules(tmp_path, gates, precision, bound):
    """Gates that a sigmoid holds above -5, so that pairs within 16 rows are one product; what comes later changes nothing."""
    heads, dk, dv, tokens = 2, 32, 32, 130
    widths = {"q": heads * dk, "k": heads * dk, "v": heads * dv, "g": heads * dk, "beta": heads}
    nodes = [helper.make_node("Sigmoid", ["g"], ["open"]), helper.make_node("Mul", ["open", "least"], ["decay"]),
             helper.make_node("LinearAttention", ["q", "k", "v", "", "decay", "beta"], ["o", ""], q_num_heads=heads, kv_num_heads=heads)]
    save(tmp_path / "model.onnx", nodes, [info(name, ["batch", "time", width]) for name, width in widths.items()],
         [info("o", ["batch", "time", heads * dv])], [numpy_helper.from_array(np.float32(-5), "least")], opset=27)
    rng = np.random.default_rng()
    x = kda_inputs(rng, heads, tokens, dk, dv, "random")
    x["g"] = {"random": 3 * rng.standard_normal(x["g"].shape), "zero": np.full(x["g"].shape, -30.0), "lowest": np.full(x["g"].shape, 30.0)}[gates]
    wide = [x[name].astype(np.float64) for name in ("q", "k", "v")]
    o, _ = recurrence(*wide, np.zeros((2, heads, dk, dv)), dk**-0.5, -5 / (1 + np.exp(-x["g"])), x["beta"], x["beta"])
    call = compiled(tmp_path, f"--precision={precision}", "--gpu-schedules=90a")
    got = call(**{name: packed(array) for name, array in x.items()})["o"]
    assert off(got, packed(o)) < bound
    for name in ("k", "v", "g"):
        x[name] = x[name].copy()
        x[name][:, :, 75:] *= 0.5
    np.testing.assert_array_equal(call(**{name: packed(array) for name, array in x.items()})["o"][:, :75], got[:, :75])


@pytest.mark.parametrize("arch", ["80", "90a"])
@pytest.mark.parametrize("precision,bound", [("f32", 1e-5), ("bf16", 1e-2)])
@pytest.mark.parametrize("eps", [1e-6, 0])
@pytest.mark.parametrize("tokens", [1, 5])
def test_norms_and_gates_of_few_tokens(tmp_path, tokens, eps, precision, bound, arch):
    """L2 norms of q and k, the decay's formula and the sigmoid of beta, which one kernel computes with the rule."""
    heads, dk, dv = 3, 64, 48
    weights = {"by_head": np.array([0, 0, heads, dk]), "flat": np.array([0, 0, heads * dk]), "last": np.array([-1]),
               "eps": np.float32(eps), "least": np.float32(-5), "two": np.float32(2)}
    rng = np.random.default_rng()
    rate, bias = rng.random((heads, 1), dtype=np.float32) + 0.5, rng.standard_normal((heads, dk), dtype=np.float32)
    weights.update(rate=rate, bias=bias)
    nodes = []

    def op(kind, *inputs, **attributes):
        nodes.append(helper.make_node(kind, list(inputs), [f"x{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def normalised(name):
        x = op("Reshape", name, "by_head")
        return op("Reshape", op("Div", x, op("Sqrt", op("Add", op("ReduceSum", op("Pow", x, "two"), "last", keepdims=1), "eps"))), "flat")
    raw = op("Mul", "rate", op("Add", op("Reshape", "g", "by_head"), "bias"))
    gates = op("Reshape", op("Mul", "least", op("Sigmoid", raw)), "flat")
    arguments = [normalised("q"), normalised("k"), "v", "past", gates, op("Sigmoid", "beta")]
    nodes.append(helper.make_node("LinearAttention", arguments, ["o", "present"], q_num_heads=heads, kv_num_heads=heads))
    widths, memory = {"q": heads * dk, "k": heads * dk, "v": heads * dv, "g": heads * dk, "beta": heads}, ["batch", heads, dk, dv]
    save(tmp_path / "model.onnx", nodes, [info(name, ["batch", tokens, width]) for name, width in widths.items()] + [info("past", memory)],
         [info("o", ["batch", tokens, heads * dv]), info("present", memory)],
         [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()], opset=27)
    x = kda_inputs(rng, heads, tokens, dk, dv, "random")
    x["k"], x["g"], x["beta"] = 3 * x["k"], 2 * x["g"], 2 * x["beta"] - 1
    past = rng.standard_normal((2, heads, dk, dv)).astype(np.float32)
    call = compiled(tmp_path, f"--precision={precision}", f"--gpu-schedules={arch}")
    got = call(past=past, **{name: packed(array) for name, array in x.items()})
    wide = {name: array.astype(np.float64) for name, array in x.items()}
    q, k = (wide[name] / np.sqrt((wide[name] ** 2).sum(-1, keepdims=True) + eps) for name in "qk")
    decay = -5 / (1 + np.exp(-rate[:, None] * (wide["g"] + bias[:, None])))
    beta = 1 / (1 + np.exp(-wide["beta"]))
    o, state = recurrence(q, k, wide["v"], past.astype(np.float64), dk**-0.5, decay, beta, beta)
    assert off(got["o"], packed(o)) < bound and off(got["present"], state) < bound
    run(tool("kimi-compile"), tmp_path / "model.onnx", "--emit=plan", f"--precision={precision}", f"--gpu-schedules={arch}", "-o", tmp_path / "plan")
    assert "l2_norm" not in (tmp_path / "plan").read_text()


@pytest.mark.parametrize("gates", ["random", "zero", "bound", "large", "infinite", "one_slow"])
def test_chunkwise_gates(tmp_path, gates):
    """Any gate is finite and right in the chunkwise form, and what comes later changes nothing before it."""
    heads, dk, dv, tokens = 2, 16, 16, 130
    rng = np.random.default_rng(11)
    kda_model(tmp_path / "model.onnx", heads, dk, dv)
    x = kda_inputs(rng, heads, tokens, dk, dv, gates)
    wide = [x[name].astype(np.float64) for name in ("q", "k", "v")]
    gates = [x[name].astype(np.float64) for name in ("g", "beta", "beta")]
    o, _ = recurrence(*wide, np.zeros((2, heads, dk, dv)), dk**-0.5, *gates)
    later = {name: array.copy() for name, array in x.items()}
    for name in ("k", "v", "g"):
        later[name][:, :, 75:] *= 0.5
    for chunk in (16, 32, 64, 0):  # 0: the tile programs of a GPU, run here
        call = compiled(tmp_path, f"--delta-chunk={chunk}" if chunk else "--gpu-schedules=90")
        got = call(**{name: packed(array) for name, array in x.items()})["o"]
        np.testing.assert_allclose(got, packed(o), rtol=1e-4, atol=2e-4 if np.isinf(x["g"]).any() else 1e-4, err_msg=f"chunk {chunk}")
        again = call(**{name: packed(array) for name, array in later.items()})["o"]
        np.testing.assert_array_equal(again[:, :75], got[:, :75])


@pytest.mark.parametrize("dv", [24, 32])  # 24 are no whole matrix instructions
def test_scan_with_erase_and_write(tmp_path, dv):
    """Gated DeltaNet-2, spelled out in a Scan."""
    heads, dk = 3, 16
    body = helper.make_graph(
        [helper.make_node("Exp", ["gt"], ["e"]), helper.make_node("Unsqueeze", ["e", "last"], ["e4"]),
         helper.make_node("Mul", ["s", "e4"], ["faded"]), helper.make_node("Mul", ["bt", "kt"], ["bk"]),
         helper.make_node("Unsqueeze", ["bk", "next"], ["row"]), helper.make_node("MatMul", ["row", "faded"], ["r3"]),
         helper.make_node("Squeeze", ["r3", "next"], ["r"]), helper.make_node("Mul", ["wt", "vt"], ["wv"]),
         helper.make_node("Sub", ["wv", "r"], ["u"]), helper.make_node("Unsqueeze", ["u", "next"], ["u4"]),
         helper.make_node("Unsqueeze", ["kt", "last"], ["k4"]), helper.make_node("MatMul", ["k4", "u4"], ["edit"]),
         helper.make_node("Add", ["faded", "edit"], ["s1"]), helper.make_node("Unsqueeze", ["qt", "next"], ["q4"]),
         helper.make_node("MatMul", ["q4", "s1"], ["o4"]), helper.make_node("Squeeze", ["o4", "next"], ["ot"])],
        "step", [info("s", ["batch", heads, dk, dv])] + [info(name, ["batch", heads, width]) for name, width in
                                                        (("qt", dk), ("kt", dk), ("vt", dv), ("gt", dk), ("bt", dk), ("wt", dv))],
        [info("s1", ["batch", heads, dk, dv]), info("ot", ["batch", heads, dv])],
        [numpy_helper.from_array(np.array([-1], np.int64), "last"), numpy_helper.from_array(np.array([-2], np.int64), "next")])
    names = ["q", "k", "v", "g", "b", "w"]
    node = helper.make_node("Scan", ["past", *names], ["present", "o"], body=body, num_scan_inputs=6)
    widths = dict(zip(names, (dk, dk, dv, dk, dk, dv)))
    save(tmp_path / "model.onnx", [node],
         [info("past", ["batch", heads, dk, dv])] + [info(name, ["time", "batch", heads, width]) for name, width in widths.items()],
         [info("present", ["batch", heads, dk, dv]), info("o", ["time", "batch", heads, dv])], opset=23)
    calls = [compiled(tmp_path), compiled(tmp_path, "--delta-chunk=32")]
    narrow = compiled(tmp_path, "--precision=bf16", "--gpu-schedules=90a")
    rng = np.random.default_rng(7)
    for tokens in TOKENS:
        x = {name: rng.standard_normal((2, heads, tokens, width)) for name, width in widths.items()}
        x["k"] /= np.linalg.norm(x["k"], axis=-1, keepdims=True)
        x.update(g=-np.abs(x["g"]), b=1 / (1 + np.exp(-x["b"])), w=1 / (1 + np.exp(-x["w"])))
        past = rng.standard_normal((2, heads, dk, dv))
        o, state = recurrence(x["q"], x["k"], x["v"], past, 1.0, x["g"], x["b"], x["w"])
        for call in calls:
            got = call(past=past, **{name: array.transpose(2, 0, 1, 3) for name, array in x.items()})
            np.testing.assert_allclose(got["o"], o.transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(got["present"], state, rtol=1e-4, atol=1e-4)
        got = narrow(past=past, **{name: array.transpose(2, 0, 1, 3) for name, array in x.items()})
        assert off(got["o"], o.transpose(2, 0, 1, 3)) < 1e-2 and off(got["present"], state) < 1e-2


def test_loop(tmp_path):
    """Gated DeltaNet in a Loop that gathers the token of each run; time is the second axis."""
    heads, dk, dv = 2, 16, 12
    gather = lambda name, to: helper.make_node("Gather", [name, "i"], [to], axis=1)  # noqa: E731
    scalar = lambda name, kind: helper.make_tensor_value_info(name, kind, [])  # noqa: E731
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), gather("q", "qt"), gather("k", "kt"), gather("v", "vt"),
         gather("g", "gt"), gather("b", "bt"), helper.make_node("Exp", ["gt"], ["e"]),
         helper.make_node("Unsqueeze", ["e", "both"], ["e4"]), helper.make_node("Mul", ["s", "e4"], ["faded"]),
         helper.make_node("Unsqueeze", ["kt", "last"], ["k4"]), helper.make_node("Mul", ["k4", "faded"], ["ks"]),
         helper.make_node("ReduceSum", ["ks", "next"], ["r"], keepdims=0), helper.make_node("Sub", ["vt", "r"], ["d"]),
         helper.make_node("Unsqueeze", ["bt", "last"], ["b3"]), helper.make_node("Mul", ["b3", "d"], ["u"]),
         helper.make_node("Unsqueeze", ["u", "next"], ["u4"]), helper.make_node("Mul", ["k4", "u4"], ["edit"]),
         helper.make_node("Add", ["faded", "edit"], ["s1"]), helper.make_node("Unsqueeze", ["qt", "next"], ["q4"]),
         helper.make_node("MatMul", ["q4", "s1"], ["o4"]), helper.make_node("Squeeze", ["o4", "next"], ["ot"])],
        "step", [scalar("i", TensorProto.INT64), scalar("go", TensorProto.BOOL), info("s", ["batch", heads, dk, dv])],
        [scalar("go_on", TensorProto.BOOL), info("s1", ["batch", heads, dk, dv]), info("ot", ["batch", heads, dv])])
    integers = lambda name, *values: numpy_helper.from_array(np.array(values, np.int64), name)  # noqa: E731
    weights = [integers("last", -1), integers("next", -2), integers("both", -1, -2),
               numpy_helper.from_array(np.array(1, np.int64), "one"), numpy_helper.from_array(np.array(True), "true")]
    nodes = [helper.make_node("Shape", ["q"], ["shape"]), helper.make_node("Gather", ["shape", "one"], ["count"]),
             helper.make_node("Loop", ["count", "true", "past"], ["present", "o"], body=body)]
    shapes = {"q": (dk,), "k": (dk,), "v": (dv,), "g": (), "b": ()}
    save(tmp_path / "model.onnx", nodes,
         [info("past", ["batch", heads, dk, dv])] + [info(name, ["batch", "time", heads, *rest]) for name, rest in shapes.items()],
         [info("present", ["batch", heads, dk, dv]), info("o", ["time", "batch", heads, dv])], weights, opset=20)
    call = compiled(tmp_path)
    rng = np.random.default_rng(5)
    for tokens in TOKENS:
        x = kda_inputs(rng, heads, tokens, dk, dv, "random")
        x["g"] = x["g"][..., :1]
        past = rng.standard_normal((2, heads, dk, dv))
        o, state = recurrence(x["q"], x["k"], x["v"], past, 1.0, x["g"], x["beta"], x["beta"])
        feed = {"q": x["q"], "k": x["k"], "v": x["v"], "g": x["g"][..., 0], "b": x["beta"][..., 0]}
        got = call(past=past, **{name: np.moveaxis(array, 2, 1) for name, array in feed.items()})
        np.testing.assert_allclose(got["o"], o.transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(got["present"], state, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("taps,activation,bias", [(4, "silu", False), (3, "none", True), (1, "silu", True)])
def test_causal_conv(tmp_path, taps, activation, bias):
    channels, rng = 7, np.random.default_rng(taps)
    w, b = rng.standard_normal((channels, 1, taps)).astype(np.float32), rng.standard_normal(channels).astype(np.float32)
    node = helper.make_node("CausalConvWithState", ["x", "w", "b" if bias else "", "past"], ["y", "present"],
                            domain="com.microsoft", activation=activation)
    window = ["batch", channels, taps - 1]
    save(tmp_path / "model.onnx", [node], [info("x", ["batch", channels, "time"]), info("past", window)],
         [info("y", ["batch", channels, "time"]), info("present", window)],
         [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    for call in (compiled(tmp_path), compiled(tmp_path, "--reference")):
        for tokens in TOKENS:
            x, past = rng.standard_normal((2, channels, tokens)), rng.standard_normal((2, channels, taps - 1))
            all_tokens = np.concatenate([past, x], 2)
            y = sum(w[:, 0, j, None] * all_tokens[:, :, j:j + tokens] for j in range(taps)) + (b[:, None] if bias else 0)
            y = y / (1 + np.exp(-y)) if activation == "silu" else y
            got = call(x=x, past=past)
            np.testing.assert_allclose(got["y"], y, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(got["present"], all_tokens[:, :, tokens:], rtol=1e-6)


def test_decode_entry(tmp_path):
    """A graph without states: windows, matrices and a cache are derived, and what is generated with them is what the
    whole sequence gives each time."""
    heads, dim, vocabulary = 2, 16, 1024
    width, rng = heads * dim, np.random.default_rng(3)
    weight = lambda name, *shape: numpy_helper.from_array((rng.standard_normal(shape) / 2).astype(np.float32), name)  # noqa: E731
    weights = [weight("wte", vocabulary, width), weight("conv", width, 1, 4), weight("wk", width, width), weight("wv", width, width),
               weight("wg", width, width), weight("wb", width, heads), weight("head", width, vocabulary)]
    node = helper.make_node
    nodes = [node("Gather", ["wte", "input_ids"], ["x"]), node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
             node("CausalConvWithState", ["xt", "conv"], ["yt", ""], activation="silu"),
             node("Transpose", ["yt"], ["q"], perm=[0, 2, 1]), node("MatMul", ["x", "wk"], ["k"]),
             node("LpNormalization", ["k"], ["kn"], axis=-1, p=2), node("MatMul", ["x", "wv"], ["v"]),
             node("MatMul", ["x", "wg"], ["g0"]), node("Sigmoid", ["g0"], ["g1"]), node("Neg", ["g1"], ["g"]),
             node("MatMul", ["x", "wb"], ["b0"]), node("Sigmoid", ["b0"], ["b"]),
             node("LinearAttention", ["q", "kn", "v", "", "g", "b"], ["o", ""], q_num_heads=heads, kv_num_heads=heads),
             node("Attention", ["q", "kn", "o"], ["a"], q_num_heads=heads, kv_num_heads=heads, is_causal=1),
             node("Add", ["a", "o"], ["s"]), node("MatMul", ["s", "head"], ["logits"])]
    save(tmp_path / "model.onnx", nodes, [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "seq"])],
         [info("logits", ["batch", "seq", vocabulary])], weights, opset=27)
    mini = ROOT / "models" / "gpt2" / "mini"  # its tokenizer
    golden = json.loads((mini / "golden.json").read_text())["prompts"][0]
    prompt = golden["ids"]
    report = tmp_path / "report.json"
    result = run(tool("kimi-run"), tmp_path / "model.onnx", "--tokenizer", mini, "--prompt", golden["prompt"],
                 "--tokens", 12, "--ignore-eos", "--json", report, "--max-seq", 64, "--cache", tmp_path)
    assert "no decode entry" not in result.stderr
    tokens = list(prompt)
    for _ in range(12):
        np.savez(tmp_path / "in.npz", input_ids=np.array([tokens], np.int64))
        run(tool("kimi-run"), tmp_path / "model.onnx", "--entry", "main", "--input", tmp_path / "in.npz", "--output",
            tmp_path / "out.npz", "--cache", tmp_path)
        tokens.append(int(np.load(tmp_path / "out.npz")["logits"][0, -1].argmax()))
    assert json.loads(report.read_text())["tokens"] == tokens[len(prompt):]
