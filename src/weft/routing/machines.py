"""Routes of the subnet, extended to what is inside machines.

Engines and subnet managers see adapters as hosts. In a fabric with the inside of machines, packets
to a processor follow the routes to its adapter. From the leaf switch on they go to the processor
itself, or to its PCIe switch, which sends all packets to other machines by its adapter. Packets
between processors of one machine stay in it where its links allow that; none cross a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.arrays import OUTSIDE
from weft.routing.routes import CandidateRoutes, Routes, TableRoutes


@dataclass(frozen=True)
class Embedding:
    """How destinations and rows of a fabric lie in its subnet; rows of the subnet come first."""

    #: int64 [destinations]: the destination in the subnet to which packets from other machines are
    #: sent: for all that is at or behind an adapter, the adapter; -1 inside a scale-up network.
    destination: NDArray[np.int64]
    #: int64 [rows]: for a PCIe switch, the row of the subnet at the other end of its adapter's
    #: cable and the edge that leads there; -1 for other rows and switches without this cable.
    leaf: NDArray[np.int64]
    out: NDArray[np.int64]
    #: Number of rows of the subnet.
    rows: int


def embedding(fabric: Fabric, subnet: Fabric) -> Embedding:
    """Return how a fabric with the inside of its machines contains its subnet."""
    graph, rows = fabric.graph, subnet.graph.num_rows
    adapter_of_row = fabric.adapter[graph.row_node]
    # Ports of adapters outside machines, and of processors to leaf switches, keep their order.
    endpoint_row = graph.destination_row[: fabric.num_endpoints]
    outside = (endpoint_row < rows) | (endpoint_row < 0)
    destination = np.full(fabric.num_destinations, -1, dtype=np.int64)
    number = np.append(subnet.host_endpoint, -1).astype(np.int64)
    node = fabric.endpoint_node
    own = fabric.adapter[node]
    at = np.flatnonzero(outside)
    destination[at] = np.where(own[at] >= 0, number[own[at]], -1)
    auxiliary = np.flatnonzero(own == OUTSIDE)
    destination[auxiliary] = subnet.num_host_endpoints + np.arange(len(auxiliary))
    behind = np.flatnonzero(~outside)
    adapter = adapter_of_row[endpoint_row[behind]]
    destination[behind] = np.where(adapter >= 0, number[adapter], -1)
    switch = np.arange(rows)
    destination[fabric.num_endpoints + switch] = subnet.num_endpoints + switch
    inner = np.arange(rows, graph.num_rows)
    adapter = adapter_of_row[inner]
    destination[fabric.num_endpoints + inner] = np.where(adapter >= 0, number[adapter], -1)
    leaf, out = np.full((2, graph.num_rows), -1, dtype=np.int64)
    edges = np.flatnonzero((graph.edge_tail >= rows) & (graph.edge_row < rows))
    leaf[graph.edge_tail[edges]], out[graph.edge_tail[edges]] = graph.edge_row[edges], edges
    return Embedding(destination, leaf, out, rows)


def extended(fabric: Fabric, routes: Routes) -> Routes:
    """Return routes of `fabric.subnet` as routes of the whole fabric.

    Raises
    ------
    NotApplicable
        If routes of this kind cannot be extended.
    """
    subnet = fabric.subnet
    routes.check(subnet)
    new = _extended(routes, fabric, subnet, embedding(fabric, subnet))
    return replace(new, fabric_digest=fabric.digest)


@singledispatch
def _extended(routes: Routes, fabric: Fabric, subnet: Fabric, at: Embedding) -> Routes:
    raise NotApplicable(
        f"{routes.engine} gives a path to each pair of adapters, which is not continued inside "
        f"machines; {fabric.name} needs tables or candidates"
    )


@_extended.register
def _tables(routes: TableRoutes, fabric: Fabric, subnet: Fabric, at: Embedding) -> TableRoutes:
    graph, dtype = fabric.graph, fabric.graph.port_dtype
    graph.need_memory(fabric.num_destinations << routes.lmc, dtype.itemsize, "ports")
    none = np.iinfo(dtype).max
    per_lid = 1 << routes.lmc
    known = np.flatnonzero(at.destination >= 0)
    old = routes.table.reshape(subnet.num_destinations, per_lid, at.rows)
    table = np.full((fabric.num_destinations, per_lid, graph.num_rows), none, dtype=dtype)
    lines = old[at.destination[known]]
    if dtype != old.dtype:
        lines = np.where(lines == routes.no_path, none, lines).astype(dtype)
    table[known, :, : at.rows] = lines
    pcie = np.flatnonzero(at.out >= 0)
    port = graph.edge_port[at.out[pcie]].astype(dtype)
    table[known[:, None], :, pcie] = port[None, :, None]
    ends, rows, ports = _inside(fabric, at.rows)
    table[ends, :, rows] = ports[:, None].astype(dtype)
    return replace(
        routes, table=table.reshape(-1, graph.num_rows), sl=_levels(routes, fabric, at),
        lanes=routes.lanes.of_rows(_old_rows(fabric, at), np.diff(graph.row_base)),
    )  # fmt: skip


def _old_rows(fabric: Fabric, at: Embedding) -> NDArray[np.int64]:
    """Return the number of each row in the subnet, -1 for rows inside machines."""
    row = np.arange(fabric.graph.num_rows)
    return np.where(row < at.rows, row, -1)


def _inside(
    fabric: Fabric, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the destination, row and output port of each hop that stays inside a machine.

    These are from the last switch to an endpoint, from a switch to itself (port 0), and from a PCIe
    switch to all that is at another one of its machine.
    """
    graph = fabric.graph
    attached = np.flatnonzero(graph.destination_row >= rows)
    row = graph.destination_row[attached].astype(np.int64)
    link = graph.destination_link[attached]
    port = np.where(link >= 0, fabric.link_from_port[link], 0).astype(np.int64)
    beside = np.flatnonzero((graph.edge_tail >= rows) & (graph.edge_row >= rows))
    by_row = np.argsort(row, kind="stable")
    first = np.searchsorted(row[by_row], graph.edge_row[beside])
    count = np.searchsorted(row[by_row], graph.edge_row[beside], side="right") - first
    which = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    edge = np.repeat(beside, count)
    # Entries of the leaf switch for what is behind a PCIe switch are those for the adapter.
    return (
        np.append(attached, attached[by_row[which]]),
        np.append(row, graph.edge_tail[edge]),
        np.append(port, graph.edge_port[edge]),
    )


def _levels(routes: Routes, fabric: Fabric, at: Embedding) -> NDArray[np.uint8]:
    """Return the service levels: of the adapter for what is behind it, of the leaf for senders."""
    sl = routes.sl
    if not sl.ndim:
        return sl
    known = at.destination >= 0
    sl = sl.reshape(*sl.shape[:-1], -1, 1 << routes.lmc)
    sl = np.where(known[:, None], sl[..., at.destination, :], 0).astype(np.uint8)
    sl = sl.reshape(*sl.shape[:-2], -1)
    if sl.ndim > 1:
        row = np.where(np.arange(len(at.leaf)) < at.rows, np.arange(len(at.leaf)), at.leaf)
        sl = np.where(row[:, None] >= 0, sl[row], 0).astype(np.uint8)
    return sl


@_extended.register
def _candidates(
    routes: CandidateRoutes, fabric: Fabric, subnet: Fabric, at: Embedding
) -> CandidateRoutes:
    graph, old = fabric.graph, subnet.graph
    pcie = np.flatnonzero(at.out >= 0)
    beside = np.flatnonzero((graph.edge_tail >= at.rows) & (graph.edge_row >= at.rows))
    if routes.num_intermediates and (len(pcie) or len(beside)):
        raise NotApplicable(
            f"{routes.engine} chooses a path at the first switch, which in machines of "
            f"{fabric.name} is a PCIe switch with one way out"
        )
    # One set of one edge each: from PCIe switches to leaf switches, back, and to one another.
    out = at.out[pcie]
    single = np.concatenate((out, graph.edge_back[out], beside))
    sets = routes.num_sets + np.arange(len(single))
    leave, enter, cross = np.split(sets, (len(pcie), 2 * len(pcie)))
    set_id = np.full((graph.num_rows, graph.num_rows), -1, dtype=np.int32)
    set_id[: at.rows, : at.rows] = routes.set_id
    set_id[pcie, : at.rows] = routes.set_id[at.leaf[pcie]]
    set_id[: at.rows, pcie] = leave
    set_id[np.ix_(pcie, pcie)] = leave
    set_id[pcie, at.leaf[pcie]] = enter
    set_id[graph.edge_row[beside], graph.edge_tail[beside]] = cross
    np.fill_diagonal(set_id, -1)
    edge = graph.slot_edge[graph.row_base[old.edge_tail] + old.edge_port]
    offset = routes.set_offset[-1] + 1 + np.arange(len(single), dtype=np.int32)
    more = (0, graph.num_rows - at.rows)
    via, turn = (more if len(each) else (0, 0) for each in (routes.via, routes.turn_set))
    fallback = routes.fallback and replace(
        _tables(routes.fallback, fabric, subnet, at), fabric_digest=fabric.digest
    )
    return replace(
        routes, set_id=set_id, set_offset=np.append(routes.set_offset, offset),
        set_edge=np.append(edge[routes.set_edge], single).astype(np.int32),
        set_lane=np.pad(routes.set_lane, (0, len(single) if len(routes.set_lane) else 0)),
        via=np.pad(routes.via, via, constant_values=-1),
        via_set=np.pad(routes.via_set, ((0, 0), via), constant_values=-1),
        turn_set=np.pad(routes.turn_set, (turn, turn), constant_values=-1), fallback=fallback,
        lanes=routes.lanes.of_rows(_old_rows(fabric, at), np.diff(graph.row_base)),
    )  # fmt: skip
