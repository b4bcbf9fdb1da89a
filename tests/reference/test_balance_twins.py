from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import balance as plain
from tests.reference import peaks
from weft.core.errors import InputError
from weft.routing import route
from weft.routing.engine_registry import lower_worst_load, worst_load
from weft.routing.engines.sar import sar_routes
from weft.routing.routes import CandidateRoutes, TableRoutes
from weft.sim.static.effective_bisection import bisection

#: Seeds for which no tree can avoid the links of peak load.
NOTHING_TO_LOWER = {23}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("passes", [1, 3])
def test_minhop_takes_the_least_loaded_shortest_paths(seed: int, passes: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    routes = route(fabric, "minhop", passes=passes)
    assert isinstance(routes, TableRoutes)
    expected = plain.cheapest_tables(fabric, passes)
    if passes > 1:
        expected = peaks.lowered(fabric, expected)
    assert np.array_equal(routes.table, expected)


@pytest.mark.parametrize("seed", range(12))
def test_sar_takes_the_paths_on_which_the_given_flows_share_least(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    cabled = np.flatnonzero(fabric.host_endpoint >= 0)
    ends = np.random.default_rng(seed).choice(cabled, (2, 30))
    endpoint = fabric.host_endpoint[ends]
    rows = fabric.graph.destination_row[endpoint[0]]
    pairs = Counter(
        (row, d)
        for row, d, a, b in zip(rows.tolist(), endpoint[1].tolist(), *ends, strict=True)
        if a != b
    )
    expected = peaks.lowered(fabric, plain.cheapest_tables(fabric, 3, pairs), pairs)
    assert np.array_equal(sar_routes(fabric, *ends, max_vls=15).table, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(20, 32))
def test_lowering_peaks_agrees_with_the_reference(seed: int) -> None:
    """The tables before lowering are unbalanced, so that peaks can be lowered most."""
    fabric = random_fabric(seed, switches=14, hosts=40)
    table = plain.cheapest_tables(fabric, 1)
    expected = peaks.lowered(fabric, table)
    assert not np.array_equal(expected, table) or seed in NOTHING_TO_LOWER
    worst = worst_load(fabric, table)[0]
    lower_worst_load(fabric, table)
    assert np.array_equal(table, expected)
    assert worst_load(fabric, table)[0] <= worst


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("lmc", "two_way"), [(0, False), (0, True), (1, False)])
def test_bisections_agree_with_counting(seed: int, lmc: int, two_way: bool) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    if not (fabric.host_endpoint >= 0).any():
        pytest.fail("the random fabric has no connected host; choose another seed")
    routes = route(fabric, "minhop", lmc=lmc)
    assert isinstance(routes, TableRoutes)
    result = bisection(fabric, routes, samples=5, seed=seed, two_way=two_way)
    expected = [plain.bisection_sample(fabric, routes, seed, s, two_way) for s in range(5)]
    np.testing.assert_allclose(result.per_sample, [mean for mean, _ in expected])
    flows = 5 * (fabric.num_hosts // 2) * (2 if two_way else 1)
    assert result.unrouted_share == pytest.approx(sum(unrouted for _, unrouted in expected) / flows)


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_adaptive_switches_split_the_flows_of_bisections(seed: int, two_way: bool) -> None:
    fabric = random_fabric(seed, hosts=16)
    routes = route(fabric, "ar_updn", roots="center", max_groups=1 + seed % 3)
    assert isinstance(routes, CandidateRoutes)
    result = bisection(fabric, routes, samples=5, seed=seed, two_way=two_way)
    expected = [plain.split_bisection_sample(fabric, routes, seed, s, two_way) for s in range(5)]
    np.testing.assert_allclose(result.per_sample, [mean for mean, _ in expected])
    flows = 5 * (fabric.num_hosts // 2) * (2 if two_way else 1)
    assert result.unrouted_share == pytest.approx(sum(unrouted for _, unrouted in expected) / flows)


def test_candidates_and_tables_have_equal_bisections_if_paths_are_unique() -> None:
    from weft.fabrics.topology import build

    fabric = build("xgft:2;4,3;1,1")
    tables = bisection(fabric, route(fabric, "minhop"), samples=50, seed=2)
    hashed = bisection(fabric, route(fabric, "ecmp"), samples=50, seed=2)
    assert np.array_equal(tables.per_sample, hashed.per_sample)
    low, high = tables.interval
    assert low < tables.mean < high


def test_bad_bisections_are_refused() -> None:
    fabric = random_fabric(0)
    routes = route(fabric, "minhop")
    with pytest.raises(InputError, match="samples must be at least 1"):
        bisection(fabric, routes, samples=0)
    with pytest.raises(InputError, match="made for another fabric"):
        bisection(random_fabric(1), routes)
