#!/usr/bin/env python3
"""GPT-2 on one GPU beside PyTorch in the same run: decode with a KV cache, and prefill.

Ours is a module compiled with --target=cuda:... from models/gpt2/export.py --how build (with --logits bf16 beside
--precision=bf16, since the peer's logits are bf16 then); kimi-run times it (`--benchmark`: events around
replays of its CUDA graph). The peer is peer.py: a hand-written model with a static cache, as a CUDA graph, with and without
torch.compile; the faster one counts. Weights of both are random and of the true shapes. A ratio above 1 means this
project is faster. The floor is the larger of bytes over the measured copy bandwidth and FLOPs over the measured matrix rate.

  benchmarks/gpu/bench_gpt2.py --run ./kimi-run --module gpt2.bf16.kmod --weights gpt2 [--json out.json]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer  # noqa: E402

LAYERS, HEADS, WIDTH, VOCABULARY, CONTEXT = 12, 12, 768, 50257, 1024
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "f32": torch.float32}


def ours(args, *flags):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        subprocess.run([args.run, args.module, "--weights", args.weights, "--device", "cuda", "--benchmark", "--runs", "100",
                        "--warmup", "10", "--json", report, *map(str, flags)], check=True, stdout=subprocess.DEVNULL)
        return json.load(open(report))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="./kimi-run")
    parser.add_argument("--module", required=True)
    parser.add_argument("--weights", required=True, help="folder of the weight file")
    parser.add_argument("--precision", choices=DTYPES, default="bf16")
    parser.add_argument("--cases", nargs="*", default=["decode:1:256", "decode:64:256", "decode:64:1024", "prefill:1:1024", "prefill:8:1024"],
                        help="decode:BATCH:CACHE or prefill:BATCH:TOKENS")
    parser.add_argument("--json")
    args = parser.parse_args()
    dtype = DTYPES[args.precision]
    size = torch.finfo(dtype).bits // 8
    bandwidth, flops = peer.ceilings()
    params = LAYERS * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH
    rows = []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; copy {bandwidth / 1e12:.2f} TB/s, products {flops / 1e12:.0f} TFLOP/s")
    print(f"{'case (' + args.precision + ')':34} {'ours ms':>9} {'torch ms':>9} {'way':>14} {'ratio':>7} {'floor ms':>9}", flush=True)
    for case in args.cases:
        kind, batch, tokens = case.split(":")[0], *map(int, case.split(":")[1:])
        with torch.no_grad():
            torch.manual_seed(0)
            model = peer.Gpt2(LAYERS, HEADS, WIDTH, VOCABULARY, CONTEXT, batch, tokens).to("cuda", dtype).eval()
            if kind == "decode":
                context = tokens - 128
                theirs = peer.decode_ms(model, context)
                floor = (size * params + 2 * size * LAYERS * batch * tokens * WIDTH) / bandwidth
            else:
                theirs = peer.prefill_ms(model, torch.randint(0, VOCABULARY, (batch, tokens), device="cuda"), True)
                floor = 2 * batch * tokens * params / flops + 2 * batch * LAYERS * tokens * tokens * WIDTH / flops
            del model
        flags = ("--context", tokens - 128, "--max-seq", tokens) if kind == "decode" else ("--prefill-tokens", tokens)
        try:
            report = ours(args, "--batch", batch, *flags)
        except subprocess.CalledProcessError as error:
            print(f"{case:34} failed: {error}", flush=True)
            rows.append({"case": case, "error": str(error)})
            continue
        mine = report["decode" if kind == "decode" else "prefill"]["median_s"] * 1e3
        way = min(theirs, key=theirs.get)
        rows.append({"case": case, "ours_ms": mine, "torch_ms": theirs, "ratio": theirs[way] / mine, "floor_ms": floor * 1e3, "report": report})
        print(f"{case:34} {mine:9.4f} {theirs[way]:9.4f} {way:>14} {theirs[way] / mine:7.2f} {floor * 1e3:9.4f}", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "precision": args.precision,
                       "bandwidth": bandwidth, "flops": flops, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
