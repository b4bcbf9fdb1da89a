"""Fixtures for all tests."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from weft.cli import common

# No test depends on the machine's speed: neither examples nor their generation have a deadline.
# Other settings are hypothesis's own: fixed examples on CI, random ones elsewhere.
# `make validate` tries the numbers of examples that tests name, or 100; `make test` a quarter.
GIVEN = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("validate", GIVEN, max_examples=100)
settings.register_profile("weft", GIVEN, max_examples=25)
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make validate` what `sampled` does not take of the cases of a test."""
    cases: dict[str, list[pytest.Function]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if isinstance(item, pytest.Function) and "sampled" in marks and "slow" not in marks:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        (number,) = each[0].get_closest_marker("sampled").args
        for item in sampled_out(each, number):
            item.add_marker("slow")


def sampled_out(cases: list[pytest.Function], number: int) -> list[pytest.Function]:
    """Return all cases but a number of them, which have every word that several cases share."""
    words = Counter(word for case in cases for word in words_of(case))
    seen = {word for word, count in words.items() if count == 1}
    taken, rest = [], []
    for case in sorted(cases, key=lambda case: hashlib.sha1(case.name.encode()).digest()):
        (rest if words_of(case) <= seen else taken).append(case)
        seen |= words_of(case)
    return rest[max(0, number - len(taken)) :]


def words_of(case: pytest.Function) -> set[str]:
    return {value for value in case.callspec.params.values() if isinstance(value, str)}
