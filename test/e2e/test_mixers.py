"""What token mixers must do, whatever computes them: remember, replace, forget, look only back, and carry their state.

Graphs of one node, LinearAttention or CausalConvWithState of opset 27, run by kimi-run; the answers are those of the equations
in fp64, or known without any:

  S <- diag(e^g) S            gated, gated_delta
  S <- S + k^T v              linear, gated
  S <- S + k^T b (v - k S)    delta, gated_delta
  o = scale q S
"""
import dataclasses

import numpy as np
import onnx
import pytest
from conftest import run, tool
from onnx import TensorProto, helper

RULES = ["linear", "gated", "delta", "gated_delta"]
MODES = pytest.mark.parametrize("mode", [[], ["--reference"]], ids=["kernels", "reference"])


@dataclasses.dataclass(frozen=True)
class Mixer:
    """Sizes of one LinearAttention. `per_head`: the decay is one number a head, not one a key channel."""
    rule: str
    heads: int = 2
    dk: int = 32
    dv: int = 32
    shared: int = 1  # query heads to a key head
    per_head: bool = False
    scale: float = 1.0
    chunk: int = 64

    @property
    def decays(self):
        return "gated" in self.rule

    @property
    def erases(self):
        return "delta" in self.rule

    def widths(self):
        """name -> last extent of each sequence operand."""
        w = {"query": self.heads * self.shared * self.dk, "key": self.heads * self.dk, "value": self.heads * self.dv}
        if self.decays:
            w["decay"] = self.heads * (1 if self.per_head else self.dk)
        if self.erases:
            w["beta"] = self.heads
        return w

    def model(self):
        widths = self.widths()
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", "seq", w]) for n, w in widths.items()]
        state = ["batch", self.heads, self.dk, self.dv]
        inputs.append(helper.make_tensor_value_info("past", TensorProto.FLOAT, state))
        outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", "seq", self.heads * self.shared * self.dv]),
                   helper.make_tensor_value_info("present", TensorProto.FLOAT, state)]
        operands = ["query", "key", "value", "past", "decay" if self.decays else "", "beta" if self.erases else ""]
        while not operands[-1]:
            operands.pop()
        node = helper.make_node("LinearAttention", operands, ["output", "present"], name="mixer", update_rule=self.rule, scale=self.scale,
                                q_num_heads=self.heads * self.shared, kv_num_heads=self.heads, chunk_size=self.chunk)
        graph = helper.make_graph([node], "mixer", inputs, outputs)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=13)

    def draw(self, rng, length, batch=1):
        """Operands as a KDA layer makes them: unit queries and keys, decays from none to fast, beta in (0, 1)."""
        feed = {n: rng.standard_normal((batch, length, w)).astype(np.float32) for n, w in self.widths().items()}
        for name in ("query", "key"):
            by_head = feed[name].reshape(batch, length, -1, self.dk)
            feed[name] = (by_head / np.linalg.norm(by_head, axis=-1, keepdims=True)).reshape(feed[name].shape)
        if self.decays:
            feed["decay"] = (-5 * rng.uniform(0, 1, feed["decay"].shape) ** 8).astype(np.float32)
        if self.erases:
            feed["beta"] = rng.uniform(0.02, 0.98, feed["beta"].shape).astype(np.float32)
        return {**feed, "past": 0.5 * rng.standard_normal((batch, self.heads, self.dk, self.dv)).astype(np.float32)}

    def expected(self, feed):
        """(output, present) by the recurrence in fp64."""
        batch, length = feed["query"].shape[:2]

        def heads(name, count):
            return feed[name].astype(np.float64).reshape(batch, length, count, -1)

        q, k, v = heads("query", self.heads * self.shared), heads("key", self.heads), heads("value", self.heads)
        keep = np.exp(heads("decay", self.heads)) if self.decays else None
        beta = heads("beta", self.heads) if self.erases else None
        state, out = feed["past"].astype(np.float64), np.empty((batch, length, self.heads * self.shared, self.dv))
        for t in range(length):
            if self.decays:
                state = state * keep[:, t, :, :, None]
            write = beta[:, t] * (v[:, t] - np.einsum("bhk,bhkv->bhv", k[:, t], state)) if self.erases else v[:, t]
            state = state + k[:, t, :, :, None] * write[:, :, None]
            out[:, t] = self.scale * np.einsum("bhk,bhkv->bhv", q[:, t], np.repeat(state, self.shared, 1))
        return out.reshape(batch, length, -1), state


def described(mixer):
    return f"{mixer.rule}{'-head' if mixer.per_head else ''}-{mixer.heads}x{mixer.shared}-{mixer.dk}x{mixer.dv}-{mixer.chunk}"


@pytest.fixture
def compute(tmp_path, cache):
    """compute(model, feed, mode) -> {output name: array}, by kimi-run."""
    def do(model, feed, mode=()):
        path = tmp_path / "mixer.onnx"
        onnx.save(model, path)
        np.savez(tmp_path / "in.npz", **feed)
        run(tool("kimi-run"), path, "--entry", "main", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--cache", cache, *mode)
        with np.load(tmp_path / "out.npz") as found:
            return {name: found[name] for name in found.files}

    return do


def check(mixer, got, feed, tolerance=1e-4):
    for name, want in zip(("output", "present"), mixer.expected(feed)):
        assert got[name].shape == want.shape and np.isfinite(got[name]).all()
        error = np.abs(got[name] - want).max()
        assert error <= tolerance * (1 + np.abs(want).max()), f"{name}: {error}"


class Tape:
    """A sequence written step by step for one head of `mixer`: what is stored, what is asked, what should come back."""

    def __init__(self, mixer):
        self.mixer, self.steps = mixer, []

    def step(self, key=None, value=None, query=None, decay=0.0, beta=1.0):
        none = np.zeros(self.mixer.dk)
        self.steps.append((none if key is None else key, np.zeros(self.mixer.dv) if value is None else value, none if query is None else query,
                           decay, beta))
        return len(self.steps) - 1

    def feed(self):
        """The same tape for every head, from an empty state."""
        m = self.mixer
        columns = {"key": 0, "value": 1, "query": 2}
        feed = {n: np.array([[np.tile(s[i], m.heads * (m.shared if n == "query" else 1)) for s in self.steps]], np.float32) for n, i in columns.items()}
        if m.decays:
            width = m.widths()["decay"]
            feed["decay"] = np.array([[np.tile(np.broadcast_to(s[3], width // m.heads), m.heads) for s in self.steps]], np.float32)
        if m.erases:
            feed["beta"] = np.array([[np.full(m.heads, s[4]) for s in self.steps]], np.float32)
        return {**feed, "past": np.zeros((1, m.heads, m.dk, m.dv), np.float32)}

    def answers(self, out):
        """[steps, dv] of the first head; all heads agree."""
        by_head = out["output"][0].reshape(len(self.steps), -1, self.mixer.dv)
        assert np.abs(by_head - by_head[:, :1]).max() <= 1e-5
        return by_head[:, 0]


def pairs(rng, mixer, count):
    """Orthonormal keys and any values."""
    keys = np.linalg.qr(rng.standard_normal((mixer.dk, mixer.dk)))[0][:count]
    return keys, rng.standard_normal((count, mixer.dv))


@MODES
@pytest.mark.parametrize("rule", RULES)
def test_associative_recall(rule, mode, compute):
    """Values stored under orthonormal keys come back when the keys are asked for, in any order, much later."""
    rng, mixer = np.random.default_rng(), Mixer(rule)
    keys, values = pairs(rng, mixer, 24)
    tape = Tape(mixer)
    for key, value in zip(keys, values):
        tape.step(key, value)
    for _ in range(70):
        tape.step()
    order = rng.permutation(24)
    asked = [tape.step(query=keys[i]) for i in order]
    got = tape.answers(compute(mixer.model(), tape.feed(), mode))
    np.testing.assert_allclose(got[asked], values[order], atol=1e-4)


@MODES
@pytest.mark.parametrize("rule", RULES)
def test_repeated_key(rule, mode, compute):
    """A second value under the same key replaces the first where the rule erases, and adds to it where not; half of beta
    replaces by halves. Other keys keep theirs."""
    rng, mixer = np.random.default_rng(), Mixer(rule)
    keys, values = pairs(rng, mixer, 4)
    tape = Tape(mixer)
    tape.step(keys[0], values[0])
    tape.step(keys[1], values[1])
    tape.step(keys[0], values[2])
    after, other = tape.step(query=keys[0]), tape.step(query=keys[1])
    tape.step(keys[0], values[3], beta=0.5)
    half = tape.step(query=keys[0])
    got = tape.answers(compute(mixer.model(), tape.feed(), mode))
    np.testing.assert_allclose(got[after], values[2] if mixer.erases else values[0] + values[2], atol=1e-4)
    np.testing.assert_allclose(got[other], values[1], atol=1e-4)
    np.testing.assert_allclose(got[half], (values[2] + values[3]) / 2 if mixer.erases else values[0] + values[2] + values[3], atol=1e-4)


@MODES
@pytest.mark.parametrize("mixer", [*map(Mixer, RULES), Mixer("gated", per_head=True), Mixer("gated_delta", per_head=True)], ids=described)
def test_context_switch(mixer, mode, compute):
    """At a switch of context a strong decay clears what was stored; delta alone, and no decay, do not."""
    rng = np.random.default_rng()
    keys, values = pairs(rng, mixer, 12)
    tape = Tape(mixer)
    for key, value in zip(keys[:8], values[:8]):
        tape.step(key, value)
    before = tape.step(query=keys[3])
    tape.step(decay=-60.0)
    for key, value in zip(keys[8:], values[8:]):
        tape.step(key, value)
    old, new = [tape.step(query=k) for k in keys[:8]], [tape.step(query=k) for k in keys[8:]]
    got = tape.answers(compute(mixer.model(), tape.feed(), mode))
    np.testing.assert_allclose(got[before], values[3], atol=1e-4)
    np.testing.assert_allclose(got[new], values[8:], atol=1e-4)
    np.testing.assert_allclose(got[old], np.zeros((8, mixer.dv)) if mixer.decays else values[:8], atol=1e-4)


@MODES
@pytest.mark.parametrize("rule", ["gated", "gated_delta"])
def test_channels_forget_on_their_own(rule, mode, compute):
    """A decay of some key channels clears what is stored there and nothing else."""
    rng, mixer = np.random.default_rng(), Mixer(rule)
    values, tape = rng.standard_normal((mixer.dk, mixer.dv)), Tape(mixer)
    for key, value in zip(np.eye(mixer.dk), values):
        tape.step(key, value)
    gone = rng.permutation(mixer.dk) < mixer.dk // 2
    tape.step(decay=np.where(gone, -np.inf, 0.0))
    asked = [tape.step(query=key) for key in np.eye(mixer.dk)]
    got = tape.answers(compute(mixer.model(), tape.feed(), mode))
    np.testing.assert_allclose(got[asked], np.where(gone[:, None], 0, values), atol=1e-4)


SHAPES = [Mixer(rule, heads=3, scale=0.0) for rule in RULES] + [
    Mixer("gated_delta", per_head=True), Mixer("gated", per_head=True), Mixer("gated_delta", heads=2, shared=3), Mixer("delta", shared=2),
    Mixer("gated_delta", heads=1, dk=128, dv=128), Mixer("gated_delta", heads=1, dk=64, dv=256, chunk=32), Mixer("delta", heads=2, dk=48, dv=20, chunk=16)]


@MODES
@pytest.mark.parametrize("mixer", SHAPES, ids=described)
def test_equals_the_recurrence(mixer, mode, compute):
    """Lengths around the borders of chunks, two sequences, states that are not empty. Scale 0 means 1/sqrt(dk)."""
    rng = np.random.default_rng()
    model = mixer.model()
    scaled = dataclasses.replace(mixer, scale=mixer.scale or mixer.dk ** -0.5)
    for length in (1, 2, 15, 16, 17, 63, 64, 65, 130):
        feed = mixer.draw(rng, length, batch=2)
        check(scaled, compute(model, feed, mode), feed)


GATES = {
    "all at -5": lambda rng, shape: np.full(shape, -5.0),
    "all 0": lambda rng, shape: np.zeros(shape),
    "some -inf": lambda rng, shape: np.where(rng.uniform(size=shape) < 0.1, -np.inf, -0.1),
    "all -inf": lambda rng, shape: np.full(shape, -np.inf),
    "unbounded": lambda rng, shape: -np.exp(rng.uniform(-12, 6, shape)),
    "one slow channel": lambda rng, shape: np.where(np.arange(shape[-1]) % 32 == 7, -1e-4, -20.0) * np.ones(shape),
}


@MODES
@pytest.mark.parametrize("gates", GATES)
def test_extreme_gates(gates, mode, compute):
    rng, mixer = np.random.default_rng(), Mixer("gated_delta", heads=2)
    feed = mixer.draw(rng, 150)
    feed["decay"] = GATES[gates](rng, feed["decay"].shape).astype(np.float32)
    check(mixer, compute(mixer.model(), feed, mode), feed)


@MODES
@pytest.mark.parametrize("rule", ["delta", "gated_delta"])
def test_extreme_keys_and_strengths(rule, mode, compute):
    """The same key at every step, beta at 0 and at 1, keys and queries that are zero."""
    rng, mixer = np.random.default_rng(), Mixer(rule)
    for beta in (0.0, 1.0, None):
        feed = mixer.draw(rng, 130)
        feed["key"][:, :] = feed["key"][:, :1]
        feed["key"][:, 40:50] = 0
        feed["query"][:, 60:70] = 0
        if beta is not None:
            feed["beta"][:] = beta
        out = compute(mixer.model(), feed, mode)
        check(mixer, out, feed)
        assert not out["output"][:, 60:70].any()


@pytest.mark.parametrize("mixer", [Mixer("gated_delta", dk=16, dv=16), Mixer("delta", dk=16, dv=16), Mixer("gated", dk=16, dv=16)], ids=described)
def test_long_sequences_stay_exact(mixer, compute):
    """65,536 tokens against fp64: errors do not grow with the sequence, also where one channel hardly forgets."""
    rng = np.random.default_rng()
    feed = mixer.draw(rng, 1 << 16)
    if mixer.decays:
        feed["decay"] = (-np.exp(rng.uniform(-9, 1, feed["decay"].shape))).astype(np.float32)
        feed["decay"][..., ::mixer.dk] = -1e-5 if mixer.erases else -1e-3
    check(mixer, compute(mixer.model(), feed), feed)


@MODES
@pytest.mark.parametrize("rule", RULES)
def test_later_tokens_leave_earlier_outputs_alone(rule, mode, compute):
    """Whatever the operands are from position P on, outputs before P are the same to the bit."""
    rng, mixer, length = np.random.default_rng(), Mixer(rule), 130
    model, feed = mixer.model(), mixer.draw(rng, length)
    base = compute(model, feed, mode)["output"]
    for position in (1, 15, 16, 17, 63, 64, 65, 128):
        other = {**mixer.draw(rng, length), "past": feed["past"]}
        for name in mixer.widths():
            other[name][:, :position] = feed[name][:, :position]
        got = compute(model, other, mode)["output"]
        assert got[:, :position].tobytes() == base[:, :position].tobytes(), f"position {position}"
        assert (got[:, position:] != base[:, position:]).any()


@MODES
@pytest.mark.parametrize("rule", RULES)
def test_states_join_the_parts_of_a_sequence(rule, mode, compute):
    """One pass, any split, and token by token give one answer."""
    rng, mixer = np.random.default_rng(), Mixer(rule)
    model, feed = mixer.model(), mixer.draw(rng, 81)
    check(mixer, whole := compute(model, feed, mode), feed)
    for parts in ([1, 80], [16, 65], [17, 47, 17], [64, 17], [1] * 6 + [75]):
        state, outputs, first = feed["past"], [], 0
        for length in parts:
            piece = {name: feed[name][:, first:first + length] for name in mixer.widths()}
            out = compute(model, {**piece, "past": state}, mode)
            outputs.append(out["output"])
            state, first = out["present"], first + length
        np.testing.assert_allclose(np.concatenate(outputs, 1), whole["output"], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(state, whole["present"], rtol=1e-4, atol=1e-4)


def convolution(activation, taps, channels, bias):
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in
              (("input", ["batch", channels, "seq"]), ("weight", [channels, 1, taps]), ("past", ["batch", channels, taps - 1]))]
    if bias:
        inputs.append(helper.make_tensor_value_info("bias", TensorProto.FLOAT, [channels]))
    outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", channels, "seq"]),
               helper.make_tensor_value_info("present", TensorProto.FLOAT, ["batch", channels, taps - 1])]
    node = helper.make_node("CausalConvWithState", ["input", "weight", "bias" if bias else "", "past"], ["output", "present"], name="conv",
                            activation=activation)
    return helper.make_model(helper.make_graph([node], "conv", inputs, outputs), opset_imports=[helper.make_opsetid("", 27)], ir_version=13)


@MODES
@pytest.mark.parametrize("activation, taps, bias", [("silu", 4, False), ("none", 4, True), ("silu", 2, True), ("none", 3, False)])
def test_short_convolution(activation, taps, bias, mode, compute):
    """Equal to the sum over taps; sequences shorter than the window; any split; later inputs leave earlier outputs alone."""
    rng, channels = np.random.default_rng(), 24
    model = convolution(activation, taps, channels, bias)
    shapes = {"input": (2, channels, 21), "weight": (channels, 1, taps), "past": (2, channels, taps - 1), **({"bias": (channels,)} if bias else {})}
    feed = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    rows = np.concatenate([feed["past"], feed["input"]], -1).astype(np.float64)
    want = sum(rows[..., j:j + 21] * feed["weight"][:, 0, j, None] for j in range(taps)) + (feed["bias"][:, None] if bias else 0)
    want = want / (1 + np.exp(-want)) if activation == "silu" else want
    whole = compute(model, feed, mode)
    np.testing.assert_allclose(whole["output"], want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(whole["present"], feed["input"][..., 1 - taps:])
    for parts in ([1, 1, 1, 18], [2, 19], [20, 1]):
        state, outputs, first = feed["past"], [], 0
        for length in parts:
            out = compute(model, {**feed, "input": feed["input"][..., first:first + length], "past": state}, mode)
            outputs.append(out["output"])
            state, first = out["present"], first + length
        np.testing.assert_allclose(np.concatenate(outputs, -1), whole["output"], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(state, whole["present"])
    other = {**feed, "input": np.concatenate([feed["input"][..., :9], rng.standard_normal((2, channels, 12)).astype(np.float32)], -1)}
    assert compute(model, other, mode)["output"][..., :9].tobytes() == whole["output"][..., :9].tobytes()
