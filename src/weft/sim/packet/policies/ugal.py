"""Ways by intermediates: all packets by one (Valiant), or those that the load asks for (UGAL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.core.units import Bytes
from weft.fabrics import Fabric
from weft.kernels.packet import choice as kernel
from weft.routes import CandidateRoutes
from weft.routes.intermediates import longest_ways
from weft.sim.packet.policies.adaptive import BY, By
from weft.sim.packet.policies.policy_registry import Policy, policy


@policy("valiant")
def valiant() -> Policy:
    """Every packet goes by an intermediate that is drawn for it, over candidates that are drawn.

    Notes
    -----
    Source: Valiant and Brebner 1981.
    """
    return Policy(kernel.VALIANT, reorders=True, by_intermediates=True, lay=_towards)


@policy("ugal")
def ugal(*, threshold: Bytes = 8192, by: By = "both") -> Policy:
    """Each packet goes straight or by a drawn intermediate, as loads at its first switch say.

    Straight if its load there times the links of the straight way is at most the load towards the
    intermediate times the links of that way, plus the threshold. Among candidates of a set every
    switch takes the one with the least load.

    Parameters
    ----------
    threshold
        How much more straight ways may have to send, in bytes times links.
    by
        What loads are made of, as of `adaptive`.

    Notes
    -----
    Source: Singh 2005; Kim, Dally, Scott and Abts 2008 (UGAL-L: the loads of the first switch).
    """
    if not 0 <= threshold <= 2**40:
        raise InputError(f"threshold must be 0 to {2**40} bytes, not {threshold}")
    return Policy(
        kernel.UGAL,
        {"threshold_bytes": threshold, "by": BY[by]},
        reorders=True,
        by_intermediates=True,
        lay=_towards_and_lengths,
    )


def _towards(fabric: Fabric, routes: CandidateRoutes) -> Mapping[str, Any]:
    """Intermediates and the ways to them."""
    to_via = np.zeros(routes.via_set.shape, dtype=kernel.TO_VIA)
    to_via["set"] = routes.via_set
    return {"detours": kernel.Detours(routes.via, to_via, np.zeros((1, 1), dtype=np.uint8))}


def _towards_and_lengths(fabric: Fabric, routes: CandidateRoutes) -> Mapping[str, Any]:
    """The same with how long ways are: what a switch compares loads by."""
    to_via, circle = longest_ways(fabric, routes, routes.via_set)
    straight, other = longest_ways(fabric, routes, routes.set_id)
    for name, found in (("intermediate", circle), ("switch", other)):
        if found[0] >= 0:
            row = fabric.node_names[fabric.graph.row_node[found[1]]]
            raise InputError(
                f"the {routes.engine} routes of {fabric.name} to {name} {found[0]} lead in a "
                f"circle at {row}"
            )
    # Where packets turn: along first candidates, until there is no set any more.
    onward = np.tile(np.arange(len(routes.via), dtype=np.int32), (len(routes.via_set), 1))
    known = routes.via_set >= 0
    first = routes.set_edge[routes.set_offset[routes.via_set[known]]]
    onward[known] = fabric.graph.edge_row[first]
    turns_on = np.tile(np.arange(len(routes.via), dtype=np.int32), (len(routes.via_set), 1))
    for _ in range(int(to_via.max(initial=0))):
        turns_on = np.take_along_axis(onward, turns_on, axis=1)
    detours = _towards(fabric, routes)["detours"]
    detours.to_via["links"] = np.minimum(to_via, 255)
    detours.to_via["turns_on"] = turns_on
    links_to = np.minimum(straight, 255).astype(np.uint8)
    return {
        "detours": detours._replace(links_to=links_to),
        "rules": {"chooses_straight": routes.direct},
    }
