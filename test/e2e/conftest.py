"""Shared pieces of the end-to-end tests: where the tools are, how a tool is run, where the larger cases are."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KIMI_BUILD", ROOT / "build" / "release"))
SHARED = pathlib.Path(os.environ.get("KIMI_SHARED", ROOT.parent / "shared"))

SANITIZER = os.environ.get("KIMI_SANITIZER")  # "asan" or "tsan", where the tools are built with one
if SANITIZER:  # the tools have it inside: see scripts/run-tests.py
    os.environ.pop("LD_PRELOAD", None)
    os.environ["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"].replace(":detect_leaks=0", "")


def tool(name):
    """The path of a built tool, in the build tree or in an installed bin folder."""
    for path in (BUILD / "tools" / name / name, BUILD / "bin" / name):
        if path.exists():
            return str(path)
    raise FileNotFoundError(f"{name} is not built in {BUILD}")


def run(*command, check=True, timeout=600, **kwargs):
    """Runs a tool; on an unexpected status the failure shows what it printed."""
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout, **kwargs)
    if check and result.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}\nexit status {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder for compiled modules that the whole test session shares."""
    return tmp_path_factory.mktemp("kmod")
