"""Service levels and lanes of routes as OpenSM's options and QoS policy, where it has words."""

from __future__ import annotations

import numpy as np

from weft.errors import NotApplicable
from weft.fabrics import Fabric
from weft.opensm.qos import qos_options, qos_policy
from weft.routes import TableRoutes
from weft.subnet.folder import POLICY


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
        raise NotApplicable(
            f"OpenSM cannot load the lanes of {routes.engine}: {reason}{_instead(routes)}"
        ) from None
    settings = dict(line.split(" ", 1) for line in lines)
    return {POLICY: policy}, settings


def _instead(routes: TableRoutes) -> str:
    if routes.engine.lower() != "torus-2qos":
        return ""
    return "; OpenSM's own engine of that name sets such lanes: weft opensm live --real torus-2QoS"
