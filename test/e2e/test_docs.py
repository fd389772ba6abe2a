"""What scripts generate is what the TableGen files, the operator table and the schemas of ONNX say today."""
import filecmp
import os
import sys

from conftest import BUILD, ROOT, run


def test_reference_is_current(tmp_path):
    run(ROOT / "scripts" / "gen-docs.sh", tmp_path, env=dict(os.environ, KIMI_BUILD=str(BUILD)))
    fresh = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*.md"))
    assert len(fresh) >= 5
    stale = [str(p) for p in fresh if not (ROOT / p).exists() or not filecmp.cmp(ROOT / p, tmp_path / p, shallow=False)]
    assert not stale, f"run scripts/gen-docs.sh and commit: {stale}"


def test_input_counts_are_those_of_the_schemas():
    run(sys.executable, ROOT / "scripts" / "gen-input-counts.py", "--check")
