"""Routes of any engine as a routing of the flit level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.kernels.flit.routing import paths, tables
from weft.kernels.flit.routing.virtual_lanes import SlToVl
from weft.kernels.routing.checks import arriving_rows
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.sim.common.policies import NO_CHOICE
from weft.sim.flit.network import Links
from weft.sim.flit.routings.policies import bind
from weft.sim.flit.routings.routing_registry import Routing, fixed


def of_routes(links: Links, routes: Routes, lanes: int, policy: str | None = None) -> Routing:
    """Return routes of an engine as a routing.

    `routes`: forwarding tables without an LMC, source routes, or candidates. `lanes`: virtual
    channels of each class of traffic, a multiple of the virtual lanes of the routes. `policy`:
    policy that chooses among candidates, with options; by default the policy with the name of the
    engine or, if there is none, ``ecmp``. Routes without a choice have the policy
    ``deterministic``.
    """
    routes.check(links.fabric)
    if lanes % routes.num_vls:
        raise InputError(
            f"the routes of {routes.engine} use {routes.num_vls} virtual lanes, so the virtual "
            f"channels of each class of traffic must be a multiple of {routes.num_vls}, not {lanes}"
        )
    if isinstance(routes, CandidateRoutes):
        return bind(policy, links, routes, lanes)
    if policy not in (None, NO_CHOICE):
        raise NotApplicable(f"the routes of {routes.engine} leave no choice to policy {policy}")
    if isinstance(routes, TableRoutes):
        return _of_tables(links, routes, lanes)
    if isinstance(routes, PathRoutes):
        return _of_paths(links, routes, lanes)
    raise NotApplicable(f"the flit level does not support the routes of {routes.engine}")


def _of_tables(links: Links, routes: TableRoutes, lanes: int) -> Routing:
    graph = links.fabric.graph
    if routes.lmc:
        raise NotApplicable("the flit level takes tables without an LMC")
    ends = np.arange(links.ends, dtype=np.int32)
    reached = np.zeros((links.ends, graph.num_rows), dtype=bool)
    rows = graph.destination_row[: links.ends]
    arriving_rows(
        routes.table, ends, rows, graph.destination_link[: links.ends], graph.parts, routes.no_path,
        reached,
    )  # fmt: skip
    for destination in np.flatnonzero(~reached[:, rows].all(axis=1))[:1]:
        _refuse(links, routes, np.flatnonzero(~reached[destination, rows])[0], destination)
    level = np.atleast_2d(np.asarray(routes.sl, dtype=np.uint8))
    arrays = tables.Tables(
        routes.table, links.output_of_port(), graph.row_base, level, rows,
        _lanes(links, routes, lanes),
    )  # fmt: skip
    return Routing(routes.engine, tables.route, fixed(arrays), tables.enter)


def _of_paths(links: Links, routes: PathRoutes, lanes: int) -> Routing:
    fabric, ends = links.fabric, links.ends
    for source in range(ends):
        missing = routes.find(fabric, np.full(ends, source), np.arange(ends)) < 0
        missing[source] = False
        if missing.any():
            _refuse(links, routes, source, np.flatnonzero(missing)[0])
    port = fabric.link_from_port[links.out_link].astype(np.int32)
    arrays = paths.SourceRoutes(
        routes.pair, routes.offset, links.output_of[fabric.graph.edge_link[routes.edge]],
        np.atleast_1d(np.asarray(routes.sl, dtype=np.uint8)), port,
        _lanes(links, routes, lanes),
    )  # fmt: skip
    return Routing(routes.engine, paths.route, fixed(arrays), paths.enter)


def _refuse(links: Links, routes: Routes, source: Any, destination: Any) -> None:
    """Refuse routes without a path between two endpoints."""
    fabric = links.fabric
    names = (fabric.node_names[fabric.endpoint_node[int(end)]] for end in (source, destination))
    raise NotApplicable(
        f"there is no path from {' to '.join(names)} in the {routes.engine} routes of {fabric.name}"
    )


def _lanes(links: Links, routes: Routes, lanes: int) -> SlToVl:
    """Return the lanes of the service levels of routes."""
    mapping = routes.lanes
    ports: NDArray[np.int32] = links.fabric.link_to_port[links.in_link].astype(np.int32)
    return SlToVl(
        lanes // routes.num_vls, mapping.tables, mapping.index, mapping.base, mapping.ports, ports
    )
