"""Cells: ranks whose messages have the same times, of which one is simulated for all.

Ranks, links and routes are coloured, and colours are refined until equal ranks have equal programs,
peers, routes and links (an equitable partition; Cardon and Crochemore 1982). Then the program of
one rank of each cell, over one link of each cell, goes through the same times as all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.sim.flow.network import Network
from weft.workload.rolled import RolledWorkload

Ints = NDArray[np.int64]
_Hashes = NDArray[np.uint64]


class Cells(NamedTuple):
    """Cells of ranks, and the messages between them.

    `of_rank`: int64 [ranks], cell of each rank. `first`: int64 [cells], a rank of each. `size`:
    int64 [cells], number of ranks. `peer`: int64 [maps, cells], cell of the peers. `network`: one
    link and one route of each cell. `route`: int32 [maps, cells], route in it, -1 without one.
    """

    of_rank: Ints
    first: Ints
    size: Ints
    peer: Ints
    network: Network
    route: NDArray[np.int32]


def cells_of(work: RolledWorkload, network: Network, route: NDArray[np.int32]) -> Cells:
    """Return the cells of the ranks of a workload.

    `route`: int32 [maps, ranks]: route in `network` of each rank to its peer, -1 without one. If
    ranks share an adapter, routes are split, or a link is in several ways like another one for the
    same messages, each rank is a cell.
    """
    ranks = work.num_ranks
    source = np.full(ranks, -1, dtype=np.int64)
    for each in route:
        source[each >= 0] = network.route_source[each[each >= 0]]
    used = source[source >= 0]
    if len(np.unique(used)) == len(used) and not len(network.route_share):
        colour, link_colour, route_colour = _coloured(work, network, route)
        found = _quotient(work, network, route, colour, link_colour, route_colour)
        if found is not None:
            return found
    own = np.arange(ranks)
    peer = work.peers.astype(np.int64)
    return Cells(own, own, np.ones(ranks, dtype=np.int64), peer, network, route)


def _coloured(
    work: RolledWorkload, network: Network, route: NDArray[np.int32]
) -> tuple[Ints, Ints, Ints]:
    """Return numbers of the colours of ranks, links and routes."""
    links = len(network.capacity_bytes_per_ns)
    hops = np.diff(network.route_offset)
    of_entry = np.repeat(np.arange(len(hops)), hops)
    place = np.arange(len(of_entry)) - network.route_offset[of_entry]
    from_rank, to_rank, by_map = np.zeros((3, len(hops)), dtype=np.int64)
    for number, each in enumerate(route):
        there = np.flatnonzero(each >= 0)
        from_rank[each[there]], to_rank[each[there]] = there, work.peers[number, there]
        by_map[each[there]] = number
    fixed = _mix(
        _mix(by_map.astype(np.uint64), network.route_latency_ns.view(np.uint64)),
        network.route_rate_bytes_per_ns.view(np.uint64),
    )
    rank = _mix(work.program_of.astype(np.uint64), np.zeros(work.num_ranks, dtype=np.uint64))
    link = _mix(network.capacity_bytes_per_ns.view(np.uint64), np.zeros(links, dtype=np.uint64))
    count = 0
    while True:
        path = np.zeros(len(hops), dtype=np.uint64)
        np.add.at(path, of_entry, _mix(link[network.route_link], place))
        flow = _mix(_mix(fixed, path), _mix(rank[from_rank], rank[to_rank]))
        crossing = np.zeros(links, dtype=np.uint64)
        np.add.at(crossing, network.route_link, _mix(flow[of_entry], place))
        link = _mix(link, crossing)
        finer = rank
        for number, (peers, each) in enumerate(zip(work.peers, route, strict=True)):
            seen = _mix(rank[peers], np.where(each >= 0, flow[each], 1) if len(flow) else peers)
            finer = _mix(finer, np.where(peers < 0, np.uint64(number), seen))
        rank = finer
        now = len(np.unique(rank)) + len(np.unique(link))
        if now == count:
            break
        count = now
    numbers = (np.unique(each, return_inverse=True)[1] for each in (rank, link, flow))
    return tuple(each.astype(np.int64) for each in numbers)  # type: ignore[return-value]


def _mix(one: _Hashes, other: NDArray[np.generic]) -> _Hashes:
    """Return hashes of pairs of numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = one * np.uint64(0x9E3779B97F4A7C15) + other.astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _quotient(
    work: RolledWorkload,
    network: Network,
    route: NDArray[np.int32],
    cell: Ints,
    link_cell: Ints,
    flow_cell: Ints,
) -> Cells | None:
    """Return the cells; None if there are as many as ranks, or one link cannot stand for others."""
    _, first, cell, size = np.unique(
        cell, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) == len(cell):
        return None
    # Cells are in the order of their first ranks, by which operations of equal times are ordered.
    by_rank = np.argsort(first)
    first, size, cell = first[by_rank], size[by_rank], np.argsort(by_rank)[cell]
    _, first_link = np.unique(link_cell, return_index=True)
    hops = np.diff(network.route_offset)
    of_entry = np.repeat(np.arange(len(hops)), hops)
    along = link_cell[network.route_link]
    # A link carries each kind of route once, and no route crosses two links of a cell.
    kinds, cells = int(flow_cell.max(initial=0)) + 1, len(first_link)
    per_link = np.unique(network.route_link.astype(np.int64) * kinds + flow_cell[of_entry])
    if len(per_link) < len(along) or len(np.unique(of_entry * cells + along)) < len(along):
        return None
    peer = np.full((len(work.peers), len(first)), -1, dtype=np.int64)
    on = np.full((len(work.peers), len(first)), -1, dtype=np.int32)
    chosen: list[int] = []
    for number, each in enumerate(route[:, first]):
        to = work.peers[number, first]
        peer[number] = np.where(to < 0, -1, cell[to])
        there = np.flatnonzero(each >= 0)
        on[number, there] = np.arange(len(chosen), len(chosen) + len(there))
        chosen += each[there].tolist()
    picked = np.array(chosen, dtype=np.int64)
    offset = np.concatenate(([0], np.cumsum(hops[picked]))).astype(np.int64)
    at = np.repeat(network.route_offset[picked] - offset[:-1], hops[picked]) + np.arange(offset[-1])
    smaller = Network(
        capacity_bytes_per_ns=network.capacity_bytes_per_ns[first_link], route_offset=offset,
        route_link=along[at].astype(np.int32), route_share=np.zeros(0),
        route_latency_ns=network.route_latency_ns[picked],
        route_rate_bytes_per_ns=network.route_rate_bytes_per_ns[picked],
        route_source=np.nonzero(on >= 0)[1].astype(np.int32),
        route_destination=peer[on >= 0].astype(np.int32),
        minimal_share=network.minimal_share,
    )  # fmt: skip
    return Cells(cell, first, size, peer, smaller, on)
