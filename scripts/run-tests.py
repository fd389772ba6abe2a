#!/usr/bin/env python3
"""Runs every suite of the project and prints one closing line: `N passed, N failed, N skipped`.

Suites: lit (test/**/*.mlir, *.test), unit (GoogleTest binaries through ctest), e2e (pytest in test/e2e), and of a build
of their own, under ASan and UBSan, sanitized (the unit tests of the readers and the runtime) and fuzz (scripts/fuzz.sh for
a minute a target).
Exit status 0 only when nothing failed and every suite ran at least one test.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as ET


def sanitizer_of_python(build):
    """Tests load the runtime into Python: where that is built with a sanitizer, Python starts with the sanitizer's library.
    conftest.py takes it away from the tools, which have it inside. Leaks of Python itself are no concern of ours."""
    with open(os.path.join(build, "CMakeCache.txt")) as f:
        cache = dict(line.strip().split("=", 1) for line in f if "=" in line)
    kind = {"address,undefined": "asan", "thread": "tsan"}.get(cache.get("KIMI_SANITIZE:STRING"))
    if not kind:
        return {}
    name = f"libclang_rt.{kind}-{platform.machine()}.so"
    path = subprocess.run([cache["CMAKE_CXX_COMPILER:STRING"], f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    return {"KIMI_SANITIZER": kind, "LD_PRELOAD": path, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def run_lit(build, args):
    out = os.path.join(build, "lit.json")
    subprocess.run([sys.executable, "-c", "__import__('lit.main').main.main()", "-s", "-v", "-o", out, os.path.join(build, "test")], check=False)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with open(out) as f:
        for test in json.load(f)["tests"]:
            code = test["code"]
            key = "passed" if code in ("PASS", "XFAIL", "FLAKYPASS") else "skipped" if code in ("UNSUPPORTED", "SKIPPED") else "failed"
            counts[key] += 1
    return counts


def count_junit(path):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            counts["failed"] += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    return counts


def run_unit(build, args):
    out = os.path.abspath(os.path.join(build, "unit.xml"))
    subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "-j2", "--output-junit", out, "-R", args.unit], check=False)
    return count_junit(out)


def run_sanitized(build, args):
    """scripts/sanitize.sh asan runs all tests this way; to compile the tests of every pass once more takes too long here."""
    targets = ["runtime-tests", "kimi-run-tests", "text-tests", "kimi-import-tests", "kimi-support-tests"]
    subprocess.run(["scripts/build.sh", "asan", *targets], check=True, stdout=sys.stderr)
    return run_unit("build/asan", argparse.Namespace(unit="^(runtime-tests|kimi-run|text-tests|import|support)$"))


def run_e2e(build, args):
    out = os.path.abspath(os.path.join(build, "e2e.xml"))
    env = dict(os.environ, KIMI_BUILD=os.path.abspath(build), **sanitizer_of_python(build))
    files = args.e2e or ["test/e2e"]
    subprocess.run([sys.executable, "-m", "pytest", "-q", *files, "--junitxml", out, "-rs"], check=False, env=env)
    return count_junit(out)


def run_fuzz(build, args):
    result = subprocess.run(["scripts/fuzz.sh", "--jobs", "2"], check=False, stdout=subprocess.PIPE, text=True)
    print(result.stdout, end="", flush=True)
    verdicts = [line.endswith(" 0 findings") for line in result.stdout.splitlines() if line.startswith("fuzz: ")]
    failed = max(verdicts.count(False), int(result.returncode != 0))
    return {"passed": verdicts.count(True), "failed": failed, "skipped": 0}


SUITES = {"lit": run_lit, "unit": run_unit, "e2e": run_e2e, "sanitized": run_sanitized, "fuzz": run_fuzz}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="only this suite (repeatable)")
    parser.add_argument("--unit", default=".", metavar="REGEX", help="only unit tests of such a name (ctest -R)")
    parser.add_argument("--e2e", action="append", metavar="FILE", help="only this file of test/e2e (repeatable)")
    args = parser.parse_args()
    # For builds with ASan: allocators of LLVM's headers poison memory that libLLVM, which is not instrumented, then uses.
    os.environ.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0")
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for name in dict.fromkeys(args.suite or SUITES):
        print(f"== {name}", flush=True)
        counts = SUITES[name](args.build, args)
        print(f"== {name}: {counts}", flush=True)
        if counts["passed"] == 0:
            print(f"== {name}: no test passed", flush=True)
            counts["failed"] += 1
        for key in total:
            total[key] += counts[key]
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
