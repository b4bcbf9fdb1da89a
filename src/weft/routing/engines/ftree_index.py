"""Structure of OpenSM's fat-tree engine: ranks, port groups and their order.

Every order is OpenSM's, since the tables depend on it: nodes by GUID in network byte order, ports
by number, switches by an index from a search that starts at the first leaf.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.distances import UNREACHED
from weft.routing.engine_registry import destination_ports

#: Bytes of OpenSM's index of a switch: one for its rank and one for each level below the roots.
INDEX_BYTES = 8
_ONE_RANK = 1 << 8 * (INDEX_BYTES - 1)

DOWN, SIDEWAYS, UP = range(3)


@dataclass(frozen=True, eq=False)
class PortGroups:
    """The ports of each row, grouped by neighbour, and the groups by direction."""

    #: int32 [3 rows + 1]: the groups of row ``r`` that lead down are ``order[start[3 r]:start[3 r +
    #: 1]]``, followed by those that lead sideways and up.
    start: NDArray[np.int32]
    #: int32 [groups]: groups by row and direction.
    order: NDArray[np.int32]
    #: int32 [groups]: the neighbouring row, -1 for an adapter.
    head: NDArray[np.int32]
    #: int32 [groups]: the adapter port, -1 if the neighbour is a row.
    endpoint: NDArray[np.int32]
    #: int32 [groups]: position of the head's index among all indices. Of equally loaded groups, the
    #: one with the smaller position is used.
    place: NDArray[np.int32]
    #: int32 [groups + 1]: group ``g`` has the ports ``port[port_start[g]:port_start[g + 1]]``.
    port_start: NDArray[np.int32]
    #: int32 [ports]: port numbers here and at the other end.
    port: NDArray[np.int32]
    remote_port: NDArray[np.int32]

    def of(self, row: int, direction: int) -> NDArray[np.int32]:
        """Return the groups of a row in one direction."""
        at = 3 * row + direction
        return self.order[self.start[at] : self.start[at + 1]]

    def count(self, direction: int) -> NDArray[np.int32]:
        """Return the number of groups of each row in one direction."""
        return np.diff(self.start)[direction::3]

    def size(self, group: int) -> int:
        """Return the number of ports of a group."""
        return int(self.port_start[group + 1] - self.port_start[group])


def by_guid(fabric: Fabric, nodes: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the order of nodes by GUID as in OpenSM's maps: the lowest byte counts most."""
    return np.argsort(fabric.node_guid[nodes].byteswap(), kind="stable")


def find_ranks(
    fabric: Fabric, part: NDArray[np.bool_], roots: NDArray[np.int32] | None
) -> NDArray[np.int32]:
    """Return the hops from each row to the nearest root, int32 [rows], -1 without a path.

    `fabric`: fabric in which only switches forward. `part` [rows]: a connected component with
    adapters. `roots`: rows of the component; None for the rows farthest from all adapters.
    """
    graph = fabric.graph
    if roots is None:
        rows = graph.destination_row[: fabric.num_endpoints]
        leaves = np.unique(rows[rows >= 0])
        height = np.where(part, _nearest(fabric, leaves[part[leaves]]), -1)
        roots = np.flatnonzero(height == height.max()).astype(np.int32)
    hops = _nearest(fabric, roots)
    return np.where(hops == UNREACHED, -1, hops).astype(np.int32)


def _nearest(fabric: Fabric, rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the hops from each row to the nearest of some rows."""
    graph = fabric.graph
    nearest = np.full(graph.num_rows, UNREACHED, dtype=np.int64)
    nearest[rows] = 0
    front = rows
    step = 0
    while len(front):
        step += 1
        reached = nearest[graph.edge_row] == UNREACHED
        reached &= nearest[graph.edge_tail] == step - 1
        front = np.unique(graph.edge_row[reached])
        nearest[front] = step
    return nearest


def group_ports(fabric: Fabric, rank: NDArray[np.int32]) -> PortGroups:
    """Group the ports of all ranked rows by neighbour; groups are ordered by their first port."""
    graph = fabric.graph
    tail, head = graph.edge_tail, graph.edge_row
    edges = np.flatnonzero((tail != head) & (rank[tail] >= 0) & (rank[head] >= 0))
    tail, head = tail[edges], head[edges]
    ends = np.flatnonzero(graph.destination_link[: fabric.num_endpoints] >= 0)
    ends = ends[rank[graph.destination_row[ends]] >= 0]

    row = np.concatenate((tail, graph.destination_row[ends])).astype(np.int64)
    neighbour = np.concatenate((head.astype(np.int64), graph.num_rows + ends))
    port = np.concatenate((graph.edge_port[edges], destination_ports(fabric)[ends]))
    direction = np.concatenate(
        (1 - np.sign(rank[head] - rank[tail]), np.zeros(len(ends), dtype=np.int32))
    )
    links = np.concatenate((graph.edge_link[edges], graph.destination_link[ends]))

    by_port = np.lexsort((port, neighbour, row))
    row, neighbour, port = row[by_port], neighbour[by_port], port[by_port]
    first = np.ones(len(row), dtype=bool)
    first[1:] = (row[1:] != row[:-1]) | (neighbour[1:] != neighbour[:-1])
    firsts = np.flatnonzero(first)
    direction = direction[by_port][firsts]
    at = 3 * row[firsts] + direction
    start = np.zeros(3 * graph.num_rows + 1, dtype=np.int32)
    np.cumsum(np.bincount(at, minlength=3 * graph.num_rows), out=start[1:])
    adapter = neighbour[firsts] >= graph.num_rows
    return PortGroups(
        start=start,
        order=np.lexsort((port[firsts], at)).astype(np.int32),
        head=np.where(adapter, -1, neighbour[firsts]).astype(np.int32),
        endpoint=np.where(adapter, neighbour[firsts] - graph.num_rows, -1).astype(np.int32),
        place=np.zeros(len(firsts), dtype=np.int32),
        port_start=np.append(firsts, len(row)).astype(np.int32),
        port=port.astype(np.int32),
        remote_port=fabric.link_to_port[links[by_port]].astype(np.int32),
    )


def index_rows(
    rank: NDArray[np.int32], groups: PortGroups, first: int, leaf_rank: int
) -> tuple[PortGroups, NDArray[np.int64]]:
    """Index all rows by a search from a leaf, and order the groups of each row by index.

    An index consists of the rank and one digit per level below the roots. A row copies all digits
    but one from the row from which the search reaches it; the digit of the level between the two
    rows is the lowest unused digit. Thus switches of one subtree have the same first digits.

    Returns the groups, of which upward ones, and downward ones except those of leaves, are ordered
    by index; and the index of each row, the largest int64 for rows that are not reached.
    """
    none = np.iinfo(np.int64).max
    index: dict[int, int] = {first: int(rank[first]) * _ONE_RANK + _tail(leaf_rank)}
    taken = set(index.values())
    free: dict[tuple[int, int], int] = {}
    ranks = rank.tolist()
    start, order, head = groups.start.tolist(), groups.order.tolist(), groups.head.tolist()
    queue = deque([first])
    while queue:
        row = queue.popleft()
        at = ranks[row]
        for direction, change, digit in ((DOWN, _ONE_RANK, at + 1), (UP, -_ONE_RANK, at)):
            if direction == DOWN and at >= leaf_rank:
                continue
            shift = 8 * (INDEX_BYTES - 1 - digit)
            base = (index[row] + change) & ~(255 << shift)
            for k in range(start[3 * row + direction], start[3 * row + direction + 1]):
                other = head[order[k]]
                if other < 0 or other in index:
                    continue
                value = free.get((base, digit), 0)
                while value < 255 and base + (value << shift) in taken:
                    value += 1
                free[base, digit] = value + 1
                index[other] = base + (value << shift) if value < 255 else none
                taken.add(index[other])
                if value < 255:
                    queue.append(other)
    of_row = np.full(len(rank), none, dtype=np.int64)
    of_row[list(index)] = list(index.values())
    position = np.unique(of_row, return_inverse=True)[1].astype(np.int32)
    of_group = np.append(position, len(position))[groups.head].astype(np.int32)

    row_of = np.repeat(np.arange(len(rank)), np.diff(groups.start[::3]))
    direction_of = np.repeat(np.arange(3 * len(rank)) % 3, np.diff(groups.start))
    by_index = (of_row[row_of] != none) & (
        ((direction_of == DOWN) & (rank[row_of] < leaf_rank)) | (direction_of == UP)
    )
    key = np.where(by_index, of_group[groups.order], 0)
    keep = np.lexsort((key, direction_of, row_of))
    return replace(groups, order=groups.order[keep], place=of_group), of_row


def find_families(groups: PortGroups) -> NDArray[np.int32]:
    """Return a number for the set of children of each row, equal for equal sets, int32 [rows]."""
    rows = len(groups.start) // 3
    known: dict[bytes, int] = {}
    family = np.empty(rows, dtype=np.int32)
    for row in range(rows):
        heads = np.sort(groups.head[groups.of(row, DOWN)])
        family[row] = known.setdefault(heads[np.searchsorted(heads, 0) :].tobytes(), len(known))
    return family


def _tail(leaf_rank: int) -> int:
    """Return the digits of the first leaf's index: 0 for levels of the tree, 255 for all others."""
    used = min(leaf_rank, INDEX_BYTES - 1)
    return (1 << 8 * (INDEX_BYTES - 1 - used)) - 1


def check_pure(fabric: Fabric, rank: NDArray[np.int32], groups: PortGroups, leaf_rank: int) -> None:
    """Refuse a tree whose switches of one rank differ, as OpenSM does without a list of roots.

    Each switch is compared with the first of its rank: groups up, groups down (except for leaves,
    whose hosts may be missing), cables to each parent, and cables to the first child.
    """
    ups, downs = groups.count(UP), groups.count(DOWN)
    model: dict[int, int] = {}
    rows = np.flatnonzero(rank >= 0)
    for row in rows[by_guid(fabric, fabric.graph.row_node[rows])].tolist():
        at = int(rank[row])
        if at not in model:
            model[at] = row
            continue
        like = model[at]
        what = ""
        if ups[row] != ups[like]:
            what = f"{ups[row]} and {ups[like]} neighbours above"
        elif at != leaf_rank and downs[row] != downs[like]:
            what = f"{downs[row]} and {downs[like]} neighbours below"
        elif ups[like]:
            size = groups.size(groups.of(like, UP)[0])
            if any(groups.size(group) != size for group in groups.of(row, UP)):
                what = "different numbers of cables to the switches above"
        if not what and at != leaf_rank and downs[like]:
            pair = [groups.size(groups.of(one, DOWN)[0]) for one in (row, like)]
            if pair[0] != pair[1]:
                what = f"{pair[0]} and {pair[1]} cables to a neighbour below"
        if what:
            names = [fabric.node_names[fabric.graph.row_node[one]] for one in (row, like)]
            raise NotApplicable(
                f"this is not a complete fat tree: switches {names[0]} and {names[1]} of one level "
                f"have {what}; specify the roots, or use pure=false"
            )
