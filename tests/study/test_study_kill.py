"""What `weft study` has stored survives kill -9, and a resumed study is that without kills."""

from __future__ import annotations

from pathlib import Path

from tests.study_kills import run_kills


def test_at_most_active_runs_are_lost_and_nothing_is_corrupt(tmp_path: Path) -> None:
    counts = run_kills(tmp_path, 15, seed=1, runs=30)
    assert counts["runs"]
    assert counts["workers"]
