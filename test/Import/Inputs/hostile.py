"""Models that must be refused with a clear message, and quickly."""
from builder import *
from graphs import function

LOCAL = [("", 20), ("local", 1)]


def with_tensor(tensor):
    return model(graph([node("Identity", "w", "y", name="use")], [], [value("y", shape=None)], [tensor]))


def tensor(dims, dtype=F32, **fields):
    return with_tensor(TensorProto(name="w", data_type=dtype, dims=dims, **fields))


def empty():
    return b""


def garbage():
    return bytes(range(256)) * 4


def truncated():
    return with_tensor(raw("w", np.ones(4000, np.float32))).SerializeToString()[:-100]


def no_graph():
    return onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 20)])


def petabyte():
    """Hundred-odd bytes that ask for a petabyte."""
    return tensor([1 << 20, 1 << 28], raw_data=b"\0" * 4)


def overflow():
    return tensor([1 << 62, 1 << 62, 1 << 62], raw_data=b"\0" * 4)


def overflow_of_nothing():
    return tensor([1 << 62, 1 << 62, 0], raw_data=b"")


def negative():
    return tensor([2, -3], raw_data=b"\0" * 24)


def deep_rank():
    return tensor([1] * 65, raw_data=b"\0" * 4)


def raw_short():
    return tensor([4], raw_data=b"\0" * 12)


def raw_long():
    return tensor([4], raw_data=b"\0" * 20)


def raw_short_bulk():
    return tensor([4096], raw_data=b"\0" * 16000)


def typed_short():
    return tensor([4], float_data=[1, 2])


def typed_wrong():
    return tensor([2], int64_data=[1, 2])


def two_encodings():
    return tensor([1], raw_data=b"\0" * 4, float_data=[1])


def no_data():
    return tensor([3])


def segment():
    made = TensorProto(name="w", data_type=F32, dims=[1], float_data=[1])
    made.segment.begin, made.segment.end = 0, 1
    return with_tensor(made)


def strings():
    return tensor([1], dtype=TensorProto.STRING, string_data=[b"a"])


def complex_numbers():
    return tensor([1], dtype=TensorProto.COMPLEX64, float_data=[1, 2])


def unknown_dtype():
    return tensor([1], dtype=99, raw_data=b"\0")


def huge_port():
    return model(graph([node("Relu", "x", "y")], [value("x", shape=[1 << 62, 1 << 62])], [value("y")]))


def huge_value_info():
    return model(graph([node("Relu", "x", "a"), node("Relu", "a", "y")], [value("x")], [value("y")],
                       value_info=[value("a", shape=[1 << 40, 1 << 40])]))


def negative_port():
    return model(graph([node("Relu", "x", "y")], [value("x", shape=[-1])], [value("y")]))


def bad_weights():
    """Every one of these weights is reported."""
    cases = [
        external("absolute", F32, [4], location="/etc/passwd"),
        external("escape", F32, [4], location="../weights.bin"),
        external("inner_escape", F32, [4], location="a/../../weights.bin"),
        external("link", F32, [4], location="link.bin"),
        external("folder", F32, [4], location="folder"),
        external("nowhere", F32, [4]),
        external("unnamed", F32, [4], location=""),
        external("key", F32, [4], location="data.bin", surprise="1"),
        external("offset", F32, [4], location="data.bin", offset="-1"),
        external("offset_text", F32, [4], location="data.bin", offset="12x"),
        external("offset_huge", F32, [4], location="data.bin", offset=str((1 << 64) - 8)),
        external("length", F32, [4], location="data.bin", length="17"),
        external("end", F32, [4], location="data.bin", offset="60"),
        external("petabyte", F32, [1 << 50], location="data.bin"),
    ]
    return identities(cases)


def recursion():
    fs = [function(a, "x", "y", [node(b, "x", "y", domain="local")]) for a, b in ("AB", "BC", "CA")]
    return model(graph([node("A", "x", "y", domain="local", name="start")], [value("x")], [value("y")]), LOCAL,
                 functions=fs)


def self_recursion():
    f = function("Self", "x", "y", [node("Self", "x", "y", domain="local")])
    return model(graph([node("Self", "x", "y", domain="local", name="start")], [value("x")], [value("y")]), LOCAL,
                 functions=[f])


def doubling():
    """Forty functions, each of which calls the next one twice: 2^40 nodes."""
    fs = [function(f"F{i}", "x", "y", [node(f"F{i + 1}", "x", "t", domain="local"),
                                       node(f"F{i + 1}", "t", "y", domain="local")]) for i in range(40)]
    fs.append(function("F40", "x", "y", [node("Relu", "x", "y")]))
    return model(graph([node("F0", "x", "y", domain="local")], [value("x")], [value("y")]), LOCAL, functions=fs)


def deep_calls():
    fs = [function(f"F{i}", "x", "y", [node(f"F{i + 1}", "x", "y", domain="local")]) for i in range(1000)]
    fs.append(function("F1000", "x", "y", [node("Relu", "x", "y")]))
    return model(graph([node("F0", "x", "y", domain="local", name="start")], [value("x")], [value("y")]), LOCAL,
                 functions=fs)


def deep_subgraphs(depth=2000):
    """Graph in node in graph; built by hand because protobuf's own writer is recursive too."""
    def field(number, payload):
        size, length = len(payload), b""
        while size >= 0x80:
            length += bytes([size & 0x7F | 0x80])
            size >>= 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + payload
    inner = field(1, field(4, b"If"))
    for _ in range(depth):
        inner = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, inner)))
    return bytes([0x08, 10]) + field(7, inner)


def missing_values():
    """Every missing name is reported, with its node."""
    nodes = [node("Add", "x nothing", "a", name="first"), node("Add", "later a", "b", name="second"),
             node("Relu", "x", "later", name="third"), node("Relu", "alsonothing", "c")]
    return model(graph(nodes, [value("x")], [value("b"), value("absent")]))


def duplicates():
    nodes = [node("Relu", "x", "a", name="first"), node("Exp", "x", "a", name="second"),
             node("Exp", "x", "w", name="third"), node("Exp", "x", "x", name="fourth")]
    return model(graph(nodes, [value("x"), value("x")], [value("a"), value("a")],
                       [raw("w", np.ones(1, np.float32)), raw("w", np.ones(1, np.float32))]))


def kinds():
    """Values that are no tensors."""
    sequence = helper.make_tensor_sequence_value_info("seq", F32, ["n"])
    optional = helper.make_value_info("opt", helper.make_optional_type_proto(helper.make_tensor_type_proto(F32, None)))
    mapping = helper.make_value_info("map", helper.make_map_type_proto(I64, helper.make_tensor_type_proto(F32, None)))
    text = value("text", TensorProto.STRING)
    nodes = [node("SequenceAt", "seq i", "y"), node("Custom", "y opt map text", "made_seq", domain="d"),
             node("Custom", "made_seq", "z", domain="d")]
    info = helper.make_tensor_sequence_value_info("made_seq", F32, ["n"])
    return model(graph(nodes, [sequence, optional, mapping, text, value("i", I64, []), onnx.ValueInfoProto(name="bare")],
                       [value("z")], value_info=[info]), [("", 20), ("d", 1)])


def attributes():
    """Attributes that mean nothing here."""
    odd = node("Custom", "x", "a", name="odd", domain="d")
    odd.attribute.append(onnx.AttributeProto(name="none"))
    odd.attribute.append(onnx.AttributeProto(name="kind", type=onnx.AttributeProto.GRAPHS))
    odd.attribute.append(onnx.AttributeProto(i=1, type=onnx.AttributeProto.INT))
    odd.attribute.append(onnx.AttributeProto(name="twice", i=1, type=onnx.AttributeProto.INT))
    odd.attribute.append(onnx.AttributeProto(name="twice", i=2, type=onnx.AttributeProto.INT))
    odd.attribute.append(onnx.AttributeProto(name="ref", type=onnx.AttributeProto.INT, ref_attr_name="outer"))
    nodes = [odd, node("", "a", "b", name="nameless"), node("Constant", "", "c", name="text", value_string="t"),
             node("Constant", "", "d", name="empty"), node("Constant", "", "e", name="other", value_other=1)]
    return model(graph(nodes, [value("x")], [value("a")]), [("", 20), ("d", 1)])


def arity():
    f = function("F", "x", "y", [node("Relu", "x", "y")])
    g = function("G", "x", "y", [node("Relu", "x", "z")])
    nodes = [node("F", "x x", "y", domain="local", name="call"), node("G", "x", "z", domain="local", name="bad_output")]
    return model(graph(nodes, [value("x")], [value("y"), value("z")]), LOCAL, functions=[f, g, f])


def sparse_outside():
    made = helper.make_sparse_tensor(raw("w", np.ones(1, np.float32)), raw("", np.array([6])), [2, 3])
    return model(graph([node("Relu", "w", "y")], [], [value("y", shape=None)], sparse_initializer=[made]))


def sparse_large():
    made = helper.make_sparse_tensor(raw("w", np.ones(1, np.float32)), raw("", np.array([6])), [1 << 20, 1 << 20])
    return model(graph([node("Relu", "w", "y")], [], [value("y", shape=None)], sparse_initializer=[made]))


def simple(**fields):
    return model(graph([node("Relu", "x", "y", name="relu")], [value("x")], [value("y")]), **fields)


def opset_low():
    return simple(opsets=[("", 0)])


def opset_high():
    return simple(opsets=[("ai.onnx", 29), ("com.microsoft", 2)])


def opset_missing():
    return simple(opsets=[("d", 1)])


def opset_twice():
    return simple(opsets=[("", 20), ("ai.onnx", 21)])


def ir_high():
    return simple(ir_version=99)


def no_outputs():
    return model(graph([node("Relu", "x", "y")], [value("x")], []))


def wrong_output():
    return model(graph([node("Identity", "x", "z")], [value("x", shape=["n", 2])], [value("x", shape=["n", 3]), value("z")]))


def many_errors():
    return model(graph([node("Relu", f"missing{i}", f"y{i}") for i in range(60)], [], [value("y0")]))


if __name__ == "__main__":
    main(globals())
