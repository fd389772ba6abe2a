#!/usr/bin/env python3
"""Runs ONNX's node tests on the CPU and holds what became of each against the tracked list of refusals.

  scripts/onnx-node-tests.py FOLDER_OR_TAR [--filter REGEX] [--update | --table]

FOLDER_OR_TAR holds one folder a test (model.onnx, test_data_set_*). kimi-onnx-tests (test/conformance) does with them
what kimi-run --onnx-test does, all in one process. A test passes (every output within rtol 1e-3 and atol 1e-5), or is
refused: it fails with an error that names a node or a value of the model. Anything else (wrong values, a crash, a
time-out, an error that does not say where) is a failure, listed or not. A crash ends the process: which test it was is
found by running those that were in flight one by one, and the others go on in a new process.

test/data/onnx-node/refused.txt lists the tests that may be refused, under the reason why. It can only shrink: a test on
it that passes is a failure, too, and so is a name that no test has. test/data/onnx-node/families.md is the table by
family, which scripts/gen-docs.sh puts into docs/onnx-support.md; a table that is out of date is a failure. --update
writes both: tests that pass leave the list, and new refusals are put under a heading of their own, which the next run
rejects until somebody has given them a reason.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT / "test" / "data" / "onnx-node"
UNSORTED = "UNSORTED: give these a reason"
# An error that can be acted on says where: a node, a value, or what the model as a whole asks for.
LOCATED = re.compile(r"(node|input|output|value|function) '[^']+'|imports opset")


def judge(case, end):
    """(outcome, message) of a folder from the line that kimi-onnx-tests printed at its end; outcomes are pass, refused,
    mismatch, vague and crash."""
    lines = end["log"].splitlines()
    message = next((line for line in lines if "error:" in line), "") or next((line for line in lines if "FAILED" in line), "")
    message = message.replace(str(case), case.name)
    if end["exit"] == 0:
        # A folder without a data set would pass with nothing run.
        return ("pass", "") if end["passed"] > 0 and end["failed"] == 0 else ("vague", "nothing ran")
    if end["exit"] == 3:
        return "mismatch", message
    if "error:" not in message and "FAILED" not in message or not LOCATED.search(message.replace(case.name + "/", "")):
        return "vague", message or end["log"][-300:] or "no message"
    return "refused", message


class Run:
    """One process of kimi-onnx-tests over some folders: which of them ended, and what was in flight when it did."""

    def __init__(self, program, cases, jobs, timeout, scratch):
        self.ends = {}  # case: the line at its end
        self.flying = {}  # case: when it began
        self.overdue = []
        by_name = {str(case): case for case in cases}
        command = [program, "--jobs", str(jobs), "--rtol", "1e-3", "--atol", "1e-5", "--onnx-test", *by_name]
        with tempfile.TemporaryFile(dir=scratch) as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=dict(os.environ, TMPDIR=scratch))
            try:
                for line in self.lines(process, timeout):
                    event = json.loads(line)
                    case = by_name[event["folder"]]
                    if event["event"] == "start":
                        self.flying[case] = time.monotonic()
                    else:
                        del self.flying[case]
                        self.ends[case] = event
            finally:
                process.kill()
                process.stdout.close()
                self.status = process.wait()
            errors.seek(0)
            self.stderr = errors.read().decode(errors="replace")

    def lines(self, process, timeout):
        """The whole lines of its output; where a folder takes too long, the process is ended and the folder is overdue."""
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not self.overdue:
                first = min(self.flying.values(), default=time.monotonic())
                if selector.select(max(0, first + timeout - time.monotonic())):
                    chunk = os.read(process.stdout.fileno(), 1 << 16)
                    *whole, text = (text + chunk).split(b"\n")
                    yield from whole
                    if not chunk:
                        process.wait()  # what it exits with, not that it was killed
                        return
                else:
                    limit = time.monotonic() - timeout
                    self.overdue = [case for case, begun in self.flying.items() if begun <= limit]

    def how_it_ended(self):
        if self.status < 0:
            how = "was ended by signal " + (signal.Signals(-self.status).name if -self.status in set(signal.Signals) else str(-self.status))
        else:
            how = f"exited with status {self.status}"
        flying = ", ".join(case.name for case in self.flying)
        return f"the process {how}" + (f" while it ran {flying}" if flying else "") + f": {self.stderr.strip()[-300:]}"


def run_all(cases, program, jobs, timeout):
    """({test: (outcome, message)}, [faults]): every folder in one process, unless that ends early. Then what was in
    flight is run again, each by itself, to tell which it was, and the rest goes on in a new process."""
    outcomes, faults = {}, []

    def run(cases, jobs):
        """Takes what became of the cases; the process, and which of them it left in flight when it crashed."""
        process = Run(program, cases, jobs, timeout, scratch)
        sys.stderr.write(process.stderr)
        outcomes.update({case.name: judge(case, end) for case, end in process.ends.items()})
        outcomes.update({case.name: ("crash", f"timed out after {timeout:g} s") for case in process.overdue})
        if process.overdue:  # the others in flight were ended with it, and are run again like those that had not begun
            return process, []
        if not process.flying and (process.status or len(process.ends) < len(cases)):  # at the end: leaks, say
            faults.append(process.how_it_ended())
        return process, list(process.flying)

    with tempfile.TemporaryDirectory() as scratch:
        left = list(cases)
        while left:
            process, suspects = run(left, jobs)
            for case in suspects:
                alone, crashed = run([case], 1) if jobs > 1 else (process, suspects)
                if crashed:
                    outcomes[case.name] = "crash", alone.how_it_ended()
            if suspects and not any(outcomes[case.name][0] == "crash" for case in suspects):
                # The fault of none by itself: of what they share.
                outcomes.update({case.name: ("crash", process.how_it_ended() + "; by itself it does not") for case in suspects})
            before, left = len(left), [case for case in left if case.name not in outcomes]
            if len(left) == before:
                outcomes.update({case.name: ("crash", "was not run: " + process.how_it_ended()) for case in left})
                break
    return outcomes, faults


def read_refused(path):
    """({test: reason}, [faults]) of the tracked list: `[reason]` headings, one test a line below each."""
    refused, faults, reason = {}, [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            reason = line[1:-1]
            if reason == UNSORTED:
                faults.append(f"{path.name}:{number}: refusals without a reason")
        elif reason is None or line in refused:
            faults.append(f"{path.name}:{number}: {line} " + ("has no reason" if reason is None else "is listed twice"))
        else:
            refused[line] = reason
    return refused, faults


def write_refused(path, refused):
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    reasons = collections.defaultdict(list)
    for test, reason in refused.items():
        reasons[reason].append(test)
    with open(path, "w") as f:
        f.write("\n".join(head) + "\n")
        for reason, tests in sorted(reasons.items()):
            f.write(f"\n[{reason}]\n" + "".join(f"{test}\n" for test in sorted(tests)))


def family_of(case):
    """The part of ONNX's specification (a folder of onnx/defs) that the tested operator is defined in."""
    import onnx
    model = onnx.load(case / "model.onnx", load_external_data=False)
    tested = case.name.removeprefix("test_").removeprefix("ai_onnx_ml_").replace("_", "").lower()
    schemas = {}
    for node in model.graph.node:
        try:
            schemas[node.op_type] = onnx.defs.get_schema(node.op_type, domain=node.domain)
        except onnx.defs.SchemaError:
            continue
    # Expanded functions are of many operators: the tests are named for the one that they came from.
    if len({n.op_type for n in model.graph.node}) > 1:
        every = {s.name.lower(): s for s in onnx.defs.get_all_schemas() if s.domain in ("", "ai.onnx.ml", "ai.onnx.preview")}
        named = [s for name, s in every.items() if tested.startswith(name)]
        if named:
            return pathlib.Path(max(named, key=lambda s: len(s.name)).file).parent.name
    files = collections.Counter(pathlib.Path(s.file).parent.name for s in schemas.values())
    return files.most_common(1)[0][0] if files else "preview"


def table(cases, refused):
    """The Markdown of docs/onnx-support.md: tests by family, refusals by reason."""
    rows = collections.defaultdict(collections.Counter)
    for case in cases:
        rows[family_of(case)]["passed" if case.name not in refused else "refused"] += 1
    total = sum(rows.values(), collections.Counter())
    lines = ["## ONNX's node tests", "", f"Of the {len(cases)} node tests of the `onnx` package, {total['passed']} pass on the CPU; the others are refused with an error",
             "that names the node (`scripts/onnx-node-tests.py`, see [onnx-node-tests.md](onnx-node-tests.md)). Families are the parts",
             "of ONNX's specification.", "", "| family | tests | pass | refused |", "| --- | --- | --- | --- |"]
    for family, row in sorted(rows.items()):
        lines.append(f"| {family} | {row.total()} | {row['passed']} | {row['refused']} |")
    lines += [f"| all | {total.total()} | {total['passed']} | {total['refused']} |", "", "| refused, since | tests |", "| --- | --- |"]
    reasons = collections.Counter(refused.values())
    lines += [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests")
    parser.add_argument("--build", default=os.environ.get("KIMI_BUILD", str(ROOT / "build" / "release")))
    parser.add_argument("--filter", default="", help="only tests whose name matches; the table is not looked at")
    parser.add_argument("--update", action="store_true", help="write the list and the table")
    parser.add_argument("--table", action="store_true", help="write the table from the list as it is, and run nothing")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="tests at a time (one a core)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a test may take (300)")
    parser.add_argument("--verbose", "-v", action="store_true", help="print what became of every test")
    args = parser.parse_args()
    program = pathlib.Path(args.build) / "test" / "conformance" / "kimi-onnx-tests"
    if not args.table and not program.exists():
        parser.error(f"{program} is not built: scripts/build.sh release kimi-onnx-tests")
    refused, faults = read_refused(DATA / "refused.txt")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(args.tests)
        if folder.is_file():
            with tarfile.open(folder) as archive:
                archive.extractall(scratch, filter="data")
            folder = pathlib.Path(scratch)
        if args.table:
            cases = sorted(p.parent for p in folder.rglob("model.onnx"))
            (DATA / "families.md").write_text(table(cases, refused))
            return 0
        cases = sorted(p.parent for p in folder.rglob("model.onnx") if re.search(args.filter, p.parent.name))
        if not cases:
            parser.error(f"{args.tests} holds no test that matches")
        outcomes, problems = run_all(cases, program, args.jobs, args.timeout)
        faults += problems
        listed = refused
        if args.update:
            # Only what passes leaves the list, and what no longer exists; other failures are reported, not forgotten.
            gone = set() if args.filter else set(refused) - set(outcomes)
            refused = {n: r for n, r in refused.items() if n not in gone and outcomes.get(n, ("refused",))[0] != "pass"}
            refused |= {n: listed.get(n, UNSORTED) for n, (outcome, _) in outcomes.items() if outcome == "refused"}
            write_refused(DATA / "refused.txt", refused)
            every = sorted(p.parent for p in folder.rglob("model.onnx"))
            (DATA / "families.md").write_text(table(every, refused))
        if not args.filter:
            faults += [f"{name}: is listed, but there is no such test" for name in refused if name not in outcomes]
            if (DATA / "families.md").read_text() != table(cases, refused):
                faults.append("families.md is out of date: run scripts/onnx-node-tests.py --update, then scripts/gen-docs.sh")
    bad = 0
    for name, (outcome, message) in sorted(outcomes.items()):
        fine = outcome == ("refused" if name in refused else "pass")
        bad += not fine
        if args.verbose or not fine:
            note = "; it is on the list of refusals: take it off (--update)" if name in refused and outcome == "pass" else ""
            print(f"{name}: {outcome}{note} {message[:300]}")
    for fault in faults:
        print(fault)
    print(", ".join(f"{count} {outcome}" for outcome, count in collections.Counter(o for o, _ in outcomes.values()).most_common()))
    print(f"{len(outcomes) - bad} as expected, {bad} not, {len(faults)} faults")
    return 1 if bad or faults else 0


if __name__ == "__main__":
    sys.exit(main())
