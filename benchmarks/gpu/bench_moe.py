#!/usr/bin/env python3
"""Mixtures of experts at the shapes of Kimi Linear (bf16) and Kimi K3 (MXFP4) beside PyTorch in the same run.

Both sides take x and the router's logits, and do all of it: sigmoid, the top experts, normalised weights, the experts (SwiGLU) and
their weighted sum. Ours is a graph of ONNX ops, every expert and a mask, as exporters write it, compiled with
--precision=bf16; the peer sorts the tokens by expert and calls torch's grouped_mm twice, on bf16 weights (for MXFP4 the same
numbers dequantised: PyTorch has no product of packed ones), under a CUDA graph where that is faster. A ratio above 1 means this
project is faster; `difference` is |ours - peer| / |peer|. The floor is the bytes of the experts that are chosen, in the format of
each case, with x and y, over the measured copy bandwidth, or the products' operations over the measured rate of bf16 products,
whichever is more.

  benchmarks/gpu/bench_moe.py --graph --out moe              # where the compiler is; then kimi-compile moe/*.onnx
  benchmarks/gpu/bench_moe.py --run ./kimi-run --models moe  # where the GPU is: draws the weights first (K3: 15 GB of disk)
"""
import argparse
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402
import models  # noqa: E402

# name: experts, chosen, channels, inner channels, packed
MIXTURES = {"kimi_linear": (256, 8, 2304, 1024, False), "k3": (896, 16, 3584, 3072, True)}
TOKENS = (1, 16, 64, 4096)
BLOCK = 32  # elements that share a scale


def matrices(name):
    """(tensor, shape) of the weights in the order of the file; scales of packed ones behind all of them."""
    experts, _, width, inner, _ = MIXTURES[name]
    return [("w1", (experts, inner, width)), ("w3", (experts, inner, width)), ("w2", (experts, width, inner))]


def layout(name):
    """tensor -> (first byte, bytes), in name.bin."""
    packed, at, places = MIXTURES[name][4], 0, {}
    for tensor, shape in matrices(name):
        count = int(np.prod(shape))
        for part, size in ((tensor, count // 2 if packed else count * 2), (tensor + "_scale", count // BLOCK if packed else 0)):
            if size:
                places[part] = (at, size)
                at += size
    return places


def write_graph(path, name):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    experts, top, width, _, packed = MIXTURES[name]
    nodes, constants, places = [], [], layout(name)

    def op(kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(nodes)}_{i}" for i in range(outputs)]
        words = []
        for value in inputs:
            if not isinstance(value, str):
                constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(constants)}"))
                value = constants[-1].name
            words.append(value)
        nodes.append(helper.make_node(kind, words, names, name=f"{kind}_{len(nodes)}", **attributes))
        return names if outputs > 1 else names[0]

    def external(tensor, shape, kind):
        proto = TensorProto(name=tensor, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        first, size = places[tensor]
        for key, value in (("location", f"{name}.bin"), ("offset", first), ("length", size)):
            proto.external_data.add(key=key, value=str(value))
        constants.append(proto)
        return tensor

    def weight(tensor, shape):
        if not packed:
            return op("Cast", external(tensor, shape, TensorProto.BFLOAT16), to=TensorProto.FLOAT)
        scales = external(tensor + "_scale", (*shape[:2], shape[2] // BLOCK), TensorProto.FLOAT8E8M0)
        return op("DequantizeLinear", external(tensor, shape, TensorProto.FLOAT4E2M1), scales, axis=2, block_size=BLOCK,
                  output_dtype=TensorProto.FLOAT)
    last = np.array([-1])
    scores = op("Sigmoid", "logits")
    indices = op("TopK", scores, np.array([top]), outputs=2)[1]
    chosen = op("GatherElements", scores, indices, axis=-1)
    weights = op("Div", chosen, op("Add", op("ReduceSum", chosen, last, keepdims=1), np.float32(1e-20)))
    x = op("Cast", "x", to=TensorProto.FLOAT)
    shape = op("Concat", op("Shape", x, start=0, end=1), np.array([experts]), axis=0)
    zeros = op("ConstantOfShape", shape, value=helper.make_tensor("z", TensorProto.FLOAT, [1], [0.0]))
    mask = op("ScatterElements", zeros, indices, weights, axis=-1)
    stacked = op("Unsqueeze", x, np.array([0]))
    w1, w3, w2 = (op("Transpose", weight(*matrix), perm=[0, 2, 1]) for matrix in matrices(name))
    gate = op("MatMul", stacked, w1)
    hidden = op("Mul", op("Mul", gate, op("Sigmoid", gate)), op("MatMul", stacked, w3))
    outputs = op("Mul", op("MatMul", hidden, w2), op("Unsqueeze", op("Transpose", mask, perm=[1, 0]), last))
    wide = op("ReduceSum", outputs, np.array([0]), keepdims=0)
    nodes.append(helper.make_node("Cast", [wide], ["y"], name="out", to=TensorProto.BFLOAT16))
    port = helper.make_tensor_value_info
    inputs = [port("x", TensorProto.BFLOAT16, ["n", width]), port("logits", TensorProto.FLOAT, ["n", experts])]
    graph = helper.make_graph(nodes, "moe", inputs, [port("y", TensorProto.BFLOAT16, ["n", width])], constants)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11), path)
    with open(path.parent / f"{name}.bin", "wb") as hole:  # all that the compiler needs
        hole.truncate(sum(size for _, size in places.values()))


class Weights:
    """The experts of `name`: drawn on the GPU, written for ours, and in bf16 [E, K, N] for the peer."""

    def __init__(self, name, folder):
        import torch
        self.packed, places = MIXTURES[name][4], layout(name)
        torch.manual_seed(7)
        self.bf16, step = {}, 16  # experts at a time
        with open(folder / f"{name}.bin", "r+b" if (folder / f"{name}.bin").exists() else "wb") as file:
            for tensor, (experts, rows, columns) in matrices(name):
                wide = torch.empty((experts, columns, rows), dtype=torch.bfloat16, device="cuda")
                for first in range(0, experts, step):
                    shape = (min(step, experts - first), rows, columns)
                    parts, values = self.draw(torch, shape, columns)
                    wide[first:first + shape[0]] = values.transpose(1, 2)
                    for part, data in zip((tensor, tensor + "_scale"), parts):
                        start, size = places[part]
                        file.seek(start + first * (size // experts))
                        file.write(data.contiguous().cpu().numpy().tobytes())
                self.bf16[tensor] = wide

    def draw(self, torch, shape, columns):
        if not self.packed:
            values = (torch.randn(shape, device="cuda") / columns**0.5).bfloat16()
            return [values.view(torch.int16)], values
        codes = torch.randint(0, 16, shape, dtype=torch.uint8, device="cuda")
        # Numbers of standard deviation 2.6 times a scale near 1 / (2.6 sqrt(columns)).
        middle = 127 - int(round(np.log2(2.6 * columns**0.5)))
        scales = torch.randint(middle - 1, middle + 2, (*shape[:2], columns // BLOCK), dtype=torch.uint8, device="cuda")
        sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
        values = torch.cat([sizes, -sizes])[codes.long()] * torch.exp2(scales.float() - 127).repeat_interleave(BLOCK, -1)
        return [codes[..., 0::2] | codes[..., 1::2] << 4, scales], values.bfloat16()


def theirs(name, weights, arrays):
    """(y, milliseconds, experts that are chosen)."""
    import peer
    import torch
    import torch.nn.functional as F
    experts, top, width, _, _ = MIXTURES[name]
    grouped = getattr(F, "grouped_mm", None) or torch._grouped_mm
    x, logits = torch.from_numpy(models.from_bf16(arrays["x"])).cuda().bfloat16(), torch.from_numpy(arrays["logits"]).cuda()
    both = torch.cat([weights["w1"], weights["w3"]], 2)
    numbers = torch.arange(experts, device="cuda")

    def step():
        found, indices = torch.topk(torch.sigmoid(logits), top, dim=-1)
        share = found / (found.sum(-1, keepdim=True) + 1e-20)
        ids, order = indices.reshape(-1).sort(stable=True)
        ends = torch.searchsorted(ids, numbers, right=True).int()
        gate, up = grouped(x[order // top], both, offs=ends).chunk(2, -1)
        outputs = grouped(F.silu(gate) * up, weights["w2"], offs=ends)
        placed = torch.empty_like(outputs).index_copy_(0, order, outputs).view(-1, top, width)
        return (placed.float() * share[..., None]).sum(1).bfloat16()
    with torch.inference_mode():
        y = step()
        chosen = torch.topk(torch.sigmoid(logits), top, dim=-1)[1].unique().numel()
        return y, min(peer.median_ms(step, 20), peer.median_ms(peer.captured(step), 20)), chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", action="store_true", help="write OUT/NAME.onnx of each mixture, and end")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--run", default="./kimi-run")
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--only", choices=list(MIXTURES), action="append", help="these mixtures (all)")
    parser.add_argument("--json")
    args = parser.parse_args()
    names = args.only or list(MIXTURES)
    if args.graph:
        for name in names:
            write_graph(args.out / f"{name}.onnx", name)
        return
    import peer
    import torch
    bandwidth, rate = peer.ceilings()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; copy {bandwidth / 1e12:.2f} TB/s, bf16 {rate / 1e12:.0f} TFLOP/s")
    print(f"{'case':20} {'ours us':>9} {'peer us':>9} {'ratio':>6} {'floor us':>9} {'difference':>11}", flush=True)
    rows, rng = [], np.random.default_rng()
    for name in names:
        experts, top, width, inner, packed = MIXTURES[name]
        weights = Weights(name, args.models).bf16
        for tokens in TOKENS:
            arrays = {"x": models.to_bf16(rng.standard_normal((tokens, width), dtype=np.float32)),
                      "logits": rng.standard_normal((tokens, experts), dtype=np.float32)}
            outputs, report = measure.ours(args.run, args.models / f"{name}.kmod", arrays, args.models, runs=20)
            y = outputs["y"]
            want, time, chosen = theirs(name, weights, arrays)
            mine, time = report["main"]["median_s"] * 1e6, time * 1e3
            read = chosen * 3 * width * inner * (0.5 + 1 / BLOCK if packed else 2) + 4 * tokens * width
            floor = max(read / bandwidth, 6 * tokens * top * width * inner / rate) * 1e6
            difference = float((torch.from_numpy(y).cuda() - want.float()).norm() / want.float().norm())
            rows.append({"case": f"{name}_t{tokens}", "ours_us": mine, "peer_us": time, "ratio": time / mine, "floor_us": floor,
                         "difference": difference, "launches": report["launches"]})
            flag = "" if difference <= 1e-2 else "  WRONG"
            print(f"{name + '_t' + str(tokens):20} {mine:9.1f} {time:9.1f} {time / mine:6.2f} {floor:9.1f} {difference:11.1e}{flag}")
            print("  " + ", ".join(f"{launch['kernel']} {launch['median_us']:.1f}" for launch in report["launches"]), flush=True)
        del weights
        torch.cuda.empty_cache()
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "bandwidth": bandwidth, "flops": rate, "rows": rows}, file, indent=1)
    if any(not row["difference"] <= 1e-2 for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
