"""A real service for all tests that need one and change nothing but its applications."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.serve_runs import Served, serving
from tests.serve_services import FABRIC


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a service of `FABRIC` with tokens; tests remove the applications that they place."""
    with serving(FABRIC, tmp_path_factory.mktemp("serve"), tokens=True) as service:
        yield service
