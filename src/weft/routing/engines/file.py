"""file: forwarding tables out of a file, as OpenSM's engine of that name takes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.opensm.files.lfts import read_lfts
from weft.opensm.files.lid_matrix import NO_WAY, read_lid_matrix
from weft.routes import Routes, TableRoutes
from weft.routing.engine_registry import engine


@engine("file", deadlock_free=False, lmc=False, needs="lfts_file")
def file(
    fabric: Fabric,
    *,
    lfts_file: str = "",
    lid_matrix_dump_file: str = "",
    lmc: int | None = None,
) -> Routes:
    """Forwarding tables out of a file, as OpenSM, ibroute or dump_fts dump them.

    Parameters
    ----------
    fabric
        What the tables are of; hosts that forward have none.
    lfts_file
        The dump: OpenSM's ``-U``. Required here, where OpenSM would silently route by minhop.
    lid_matrix_dump_file
        A matrix of hops: OpenSM's ``-M``. It changes no table; how often the tables take other
        hops than it says becomes a note.
    lmc
        LMC; left out, the file's.

    Raises
    ------
    NotApplicable
        Without a file, or when a host forwards.
    InputError
        When a file is not of this fabric, or broken; see `weft.opensm.files.lfts.read_lfts` and
        `weft.opensm.files.lid_matrix.read_lid_matrix`.
    """
    if not lfts_file:
        raise NotApplicable(
            "needs the file with the tables, as in file:lfts_file=opensm-lfts.dump; OpenSM would "
            "route by minhop without"
        )
    routes = read_lfts(fabric, lfts_file, lmc=lmc)
    if lid_matrix_dump_file:
        note = _against_matrix(fabric, routes, lid_matrix_dump_file)
        routes = replace(routes, notes=(*routes.notes, note))
    return routes


def _against_matrix(fabric: Fabric, routes: TableRoutes, path: str) -> str:
    """How many ways between switches have the hops that a matrix says."""
    said = read_lid_matrix(fabric, path)[:, :, 0].T.astype(np.int64)
    graph, count = fabric.graph, fabric.num_switches
    table = routes.table[fabric.num_endpoints << routes.lmc :: 1 << routes.lmc]
    ports = np.where(table > fabric.num_ports[:count], 0, table)
    links = graph.row_link[graph.row_base[:-1] + ports]
    onward = np.where(links >= 0, graph.link_row[links], -1)
    target = np.arange(count)
    onward[target, target] = target
    at = np.tile(target, (count, 1))  # of each target, where the packet of each switch is
    taken = np.zeros((count, count), dtype=np.int64)
    for _ in range(count):
        moving = (at >= 0) & (at != target[:, None])
        if not moving.any():
            break
        taken += moving
        at = np.where(moving, onward[target[:, None], at], at)
    taken[at != target[:, None]] = NO_WAY
    ways = int((taken != NO_WAY).sum()) - count
    other = int(((taken != said) & (taken != NO_WAY)).sum())
    return f"{other} of {ways} ways between switches take other hops than {path} says"
