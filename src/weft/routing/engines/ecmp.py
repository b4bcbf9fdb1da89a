"""ecmp: all minimal paths, as sets of candidates."""

from __future__ import annotations

import numpy as np

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.candidates import shortest_path_sets
from weft.routes import CandidateRoutes, Routes
from weft.routing.engine_registry import engine, provenance

HOW_TAKEN = (
    "loads are split equally at every hop; the bisection bandwidth uses one random path per flow"
)


@engine("ecmp", deadlock_free=False, lmc=False, candidates=True)
def ecmp(fabric: Fabric) -> Routes:
    """Route by equal-cost multipath: every output link on a minimal path is a candidate.

    Parameters
    ----------
    fabric
        Any fabric.

    Notes
    -----
    A policy chooses among the candidates, for example by a hash (RFC 2992) or an equal split.
    """
    graph = fabric.graph
    if graph.num_rows == 0:
        raise NotApplicable(f"{fabric.name} has no switch")
    graph.need_memory(graph.num_rows, 4, "candidate sets")
    set_id = np.full((graph.num_rows, graph.num_rows), -1, dtype=np.int32)
    targets = np.arange(graph.num_rows, dtype=np.int32)
    offset, edges = shortest_path_sets(graph.edge_offset, graph.edge_row, targets, set_id)
    return CandidateRoutes(
        **provenance(fabric, "ecmp", notes=(HOW_TAKEN,)),
        set_id=set_id,
        set_offset=offset,
        set_edge=edges,
    )
