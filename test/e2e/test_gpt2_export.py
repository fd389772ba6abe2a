"""models/gpt2/export.py: its graphs are right by ONNX Runtime, and by this compiler for any split of the prompt."""
import sys

import numpy as np
import onnxruntime
import pytest
from conftest import ROOT, run, tool

EXPORT = ROOT / "models" / "gpt2" / "export.py"


@pytest.fixture(scope="module", params=[[], ["--cache"]], ids=["cacheless", "cached"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    run(sys.executable, EXPORT, "--how", "build", "--size", "tiny", "--vocab", 97, "--context", 64, "--out", folder, *request.param)
    return folder / "model.onnx"


def test_matches_onnx_runtime(model, cache, tmp_path):
    rng = np.random.default_rng()
    session = onnxruntime.InferenceSession(str(model))
    for batch, seq, past in ((1, 1, 0), (2, 7, 0), (1, 33, 0), (2, 5, 9)):
        feed = {"input_ids": rng.integers(0, 97, (batch, seq))}
        for port in session.get_inputs()[1:]:
            feed[port.name] = rng.standard_normal((batch, 2, past, 32)).astype(np.float32)
        names = [o.name for o in session.get_outputs()]
        want = dict(zip(names, session.run(None, feed)))
        np.savez(tmp_path / "in.npz", **feed)
        run(tool("kimi-run"), model, "--entry", "main", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--cache", cache)
        got = np.load(tmp_path / "out.npz")
        for name in names:
            assert got[name].shape == want[name].shape
            np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-5)
