"""Kernels that memory bounds: activations, gates and norms at the shapes of Kimi K3, as ONNX graphs and as what a PyTorch
user would write for torch.compile. Tensors of tokens are bf16, arithmetic is fp32, vectors and gates of decays are fp32."""
import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

EPS, BETA, LINEAR_BETA, BOUND = 1e-5, 4.0, 25.0, -5.0


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """`kind` over [rows, heads, channels], or [rows, channels] with 0 heads; of `sources` tensors for attn_res."""
    name: str
    kind: str
    rows: int
    heads: int
    channels: int
    sources: int = 1

    @property
    def shape(self):
        return (self.rows, self.heads, self.channels) if self.heads else (self.rows, self.channels)

    @property
    def bytes(self):
        """What must be moved: every input and the result once."""
        count = int(np.prod(self.shape))
        moved = {"situ_glu": 6, "l2_norm": 4, "rms_norm": 4, "gated_rms_norm": 6, "kda_gate": 6, "attn_res": 2 * (self.sources + 1)}
        return moved[self.kind] * count


CASES = [Elementwise("situ_glu_m8192", "situ_glu", 8192, 0, 3072), Elementwise("situ_glu_m64", "situ_glu", 64, 0, 3072),
         Elementwise("l2_norm_m8192", "l2_norm", 8192, 96, 128), Elementwise("rms_norm_m8192", "rms_norm", 8192, 0, 7168),
         Elementwise("gated_rms_norm_m8192", "gated_rms_norm", 8192, 96, 128), Elementwise("kda_gate_m8192", "kda_gate", 8192, 96, 128),
         Elementwise("attn_res_n8_m4096", "attn_res", 4096, 0, 7168, 8)]


def vectors(case, seed=3):
    """fp32 vectors of the case, constants of its graph, by name."""
    rng = np.random.default_rng(seed)
    names = {"rms_norm": {"gamma": (case.channels,)}, "gated_rms_norm": {"gamma": (case.channels,)},
             "kda_gate": {"rate": (case.heads, 1), "dt": (case.heads, case.channels)}, "attn_res": {"gamma": (case.channels,), "query": (case.channels, 1)}}
    return {name: (rng.random(shape) + 0.5 if name != "query" else rng.standard_normal(shape) * 0.02).astype(np.float32)
            for name, shape in names.get(case.kind, {}).items()}


def input_shapes(case):
    if case.kind == "situ_glu":
        return {"x": (case.rows, 2 * case.channels)}
    if case.kind == "gated_rms_norm":
        return {"x": case.shape, "gate": case.shape}
    if case.kind == "attn_res":
        return {f"x{i}": case.shape for i in range(case.sources)}
    return {"x": case.shape}


def graph(case):
    nodes, constants = [], {name: numpy_helper.from_array(array, name) for name, array in vectors(case).items()}

    def scalar(value):
        name = f"c{len(constants)}"
        constants[name] = numpy_helper.from_array(np.array(value, np.float32 if isinstance(value, float) else np.int64), name)
        return name

    def node(kind, *names, outputs=1, **attributes):
        results = [f"v{len(nodes)}_{i}" for i in range(outputs)]
        nodes.append(helper.make_node(kind, names, results, name=f"n{len(nodes)}", **attributes))
        return results[0] if outputs == 1 else results

    def wide(name):
        return node("Cast", name, to=TensorProto.FLOAT)

    def normalised(x):
        return node("RMSNormalization", x, "gamma", axis=-1, epsilon=EPS, stash_type=1)

    if case.kind == "situ_glu":
        gate, up = (wide(part) for part in node("Split", "x", outputs=2, axis=-1, num_outputs=2))
        bounded = node("Mul", node("Tanh", node("Div", gate, scalar(BETA))), scalar(BETA))
        line = node("Mul", node("Tanh", node("Div", up, scalar(LINEAR_BETA))), scalar(LINEAR_BETA))
        y = node("Mul", node("Mul", bounded, node("Sigmoid", gate)), line)
    elif case.kind == "l2_norm":
        x = wide("x")
        length = node("ReduceSum", node("Mul", x, x), scalar([-1]), keepdims=1)
        y = node("Div", x, node("Sqrt", node("Add", length, scalar(EPS))))
    elif case.kind == "rms_norm":
        y = normalised(wide("x"))
    elif case.kind == "gated_rms_norm":
        y = node("Mul", normalised(wide("x")), node("Sigmoid", wide("gate")))
    elif case.kind == "kda_gate":
        y = node("Mul", node("Sigmoid", node("Mul", "rate", node("Add", wide("x"), "dt"))), scalar(BOUND))
    else:
        rows = [node("Unsqueeze", name, scalar([-2])) for name in input_shapes(case)]
        stack = wide(node("Concat", *rows, axis=-2))
        shares = node("Softmax", node("MatMul", normalised(stack), "query"), axis=-2)
        y = node("ReduceSum", node("Mul", shares, stack), scalar([-2]), keepdims=0)
    kept = TensorProto.FLOAT if case.kind == "kda_gate" else TensorProto.BFLOAT16
    nodes.append(helper.make_node("Cast", [y], ["y"], name="out", to=kept))
    def port(name, shape, kind):
        return helper.make_tensor_value_info(name, kind, ["m", *shape[1:]])
    return helper.make_graph(nodes, case.name, [port(name, shape, TensorProto.BFLOAT16) for name, shape in input_shapes(case).items()],
                             [port("y", case.shape, kept)], list(constants.values()))


def inputs(case, seed=1):
    """Fresh random inputs, fp32, by name."""
    rng = np.random.default_rng(seed)
    return {name: 3 * rng.standard_normal(shape, dtype=np.float32) for name, shape in input_shapes(case).items()}


def expression(case):
    """fn(*inputs) -> y as one would write it in PyTorch; inputs in the order of `inputs`, of any float type. The result
    has the type of the inputs (the gate of decays: fp32)."""
    import torch
    constants = {name: torch.from_numpy(array).cuda() for name, array in vectors(case).items()}

    def norm(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * constants["gamma"]

    def situ_glu(x):
        gate, up = (part.float() for part in x.chunk(2, dim=-1))
        return (BETA * torch.tanh(gate / BETA) * torch.sigmoid(gate) * (LINEAR_BETA * torch.tanh(up / LINEAR_BETA))).to(x.dtype)

    def l2_norm(x):
        wide = x.float()
        return (wide / torch.sqrt(wide.pow(2).sum(-1, keepdim=True) + EPS)).to(x.dtype)

    def rms_norm(x):
        return norm(x.float()).to(x.dtype)

    def gated_rms_norm(x, gate):
        return (norm(x.float()) * torch.sigmoid(gate.float())).to(x.dtype)

    def kda_gate(x):
        return BOUND * torch.sigmoid(constants["rate"] * (x.float() + constants["dt"]))

    def attn_res(*xs):
        stack = torch.stack(xs, -2).float()
        shares = torch.softmax(norm(stack) @ constants["query"], dim=-2)
        return (shares * stack).sum(-2).to(xs[0].dtype)

    return {fn.__name__: fn for fn in (situ_glu, l2_norm, rms_norm, gated_rms_norm, kda_gate, attn_res)}[case.kind]
