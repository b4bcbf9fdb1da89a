"""file: forwarding tables from a file, as OpenSM's engine of that name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.engine_registry import engine
from weft.routing.opensm.lfts import read_lfts
from weft.routing.opensm.lid_matrix import NO_PATH, read_lid_matrix
from weft.routing.routes import Routes, TableRoutes


@engine("file", deadlock_free=False, lmc=False, needs="lfts_file")
def file(
    fabric: Fabric, *, lfts_file: str = "", lid_matrix_dump_file: str = "", lmc: int | None = None
) -> Routes:
    """Read forwarding tables from a dump of OpenSM, ibroute or dump_fts.

    Parameters
    ----------
    fabric
        Fabric of the tables; its hosts must not forward.
    lfts_file
        The dump: OpenSM's ``-U``. It is required; OpenSM uses minhop without it.
    lid_matrix_dump_file
        A matrix of hops: OpenSM's ``-M``. The matrix does not change the tables; a note gives the
        number of paths whose number of hops differs from the matrix.
    lmc
        LMC of the tables; by default read from the file.

    Raises
    ------
    NotApplicable
        If there is no file, or a host forwards.
    InputError
        If a file is invalid or of another fabric; see `weft.routing.opensm.lfts.read_lfts` and
        `weft.routing.opensm.lid_matrix.read_lid_matrix`.
    """
    if not lfts_file:
        raise NotApplicable(
            "needs the file with the tables, as in file:lfts_file=opensm-lfts.dump (OpenSM uses "
            "minhop without it)"
        )
    routes = read_lfts(fabric, lfts_file, lmc=lmc)
    if lid_matrix_dump_file:
        note = _against_matrix(fabric, routes, lid_matrix_dump_file)
        routes = replace(routes, notes=(*routes.notes, note))
    return routes


def _against_matrix(fabric: Fabric, routes: TableRoutes, path: str) -> str:
    """Return a note that compares the hops of paths between switches with a matrix."""
    expected = read_lid_matrix(fabric, path)[:, :, 0].T.astype(np.int64)
    graph, count = fabric.graph, fabric.num_switches
    table = routes.table[fabric.num_endpoints << routes.lmc :: 1 << routes.lmc]
    ports = np.where(table > fabric.num_ports[:count], 0, table)
    links = graph.row_link[graph.row_base[:-1] + ports]
    next_row = np.where(links >= 0, graph.link_row[links], -1)
    target = np.arange(count)
    next_row[target, target] = target
    at = np.tile(target, (count, 1))  # [targets, sources]: row of the packet
    taken = np.zeros((count, count), dtype=np.int64)
    for _ in range(count):
        moving = (at >= 0) & (at != target[:, None])
        if not moving.any():
            break
        taken += moving
        at = np.where(moving, next_row[target[:, None], at], at)
    taken[at != target[:, None]] = NO_PATH
    paths = int((taken != NO_PATH).sum()) - count
    other = int(((taken != expected) & (taken != NO_PATH)).sum())
    return f"{other} of {paths} paths between switches differ from {path} in hops"
