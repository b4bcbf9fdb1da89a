"""Recognition of complete and degraded tori and meshes in fabrics without labels.

A torus is a graph product of rings, a mesh is a product of lines. A *step* is the set of cables
between two successive coordinates of one dimension. In a product, opposite sides of every square (a
cycle of four cables) belong to the same step, and two steps of one dimension are never sides of one
square. The opposite sides of squares therefore form classes of cables, one per step; classes that
continue each other in a straight line form the ring or line of a dimension. Missing parts only
remove squares, so that a step can split into several classes, but a class never contains cables of
two steps. A ring of four is itself a square and is recognised as two dimensions of two switches,
which is the same fabric; such pairs of dimensions can then be folded into rings of four.

On rings of three or four, and in small meshes, two missing cables can leave too few squares. Then
each way to replace the cables that switches lack is tried, if these are few.

Sources: the product relation of Feder 1992 and Imrich and Klavžar 2000. OpenSM's torus-2QoS also
finds switches by squares, but starts from a given seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.torus import adjacent_edges, unite_squares

#: Rules that decide which steps continue each other if squares may be missing. First value: number
#: of switches at which two steps beside a common third step must meet to continue each other.
#: Second value: whether two steps without a common third step continue each other if each has no
#: other choice.
TRUST = ((1, True), (1, False), (2, True), (2, False), (10**9, True))


@dataclass(frozen=True, eq=False)
class NeighbourGraph:
    """Simple graph of some rows, numbered from 0, with one edge per pair of neighbours.

    `rows` are the rows of the fabric; `offset`, `other` and `edge` are a CSR of each row's
    neighbours, ascending, and of the undirected edges to them; `low` and `high` are the ends of
    each edge, which points from `low` to `high`. All are int32.
    """

    fabric: Fabric
    rows: NDArray[np.int32]
    offset: NDArray[np.int32]
    other: NDArray[np.int32]
    edge: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]

    def name(self, row: int) -> str:
        """Return the node name of a row."""
        return str(self.fabric.node_names[self.fabric.graph.row_node[self.rows[row]]])


def links_of(fabric: Fabric, rows: NDArray[np.int32]) -> NeighbourGraph:
    """Return the simple graph of some rows, without parallel cables and loops."""
    graph = fabric.graph
    number = np.full(graph.num_rows, -1, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    tail, head = number[graph.edge_tail], number[graph.edge_row]
    keep = (tail >= 0) & (tail < head)
    low, high = np.divmod(np.unique(tail[keep] * len(rows) + head[keep]), max(len(rows), 1))
    return _linked(fabric, rows, low, high)


def _linked(
    fabric: Fabric, rows: NDArray[np.int32], low: NDArray[np.int64], high: NDArray[np.int64]
) -> NeighbourGraph:
    tails, heads = np.concatenate((low, high)), np.concatenate((high, low))
    order = np.lexsort((heads, tails))
    offset = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(np.bincount(tails, minlength=len(rows)), out=offset[1:])
    return NeighbourGraph(
        fabric,
        rows,
        offset,
        heads[order].astype(np.int32),
        np.tile(np.arange(len(low), dtype=np.int32), 2)[order],
        low.astype(np.int32),
        high.astype(np.int32),
    )


#: For each dimension the ports at which its steps begin, in order, and whether they form a ring.
Chains = list[tuple[list[int], bool]]


@dataclass(frozen=True, eq=False)
class Squares:
    """Classes of edges on opposite sides of squares, and pairs of edges that meet at a row.

    `parent` and `flip` contain for each edge its class, and whether the edge points opposite to the
    class. `one` and `two` are the pairs, as indices of `NeighbourGraph.edge`; `square` is 1 if the
    edges of a pair are two sides of a square; `strong` is 1 if they are not, but each of them is in
    a square with a common third edge.
    """

    parent: NDArray[np.int32]
    flip: NDArray[np.uint8]
    one: NDArray[np.int32]
    two: NDArray[np.int32]
    square: NDArray[np.uint8]
    strong: NDArray[np.uint8]


def squares_of(links: NeighbourGraph) -> Squares:
    """Find the squares of a graph."""
    parent = np.arange(len(links.low), dtype=np.int32)
    flip = np.zeros(len(parent), dtype=np.uint8)
    if unite_squares(links.offset, links.other, links.edge, parent, flip):
        raise NotApplicable("not a torus: its squares make a cable parallel to its own reverse")
    degree = np.diff(links.offset).astype(np.int64)
    room = int((degree * (degree - 1) // 2).sum())
    one, two = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    square, strong = np.empty(room, dtype=np.uint8), np.empty(room, dtype=np.uint8)
    joined = np.empty((degree.max(), degree.max()), dtype=np.bool_)
    adjacent_edges(links.offset, links.other, one, two, square, strong, joined)
    return Squares(parent, flip, one, two, square, strong)


def steps_of(
    links: NeighbourGraph, squares: Squares, least: int, guess: bool
) -> tuple[NDArray[np.int64], NDArray[np.uint8], Chains]:
    """Return the step of each edge, whether the edge points opposite to it, and the chains.

    Here a port is an end of a step, numbered ``2 * step + end``; end 1 is the head.
    `least`, `guess`: the two values of an item of `TRUST`.

    Raises `NotApplicable` if a switch would have two cables of one step.
    """
    degree = np.diff(links.offset)
    tail = np.repeat(np.arange(len(degree)), degree)
    at_head = (tail == links.high[links.edge]).astype(np.uint8)
    roots = squares.parent == np.arange(len(squares.parent))
    step, size = (np.cumsum(roots) - 1)[squares.parent], int(roots.sum())
    turned = squares.flip.copy()
    while True:
        port = 2 * step[links.edge] + (at_head ^ turned[links.edge])
        _refuse_forks(links, tail, port)
        pairs = _pair(port[squares.one], port[squares.two], 2 * size)
        # Most rows of a torus have the same pairs of ports.
        kinds, counts = np.unique(
            4 * pairs + 2 * squares.square + squares.strong, return_counts=True
        )
        p, q = np.divmod(kinds // 4, 2 * size)
        square, strong, steps = kinds & 2 > 0, kinds & 1 > 0, _pair(p // 2, q // 2, size)
        together = np.unique(steps[square])
        apart = ~square & ~np.isin(steps, together) & (p // 2 != q // 2)
        sure = _both(p, q, apart & strong & (counts >= least))
        joins = _joins(sure)
        if not len(joins):
            break
        step, turned, size = _united(step, turned, joins, size)
    partner = {int(a): int(b) for a, b in sure.tolist()}
    if guess:
        _match_unique(partner, _both(p, q, apart & ~strong))
    weight = np.bincount(step, minlength=size)
    chains = _independent(_chains(partner, size), weight, together, size)
    return step, turned, chains


def _refuse_forks(links: NeighbourGraph, tail: NDArray[np.int64], port: NDArray[np.int64]) -> None:
    """Refuse a switch with two cables of one step."""
    key = np.sort(tail * (int(port.max()) // 2 + 1) + port // 2)
    double = key[1:][key[1:] == key[:-1]]
    if len(double):
        row = int(double[0] // (int(port.max()) // 2 + 1))
        raise NotApplicable(
            f"not a torus: two cables of {links.name(row)} are parallel sides of squares"
        )


def _pair(a: NDArray[np.int64], b: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return one number for each unordered pair."""
    return np.minimum(a, b) * size + np.maximum(a, b)


def _both(p: NDArray[np.int64], q: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the kept pairs in both orders, int64 [pairs, 2], ascending."""
    both = np.concatenate((np.stack((p[keep], q[keep]), 1), np.stack((q[keep], p[keep]), 1)))
    return both[np.lexsort(both.T[::-1])]


def _joins(sure: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return pairs of ports that continue the same port, and so belong to one step."""
    same = sure[1:, 0] == sure[:-1, 0]
    return np.stack((sure[:-1, 1][same], sure[1:, 1][same]), 1)


def _united(
    step: NDArray[np.int64], turned: NDArray[np.uint8], joins: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """Merge the classes of each pair of ports so that the two ports become one."""
    one, two = np.concatenate((joins, joins ^ 1)).T
    same = csr_array((np.ones(len(one)), (one, two)), shape=(2 * size, 2 * size))
    label = connected_components(same, directed=False)[1]
    if np.any(label[::2] == label[1::2]):
        raise NotApplicable("not a torus: a step continues into its own reverse")
    first = np.unique(label, return_index=True)[1][label[::2]]
    kept, number = np.unique(first // 2, return_inverse=True)
    return number[step], turned ^ (first & 1)[step].astype(np.uint8), len(kept)


def _match_unique(partner: dict[int, int], weak: NDArray[np.int64]) -> None:
    """Repeatedly connect two ports of which each is the only remaining choice of the other."""
    while True:
        choice: dict[int, list[int]] = {}
        for a, b in weak.tolist():
            if a not in partner and b not in partner:
                choice.setdefault(a, []).append(b)
        only = {a: bs[0] for a, bs in choice.items() if len(bs) == 1}
        joined = {a: b for a, b in only.items() if only.get(b) == a}
        if not joined:
            return
        partner.update(joined)


def _chains(partner: dict[int, int], size: int) -> Chains:
    """Return rings and lines of classes: the ports at which classes begin, and whether a ring."""
    seen = [False] * size
    chains = []
    starts = [port for port in range(2 * size) if port not in partner]
    for closed, candidates in ((False, starts), (True, list(range(0, 2 * size, 2)))):
        for start in candidates:
            if seen[start // 2]:
                continue
            chain = []
            port: int | None = start
            while port is not None and not seen[port // 2]:
                seen[port // 2] = True
                chain.append(port)
                port = partner.get(port ^ 1)
            chains.append((chain, closed))
    return chains


def _independent(
    chains: Chains, weight: NDArray[np.int64], together: NDArray[np.int64], size: int
) -> Chains:
    """Return the heaviest chains of which every two have a common square."""
    number = np.full(size, -1, dtype=np.int64)
    for index, (chain, _) in enumerate(chains):
        number[np.array(chain) // 2] = index
    one, two = np.divmod(together, size)
    joined = set(_pair(number[one], number[two], len(chains)).tolist())
    heavy = [(-int(weight[np.array(chain) // 2].sum()), index) for index, (chain, _) in
             enumerate(chains)]  # fmt: skip
    taken: list[int] = []
    for _, index in sorted(heavy):
        if all(min(a, index) * len(chains) + max(a, index) in joined for a in taken):
            taken.append(index)
    return [chains[index] for index in taken]


#: Largest number of missing cables of which each replacement is tried.
MOST_REPLACED = 3
#: Largest mesh of which each replacement of two missing cables is tried.
MOST_IN_MESH = 25
#: Maximum number of dimensions; a dimension of two switches counts half, since two such dimensions
#: are a ring of four.
MAX_DIMENSIONS = 6


@dataclass(frozen=True, eq=False)
class Torus:
    """A torus, mesh or mixture of them that is a fabric or a connected component of one."""

    #: int32: rows of the torus.
    rows: NDArray[np.int32]
    #: Number of switches in each dimension, missing ones included.
    radix: tuple[int, ...]
    #: Whether each dimension is a ring; otherwise it is a line.
    wraps: tuple[bool, ...]
    #: int32 [rows, dimensions], in the order of `rows`.
    coordinate: NDArray[np.int32]
    #: Number of pairs of neighbours that a cable joins.
    joined: int = 0

    @property
    def missing(self) -> int:
        """Number of grid positions without a switch."""
        return prod(self.radix) - len(self.rows)

    @property
    def complete(self) -> bool:
        """Whether all switches and all cables between neighbours exist."""
        return not self.missing and self.joined == sum(
            len(self.rows) // size * (size if wrap and size > 2 else size - 1)
            for size, wrap in zip(self.radix, self.wraps, strict=True)
        )

    def folded(self) -> Torus:
        """Return the torus with rings of four in place of pairs of dimensions of two switches."""
        pairs = [d for d in range(len(self.radix)) if self.radix[d] == 2]
        pairs = pairs[: len(pairs) // 2 * 2]
        if not pairs:
            return self
        return self.fold(list(zip(pairs[::2], pairs[1::2], strict=True)))

    def fold(self, pairs: Iterable[tuple[int, int]]) -> Torus:
        """Return the torus with rings of four in place of the given pairs of dimensions.

        A ring replaces the first dimension of its pair and starts with a step in that dimension.
        """
        radix, wraps = list(self.radix), list(self.wraps)
        coordinate = self.coordinate.copy()
        gone = []
        for one, two in pairs:
            radix[one], wraps[one] = 4, True
            a, b = self.coordinate[:, one], self.coordinate[:, two]
            coordinate[:, one] = np.where(b == 0, a, 3 - a)
            gone.append(two)
        stay = [d for d in range(len(radix)) if d not in gone]
        return replace(
            self,
            radix=tuple(radix[d] for d in stay),
            wraps=tuple(wraps[d] for d in stay),
            coordinate=np.ascontiguousarray(coordinate[:, stay]),
        )

    def arranged(self, order: list[int], offset: list[int], sign: list[int]) -> Torus:
        """Return the torus with dimensions reordered and changed to ``sign * coordinate + offset``.

        `offset` and `sign` are in the new order.
        """
        radix = np.array([self.radix[d] for d in order], dtype=np.int32)
        moved = self.coordinate[:, order] * np.array(sign, np.int32) + np.array(offset, np.int32)
        return replace(
            self,
            radix=tuple(radix.tolist()),
            wraps=tuple(self.wraps[d] for d in order),
            coordinate=np.ascontiguousarray(moved % radix, dtype=np.int32),
        )

    def text(self) -> str:
        """Return sizes and kind, such as ``5x5x4 torus``, ``4x4 mesh`` or ``4tx5tx3m torus``."""
        if not self.radix:
            return "single switch"
        sizes = "x".join(map(str, self.radix))
        rings = [d for d in range(len(self.radix)) if self.radix[d] > 2]
        if all(self.wraps[d] for d in rings) and rings:
            kind = "torus" if len(self.radix) > 1 else "ring"
        elif not any(self.wraps):
            kind = "mesh" if len(self.radix) > 1 else "line"
        else:
            marks = "x".join(
                f"{size}{'t' if wrap else 'm'}"
                for size, wrap in zip(self.radix, self.wraps, strict=True)
            )
            return f"{marks} torus"
        return f"{sizes} {kind}"


def find_tori(fabric: Fabric) -> list[Torus]:
    """Return the connected components of a fabric as tori and meshes, by lowest row.

    Returns the tori before `Torus.folded`. Longer dimensions are first, and among equally long ones
    rings are before lines. Coordinates of rings start at the switch of lowest GUID and ascend
    towards its neighbour of lower GUID; coordinates of lines start at the end nearer to that
    switch. Single switches have no dimensions.

    Raises `NotApplicable` if a component is not a torus or mesh of at most six dimensions; the
    message names a switch or cable.
    """
    label = fabric.graph.components
    rows = np.argsort(label, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(label))
    return [_find(fabric, part) for part in np.split(rows, ends) if len(part)]


def _find(fabric: Fabric, rows: NDArray[np.int32]) -> Torus:
    if len(rows) == 1:
        return Torus(rows, (), (), np.zeros((1, 0), dtype=np.int32))
    links = links_of(fabric, rows)
    degree = np.diff(links.offset)
    if degree.max() > 2 * MAX_DIMENSIONS:
        row = int(degree.argmax())
        raise NotApplicable(
            f"{links.name(row)} has {degree[row]} neighbours; a switch of a torus of "
            f"{MAX_DIMENSIONS} dimensions has at most {2 * MAX_DIMENSIONS}"
        )
    try:
        torus = _best(links)
    except NotApplicable:
        repaired = next(_repaired(links), None)
        if repaired is None:
            raise
        torus = replace(repaired, joined=len(links.low))
    if sum(1.0 if size > 2 else 0.5 for size in torus.radix) > MAX_DIMENSIONS:
        raise NotApplicable(f"the torus has more than {MAX_DIMENSIONS} dimensions")
    return _canonical(links, torus)


def _repaired(links: NeighbourGraph) -> Iterator[Torus]:
    """Yield complete tori and meshes that differ by a few cables."""
    cabled = set(zip(links.low.tolist(), links.high.tolist(), strict=True))
    for added in itertools.chain(_replaced_in_tori(links), _replaced_in_meshes(links)):
        if added & cabled or any(a == b for a, b in added):
            continue
        low, high = np.array(sorted(cabled | added), dtype=np.int64).T
        try:
            torus = _best(_linked(links.fabric, links.rows, low, high))
        except NotApplicable:
            continue
        if torus.complete:
            yield torus


def _replaced_in_tori(links: NeighbourGraph) -> Iterator[set[tuple[int, int]]]:
    """Yield sets of a few cables with which all switches have equally many neighbours."""
    degree = np.diff(links.offset)
    lacks = degree.max() - degree
    if not 0 < lacks.sum() <= 2 * MOST_REPLACED:
        return
    guid = links.fabric.node_guid[links.fabric.graph.row_node[links.rows]]
    ends = np.repeat(np.argsort(guid), lacks[np.argsort(guid)]).tolist()
    for pairs in _pairings(ends):
        added = {(min(pair), max(pair)) for pair in pairs}
        if len(added) == len(pairs):
            yield added


def _replaced_in_meshes(links: NeighbourGraph) -> Iterator[set[tuple[int, int]]]:
    """Yield pairs of fourth sides of squares that give the numbers of neighbours of a mesh."""
    degree, size = np.diff(links.offset), len(links.rows)
    meshes = [each for each in _mesh_degrees(size) if each.sum() == degree.sum() + 4]
    if not meshes or size > MOST_IN_MESH:
        return
    wanted = {tuple(np.bincount(each).tolist()) for each in meshes}
    near = np.zeros((size, size), dtype=np.int64)
    near[links.low, links.high] = near[links.high, links.low] = 1
    seen = set()
    for first in _fourth_sides(near):
        with_first = near.copy()
        with_first[first] = with_first[first[::-1]] = 1
        for second in _fourth_sides(with_first):
            after = degree + np.bincount([*first, *second], minlength=size)
            added = frozenset((first, second))
            if tuple(np.bincount(after).tolist()) in wanted and added not in seen:
                seen.add(added)
                yield set(added)


def _fourth_sides(near: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the ends of paths of three hops that are not neighbours."""
    low, high = np.nonzero(np.triu((near @ near @ near > 0) & (near == 0), 1))
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _mesh_degrees(size: int, least: int = 2) -> Iterator[NDArray[np.int64]]:
    """Yield the number of neighbours of each switch, for each mesh of this number of switches."""
    for radix in range(least, size + 1):
        line = np.full(radix, 2)
        line[[0, -1]] = 1
        if size == radix:
            yield line
        elif size % radix == 0:
            for others in _mesh_degrees(size // radix, radix):
                yield np.add.outer(line, others).reshape(-1)


def _pairings(ends: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield all ways to divide an even number of ends into pairs."""
    if not ends:
        yield []
    for at in range(1, len(ends)):
        for others in _pairings(ends[1:at] + ends[at + 1 :]):
            yield [(ends[0], ends[at]), *others]


def _best(links: NeighbourGraph) -> Torus:
    """Return the grid with the fewest empty positions among those that the rules of `TRUST` give.

    If parts are missing, two cables around a corner can look like two cables in a straight line.
    """
    squares = squares_of(links)
    best: Torus | None = None
    reason: NotApplicable | None = None
    for least, guess in TRUST:
        try:
            torus = _placed(links, *steps_of(links, squares, least, guess))
        except NotApplicable as refusal:
            reason = reason or refusal
            continue
        if best is None or torus.missing < best.missing:
            best = torus
        if best.missing == 0:
            break
    if best is None:
        assert reason is not None
        raise reason
    return best


def _placed(
    links: NeighbourGraph, step: NDArray[np.int64], against: NDArray[np.uint8], chains: Chains
) -> Torus:
    """Return the coordinates of all rows, checked against all cables."""
    dimensions = len(chains)
    number = int(step.max()) + 1
    dimension = np.full(number, -1, dtype=np.int64)
    position = np.zeros((number, 2), dtype=np.int64)
    radix, wraps = [], []
    for d, (chain, closed) in enumerate(chains):
        if closed and len(chain) < 3:
            raise NotApplicable("not a torus: two steps form a ring")
        radix.append(len(chain) if closed else len(chain) + 1)
        wraps.append(closed)
        for at, port in enumerate(chain):
            dimension[port // 2] = d
            position[port // 2, port & 1] = at
            position[port // 2, 1 - (port & 1)] = (at + 1) % radix[-1]
    degree = np.diff(links.offset)
    tail = np.repeat(np.arange(len(degree)), degree)
    end = (tail == links.high[links.edge]) ^ against[links.edge]
    step = step[links.edge]
    coordinate = np.full((len(degree), dimensions), -1, dtype=np.int32)
    along = dimension[step]
    use = along >= 0
    coordinate[tail[use], along[use]] = position[step[use], end[use].astype(np.int64)]
    wrong = np.flatnonzero(use & (coordinate[tail, along] != position[step, end.astype(np.int64)]))
    if len(wrong):
        raise NotApplicable(
            f"{links.name(int(tail[wrong[0]]))} has no consistent coordinates in a torus"
        )
    _spread(links, along, coordinate)
    grid = _Grid(links, radix, wraps, coordinate)
    grid.fill()
    grid.check()
    return Torus(links.rows, tuple(grid.radix), tuple(grid.wraps), grid.coordinate, len(links.low))


def _spread(links: NeighbourGraph, along: NDArray[np.int64], coordinate: NDArray[np.int32]) -> None:
    """Copy coordinates between neighbours, except in the dimension in which they differ."""
    todo = [int(row) for row in np.flatnonzero((coordinate < 0).any(axis=1))]
    changed = True
    while changed and todo:
        changed = False
        for row in todo:
            for k in range(links.offset[row], links.offset[row + 1]):
                if along[k] < 0:
                    continue
                near = coordinate[links.other[k]]
                gain = (coordinate[row] < 0) & (near >= 0)
                gain[along[k]] = False
                if gain.any():
                    coordinate[row, gain] = near[gain]
                    changed = True
        todo = [row for row in todo if (coordinate[row] < 0).any()]


@dataclass(eq=False)
class _Grid:
    """A partly known grid, to which the remaining rows are added by elimination."""

    links: NeighbourGraph
    radix: list[int]
    wraps: list[bool]
    coordinate: NDArray[np.int32]

    def fill(self) -> None:
        """Give each remaining row a free position next to the positions of all known neighbours."""
        unknown: NDArray[np.bool_] = np.any(self.coordinate < 0, axis=1)
        todo = np.flatnonzero(unknown).tolist()
        if len(todo) == len(self.coordinate):
            raise NotApplicable("the cables form neither squares nor a ring or line")
        self.coordinate[unknown] = -1
        taken = {tuple(row) for row in self.coordinate[~unknown].tolist()}
        sure = True
        while todo:
            placed = False
            for row in todo:
                positions = self._candidates(row, taken)
                if positions and (len(positions) == 1 or not sure):
                    choice = min(positions)
                    self.coordinate[row] = choice
                    taken.add(choice)
                    todo.remove(row)
                    placed, sure = True, True
                    break
            if not placed and not sure:
                raise NotApplicable(
                    f"{self.links.name(todo[0])} has no position in the "
                    f"{'x'.join(map(str, self.radix))} grid that the other switches form"
                )
            sure = placed

    def _candidates(self, row: int, taken: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
        near = self.links.other[self.links.offset[row] : self.links.offset[row + 1]]
        known = [self.coordinate[other] for other in near if self.coordinate[other, 0] >= 0]
        if not known:
            return set()
        positions = set.intersection(*(self._around(position) for position in known)) - taken
        if not positions and len(known) > 1:
            positions = self._extended(known, taken)
        return positions

    def _around(self, position: NDArray[np.int32]) -> set[tuple[int, ...]]:
        neighbours = set()
        for d, (size, wrap) in enumerate(zip(self.radix, self.wraps, strict=True)):
            for step in (-1, 1):
                other = position.tolist()
                other[d] += step
                if wrap:
                    other[d] %= size
                if 0 <= other[d] < size:
                    neighbours.add(tuple(other))
        return neighbours

    def _extended(
        self, known: list[NDArray[np.int32]], taken: set[tuple[int, ...]]
    ) -> set[tuple[int, ...]]:
        """Make a line a ring of one more switch if that gives positions; return these positions."""
        for d in range(len(self.radix)):
            if self.wraps[d]:
                continue
            self.radix[d] += 1
            self.wraps[d] = True
            positions = set.intersection(*(self._around(position) for position in known)) - taken
            if positions:
                return positions
            self.radix[d] -= 1
            self.wraps[d] = False
        return set()

    def check(self) -> None:
        """Check that positions differ and each cable is a step; mark lines that are rings."""
        links = self.links
        size = np.array(self.radix, dtype=np.int64)
        key = self.coordinate @ np.concatenate(([1], np.cumprod(size)[:-1]))
        order = np.argsort(key, kind="stable")
        same = np.flatnonzero(np.diff(key[order]) == 0)
        if len(same):
            one, two = order[same[0]], order[same[0] + 1]
            raise NotApplicable(
                f"{links.name(int(one))} and {links.name(int(two))} have the same position in the "
                f"{'x'.join(map(str, self.radix))} grid that the switches form"
            )
        step = self.coordinate[links.high].astype(np.int64) - self.coordinate[links.low]
        moved = (step != 0).sum(axis=1)
        d = np.abs(step).argmax(axis=1)
        length = np.abs(step)[np.arange(len(d)), d]
        closing = (moved == 1) & (length == size[d] - 1) & (size[d] > 2)
        for dimension in np.unique(d[closing]).tolist():
            self.wraps[dimension] = True
        wrong = np.flatnonzero(~((moved == 1) & ((length == 1) | closing)))
        if len(wrong):
            one, two = int(links.low[wrong[0]]), int(links.high[wrong[0]])
            raise NotApplicable(
                f"the cable from {links.name(one)} to {links.name(two)} is not a step in the "
                f"{'x'.join(map(str, self.radix))} grid that the switches form"
            )


def _canonical(links: NeighbourGraph, torus: Torus) -> Torus:
    """Order dimensions, and start coordinates at the lowest GUID; see `find_tori`."""
    fabric = links.fabric
    guid = fabric.node_guid[fabric.graph.row_node[links.rows]]
    origin = int(guid.argmin())
    near = links.other[links.offset[origin] : links.offset[origin + 1]]
    start = torus.coordinate[origin]
    order, offset, sign = [], [], []
    keys: list[tuple[Any, ...]] = []
    for d, (size, wrap) in enumerate(zip(torus.radix, torus.wraps, strict=True)):
        around = {
            int((torus.coordinate[row, d] - start[d]) % size if wrap else
                torus.coordinate[row, d] - start[d]): int(guid[row])
            for row in near
            if torus.coordinate[row, d] != start[d]
        }  # fmt: skip
        up, down = around.get(1), around.get(size - 1 if wrap else -1)
        reverse = up is None or (down is not None and down < up)
        if not wrap:
            middle = 2 * int(start[d]) - (size - 1)
            reverse = middle > 0 or (middle == 0 and reverse)
        elif size == 2:
            reverse = False
        sign.append(-1 if reverse else 1)
        if wrap:
            offset.append(int(start[d]) if reverse else -int(start[d]))
        else:
            offset.append(size - 1 if reverse else 0)
        keys.append((-size, not wrap, min([x for x in (up, down) if x is not None], default=2**64)))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return torus.arranged(order, [offset[d] for d in order], [sign[d] for d in order])
