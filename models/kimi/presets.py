"""Named configurations, in the form of a released config.json: two of full size, and small ones that are complete.

`k3-tiny` has every mechanism of K3 with awkward numbers: six heads, an AttnRes block that ends early, two MLA layers at the
end. Its variants each change what their comment says.
"""
import copy

MXFP4 = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 32}}}}


def _kinds(layers, mla):
    """The two lists of 1-based layer numbers."""
    return {"full_attn_layers": list(mla), "kda_layers": [i for i in range(1, layers + 1) if i not in mla]}


def _k3(layers, mla, block, hidden, vocab, kda, heads, ranks, dims, dense, experts, latent, context):
    """kda (heads, head dim); ranks (q, kv); dims (nope, rope, v); experts (count, chosen, shared, width)."""
    text = {"model_type": "kimi_linear", "vocab_size": vocab, "hidden_size": hidden, "num_hidden_layers": layers, "rms_norm_eps": 1e-5,
            "linear_attn_config": {**_kinds(layers, mla), "num_heads": kda[0], "head_dim": kda[1], "short_conv_kernel_size": 4,
                                   "use_full_rank_gate": True, "gate_lower_bound": -5.0},
            "attn_res_block_size": block, "num_attention_heads": heads, "num_key_value_heads": heads, "q_lora_rank": ranks[0],
            "kv_lora_rank": ranks[1], "qk_nope_head_dim": dims[0], "qk_rope_head_dim": dims[1], "v_head_dim": dims[2], "mla_use_nope": True,
            "mla_use_output_gate": True, "intermediate_size": dense, "first_k_dense_replace": 1, "moe_layer_freq": 1,
            "num_experts": experts[0], "num_experts_per_token": experts[1], "num_shared_experts": experts[2],
            "moe_intermediate_size": experts[3], "routed_expert_hidden_size": latent, "latent_moe_use_norm": True,
            "moe_router_activation_func": "sigmoid", "topk_method": "noaux_tc", "use_grouped_topk": True, "num_expert_group": 1,
            "topk_group": 1, "moe_renormalize": True, "routed_scaling_factor": 1.0, "hidden_act": "situ", "activation_situ_beta": 4.0,
            "activation_situ_linear_beta": 25.0, "tie_word_embeddings": False, "num_nextn_predict_layers": 0,
            "max_position_embeddings": context, "quantization_config": MXFP4}
    return {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "dtype": "bfloat16", "text_config": text}


def _kimi_linear(layers, mla, hidden, vocab, kda, heads, kv_rank, dims, dense, experts, context):
    return {"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "dtype": "bfloat16", "vocab_size": vocab,
            "hidden_size": hidden, "num_hidden_layers": layers, "rms_norm_eps": 1e-5,
            "linear_attn_config": {**_kinds(layers, mla), "num_heads": kda[0], "head_dim": kda[1], "short_conv_kernel_size": 4},
            "num_attention_heads": heads, "num_key_value_heads": heads, "q_lora_rank": None, "kv_lora_rank": kv_rank,
            "qk_nope_head_dim": dims[0], "qk_rope_head_dim": dims[1], "v_head_dim": dims[2], "mla_use_nope": True,
            "intermediate_size": dense, "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_experts": experts[0],
            "num_experts_per_token": experts[1], "num_shared_experts": experts[2], "moe_intermediate_size": experts[3],
            "moe_router_activation_func": "sigmoid", "topk_method": "noaux_tc", "use_grouped_topk": True, "num_expert_group": 1,
            "topk_group": 1, "moe_renormalize": True, "routed_scaling_factor": 2.446, "hidden_act": "silu", "tie_word_embeddings": False,
            "num_nextn_predict_layers": 0, "max_position_embeddings": context}


def _variant(base, linear=None, **changes):
    config = copy.deepcopy(base)
    config["text_config"].update(changes)
    config["text_config"]["linear_attn_config"].update(linear or {})
    return config


K3 = _k3(93, [*range(4, 93, 4), 93], 12, 7168, 163840, (96, 128), 96, (1536, 512), (128, 64, 128), 33792, (896, 16, 2, 3072), 3584, 1 << 20)
K3_TINY = _k3(9, [4, 8, 9], 4, 256, 512, (6, 32), 6, (96, 64), (32, 16, 32), 320, (24, 4, 2, 96), 128, 4096)

K3_PRESETS = {
    "k3": K3,
    "k3-tiny": K3_TINY,
    # the head dims of the full model
    "k3-tiny-128": _variant(K3_TINY, {"num_heads": 3, "head_dim": 128}, num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=512,
                            qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
    # a boundary is always a KDA layer, and the last block has several layers but is not full
    "k3-13": _variant(K3_TINY, _kinds(13, [4, 8, 12, 13]), num_hidden_layers=13, attn_res_block_size=8),
    # a boundary on an MLA layer, and a last block that is full
    "block-3": _variant(K3_TINY, attn_res_block_size=3),
    "grouped": _variant(K3_TINY, num_expert_group=4, topk_group=2, routed_scaling_factor=2.446),
}
KIMI_LINEAR_PRESETS = {
    "kimi-linear-48b": _kimi_linear(27, [4, 8, 12, 16, 20, 24, 27], 2304, 163840, (32, 128), 32, 512, (128, 64, 128), 9216, (256, 8, 1, 1024), 1 << 20),
    "kl-tiny": _kimi_linear(7, [4, 7], 256, 512, (6, 32), 6, 64, (32, 16, 32), 320, (24, 4, 1, 96), 4096),
}
