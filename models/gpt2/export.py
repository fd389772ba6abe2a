#!/usr/bin/env python3
"""Writes a GPT-2 of any size as ONNX, with seeded random weights or those of an installed checkpoint.

Three roads, in the order they are tried unless --how says which:
  torch   torch + transformers are installed: torch.onnx.export of GPT2LMHeadModel (dynamo), weights random (seeded) or
          from a local folder in the Hugging Face format (--checkpoint DIR)
  fill    --graph FILE is a GPT-2 graph whose external data is missing: the graph is copied, its weights drawn
  build   the graph is written node by node with onnx.helper: the plain operators of an ordinary export
          (LayerNormalization, Gemm, MatMul, Softmax, tanh GELU), with or without a KV cache

Weights are drawn as GPT-2 initialises them: normal(0, 0.02), residual projections divided by sqrt(2 L), LayerNorm
weights near 1, biases small but not zero, so that no term of the graph can be dropped unnoticed.

Examples:
  models/gpt2/export.py --size small --out /tmp/gpt2            # input_ids -> logits
  models/gpt2/export.py --size small --cache --out /tmp/gpt2kv  # with past_key_values in, present out
  models/gpt2/export.py --graph model.onnx --out /tmp/gpt2      # fill a stripped graph
"""
import argparse
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

# layers, heads, width (GPT-2 paper, table 2); vocabulary 50257, context 1024, head dim 64.
SIZES = {"tiny": (2, 2, 64), "small": (12, 12, 768), "medium": (24, 16, 1024), "large": (36, 20, 1280), "xl": (48, 25, 1600)}
EPS = 1e-5
DATA = "model.onnx.data"


class DataFile:
    """Appends fp32 tensors to one external-data file, 64-byte aligned, and gives their TensorProtos."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def add(self, name, array):
        array = np.ascontiguousarray(array, dtype=np.float32)
        self.file.write(b"\0" * (-self.file.tell() % 64))
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", DATA), ("offset", str(self.file.tell())), ("length", str(array.nbytes))):
            tensor.external_data.add(key=key, value=value)
        array.tofile(self.file)
        return tensor


def draw(rng, name, shape, layers):
    """One seeded weight, by its role in the name."""
    if ".ln_" in name and name.endswith("weight"):
        return 1 + 0.1 * rng.standard_normal(shape, dtype=np.float32)
    scale = 0.02 / np.sqrt(2 * layers) if "c_proj.weight" in name else 0.02
    return scale * rng.standard_normal(shape, dtype=np.float32)


def build(out, layers, heads, width, vocab, context, cache, seed, logits="f32"):
    """Writes out/model.onnx and its data with onnx.helper; `logits` is the type of that output, f32 or bf16."""
    rng, data = np.random.default_rng(seed), DataFile(os.path.join(out, DATA))
    nodes, inits = [], []
    head = width // heads

    def weight(name, *shape):
        inits.append(data.add(name, draw(rng, name, shape, layers)))
        return name

    def const(name, values, dtype=np.int64):
        inits.append(onnx.numpy_helper.from_array(np.array(values, dtype=dtype), name))
        return name

    def op(kind, inputs, result, **attrs):
        outputs = result if isinstance(result, list) else [result]
        nodes.append(helper.make_node(kind, inputs, outputs, name="node_" + outputs[0], **attrs))
        return result

    zero, one = const("zero", 0), const("one", 1)
    rows = const("rows", [-1, width])
    # positions past .. past+seq-1
    op("Shape", ["input_ids"], "ids_shape")
    seq = op("Gather", ["ids_shape", one], "seq", axis=0)
    if cache:
        op("Shape", ["past_key_values.0.key"], "past_shape")
        past = op("Gather", ["past_shape", const("two", 2)], "past", axis=0)
        total = op("Add", [past, seq], "total")
    else:
        past, total = zero, seq
    op("Range", [past, total, one], "positions")
    x = op("Add", [op("Gather", [weight("wte.weight", vocab, width), "input_ids"], "tok"),
                   op("Gather", [weight("wpe.weight", context, width), "positions"], "pos")], "embed")
    # key j is visible to query i where j <= i
    op("Range", [zero, total, one], "keys")
    op("Unsqueeze", ["positions", const("axis1", [1])], "query_col")
    visible = op("LessOrEqual", ["keys", "query_col"], "visible")
    mask = op("Where", [visible, const("zero_f", 0.0, np.float32), const("masked", -np.inf, np.float32)], "mask")
    split = const("split", [width] * 3)
    heads4, hidden = const("heads4", [0, 0, heads, head]), const("hidden", [0, 0, width])
    scale = const("scale", np.sqrt(1.0 / np.sqrt(head)), np.float32)
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "seq"])]
    logits_type = {"f32": TensorProto.FLOAT, "bf16": TensorProto.BFLOAT16}[logits]
    outputs = [helper.make_tensor_value_info("logits", logits_type, ["batch", "seq", vocab])]

    def linear(p, name, value, n_in, n_out):
        op("Reshape", [value, rows if n_in == width else const(f"{p}{name}.rows", [-1, n_in])], f"{p}{name}.flat")
        op("Gemm", [f"{p}{name}.flat", weight(f"{p}{name}.weight", n_in, n_out), weight(f"{p}{name}.bias", n_out)], f"{p}{name}.gemm")
        lead = op("Slice", [op("Shape", [value], f"{p}{name}.shape"), const(f"{p}{name}.b", [0]), const(f"{p}{name}.e", [2])], f"{p}{name}.lead")
        op("Concat", [lead, const(f"{p}{name}.n", [n_out])], f"{p}{name}.to", axis=0)
        return op("Reshape", [f"{p}{name}.gemm", f"{p}{name}.to"], f"{p}{name}.out")

    def norm(p, name, value):
        return op("LayerNormalization", [value, weight(f"{p}{name}.weight", width), weight(f"{p}{name}.bias", width)], f"{p}{name}.out", axis=-1, epsilon=EPS)

    for i in range(layers):
        p = f"h.{i}."
        qkv = linear(p, "attn.c_attn", norm(p, "ln_1", x), width, 3 * width)
        parts = op("Split", [qkv, split], [p + n for n in "qkv"], axis=2)
        q, k, v = (op("Transpose", [op("Reshape", [t, heads4], t + ".r")], t + ".t", perm=[0, 2, 1, 3]) for t in parts)
        if cache:
            for kind, value in (("key", k), ("value", v)):
                inputs.append(helper.make_tensor_value_info(f"past_key_values.{i}.{kind}", TensorProto.FLOAT, ["batch", heads, "past", head]))
                outputs.append(helper.make_tensor_value_info(f"present.{i}.{kind}", TensorProto.FLOAT, ["batch", heads, "past + seq", head]))
            k = op("Concat", [f"past_key_values.{i}.key", k], f"present.{i}.key", axis=2)
            v = op("Concat", [f"past_key_values.{i}.value", v], f"present.{i}.value", axis=2)
        kt = op("Transpose", [k], p + "kt", perm=[0, 1, 3, 2])
        scores = op("MatMul", [op("Mul", [q, scale], p + "qs"), op("Mul", [kt, scale], p + "ks")], p + "scores")
        probs = op("Softmax", [op("Add", [scores, mask], p + "masked")], p + "probs", axis=-1)
        ctx = op("Transpose", [op("MatMul", [probs, v], p + "ctx")], p + "ctx.t", perm=[0, 2, 1, 3])
        ctx = op("Reshape", [ctx, hidden], p + "ctx.r")
        x = op("Add", [x, linear(p, "attn.c_proj", ctx, width, width)], p + "res1")
        u = linear(p, "mlp.c_fc", norm(p, "ln_2", x), width, 4 * width)
        half, k0, k1 = (const(f"{p}c{j}", c, np.float32) for j, c in enumerate((0.5, 0.044715, np.sqrt(2 / np.pi))))
        cube = op("Mul", [op("Pow", [u, const(p + "three", 3.0, np.float32)], p + "cube"), k0], p + "cubek")
        inner = op("Tanh", [op("Mul", [op("Add", [u, cube], p + "inner"), k1], p + "innerk")], p + "tanh")
        gelu = op("Mul", [op("Mul", [u, half], p + "half"), op("Add", [inner, const(p + "one_f", 1.0, np.float32)], p + "tanh1")], p + "gelu")
        x = op("Add", [x, linear(p, "mlp.c_proj", gelu, 4 * width, width)], p + "res2")
    x = norm("", "ln_f", x)
    operands = [x, op("Transpose", ["wte.weight"], "wte.t", perm=[1, 0])]
    if logits == "f32":
        op("MatMul", operands, "logits")
    else:
        op("Cast", [op("MatMul", operands, "logits_f32")], "logits", to=logits_type)
    graph = helper.make_graph(nodes, "gpt2", inputs, outputs, inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, os.path.join(out, "model.onnx"))


def fill(graph_path, out, seed):
    """Copies a graph without its data and writes seeded weights at the offsets it names."""
    model = onnx.load(graph_path, load_external_data=False)
    rng, spans = np.random.default_rng(seed), []
    layers = max((int(t.name.split(".h.")[1].split(".")[0]) + 1 for t in model.graph.initializer if ".h." in t.name), default=12)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            info = {e.key: e.value for e in tensor.external_data}
            spans.append((info["location"], int(info.get("offset", 0)), tensor))
    for location in {s[0] for s in spans}:
        with open(os.path.join(out, os.path.basename(location)), "wb") as f:
            for _, offset, tensor in sorted((s for s in spans if s[0] == location), key=lambda s: s[1]):
                f.seek(offset)
                name = tensor.name if ".ln_" not in tensor.name or tensor.name.endswith("bias") else tensor.name.rstrip("_") + ".weight"
                draw(rng, name, tuple(tensor.dims), layers).astype(np.float32).tofile(f)
    onnx.save(model, os.path.join(out, "model.onnx"))


def export_torch(out, layers, heads, width, vocab, context, seed, checkpoint):
    """torch.onnx.export (dynamo) of transformers' GPT2LMHeadModel, cacheless."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    if checkpoint:
        model = GPT2LMHeadModel.from_pretrained(checkpoint, attn_implementation="sdpa")
    else:
        config = GPT2Config(n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocab, n_positions=context)
        model = GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.eval()

        def forward(self, input_ids):
            return self.model(input_ids=input_ids, use_cache=False).logits

    ids = torch.randint(0, model.config.vocab_size, (2, 7))
    dims = {"input_ids": {0: torch.export.Dim("batch"), 1: torch.export.Dim("seq", max=model.config.n_positions)}}
    torch.onnx.export(Logits(), (ids,), os.path.join(out, "model.onnx"), dynamo=True, external_data=True, opset_version=20,
                      input_names=["input_ids"], output_names=["logits"], dynamic_shapes=dims)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write model.onnx and model.onnx.data into")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--cache", action="store_true", help="KV cache in and out (build only)")
    parser.add_argument("--logits", choices=["f32", "bf16"], default="f32", help="type of that output (build only); for --precision=bf16")
    parser.add_argument("--how", choices=["torch", "fill", "build"])
    parser.add_argument("--graph", help="a GPT-2 graph with stripped weights, for --how fill")
    parser.add_argument("--checkpoint", help="local folder of a Hugging Face GPT-2, for --how torch")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    layers, heads, width = (given or default for given, default in zip((args.layers, args.heads, args.width), SIZES[args.size]))
    if width % heads:
        parser.error(f"width {width} is not a multiple of {heads} heads")
    how = args.how
    if how is None:
        how = "fill" if args.graph else "build"
        if not args.graph and not args.cache:
            try:
                import torch, transformers  # noqa: F401
                how = "torch"
            except ImportError:
                pass
    if how == "fill" and not args.graph:
        parser.error("--how fill needs --graph")
    if (args.cache or args.logits != "f32") and how != "build":
        parser.error("--cache and --logits are written by --how build only")
    os.makedirs(args.out, exist_ok=True)
    if how == "fill":
        fill(args.graph, args.out, args.seed)
    elif how == "torch":
        export_torch(args.out, layers, heads, width, args.vocab, args.context, args.seed, args.checkpoint)
    else:
        build(args.out, layers, heads, width, args.vocab, args.context, args.cache, args.seed, args.logits)
    print(os.path.join(args.out, "model.onnx"), f"({how})", file=sys.stderr)


if __name__ == "__main__":
    main()
