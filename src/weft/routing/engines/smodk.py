"""smodk: S-mod-K, in which the source's number determines the upward path."""

from __future__ import annotations

import numpy as np

from weft.fabrics import Fabric
from weft.kernels.routes.paths import reversed_paths
from weft.routing.engine_registry import engine
from weft.routing.engines.dmodk import dmodk
from weft.routing.engines.source import check_pairs
from weft.routing.routes import PathRoutes, Routes, TableRoutes


@engine("smodk", deadlock_free=True, lmc=False, paths=True)
def smodk(fabric: Fabric) -> Routes:
    """Route complete fat trees by S-mod-K, the mirror of D-mod-K, with source routes.

    For packets from host number s, a switch of level l uses its up-port number
    floor(s / (w1 w2 … wl)) mod (w(l+1) p(l+1)), so that all packets of a host use one upward path.
    Forwarding tables cannot express S-mod-K, since two hosts of a leaf use different ports to one
    destination.

    Parameters
    ----------
    fabric
        A complete XGFT or PGFT of at most 4,096 hosts, recognised without labels.

    Raises
    ------
    NotApplicable
        If the fabric is not such a tree; the message names the first difference.

    Notes
    -----
    The path from s to d is the reverse of D-mod-K's path from d to s, over the same parallel
    cables. Source: Gomez et al. 2007; Zahavi 2010; Rodriguez et al., Oblivious Routing Schemes in
    Extended Generalized Fat Tree Networks, 2009.
    """
    check_pairs(fabric)
    mirror = dmodk(fabric)
    assert isinstance(mirror, TableRoutes)
    graph, hosts = fabric.graph, fabric.num_hosts
    # Each host of a fat tree has one port, so endpoints are hosts.
    offset = np.zeros(hosts * (hosts - 1) + 1, dtype=np.int64)
    tree = (mirror.table, graph.destination_row[:hosts], graph.parts, offset)
    edge = np.empty(reversed_paths(*tree, np.zeros(0, dtype=np.int32)), dtype=np.int32)
    reversed_paths(*tree, edge)
    between = np.arange(hosts - 1)[:, None] * (hosts + 1) + np.arange(1, hosts + 1)
    return PathRoutes(
        "smodk",
        fabric.digest,
        notes=mirror.notes,
        pair=between.reshape(-1),  # all numbers but those of a host and itself
        offset=offset,
        edge=edge,
    )
