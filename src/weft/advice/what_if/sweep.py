"""OpenSM's next sweep after cables failed, from what its sweep would do before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.advice.what_if.figures import Ports, Remains
from weft.fabrics import Fabric
from weft.kernels.graph import Graph
from weft.kernels.parts import parts
from weft.kernels.routing.distances import UNREACHED
from weft.kernels.routing.next_sweep import next_sweep
from weft.kernels.routing.opensm_ranks import GONE, MOST_HOPS
from weft.routing import engine
from weft.routing.engine_registry import opensm_targets, row_adapters, row_system
from weft.routing.engines.dnup import dnup_steps
from weft.routing.engines.updn import opensm_roots, opensm_steps
from weft.routing.routes import TableRoutes


@dataclass(frozen=True, eq=False)
class NextSweep:
    """A sweep of OpenSM that keeps all entries for endpoints, and what it found on the way."""

    fabric: Fabric
    table: Ports
    engine: str
    #: Last arguments of `next_sweep` but for the table, from `goals` on.
    known: tuple[Any, ...]

    @classmethod
    def of(cls, fabric: Fabric, routes: TableRoutes, spec: str) -> NextSweep | None:
        """Return the sweep; None if it would change entries, or is not of a kind that is known."""
        name, connected = engine.parse(spec)[0].name, fabric.graph.components.max(initial=0) == 0
        if name not in ("minhop", "updn", "dnup") or routes.lmc or not connected:
            return None
        graph, table = fabric.graph, routes.table.copy()
        step = _steps(fabric, spec)
        if step is None:
            return None
        order, targets = opensm_targets(fabric, table, 0)
        goals = order[row_adapters(fabric)[order] > 0]
        hops = np.empty((len(goals), len(graph.edge_row)), dtype=np.uint16)
        counts = np.empty((len(goals) + 1, len(graph.edge_row)), dtype=np.int32)
        most = MOST_HOPS if len(step) else UNREACHED - 1
        fixed = goals, row_system(fabric), targets
        next_sweep(graph.parts, step, most, *fixed, True, hops, counts, table)
        if not np.array_equal(table, routes.table):
            return None
        return cls(fabric, table, spec, (most, *fixed, False, hops, counts))

    def after(self, remains: Remains) -> Ports | None:
        """Return the tables after cables between rows failed; None if all would change.

        Entries for switches are those of before.
        """
        graph, left = self.fabric.graph, np.zeros(0, dtype=np.uint8)
        if not remains.connected:
            return None
        if engine.parse(self.engine)[0].name != "minhop":
            steps = _steps(self.fabric.without(cables=remains.cables.tolist()), self.engine)
            if steps is None:
                return None
            left = steps
        step, table = np.zeros(0, dtype=np.uint8), self.table.copy()
        arrays = {name: getattr(graph, name) for name in Graph._fields}
        if len(left):
            step = np.full(len(graph.edge_row), GONE, dtype=np.uint8)
            step[remains.edges] = left
        else:
            arrays["edge_row"] = np.where(remains.edges, graph.edge_row, graph.edge_tail)
        next_sweep(parts(Graph(**arrays)), step, *self.known, table)
        return table


def _steps(fabric: Fabric, spec: str) -> NDArray[np.uint8] | None:
    """Return the kinds of edges for OpenSM's search, none for minhop; None if it falls back."""
    entry, given = engine.parse(spec)
    if entry.name == "minhop":
        return np.zeros(0, dtype=np.uint8)
    if entry.name == "dnup":
        return dnup_steps(fabric)
    lists = {name: given[name] for name in ("roots", "root_guid_file") if name in given}
    chosen, _, rootless = opensm_roots(fabric, **lists)
    return None if rootless.any() else opensm_steps(fabric, chosen)
