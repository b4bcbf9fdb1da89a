"""nue: routes within an acyclic channel dependency graph, for any number of lanes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import depth_first_order

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.parts import StateParts
from weft.kernels.routing.ascending import complete_rows, ordered_tables
from weft.kernels.routing.distances import UNREACHED, search_space
from weft.kernels.routing.nue import NueDemand, share_lanes
from weft.routing.engine_registry import (
    Passes,
    edge_loads,
    empty_table,
    engine,
    row_sources,
    sending_rows,
    targets_of,
    worst_load,
)
from weft.routing.engines.sssp import sssp_table
from weft.routing.lane_assignment import MaxVls, assign_lanes, in_lanes
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import Routes

#: Default number of balancing passes; later passes are fast, and shuffled fat trees need five.
PASSES = 5

#: Several orders of the destinations are tried within this number of steps, which take a second or
#: two. A destination needs one step per channel and pass, and STEPS per channel to order channels.
WORK = 50_000_000
STEPS = 100

#: Largest product of destinations, channels and lanes for which every lane is tried for each
#: destination.
TRIALS = 1_000_000

#: Several lanes are used only if they reduce the product of worst and total load by this factor.
LANES_PAY = 1.05


@engine("nue", deadlock_free=True, lmc=True)
def nue(
    fabric: Fabric,
    *,
    max_vls: MaxVls = 8,
    management: bool = False,
    lmc: int = 0,
    passes: Passes = PASSES,
) -> Routes:
    """Route by Nue: short balanced paths, deadlock-free with any number of lanes, on any topology.

    Parameters
    ----------
    fabric
        Any fabric.
    max_vls
        Maximum number of virtual lanes, 1 to 15. One lane is used unless more lanes make the paths
        shorter or better balanced by 5 %.
    management
        Also make paths from and to switches deadlock-free, not only those between hosts.
    lmc
        LMC: each endpoint gets 2^lmc LIDs, each balanced separately.
    passes
        Number of times that each destination's paths are balanced.

    Raises
    ------
    NotApplicable
        If the fabric has no row.
    InputError
        If an option is out of range.

    Notes
    -----
    In each lane the allowed dependencies between channels are kept acyclic: a new one is checked
    against a topological order of all channels (Pearce and Kelly 2006). Trees grow from the
    destinations outwards; each row uses the channel of the fewest hops, then of the least cost,
    whose dependency is allowed. If all dependencies of a row are blocked, a row nearer to the
    destination changes to another of its paths (local backtracking). An escape tree from the most
    central row, whose dependencies are allowed first, keeps all hosts connected. Destinations are
    either divided evenly over the lanes, or each is assigned to the first lane in which all its
    paths are minimal or, if there is none, to the lane with the smallest detours. Finally, the
    tables are balanced again on all paths that ascend in the order of a lane's channels, which are
    deadlock-free.

    On small fabrics, one lane and both assignments to lanes are tried with several orders of the
    destinations; the paths of `sssp` are also tried if they need only one lane. On large fabrics
    that are not fat trees, only an even division with one order is tried. The result with the
    smallest product of worst link load and mean path length is used.

    Source: Domke, Hoefler and Matsuoka, HPDC 2016; OpenSM's ``nue``, which by default uses one
    lane. With several lanes, it divides the destinations evenly; it never balances again.
    """
    check_lmc(lmc)
    empty_table(fabric)
    problem = _Problem.of(fabric, management)
    channels = len(fabric.graph.edge_row)
    steps = (fabric.num_endpoints << lmc) * channels * (passes + STEPS)
    trials = len(problem.goals) * channels * max_vls
    best: _Attempt | None = None
    large = steps > WORK
    if large:
        best = problem.route(problem.goals, 1, lmc, passes, grow=False)
    if best is None or best.total > problem.shortest << lmc:
        for order in problem.orders()[: max(1, WORK // max(steps, 1))]:
            modes = [(1, False), (max_vls, False), (max_vls, True)]
            for lanes, divide in modes[:1] if max_vls == 1 else modes[2 * large :]:
                if lanes > 1 and not divide and trials > TRIALS:
                    continue
                attempt = problem.route(order, lanes, lmc, passes, divide=divide)
                if best is None or attempt.cost < best.cost:
                    best = attempt
    assert best is not None
    if not large and (short := problem.minimal_paths(lmc, passes)) and short.cost < best.cost:
        best = short
    sl: NDArray[np.uint8] = np.zeros((), dtype=np.uint8)
    if best.lanes > 1:
        rows = fabric.graph.destination_row
        sl = np.where(rows >= 0, best.lane[rows], 0).astype(np.uint8).repeat(1 << lmc)
    return in_lanes("nue", fabric, best.table, sl, best.lanes, lmc=lmc)


@dataclass(frozen=True)
class _Attempt:
    """Tables, and the lane of each row's destinations."""

    #: Table as in `TableRoutes`.
    table: NDArray[np.unsignedinteger[Any]]
    #: int32 [rows]: lane of the row's destinations.
    lane: NDArray[np.int32]
    #: Number of lanes.
    lanes: int
    #: The largest ratio of a link's load to its rate, and the sum of all loads.
    worst: float
    total: float

    @property
    def cost(self) -> float:
        """Cost to minimise: high for concentrated or long paths, and for more than one lane."""
        return self.worst * self.total * (LANES_PAY if self.lanes > 1 else 1)


@dataclass(frozen=True)
class _Problem:
    """Input of all attempts on one fabric."""

    #: Fabric to route.
    fabric: Fabric
    #: Whether paths from and to switches are included.
    management: bool
    #: uint16 [rows, rows]: hops between rows.
    distances: NDArray[np.uint16]
    #: int64 [rows]: number of hosts at each row; at least 1 if paths from the row are included,
    #: otherwise 0.
    weight: NDArray[np.int64]
    #: int32: rows of the destinations to which paths are included, ascending.
    goals: NDArray[np.int32]
    #: int32 [rows]: the most central row of each row's connected component.
    root: NDArray[np.int32]

    @classmethod
    def of(cls, fabric: Fabric, management: bool) -> _Problem:
        graph = fabric.graph
        every = np.arange(graph.num_rows, dtype=np.int32)
        distances = graph.hops()
        weight = row_sources(fabric)
        counts = every if management else sending_rows(fabric)
        weight[counts] = np.maximum(weight[counts], 1)
        ends = fabric.num_destinations if management else fabric.num_endpoints
        goals = np.unique(graph.destination_row[:ends])
        far = np.where(distances == UNREACHED, 0, distances).astype(np.float64) @ weight
        label = fabric.graph.components
        by_part = np.lexsort((every, far, label))
        root = by_part[np.searchsorted(label[by_part], label)]
        return cls(
            fabric=fabric,
            management=management,
            distances=distances,
            weight=weight,
            goals=goals[goals >= 0].astype(np.int32),
            root=root.astype(np.int32),
        )

    @cached_property
    def depth(self) -> NDArray[np.int64]:
        """Hops of each row from the root of its component, int64 [rows]."""
        every = np.arange(len(self.root))
        return self.distances[self.root, every].astype(np.int64)

    @cached_property
    def shortest(self) -> int:
        """Sum of the hops of all flows on minimal paths."""
        rows = self.fabric.graph.destination_row[: self.fabric.num_endpoints]
        ends = np.bincount(rows[rows >= 0], minlength=len(self.root))
        hops = np.where(self.distances == UNREACHED, 0, self.distances).astype(np.int64)
        return int(ends @ (hops @ row_sources(self.fabric)))

    def orders(self) -> list[NDArray[np.int32]]:
        """Return different orders of the goals: depth-first, by depth, by row, by falling depth."""
        graph = self.fabric.graph
        matrix = csr_array(
            (np.ones(len(graph.edge_row), np.uint8), graph.edge_row, graph.edge_offset),
            shape=(graph.num_rows, graph.num_rows),
        )
        parts = [
            depth_first_order(matrix, root, return_predecessors=False)
            for root in np.unique(self.root)
        ]
        visit = np.empty(graph.num_rows, dtype=np.int64)
        visit[np.concatenate(parts)] = np.arange(graph.num_rows)
        depth = self.depth[self.goals]
        orders: list[NDArray[np.int32]] = []
        for key in (visit[self.goals], depth, np.zeros_like(depth), -depth):
            order = self.goals[np.argsort(key, kind="stable")]
            if not any(np.array_equal(order, other) for other in orders):
                orders.append(order)
        return orders

    def start_order(self) -> NDArray[np.int32]:
        """Return all channels in an up*/down* order, int32 [channels].

        Rows farther from the hosts are higher, as in trees; of equally far rows, those nearer to
        the root are higher.
        """
        graph = self.fabric.graph
        sending = np.flatnonzero(self.weight)
        height = self.distances[:, sending].min(axis=1, initial=UNREACHED).astype(np.int64)
        rank = np.empty(graph.num_rows, dtype=np.int64)
        rank[np.lexsort((self.depth, -height))] = np.arange(graph.num_rows)
        tail, head = rank[graph.edge_tail], rank[graph.edge_row]
        key = np.where(head < tail, -tail, graph.num_rows + tail)
        return np.argsort(key, kind="stable").astype(np.int32)

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Channel of each row towards its root, -1 at roots, int32 [rows]."""
        graph = self.fabric.graph
        channel = np.full(graph.num_rows, -1, dtype=np.int32)
        nearer = np.flatnonzero(self.depth[graph.edge_row] < self.depth[graph.edge_tail])
        rows, first = np.unique(graph.edge_tail[nearer], return_index=True)
        channel[rows] = nearer[first]
        return channel

    def escape(self, goals: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Mark the escape tree's paths from sources and goals to the root, and from goals only.

        Both arrays are uint8 [rows]: 1 for each row on such a path.
        """
        aimed = np.zeros(len(self.root), dtype=np.uint8)
        aimed[goals] = 1
        wanted = (self.weight > 0).astype(np.uint8) | aimed
        if not len(goals):
            return np.zeros_like(wanted), aimed
        for depth in range(int(self.depth.max(initial=0)), 0, -1):
            level = np.flatnonzero(self.depth == depth)
            for marks in (wanted, aimed):
                marks[self.fabric.graph.edge_row[self.parent[level[marks[level] > 0]]]] = 1
        return wanted, aimed

    def minimal_paths(self, lmc: int, passes: int) -> _Attempt | None:
        """Return the minimal paths of `sssp` if they need only one lane."""
        fabric = self.fabric
        table = sssp_table(fabric, "flows", lmc, passes)
        try:
            assign_lanes(fabric, table, lmc=lmc, max_vls=1, management=self.management)
        except NotApplicable:
            return None
        loads = edge_loads(fabric, table, lmc)
        return _Attempt(
            table,
            np.zeros(len(self.root), dtype=np.int32),
            1,
            worst_load(fabric, table, lmc)[0],
            float(loads.sum()),
        )

    def route(
        self,
        order: NDArray[np.int32],
        lanes: int,
        lmc: int,
        passes: int,
        *,
        divide: bool = False,
        grow: bool = True,
    ) -> _Attempt:
        """Return tables on at most `lanes` lanes; the goals are routed in the given order.

        If `divide` is True, the goals are divided evenly over the lanes; otherwise each goal is
        assigned to the lane that fits best. If `grow` is False, no trees are grown: only paths that
        the initial order of channels or the escape tree allows are used. They include all minimal
        paths of a fat tree.
        """
        fabric, graph = self.fabric, self.fabric.graph
        channels = len(graph.edge_row)
        dependencies = int(graph.first_dependency[-1])
        edge_cost = 1.0 / fabric.link_rate_gbps[graph.edge_link]
        sources = row_sources(fabric)
        senders = int(sources.sum())
        demand = StateParts(NueDemand(edge_cost, sources, senders, self.weight, self.distances))
        ends = np.bincount(
            graph.destination_row[: fabric.num_endpoints] + 1, minlength=graph.num_rows + 1
        )[1:]
        channel_at = np.tile(self.start_order(), (lanes, 1))
        position = np.empty_like(channel_at)
        position[:, channel_at[0]] = np.arange(channels, dtype=np.int32)
        lane = np.full(graph.num_rows, -1, dtype=np.int32)
        aims = [order[:0]] * (lanes - 1) + [order]
        if divide:
            aims = np.array_split(order, lanes)
            lane[order] = np.arange(lanes, dtype=np.int32).repeat([len(part) for part in aims])
        wanted, aimed = (np.array(marks) for marks in zip(*map(self.escape, aims), strict=True))
        share_lanes(
            graph.parts, demand, order.repeat(np.maximum(ends[order], 1) * grow), self.parent,
            wanted, aimed, np.zeros(channels, dtype=np.int64),
            np.zeros((lanes, dependencies), dtype=np.uint8), position, channel_at, lane,
        )  # fmt: skip
        used = np.unique(lane[lane >= 0]) if (lane >= 0).any() else np.zeros(1, dtype=np.int32)
        lane = np.where(lane < 0, 0, np.searchsorted(used, lane)).astype(np.int32)
        table = empty_table(fabric, lmc)
        best = table.copy()
        worst, total = ordered_tables(
            graph.parts, demand, np.arange(graph.num_rows, dtype=np.int32), lane, position[used],
            channel_at[used], targets_of(fabric, table, lmc), passes,
            np.zeros(channels, dtype=np.int64), table, best, search_space(graph.num_rows, channels),
        )  # fmt: skip
        complete_rows(graph.parts, lmc, int(np.iinfo(best.dtype).max), best)
        return _Attempt(best, lane, len(used), worst, total)
