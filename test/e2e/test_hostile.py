"""Models that may be wrong in any way (scripts/hostile-nodes.py, scripts/hostile-models.py): accepted, or refused in a line
that names what is wrong; and what is accepted stays within its buffers on data that it does not expect (kernels compiled
with --check-bounds). Seeds are fresh, and part of what a failure prints. KIMI_HOSTILE_EACH=N draws N models of each kind."""
import concurrent.futures
import os
import random
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import ROOT, run, tool
from kimi_models import export
from onnx import TensorProto

LOCATED = re.compile(r"error: .*(node|input|output|value|initializer) ('|\()")
TYPES = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64", TensorProto.FLOAT16: "float16", TensorProto.INT8: "int8",
         TensorProto.INT32: "int32", TensorProto.INT64: "int64", TensorProto.UINT8: "uint8", TensorProto.UINT64: "uint64",
         TensorProto.BOOL: "bool"}
EACH = int(os.environ.get("KIMI_HOSTILE_EACH", "2"))


def arrays(model, rng):
    """An array for each input, extents of one name alike; None where NumPy lacks a type."""
    named, made = {}, {}
    for port in model.graph.input:
        tensor = port.type.tensor_type
        if tensor.elem_type not in TYPES:
            return None
        dims = [named.setdefault(d.dim_param, int(rng.choice([0, 1, 2, 3, 5, 9]))) if d.dim_param else d.dim_value
                for d in tensor.shape.dim]
        if np.prod(dims) > 1 << 22:
            return None
        values = rng.choice([0, 1, 2, 3, 4, -1, -2, 7, -9], dims)
        if tensor.elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
            values = rng.standard_normal(dims)
        made[port.name] = np.asarray(values).astype(TYPES[tensor.elem_type])
    return made


def judge(path):
    """What is wrong with how `path` is compiled and run; empty where nothing is."""
    module = path.with_suffix(".kmod")
    compiled = subprocess.run([tool("kimi-compile"), path, "--check-bounds", "--no-derive-decode", "-o", module],
                              capture_output=True, text=True, errors="replace", timeout=300)
    if compiled.returncode == 1 and LOCATED.search(compiled.stderr):
        return ""
    if compiled.returncode != 0:
        return f"{path.name}: kimi-compile: status {compiled.returncode}: {compiled.stderr[:300]}"
    model = onnx.load(path, load_external_data=False)
    seed = random.randrange(1 << 31)
    data = arrays(model, np.random.default_rng(seed))
    if data is None:
        return ""
    np.savez(path.with_suffix(".npz"), **data)
    inputs = ["--input", path.with_suffix(".npz")] if data else []
    done = subprocess.run([tool("kimi-run"), module, *inputs, "--output", path.with_suffix(".outputs")], capture_output=True,
                          text=True, errors="replace", timeout=300)
    if done.returncode in (0, 1):
        return ""
    shapes = {name: array.shape for name, array in data.items()}
    return f"{path.name}: kimi-run: status {done.returncode}, data {seed} {shapes}: {done.stderr[:300]}"


def judge_gpu(path):
    """The same of compiling for a GPU, up to the plan."""
    compiled = subprocess.run([tool("kimi-compile"), path, "--target=cuda:sm_90a", "--emit=plan", "-o", os.devnull],
                              capture_output=True, text=True, errors="replace", timeout=300)
    good = compiled.returncode == 0 or (compiled.returncode == 1 and LOCATED.search(compiled.stderr))
    return "" if good else f"{path.name}: for a GPU: status {compiled.returncode}: {compiled.stderr[:300]}"


def faults_of(judges, models):
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [fault for judge_one in judges for fault in pool.map(judge_one, models) if fault]


def test_nodes(tmp_path):
    seed = random.randrange(1 << 31)
    run(sys.executable, ROOT / "scripts" / "hostile-nodes.py", tmp_path, "--seed", seed, "--each", EACH)
    models = sorted(tmp_path.glob("*.onnx"))
    assert len(models) > 150 * EACH
    faults = faults_of([judge], models)
    assert not faults, f"hostile-nodes.py --seed {seed} --each {EACH}:\n" + "\n".join(faults)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    exported = [export("k3", folder / "k3-tiny", "--config", "k3-tiny"),
                export("k3", folder / "k3-expanded", "--config", "k3-tiny-128", "--unpack-experts", "--cache", "expanded"),
                export("kimi_linear", folder / "kl-tiny", "--config", "kl-tiny")]
    return exported + sorted((ROOT / "test" / "data" / "gpt2").glob("*/model.onnx"))


def test_models(sources, tmp_path):
    seed = random.randrange(1 << 31)
    run(sys.executable, ROOT / "scripts" / "hostile-models.py", tmp_path, *sources, "--seed", seed, "--each", EACH)
    models = sorted(tmp_path.rglob("*.onnx"))
    assert len(models) == len(sources) * EACH
    faults = faults_of([judge, judge_gpu], models)
    assert not faults, f"hostile-models.py --seed {seed} --each {EACH}:\n" + "\n".join(faults)
