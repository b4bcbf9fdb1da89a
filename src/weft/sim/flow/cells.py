"""Cells: ranks whose messages have the same times, of which one is simulated for all.

Ranks, links and routes are coloured, and colours are refined until equal ranks have equal programs,
peers, routes and links (an equitable partition; Cardon and Crochemore 1982). Then the program of
one rank of each cell, over one link of each cell, goes through the same times as all of them. The
colours are hashes, so the partition is checked at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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
    ranks share an adapter or a route, routes are split, or a link is in several ways like another
    one for the same messages, each rank is a cell.
    """
    ends = np.stack(np.nonzero(route >= 0))
    on = route[*ends]
    source = np.full(work.num_ranks, -1, dtype=np.int64)
    source[ends[1]] = network.route_source[on]
    used = source[source >= 0]
    alone = len(np.unique(used)) == len(used) and not len(network.route_share)
    if alone and len(on) == network.num_routes:
        colours = _coloured(work, network, route, ends[:, np.argsort(on)])
        if colours is not None and int(colours[0].max()) + 1 < work.num_ranks:
            return _quotient(work, network, route, *colours)
    own = np.arange(work.num_ranks)
    return Cells(own, own, np.ones_like(own), work.peers.astype(np.int64), network, route)


def _coloured(
    work: RolledWorkload, network: Network, route: NDArray[np.int32], ends: Ints
) -> tuple[Ints, Ints] | None:
    """Return the colours of ranks and links, from 0; None if one link cannot stand for others.

    `ends`: int64 [2, routes], map of peers and sending rank of each route.
    """
    by_map, sender = ends
    target = work.peers[by_map, sender]
    links, hops = len(network.capacity_bytes_per_ns), np.diff(network.route_offset)
    of_entry = np.repeat(np.arange(len(hops)), hops)
    place = np.arange(len(of_entry)) - network.route_offset[of_entry]
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
        flow = _mix(_mix(fixed, path), _mix(rank[sender], rank[target]))
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
    of_rank, of_link, of_flow = (
        np.unique(each, return_inverse=True)[1] for each in (rank, link, flow)
    )
    along = of_link[network.route_link]
    kinds = int(of_flow.max(initial=0)) + 1
    kind = np.unique(network.route_link.astype(np.int64) * kinds + of_flow[of_entry])
    begin = np.searchsorted(kind, np.arange(links + 1) * kinds)
    like = (np.where(to < 0, -1, of_rank[to]) for to in work.peers)
    by = (np.where(on < 0, -1, of_flow[on]) if len(hops) else on for on in route)
    sound = (
        # A link carries each kind of route once, and no route crosses two links of a cell.
        len(kind) == len(along) == len(np.unique(of_entry * (links + 1) + along))
        and _alike(of_rank, (work.program_of, *like, *by))
        and _alike(of_link, (network.capacity_bytes_per_ns,), begin, kind % kinds)
        and _alike(
            of_flow,
            (by_map, of_rank[sender], network.route_latency_ns, network.route_rate_bytes_per_ns),
            network.route_offset, along,
        )
    )  # fmt: skip
    return (of_rank, of_link) if sound else None


def _alike(
    colour: Ints, columns: Iterable[NDArray[Any]], offset: Any = None, values: Any = None
) -> bool:
    """Return whether all of a colour have equal values in columns, and equal rows of values."""
    first = np.unique(colour, return_index=True)[1][colour]
    equal = all(np.array_equal(each, each[first]) for each in columns)
    if offset is None or not equal:
        return equal
    length = np.diff(offset)
    if not np.array_equal(length, length[first]):
        return False
    at = np.arange(len(values)) + np.repeat(offset[first] - offset[:-1], length)
    return np.array_equal(values, values[at])


def _mix(one: _Hashes, other: NDArray[np.generic]) -> _Hashes:
    """Return hashes of pairs of numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = one * np.uint64(0x9E3779B97F4A7C15) + other.astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _quotient(
    work: RolledWorkload, network: Network, route: NDArray[np.int32], cell: Ints, link_cell: Ints
) -> Cells:
    """Return the cells of colours, with one link and one route of each."""
    _, first, size = np.unique(cell, return_index=True, return_counts=True)
    # Cells are in the order of their first ranks, by which operations of equal times are ordered.
    by_rank = np.argsort(first)
    first, size, cell = first[by_rank], size[by_rank], np.argsort(by_rank)[cell]
    to, on = work.peers[:, first], route[:, first]
    peer, away = np.where(to < 0, -1, cell[to]), on >= 0
    picked = on[away]
    hops = np.diff(network.route_offset)[picked]
    offset = np.concatenate(([0], np.cumsum(hops))).astype(np.int64)
    at = np.repeat(network.route_offset[picked] - offset[:-1], hops) + np.arange(offset[-1])
    on[away] = np.arange(len(picked))
    smaller = Network(
        capacity_bytes_per_ns=network.capacity_bytes_per_ns[
            np.unique(link_cell, return_index=True)[1]
        ],
        route_offset=offset, route_link=link_cell[network.route_link[at]].astype(np.int32),
        route_share=np.zeros(0), route_latency_ns=network.route_latency_ns[picked],
        route_rate_bytes_per_ns=network.route_rate_bytes_per_ns[picked],
        route_source=np.nonzero(away)[1].astype(np.int32),
        route_destination=peer[away].astype(np.int32), minimal_share=network.minimal_share,
    )  # fmt: skip
    return Cells(cell, first, size, peer, smaller, on)
