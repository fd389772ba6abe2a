"""Templates of operators that work on one element at a time, with broadcasting and casts."""
import numpy as np

from builder import FLOATS, INTEGERS, Unfit

# name -> (first opset, bound of the result from that of the operand)
UNARY = {
    "Relu": (6, lambda b: b), "Tanh": (6, lambda b: 1), "Sigmoid": (6, lambda b: 1), "Neg": (6, lambda b: b), "Abs": (6, lambda b: b),
    "Erf": (9, lambda b: 1), "Softplus": (1, lambda b: b + 1), "Sin": (7, lambda b: 1), "Cos": (7, lambda b: 1), "Floor": (6, lambda b: b + 1),
    "Ceil": (6, lambda b: b + 1), "Round": (11, lambda b: b + 1), "Sign": (9, lambda b: 1), "Softsign": (1, lambda b: 1), "Atan": (7, lambda b: 2),
    "Asinh": (9, lambda b: b), "LeakyRelu": (6, lambda b: b), "Elu": (6, lambda b: b + 1), "Selu": (6, lambda b: 2 * b), "HardSigmoid": (6, lambda b: 1),
    "HardSwish": (14, lambda b: b), "Gelu": (20, lambda b: b), "ThresholdedRelu": (10, lambda b: b), "Mish": (18, lambda b: b), "Celu": (12, lambda b: b + 1),
    "Identity": (1, lambda b: b), "Shrink": (9, lambda b: b + 1),
}
ONLY_FLOAT32 = ("Celu", "HardSwish", "Shrink", "Mish", "Asinh", "Softsign", "ThresholdedRelu", "Gelu", "Atan", "Erf", "HardSigmoid", "Selu", "Elu", "LeakyRelu")
ATTRIBUTES = {"LeakyRelu": {"alpha": (0.01, 0.3)}, "Elu": {"alpha": (0.5, 2)}, "HardSigmoid": {"alpha": (0.1, 0.5), "beta": (0.2, 0.6)},
              "Celu": {"alpha": (0.5, 2)}, "ThresholdedRelu": {"alpha": (0.1, 1)}, "Shrink": {"lambd": (0.1, 1), "bias": (0, 1)}}


def unary(b):
    op = b.choice([name for name, (since, _) in UNARY.items() if since <= b.opset])
    x = b.pick(("float32",) if op in ONLY_FLOAT32 else FLOATS)
    attrs = {k: float(np.float32(b.rng.uniform(*r))) for k, r in ATTRIBUTES.get(op, {}).items() if b.chance(0.7)}
    if op == "Gelu" and b.chance(0.5):
        attrs["approximate"] = "tanh"
    return b.node(op, [x], x.shape, x.dtype, UNARY[op][1](x.bound), **attrs)


def guarded_unary(b):
    """Functions with a domain: their operand is brought into it."""
    x = b.pick("float32")
    op = b.choice(["Sqrt", "Log", "Exp", "Reciprocal"])
    if op == "Exp":
        bounded = b.node("Min", [b.node("Max", [x, b.scalar(-5.0)], x.shape), b.scalar(2.5)], x.shape)
        return b.node("Exp", [bounded], x.shape, bounds=13)
    positive = b.node("Add", [b.node("Abs", [x], x.shape), b.scalar(float(b.choice([0.25, 0.5, 1.0])))], x.shape)
    return b.node(op, [positive], x.shape, bounds=x.bound + 4)


def partner(b, x):
    """(y, result shape) for a binary operator: a tensor that broadcasts with x, one way or both."""
    dims, shape = [], list(x.shape)
    for at, dim in enumerate(x.shape):
        if dim == 1 and b.chance(0.3):
            dims.append(b.dim())
            shape[at] = dims[-1]
        else:
            dims.append(1 if b.chance(0.3) else dim)
    drop = b.integer(0, len(dims)) if b.chance(0.3) else 0
    shape = tuple(shape[:drop]) and tuple(x.shape[:drop]) + tuple(shape[drop:]) if drop else tuple(shape)
    dims = tuple(dims[drop:])
    if b.chance(0.15) and len(shape) < 4:
        extra = b.choice([1, b.dim()])
        dims, shape = (extra,) + (1,) * (len(shape) - len(dims)) + dims, (extra,) + shape
    if b.elements(shape) > 20000:
        raise Unfit
    return b.like(dims, x.dtype), tuple(shape)


def swap(b, x, y):
    return (y, x) if b.chance(0.4) else (x, y)


def binary(b):
    x = b.pick(FLOATS)
    y, shape = partner(b, x)
    op = b.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Add", "Mul"])
    bound = {"Add": x.bound + y.bound, "Sub": x.bound + y.bound, "Mul": x.bound * y.bound}.get(op, max(x.bound, y.bound))
    if op == "Div":
        y = b.node("Add", [b.node("Abs", [y], y.shape, y.dtype), b.scalar(0.5, y.dtype)], y.shape, y.dtype)
        return b.node(op, [x, y], shape, x.dtype, 2 * x.bound)
    return b.node(op, list(swap(b, x, y)), shape, x.dtype, bound)


def power(b):
    x = b.pick("float32")
    if b.chance(0.5):
        exponent = float(b.choice([2.0, 0.5, 3.0, -1.0, 1.0, 0.0]))
        base = x if exponent in (2.0, 3.0, 1.0, 0.0) else b.node("Add", [b.node("Abs", [x], x.shape), b.scalar(0.5)], x.shape)
        return b.node("Pow", [base, b.scalar(exponent)], x.shape, bounds=max(x.bound, 1) ** max(exponent, 1) + 2)
    y, shape = partner(b, x)
    base = b.node("Add", [b.node("Sigmoid", [x], x.shape), b.scalar(0.5)], x.shape)
    return b.node("Pow", [base, b.node("Tanh", [y], y.shape)], shape, bounds=2)


def variadic(b):
    x = b.pick("float32")
    others = [partner(b, x) for _ in range(b.integer(1, 2))]
    if any(shape != x.shape for _, shape in others):
        raise Unfit
    op = b.choice(["Sum", "Mean", "Max", "Min"])
    return b.node(op, [x] + [y for y, _ in others], x.shape, bounds=x.bound + sum(y.bound for y, _ in others))


def compare(b):
    x = b.pick(("float32", "int64", "int32"))
    y, shape = partner(b, x)
    op = b.choice(["Less", "Greater", "Equal"] + (["LessOrEqual", "GreaterOrEqual"] if b.opset >= 12 else []))
    return b.node(op, list(swap(b, x, y)), shape, "bool")


def logic(b):
    x = b.pick("bool")
    if b.chance(0.2):
        return b.node("Not", [x], x.shape, "bool")
    y, shape = partner(b, x)
    return b.node(b.choice(["And", "Or", "Xor"]), list(swap(b, x, y)), shape, "bool")


def where(b):
    x = b.pick(("float32", "int64"))
    y, shape = partner(b, x)
    condition = b.like(tuple(d if b.chance(0.7) else 1 for d in shape), "bool")
    return b.node("Where", [condition, *swap(b, x, y)], shape, x.dtype, max(x.bound, y.bound))


def small(b, x):
    """Integers near 0, so that nothing overflows (which ONNX leaves open)."""
    return b.node("Mod", [x, b.constant(np.array(7, x.dtype))], x.shape, x.dtype)


def integer(b):
    x = b.pick(("int64", "int32"))
    y, shape = partner(b, x)
    x, y = small(b, x), small(b, y)
    op = b.choice(["Add", "Sub", "Mul", "Div", "Mod"] + (["Max", "Min"] if b.opset >= 12 else []))
    if op in ("Div", "Mod"):
        y = b.node("Add", [b.node("Abs", [y], y.shape, y.dtype), b.constant(np.array(1, y.dtype))], y.shape, y.dtype)
        if op == "Div":  # engines differ in how quotients of negative numbers round
            x = b.node("Abs", [x], x.shape, x.dtype)
    attrs = {"fmod": 1} if op == "Mod" and b.chance(0.4) else {}
    return b.node(op, [x, y], shape, x.dtype, **attrs)


def bits(b):
    x = b.pick("uint8")
    if b.opset >= 18 and b.chance(0.5):
        y, shape = partner(b, x)
        return b.node(b.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, y], shape, "uint8")
    return b.node("BitShift", [x, b.constant(np.array(b.integer(0, 7), np.uint8))], x.shape, "uint8", direction=b.choice(["LEFT", "RIGHT"]))


def cast(b):
    x = b.pick(("float32", "float64", "int64", "int32", "bool", "uint8", "int8"))
    to = b.choice([t for t in ("float32", "float64", "int64", "int32", "bool", "float32") if t != x.dtype])
    if x.dtype in FLOATS and to in INTEGERS:
        x = b.node("Mul", [x, b.scalar(3.7, x.dtype)], x.shape, x.dtype)
    if x.dtype in FLOATS and to == "bool":
        x = b.node("Relu", [x], x.shape, x.dtype)
    from builder import onnx_type
    return b.node("Cast", [x], x.shape, to, 40 if x.dtype in INTEGERS else x.bound, to=onnx_type(to))


def clip(b):
    x = b.pick("float32")
    low, high = sorted(b.rng.uniform(-2, 2, 2))
    if b.opset < 11:
        return b.node("Clip", [x], x.shape, bounds=2, min=float(low), max=float(high))
    ends = [b.scalar(low) if b.chance(0.8) else None, b.scalar(high) if b.chance(0.8) else None]
    return b.node("Clip", [x] + ends, x.shape, bounds=x.bound)


def prelu(b):
    x = b.pick("float32", (1, 4))
    slope = b.like(tuple(d if b.chance(0.5) else 1 for d in x.shape), constant_or_input(b))
    return b.node("PRelu", [x, slope], x.shape, bounds=x.bound * max(1, slope.bound))


def constant_or_input(b):
    return "float32"


TEMPLATES = {unary: 4, guarded_unary: 2, binary: 5, power: 1, variadic: 1, compare: 1, logic: 1, where: 2, integer: 2, bits: 0.5, cast: 1, clip: 1, prelu: 0.5}
