"""Views of a fabric that tests of topologies share."""

from __future__ import annotations

import networkx as nx
import numpy as np

from weft.fabrics import Fabric, LinkKind


def neighbours(fabric: Fabric, name: str) -> dict[int, str]:
    """Return the name of the node at the other end of each cabled port of a node."""
    node = fabric.find_node(name)
    links = np.flatnonzero(fabric.link_from == node)
    return {
        int(fabric.link_from_port[link]): fabric.node_names[fabric.link_to[link]]
        for link in sorted(links, key=lambda link: fabric.link_from_port[link])
    }


def switch_graph(fabric: Fabric) -> nx.MultiGraph:
    graph = nx.MultiGraph()
    graph.add_nodes_from(range(fabric.num_switches))
    between = fabric.link_kind[0::2] == LinkKind.SWITCH_SWITCH
    graph.add_edges_from(
        zip(fabric.link_from[0::2][between], fabric.link_to[0::2][between], strict=True)
    )
    return graph


def switch_links(fabric: Fabric) -> np.ndarray:
    return np.flatnonzero(fabric.link_kind == LinkKind.SWITCH_SWITCH)
