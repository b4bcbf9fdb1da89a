"""The steps of a torus or mesh: cables that are opposite sides of squares, and how they go on.

See `weft.routing.structure.torus`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.torus import edge_meets, unite_squares

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
