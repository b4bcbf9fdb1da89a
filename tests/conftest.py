"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real fabrics and traces beside the project; tests that need it skip without."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder of real fabrics is not there")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_width() -> None:
    """Output is as wide as by default, whatever the width of the terminal that runs the tests."""
    os.environ.pop("COLUMNS", None)
