"""Runs a module on the GPU: what it gives, and how long it takes."""
import json
import pathlib
import subprocess
import tempfile

import numpy as np


def ours(run, module, arrays, weights=None, runs=30, device="cuda"):
    """(outputs by name, the report of --benchmark) of `module` for the inputs `arrays`; `run` is kimi-run. Raises
    CalledProcessError where that fails."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        np.savez(scratch / "in.npz", **arrays)
        command = [run, str(module), *(["--weights", str(weights)] if weights else []), "--device", device, "--input", str(scratch / "in.npz")]
        subprocess.run([*command, "--output", str(scratch / "out.npz")], check=True)
        subprocess.run([*command, "--benchmark", "--runs", str(runs), "--json", str(scratch / "report.json")], check=True, stdout=subprocess.DEVNULL)
        with np.load(scratch / "out.npz") as outputs:
            return dict(outputs), json.loads((scratch / "report.json").read_text())
