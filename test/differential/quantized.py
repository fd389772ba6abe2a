"""Templates of quantized numbers, of products of integers, and of resized axes."""
import numpy as np
from builder import Unfit


def zero_point(b, shape, dtype):
    low = 0 if dtype == "uint8" else -20
    return b.constant(b.rng.integers(low, 100 if dtype == "uint8" else 20, shape).astype(dtype))


def scales(b, shape):
    return b.constant((0.02 + 0.2 * b.rng.random(shape)).astype(np.float32))


def there_and_back(b):
    """QuantizeLinear, something that moves, DequantizeLinear; one scale, or one along an axis."""
    x = b.pick("float32", (1, 4))
    dtype = b.choice(["uint8", "int8"])
    along = [i for i, d in enumerate(x.shape) if isinstance(d, int) and d > 1]
    attrs, shape = {}, ()
    if b.opset >= 13 and along and b.chance(0.5):
        axis = b.choice(along)
        attrs, shape = {"axis": axis - x.rank if b.chance(0.4) else axis}, (x.shape[axis],)
    extra = [scales(b, shape), zero_point(b, shape, dtype)]
    q = b.node("QuantizeLinear", [x, *extra], x.shape, dtype, **attrs)
    y = b.node("DequantizeLinear", [q, *extra], x.shape, bounds=40, **attrs)
    return y if b.chance(0.5) else q


def dynamic(b):
    x = b.pick("float32", (1, 3))
    if any(b.least(d) < 1 for d in x.shape):
        raise Unfit
    return b.node("DynamicQuantizeLinear", [x], [x.shape, (), ()], ["uint8", "float32", "uint8"])


def product(b):
    """(a - az) . (w - wz) in 32 bits."""
    a = b.pick(("uint8", "int8"), (2, 3))
    if b.least(a.shape[-1]) < 1:
        raise Unfit  # ONNX Runtime leaves such a product as its memory was
    n = b.dim(static=True)
    w = b.leaf(b.choice(["uint8", "int8"]), (a.shape[-1], n))
    inputs = [a, w] + ([zero_point(b, (), a.dtype), zero_point(b, (), w.dtype)] if b.chance(0.7) else [])
    made = b.node("MatMulInteger", inputs, a.shape[:-1] + (n,), "int32")
    return b.node("Mul", [b.node("Cast", [made], made.shape, to=1), b.scalar(0.001)], made.shape, bounds=20)


def resize(b):
    """The last two axes of images, by scales or sizes."""
    if b.opset < 13:
        raise Unfit
    x = b.pick("float32", (4, 4), lambda v: all(isinstance(d, int) and d > 0 for d in v.shape[2:]))
    if any(b.least(d) < 1 for d in x.shape):
        raise Unfit
    mode = b.choice(["nearest", "linear", "cubic"])
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    attrs = {"mode": mode, "coordinate_transformation_mode": b.choice(modes)}
    if mode == "nearest":
        attrs["nearest_mode"] = b.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    factors = [float(b.choice([1.0, 2.0, 0.5, 3.0])) for _ in range(2)]
    dims = tuple(int(d * f) for d, f in zip(x.shape[2:], factors))
    if 0 in dims:
        raise Unfit
    scale = b.constant(np.array([1.0, 1.0, *factors], np.float32))
    return b.node("Resize", [x, None, scale], x.shape[:2] + dims, bounds=2 * x.bound, **attrs)


TEMPLATES = {there_and_back: 2, dynamic: 0.7, product: 1.5, resize: 1.5}
