"""Tensors of every encoding and type."""
import ml_dtypes
from builder import *


# Names of numpy's own types, and of those that ml_dtypes adds.
KINDS = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
    "bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "f8e8m0": ml_dtypes.float8_e8m0fnu,
    "f4e2m1": ml_dtypes.float4_e2m1fn, "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "i2": ml_dtypes.int2,
    "u2": ml_dtypes.uint2,
}


def values(kind):
    if kind == "bool":
        return [True, False, True]
    if kind == "f8e8m0":
        return [1.0, 2.0, 0.5]
    if kind in ("i2",):
        return [1, -2, 0]
    if kind in ("u2",):
        return [3, 1, 2]
    return [1, 2, 6] if kind.startswith("u") else [1, -2, 6]


def raw_dtypes():
    return identities([raw(kind, np.array(values(kind), dtype=dtype)) for kind, dtype in KINDS.items()])


def typed_dtypes():
    tensors = []
    for kind, dtype in KINDS.items():
        array = np.array(values(kind), dtype=dtype)
        tensors.append(helper.make_tensor(kind, helper.np_dtype_to_tensor_dtype(array.dtype), [3], array))
    return identities(tensors)


def float6():
    """Four to three bytes: codes 1, 2, 63, 4 and 5 of float6e2m3, and the same typed."""
    codes = [1, 2, 63, 4, 5]
    bits = sum(code << (6 * i) for i, code in enumerate(codes))
    packed = TensorProto(name="raw", data_type=27, dims=[5], raw_data=bits.to_bytes(4, "little"))
    return identities([packed, TensorProto(name="typed", data_type=28, dims=[5], int32_data=codes)])


def shapes():
    return identities([raw("scalar", np.float32(2)), raw("empty", np.zeros((0, 3), np.float32)),
                       raw("empty_bool", np.zeros((0,), np.bool_)),
                       TensorProto(name="empty_typed", data_type=F32, dims=[2, 0]),
                       raw("matrix", np.arange(6, dtype=np.float32).reshape(2, 3))])


def bulk():
    """Weights inside the model file: by raw_data, by a typed field, as a Constant and within a subgraph."""
    big = np.arange(2048, dtype=np.float32)
    typed = TensorProto(name="typed", data_type=F32, dims=[2048], float_data=big)
    constant = node("Constant", "", "constant_value", name="big_constant", value=raw("", big))
    inner = raw("inner", big)
    branch = graph([node("Add", "inner w", "sum")], [], [value("sum", shape=[2048])], [inner])
    return model(graph(
        [constant, node("Add", "w typed", "a"), node("Add", "a constant_value", "b"),
         node("If", "flag", "c", name="branches", then_branch=branch, else_branch=branch)],
        [value("flag", BOOL, [])], [value("b", shape=[2048]), value("c", shape=[2048])],
        [raw("w", big), typed, raw("ints", np.arange(1024)), raw("main", big)]))


def inline_limit():
    """1024 integers or 4096 bytes are constants, more are weights."""
    return identities([raw("ints", np.full(1024, 7)), raw("more_ints", np.full(1025, 7)),
                       raw("bytes", np.full(1024, 7, np.float32)), raw("more_bytes", np.full(1025, 7, np.float32))])


def sparse(index_shape="linear"):
    values_ = raw("s", np.array([5, 7], np.float32))
    indices = raw("", np.array([1, 5] if index_shape == "linear" else [[0, 1], [1, 2]], np.int64))
    return helper.make_sparse_tensor(values_, indices, [2, 3])


def sparse_initializers():
    coordinates = sparse("coordinates")
    coordinates.values.name = "c"
    return model(graph([node("Add", "s c", "y"), node("Constant", "", "k", sparse_value=sparse())], [],
                       [value("y", shape=[2, 3]), value("k", shape=[2, 3])],
                       sparse_initializer=[sparse(), coordinates]))


def constants():
    nodes = [
        node("Constant", "", "a", name="tensor_form", value=raw("", np.array([1.5], np.float32))),
        node("Constant", "", "b", value_int=3),
        node("Constant", "", "c", value_ints=[1, 2]),
        node("Constant", "", "d", value_float=0.5),
        node("Constant", "", "e", value_floats=[0.5, 2.0]),
    ]
    empty = helper.make_node("Constant", [], ["f"])
    empty.attribute.append(helper.make_attribute("value_ints", [], attr_type=onnx.AttributeProto.INTS))
    nodes.append(empty)
    return model(graph(nodes, [], [value(n.output[0], shape=None) for n in nodes if n.output[0] in "abcdef"]))


def external_weights():
    """Beside data.bin, 64 bytes: small integers and scalars are read, other tensors are not, absent files are fine."""
    return identities([
        external("ints", I64, [2], location="data.bin", offset="8"),
        external("scalar", F32, [], location="data.bin", length="4", checksum="abc"),
        external("row", F32, [4], location="data.bin", offset="16", length="16"),
        external("nibbles", TensorProto.FLOAT4E2M1, [3, 3], location="data.bin"),
        external("absent", F32, [1 << 20, 1 << 10], location="sub/other.bin", offset="4096"),
        external("absent_ints", I64, [2], location="sub/other.bin"),
    ])


if __name__ == "__main__":
    main(globals())
