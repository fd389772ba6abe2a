#!/usr/bin/env python3
"""Writes the ONNX graphs that the GPU benchmarks time: GPT-2 and single kernels at the shapes that matter.

Tensors of single kernels are bf16, as those of their peers are. A graph's weights are external data. `--graphs` writes the graphs with data files of the right size that hold nothing (a
hole in the file), which is all that kimi-compile needs; `--weights` fills them with seeded random numbers, on the machine
that runs them. Both leave every byte of the graph the same.

  benchmarks/gpu/models.py --graphs  --out models   # where the compiler is
  benchmarks/gpu/models.py --weights --out models   # where the GPU is
"""
import argparse
import dataclasses
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models" / "gpt2"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import elementwise  # noqa: E402

DATA = "model.onnx.data"


@dataclasses.dataclass(frozen=True)
class Gemm:
    """y[M, N] = x[M, K] w[K, N], `copies` times with weights of their own so that their sum exceeds the second-level cache."""
    name: str
    rows: int
    k: int
    n: int
    transposed: bool = False  # w is stored [N, K]

    @property
    def copies(self):
        return max(1, min(16, -(-300_000_000 // (2 * (self.rows * self.k + self.k * self.n + self.rows * self.n)))))


@dataclasses.dataclass(frozen=True)
class Attention:
    """Causal attention over inputs q [B, H, T, D], k [B, H, S, D], v [B, H, S, V]."""
    name: str
    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    width: int


GEMMS = [Gemm(f"gpt2_{k}x{n}_m{m}", m, k, n) for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768)) for m in (1, 64, 1024)]
GEMMS += [Gemm(f"gpt2_lm_head_m{m}", m, 768, 50257, True) for m in (1, 64, 1024)]
GEMMS += [Gemm("gpt2_lm_head_padded_m1024", 1024, 768, 50304, True)]  # what rows of odd length cost
# Kimi K3: hidden 7168; KDA query 12288; MLA; latent MoE (k3_spec.md)
GEMMS += [Gemm(f"k3_{name}_m{m}", m, k, n, True)
          for name, k, n in (("kda_q", 7168, 12288), ("kda_o", 12288, 7168), ("mla_q_b", 1536, 18432), ("moe_down", 7168, 3584))
          for m in (1, 8192)]
ATTENTIONS = [Attention("prefill_h64_d128_t4096", 1, 64, 4096, 4096, 128, 128), Attention("prefill_h12_d64_t1024", 1, 12, 1024, 1024, 64, 64),
              Attention("prefill_b8_h12_d64_t1024", 8, 12, 1024, 1024, 64, 64), Attention("prefill_h12_d64_t16384", 1, 12, 16384, 16384, 64, 64),
              Attention("prefill_h96_d192_v128_t4096", 1, 96, 4096, 4096, 192, 128), Attention("decode_b64_h12_d64_s1024", 64, 12, 1, 1024, 64, 64)]
CASES = {case.name: case for case in GEMMS + ATTENTIONS + elementwise.CASES}


def to_bf16(values):
    """fp32 rounded to nearest even, as the 2-byte records that .npy files hold bf16 in."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16).view("V2")


def from_bf16(values):
    return (np.ascontiguousarray(values).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def external(name, shape, offset):
    length = 2 * int(np.prod(shape))
    tensor = TensorProto(name=name, data_type=TensorProto.BFLOAT16, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", DATA), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return tensor, length


def gemm_graph(case):
    nodes, outputs, weights, size = [], [], [], 0
    for i in range(case.copies):
        shape = (case.n, case.k) if case.transposed else (case.k, case.n)
        tensor, length = external(f"w{i}", shape, size)
        weights.append(tensor)
        size += length
        # Gemm with transB reads [N, K]
        nodes.append(helper.make_node("Gemm", ["x", f"w{i}"], [f"y{i}"], name=f"gemm{i}", transB=int(case.transposed)))
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.BFLOAT16, ["m", case.n]))
    x = helper.make_tensor_value_info("x", TensorProto.BFLOAT16, ["m", case.k])
    return helper.make_graph(nodes, case.name, [x], outputs, weights), size


def attention_graph(case):
    def port(name, rows, width):
        return helper.make_tensor_value_info(name, TensorProto.BFLOAT16, ["b", case.heads, rows, width])
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], name="attention", is_causal=int(case.queries > 1))
    keys = "t" if case.queries == case.keys else "s"  # ONNX aligns a causal mask top left, ours bottom right: equal where square
    return helper.make_graph([node], case.name, [port("q", "t", case.depth), port("k", keys, case.depth), port("v", keys, case.width)],
                             [port("y", "t", case.width)]), 0


def write_graph(folder, case):
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(case, elementwise.Elementwise):
        graph, size = elementwise.graph(case), 0
    else:
        graph, size = gemm_graph(case) if isinstance(case, Gemm) else attention_graph(case)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    if size:
        with open(folder / DATA, "wb") as f:
            f.truncate(size)


def write_weights(folder, case, seed=0):
    if not isinstance(case, Gemm):
        return
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / DATA, "wb") as f:
        for _ in range(case.copies):
            to_bf16(0.02 * rng.standard_normal(case.k * case.n, dtype=np.float32)).tofile(f)


def inputs(case, seed=1):
    """Fresh random inputs of a case, by name, bf16 (see to_bf16)."""
    rng = np.random.default_rng(seed)
    if isinstance(case, Gemm):
        return {"x": to_bf16(rng.standard_normal((case.rows, case.k), dtype=np.float32))}
    if isinstance(case, elementwise.Elementwise):
        return {name: to_bf16(array) for name, array in elementwise.inputs(case, seed).items()}
    shapes = {"q": (case.queries, case.depth), "k": (case.keys, case.depth), "v": (case.keys, case.width)}
    return {name: to_bf16(rng.standard_normal((case.batch, case.heads, *shape), dtype=np.float32)) for name, shape in shapes.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--graphs", action="store_true", help="graphs, and data files without data")
    what.add_argument("--weights", action="store_true", help="seeded weights beside graphs that are there or elsewhere")
    what.add_argument("--list", action="store_true", help="names and shapes as JSON")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", help="names; all without any")
    args = parser.parse_args()
    if args.list:
        print(json.dumps({name: dataclasses.asdict(case) for name, case in CASES.items()}, indent=1))
        return
    if not args.out:
        parser.error("--out is needed")
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        parser.error(f"unknown case {', '.join(unknown)}; there are {', '.join(CASES)}")
    for name in args.cases or CASES:
        (write_graph if args.graphs else write_weights)(args.out / name, CASES[name])


if __name__ == "__main__":
    main()
