"""Expected loads of channels, from definitions of routings and coordinates of switches.

A bound of the throughput is 1 over the load of the most loaded channel, if every source sends one
flit in a cycle (Dally and Towles 2004, section 3.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric

#: Share of a source's traffic, source and destination of each flow.
Flows = list[tuple[Fraction, int, int]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _bits(source: int, count: int) -> list[int]:
    return [source >> place & 1 for place in range(count)]


def _number(of: Sequence[int]) -> int:
    return sum(each << place for place, each in enumerate(of))


def _turned(source: int, count: int, by: int) -> int:
    bits = _bits(source, count)
    return _number(bits[by:] + bits[:by])


#: Bit permutations of 2^b nodes (Dally and Towles 2004, table 3.1).
PERMUTATIONS: dict[str, Callable[[int, int], int]] = {
    "transpose": lambda s, b: _turned(s, b, b // 2),
    "complement": lambda s, b: 2**b - 1 - s,
    "bit-reversal": lambda s, b: _number(_bits(s, b)[::-1]),
    "shuffle": lambda s, b: _turned(s, b, b - 1),
}


def flows(pattern: str, hosts: int) -> Flows:
    """Return the flows of a pattern; `dims` and `offset` as in weft's patterns."""
    if pattern == "uniform":
        every = product(range(hosts), repeat=2)
        return [(Fraction(1, hosts - 1), s, d) for s, d in every if s != d]
    name, _, option = pattern.partition(":")
    if name in PERMUTATIONS:
        places = (hosts - 1).bit_length()
        goal = [PERMUTATIONS[name](source, places) for source in range(hosts)]
    elif name == "shift":
        goal = [(s + int(option.partition("=")[2])) % hosts for s in range(hosts)]
    else:
        sides = [int(side) for side in option.partition("=")[2].split("x")]
        goal = []
        for source in range(hosts):
            at, unit, target = source, 1, 0
            for side in sides:
                at, x = divmod(at, side)
                step = 1 if name == "neighbour" else -(-side // 2) - 1
                target += (x + step) % side * unit
                unit *= side
            goal.append(target)
    return [(Fraction(1), source, to) for source, to in enumerate(goal) if source != to]


def _steps(x: int, y: int, side: int, kind: str) -> list[tuple[Fraction, list[int]]]:
    """Return the probability and the coordinates of the ways from x to y in one dimension."""
    if kind == "full":
        return [(Fraction(1), [x, y] if x != y else [x])]
    if kind == "line":
        return [(Fraction(1), [*range(x, y, 1 if y > x else -1), y])]
    ahead = (y - x) % side
    ways = [ahead] if 2 * ahead < side else [ahead - side] if 2 * ahead > side else [ahead, -ahead]
    share = Fraction(1, len(ways))
    return [
        (share, [(x + (hop if way > 0 else -hop)) % side for hop in range(abs(way) + 1)])
        for way in ways
    ]


def _grid_hops(
    source: list[int], target: list[int], sides: Sequence[int], kind: str
) -> Iterator[tuple[Fraction, tuple[Any, ...]]]:
    """Yield the probability and the channel of each hop in dimension order, the first one first."""
    at = list(source)
    for d, side in enumerate(sides):
        for share, way in _steps(at[d], target[d], side, kind):
            for x, y in pairwise(way):
                yield share, (d, x, y, *at[:d], *at[d + 1 :])
        at[d] = target[d]


def grid(sides: Sequence[int], kind: str, hosts: int, traffic: Flows) -> tuple[float, float]:
    """Return the mean hops between switches and the bound, in dimension order.

    Parameters
    ----------
    sides, kind
        Switches of each dimension, and its cables: ``ring``, ``line``, or ``full``. The first
        dimension varies fastest in the order of switches; packets with two equally long ways
        around a ring take each one half of the time.
    hosts
        Hosts of each switch.
    traffic
        The flows.
    """

    def place(at: int) -> list[int]:
        where = []
        for side in sides:
            at, x = divmod(at, side)
            where.append(x)
        return where

    load: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    weight: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for share, source, to in traffic:
        weight[source // hosts, to // hosts] += share
    for (a, b), share in weight.items():
        for part, channel in _grid_hops(place(a), place(b), sides, kind):
            load[channel] += share * part
    total = sum(share for share, _, _ in traffic)
    return float(sum(load.values()) / total), min(1.0, float(1 / max(load.values())))


def tree(k: int, n: int, traffic: Flows) -> tuple[float, float]:
    """Return the mean number of switches and the bound on a k-ary n-tree, cables up at random.

    A subtree of k^l hosts has k^l cables upwards, and as many downwards, with equal loads.
    """
    up: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    down: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    switches = Fraction(0)
    for share, source, to in traffic:
        switches += share
        for level in range(1, n):
            a, b = source // k**level, to // k**level
            if a != b:
                up[level, a] += share / k**level
                down[level, b] += share / k**level
                switches += 2 * share
    most = max([*up.values(), *down.values(), Fraction(1)])
    return float(switches / sum(share for share, _, _ in traffic)), float(1 / most)


class Dragonfly:
    """Loads of a dragonfly of p hosts a switch and a switches a group, one cable for each pair.

    Parameters
    ----------
    fabric
        The fabric, of which only the cables between groups are read.
    p, a
        Hosts of a switch, and switches of a group; switches are numbered group by group.
    """

    def __init__(self, fabric: Fabric, p: int, a: int):
        self.p, self.a, self.hosts = p, a, fabric.num_hosts
        groups = fabric.num_switches // a
        self.gate = np.full((groups, groups), -1)
        for x, y in zip(fabric.link_from, fabric.link_to, strict=True):
            if max(x, y) < fabric.num_switches and x // a != y // a:
                assert self.gate[x // a, y // a] < 0
                self.gate[x // a, y // a] = x

    def bound(self, traffic: Flows, via: bool) -> tuple[float, float]:
        """Return the mean hops between switches and the bound.

        Parameters
        ----------
        traffic
            The flows.
        via
            Whether packets go to another group than those of source and destination first.
        """
        count = len(self.gate) * self.a
        weight = np.zeros((count, count))
        share, source, to = (np.array(each) for each in zip(*traffic, strict=True))
        np.add.at(weight, (source // self.p, to // self.p), share.astype(float))
        self.load = np.zeros((count, count))
        x, y = np.nonzero(weight)
        part = weight[x, y]
        if not via:
            self._go(x, y, part)
        else:
            for group in range(len(self.gate)):
                other = (x // self.a != group) & (y // self.a != group)
                choices = len(self.gate) - 1 - (x // self.a != y // self.a)[other]
                at, rest = x[other], part[other] / choices
                self._go(self._enter(at, group, rest), y[other], rest)
        return float(self.load.sum() / weight.sum()), min(1.0, 1 / float(self.load.max()))

    def _add(self, x: Ints, y: Ints, part: Floats) -> None:
        moves = x != y
        np.add.at(self.load, (x[moves], y[moves]), part[moves])

    def _enter(self, at: Ints, group: Ints | int, part: Floats) -> Ints:
        """Go to the nearest switch of another group and return it."""
        out, into = self.gate[at // self.a, group], self.gate[group, at // self.a]
        self._add(at, out, part)
        self._add(out, into, part)
        return np.asarray(into)

    def _go(self, x: Ints, y: Ints, part: Floats) -> None:
        """Go minimally: a local cable, the cable between the groups, and a local cable."""
        x = x.copy()
        away = x // self.a != y // self.a
        x[away] = self._enter(x[away], y[away] // self.a, part[away])
        self._add(x, y, part)
