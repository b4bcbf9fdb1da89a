"""Capacities of links, and the links of each route: the input of sharing models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.arrays import OUTSIDE, LinkKind
from weft.kernels.routes.route_links import hashed_routes, split_routes
from weft.routing.routes import CandidateRoutes, Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out
from weft.routing.routes.intermediates import routed_rows
from weft.sim.flow import Multipath
from weft.sim.static.loads import Ports, flow_loads, host_flows

_GBPS_PER_BYTE_PER_NS = 8.0

#: Largest total number of links of split routes: 12 bytes per link, 1.6 GB.
MAX_SPLIT_LINKS = 2**27


@dataclass(frozen=True, eq=False)
class Network:
    """Links, and routes that use them."""

    #: float64 [links]: capacity of each directed link.
    capacity_bytes_per_ns: NDArray[np.float64]
    #: int64 [routes + 1] and int32: directed links of each route, from host to host.
    route_offset: NDArray[np.int64]
    route_link: NDArray[np.int32]
    #: float64, same shape as `route_link`: share of a message that crosses the link; empty if all
    #: shares are 1.
    route_share: NDArray[np.float64]
    #: float64 [routes]: latency of the first byte without other traffic.
    route_latency_ns: NDArray[np.float64]
    #: float64 [routes]: rate of a message without other traffic.
    route_rate_bytes_per_ns: NDArray[np.float64]
    #: int32 [routes]: sending and receiving endpoint.
    route_source: NDArray[np.int32]
    route_destination: NDArray[np.int32]
    #: Share of minimal paths among messages that may use an intermediate; NaN if the routes have no
    #: intermediates or no choice between these and minimal paths.
    minimal_share: float = float("nan")

    @property
    def source_rate_bytes_per_ns(self) -> NDArray[np.float64]:
        """Rate of the sending adapter for messages of each route, float64 [routes]."""
        first = self.route_offset[:-1]
        rate = self.capacity_bytes_per_ns[self.route_link[first]]
        return rate / self.route_share[first] if len(self.route_share) else rate

    @property
    def num_routes(self) -> int:
        """Number of routes."""
        return len(self.route_offset) - 1


def lay_routes(
    fabric: Fabric,
    routes: Routes,
    sources: ArrayLike,
    destinations: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    multipath: Multipath = "split",
    minimal_share: float | None = None,
    seed: int = 0,
    ports: Ports = "first",
    lid_offset: ArrayLike = 0,
    switch_latency_ns: float = 0.0,
    latency_ns: float | None = None,
    adapter_gbps: float | None = None,
    adapter_latency_ns: float = 0.0,
) -> Network:
    """Return the links of the routes between pairs of hosts.

    - `sources`, `destinations`: host numbers of equal length; no host is its own destination.
    - `weights`: traffic of each pair, by default 1, for the choice of `minimal_share`.
    - `multipath`: use of several paths: ``split`` divides every message equally among the
      intermediates and, at each switch, among the candidates (ideal spraying); ``hash`` selects one
      path and one intermediate by a hash of the pair's index.
    - `minimal_share`: for routes with a choice between the minimal path and an intermediate (UGAL):
      the share of each message on the minimal path, or with ``hash`` the probability of the minimal
      path. The default is the share that minimises the largest load of a link between switches for
      this traffic (`round_loads`).
    - `ports`, `lid_offset`: as in `weft.sim.static.loads.host_flows`.
    - `switch_latency_ns`: latency of each switch on the path, added to the latencies of cables.
    - `latency_ns`: latency of every route, instead of the sum over its cables and switches.
    - `adapter_gbps`: rate of adapters for payload, if that is below the rate of their cables.
    - `adapter_latency_ns`: latency of each of the two adapters, added to that of the route.
    """
    routes.check(fabric)
    if multipath not in get_args(Multipath):
        raise InputError(f"unknown multipath {multipath!r}; expected split or hash")
    if minimal_share is not None and not 0 <= minimal_share <= 1:
        raise InputError(f"the minimal share must be 0 to 1, not {minimal_share}")
    flows = host_flows(
        fabric,
        sources,
        destinations,
        weights=weights,
        ports=ports,
        lid_offset=lid_offset,
        lmc=routes.lmc,
    )
    chosen = float("nan")
    if isinstance(routes, CandidateRoutes):
        chosen = _minimal_share(fabric, routes, flows, minimal_share)
    offset, link, share = _runs(fabric, routes, flows, multipath, chosen, seed)
    missing = np.flatnonzero(np.diff(offset) == 0)
    if len(missing):
        source, destination = (
            fabric.host_names[int(np.asarray(ends)[missing[0]])] for ends in (sources, destinations)
        )
        more = f", and none for {len(missing) - 1} more pairs" if len(missing) > 1 else ""
        raise InputError(
            f"there is no path from {source} to {destination} in the {routes.engine} routes of "
            f"{fabric.name}{more}"
        )
    capacity = fabric.link_rate_gbps / _GBPS_PER_BYTE_PER_NS
    if adapter_gbps is not None:
        of_adapter = fabric.link_kind != LinkKind.SWITCH_SWITCH
        if fabric.machine_model is not None:  # then adapters are between a machine and the outside
            outside = fabric.adapter == OUTSIDE
            of_adapter = outside[fabric.link_from] != outside[fabric.link_to]
        most = np.where(of_adapter, adapter_gbps / _GBPS_PER_BYTE_PER_NS, np.inf)
        capacity = np.minimum(capacity, most)
    latency = np.full(len(offset) - 1, 0.0 if latency_ns is None else float(latency_ns))
    rate = np.zeros(len(offset) - 1)
    if len(rate):
        usable = capacity[link] / share if len(share) else capacity[link]
        rate = np.minimum.reduceat(usable, offset[:-1])
        if latency_ns is None:
            hop = fabric.cable_latency_ns[link >> 1] + switch_latency_ns
            latency = np.add.reduceat(hop * share if len(share) else hop, offset[:-1])
            latency += 2 * adapter_latency_ns - switch_latency_ns
    return Network(
        capacity, offset, link, share, latency, rate,
        flows.sources, flows.destinations, chosen,
    )  # fmt: skip


def _minimal_share(
    fabric: Fabric, routes: CandidateRoutes, flows: EndpointFlows, given: float | None
) -> float:
    """Return the share of messages on the minimal path; NaN if the routes have no choice."""
    if not routes.num_intermediates or not routes.direct:
        return float("nan")
    return flow_loads(fabric, routes, flows).minimal_share if given is None else float(given)


def _runs(
    fabric: Fabric,
    routes: Routes,
    flows: EndpointFlows,
    multipath: Multipath,
    minimal_share: float,
    seed: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    none = np.zeros(0)
    if not isinstance(routes, CandidateRoutes):
        return *routes.links(fabric, flows), none
    graph = fabric.graph
    source = flows.sources
    if routes.num_intermediates:
        rows = graph.destination_row[source], graph.destination_row[flows.destinations]
        known = (source >= 0) & (flows.destinations >= 0) & (rows[0] >= 0) & (rows[1] >= 0)
        source = np.where(known & routed_rows(fabric, routes)[rows[1], rows[0]], source, -1)
    arrays = (
        routes.set_id, routes.set_offset, routes.set_edge, graph.parts, endpoint_out(fabric),
        routes.via, routes.via_set, np.nan_to_num(minimal_share), source.astype(np.int32),
        flows.destinations,
    )  # fmt: skip
    if multipath == "hash":
        number = np.arange(len(source), dtype=np.int64)
        return *hashed_routes(*arrays, number, seed), none
    offset, link, share, room_for = split_routes(*arrays, MAX_SPLIT_LINKS)
    if room_for < len(source):
        raise InputError(
            f"messages of {len(source):,} pairs split over all paths of {routes.engine} need more "
            f"than {MAX_SPLIT_LINKS:,} links ({12 * MAX_SPLIT_LINKS / 1e9:.1f} GB), enough for "
            f"{room_for:,} pairs; use --multipath hash, which draws one path per pair"
        )
    return offset, link, none if np.all(share == 1.0) else share


def carried_bytes(
    network: Network, route: NDArray[Any], size_bytes: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the bytes on each link, given route and size of each message, float64 [links]."""
    per_route = np.bincount(route, weights=size_bytes, minlength=network.num_routes)
    along = np.repeat(per_route.astype(np.float64), np.diff(network.route_offset))
    if len(network.route_share):
        along = along * network.route_share
    links = len(network.capacity_bytes_per_ns)
    return np.bincount(network.route_link, weights=along, minlength=links).astype(np.float64)
