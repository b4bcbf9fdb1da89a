"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from weft.cli import common

# No test depends on the machine's speed: neither examples nor their generation have a deadline.
# Other settings are hypothesis's own: fixed examples on CI, random ones elsewhere.
settings.register_profile("weft", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real fabrics and traces beside the project; skip the test without it."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder of real fabrics is not there")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_word_of_compiling() -> None:
    """Keep messages about compilation, which depend on the machine's speed, off standard error."""
    common.PATIENCE_S = 1e6


@pytest.fixture(scope="session", autouse=True)
def _no_width() -> None:
    """Use the default width of output, whatever the terminal that runs the tests."""
    os.environ.pop("COLUMNS", None)
