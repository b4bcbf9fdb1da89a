"""ar_ftree: adaptive fat-tree routing, as in NVIDIA's subnet manager."""

from __future__ import annotations

import numpy as np

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.engine_registry import engine
from weft.routing.engines.adaptive_groups import (
    MOST_GROUPS,
    MOST_PORTS,
    MaxGroups,
    MaxPorts,
    adaptive_routes,
)
from weft.routing.engines.ftree import ftree
from weft.routing.engines.ftree_index import find_ranks
from weft.routing.opensm.guids import listed_nodes
from weft.routing.routes import Routes, TableRoutes


@engine(
    "ar_ftree", deadlock_free=True, lmc=False, candidates=True, policy="adaptive",
    nvidia="ar_ftree",
)  # fmt: skip
def ar_ftree(
    fabric: Fabric,
    *,
    roots: tuple[str, ...] = ("auto",),
    pure: bool = True,
    max_groups: MaxGroups = MOST_GROUPS,
    max_ports: MaxPorts = MOST_PORTS,
) -> Routes:
    """Route fat trees adaptively: every output link on a minimal path up and down is a candidate.

    A switch has a group of ports for each set of destination switches that it reaches over the same
    ports. The forwarding tables of `ftree` are the fallback for packets that may not choose.

    Parameters
    ----------
    fabric
        A fat tree as for `ftree`, without cables within a level.
    roots, pure
        As for `ftree`.
    max_groups, max_ports
        As for `ar_updn`.

    Raises
    ------
    NotApplicable
        If `ftree` does not apply, or a cable joins two switches of one level.
    InputError
        If a root is unknown, or a limit is out of range.

    Notes
    -----
    Source: NVIDIA's manuals, as for `ar_updn`.
    """
    fallback = ftree(fabric, roots=roots, pure=pure)
    assert isinstance(fallback, TableRoutes)
    graph = fabric.graph
    named = None
    if roots != ("auto",):
        nodes = listed_nodes(fabric, roots, kind="root", what="ar_ftree: option roots")
        named = np.unique(graph.node_row[nodes])
    rank = np.zeros(graph.num_rows, dtype=np.int32)
    label = graph.components
    for part in np.unique(label[graph.edge_tail]):
        inside = label == part
        of_part = named if named is None else named[inside[named]]
        rank[inside] = find_ranks(fabric, inside, of_part)[inside]
    tail, head = rank[graph.edge_tail], rank[graph.edge_row]
    level = np.flatnonzero((tail == head) & (graph.edge_tail != graph.edge_row))
    if len(level):
        cable = fabric.cable_name(int(graph.edge_link[level[0]]) >> 1)
        raise NotApplicable(f"{cable} joins two switches of one level; ar_updn takes such cables")
    up = (head < tail).astype(np.uint8)
    return adaptive_routes(fabric, fallback, up, "ar_ftree", max_groups, max_ports)
