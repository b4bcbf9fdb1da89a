"""smodk: S-mod-K, the source's number decides the way up."""

from __future__ import annotations

import numpy as np

from weft.fabrics import Fabric
from weft.kernels.routes.paths import reversed_ways
from weft.routes import PathRoutes, Routes, TableRoutes
from weft.routing.engine_registry import engine, provenance
from weft.routing.engines.dmodk import dmodk
from weft.routing.engines.source import check_pairs


@engine("smodk", deadlock_free=True, lmc=False, paths=True)
def smodk(fabric: Fabric) -> Routes:
    """S-mod-K on complete fat trees: the mirror of D-mod-K, as source routes.

    On the way from host number s a switch of level l takes its up-port number
    floor(s / (w1 w2 … wl)) mod (w(l+1) p(l+1)), so that all that one host sends climbs by one way.
    Forwarding tables cannot hold it: two hosts of a leaf go to one destination by different ports.

    Parameters
    ----------
    fabric
        A complete XGFT or PGFT of at most 4,096 hosts, recognised without labels.

    Raises
    ------
    NotApplicable
        On anything else, with what is missing.

    Notes
    -----
    The path from s to d is D-mod-K's from d to s walked backwards, copies of parallel cables
    included. Source: Gomez et al. 2007; Zahavi 2010; Rodriguez et al., Oblivious Routing Schemes
    in Extended Generalized Fat Tree Networks, 2009.
    """
    check_pairs(fabric)
    mirror = dmodk(fabric)
    assert isinstance(mirror, TableRoutes)
    graph, hosts = fabric.graph, fabric.num_hosts
    # In a fat tree each host has one port, so that endpoints are hosts.
    offset = np.zeros(hosts * (hosts - 1) + 1, dtype=np.int64)
    tree = (
        mirror.table, graph.destination_row[:hosts], graph.row_base, graph.slot_edge,
        graph.edge_row, graph.edge_link, graph.edge_of_link, offset,
    )  # fmt: skip
    edge = np.empty(reversed_ways(*tree, np.zeros(0, dtype=np.int32)), dtype=np.int32)
    reversed_ways(*tree, edge)
    pair = np.arange(hosts * hosts, dtype=np.int64)
    return PathRoutes(
        **provenance(fabric, "smodk", notes=mirror.notes),
        pair=pair[pair % (hosts + 1) != 0],
        offset=offset,
        edge=edge,
    )
