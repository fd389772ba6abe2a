#!/usr/bin/env python3
"""Runs ONNX's node tests through kimi-run and says, test by test, what became of each.

  scripts/onnx-node-tests.py FOLDER_OR_TAR [--filter REGEX] [--known FILE] [--write FILE]

FOLDER_OR_TAR holds one folder a test (model.onnx, test_data_set_*). Outcomes: pass; refused (a located error);
mismatch (ran, wrong values); crash (a signal, or no message). --known names a file of `test outcome` lines for tests
that are not expected to pass; an unexpected failure and an unexpected pass both count as failures.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run_case(tool, case, cache):
    """(outcome, first line of the message) of one test folder."""
    try:
        result = subprocess.run([tool, "--onnx-test", case, "--rtol", "1e-3", "--atol", "1e-5", "--cache", cache], capture_output=True,
                                text=True, timeout=300, errors="replace")
    except subprocess.TimeoutExpired:
        return "crash", "timed out"
    lines = result.stderr.splitlines() + result.stdout.splitlines()
    message = next((line for line in lines if "error:" in line), "") or result.stdout.strip()[-200:]
    if result.returncode == 0:
        return "pass", ""
    if result.returncode == 3:
        return "mismatch", message
    if result.returncode in (1, 2) and ("error:" in message or "FAILED" in message) and "ended by signal" not in result.stdout:
        return "refused", message
    return "crash", f"exit {result.returncode}: {message or result.stderr[-300:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests")
    parser.add_argument("--build", default=os.environ.get("KIMI_BUILD", str(ROOT / "build" / "release")))
    parser.add_argument("--filter", default="")
    parser.add_argument("--known")
    parser.add_argument("--write", help="write the outcomes of all that did not pass")
    parser.add_argument("--verbose", "-v", action="store_true")
    args = parser.parse_args()
    tool = os.path.join(args.build, "tools", "kimi-run", "kimi-run")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(args.tests)
        if folder.is_file():
            with tarfile.open(folder) as archive:
                archive.extractall(scratch)
            folder = pathlib.Path(scratch)
        cases = sorted(p.parent for p in folder.rglob("model.onnx") if re.search(args.filter, p.parent.name))
        cache = os.path.join(scratch, "cache")
        os.makedirs(cache, exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            outcomes = dict(zip((c.name for c in cases), pool.map(lambda c: run_case(tool, c, cache), cases)))
    known = {}
    if args.known:
        with open(args.known) as f:
            known = dict(line.split(None, 2)[:2] for line in f if line.strip() and not line.startswith("#"))
    bad = 0
    for name, (outcome, message) in sorted(outcomes.items()):
        expected = known.get(name, "pass")
        if (outcome == "pass") != (expected == "pass"):
            bad += 1
        if args.verbose or (outcome == "pass") != (expected == "pass"):
            print(f"{name}: {outcome} {message[:300]}")
    print(dict(collections.Counter(o for o, _ in outcomes.values())))
    if args.write:
        with open(args.write, "w") as f:
            f.writelines(f"{n} {o} {m[:200]}\n" for n, (o, m) in sorted(outcomes.items()) if o != "pass")
    print(f"{len(outcomes) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
