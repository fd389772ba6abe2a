"""Arrays that fit the inputs of a model one by one, but not each other: each call is refused by the node that joins them,
before anything runs. What fits, and what is broadcast, still gives what NumPy gives."""
import numpy as np
import onnx
import pytest
from conftest import run, tool
from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def compiled(folder, op, inputs, rank, *options, **attributes):
    """The module of one node that reads `inputs` {name: (type, dims)}, of any extents, and gives the type of the first."""
    value = helper.make_tensor_value_info
    ports = [value(name, kind, dims) for name, (kind, dims) in inputs.items()]
    node = helper.make_node(op, list(inputs), ["out"], name="joined", **attributes)
    graph = helper.make_graph([node], "g", ports, [value("out", next(iter(inputs.values()))[0], [None] * rank)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), folder / "m.onnx")
    run(tool("kimi-compile"), folder / "m.onnx", "--check-bounds", "-o", folder / "m.kmod", *options)
    return folder / "m.kmod"


def result(module, check=True, **arrays):
    np.savez(module.with_suffix(".npz"), **arrays)
    done = run(tool("kimi-run"), module, "--input", module.with_suffix(".npz"), "--output", module.with_suffix(".npy"), check=check)
    return np.load(module.with_suffix(".npy")) if check else done


def refused(module, message, **arrays):
    done = result(module, check=False, **arrays)
    assert done.returncode == 1 and message in done.stderr, done.stderr


def drawn(*shape):
    return np.random.default_rng().standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("options", [[], ["--reference"], ["--gpu-schedules=90a"]], ids=["kernels", "reference", "gpu"])
def test_sides_of_a_product(tmp_path, options):
    module = compiled(tmp_path, "MatMul", {"x": (FLOAT, ["n", "k"]), "y": (FLOAT, ["m", None])}, 2, *options)
    x, y = drawn(5, 70), drawn(70, 33)
    np.testing.assert_allclose(result(module, x=x, y=y), x @ y, rtol=1e-3, atol=1e-4)
    refused(module, "node 'joined': k and m must be equal", x=drawn(5, 70), y=drawn(2, 33))


def test_broadcast(tmp_path):
    module = compiled(tmp_path, "Add", {"x": (FLOAT, ["n", "k"]), "y": (FLOAT, ["m", "k"])}, 2)
    for rows in ((5, 5), (1, 5), (5, 1), (1, 1), (0, 1)):
        x, y = drawn(rows[0], 3), drawn(rows[1], 3)
        np.testing.assert_array_equal(result(module, x=x, y=y), x + y)
    refused(module, "node 'joined': m and n must be equal, or one of them 1", x=drawn(5, 3), y=drawn(2, 3))


def test_unnamed(tmp_path):
    module = compiled(tmp_path, "Concat", {"x": (FLOAT, [None, None]), "y": (FLOAT, [None, None])}, 2, axis=1)
    x, y = drawn(4, 3), drawn(4, 2)
    np.testing.assert_array_equal(result(module, x=x, y=y), np.concatenate([x, y], 1))
    refused(module, "axis 0 of input 'x' and axis 0 of input 'y' must be equal", x=drawn(4, 3), y=drawn(9, 2))


def test_where_elements_go(tmp_path):
    inputs = {"x": (FLOAT, ["n", 3]), "at": (INT64, ["m", "c"]), "new": (FLOAT, ["m", "c"])}
    module = compiled(tmp_path, "ScatterElements", inputs, 2, axis=1)
    x, at, new = drawn(4, 3), np.array([[2, 0], [1, 2]]), drawn(2, 2)
    expected = x.copy()
    np.put_along_axis(expected[:2], at, new, 1)
    np.testing.assert_array_equal(result(module, x=x, at=at, new=new), expected)
    refused(module, "m must not be more than n", x=x, at=np.zeros((9, 2), np.int64), new=drawn(9, 2))


def test_positions_in_no_elements(tmp_path):
    module = compiled(tmp_path, "Gather", {"x": (FLOAT, ["n", 3, 2]), "at": (INT64, ["m"])}, 3)
    x = drawn(4, 3, 2)
    np.testing.assert_array_equal(result(module, x=x, at=np.array([3, 0])), x[[3, 0]])
    assert result(module, x=drawn(0, 3, 2), at=np.zeros(0, np.int64)).shape == (0, 3, 2)
    refused(module, "node 'joined': min(1, m) must not be more than n", x=drawn(0, 3, 2), at=np.array([0]))


def test_steps_of_a_call(tmp_path):
    """Extents that elements of inputs give, by steps that go up or down; what cannot be counted is an error."""
    inputs = {name: (INT64, []) for name in ("start", "limit", "delta")}
    module = compiled(tmp_path, "Range", inputs, 1)
    for start, limit, delta in ((0, 7, 2), (10, 6, -3), (0, -9, -2), (7, 0, 2), (5, 5, -1)):
        steps = result(module, start=start, limit=limit, delta=delta)
        np.testing.assert_array_equal(steps, np.arange(start, limit, delta))
    refused(module, "overflows 64 bits", start=0, limit=-2**63, delta=-1)


def test_padding_of_nothing(tmp_path):
    """A row of what has no rows is not read."""
    value = helper.make_tensor_value_info
    pads = helper.make_tensor("pads", INT64, [4], [1, 0, 0, 0])
    graph = helper.make_graph([helper.make_node("Pad", ["x", "pads"], ["out"], name="joined")], "g",
                              [value("x", FLOAT, ["n", "m"])], [value("out", FLOAT, [None, None])], [pads])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    for schedules in ([], ["--gpu-schedules=90a"]):
        run(tool("kimi-compile"), tmp_path / "m.onnx", "--check-bounds", "-o", tmp_path / "m.kmod", *schedules)
        for rows in (0, 2):
            x = drawn(rows, 70)
            np.testing.assert_array_equal(result(tmp_path / "m.kmod", x=x), np.pad(x, ((1, 0), (0, 0))))


def test_declared_extent(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["out"], name="joined")], "g", [value("x", FLOAT, ["n"])],
                              [value("out", FLOAT, [3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    run(tool("kimi-compile"), tmp_path / "m.onnx", "-o", tmp_path / "m.kmod")
    x = drawn(3)
    np.testing.assert_allclose(result(tmp_path / "m.kmod", x=x), np.exp(x), rtol=1e-5)
    refused(tmp_path / "m.kmod", "node 'joined': n and 3 must be equal", x=drawn(2))
