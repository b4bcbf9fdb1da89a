"""What `weft serve` has answered survives kill -9, and its processes end with it."""

from __future__ import annotations

from pathlib import Path

from tests.serve_kills import run_kills


def test_nothing_is_lost_and_nothing_invented(tmp_path: Path) -> None:
    counts = run_kills(tmp_path, 6, seed=1, fork=True)
    assert counts["in the log"] < counts["events"]
    assert counts["kills"] >= 6
    assert counts["answers lost"] > 10
    assert counts["placed"]
