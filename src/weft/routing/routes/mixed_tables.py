"""Forwarding tables while a subnet manager replaces them by others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.parts import parts
from weft.kernels.routes.dependencies import WaitGraph
from weft.kernels.routes.mixed_tables import mark_used, mixed_dependencies
from weft.routing.routes.tables import TableRoutes


@dataclass(frozen=True, eq=False, repr=False)
class MixedTables(TableRoutes):
    """Tables of which any entries may still be those of previous tables.

    A subnet manager programs one switch after the other, and a large table in several parts.
    Meanwhile a packet may follow previous entries at some switches and new ones at others.
    """

    #: Previous tables, of the same shape and type as `table`.
    before: NDArray[np.unsignedinteger[Any]] = field(kw_only=True)

    @classmethod
    def of(cls, before: TableRoutes, after: TableRoutes) -> MixedTables:
        """Return the mixtures of two tables of a fabric on one virtual lane."""
        return cls(
            after.engine, after.fabric_digest, table=after.table, lmc=after.lmc, before=before.table
        )

    def check(self, fabric: Fabric) -> None:
        """See `Routes.check`."""
        super().check(fabric)
        if self.before.shape != self.table.shape or self.before.dtype != self.table.dtype:
            raise InputError(
                f"the previous table has shape {self.before.shape} and type {self.before.dtype}, "
                f"the new one {self.table.shape} and {self.table.dtype}"
            )

    def add_dependencies(self, fabric: Fabric, management: bool, dependencies: WaitGraph) -> None:
        """See `Routes.add_dependencies`; paths from and to switches are not included."""
        if management or self.num_vls > 1 or fabric.graph.num_rows > fabric.num_switches:
            raise NotApplicable("mixtures of tables are checked on one lane, between hosts")
        self._follow(fabric, dependencies)

    def lost(self, fabric: Fabric) -> int:
        """Return the number of entries on paths between hosts that lose packets."""
        none = np.zeros(0, dtype=np.uint8)
        return self._follow(fabric, WaitGraph(1, np.zeros(1, dtype=np.int64), none, none))

    def _follow(self, fabric: Fabric, dependencies: WaitGraph) -> int:
        lids, starts = _paths(fabric, self.lmc)
        graph = fabric.graph.parts
        return int(
            mixed_dependencies(
                self.before, self.table, lids, self.lmc, graph, starts, parts(dependencies)
            )
        )


def detour(
    fabric: Fabric, before: TableRoutes, after: TableRoutes
) -> tuple[TableRoutes, TableRoutes]:
    """Return two tables by way of which tables can be replaced.

    The first differs from the previous tables only in entries that no path uses, which are those
    of the new tables already; the second differs from the new tables in the same way. So of these
    three steps only the second one changes paths, and all entries on its paths are of paths of the
    previous or the new tables.
    """
    lids, starts = _paths(fabric, before.lmc)
    graph = fabric.graph
    on_path = []
    for routes in (before, after):
        used = np.zeros(routes.table.shape, dtype=np.uint8)
        mark_used(routes.table, lids, routes.lmc, graph.parts, starts, used)
        on_path.append(used > 0)
    return (
        replace(after, table=np.where(on_path[0], before.table, after.table)),
        replace(after, table=np.where(on_path[1], after.table, before.table)),
    )


def _paths(fabric: Fabric, lmc: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the LIDs of hosts, as indices in tables, and the rows at which their packets enter."""
    rows = fabric.graph.destination_row[: fabric.num_host_endpoints]
    destinations = np.flatnonzero(rows >= 0)
    lids = ((destinations[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1)
    return lids.astype(np.int32), np.unique(rows[destinations]).astype(np.int32)
