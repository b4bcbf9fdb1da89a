"""Results of all levels share one protocol."""

from __future__ import annotations

import inspect

import polars as pl
import pytest

import weft
from weft.sim.options import LEVELS, Level

FABRIC = weft.fabric("xgft:2;2,2;1,2")
ROUTES = weft.route(FABRIC, "dmodk")
WORK = weft.load_workload("alltoall:size=4KiB", 4)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_has_the_protocol(level: Level) -> None:
    result = weft.simulate(FABRIC, ROUTES, WORK, level=level)
    assert isinstance(result, weft.Result)
    for name, member in inspect.getmembers(weft.Result):
        if not name.startswith("_"):
            there = getattr(result, name)
            assert callable(there) == inspect.isfunction(member), name
    assert result.fabric is FABRIC
    assert result.engine == "dmodk"
    assert result.workload is WORK
    assert result.host.tolist() == [0, 1, 2, 3]
    assert (result.makespan_ns is None) == (level == "static")
    for table, rows in ((result.messages(), 12), (result.links(), FABRIC.num_links)):
        assert isinstance(table, pl.DataFrame)
        assert len(table) >= rows
    assert result.phases()["messages"].to_list() == [12]
    figures = result.summary()
    assert {"engine", "messages", "size_bytes", "busiest_link"} <= figures.keys()
    assert figures["messages"] == 12
    page = result._repr_html_()
    assert page.startswith("<table>")
    assert "dmodk" in page


def test_a_notebook_shows_that_a_run_is_incomplete() -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    work = weft.load_workload("alltoall:size=64KiB", 4)
    routes = weft.route(fabric, "dmodk")
    for level in ("packet", "flit"):
        cut = weft.simulate(fabric, routes, work, level=level, max_time_ns=1000)
        assert "<td>complete</td><td>no</td>" in cut._repr_html_()
        complete = weft.simulate(fabric, routes, work, level=level)
        assert "<td>complete</td>" not in complete._repr_html_()


def test_coefficients_without_their_sharing_model_are_refused() -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    work = weft.load_workload("alltoall:size=64KiB", 4)
    other = weft.PenaltyModel(in_weight=0.8)
    with pytest.raises(weft.InputError, match="coefficients go with sharing 'penalty', not 'max"):
        weft.simulate(fabric, weft.route(fabric, "dmodk"), work, coefficients=other)
