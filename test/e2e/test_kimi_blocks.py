"""The bf16 graphs of the shared checkpoints, block by block: each is given the reference's input and must be within 1e-2 of the
reference's output by norm. (Whole logits are no test in bf16: a small difference may choose another expert.)
"""
import pytest
from kimi_blocks import Blocks, by_reference_evaluator
from kimi_models import CHECKPOINTS, FAMILY

TOLERANCE = 1e-2


@pytest.fixture(scope="module", params=FAMILY)
def blocks(request, tmp_path_factory):
    if not (CHECKPOINTS / request.param).exists():
        pytest.skip(f"the larger cases are not at {CHECKPOINTS}")
    return Blocks(request.param, tmp_path_factory.mktemp(request.param), "--dtype", "bf16")


def test_mixers_and_feed_forward(blocks):
    flipped = 0
    for layer in range(blocks.config.layers):
        error = blocks.error(*blocks.attention(layer), by_reference_evaluator)
        assert error <= TOLERANCE, f"attention of layer {layer}: {error}"
        tokens = blocks.same_routes(layer)
        flipped += (~tokens).sum()
        error = blocks.error(*blocks.feed_forward(layer), by_reference_evaluator, tokens)
        assert error <= TOLERANCE, f"feed-forward of layer {layer}: {error}"
    assert flipped <= 2


def test_mixes_over_depth_and_norms(blocks):
    c = blocks.config
    if not c.block:
        pytest.skip("the model has plain residuals")
    bank, live, name = {}, blocks.act(0, "1mix"), None

    def mixed(output, want):
        if bank:
            feed = {n: v[None, :, None] for n, v in bank.items()}
            feed[name] = live[None]
            error = blocks.error(feed, output, want, by_reference_evaluator)
            assert error <= TOLERANCE, f"{output}: {error}"

    for layer in range(c.layers):
        p = f"layers.{layer}"
        mixed(f"{p}.self_attention_res", blocks.act(layer, "1mix"))
        starts, attention = layer % c.block == 0, blocks.act(layer, "3attn")
        if starts:
            bank[f"{p}.closed"] = live
        live, name = (attention, f"{p}.self_attn.o_proj") if starts else (live + attention, f"{p}.attn_sum")
        mixed(f"{p}.mlp_res", blocks.act(layer, "4mix"))
        error = blocks.error({f"{p}.mlp_res.bf16": blocks.act(layer, "4mix")[None]}, f"{p}.post_attention_layernorm", blocks.act(layer, "5norm"),
                             by_reference_evaluator)
        assert error <= TOLERANCE, f"norm of layer {layer}: {error}"
        live, name = blocks.act(layer, "7out"), f"{p}.ffn_sum"
    mixed("output_attn_res", blocks.act("Z", "1mix"))
    assert len(bank) == -(-c.layers // c.block)
