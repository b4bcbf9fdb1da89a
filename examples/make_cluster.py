"""Write `cluster.ibnetdiscover`, a fictitious cluster with typical irregularities.

Two generations of nodes share a fabric: new leaf switches at HDR and old ones at EDR, with two
cables per pair of leaf and spine. One of these cables is missing and one is slow. A SHARP
aggregation node is in a spine, and a storage leaf is attached to only two of the four spines.

    python examples/make_cluster.py examples/cluster.ibnetdiscover
"""

from __future__ import annotations

import sys

import numpy as np

from weft.fabrics import Fabric, FabricBuilder, NodeKind, Parts
from weft.fabrics.formats import write_fabric

SPINES, NEW_LEAVES, OLD_LEAVES, NODES_PER_LEAF = 4, 4, 4, 16


def cluster() -> Fabric:
    """Return the fabric: 8 compute leaves and a storage leaf below 4 spines."""
    build = FabricBuilder("cluster", rate="4xHDR")
    spines = build.switches([f"spine{i + 1}" for i in range(SPINES)], ports=40)
    leaves = build.switches([f"leaf{i + 1}" for i in range(NEW_LEAVES + OLD_LEAVES)], ports=40)
    storage = build.switches(["leaf-storage"], ports=36)
    number = 1
    for index, leaf in enumerate(leaves):
        rate = "4xHDR" if index < NEW_LEAVES else "4xEDR"
        names = [f"node{number + i:03d}" for i in range(NODES_PER_LEAF)]
        number += NODES_PER_LEAF
        build.connect(np.full(NODES_PER_LEAF, leaf), build.hosts(names), rate=rate)
        build.connect(np.full(SPINES, leaf), spines, rate=rate, cables=2)
    servers = build.hosts([f"oss{i + 1:02d}" for i in range(6)])
    build.connect(storage.repeat(6), servers, rate="4xEDR")
    build.connect(storage.repeat(2), spines[:2], rate="4xEDR", cables=2)
    sharp = build.hosts(["sharp-spine1"])
    build.connect([spines[0]], sharp)
    parts: Parts = build.parts()
    parts.kind[sharp] = NodeKind.AUXILIARY
    parts.descriptions[int(sharp[0])] = "Mellanox Technologies Aggregation Node"
    fabric = Fabric.of(parts)
    # One cable of leaf3 is missing, and one of leaf2 runs at a quarter of its width.
    fabric = fabric.without(cables=["leaf3[19]"])
    return fabric.degraded(["leaf2[21]"], "1xHDR")


if __name__ == "__main__":
    write_fabric(cluster(), sys.argv[1])
