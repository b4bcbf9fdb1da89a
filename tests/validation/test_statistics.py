"""Slow statistical checks of random choices, run by ``make validate``."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy.stats import chisquare

from weft.fabrics.topology import build
from weft.kernels.routes.effective_bisection import random_matching
from weft.routing import route
from weft.sim.static.effective_bisection import bisection

pytestmark = pytest.mark.slow

#: p-value below which a test fails; seeds are fixed.
LEVEL = 1e-4


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_all_permutations_of_a_matching_are_equally_likely(seed: int) -> None:
    order = np.empty(5, dtype=np.int64)
    counts: dict[tuple[int, ...], int] = {}
    for sample in range(60_000):
        random_matching(seed, sample, order)
        key = tuple(order.tolist())
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 120
    assert chisquare(list(counts.values())).pvalue > LEVEL


def test_all_pairs_of_hosts_are_matched_equally_often() -> None:
    hosts = 64
    order = np.empty(hosts, dtype=np.int64)
    meetings = np.zeros((hosts, hosts))
    for sample in range(20_000):
        random_matching(7, sample, order)
        meetings[order[: hosts // 2], order[hosts // 2 :]] += 1
    off = ~np.eye(hosts, dtype=bool)
    assert chisquare(meetings[off]).pvalue > LEVEL


@pytest.mark.parametrize(("leaves", "hosts"), [(2, 4), (2, 8)])
def test_bisection_of_two_leaves_on_one_cable_is_the_hypergeometric_mean(
    leaves: int, hosts: int
) -> None:
    """Flows between the leaves share one link per direction; other flows get the full rate."""
    fabric = build(f"xgft:2;{hosts},{leaves};1,1")
    total, half = leaves * hosts, leaves * hosts // 2
    expected = 0.0
    # Of the senders, a are on the first leaf, and `stay` of these send to hosts of that leaf.
    for a in range(hosts + 1):
        senders = comb(hosts, a) * comb(hosts, half - a) / comb(total, half)
        first, second = hosts - a, half - (hosts - a)
        for stay in range(min(a, first) + 1):
            cross = a - stay
            back = first - stay
            paths = (
                comb(first, stay) * comb(second, cross) / comb(half, a) if cross <= second else 0
            )
            share = stay + (second - cross) + (cross > 0) + (back > 0)
            expected += senders * paths * share / half
    result = bisection(fabric, route(fabric, "minhop"), samples=200_000, seed=3)
    low, high = result.interval
    width = high - low
    assert expected == pytest.approx(result.mean, abs=width)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_cover_the_mean_with_their_probability(seed: int) -> None:
    fabric = build("xgft:3;3,3,3;1,3,3")
    routes = route(fabric, "dmodk")
    truth = bisection(fabric, routes, samples=400_000, seed=99).mean
    covered = 0
    for run in range(200):
        low, high = bisection(fabric, routes, samples=60, seed=1000 * seed + run).interval
        covered += low <= truth <= high
    assert 180 <= covered <= 199  # 95 % of 200 is 190; three standard deviations are 9
