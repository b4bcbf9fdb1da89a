"""The validator of routes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.html import facts_table
from weft.fabrics import Fabric
from weft.kernels.routes.paths import count_lengths
from weft.kernels.routing.checks import arriving_rows, check_tables
from weft.kernels.routing.distances import UNREACHED
from weft.routing.engine_registry import row_sources
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routing.routes.intermediates import (
    longest_paths,
    routed_rows,
    uses_intermediate,
    via_lengths,
)
from weft.routing.validation.deadlock import CreditLoop, credit_loops

#: Maximum number of loops that are listed with their nodes.
MAX_LOOPS = 16


@dataclass(frozen=True, eq=False, repr=False)
class Validation:
    """The result of a validation.

    Parameters
    ----------
    fabric, routes
        The fabric and the routes that were checked.
    num_unrouted_pairs
        Number of ordered pairs of different hosts for which the source's first port has no path
        to some LID of the destination's first port.
    num_disconnected_pairs
        Number of unrouted pairs that no cables connect, and so no engine can route.
    loops
        Forwarding loops, each a list of its nodes: one loop per LID, at most 16 in all.
    num_loops
        Number of destination LIDs with a loop.
    credit_loops
        Cycles of the channel dependency graph, one per strongly connected component; each a list
        of (directed link, VL).
    lanes
        Number of virtual lanes in use.
    hops
        int64: ``hops[h]`` is the number of host pairs whose path (to the first LID) has h hops,
        the links at both hosts included. With candidates, the longest path counts; if packets may
        also be sent via an intermediate, the longest direct path counts. If all packets must be
        sent via an intermediate, the dtype is float64, since each pair is divided equally among
        its intermediates and, at every row, among the candidates.
    detours
        Like `hops`, but ``detours[x]`` is the number of host pairs whose path is x hops longer
        than a minimal path.
    unrouted_rows
        Number of combinations of a row and a destination LID (of a host or a switch) that cables
        connect but that have no path.
    round_hops
        Hops of the longest path via an intermediate, the links at both hosts included; 0 if the
        routes have no intermediates.
    levels_known
        Whether the fabric uses the service levels and lanes of the routes. If not, `credit_loops`
        are computed with all paths on one lane; several lanes can only remove loops.
    sent_out
        int64: LIDs, as indices in the table, of switches and forwarding hosts that send packets for
        these LIDs out by a port. Packets for a row are only delivered if its own entry is port 0.
    fallback
        The result for the static fallback of adaptive routes, which must be valid as well.
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
    fallback: Validation | None = None

    @property
    def deadlock(self) -> Literal["no", "may", "can"]:
        """Whether the routes can deadlock; "may" if service levels and lanes are not known."""
        if not self.credit_loops:
            return "no"
        return "can" if self.levels_known else "may"

    @property
    def ok(self) -> bool:
        """Whether every pair of hosts has a path, and there are no forwarding or credit loops."""
        static = self.fallback is None or self.fallback.ok
        return static and not (self.num_unrouted_pairs or self.num_loops or self.credit_loops)

    @property
    def ok_where_connected(self) -> bool:
        """Whether the routes are `ok`, apart from pairs of hosts that no cables connect."""
        unrouted = self.num_unrouted_pairs - self.num_disconnected_pairs
        static = self.fallback is None or self.fallback.ok_where_connected
        return static and not (unrouted or self.num_loops or self.credit_loops)

    @property
    def minimal_share(self) -> float:
        """Share of the routed host pairs that have a minimal path; NaN if no pair is routed."""
        total = int(self.detours.sum())
        return float(self.detours[0] / total) if total else float("nan")

    @property
    def mean_hops(self) -> float:
        """Mean hops of the paths of routed host pairs; NaN if no pair is routed."""
        total = int(self.hops.sum())
        return float(np.arange(len(self.hops)) @ self.hops / total) if total else float("nan")

    @property
    def max_hops(self) -> int:
        """Hops of the longest path between hosts, paths via an intermediate included."""
        return max(int(np.flatnonzero(self.hops).max(initial=0)), self.round_hops)

    @property
    def max_detour(self) -> int:
        """Maximum number of hops by which a path exceeds a minimal path."""
        return int(np.flatnonzero(self.detours).max(initial=0))

    @cached_property
    def unrouted_pairs(self) -> NDArray[np.int64]:
        """Unrouted ordered pairs of hosts, int64 [pairs, 2], in the order of destinations."""
        pairs = np.empty((self.num_unrouted_pairs, 2), dtype=np.int64)
        filled = 0
        for host, reaches in enumerate(_senders(self.routes, self.fabric) if len(pairs) else ()):
            reaches[host] = True
            sources = np.flatnonzero(~reaches)
            pairs[filled : filled + len(sources), 0] = sources
            pairs[filled : filled + len(sources), 1] = host
            filled += len(sources)
        return pairs

    @cached_property
    def unrouted_connected_pairs(self) -> NDArray[np.int64]:
        """The `unrouted_pairs` that cables connect, int64 [pairs, 2]."""
        label = np.append(self.fabric.graph.components, -1)[_host_rows(self.fabric)]
        source, destination = self.unrouted_pairs.T
        connected = (label[source] >= 0) & (label[source] == label[destination])
        unrouted: NDArray[np.int64] = self.unrouted_pairs[connected]
        return unrouted

    def findings(self) -> list[str]:
        """Return the findings as one line each, worst first."""
        lines = []
        hosts = self.fabric.num_hosts
        if self.num_unrouted_pairs:
            share = self.num_unrouted_pairs / (hosts * (hosts - 1))
            apart = self.num_disconnected_pairs
            lines.append(
                f"{self.num_unrouted_pairs} of {hosts * (hosts - 1)} host pairs ({share:.1%}) "
                f"have no path{f'; no cables connect {apart} of them' if apart else ''}"
            )
        if len(self.sent_out):
            lines.append(self.sent_out_text())
        if self.num_loops:
            names = " -> ".join(self.fabric.node_names[node] for node in self.loops[0])
            lines.append(f"{self.num_loops} LIDs have a forwarding loop, for example {names}")
        if self.credit_loops:
            unknown = "" if self.levels_known else "if all packets share one lane, "
            lines.append(
                f"the routes {self.deadlock} deadlock: {unknown}{len(self.credit_loops)} set(s) of "
                "channels wait for each other, for example "
                f"{self.credit_loops[0].text(self.fabric)}"
            )
        if self.fallback is not None and not self.fallback.ok_where_connected:
            lines += [f"static fallback: {line}" for line in self.fallback.findings()]
        if self.unrouted_rows and not self.num_unrouted_pairs:
            lines.append(
                f"{self.unrouted_rows:,} entries of forwarding tables have no path, but no pair of "
                "hosts uses them"
            )
        if self.max_detour:
            lines.append(
                f"{1 - self.minimal_share:.1%} of the paths are not minimal, but up to "
                f"{self.max_detour} hops longer"
            )
        direct = int(np.flatnonzero(self.hops).max(initial=0))
        if self.round_hops > direct:
            lines.append(
                f"paths via an intermediate have up to {self.round_hops} hops, "
                f"direct ones up to {direct}"
            )
        return lines

    def sent_out_text(self) -> str:
        """Return a sentence that explains `sent_out`, with an example."""
        assert isinstance(self.routes, TableRoutes)
        graph, lid = self.fabric.graph, int(self.sent_out[0])
        row = int(graph.destination_row[lid >> self.routes.lmc])
        return (
            f"{len(self.sent_out)} LIDs are never delivered: the entry of a switch or "
            "forwarding host for its own LID must be port 0, but "
            f"{self.fabric.node_names[graph.row_node[row]]} sends such packets out by port "
            f"{int(self.routes.table[lid, row])}"
        )

    def text(self) -> str:
        """Return the verdict and all findings as plain text."""
        verdict = "valid" if self.ok else "NOT VALID"
        longest = "no pair of hosts is connected"
        if self.max_hops:
            longest = f"paths of {self.mean_hops:.2f} hops on average, at most {self.max_hops}"
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
    """Check that routes connect all pairs of hosts and have no forwarding loops or credit loops.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes, from an engine or a file.
    management
        Include paths from and to switches in the channel dependency graph, for a subnet manager
        whose packets are LID-routed rather than directed-routed.
    levels_known
        Whether the fabric uses the service levels and lanes of the routes. If not, all paths are
        checked on one lane: if it has no credit loop, all assignments of lanes are free of them.

    Returns
    -------
    Validation
        The result; ``ok`` if there is no unrouted pair, forwarding loop or credit loop.

    Raises
    ------
    InputError
        If the routes belong to another fabric.
    """
    routes.check(fabric)
    counts = _counts(routes, fabric)
    judged = routes if levels_known else routes.on_one_lane()
    cycles, lanes = credit_loops(fabric, judged, management=management)
    static = routes.fallback if isinstance(routes, CandidateRoutes) else None
    return Validation(
        fabric=fabric, routes=routes, credit_loops=cycles, lanes=lanes, levels_known=levels_known,
        fallback=None if static is None else validate(
            fabric, static, management=management, levels_known=levels_known
        ),
        **counts,
    )  # fmt: skip


@singledispatch
def _counts(routes: Routes, fabric: Fabric) -> dict[str, Any]:
    """Return the counts of `Validation`, by the kind of routes."""
    raise NotApplicable(f"routes of {routes.engine} cannot be validated: they have no paths")


def _uncabled_pairs(fabric: Fabric) -> int:
    """Return the number of ordered host pairs in which a host is attached to no row."""
    row = _host_rows(fabric)
    reachable = int((row >= 0).sum())
    return fabric.num_hosts * (fabric.num_hosts - 1) - reachable * (reachable - 1)


def _host_rows(fabric: Fabric) -> NDArray[np.int32]:
    rows = np.full(fabric.num_hosts, -1, dtype=np.int32)
    known = fabric.host_endpoint >= 0
    rows[known] = fabric.graph.destination_row[fabric.host_endpoint[known]]
    return rows


def _hosts_that_are_rows(fabric: Fabric) -> NDArray[np.int64]:
    """Return 1 for each row that is itself a host with an endpoint, else 0, int64 [rows]."""
    rows = fabric.graph.node_row[fabric.host_nodes[fabric.host_endpoint >= 0]]
    return np.bincount(rows[rows >= 0], minlength=fabric.graph.num_rows).astype(np.int64)


@_counts.register
def _check_tables(routes: TableRoutes, fabric: Fabric) -> dict[str, Any]:
    graph = fabric.graph
    weight = np.zeros(fabric.num_destinations, dtype=np.int64)
    weight[fabric.host_endpoint[fabric.host_endpoint >= 0]] = 1
    histogram = np.zeros(graph.num_rows + 2, dtype=np.int64)
    detours = np.zeros(graph.num_rows + 2, dtype=np.int64)
    found = np.empty((2, MAX_LOOPS), dtype=np.int32)
    unrouted, apart, loops, unrouted_rows = check_tables(
        routes.table, routes.lmc, graph.parts, weight, row_sources(fabric),
        _hosts_that_are_rows(fabric), routes.no_path, fabric.graph.hops(), histogram, detours,
        found, np.empty((4, graph.num_rows), dtype=np.int32),
    )  # fmt: skip
    uncabled = _uncabled_pairs(fabric)
    listed = min(loops, MAX_LOOPS)
    return {
        "num_unrouted_pairs": int(unrouted + uncabled),
        "num_disconnected_pairs": int(apart + uncabled),
        "loops": [_loop(fabric, routes, int(lid), int(row)) for lid, row in found[:, :listed].T],
        "num_loops": int(loops),
        "hops": _trimmed(histogram),
        "detours": _trimmed(detours),
        "unrouted_rows": int(unrouted_rows),
        "sent_out": _sent_out(fabric, routes),
    }


def _sent_out(fabric: Fabric, routes: TableRoutes) -> NDArray[np.int64]:
    """Return the LIDs of rows whose own entry is a port other than 0; see `Validation.sent_out`."""
    graph = fabric.graph
    own = np.flatnonzero((graph.destination_link < 0) & (graph.destination_row >= 0))
    lids = ((own[:, None] << routes.lmc) + np.arange(1 << routes.lmc)).reshape(-1)
    entry = routes.table[lids, graph.destination_row[lids >> routes.lmc]]
    sent_out: NDArray[np.int64] = lids[(entry != 0) & (entry != routes.no_path)].astype(np.int64)
    return sent_out


def _trimmed(histogram: NDArray[Any]) -> NDArray[Any]:
    return histogram[: int(np.flatnonzero(histogram).max(initial=0)) + 1].copy()


def _loop(fabric: Fabric, routes: TableRoutes, lid: int, row: int) -> list[int]:
    """Return the nodes of the forwarding loop through a row."""
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
    # Without intermediates only rows with hosts are needed, which saves memory on large fabrics.
    rows = np.arange(fabric.graph.num_rows)
    if not routes.num_intermediates:
        rows = np.flatnonzero(row_sources(fabric))
    every_best, every_reached = fabric.graph.hops(), routed_rows(fabric, routes)
    unrouted_rows = int((~every_reached & (every_best != UNREACHED)).sum())
    best, reached = every_best[rows][:, rows], every_reached[rows][:, rows]
    lengths, (line, _) = longest_paths(fabric, routes, routes.set_id[rows])
    lengths = lengths[:, rows]
    cycle = [] if line < 0 else _candidate_cycle(fabric, routes, routes.set_id[rows[line]])
    if not cycle and routes.num_intermediates:
        line = longest_paths(fabric, routes, routes.via_set)[1][0]
        cycle = [] if line < 0 else _candidate_cycle(fabric, routes, routes.via_set[line])
    itself = _hosts_that_are_rows(fabric)[rows]
    attached = row_sources(fabric)[rows] - itself
    # ends[n]: number of pairs of which n hosts are cabled to a row; the other hosts are rows.
    ends = [
        np.outer(itself, itself),
        np.outer(itself, attached) + np.outer(attached, itself),
        np.outer(attached, attached),
    ]
    np.fill_diagonal(ends[0], itself * (itself - 1))
    np.fill_diagonal(ends[2], attached * (attached - 1))
    pairs = ends[0] + ends[1] + ends[2]
    uncabled = _uncabled_pairs(fabric)
    counts = {
        "num_unrouted_pairs": int(pairs[~reached].sum()) + uncabled,
        "num_disconnected_pairs": int(pairs[best == UNREACHED].sum()) + uncabled,
        "loops": [cycle] if cycle else [],
        "num_loops": int(bool(cycle)),
        "unrouted_rows": unrouted_rows,
    }
    if cycle:
        return {**counts, "hops": np.zeros(1, np.int64), "detours": np.zeros(1, np.int64)}
    short = np.where(reached, best, 0).astype(np.int64)
    most = int(lengths.max(initial=0))
    only_via = (
        uses_intermediate(routes)
        if routes.num_intermediates and not routes.direct
        else np.zeros(reached.shape, dtype=bool)
    )
    hops: NDArray[Any] = np.zeros(most + len(ends), dtype=np.int64)
    detours: NDArray[Any] = np.zeros(most + len(ends), dtype=np.int64)
    longest = 0
    for cables, count in enumerate(ends):
        direct = np.where(reached & ~only_via, count, 0)
        np.add.at(hops, lengths + cables, direct)
        np.add.at(detours, np.maximum(lengths - short, 0), direct)
        if routes.num_intermediates and np.any(count):
            some = np.where(reached, count, 0)
            links, extra = via_lengths(fabric, routes, some, short, lengths)
            longest = max(longest, int(np.flatnonzero(links).max(initial=0)) + cables)
            if not routes.direct:
                hops = _sum(hops, np.concatenate((np.zeros(cables), links)))
                detours = _sum(detours, extra)
    return {**counts, "hops": _trimmed(hops), "detours": _trimmed(detours), "round_hops": longest}


def _sum(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum of two histograms of any lengths."""
    both = np.zeros(max(len(one), len(other)))
    both[: len(one)] += one
    both[: len(other)] += other
    return both


def _candidate_cycle(fabric: Fabric, routes: CandidateRoutes, line: NDArray[np.int32]) -> list[int]:
    """Return the nodes of a cycle among the candidates for one target; empty if there is none."""
    graph = fabric.graph
    state = np.zeros(graph.num_rows, dtype=np.uint8)
    for root in range(graph.num_rows):
        trail: list[tuple[int, int]] = [(root, 0)] if state[root] == 0 else []
        while trail:
            row, index = trail.pop()
            state[row] = 1
            choice = line[row]
            members = (
                routes.set_edge[routes.set_offset[choice] : routes.set_offset[choice + 1]]
                if choice >= 0
                else ()
            )
            if index == len(members):
                state[row] = 2
                continue
            trail.append((row, index + 1))
            other = int(graph.edge_row[members[index]])
            if state[other] == 1:
                rows = [at for at, _ in trail]
                return [int(graph.row_node[at]) for at in rows[rows.index(other) :]]
            if state[other] == 0:
                trail.append((other, 0))
    return []


def reached_rows(
    fabric: Fabric, routes: TableRoutes, endpoints: NDArray[np.int32], offset: int = 0
) -> NDArray[np.bool_]:
    """Return whether each row has a path to each endpoint's LID, bool [endpoints, rows].

    `endpoints`: -1 for none, to which there is no path. `offset`: offset of the LIDs, with an LMC.
    """
    graph = fabric.graph
    reached = np.zeros((len(endpoints), graph.num_rows), dtype=np.bool_)
    arriving_rows(
        routes.table, ((endpoints << routes.lmc) + offset).astype(np.int32),
        np.where(endpoints < 0, -1, graph.destination_row[endpoints]),
        graph.destination_link[endpoints], graph.parts, routes.no_path, reached,
    )  # fmt: skip
    return reached


@singledispatch
def _senders(routes: Routes, fabric: Fabric) -> Iterator[NDArray[np.bool_]]:
    """Yield for each host whether each host has a path to it, bool [hosts]."""
    raise NotImplementedError


@_senders.register
def _of_tables(routes: TableRoutes, fabric: Fabric) -> Iterator[NDArray[np.bool_]]:
    row = _host_rows(fabric)
    for end in fabric.host_endpoint[:, None]:
        lids = [reached_rows(fabric, routes, end, offset) for offset in range(1 << routes.lmc)]
        yield np.append(np.concatenate(lids).all(axis=0), False)[row]


@_senders.register
def _of_paths(routes: PathRoutes, fabric: Fabric) -> Iterator[NDArray[np.bool_]]:
    for end in fabric.host_endpoint:
        yield routes.find(fabric, fabric.host_endpoint, np.full(fabric.num_hosts, end)) >= 0


@_senders.register
def _of_candidates(routes: CandidateRoutes, fabric: Fabric) -> Iterator[NDArray[np.bool_]]:
    row = _host_rows(fabric)
    reached = np.pad(routed_rows(fabric, routes), (0, 1))  # the last row is that of no row
    for goal in row:
        yield reached[goal][row]
