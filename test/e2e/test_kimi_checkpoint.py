"""The reader of released checkpoints: what it accepts, and that each damage is an error that names the file or tensor."""
import json
import shutil
import struct

import ml_dtypes
import numpy as np
import pytest
from kimi_models import export, shrunk, stored_tensors, write_checkpoint

from kimi import config, mxfp4, presets, sources
from kimi.errors import ExportError

PREFIX = "language_model."
DATA = shrunk(presets.K3_TINY)
EXPERT = PREFIX + "model.layers.1.block_sparse_moe.experts.3.w2.weight"


@pytest.fixture(scope="module")
def arrays():
    return stored_tensors(DATA, prefix=PREFIX)


def opened(folder, **options):
    return sources.Checkpoint(str(folder), config.load(folder / "config.json"), **options)


def changed(arrays, **changes):
    """A copy with some tensors replaced, or left out where the new one is None."""
    merged = {**arrays, **{PREFIX + k if not k.startswith(PREFIX) else k: v for k, v in changes.items()}}
    return {k: v for k, v in merged.items() if v is not None}


def exported_bytes(folder, out, family="k3", *options):
    path = export(family, out, "--checkpoint", folder, *options)
    return path.read_bytes(), (out / "model.onnx.data").read_bytes()


def test_shards_and_source_give_the_same_model(arrays, tmp_path):
    """One file, three shards, with vision tensors besides, and the generator that the checkpoint was made with."""
    whole = exported_bytes(write_checkpoint(tmp_path / "whole", DATA, arrays), tmp_path / "a")
    vision = {"vision_tower.patch_embed.proj.weight": np.ones((2, 2), np.float32), "mm_projector.linear.weight": np.ones(3, np.float32)}
    shards = exported_bytes(write_checkpoint(tmp_path / "shards", DATA, {**arrays, **vision}, shards=3), tmp_path / "b")
    (tmp_path / "config.json").write_text(json.dumps(DATA))
    path = export("k3", tmp_path / "c", "--config", tmp_path / "config.json")
    assert whole == shards == (path.read_bytes(), (tmp_path / "c" / "model.onnx.data").read_bytes())


def test_kimi_linear_names_and_shapes(tmp_path):
    """No prefix, A_log [1, 1, H, 1], experts in bf16."""
    data = shrunk(presets.KIMI_LINEAR_PRESETS["kl-tiny"])
    folder = write_checkpoint(tmp_path / "kl", data, stored_tensors(data))
    (tmp_path / "config.json").write_text(json.dumps(data))
    path = export("kimi_linear", tmp_path / "c", "--config", tmp_path / "config.json")
    assert exported_bytes(folder, tmp_path / "b", "kimi_linear") == (path.read_bytes(), (tmp_path / "c" / "model.onnx.data").read_bytes())


def test_first_layers(arrays, tmp_path):
    """--layers takes the first layers of a checkpoint, and of a generator, alike; multi-token prediction layers are left out."""
    data = shrunk(presets.K3_TINY)
    data["text_config"]["num_nextn_predict_layers"] = 1
    extra = {PREFIX + "model.layers.3.input_layernorm.weight": np.ones(64, np.float32)}
    whole = exported_bytes(write_checkpoint(tmp_path / "c", data, {**arrays, **extra}), tmp_path / "a", "k3", "--layers", "2")
    (tmp_path / "config.json").write_text(json.dumps(data))
    path = export("k3", tmp_path / "b", "--config", tmp_path / "config.json", "--layers", "2")
    assert whole == (path.read_bytes(), (tmp_path / "b" / "model.onnx.data").read_bytes())
    assert b"layers.1." in whole[0] and b"layers.2." not in whole[0]
    refused = export("k3", tmp_path / "b", "--config", "k3-tiny", "--layers", "10", check=False)
    assert refused.returncode == 1 and "--layers must be from 1 to 9, the layers of k3-tiny; it is 10" in refused.stderr


A_LOG = "model.layers.0.self_attn.A_log"
PROBLEMS = {
    "missing": ({"model.norm.weight": None}, "'language_model.model.norm.weight' is missing; it should be BF16/F16/F32 [64]"),
    "shape": ({"lm_head.weight": np.zeros((97, 63), np.float32)}, "'language_model.lm_head.weight' is [97, 63]; the configuration makes it [97, 64]"),
    "dtype": ({"model.layers.2.self_attn.o_proj.weight": np.zeros((64, 24), np.int8)},
              "'language_model.model.layers.2.self_attn.o_proj.weight' is I8; it should be BF16 or F16 or F32"),
    "scale missing": ({EXPERT + "_scale": None}, f"'{EXPERT}_scale' is missing; it should be U8 [32, 1]"),
    "scale shape": ({EXPERT + "_scale": np.zeros((32, 2), np.uint8)}, f"'{EXPERT}_scale' is [32, 2]; the configuration makes it [32, 1]"),
    "packed dtype": ({EXPERT + "_packed": np.zeros((32, 16), np.float32)}, f"'{EXPERT}_packed' is F32; it should be U8"),
    "padding": ({A_LOG: np.array([1, 2, 3, 0, 0.5], np.float32)}, f"'{PREFIX}{A_LOG}' is [5] for 3 heads, and what should be padding is not zero"),
    "few decays": ({A_LOG: np.zeros(2, np.float32)}, f"'{PREFIX}{A_LOG}' is [2]; it should hold one value for each of 3 heads"),
    "matrix of decays": ({A_LOG: np.zeros((3, 3), np.float32)}, f"'{PREFIX}{A_LOG}' is [3, 3]; it should hold one value"),
    "unknown": ({"model.layers.0.self_attn.q_proj.bias": np.zeros(48, np.float32)},
                "1 tensor(s) are not part of the model that config.json describes (--allow-unknown leaves them out):\n  language_model.model.layers.0.self_attn.q_proj.bias"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_tensors_that_do_not_fit(problem, arrays, tmp_path):
    changes, message = PROBLEMS[problem]
    folder = write_checkpoint(tmp_path / "c", DATA, changed(arrays, **changes))
    with pytest.raises(ExportError) as error:
        opened(folder)
    assert message in str(error.value)
    if problem == "unknown":
        assert opened(folder, allow_unknown=True).unknown == ["language_model.model.layers.0.self_attn.q_proj.bias"]


def test_command_line_reports_and_leaves_nothing(arrays, tmp_path):
    folder = write_checkpoint(tmp_path / "c", DATA, changed(arrays, **{"model.norm.weight": None}))
    result = export("k3", tmp_path / "out", "--checkpoint", folder, check=False)
    assert result.returncode == 1 and result.stderr.startswith("error: ") and "model.norm.weight' is missing" in result.stderr
    assert "Traceback" not in result.stderr and not (tmp_path / "out").exists()
    result = export("k3", tmp_path / "out", "--config", "k4", check=False)
    assert result.returncode == 1 and "neither a file nor one of k3, k3-tiny" in result.stderr


def test_all_problems_are_told_at_once(arrays, tmp_path):
    gone = {name: None for name in arrays if name.endswith("layernorm.weight")}
    with pytest.raises(ExportError) as error:
        opened(write_checkpoint(tmp_path / "c", DATA, changed(arrays, **gone)))
    assert f"{len(gone)} tensor(s) do not fit config.json" in str(error.value)
    assert str(error.value).count("is missing") == min(len(gone), 10)


@pytest.fixture
def folder(arrays, tmp_path):
    return write_checkpoint(tmp_path / "c", DATA, arrays, shards=2)


def test_index_that_lies(folder):
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    name, shard = next(iter(index["weight_map"].items()))
    other = next(s for s in index["weight_map"].values() if s != shard)
    for value, message in ((other, f"'{name}' is said to be in {other}, which does not hold it"), ("../x.safetensors", "not a file of this folder"),
                           ("none.safetensors", "No such file"), (7, "not a file of this folder")):
        path.write_text(json.dumps({"weight_map": {**index["weight_map"], name: value}}))
        with pytest.raises(ExportError, match=message):
            opened(folder)
    for text in ("{", "[]", '{"weight_map": 3}', "{}"):
        path.write_text(text)
        with pytest.raises(ExportError, match="weight_map"):
            opened(folder)


def test_files_that_are_damaged(arrays, tmp_path):
    folder = write_checkpoint(tmp_path / "c", DATA, arrays)
    path = folder / "model.safetensors"
    good = path.read_bytes()
    length, = struct.unpack("<Q", good[:8])

    def message(content):
        path.write_bytes(content)
        with pytest.raises(ExportError) as error:
            opened(folder)
        assert "model.safetensors" in str(error.value)
        return str(error.value)

    assert "too short" in message(good[:7])
    assert "gives a header of" in message(struct.pack("<Q", 1 << 62) + good[8:])
    assert "gives a header of" in message(good[:100])
    assert "not JSON" in message(good[:8] + b"\xff" + good[9:])
    assert "is it cut off?" in message(good[:-1])
    header = json.loads(good[8:8 + length])
    for change, what in (({"dtype": "E9"}, "unknown dtype"), ({"dtype": []}, "unknown dtype"), ({"shape": [-1, 64]}, "lists of sizes"), ({"shape": "64"}, "lists of sizes"),
                         ({"shape": [1 << 70]}, "its offsets span"), ({"data_offsets": [4, 0]}, "its offsets span"), ({"data_offsets": [0]}, "lists of sizes"),
                         ({"data_offsets": [0, True]}, "lists of sizes")):
        name = PREFIX + "lm_head.weight"
        text = json.dumps({**header, name: {**header[name], **change}}).encode()
        assert f"tensor '{name}'" in (told := message(struct.pack("<Q", len(text)) + text + good[8 + length:])) and what in told


def test_any_damage_is_an_error_or_harmless(arrays, tmp_path):
    """Random bytes of the header overwritten, 300 times: never anything but an ExportError."""
    folder = write_checkpoint(tmp_path / "c", DATA, arrays)
    path = folder / "model.safetensors"
    good = path.read_bytes()
    length, = struct.unpack("<Q", good[:8])
    rng, refused = np.random.default_rng(), 0
    for _ in range(300):
        damaged = bytearray(good)
        for at in rng.integers(0, 8 + length, rng.integers(1, 4)):
            damaged[at] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            opened(folder)
        except ExportError:
            refused += 1
    assert refused > 200


def test_folder_without_weights_and_doubled_tensors(folder, tmp_path):
    (folder / "model.safetensors.index.json").unlink()
    opened(folder)  # shards without an index are read all
    shutil.copy(next(folder.glob("*-00001-*")), folder / "copy.safetensors")
    with pytest.raises(ExportError, match="is in both"):
        opened(folder)
    (tmp_path / "empty").mkdir()
    shutil.copy(folder / "config.json", tmp_path / "empty")
    with pytest.raises(ExportError, match="holds no"):
        opened(tmp_path / "empty")


CONFIGURATIONS = {
    "layers shared out": ({"num_hidden_layers": 4}, "must name each of the layers 1..4 once"),
    "rotary": ({"mla_use_nope": False}, "rotary embeddings"),
    "activation": ({"hidden_act": "gelu"}, "'hidden_act' must be one of situ, silu; it is \"gelu\""),
    "width": ({"hidden_size": "64"}, "'hidden_size' must be an integer of at least 1; it is \"64\""),
    "absent": ({"kv_lora_rank": None}, "'kv_lora_rank' must be an integer of at least 1; it is null"),
    "choice": ({"num_experts_per_token": 5}, "'num_experts_per_token' must be at most num_experts (4); it is 5"),
    "groups": ({"num_expert_group": 3}, "'num_expert_group' must be a divisor of num_experts (4)"),
    "group width": ({"moe_intermediate_size": 48}, "'moe_intermediate_size' must be a multiple of 32 where experts are MXFP4; it is 48"),
    "heads": ({"num_key_value_heads": 1}, "'num_key_value_heads' must be num_attention_heads (2); it is 1"),
    "bound": ({"linear_attn_config": {"gate_lower_bound": 5}}, "'gate_lower_bound' must be a negative number or null; it is 5"),
    "quantisation": ({"quantization_config": {"format": "int4"}}, "'format' must be one of mxfp4-pack-quantized; it is \"int4\""),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_that_are_refused(name):
    changes, message = CONFIGURATIONS[name]
    data = shrunk(presets.K3_TINY)
    data["text_config"]["linear_attn_config"].update(changes.pop("linear_attn_config", {}) if "linear_attn_config" in changes else {})
    data["text_config"].update(changes)
    with pytest.raises(ExportError) as error:
        config.parse(data)
    assert message in str(error.value)


def test_any_value_of_a_field_is_read_or_refused():
    """Every field of the configuration in turn holds each kind of JSON value: a Config or an ExportError, nothing else."""
    refused, tried = 0, 0
    text = shrunk(presets.K3_TINY)["text_config"]
    for key in [*text, *(f"linear_attn_config.{k}" for k in text["linear_attn_config"])]:
        for value in (None, True, -1, 0, 1, 3.5, float("nan"), 1e400, 10 ** 30, 10 ** 400, "", "silu", [], [1], [[]], {}, {"a": 1}, {"config_groups": [1]},
                      {"format": "mxfp4-pack-quantized", "config_groups": {"g": [1]}}):
            data = shrunk(presets.K3_TINY)
            part, _, name = key.rpartition(".")
            (data["text_config"][part] if part else data["text_config"])[name] = value
            tried += 1
            try:
                config.parse(data)
            except ExportError:
                refused += 1
    assert tried / 2 < refused < tried


def test_mxfp4_values():
    """All 16 codes at several scales against ml_dtypes' E2M1; low nibble first; NaN of scale 255; quantising is to the nearest."""
    codes = np.arange(16, dtype=np.uint8)
    packed = np.tile(codes[0::2] | codes[1::2] << 4, 2)
    want = np.tile(codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32), 2)
    for scale in (0, 1, 64, 127, 200, 252):
        got = mxfp4.dequantize(packed, np.array([scale], np.uint8))
        np.testing.assert_array_equal(got, want * np.float64(2) ** (scale - 127))
    assert np.isnan(mxfp4.dequantize(packed, np.array([255], np.uint8))).all()
    values = np.random.default_rng().standard_normal((5, 96)).astype(np.float32) * np.float32(2) ** np.arange(-20, 25, 9)[:, None]
    values[0, :32] = 0
    packed, scales = mxfp4.quantize(values)
    assert packed.shape == (5, 48) and scales.shape == (5, 3)
    unit = np.repeat(np.float64(2) ** (scales.astype(int) - 127), 32, -1)
    codes = (np.minimum(np.abs(values / unit), 6) * np.sign(values)).astype(ml_dtypes.float4_e2m1fn)
    np.testing.assert_array_equal(mxfp4.dequantize(packed, scales), codes.astype(np.float64) * unit)
    assert (np.abs(values / unit).max(-1) < 8).all()
