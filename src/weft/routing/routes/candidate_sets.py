"""Construction of candidate sets: one target at a time, or from groups of ports as in switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing.routes.candidates import CandidateRoutes
from weft.routing.routes.tables import TableRoutes


class SetCollector:
    """Collector of candidate sets; each call of `add` gives the sets of all rows for one target."""

    def __init__(self, fabric: Fabric):
        self._graph = fabric.graph
        self._rows: list[NDArray[np.int64]] = []
        self._counts: list[NDArray[np.int64]] = []
        self._edges: list[NDArray[np.int32]] = []
        self._lanes: list[NDArray[np.uint8]] = []

    def add(self, lane_of_edge: NDArray[np.int8]) -> None:
        """Add the sets of all rows for one more target.

        `lane_of_edge` [edges]: lane of each edge in the set of its tail, -1 for edges not in the
        set.
        """
        edges = np.flatnonzero(lane_of_edge >= 0).astype(np.int32)
        rows, counts = np.unique(self._graph.edge_tail[edges], return_counts=True)
        self._rows.append(rows.astype(np.int64) + len(self._rows) * self._graph.num_rows)
        self._counts.append(counts.astype(np.int64))
        self._edges.append(edges)
        self._lanes.append(lane_of_edge[edges].astype(np.uint8))

    def collect(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
        """Return set numbers, int32 [targets, rows], -1 for none; CSR and lanes of the sets."""
        self._graph.need_memory(len(self._rows), 4, "candidate sets")
        lines = np.full((len(self._rows), self._graph.num_rows), -1, dtype=np.int32)
        if not self._rows or not sum(map(len, self._edges)):
            empty = np.zeros(0, dtype=np.int32)
            return lines, np.zeros(1, dtype=np.int32), empty, np.zeros(0, dtype=np.uint8)
        where, counts = np.concatenate(self._rows), np.concatenate(self._counts)
        edges, lanes = np.concatenate(self._edges), np.concatenate(self._lanes)
        first = np.cumsum(counts) - counts
        # Equal sets are found by a hash, the sum of one random number per edge and lane, and then
        # compared member by member, in case two different sets have the same hash.
        random = np.random.default_rng(0).integers(
            0, 2**63, (len(self._graph.edge_row), int(lanes.max()) + 1), dtype=np.uint64
        )
        code = np.add.reduceat(random[edges, lanes], first)
        _, kept, number = np.unique(code, return_index=True, return_inverse=True)
        alike = kept[number]
        same = counts == counts[alike]
        owner = np.repeat(np.arange(len(counts)), counts)
        other = np.minimum(
            first[alike][owner] + np.arange(len(edges)) - first[owner], len(edges) - 1
        )
        differs = owner[(edges != edges[other]) | (lanes != lanes[other])]
        same[differs] = False
        kept = np.concatenate((kept, np.flatnonzero(~same)))
        number[~same] = np.arange(len(kept) - int((~same).sum()), len(kept))
        lines.reshape(-1)[where] = number
        offset = np.concatenate(([0], np.cumsum(counts[kept]))).astype(np.int32)
        listed = np.repeat(first[kept] - offset[:-1], counts[kept]) + np.arange(int(offset[-1]))
        return lines, offset, edges[listed], lanes[listed]


def grouped_routes(
    fabric: Fabric,
    static: TableRoutes,
    groups: Sequence[Mapping[int, Sequence[int]]],
    group_of: NDArray[np.integer],
) -> CandidateRoutes:
    """Return the routes of switches that choose among the ports of a group for each LID.

    The candidates of a row are those of all LIDs of one target row together. If these LIDs have
    different entries at a row, a note says so: the row may then send to one of them by a port that
    only another has, which never hides a credit loop, but may make one out of two harmless paths.

    Parameters
    ----------
    fabric
        The fabric.
    static
        The forwarding tables, which become the fallback: packets to a LID without a group take
        their port.
    groups
        For each row, its groups: number -> output ports. Ports without a cable to a row are left
        out.
    group_of
        [destinations << lmc, rows], as `TableRoutes.table`: number of the group by which a row
        sends to a LID, -1 if it takes the port of `static`.

    Raises
    ------
    InputError
        If a LID has a group that its switch does not have, or a group has a port that its switch
        does not have.
    NotApplicable
        If the tables have several service levels.
    """
    graph = fabric.graph
    if static.sl.ndim:
        raise NotApplicable("candidates have one service level, and these tables have several")
    shape = (fabric.num_destinations << static.lmc, graph.num_rows)
    static.check(fabric)
    if group_of.shape != shape or len(groups) != graph.num_rows:
        raise InputError(
            f"the groups of {len(groups)} switches and {group_of.shape} LIDs do not fit "
            f"{fabric.name}; expected {graph.num_rows} and {shape}"
        )
    number, offset, member = _numbered(fabric, groups, group_of)
    ports = np.minimum(static.table, np.diff(graph.row_base))  # one beyond the last: no path
    edge = np.append(graph.slot_edge, -1)[graph.row_base[:-1] + ports]
    edge[ports == np.diff(graph.row_base)] = -1
    key = np.where(number >= 0, number + len(graph.edge_row), edge)
    attached = np.repeat(graph.destination_row, 1 << static.lmc)
    adapters = np.arange(len(attached)) < fabric.num_endpoints << static.lmc
    collector, differing = SetCollector(fabric), 0
    for target in range(graph.num_rows):
        lids = np.flatnonzero((attached == target) & adapters)
        lids = lids if len(lids) else np.flatnonzero(attached == target)
        lane = np.full(len(graph.edge_row), -1, dtype=np.int8)
        used = np.unique(number[lids])
        used = used[used >= 0]
        for each in used:
            lane[member[offset[each] : offset[each + 1]]] = 0
        fixed = edge[lids][number[lids] < 0]
        lane[fixed[fixed >= 0]] = 0
        lane[graph.edge_tail == target] = -1
        collector.add(lane)
        differs = (key[lids] != key[lids[:1]]).any(axis=0)
        differing += int(differs.sum() - differs[target])
    set_id, set_offset, set_edge, _ = collector.collect()
    note = (
        f"{differing:,} pairs of a switch and a switch with adapters have different entries for "
        "the LIDs of these adapters; weft takes the ports of all of them"
    )
    return CandidateRoutes(
        static.engine, fabric.digest, sl=static.sl, lanes=static.lanes, set_id=set_id,
        set_offset=set_offset, set_edge=set_edge, fallback=static,
        notes=(*static.notes, *([note] if differing else [])),
    )  # fmt: skip


def _numbered(
    fabric: Fabric, groups: Sequence[Mapping[int, Sequence[int]]], group_of: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Return `group_of` with all groups of the fabric numbered on, and their edges in CSR form."""
    graph = fabric.graph
    number = np.full(group_of.shape, -1, dtype=np.int64)
    members: list[NDArray[np.int32]] = []
    for row, own in enumerate(groups):
        known = np.array(sorted(own), dtype=np.int64)
        wanted = group_of[:, row].astype(np.int64)
        at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        taken = wanted >= 0
        missing = taken if not len(known) else taken & (known[at] != wanted)
        name = fabric.node_names[graph.row_node[row]]
        if missing.any():
            raise InputError(f"switch {name} has no group {wanted[missing][0]} of ports")
        number[taken, row] = at[taken] + len(members)
        last = int(np.diff(graph.row_base[row : row + 2])[0]) - 1
        for each in known.tolist():
            ports = np.unique(np.asarray(own[each], dtype=np.int64))
            if len(ports) and not 1 <= ports[0] <= ports[-1] <= last:
                raise InputError(
                    f"group {each} of switch {name} has ports {ports[0]} to {ports[-1]}; the "
                    f"switch has ports 1 to {last}"
                )
            edges = graph.slot_edge[graph.row_base[row] + ports]
            members.append(edges[edges >= 0])
    offset = np.concatenate(([0], np.cumsum([len(each) for each in members], dtype=np.int64)))
    return number, offset, np.concatenate([np.zeros(0, dtype=np.int32), *members])
