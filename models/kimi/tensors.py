"""The tensors of a checkpoint: every name that a configuration implies, with its shape and what it is.

Names are those of the released files without the prefix `language_model.` that K3's carry. A matrix is [out, in].
"""
import dataclasses

# What a tensor is decides which types it may have in a file and how a random one is drawn.
MATRIX = "matrix"
NORM = "norm"
PARAMETER = "parameter"  # fp32 in the released files: convolutions, decays, biases, the norm of KDA's output
A_LOG = "A_log"  # a parameter that may be padded with zeros
EXPERT = "expert"  # a matrix that may be MXFP4: <name>_packed and <name>_scale


@dataclasses.dataclass(frozen=True)
class Spec:
    name: str
    shape: tuple
    kind: str


def mlp(prefix, hidden, width):
    yield Spec(f"{prefix}.gate_proj.weight", (width, hidden), MATRIX)
    yield Spec(f"{prefix}.up_proj.weight", (width, hidden), MATRIX)
    yield Spec(f"{prefix}.down_proj.weight", (hidden, width), MATRIX)


def kda(p, c):
    width, rank = c.kda_width, c.kda_dim
    for n in "qkv":
        yield Spec(f"{p}.{n}_proj.weight", (width, c.hidden), MATRIX)
        yield Spec(f"{p}.{n}_conv1d.weight", (width, 1, c.conv), PARAMETER)
    yield Spec(f"{p}.A_log", (c.kda_heads,), A_LOG)
    yield Spec(f"{p}.dt_bias", (width,), PARAMETER)
    yield Spec(f"{p}.f_a_proj.weight", (rank, c.hidden), MATRIX)
    yield Spec(f"{p}.f_b_proj.weight", (width, rank), MATRIX)
    yield Spec(f"{p}.b_proj.weight", (c.kda_heads, c.hidden), MATRIX)
    if c.full_gate:
        yield Spec(f"{p}.g_proj.weight", (width, c.hidden), MATRIX)
    else:
        yield Spec(f"{p}.g_a_proj.weight", (rank, c.hidden), MATRIX)
        yield Spec(f"{p}.g_b_proj.weight", (width, rank), MATRIX)
    yield Spec(f"{p}.o_norm.weight", (c.kda_dim,), PARAMETER)
    yield Spec(f"{p}.o_proj.weight", (c.hidden, width), MATRIX)


def mla(p, c):
    queries = c.heads * (c.nope + c.rope)
    if c.q_lora is None:
        yield Spec(f"{p}.q_proj.weight", (queries, c.hidden), MATRIX)
    else:
        yield Spec(f"{p}.q_a_proj.weight", (c.q_lora, c.hidden), MATRIX)
        yield Spec(f"{p}.q_a_layernorm.weight", (c.q_lora,), NORM)
        yield Spec(f"{p}.q_b_proj.weight", (queries, c.q_lora), MATRIX)
    yield Spec(f"{p}.kv_a_proj_with_mqa.weight", (c.kv_lora + c.rope, c.hidden), MATRIX)
    yield Spec(f"{p}.kv_a_layernorm.weight", (c.kv_lora,), NORM)
    yield Spec(f"{p}.kv_b_proj.weight", (c.heads * (c.nope + c.v_dim), c.kv_lora), MATRIX)
    if c.mla_gate:
        yield Spec(f"{p}.g_proj.weight", (c.heads * c.v_dim, c.hidden), MATRIX)
    yield Spec(f"{p}.o_proj.weight", (c.hidden, c.heads * c.v_dim), MATRIX)


def expert(p, c, index):
    """The three matrices of one routed expert: w1 gate, w3 up, w2 down."""
    for name, shape in (("w1", (c.expert_width, c.expert_in)), ("w2", (c.expert_in, c.expert_width)), ("w3", (c.expert_width, c.expert_in))):
        yield Spec(f"{p}.experts.{index}.{name}.weight", shape, EXPERT)


def moe(p, c):
    yield Spec(f"{p}.gate.weight", (c.experts, c.hidden), MATRIX)
    yield Spec(f"{p}.gate.e_score_correction_bias", (c.experts,), PARAMETER)
    if c.latent:
        yield Spec(f"{p}.routed_expert_down_proj.weight", (c.latent, c.hidden), MATRIX)
        if c.latent_norm:
            yield Spec(f"{p}.routed_expert_norm.weight", (c.latent,), NORM)
        yield Spec(f"{p}.routed_expert_up_proj.weight", (c.hidden, c.latent), MATRIX)
    if c.shared_experts:
        yield from mlp(f"{p}.shared_experts", c.hidden, c.shared_experts * c.expert_width)
    for index in range(c.experts):
        yield from expert(p, c, index)


def residual_mix(norm, proj, c):
    yield Spec(f"{norm}.weight", (c.hidden,), NORM)
    yield Spec(f"{proj}.weight", (1, c.hidden), MATRIX)


def layer(index, c):
    p = f"model.layers.{index}"
    yield Spec(f"{p}.input_layernorm.weight", (c.hidden,), NORM)
    yield Spec(f"{p}.post_attention_layernorm.weight", (c.hidden,), NORM)
    if c.block:
        yield from residual_mix(f"{p}.self_attention_res_norm", f"{p}.self_attention_res_proj", c)
        yield from residual_mix(f"{p}.mlp_res_norm", f"{p}.mlp_res_proj", c)
    yield from (mla if c.is_mla(index) else kda)(f"{p}.self_attn", c)
    if c.is_moe(index):
        yield from moe(f"{p}.block_sparse_moe", c)
    else:
        yield from mlp(f"{p}.mlp", c.hidden, c.dense_width)


def all_tensors(c):
    """Every Spec of the text model."""
    yield Spec("model.embed_tokens.weight", (c.vocab, c.hidden), MATRIX)
    for index in range(c.layers):
        yield from layer(index, c)
    if c.block:
        yield from residual_mix("model.output_attn_res_norm", "model.output_attn_res_proj", c)
    yield Spec("model.norm.weight", (c.hidden,), NORM)
    if not c.tied:
        yield Spec("lm_head.weight", (c.vocab, c.hidden), MATRIX)
