"""Feed-forward layers: gated linear units, the router, routed and shared experts.

  SiTU   a(g, u) = [beta tanh(g / beta) sigmoid(g)] [beta2 tanh(u / beta2)], in fp32;   SwiGLU  a(g, u) = g sigmoid(g) u
  MLP    y = a(x Wgate, x Wup) Wdown
  router s = sigmoid(x Wr) in fp32; the k largest of s + bias (within the best groups); w = s of those / (sum + 1e-20) * scaling
  MoE    z = x Win;  y = RMSNorm(sum_e w_e a(z W1_e, z W3_e) W2_e) Wout + MLP(x): Win, Wout and the norm in K3 only

Experts are stacked, [experts, in, out], and all of them appear in the products: their weights w_e are zero but for the k
chosen ones, so an engine is free to compute only these.
"""
import numpy as np
from onnx import TensorProto, helper

from . import data_file, mxfp4
from .graph import BFLOAT16, FLOAT, NUMPY


def glu(g, c, gate, up, name):
    """The product of two halves, with the activations' type."""
    if c.act == "silu":
        return g.op("Mul", [g.op("Mul", [gate, g.op("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.silu"), up], name)
    gate, up = g.f32(gate, f"{name}.gate"), g.f32(up, f"{name}.up")
    bounded = g.op("Mul", [g.op("Mul", [g.scalar(c.beta), _tanh(g, gate, c.beta, f"{name}.gate")], f"{name}.gate.bounded"),
                           g.op("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.gate.situ")
    if c.linear_beta is not None:
        up = g.op("Mul", [g.scalar(c.linear_beta), _tanh(g, up, c.linear_beta, f"{name}.up")], f"{name}.up.bounded")
    return g.act(g.op("Mul", [bounded, up], f"{name}.situ"), name)


def _tanh(g, x, beta, name):
    return g.op("Tanh", [g.op("Div", [x, g.scalar(beta)], f"{name}.scaled")], f"{name}.tanh")


def mlp(g, c, x, prefix, width):
    """x [B, T, hidden] -> [B, T, hidden] through `width`."""
    gate = g.linear(x, f"{prefix}.gate_proj", width, c.hidden, "gate_proj")
    up = g.linear(x, f"{prefix}.up_proj", width, c.hidden, "up_proj")
    return g.linear(glu(g, c, gate, up, "glu"), f"{prefix}.down_proj", c.hidden, width, "down_proj")


def router(g, c, x, prefix):
    """Weights of all experts [B, T, experts], fp32, zero for those not chosen."""
    matrix = g.matrix(f"{prefix}.weight", c.experts, c.hidden, FLOAT)
    logits = g.op("MatMul", [g.f32(x, "x"), matrix], "logits")
    scores = g.op("Softmax", [logits], "scores", axis=-1) if c.router == "softmax" else g.op("Sigmoid", [logits], "scores")
    choice = g.op("Add", [scores, g.parameter(f"{prefix}.e_score_correction_bias", (c.experts,))], "choice")
    if c.groups > c.topk_groups:
        choice = _best_groups(g, c, choice)
    _, chosen = g.op("TopK", [choice, g.const([c.topk])], "top", "chosen", axis=-1, largest=1, sorted=1)
    weights = g.op("GatherElements", [scores, chosen], "weights", axis=-1)
    if c.renormalize and c.topk > 1:
        total = g.op("Add", [g.op("ReduceSum", [weights, g.const([-1])], "weights.total", keepdims=1), g.scalar(1e-20)], "weights.total_eps")
        weights = g.op("Div", [weights, total], "weights.shares")
    if c.scaling != 1:
        weights = g.op("Mul", [weights, g.scalar(c.scaling)], "weights.scaled")
    none = g.op("ConstantOfShape", [g.op("Shape", [scores], "scores.shape")], "none", value=helper.make_tensor("value", FLOAT, [1], [0.0]))
    return g.op("ScatterElements", [none, chosen, weights], "routes", axis=-1)


def _best_groups(g, c, choice):
    """Scores with -inf outside the best groups; a group is worth the sum of its two best scores."""
    size = c.experts // c.groups
    groups = g.op("Reshape", [choice, g.const([0, 0, c.groups, size])], "choice.groups")
    best, _ = g.op("TopK", [groups, g.const([2])], "group.best", "group.best_at", axis=-1)
    worth = g.op("ReduceSum", [best, g.const([-1])], "group.worth", keepdims=0)
    _, kept = g.op("TopK", [worth, g.const([c.topk_groups])], "group.top", "group.kept", axis=-1)
    ones = g.op("Expand", [g.scalar(1), g.op("Shape", [kept], "group.kept.shape")], "group.ones")
    mask = g.op("ScatterElements", [g.op("Mul", [worth, g.scalar(0)], "group.none"), kept, ones], "group.mask", axis=-1)
    keep = g.op("Greater", [g.op("Unsqueeze", [mask, g.const([-1])], "group.mask.column"), g.scalar(0.5)], "group.keep")
    kept = g.op("Where", [keep, groups, g.const(-np.inf, np.float32)], "choice.kept")
    return g.op("Reshape", [kept, g.const([0, 0, c.experts])], "choice.masked")


class Experts:
    """The three stacked matrices of a layer's routed experts. MXFP4 stays MXFP4 through DequantizeLinear, or is unpacked
    when the data is written."""

    def __init__(self, g, c, prefix, unpack):
        self.g, self.c, self.prefix, self.unpack = g, c, prefix, unpack

    def product(self, x, which, rows, columns):
        """x [experts or 1, N, columns] times the matrices [experts, rows, columns], transposed."""
        packed = self.g.source.form(self.name(0, which)) == "mxfp4"
        weight = self._packed(which, rows, columns) if packed and not self.unpack else self._plain(which, rows, columns, packed)
        return self.g.op("MatMul", [x, weight], which)

    def name(self, index, which):
        return f"{self.prefix}.experts.{index}.{which}.weight"

    def _packed(self, which, rows, columns):
        g, name = self.g, f"{self.prefix}.experts.{which}"

        def bytes_of(end):
            return lambda: (g.source.load(self.name(i, which) + end) for i in range(self.c.experts))

        values = g.initializer(f"{name}.packed", TensorProto.FLOAT4E2M1, (self.c.experts, rows, columns), bytes_of("_packed"))
        scales = g.initializer(f"{name}.scale", TensorProto.FLOAT8E8M0, (self.c.experts, rows, columns // mxfp4.GROUP), bytes_of("_scale"))
        wide = g.op("DequantizeLinear", [values, scales], f"{which}.dequantized", axis=2, block_size=mxfp4.GROUP, output_dtype=g.type)
        return g.op("Transpose", [wide], f"{which}.t", perm=[0, 2, 1])

    def _plain(self, which, rows, columns, packed):
        g = self.g

        def one(index):
            name = self.name(index, which)
            return mxfp4.dequantize(g.source.load(f"{name}_packed"), g.source.load(f"{name}_scale")) if packed else g.source.load(name)

        def pieces(dtype):
            return (piece for i in range(self.c.experts) for piece in data_file.rows_of(one(i).T, dtype))

        given = NUMPY[BFLOAT16] if packed else g.source.dtype(self.name(0, which))  # bf16 holds every value of MXFP4
        return g.weight(f"{self.prefix}.experts.{which}_t", g.type, (self.c.experts, columns, rows), pieces, given)


def moe(g, c, x, prefix, unpack):
    """x [B, T, hidden] -> [B, T, hidden]."""
    with g.scope("gate"):
        routes = router(g, c, x, f"{prefix}.gate")
    z = g.linear(x, f"{prefix}.routed_expert_down_proj", c.latent, c.hidden, "routed_expert_down_proj") if c.latent else x
    with g.scope("experts"):
        y = _routed(g, c, z, routes, Experts(g, c, prefix, unpack))
        shape = g.op("Concat", [g.op("Shape", [x], "lead", start=0, end=2), g.const([c.expert_in])], "shape", axis=0)
        y = g.op("Reshape", [y, shape], "sum")
    if c.latent:
        if c.latent_norm:
            y = g.norm(y, f"{prefix}.routed_expert_norm", c.latent, c.eps, "routed_expert_norm")
        y = g.linear(y, f"{prefix}.routed_expert_up_proj", c.hidden, c.latent, "routed_expert_up_proj")
    if c.shared_experts:
        with g.scope("shared_experts"):
            shared = mlp(g, c, x, f"{prefix}.shared_experts", c.shared_experts * c.expert_width)
        y = g.op("Add", [y, shared], "out")
    return y


def _routed(g, c, z, routes, experts):
    """The weighted sum [N, width] of all experts' outputs; weighted and summed in fp32."""
    rows = g.op("Unsqueeze", [g.op("Reshape", [z, g.const([-1, c.expert_in])], "rows"), g.const([0])], "rows.all")
    gate = experts.product(rows, "w1", c.expert_width, c.expert_in)
    up = experts.product(rows, "w3", c.expert_width, c.expert_in)
    out = experts.product(glu(g, c, gate, up, "glu"), "w2", c.expert_in, c.expert_width)
    by_expert = g.op("Transpose", [g.op("Reshape", [routes, g.const([-1, c.experts])], "routes.rows")], "routes.experts", perm=[1, 0])
    weighted = g.op("Mul", [g.f32(out, "w2"), g.op("Unsqueeze", [by_expert, g.const([2])], "routes.columns")], "weighted")
    return g.act(g.op("ReduceSum", [weighted, g.const([0])], "sum.rows", keepdims=0), "sum.bf16")
