"""Assignment of paths to virtual lanes so that no lane has a cycle of dependencies.

Sources: Dally and Seitz 1987 for the condition; Skeie, Lysne and Theiss 2002 (LASH) for filling
lanes path by path; Culberson 1992 (iterated greedy) for repeated filling with fewer lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.lane_assignment import (
    CIRCLE,
    GAVE_UP,
    fit_paths,
    no_dependencies,
    order_edges,
)
from weft.routing.engine_registry import sending_rows
from weft.routing.routes import TableRoutes, VirtualLanes

#: InfiniBand's limit: VL 15 is for management.
MOST_VLS = 15
#: Type of the option of engines: a number of virtual lanes of a fabric.
MaxVls = Annotated[int, Field(ge=1, le=MOST_VLS)]

#: Maximum number of lanes in the search. More lanes are searched than exist, so that an error can
#: say how many are needed.
MOST_LANES = 16

# Work is measured as the number of edges inspected.

#: Work that may be spent on reducing the number of lanes after the first fit: first value if the
#: fit needs no more lanes than are available (about 0.1 s), second value if it needs more.
MORE_WORK = 2_000_000
LAST_WORK = 5 * MORE_WORK

#: If the first fit needs one lane too many, the work of this many such fits may be spent.
LAST_ROUNDS = 4

#: Maximum work of a search, about 10 s; and of a first fit that needs two lanes too many, since
#: later rounds rarely save two lanes.
MOST_WORK = 100_000_000
FIRST_WORK = MOST_WORK // 2

#: A first fit is easy if it takes at most this much work per path.
EASY_WORK = 8


def check_vls(max_vls: int) -> None:
    """Check that a number of lanes is in InfiniBand's range."""
    if not 1 <= max_vls <= MOST_VLS:
        raise InputError(f"max_vls must be 1 to {MOST_VLS}, not {max_vls}")


def refuse_lanes(lanes: int, max_vls: int) -> None:
    """Refuse routes that need more virtual lanes than there are."""
    if lanes > max_vls:
        count = f"about {lanes} or more" if lanes <= MOST_LANES else f"more than {MOST_LANES}"
        needed = f"{count} virtual lanes are needed, as far as was searched"
        if lanes == 2:
            needed = "2 virtual lanes are needed"
        raise NotApplicable(f"{needed}; max_vls is {max_vls}")


def assign_lanes(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    *,
    lmc: int = 0,
    max_vls: int = 8,
    management: bool = False,
) -> tuple[NDArray[np.uint8], int]:
    """Assign the paths of tables to few lanes such that the routes cannot deadlock.

    `table`: table as in `TableRoutes`, uint8 or uint16 [destinations << lmc, rows]. `max_vls`:
    number of available lanes, 1 to 15. `management`: also include the paths from and to switches.

    Returns uint8 [rows, destinations << lmc]: service level of the packets that each row sends to
    each LID, for the mapping of SL i to VL i, 0 for paths that are not included; and the number of
    lanes in use, at least 1.

    Raises `NotApplicable` if the search finds no assignment to `max_vls` lanes; the message says
    how many are needed, as far as was searched.
    """
    check_vls(max_vls)
    paths = TablePaths.of(fabric, table, lmc, management)
    lanes, _ = paths.fewest(max_vls)
    used = int(lanes.max(initial=0)) + 1
    refuse_lanes(used, max_vls)
    return paths.service_levels(lanes), used


def in_lanes(
    name: str, fabric: Fabric, table: NDArray[Any], sl: NDArray[np.uint8], lanes: int, **given: Any
) -> TableRoutes:
    """Return tables whose service levels are lanes; `given`: further fields of the routes."""
    uniform = VirtualLanes.uniform(range(lanes))
    return TableRoutes(name, fabric.digest, table=table, sl=sl, lanes=uniform, **given)


@dataclass(frozen=True)
class TablePaths:
    """The paths of a table that need lanes; LIDs with equal paths are included once."""

    fabric: Fabric
    table: NDArray[np.unsignedinteger[Any]]
    #: int64: LIDs of the included destinations, as indices in the table.
    lids: NDArray[np.int64]
    #: int32: the first LID of each set of LIDs with equal paths.
    lines: NDArray[np.int32]
    #: int64: for each of `lids`, the index in `lines` of the LID with the same paths.
    line_of: NDArray[np.int64]
    #: uint8 [rows]: 1 if the paths from a row are included.
    counts: NDArray[np.uint8]

    @classmethod
    def of(
        cls, fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int, management: bool
    ) -> TablePaths:
        """Collect the paths between hosts or, if `management`, from all rows to all LIDs."""
        graph = fabric.graph
        last = fabric.num_destinations if management else fabric.num_host_endpoints
        destinations = np.flatnonzero(graph.destination_row[:last] >= 0)
        lids = ((destinations[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1)
        counts = np.zeros(graph.num_rows, dtype=np.uint8)
        counts[np.arange(graph.num_rows) if management else sending_rows(fabric)] = 1
        # Paths to hosts of one switch differ only in the last port, which is not an edge.
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
        """Search for an assignment of the paths to few lanes.

        First each path is added to the first lane in which it closes no cycle. Then, within the
        limits of work, all lanes are filled again, with the paths of each lane added together.
        Refilling never needs more lanes and often needs fewer, since paths move to earlier lanes.

        `max_vls`: number of available lanes; the search may do more work while it needs more lanes.
        `start` [lines, rows]: paths of class 0 are added first, then those of class 1 and so on; by
        default there is one class. `easy`: give up early, with lane `MOST_LANES` for every path, if
        the first fit takes more than `EASY_WORK` per path. Otherwise the first fit is only
        abandoned after `FIRST_WORK`, once it needs `max_vls` + 2 lanes; the lanes assigned so far
        are then returned.

        Returns uint8 [lines, rows]: the lane of each path, 0 if the path is not included; and int32
        [lanes, edges]: for each lane, positions of the edges that increase along all paths in the
        lane, which proves that these paths cannot deadlock.
        """
        graph = self.fabric.graph
        edges = len(graph.edge_row)
        lanes = np.zeros((len(self.lines), graph.num_rows), dtype=np.uint8)
        order = np.empty(edges, dtype=np.int32)
        left = order_edges(self.table, self.lines, graph.parts, self.counts, order)
        position = np.tile(order, (MOST_LANES, 1))
        if left == 0:
            return lanes, position[:1]
        limit, enough = (EASY_WORK * lanes.size, 0) if easy else (FIRST_WORK, max_vls + 2)
        work = self._fit(lanes if start is None else start, position, lanes, limit, enough)
        if work == GAVE_UP:
            if easy:
                lanes[:] = MOST_LANES
            return lanes, position
        used = int(lanes.max()) + 1
        last = max(LAST_WORK, min(LAST_ROUNDS * work, MOST_WORK - work))
        iteration, spent = 0, 0
        while used > 2 and spent + work <= _allowed(used, max_vls, last):
            sizes = np.bincount(lanes[:, self.counts != 0].reshape(-1), minlength=used)
            classes = _class_order(sizes, iteration)
            rank = np.empty(used, dtype=np.uint8)
            rank[classes] = np.arange(used)
            kept = classes[classes < MOST_LANES]
            position[: len(kept)] = position[kept]
            work = self._fit(rank[lanes], position, lanes)
            spent += work
            used = int(lanes.max()) + 1
            iteration += 1
        return lanes, position[:used]

    def service_levels(self, lanes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Copy the lanes of `lines` to all included LIDs, uint8 [rows, destinations << lmc]."""
        sl = np.zeros(self.table.shape[::-1], dtype=np.uint8)
        sl[:, self.lids] = lanes[self.line_of].T
        return sl

    def _fit(
        self,
        groups: NDArray[np.uint8],
        position: NDArray[np.int32],
        lanes: NDArray[np.uint8],
        max_work: int = 0,
        enough: int = MOST_LANES + 2,
    ) -> int:
        graph = self.fabric.graph
        work: int = fit_paths(
            self.table, self.lines, graph.parts, self.counts, groups.copy(),
            int(groups.max(initial=0)) + 1, max_work, enough, position, lanes,
            no_dependencies(graph.num_rows, graph.first_dependency, len(position)),
        )  # fmt: skip
        if work == CIRCLE:
            raise InputError("the tables have a forwarding loop; no lane assignment can help")
        return work


def _allowed(used: int, max_vls: int, last: int) -> int:
    """Return the work allowed to reduce lanes; it is largest if one lane too many is used."""
    if used <= max_vls:
        return MORE_WORK
    return last if used == max_vls + 1 else LAST_WORK


def _class_order(sizes: NDArray[np.int64], iteration: int) -> NDArray[np.int64]:
    """Return the order in which lanes are refilled: alternately reversed, by size, and random."""
    if iteration % 3 == 0:
        return np.arange(len(sizes))[::-1]
    if iteration % 3 == 1:
        return np.argsort(sizes, kind="stable")
    return np.random.default_rng(iteration).permutation(len(sizes))
