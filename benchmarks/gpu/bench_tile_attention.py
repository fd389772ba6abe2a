#!/usr/bin/env python3
"""One attention kernel (no mask, exponents of 2, one batch) beside PyTorch's cuDNN and flash attention in the same run; bf16.

  benchmarks/gpu/bench_tile_attention.py FOLDER QUERIES HEADS,TOKENS,DEPTH ...

A ratio above 1 means this project is faster than the faster of the two.
"""
import argparse
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer  # noqa: E402
import tile_kernel  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("queries", type=int, help="of a block")
    parser.add_argument("shapes", nargs="+", help="HEADS,TOKENS,DEPTH")
    args = parser.parse_args()
    kernel = tile_kernel.Kernel(args.folder)
    wrong = False
    for shape in args.shapes:
        heads, tokens, depth = map(int, shape.split(","))
        torch.manual_seed(0)
        scale = 1 / math.sqrt(depth)
        q, k, v = (torch.randn(1, heads, tokens, depth, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        q = (q * (scale / math.log(2))).to(torch.bfloat16)  # the kernel takes powers of 2 of the products
        y = torch.full_like(q, float("nan"))
        launch = kernel.bind([q, k, v, y], grid=(heads, -(-tokens // args.queries), 1))
        launch()
        torch.cuda.synchronize()
        reference = torch.empty_like(y, dtype=torch.float32)
        for h in range(heads):
            s = q[0, h].float() @ k[0, h].float().t() * math.log(2)
            reference[0, h] = torch.softmax(s, -1) @ v[0, h].float()
        error = float((y.float() - reference).norm() / reference.norm()) if not torch.isnan(y).any() else float("inf")
        times = {"ours": peer.median_ms(peer.captured(launch)) * 1e3}
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            try:
                with sdpa_kernel(backend):
                    times[name] = peer.median_ms(peer.captured(lambda: F.scaled_dot_product_attention(q, k, v, scale=math.log(2)))) * 1e3
            except RuntimeError as problem:
                print(f"{name} refused: {str(problem).splitlines()[0]}", file=sys.stderr)
        flops = 4.0 * heads * tokens * tokens * depth
        best = min(t for name, t in times.items() if name != "ours")
        bad = not error <= 1e-2
        wrong |= bad
        text = ", ".join(f"{name} {t:8.1f} us {flops / t * 1e-6:6.1f} TF/s" for name, t in times.items())
        print(f"{args.folder} H={heads} T={tokens} d={depth}: {text}, ratio {best / times['ours']:.3f}, error {error:.1e}{'  WRONG' if bad else ''}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
