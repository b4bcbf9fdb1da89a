"""ecmp: all minimal paths, as sets of candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.fabrics import Fabric
from weft.kernels.routing.distances import UNREACHED
from weft.routing.engine_registry import engine, path_sets, sending_rows
from weft.routing.lane_assignment import MaxVls
from weft.routing.routes import CandidateRoutes, Routes
from weft.routing.routes.candidate_sets import SetCollector
from weft.routing.validation.deadlock import credit_loops

HOW_TAKEN = (
    "loads are split equally at every hop; the bisection bandwidth uses one random path per flow"
)


@engine("ecmp", deadlock_free=False, lmc=False, candidates=True)
def ecmp(fabric: Fabric, *, max_vls: MaxVls = 8) -> Routes:
    """Route by equal-cost multipath: every output link on a minimal path is a candidate.

    If minimal paths close a cycle in one lane, as on a Slim Fly, the lane increases with each hop
    between switches, as far as there are enough lanes for the longest path. Otherwise the routes
    stay on one lane, on which they can deadlock.

    Parameters
    ----------
    fabric
        Any fabric.
    max_vls
        Number of available virtual lanes, 1 to 15.

    Raises
    ------
    InputError
        If max_vls is not 1 to 15.

    Notes
    -----
    A policy chooses among the candidates, for example by a hash (RFC 2992) or an equal split.
    Source of the lanes: Gopal 1985.
    """
    set_id, offset, edges = path_sets(fabric)
    routes = CandidateRoutes(
        "ecmp", fabric.digest, notes=(HOW_TAKEN,), set_id=set_id, set_offset=offset, set_edge=edges
    )
    return _by_hops(fabric, routes, max_vls)


def _by_hops(fabric: Fabric, routes: CandidateRoutes, max_vls: int) -> CandidateRoutes:
    """Return the routes with a lane for each hop, if they need lanes and these are enough."""
    graph, ends = fabric.graph, sending_rows(fabric)
    hops = graph.hops().astype(np.int32)
    among = hops[np.ix_(ends, ends)]
    longest = int(among[among < UNREACHED].max(initial=0))
    if not 2 <= longest <= max_vls or not credit_loops(fabric, routes)[0]:
        return routes
    sets = SetCollector(fabric)
    for far in hops:
        # Rows that are farther than any row with hosts forward no packets between hosts.
        onward = far[graph.edge_tail] == far[graph.edge_row] + 1
        lane = np.maximum(longest - far[graph.edge_tail], 0)
        sets.add(np.where(onward, lane, -1).astype(np.int8))
    set_id, offset, edge, lanes = sets.collect()
    return replace(
        routes, set_id=set_id, set_offset=offset, set_edge=edge, set_lane=lanes,
        notes=(*routes.notes, f"a lane for each of {longest} hops prevents deadlock"),
    )  # fmt: skip
