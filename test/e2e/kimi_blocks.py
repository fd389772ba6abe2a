"""The graph of a shared checkpoint cut into blocks, with the reference's activations of a prompt of 17 tokens."""
import ml_dtypes
import numpy as np
import onnx
from kimi_models import CHECKPOINTS, FAMILY, export
from kimi_oracle import Oracle
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from kimi import config, sources


class RMSNormalization(OpRun):
    """As the standard says: the normalised value in fp32, cast to X's type, times the scale."""
    op_domain = ""

    def _run(self, x, scale, axis=None, epsilon=None, stash_type=None):
        assert axis == -1 and stash_type == 1
        wide = x.astype(np.float32)
        normed = wide / np.sqrt(np.mean(wide * wide, -1, keepdims=True) + np.float32(epsilon))
        return ((normed.astype(x.dtype) * scale).astype(x.dtype),)


def by_reference_evaluator(block, feed):
    """The output of a block by ONNX's reference evaluator: every bf16 value is rounded, MXFP4 unpacked."""
    for node in block.graph.node:
        if node.op_type == "GatherElements":  # the evaluator does not know negative axes of this one
            next(a for a in node.attribute if a.name == "axis").i = 2
    return ReferenceEvaluator(block, new_ops=[RMSNormalization]).run(None, feed)[0]


class Blocks:
    """`options` are those of the exporter."""

    def __init__(self, name, folder, *options):
        path = export(FAMILY[name], folder, "--checkpoint", CHECKPOINTS / name, *options)
        self.model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
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
        if not self.config.is_moe(layer):
            return np.ones(17, bool)
        x = self.act(layer, "5norm")
        exact, rounded = (self.oracle.routes(v.astype(np.float64), f"model.layers.{layer}.block_sparse_moe")[0]
                          for v in (x, x.astype(ml_dtypes.bfloat16)))
        return (np.sort(exact, -1) == np.sort(rounded, -1)).all(-1)

    def attention(self, layer):
        """(feed, output, what it should be) of a layer's mixer, with its norm before and its projection after."""
        feed = {f"layers.{layer}.input_layernorm": self.act(layer, "2norm")[None], **self.states_of(layer)}
        if layer in self.config.mla_layers:
            feed["visible"] = np.tril(np.ones((17, 17), bool))
        return feed, f"layers.{layer}.self_attn.o_proj", self.act(layer, "3attn")

    def feed_forward(self, layer):
        """(feed, output, what it should be)"""
        output = "block_sparse_moe.out" if self.config.is_moe(layer) else "mlp.down_proj"
        return {f"layers.{layer}.post_attention_layernorm": self.act(layer, "5norm")[None]}, f"layers.{layer}.{output}", self.act(layer, "6ffn")

    def error(self, feed, output, want, evaluate, tokens=slice(None)):
        """Norm of the difference over the norm of `want`, of the tokens given; `evaluate(block, feed)` computes it."""
        block = self.extractor.extract_model(list(feed), [output])
        narrow = {i.name for i in block.graph.input if i.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16}
        got = evaluate(block, {n: v.astype(ml_dtypes.bfloat16) if n in narrow else v for n, v in feed.items()})
        got = got.astype(np.float64).reshape(want.shape)
        assert np.isfinite(got).all()
        return np.linalg.norm((got - want)[tokens]) / np.linalg.norm(want[tokens])
