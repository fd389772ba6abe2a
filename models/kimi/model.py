"""The whole graph: embedding, layers, final norm, head."""
from onnx import TensorProto

from .attn_res import Residual
from .graph import FLOAT
from .kda import kda
from .mla import mla, visibility
from .moe import mlp, moe
from .states import States


def build(g, c, cache="latent", unpack=False):
    """Adds the model to graph `g`: input_ids [batch, seq] int64 and the states in; logits [batch, seq, vocab] fp32 and the
    states out. `unpack` writes MXFP4 experts as plain matrices."""
    g.input("input_ids", TensorProto.INT64, ["batch", "seq"])
    logits = g.output("logits", FLOAT, ["batch", "seq", c.vocab])
    states = States(g, c, cache)
    embedding = g.tensor("model.embed_tokens.weight", (c.vocab, c.hidden))
    x = Residual(g, c, g.op("Gather", [embedding, "input_ids"], "embed_tokens", axis=0))
    visible = visibility(g, f"past_key_values.{min(c.mla_layers)}.latent") if cache == "latent" and c.mla_layers else None
    for index in range(c.layers):
        with g.scope(f"layers.{index}"):
            _layer(g, c, states, index, x, visible, unpack)
    out = x.mixed("model.output_attn_res_norm", "model.output_attn_res_proj", "output_attn_res")
    out = g.norm(out, "model.norm", c.hidden, c.eps, "norm")
    if c.tied:
        head = g.op("Transpose", [embedding], "lm_head.weight_t", perm=[1, 0])
    else:
        head = g.matrix("lm_head.weight", c.vocab, c.hidden)
    if g.type == FLOAT:
        g.op("MatMul", [out, head], logits)
    else:
        g.op("Cast", [g.op("MatMul", [out, head], "lm_head")], logits, to=FLOAT)


def _layer(g, c, states, index, x, visible, unpack):
    p = f"model.layers.{index}"
    h = x.mixed(f"{p}.self_attention_res_norm", f"{p}.self_attention_res_proj", "self_attention_res")
    h = g.norm(h, f"{p}.input_layernorm", c.hidden, c.eps, "input_layernorm")
    if c.block and index % c.block == 0:
        x.close()
    with g.scope("self_attn"):
        out = mla(g, c, states, index, h, visible) if c.is_mla(index) else kda(g, c, states, index, h)
    x.add(out, "attn_sum")
    h = x.mixed(f"{p}.mlp_res_norm", f"{p}.mlp_res_proj", "mlp_res")
    h = g.norm(h, f"{p}.post_attention_layernorm", c.hidden, c.eps, "post_attention_layernorm")
    if c.is_moe(index):
        with g.scope("block_sparse_moe"):
            out = moe(g, c, h, f"{p}.block_sparse_moe", unpack)
    else:
        with g.scope("mlp"):
            out = mlp(g, c, h, f"{p}.mlp", c.dense_width)
    x.add(out, "ffn_sum")
