#!/usr/bin/env python3
"""GPT-2 on the CPU beside ONNX Runtime: decode with a KV cache and prefill of a prompt, fp32, batch 1.

Both engines run the same weights (models/gpt2/export.py, seeded) in turns in one run: A B A B ...; a ratio above 1 means
this project is faster. ONNX Runtime gets the graph with past/present inputs for decode, with all graph optimisations and
the same number of threads. The floor is bytes (decode: every weight read once) or FLOPs (prefill) over the most that this
machine was measured to do before and after (kimi-machine-peak: threads that read as many bytes again and again; fused
multiply-adds of the widest registers without any memory). No program can be faster; a figure below its floor is an error of
the measurement and makes the exit status 1.

  benchmarks/cpu/bench_gpt2.py --build build/release [--size small] [--context 128] [--prefill 512] [--json out.json]
"""
import argparse
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


class Ceilings:
    """The most that this machine was seen to do: bytes/s of reads of `size` bytes, FLOP/s of multiply-adds."""

    def __init__(self, build, threads, size):
        subprocess.run(["cmake", "--build", build, "--target", "kimi-machine-peak"], check=True, stdout=subprocess.DEVNULL)
        self.command = [os.path.join(build, "benchmarks", "cpu", "kimi-machine-peak"), str(threads), str(size)]
        self.bandwidth = self.flops = 0.0
        self.isa = ""

    def measure(self):
        report = json.loads(subprocess.run(self.command, check=True, capture_output=True, text=True).stdout)
        self.isa = report["isa"]
        self.bandwidth = max(self.bandwidth, report["bytes_per_s"])
        self.flops = max(self.flops, report["flops"])


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
    params = 12 * layers * width * width + 50257 * width
    ceilings = Ceilings(str(build), args.threads, 4 * params)
    ceilings.measure()
    rows = []

    def compare(case, mine, peer, floor):
        """`floor` gives the least time in seconds once the ceilings are known."""
        ratios = [p / m for m, p in zip(mine, peer)]
        rows.append({"case": case, "ours_ms": statistics.median(mine) * 1e3, "ort_ms": statistics.median(peer) * 1e3,
                     "ratio": statistics.median(ratios), "ratio_min": min(ratios), "floor": floor})

    mine, peer = [], []
    decoder = Ort(cached, args.threads)
    for _ in range(args.rounds):
        mine.append(ours(run_tool, str(module), str(plain.parent), args.threads, "--context", args.context, "--runs", args.steps)["decode"]["median_s"])
        peer.append(statistics.median(decoder.decode(heads, width // heads, args.context, args.steps)[2:]))
    compare(f"decode B=1 context {args.context}", mine, peer,
            lambda: 4 * params / ceilings.bandwidth)
    del decoder
    mine, peer = [], []
    prefiller = Ort(plain, args.threads)
    prefiller.prefill(args.prefill, 1)
    ids = folder / "ids.npy"
    np.save(ids, np.random.default_rng(0).integers(0, 50257, (1, args.prefill)))
    for _ in range(args.rounds):
        # The entry with the logits of every position, as the peer's graph has them (--prefill-tokens times prefill_last).
        mine.append(ours(run_tool, str(module), str(plain.parent), args.threads, "--entry", "prefill", "--input", f"input_ids={ids}", "--runs", 3)["prefill"]["median_s"])
        peer.append(statistics.median(prefiller.prefill(args.prefill, 3)))
    work = 2 * params * args.prefill + 2 * layers * width * args.prefill**2
    compare(f"prefill B=1 T={args.prefill} (all logits)", mine, peer, lambda: work / ceilings.flops)

    ceilings.measure()
    print(f"GPT-2 {args.size}, fp32, {args.threads} threads; compiled in {compile_seconds:.1f} s; reads {ceilings.bandwidth / 1e9:.1f} GB/s, "
          f"multiply-adds {ceilings.flops / 1e9:.0f} GFLOP/s ({ceilings.isa}); onnxruntime {onnxruntime.__version__}")
    print(f"{'case':34} {'ours ms':>9} {'ORT ms':>9} {'ratio':>7} {'worst':>7} {'floor ms':>9}")
    impossible = []
    for row in rows:
        row["floor_ms"] = row.pop("floor")() * 1e3
        print(f"{row['case']:34} {row['ours_ms']:9.2f} {row['ort_ms']:9.2f} {row['ratio']:7.2f} {row['ratio_min']:7.2f} {row['floor_ms']:9.2f}")
        impossible += [row["case"]] if min(row["ours_ms"], row["ort_ms"]) < row["floor_ms"] else []
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"threads": args.threads, "compile_s": compile_seconds, "bandwidth": ceilings.bandwidth, "flops": ceilings.flops,
                       "isa": ceilings.isa, "rows": rows}, f, indent=1)
    if impossible:
        print(f"error: faster than its floor, which was measured too slow: {', '.join(impossible)}", file=sys.stderr)
    return 1 if impossible else 0


if __name__ == "__main__":
    sys.exit(main())
