"""Nodes and LIDs of the slots of a fabric."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric


def nodes_of_slots(fabric: Fabric) -> NDArray[np.int64]:
    """Return the node of each port, int64 [slots]."""
    return np.repeat(np.arange(fabric.num_nodes), np.diff(fabric.port_offset))


def lids_of_slots(fabric: Fabric) -> NDArray[np.int64]:
    """Return the LID by which the counters of each port are read, int64 [slots]; 0: none.

    All ports of a switch have the LID of the switch.
    """
    of_switch = np.zeros(fabric.num_nodes, dtype=np.int64)
    of_switch[: fabric.num_switches] = fabric.lid[fabric.num_endpoints :]
    lids: NDArray[np.int64] = of_switch[nodes_of_slots(fabric)]
    ends = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    lids[ends] = fabric.lid[: fabric.num_endpoints]
    return lids


def port_text(fabric: Fabric, slot: int) -> str:
    """Return the name of a port."""
    node = int(fabric.port_offset.searchsorted(slot, "right")) - 1
    return fabric.port_name(node, slot - int(fabric.port_offset[node]) + 1)
