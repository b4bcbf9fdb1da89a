"""How often the job that loads a cable most is named, in simulated cases."""

from __future__ import annotations

import polars as pl
import pytest
from tests.attribution_cases import Outcome, outcome, table

CASES = 200


def sums(outcomes: list[Outcome]) -> dict[str, int]:
    return table(outcomes, "faults").sum().row(0, named=True)


@pytest.mark.parametrize(("number", "determined"), [(1, False), (4, True), (9, True)])
def test_a_case(number: int, determined: bool) -> None:
    found = outcome(number)
    assert found.determined == determined
    assert found.named == (found.first if determined else None)
    assert found.missed < 1e-3
    assert not found.invented
    assert found.share_error <= 0.1 or not determined


@pytest.mark.slow
def test_shares_are_as_sure_as_stated() -> None:
    outcomes = [outcome(number) for number in range(CASES)]
    with pl.Config(tbl_rows=-1, tbl_cols=-1):
        for by in ("jobs", "engine", "faults"):
            print(table(outcomes, by))
    found = sums(outcomes)
    determined = found["determined"]
    assert CASES / 4 <= determined <= 3 * CASES / 4
    assert found["right"] >= 0.9 * determined
    assert found["wrong"] == 0
    assert found["not told"] >= 0.95 * (CASES - determined)
    assert found["share"] >= 0.9 * determined
    assert found["covered"] >= 0.95 * CASES
    assert found["invented"] == 0
