"""Snapshots of sessions of the trained mini: memories of delta rules, windows and latent rows, brought back and cut."""
import ctypes

import numpy as np
import pytest
from conftest import run, tool
from kimi_models import MINI, export
from kimi_session import Session, library

ALL, FIXED = 0, 1
INVALID = 1


class Kept(Session):
    """A session with snapshots; what is refused is an error text."""

    def snapshot(self, kind=ALL):
        out = ctypes.c_void_p()
        self._check(self.lib.kimi_session_snapshot(self.session, kind, ctypes.byref(out)))
        return out

    def restore(self, snapshot):
        self._check(self.lib.kimi_session_restore(self.session, snapshot))

    def truncate(self, length, snapshot=None):
        self._check(self.lib.kimi_session_truncate(self.session, ctypes.c_int64(length), snapshot))

    def refusal(self, length, snapshot=None):
        assert self.lib.kimi_session_truncate(self.session, ctypes.c_int64(length), snapshot) == INVALID
        return self.lib.kimi_last_error().decode()

    def bytes(self, snapshot):
        self.lib.kimi_snapshot_bytes.restype = ctypes.c_uint64
        return self.lib.kimi_snapshot_bytes(snapshot)


@pytest.fixture(scope="module", params=["latent", "none"])
def mini(request, tmp_path_factory):
    """(runtime, module, folder): of a graph that carries its states, and of one without any."""
    folder = tmp_path_factory.mktemp("mini")
    model = export("k3", folder, "--checkpoint", MINI, "--bf16-weights", "--cache", request.param)
    run(tool("kimi-compile"), model, "-o", folder / "m.kmod")
    return library(folder), folder / "m.kmod", folder


@pytest.mark.parametrize("batch", [1, 2])
def test_a_session_is_brought_back(batch, mini):
    rng = np.random.default_rng()
    prompt, more, other = (rng.integers(0, 1024, (batch, n)) for n in (19, 6, 9))
    with Kept(*mini, batch=batch, max_seq=40) as session, Kept(*mini, batch=batch, max_seq=64) as second:
        session.run("prefill", prompt)
        kept, memory = session.snapshot(), session.memory()
        assert session.bytes(kept) == batch * (memory.fixed + 19 * memory.per_token)
        want = [session.run("decode", more[:, i:i + 1]) for i in range(6)]
        for _ in range(2):  # whatever came in between
            session.run("prefill", other)
            session.restore(kept)
            assert session.length() == 19
            for i in range(6):
                assert session.run("decode", more[:, i:i + 1]).tobytes() == want[i].tobytes()
        session.reset()
        session.run("prefill", other)
        session.restore(kept)
        assert session.run("decode", more[:, :1]).tobytes() == want[0].tobytes()
        # of a module: the second session has loaded the file once more
        assert second.lib.kimi_session_restore(second.session, kept) == INVALID
        session.lib.kimi_snapshot_free(kept)


def test_tokens_are_dropped_with_a_small_snapshot(mini):
    """Speculation: go on, drop what was wrong, go on in another way, as if it had never been."""
    rng = np.random.default_rng()
    prompt, wrong, right = rng.integers(0, 1024, (1, 12)), rng.integers(0, 1024, (1, 5)), rng.integers(0, 1024, (1, 5))
    with Kept(*mini) as session:
        session.run("prefill", np.concatenate([prompt, right], 1))
        want = session.run("decode", right[:, :1])
        session.reset()
        session.run("prefill", prompt)
        small = session.snapshot(FIXED)
        assert session.bytes(small) == session.memory().fixed
        session.run("prefill", wrong)
        why = session.refusal(12)
        assert "has a fixed size and keeps no token apart" in why and session.length() == 17
        assert "taken at 12" in session.refusal(15, small)
        session.truncate(12, small)
        session.run("prefill", right)
        got = session.run("decode", right[:, :1])
        assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()
        session.truncate(12, small)  # again, from there
        session.reset()
        session.run("prefill", np.concatenate([wrong, right, wrong], 1))
        assert "may begin with other tokens" in session.refusal(12, small)
        session.lib.kimi_snapshot_free(small)
