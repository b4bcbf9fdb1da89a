"""Fixtures for tests with real programs."""

from __future__ import annotations

import inspect

import pytest
from tests.processes import PATIENCE_S

from weft.subnet.live.subnet import live


@pytest.fixture(scope="session", autouse=True)
def _patience_with_programs() -> None:
    """Let subnets without a time limit of their own take as long as a slow machine needs."""
    inspect.unwrap(live).__kwdefaults__["timeout_s"] = PATIENCE_S
