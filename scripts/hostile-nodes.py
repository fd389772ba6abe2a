#!/usr/bin/env python3
"""Draws models of one node each that may be wrong in any way but their number of inputs, for fuzzing and tests.

  scripts/hostile-nodes.py OUT [--seed N] [--each N]

For every operator of ai.onnx, N models (10): ranks from 0 to 5, extents that fit or do not, are 0 or have a name, element
types the schema allows or not, constants in place of inputs, attributes left out or out of range. Models are OUT/<operator>-<i>.onnx.
A compiler may accept or refuse each; it must not crash. The same seed draws the same models with the same onnx package.
"""
import argparse
import pathlib
import random

import onnx
from onnx import TensorProto, defs, helper

OPSETS = (27, 24, 23, 21, 18, 14, 13, 11)
TYPES = {f"tensor({name})": getattr(TensorProto, name.upper()) for name in
         ("float", "double", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint64", "bool")}
WORDS = ("", "none", "add", "mul", "linear", "nearest", "cubic", "constant", "edge", "wrap", "circular", "half_pixel", "SAME_UPPER",
         "VALID", "NOTSET", "tanh", "silu", "ij,jk->ik", "...i->i")
CONSTANTS = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)


def extents(rng, rank):
    return [rng.choice([1, 1, 2, 3, 4, 8, 0, "n", "m"]) for _ in range(rank)]


def element_type(rng, formal):
    allowed = [TYPES[t] for t in sorted(formal.types) if t in TYPES] or [TensorProto.FLOAT]
    if TensorProto.FLOAT in allowed and rng.random() < 0.6:
        return TensorProto.FLOAT
    return rng.choice(allowed if rng.random() < 0.95 else sorted(TYPES.values()))


def constant(rng, name, kind, dims):
    dims = [d if isinstance(d, int) else 2 for d in dims]
    if kind in (TensorProto.INT64, TensorProto.INT32) and rng.random() < 0.6:
        dims = [rng.randint(0, 5)]
    count = 1
    for d in dims:
        count *= d
    values = [0, 1] if kind == TensorProto.BOOL else [0, 1, 1, 2, 3, 4, -1, -2, 100]
    if kind == TensorProto.INT64 and rng.random() < 0.2:
        values.append(-(1 << 63))
    return helper.make_tensor(name, kind, dims, rng.choices(values, k=count))


def attribute(rng, schema):
    kind = schema.type
    if kind == defs.OpSchema.AttrType.INT:
        return rng.choice([0, 1, 1, 2, 3, 4, 7, -1, -2, -7, 1 << 40])
    if kind == defs.OpSchema.AttrType.FLOAT:
        return rng.choice([0.0, 1.0, -1.0, 1e30, float("nan")])
    if kind == defs.OpSchema.AttrType.INTS:
        return rng.choices([0, 1, 1, 2, 3, 4, -1], k=rng.randint(1, 5))
    if kind == defs.OpSchema.AttrType.FLOATS:
        return [rng.random() for _ in range(rng.randint(1, 3))]
    if kind == defs.OpSchema.AttrType.STRING:
        return rng.choice(WORDS)
    if kind == defs.OpSchema.AttrType.TENSOR:
        return helper.make_tensor("t", rng.choice(CONSTANTS[:2]), [1], [1])
    return None


def draw(rng, schema, opset):
    """A model of one node of this operator."""
    count = rng.randint(schema.min_input, min(schema.max_input, schema.min_input + 5))
    rank = rng.choice([0, 1, 2, 3, 3, 4, 4, 4, 5])
    common, kinds = extents(rng, rank), {}
    names, ports, constants = [], [], []
    for i in range(count):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if formal.option == defs.OpSchema.FormalParameterOption.Optional and rng.random() < 0.3:
            names.append("")
            continue
        if formal.type_str not in kinds or rng.random() < 0.05:
            kinds[formal.type_str] = element_type(rng, formal)
        kind, fits, dims = kinds[formal.type_str], rng.random(), list(common)
        if fits > 0.65:
            dims = extents(rng, rng.randint(0, 5))
        elif fits > 0.45:
            dims = extents(rng, rank)
        elif fits > 0.3 and dims:
            dims[rng.randrange(rank)] = rng.choice([1, 2, 3])
        names.append(f"x{i}")
        if kind in CONSTANTS and rng.random() < 0.4:
            constants.append(constant(rng, names[-1], kind, dims))
        else:
            ports.append(helper.make_tensor_value_info(names[-1], kind, dims))
    attributes = {a.name: attribute(rng, a) for a in sorted(schema.attributes.values(), key=lambda a: a.name)
                  if a.required or rng.random() < 0.4}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    outputs = [f"y{i}" for i in range(max(1, min(rng.choice([schema.min_output, schema.max_output]), 4)))]
    node = helper.make_node(schema.name, names, outputs, name="node", **attributes)
    results = [helper.make_tensor_value_info(name, rng.choice(CONSTANTS[:2]), rng.choice([None, None, [2, 3]])) for name in outputs]
    graph = helper.make_graph([node], "graph", ports, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def write(out, seed, each):
    """Writes the models; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in sorted({schema.name for schema in defs.get_all_schemas() if schema.domain == ""}):
        for i in range(each):
            rng = random.Random(f"{seed} {name} {i}")
            opset = rng.choice(OPSETS)
            if not defs.has(name, opset):
                opset = defs.get_schema(name).since_version
            schema = defs.get_schema(name, opset)
            if schema.deprecated:
                continue
            paths.append(out / f"{name}-{i}.onnx")
            onnx.save(draw(rng, schema, opset), paths[-1])
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=None, help="a fresh one, which is printed")
    parser.add_argument("--each", type=int, default=10)
    args = parser.parse_args()
    seed = random.randrange(1 << 31) if args.seed is None else args.seed
    print(f"seed {seed}: {len(write(args.out, seed, args.each))} models")


if __name__ == "__main__":
    main()
