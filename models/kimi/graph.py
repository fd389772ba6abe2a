"""Builds an ONNX graph node by node, with names that tell where in the model a value belongs.

A node is named after its first output: the scopes that are open, then the name given, so "layers.3.self_attn.q_b_proj".
Activations have one type, float or bfloat16; `f32` and `act` convert where the two differ, and are nothing where not.
"""
import contextlib

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from . import data_file

OPSET, IR = 27, 13
FLOAT, BFLOAT16 = TensorProto.FLOAT, TensorProto.BFLOAT16
TYPES = {"f32": FLOAT, "bf16": BFLOAT16}
NUMPY = {FLOAT: np.dtype(np.float32), BFLOAT16: np.dtype(ml_dtypes.bfloat16)}


class Port(str):
    """The name of an output of the graph, which scopes leave as it is."""


class Graph:
    """Nodes, initializers, inputs and outputs of one model. `dtype` is the type of activations and of the matrices they meet;
    with `bf16_weights` an fp32 graph keeps the matrices that the source has in bf16 as they are and casts them (exact)."""

    def __init__(self, source, data, dtype="f32", bf16_weights=False):
        self.source, self.data, self.type, self.bf16_weights = source, data, TYPES[dtype], bf16_weights
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.scopes, self.names, self.constants = [], set(), {}

    @contextlib.contextmanager
    def scope(self, name):
        self.scopes.append(name)
        yield
        self.scopes.pop()

    def unique(self, name):
        """A value name that is free: within the open scopes, but an output of the graph as it is."""
        if isinstance(name, Port):
            return name
        name = ".".join(self.scopes + [name])
        made, count = name, 1
        while made in self.names:
            count += 1
            made = f"{name}_{count}"
        self.names.add(made)
        return made

    def op(self, kind, inputs, *names, **attributes):
        """Adds a node with an output for each name; gives the one, or the list of them."""
        results = [self.unique(name) for name in names]
        self.nodes.append(helper.make_node(kind, inputs, results, name=results[0], **attributes))
        return results[0] if len(results) == 1 else results

    def const(self, values, dtype=np.int64):
        """A small constant, shared by all who ask for the same."""
        array = np.array(values, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            text = "_".join(f"{v:g}" if array.dtype.kind == "f" else str(v) for v in array.reshape(-1).tolist())
            scopes, self.scopes = self.scopes, []
            self.constants[key] = self.unique(f"{array.dtype.name}{'s' if array.ndim else ''}.{text}")
            self.scopes = scopes
            self.initializers.append(numpy_helper.from_array(array, self.constants[key]))
        return self.constants[key]

    def scalar(self, value):
        """An fp32 constant without axes."""
        return self.const(value, np.float32)

    def f32(self, value, name):
        """An activation as fp32."""
        return value if self.type == FLOAT else self.op("Cast", [value], f"{name}.f32", to=FLOAT)

    def act(self, value, name):
        """An fp32 value as an activation."""
        return value if self.type == FLOAT else self.op("Cast", [value], name, to=self.type)

    def rounded(self, value, name):
        """An fp32 value with the precision of an activation."""
        return self.f32(self.act(value, f"{name}.bf16"), name)

    # ---- weights: their names are those of the checkpoint, whatever scope is open

    def initializer(self, name, dtype, shape, pieces):
        self.names.add(name)
        self.initializers.append(self.data.add(name, dtype, shape, pieces))
        return name

    def weight(self, name, dtype, shape, pieces, given):
        """An initializer made of what the source has in the numpy type `given`; `pieces(numpy type)` gives its data."""
        narrow = self.bf16_weights and dtype == FLOAT and given == NUMPY[BFLOAT16]
        kept = BFLOAT16 if narrow else dtype
        self.initializer(name, kept, shape, lambda: pieces(NUMPY[kept]))
        if not narrow:
            return name
        scopes, self.scopes = self.scopes, []
        wide = self.op("Cast", [name], f"{name}.f32", to=FLOAT)
        self.scopes = scopes
        return wide

    def matrix(self, name, rows, columns, dtype=None):
        """A matrix [out, in] of the checkpoint, transposed for MatMul: "<name>_t" [in, out]."""
        return self.weight(f"{name}_t", dtype or self.type, (columns, rows), lambda t: data_file.rows_of(self.source.load(name).T, t),
                           self.source.dtype(name))

    def tensor(self, name, shape, dtype=None):
        """A tensor of the checkpoint as it is."""
        return self.weight(name, dtype or self.type, shape, lambda t: data_file.rows_of(self.source.load(name), t),
                           self.source.dtype(name))

    def parameter(self, name, shape):
        """A tensor that is fp32 whatever the activations are."""
        return self.initializer(name, FLOAT, shape, lambda: data_file.rows_of(self.source.load(name), NUMPY[FLOAT]))

    def linear(self, x, weight, rows, columns, name):
        """x [..., columns] times a matrix [rows, columns] of the checkpoint, transposed."""
        return self.op("MatMul", [x, self.matrix(f"{weight}.weight", rows, columns)], name)

    def norm(self, x, weight, width, eps, name):
        """RMSNorm over the last axis: statistics in fp32, then the cast, then the weight."""
        return self.op("RMSNormalization", [x, self.tensor(f"{weight}.weight", (width,))], name, axis=-1, epsilon=eps, stash_type=1)

    # ---- the frame

    def input(self, name, dtype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        self.names.add(name)
        return name

    def output(self, name, dtype, shape):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))
        self.names.add(name)
        return Port(name)

    def model(self, name, metadata):
        """The ModelProto."""
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="kimi models")
        helper.set_model_props(model, metadata)
        return model
