"""Forwarding tables of any engine as a routing of the flit level."""

from __future__ import annotations

from weft.core.errors import InputError, NotApplicable
from weft.kernels.flit.routing import tables
from weft.routes import Routes, TableRoutes
from weft.sim.flit.network import Links
from weft.sim.flit.routings.routing_registry import Routing


def of_tables(links: Links, routes: Routes, lanes: int) -> Routing:
    """Return routes of an engine as a routing.

    Parameters
    ----------
    links
        Links of the fabric.
    routes
        Forwarding tables without an LMC.
    lanes
        Virtual channels of each class of traffic.

    Raises
    ------
    InputError
        If the routes are for another fabric or need more lanes.
    NotApplicable
        If the routes are not tables, have an LMC, or miss a path.
    """
    fabric = links.fabric
    routes.check(fabric)
    if not isinstance(routes, TableRoutes):
        raise NotApplicable(
            f"{routes.engine} has no forwarding tables; the flit level takes engines with tables, "
            "or a routing of its own"
        )
    if routes.lmc:
        raise NotApplicable("the flit level takes tables without an LMC")
    if routes.num_vls > lanes:
        raise InputError(
            f"{routes.engine} needs {routes.num_vls} virtual channels, and there are {lanes}"
        )
    if routes.num_vls > 1:
        raise NotApplicable("the flit level takes tables with one virtual lane")
    for row, table in enumerate(routes.table[: links.ends].T):
        if (table == routes.no_path).any():
            raise NotApplicable(
                f"{fabric.node_names[fabric.graph.row_node[row]]} has no path to some hosts"
            )
    arrays = tables.Tables(routes.table, links.output_of_port(), fabric.graph.row_base)
    return Routing(routes.engine, tables.route, arrays)
