"""Loads of traffic by way of random intermediates: Valiant's, and the ideal mix with straight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.kernels.routes.intermediates import spread_demand
from weft.routes import CandidateRoutes
from weft.routes.intermediates import goes_round, members, turn_shares


def round_loads(
    fabric: Fabric, routes: CandidateRoutes, demand: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Loads of the edges when pairs use all intermediates but their own two alike.

    The traffic parts exactly into two: from its sources to the intermediates, and from where it
    turns there to its destinations; each is split equally at every hop.

    Parameters
    ----------
    fabric, routes
        Routes with intermediates.
    demand
        float64 [target rows, rows]: load that each row sends to each, all of it routed.

    Returns
    -------
    ndarray
        float64 [edges].
    float
        Where packets may also go straight: the share that does, one for the whole pattern, chosen
        so that the largest load of an edge over its rate is least (the largest such share). This
        is what an ideal adaptive choice would come to. NaN when there is no choice.
    """
    apart = goes_round(routes)
    spread = np.where(apart, demand, 0.0) / (routes.num_intermediates - 2)
    inside = members(routes)
    to_via = np.tile(spread.sum(axis=0), (len(inside), 1)) - inside.astype(np.float64) @ spread
    onward = spread @ turn_shares(fabric, routes)
    onward[~apart] = 0.0
    onward += np.where(apart, 0.0, demand)
    # Differences of sums leave crumbs, which are no traffic.
    to_via[to_via < 1e-9 * demand.max(initial=0.0)] = 0.0
    about = _spread(fabric, routes, ((routes.via_set, to_via), (routes.set_id, onward)))
    if not routes.direct or not spread.any():
        return about, float("nan")
    straight = _spread(fabric, routes, ((routes.set_id, demand),))
    cost = 1.0 / fabric.link_rate_gbps[fabric.graph.edge_link]
    share = least_worst_share(about * cost, straight * cost)
    return share * straight + (1 - share) * about, share


def _spread(
    fabric: Fabric,
    routes: CandidateRoutes,
    phases: tuple[tuple[NDArray[np.int32], NDArray[Any]], ...],
) -> NDArray[np.float64]:
    loads = np.zeros(len(fabric.graph.edge_link))
    for lines, demand in phases:
        spread_demand(
            lines, np.ascontiguousarray(demand), routes.set_offset, routes.set_edge,
            fabric.graph.edge_row, loads,
        )  # fmt: skip
    return loads


def least_worst_share(none: NDArray[np.float64], all_: NDArray[np.float64]) -> float:
    """The largest x from 0 to 1 for which max((1 - x) none + x all) is least.

    Parameters
    ----------
    none, all_
        float64 [edges]: loads at x = 0 and at x = 1.

    Notes
    -----
    The largest of straight lines is convex: the bracket of a falling and a rising line is cut at
    their crossing until no line is above it. From there, as far as no rising line gets above it.
    """
    slope = all_ - none
    slack = 1e-12 * max(float(none.max(initial=0.0)), float(all_.max(initial=0.0)))

    def worst(x: float) -> int:
        return int(np.argmax(none + x * slope))

    high = worst(1.0)
    if slope[high] <= slack:
        return 1.0
    low = worst(0.0)
    if slope[low] > slack:
        return 0.0
    rising = slope > slack
    while True:
        x = float((none[low] - none[high]) / (slope[high] - slope[low]))
        x = min(max(x, 0.0), 1.0)
        found = worst(x)
        if none[found] + x * slope[found] <= none[high] + x * slope[high] + slack:
            least = none[high] + x * slope[high]
            most = float(((least - none[rising]) / slope[rising]).min(initial=np.inf))
            return min(most, 1.0) if most > x + 1e-9 else x  # farther by more than rounding
        if rising[found]:
            high = found
        else:
            low = found
