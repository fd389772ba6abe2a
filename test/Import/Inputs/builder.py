"""Small ONNX models for the importer's tests: `python FILE.py NAME OUT.onnx` writes the model made by function NAME."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, dtype=F32, shape=("n",)):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs, name="", domain="", **attributes):
    """Inputs and outputs are names in a row; `-` is an absent one."""
    split = lambda names: ["" if part == "-" else part for part in names.split()]
    return helper.make_node(op, split(inputs), split(outputs), name=name, domain=domain, **attributes)


def graph(nodes, inputs, outputs, initializers=(), **fields):
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers), **fields)


def model(g, opsets=(("", 20),), ir_version=10, functions=()):
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    return helper.make_model(g, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def raw(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def external(name, dtype, dims, **entries):
    tensor = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=str(text))
    return tensor


def identities(tensors, dtype=F32):
    """A model that gives every initializer back as an output."""
    nodes = [node("Identity", t.name, t.name + "_out") for t in tensors]
    return model(graph(nodes, [], [helper.make_tensor_value_info(n.output[0], t.data_type, list(t.dims))
                                   for n, t in zip(nodes, tensors)], tensors))


def main(cases):
    made = cases[sys.argv[1]]()
    with open(sys.argv[2], "wb") as file:
        file.write(made if isinstance(made, bytes) else made.SerializeToString())
