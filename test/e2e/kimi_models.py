"""Shared pieces of the tests of models/k3 and models/kimi_linear: exporting, running with states, small checkpoints."""
import json
import math
import struct
import sys

import numpy as np
import onnx
import onnxruntime
from conftest import ROOT, SHARED, run
from onnx import TensorProto, numpy_helper

sys.path.insert(0, str(ROOT / "models"))
from kimi import config, sources, tensors  # noqa: E402

EXPORT = {"k3": ROOT / "models" / "k3" / "export.py", "kimi_linear": ROOT / "models" / "kimi_linear" / "export.py"}
CHECKPOINTS = SHARED / "cases" / "checkpoints"
FAMILY = {"k3-64": "k3", "kl-64": "kimi_linear"}  # its folders
LENGTHS = (1, 5, 17, 70)  # of the prompts whose logits they hold
MINI = ROOT / "models" / "k3" / "mini"


def export(family, out, *options, check=True):
    """Runs an exporter; gives the path of the model, or the finished process where it may fail."""
    result = run(sys.executable, EXPORT[family], "--out", out, *options, check=check)
    return out / "model.onnx" if check else result


def golden(name, length):
    """(ids [T], logits [T, vocab] in fp64) of a shared checkpoint."""
    with np.load(CHECKPOINTS / name / "logits.npz") as data:
        return data[f"ids_T{length}"], data[f"logits_T{length}"]


class Runner:
    """A graph with states under ONNX Runtime."""

    def __init__(self, model):
        self.session = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model))
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.states = self.session.get_inputs()[1:]

    def start(self, batch=1):
        """The states of new sequences."""
        sizes = {"batch": batch, "past": 0}
        return {s.name: np.zeros([sizes.get(d, d) for d in s.shape], np.float32) for s in self.states}

    def step(self, ids, states):
        """(logits [B, T, vocab], the states after) of ids [B, T]."""
        out = dict(zip(self.outputs, self.session.run(None, {"input_ids": ids, **states})))
        return out["logits"], {s.name: out[s.name.replace("past_key_values", "present")] for s in self.states}

    def run(self, ids, parts=None):
        """logits [T, vocab] of ids [T], computed in parts of the lengths given."""
        states, logits, first = self.start(), [], 0
        for length in parts or [len(ids)]:
            out, states = self.step(ids[None, first:first + length], states)
            logits.append(out[0])
            first += length
        assert first == len(ids)
        return np.concatenate(logits)


def weights(path):
    """name -> array of all initializers; FLOAT4E2M1 and FLOAT8E8M0 as ml_dtypes."""
    model = onnx.load(path)
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def widened(path):
    """The bytes of a bf16 graph with every bf16 type made fp32: what it computes when nothing is rounded."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.BFLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "output_dtype") and attribute.i == TensorProto.BFLOAT16:
                attribute.i = TensorProto.FLOAT
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return model.SerializeToString()


def shrunk(preset, **changes):
    """A configuration with the mechanisms of a preset at the least sizes; `changes` are fields of its text model."""
    small = json.loads(json.dumps(preset))
    text = small.get("text_config", small)
    layers = changes.get("num_hidden_layers", 3)
    text.update(num_hidden_layers=layers, hidden_size=64, vocab_size=97, intermediate_size=32, moe_intermediate_size=32, num_experts=4,
                num_experts_per_token=2, num_attention_heads=2, num_key_value_heads=2, kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8,
                v_head_dim=12)
    text["linear_attn_config"].update(num_heads=3, head_dim=16, kda_layers=list(range(1, layers)), full_attn_layers=[layers])
    if "text_config" in small:
        text.update(q_lora_rank=20, routed_expert_hidden_size=32, attn_res_block_size=2)
    linear = changes.pop("linear_attn_config", {})
    text.update(changes)
    text["linear_attn_config"].update(linear)
    return small


def stored_tensors(data, seed=0, prefix=""):
    """name -> array of a random checkpoint for the object of a config.json, in the released form: A_log padded, experts packed."""
    c = config.parse(data)
    source, found = sources.Random(c, seed), {}
    for spec in tensors.all_tensors(c):
        if source.form(spec.name) == "mxfp4":
            for end in ("_packed", "_scale"):
                found[prefix + spec.name + end] = source.load(spec.name + end)
            continue
        array = source.load(spec.name)
        if spec.kind == tensors.A_LOG:
            array = np.concatenate([array, np.zeros(5, np.float32)]) if prefix else array.reshape(1, 1, -1, 1)
        found[prefix + spec.name] = array
    return found


NAMES = {"bfloat16": "BF16", "float32": "F32", "uint8": "U8", "float16": "F16", "int8": "I8"}


def write_safetensors(path, arrays):
    header, position = {"__metadata__": {"format": "pt"}}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": [position, position + array.nbytes]}
        position += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())


def write_checkpoint(folder, data, arrays, shards=1):
    """A folder in the released format."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(data))
    if shards == 1:
        write_safetensors(folder / "model.safetensors", arrays)
        return folder
    where = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(arrays)}
    for shard in sorted(set(where.values())):
        write_safetensors(folder / shard, {n: a for n, a in arrays.items() if where[n] == shard})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


def spans(path):
    """(offset, length, tensor) of all external data, in order."""
    found = []
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            info = {e.key: e.value for e in tensor.external_data}
            found.append((int(info["offset"]), int(info["length"]), tensor))
    return sorted(found, key=lambda s: s[0])


def elements(tensor):
    return math.prod(tensor.dims)
