"""Routes of the subnet, extended to what is inside machines.

Engines and subnet managers see adapters as hosts. In a fabric with the inside of machines, packets
to a processor follow the routes to its adapter. From the leaf switch on they go to the processor
itself, or to its PCIe switch, which sends all packets for other machines by its adapter.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.arrays import OUTSIDE
from weft.routing.routes import CandidateRoutes, Routes, TableRoutes

R = TypeVar("R", bound=Routes)


class _Embedding(NamedTuple):
    """How a fabric contains its subnet, whose rows come first."""

    subnet: Fabric
    #: Number of rows of the subnet.
    rows: int
    #: int64 [destinations]: destination in the subnet to which packets from other machines are
    #: sent: for all that is at or behind an adapter, the adapter; -1 in a scale-up network.
    destination: NDArray[np.int64]
    #: int64: the edge from each PCIe switch to the leaf switch of its adapter.
    out: NDArray[np.int64]
    #: int64: the edges from a PCIe switch to another one.
    beside: NDArray[np.int64]


def _embedding(fabric: Fabric) -> _Embedding:
    graph, subnet, rows = fabric.graph, fabric.subnet, fabric.subnet.graph.num_rows
    node = np.append(fabric.endpoint_node, np.arange(fabric.num_switches))
    row = graph.destination_row
    adapter = np.where(row >= 0, fabric.adapter[graph.row_node[row]], OUTSIDE)
    adapter = np.where(adapter == OUTSIDE, fabric.adapter[node], adapter)
    number = np.append(subnet.host_endpoint, -1).astype(np.int64)
    destination = np.where(adapter >= 0, number[np.maximum(adapter, -1)], -1)
    outside = np.arange(subnet.num_host_endpoints, subnet.num_destinations)
    destination[adapter == OUTSIDE] = outside  # auxiliary adapters and switches, in their order
    leaves = graph.edge_tail >= rows
    out, beside = (np.flatnonzero(leaves & (side == (graph.edge_row < rows))) for side in (1, 0))
    return _Embedding(subnet, rows, destination, out, beside)


def extended(fabric: Fabric, routes: R) -> R:
    """Return routes of `fabric.subnet` as routes of the whole fabric.

    Raises
    ------
    NotApplicable
        If routes of this kind cannot be extended.
    """
    at, graph = _embedding(fabric), fabric.graph
    routes.check(at.subnet)
    row = np.arange(graph.num_rows)
    lanes = routes.lanes.of_rows(np.where(row < at.rows, row, -1), np.diff(graph.row_base))
    result: R = _extended(replace(routes, lanes=lanes, fabric_digest=fabric.digest), fabric, at)
    return result


@singledispatch
def _extended(routes: Routes, fabric: Fabric, at: _Embedding) -> Any:
    raise NotApplicable(
        f"{routes.engine} gives a path to each pair of adapters, which is not continued inside "
        f"machines; {fabric.name} needs tables or candidates"
    )


@_extended.register
def _tables(routes: TableRoutes, fabric: Fabric, at: _Embedding) -> TableRoutes:
    graph, dtype = fabric.graph, fabric.graph.port_dtype
    graph.need_memory(fabric.num_destinations << routes.lmc, dtype.itemsize, "ports")
    none, known = np.iinfo(dtype).max, np.flatnonzero(at.destination >= 0)
    old = routes.table.reshape(at.subnet.num_destinations, -1, at.rows)
    table = np.full((fabric.num_destinations, 1 << routes.lmc, graph.num_rows), none, dtype=dtype)
    lines = old[at.destination[known]]
    table[known, :, : at.rows] = np.where(lines == routes.no_path, none, lines)
    table[known[:, None], :, graph.edge_tail[at.out]] = graph.edge_port[at.out][None, :, None]
    # Hops that stay inside: to what is at another PCIe switch, and to what is at a switch itself.
    inside = np.flatnonzero(graph.destination_row >= at.rows)
    row, link = graph.destination_row[inside], graph.destination_link[inside]
    for edge in at.beside:
        table[inside[row == graph.edge_row[edge]], :, graph.edge_tail[edge]] = graph.edge_port[edge]
    table[inside, :, row] = np.where(link >= 0, fabric.link_from_port[link], 0)[:, None]
    return replace(routes, table=table.reshape(-1, graph.num_rows), sl=_levels(routes, fabric, at))


def _levels(routes: TableRoutes, fabric: Fabric, at: _Embedding) -> NDArray[np.uint8]:
    """Return the service levels: of the adapter for what is behind it, of the leaf for senders."""
    sl, graph = routes.sl, fabric.graph
    if not sl.ndim:
        return sl
    sl = sl.reshape(*sl.shape[:-1], -1, 1 << routes.lmc)
    sl = np.where(at.destination[:, None] >= 0, sl[..., at.destination, :], 0).astype(np.uint8)
    sl = sl.reshape(*sl.shape[:-2], -1)
    if sl.ndim > 1:
        sl = np.concatenate((sl, np.zeros((graph.num_rows - at.rows, sl.shape[1]), np.uint8)))
        sl[graph.edge_tail[at.out]] = sl[graph.edge_row[at.out]]
    return sl


@_extended.register
def _candidates(routes: CandidateRoutes, fabric: Fabric, at: _Embedding) -> CandidateRoutes:
    graph, old, out, beside = fabric.graph, at.subnet.graph, at.out, at.beside
    if routes.num_intermediates and (len(out) or len(beside)):
        raise NotApplicable(
            f"{routes.engine} chooses a path at the first switch, which in machines of "
            f"{fabric.name} is a PCIe switch with one way out"
        )
    # One set of one edge each: from PCIe switches to leaf switches, back, and to one another.
    single = np.concatenate((out, graph.edge_back[out], beside))
    sets = routes.num_sets + np.arange(len(single))
    leave, enter, cross = np.split(sets, (len(out), 2 * len(out)))
    pcie, leaf = graph.edge_tail[out], graph.edge_row[out]
    set_id = np.full((graph.num_rows, graph.num_rows), -1, dtype=np.int32)
    set_id[: at.rows, : at.rows] = routes.set_id
    set_id[pcie, : at.rows] = routes.set_id[leaf]
    set_id[: at.rows, pcie] = leave
    set_id[np.ix_(pcie, pcie)] = leave
    set_id[pcie, leaf] = enter
    set_id[graph.edge_row[beside], graph.edge_tail[beside]] = cross
    np.fill_diagonal(set_id, -1)
    edge = graph.slot_edge[graph.row_base[old.edge_tail] + old.edge_port]
    offset = routes.set_offset[-1] + 1 + np.arange(len(single), dtype=np.int32)
    more = (0, graph.num_rows - at.rows)
    via, turn = (more if len(each) else (0, 0) for each in (routes.via, routes.turn_set))
    return replace(
        routes, set_id=set_id, set_offset=np.append(routes.set_offset, offset),
        set_edge=np.append(edge[routes.set_edge], single).astype(np.int32),
        set_lane=np.pad(routes.set_lane, (0, len(single) if len(routes.set_lane) else 0)),
        via=np.pad(routes.via, via, constant_values=-1),
        via_set=np.pad(routes.via_set, ((0, 0), via), constant_values=-1),
        turn_set=np.pad(routes.turn_set, (turn, turn), constant_values=-1),
        fallback=routes.fallback and extended(fabric, routes.fallback),
    )  # fmt: skip
