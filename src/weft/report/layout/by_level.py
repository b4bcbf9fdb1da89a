"""Layout by tree level: leaf switches at the bottom with their hosts below, roots at the top."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.report.layout.wiring import Nodes, Points, Wiring, hanging, park_loose

#: Up to this many cables, crossings are reduced; in larger fabrics, switches are in order of names.
MAX_SWEPT = 20_000
#: If more than this share of the crossings would remain, the order of names is kept.
WORTH_SWEEPING = 0.7
#: Desired width of a drawing, divided by its height.
ASPECT = 1.6
#: Distance between a switch and the top of its block of hosts, divided by the distance between
#: levels.
HOST_GAP = 0.22


def by_level(wiring: Wiring, rank: Nodes, level: Nodes) -> Points:
    """Place leaf switches at the bottom with their hosts below, roots at the top, pods together."""
    core_level = level[wiring.core]
    top = int(core_level.max())
    order = _tree_order(wiring, rank[wiring.core], core_level)
    attached = hanging(wiring, rank)
    columns = {node: _columns(len(nodes)) for node, nodes in attached.items()}
    deepest = max((-(-len(n) // columns[c]) for c, n in attached.items()), default=1)

    x = np.zeros(len(wiring.core))
    matrix = wiring.matrix()
    width = 0.0
    for height in range(1, top + 1):
        members = order[core_level[order] == height]
        if not len(members):
            continue
        block = np.array([columns.get(int(wiring.core[m]), 1) for m in members]) + 1.0
        below = matrix[members] * (core_level < height)[None, :]
        degree = np.asarray(below.sum(axis=1)).ravel()
        natural = np.cumsum(block) - block / 2
        if height == 1 or not degree.any():
            x[members] = natural
        else:
            wanted = np.where(degree > 0, (below @ x) / np.maximum(degree, 1), natural)
            gap = np.maximum(block, 0.92 * width / len(members))
            x[members] = spaced(wanted, (gap[:-1] + gap[1:]) / 2)
        width = max(width, float(np.ptp(x[members])) + 1.0)
    x -= x.min()
    storey = (width / ASPECT - deepest) / max(top - 1 + HOST_GAP, 1.0)
    storey = max(3.0, storey, 0.45 * deepest)
    position = np.zeros((len(level), 2))
    position[wiring.core, 0] = x
    position[wiring.core, 1] = core_level * storey
    _avoid_long_rows(position, wiring, core_level, storey)
    for node, nodes in attached.items():
        across = columns[node]
        index = np.arange(len(nodes))
        in_row = np.minimum(len(nodes) - index // across * across, across)
        dx = index % across - (in_row - 1) / 2
        # Hosts of a root switch are above it, away from its downward cables.
        up = level[node] == top and top > 1
        drop = HOST_GAP * storey + index // across
        position[nodes, 0] = position[node, 0] + dx
        position[nodes, 1] = position[node, 1] + (drop if up else -drop)
    return park_loose(position, wiring)


def _avoid_long_rows(position: Points, wiring: Wiring, core_level: Nodes, storey: float) -> None:
    """On levels with cables between their own switches, raise every other switch to show these."""
    inside = core_level[wiring.a] == core_level[wiring.b]
    for height in np.unique(core_level[wiring.a[inside]]):
        members = np.flatnonzero(core_level == height)
        members = members[np.argsort(position[wiring.core[members], 0], kind="stable")]
        position[wiring.core[members[1::2]], 1] += 0.12 * storey


def _columns(hosts: int) -> int:
    """Return the width of the block of a switch's hosts, in hosts."""
    return hosts if hosts <= 4 else int(np.ceil(np.sqrt(1.2 * hosts)))


def _tree_order(wiring: Wiring, rank: Nodes, level: Nodes) -> Nodes:
    """Return the order of all core nodes from left to right, used for each level.

    Switches connected below a level (a pod) are together; within a pod the order is that of the
    names, unless barycentre sweeps remove many crossings.
    """
    count, top = len(level), int(level.max())
    keys: list[Nodes] = [rank]
    for height in range(2, top):
        label = wiring.components(np.maximum(level[wiring.a], level[wiring.b]) <= height)
        first = np.full(count, count, dtype=np.int64)
        # A component is ordered by its first leaf switch.
        np.minimum.at(first, label, np.where(level == 1, rank, count + rank))
        keys.append(first[label])
    order = np.lexsort(keys)
    return _swept(wiring, order, level)


def _swept(wiring: Wiring, order: Nodes, level: Nodes) -> Nodes:
    """Return the order after barycentre sweeps, or the given order if sweeps gain too little."""
    if len(wiring.a) > MAX_SWEPT:
        return order
    matrix = wiring.matrix()
    x = np.empty(len(order))
    x[order] = np.arange(len(order))
    best, fewest = order, _crossings(wiring, x, level) * WORTH_SWEEPING
    for sweep in range(8):
        heights = range(1, int(level.max()) + 1)
        for height in heights if sweep % 2 else reversed(heights):
            members = np.flatnonzero(level == height)
            side = level < height if sweep % 2 else level > height
            near = matrix[members] * side[None, :]
            degree = np.asarray(near.sum(axis=1)).ravel()
            wanted = np.where(degree > 0, (near @ x) / np.maximum(degree, 1), x[members])
            slots = np.sort(x[members])
            x[members[np.lexsort((x[members], np.round(wanted, 9)))]] = slots
        crossings = _crossings(wiring, x, level)
        if crossings < fewest:
            best, fewest = np.argsort(x, kind="stable"), crossings
    return best


def _crossings(wiring: Wiring, column: NDArray[np.float64], level: Nodes) -> int:
    """Return the number of crossings of cables between neighbouring levels."""
    total = 0
    low = np.where(level[wiring.a] < level[wiring.b], wiring.a, wiring.b)
    high = np.where(level[wiring.a] < level[wiring.b], wiring.b, wiring.a)
    for height in np.unique(level[low]):
        mine = np.flatnonzero((level[low] == height) & (level[high] == height + 1))
        if len(mine) < 2:
            continue
        x, y = column[low[mine]], column[high[mine]]
        order = np.lexsort((y, x))
        total += _inversions(y[order])
    return total


def _inversions(values: NDArray[np.float64]) -> int:
    """Return the number of inversions: pairs are counted at the first bit in which they differ."""
    rank = np.unique(values, return_inverse=True)[1]
    total = 0
    for bit in range(int(rank.max(initial=0)).bit_length()):
        order = np.argsort(rank >> bit + 1, kind="stable")
        group, one = rank[order] >> bit + 1, rank[order] >> bit & 1
        before = np.cumsum(one) - one
        total += int(((before - before[np.searchsorted(group, group)]) * (1 - one)).sum())
    return total


def spaced(wanted: NDArray[np.float64], gap: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers closest to `wanted` (least squares) that keep its order and the gaps.

    `wanted` [n]. `gap` [n - 1]: minimum distance between numbers i and i + 1.
    """
    from scipy.optimize import isotonic_regression  # slow to import

    shift = np.concatenate(([0.0], np.cumsum(gap)))
    return np.asarray(isotonic_regression(wanted - shift).x + shift)
