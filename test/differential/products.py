"""Templates of products, convolutions, pooling, reductions and norms."""
from builder import Unfit, extent


def attrs_or_axes(b, op, x, axes, keep, since):
    """A reduction with its axes as an attribute before `since`, as an input from then on."""
    dims = tuple((1 if keep else None) if i in [a % x.rank for a in axes] else d for i, d in enumerate(x.shape))
    dims = tuple(d for d in dims if d is not None)
    if b.opset < since:
        return b.node(op, [x], dims, x.dtype, 1, keepdims=keep, axes=axes)
    return b.node(op, [x, b.ints(axes)], dims, x.dtype, 1, keepdims=keep)


def reduction(b):
    x = b.pick("float32", (1, 4))
    op = b.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceLogSum", "ReduceProd"])
    count = b.integer(1, min(2, x.rank))
    axes = sorted(int(a) for a in b.rng.permutation(x.rank)[:count])
    if any(b.least(x.shape[a]) < 1 for a in axes) and op not in ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        raise Unfit  # the least of nothing
    if op == "ReduceLogSum":
        x = b.node("Add", [b.node("Abs", [x], x.shape), b.scalar(0.5)], x.shape)
    if op == "ReduceProd":
        x = b.node("Add", [b.node("Sigmoid", [x], x.shape), b.scalar(0.5)], x.shape)
        if max(max(extent(x.shape[a], s) for a in axes) for s in b.sets) > 9:
            raise Unfit
    size = max(max(extent(x.shape[a], s) for a in axes) for s in b.sets) ** count
    shown = [a - x.rank if b.chance(0.4) else a for a in axes]
    made = attrs_or_axes(b, op, x, shown, b.integer(0, 1), 13 if op == "ReduceSum" else 18)
    bound = {"ReduceSum": size, "ReduceL1": size, "ReduceSumSquare": size * x.bound, "ReduceL2": size, "ReduceProd": 40}.get(op, 1) * max(x.bound, 1) + 5
    import dataclasses
    return dataclasses.replace(made, bound=float(bound))


def matmul(b):
    x = b.pick("float32", (1, 4), lambda v: v.shape[-1] != 0)
    k, n = x.shape[-1], b.dim()
    if x.rank == 1:
        return b.node("MatMul", [x, b.like((k, n))], (n,), bounds=8)
    kind = b.choice(["weight", "batched", "vector", "broadcast"])
    if kind == "vector":
        return b.node("MatMul", [x, b.like((k,))], x.shape[:-1], bounds=8)
    if kind == "batched":
        y = b.like(x.shape[:-2] + (k, n))
    elif kind == "broadcast" and x.rank > 2:
        y = b.like(tuple(d if b.chance(0.5) else 1 for d in x.shape[:-2]) + (k, n))
    else:
        y = b.leaf("float32", (k, n), constant=b.chance(0.7))
    return b.node("MatMul", [x, y], x.shape[:-1] + (n,), bounds=8)


def transposed_matmul(b):
    """Products whose operands come through a Transpose, as exporters write them."""
    x = b.pick("float32", (2, 4))
    k, n = x.shape[-1], b.dim()
    y = b.like(x.shape[:-2] + (n, k))
    perm = list(range(x.rank - 2)) + [x.rank - 1, x.rank - 2]
    turned = b.node("Transpose", [y], x.shape[:-2] + (k, n), bounds=y.bound, perm=perm)
    return b.node("MatMul", [x, turned], x.shape[:-1] + (n,), bounds=8)


def gemm(b):
    x = b.pick("float32", (2, 2))
    (m, k), n = x.shape, b.dim()
    attrs = {}
    if b.chance(0.3):
        attrs["transA"], m, k = 1, k, m
    w = b.like((n, k) if b.chance(0.5) else (k, n))
    if w.shape == (n, k) and not (w.shape == (k, n) and b.chance(0.5)):
        attrs["transB"] = 1
    if b.chance(0.4):
        attrs |= {"alpha": float(b.choice([0.5, 2.0])), "beta": float(b.choice([0.0, 0.5, 1.0]))}
    inputs = [x, w]
    if b.opset < 11 or b.chance(0.7):
        inputs.append(b.like(b.choice([(n,), (1, n), (m, 1), (m, n), (), (1,)])))
    return b.node("Gemm", inputs, (m, n), bounds=8, **attrs)


def einsum(b):
    if b.opset < 12:
        raise Unfit
    x = b.pick("float32", (2, 3))
    letters = "abc"[:x.rank]
    contracted = b.choice(letters)
    d = b.dim()
    other = [c for c in letters if c != contracted and b.chance(0.4)] + [contracted, "d"]
    other = [other[i] for i in b.rng.permutation(len(other))]
    dims = dict(zip(letters, x.shape)) | {"d": d}
    out = [c for c in letters if c != contracted and b.chance(0.85)] + ["d"]
    out = [out[i] for i in b.rng.permutation(len(out))]
    y = b.like(tuple(dims[c] for c in other))
    return b.node("Einsum", [x, y], tuple(dims[c] for c in out), bounds=10, equation=f"{letters},{''.join(other)}->{''.join(out)}")


def window(dim, kernel, stride, low, high, dilation):
    reach = dilation * (kernel - 1) + 1
    if isinstance(dim, int):
        return (dim + low + high - reach) // stride + 1
    return f"(({dim}+{low + high - reach})//{stride}+1)"


def spatial(b, rank):
    x = b.pick("float32", (rank + 2, rank + 2), lambda v: isinstance(v.shape[1], int) and 0 < v.shape[1] <= 17)
    attrs = {"kernel_shape": [], "strides": [], "dilations": []}
    low, high, dims = [], [], []
    for dim in x.shape[2:]:
        kernel, stride, dilation = b.integer(1, 3), b.choice([1, 1, 2]), b.choice([1, 1, 2])
        p, q = b.integer(0, kernel - 1), b.integer(0, kernel - 1)
        if b.least(dim) + p + q < dilation * (kernel - 1) + 1:
            raise Unfit
        for key, v in zip(attrs, (kernel, stride, dilation)):
            attrs[key].append(v)
        low.append(p)
        high.append(q)
        dims.append(window(dim, kernel, stride, p, q, dilation))
    return x, attrs | {"pads": low + high}, tuple(dims)


def conv(b):
    x, attrs, dims = spatial(b, b.integer(1, 2))
    channels = x.shape[1]
    group = b.choice([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
    out = group * b.integer(1, 4)
    w = b.leaf("float32", (out, channels // group, *attrs["kernel_shape"]), constant=b.chance(0.8))
    inputs = [x, w] + ([b.leaf("float32", (out,))] if b.chance(0.5) else [])
    return b.node("Conv", inputs, (x.shape[0], out, *dims), bounds=10, group=group, **attrs)


def pool(b):
    x, attrs, dims = spatial(b, b.integer(1, 2))
    op = b.choice(["MaxPool", "AveragePool"])
    if op == "AveragePool":
        if attrs["dilations"] != [1] * len(dims):
            raise Unfit
        del attrs["dilations"]
        attrs["count_include_pad"] = b.integer(0, 1)
    elif any(p >= k for p, k in zip(attrs["pads"], attrs["kernel_shape"] * 2)) or attrs["dilations"] != [1] * len(dims) and any(attrs["pads"]):
        raise Unfit  # a window that sees nothing but padding
    return b.node(op, [x], x.shape[:2] + dims, bounds=x.bound, **attrs)


def softmax(b):
    x = b.pick("float32", (1, 4))
    axis = b.integer(0, x.rank - 1)
    attrs = {"axis": axis - x.rank if b.chance(0.4) else axis} if b.chance(0.8) else {}
    if b.opset < 13 and not attrs and x.rank < 2:
        raise Unfit
    if any(b.least(d) < 1 for d in x.shape):
        raise Unfit
    op = b.choice(["Softmax", "Softmax", "LogSoftmax", "Hardmax"])
    if op == "Hardmax" and b.opset < 13:
        raise Unfit
    return b.node(op, [x], x.shape, bounds=1 if op != "LogSoftmax" else 10, **attrs)


def norm(b):
    x = b.pick("float32", (1, 4))
    if b.opset < 17 or any(b.least(d) < 1 for d in x.shape):
        raise Unfit
    axis = b.choice([-1, -1, -1, b.integer(0, x.rank - 1)])
    tail = x.shape[axis:] if axis < 0 else x.shape[axis:]
    rms = b.opset >= 23 and b.chance(0.5)
    inputs = [x, b.like(tail)] + ([b.like(tail)] if not rms and b.chance(0.7) else [])
    attrs = {"epsilon": float(b.choice([1e-5, 1e-6, 1e-3]))} if b.chance(0.6) else {}
    return b.node("RMSNormalization" if rms else "LayerNormalization", inputs, x.shape, bounds=10, axis=axis, **attrs)


def channel_norm(b):
    x = b.pick("float32", (3, 4), lambda v: isinstance(v.shape[1], int) and v.shape[1] > 0)
    if any(b.least(d) < 1 for d in x.shape):
        raise Unfit
    c = x.shape[1]
    if b.chance(0.5):
        return b.node("InstanceNormalization", [x, b.leaf("float32", (c,)), b.leaf("float32", (c,))], x.shape, bounds=10)
    variance = b.constant(abs(b.array((c,), "float32")) + 0.25)
    return b.node("BatchNormalization", [x, b.leaf("float32", (c,)), b.leaf("float32", (c,)), b.leaf("float32", (c,)), variance], x.shape, bounds=10)


def lp_norm(b):
    x = b.pick("float32", (1, 3))
    if any(b.least(d) < 1 for d in x.shape):
        raise Unfit
    return b.node("LpNormalization", [x], x.shape, bounds=1, axis=b.integer(-1, x.rank - 1), p=b.integer(1, 2))


TEMPLATES = {reduction: 4, matmul: 4, transposed_matmul: 1, gemm: 2, einsum: 1, conv: 1, pool: 1, softmax: 2, norm: 2, channel_norm: 0.5, lp_norm: 0.5}
