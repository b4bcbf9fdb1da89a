"""Groups of neighbouring nodes, which a page draws instead of too many cables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.report.layout.wiring import Nodes, Points, Wiring

#: Maximum number of groups on a tree level; number of squares along the longer side of other
#: drawings.
MOST_PER_LEVEL = 40
SQUARES = 24


def groups(wiring: Wiring, level: Nodes, position: Points) -> Nodes:
    """Group the nodes that are close together in a drawing.

    `wiring`, `level`, `position`: wiring, tree levels (-1 without levels) and positions of the
    drawing.

    Returns int64 [nodes]: group, from 0; -1 for a node without a cable to the others. In a tree,
    switches are grouped by pod, and top-level switches by equal neighbours. In other drawings,
    switches are grouped by squares of equal size. The hosts of a group of switches are a group of
    their own.
    """
    group = np.full(len(level), -1, dtype=np.int64)
    core = wiring.core
    if len(core):
        group[core] = (
            _by_level(wiring, level[core], position[core, 0])
            if (level[core] >= 0).all()
            else _by_square(position[core])
        )
    attached = np.flatnonzero(wiring.parent >= 0)
    group[attached] = group[wiring.parent[attached]] + group.max(initial=-1) + 1
    known = group >= 0
    group[known] = np.unique(group[known], return_inverse=True)[1].ravel()
    return group


def _by_level(wiring: Wiring, level: Nodes, x: NDArray[np.float64]) -> Nodes:
    count, top = len(level), int(level.max())
    key = wiring.components(np.maximum(level[wiring.a], level[wiring.b]) < top)
    matrix = wiring.matrix()
    matrix.sort_indices()
    number: dict[bytes, int] = {}
    for node in np.flatnonzero(level == top):
        near = matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]].tobytes()
        key[node] = count + number.setdefault(near, len(number))
    group = np.empty(count, dtype=np.int64)
    start = 0
    for height in np.unique(level):
        members = np.flatnonzero(level == height)
        members = members[np.argsort(x[members], kind="stable")]
        new = np.concatenate(([True], np.diff(key[members]) != 0))
        run = np.cumsum(new) - 1
        if len(members) <= MOST_PER_LEVEL or new.sum() > len(np.unique(key[members])):
            run = np.arange(len(members))  # few members, or equal keys not side by side
        run //= -(-(int(run[-1]) + 1) // MOST_PER_LEVEL)
        group[members] = start + run
        start += int(run[-1]) + 1
    return group


def _by_square(position: Points) -> Nodes:
    low = position.min(axis=0)
    # Round sides to whole units, so that all squares have the same number of nodes of a grid.
    side = np.ceil((np.ptp(position, axis=0).max() + 1) / SQUARES)
    column, row = np.floor((position - low) / side).astype(np.int64).T
    return np.asarray(column * (int(row.max()) + 1) + row)
