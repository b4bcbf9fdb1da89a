"""Static level: loads and contention of concurrent flows.

This level has no time, queues, message sizes or start times: all flows of a set send at the same
time and without end.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import finite_numbers, one_of, whole_numbers
from weft.core.errors import UnroutedWarning
from weft.fabrics import Fabric
from weft.kernels.routes.intermediates import spread_demand
from weft.kernels.routes.route_links import worst_links
from weft.routing.routes import CandidateRoutes, Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out
from weft.routing.routes.intermediates import (
    arrival_shares,
    members,
    routed_rows,
    uses_intermediate,
)


def round_loads(
    fabric: Fabric, routes: CandidateRoutes, demand: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the loads of edges if traffic is split equally over intermediates.

    The traffic of each pair of rows uses all intermediates except those of the two rows. It has two
    parts: from the sources to the intermediates, and from the rows at which it reaches the
    intermediates to the destinations. Each part is split equally among the candidates at every hop.

    `demand` [target rows, rows]: load from each row to each target row; each pair with a load must
    have a path.

    Returns float64 [edges], and the share of minimal paths, if packets may also take minimal paths:
    the largest share that minimises the maximum over edges of load divided by rate, as an ideal
    adaptive choice does. This share is the same for all pairs; NaN if there is no choice.
    """
    apart = uses_intermediate(routes)
    spread = np.where(apart, demand, 0.0) / (routes.num_intermediates - 2)
    inside = members(routes)
    to_via = np.tile(spread.sum(axis=0), (len(inside), 1)) - inside.astype(np.float64) @ spread
    onward = spread @ arrival_shares(fabric, routes)
    onward[~apart] = 0.0
    onward += np.where(apart, 0.0, demand)
    # Remove rounding errors of the subtraction.
    to_via[to_via < 1e-9 * demand.max(initial=0.0)] = 0.0
    about = _spread(fabric, routes, ((routes.via_set, to_via), (routes.set_id, onward)))
    if not routes.direct or not spread.any():
        return about, float("nan")
    minimal = _spread(fabric, routes, ((routes.set_id, demand),))
    cost = 1.0 / fabric.link_rate_gbps[fabric.graph.edge_link]
    share = least_worst_share(about * cost, minimal * cost)
    return share * minimal + (1 - share) * about, share


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
    """Return the largest x from 0 to 1 that minimises max((1 - x) none + x all).

    `none`, `all_` [edges]: loads at x = 0 and at x = 1.

    The maximum of straight lines is convex: a bracket of a falling and a rising line is repeatedly
    reduced to their intersection, until no line is above it; this is the minimum. The result is the
    largest x at which no rising line is above the minimum.
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
        line = worst(x)
        if none[line] + x * slope[line] <= none[high] + x * slope[high] + slack:
            least = none[high] + x * slope[high]
            most = float(((least - none[rising]) / slope[rising]).min(initial=np.inf))
            return min(most, 1.0) if most > x + 1e-9 else x  # more than a rounding error
        if rising[line]:
            high = line
        else:
            low = line


Ports = Literal["first", "spread"]

#: Number of flows whose links are listed at a time, so that the lists stay in cache.
_AT_ONCE = 2**13


def host_flows(
    fabric: Fabric,
    sources: ArrayLike,
    destinations: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    ports: Ports = "first",
    lid_offset: ArrayLike = 0,
    lmc: int = 0,
    scale_up: bool = True,
) -> EndpointFlows:
    """Convert flows between hosts to flows between endpoints.

    `weights`: load of each flow, by default 1. `ports`: port used by hosts with several ports.
    ``first``: always the first port. ``spread``: for a flow from host s to host d, port (s + d)
    modulo the number of ports, at both hosts. `lid_offset`: LID offset of each flow's destination,
    0 to 2^lmc - 1. `scale_up`: whether pairs of one scale-up network use its ports instead.
    """
    source = fabric.host_numbers(sources, "sources")
    destination = fabric.host_numbers(destinations, "destinations", count=len(source))
    weight = np.zeros(0)
    if weights is not None:
        weight = finite_numbers(weights, "weights", each=len(source))
    start, end = fabric.host_endpoint[source], fabric.host_endpoint[destination]
    if one_of(ports, get_args(Ports), "port policy") == "spread":
        per_host = np.bincount(
            (fabric.endpoint_node - fabric.num_switches)[: fabric.num_host_endpoints][
                ~fabric.is_scale_up[: fabric.num_host_endpoints]
            ],
            minlength=fabric.num_hosts,
        )
        key = source + destination
        start = np.where(start >= 0, start + key % np.maximum(per_host[source], 1), -1)
        end = np.where(end >= 0, end + key % np.maximum(per_host[destination], 1), -1)
    up = np.flatnonzero(fabric.is_scale_up[: fabric.num_host_endpoints]) if scale_up else ()
    if len(up):
        scale_up_of = np.full(fabric.num_hosts, -1, dtype=np.int32)
        scale_up_of[fabric.endpoint_node[up] - fabric.num_switches] = up
        row = np.append(fabric.graph.destination_row, -1)[scale_up_of]
        inside = (row[source] >= 0) & (row[source] == row[destination])
        start = np.where(inside, scale_up_of[source], start)
        end = np.where(inside, scale_up_of[destination], end)
    offset = whole_numbers(
        lid_offset, "LID offsets", low=0, high=(1 << lmc) - 1, each=len(source),
        of=f"offsets of LMC {lmc}",
    )  # fmt: skip
    lids = np.zeros(0, dtype=np.int32)
    if lmc:
        lids = ((end.astype(np.int64) << lmc) + offset).astype(np.int32)
    return EndpointFlows(
        start.astype(np.int32),
        end.astype(np.int32),
        lids,
        np.argsort(end, kind="stable").astype(np.int32),
        weight,
    )


@dataclass(frozen=True, eq=False)
class Loads:
    """Loads of the links, and number of flows without a path."""

    #: int64 [links], or float64 [links] if flows are weighted or split.
    per_link: NDArray[Any]
    #: Number of flows, and number of flows without a path, which add no load.
    flows: int
    unrouted: int
    #: Share of minimal paths in traffic that may use an intermediate; NaN if the routes have no
    #: intermediates or no such choice.
    minimal_share: float = float("nan")


def flow_loads(fabric: Fabric, routes: Routes, flows: EndpointFlows) -> Loads:
    """Return the loads of flows between endpoints; see `link_loads`."""
    routes.check(fabric)
    if isinstance(routes, CandidateRoutes) and routes.num_intermediates:
        return _split_round(fabric, routes, flows, np.zeros(fabric.num_links))
    per_link, unrouted = routes.link_loads(fabric, flows)
    return Loads(per_link, len(flows.sources), unrouted)


def _split_round(
    fabric: Fabric, routes: CandidateRoutes, flows: EndpointFlows, per_link: NDArray[np.float64]
) -> Loads:
    """Return the loads of flows that may use intermediates, based on the traffic between rows."""
    graph, rows = fabric.graph, fabric.graph.num_rows
    start = graph.destination_row[flows.sources]
    end = graph.destination_row[flows.destinations]
    known = (flows.sources >= 0) & (flows.destinations >= 0) & (start >= 0) & (end >= 0)
    staying = flows.staying
    routed = known & ~staying
    routed[routed] = routed_rows(fabric, routes)[end[routed], start[routed]]
    weights = flows.weights[routed] if len(flows.weights) else np.ones(int(routed.sum()))
    demand: NDArray[Any] = np.bincount(
        end[routed].astype(np.int64) * rows + start[routed], weights=weights, minlength=rows**2
    ).reshape(rows, rows)
    edges, share = round_loads(fabric, routes, demand.astype(np.float64))
    per_link[graph.edge_link] += edges
    for link in (
        endpoint_out(fabric)[flows.sources[routed]],
        graph.destination_link[flows.destinations[routed]],
    ):
        np.add.at(per_link, link[link >= 0], weights[link >= 0])
    return Loads(per_link, len(start), int((~routed & ~staying).sum()), share)


def link_loads(
    fabric: Fabric,
    routes: Routes,
    sources: ArrayLike,
    destinations: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    ports: Ports = "first",
    lid_offset: ArrayLike = 0,
) -> NDArray[Any]:
    """Return the number of flows over each directed link.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes.
    sources, destinations
        Host numbers of equal length; a flow from a host to itself adds no load.
    weights
        Load of each flow, by default 1.
    ports
        Port used by hosts with several ports: ``first`` or ``spread``; see `host_flows`.
    lid_offset
        LID offset of each flow's destination, 0 to 2^LMC - 1.

    Returns
    -------
    ndarray
        [links] in the order of `Fabric.links`: int64 counts, or float64 if flows have weights or
        are split over candidates (equally at each hop).

    Raises
    ------
    InputError
        If a host number or offset does not exist, or the routes belong to another fabric.

    Warns
    -----
    UnroutedWarning
        If some flows have no path; they add no load.
    """
    flows = host_flows(
        fabric, sources, destinations, weights=weights, ports=ports, lid_offset=lid_offset,
        lmc=routes.lmc,
    )  # fmt: skip
    loads = flow_loads(fabric, routes, flows)
    if loads.unrouted:
        warnings.warn(
            f"{loads.unrouted} of {loads.flows} flows have no path and load no link",
            UnroutedWarning,
            stacklevel=2,
        )
    return loads.per_link


@dataclass(frozen=True, eq=False)
class Contention:
    """Contention of flows."""

    #: float64 [flows]: the largest ratio of load to rate on the path of each flow; 1 means one flow
    #: on a link of the injection rate. NaN for flows without a path, 0 for flows within a host.
    worst: NDArray[np.float64]
    #: int32 [flows]: the link with that ratio, -1 if there is none.
    link: NDArray[np.int32]
    #: int32 [flows]: number of links of the path, host links included; -1 for flows without a path.
    hops: NDArray[np.int32]


def contention(
    fabric: Fabric, routes: Routes, flows: EndpointFlows, loads: NDArray[Any] | None = None
) -> Contention:
    """Return the contention of each flow among all given flows."""
    if loads is None:
        loads = flow_loads(fabric, routes, flows).per_link
    cost = relative_loads(fabric, loads)
    result = Contention(
        np.where(flows.staying, 0.0, np.nan),
        np.full(len(flows.sources), -1, dtype=np.int32),
        np.where(flows.staying, 0, -1).astype(np.int32),
    )
    for part, offset, link in _runs(fabric, routes, flows):
        worst_links(offset, link, cost, part, result.worst, result.link, result.hops)
    return result


def _runs(
    fabric: Fabric, routes: Routes, flows: EndpointFlows
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]]:
    """Yield the flows between different endpoints in parts: flow indices, and links in CSR form.

    Flows are ordered by destination.
    """
    moving = flows.order[~flows.staying[flows.order]]
    for first in range(0, max(len(moving), 1), _AT_ONCE):
        part = moving[first : first + _AT_ONCE]
        yield part, *routes.links(fabric, flows.part(part))


def link_users(
    fabric: Fabric, routes: Routes, flows: EndpointFlows, links: NDArray[np.integer[Any]]
) -> list[NDArray[np.int32]]:
    """Return the flows that cross each of the given links.

    `fabric`, `routes`, `flows`: as in `flow_loads`; the routes must have a single path for each
    flow. `links`: directed links, each at most once.

    Returns int32 flow indices for each link, sorted by destination.
    """
    index_of = np.full(fabric.num_links, -1, dtype=np.int32)
    index_of[links] = np.arange(len(links), dtype=np.int32)
    indices, users = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
    for part, offset, link in _runs(fabric, routes, flows):
        index = index_of[link]
        users.append(np.repeat(part, np.diff(offset))[index >= 0])
        indices.append(index[index >= 0])
    index = np.concatenate(indices)
    listed = np.concatenate(users)[np.argsort(index, kind="stable")]
    ends = np.cumsum(np.bincount(index, minlength=len(links)))
    return np.split(listed, ends[:-1]) if len(links) else []


def relative_loads(fabric: Fabric, flows: NDArray[Any]) -> NDArray[np.float64]:
    """Return the flows on each link, divided by its rate relative to the fastest host cable."""
    loads: NDArray[np.float64] = flows * (fabric.host_rate_gbps / fabric.link_rate_gbps)
    return loads


def inner_links(fabric: Fabric) -> NDArray[np.bool_]:
    """Return whether each link connects two rows (its load depends on routing), bool [links]."""
    inner: NDArray[np.bool_] = fabric.forwards[fabric.link_from] & fabric.forwards[fabric.link_to]
    return inner
