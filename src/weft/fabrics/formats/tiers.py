"""Tiers of nodes, for fabrics without labels of their tree levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.levels import hosts_of_rows, tree_levels


def tiers(fabric: Fabric) -> NDArray[np.int32]:
    """Return the tier of each node: hosts 0, leaf switches 1, switches above them 2, and so on.

    The tier of a switch is its level in a tree (`weft.fabrics.levels`), or else 1 plus its distance
    from the nearest switch with a host.

    Returns the tier of each node; -1 for a switch that is not connected to a switch with a host,
    and for auxiliary adapters.
    """
    tier = np.full(fabric.num_nodes, -1, dtype=np.int32)
    graph, hosts = fabric.graph, hosts_of_rows(fabric)
    near = graph.hops_from(np.flatnonzero(hosts))
    try:
        level = tree_levels(fabric)
        # Levels below leaf switches are 0 or less.
        level += 1 - level[near >= 0].min()
    except NotApplicable:
        level = near + 1
    tier[graph.row_node] = np.where(near >= 0, level, -1)
    tier[fabric.node_kind == NodeKind.HOST] = 0
    return tier
