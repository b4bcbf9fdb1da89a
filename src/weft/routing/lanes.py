"""Virtual lanes for tables: ways in different lanes never wait for each other.

Dally and Seitz 1987 for the condition, Skeie, Lysne and Theiss 2002 (LASH) for layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.lanes import CIRCLE, fit_ways
from weft.routing.base import sending_rows

#: InfiniBand's limit: VL 15 is for management.
MOST_VLS = 15


def check_vls(max_vls: int) -> None:
    """Refuse a number of lanes that InfiniBand does not have.

    Raises
    ------
    InputError
        When it is not 1 to 15.
    """
    if not 1 <= max_vls <= MOST_VLS:
        raise InputError(f"max_vls must be 1 to {MOST_VLS}, not {max_vls}")


def assign_lanes(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    *,
    lmc: int = 0,
    max_vls: int = 8,
    management: bool = False,
) -> tuple[NDArray[np.uint8], int]:
    """Lanes for the ways of tables, as few as are found, so that no deadlock can be.

    Parameters
    ----------
    fabric
        What was routed.
    table
        Of `TableRoutes`, uint8 or uint16 [destinations << lmc, rows].
    lmc
        As the table's.
    max_vls
        Lanes that there are, 1 to 15.
    management
        Count the ways from and to switches, too.

    Returns
    -------
    ndarray
        uint8 [rows, destinations << lmc]: the service level of what each row sends, for the
        uniform mapping of SL i to VL i; 0 for ways that do not count.
    int
        Lanes in use, at least 1.

    Raises
    ------
    NotApplicable
        When more than `max_vls` lanes would be needed.
    InputError
        When `max_vls` is out of range, or the tables send packets round for ever.
    """
    check_vls(max_vls)
    ways = _Ways.of(fabric, table, lmc, management)
    lanes = ways.fit(np.zeros((len(ways.lines), fabric.graph.num_rows), dtype=np.uint8), 1, max_vls)
    used = int(lanes.max(initial=0)) + 1
    if used > max_vls:
        raise NotApplicable(f"more than max_vls={max_vls} virtual lanes would be needed")
    sl = np.zeros((fabric.graph.num_rows, table.shape[0]), dtype=np.uint8)
    sl[:, ways.lids] = lanes[ways.line_of].T
    return sl, used


@dataclass(frozen=True)
class _Ways:
    """The ways of a table that count, those that take the same links only once.

    Parameters
    ----------
    fabric, table
        As given.
    lids
        int64: lines of the table with ways that count.
    lines
        int32: of lines with equal ways only the first.
    line_of
        int64: for each LID, which of `lines` serves it.
    counts
        uint8 [rows]: 1 where the ways from a row count.
    """

    fabric: Fabric
    table: NDArray[np.unsignedinteger[Any]]
    lids: NDArray[np.int64]
    lines: NDArray[np.int32]
    line_of: NDArray[np.int64]
    counts: NDArray[np.uint8]

    @classmethod
    def of(
        cls, fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int, management: bool
    ) -> _Ways:
        graph = fabric.graph
        last = fabric.num_destinations if management else fabric.num_host_endpoints
        destinations = np.flatnonzero(graph.destination_row[:last] >= 0)
        lids = ((destinations[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1)
        counts = np.zeros(graph.num_rows, dtype=np.uint8)
        counts[np.arange(graph.num_rows) if management else sending_rows(fabric)] = 1
        # Where the way ends the port differs between the hosts of one switch, the links do not.
        inner = table[lids]
        inner[np.arange(len(lids)), graph.destination_row[lids >> lmc]] = 0
        keys = inner.view(np.dtype((np.void, inner.shape[1] * inner.itemsize))).reshape(-1)
        _, first, line_of = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        lines = lids[np.sort(first)].astype(np.int32)
        return cls(fabric, table, lids, lines, rank[line_of], counts)

    def fit(self, groups: NDArray[np.uint8], num_groups: int, max_lanes: int) -> NDArray[np.uint8]:
        """Lanes [lines, rows] by first fit in the order of the groups."""
        graph = self.fabric.graph
        edges = len(graph.edge_row)
        first_wait = np.zeros(edges + 1, dtype=np.int64)
        np.cumsum(np.diff(graph.edge_offset)[graph.edge_row], out=first_wait[1:])
        lanes = np.zeros((len(self.lines), graph.num_rows), dtype=np.uint8)
        work = fit_ways(
            self.table, self.lines, graph.row_base, graph.slot_edge, graph.edge_offset,
            graph.edge_row, graph.edge_tail, graph.edge_of_link[graph.edge_link ^ 1], first_wait,
            self.counts, groups, num_groups, max_lanes,
            np.tile(np.arange(edges, dtype=np.int32), (max_lanes, 1)), lanes,
        )  # fmt: skip
        if work == CIRCLE:
            raise InputError("the tables send packets round for ever; lanes cannot help")
        return lanes
