#!/usr/bin/env python3
"""Random small graphs through kimi-run, against ONNX Runtime (or onnx.reference where it cannot run one).

  scripts/differential.py [--first SEED] [--count N] [--seconds S] [--save FOLDER]

Each seed gives one graph of supported operators and its data: static and dynamic extents, constants and inputs, odd
extents and extents of 0, ordinary operators mixed with the composite forms that the raising passes know. Of five graphs
one runs through the reference lowering and two through the schedules of GPUs (sm_90a, sm_80), executed on the CPU. A graph fails when kimi-run gives other values (beyond rtol 1e-3, atol 1e-4), ends
by a signal, or refuses it for a reason that is not in test/differential/limits.txt. A failing graph is made small, and
saved with its data in ONNX's test layout; `kimi-run --onnx-test FOLDER/seed_N` shows the failure again, as does --first N
--count 1 here. Where the oracle's own outputs move by a good part of the tolerance when the data move by a few roundings,
or the two oracles differ from each other, the graph does not count.

Exit status 1 where a graph failed, 2 where none ran.
"""
import argparse
import collections
import concurrent.futures
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "differential"))
import composites  # noqa: E402
import elementwise  # noqa: E402
import movement  # noqa: E402
import oracle  # noqa: E402
import products  # noqa: E402
import quantized  # noqa: E402
from builder import Builder  # noqa: E402
from shrink import shrink  # noqa: E402

FAMILIES = (elementwise.TEMPLATES, 3), (movement.TEMPLATES, 3), (products.TEMPLATES, 2), (composites.TEMPLATES, 4), (quantized.TEMPLATES, 1)


def generate(seed):
    """(model, data sets) of a seed, or None where every template failed to fit."""
    b = Builder(seed)
    weights = np.array([w for _, w in FAMILIES], float)
    for _ in range(b.integer(1, 9)):
        templates = FAMILIES[b.rng.choice(len(FAMILIES), p=weights / weights.sum())][0]
        shares = np.array(list(templates.values()), float)
        for _ in range(4):
            if b.attempt(list(templates)[b.rng.choice(len(templates), p=shares / shares.sum())]):
                break
    return b.model()


def mode_of(seed):
    """How a seed's graph is compiled: one way for each, so that a seed says everything."""
    return {0: "reference", 1: "90a", 2: "80"}.get(seed % 5, "kernels")


def save(folder, model, sets, want):
    """The test layout of ONNX."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    for number, (feeds, outputs) in enumerate(zip(sets, want)):
        data = folder / f"test_data_set_{number}"
        data.mkdir(exist_ok=True)
        for kind, names, arrays in (("input", [i.name for i in model.graph.input], feeds),
                                    ("output", [o.name for o in model.graph.output], dict(zip([o.name for o in model.graph.output], outputs)))):
            for i, name in enumerate(names):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(arrays[name]), name).SerializeToString())


class Tester:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, pathlib.Path(scratch)
        self.tool = os.path.join(args.build, "tools", "kimi-run", "kimi-run")
        self.compiler = os.path.join(args.build, "tools", "kimi-compile", "kimi-compile")
        self.limits = [line.split("  ", 1)[0] for line in (ROOT / "test/differential/limits.txt").read_text().splitlines()
                       if line and not line.startswith("#")]

    def run(self, model, sets, want, mode):
        """(outcome, message): pass, mismatch, refused, limit or crash."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            save(pathlib.Path(folder) / "case", model, sets, want)
            command = [self.tool, "--onnx-test", os.path.join(folder, "case"), "--rtol", str(oracle.RTOL), "--atol", str(oracle.ATOL),
                       "--cache", os.path.join(folder, "cache")] + (["--reference"] if mode == "reference" else [])
            try:
                if mode not in ("reference", "kernels"):
                    module = os.path.join(folder, "m.kmod")
                    made = subprocess.run([self.compiler, os.path.join(folder, "case", "model.onnx"), "-o", module, "--bake", f"--gpu-schedules={mode}"],
                                          capture_output=True, text=True, timeout=300, errors="replace")
                    if made.returncode < 0:
                        return "crash", f"kimi-compile ended by signal {-made.returncode}: {made.stderr[-300:]}"
                    # What --onnx-test can compile for the values of inputs alone has no module for all of them.
                    command += ["--module", module] if made.returncode == 0 else []
                result = subprocess.run(command, capture_output=True, text=True, timeout=300, errors="replace")
            except subprocess.TimeoutExpired:
                return "crash", "timed out"
        text = result.stderr + result.stdout
        message = next((line for line in text.splitlines() if "error:" in line), "") or next((line for line in text.splitlines() if "FAILED" in line), "")
        if result.returncode == 0:
            return "pass", ""
        if result.returncode == 3:
            return "mismatch", message.split("FAILED", 1)[-1]
        if result.returncode in (1, 2) and message and "ended by signal" not in text and "LLVM ERROR" not in text:
            return ("limit" if any(re.search(p, message) for p in self.limits) else "refused"), message
        return "crash", f"exit status {result.returncode}: {message or text[-300:]}"

    def judge(self, seed):
        """(outcome, message, model, sets) of one seed."""
        made = generate(seed)
        if made is None:
            return "nothing", "", None, None
        model, sets = made
        try:
            want = oracle.expected(model, sets)
        except oracle.NoOracle as error:
            return "no oracle", str(error), model, sets
        finite = {o.name for i, o in enumerate(model.graph.output)
                  if all(w[i].dtype.kind != "f" or np.isfinite(w[i]).all() for w in want)}
        if not finite:
            return "not finite", "", model, sets
        if len(finite) < len(model.graph.output):
            model = oracle.prune(model, finite)
            sets = oracle.feeds_of(model, sets)
            want = oracle.expected(model, sets)
        outcome, message = self.run(model, sets, want, mode_of(seed))
        if outcome == "mismatch" and not self.counts(model, sets, want, seed):
            outcome = "not judged"
        return outcome, message, model, sets

    def counts(self, model, sets, want, seed):
        """Whether other values than the oracle's are a fault: not where the oracle is unsure itself."""
        if oracle.is_ill_conditioned(model, sets, want):
            return False
        try:
            other = oracle.by_reference(model, sets)
        except Exception:  # noqa: BLE001
            return True
        return self.run(model, sets, other, mode_of(seed))[0] == "mismatch"

    def minimise(self, seed, outcome, model, sets):
        """Saves the smallest graph found that fails in the same way; its folder."""
        def fails(small, feeds, want):
            if any(w.dtype.kind == "f" and not np.isfinite(w).all() for one in want for w in one):
                return False
            return self.run(small, feeds, want, mode_of(seed))[0] == outcome and (outcome != "mismatch" or self.counts(small, feeds, want, seed))
        model, sets = shrink(model, sets, fails)
        folder = pathlib.Path(self.args.save) / f"seed_{seed}"
        save(folder, model, sets, oracle.expected(model, sets))
        return folder, model


def describe(model):
    return " -> ".join(node.op_type for node in model.graph.node)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--count", type=int, help="how many seeds; without it and without --seconds, 100")
    parser.add_argument("--seconds", type=float, help="start no seed after so many seconds")
    parser.add_argument("--save", default="differential-failures", help="where failing graphs go")
    parser.add_argument("--build", default=os.environ.get("KIMI_BUILD", str(ROOT / "build" / "release")))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-shrink", action="store_true", help="report failures without making them small")
    parser.add_argument("--verbose", "-v", action="store_true", help="a line for every seed")
    args = parser.parse_args()
    count = args.count or (None if args.seconds else 100)
    seeds = iter(range(args.first, args.first + count) if count else itertools.count(args.first))
    start, totals, failures, lock = time.monotonic(), collections.Counter(), [], threading.Lock()
    with tempfile.TemporaryDirectory() as scratch:
        tester = Tester(args, scratch)

        def work():
            while True:
                with lock:
                    seed = next(seeds, None)
                    if seed is None or (args.seconds and time.monotonic() - start > args.seconds):
                        return
                outcome, message, model, sets = tester.judge(seed)
                with lock:
                    totals[outcome] += 1
                    if args.verbose or outcome == "no oracle":
                        print(f"seed {seed}: {outcome} {message[:300]} [{describe(model) if model else ''}]", flush=True)
                if outcome in ("mismatch", "refused", "crash"):
                    with lock:
                        failures.append(seed)
                        print(f"seed {seed}: {outcome}: {message[:400]}", flush=True)
                    if not args.no_shrink:
                        folder, small = tester.minimise(seed, outcome, model, sets)
                        with lock:
                            print(f"seed {seed}: smallest, in {folder}: {describe(small)}", flush=True)

        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for future in [pool.submit(work) for _ in range(args.jobs)]:
                future.result()
    ran = sum(totals.values())
    print(f"seeds {args.first} to {args.first + ran - 1}: " + ", ".join(f"{n} {what}" for what, n in totals.most_common()))
    print(f"{totals['pass']} passed, {len(failures)} failed" + (f": seeds {' '.join(map(str, sorted(failures)))}" if failures else ""))
    return 1 if failures else 0 if totals["pass"] else 2


if __name__ == "__main__":
    sys.exit(main())
