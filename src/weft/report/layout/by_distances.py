"""Layout in which distances in the drawing follow hop distances."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist, squareform

from weft.report.layout.wiring import Nodes, Points

#: Up to this many nodes, all pairwise distances are used; for more nodes, only the distances to
#: `PIVOTS` nodes.
MAX_DENSE = 1000
PIVOTS = 100
SWEEPS = 150


def by_distances(matrix: csr_array, rank: Nodes) -> Points:
    """Place the nodes of a graph by multidimensional scaling of its hop distances.

    `rank`: order of the nodes, which breaks ties.

    Returns float64 [nodes, 2]: positions; neighbours are about one unit apart, and disconnected
    components side by side, the largest first.

    Pivot scaling (Brandes and Pich 2007) gives initial positions, which stress majorisation
    (Gansner, Koren and North 2005) improves on graphs of up to `MAX_DENSE` nodes. The layout is
    deterministic.
    """
    position = np.zeros((len(rank), 2))
    if not len(rank):
        return position
    parts, label = connected_components(matrix, directed=False)
    members = [np.flatnonzero(label == part) for part in range(parts)]
    members.sort(key=lambda nodes: (-len(nodes), int(rank[nodes].min())))
    shelf = _Shelf()
    for part in members:
        nodes = part[np.argsort(rank[part], kind="stable")]
        placed = _one_part(matrix[nodes][:, nodes])
        position[nodes] = shelf.put(placed)
    return position


def _one_part(matrix: csr_array) -> Points:
    count = matrix.shape[0]
    if count == 1:
        return np.zeros((1, 2))
    if count == 2:
        return np.array([[0.0, 0.0], [1.0, 0.0]])
    pivots = _pivots(matrix, min(PIVOTS, count))
    start = _pivot_scaling(dijkstra(matrix, unweighted=True, indices=pivots).T)
    if count <= MAX_DENSE:
        hops = dijkstra(matrix, unweighted=True)
        start = _majorised(start, hops)
    return _aligned(start)


def _pivots(matrix: csr_array, count: int) -> Nodes:
    """Return nodes far from each other, each the farthest from those before it."""
    chosen = [0]
    nearest = dijkstra(matrix, unweighted=True, indices=0)
    while len(chosen) < count:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, dijkstra(matrix, unweighted=True, indices=chosen[-1]))
    return np.array(chosen)


def _pivot_scaling(hops: Points) -> Points:
    squared = hops**2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    values, vectors = eigh(centred.T @ centred)
    axes = vectors[:, np.argsort(-values, kind="stable")[:2]]
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    largest = axes[np.argmax(np.abs(np.round(axes, 9)), axis=0), np.arange(axes.shape[1])]
    position: Points = centred @ (axes * np.where(largest < 0, -1.0, 1.0))
    spread = np.abs(position).max() or 1.0
    # Separate nodes with equal distances to all pivots, which would be drawn at one position.
    angle = np.arange(len(hops)) * np.pi * (3 - np.sqrt(5))
    offset = 0.02 * spread * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    return position + offset


def _majorised(position: Points, hops: Points) -> Points:
    count = len(hops)
    with np.errstate(divide="ignore"):
        weight = np.where(hops > 0, hops, np.inf) ** -2.0
    laplacian = np.diag(weight.sum(axis=1)) - weight
    factor = cho_factor(laplacian + 1.0 / count)
    position = position * (hops.sum() / max(_distances(position).sum(), 1e-12))
    last = np.inf
    for _ in range(SWEEPS):
        apart = np.maximum(_distances(position), 1e-9)
        stress = float((weight * (apart - hops) ** 2).sum())
        if stress >= last * (1 - 1e-5):
            break
        last = stress
        pull = -weight * hops / apart
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        position = cho_solve(factor, pull @ position)
        position -= position.mean(axis=0)
    return position


def _distances(position: Points) -> Points:
    result: Points = squareform(pdist(position))
    return result


def _aligned(position: Points) -> Points:
    """Rotate the longest side to horizontal, and scale neighbours to about one unit apart."""
    position = position - position.mean(axis=0)
    _, axes = np.linalg.eigh(position.T @ position)
    axes = axes[:, ::-1]
    axes = axes * np.where(axes[np.argmax(np.abs(axes), axis=0), [0, 1]] < 0, -1.0, 1.0)
    position = position @ axes
    distance, _ = cKDTree(position).query(position, k=2)
    typical = float(np.median(distance[:, 1])) or float(distance[:, 1].max()) or 1.0
    result: Points = position / typical
    return result


class _Shelf:
    """Packer of components side by side, in rows as wide as the first component, at least 8."""

    def __init__(self) -> None:
        self._width = 0.0
        self._x = self._top = self._height = 0.0

    def put(self, part: Points) -> Points:
        low, size = part.min(axis=0), np.ptp(part, axis=0)
        if not self._width:
            self._width = max(float(size[0]), 8.0)
        if self._x and self._x + size[0] > self._width:
            self._x, self._top, self._height = 0.0, self._top - self._height, 0.0
        corner = np.array([self._x, self._top - size[1]])
        self._x += float(size[0]) + 2.0
        self._height = max(self._height, float(size[1]) + 2.0)
        moved: Points = part - low + corner
        return moved
