"""MXFP4 weights, packed in the file and in the module, beside NumPy: nibble order, every code, the extremes of the scale,
blocks along any axis, inline and in an external file, added up and multiplied."""
import numpy as np
import onnx
import pytest
from conftest import run, tool
from onnx import TensorProto, helper, numpy_helper
from test_routing import EXPERTS, GPU, Graph, add_experts, add_router, compute, is_raised, mix, route

MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)  # OCP Microscaling Formats 1.0, table 6
VALUES = np.concatenate([MAGNITUDES, -MAGNITUDES])


def dequantize(codes, scales, axis):
    """[...] codes 0..15 and [.., K/32, ..] scale bytes as fp32."""
    factors = np.exp2(scales.astype(np.float64) - 127)
    return (VALUES[codes] * np.repeat(factors, 32, axis)).astype(np.float32)


def packed(codes, name):
    pairs = codes.reshape(-1, 2)
    data = (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8).tobytes()  # the first of two in the low nibble
    return helper.make_tensor(name, TensorProto.FLOAT4E2M1, codes.shape, data, raw=True)


def drawn(shape, axis, low, high, rng):
    codes = rng.integers(0, 16, shape).astype(np.uint8)
    codes.reshape(-1)[:16] = np.arange(16)
    blocks = [n // 32 if i == axis else n for i, n in enumerate(shape)]
    scales = rng.integers(low, high, blocks).astype(np.uint8)
    return codes, scales


def save(path, nodes, inputs, outputs, weights, external):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    onnx.checker.check_model(model)
    onnx.save(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)


@pytest.mark.parametrize("mode", [[], ["--reference"]], ids=["kernels", "reference"])
@pytest.mark.parametrize("external", [False, True], ids=["inline", "external"])
@pytest.mark.parametrize("shape,axis", [((3, 64), 1), ((64, 6), 0), ((2, 3, 96), 2), ((2, 320, 10), 1)])
def test_values(tmp_path, shape, axis, external, mode):
    codes, scales = drawn(shape, axis, 1, 254, np.random.default_rng(len(shape)))
    scales.reshape(-1)[:2] = 0, 250  # 2^-127, which is subnormal, and a large one
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=axis, block_size=32, output_dtype=TensorProto.FLOAT)
    scale = helper.make_tensor("s", TensorProto.FLOAT8E8M0, scales.shape, scales.tobytes(), raw=True)
    value = helper.make_tensor_value_info
    save(tmp_path / "m.onnx", [node, helper.make_node("Mul", ["d", "x"], ["y"])], [value("x", TensorProto.FLOAT, [1])],
         [value("y", TensorProto.FLOAT, shape)], [packed(codes, "w"), scale], external)
    run(tool("kimi-compile"), tmp_path / "m.onnx", "-o", tmp_path / "m.kmod", *mode)
    np.savez(tmp_path / "in.npz", x=np.ones(1, np.float32))
    run(tool("kimi-run"), tmp_path / "m.kmod", "--weights", tmp_path, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], dequantize(codes, scales, axis))


@pytest.mark.parametrize("rows", [1, 5, 33])
def test_product(tmp_path, rows):
    """x W^T of a packed W: [out, in], as a checkpoint holds it."""
    rng = np.random.default_rng(rows)
    codes, scales = drawn((48, 256), 1, 118, 128, rng)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1, block_size=32, output_dtype=TensorProto.FLOAT),
             helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    scale = helper.make_tensor("s", TensorProto.FLOAT8E8M0, scales.shape, scales.tobytes(), raw=True)
    value = helper.make_tensor_value_info
    save(tmp_path / "m.onnx", nodes, [value("x", TensorProto.FLOAT, [rows, 256])], [value("y", TensorProto.FLOAT, [rows, 48])],
         [packed(codes, "w"), scale], True)
    run(tool("kimi-compile"), tmp_path / "m.onnx", "-o", tmp_path / "m.kmod")
    x = rng.standard_normal((rows, 256), dtype=np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    run(tool("kimi-run"), tmp_path / "m.kmod", "--weights", tmp_path, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    expected = x.astype(np.float64) @ dequantize(codes, scales, 1).T.astype(np.float64)
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode", [[], ["--reference"], GPU, [*GPU, "--precision=bf16"], ["--gpu-schedules=80", "--precision=fp16"]],
                         ids=["kernels", "reference", "gpu", "gpu-bf16", "gpu-fp16"])
@pytest.mark.parametrize("rows", [1, 23, 211])  # the last: 53 pairs an expert, tiles of many rows
def test_experts(tmp_path, rows, mode):
    """Stacks of packed matrices, whose bytes the kernels of a mixture read. 160 channels: groups of 32 that do not fill a step."""
    rng, width, hidden = np.random.default_rng(rows), 160, 192
    g, matrices = Graph(), []
    for name, shape in (("w1", (EXPERTS, hidden, width)), ("w3", (EXPERTS, hidden, width)), ("w2", (EXPERTS, width, hidden))):
        codes, scales = drawn(shape, 2, 121, 126, rng)
        g.weights.append(packed(codes, name))
        g.weights.append(helper.make_tensor(name + "_scale", TensorProto.FLOAT8E8M0, scales.shape, scales.tobytes(), raw=True))
        g.nodes.append(helper.make_node("DequantizeLinear", [name, name + "_scale"], [name + "_float"], axis=2, block_size=32,
                                        output_dtype=TensorProto.FLOAT))
        matrices.append(dequantize(codes, scales, 2))
    bias = rng.standard_normal(EXPERTS).astype(np.float32)
    indices, weights = add_router(g, "logits", bias, 1, 1, 1.0)
    y = add_experts(g, "x", indices, weights, "w1_float", "w3_float", "w2_float")
    value = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])  # noqa: E731
    save(tmp_path / "m.onnx", g.nodes, [value("x", width), value("logits", EXPERTS)], [value(y, width)], g.weights, False)
    assert is_raised(tmp_path / "m.onnx", tmp_path, "moe")
    x = rng.standard_normal((rows, width)).astype(np.float32)
    logits = rng.standard_normal((rows, EXPERTS)).astype(np.float32)
    found = compute(tmp_path / "m.onnx", {"x": x, "logits": logits}, *mode)[y]
    expected = mix(x, *route(logits, bias, 1, 1, 1.0), *matrices)
    precise = not any("precision" in flag for flag in mode)
    assert np.linalg.norm(found - expected) <= (1e-5 if precise else 1e-2) * np.linalg.norm(expected)


def test_cuda(tmp_path):
    """The packed weight compiles for a GPU, and the module keeps it packed: half a byte a value."""
    codes, scales = drawn((32, 64), 1, 118, 128, np.random.default_rng(0))
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1, block_size=32, output_dtype=TensorProto.FLOAT)
    scale = helper.make_tensor("s", TensorProto.FLOAT8E8M0, scales.shape, scales.tobytes(), raw=True)
    value = helper.make_tensor_value_info
    save(tmp_path / "m.onnx", [node, helper.make_node("Mul", ["d", "x"], ["y"])], [value("x", TensorProto.FLOAT, [1])],
         [value("y", TensorProto.FLOAT, [32, 64])], [packed(codes, "w"), scale], True)
    run(tool("kimi-compile"), tmp_path / "m.onnx", "-o", tmp_path / "m.kmod", "--target=cuda:sm_90a")
    plan = run(tool("kimi-compile"), tmp_path / "m.onnx", "--emit=plan", "--target=cuda:sm_90a", "-o", "-").stdout
    assert "'w' [32, 32] U8" in plan and "1024 bytes" in plan
