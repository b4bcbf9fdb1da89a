"""Mixtures of forwarding tables against a walk of every packet, on random fabrics and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference.mixed_tables import mixtures, on_paths
from tests.reference.test_deadlock_twin import graph_of, random_table
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing import route
from weft.routing.routes import TableRoutes, VirtualLanes
from weft.routing.routes.mixed_tables import MixedTables, detour
from weft.routing.routes.tables import distinct_lids

SEEDS = 100


def cases() -> Iterator[tuple[Fabric, TableRoutes, TableRoutes]]:
    """Yield fabrics with two tables, half of which have dead ends and loops."""
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        fabric = random_fabric(
            seed, switches=2 + seed % 5, hosts=5, others=seed % 2, loopbacks=seed % 3 // 2
        )
        if fabric.graph.num_rows > fabric.num_switches or not len(fabric.graph.edge_row):
            continue
        lmc = seed % 2
        routes = route(fabric, "updn", roots="center", lmc=lmc, passes=1)
        assert isinstance(routes, TableRoutes)
        tables = [random_table(fabric, lmc, random) for _ in range(2)]
        yield fabric, *(replace(routes, table=table) for table in tables)


def test_mixtures_are_those_of_packets_that_may_use_either_entry() -> None:
    count, lossy = 0, 0
    for fabric, before, after in cases():
        mixture = MixedTables.of(before, after)
        mixture.check(fabric)
        used, waits, lost = mixtures(fabric, before, after)
        graph = graph_of(fabric, mixture, False)
        assert {link for link, _ in graph.nodes} == used
        assert {(a[0], b[0]) for a, b in graph.edges} == waits
        assert mixture.lost(fabric) == lost
        count, lossy = count + 1, lossy + bool(lost)
    assert count > SEEDS / 4
    assert SEEDS / 12 < lossy < count


def test_a_detour_uses_only_entries_of_paths_before_and_after() -> None:
    complete = 0
    for fabric, before, after in cases():
        first, last = detour(fabric, before, after)
        for own, other, made in ((before, after, first), (after, before, last)):
            keep = np.zeros(own.table.shape, dtype=np.bool_)
            for lid, row in on_paths(fabric, own):
                keep[lid, row] = True
            np.testing.assert_array_equal(made.table, np.where(keep, own.table, other.table))
        # A step in which no path changes adds no dependencies.
        for own, made in ((before, first), (after, last)):
            assert mixtures(fabric, own, made) == mixtures(fabric, made, made)
        # No LID of a host loses packets, that of its second port included.
        if not any(mixtures(fabric, routes, routes)[2] for routes in (before, after)):
            assert MixedTables.of(first, last).lost(fabric) == 0
            complete += 1
    assert complete > 5


def test_tables_with_fewer_lids_have_all_mixtures_of_paths() -> None:
    found = set()
    for fabric, *tables in cases():
        wide = []
        for each in tables:  # LIDs 0, 1 and 2 of a destination have the same entries
            rows = each.table.reshape(fabric.num_destinations, -1, fabric.num_switches)
            table = rows[:, [0, 0, 0, -1]].reshape(-1, fabric.num_switches)
            wide.append(replace(each, lmc=2, table=table))
        few = distinct_lids(*wide)
        for each, other in zip(few, tables, strict=True):
            each.check(fabric)
            assert each.lmc <= other.lmc
        (*graph, lost), (*whole, all_lost) = mixtures(fabric, *few), mixtures(fabric, *wide)
        assert graph == whole
        assert bool(lost) == bool(all_lost)
        found.add((few[0].lmc, bool(lost)))
    assert len(found) == 4


def test_mixtures_of_tables_that_do_not_fit_are_refused() -> None:
    fabric, before, after = next(cases())
    with pytest.raises(InputError, match="the previous table has shape"):
        MixedTables.of(replace(before, table=before.table[1:]), after).check(fabric)
    lanes = VirtualLanes.uniform([1])
    with pytest.raises(NotApplicable, match="on one lane, between hosts"):
        graph_of(fabric, replace(MixedTables.of(before, after), lanes=lanes), False)
