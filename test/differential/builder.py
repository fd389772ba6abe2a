"""Random ONNX graphs: values with symbolic shapes, leaves with their data, and the model at the end.

A dim is an int, or an expression of the graph's symbols as text ("n", "(n+3)"), so that equal text means equal extents.
One graph has one or two data sets, which give the symbols different values.
"""
import dataclasses
import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33]
MAX_ELEMENTS = 20000
FLOATS = ("float32", "float64")
INTEGERS = ("int64", "int32", "int8", "uint8")


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    dtype: str
    shape: tuple
    bound: float = 1.0  # no element is much greater in magnitude
    constant: bool = False

    @property
    def rank(self):
        return len(self.shape)


def extent(dim, sizes):
    """The extent that `dim` has where the symbols have the extents `sizes`."""
    return dim if isinstance(dim, int) else int(eval(dim, {"__builtins__": {}}, sizes))


def add(a, b):
    return a + b if isinstance(a, int) and isinstance(b, int) else f"({a}+{b})"


def mul(a, b):
    if a == 1 or b == 1:
        return b if a == 1 else a
    return a * b if isinstance(a, int) and isinstance(b, int) else f"({a}*{b})"


def product(dims):
    total = 1
    for dim in dims:
        total = mul(total, dim)
    return total


class Builder:
    """One graph while it is made. `rng` decides everything: a seed gives one graph and its data."""

    def __init__(self, seed, dtype="float32"):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([11, 13, 17, 18, 20, 21, 22, 23]))
        self.dtype = dtype
        self.nodes, self.initializers, self.inputs, self.values = [], [], [], []
        self.makers = {}  # input name -> (rng, shape) -> array
        dynamic = self.rng.random() < 0.6
        self.symbols = list("nm"[:self.rng.integers(1, 3)]) if dynamic else []
        self.sets = []
        for _ in range(2 if dynamic else 1):
            # An extent of 0 now and then: nothing may read beyond it.
            self.sets.append({s: 0 if self.rng.random() < 0.06 else int(self.rng.choice(SIZES)) for s in self.symbols})
        self.counter = 0

    # Choices

    def chance(self, p):
        return self.rng.random() < p

    def choice(self, items):
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low, high):
        """In [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def dim(self, static=False):
        if self.symbols and not static and self.chance(0.4):
            return self.choice(self.symbols)
        return 0 if self.chance(0.01) else int(self.rng.choice(SIZES))

    def shape(self, rank, static=False):
        dims = [self.dim(static) for _ in range(rank)]
        while self.elements(dims) > MAX_ELEMENTS:
            dims[self.integer(0, rank - 1)] = 2
        return tuple(dims)

    def elements(self, dims):
        """The largest number of elements over the data sets."""
        return max(math.prod(extent(d, s) for d in dims) for s in self.sets)

    def least(self, dim):
        return min(extent(dim, s) for s in self.sets)

    # Leaves

    def fresh(self, stem="v"):
        self.counter += 1
        return f"{stem}{self.counter}"

    def array(self, shape, dtype, scale=1.0):
        return sample(self.rng, shape, dtype, scale)

    def constant(self, array, stem="c"):
        name = self.fresh(stem)
        array = np.asarray(array)
        self.initializers.append(numpy_helper.from_array(array, name))
        bound = float(np.abs(array.astype(np.float64)).max()) if array.size and array.dtype != bool else 1.0
        return Value(name, str(array.dtype), tuple(array.shape), bound, True)

    def ints(self, values):
        return self.constant(np.array(values, np.int64), "k")

    def scalar(self, value, dtype=None):
        return self.constant(np.array(value, dtype or self.dtype), "s")

    def input(self, dtype, shape, maker=None, bound=None):
        name = self.fresh("x")
        value = Value(name, dtype, tuple(shape), bound if bound is not None else 4.0)
        self.inputs.append(value)
        self.makers[name] = maker or (lambda rng, concrete: sample(rng, concrete, dtype))
        return value

    def leaf(self, dtype, shape, constant=None):
        """A new input, or an initializer where the shape allows and chance (or `constant`) wants one."""
        static = all(isinstance(d, int) for d in shape)
        if static and (constant if constant is not None else self.chance(0.4)):
            return self.constant(self.array(shape, dtype))
        return self.input(dtype, shape)

    def pick(self, dtypes=None, ranks=(0, 4), where=None, fresh=0.2):
        """A value that exists (later ones more often), or a new leaf of a rank that fits."""
        dtypes = (dtypes,) if isinstance(dtypes, str) else dtypes or (self.dtype,)
        fits = [v for v in self.values if v.dtype in dtypes and ranks[0] <= v.rank <= ranks[1] and (where is None or where(v))]
        if fits and not self.chance(fresh):
            at = len(fits) - 1 - int(min(self.rng.exponential(len(fits) / 3), len(fits) - 1))
            return fits[at]
        for _ in range(20):
            shape = self.shape(self.integer(max(ranks[0], 1) if self.chance(0.9) else ranks[0], ranks[1]))
            leaf = Value("", self.choice(dtypes), shape)
            if where is None or where(leaf):
                return self.keep(self.leaf(leaf.dtype, shape))
        raise Unfit

    def like(self, shape, dtype=None, fresh=0.4):
        """A value of exactly this shape."""
        dtype = dtype or self.dtype
        fits = [v for v in self.values if v.dtype == dtype and v.shape == tuple(shape)]
        if fits and not self.chance(fresh):
            return self.choice(fits)
        return self.leaf(dtype, shape)

    # Nodes

    def node(self, op, inputs, shapes, dtypes=None, bounds=1.0, domain="", **attrs):
        """Adds a node; one Value, or a tuple of them where there are several shapes."""
        single = isinstance(shapes, tuple)
        shapes = [shapes] if single else shapes
        dtypes = [dtypes or self.dtype] * len(shapes) if not isinstance(dtypes, list) else dtypes
        if any(self.elements(s) > MAX_ELEMENTS for s in shapes):
            raise Unfit
        outs = [Value(self.fresh(), t, tuple(s), float(bounds)) for s, t in zip(shapes, dtypes)]
        names = [v.name if v is not None else "" for v in inputs]
        self.nodes.append(helper.make_node(op, names, [v.name for v in outs], name=outs[0].name, domain=domain, **attrs))
        return outs[0] if single else tuple(outs)

    def keep(self, value):
        """Values that later nodes may read."""
        for v in value if isinstance(value, tuple) else (value,):
            if v.dtype in FLOATS and v.bound > 20:
                v = self.node("Tanh", [v], v.shape, v.dtype)
            self.values.append(v)
        return value

    def attempt(self, template):
        """Runs a template; one that does not fit leaves nothing behind."""
        marks = [len(x) for x in (self.nodes, self.initializers, self.inputs, self.values)]
        try:
            made = template(self)
        except Unfit:
            for items, mark in zip((self.nodes, self.initializers, self.inputs, self.values), marks):
                del items[mark:]
            return False
        if made is not None:
            self.keep(made)
        return True

    def model(self):
        """(model, data sets): every value that nothing reads is an output, and some others are, too."""
        read = {name for node in self.nodes for name in node.input}
        made = {name for node in self.nodes for name in node.output}
        by_name = {v.name: v for v in self.values}
        outputs = [v for v in by_name.values() if v.name in made and (v.name not in read or self.chance(0.15))]
        if not outputs:
            return None
        used = [v for v in self.inputs if v.name in read]
        weights = [t for t in self.initializers if t.name in read]
        dims = lambda v: [d if isinstance(d, int) else d if d in self.symbols else None for d in v.shape]  # noqa: E731
        info = lambda v: helper.make_tensor_value_info(v.name, onnx_type(v.dtype), dims(v))  # noqa: E731
        graph = helper.make_graph(self.nodes, "random", [info(v) for v in used], [info(v) for v in outputs], weights)
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid("com.microsoft", 1)] if any(n.domain == "com.microsoft" for n in self.nodes) else []
        model = helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 21 else 10)
        data = lambda v, s: np.asarray(self.makers[v.name](self.rng, tuple(extent(d, s) for d in v.shape)))  # noqa: E731
        sets = [{v.name: data(v, s) for v in used} for s in self.sets]
        return model, sets


class Unfit(Exception):
    """This template cannot go here."""


def onnx_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def sample(rng, shape, dtype, scale=1.0):
    """Data of a leaf: normal numbers, small integers, coins."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in FLOATS or dtype == "float16":
        return np.clip(rng.standard_normal(shape) * scale, -4, 4).astype(dtype)
    low = 0 if dtype.startswith("u") else -9
    return rng.integers(low, 10, shape).astype(dtype)


def axis_attr(axes):
    return [int(a) for a in axes]


def make_shape_tensor(b, dims, source):
    """An int64 tensor of these dims: constants, and elements of Shape(source) for the symbolic ones."""
    if all(isinstance(d, int) for d in dims):
        return b.ints(list(dims))
    shape = b.node("Shape", [source], (source.rank,), "int64")
    parts = []
    for dim in dims:
        if isinstance(dim, int):
            parts.append(b.ints([dim]))
        elif dim in source.shape:
            parts.append(b.node("Gather", [shape, b.ints([source.shape.index(dim)])], (1,), "int64", axis=0))
        else:
            raise Unfit
    return parts[0] if len(parts) == 1 else b.node("Concat", parts, (len(parts),), "int64", axis=0)
