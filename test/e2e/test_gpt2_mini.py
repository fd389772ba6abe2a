"""The trained mini GPT-2: greedy tokens and logits equal its golden file, with the cached graph and with the decode
entry derived from the cacheless one."""
import json
import pathlib
import shutil

import numpy as np
import pytest
from conftest import ROOT, run, tool

MINI = ROOT / "models" / "gpt2" / "mini"
GOLDEN = json.loads((MINI / "golden.json").read_text())["prompts"]


@pytest.mark.parametrize("graph", ["gpt2_mini.onnx", "gpt2_mini_kv.onnx"])
@pytest.mark.parametrize("index", range(len(GOLDEN)))
def test_greedy_tokens(graph, index, cache, tmp_path):
    golden, report = GOLDEN[index], tmp_path / "report.json"
    result = run(tool("kimi-run"), MINI / graph, "--prompt", golden["prompt"], "--tokens", 40, "--ignore-eos",
                 "--cache", cache, "--json", report)
    assert "no decode entry" not in result.stderr
    tokens = json.loads(report.read_text())["tokens"]
    assert tokens == golden["greedy_ids"]
    assert result.stdout.rstrip("\n") == golden["greedy_text"].rstrip("\n")


@pytest.mark.parametrize("mode", [[], ["--reference"]], ids=["kernels", "reference"])
@pytest.mark.parametrize("graph", ["gpt2_mini.onnx", "gpt2_mini_kv.onnx"])
def test_next_token_and_last_logits(graph, mode, cache, tmp_path):
    """'prefill' and 'prefill_last' choose the golden token; the last logits are those of 'prefill', row for row."""
    golden = GOLDEN[0]
    np.save(tmp_path / "ids.npy", np.array([golden["ids"]], dtype=np.int64))
    feed = ["--input", f"input_ids={tmp_path / 'ids.npy'}"]
    if graph == "gpt2_mini_kv.onnx":
        np.save(tmp_path / "mask.npy", np.ones((1, len(golden["ids"])), dtype=np.int64))
        feed += ["--input", f"attention_mask={tmp_path / 'mask.npy'}"]
    outputs = {}
    for entry in ("prefill", "prefill_last"):
        run(tool("kimi-run"), MINI / graph, "--entry", entry, *feed, "--output", tmp_path / f"{entry}.npz", "--cache",
            cache, *mode)
        outputs[entry] = np.load(tmp_path / f"{entry}.npz")
        assert outputs[entry]["next_token"].tolist() == [[golden["greedy_ids"][0]]]
    last = outputs["prefill_last"]["logits"]
    assert last.shape == (1, 1, 1024) and np.isfinite(last).all()
    np.testing.assert_allclose(last[0, 0], outputs["prefill"]["logits"][0, -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("graph", ["gpt2_mini.onnx", "gpt2_mini_kv.onnx"])
def test_capacity_of_the_states(graph, cache, tmp_path):
    """--max-seq is a capacity of the session, also where the model is compiled on the way: one module serves all; a
    prompt and its continuation that just fit are generated, a prompt that does not is refused."""
    golden, report = GOLDEN[0], tmp_path / "report.json"
    prompt = len(golden["ids"])
    generate = [tool("kimi-run"), MINI / graph, "--prompt", golden["prompt"], "--ignore-eos", "--cache", cache]
    run(*generate, "--tokens", 8, "--max-seq", prompt + 8, "--json", report)
    assert json.loads(report.read_text())["tokens"] == golden["greedy_ids"][:8]
    again = run(*generate, "--tokens", 2, "--max-seq", prompt + 16)
    assert "compiling" not in again.stderr
    refused = run(*generate, "--tokens", 2, "--max-seq", prompt - 1, check=False)
    assert refused.returncode == 1
    assert f"the prompt has {prompt} tokens; --max-seq allows {prompt - 1}" in refused.stderr


@pytest.mark.parametrize("options", [["--no-next-token"], []], ids=["host", "module"])
def test_greedy_choice_of_host_and_module(options, tmp_path):
    """The module's own choice and the sampler's, from the logits, are one."""
    golden = GOLDEN[0]
    run(tool("kimi-compile"), MINI / "gpt2_mini.onnx", "-o", tmp_path / "m.kmod", "--bake", *options)
    run(tool("kimi-run"), tmp_path / "m.kmod", "--tokenizer", MINI, "--prompt", golden["prompt"], "--tokens", 40,
        "--ignore-eos", "--json", tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["tokens"] == golden["greedy_ids"]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("index", range(len(GOLDEN)))
def test_narrow_logits(index, precision, cache, tmp_path):
    golden = GOLDEN[index]
    np.save(tmp_path / "ids.npy", np.array([golden["ids"]], dtype=np.int64))
    run(tool("kimi-run"), MINI / "gpt2_mini.onnx", "--precision", precision, "--entry", "prefill_last", "--input",
        f"input_ids={tmp_path / 'ids.npy'}", "--output", tmp_path / "out.npz", "--cache", cache)
    logits = np.load(tmp_path / "out.npz")["logits"][0, -1]
    want = np.array(golden["logits_last_prompt_position"])
    assert np.linalg.norm(logits - want) <= 1e-2 * np.linalg.norm(want)


def host_levels():
    """The x86-64 levels that this processor has."""
    info = pathlib.Path("/proc/cpuinfo")
    flags = set(next((line for line in info.read_text().splitlines() if line.startswith("flags")), "").split()) if info.exists() else set()
    levels = ["x86-64-v3"] if {"avx2", "bmi2", "fma", "f16c", "movbe"} <= flags else []
    return levels + (["x86-64-v4"] if levels and {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags else [])


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", "x86-64-v4"])
def test_cpu_levels(cpu, tmp_path):
    """Greedy tokens of each level that this processor has; a module for one that it lacks is refused when it is loaded."""
    golden = GOLDEN[0]
    run(tool("kimi-compile"), MINI / "gpt2_mini.onnx", "-o", tmp_path / "m.kmod", "--bake", f"--cpu={cpu}")
    result = run(tool("kimi-run"), tmp_path / "m.kmod", "--tokenizer", MINI, "--prompt", golden["prompt"], "--tokens", 10,
                 "--ignore-eos", "--json", tmp_path / "report.json", check=False)
    if cpu != "native" and cpu not in host_levels():
        assert result.returncode == 1 and cpu in result.stderr
        return
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "report.json").read_text())["tokens"] == golden["greedy_ids"][:10]
    listing = run(tool("kimi-compile"), MINI / "gpt2_mini.onnx", "--emit=asm", f"--cpu={cpu}").stdout
    assert "%ymm" in listing or "%zmm" in listing
    if cpu == "x86-64-v3":
        assert "%zmm" not in listing
    if cpu == "x86-64-v4":
        assert "%zmm" in listing


@pytest.mark.parametrize("mode", [[], ["--reference"]], ids=["kernels", "reference"])
@pytest.mark.parametrize("index", range(len(GOLDEN)))
def test_logits(index, mode, cache, tmp_path):
    golden = GOLDEN[index]
    np.save(tmp_path / "ids.npy", np.array([golden["ids"]], dtype=np.int64))
    run(tool("kimi-run"), MINI / "gpt2_mini.onnx", "--input", f"input_ids={tmp_path / 'ids.npy'}", "--output",
        tmp_path / "out.npz", "--cache", cache, *mode)
    logits = np.load(tmp_path / "out.npz")["logits"][0, -1]
    want = np.array(golden["logits_last_prompt_position"])
    assert np.isfinite(logits).all()
    assert np.abs(logits - want).max() <= 1e-4 * (1 + np.abs(want).max())


@pytest.mark.parametrize("graph", ["gpt2_mini.onnx", "gpt2_mini_kv.onnx"])
def test_two_compiles_give_identical_bytes(graph, tmp_path):
    for name in ("a.kmod", "b.kmod"):
        run(tool("kimi-compile"), MINI / graph, "-o", tmp_path / name, "--cpu=x86-64-v3")
    assert (tmp_path / "a.kmod").read_bytes() == (tmp_path / "b.kmod").read_bytes()


def test_module_beside_its_weights_and_away_from_them(tmp_path):
    """External weights are found beside the module or through --weights; elsewhere the message says what to do."""
    for name in ("gpt2_mini.onnx", "weights.bin"):
        shutil.copy(MINI / name, tmp_path / name)
    run(tool("kimi-compile"), tmp_path / "gpt2_mini.onnx", "-o", tmp_path / "m.kmod")
    np.save(tmp_path / "ids.npy", np.array([[1, 2, 3]], dtype=np.int64))
    feed = ["--input", f"input_ids={tmp_path / 'ids.npy'}", "--output", tmp_path / "out.npz"]
    run(tool("kimi-run"), tmp_path / "m.kmod", *feed)
    away = tmp_path / "away"
    away.mkdir()
    shutil.move(tmp_path / "m.kmod", away / "m.kmod")
    lost = run(tool("kimi-run"), away / "m.kmod", *feed, check=False)
    assert lost.returncode == 1 and "--weights" in lost.stderr
    run(tool("kimi-run"), away / "m.kmod", "--weights", tmp_path, *feed)
    run(tool("kimi-compile"), tmp_path / "gpt2_mini.onnx", "-o", away / "baked.kmod", "--bake")
    run(tool("kimi-run"), away / "baked.kmod", *feed)
