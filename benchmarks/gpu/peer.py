"""GPT-2 as a PyTorch user would write it for speed: static KV cache, scaled_dot_product_attention, torch.compile under a
CUDA graph. The peer of bench_gpt2.py; needs torch with CUDA."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


def median_ms(run, repeats=30, flush=None):
    """Median milliseconds of `run` between events; `flush` (a tensor beyond the second-level cache) is written before each."""
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in pairs:
        if flush is not None:
            flush.zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs)


def captured(run, warmup=3):
    """`run` as the replay of a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmup):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def ceilings():
    """(bytes/s of a device copy, read plus written; FLOP/s of a bf16 product of random matrices)."""
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    flops = 2 * n**3 / (median_ms(lambda: a @ b, 10) * 1e-3)
    source = torch.empty(4 << 30, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / (median_ms(lambda: target.copy_(source), 10) * 1e-3), flops


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)


class Gpt2(nn.Module):
    """Decodes greedily with everything on the device; `step` and `prefill` can be captured in CUDA graphs."""

    def __init__(self, layers, heads, width, vocabulary, context, batch, capacity):
        super().__init__()
        self.heads = heads
        self.wte, self.wpe, self.norm = nn.Embedding(vocabulary, width), nn.Embedding(context, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        cache = (layers, batch, heads, capacity, width // heads)
        self.register_buffer("keys", torch.zeros(cache))
        self.register_buffer("values", torch.zeros(cache))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("token", torch.zeros(batch, 1, dtype=torch.long))
        self.register_buffer("columns", torch.arange(capacity))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def mix(self, block, x, layer, one):
        batch, tokens, width = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in block.qkv(block.ln1(x)).split(width, dim=-1))
        if not one:
            self.keys[layer][:, :, :tokens].copy_(k)
            self.values[layer][:, :, :tokens].copy_(v)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            keys, values = self.keys[layer], self.values[layer]
            keys.index_copy_(2, self.position, k)
            values.index_copy_(2, self.position, v)
            y = F.scaled_dot_product_attention(q, keys, values, attn_mask=(self.columns <= self.position)[None, None, None, :])
        x = x + block.proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + block.out(F.gelu(block.fc(block.ln2(x)), approximate="tanh"))

    def prefill(self, ids, every_row):
        x = self.wte(ids) + self.wpe.weight[:ids.shape[1]]
        for layer, block in enumerate(self.blocks):
            x = self.mix(block, x, layer, False)
        return F.linear(self.norm(x if every_row else x[:, -1]), self.wte.weight)

    def step(self):
        x = self.wte(self.token) + self.wpe(self.position)
        for layer, block in enumerate(self.blocks):
            x = self.mix(block, x, layer, True)
        logits = F.linear(self.norm(x[:, 0]), self.wte.weight)
        self.token.copy_(logits.argmax(-1, keepdim=True))
        self.position.add_(1)


def decode_ms(model, context, steps=100):
    """Best of the common ways: milliseconds a token of a plain and of a compiled step under a CUDA graph."""
    best = {}
    for name, step in (("graph", model.step), ("compile+graph", torch.compile(model.step, fullgraph=True))):
        torch._dynamo.reset()
        model.position.fill_(context)
        replay = captured(step)
        times = []
        for _ in range(3):
            model.position.fill_(context)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                replay()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / steps * 1e3)
        best[name] = statistics.median(times)
    return best


def prefill_ms(model, ids, every_row):
    best = {}
    for name, run in (("graph", model.prefill), ("compile+graph", torch.compile(model.prefill, fullgraph=True))):
        torch._dynamo.reset()
        best[name] = median_ms(captured(lambda: run(ids, every_row)))
    return best
