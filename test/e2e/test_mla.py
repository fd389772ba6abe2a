"""Latent attention: graphs without a cache get one of latents, decode reads it absorbed, and the numbers are those of the
expanded form."""
import json
import re

import numpy as np
import onnxruntime
import pytest
from conftest import run, tool
from kimi_models import MINI, export, shrunk
from kimi_session import Session, library
from test_k3_family import family  # noqa: F401 (a fixture)

from kimi import presets

GOLDEN = json.loads((MINI / "golden.json").read_text())["prompts"]
# Exporter, configuration, latent layers, rank and shared channels.
MODELS = [("k3", "k3-tiny", 3, 64, 16), ("k3", "k3-tiny-128", 3, 512, 64), ("kimi_linear", "kl-tiny", 2, 64, 16)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    done = {}

    def do(name, *options):
        if (name, options) not in done:
            kind = next(kind for kind, known, *_ in MODELS if known == name)
            done[name, options] = export(kind, tmp_path_factory.mktemp(name), "--config", name, *options)
        return done[name, options]

    return do


def entries(text):
    """name -> text of each function of a module."""
    found = {}
    for part in re.split(r"\n  func\.func @", text)[1:]:
        found[part.split("(")[0]] = part
    return found


@pytest.mark.parametrize("kind,name,layers,rank,shared", MODELS, ids=[m[1] for m in MODELS])
def test_state_is_latents(kind, name, layers, rank, shared, exported, tmp_path):
    """One growing state a layer, rank + shared wide; decode attends to it with one key head, prefill expands its rows."""
    model = exported(name, "--cache", "none", "--unpack-experts")
    functions = entries(run(tool("kimi-compile"), model, "--emit=kimi").stdout)
    row = rank + shared
    for entry in ("prefill", "prefill_last", "decode"):
        signature = functions[entry].split("attributes")[0]
        assert len(re.findall(rf"!kimi\.state<tensor<\?x\?x{row}xf32>, 1>", signature)) == layers
        assert not re.search(r"!kimi\.state<[^>]*>, [02-9]>", signature), "another state grows"
    absorbed = rf"kimi\.attention .*tensor<\?x1x\?x{row}xf32>, tensor<\?x1x\?x{rank}xf32>"
    assert len(re.findall(absorbed, functions["decode"])) == layers
    assert functions["decode"].count("kimi.head_linear") == 2 * layers
    assert "kimi.head_linear" not in functions["prefill"] and "kimi.head_linear" not in functions["main"]
    report = run(tool("kimi-compile"), model, "-v", "-o", tmp_path / "m.kmod").stderr
    assert f"absorbed (1 query and any number of latents); the latents of a token are {row} numbers" in report


def test_expanded_caches_are_refused(exported):
    """A graph that takes and gives expanded caches keeps them, and a remark says why."""
    report = run(tool("kimi-compile"), exported("k3-tiny", "--cache", "expanded"), "-v", "--emit=plan").stderr
    refusals = re.findall(r"its cache of expanded keys and values is an input of the graph \('past_key_values\.(\d)\.key'\)", report)
    assert sorted(set(refusals)) == ["3", "7", "8"]
    assert "latent attention is computed" not in report


@pytest.mark.parametrize("name", ["torch_k3-tiny_loop_T5_op20", "ts_k3-tiny-grp_loop_T5_op17", "ts113_torch_k3-tiny-grp_chunk_T17_op20"])
@pytest.mark.parametrize("form,layers", [("absorbed", True), ("expanded", False)])
def test_stored_outputs(family, name, form, layers, tmp_path):  # noqa: F811
    """Whole sequences of other exporters, with either form forced."""
    folder = family / name
    run(tool("kimi-compile"), folder / "model.onnx", "-o", tmp_path / "m.kmod", f"--mla={form}", "-v")
    text = run(tool("kimi-compile"), folder / "model.onnx", "--emit=kimi", f"--mla={form}").stdout
    assert ("kimi.head_linear" in text) == layers
    run(tool("kimi-run"), "--onnx-test", folder, "--module", tmp_path / "m.kmod", "--weights", folder, "--rtol", 1e-3, "--atol", 1e-3)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    return library(tmp_path_factory.mktemp("runtime"))


def assert_near(got, want, rtol=1e-3, atol=1e-4):
    assert got.shape == want.shape and np.isfinite(got).all()
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("flags", [[], ["--gpu-schedules=90a"], ["--mla=absorbed"], ["--mla=none"], ["--reference"]],
                         ids=["cpu", "gpu-schedules", "absorbed", "none", "reference"])
@pytest.mark.parametrize("kind,name,layers,rank,shared", MODELS, ids=[m[1] for m in MODELS])
def test_steps_equal_one_pass(kind, name, layers, rank, shared, flags, exported, runtime, tmp_path):
    """Two sequences, token by token after a prompt, in parts, and whole, against ONNX Runtime: the expanded form in one pass."""
    if name == "k3-tiny-128" and flags == ["--reference"]:
        pytest.skip("the reference takes minutes for wide heads")
    model = exported(name, "--cache", "none", "--unpack-experts")
    run(tool("kimi-compile"), model, "-o", tmp_path / "m.kmod", *flags)
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 512, (2, 21))
    want = onnxruntime.InferenceSession(str(model)).run(["logits"], {"input_ids": ids})[0]
    with Session(runtime, tmp_path / "m.kmod", model.parent, batch=2) as session:
        assert_near(session.run("main", ids), want)
        # A prompt, then a token at a time.
        session.reset()
        got = [session.run("prefill", ids[:, :9])]
        got += [session.run("decode", ids[:, t:t + 1]) for t in range(9, 21)]
        assert session.length() == 21
        assert_near(np.concatenate(got, 1), want)
        # Parts: the second one attends to latents of the first.
        session.reset()
        assert_near(np.concatenate([session.run("prefill", ids[:, a:b]) for a, b in [(0, 5), (5, 6), (6, 20)]], 1), want[:, :20])
        assert_near(session.run("decode", ids[:, 20:]), want[:, 20:])
        # The last token of a prompt alone.
        session.reset()
        assert_near(session.run("prefill_last", ids), want[:, 20:])
        if flags != ["--mla=none"]:
            assert session.memory().per_token == layers * (rank + shared) * 4


def test_bytes_a_token(exported, runtime, tmp_path):
    """Latents of 512 + 64 numbers as in K3, in bf16: 1152 bytes a token and layer; expanded it would be 2 * 3 * (192 + 128)."""
    model = exported("k3-tiny-128", "--cache", "none", "--unpack-experts")
    for flags, numbers in [([], 512 + 64), (["--mla=none"], 3 * (192 + 128))]:
        run(tool("kimi-compile"), model, "-o", tmp_path / "m.kmod", "--precision=bf16", *flags)
        with Session(runtime, tmp_path / "m.kmod", model.parent) as session:
            assert session.memory().per_token == 3 * numbers * 2


@pytest.mark.parametrize("flags", [[], ["--gpu-schedules=90a"]], ids=["cpu", "gpu-schedules"])
def test_k3_mini(flags, tmp_path):
    """The trained model, exported without a cache, writes its golden tokens with states of latents."""
    model = export("k3", tmp_path, "--checkpoint", MINI, "--cache", "none")
    run(tool("kimi-compile"), model, "-o", tmp_path / "m.kmod", *flags)
    golden, report = GOLDEN[0], tmp_path / "report.json"
    run(tool("kimi-run"), tmp_path / "m.kmod", "--prompt", golden["prompt"], "--tokens", 24, "--ignore-eos", "--json", report,
        "--tokenizer", MINI)
    assert json.loads(report.read_text())["tokens"] == golden["greedy_ids"][:24]


def test_full_size(tmp_path):
    """K3's graph without a cache: all 24 latent layers are found, and their state is 27,648 bytes a token."""
    model = export("k3", tmp_path, "--config", "k3", "--cache", "none", "--no-data", "--dtype", "bf16")
    done = run(tool("kimi-compile"), model, "--target=cuda:sm_90a", "--emit=kimi", "-v", "-o", tmp_path / "k3.mlir", timeout=300)
    decode = entries((tmp_path / "k3.mlir").read_text())["decode"]
    states = re.findall(r"!kimi\.state<tensor<\?x\?x(\d+)xbf16>, 1>", decode.split("attributes")[0])
    assert states == ["576"] * 24 and 2 * sum(map(int, states)) == 27648
    absorbed = r"kimi\.attention .*tensor<\?x96x\?x576xbf16>, tensor<\?x1x\?x576xbf16>, tensor<\?x1x\?x512xbf16>"
    assert len(re.findall(absorbed, decode)) == 24
    assert "its keys and values would be 30720" in done.stderr


def test_absorbed_by_the_exporter(exported):
    """A graph whose cache holds latents is absorbed as it comes: its products a head are found in every entry."""
    text = run(tool("kimi-compile"), exported("k3-tiny", "--cache", "latent"), "--emit=kimi").stdout
    for entry in ("main", "prefill", "prefill_last", "decode"):
        body = entries(text)[entry]
        layers = body.count("kimi.attention")
        assert layers > 0 and body.count("kimi.head_linear") == 2 * layers, entry


@pytest.mark.parametrize("heads", [1, 2, 11])
@pytest.mark.parametrize("precision,flags", [("f32", []), ("f32", ["--gpu-schedules=80"]), ("bf16", []), ("bf16", ["--gpu-schedules=90a"])],
                         ids=["f32", "f32-gpu-schedules", "bf16", "bf16-gpu-schedules"])
def test_one_layer(heads, precision, flags, runtime, tmp_path):
    """One layer of odd widths without a router, so that bf16 can be judged by its logits; more keys than a block looks at in a
    step."""
    settings = shrunk(presets.K3_TINY, num_hidden_layers=1, num_attention_heads=heads, num_key_value_heads=heads)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    model = export("k3", tmp_path / "model", "--config", tmp_path / "config.json", "--cache", "none")
    text = run(tool("kimi-compile"), model, "--emit=kimi").stdout
    assert entries(text)["decode"].count("kimi.head_linear") == 2
    run(tool("kimi-compile"), model, "-o", tmp_path / "m.kmod", "--precision", precision, *flags)
    ids = np.random.default_rng(heads).integers(0, 97, (3, 150))
    want = onnxruntime.InferenceSession(str(model)).run(["logits"], {"input_ids": ids})[0]

    def check(got, want):
        if precision == "f32":
            assert_near(got, want)
        else:
            assert np.isfinite(got).all() and np.linalg.norm(got - want) <= 1e-2 * np.linalg.norm(want)

    with Session(runtime, tmp_path / "m.kmod", model.parent, batch=3) as session:
        got = [session.run("prefill", ids[:, :131])]
        got += [session.run("decode", ids[:, t:t + 1]) for t in range(131, 150)]
        check(np.concatenate(got, 1), want)
        session.reset()
        check(session.run("main", ids), want)
        session.reset()
        check(session.run("prefill_last", ids), want[:, -1:])
