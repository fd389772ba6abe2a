#!/usr/bin/env python3
"""One product kernel beside cuBLAS in the same run: y[M, N] = x[M, K] . w, w [N, K] or (with --kn) [K, N]; bf16.

  benchmarks/gpu/bench_tile_gemm.py FOLDER TILE_M TILE_N [--kn] [--cluster C] [--blocks B] [M,N,K ...]

Checks against fp32, then times both as replays of a CUDA graph over buffers beyond the second-level cache. A ratio above 1
means this project is faster.
"""
import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer  # noqa: E402
import tile_kernel  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("rows", type=int)
    parser.add_argument("columns", type=int)
    parser.add_argument("--kn", action="store_true", help="w is [K, N]")
    parser.add_argument("--cluster", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=132, help="that walk the tiles")
    parser.add_argument("shapes", nargs="+", help="M,N,K")
    args = parser.parse_args()
    kernel = tile_kernel.Kernel(args.folder)
    wrong = False
    for shape in args.shapes:
        m, n, k = map(int, shape.split(","))
        size = 2 * (m * k + k * n + m * n)
        copies = max(1, min(16, -(-200_000_000 // size)))
        units = -(-m // (args.rows * args.cluster)) * -(-n // args.columns)
        grid = (min(units, args.blocks // args.cluster) * args.cluster, 1, 1)
        torch.manual_seed(0)
        sets, launches = [], []
        for _ in range(copies):
            x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
            w = torch.randn(*((k, n) if args.kn else (n, k)), device="cuda", dtype=torch.bfloat16)
            y = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
            sets.append((x, w, y))
            launches.append(kernel.bind([x, w, y], grid=grid))
        for launch in launches:
            launch()
        torch.cuda.synchronize()
        worst = 0.0
        for x, w, y in sets[:2]:
            reference = x.float() @ (w.float() if args.kn else w.float().t())
            worst = max(worst, float((y.float() - reference).norm() / reference.norm()) if not torch.isnan(y).any() else float("inf"))
        outs = [torch.empty_like(y) for _, _, y in sets]

        def ours():
            for launch in launches:
                launch()

        def cublas():
            for (x, w, _), out in zip(sets, outs):
                torch.mm(x, w if args.kn else w.t(), out=out)
        times = [peer.median_ms(peer.captured(f)) * 1e3 / copies for f in (ours, cublas, ours, cublas)]
        mine, theirs = min(times[0], times[2]), min(times[1], times[3])
        flops = 2.0 * m * n * k
        bad = not worst <= 1e-2
        wrong |= bad
        print(f"{args.folder} {m}x{n}x{k}: {mine:9.1f} us {flops / mine * 1e-6:6.1f} TF/s, cublas {theirs:9.1f} us {flops / theirs * 1e-6:6.1f} TF/s, "
              f"ratio {theirs / mine:.3f}, error {worst:.1e}{'  WRONG' if bad else ''}", flush=True)
        del sets, outs, launches
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
