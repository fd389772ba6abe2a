#!/usr/bin/env python3
"""Runs every suite of the project and prints one closing line: `N passed, N failed, N skipped`.

Suites: lit (test/**/*.mlir, *.test), unit (GoogleTest binaries through ctest) and e2e (pytest in test/e2e).
Exit status 0 only when nothing failed and every suite ran at least one test.
"""
import argparse
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET


def run_lit(build):
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


def run_unit(build):
    out = os.path.abspath(os.path.join(build, "unit.xml"))
    subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "-j2", "--output-junit", out], check=False)
    return count_junit(out)


def run_e2e(build):
    out = os.path.abspath(os.path.join(build, "e2e.xml"))
    env = dict(os.environ, KIMI_BUILD=os.path.abspath(build))
    subprocess.run([sys.executable, "-m", "pytest", "-q", "test/e2e", "--junitxml", out, "-rs"], check=False, env=env)
    return count_junit(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--suite", action="append", choices=["lit", "unit", "e2e"], help="only this suite (repeatable)")
    args = parser.parse_args()
    # For builds with ASan: allocators of LLVM's headers poison memory that libLLVM, which is not instrumented, then uses.
    os.environ.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0")
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for name in args.suite or ["lit", "unit", "e2e"]:
        print(f"== {name}", flush=True)
        counts = {"lit": run_lit, "unit": run_unit, "e2e": run_e2e}[name](args.build)
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
