"""Graphs that carry their states themselves: text from them, prompts in parts, batches, and what is kept in memory."""
import json
import re

import numpy as np
import pytest
from conftest import run, tool
from kimi_models import MINI, export

from kimi import config, presets

GOLDEN = json.loads((MINI / "golden.json").read_text())["prompts"]
PRESETS = {**presets.K3_PRESETS, **presets.KIMI_LINEAR_PRESETS}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Exports a model once for each set of options; "mini" is the trained one, other names are configurations."""
    done = {}

    def do(name, *options):
        if (name, options) not in done:
            what = ["--checkpoint", MINI, "--bf16-weights"] if name == "mini" else ["--config", name, "--seed", 11]
            family = "kimi_linear" if name == "kl-tiny" else "k3"
            done[name, options] = export(family, tmp_path_factory.mktemp(name), *what, *options)
        return done[name, options]

    return do


def settings(name):
    return config.load(MINI / "config.json") if name == "mini" else config.parse(PRESETS[name], name)


def text_of(ids):
    return ";".join(",".join(map(str, row)) for row in ids)


class Text:
    """What kimi-run makes of a prompt: tokens [batch, n] and the logits after the prompt [batch, vocabulary]."""

    def __init__(self, model, ids, folder, cache, *options, tokens=12):
        base = [tool("kimi-run"), model, "--prompt-tokens", text_of(ids), "--tokens", tokens, "--ignore-eos", "--cache", cache, *options]
        report = folder / "report.json"
        self.stderr = run(*base, "--json", report).stderr
        self.tokens = np.array(json.loads(report.read_text())["tokens"]).reshape(len(ids), -1)
        run(*base, "--json", report, "--logits", folder / "logits.npy")  # the host chooses
        chosen = np.array(json.loads(report.read_text())["tokens"]).reshape(len(ids), -1)
        assert (chosen == self.tokens).all()
        self.logits = np.load(folder / "logits.npy")


@pytest.mark.parametrize("form", ["latent", "expanded"])
@pytest.mark.parametrize("case", GOLDEN, ids=range(len(GOLDEN)))
def test_mini_writes_its_golden_text_through_its_own_states(case, form, exported, cache, tmp_path):
    result = run(tool("kimi-run"), exported("mini", "--cache", form), "--prompt", case["prompt"], "--tokens", len(case["greedy_ids"]), "--ignore-eos",
                 "--cache", cache, "--json", tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["tokens"] == case["greedy_ids"]
    assert result.stdout.rstrip("\n") == case["greedy_text"].rstrip("\n")
    assert "no decode entry" not in result.stderr


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name, form", [("mini", "latent"), ("k3-tiny", "latent"), ("k3-tiny", "expanded"), ("kl-tiny", "latent"), ("kl-tiny", "none")])
def test_a_prompt_in_any_parts(name, form, batch, exported, cache, tmp_path):
    """One pass of the graph as it is, prefill at once, in parts and token by token: the same logits, the same text."""
    model, c = exported(name, "--cache", form), settings(name)
    ids = np.random.default_rng().integers(0, c.vocab, (batch, 23))
    want = whole_pass(model, c, form, ids, tmp_path, cache)
    once = Text(model, ids, tmp_path, cache)
    assert "no decode entry" not in once.stderr
    size = np.abs(want).max()
    assert np.isfinite(want).all() and np.abs(once.logits - want).max() <= 1e-4 * size
    for chunk in (1, 2, 7, 16, 22):
        parts = Text(model, ids, tmp_path, cache, "--prefill-chunk", chunk)
        assert np.abs(parts.logits - want).max() <= 1e-4 * size, f"parts of {chunk}"
        assert (parts.tokens == once.tokens).all(), f"parts of {chunk}"
    if batch == 2:  # sequences do not meet
        alone = Text(model, ids[1:], tmp_path, cache)
        assert np.abs(alone.logits[0] - want[1]).max() <= 1e-4 * size and (alone.tokens[0] == once.tokens[1]).all()


def whole_pass(model, c, form, ids, folder, cache):
    """The last logits of the graph's own entry, with states of zeros as inputs."""
    batch, states = len(ids), {}
    for layer in range(c.layers if form != "none" else 0):
        key = f"past_key_values.{layer}."
        if not c.is_mla(layer):
            for which in "qkv":
                states[f"{key}{which}_conv_state"] = np.zeros((batch, c.kda_width, c.conv - 1), np.float32)
            states[key + "recurrent_state"] = np.zeros((batch, c.kda_heads, c.kda_dim, c.kda_dim), np.float32)
        elif form == "latent":
            states[key + "latent"] = np.zeros((batch, 0, c.kv_lora + c.rope), np.float32)
        else:
            states[key + "key"] = np.zeros((batch, c.heads, 0, c.nope + c.rope), np.float32)
            states[key + "value"] = np.zeros((batch, c.heads, 0, c.v_dim), np.float32)
    np.savez(folder / "in.npz", input_ids=ids, **states)
    run(tool("kimi-run"), model, "--entry", "main", "--input", folder / "in.npz", "--output", folder / "out.npz", "--cache", cache)
    with np.load(folder / "out.npz") as out:
        return out["logits"][:, -1]


def kinds(path, *options):
    report = json.loads(run(tool("kimi-run"), path, "--memory", "--json", "-", *options).stdout)
    return {k["kind"]: k for k in report["states"]}, report


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", ["k3-tiny", "kl-tiny"])
def test_memory_by_kind_without_weights(name, dtype, exported, tmp_path):
    """Bytes by the configuration; there is no file of weights, nothing runs."""
    family, c = ("kimi_linear" if name == "kl-tiny" else "k3"), settings(name)
    model = export(family, tmp_path, "--config", name, "--no-data", "--dtype", dtype)
    run(tool("kimi-compile"), model, "-o", tmp_path / "m.kmod")
    found, report = kinds(tmp_path / "m.kmod", "--max-seq", 64, "--batch", 2)
    size, mla = {"f32": 4, "bf16": 2}[dtype], len(c.mla_layers)
    kda = c.layers - mla
    assert found["recurrent_state"] == {"kind": "recurrent_state", "count": kda, "fixed_bytes": kda * c.kda_heads * c.kda_dim ** 2 * 4, "bytes_per_token": 0}
    assert found["latent"] == {"kind": "latent", "count": mla, "fixed_bytes": 0, "bytes_per_token": mla * (c.kv_lora + c.rope) * size}
    assert sum(found[f"{q}_conv_state"]["fixed_bytes"] for q in "qkv") == 3 * kda * c.kda_width * (c.conv - 1) * size
    assert report["state_fixed_bytes"] == sum(k["fixed_bytes"] for k in found.values())
    assert report["state_bytes_per_token"] == sum(k["bytes_per_token"] for k in found.values())
    assert report["weight_bytes"] > 0 and report["arena_bytes"] == max(a["bytes"] for a in report["arenas"])
    arenas = {a["run"]: a["bytes"] for a in report["arenas"]}
    assert arenas["decode after 63 tokens"] < arenas["prefill of 64 tokens"]
    told = run(tool("kimi-run"), tmp_path / "m.kmod", "--memory", "--prefill-tokens", 5, "--context", 9).stdout
    assert re.search(rf"recurrent_state \({kda}\) +{found['recurrent_state']['fixed_bytes']} bytes a sequence", told)
    assert re.search(rf"latent \({mla}\) +{found['latent']['bytes_per_token']} bytes a token of a sequence", told)
    assert "arena, prefill of 5 tokens" in told and "arena, decode after 9 tokens" in told


def test_full_size_memory(tmp_path):
    """The first four layers of K3 at their real sizes: 6,291,456 bytes of delta memory a layer (434,110,464 for its 69)."""
    model = export("k3", tmp_path, "--config", "k3", "--layers", 4, "--no-data", "--dtype", "bf16")
    run(tool("kimi-compile"), model, "-o", tmp_path / "m.kmod")
    found, _ = kinds(tmp_path / "m.kmod")
    assert found["recurrent_state"]["fixed_bytes"] * 69 == 3 * 434_110_464
    assert found["latent"]["bytes_per_token"] * 24 == 27_648


def test_prompts_that_are_none(exported, cache):
    model = exported("k3-tiny", "--cache", "latent")
    base = [tool("kimi-run"), model, "--cache", cache, "--tokens", 2, "--prompt-tokens"]
    for wrong, why in [("1,2;3", "same number of tokens"), ("1,x", "no list of tokens"), ("1,,2", "no list of tokens"), ("99999", "vocabulary"),
                       ("nowhere.npy", "nowhere.npy")]:
        result = run(*base, wrong, check=False)
        assert result.returncode == 1 and why in result.stderr, result.stderr


def test_prompt_from_an_array(exported, cache, tmp_path):
    model = exported("k3-tiny", "--cache", "latent")
    ids = np.random.default_rng().integers(0, 512, (2, 5))
    np.save(tmp_path / "ids.npy", ids)
    base = [tool("kimi-run"), model, "--cache", cache, "--tokens", 3, "--prompt-tokens"]
    lines = run(*base, tmp_path / "ids.npy").stdout
    assert lines == run(*base, text_of(ids)).stdout and [len(r.split(",")) for r in lines.split()] == [3, 3]
    np.save(tmp_path / "ids.npy", ids.astype(np.float32))
    assert "tokens are integers" in run(*base, tmp_path / "ids.npy", check=False).stderr
