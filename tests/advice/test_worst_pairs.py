"""Pairs of failures: the search finds the worst of all, and its bound holds."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.random_fabrics import random_fabric

from weft import fabric, route
from weft.advice.what_if.failures import Failure, each_cable, each_switch, failure_table
from weft.advice.what_if.pairs import by_harm, worst_pairs
from weft.fabrics import Fabric


def every_pair(base: Fabric, singles: list[Failure]) -> list[Failure]:
    """Return all pairs but those of a switch and its own cable."""
    pairs = []
    for one, other in combinations(singles, 2):
        cables = (*one.cables, *other.cables)
        switches = (*one.switches, *other.switches)
        ends = {int(end) for c in cables for end in base.link_from[2 * c : 2 * c + 2]}
        if not ends.intersection(switches):
            pairs.append(Failure(tuple(sorted(switches)), tuple(sorted(cables))))
    return pairs


@pytest.mark.parametrize(
    "base", [fabric("leaf-spine:4;2;2"), random_fabric(5, switches=5, hosts=6)], ids=str
)
@pytest.mark.parametrize("most", [3, 10, 1000])
def test_no_pair_that_is_left_out_loses_more(base: Fabric, most: int) -> None:
    singles = [*each_switch(base), *each_cable(base)]
    routes = route(base, "minhop")
    options = {"samples": 0, "processes": 1}
    alone = failure_table(base, singles, routes, **options)
    found = worst_pairs(base, singles, alone, routes, most=most, **options)
    pairs = every_pair(base, singles)
    assert found.possible == len(pairs)
    assert len(found.table) == min(most, len(pairs))
    rows = failure_table(base, pairs, routes, **options)
    others = rows.filter(~rows["failed"].is_in(found.table["failed"].to_list()))
    assert len(others) == len(pairs) - len(found.table)
    if len(others):
        assert found.most_lost is not None
        assert others["unrouted"].max() <= found.most_lost
    else:
        assert found.table.equals(by_harm(found.table))
        assert found.table["unrouted"].max() == rows["unrouted"].max()


def test_pairs_that_isolate_a_leaf_come_first() -> None:
    base = fabric("leaf-spine:4;2;3")
    singles = [*each_switch(base), *each_cable(base)]
    routes, options = route(base, "updn"), {"samples": 0, "processes": 1, "reroute": "updn"}
    alone = failure_table(base, singles, routes, **options)
    found = worst_pairs(base, singles, alone, routes, most=13, **options)
    # Both spines; for each leaf, both uplinks, or one uplink and the spine of the other.
    names = set(found.table["failed"])
    assert "spine0, spine1" in names
    for leaf in range(4):
        assert f"leaf{leaf}[4] -- spine0[{leaf + 1}], leaf{leaf}[5] -- spine1[{leaf + 1}]" in names
    assert found.table["hosts_cut"].min() >= 3
    assert found.most_lost is None
    assert "13 of" in found.text()
