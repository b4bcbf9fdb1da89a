"""The validator that every engine's result goes through."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.html import facts_table
from weft.fabrics import Fabric
from weft.kernels.routes.paths import count_lengths
from weft.kernels.routing.checks import arriving_rows, check_tables, list_unrouted
from weft.kernels.routing.distances import UNREACHED
from weft.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routes.intermediates import goes_round, longest_ways, round_lengths, routed_rows
from weft.routing.engine_registry import components, row_sources
from weft.routing.validation.deadlock import CreditLoop, credit_loops

#: Loops that are described one by one; there may be more.
MAX_LOOPS = 16


@dataclass(frozen=True, eq=False, repr=False)
class Validation:
    """What the validator found.

    Parameters
    ----------
    fabric, routes
        What was checked.
    num_unrouted_pairs
        Ordered pairs of different hosts without a path between their first ports, to every LID
        of the destination's.
    num_disconnected_pairs
        How many of those no cable connects, so that no routing could help.
    loops
        Forwarding loops, each the list of nodes that a packet circles through; at most 16 are
        listed, one per destination.
    num_loops
        Destinations (LIDs) with a loop.
    credit_loops
        Cycles of the channel dependency graph, one for each set of channels that wait for each
        other; each a list of (directed link, VL).
    lanes
        Virtual lanes in use.
    hops
        int64: ``hops[h]`` host pairs whose path (to the first LID) takes h links, cables to hosts
        included. Of candidates the longest way counts, of such as may go by an intermediate or
        straight the straight one. Where packets must go by an intermediate, float64: each pair is
        shared equally among these, and split equally at every hop.
    detours
        As `hops`: ``detours[x]`` host pairs whose path is x links longer than the shortest.
    unrouted_rows
        (destination LID, row) combinations without a path though cables connect them, management
        destinations included.
    round_hops
        Links of the longest way by an intermediate, cables to hosts included; 0 without any.
    levels_known
        The service levels and lanes of the routes are those in force. If not, `credit_loops` are
        those of all paths on one lane, which real lanes may break up, but not add to.
    sent_out
        int64: LIDs, as rows of the table, that their own switch or forwarding host sends out by a
        port. A packet is delivered there only by entry 0, as InfiniBand's port 0 is.
    """

    fabric: Fabric
    routes: Routes
    num_unrouted_pairs: int
    num_disconnected_pairs: int
    loops: list[list[int]]
    num_loops: int
    credit_loops: list[CreditLoop]
    lanes: int
    hops: NDArray[Any]
    detours: NDArray[Any]
    unrouted_rows: int
    round_hops: int = 0
    levels_known: bool = True
    sent_out: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def deadlock(self) -> Literal["no", "may", "can"]:
        """Whether the routes can deadlock; "may" when service levels and lanes are not known."""
        if not self.credit_loops:
            return "no"
        return "can" if self.levels_known else "may"

    @property
    def ok(self) -> bool:
        """Every pair of hosts is routed, nothing goes in a loop, and nothing may deadlock."""
        return not (self.num_unrouted_pairs or self.num_loops or self.credit_loops)

    @property
    def ok_where_connected(self) -> bool:
        """Like `ok`, but pairs that no cable connects are not held against the routing."""
        lost = self.num_unrouted_pairs - self.num_disconnected_pairs
        return not (lost or self.num_loops or self.credit_loops)

    @property
    def minimal_share(self) -> float:
        """Share of the routed host pairs whose path is a shortest one; NaN when there is none."""
        total = int(self.detours.sum())
        return float(self.detours[0] / total) if total else float("nan")

    @property
    def mean_hops(self) -> float:
        """Mean links of a routed host pair's path; NaN when there is none."""
        total = int(self.hops.sum())
        return float(np.arange(len(self.hops)) @ self.hops / total) if total else float("nan")

    @property
    def max_hops(self) -> int:
        """Links of the longest path between hosts that a packet may take."""
        return max(int(np.flatnonzero(self.hops).max(initial=0)), self.round_hops)

    @property
    def max_detour(self) -> int:
        """Links by which a path exceeds the shortest at most."""
        return int(np.flatnonzero(self.detours).max(initial=0))

    @cached_property
    def unrouted_pairs(self) -> NDArray[np.int64]:
        """Every unrouted ordered pair of hosts, int64 [pairs, 2], by destination."""
        pairs = np.empty((self.num_unrouted_pairs, 2), dtype=np.int64)
        if len(pairs):
            _list_unrouted(self.routes, self.fabric, pairs)
        return pairs

    @cached_property
    def lost_pairs(self) -> NDArray[np.int64]:
        """The `unrouted_pairs` that cables connect, int64 [pairs, 2]."""
        label = np.append(components(self.fabric), -1)[_host_rows(self.fabric)]
        source, destination = self.unrouted_pairs.T
        joined = (label[source] >= 0) & (label[source] == label[destination])
        lost: NDArray[np.int64] = self.unrouted_pairs[joined]
        return lost

    def findings(self) -> list[str]:
        """What a user should know, a line each, worst first."""
        lines = []
        hosts = self.fabric.num_hosts
        if self.num_unrouted_pairs:
            share = self.num_unrouted_pairs / (hosts * (hosts - 1))
            lines.append(
                f"{self.num_unrouted_pairs} of {hosts * (hosts - 1)} host pairs ({share:.1%}) "
                f"have no path; {self.num_disconnected_pairs} of them are not even cabled together"
            )
        if len(self.sent_out):
            lines.append(self.sent_out_text())
        if self.num_loops:
            names = " -> ".join(self.fabric.node_names[node] for node in self.loops[0])
            lines.append(f"{self.num_loops} LIDs have a forwarding loop, such as {names}")
        if self.credit_loops:
            unknown = "" if self.levels_known else "if all packets share one lane, "
            lines.append(
                f"it {self.deadlock} deadlock: {unknown}{len(self.credit_loops)} set(s) of "
                "channels wait for each other, such as "
                f"{self.credit_loops[0].text(self.fabric)}"
            )
        if self.unrouted_rows and not self.num_unrouted_pairs:
            lines.append(
                f"{self.unrouted_rows} switch table entries have no path, though no host pair "
                "needs them"
            )
        if self.max_detour:
            lines.append(
                f"{1 - self.minimal_share:.1%} of the paths are longer than need be, "
                f"by up to {self.max_detour} links"
            )
        straight = int(np.flatnonzero(self.hops).max(initial=0))
        if self.round_hops > straight:
            lines.append(
                f"packets that go by an intermediate take up to {self.round_hops} links, "
                f"straight ones up to {straight}"
            )
        return lines

    def sent_out_text(self) -> str:
        """What `sent_out` means, with an example."""
        assert isinstance(self.routes, TableRoutes)
        graph, lid = self.fabric.graph, int(self.sent_out[0])
        row = int(graph.destination_row[lid >> self.routes.lmc])
        return (
            f"{len(self.sent_out)} LIDs are never delivered: the table entry of a switch or "
            "forwarding host for its own LID must be port 0, but "
            f"{self.fabric.node_names[graph.row_node[row]]} sends such packets out by port "
            f"{int(self.routes.table[lid, row])}"
        )

    def text(self) -> str:
        """The whole verdict as plain text."""
        verdict = "valid" if self.ok else "NOT VALID"
        longest = "no pair of hosts is connected"
        if self.max_hops:
            longest = f"paths of {self.mean_hops:.2f} links on average, at most {self.max_hops}"
        head = f"{self.routes.engine} on {self.fabric.name}: {verdict}, {longest}, "
        head += f"{self.lanes} lane{'s' if self.lanes > 1 else ''}"
        return "\n".join([head, *(f"  - {line}" for line in self.findings())])

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return facts_table(
            self.text().partition("\n")[0],
            {
                "valid": self.ok,
                "pairs without a path": self.num_unrouted_pairs,
                "forwarding loops": self.num_loops,
                "deadlock": self.deadlock,
                "virtual lanes": self.lanes,
                "findings": tuple(self.findings()),
            },
        )


def validate(
    fabric: Fabric, routes: Routes, *, management: bool = False, levels_known: bool = True
) -> Validation:
    """Check routes: every host pair arrives, nothing circles, nothing can deadlock.

    Parameters
    ----------
    fabric, routes
        What to check; the routes may come from an engine or a file.
    management
        Take traffic from and to switches into the channel dependency graph too, as a subnet
        manager's is when it does not go by direct routes.
    levels_known
        Whether the service levels and lanes of the routes are those in force. If not, the proof
        takes all paths on one lane: without a cycle there, there is none on any lanes.

    Returns
    -------
    Validation
        ``ok`` only when there is no unrouted pair, loop or credit loop.

    Raises
    ------
    InputError
        When the routes were made for another fabric.
    """
    routes.check(fabric)
    counts = _counts(routes, fabric)
    judged = routes if levels_known else routes.on_one_lane()
    cycles, lanes = credit_loops(fabric, judged, management=management)
    return Validation(
        fabric=fabric, routes=routes, credit_loops=cycles, lanes=lanes, levels_known=levels_known,
        **counts,
    )  # fmt: skip


@singledispatch
def _counts(routes: Routes, fabric: Fabric) -> dict[str, Any]:
    """What `Validation` counts, by the kind of routes."""
    raise NotApplicable(f"{routes.engine} gives no ways to validate")


def _uncabled_pairs(fabric: Fabric) -> int:
    """Ordered host pairs in which one has no way to any switch."""
    row = _host_rows(fabric)
    reachable = int((row >= 0).sum())
    return fabric.num_hosts * (fabric.num_hosts - 1) - reachable * (reachable - 1)


def _host_rows(fabric: Fabric) -> NDArray[np.int32]:
    rows = np.full(fabric.num_hosts, -1, dtype=np.int32)
    known = fabric.host_endpoint >= 0
    rows[known] = fabric.graph.destination_row[fabric.host_endpoint[known]]
    return rows


def _hosts_that_are_rows(fabric: Fabric) -> NDArray[np.int64]:
    """1 for each row that is itself a host and sends, else 0, int64 [rows]."""
    rows = fabric.graph.node_row[fabric.host_nodes[fabric.host_endpoint >= 0]]
    return np.bincount(rows[rows >= 0], minlength=fabric.graph.num_rows).astype(np.int64)


@_counts.register
def _check_tables(routes: TableRoutes, fabric: Fabric) -> dict[str, Any]:
    graph = fabric.graph
    weight = np.zeros(fabric.num_destinations, dtype=np.int64)
    weight[fabric.host_endpoint[fabric.host_endpoint >= 0]] = 1
    histogram = np.zeros(graph.num_rows + 2, dtype=np.int64)
    detours = np.zeros(graph.num_rows + 2, dtype=np.int64)
    loop_lids = np.empty(MAX_LOOPS, dtype=np.int32)
    loop_rows = np.empty(MAX_LOOPS, dtype=np.int32)
    lost, apart, loops, lost_rows = check_tables(
        routes.table, routes.lmc, graph.destination_row, graph.destination_link, weight,
        graph.row_base, graph.row_link, graph.link_row, row_sources(fabric),
        _hosts_that_are_rows(fabric), routes.no_path, fabric.graph.hops(), histogram, detours,
        loop_lids, loop_rows,
    )  # fmt: skip
    uncabled = _uncabled_pairs(fabric)
    listed = min(loops, MAX_LOOPS)
    return {
        "num_unrouted_pairs": int(lost + uncabled),
        "num_disconnected_pairs": int(apart + uncabled),
        "loops": [
            _loop(fabric, routes, int(lid), int(row))
            for lid, row in zip(loop_lids[:listed], loop_rows[:listed], strict=True)
        ],
        "num_loops": int(loops),
        "hops": _trimmed(histogram),
        "detours": _trimmed(detours),
        "unrouted_rows": int(lost_rows),
        "sent_out": _sent_out(fabric, routes),
    }


def _sent_out(fabric: Fabric, routes: TableRoutes) -> NDArray[np.int64]:
    """LIDs for which the row that they belong to has a port other than 0, int64."""
    graph = fabric.graph
    own = np.flatnonzero((graph.destination_link < 0) & (graph.destination_row >= 0))
    lids = ((own[:, None] << routes.lmc) + np.arange(1 << routes.lmc)).reshape(-1)
    entry = routes.table[lids, graph.destination_row[lids >> routes.lmc]]
    sent_out: NDArray[np.int64] = lids[(entry != 0) & (entry != routes.no_path)].astype(np.int64)
    return sent_out


def _trimmed(histogram: NDArray[Any]) -> NDArray[Any]:
    return histogram[: int(np.flatnonzero(histogram).max(initial=0)) + 1].copy()


def _loop(fabric: Fabric, routes: TableRoutes, lid: int, row: int) -> list[int]:
    """Nodes of the forwarding loop that a row is on."""
    graph = fabric.graph
    nodes: list[int] = []
    at = row
    while not nodes or at != row:
        nodes.append(int(graph.row_node[at]))
        link = graph.row_link[graph.row_base[at] + int(routes.table[lid, at])]
        at = int(graph.link_row[link])
    return nodes


@_counts.register
def _check_paths(routes: PathRoutes, fabric: Fabric) -> dict[str, Any]:
    graph = fabric.graph
    best = fabric.graph.hops()
    hosts = fabric.num_hosts
    source, destination = np.divmod(routes.pair, fabric.num_host_endpoints)
    first = np.zeros(fabric.num_host_endpoints, dtype=bool)
    first[fabric.host_endpoint[fabric.host_endpoint >= 0]] = True
    between = np.flatnonzero(first[source] & first[destination] & (source != destination))
    source, destination = source[between], destination[between]
    cables = graph.destination_link[: len(first)] >= 0
    longest = int(np.diff(routes.offset).max(initial=0)) + 3
    histogram = np.zeros(longest, dtype=np.int64)
    detours = np.zeros(longest, dtype=np.int64)
    count_lengths(
        between, routes.offset, graph.destination_row[source], graph.destination_row[destination],
        cables[source].astype(np.int64) + cables[destination], best, histogram, detours,
    )  # fmt: skip
    leaves = np.flatnonzero(row_sources(fabric))
    weight = row_sources(fabric)[leaves]
    apart = (best[leaves][:, leaves] == UNREACHED) * np.outer(weight, weight)
    return {
        "num_unrouted_pairs": hosts * (hosts - 1) - len(between),
        "num_disconnected_pairs": int(apart.sum()) + _uncabled_pairs(fabric),
        "loops": [],
        "num_loops": 0,
        "hops": _trimmed(histogram),
        "detours": _trimmed(detours),
        "unrouted_rows": 0,
    }


@_counts.register
def _check_candidates(routes: CandidateRoutes, fabric: Fabric) -> dict[str, Any]:
    # Without intermediates only rows with hosts matter, which saves memory on large fabrics.
    rows = np.arange(fabric.graph.num_rows)
    if not routes.num_intermediates:
        rows = np.flatnonzero(row_sources(fabric))
    every_best, every_reached = fabric.graph.hops(), routed_rows(fabric, routes)
    unrouted_rows = int((~every_reached & (every_best != UNREACHED)).sum())
    best, reached = every_best[rows][:, rows], every_reached[rows][:, rows]
    lengths, (line, _) = longest_ways(fabric, routes, routes.set_id[rows])
    lengths = lengths[:, rows]
    circle = [] if line < 0 else _candidate_circle(fabric, routes, routes.set_id[rows[line]])
    if not circle and routes.num_intermediates:
        line = longest_ways(fabric, routes, routes.via_set)[1][0]
        circle = [] if line < 0 else _candidate_circle(fabric, routes, routes.via_set[line])
    itself = _hosts_that_are_rows(fabric)[rows]
    hanging = row_sources(fabric)[rows] - itself
    # Pairs by how many of the two ends have a cable of their own to the row.
    ends = [
        np.outer(itself, itself),
        np.outer(itself, hanging) + np.outer(hanging, itself),
        np.outer(hanging, hanging),
    ]
    np.fill_diagonal(ends[0], itself * (itself - 1))
    np.fill_diagonal(ends[2], hanging * (hanging - 1))
    pairs = ends[0] + ends[1] + ends[2]
    uncabled = _uncabled_pairs(fabric)
    found = {
        "num_unrouted_pairs": int(pairs[~reached].sum()) + uncabled,
        "num_disconnected_pairs": int(pairs[best == UNREACHED].sum()) + uncabled,
        "loops": [circle] if circle else [],
        "num_loops": int(bool(circle)),
        "unrouted_rows": unrouted_rows,
    }
    if circle:
        return {**found, "hops": np.zeros(1, np.int64), "detours": np.zeros(1, np.int64)}
    short = np.where(reached, best, 0).astype(np.int64)
    most = int(lengths.max(initial=0))
    only_round = (
        goes_round(routes)
        if routes.num_intermediates and not routes.direct
        else np.zeros(reached.shape, dtype=bool)
    )
    hops: NDArray[Any] = np.zeros(most + 3, dtype=np.int64)
    detours: NDArray[Any] = np.zeros(most + 3, dtype=np.int64)
    longest = 0
    for cables, count in enumerate(ends):
        straight = np.where(reached & ~only_round, count, 0)
        np.add.at(hops, lengths + cables, straight)
        np.add.at(detours, np.maximum(lengths - short, 0), straight)
        if routes.num_intermediates and np.any(count):
            some = np.where(reached, count, 0)
            links, extra = round_lengths(fabric, routes, some, short, lengths)
            longest = max(longest, int(np.flatnonzero(links).max(initial=0)) + cables)
            if not routes.direct:
                hops = _sum(hops, np.concatenate((np.zeros(cables), links)))
                detours = _sum(detours, extra)
    return {
        **found,
        "hops": _trimmed(hops),
        "detours": _trimmed(detours),
        "round_hops": longest,
    }


def _sum(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """Two histograms in one."""
    both = np.zeros(max(len(one), len(other)))
    both[: len(one)] += one
    both[: len(other)] += other
    return both


def _candidate_circle(
    fabric: Fabric, routes: CandidateRoutes, line: NDArray[np.int32]
) -> list[int]:
    """Nodes of a circle that the candidate sets of one target form, or nothing."""
    graph = fabric.graph
    state = np.zeros(graph.num_rows, dtype=np.uint8)
    for root in range(graph.num_rows):
        trail: list[tuple[int, int]] = [(root, 0)] if state[root] == 0 else []
        while trail:
            row, turn = trail.pop()
            state[row] = 1
            choice = line[row]
            members = (
                routes.set_edge[routes.set_offset[choice] : routes.set_offset[choice + 1]]
                if choice >= 0
                else ()
            )
            if turn == len(members):
                state[row] = 2
                continue
            trail.append((row, turn + 1))
            other = int(graph.edge_row[members[turn]])
            if state[other] == 1:
                rows = [at for at, _ in trail]
                return [int(graph.row_node[at]) for at in rows[rows.index(other) :]]
            if state[other] == 0:
                trail.append((other, 0))
    return []


def reached_rows(
    fabric: Fabric, routes: TableRoutes, endpoints: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Bool [endpoints, rows]: what a row sends to the first LID of an endpoint arrives."""
    graph = fabric.graph
    reached = np.zeros((len(endpoints), graph.num_rows), dtype=np.bool_)
    arriving_rows(
        routes.table, (endpoints << routes.lmc).astype(np.int32),
        graph.destination_row[endpoints], graph.destination_link[endpoints],
        graph.row_base, graph.row_link, graph.link_row, routes.no_path, reached,
    )  # fmt: skip
    return reached


@singledispatch
def _list_unrouted(routes: Routes, fabric: Fabric, pairs: NDArray[np.int64]) -> None:
    """List the pairs of hosts without a path, of which there are so many."""
    raise NotImplementedError


@_list_unrouted.register
def _list_of_tables(routes: TableRoutes, fabric: Fabric, pairs: NDArray[np.int64]) -> None:
    graph = fabric.graph
    list_unrouted(
        routes.table, routes.lmc, fabric.host_endpoint,
        graph.destination_row, graph.destination_link, _host_rows(fabric),
        graph.row_base, graph.row_link, graph.link_row, routes.no_path, pairs,
    )  # fmt: skip


@_list_unrouted.register
def _list_of_paths(routes: PathRoutes, fabric: Fabric, pairs: NDArray[np.int64]) -> None:
    filled = 0
    for host in range(fabric.num_hosts):
        ends = np.full(fabric.num_hosts, fabric.host_endpoint[host])
        lost = routes.find(fabric, fabric.host_endpoint, ends) < 0
        lost[host] = False
        filled = _add_pairs(pairs, filled, np.flatnonzero(lost), host)


@_list_unrouted.register
def _list_of_candidates(routes: CandidateRoutes, fabric: Fabric, pairs: NDArray[np.int64]) -> None:
    filled = 0
    host_row = _host_rows(fabric)
    reached = routed_rows(fabric, routes)
    for host in range(fabric.num_hosts):
        row = host_row[host]
        lost = np.ones(fabric.num_hosts, dtype=bool)
        if row >= 0:
            lost = (host_row < 0) | ~reached[row, host_row]
        lost[host] = False
        filled = _add_pairs(pairs, filled, np.flatnonzero(lost), host)


def _add_pairs(pairs: NDArray[np.int64], filled: int, sources: NDArray[np.intp], host: int) -> int:
    """List the pairs from some hosts to one; return how many are listed now."""
    after = filled + len(sources)
    pairs[filled:after] = np.column_stack((sources, np.full(len(sources), host)))
    return after
