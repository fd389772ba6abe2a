"""Nodes with operands of any rank, extent and type, and attributes of any value (scripts/hostile-nodes.py): accepted, or refused in
a line that names the node. The seed is fresh, and part of what a failure prints."""
import concurrent.futures
import os
import random
import re
import subprocess
import sys

from conftest import ROOT, run, tool

LOCATED = re.compile(r"error: .*(node|input|output|value) '")


def judge(model):
    """What is wrong with how the compiler takes `model`; empty where nothing is."""
    result = subprocess.run([tool("kimi-compile"), model, "--emit=plan", "-o", os.devnull], capture_output=True, text=True,
                            errors="replace", timeout=300)
    refused = result.returncode == 1 and LOCATED.search(result.stderr)
    return "" if result.returncode == 0 or refused else f"{model.name}: status {result.returncode}: {result.stderr[:300]}"


def test_accepted_or_refused_by_name(tmp_path):
    seed = random.randrange(1 << 31)
    run(sys.executable, ROOT / "scripts" / "hostile-nodes.py", tmp_path, "--seed", seed, "--each", 2)
    models = sorted(tmp_path.glob("*.onnx"))
    assert len(models) > 300
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        faults = [fault for fault in pool.map(judge, models) if fault]
    assert not faults, f"hostile-nodes.py --seed {seed} --each 2:\n" + "\n".join(faults)
