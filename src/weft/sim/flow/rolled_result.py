"""Results of rolled workloads at the flow level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.sim.common.rolled_result import RolledReplay
from weft.sim.flow.cells import Cells
from weft.sim.flow.network import Network
from weft.sim.flow.result import link_table, on_wire


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RolledResult(RolledReplay):
    """Result of a rolled workload at the flow level; it has no times of single operations.

    Parameters
    ----------
    fabric, engine, workload, host, options, run_s
        As in `FlowResult`.
    tally, most_ops
        As in `RolledReplay`.
    network, route
        The routes; and int32 [maps, ranks], the route from each rank to its peer.
    cells
        Ranks that are alike.
    shared
        Whether messages shared links; else each was shown to be alone on its own.
    certain
        Whether times are surely those of the unrolled workload. Else operations that coincide may
        have started in the order of another rank of the cell, and sums be rounded differently.
    """

    network: Network
    route: NDArray[np.int32]
    cells: Cells
    shared: bool
    certain: bool

    @property
    def recalled_for(self) -> str:
        """Why messages were not computed."""
        return f"of ranks like one of these {len(self.cells.first):,} were"

    @property
    def recalled(self) -> str:
        """How much was computed, and at a time, and what is known of times, in words."""
        but = "; ranks that are alike may differ by rounding, and by the order of what coincides"
        return super().recalled + but * (not self.certain)

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `weft.sim.flow.result.LINK_COLUMNS`."""
        routes, sizes, counts = [], [], []
        for to, ranks, size in self.sent():
            route = self.route[to, ranks]
            routes.append(route[route >= 0])
            sizes.append(np.full(len(routes[-1]), on_wire(self.options, size).sum()))
            counts.append(np.full(len(routes[-1]), len(size)))
        columns = (
            np.concatenate([*each, np.zeros(0, dtype=np.int64)]) for each in (routes, sizes, counts)
        )
        return link_table(self.fabric, self.network, self.makespan_ns, *columns)
