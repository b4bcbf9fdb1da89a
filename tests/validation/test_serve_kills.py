"""What `weft serve` has answered survives kill -9 at 300 random instants."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve_kills import run_kills

pytestmark = pytest.mark.slow


def test_nothing_is_lost_and_nothing_invented(tmp_path: Path) -> None:
    counts = run_kills(tmp_path, 300, seed=2, fork=True)
    assert counts["in the log"] < counts["events"]
    assert counts["kills"] >= 300
    assert counts["answers lost"] > 300
