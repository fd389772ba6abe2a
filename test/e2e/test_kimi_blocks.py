"""The bf16 graphs of the shared checkpoints, block by block: each is given the reference's input and must be within 1e-2 of the
reference's output by norm. (Whole logits are no test in bf16: a small difference may choose another expert.)

ONNX's reference evaluator runs the blocks, rounding every bf16 value and unpacking MXFP4. Its RMSNormalization computes statistics
in bf16, against the standard, and is replaced.
"""
import ml_dtypes
import numpy as np
import onnx
import pytest
from kimi_models import CHECKPOINTS, export
from kimi_oracle import Oracle
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from kimi import config, sources

TOLERANCE = 1e-2
FAMILY = {"k3-64": "k3", "kl-64": "kimi_linear"}


class RMSNormalization(OpRun):
    """As the standard says: the normalised value in fp32, cast to X's type, times the scale."""
    op_domain = ""

    def _run(self, x, scale, axis=None, epsilon=None, stash_type=None):
        assert axis == -1 and stash_type == 1
        wide = x.astype(np.float32)
        normed = wide / np.sqrt(np.mean(wide * wide, -1, keepdims=True) + np.float32(epsilon))
        return ((normed.astype(x.dtype) * scale).astype(x.dtype),)


class Blocks:
    """A bf16 graph that can be cut at named values, and the reference's activations of a prompt of 17 tokens."""

    def __init__(self, name, folder):
        path = export(FAMILY[name], folder, "--checkpoint", CHECKPOINTS / name, "--dtype", "bf16")
        self.model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
        for node in self.model.graph.node:
            if node.op_type == "GatherElements":  # the evaluator does not know negative axes of this one
                next(a for a in node.attribute if a.name == "axis").i = 2
        self.config = config.load(CHECKPOINTS / name / "config.json")
        self.oracle = Oracle(self.config, sources.Checkpoint(str(CHECKPOINTS / name), self.config))
        self.extractor = onnx.utils.Extractor(self.model)
        self.acts = np.load(CHECKPOINTS / name / "acts_T17.npz")
        self.states = {i.name: i.type.tensor_type for i in self.model.graph.input[1:]}

    def act(self, layer, key):
        return self.acts[f"{layer if isinstance(layer, str) else f'L{layer:02}'}.{key}"]

    def states_of(self, layer):
        """The states of a layer before the first token."""
        found = {n: t for n, t in self.states.items() if n.startswith(f"past_key_values.{layer}.")}
        return {n: np.zeros([{"batch": 1, "past": 0}.get(d.dim_param, d.dim_value) for d in t.shape.dim],
                            np.float32 if t.elem_type == onnx.TensorProto.FLOAT else ml_dtypes.bfloat16) for n, t in found.items()}

    def same_routes(self, layer):
        """[T] bool: tokens whose experts are the same when the input of the router is rounded to bf16."""
        x = self.act(layer, "5norm")
        exact, rounded = (self.oracle.routes(v.astype(np.float64), f"model.layers.{layer}.block_sparse_moe")[0]
                          for v in (x, x.astype(ml_dtypes.bfloat16)))
        return (np.sort(exact, -1) == np.sort(rounded, -1)).all(-1)

    def error(self, feed, output, want, tokens=slice(None)):
        """Norm of the difference over the norm of `want`, of the tokens given."""
        block = self.extractor.extract_model(list(feed), [output])
        got, = ReferenceEvaluator(block, new_ops=[RMSNormalization]).run(None, {n: v if v.dtype != np.float32 or n in self.states else v.astype(ml_dtypes.bfloat16) for n, v in feed.items()})
        got = got.astype(np.float64).reshape(want.shape)
        assert np.isfinite(got).all()
        return np.linalg.norm((got - want)[tokens]) / np.linalg.norm(want[tokens])


@pytest.fixture(scope="module", params=FAMILY)
def blocks(request, tmp_path_factory):
    if not (CHECKPOINTS / request.param).exists():
        pytest.skip(f"the larger cases are not at {CHECKPOINTS}")
    return Blocks(request.param, tmp_path_factory.mktemp(request.param))


def test_mixers_and_feed_forward(blocks):
    c, visible = blocks.config, np.tril(np.ones((17, 17), bool))
    flipped = 0
    for layer in range(c.layers):
        p = f"layers.{layer}"
        feed = {f"{p}.input_layernorm": blocks.act(layer, "2norm")[None], **blocks.states_of(layer)}
        if layer in c.mla_layers:
            feed["visible"] = visible
        error = blocks.error(feed, f"{p}.self_attn.o_proj", blocks.act(layer, "3attn"))
        assert error <= TOLERANCE, f"attention of layer {layer}: {error}"
        output, tokens = f"{p}.mlp.down_proj", np.ones(17, bool)
        if c.is_moe(layer):
            output, tokens = f"{p}.block_sparse_moe.out", blocks.same_routes(layer)
            flipped += 17 - tokens.sum()
        error = blocks.error({f"{p}.post_attention_layernorm": blocks.act(layer, "5norm")[None]}, output, blocks.act(layer, "6ffn"), tokens)
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
            error = blocks.error(feed, output, want)
            assert error <= TOLERANCE, f"{output}: {error}"

    for layer in range(c.layers):
        p = f"layers.{layer}"
        mixed(f"{p}.self_attention_res", blocks.act(layer, "1mix"))
        starts, attention = layer % c.block == 0, blocks.act(layer, "3attn")
        if starts:
            bank[f"{p}.closed"] = live
        live, name = (attention, f"{p}.self_attn.o_proj") if starts else (live + attention, f"{p}.attn_sum")
        mixed(f"{p}.mlp_res", blocks.act(layer, "4mix"))
        error = blocks.error({f"{p}.mlp_res.bf16": blocks.act(layer, "4mix")[None]}, f"{p}.post_attention_layernorm", blocks.act(layer, "5norm"))
        assert error <= TOLERANCE, f"norm of layer {layer}: {error}"
        live, name = blocks.act(layer, "7out"), f"{p}.ffn_sum"
    mixed("output_attn_res", blocks.act("Z", "1mix"))
    assert len(bank) == -(-c.layers // c.block)
