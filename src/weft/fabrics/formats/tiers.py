"""Tiers of switches by their distance from the hosts, for fabrics without tree levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric, NodeKind


def tiers(fabric: Fabric, leaves: NDArray[np.integer] | None = None) -> NDArray[np.int32]:
    """Return the tier of each node: hosts 0, leaf switches 1, switches above them 2, and so on.

    Parameters
    ----------
    fabric
        Any fabric.
    leaves
        Switches of tier 1; by default those that a host is cabled to.

    Returns
    -------
    int32 [nodes]
        Tier of each node; -1 for a switch that is not connected to a leaf via switches, and for
        auxiliary adapters.
    """
    tier = np.full(fabric.num_nodes, -1, dtype=np.int32)
    tier[fabric.node_kind == NodeKind.HOST] = 0
    if leaves is None:
        leaves = np.unique(fabric.link_to[fabric.node_kind[fabric.link_from] == NodeKind.HOST])
        leaves = leaves[fabric.node_kind[leaves] == NodeKind.SWITCH]
    switch = fabric.node_kind == NodeKind.SWITCH
    between = switch[fabric.link_from] & switch[fabric.link_to]
    tail, head = fabric.link_from[between], fabric.link_to[between]
    front, depth = leaves, 1
    while len(front):
        tier[front] = depth
        ahead = head[tier[tail] == depth]
        front, depth = np.unique(ahead[tier[ahead] < 0]), depth + 1
    return tier
