"""Modules written by the version of the format that is frozen in test/data/kmod: a later runtime runs them, or says
that it does not know their version; damaged copies are refused."""
import numpy as np
import pytest
from conftest import ROOT, run, tool

FOLDER = ROOT / "test" / "data" / "kmod"
DATA = FOLDER / "mlp.npz"


def has_x86_64_v3():
    with open("/proc/cpuinfo") as file:
        return {"avx2", "fma", "bmi2"} <= set(file.read().split())


def test_dense_layer_of_version_2(tmp_path):
    if not has_x86_64_v3():
        pytest.skip("the module is compiled for x86-64-v3")
    with np.load(DATA) as data:
        np.save(tmp_path / "x.npy", data["x"])
        want = data["y"]
    run(tool("kimi-run"), FOLDER / "mlp-v2.kmod", "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as data:
        np.testing.assert_allclose(data["y"], want, rtol=1e-5, atol=1e-6)


def test_modules_of_version_2_are_described():
    for file, words in {"topk-v2.kmod": ["entry 'main'", "x86-64-v3"], "reshape-cuda-v2.kmod": ["cuda:ptx:sm_80"]}.items():
        text = run(tool("kimi-run"), FOLDER / file, "--describe").stdout
        for word in words:
            assert word in text, (file, word, text)


@pytest.mark.parametrize("name", ["mlp-v2.kmod", "reshape-cuda-v2.kmod"])
def test_damaged_copies_are_refused(name, tmp_path):
    whole, rng = (FOLDER / name).read_bytes(), np.random.default_rng()
    table = int.from_bytes(whole[16:24], "little")
    cases = {"empty": b"", "half": whole[:len(whole) // 2], "short": whole[:-1],
             "version": whole[:4] + b"\x63" + whole[5:], "magic": b"KMOE" + whole[4:]}
    for i in rng.integers(64, 64 + table, 8):  # any byte of the table
        cases[f"byte {i}"] = whole[:i] + bytes([whole[i] ^ 1 << int(rng.integers(8))]) + whole[i + 1:]
    for case, contents in cases.items():
        path = tmp_path / "damaged.kmod"
        path.write_bytes(contents)
        result = run(tool("kimi-run"), path, "--describe", check=False)
        assert result.returncode == 1 and "error: " in result.stderr and str(path) in result.stderr, (case, result)
        assert case != "version" or "version 99" in result.stderr, result.stderr
