"""Moves of plugs that turn the cables found into the cables planned, as few as possible.

Each port has at most one planned and one found cable. Ports whose planned and found cables differ
are joined by them to paths and circles in which planned and found cables alternate. A found cable
keeps one plug where it is and becomes the planned cable of that port once its other plug is moved.
So a path or circle with p planned and f found cables takes min(p, f) moves, which is the smallest
possible number since every found cable of it is wrong. On a circle, and on a path with different
numbers of both, several choices have this number; the one with the lowest cost is taken, then the
first one from the lowest port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from weft.fabrics.cabling import End, Pair


class Move(NamedTuple):
    """A plug to move: the port of the cable's other plug, the wrong port, and the right one."""

    kept: End
    wrong: End
    right: End


class Chain(NamedTuple):
    """Cables that differ and share ports."""

    #: In an order in which each right port is free; of a circle, that of the next wrong port.
    moves: list[Move]
    missing: list[Pair]
    additional: list[Pair]
    closed: bool


def chains(
    planned: Mapping[End, End], found: Mapping[End, End], cost: Callable[[Move], float]
) -> Iterator[Chain]:
    """Yield what differs between two sets of cables, in the order of the lowest ports.

    `planned`, `found`: the other end of the cable of each port. `cost`: cost of a move, by which
    one of several smallest sets of moves is chosen.
    """
    ends = sorted(e for e in planned.keys() | found.keys() if planned.get(e) != found.get(e))
    # Paths from their ends first; what is left are circles.
    ends.sort(key=lambda end: end in planned and end in found)
    seen: set[End] = set()
    for start in ends:
        if start not in seen:
            path, closed = _path(start, planned, found)
            seen.update(path)
            yield _chain(path, start in planned, closed, cost)


def _path(
    start: End, planned: Mapping[End, End], found: Mapping[End, End]
) -> tuple[list[End], bool]:
    path = [start]
    step, other = (planned, found) if start in planned else (found, planned)
    while (end := step.get(path[-1])) is not None and end != start:
        path.append(end)
        step, other = other, step
    return path, end == start


def _chain(path: list[End], plan_first: bool, closed: bool, cost: Callable[[Move], float]) -> Chain:
    n = len(path)
    edges = n if closed else n - 1
    cables = range(plan_first, edges, 2)
    # A found cable becomes the planned one before it on the path, or the one after it.
    back = [Move(path[at], path[(at + 1) % n], path[at - 1]) for at in cables]
    on = [Move(path[(at + 1) % n], path[at], path[(at + 2) % n]) for at in cables]
    if closed:
        best = back[::-1] if sum(map(cost, back)) <= sum(map(cost, on)) else on
        return Chain(best, [], [], True)
    plan_last = plan_first == (edges % 2 == 1)
    if plan_first != plan_last:
        return Chain(back if plan_first else on[::-1], [], [], False)
    # The cables before the one that is left over go one way, those after it the other way.
    first, rest = (back, on) if plan_first else (on[:-1], back[1:])
    before = accumulate(map(cost, first), initial=0.0)
    after = [*accumulate(map(cost, reversed(rest)), initial=0.0)][::-1]
    total = [sum(pair) for pair in zip(before, after, strict=True)]
    at = total.index(min(total))
    left_over = [(path[2 * at], path[2 * at + 1])]
    if plan_first:
        return Chain([*first[:at], *rest[at:][::-1]], left_over, [], False)
    return Chain([*first[:at][::-1], *rest[at:]], [], left_over, False)
