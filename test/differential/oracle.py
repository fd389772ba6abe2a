"""What a model's outputs should be: ONNX Runtime without optimizations, or onnx.reference where it cannot."""
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RTOL, ATOL = 1e-3, 1e-4


class NoOracle(Exception):
    """Neither engine runs this model: the generator's mistake, or a gap of both."""


def by_runtime(model, sets):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feeds) for feeds in sets]


def by_reference(model, sets):
    evaluator = ReferenceEvaluator(model)
    with np.errstate(all="ignore"):
        return [[np.asarray(v) for v in evaluator.run(None, feeds)] for feeds in sets]


def expected(model, sets):
    """One list of outputs for each data set."""
    try:
        return by_runtime(model, sets)
    except Exception as runtime:  # noqa: BLE001 (either engine raises what it likes)
        try:
            return by_reference(model, sets)
        except Exception as reference:  # noqa: BLE001
            raise NoOracle(f"{str(runtime)[:300]} | {str(reference)[:150]}") from None


def differs(got, want, share=1.0):
    """Whether one output is further from the expected one than `share` of the tolerance."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return True
    if not np.issubdtype(want.dtype, np.floating):
        return not np.array_equal(got, want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return not bool(np.all((got == want) | (np.abs(got - want) <= share * (ATOL + RTOL * np.abs(want)))))


def perturbed(array, rng):
    if not np.issubdtype(array.dtype, np.floating) or array.size < 2:
        return array
    return (array.astype(np.float64) * (1 + 3e-7 * rng.standard_normal(array.shape))).astype(array.dtype)


def is_ill_conditioned(model, sets, want):
    """Whether the oracle's own outputs move by a good part of the tolerance when its data move by a few roundings."""
    for trial in range(3):
        rng = np.random.default_rng(trial)
        moved = onnx.ModelProto()
        moved.CopyFrom(model)
        for tensor in moved.graph.initializer:
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(perturbed(array, rng), tensor.name))
        feeds = [{k: perturbed(v, rng) for k, v in s.items()} for s in sets]
        again = expected(moved, feeds)
        if any(differs(a, w, 0.2) for got, wanted in zip(again, want) for a, w in zip(got, wanted)):
            return True
    return False


def prune(model, outputs):
    """The model with these outputs alone, and without nodes, inputs and weights that nothing needs."""
    kept = onnx.ModelProto()
    kept.CopyFrom(model)
    graph = kept.graph
    wanted = [o for o in graph.output if o.name in outputs]
    needed, nodes = {o.name for o in wanted}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed |= set(node.input)
    parts = (wanted, nodes[::-1], [i for i in graph.input if i.name in needed], [t for t in graph.initializer if t.name in needed])
    for field, items in zip((graph.output, graph.node, graph.input, graph.initializer), parts):
        items = [type(i).FromString(i.SerializeToString()) for i in items]
        del field[:]
        field.extend(items)
    return kept


def feeds_of(model, sets):
    names = {i.name for i in model.graph.input}
    return [{k: v for k, v in s.items() if k in names} for s in sets]


def intermediates(model, sets):
    """{value: [array for each set]} of everything that nodes compute."""
    every = onnx.ModelProto()
    every.CopyFrom(model)
    names = [n for node in model.graph.node for n in node.output if n]
    del every.graph.output[:]
    every.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
    results = expected(every, sets)
    return {n: [r[i] for r in results] for i, n in enumerate(names)}
