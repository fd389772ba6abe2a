"""Templates of the composite forms that the raising passes know, written as exporters write them, and near misses.

Each form is drawn with small deviations (another axis, a scale for each channel, a mask that is multiplied, an
intermediate value that somebody else reads) of which some must not be raised: a rewrite that takes one for the real
thing gives wrong values.
"""
import numpy as np

from builder import Unfit, make_shape_tensor


def mean(b, x, axis, keep=1):
    axis %= x.rank
    dims = x.shape[:axis] + ((1,) if keep else ()) + x.shape[axis + 1:]
    if b.opset < 18:
        return b.node("ReduceMean", [x], dims, axes=[axis], keepdims=keep)
    return b.node("ReduceMean", [x, b.ints([axis])], dims, keepdims=keep)


def unsqueeze(b, x, at):
    dims = x.shape[:at] + (1,) + x.shape[at:]
    if b.opset < 13:
        return b.node("Unsqueeze", [x], dims, x.dtype, x.bound, axes=[at])
    return b.node("Unsqueeze", [x, b.ints([at])], dims, x.dtype, x.bound)


def stream(b, ranks=(2, 3)):
    """Activations: [batch,] tokens, channels known."""
    return b.pick("float32", ranks, lambda v: isinstance(v.shape[-1], int) and v.shape[-1] >= 2 and all(b.least(d) > 0 for d in v.shape))


def affine(b, y, x):
    """* gamma (+ beta), of the right shape, or of one that only broadcasts."""
    shape = b.choice([x.shape[-1:], x.shape[-1:], x.shape[-1:], (1,), (1, x.shape[-1]), x.shape[-2:] if all(isinstance(d, int) for d in x.shape[-2:]) else (1,)])
    pair = [y, b.leaf("float32", shape, constant=b.chance(0.8))]
    return b.node("Mul", pair[::-1] if b.chance(0.4) else pair, y.shape, bounds=8)


def maybe_read(b, value):
    """Lets somebody else read an intermediate value."""
    if b.chance(0.15):
        b.keep(value)
    return value


def layer_norm(b):
    x = stream(b)
    axis = -1 if b.chance(0.85) else -2
    centred = b.node("Sub", [x, maybe_read(b, mean(b, x, axis))], x.shape, bounds=8)
    again = centred if b.chance(0.7) else b.node("Sub", [x, mean(b, x, axis)], x.shape, bounds=8)
    square = b.node("Pow", [again, b.scalar(2.0)], x.shape) if b.chance(0.5) else b.node("Mul", [again, again], x.shape)
    variance = mean(b, square, axis if b.chance(0.93) else -1)
    if variance.shape != x.shape[:-1] + (1,) and axis == -1:
        raise Unfit
    root = b.node("Sqrt", [b.node("Add", [variance, b.scalar(float(b.choice([1e-5, 1e-3, 0.1])))], variance.shape)], variance.shape)
    y = maybe_read(b, b.node("Div", [centred, root], x.shape, bounds=8))
    y = affine(b, y, x) if b.chance(0.8) else y
    if b.chance(0.7):
        y = b.node("Add", [y, b.leaf("float32", x.shape[-1:], constant=True)], y.shape, bounds=8)
    return y


def rms_norm(b):
    x = stream(b)
    axis = -1 if b.chance(0.85) else -2
    square = b.node("Pow", [x, b.scalar(2.0 if b.chance(0.95) else 4.0)], x.shape, bounds=16) if b.chance(0.5) else b.node("Mul", [x, x], x.shape, bounds=16)
    power = mean(b, square, axis)
    shifted = b.node("Add", [power, b.scalar(float(b.choice([1e-6, 1e-5, 0.1])))], power.shape)
    root = maybe_read(b, b.node("Sqrt", [shifted], power.shape, bounds=8))
    if b.chance(0.5):
        y = b.node("Div", [x, root], x.shape, bounds=8)
    else:
        y = b.node("Mul", [x, b.node("Reciprocal", [root], power.shape, bounds=8)], x.shape, bounds=8)
    y = affine(b, y, x) if b.chance(0.8) else y
    if b.chance(0.25):  # a gate behind the norm
        gate = b.like(x.shape)
        y = b.node("Mul", [y, b.node("Sigmoid", [gate], gate.shape) if b.chance(0.5) else silu(b, gate)], y.shape, bounds=8)
    return y


def l2_norm(b):
    x = stream(b)
    square = b.node("Mul", [x, x], x.shape, bounds=16)
    dims = x.shape[:-1] + (1,)
    total = b.node("ReduceSum", [square], dims, axes=[-1], keepdims=1) if b.opset < 13 else b.node("ReduceSum", [square, b.ints([-1])], dims, keepdims=1)
    eps = b.scalar(float(b.choice([1e-6, 1e-3])))
    if b.chance(0.5):
        root = b.node("Sqrt", [b.node("Add", [total, eps], dims)], dims)
    else:
        root = b.node("Max", [b.node("Sqrt", [total], dims), eps], dims)
    return b.node("Div", [x, root], x.shape, bounds=1)


def silu(b, x):
    inner = x if b.chance(0.85) else b.node("Mul", [x, b.scalar(float(b.choice([1.702, 0.5])))], x.shape, bounds=x.bound)
    return b.node("Mul", [x, b.node("Sigmoid", [inner], x.shape)], x.shape, bounds=x.bound)


def gelu(b, x):
    """By erf or tanh, the constants now and then not quite those of Gelu."""
    if b.chance(0.5):
        root = float(np.sqrt(2.0)) if b.chance(0.9) else 1.5
        erf = b.node("Erf", [b.node("Div", [x, b.scalar(root)], x.shape, bounds=x.bound)], x.shape)
        one = b.node("Add", [erf, b.scalar(1.0)], x.shape, bounds=2)
        if b.chance(0.5):
            return b.node("Mul", [b.node("Mul", [x, one], x.shape, bounds=x.bound), b.scalar(0.5)], x.shape, bounds=x.bound)
        return b.node("Mul", [b.node("Mul", [x, b.scalar(0.5)], x.shape, bounds=x.bound), one], x.shape, bounds=x.bound)
    cube = b.node("Pow", [x, b.scalar(3.0)], x.shape, bounds=30)
    inner = b.node("Add", [x, b.node("Mul", [cube, b.scalar(0.044715 if b.chance(0.9) else 0.05)], x.shape)], x.shape)
    scaled = b.node("Mul", [inner, b.scalar(0.7978845608 if b.chance(0.9) else 0.7)], x.shape)
    one = b.node("Add", [b.node("Tanh", [scaled], x.shape), b.scalar(1.0)], x.shape, bounds=2)
    half = b.node("Mul", [x, b.scalar(0.5)], x.shape, bounds=x.bound)
    return b.node("Mul", [half, one], x.shape, bounds=x.bound)


def activation(b):
    x = b.pick("float32", (1, 3))
    return gelu(b, x) if b.chance(0.7) else silu(b, x)


def linear(b, x, width, bias=0.5):
    k = x.shape[-1]
    w = b.constant(b.array((k, width), "float32", 1 / np.sqrt(max(k, 1))))
    if b.chance(0.3):
        stored = b.constant(b.array((width, k), "float32", 1 / np.sqrt(max(k, 1))))
        w = b.node("Transpose", [stored], (k, width), bounds=2, perm=[1, 0])
    y = b.node("MatMul", [x, w], x.shape[:-1] + (width,), bounds=4)
    if b.chance(bias):
        pair = [y, b.constant(b.array((width,), "float32"))]
        y = b.node("Add", pair[::-1] if b.chance(0.3) else pair, y.shape, bounds=8)
    return y


def glu(b):
    x = stream(b)
    width = 2 * b.integer(1, 9)
    if b.chance(0.4):
        both = linear(b, x, 2 * width)
        inputs, attrs = [both], {"axis": -1}
        if b.opset >= 18 and b.chance(0.5):
            attrs["num_outputs"] = 2
        elif b.opset >= 13:
            inputs.append(b.ints([width, width]))
        else:
            attrs["split"] = [width, width]
        gate, up = b.node("Split", inputs, [x.shape[:-1] + (width,)] * 2, bounds=8, **attrs)
    else:
        gate, up = linear(b, x, width), linear(b, x, width)
    act = b.choice([silu, gelu, lambda b, v: b.node("Relu", [v], v.shape, bounds=v.bound), lambda b, v: b.node("Sigmoid", [v], v.shape)])(b, maybe_read(b, gate))
    pair = [act, up] if b.chance(0.7) else [up, act]
    hidden = maybe_read(b, b.node("Mul", pair, up.shape, bounds=10))
    y = linear(b, hidden, x.shape[-1])
    return b.node("Add", [x, y], x.shape, bounds=10) if b.chance(0.6) else y


def heads_of(b, x, heads, size):
    """[B, T, heads * size] -> [B, heads, T, size]."""
    shaped = b.node("Reshape", [x, make_shape_tensor(b, (x.shape[0], x.shape[1], heads, size), x)], x.shape[:2] + (heads, size), bounds=x.bound)
    return b.node("Transpose", [shaped], (x.shape[0], heads, x.shape[1], size), bounds=x.bound, perm=[0, 2, 1, 3])


def causal(b, x, t):
    """[t, t] of 0 and -inf or a large negative number, from the extent of an axis of `x`."""
    if isinstance(t, int) and b.chance(0.5):
        return b.constant(np.triu(np.full((t, t), b.choice([-np.inf, -1e9]), np.float32), 1 if b.chance(0.85) else 2))
    count = b.node("Gather", [b.node("Shape", [x], (x.rank,), "int64"), b.scalar(x.shape.index(t), "int64")], (), "int64", axis=0)
    rows = b.node("Range", [b.scalar(0, "int64"), count, b.scalar(1, "int64")], (t,), "int64")
    left, right = unsqueeze(b, rows, 1), unsqueeze(b, rows, 0)
    if b.opset >= 12:
        allowed = b.node("GreaterOrEqual", [left, right], (t, t), "bool")
    else:
        allowed = b.node("Not", [b.node("Less", [left, right], (t, t), "bool")], (t, t), "bool")
    return b.node("Where", [allowed, b.scalar(0.0), b.scalar(float(b.choice([-1e9, -3.4e38])))], (t, t))


def attention(b):
    """Heads from one stream; scale before or after, masks of several kinds, groups of query heads."""
    x = stream(b, (3, 3))
    if not x.shape[0] == x.shape[0]:
        raise Unfit
    group = b.choice([1, 1, 2])
    kv, size = b.integer(1, 2), b.choice([2, 3, 4, 8])
    heads = kv * group
    value_size = size if b.chance(0.8) else b.choice([1, 5])
    q = heads_of(b, linear(b, x, heads * size), heads, size)
    k = heads_of(b, linear(b, x, kv * size), kv, size)
    v = heads_of(b, linear(b, x, kv * value_size), kv, value_size)
    batch, tokens = x.shape[:2]
    if group > 1:
        k, v = repeat(b, k, group), repeat(b, v, group)
    scale = float(np.float32(size ** -0.5)) if b.chance(0.8) else 0.37
    where = b.choice(["scores", "q", "both", "div"])
    if where == "q":
        q = b.node("Mul", [q, b.scalar(scale)], q.shape)
    if where == "both":
        q, k = b.node("Mul", [q, b.scalar(scale ** 0.5)], q.shape), b.node("Mul", [k, b.scalar(scale ** 0.5)], k.shape)
    turned = b.node("Transpose", [k], (batch, heads, size, tokens), perm=[0, 1, 3, 2])
    scores = b.node("MatMul", [q, turned], (batch, heads, tokens, tokens), bounds=10)
    if where == "scores":
        scores = b.node("Mul", [scores, b.scalar(scale)], scores.shape)
    if where == "div":
        scores = b.node("Div", [scores, b.scalar(1 / scale)], scores.shape)
    if b.chance(0.15):  # softcap
        scores = b.node("Mul", [b.node("Tanh", [b.node("Div", [scores, b.scalar(5.0)], scores.shape)], scores.shape), b.scalar(5.0)], scores.shape)
    if b.chance(0.07):  # a scale for each head: no plain attention
        scores = b.node("Mul", [scores, b.constant(b.array((heads, 1, 1), "float32"))], scores.shape)
    mask = b.choice(["none", "causal", "causal", "bias", "padding", "both"])
    if mask in ("causal", "both"):
        scores = b.node("Add", [scores, causal(b, x, tokens)], scores.shape)
    if mask in ("bias", "both"):
        shape = b.choice([(tokens, tokens), (1, 1, tokens, tokens), (batch, 1, 1, tokens), (1, heads, tokens, tokens), (batch, heads, tokens, tokens)])
        bias = b.leaf("float32", shape)
        scores = b.node("Add", [scores, bias] if b.chance(0.6) else [bias, scores], scores.shape)
    if mask == "padding":
        # Every query sees the first key: kimi.attention gives zeros where a row sees none.
        seen = lambda rng, concrete: (rng.random(concrete) < 0.5) | (np.arange(concrete[-1]) == 0)  # noqa: E731
        keep = b.input("bool", b.choice([(batch, 1, 1, tokens), (batch, 1, tokens, tokens)]), seen)
        scores = b.node("Where", [keep, scores, b.scalar(-1e4)], scores.shape)
    axis = -1 if b.chance(0.93) else 2
    if axis == 2 and b.opset < 13:
        axis = -1
    p = maybe_read(b, b.node("Softmax", [scores], scores.shape, axis=axis if axis == -1 and b.chance(0.5) else axis % 4))
    out = b.node("MatMul", [p, v], (batch, heads, tokens, value_size), bounds=4)
    back = b.node("Transpose", [out], (batch, tokens, heads, value_size), bounds=4, perm=[0, 2, 1, 3])
    flat = b.node("Reshape", [back, make_shape_tensor(b, (batch, tokens, heads * value_size), x)], (batch, tokens, heads * value_size), bounds=4)
    return linear(b, flat, x.shape[-1]) if b.chance(0.7) else flat


def repeat(b, x, group):
    """Heads repeated for groups of query heads: Unsqueeze, Expand, Reshape; now and then in the other order."""
    batch, heads, tokens, size = x.shape
    at = 2 if b.chance(0.85) else 1
    wide = unsqueeze(b, x, at)
    dims = (batch, heads, group, tokens, size) if at == 2 else (batch, group, heads, tokens, size)
    wide = b.node("Expand", [wide, make_shape_tensor(b, dims, x)], dims, bounds=x.bound)
    dims = (batch, heads * group, tokens, size)
    return b.node("Reshape", [wide, make_shape_tensor(b, dims, x)], dims, bounds=x.bound)


def attention_op(b):
    if b.opset < 23:
        raise Unfit
    x = stream(b, (3, 3))
    group, kv, size = b.choice([1, 2]), b.integer(1, 2), b.choice([2, 4, 8])
    heads = kv * group
    q, k, v = linear(b, x, heads * size), linear(b, x, kv * size), linear(b, x, kv * size)
    attrs = {"is_causal": b.integer(0, 1)} | ({"scale": 0.3} if b.chance(0.3) else {}) | ({"softcap": 4.0} if b.chance(0.2) else {})
    inputs = [q, k, v]
    dims = (x.shape[0], x.shape[1], heads * size)
    if b.chance(0.5):
        q, k, v = heads_of(b, q, heads, size), heads_of(b, k, kv, size), heads_of(b, v, kv, size)
        inputs, dims = [q, k, v], q.shape
    else:
        attrs |= {"q_num_heads": heads, "kv_num_heads": kv}
    if b.chance(0.4):
        t = x.shape[1]
        shape = b.choice([(t, t), (x.shape[0], 1, t, t)])
        seen = lambda rng, concrete: (rng.random(concrete) < 0.5) | (np.arange(concrete[-1]) == 0)  # noqa: E731
        inputs.append(b.leaf("float32", shape) if b.chance(0.5) else b.input("bool", shape, seen))
    return b.node("Attention", inputs, dims, bounds=4, **attrs)


def router(b):
    """Scores, the best of them, weights that sum to 1; then experts summed by masks, or the weights alone."""
    x = stream(b, (2, 2))
    experts = b.integer(3, 8)
    top = b.integer(1, 2)
    logits = linear(b, x, experts, bias=0.2)
    kind = b.choice(["softmax", "sigmoid"])
    scores = b.node("Softmax", [logits], logits.shape, axis=-1 if b.chance(0.9) or b.opset < 13 else 0) if kind == "softmax" else b.node("Sigmoid", [logits], logits.shape)
    choice = b.node("Add", [scores, b.constant(b.array((experts,), "float32", 0.2))], scores.shape) if b.chance(0.3) else scores
    dims = (x.shape[0], top)
    best, index = b.node("TopK", [choice, b.ints([top])], [dims, dims], ["float32", "int64"], axis=-1, largest=1, sorted=1)
    weights = best if choice is scores else b.node("GatherElements", [scores, index], dims, axis=-1)
    if b.chance(0.6):
        sums = (x.shape[0], 1)
        total = b.node("ReduceSum", [weights], sums, axes=[-1], keepdims=1) if b.opset < 13 else b.node("ReduceSum", [weights, b.ints([-1])], sums, keepdims=1)
        weights = b.node("Div", [weights, total], dims)
    if b.chance(0.4):
        weights = b.node("Mul", [weights, b.scalar(2.5)], dims, bounds=3)
    b.keep(index)
    zeros = b.node("Mul", [scores, b.scalar(0.0)], scores.shape, bounds=0.1)
    dense = b.node("ScatterElements", [zeros, index, weights], scores.shape, bounds=3, axis=-1 if b.chance(0.5) else 1)
    if b.chance(0.5):
        return dense
    total = None
    for e in range(experts):
        mine = b.node("Gather", [dense, b.ints([e])], (x.shape[0], 1), bounds=3, axis=1)
        inner = b.choice([3, 4, 8])
        gate = linear(b, x, inner, bias=0)
        hidden = b.node("Mul", [silu(b, gate), linear(b, x, inner, bias=0)], gate.shape, bounds=8)
        part = b.node("Mul", [linear(b, hidden, x.shape[-1], bias=0), mine], x.shape, bounds=8)
        total = part if total is None else b.node("Add", [total, part], x.shape, bounds=8)
    return total


def rotary(b):
    """x * cos + rotate_half(x) * sin."""
    x = b.pick("float32", (3, 4), lambda v: isinstance(v.shape[-1], int) and v.shape[-1] % 2 == 0 and v.shape[-1] > 0)
    half, dims = x.shape[-1] // 2, x.shape[:-1] + (x.shape[-1] // 2,)
    last = b.ints([-1])
    low = b.node("Slice", [x, b.ints([0]), b.ints([half]), last], dims, bounds=x.bound)
    high = b.node("Slice", [x, b.ints([half]), b.ints([2**62]), last], dims, bounds=x.bound)
    turned = b.node("Concat", [b.node("Neg", [high], dims, bounds=x.bound), low] if b.chance(0.85) else [b.node("Neg", [low], dims), high], x.shape, bounds=x.bound, axis=-1)
    table = b.choice([x.shape[-2:], x.shape[-1:]])
    cos, sin = b.like(table), b.like(table)
    return b.node("Add", [b.node("Mul", [x, cos], x.shape), b.node("Mul", [turned, sin], x.shape)], x.shape, bounds=2 * x.bound)


def residual_block(b):
    """Norm, linear, activation, residual: what elementwise fusion and linear fusion see."""
    x = stream(b)
    y = linear(b, rms_norm_of(b, x), x.shape[-1])
    y = b.choice([gelu, silu, lambda b, v: b.node("Relu", [v], v.shape, bounds=v.bound)])(b, y)
    if b.chance(0.5):
        y = linear(b, y, x.shape[-1])
    return b.node("Add", [x, y] if b.chance(0.5) else [y, x], x.shape, bounds=10)


def rms_norm_of(b, x):
    power = mean(b, b.node("Mul", [x, x], x.shape, bounds=16), -1)
    root = b.node("Sqrt", [b.node("Add", [power, b.scalar(1e-6)], power.shape)], power.shape, bounds=8)
    y = b.node("Div", [x, root], x.shape, bounds=8)
    return b.node("Mul", [y, b.constant(b.array(x.shape[-1:], "float32"))], x.shape, bounds=8)


TEMPLATES = {layer_norm: 3, rms_norm: 3, l2_norm: 1.5, activation: 2, glu: 3, attention: 5, attention_op: 1, router: 2, rotary: 1.5, residual_block: 2}
