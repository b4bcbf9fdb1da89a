"""`layout`: positions of the nodes and bends of the cables.

There are three methods, depending on the fabric: by tree level, by coordinates, or else by hop
distances. The y axis points upwards, and neighbouring switches are about one unit apart. Equal
fabrics have equal layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from weft.core.words import natural_rank
from weft.fabrics import Fabric
from weft.report.layout.by_coordinates import by_coordinates
from weft.report.layout.by_distances import by_distances
from weft.report.layout.by_level import by_level
from weft.report.layout.groups import groups
from weft.report.layout.wiring import Nodes, Points, Wiring, hanging, park_loose
from weft.routing.tree_levels import found_levels, labelled_levels

#: Difference in bend of neighbouring parallel cables, and limit of the sum of these differences;
#: both are divided by the length of the cables.
PARALLEL_BEND = 0.05
PARALLEL_SPREAD = 0.4
#: A cable passes a node in its way at a distance of `DETOUR` units plus `DETOUR_SHARE` of the
#: cable's length; the latter separates detours around the same nodes.
DETOUR = 0.2
DETOUR_SHARE = 0.06
#: Decimals to which positions are rounded, so that they do not depend on the linear algebra
#: library.
DECIMALS = 3


@dataclass(frozen=True, eq=False)
class Layout:
    """Layout of the drawing of a fabric."""

    #: ``levels``, ``coordinates`` or ``distances``.
    kind: str
    #: One line that explains the layout.
    caption: str
    #: float64 [nodes, 2], y upwards.
    position: Points
    #: float64 [cables]: a cable is a quadratic curve from the node of lower number to the other;
    #: its control point is to the left of the cable's middle, by this share of the cable's length.
    bend: NDArray[np.float64]
    #: int64 [nodes]: the tree level of a node, -1 if the layout is not by level.
    level: NDArray[np.int64]
    #: int64 [nodes]: group of each node, -1 for a node without a cable to the others. If there are
    #: too many cables to draw, the page draws groups instead of nodes.
    group: NDArray[np.int64]


def layout(fabric: Fabric) -> Layout:
    """Return the layout of a fabric.

    `fabric`: any fabric; it may be disconnected or without cables.
    """
    wiring = Wiring.of(fabric)
    rank = natural_rank(fabric.node_names)
    level = np.full(fabric.num_nodes, -1, dtype=np.int64)
    grid = by_coordinates(fabric, wiring)
    levels = labelled_levels(fabric)
    if levels is None and grid is None:
        levels = found_levels(fabric)
    if levels is not None:
        level[wiring.core] = levels.level
        kind, caption = "levels", levels.caption
        position = by_level(wiring, rank, level)
    elif grid is not None:
        kind, caption = "coordinates", grid.caption
        position = _with_hanging(wiring, rank, grid.core, grid.away)
    else:
        kind = "distances"
        caption = "Switches that are few hops apart are drawn close together."
        core = by_distances(wiring.matrix(), rank[wiring.core])
        position = _with_hanging(wiring, rank, core, core - core.sum(axis=0) / max(len(core), 1))
    position = np.round(position, DECIMALS) + 0.0
    bend = np.round(_bends(fabric, wiring, position, level), DECIMALS) + 0.0
    group = groups(wiring, level, position)
    return Layout(kind, caption, position, bend, level, group)


def _with_hanging(wiring: Wiring, rank: Nodes, core: Points, away: Points | None) -> Points:
    """Add the hosts of core nodes: in a fan in direction `away`, or below right if it is None."""
    position = np.zeros((len(wiring.core_of), 2))
    position[wiring.core] = core
    if len(core) > 1:
        distance, _ = cKDTree(core).query(core, k=2)
        room = float(np.clip(np.median(distance[:, 1]), 0.05, 1.5))
    else:
        room = 1.0
    for node, nodes in hanging(wiring, rank).items():
        here = position[node]
        if away is not None:
            offset = _fan(len(nodes), away[wiring.core_of[node]], room)
        else:
            side = int(np.ceil(np.sqrt(len(nodes))))
            index = np.arange(len(nodes))
            cell = 0.52 * room / max(side, 2)
            offset = np.stack(
                (0.2 * room + index % side * cell, -0.2 * room - index // side * cell), axis=1
            )
        position[nodes] = here + offset
    return park_loose(position, wiring)


def _fan(count: int, outwards: Points, room: float) -> Points:
    """Return points around the origin; if `outwards` is not 0, in arcs on that side."""
    per_arc = 9
    arc, index = np.divmod(np.arange(count), per_arc)
    in_arc = np.minimum(count - arc * per_arc, per_arc)
    if np.hypot(*outwards) < 1e-6:
        angle = 2 * np.pi * index / in_arc
    else:
        spread = np.minimum(0.36 * (in_arc - 1), 1.1 * np.pi)
        share = np.where(in_arc > 1, index / np.maximum(in_arc - 1, 1) - 0.5, 0.0)
        angle = np.arctan2(outwards[1], outwards[0]) + share * spread
    radius = room * (0.36 + 0.14 * arc)
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)


def _bends(fabric: Fabric, wiring: Wiring, position: Points, level: Nodes) -> NDArray[np.float64]:
    """Return the bends that separate parallel cables and lead other cables around nodes."""
    both = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    ends: Nodes = np.sort(both, axis=0)
    pair = ends[0] * fabric.num_nodes + ends[1]
    order = np.argsort(pair, kind="stable")
    _, start, counts = np.unique(pair[order], return_index=True, return_counts=True)
    copies = np.empty(len(pair), dtype=np.int64)
    copies[order] = np.repeat(counts, counts)
    number = np.empty(len(pair), dtype=np.int64)
    number[order] = np.arange(len(pair)) - np.repeat(start, counts)
    step = np.minimum(PARALLEL_BEND, PARALLEL_SPREAD / np.maximum(copies, 1))
    bend = (number - (copies - 1) / 2) * step
    # Cables between neighbouring levels of a tree pass no nodes.
    doubtful = (level[ends].min(axis=0) < 0) | (np.abs(np.diff(level[ends], axis=0)[0]) != 1)
    doubtful &= (wiring.core_of[ends] >= 0).all(axis=0)
    blocked = np.flatnonzero(doubtful)
    blocked = blocked[_blocked(wiring, position, ends[:, blocked])]
    length = np.hypot(*(position[ends[1, blocked]] - position[ends[0, blocked]]).T)
    # The middle of the curve is half as far from the line as its control point.
    bend[blocked] += 2 * (DETOUR / np.maximum(length, DETOUR) + DETOUR_SHARE)
    return bend


def _blocked(wiring: Wiring, position: Points, ends: Nodes) -> NDArray[np.bool_]:
    """Return whether the line of each cable crosses a core node other than its ends."""
    blocked = np.zeros(ends.shape[1], dtype=bool)
    if len(wiring.core) < 3:
        return blocked
    tree = cKDTree(position[wiring.core])
    start, along = position[ends[0]], position[ends[1]] - position[ends[0]]
    length = np.hypot(along[:, 0], along[:, 1])
    reach = 0.12
    for samples, cables in _by_length(length, reach):
        for share in (np.arange(samples) + 0.5) / samples:
            points = start[cables] + share * along[cables]
            distance, near = tree.query(points, distance_upper_bound=reach)
            hit = np.isfinite(distance)
            near_node = wiring.core[np.where(hit, near, 0)]
            hit &= (near_node != ends[0, cables]) & (near_node != ends[1, cables])
            blocked[cables[hit]] = True
    return blocked


def _by_length(length: NDArray[np.float64], reach: float) -> list[tuple[int, Nodes]]:
    """Return classes of cables of similar length, with the number of sample points on a cable."""
    needed = np.clip(2 ** np.ceil(np.log2(np.maximum(length / reach, 1.0))), 1, 256).astype(int)
    return [(int(n), np.flatnonzero(needed == n)) for n in np.unique(needed)]
