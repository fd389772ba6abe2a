"""Every exporter-made case gives its stored outputs, through the kernels and through the reference lowering."""
import sys
import tarfile

import pytest
from conftest import ROOT, SANITIZER, SHARED, run, tool

CASES = sorted(p.parent for p in (ROOT / "test" / "data" / "gpt2").glob("*/model.onnx"))
FAMILY = SHARED / "cases" / "k3-family.tar.xz"
NODES = SHARED / "onnx-node-1.22.0.tar.xz"


@pytest.mark.parametrize("mode", [[], ["--reference"]], ids=["kernels", "reference"])
@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_gpt2_case(case, mode, cache):
    run(tool("kimi-run"), "--onnx-test", case, "--rtol", "1e-3", "--atol", "1e-4", "--cache", cache, *mode)


@pytest.mark.parametrize("mode", [[], ["--reference"]], ids=["kernels", "reference"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_gpt2_case_narrow(case, precision, mode, cache):
    """Weights and activations in 16 bits stay near the fp32 outputs: 1e-2 of their norm."""
    run(tool("kimi-run"), "--onnx-test", case, "--precision", precision, "--rnorm", "1e-2", "--cache", cache, *mode)


@pytest.mark.parametrize("case", CASES[:1], ids=lambda p: p.name)
def test_gpt2_case_tf32_is_fp32_on_a_cpu(case, cache):
    run(tool("kimi-run"), "--onnx-test", case, "--precision", "tf32", "--rtol", "1e-3", "--atol", "1e-4", "--cache", cache)


def test_bf16_is_not_fp32(cache):
    """The comparison by norm can tell bf16 from fp32: what passes at 1e-2 fails at 1e-4."""
    result = run(tool("kimi-run"), "--onnx-test", CASES[0], "--precision", "bf16", "--rnorm", "1e-4", "--cache", cache,
                 check=False)
    assert result.returncode == 3 and "norm of the difference" in result.stdout


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    if not FAMILY.exists():
        pytest.skip(f"the larger cases are not at {FAMILY}")
    folder = tmp_path_factory.mktemp("family")
    with tarfile.open(FAMILY) as archive:
        wanted = [m for m in archive if m.name.startswith("gpt2-tiny_")]
        archive.extractall(folder, wanted)
    return folder


@pytest.mark.parametrize("mode", [[], ["--reference"]], ids=["kernels", "reference"])
@pytest.mark.parametrize("name", ["gpt2-tiny_erf_eager_plain_dyn_op18", "gpt2-tiny_erf_sdpa_cache_dyn_op20",
                                  "gpt2-tiny_tanh_sdpa_cache_dyn_op23", "gpt2-tiny_tanh_sdpa_plain_dyn_op23"])
def test_gpt2_tiny_family(family, name, mode, cache):
    run(tool("kimi-run"), "--onnx-test", family / name, "--rtol", "1e-3", "--atol", "1e-4", "--cache", cache, *mode)


def test_every_case_is_listed():
    """The tracked copy holds ten folders; an empty glob must not pass for success."""
    assert len(CASES) >= 10


@pytest.mark.skipif(SANITIZER == "tsan", reason="kimi-onnx-tests holds the compiler, which is not built with TSan")
def test_onnx_node_tests():
    """ONNX's own node tests: each passes, or is on the list of refusals and refused (docs/onnx-node-tests.md)."""
    if not NODES.exists():
        pytest.skip(f"ONNX's node tests are not at {NODES}")
    result = run(sys.executable, ROOT / "scripts" / "onnx-node-tests.py", NODES, timeout=3600)
    assert "1765 as expected, 0 not, 0 faults" in result.stdout
