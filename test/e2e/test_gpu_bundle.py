"""The bundle for machines with a GPU, packed for the CPU instead: the runner finds what is right and what is wrong."""
import os
import subprocess
import tarfile

from conftest import ROOT, run, tool

CASE = ROOT / "test" / "data" / "gpt2" / "eager_dynamo_op18"


def pack(tmp_path, *cases):
    tools = {"KIMI_COMPILE": tool("kimi-compile"), "KIMI_RUN": tool("kimi-run"), "KIMI_CPU_RUN": tool("kimi-run")}
    run(ROOT / "scripts" / "gpu-bundle.sh", "-o", tmp_path / "b.tar.gz", "--target", "cpu", *cases,
        env={**os.environ, **tools})
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        archive.extractall(tmp_path)
    return tmp_path / "gpu-bundle"


def test_runs_every_case(tmp_path):
    bundle = pack(tmp_path, CASE, "mini")
    result = run(bundle / "run.sh", "--device", "cpu")
    assert "7 passed, 0 failed" in result.stdout, result.stdout  # two precisions of each, and three prompts


def test_finds_what_is_wrong(tmp_path):
    bundle = pack(tmp_path, CASE, "mini")
    (bundle / "cases" / "gpt2_mini" / "expected1.txt").write_text("something else\n")
    # The logits of another data set: right in shape, wrong in value.
    sets = bundle / "cases" / "gpt2_mini"
    (bundle / "cases" / CASE.name / "f32.kmod").write_bytes(b"KMOD, but no more")
    result = subprocess.run([bundle / "run.sh", "--device", "cpu"], capture_output=True, text=True, timeout=600)
    assert result.returncode == 1
    assert "5 passed, 2 failed" in result.stdout, result.stdout
    assert "other text" in result.stdout
    output = sets / "test_data_set_0" / "output_0.pb"
    damaged = bytearray(output.read_bytes())
    damaged[-1] ^= 0x40  # the exponent of the last logit
    output.write_bytes(damaged)
    result = subprocess.run([bundle / "run.sh", "--device", "cpu", "gpt2_mini"], capture_output=True, text=True,
                            timeout=600)
    assert result.returncode == 1
    assert result.stdout.count("FAILED") == 3, result.stdout  # both precisions and the text


def test_without_a_driver_it_says_so(tmp_path):
    bundle = pack(tmp_path, CASE)
    result = subprocess.run([bundle / "run.sh"], capture_output=True, text=True, timeout=600,
                            env={**os.environ, "KIMI_CUDA_DRIVER": "/nonexistent/libcuda.so.1"})
    assert result.returncode == 1
    assert "0 passed, 2 failed" in result.stdout
