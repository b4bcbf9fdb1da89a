"""Forwarding tables while a subnet manager replaces them by others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routes.mixed_tables import mixed_dependencies
from weft.routes.tables import TableRoutes


@dataclass(frozen=True, eq=False, repr=False)
class MixedTables(TableRoutes):
    """Tables of which any entries may still be those of previous tables.

    A subnet manager programs one switch after the other, and a large table in several parts.
    Meanwhile a packet may follow previous entries at some switches and new ones at others.

    Parameters
    ----------
    before
        Previous tables, of the same shape and type as `table`.
    """

    before: NDArray[np.unsignedinteger[Any]] = field(kw_only=True)

    def check(self, fabric: Fabric) -> None:
        """See `Routes.check`."""
        super().check(fabric)
        if self.before.shape != self.table.shape or self.before.dtype != self.table.dtype:
            raise InputError(
                f"the previous table has shape {self.before.shape} and type {self.before.dtype}, "
                f"the new one {self.table.shape} and {self.table.dtype}"
            )

    def add_dependencies(
        self, fabric: Fabric, management: bool, dependencies: tuple[NDArray[Any], ...]
    ) -> None:
        """See `Routes.add_dependencies`.

        Raises
        ------
        NotApplicable
            If the routes use several virtual lanes.
        """
        if self.num_vls > 1:
            raise NotApplicable("mixtures of tables are checked on one virtual lane only")
        graph = fabric.graph
        last = fabric.num_destinations if management else fabric.num_host_endpoints
        destinations = np.flatnonzero(graph.destination_row[:last] >= 0)
        lids = ((destinations[:, None] << self.lmc) + np.arange(1 << self.lmc)).reshape(-1)
        mixed_dependencies(
            self.before, self.table, lids.astype(np.int32), graph.row_base, graph.slot_edge,
            graph.edge_offset, graph.edge_row, np.unique(graph.destination_row[destinations]),
            *dependencies,
        )  # fmt: skip
