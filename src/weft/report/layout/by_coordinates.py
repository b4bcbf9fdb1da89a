"""Layout by coordinates: grids, circles and nested tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from weft.fabrics import Fabric
from weft.report.layout.wiring import Nodes, Points, Wiring

#: Family with groups -> number of leading coordinates that identify the group.
GROUPED = {"dragonfly": 1, "megafly": 1, "slim-fly": 2}


@dataclass(frozen=True, eq=False)
class CorePositions:
    """Positions of the core nodes, which are the nodes that forward packets."""

    #: float64 [core, 2]: position of each core node.
    core: Points
    #: Explanation of the layout.
    caption: str
    #: float64 [core, 2]: direction of the fan of a node's hosts. If None, the hosts are below right
    #: of the node, between its cables along the axes.
    away: Points | None = None


def by_coordinates(fabric: Fabric, wiring: Wiring) -> CorePositions | None:
    """Place the core nodes by their coordinates, or return None if these are not sufficient.

    The switch of a line has a coordinate of -1, which stands for all positions along the line; the
    switch is drawn beside the middle of the line.
    """
    where = fabric.coordinates[wiring.core].astype(np.int64)
    dimensions = where.shape[1]
    if dimensions == 0 or not len(where):
        return None
    full: NDArray[np.bool_] = np.all(where >= 0, axis=1)
    known = (where >= 0).any(axis=1) | (dimensions == 1)
    if not full.any() or not known.all():
        return None
    if len(np.unique(where[full], axis=0)) < full.sum():
        return None
    size = where.max(axis=0) + 1
    lines = "" if full.all() else " The switches of a line are beside its middle."
    if full.all() and 0 < GROUPED.get(fabric.family, 0) < dimensions:
        core, away = _groups(where, GROUPED[fabric.family])
        return CorePositions(
            core, "Each small circle is a group; the groups form a large circle.", away
        )
    if full.all() and dimensions == 1:
        core = _ring(where[:, 0], int(size[0]))
        return CorePositions(core, "In order around a circle.", core)
    position = where.astype(np.float64) if full.all() else _beside_lines(wiring, where, full, size)
    if dimensions == 3:
        caption = "Coordinates run across, down, and along the short diagonals."
        return CorePositions(_oblique(position, size), caption + lines)
    caption = "Coordinates run alternately across and down, the first ones innermost."
    return CorePositions(_nested(position, size), caption + lines)


def _beside_lines(wiring: Wiring, where: Nodes, full: NDArray[np.bool_], size: Nodes) -> Points:
    """Return coordinates in which the switches of a line are beside it.

    Such a switch is beside the mean position of its neighbours, at a distance that grows with its
    hops from the line.
    """
    position = where.astype(np.float64)
    if position.shape[1] == 1:
        position = np.pad(position, ((0, 0), (0, 1)))
    matrix = wiring.matrix()
    hops = dijkstra(matrix, unweighted=True, indices=np.flatnonzero(full), min_only=True)
    hops = np.where(np.isfinite(hops), hops, 1.0)
    most = hops.max()
    for hop in range(1, int(most) + 1):
        for line in range(where.shape[1]):
            nodes = np.flatnonzero((hops == hop) & (where[:, line] < 0))
            if not len(nodes):
                continue
            near = matrix[nodes] * (hops == hop - 1)[None, :]
            degree = np.asarray(near.sum(axis=1)).ravel()
            middle = np.where(
                degree > 0, (near @ position[:, line]) / np.maximum(degree, 1), (size[line] - 1) / 2
            )
            # Nodes with the same mean are spread over a part of the line.
            spot = np.column_stack((np.delete(where[nodes], line, axis=1), np.round(middle, 6)))
            _, same, count = np.unique(spot, axis=0, return_inverse=True, return_counts=True)
            order = np.argsort(same.ravel(), kind="stable")
            index = np.empty(len(nodes))
            index[order] = np.arange(len(nodes)) - np.repeat(np.cumsum(count) - count, count)
            alike = count[same.ravel()]
            position[nodes, line] = middle + (index - (alike - 1) / 2) * 0.6 * size[line] / alike
            away = (line + 1) % position.shape[1]
            position[nodes, away] -= 0.32 + 0.24 * (hop - 1)
    return position


def _ring(where: Nodes, size: int) -> Points:
    """Place nodes around a circle, clockwise from the top."""
    angle = 2 * np.pi * where / size
    radius = max(1.0, size / (2 * np.pi))
    return radius * np.stack((np.sin(angle), np.cos(angle)), axis=1)


def _oblique(coordinate: Points, size: Nodes) -> Points:
    """Place two dimensions across and down, the third along a short diagonal in each cell."""
    step = 0.66 / max(int(size[2]) - 1, 1)
    room = max(1.0, int(size[2]) / 3.0)
    x = coordinate[:, 0] + coordinate[:, 2] * step
    y = -coordinate[:, 1] + coordinate[:, 2] * step * 0.72
    return room * np.stack((x, y), axis=1)


def _nested(coordinate: Points, size: Nodes) -> Points:
    """Place dimensions alternately across and down; each pair repeats the grid of earlier pairs."""
    extent, position = [1.0, 1.0], np.zeros((len(coordinate), 2))
    size = np.pad(size, (0, coordinate.shape[1] - len(size)), constant_values=1)
    for dimension in range(coordinate.shape[1]):
        axis = dimension % 2
        position[:, axis] += coordinate[:, dimension] * extent[axis]
        extent[axis] *= float(size[dimension])
        if dimension + 2 < coordinate.shape[1]:
            extent[axis] += 1.0
    position[:, 1] *= -1.0
    return position


def _groups(where: Nodes, naming: int) -> tuple[Points, Points]:
    """Place groups on a large circle and their members on small ones, both clockwise.

    Returns float64 [nodes, 2] each: positions, and directions from the centre of the group.
    """
    _, group = np.unique(where[:, :naming], axis=0, return_inverse=True)
    group = group.ravel()
    count = np.bincount(group)
    order = np.lexsort((*where[:, naming:].T[::-1], group))
    member = np.empty(len(group), dtype=np.int64)
    member[order] = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
    # The first kind of members, such as leaves of a two-level group, are on the outer side.
    first = np.ones(len(group), dtype=bool)
    if where.shape[1] - naming > 1:
        first = where[:, naming] == where[:, naming].min()
    outer = np.bincount(group, weights=first)
    small = max(0.6, 1.1 * float(count.max()) / (2 * np.pi))
    large = max(2 * small + 1.0, len(count) * (2 * small + 1.8) / (2 * np.pi))
    if len(count) == 1:
        large = 0.0
    direction = 2 * np.pi * np.arange(len(count)) / len(count)
    middle = large * np.stack((np.sin(direction), np.cos(direction)), axis=1)
    angle = direction[group] + 2 * np.pi * (member - (outer[group] - 1) / 2) / count[group]
    away = small * np.stack((np.sin(angle), np.cos(angle)), axis=1)
    return middle[group] + away, away
