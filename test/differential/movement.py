"""Templates of operators that move elements: shapes, slices, gathers, scatters, sorting."""
import numpy as np

from builder import FLOATS, Unfit, add, extent, make_shape_tensor, mul, product

ANY = ("float32", "float32", "int64", "bool", "float64")
# Kinds of which every engine has every operator.
PLAIN = ("float32", "float32", "int64")


def axis_of(b, x, negative=True):
    axis = b.integer(0, x.rank - 1)
    return axis, (axis - x.rank if negative and b.chance(0.4) else axis)


def transpose(b):
    x = b.pick(ANY, (1, 4))
    perm = [int(p) for p in b.rng.permutation(x.rank)]
    attrs = {"perm": perm} if b.chance(0.9) else {}
    perm = perm if attrs else list(range(x.rank))[::-1]
    return b.node("Transpose", [x], tuple(x.shape[p] for p in perm), x.dtype, x.bound, **attrs)


def reshape(b):
    """Merges neighbours, splits an extent, or moves ones about; the target with 0, -1 or what Shape gives."""
    x = b.pick(ANY, (1, 4))
    dims = list(x.shape)
    kind = b.choice(["merge", "split", "ones", "flat"])
    if kind == "merge" and len(dims) > 1:
        at = b.integer(0, len(dims) - 2)
        dims[at:at + 2] = [mul(dims[at], dims[at + 1])]
    elif kind == "split":
        whole = [i for i, d in enumerate(dims) if isinstance(d, int) and d > 3 and any(d % k == 0 for k in (2, 3, 4))]
        if not whole or len(dims) > 3:
            raise Unfit
        at = b.choice(whole)
        part = b.choice([k for k in (2, 3, 4) if dims[at] % k == 0])
        dims[at:at + 1] = [part, dims[at] // part] if b.chance(0.5) else [dims[at] // part, part]
    elif kind == "ones" and len(dims) < 4:
        dims.insert(b.integer(0, len(dims)), 1)
    else:
        dims = [product(dims)]
    target = list(dims)
    odd = [i for i, d in enumerate(target) if not isinstance(d, int)]
    zero = any(b.least(d) == 0 for d in x.shape)
    if len(odd) > 1 or (odd and zero):
        for i in odd:
            if i < x.rank and target[i] == x.shape[i] and b.chance(0.5):
                target[i] = 0
        odd = [i for i, d in enumerate(target) if not isinstance(d, int)]
    if zero and any(d == 0 for d in target) and any(isinstance(d, int) and d == 0 for d in x.shape):
        raise Unfit
    if not zero and target and b.chance(0.5) and len(odd) <= 1:
        at = odd[0] if odd else b.integer(0, len(target) - 1)
        target[at] = -1
    shape = make_shape_tensor(b, target, x)
    return b.node("Reshape", [x, shape], tuple(dims), x.dtype, x.bound)


def squeeze(b):
    x = b.pick(ANY, (1, 4))
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if ones and b.chance(0.5):
        axes = sorted({b.choice(ones) for _ in range(2)})
        shape = tuple(d for i, d in enumerate(x.shape) if i not in axes)
        op = "Squeeze"
    else:
        if x.rank > 3:
            raise Unfit
        at = b.integer(0, x.rank)
        axes, shape, op = [at], x.shape[:at] + (1,) + x.shape[at:], "Unsqueeze"
    rank = x.rank if op == "Squeeze" else x.rank + 1
    axes = [a - rank if b.chance(0.3) else a for a in axes]
    if b.opset < 13:
        return b.node(op, [x], shape, x.dtype, x.bound, axes=axes)
    return b.node(op, [x, b.ints(axes)], shape, x.dtype, x.bound)


def flatten(b):
    x = b.pick(ANY, (1, 4))
    axis = b.integer(0, x.rank)
    return b.node("Flatten", [x], (product(x.shape[:axis]), product(x.shape[axis:])), x.dtype, x.bound, axis=axis)


def expand(b):
    x = b.pick(PLAIN, (1, 3))
    target = [b.choice([2, 3, 5]) if d == 1 and b.chance(0.7) else d for d in x.shape]
    shape = tuple(target)
    asked = [1 if b.chance(0.2) else d for d in target]
    asked = [d if asked[i] != 1 or x.shape[i] == target[i] else target[i] for i, d in enumerate(asked)]
    if b.chance(0.3):
        asked, shape = [2] + asked, (2,) + shape
    return b.node("Expand", [x, make_shape_tensor(b, asked, x)], shape, x.dtype, x.bound)


def tile(b):
    x = b.pick(PLAIN, (1, 3))
    repeats = [int(b.choice([1, 1, 2, 3])) for _ in x.shape]
    return b.node("Tile", [x, b.ints(repeats)], tuple(mul(d, r) for d, r in zip(x.shape, repeats)), x.dtype, x.bound)


def slice_(b):
    x = b.pick(ANY, (1, 4))
    axis, shown = axis_of(b, x)
    dim = x.shape[axis]
    dims = list(x.shape)
    if isinstance(dim, int):
        step = b.choice([1, 1, 1, 2, 3, -1, -2])
        start, end = b.integer(-dim - 2, dim + 2), b.choice([b.integer(-dim - 2, dim + 2), 2**62, -2**62])
        dims[axis] = len(range(dim)[slice(start, max(end, -2**62), step)]) if dim else 0
    else:
        step, start = 1, b.choice([1, -1, -2])
        low = b.least(dim)
        if low < 2:
            raise Unfit
        end = 2**62
        dims[axis] = f"({dim}-1)" if start == 1 else -start
        if start == 1 and b.chance(0.3):
            step, dims[axis] = 2, f"(({dim})//2)"
    inputs = [b.ints([start]), b.ints([end]), b.ints([shown])] + ([b.ints([step])] if step != 1 or b.chance(0.3) else [])
    return b.node("Slice", [x] + inputs, tuple(dims), x.dtype, x.bound)


def split(b):
    x = b.pick(ANY, (1, 4))
    axis, shown = axis_of(b, x)
    dim = x.shape[axis]
    if not isinstance(dim, int) or dim < 2:
        raise Unfit
    if b.chance(0.5) and dim % 2 == 0:
        sizes = [dim // 2] * 2
    else:
        first = b.integer(1, dim - 1)
        sizes = [first, dim - first]
    shapes = [x.shape[:axis] + (s,) + x.shape[axis + 1:] for s in sizes]
    attrs = {"axis": shown}
    inputs = [x]
    if sizes[0] == sizes[1] and b.chance(0.6):
        attrs |= {"num_outputs": 2} if b.opset >= 18 else {}
    elif b.opset < 13:
        attrs["split"] = sizes
    else:
        inputs.append(b.ints(sizes))
    return b.node("Split", inputs, shapes, x.dtype, x.bound, **attrs)


def concat(b):
    x = b.pick(ANY, (1, 4))
    axis, shown = axis_of(b, x)
    parts, total = [x], x.shape[axis]
    for _ in range(b.integer(1, 2)):
        dims = list(x.shape)
        dims[axis] = dims[axis] if b.chance(0.5) else b.dim()
        parts.append(b.like(dims, x.dtype))
        total = add(total, dims[axis])
    parts = [parts[i] for i in b.rng.permutation(len(parts))]
    return b.node("Concat", parts, x.shape[:axis] + (total,) + x.shape[axis + 1:], x.dtype, max(p.bound for p in parts), axis=shown)


def pad(b):
    x = b.pick(("float32",), (1, 4))
    mode = b.choice(["constant", "constant", "edge", "reflect"])
    least = [b.least(d) for d in x.shape]
    if mode != "constant" and min(least) < 3:
        raise Unfit
    low, high = ([b.integer(0, 2) for _ in x.shape] for _ in range(2))
    if mode == "constant" and b.chance(0.3):
        low = [-1 if n > 3 else p for n, p in zip(least, low)]
    dims = tuple(add(add(d, p), q) if isinstance(d, int) else (f"({d}+{p + q})" if p + q else d) for d, p, q in zip(x.shape, low, high))
    inputs = [x, b.ints(low + high)] + ([b.scalar(float(b.choice([0.0, -1.5])))] if mode == "constant" and b.chance(0.6) else [])
    return b.node("Pad", inputs, dims, x.dtype, max(x.bound, 2), mode=mode)


def index_leaf(b, shape, limit, dtype="int64", negative=True):
    """Positions in an axis whose least extent is `limit`."""
    if limit < 1:
        raise Unfit
    low = -limit if negative and b.chance(0.4) else 0
    maker = lambda rng, concrete: rng.integers(low, limit, concrete).astype(dtype)  # noqa: E731
    if all(isinstance(d, int) for d in shape) and b.chance(0.5):
        return b.constant(maker(b.rng, shape))
    return b.input(dtype, shape, maker)


def gather(b):
    x = b.pick(PLAIN, (1, 4))
    axis, shown = axis_of(b, x)
    shape = () if b.chance(0.2) else b.shape(b.integer(1, 2))
    index = index_leaf(b, shape, b.least(x.shape[axis]), b.choice(["int64", "int32"]))
    return b.node("Gather", [x, index], x.shape[:axis] + tuple(shape) + x.shape[axis + 1:], x.dtype, x.bound, axis=shown)


def gather_elements(b):
    x = b.pick(PLAIN, (1, 3))
    axis, shown = axis_of(b, x)
    dims = list(x.shape)
    dims[axis] = b.dim()
    index = index_leaf(b, tuple(dims), b.least(x.shape[axis]))
    return b.node("GatherElements", [x, index], tuple(dims), x.dtype, x.bound, axis=shown)


def gather_nd(b):
    x = b.pick(PLAIN, (2, 4))
    depth = b.integer(1, min(2, x.rank))
    limit = min(b.least(d) for d in x.shape[:depth])
    rows = b.dim()
    index = index_leaf(b, (rows, depth), limit)
    return b.node("GatherND", [x, index], (rows,) + x.shape[depth:], x.dtype, x.bound)


def scatter_elements(b):
    x = b.pick(("float32",), (1, 3))
    axis, shown = axis_of(b, x)
    if not isinstance(x.shape[axis], int) or x.shape[axis] < 2:
        raise Unfit
    count = b.integer(1, x.shape[axis])
    dims = x.shape[:axis] + (count,) + x.shape[axis + 1:]
    # Positions that differ along the axis: what several writes to one element give is open.
    extent_ = x.shape[axis]

    def distinct(rng, concrete):
        keys = rng.random(concrete[:axis] + (extent_,) + concrete[axis + 1:])
        return np.take(np.argsort(keys, axis=axis), np.arange(count), axis=axis).astype(np.int64)
    attrs = {"reduction": b.choice(["add", "mul"])} if b.opset >= 16 and b.chance(0.4) else {}
    updates = b.like(dims)
    return b.node("ScatterElements", [x, b.input("int64", dims, distinct), updates], x.shape, x.dtype, x.bound + 4 * updates.bound, axis=shown, **attrs)


def scatter_nd(b):
    x = b.pick(("float32",), (1, 3))
    if not isinstance(x.shape[0], int) or x.shape[0] < 2:
        raise Unfit
    count = b.integer(1, x.shape[0])
    index = b.input("int64", (count, 1), lambda rng, concrete: rng.permutation(x.shape[0])[:count].reshape(count, 1).astype(np.int64))
    updates = b.like((count,) + x.shape[1:])
    return b.node("ScatterND", [x, index, updates], x.shape, x.dtype, max(x.bound, updates.bound))


def blocks(b):
    x = b.pick("float32", (4, 4))
    n, c, h, w = x.shape
    if isinstance(c, int) and c % 4 == 0 and c and b.chance(0.5):
        attrs = {"mode": b.choice(["DCR", "CRD"])} if b.chance(0.8) else {}
        return b.node("DepthToSpace", [x], (n, c // 4, mul(h, 2), mul(w, 2)), x.dtype, x.bound, blocksize=2, **attrs)
    if not (isinstance(h, int) and isinstance(w, int) and h % 2 == 0 and w % 2 == 0):
        raise Unfit
    return b.node("SpaceToDepth", [x], (n, mul(c, 4), h // 2, w // 2), x.dtype, x.bound, blocksize=2)


def trilu(b):
    if b.opset < 14:
        raise Unfit
    x = b.pick(PLAIN, (2, 4))
    inputs = [x] + ([b.scalar(b.integer(-3, 3), "int64")] if b.chance(0.6) else [])
    return b.node("Trilu", inputs, x.shape, x.dtype, x.bound, upper=b.integer(0, 1))


def cumsum(b):
    x = b.pick("float32", (1, 3), lambda v: isinstance(v.shape[-1], int))
    axis, shown = axis_of(b, x)
    small = b.node("Mul", [x, b.scalar(0.125)], x.shape)
    return b.node("CumSum", [small, b.scalar(shown, "int64")], x.shape, x.dtype, x.bound * 4, exclusive=b.integer(0, 1), reverse=b.integer(0, 1))


def topk(b):
    x = b.pick("float32", (1, 3))
    axis, shown = axis_of(b, x)
    least = b.least(x.shape[axis])
    if least < 1:
        raise Unfit
    k = b.integer(1, min(least, 8))
    dims = x.shape[:axis] + (k,) + x.shape[axis + 1:]
    return b.node("TopK", [x, b.ints([k])], [dims, dims], [x.dtype, "int64"], x.bound, axis=shown, largest=b.integer(0, 1), sorted=1)


def extreme(b):
    x = b.pick(("float32", "int32"), (1, 4))
    axis, shown = axis_of(b, x)
    if b.least(x.shape[axis]) < 1:
        raise Unfit
    keep = b.integer(0, 1)
    attrs = {"select_last_index": 1} if b.opset >= 12 and b.chance(0.3) else {}
    dims = x.shape[:axis] + ((1,) if keep else ()) + x.shape[axis + 1:]
    return b.node(b.choice(["ArgMax", "ArgMin"]), [x], dims, "int64", axis=shown, keepdims=keep, **attrs)


def one_hot(b):
    depth = b.integer(1, 9)
    index = index_leaf(b, b.shape(b.integer(1, 2)), depth)
    axis = b.integer(0, index.rank)
    dims = index.shape[:axis] + (depth,) + index.shape[axis:]
    values = b.constant(np.array([-0.5, 2.0], np.float32))
    return b.node("OneHot", [index, b.scalar(depth, "int64"), values], dims, bounds=2, axis=axis - len(dims) if b.chance(0.4) else axis)


def shape_of(b):
    x = b.pick(ANY, (1, 4))
    if b.chance(0.5):
        return b.node("Cast", [b.node("Shape", [x], (x.rank,), "int64")], (x.rank,), "float32", 40, to=1)
    dims = b.node("Shape", [x], (x.rank,), "int64")
    value = b.constant(np.array([1.5], np.float32)) if x.dtype in FLOATS else b.constant(np.array([3], np.int64))
    from onnx import numpy_helper
    array = next(numpy_helper.to_array(t) for t in b.initializers if t.name == value.name)
    return b.node("ConstantOfShape", [dims], x.shape, value.dtype, 2, value=numpy_helper.from_array(array, "value"))


def arange(b):
    """Range up to an extent: positions of a sequence."""
    x = b.pick(ANY, (1, 3))
    axis = b.integer(0, x.rank - 1)
    count = b.node("Gather", [b.node("Shape", [x], (x.rank,), "int64"), b.scalar(axis, "int64")], (), "int64", axis=0)
    made = b.node("Range", [b.scalar(0, "int64"), count, b.scalar(1, "int64")], (x.shape[axis],), "int64", bounds=40)
    return b.node("Cast", [made], made.shape, "float32", 40, to=1) if b.chance(0.5) else made


def reverse_sequence(b):
    x = b.pick("float32", (2, 3))
    least = b.least(x.shape[0])
    if least < 1:
        raise Unfit
    lengths = index_leaf(b, (x.shape[1],), least, negative=False)
    lengths = b.node("Add", [lengths, b.scalar(1, "int64")], lengths.shape, "int64")
    return b.node("ReverseSequence", [x, lengths], x.shape, x.dtype, x.bound, time_axis=0, batch_axis=1)


TEMPLATES = {transpose: 3, reshape: 4, squeeze: 2, flatten: 1, expand: 1, tile: 1, slice_: 3, split: 2, concat: 3, pad: 1, gather: 2, gather_elements: 1,
             gather_nd: 1, scatter_elements: 1, scatter_nd: 1, blocks: 0.5, trilu: 1, cumsum: 1, topk: 1, extreme: 1, one_hot: 1, shape_of: 1, arange: 1,
             reverse_sequence: 0.5}
