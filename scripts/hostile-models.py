#!/usr/bin/env python3
"""Damages whole models, graph by graph, for fuzzing and tests: what the passes know stands beside what they do not expect.

  scripts/hostile-models.py OUT MODEL.onnx... [--seed N] [--each N]

Of every MODEL, N models (10) with one to three changes each: an attribute of another value or left out, a weight of other
extents, numbers or type, or an input of the graph in its place, an input of the graph of other extents or type, a node that
reads another value or none, a node that is another operator or is passed by, an intermediate value as an output. Bodies of
functions and branches are changed as well. Models are OUT/<folder of MODEL>-<i>.onnx, their external data beside them.
A compiler may accept or refuse each; it must not crash. The same seed makes the same models.
"""
import argparse
import pathlib
import random
import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper

EXTENTS = (0, 1, 1, 2, 3, 5, 7, 16, 17, 32, 64, 96, 128, 192, 256)
TYPES = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT64, TensorProto.INT32,
         TensorProto.UINT8, TensorProto.BOOL, TensorProto.DOUBLE)
FAMILIES = (("Add", "Sub", "Mul", "Div", "Pow", "Max", "MatMul", "Gather", "Where"),
            ("Exp", "Sigmoid", "Tanh", "Neg", "Sqrt", "Reciprocal", "Erf", "Softplus", "Relu", "Identity", "Transpose", "Softmax", "Not"),
            ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd", "ReduceL2", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Tile"))
ELEMENTS = 1 << 16  # a weight drawn anew has at most as many


def block_nodes(nodes):
    """The nodes, those of branches and bodies with them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from block_nodes(attribute.g.node)


class Damage:
    """The changes, each a method that gives False where there is nothing for it to change."""

    def __init__(self, model, rng):
        self.model, self.graph, self.rng = model, model.graph, rng
        self.nodes = list(block_nodes(self.graph.node))
        for function in model.functions:
            self.nodes += block_nodes(function.node)

    def extents(self, old):
        """`old` with one extent changed, or others altogether."""
        new = list(old)
        if new and self.rng.random() < 0.8:
            i = self.rng.randrange(len(new))
            new[i] = self.rng.choice([*EXTENTS, max(new) + 1, new[i] * 2, new[i] // 2])
            return new
        if self.rng.random() < 0.5:
            self.rng.shuffle(new)
            return new if new != list(old) else [*new, 1]
        return [self.rng.choice(EXTENTS[:6]) for _ in range(self.rng.randint(0, 5))]

    def attribute(self):
        node = self.rng.choice(self.nodes)
        known = [a for a in node.attribute if a.type != onnx.AttributeProto.GRAPH]
        if not known:
            return False
        chosen = self.rng.choice(known)
        if self.rng.random() < 0.2:
            node.attribute.remove(chosen)
        elif chosen.type == onnx.AttributeProto.INT:
            chosen.i = self.rng.choice([0, 1, 2, 3, -1, -2, 7, 16, chosen.i + 1, chosen.i * 2, 1 << 40])
        elif chosen.type == onnx.AttributeProto.FLOAT:
            chosen.f = self.rng.choice([0.0, 1.0, -1.0, 1e30, chosen.f * 2, float("nan")])
        elif chosen.type == onnx.AttributeProto.INTS and chosen.ints:
            chosen.ints[self.rng.randrange(len(chosen.ints))] = self.rng.choice([0, 1, 2, 3, -1, 64])
        elif chosen.type == onnx.AttributeProto.STRING:
            chosen.s = self.rng.choice([b"", b"none", b"add", b"tanh", b"max"])
        elif chosen.type == onnx.AttributeProto.TENSOR:
            self.redraw(chosen.t)
        else:
            return False
        return True

    def redraw(self, tensor):
        """Other extents, or other numbers; now and then another type."""
        if self.rng.random() < 0.2:
            tensor.data_type = self.rng.choice(TYPES)
        old = list(tensor.dims)
        dims = self.extents(old) if self.rng.random() < 0.6 else old
        if np.prod(dims, dtype=object) > ELEMENTS or tensor.data_type not in TYPES:
            dims, kind = old, tensor.data_type
            if np.prod(dims, dtype=object) > ELEMENTS or kind not in TYPES:
                tensor.dims[:] = self.extents(old)  # the data no longer fit
                return
        kind, name = tensor.data_type, tensor.name
        count = int(np.prod(dims, dtype=object)) if dims else 1
        values = [self.rng.choice([0, 1]) if kind == TensorProto.BOOL else self.rng.choice([0, 1, 2, 3, -1, 16, 64]) for _ in range(count)]
        if kind == TensorProto.UINT8:
            values = [abs(v) for v in values]
        tensor.CopyFrom(helper.make_tensor(name, kind, dims, values))

    def weight(self):
        if not self.graph.initializer:
            return False
        small = [t for t in self.graph.initializer if len(t.dims) < 2]
        self.redraw(self.rng.choice(small if small and self.rng.random() < 0.5 else self.graph.initializer))
        return True

    def weight_as_input(self):
        if not self.graph.initializer:
            return False
        chosen = self.rng.choice(self.graph.initializer)
        dims = [f"{chosen.name}_{i}" if self.rng.random() < 0.3 else d for i, d in enumerate(chosen.dims)]
        self.graph.input.append(helper.make_tensor_value_info(chosen.name, chosen.data_type, dims))
        self.graph.initializer.remove(chosen)
        return True

    def port(self):
        chosen = self.rng.choice(self.graph.input or self.graph.output).type.tensor_type
        if self.rng.random() < 0.2:
            chosen.elem_type = self.rng.choice(TYPES)
            return True
        if not chosen.shape.dim:
            return False
        dim = self.rng.choice(chosen.shape.dim)
        other = self.rng.choice(chosen.shape.dim).dim_param
        if other and self.rng.random() < 0.5:
            dim.dim_param = other
        else:
            dim.dim_value = self.rng.choice(EXTENTS)
        return True

    def operand(self):
        """A value that was made before is read in place of one; now and then none at all."""
        index = self.rng.randrange(len(self.graph.node))
        node = self.graph.node[index]
        if not node.input:
            return False
        near = self.graph.node[max(0, index - 20):index] if self.rng.random() < 0.7 else self.graph.node[:index]
        values = [o for n in near for o in n.output if o] + [i.name for i in self.graph.input]
        values += [t.name for t in self.graph.initializer[:50]]
        node.input[self.rng.randrange(len(node.input))] = "" if self.rng.random() < 0.1 or not values else self.rng.choice(values)
        return True

    def operator(self):
        node = self.rng.choice(self.nodes)
        family = [f for f in FAMILIES if node.op_type in f]
        if not family or node.domain:
            return False
        node.op_type = self.rng.choice(family[0])
        return True

    def swap(self):
        node = self.rng.choice(self.nodes)
        if len(node.input) < 2:
            return False
        names = list(node.input)
        self.rng.shuffle(names)
        node.input[:] = names
        return True

    def passed_by(self):
        index = self.rng.randrange(len(self.graph.node))
        node = self.graph.node[index]
        if not node.input or not node.input[0] or any(o.name in node.output for o in self.graph.output):
            return False
        for later in block_nodes(self.graph.node[index + 1:]):
            later.input[:] = [node.input[0] if name == node.output[0] else name for name in later.input]
        return True

    def told(self):
        node = self.rng.choice(self.graph.node)
        name = self.rng.choice(node.output)
        if not name or any(o.name == name for o in self.graph.output):
            return False
        info = onnx.ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = self.rng.choice(TYPES[:2])
        self.graph.output.append(info)
        return True


CHANGES = {Damage.attribute: 3, Damage.weight: 3, Damage.weight_as_input: 2, Damage.port: 2, Damage.operand: 3, Damage.operator: 2,
           Damage.swap: 1, Damage.passed_by: 2, Damage.told: 1}


def damage(model, rng):
    """Changes `model` in one to three places; gives what was done."""
    if rng.random() < 0.7:
        del model.graph.value_info[:]  # else most changes contradict the extents written there
    work, done = Damage(model, rng), []
    wanted = rng.choice([1, 1, 2, 3])
    for _ in range(100):
        change = rng.choices(list(CHANGES), list(CHANGES.values()))[0]
        if change(work) is not False:
            done.append(change.__name__)
        if len(done) == wanted:
            break
    return done


def link_data(model, folder, out):
    """The external files of `model` beside what is written."""
    names = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    for name in names:
        if (folder / name).is_file() and not (out / name).exists():
            shutil.copyfile(folder / name, out / name)


def write(out, sources, seed, each):
    """Writes the models; returns their paths. Models with external data have a folder each, the others share OUT."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for source in sources:
        name = source.parent.name if source.stem == "model" else source.stem
        text = source.read_bytes()
        external = any(t.external_data for t in onnx.load_from_string(text).graph.initializer)
        folder = out / name if external else out
        folder.mkdir(exist_ok=True)
        for i in range(each):
            model = onnx.load_from_string(text)
            link_data(model, source.parent, folder)
            damage(model, random.Random(f"{seed} {name} {i}"))
            paths.append(folder / f"{name}-{i}.onnx")
            paths[-1].write_bytes(model.SerializeToString())
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--seed", type=int, default=None, help="a fresh one, which is printed")
    parser.add_argument("--each", type=int, default=10)
    args = parser.parse_args()
    seed = random.randrange(1 << 31) if args.seed is None else args.seed
    print(f"seed {seed}: {len(write(args.out, args.models, seed, args.each))} models")


if __name__ == "__main__":
    main()
