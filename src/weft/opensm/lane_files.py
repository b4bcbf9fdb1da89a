"""Service levels and lanes of routes as OpenSM's options and QoS policy, where it has words."""

from __future__ import annotations

import tempfile

import numpy as np

from weft.core.errors import NotApplicable
from weft.core.files import read_text
from weft.fabrics import Fabric
from weft.opensm.files.qos import qos_options, qos_policy
from weft.opensm.files.tables_folder import POLICY, TORUS
from weft.opensm.files.torus_conf import TorusConf, write
from weft.routes import Routes, TableRoutes
from weft.routing import route
from weft.routing.structure.torus import find_tori
from weft.routing.structure.torus_seed import configuration


def lane_files(fabric: Fabric, routes: TableRoutes) -> tuple[dict[str, str], dict[str, str]]:
    """Files and settings of opensm.conf that carry service levels and lanes.

    Nothing for routes that leave all on one lane. Else a QoS policy that answers each path query
    with the pair's service level, and one table from service levels to lanes for all ports.

    Raises
    ------
    NotApplicable
        When OpenSM cannot carry them: the lane depends on the ports, or the service level on which
        of a port's LIDs is addressed.
    """
    used = np.unique(routes.sl)
    if not used.any() and not routes.lanes.tables[:, 0].any():
        return {}, {}
    try:
        lines = qos_options(routes.lanes).splitlines()
        policy = qos_policy(fabric, routes)
    except NotApplicable as reason:
        raise NotApplicable(f"OpenSM cannot load the lanes of {routes.engine}: {reason}") from None
    settings = dict(line.split(" ", 1) for line in lines)
    return {POLICY: policy}, settings


def carried(fabric: Fabric, routes: Routes) -> str:
    """How OpenSM can have the routes: ``tables``, its ``own`` engine's, or not at all (empty)."""
    if not isinstance(routes, TableRoutes):
        return ""
    if routes.lanes.is_uniform:
        return "tables"
    try:
        return "own" if torus_files(fabric, routes) is not None else ""
    except NotApplicable:
        return ""


def torus_files(
    fabric: Fabric, routes: TableRoutes
) -> tuple[dict[str, str], dict[str, str]] | None:
    """Files and settings that make OpenSM's own torus-2QoS compute just these routes.

    Its lanes depend on the ports that a packet takes through a switch, for which OpenSM's options
    have no words; but its engine of that name programs them.

    Returns
    -------
    tuple or None
        None for routes of other engines, and for those whose lanes options can state.

    Raises
    ------
    NotApplicable
        When OpenSM would compute other tables.
    """
    if routes.engine != "torus-2QoS" or routes.lanes.is_uniform:
        return None
    given = str(routes.options.get("conf", ""))
    text = read_text(given) if given else write(torus_configuration(fabric))
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text)
        file.flush()
        theirs = route(fabric, "torus-2QoS", conf=file.name, balance="opensm")
    if not isinstance(theirs, TableRoutes) or not np.array_equal(theirs.table, routes.table):
        raise NotApplicable(
            "the lanes of torus-2QoS depend on the ports that a packet takes through a switch, "
            "which only OpenSM's own engine of that name programs, and it computes other tables "
            f"than these; take those: torus-2QoS:balance=opensm{',conf=' + given if given else ''}"
        )
    return {TORUS: text}, {"routing_engine": "torus-2QoS", "qos": "TRUE"}


def torus_configuration(fabric: Fabric) -> TorusConf:
    """Where the dimensions lie, for a fabric that is one torus.

    Raises
    ------
    NotApplicable
        When it is none, is several, or has more than three dimensions.
    """
    tori = [torus for torus in find_tori(fabric) if torus.radix]
    if len(tori) != 1:
        raise NotApplicable(f"OpenSM's torus-2QoS routes one torus, and these are {len(tori)}")
    return configuration(fabric, tori[0].folded())
