"""Virtual lanes for tables: ways in different lanes never wait for each other.

Dally and Seitz 1987 for the condition, Skeie, Lysne and Theiss 2002 (LASH) for layers filled one
way after the other, Culberson 1992 (iterated greedy) for filling them again with fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.lane_assignment import CIRCLE, GAVE_UP, fit_ways, order_edges
from weft.routing.engine_registry import sending_rows

#: InfiniBand's limit: VL 15 is for management.
MOST_VLS = 15

#: Lanes that a search may use, so that a refusal can say how many would be needed.
MOST_LANES = 16

#: Edges looked at while trying to do with fewer lanes than the first fit, some 0.1 s; and while
#: there are fewer than it needs.
MORE_WORK = 2_000_000
LAST_WORK = 5 * MORE_WORK

#: Rounds that are made in any case when one lane is missing.
LAST_ROUNDS = 4

#: Edges looked at in all before a refusal, some 10 s; and in a first fit that needs two lanes too
#: many, after which filling again does not save enough.
MOST_WORK = 100_000_000
FIRST_WORK = MOST_WORK // 2

#: Edges looked at for each way up to which a first fit is easy.
EASY_WORK = 8


def check_vls(max_vls: int) -> None:
    """Refuse a number of lanes that InfiniBand does not have.

    Raises
    ------
    InputError
        When it is not 1 to 15.
    """
    if not 1 <= max_vls <= MOST_VLS:
        raise InputError(f"max_vls must be 1 to {MOST_VLS}, not {max_vls}")


def refuse_lanes(lanes: int, max_vls: int) -> None:
    """Refuse what needs more virtual lanes than there are.

    Raises
    ------
    NotApplicable
        With the number; above 2 it is what a search found, and no proof that fewer will not do.
    """
    if lanes > max_vls:
        count = f"about {lanes} or more" if lanes <= MOST_LANES else f"more than {MOST_LANES}"
        needed = f"{count} virtual lanes would be needed, as far as was searched"
        if lanes == 2:
            needed = "2 virtual lanes would be needed"
        raise NotApplicable(f"{needed}; max_vls is {max_vls}")


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
        When more than `max_vls` lanes are needed as far as was searched; the text says about how
        many.
    InputError
        When `max_vls` is out of range, or the tables send packets round for ever.
    """
    check_vls(max_vls)
    ways = Ways.of(fabric, table, lmc, management)
    lanes, _ = ways.fewest(max_vls)
    used = int(lanes.max(initial=0)) + 1
    refuse_lanes(used, max_vls)
    return ways.service_levels(lanes), used


def waits(fabric: Fabric) -> NDArray[np.int64]:
    """int64 [edges + 1]: the first number of the dependencies of each edge."""
    graph = fabric.graph
    first = np.zeros(len(graph.edge_row) + 1, dtype=np.int64)
    np.cumsum(np.diff(graph.edge_offset)[graph.edge_row], out=first[1:])
    return first


def edges_back(fabric: Fabric) -> NDArray[np.int32]:
    """int32 [edges]: the edge back over the same cable."""
    graph = fabric.graph
    back: NDArray[np.int32] = graph.edge_of_link[graph.edge_link ^ 1]
    return back


@dataclass(frozen=True)
class Ways:
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
        int64: for each of `lids`, which of `lines` serves it.
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
    ) -> Ways:
        """Find the ways of hosts to hosts, or with management of all rows to all LIDs."""
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

    def fewest(
        self, max_vls: int, start: NDArray[np.uint8] | None = None, *, easy: bool = False
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """As few lanes as are found.

        First every way goes to the first lane that takes it. Then, as long as there is work to
        spend, all is filled again with the ways of one lane after those of another: that never
        needs more lanes, and often fewer, as ways slip into earlier ones.

        Parameters
        ----------
        max_vls
            Lanes that there are: the search goes on for longer while it needs more.
        start
            uint8 [lines, rows]: ways of 0 are served first, then those of 1 and so on; all at
            once when left out.
        easy
            Give up at once, with `MOST_LANES` for every way, when many ways close cycles with
            others, which takes much work. Without it a first fit is given up only where that much
            was looked at that it would be refused: its lanes, two too many, are then given as far
            as it got.

        Returns
        -------
        ndarray
            uint8 [lines, rows]: the lane of each way, 0 when it does not count.
        ndarray
            int32 [lanes, edges]: for each lane an order of the edges in which its ways go
            forward, the proof that they cannot deadlock.
        """
        graph = self.fabric.graph
        edges = len(graph.edge_row)
        lanes = np.zeros((len(self.lines), graph.num_rows), dtype=np.uint8)
        order = np.empty(edges, dtype=np.int32)
        left = order_edges(
            self.table, self.lines, graph.row_base, graph.slot_edge, graph.edge_offset,
            graph.edge_row, waits(self.fabric), self.counts, order,
        )  # fmt: skip
        place = np.tile(order, (MOST_LANES, 1))
        if left == 0:
            return lanes, place[:1]
        limit, enough = (EASY_WORK * lanes.size, 0) if easy else (FIRST_WORK, max_vls + 2)
        work = self._fit(lanes if start is None else start, place, lanes, limit, enough)
        if work == GAVE_UP:
            if easy:
                lanes[:] = MOST_LANES
            return lanes, place
        used = int(lanes.max()) + 1
        last = max(LAST_WORK, min(LAST_ROUNDS * work, MOST_WORK - work))
        turn, spent = 0, 0
        while used > 2 and spent + work <= _allowed(used, max_vls, last):
            sizes = np.bincount(lanes[:, self.counts != 0].reshape(-1), minlength=used)
            classes = _class_order(sizes, turn)
            rank = np.empty(used, dtype=np.uint8)
            rank[classes] = np.arange(used)
            kept = classes[classes < MOST_LANES]
            place[: len(kept)] = place[kept]
            work = self._fit(rank[lanes], place, lanes)
            spent += work
            used = int(lanes.max()) + 1
            turn += 1
        return lanes, place[:used]

    def service_levels(self, lanes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """uint8 [rows, destinations << lmc] of the lanes of lines."""
        sl = np.zeros(self.table.shape[::-1], dtype=np.uint8)
        sl[:, self.lids] = lanes[self.line_of].T
        return sl

    def _fit(
        self,
        groups: NDArray[np.uint8],
        place: NDArray[np.int32],
        lanes: NDArray[np.uint8],
        max_work: int = 0,
        enough: int = MOST_LANES + 2,
    ) -> int:
        graph = self.fabric.graph
        work: int = fit_ways(
            self.table, self.lines, graph.row_base, graph.slot_edge, graph.edge_offset,
            graph.edge_row, graph.edge_tail, edges_back(self.fabric), waits(self.fabric),
            self.counts, groups.copy(), int(groups.max(initial=0)) + 1, MOST_LANES, max_work,
            enough, place, lanes,
        )  # fmt: skip
        if work == CIRCLE:
            raise InputError("the tables send packets round for ever; lanes cannot help")
        return work


def _allowed(used: int, max_vls: int, last: int) -> int:
    """Work to spend on fewer lanes, most when one is missing."""
    if used <= max_vls:
        return MORE_WORK
    return last if used == max_vls + 1 else LAST_WORK


def _class_order(sizes: NDArray[np.int64], turn: int) -> NDArray[np.int64]:
    """In which order to serve the lanes again: last first, small first, at random, in turn."""
    if turn % 3 == 0:
        return np.arange(len(sizes))[::-1]
    if turn % 3 == 1:
        return np.argsort(sizes, kind="stable")
    return np.random.default_rng(turn).permutation(len(sizes))
