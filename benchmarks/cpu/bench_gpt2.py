#!/usr/bin/env python3
"""GPT-2 on the CPU beside ONNX Runtime: decode with a KV cache and prefill of a prompt, fp32, batch 1.

Both engines run the same weights (models/gpt2/export.py, seeded) in turns in one run: A B A B ...; a ratio above 1 means
this project is faster. ONNX Runtime gets the graph with past/present inputs for decode, with all graph optimisations and
the same number of threads. The floor is bytes (decode: every weight read once) or FLOPs (prefill) over what this machine
was measured to do in the same run (a threaded read of a large array; an fp32 matrix product by NumPy).

  benchmarks/cpu/bench_gpt2.py --build build/release [--size small] [--context 128] [--prefill 512] [--json out.json]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models" / "gpt2"))
import export  # noqa: E402


def make_model(folder, size, cache):
    path = folder / ("cached" if cache else "plain")
    if not (path / "model.onnx").exists():
        path.mkdir(parents=True, exist_ok=True)
        layers, heads, width = export.SIZES[size]
        export.build(str(path), layers, heads, width, 50257, 1024, cache, 0)
    return path / "model.onnx"


class Ort:
    """ONNX Runtime on a graph, timed call by call."""

    def __init__(self, model, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]

    def decode(self, heads, head_dim, context, steps):
        rng = np.random.default_rng(0)
        feed = {p.name: rng.standard_normal((1, heads, context, head_dim), dtype=np.float32) for p in self.session.get_inputs()[1:]}
        times = []
        for _ in range(steps):
            feed["input_ids"] = rng.integers(0, 50257, (1, 1))
            start = time.perf_counter()
            results = self.session.run(self.names, feed)
            times.append(time.perf_counter() - start)
            feed.update({n.replace("present", "past_key_values"): r for n, r in zip(self.names[1:], results[1:])})
        return times

    def prefill(self, tokens, runs):
        ids, times = np.random.default_rng(0).integers(0, 50257, (1, tokens)), []
        for _ in range(runs):
            start = time.perf_counter()
            self.session.run(self.names, {"input_ids": ids})
            times.append(time.perf_counter() - start)
        return times


def ours(tool, module, weights, threads, *flags):
    """Per-step seconds of one `kimi-run --benchmark` call."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run([tool, module, "--weights", weights, "--benchmark", "--threads", str(threads), "--json", report.name,
                        *map(str, flags)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.load(open(report.name))


def ceilings(threads):
    """(bytes/s of threaded reads, FLOP/s of an fp32 product), best of several."""
    data = np.ones(64 << 20, dtype=np.float32)
    parts = np.array_split(data, threads)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        def read():
            start = time.perf_counter()
            list(pool.map(np.max, parts))
            return data.nbytes / (time.perf_counter() - start)
        bandwidth = max(read() for _ in range(8))
    a = np.random.default_rng(0).standard_normal((1536, 1536), dtype=np.float32)

    def multiply():
        start = time.perf_counter()
        a @ a
        return 2 * 1536**3 / (time.perf_counter() - start)
    return bandwidth, max(multiply() for _ in range(8))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--models", default=os.path.join(tempfile.gettempdir(), "kimi-bench-gpt2"), help="folder for the graphs")
    parser.add_argument("--size", choices=export.SIZES, default="small")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="decode steps a round")
    parser.add_argument("--json")
    args = parser.parse_args()
    layers, heads, width = export.SIZES[args.size]
    folder, build = pathlib.Path(args.models) / args.size, pathlib.Path(args.build)
    compile_tool, run_tool = (str(build / "tools" / n / n) for n in ("kimi-compile", "kimi-run"))
    plain, cached = make_model(folder, args.size, False), make_model(folder, args.size, True)
    module = folder / "model.kmod"
    start = time.perf_counter()
    subprocess.run([compile_tool, str(plain), "-o", str(module)], check=True)
    compile_seconds = time.perf_counter() - start
    bandwidth, flops = ceilings(args.threads)
    rows, table = [], []

    def compare(case, mine, peer, floor):
        ratios = [p / m for m, p in zip(mine, peer)]
        row = {"case": case, "ours_ms": statistics.median(mine) * 1e3, "ort_ms": statistics.median(peer) * 1e3,
               "ratio": statistics.median(ratios), "ratio_min": min(ratios), "floor_ms": floor * 1e3}
        rows.append(row)
        table.append(f"{case:34} {row['ours_ms']:9.2f} {row['ort_ms']:9.2f} {row['ratio']:7.2f} {row['ratio_min']:7.2f} {row['floor_ms']:9.2f}")

    params = 12 * layers * width * width + 50257 * width
    mine, peer = [], []
    decoder = Ort(cached, args.threads)
    for _ in range(args.rounds):
        mine.append(ours(run_tool, str(module), str(plain.parent), args.threads, "--context", args.context, "--runs", args.steps)["decode"]["median_s"])
        peer.append(statistics.median(decoder.decode(heads, width // heads, args.context, args.steps)[2:]))
    compare(f"decode B=1 context {args.context}", mine, peer, 4 * params / bandwidth)
    del decoder
    mine, peer = [], []
    prefiller = Ort(plain, args.threads)
    prefiller.prefill(args.prefill, 1)
    for _ in range(args.rounds):
        mine.append(ours(run_tool, str(module), str(plain.parent), args.threads, "--prefill-tokens", args.prefill, "--runs", 3)["prefill"]["median_s"])
        peer.append(statistics.median(prefiller.prefill(args.prefill, 3)))
    work = 2 * params * args.prefill + 2 * layers * width * args.prefill**2
    compare(f"prefill B=1 T={args.prefill} (all logits)", mine, peer, work / flops)

    print(f"GPT-2 {args.size}, fp32, {args.threads} threads; compiled in {compile_seconds:.1f} s; "
          f"reads {bandwidth / 1e9:.1f} GB/s, products {flops / 1e9:.0f} GFLOP/s; onnxruntime {onnxruntime.__version__}")
    print(f"{'case':34} {'ours ms':>9} {'ORT ms':>9} {'ratio':>7} {'worst':>7} {'floor ms':>9}")
    print("\n".join(table))
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"threads": args.threads, "compile_s": compile_seconds, "bandwidth": bandwidth, "flops": flops, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
