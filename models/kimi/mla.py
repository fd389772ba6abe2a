"""Multi-head latent attention without rotary embeddings.

  q = x Wq  or  RMSNorm(x Wqa) Wqb;  [c ; r] = x Wkva;  c = RMSNorm(c);  r is shared by the heads and not rotated
  expanded   [k ; v] = c Wkvb per head;  o = softmax([q_nope ; q_rope] [k ; r]^T / sqrt(nope + rope), causal) v
  latent     the cache holds [c ; r] alone:  q^ = q_nope Wuk;  o^ = softmax([q^ ; q_rope] [c ; r]^T / sqrt(nope + rope)) c;  o = o^ Wuv
             with Wuk, Wuv the two row blocks of Wkvb of a head: attention with one key head, whose value is part of the key
  y = (o sigmoid(x Wg)) Wo;  without the gate in Kimi Linear
"""
from . import data_file


def mla(g, c, states, layer, x, visible):
    """x [B, T, hidden] (normed) -> [B, T, hidden]. `visible` [T, past + T] is the mask that the latent form needs."""
    p = f"model.layers.{layer}.self_attn"
    q = _queries(g, c, p, x)
    joint = g.linear(x, f"{p}.kv_a_proj_with_mqa", c.kv_lora + c.rope, c.hidden, "kv_a_proj_with_mqa")
    latent, shared = g.op("Split", [joint, g.const([c.kv_lora, c.rope])], "kv_a", "k_rope", axis=-1)
    latent = g.norm(latent, f"{p}.kv_a_layernorm", c.kv_lora, c.lora_eps, "kv_a_layernorm")
    mix = _latent if states.cache == "latent" else _expanded
    out = mix(g, c, states, layer, q, latent, shared, visible)
    if c.mla_gate:
        gate = g.op("Sigmoid", [g.linear(x, f"{p}.g_proj", c.heads * c.v_dim, c.hidden, "g_proj")], "gate")
        out = g.op("Mul", [out, gate], "gated")
    return g.linear(out, f"{p}.o_proj", c.hidden, c.heads * c.v_dim, "o_proj")


def _queries(g, c, p, x):
    """[B, T, heads (nope + rope)]"""
    width = c.heads * (c.nope + c.rope)
    if c.q_lora is None:
        return g.linear(x, f"{p}.q_proj", width, c.hidden, "q_proj")
    low = g.norm(g.linear(x, f"{p}.q_a_proj", c.q_lora, c.hidden, "q_a_proj"), f"{p}.q_a_layernorm", c.q_lora, c.lora_eps, "q_a_layernorm")
    return g.linear(low, f"{p}.q_b_proj", width, c.q_lora, "q_b_proj")


def _expanded(g, c, states, layer, q, latent, shared, _):
    p, heads = f"model.layers.{layer}.self_attn", c.heads
    both = g.linear(latent, f"{p}.kv_b_proj", heads * (c.nope + c.v_dim), c.kv_lora, "kv_b_proj")
    both = g.op("Reshape", [both, g.const([0, 0, heads, c.nope + c.v_dim])], "kv_b_proj.heads")
    k, v = g.op("Split", [both, g.const([c.nope, c.v_dim])], "k_nope", "v.heads", axis=-1)
    shape = g.op("Concat", [g.op("Shape", [k], "k_nope.shape", start=0, end=3), g.const([c.rope])], "k_rope.shape", axis=0)
    shared = g.op("Expand", [g.op("Unsqueeze", [shared, g.const([2])], "k_rope.head"), shape], "k_rope.heads")
    k = g.op("Reshape", [g.op("Concat", [k, shared], "k.heads", axis=-1), g.const([0, 0, heads * (c.nope + c.rope)])], "k")
    v = g.op("Reshape", [v, g.const([0, 0, heads * c.v_dim])], "v")
    (past_k, present_k), (past_v, present_v) = states.expanded(layer)
    settings = dict(is_causal=1, q_num_heads=heads, kv_num_heads=heads, scale=(c.nope + c.rope) ** -0.5, softmax_precision=1)
    if not past_k:
        return g.op("Attention", [q, k, v], "attention", **settings)
    return g.op("Attention", [q, k, v, "", past_k, past_v], "attention", present_k, present_v, **settings)[0]


def _latent(g, c, states, layer, q, latent, shared, visible):
    p, heads = f"model.layers.{layer}.self_attn", c.heads
    past, present = states.latent(layer)
    entry = g.op("Concat", [latent, shared], "entry", axis=-1)
    cache = g.op("Concat", [past, entry], present, axis=1)
    q = g.op("Reshape", [q, g.const([0, 0, heads, c.nope + c.rope])], "q.heads")
    q = g.op("Transpose", [q], "q", perm=[0, 2, 1, 3])
    nope, rope = g.op("Split", [q, g.const([c.nope, c.rope])], "q_nope", "q_rope", axis=-1)
    up_k = _block_of_kv_b(g, c, p, "w_uk", (heads, c.nope, c.kv_lora), slice(0, c.nope), transpose=False)
    up_v = _block_of_kv_b(g, c, p, "w_uv_t", (heads, c.kv_lora, c.v_dim), slice(c.nope, None), transpose=True)
    q = g.op("Concat", [g.op("MatMul", [nope, up_k], "q_latent"), rope], "q_absorbed", axis=-1)
    key = g.op("Unsqueeze", [cache, g.const([1])], "key")
    value = g.op("Slice", [key, g.const([0]), g.const([c.kv_lora]), g.const([3])], "value")
    mixed = g.op("Attention", [q, key, value, visible], "attention", scale=(c.nope + c.rope) ** -0.5, softmax_precision=1)
    out = g.op("Transpose", [g.op("MatMul", [mixed, up_v], "v_heads")], "v_rows", perm=[0, 2, 1, 3])
    return g.op("Reshape", [out, g.const([0, 0, heads * c.v_dim])], "v")


def _block_of_kv_b(g, c, p, name, shape, rows, transpose):
    """The rows of kv_b_proj [heads (nope + v), rank] that make keys, or values, of every head."""
    origin = f"{p}.kv_b_proj.weight"

    def pieces(dtype):
        block = g.source.load(origin).reshape(c.heads, c.nope + c.v_dim, c.kv_lora)[:, rows]
        return data_file.rows_of(block.swapaxes(1, 2) if transpose else block, dtype)

    return g.weight(f"{p}.{name}", g.type, shape, pieces, g.source.dtype(origin))


def visibility(g, past):
    """[T, past + T] bool, once for all layers: query i sees key j where j <= past + i. `past` is a latent cache [B, past, ...]."""
    before = g.op("Shape", [past], "past_length", start=1, end=2)
    total = g.op("Squeeze", [g.op("Add", [before, g.op("Shape", ["input_ids"], "seq_length", start=1, end=2)], "total_length")], "total")
    queries = g.op("Range", [g.op("Squeeze", [before], "past"), total, g.const(1)], "query_positions")
    keys = g.op("Range", [g.const(0), total, g.const(1)], "key_positions")
    return g.op("LessOrEqual", [g.op("Unsqueeze", [keys, g.const([0])], "keys"), g.op("Unsqueeze", [queries, g.const([1])], "queries")], "visible")
