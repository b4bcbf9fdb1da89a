"""Levels of the rows of a tree for drawings: labels of the fabric, or its shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.levels import hosts_of_rows, tree_levels


@dataclass(frozen=True, eq=False)
class Levels:
    """Tree levels of rows, int64 [rows] from 1, and an explanation."""

    level: NDArray[np.int64]
    caption: str


def labelled_levels(fabric: Fabric) -> Levels | None:
    """Return the fabric's levels of its rows, or None if one is unknown or all are equal."""
    known = fabric.level[fabric.graph.row_node].astype(np.int64)
    if len(known) and (known >= 0).all() and known.max() > known.min():
        # Hosts that forward have level 0; the lowest level of rows is 1.
        return Levels(
            known - known.min() + 1, "Tree levels: hosts at the bottom, roots at the top."
        )
    return None


def found_levels(fabric: Fabric) -> Levels | None:
    """Return the levels that `weft.fabrics.levels.tree_levels` finds.

    Returns None if this is not a tree, or a row is connected to no host.
    """
    connected = fabric.graph.hops_from(np.flatnonzero(hosts_of_rows(fabric))) >= 0
    try:
        level = tree_levels(fabric)
    except NotApplicable:
        return None
    if not connected.all() or level.max() == level.min():
        return None
    return Levels(level - level.min() + 1, "Levels by the distance from the top of the tree.")
