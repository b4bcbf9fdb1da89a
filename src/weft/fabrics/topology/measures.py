"""Measures of any fabric: distances between hosts, and a bound on its bisection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.fabrics.topology.bisection import bisection_upper_bound

__all__ = ["average_distance", "bisection_upper_bound", "diameter", "distance_counts"]

#: Size limit in bytes of the array that one step of the simultaneous searches gathers.
GATHER_BYTES = 64 << 20


def diameter(fabric: Fabric) -> int | None:
    """Return the largest number of hops of a minimal path between two hosts.

    Returns
    -------
    int or None
        None if two hosts have no path; 0 if there are fewer than two hosts.
    """
    return hops(fabric)[0]


def average_distance(fabric: Fabric) -> float | None:
    """Return the mean number of hops of a minimal path over all ordered pairs of different hosts.

    Returns
    -------
    float or None
        None if two hosts have no path, or there are fewer than two hosts.
    """
    return hops(fabric)[1]


def hops(fabric: Fabric) -> tuple[int | None, float | None]:
    """Return `diameter` and `average_distance`, for the time of one of them."""
    counts = distance_counts(fabric)
    pairs = fabric.num_hosts * (fabric.num_hosts - 1)
    if counts.sum() < pairs:
        return None, None
    mean = float(counts @ np.arange(len(counts))) / pairs if pairs else None
    return len(counts) - 1, mean


def distance_counts(fabric: Fabric) -> NDArray[np.int64]:
    """Return the number of ordered pairs of different hosts at each distance in hops.

    Paths lead via switches and hosts that forward. Pairs without a path are not counted.

    Returns int64 [longest distance + 1]: number of pairs by distance.

    Hosts on the same switches have the same distances, so there is one breadth-first search per
    group of such hosts. All searches advance together, hop by hop; the visited sets have one bit
    per group and forwarding node. The time is proportional to hops times links times groups / 64.
    """
    ends = _Ends.of(fabric)
    offset, neighbour = _adjacency(fabric)
    counts = np.zeros(1, dtype=np.int64)
    words = max(1, GATHER_BYTES // (8 * max(len(neighbour), 1)))
    for start in range(0, ends.num_groups, 64 * words):
        sources = np.arange(start, min(start + 64 * words, ends.num_groups))
        part = _counts_from(ends, sources, offset, neighbour)
        counts, part = sorted((counts, part), key=len, reverse=True)
        counts[: len(part)] += part
    return counts[: np.flatnonzero(counts).max(initial=0) + 1]


def _adjacency(fabric: Fabric) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the CSR of neighbouring rows, with parallel cables counted once."""
    graph = fabric.graph
    rows = graph.num_rows
    tail = np.repeat(np.arange(rows, dtype=np.int64), np.diff(graph.edge_offset))
    tail, head = np.divmod(np.unique(tail * rows + graph.edge_row), max(rows, 1))
    return np.searchsorted(tail, np.arange(rows + 1)), head


@dataclass(frozen=True)
class _Ends:
    """Groups of hosts with cables to the same rows."""

    #: int64 [groups]: number of hosts of each group.
    size: NDArray[np.int64]
    #: int64 [groups]: hops from a host to its rows: 0 for a host that forwards, else 1.
    reach: NDArray[np.int64]
    #: CSR over groups: the rows to which the hosts are cabled; for a forwarding host, its own row.
    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    #: int64 [pairs, 2]: two groups of one host each, whose hosts are joined by a cable.
    direct: NDArray[np.int64]

    @property
    def num_groups(self) -> int:
        return len(self.size)

    @cached_property
    def tail(self) -> NDArray[np.int64]:
        """Group of each entry of `row`."""
        return np.repeat(np.arange(self.num_groups), np.diff(self.offset))

    @classmethod
    def of(cls, fabric: Fabric) -> _Ends:
        first = fabric.num_switches
        hosts = fabric.num_hosts
        node_row, link_row = fabric.graph.node_row, fabric.graph.link_row
        forwards = fabric.forwards[first : first + hosts]
        host = fabric.link_from.astype(np.int64) - first
        leaves_host = (host >= 0) & (host < hosts)
        leaves_host[leaves_host] &= ~forwards[host[leaves_host]]

        up = leaves_host & (link_row >= 0)
        pairs = np.stack((host[up], link_row[up]), axis=1)
        own = np.flatnonzero(forwards)
        pairs = np.concatenate((pairs, np.stack((own, node_row[first + own]), axis=1)))
        pairs = np.unique(pairs, axis=0).astype(np.int64)

        peer = fabric.link_to.astype(np.int64) - first
        to_host = leaves_host & (link_row < 0) & (peer >= 0) & (peer < hosts)
        direct = np.stack((host[to_host], peer[to_host]), axis=1)

        # Hosts with the same rows form a group; a host with a cable to a host is a group of its
        # own.
        degree = np.bincount(pairs[:, 0], minlength=hosts)
        column = np.arange(len(pairs)) - np.repeat(np.cumsum(degree) - degree, degree)
        key = np.full((hosts, 2 + int(degree.max(initial=0))), -1, dtype=np.int64)
        key[:, 0] = ~forwards
        key[direct[:, 0], 1] = direct[:, 0]
        key[pairs[:, 0], 2 + column] = pairs[:, 1]
        groups, group, size = np.unique(key, axis=0, return_inverse=True, return_counts=True)
        group = group.reshape(-1)
        rows = groups[:, 2:]
        return cls(
            size=size.astype(np.int64),
            reach=groups[:, 0],
            offset=np.concatenate(([0], np.cumsum((rows >= 0).sum(axis=1)))),
            row=rows[rows >= 0],
            direct=np.unique(group[direct], axis=0),
        )


def _counts_from(
    ends: _Ends,
    sources: NDArray[np.int64],
    offset: NDArray[np.int64],
    neighbour: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the number of pairs at each distance from the hosts of some groups to all hosts."""
    rows = len(offset) - 1
    words = -(-len(sources) // 64)
    bit = np.uint64(1) << (np.arange(len(sources)) % 64).astype(np.uint64)
    word = np.arange(len(sources)) // 64

    seen = np.zeros((rows, words), dtype=np.uint64)
    entry = np.flatnonzero((ends.tail >= sources[0]) & (ends.tail <= sources[-1]))
    column = ends.tail[entry] - sources[0]
    np.bitwise_or.at(seen, (ends.row[entry], word[column]), bit[column])
    front = seen.copy()

    done = np.zeros((ends.num_groups, words), dtype=np.uint64)
    counts = np.zeros(3, dtype=np.int64)
    for source, target in ends.direct.tolist():
        if sources[0] <= source <= sources[-1]:
            done[target, word[source - sources[0]]] |= bit[source - sources[0]]
            counts[1] += 1
    # The first step below counts each host as a pair with itself; subtract these pairs.
    selves = sources[np.diff(ends.offset)[sources] > 0]
    np.subtract.at(counts, 2 * ends.reach[selves], ends.size[selves])

    masks = [np.zeros(words, dtype=np.uint64) for _ in range(2)]
    for reach, mask in enumerate(masks):
        chosen = ends.reach[sources] == reach
        np.bitwise_or.at(mask, word[chosen], bit[chosen])
    level = 0
    while front.any():
        new = _any(front[ends.row], ends.offset) & ~done
        done |= new
        if level + 3 > len(counts):
            counts = np.concatenate((counts, np.zeros(len(counts), dtype=np.int64)))
        for reach, mask in enumerate(masks):
            pairs = _pairs(new & mask, ends, sources)
            for there in range(2):
                counts[level + reach + there] += pairs[ends.reach == there].sum()
        front = _any(front[neighbour], offset) & ~seen
        seen |= front
        level += 1
    return counts


def _any(bits: NDArray[np.uint64], offset: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the bits that any line of each group has; group g is lines offset[g]:offset[g + 1]."""
    result = np.zeros((len(offset) - 1, bits.shape[1]), dtype=np.uint64)
    joined = np.flatnonzero(np.diff(offset))
    if len(joined):
        result[joined] = np.bitwise_or.reduceat(bits, offset[joined], axis=0)
    return result


def _pairs(bits: NDArray[np.uint64], ends: _Ends, sources: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of host pairs that the bits of each target group represent, int64."""
    sizes = ends.size[sources]
    if (sizes == sizes[0]).all():
        sources_of = np.bitwise_count(bits).sum(axis=1, dtype=np.int64) * sizes[0]
    else:
        single = np.unpackbits(bits.astype("<u8").view(np.uint8), axis=1, bitorder="little")
        sources_of = single[:, : len(sources)] @ sizes
    pairs: NDArray[np.int64] = sources_of * ends.size
    return pairs
