"""What `weft study` has stored survives kill -9 at 500 random instants."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.study_kills import run_kills

pytestmark = pytest.mark.slow


def test_at_most_active_runs_are_lost_and_nothing_is_corrupt(tmp_path: Path) -> None:
    counts = run_kills(tmp_path, 500, seed=2)
    assert counts["kills"] >= 500
    assert counts["workers"] > 50
    assert counts["whole"] > 10
