#!/usr/bin/env python3
"""Kimi Delta Attention at Kimi K3's shapes (96 heads of 128) beside flash-linear-attention in the same run.

Both sides take raw q, k, v, gates and beta in bf16 and do all of it: L2 norms of q and k, gates -5 sigmoid(rate (g + bias)),
sigmoid of beta, the delta rule, and the state in and out in fp32 (k3_spec.md 6.2). Ours is a graph of ONNX ops compiled with
--precision=bf16; the peer is chunk_kda for a prompt and fused_recurrent_kda_fwd for a token of each sequence, with the same
options inside its kernels. It is imported if it is on PYTHONPATH; without it only our side is timed. A ratio above 1 means
this project is faster; `difference` is |ours - peer| / |peer| over the outputs of both. The floor is the bytes of arguments and
results over the measured copy bandwidth.

A graph has any number of tokens (prefill.onnx) or one (decode.onnx), as the entries of a model have.

  benchmarks/gpu/bench_delta.py --graph --out kda              # where the compiler is; then kimi-compile kda/*.onnx
  benchmarks/gpu/bench_delta.py --run ./kimi-run --models kda  # where the GPU is
"""
import argparse
import json
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402
import models  # noqa: E402

HEADS, DEPTH, BOUND, EPS = 96, 128, -5.0, 1e-6
# (name, sequences, tokens of each)
CASES = [("kda_prefill_t8192", 1, 8192), ("kda_prefill_t4096", 1, 4096), ("kda_decode_b16", 16, 1), ("kda_decode_b1", 1, 1)]


def gate_weights():
    """rate [H, 1] = e^A_log, and bias [H, D]: seeded, as they lie in the graph."""
    rng = np.random.default_rng(3)
    return np.exp(rng.random((HEADS, 1), dtype=np.float32)), rng.random((HEADS, DEPTH), dtype=np.float32)


def write_graph(path, tokens):
    """`tokens` of each sequence: a number, or the name of a dim."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(kind, *inputs, **attributes):
        out = f"x{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [out], name=f"{kind}_{len(nodes)}", **attributes))
        return out
    by_head, flat = constant("by_head", np.array([0, 0, HEADS, DEPTH])), constant("flat", np.array([0, 0, HEADS * DEPTH]))
    last, eps = constant("last", np.array([-1])), constant("eps", np.float32(EPS))
    rate, bias = (constant(name, value) for name, value in zip(("rate", "bias"), gate_weights()))

    def wide(name):
        return op("Cast", name, to=TensorProto.FLOAT)

    def normalised(name):
        x = op("Reshape", wide(name), by_head)
        squares = op("ReduceSum", op("Mul", x, x), last, keepdims=1)
        return op("Reshape", op("Div", x, op("Sqrt", op("Add", squares, eps))), flat)
    raw = op("Mul", rate, op("Add", op("Reshape", wide("g"), by_head), bias))
    gates = op("Reshape", op("Mul", constant("bound", np.float32(BOUND)), op("Sigmoid", raw)), flat)
    arguments = [normalised("q"), normalised("k"), wide("v"), "s", gates, op("Sigmoid", wide("beta"))]
    nodes.append(helper.make_node("LinearAttention", arguments, ["wide_o", "new_s"], name="kda", update_rule="gated_delta",
                                  q_num_heads=HEADS, kv_num_heads=HEADS))
    nodes.append(helper.make_node("Cast", ["wide_o"], ["o"], name="out", to=TensorProto.BFLOAT16))

    def port(name, width):
        return helper.make_tensor_value_info(name, TensorProto.BFLOAT16, ["b", tokens, width])
    state = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", HEADS, DEPTH, DEPTH]) for name in ("s", "new_s")]
    inputs = [port(name, HEADS * DEPTH) for name in "qkvg"] + [port("beta", HEADS), state[0]]
    graph = helper.make_graph(nodes, "kda", inputs, [port("o", HEADS * DEPTH), state[1]], constants)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=11), path)


def draw(sequences, tokens):
    rng = np.random.default_rng()
    arrays = {name: models.to_bf16(rng.standard_normal((sequences, tokens, HEADS * DEPTH), dtype=np.float32)) for name in "qkvg"}
    arrays["beta"] = models.to_bf16(rng.standard_normal((sequences, tokens, HEADS), dtype=np.float32))
    arrays["s"] = 0.1 * rng.standard_normal((sequences, HEADS, DEPTH, DEPTH), dtype=np.float32)
    return arrays


def theirs(arrays):
    """((outputs, state), microseconds), or None where the peer cannot be imported."""
    os.environ.setdefault("FLA_FLASH_KDA", "0")
    try:
        import torch
        from fla.ops.kda import chunk_kda
        from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd
    except ImportError as missing:
        print(f"no peer: {missing}", file=sys.stderr)
        return None
    import peer
    rate, bias = gate_weights()
    sequences, tokens = arrays["q"].shape[:2]

    def tensor(name, *shape):
        return torch.from_numpy(models.from_bf16(arrays[name])).cuda().bfloat16().reshape(sequences, tokens, *shape)
    q, k, v, g = (tensor(name, HEADS, DEPTH) for name in "qkvg")
    beta, state = tensor("beta", HEADS), torch.from_numpy(arrays["s"]).cuda()
    options = {"A_log": torch.from_numpy(np.log(rate[:, 0])).cuda(), "dt_bias": torch.from_numpy(bias.reshape(-1)).cuda(),
               "use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True, "use_beta_sigmoid_in_kernel": True,
               "lower_bound": BOUND, "state_v_first": True}
    first = state.transpose(-1, -2).contiguous()  # the peer's faster layout: values first
    with torch.inference_mode():
        if tokens > 1:
            def prompt():
                return chunk_kda(q, k, v, g, beta, initial_state=first, output_final_state=True, safe_gate=True, **options)
            o, new = prompt()
            # Its launches without Python between them: a graph of the call.
            time = min(peer.median_ms(prompt), peer.median_ms(peer.captured(prompt))) * 1e3
            return (o, new.transpose(-1, -2)), time
        copies = max(1, -(-300_000_000 // (8 * state.numel())))  # together beyond the second-level cache
        states, o = [first.clone() for _ in range(copies)], torch.empty_like(v)

        def step(own):
            fused_recurrent_kda_fwd(q, k, v, g, beta, initial_state=own, inplace_final_state=True, out=o, **options)
        step(states[0])
        result = (o.clone(), states[0].clone().transpose(-1, -2))

        def steps():
            for own in states:
                step(own)
        return result, peer.median_ms(peer.captured(steps)) * 1e3 / copies


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", action="store_true", help="write OUT/prefill.onnx and OUT/decode.onnx, and end")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--run", default="./kimi-run")
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.graph:
        write_graph(args.out / "prefill.onnx", "t")
        write_graph(args.out / "decode.onnx", 1)
        return
    import torch
    import peer
    bandwidth, _ = peer.ceilings()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; copy {bandwidth / 1e12:.2f} TB/s")
    print(f"{'case (bf16)':22} {'ours us':>9} {'peer us':>9} {'ratio':>6} {'floor us':>9} {'difference':>11}", flush=True)
    rows = []
    for name, sequences, tokens in CASES:
        arrays = draw(sequences, tokens)
        outputs, report = measure.ours(args.run, args.models / ("decode.kmod" if tokens == 1 else "prefill.kmod"), arrays)
        mine = report["main"]["median_s"] * 1e6
        launches = [{"kernel": launch["kernel"], "us": launch["median_us"]} for launch in report["launches"]]
        floor = (sum(a.nbytes for a in arrays.values()) + arrays["v"].nbytes + arrays["s"].nbytes) / bandwidth * 1e6
        found, time, difference = theirs(arrays), float("nan"), float("nan")
        if found:
            (o, state), time = found
            pairs = ((outputs["o"].reshape(o.shape), o), (outputs["new_s"], state))
            difference = max(float((torch.from_numpy(a).cuda() - b.float()).norm() / b.float().norm()) for a, b in pairs)
        rows.append({"case": name, "ours_us": mine, "peer_us": time, "ratio": time / mine, "floor_us": floor, "difference": difference,
                     "launches": launches})
        flag = "  WRONG" if found and not difference <= 1e-2 else ""
        print(f"{name:22} {mine:9.1f} {time:9.1f} {time / mine:6.2f} {floor:9.1f} {difference:11.1e}{flag}", flush=True)
        print("  " + ", ".join(f"{launch['kernel']} {launch['us']:.0f}" for launch in launches), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"gpu": torch.cuda.get_device_name(), "bandwidth": bandwidth, "rows": rows}, f, indent=1)
    if any(row["difference"] > 1e-2 for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
