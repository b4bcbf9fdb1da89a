"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from weft.cli import common

# How fast a machine is decides over no test: no deadline of an example, and none of drawing it.
# The rest is as it was: on CI the same examples each time, elsewhere others.
settings.register_profile("weft", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real fabrics and traces beside the project; tests that need it skip without."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder of real fabrics is not there")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_word_of_compiling() -> None:
    """What a test reads of standard error does not depend on how fast the machine compiles."""
    common.PATIENCE_S = 1e6


@pytest.fixture(scope="session", autouse=True)
def _no_width() -> None:
    """Output is as wide as by default, whatever the width of the terminal that runs the tests."""
    os.environ.pop("COLUMNS", None)
