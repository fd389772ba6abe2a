"""What `kimi-compile --emit` prints is IR that kimi-opt reads: it verifies, and printing it again changes nothing."""
import pytest
from conftest import ROOT, run, tool

CASES = {p.parent.name: p for p in sorted((ROOT / "test" / "data" / "gpt2").glob("*/model.onnx"))}
MINI = ROOT / "models" / "gpt2" / "mini"
CASES |= {name: MINI / f"{name}.onnx" for name in ("gpt2_mini", "gpt2_mini_kv")}


def round_trip(tmp_path, model, *flags):
    first, second = tmp_path / "first.mlir", tmp_path / "second.mlir"
    run(tool("kimi-compile"), model, "-o", tmp_path / "emitted.mlir", *flags)
    run(tool("kimi-opt"), tmp_path / "emitted.mlir", "-o", first)
    run(tool("kimi-opt"), first, "-o", second)
    assert first.stat().st_size > 0
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("emit", ["onnx", "kimi", "tile"])
@pytest.mark.parametrize("case", CASES)
def test_round_trip(case, emit, tmp_path):
    round_trip(tmp_path, CASES[case], f"--emit={emit}")


@pytest.mark.parametrize("flags", [["--reference"], ["--locations"], ["--no-derive-decode"], ["--precision=bf16"],
                                   ["--target=cuda:sm_90a", "--precision=fp16"]], ids=lambda f: f[0].lstrip("-"))
@pytest.mark.parametrize("emit", ["kimi", "tile"])
def test_round_trip_of_other_roads(emit, flags, tmp_path):
    round_trip(tmp_path, CASES["gpt2_mini"], f"--emit={emit}", *flags)
