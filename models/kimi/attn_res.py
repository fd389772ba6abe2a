"""Attention residuals: the input of a sub-layer is a mix over depth, not a running sum.

  V = [bank ..., p];  s_i = RMSNorm(V_i; w_norm) . w_proj;  mix = sum_i softmax(s)_i V_i, in fp32

The bank holds the embedding and the sums of earlier blocks of layers; p is the sum of the present block so far. Where a block
starts, p joins the bank and starts anew with the layer's own output. (Kimi K3 report, equations 8 to 10.)
"""
from .graph import FLOAT


class Residual:
    """The residual stream of a model: plain sums where `block` is 0."""

    def __init__(self, g, c, embedding):
        self.g, self.c, self.bank, self.sum = g, c, [], embedding

    def mixed(self, norm, proj, name):
        """The input of a sub-layer [B, T, hidden]."""
        g, c = self.g, self.c
        if not self.bank:
            return self.sum
        live = g.op("Unsqueeze", [self.sum, g.const([-2])], f"{name}.live")
        sources = g.f32(g.op("Concat", [*self.bank, live], f"{name}.sources", axis=-2), f"{name}.sources")
        keys = g.op("RMSNormalization", [sources, g.tensor(f"{norm}.weight", (c.hidden,), FLOAT)], f"{name}.keys", axis=-1, epsilon=c.eps,
                    stash_type=1)
        scores = g.op("MatMul", [keys, g.matrix(f"{proj}.weight", 1, c.hidden, FLOAT)], f"{name}.scores")
        shares = g.op("Mul", [g.op("Softmax", [scores], f"{name}.shares", axis=-2), sources], f"{name}.parts")
        return g.act(g.op("ReduceSum", [shares, g.const([-2])], name, keepdims=0), f"{name}.bf16")

    def close(self):
        """Starts a block: what was summed joins the bank."""
        self.bank.append(self.g.op("Unsqueeze", [self.sum, self.g.const([-2])], "closed"))
        self.sum = None

    def add(self, value, name):
        self.sum = value if self.sum is None else self.g.op("Add", [self.sum, value], name)
