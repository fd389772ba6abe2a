"""Graphs: ports, subgraphs, functions, versions."""
from builder import *


def ports():
    """Named dims, expressions, no name, no shape; outputs that are an input and an initializer; a default value."""
    x = helper.make_tensor_value_info("x", F32, ["batch", "past + seq", None, 4])
    return model(graph(
        [node("Relu", "x", "y", name="act/relu")],
        [x, value("any", I64, None), value("k", F32, [2])],
        [value("y", F32, ["batch", None, None, 4]), value("any", I64, None), value("k", F32, [2])],
        [raw("k", np.array([1, 2], np.float32))]))


def untyped_values():
    """value_info without a type says nothing; one with an element type alone gives an unranked tensor."""
    infos = [onnx.ValueInfoProto(name="a"), value("b", F32, None), value("c", F32, ["n", 2]), onnx.ValueInfoProto(name="d")]
    infos[3].type.tensor_type.shape.dim.add().dim_value = 3
    nodes = [node("Relu", "x", "a"), node("Relu", "a", "b"), node("Relu", "b", "c"), node("Relu", "c", "d"),
             node("Relu", "d", "y")]
    return model(graph(nodes, [value("x")], [value("y")], value_info=infos))


def names():
    """Absent inputs and outputs, attributes of every kind, nodes without a name."""
    attributes = dict(i=1, f=0.5, s="text", ints=[1, 2], floats=[0.5, 2.0], strings=["p", "q"],
                      t=raw("", np.array([3], np.int32)),
                      tp=helper.make_tensor_type_proto(F32, ["n"]))
    n = node("Custom", "x - x -", "- y", domain="my.domain", **attributes)
    n.attribute.append(helper.make_attribute("no_ints", [], attr_type=onnx.AttributeProto.INTS))
    return model(graph([n], [value("x")], [value("y")]), opsets=[("ai.onnx", 21), ("my.domain", 3)])


def old_attributes():
    """Attributes without a kind, as IR version 3 allowed."""
    n = node("Custom", "x", "y", domain="my.domain")
    n.attribute.add(name="i", i=7)
    n.attribute.add(name="f", f=0.5)
    n.attribute.add(name="ints", ints=[4])
    return model(graph([n], [value("x")], [value("y")]), opsets=[("", 13), ("my.domain", 1)], ir_version=3)


def subgraphs():
    """A loop around a branch; both capture values of the main graph."""
    add = graph([node("Add", "s w", "added", name="add")], [], [value("added")])
    sub = graph([node("Sub", "s x", "subbed", name="sub")], [], [value("subbed")])
    body = graph(
        [node("If", "cond_in", "next", name="choose", then_branch=add, else_branch=sub),
         node("Identity", "cond_in", "cond_out")],
        [value("i", I64, []), value("cond_in", BOOL, []), onnx.ValueInfoProto(name="s")],
        [value("cond_out", BOOL, []), value("next")])
    return model(graph(
        [node("Loop", "trips - x", "y", name="loop", body=body)],
        [value("x"), value("trips", I64, [])], [value("y")], [raw("w", np.ones(1, np.float32))]))


def subgraph_results():
    """A branch may give back a value of the outer graph, and an initializer of its own."""
    then = graph([], [], [value("x")])
    other = graph([], [], [value("own", shape=[1])], [raw("own", np.zeros(1, np.float32))])
    return model(graph([node("If", "flag", "y", then_branch=then, else_branch=other)],
                       [value("flag", BOOL, []), value("x")], [value("y")]))


def function(name, inputs, outputs, nodes, attributes=(), defaults=(), domain="local", opset=20, **fields):
    return helper.make_function(domain, name, inputs.split(), outputs.split(), list(nodes),
                                [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)],
                                attributes=list(attributes), attribute_protos=list(defaults), **fields)


def reference(op, inputs, outputs, attribute, refers, kind, **fields):
    n = node(op, inputs, outputs, **fields)
    n.attribute.append(onnx.AttributeProto(name=attribute, type=kind, ref_attr_name=refers))
    return n


INT, INTS = onnx.AttributeProto.INT, onnx.AttributeProto.INTS


def functions():
    """Nested calls, attribute references through two levels, defaults, an absent input, two overloads."""
    inner = function("Inner", "a b", "c", [
        reference("Softmax", "a", "s", "axis", "axis", INT, name="soft"),
        reference("Constant", "", "shape", "value_ints", "shape", INTS),
        node("Reshape", "s shape", "r"), node("Clip", "r b", "c", name="clip")],
        attributes=["axis", "unset"], defaults=[helper.make_attribute("shape", [1, -1])])
    outer = function("Outer", "x", "y z", [
        reference("Inner", "x", "t", "axis", "outer_axis", INT, domain="local", name="call_inner"),
        node("Relu", "t", "y"), node("Inner", "x y", "z", domain="local", axis=0, shape=[2])],
        attributes=["outer_axis"], value_info=[value("t", F32, ["n", 1])])
    pick = [function("Pick", "a", "b", [node(op, "a", "b")], opset=opset) for op, opset in (("Exp", 18), ("Log", 20))]
    pick[1].overload = "second"
    call = node("Pick", "z", "q", domain="local")
    call.overload = "second"
    return model(graph([node("Outer", "x", "y z", domain="local", name="block", outer_axis=2),
                        node("Pick", "y", "p", domain="local"), call],
                       [value("x")], [value("y"), value("z"), value("p"), value("q")]),
                 opsets=[("", 20), ("local", 1)], functions=[inner, outer] + pick)


def function_subgraph():
    """A function whose body holds a subgraph that reads the function's input and its attribute."""
    branch = graph([reference("Softmax", "a", "s", "axis", "axis", INT)], [], [value("s")])
    keep = graph([], [], [value("a")])
    f = function("Maybe", "a flag", "b", [node("If", "flag", "b", name="if", then_branch=branch, else_branch=keep)],
                 attributes=["axis"])
    return model(graph([node("Maybe", "x flag", "y", domain="local", name="maybe", axis=1)],
                       [value("x"), value("flag", BOOL, [])], [value("y")]),
                 opsets=[("", 20), ("local", 1)], functions=[f])


def many_nodes(count=100_000):
    """A chain of small nodes, each reading a constant of its own."""
    nodes = [node("Add", f"v{i} c{i % 1000}", f"v{i + 1}", name=f"layer.{i}/add") for i in range(count)]
    constants = [raw(f"c{i}", np.full(4, i, np.float32)) for i in range(1000)]
    infos = [value(f"v{i}", F32, ["batch", 4]) for i in range(1, count)]
    return model(graph(nodes, [value("v0", F32, ["batch", 4])], [value(f"v{count}", F32, ["batch", 4])], constants,
                       value_info=infos))


if __name__ == "__main__":
    main(globals())
