"""Kimi Delta Attention: short convolutions, a gate for each key channel, the gated delta rule, a gated norm.

  q, k, v = silu(conv(x Wq)), silu(conv(x Wk)), silu(conv(x Wv));  q, k <- q / sqrt(sum q^2 + eps), the same for k, per head
  z = (x Fa) Fb + dt_bias
  g = bound sigmoid(exp(A) z)  (K3, bound -5)   or   g = -exp(A) softplus(z)  (Kimi Linear)
  b = sigmoid(x Wb)
  S <- diag(e^g) S;  S <- S + k^T b (v - k S);  o = d^-1/2 q S
  y = (RMSNorm(o) sigmoid(gate(x))) Wo

Everything between the projections is fp32, as in the reference, and rounded where the reference rounds.
"""
from .graph import FLOAT


def kda(g, c, states, layer, x):
    """x [B, T, hidden] (normed) -> [B, T, hidden]."""
    p, heads, dim, width = f"model.layers.{layer}.self_attn", c.kda_heads, c.kda_dim, c.kda_width
    by_head, flat = g.const([0, 0, heads, dim]), g.const([0, 0, width])
    q, k, v = (_convolved(g, c, states, layer, x, which) for which in "qkv")
    q, k = (g.op("Reshape", [_unit(g, c, g.op("Reshape", [t, by_head], f"{n}.heads"), n), flat], f"{n}.unit") for n, t in (("q", q), ("k", k)))
    decay = g.op("Reshape", [_decay(g, c, p, x, by_head), flat], "decay")
    beta = g.op("Sigmoid", [g.f32(g.linear(x, f"{p}.b_proj", heads, c.hidden, "b_proj"), "b_proj")], "beta")
    past, present = states.recurrent(layer)
    mixed, _ = g.op("LinearAttention", [q, k, v, past, decay, beta], "mixed", present, update_rule="gated_delta", q_num_heads=heads,
                    kv_num_heads=heads, scale=dim ** -0.5)
    mixed = g.op("Reshape", [g.rounded(mixed, "mixed"), by_head], "mixed.heads")
    normed = g.op("RMSNormalization", [mixed, g.parameter(f"{p}.o_norm.weight", (dim,))], "o_norm", axis=-1, epsilon=c.eps, stash_type=1)
    gate = g.f32(g.op("Reshape", [_gate(g, c, p, x), by_head], "gate.heads"), "gate")
    gated = g.op("Mul", [normed, g.op("Sigmoid", [gate], "gate.sigmoid")], "gated")
    gated = g.act(g.op("Reshape", [gated, flat], "gated.flat"), "gated.bf16")
    return g.linear(gated, f"{p}.o_proj", c.hidden, width, "o_proj")


def _convolved(g, c, states, layer, x, which):
    """One of q, k, v [B, T, heads dim], fp32, after its projection and its causal depthwise convolution with SiLU."""
    p, width = f"model.layers.{layer}.self_attn", c.kda_width
    projected = g.f32(g.linear(x, f"{p}.{which}_proj", width, c.hidden, f"{which}_proj"), f"{which}_proj")
    rows = g.op("Transpose", [projected], f"{which}_proj.rows", perm=[0, 2, 1])
    past, present = states.window(layer, which)
    narrow = g.type != FLOAT and past
    if narrow:  # the window holds projections, which have the precision of activations: nothing is lost
        past = g.f32(past, f"{which}_conv_state.past")
    weight = g.parameter(f"{p}.{which}_conv1d.weight", (width, 1, c.conv))
    rows, window = g.op("CausalConvWithState", [rows, weight, "", past], f"{which}_conv1d", f"{which}_conv_state" if narrow else present,
                        activation="silu")
    if narrow:
        g.act(window, present)
    return g.rounded(g.op("Transpose", [rows], which, perm=[0, 2, 1]), which)


def _unit(g, c, x, name):
    """x over its length: the sum of squares over the head dim, not the mean."""
    total = g.op("ReduceSum", [g.op("Mul", [x, x], f"{name}.squares"), g.const([-1])], f"{name}.total", keepdims=1)
    length = g.op("Sqrt", [g.op("Add", [total, g.scalar(c.l2_eps)], f"{name}.total_eps")], f"{name}.length")
    return g.op("Mul", [x, g.op("Reciprocal", [length], f"{name}.inverse")], f"{name}.normed")


def _decay(g, c, p, x, by_head):
    """The log-decay [B, T, heads, dim] <= 0."""
    low = g.linear(x, f"{p}.f_a_proj", c.kda_dim, c.hidden, "f_a_proj")
    raw = g.f32(g.linear(low, f"{p}.f_b_proj", c.kda_width, c.kda_dim, "f_b_proj"), "f_b_proj")
    raw = g.op("Reshape", [g.op("Add", [raw, g.parameter(f"{p}.dt_bias", (c.kda_width,))], "dt"), by_head], "dt.heads")
    rate = g.op("Reshape", [g.op("Exp", [g.parameter(f"{p}.A_log", (c.kda_heads,))], "rate"), g.const([c.kda_heads, 1])], "rate.heads")
    if c.lower_bound is None:
        return g.op("Mul", [g.op("Neg", [rate], "rate.neg"), g.op("Softplus", [raw], "dt.softplus")], "decay.heads")
    opened = g.op("Sigmoid", [g.op("Mul", [rate, raw], "dt.scaled")], "dt.sigmoid")
    return g.op("Mul", [g.scalar(c.lower_bound), opened], "decay.heads")


def _gate(g, c, p, x):
    """The output gate before its sigmoid [B, T, heads dim]."""
    if c.full_gate:
        return g.linear(x, f"{p}.g_proj", c.kda_width, c.hidden, "g_proj")
    low = g.linear(x, f"{p}.g_a_proj", c.kda_dim, c.hidden, "g_a_proj")
    return g.linear(low, f"{p}.g_b_proj", c.kda_width, c.kda_dim, "g_b_proj")
