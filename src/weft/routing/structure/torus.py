"""Recognising tori and meshes in unlabelled fabrics, whole or with parts missing.

A torus is a product of rings, a mesh one of lines. In a product the opposite sides of every square
(a cycle of four cables) are the same step of the same dimension, and two steps of one dimension
never are sides of one square. So the squares, followed from one to the next, put all cables of a
step in one class; classes that go straight on where they meet form the ring or line. What is
missing only takes squares away, so that classes can fall into parts but never mix. A ring of four
is itself a square and comes out as two dimensions of two switches, which is the same fabric; such
pairs are folded into rings of four again.

Sources: the product relation of Feder 1992 and Imrich and Klavžar 2000; OpenSM's torus-2QoS finds
switches by squares, too, but from a seed that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.torus import edge_meets, unite_squares
from weft.routing.engine_registry import components

#: Ways to read squares of which some may be missing, in turn: at how many switches two steps that
#: have a third one at their side must meet to go straight on, and whether steps that have none do
#: where nothing else is left.
TRUST = ((1, True), (1, False), (2, True), (2, False), (10**9, True))


@dataclass(frozen=True, eq=False)
class Links:
    """Simple graph of a part: rows numbered within it, each pair of neighbours joined once.

    `rows` are the fabric's; `offset`, `other` and `edge` are a CSR of the neighbours, ascending,
    and the undirected edges to them, which point from `low` to `high`; all int32.
    """

    fabric: Fabric
    rows: NDArray[np.int32]
    offset: NDArray[np.int32]
    other: NDArray[np.int32]
    edge: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]

    def name(self, row: int) -> str:
        """Label of a row."""
        return str(self.fabric.node_names[self.fabric.graph.row_node[self.rows[row]]])


def links_of(fabric: Fabric, rows: NDArray[np.int32]) -> Links:
    """The simple graph of some rows; parallel cables count once, cables to the row itself not."""
    graph = fabric.graph
    place = np.full(graph.num_rows, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    tail, head = place[graph.edge_tail], place[graph.edge_row]
    keep = (tail >= 0) & (tail < head)
    low, high = np.divmod(np.unique(tail[keep] * len(rows) + head[keep]), max(len(rows), 1))
    tails, heads = np.concatenate((low, high)), np.concatenate((high, low))
    order = np.lexsort((heads, tails))
    offset = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(np.bincount(tails, minlength=len(rows)), out=offset[1:])
    return Links(
        fabric,
        rows,
        offset,
        heads[order].astype(np.int32),
        np.tile(np.arange(len(low), dtype=np.int32), 2)[order],
        low.astype(np.int32),
        high.astype(np.int32),
    )


@dataclass(frozen=True, eq=False)
class Steps:
    """Classes of parallel edges and the chains that they form.

    `step` and `against` are int64 and uint8 per edge: its class, and whether it points against
    it. A port is ``2 * step + end``, end 1 being the head. `chains` holds per dimension the
    ports at which its classes are entered, in order, and whether they close to a ring.
    """

    step: NDArray[np.int64]
    against: NDArray[np.uint8]
    chains: list[tuple[list[int], bool]]


@dataclass(frozen=True, eq=False)
class Squares:
    """What the squares say: classes of edges, and the pairs of edges that meet at a row."""

    parent: NDArray[np.int32]
    flip: NDArray[np.uint8]
    one: NDArray[np.int32]
    two: NDArray[np.int32]
    square: NDArray[np.uint8]
    strong: NDArray[np.uint8]


def squares_of(links: Links) -> Squares:
    """Find the squares of a graph.

    Raises
    ------
    NotApplicable
        When they make a cable parallel to its own reverse.
    """
    parent = np.arange(len(links.low), dtype=np.int32)
    flip = np.zeros(len(parent), dtype=np.uint8)
    if unite_squares(links.offset, links.other, links.edge, parent, flip):
        raise NotApplicable("its squares make a cable parallel to its own reverse, as in no torus")
    degree = np.diff(links.offset).astype(np.int64)
    room = int((degree * (degree - 1) // 2).sum())
    one, two = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    square, strong = np.empty(room, dtype=np.uint8), np.empty(room, dtype=np.uint8)
    edge_meets(links.offset, links.other, one, two, square, strong)
    return Squares(parent, flip, one, two, square, strong)


def steps_of(links: Links, squares: Squares, least: int, guess: bool) -> Steps:
    """Steps and the chains that they form.

    Parameters
    ----------
    links, squares
        The graph and its squares.
    least, guess
        See `TRUST`.

    Raises
    ------
    NotApplicable
        When a switch would have two cables of one step.
    """
    one, two, square, strong = squares.one, squares.two, squares.square, squares.strong
    degree = np.diff(links.offset)
    tail = np.repeat(np.arange(len(degree)), degree)
    at_head = (tail == links.high[links.edge]).astype(np.uint8)
    classes, step = np.unique(squares.parent, return_inverse=True)
    step = step.astype(np.int64)
    turned = squares.flip.copy()
    size = len(classes)
    while True:
        port = 2 * step[links.edge] + (at_head ^ turned[links.edge])
        _refuse_forks(links, tail, port)
        p, q = port[one], port[two]
        together = np.unique(_pair(p[square == 1] // 2, q[square == 1] // 2, size))
        apart = (square == 0) & ~np.isin(_pair(p // 2, q // 2, size), together) & (p // 2 != q // 2)
        sure, counts = np.unique(_both(p, q, apart & (strong == 1)), axis=0, return_counts=True)
        sure = sure[counts >= least]
        joins = _joins(sure)
        if not len(joins):
            break
        step, turned, size = _united(step, turned, joins, size)
    partner = {int(a): int(b) for a, b in sure.tolist()}
    if guess:
        weak = np.unique(_both(p, q, apart & (strong == 0)), axis=0)
        _match_unique(partner, weak)
    weight = np.bincount(step, minlength=size)
    chains = _independent(_chains(partner, size), weight, together, size)
    return Steps(step, turned, chains)


def _refuse_forks(links: Links, tail: NDArray[np.int64], port: NDArray[np.int64]) -> None:
    """A switch has at most one cable of each step."""
    key = np.sort(tail * (int(port.max()) // 2 + 1) + port // 2)
    double = key[1:][key[1:] == key[:-1]]
    if len(double):
        row = int(double[0] // (int(port.max()) // 2 + 1))
        raise NotApplicable(
            f"two cables of {links.name(row)} are parallel sides of squares, as in no torus"
        )


def _pair(a: NDArray[np.int64], b: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """One number for each unordered pair."""
    return np.minimum(a, b) * size + np.maximum(a, b)


def _both(p: NDArray[np.int64], q: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The kept pairs in both orders, int64 [pairs, 2]."""
    return np.concatenate((np.stack((p[keep], q[keep]), 1), np.stack((q[keep], p[keep]), 1)))


def _joins(sure: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs of ports that go straight on from one and the same, and so belong to one step."""
    same = sure[1:, 0] == sure[:-1, 0]
    return np.stack((sure[:-1, 1][same], sure[1:, 1][same]), 1)


def _united(
    step: NDArray[np.int64], turned: NDArray[np.uint8], joins: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """Unite the classes of each pair of ports, whose ends become the same end."""
    parent = list(range(size))
    flip = [0] * size

    def root(x: int) -> tuple[int, int]:
        against = 0
        while parent[x] != x:
            against ^= flip[x]
            x = parent[x]
        return x, against

    for one, two in joins.tolist():
        (a, turned_a), (b, turned_b) = root(one // 2), root(two // 2)
        against = turned_a ^ turned_b ^ (one & 1) ^ (two & 1)
        if a == b:
            if against:
                raise NotApplicable("a step goes straight on into its own reverse, as in no torus")
            continue
        a, b = min(a, b), max(a, b)
        parent[b], flip[b] = a, against
    roots = [root(x) for x in range(size)]
    kept = sorted({a for a, _ in roots})
    number = np.searchsorted(kept, [a for a, _ in roots])
    against = np.array([t for _, t in roots], dtype=np.uint8)
    return number[step].astype(np.int64), turned ^ against[step], len(kept)


def _match_unique(partner: dict[int, int], weak: NDArray[np.int64]) -> None:
    """Join ports that have only each other left to go straight on to, again and again."""
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


def _chains(partner: dict[int, int], size: int) -> list[tuple[list[int], bool]]:
    """Rings and lines of classes: the ports by which they are entered, and whether it closes."""
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
    chains: list[tuple[list[int], bool]],
    weight: NDArray[np.int64],
    together: NDArray[np.int64],
    size: int,
) -> list[tuple[list[int], bool]]:
    """The heaviest chains each of which is a side of squares with every other one."""
    number = np.full(size, -1, dtype=np.int64)
    for place, (chain, _) in enumerate(chains):
        number[np.array(chain) // 2] = place
    one, two = np.divmod(together, size)
    joined = np.unique(_pair(number[one], number[two], len(chains)))
    heavy = [(-int(weight[np.array(chain) // 2].sum()), place) for place, (chain, _) in
             enumerate(chains)]  # fmt: skip
    joined_set = set(joined.tolist())
    taken: list[int] = []
    for _, place in sorted(heavy):
        if all(min(a, place) * len(chains) + max(a, place) in joined_set for a in taken):
            taken.append(place)
    return [chains[place] for place in taken]


#: Dimensions that are looked for; two switches per dimension count half, since two such
#: dimensions are a ring of four.
MAX_DIMENSIONS = 6


@dataclass(frozen=True, eq=False)
class Torus:
    """A torus, mesh or mixture found in a fabric, or in a connected part of it.

    Parameters
    ----------
    rows
        int32: the rows that belong to it.
    radix
        Switches in each dimension, those that are missing included.
    wraps
        Whether each dimension is a ring; otherwise it is a line.
    coordinate
        int32 [rows, dimensions], in the order of `rows`.
    """

    rows: NDArray[np.int32]
    radix: tuple[int, ...]
    wraps: tuple[bool, ...]
    coordinate: NDArray[np.int32]

    @property
    def missing(self) -> int:
        """Places without a switch."""
        return prod(self.radix) - len(self.rows)

    def folded(self) -> Torus:
        """The same with pairs of dimensions of two switches as rings of four."""
        pairs = [d for d in range(len(self.radix)) if self.radix[d] == 2]
        pairs = pairs[: len(pairs) // 2 * 2]
        if not pairs:
            return self
        return self.fold(list(zip(pairs[::2], pairs[1::2], strict=True)))

    def fold(self, pairs: Iterable[tuple[int, int]]) -> Torus:
        """The same with these pairs of dimensions as rings of four, in the first one's place.

        The ring starts with a step in the first dimension of the pair.
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
        """Dimensions in another order, each turned or reversed: ``sign * coordinate + offset``."""
        radix = np.array([self.radix[d] for d in order], dtype=np.int32)
        moved = self.coordinate[:, order] * np.array(sign, np.int32) + np.array(offset, np.int32)
        return replace(
            self,
            radix=tuple(radix.tolist()),
            wraps=tuple(self.wraps[d] for d in order),
            coordinate=np.ascontiguousarray(moved % radix, dtype=np.int32),
        )

    def text(self) -> str:
        """What it is, as ``5x5x4 torus``, ``4x4 mesh`` or ``torus of 4x5 and lines of 3``."""
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
    """The tori and meshes that the connected parts of a fabric are, by lowest row.

    Returns
    -------
    list of Torus
        With dimensions of two switches apart (see `Torus.folded`), longer dimensions and rings
        first. Rings start at the switch of lowest GUID and go up towards the neighbour of lower
        GUID, lines start at the end nearer to it. Parts of a single switch have no dimensions.

    Raises
    ------
    NotApplicable
        With the switch or cable that belongs to no torus of at most six dimensions.
    """
    label = components(fabric)
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
            f"{links.name(row)} has {degree[row]} neighbours; a torus of {MAX_DIMENSIONS} "
            f"dimensions has {2 * MAX_DIMENSIONS}"
        )
    found = _best(links)
    if sum(1.0 if size > 2 else 0.5 for size in found.radix) > MAX_DIMENSIONS:
        raise NotApplicable(f"it would have more than {MAX_DIMENSIONS} dimensions")
    return _canonical(links, found)


def _best(links: Links) -> Torus:
    """The grid with fewest empty places that any of several ways to read the squares gives.

    Where something is missing, cables that turn a corner can look like ones that go straight on.
    """
    squares = squares_of(links)
    best: Torus | None = None
    reason: NotApplicable | None = None
    for least, guess in TRUST:
        try:
            found = _placed(links, steps_of(links, squares, least, guess))
        except NotApplicable as refusal:
            reason = reason or refusal
            continue
        if best is None or found.missing < best.missing:
            best = found
        if best.missing == 0:
            break
    if best is None:
        assert reason is not None
        raise reason
    return best


def _placed(links: Links, steps: Steps) -> Torus:
    """Coordinates of all rows, checked cable by cable."""
    dimensions = len(steps.chains)
    number = int(steps.step.max()) + 1
    dimension = np.full(number, -1, dtype=np.int64)
    position = np.zeros((number, 2), dtype=np.int64)
    radix, wraps = [], []
    for d, (chain, closed) in enumerate(steps.chains):
        if closed and len(chain) < 3:
            raise NotApplicable("two steps close a ring, as in no torus")
        radix.append(len(chain) if closed else len(chain) + 1)
        wraps.append(closed)
        for at, port in enumerate(chain):
            dimension[port // 2] = d
            position[port // 2, port & 1] = at
            position[port // 2, 1 - (port & 1)] = (at + 1) % radix[-1]
    degree = np.diff(links.offset)
    tail = np.repeat(np.arange(len(degree)), degree)
    end = (tail == links.high[links.edge]) ^ steps.against[links.edge]
    step = steps.step[links.edge]
    coordinate = np.full((len(degree), dimensions), -1, dtype=np.int32)
    along = dimension[step]
    use = along >= 0
    coordinate[tail[use], along[use]] = position[step[use], end[use].astype(np.int64)]
    wrong = np.flatnonzero(use & (coordinate[tail, along] != position[step, end.astype(np.int64)]))
    if len(wrong):
        raise NotApplicable(f"{links.name(int(tail[wrong[0]]))} has no consistent place in a torus")
    _spread(links, along, coordinate)
    places = _Places(links, radix, wraps, coordinate)
    places.fill()
    places.check()
    return Torus(links.rows, tuple(places.radix), tuple(places.wraps), places.coordinate)


def _spread(links: Links, along: NDArray[np.int64], coordinate: NDArray[np.int32]) -> None:
    """Neighbours in one dimension agree in all others."""
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


class _Places:
    """The grid as far as it is known, to which the rest is added by elimination."""

    def __init__(
        self, links: Links, radix: list[int], wraps: list[bool], coordinate: NDArray[np.int32]
    ) -> None:
        self.links = links
        self.radix = radix
        self.wraps = wraps
        self.coordinate = coordinate

    def fill(self) -> None:
        """Place the rows that no chain reaches where all their neighbours leave them a place."""
        unknown: NDArray[np.bool_] = np.any(self.coordinate < 0, axis=1)
        todo = np.flatnonzero(unknown).tolist()
        if len(todo) == len(self.coordinate):
            raise NotApplicable("its cables form no squares and no ring or line")
        self.coordinate[unknown] = -1
        taken = {tuple(row) for row in self.coordinate[~unknown].tolist()}
        sure = True
        while todo:
            placed = False
            for row in todo:
                places = self._candidates(row, taken)
                if places and (len(places) == 1 or not sure):
                    choice = min(places)
                    self.coordinate[row] = choice
                    taken.add(choice)
                    todo.remove(row)
                    placed, sure = True, True
                    break
            if not placed and not sure:
                raise NotApplicable(
                    f"{self.links.name(todo[0])} has no place in the "
                    f"{'x'.join(map(str, self.radix))} grid that the other switches form"
                )
            sure = placed

    def _candidates(self, row: int, taken: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
        near = self.links.other[self.links.offset[row] : self.links.offset[row + 1]]
        known = [self.coordinate[other] for other in near if self.coordinate[other, 0] >= 0]
        if not known:
            return set()
        places = set.intersection(*(self._around(place) for place in known)) - taken
        if not places and len(known) > 1:
            places = self._extended(known, taken)
        return places

    def _around(self, place: NDArray[np.int32]) -> set[tuple[int, ...]]:
        found = set()
        for d, (size, wrap) in enumerate(zip(self.radix, self.wraps, strict=True)):
            for step in (-1, 1):
                other = place.tolist()
                other[d] += step
                if wrap:
                    other[d] %= size
                if 0 <= other[d] < size:
                    found.add(tuple(other))
        return found

    def _extended(
        self, known: list[NDArray[np.int32]], taken: set[tuple[int, ...]]
    ) -> set[tuple[int, ...]]:
        """Places that close a line to a ring of one switch more; that is then done."""
        for d in range(len(self.radix)):
            if self.wraps[d]:
                continue
            self.radix[d] += 1
            self.wraps[d] = True
            places = set.intersection(*(self._around(place) for place in known)) - taken
            if places:
                return places
            self.radix[d] -= 1
            self.wraps[d] = False
        return set()

    def check(self) -> None:
        """Refuse two rows in one place and cables that are no step; see which lines are rings.

        Raises
        ------
        NotApplicable
            With the names.
        """
        links = self.links
        size = np.array(self.radix, dtype=np.int64)
        key = self.coordinate @ np.concatenate(([1], np.cumprod(size)[:-1]))
        order = np.argsort(key, kind="stable")
        same = np.flatnonzero(np.diff(key[order]) == 0)
        if len(same):
            one, two = order[same[0]], order[same[0] + 1]
            raise NotApplicable(
                f"{links.name(int(one))} and {links.name(int(two))} would have one place in the "
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
                f"the cable from {links.name(one)} to {links.name(two)} is no step in the "
                f"{'x'.join(map(str, self.radix))} grid that the switches form"
            )


def _canonical(links: Links, found: Torus) -> Torus:
    """Dimensions in order of size, the origin at the lowest GUID and up towards the next ones."""
    fabric = links.fabric
    guid = fabric.node_guid[fabric.graph.row_node[links.rows]]
    origin = int(guid.argmin())
    near = links.other[links.offset[origin] : links.offset[origin + 1]]
    start = found.coordinate[origin]
    order, offset, sign = [], [], []
    keys: list[tuple[Any, ...]] = []
    for d, (size, wrap) in enumerate(zip(found.radix, found.wraps, strict=True)):
        around = {
            int((found.coordinate[row, d] - start[d]) % size if wrap else
                found.coordinate[row, d] - start[d]): int(guid[row])
            for row in near
            if found.coordinate[row, d] != start[d]
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
    return found.arranged(order, [offset[d] for d in order], [sign[d] for d in order])


def is_whole(fabric: Fabric, torus: Torus) -> bool:
    """Whether no switch and no step is missing."""
    if torus.missing:
        return False
    count = sum(
        len(torus.rows) // size * (size if wrap and size > 2 else size - 1)
        for size, wrap in zip(torus.radix, torus.wraps, strict=True)
    )
    return len(links_of(fabric, torus.rows).low) == count
