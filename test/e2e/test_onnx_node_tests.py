"""kimi-onnx-tests finds what kimi-run --onnx-test finds, and scripts/onnx-node-tests.py loses no result to a crash."""
import json
import shutil
import sys
import textwrap

import pytest
from conftest import BUILD, ROOT, SANITIZER, run, tool

PROGRAM = BUILD / "test" / "conformance" / "kimi-onnx-tests"
CASES = sorted(p.parent for p in (ROOT / "test" / "data" / "gpt2").glob("*/model.onnx"))[:2]
TOLERANCES = ["--rtol", "1e-3", "--atol", "1e-4"]
needs_program = pytest.mark.skipif(SANITIZER == "tsan", reason="kimi-onnx-tests holds the compiler, which is not built with TSan")


def ends(*folders, jobs=2):
    """{folder: the line at its end}; each has begun before."""
    result = run(PROGRAM, "--jobs", jobs, *TOLERANCES, "--onnx-test", *folders)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    begun = [e["folder"] for e in events if e["event"] == "start"]
    assert sorted(begun) == sorted(str(f) for f in folders)  # in their order, but for those that begin together
    return {e["folder"]: e for e in events if e["event"] == "end"}


@needs_program
def test_one_process_finds_what_kimi_run_finds(tmp_path, cache):
    """Folders that pass, one whose expected values are wrong, one without data and one whose model is none."""
    wrong, empty, broken = (tmp_path / name for name in ("wrong", "empty", "broken"))
    shutil.copytree(CASES[0], wrong)
    for output in wrong.glob("test_data_set_0/output_*.pb"):
        content = bytearray(output.read_bytes())
        content[-1] ^= 0x40  # the exponent of the last value
        output.write_bytes(content)
    empty.mkdir()
    shutil.copy(CASES[0] / "model.onnx", empty)
    shutil.copytree(CASES[0], broken)
    (broken / "model.onnx").write_bytes(b"no model")
    folders = [*CASES, wrong, empty, broken]
    found = ends(*folders)
    codes = []
    for folder in folders:
        result = run(tool("kimi-run"), *TOLERANCES, "--onnx-test", folder, "--json", "-", "--cache", cache, check=False)
        expected, line = json.loads(result.stdout), found[str(folder)]
        codes.append(result.returncode)
        assert (line["exit"], line["passed"], line["failed"]) == (result.returncode, expected["passed"], expected["failed"])
        for mine, theirs in zip(line["sets"], expected["sets"], strict=True):
            # What the compiler said is the same, not who says that it failed.
            assert mine.pop("why").split("\n")[1:] == theirs.pop("why").split("\n")[1:]
            assert mine == theirs
    assert codes == [0, 0, 3, 1, 1]
    assert "kimi-compile: error:" in found[str(broken)]["log"] and "holds no test_data_set_*" in found[str(empty)]["log"]


@needs_program
@pytest.mark.parametrize("arguments, why", [([], "give a .kmod"), (["--onnx-test", "x", "--device", "cuda"], "tests run on the CPU"),
                                            (["--onnx-test", "x", "--json", "-"], "kimi-run's alone"), (["--jobs", "0"], "--jobs")])
def test_usage(arguments, why):
    result = run(PROGRAM, *arguments, check=False)
    assert result.returncode == 2 and why in result.stderr


STAND_IN = """
    #!/usr/bin/env python3
    # Ends a folder by its name, while the next one is in flight, too.
    import json, os, sys, time
    jobs, folders = int(sys.argv[2]), sys.argv[sys.argv.index("--onnx-test") + 1:]
    begun = set()
    def begin(some):
        for folder in some:
            if folder not in begun:
                print(json.dumps({"event": "start", "folder": folder}), flush=True)
            begun.add(folder)
    for i, folder in enumerate(folders):
        name = os.path.basename(folder)
        begin(folders[i:i + 1])
        if "hang" in name:
            time.sleep(3)
            begin(folders[i + 1:i + jobs])
            time.sleep(1000)
        begin(folders[i + 1:i + jobs])
        if "abort" in name or "race" in name and jobs > 1:
            print("LLVM ERROR: it is over", file=sys.stderr, flush=True)
            os.abort()
        code = 3 if "wrong" in name else 1 if "refused" in name or "vague" in name else 0
        log = {0: "1 passed", 1: "error: node 'n': no" if "refused" in name else "error: no", 3: "FAILED, it differs"}[code]
        print(json.dumps({"event": "end", "folder": folder, "exit": code, "passed": int(code == 0), "failed": int(code != 0), "log": log}), flush=True)
    sys.exit(7 if folders[-1].endswith("leak") else 0)
"""


@pytest.fixture
def script(tmp_path):
    """Runs the script with a stand-in for the program over folders of these names: ({name: line}, all that it printed)."""
    program = tmp_path / "build" / "test" / "conformance" / "kimi-onnx-tests"
    program.parent.mkdir(parents=True)
    program.write_text(textwrap.dedent(STAND_IN).lstrip())
    program.chmod(0o755)

    def run_script(*names):
        for name in names:
            (tmp_path / "cases" / name).mkdir(parents=True)
            (tmp_path / "cases" / name / "model.onnx").touch()
        result = run(sys.executable, ROOT / "scripts" / "onnx-node-tests.py", tmp_path / "cases", "--build", tmp_path / "build",
                     "--filter", "^x", "--jobs", "2", "--timeout", "5", "-v", check=False)
        lines = {name: line.removeprefix(f"{name}: ") for line in result.stdout.splitlines() for name in names if line.startswith(f"{name}: ")}
        return lines, result

    return run_script


def test_outcomes(script):
    lines, result = script("x1", "x2_refused", "x3_vague", "x4_wrong")
    assert [lines[n].split()[0] for n in sorted(lines)] == ["pass", "refused", "vague", "mismatch"]
    assert result.returncode == 1 and "1 as expected, 3 not, 0 faults" in result.stdout


def test_a_crash_and_a_hang_hide_nothing(script):
    names = ["x1", "x2_abort", "x3", "x4", "x5_hang", "x6_wrong", "x7"]
    lines, result = script(*names)
    assert [lines[n].split()[0] for n in names] == ["pass", "crash", "pass", "pass", "crash", "mismatch", "pass"]
    assert "SIGABRT while it ran x2_abort: LLVM ERROR: it is over" in lines["x2_abort"]
    assert "timed out after 5 s" in lines["x5_hang"]
    assert result.returncode == 1 and "4 as expected, 3 not, 0 faults" in result.stdout


def test_a_crash_of_two_together(script):
    lines, _ = script("x1", "x2_race", "x3", "x4")
    assert [lines[n].split()[0] for n in sorted(lines)] == ["pass", "crash", "crash", "pass"]
    assert "by itself it does not" in lines["x2_race"] and "x2_race, x3" in lines["x3"]


def test_a_failure_at_the_end_is_a_fault(script):
    lines, result = script("x1", "x2_leak")
    assert [lines[n].split()[0] for n in sorted(lines)] == ["pass", "pass"]
    assert result.returncode == 1 and "exited with status 7" in result.stdout and "2 as expected, 0 not, 1 faults" in result.stdout


def test_a_program_that_is_not_built(tmp_path):
    result = run(sys.executable, ROOT / "scripts" / "onnx-node-tests.py", tmp_path, "--build", tmp_path, check=False)
    assert result.returncode == 2 and "is not built" in result.stderr
