"""Makes a failing graph small: fewer outputs, nodes, data sets and dynamic dims, while it still fails in the same way."""
import onnx
from onnx import helper

from oracle import expected, feeds_of, intermediates, prune


def static_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))


def cut(model, sets, values, name):
    """`name` becomes an input that holds what the oracle computes for it."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for node in out.graph.node:
        for i, result in enumerate(node.output):
            if result == name:
                node.output[i] = name + "_unused"
    arrays = values[name]
    if len(arrays) == 1 or all(a.shape == arrays[0].shape for a in arrays):
        info = static_info(name, arrays[0])
    else:
        dims = [d if all(a.shape[i] == d for a in arrays) else f"{name}_{i}" for i, d in enumerate(arrays[0].shape)]
        info = helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), dims)
    out.graph.input.append(info)
    feeds = [dict(s, **{name: a}) for s, a in zip(sets, arrays)]
    out = prune(out, {o.name for o in out.graph.output})
    return out, feeds_of(out, feeds)


def bypass(model, sets, values, node):
    """Readers of a node's result read one of its operands of the same type instead."""
    result = node.output[0]
    for operand in node.input:
        if operand in values and all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(values[operand], values[result])):
            out = onnx.ModelProto()
            out.CopyFrom(model)
            for other in out.graph.node:
                for i, name in enumerate(other.input):
                    if name == result:
                        other.input[i] = operand
            out = prune(out, {o.name for o in out.graph.output})
            yield out, feeds_of(out, sets)


def made_static(model, feeds):
    out = onnx.ModelProto()
    out.CopyFrom(model)
    infos = [static_info(i.name, feeds[i.name]) for i in model.graph.input]
    del out.graph.input[:]
    out.graph.input.extend(infos)
    return out


def candidates(model, sets):
    """Smaller graphs, the boldest first."""
    outputs = [o.name for o in model.graph.output]
    if len(outputs) > 1:
        for name in outputs:
            small = prune(model, {name})
            yield small, feeds_of(small, sets)
    if len(sets) > 1:
        for one in sets:
            yield model, [one]
    if len(sets) == 1 and any(d.dim_param or not d.HasField("dim_value") for i in model.graph.input for d in i.type.tensor_type.shape.dim):
        yield made_static(model, sets[0]), sets
    values = intermediates(model, sets)
    nodes = list(model.graph.node)
    for node in nodes[::-1]:
        for name in node.output:
            if name and name not in outputs:
                yield cut(model, sets, values, name)
    values |= {i.name: [s[i.name] for s in sets] for i in model.graph.input}
    for node in nodes[::-1]:
        if node.output[0] not in outputs:
            yield from bypass(model, sets, values, node)


def size(model, sets):
    dynamic = sum(not d.HasField("dim_value") for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    return (len(model.graph.node), len(model.graph.output), len(sets), dynamic)


def shrink(model, sets, fails, budget=150):
    """The smallest failing (model, sets) found with at most `budget` runs; `fails(model, sets, want)` says whether one fails."""
    progress = True
    while progress and budget > 0:
        progress = False
        for small, feeds in candidates(model, sets):
            if size(small, feeds) >= size(model, sets) or budget <= 0:
                continue
            budget -= 1
            try:
                want = expected(small, feeds)
            except Exception:  # noqa: BLE001 (a cut may make a model that no engine takes)
                continue
            if fails(small, feeds, want):
                model, sets, progress = small, feeds, True
                break
    return model, sets
