"""Service levels and lanes of routes as OpenSM's options and QoS policy, where possible."""

from __future__ import annotations

import tempfile

import numpy as np

from weft.core.errors import NotApplicable
from weft.core.files import read_text
from weft.fabrics import Fabric
from weft.routing import route
from weft.routing.opensm.qos import qos_options, qos_policy
from weft.routing.opensm.tables_folder import POLICY, TORUS
from weft.routing.opensm.torus_conf import TorusConf, write
from weft.routing.routes import Routes, TableRoutes
from weft.routing.structure.torus import find_tori
from weft.routing.structure.torus_seed import configuration


def lane_files(fabric: Fabric, routes: TableRoutes) -> tuple[dict[str, str], dict[str, str]]:
    """Return files and settings of opensm.conf, by name, for service levels and lanes of routes.

    Both are empty if the routes use only SL 0 and VL 0. Otherwise the file is a QoS policy with the
    service level of each pair of ports, and the settings are one SL to VL table for all ports.
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


def opensm_use(fabric: Fabric, routes: Routes) -> str:
    """Return how OpenSM can use the routes.

    Returns ``tables`` if OpenSM loads them, ``own`` if its own engine computes them, else empty.
    """
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
    """Return files and settings with which OpenSM's own torus-2QoS computes the same routes.

    In torus-2QoS, the lane depends on a packet's input and output port at a switch. OpenSM's
    options cannot express that, but its torus-2QoS engine programs such lanes.

    Returns files and settings of opensm.conf, by name; None for routes of other engines and for
    lanes that options can express.

    Raises `NotApplicable` if the tables that OpenSM computes differ from the tables of the routes.
    """
    if routes.engine != "torus-2QoS" or routes.lanes.is_uniform:
        return None
    conf = str(routes.options.get("conf", ""))
    text = read_text(conf) if conf else write(torus_configuration(fabric))
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text)
        file.flush()
        theirs = route(fabric, "torus-2QoS", conf=file.name, balance="opensm")
    if not isinstance(theirs, TableRoutes) or not np.array_equal(theirs.table, routes.table):
        raise NotApplicable(
            "the lanes of torus-2QoS depend on a packet's ports at a switch, which only OpenSM's "
            "own engine can program, but that engine computes other tables; use its tables: "
            f"torus-2QoS:balance=opensm{',conf=' + conf if conf else ''}"
        )
    return {TORUS: text}, {"routing_engine": "torus-2QoS", "qos": "TRUE"}


def torus_configuration(fabric: Fabric) -> TorusConf:
    """Return the configuration of a fabric that is one torus."""
    tori = [torus for torus in find_tori(fabric) if torus.radix]
    if len(tori) != 1:
        raise NotApplicable(f"OpenSM's torus-2QoS routes one torus, not {len(tori)}")
    return configuration(fabric, tori[0].folded())
