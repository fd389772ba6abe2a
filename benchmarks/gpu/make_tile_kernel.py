#!/usr/bin/env python3
"""Compiles one tile.kernel to a folder that tile_kernel.py loads: kernel.cubin, kernel.ptx and kernel.json.

  benchmarks/gpu/make_tile_kernel.py gemm.mlir OUT [--opt kimi-opt] [--llvm /usr/lib/llvm-22/bin]

Runs on the machine with the compiler; ptxas must be on the path or in /usr/local/cuda/bin.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--opt", type=pathlib.Path, default=pathlib.Path("build/release/tools/kimi-opt/kimi-opt"))
    parser.add_argument("--llvm", type=pathlib.Path, default=pathlib.Path("/usr/lib/llvm-22/bin"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    def run(*command, **options):
        return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, **options).stdout

    lowered = run(args.opt, args.source, "--tile-to-cuda=sm=90 hopper=true")
    (args.out / "kernel.mlir").write_bytes(lowered)
    text = lowered.decode()
    function = re.search(r"llvm\.func @(\w+)\(.*nvvm\.kernel.*", text)
    header = function.group(0)
    maps = []
    listed = re.search(r"tile\.tensor_maps = \[(.*?)\](?=[,}])", header)
    for entry in re.findall(r"\{(.*?)\}", listed.group(1) if listed else ""):
        def number(name):
            return int(re.search(rf"{name} = (\d+)", entry).group(1))

        def numbers(name):
            return [int(x) for x in re.search(rf"{name} = array<i64: ([\d, ]+)>", entry).group(1).split(",")]
        maps.append({"arg": number("arg"), "box": numbers("box"), "dims": numbers("dims"), "swizzle": number("swizzle")})
    info = {"symbol": function.group(1), "threads": int(re.search(r"nvvm\.reqntid = array<i32: (\d+)>", header).group(1)),
            "shared_bytes": int(re.search(r"tile\.shared_bytes = (\d+)", header).group(1)), "tensor_maps": maps}
    (args.out / "kernel.json").write_text(json.dumps(info, indent=1) + "\n")
    ir = run(args.llvm / "mlir-translate", "--mlir-to-llvmir", input=lowered)
    ir = run(args.llvm / "opt", "-O3", "-mtriple=nvptx64-nvidia-cuda", "-mcpu=sm_90a", "-S", input=ir)
    (args.out / "kernel.ll").write_bytes(ir)
    ptx = run(args.llvm / "llc", "-mtriple=nvptx64-nvidia-cuda", "-mcpu=sm_90a", "-mattr=+ptx83", "-O3", input=ir)
    (args.out / "kernel.ptx").write_bytes(ptx)
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    log = subprocess.run([ptxas, "-v", "-arch=sm_90a", str(args.out / "kernel.ptx"), "-o", str(args.out / "kernel.cubin")],
                         check=True, stderr=subprocess.PIPE, text=True).stderr
    sys.stderr.write(log)


if __name__ == "__main__":
    main()
