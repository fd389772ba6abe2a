"""A forward pass of Kimi K3 and Kimi Linear in fp64 numpy, token by token: what the exported graphs are compared with.

It is written from the equations (models/kimi/*.py state them) for one sequence, with nothing shared with the exporter but
the configuration and the loader of weights.
"""
import numpy as np
from kimi import mxfp4


def rms(x, w, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * w


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class Oracle:
    def __init__(self, config, source):
        self.c, self.source, self.read = config, source, {}

    def w(self, name):
        """A tensor of the checkpoint in fp64, MXFP4 or not."""
        if name not in self.read:
            packed = self.source.form(name) == "mxfp4"
            values = mxfp4.dequantize(*(self.source.load(name + end) for end in ("_packed", "_scale"))) if packed else self.source.load(name)
            self.read[name] = values.astype(np.float64)
        return self.read[name]

    def lin(self, x, name):
        return x @ self.w(name + ".weight").T

    def glu(self, g, u):
        if self.c.act == "silu":
            return g * sigmoid(g) * u
        u = u if self.c.linear_beta is None else self.c.linear_beta * np.tanh(u / self.c.linear_beta)
        return self.c.beta * np.tanh(g / self.c.beta) * sigmoid(g) * u

    def mlp(self, x, p):
        return self.lin(self.glu(self.lin(x, p + ".gate_proj"), self.lin(x, p + ".up_proj")), p + ".down_proj")

    def kda(self, x, p):
        c, (T, H, D) = self.c, (len(x), self.c.kda_heads, self.c.kda_dim)

        def conv(which):
            taps = self.w(f"{p}.{which}_conv1d.weight")[:, 0]
            padded = np.concatenate([np.zeros((c.conv - 1, H * D)), self.lin(x, f"{p}.{which}_proj")])
            y = sum(padded[j:j + T] * taps[:, j] for j in range(c.conv))
            return (y * sigmoid(y)).reshape(T, H, D)

        q, k, v = (conv(which) for which in "qkv")
        q, k = (t / np.sqrt((t * t).sum(-1, keepdims=True) + c.l2_eps) for t in (q, k))
        z = (self.lin(self.lin(x, p + ".f_a_proj"), p + ".f_b_proj") + self.w(p + ".dt_bias")).reshape(T, H, D)
        rate = np.exp(self.w(p + ".A_log"))[:, None]
        decay = -rate * np.logaddexp(0, z) if c.lower_bound is None else c.lower_bound * sigmoid(rate * z)
        beta = sigmoid(self.lin(x, p + ".b_proj"))
        state, out = np.zeros((H, D, D)), np.zeros((T, H, D))
        for t in range(T):
            state = np.exp(decay[t])[:, :, None] * state
            update = beta[t][:, None] * (v[t] - np.einsum("hk,hkv->hv", k[t], state))
            state = state + k[t][:, :, None] * update[:, None, :]
            out[t] = D ** -0.5 * np.einsum("hk,hkv->hv", q[t], state)
        gate = self.lin(x, p + ".g_proj") if c.full_gate else self.lin(self.lin(x, p + ".g_a_proj"), p + ".g_b_proj")
        return self.lin((rms(out, self.w(p + ".o_norm.weight"), c.eps) * sigmoid(gate.reshape(T, H, D))).reshape(T, -1), p + ".o_proj")

    def mla(self, x, p):
        c, (T, H) = self.c, (len(x), self.c.heads)
        if c.q_lora is None:
            q = self.lin(x, p + ".q_proj")
        else:
            q = self.lin(rms(self.lin(x, p + ".q_a_proj"), self.w(p + ".q_a_layernorm.weight"), c.lora_eps), p + ".q_b_proj")
        joint = self.lin(x, p + ".kv_a_proj_with_mqa")
        both = self.lin(rms(joint[:, :c.kv_lora], self.w(p + ".kv_a_layernorm.weight"), c.lora_eps), p + ".kv_b_proj").reshape(T, H, -1)
        k = np.concatenate([both[..., :c.nope], np.broadcast_to(joint[:, None, c.kv_lora:], (T, H, c.rope))], -1)
        scores = np.einsum("thd,shd->hts", q.reshape(T, H, -1), k) * (c.nope + c.rope) ** -0.5
        scores[:, np.triu(np.ones((T, T), bool), 1)] = -np.inf
        out = np.einsum("hts,shd->thd", softmax(scores), both[..., c.nope:]).reshape(T, -1)
        return self.lin(out * sigmoid(self.lin(x, p + ".g_proj")) if c.mla_gate else out, p + ".o_proj")

    def routes(self, x, p):
        """(chosen experts [T, k], their weights [T, k]); of equal scores the lowest index wins."""
        c = self.c
        logits = self.lin(x, p + ".gate")
        scores = softmax(logits) if c.router == "softmax" else sigmoid(logits)
        left = scores + self.w(p + ".gate.e_score_correction_bias")
        if c.groups > c.topk_groups:
            groups = left.reshape(len(x), c.groups, -1)
            order = np.argsort(-np.sort(groups, -1)[..., -2:].sum(-1), axis=-1, kind="stable")
            kept = (order[:, :c.topk_groups, None] == np.arange(c.groups)).any(1)
            left = np.where(kept[..., None], groups, -np.inf).reshape(len(x), -1)
        chosen = np.argsort(-left, axis=-1, kind="stable")[:, :c.topk]
        weights = np.take_along_axis(scores, chosen, -1)
        if c.renormalize and c.topk > 1:
            weights = weights / (weights.sum(-1, keepdims=True) + 1e-20)
        return chosen, weights * c.scaling

    def moe(self, x, p):
        c = self.c
        z = self.lin(x, p + ".routed_expert_down_proj") if c.latent else x
        y = np.zeros_like(z)
        for t, (chosen, weights) in enumerate(zip(*self.routes(x, p))):
            for e, weight in zip(chosen, weights):
                q = f"{p}.experts.{e}"
                y[t] += weight * self.lin(self.glu(self.lin(z[t], q + ".w1"), self.lin(z[t], q + ".w3")), q + ".w2")
        if c.latent:
            y = rms(y, self.w(p + ".routed_expert_norm.weight"), c.eps) if c.latent_norm else y
            y = self.lin(y, p + ".routed_expert_up_proj")
        return y + self.mlp(x, p + ".shared_experts") if c.shared_experts else y

    def mix(self, bank, live, norm, proj):
        if not bank:
            return live
        values = np.stack(bank + [live])
        shares = softmax(self.lin(rms(values, self.w(norm + ".weight"), self.c.eps), proj), axis=0)
        return (shares * values).sum(0)

    def logits(self, ids):
        """[T, vocab] of token ids [T]."""
        c = self.c
        x, bank = self.w("model.embed_tokens.weight")[ids], []
        for i in range(c.layers):
            p = f"model.layers.{i}"
            h = self.mix(bank, x, p + ".self_attention_res_norm", p + ".self_attention_res_proj")
            h = rms(h, self.w(p + ".input_layernorm.weight"), c.eps)
            out = (self.mla if i in c.mla_layers else self.kda)(h, p + ".self_attn")
            if c.block and i % c.block == 0:
                bank, x = bank + [x], out
            else:
                x = x + out
            h = self.mix(bank, x, p + ".mlp_res_norm", p + ".mlp_res_proj")
            h = rms(h, self.w(p + ".post_attention_layernorm.weight"), c.eps)
            x = x + (self.moe(h, p + ".block_sparse_moe") if c.is_moe(i) else self.mlp(h, p + ".mlp"))
        x = self.mix(bank, x, "model.output_attn_res_norm", "model.output_attn_res_proj")
        head = "model.embed_tokens" if c.tied else "lm_head"
        return self.lin(rms(x, self.w("model.norm.weight"), c.eps), head)
