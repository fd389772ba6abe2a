#!/usr/bin/env python3
"""Single kernels beside cuBLAS and PyTorch's attention (cuDNN, flash) in the same run.

The graphs are those of models.py, compiled with --target=cuda:...; `kimi-run --benchmark` times replays of a CUDA graph. A product is in the graph several
times with weights of its own, so that their sum exceeds the second-level cache: its time is that of the replay by their
number, for both sides. An attention is one launch between two events, behind a flush of the cache for the peer, and so are
the cases of elementwise.py, whose peer is torch.compile: all launches of ours between events of their own, added up. A
ratio above 1 means this project is faster.

  benchmarks/gpu/bench_kernels.py --run ./kimi-run --models models [--json out.json] [--kind KIND] [CASE ...]

MODELS/CASE/ holds model.onnx.data (made by models.py --weights where it is missing) and model.kmod.
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import elementwise  # noqa: E402
import measure  # noqa: E402
import models  # noqa: E402
import peer  # noqa: E402

KINDS = {"gemm": models.Gemm, "attention": models.Attention, "elementwise": elementwise.Elementwise}


def ours(args, case):
    """(median microseconds of one kernel of the case, relative error against fp32)."""
    folder = args.models / case.name
    if isinstance(case, models.Gemm) and not (folder / models.DATA).exists():
        models.write_weights(folder, case)
    arrays = models.inputs(case)
    results, report = measure.ours(args.run, folder / "model.kmod", arrays, folder)
    error = relative_error(case, folder, arrays, results)
    if isinstance(case, models.Gemm):
        return report["main"]["median_s"] * 1e6 / case.copies, error
    if isinstance(case, elementwise.Elementwise):
        return sum(launch["median_us"] for launch in report["launches"]), error
    groups = {}
    for launch in report["launches"]:
        if "attention" in launch["kernel"]:
            groups.setdefault(launch["name"], []).append(launch["median_us"])
    return statistics.median(sum(times) for times in groups.values()), error


def relative_error(case, folder, arrays, results):
    on = {name: torch.from_numpy(models.from_bf16(a)).cuda() for name, a in arrays.items()}
    if isinstance(case, models.Gemm):
        shape = (case.n, case.k) if case.transposed else (case.k, case.n)
        last = case.copies - 1
        w = np.memmap(folder / models.DATA, "V2", "r", 2 * last * case.k * case.n, shape)
        w = torch.from_numpy(models.from_bf16(w)).cuda()
        reference, result = on["x"] @ (w.T if case.transposed else w), results[f"y{last}"]
    elif isinstance(case, elementwise.Elementwise):
        reference, result = elementwise.expression(case)(*on.values()), results["y"]
    else:
        reference = F.scaled_dot_product_attention(on["q"], on["k"], on["v"], is_causal=case.queries > 1)
        result = results["y"]
    result = torch.from_numpy(result).cuda()
    return float((result - reference).norm() / reference.norm())


def theirs(case):
    """{name: microseconds} of the peers, and (FLOPs, bytes) of the case."""
    options = {"device": "cuda", "dtype": torch.bfloat16}
    if isinstance(case, models.Gemm):
        def cublas(n):
            x = torch.randn(case.rows, case.k, **options)  # one for all, as ours
            ws = [torch.randn(n, case.k, **options) * 0.02 for _ in range(case.copies)]
            ys = [torch.empty(case.rows, n, **options) for _ in range(case.copies)]

            def products():
                for w, y in zip(ws, ys):
                    torch.mm(x, w.t(), out=y)
            return peer.median_ms(peer.captured(products)) * 1e3 / case.copies
        work = 2.0 * case.rows * case.k * case.n, 2.0 * (case.rows * case.k + case.k * case.n + case.rows * case.n)
        times = {"cublas": cublas(case.n)}
        if case.n % 64 != 0:  # what one gets who pads the weight: more columns, all rows aligned
            times["padded"] = cublas(-(-case.n // 64) * 64)
        return times, work
    flush, times = torch.empty(256 << 20, dtype=torch.int8, device="cuda"), {}
    if isinstance(case, elementwise.Elementwise):
        torch._dynamo.reset()
        arguments = [3 * torch.randn(shape, **options) for shape in elementwise.input_shapes(case).values()]
        compiled = torch.compile(elementwise.expression(case), fullgraph=True, dynamic=False)
        with torch.no_grad():
            times["compile"] = peer.median_ms(peer.captured(lambda: compiled(*arguments)), flush=flush) * 1e3
        return times, (0.0, float(case.bytes))
    q = torch.randn(case.batch, case.heads, case.queries, case.depth, **options)
    k = torch.randn(case.batch, case.heads, case.keys, case.depth, **options)
    v = torch.randn(case.batch, case.heads, case.keys, case.width, **options)
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                times[name] = peer.median_ms(peer.captured(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=case.queries > 1)), flush=flush) * 1e3
        except RuntimeError as error:
            times[name] = float("inf")
            print(f"{case.name}: {name} refused: {str(error).splitlines()[0]}", file=sys.stderr)
    pairs = case.queries * (case.keys + 1) / 2 if case.queries > 1 else case.keys
    work = 2.0 * case.batch * case.heads * pairs * (case.depth + case.width), 2.0 * case.batch * case.heads * (
        case.queries * (case.depth + case.width) + case.keys * (case.depth + case.width))
    return times, work


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="./kimi-run")
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--json")
    parser.add_argument("--kind", choices=KINDS, help="only cases of this kind")
    parser.add_argument("cases", nargs="*", help="names; every folder of --models without any")
    args = parser.parse_args()
    bandwidth, flops = peer.ceilings()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; copy {bandwidth / 1e12:.2f} TB/s, products {flops / 1e12:.0f} TFLOP/s")
    print(f"{'case (bf16)':28} {'ours us':>9} {'peer us':>9} {'peer':>7} {'ratio':>6} {'floor us':>9} {'error':>8}", flush=True)
    rows = []
    for name in args.cases or sorted(p.parent.name for p in args.models.glob("*/model.kmod")):
        case = models.CASES[name]
        if args.kind and not isinstance(case, KINDS[args.kind]):
            continue
        try:
            mine, error = ours(args, case)
            times, (work, moved) = theirs(case)
        except (subprocess.CalledProcessError, torch.cuda.OutOfMemoryError, KeyError) as problem:
            print(f"{name:28} failed: {problem}", flush=True)
            rows.append({"case": name, "error": str(problem)})
            continue
        floor, best = max(work / flops, moved / bandwidth) * 1e6, min(times, key=times.get)
        rows.append({**dataclasses.asdict(case), "ours_us": mine, "peers_us": times, "ratio": times[best] / mine, "floor_us": floor, "rnorm": error})
        flag = "" if error <= 1e-2 else "  WRONG"  # NaN is wrong too
        print(f"{name:28} {mine:9.1f} {times[best]:9.1f} {best:>7} {times[best] / mine:6.2f} {floor:9.1f} {error:8.1e}{flag}", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "bandwidth": bandwidth, "flops": flops, "rows": rows}, f, indent=1)
    if any(not row.get("rnorm", 1) <= 1e-2 for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
