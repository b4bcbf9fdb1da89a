"""Groups of neighbouring nodes, by which a page draws a fabric of too many cables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.report.layout.wiring import Nodes, Points, Wiring

#: Groups of one tree level at most, and squares along the longer side of other drawings.
MOST_PER_LEVEL = 40
SQUARES = 24


def groups(wiring: Wiring, level: Nodes, position: Points) -> Nodes:
    """Group the nodes that stand together in a drawing.

    Parameters
    ----------
    wiring, level, position
        Of the drawing; level -1 for nodes that are not drawn by tree level.

    Returns
    -------
    ndarray
        int64 [nodes], numbered from 0; -1 for a node without a cable to the others. A tree is
        grouped by pods below its top level and the top by what it is joined to, other drawings by
        squares of equal size; hosts are grouped as what they hang from.
    """
    group = np.full(len(level), -1, dtype=np.int64)
    core = wiring.core
    if len(core):
        group[core] = (
            _by_level(wiring, level[core], position[core, 0])
            if (level[core] >= 0).all()
            else _by_square(position[core])
        )
    hung = np.flatnonzero(wiring.parent >= 0)
    group[hung] = group[wiring.parent[hung]] + group.max(initial=-1) + 1
    known = group >= 0
    group[known] = np.unique(group[known], return_inverse=True)[1].ravel()
    return group


def _by_level(wiring: Wiring, level: Nodes, x: NDArray[np.float64]) -> Nodes:
    count, top = len(level), int(level.max())
    below = np.maximum(level[wiring.a], level[wiring.b]) < top
    part = csr_array(
        (np.ones(int(below.sum())), (wiring.a[below], wiring.b[below])), shape=(count, count)
    )
    _, key = connected_components(part, directed=False)
    matrix = wiring.matrix()
    matrix.sort_indices()
    joined: dict[bytes, int] = {}
    for node in np.flatnonzero(level == top):
        near = matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]].tobytes()
        key[node] = count + joined.setdefault(near, len(joined))
    group = np.empty(count, dtype=np.int64)
    start = 0
    for height in np.unique(level):
        members = np.flatnonzero(level == height)
        members = members[np.argsort(x[members], kind="stable")]
        turns = np.concatenate(([True], np.diff(key[members]) != 0))
        run = np.cumsum(turns) - 1
        if len(members) <= MOST_PER_LEVEL or turns.sum() > len(np.unique(key[members])):
            run = np.arange(len(members))  # few enough, or not side by side
        run //= -(-(int(run[-1]) + 1) // MOST_PER_LEVEL)
        group[members] = start + run
        start += int(run[-1]) + 1
    return group


def _by_square(position: Points) -> Nodes:
    low = position.min(axis=0)
    # Whole units, so that a square takes equally many nodes of a grid.
    side = np.ceil((np.ptp(position, axis=0).max() + 1) / SQUARES)
    column, row = np.floor((position - low) / side).astype(np.int64).T
    return np.asarray(column * (int(row.max()) + 1) + row)
