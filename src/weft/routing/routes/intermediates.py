"""Candidates via intermediates as matrices over rows: reachability, shares and path lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.routes.intermediates import arrivals, path_lengths
from weft.routing.routes.candidates import CandidateRoutes


def uses_intermediate(routes: CandidateRoutes) -> NDArray[np.bool_]:
    """Return whether packets between rows may use an intermediate, bool [target rows, rows]."""
    if not routes.num_intermediates:
        return np.zeros(routes.set_id.shape, dtype=bool)
    via = routes.via
    apart: NDArray[np.bool_] = (
        (via[:, None] != via[None, :]) & (via >= 0)[:, None] & (via >= 0)[None, :]
    )
    return apart


def members(routes: CandidateRoutes) -> NDArray[np.bool_]:
    """Return which rows belong to each intermediate, bool [intermediates, rows]."""
    inside: NDArray[np.bool_] = routes.via[None, :] == np.arange(len(routes.via_set))[:, None]
    return inside


def arrival_shares(fabric: Fabric, routes: CandidateRoutes) -> NDArray[np.float64]:
    """Return the shares of packets that reach an intermediate at each of its rows.

    Returns float64 [rows, rows]: element [s, a] is the part of the packets from row ``s`` to the
    intermediate of row ``a`` that enter the intermediate at ``a``, if packets are split equally at
    every hop; 0 if both rows are in one intermediate.
    """
    via = routes.via
    listed = np.argsort(via, kind="stable")[int((via < 0).sum()) :].astype(np.int32)
    counts = np.bincount(via[via >= 0], minlength=routes.num_intermediates)
    share = np.zeros((len(via), len(via)))
    arrivals(
        via, routes.via_set, routes.set_offset, routes.set_edge, fabric.graph.edge_row,
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64), listed, share,
    )  # fmt: skip
    return share


def always_arrives(
    fabric: Fabric, routes: CandidateRoutes, lines: NDArray[np.int32], ends: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return from which rows all choices lead to an end, bool [lines, rows].

    `fabric`, `routes`: the fabric, and the routes whose sets `lines` contains. `lines` [lines,
    rows]: `CandidateRoutes.set_id` or `via_set`. `ends`: bool [lines, rows]: rows at which paths
    should end.
    """
    graph = fabric.graph
    reached: NDArray[np.bool_] = (lines >= 0) | ends
    for target in range(len(lines)):
        rows = np.flatnonzero((lines[target] >= 0) & ~ends[target])
        sets = lines[target, rows]
        count = np.diff(routes.set_offset)[sets]
        if not count.all():
            raise InputError(f"port set {int(sets[count == 0][0])} is empty")
        first = np.cumsum(count) - count
        at = np.repeat(rows, count)
        edges = routes.set_edge[
            np.repeat(routes.set_offset[sets] - first, count) + np.arange(len(at))
        ]
        if np.any(graph.edge_tail[edges] != at):
            wrong = int(at[graph.edge_tail[edges] != at][0])
            name = fabric.node_names[graph.row_node[wrong]]
            raise InputError(f"a port set of {name} contains an edge that leaves another node")
        heads = graph.edge_row[edges]
        onward = reached[target, heads]
        while len(rows) and not onward.all():
            reached[target, rows] = np.logical_and.reduceat(onward, first)
            before, onward = onward, reached[target, heads]
            if np.array_equal(before, onward):
                break
    return reached


def longest_paths(
    fabric: Fabric, routes: CandidateRoutes, lines: NDArray[np.int32]
) -> tuple[NDArray[np.int32], tuple[int, int]]:
    """Return the length of the longest path over each line's sets, int32 [lines, rows].

    Lengths are counted in edges. If there is a cycle, the second result is a line and a row on the
    cycle, and the lengths are undefined; otherwise the second result is (-1, -1).
    """
    lengths = np.zeros(lines.shape, dtype=np.int32)
    line, row = path_lengths(
        lines, routes.set_offset, routes.set_edge, fabric.graph.edge_row, lengths
    )
    return lengths, (int(line), int(row))


def detours(
    fabric: Fabric, routes: CandidateRoutes
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the lengths of paths to rows and to intermediates, and where the latter end.

    Returns int32 [target rows, rows] and int32 [intermediates, rows]: edges of the longest path
    from a row to each target row and to each intermediate; and int32 [intermediates, rows]: the row
    of the intermediate at which a path that always takes the first candidate ends.
    """
    lengths_to, loop = longest_paths(fabric, routes, routes.set_id)
    target = "switch"
    to_via = np.zeros(routes.via_set.shape, dtype=np.int32)
    if routes.num_intermediates and loop[0] < 0:
        to_via, loop = longest_paths(fabric, routes, routes.via_set)
        target = "intermediate"
    if loop[0] >= 0:
        row = fabric.node_names[fabric.graph.row_node[loop[1]]]
        raise InputError(
            f"the {routes.engine} routes of {fabric.name} to {target} {loop[0]} have a loop at "
            f"{row}"
        )
    # A path to an intermediate ends at the row to which the first candidates lead.
    onward = np.tile(np.arange(fabric.graph.num_rows, dtype=np.int32), (len(to_via), 1))
    via_row = onward.copy()
    known = routes.via_set >= 0
    if known.any():
        first = routes.set_edge[routes.set_offset[routes.via_set[known]]]
        onward[known] = fabric.graph.edge_row[first]
    for _ in range(int(to_via.max(initial=0))):
        via_row = np.take_along_axis(onward, via_row, axis=1)
    return lengths_to, to_via, via_row


def routed_rows(fabric: Fabric, routes: CandidateRoutes) -> NDArray[np.bool_]:
    """Return whether packets arrive whatever the policy chooses, bool [target rows, rows]."""
    rows = fabric.graph.num_rows
    arrives = always_arrives(fabric, routes, routes.set_id, np.eye(rows, dtype=bool))
    if not routes.num_intermediates:
        return arrives
    inside = members(routes)
    starts = always_arrives(fabric, routes, routes.via_set, inside)
    # A row needs no path to its own intermediate; each of the other intermediates may be drawn.
    stuck = (~starts & ~inside).astype(np.int64)
    of_target = np.where((routes.via >= 0)[:, None], stuck[routes.via], 0)
    unrouted = (stuck.sum(axis=0)[None, :] - of_target) > 0
    turns = (arrival_shares(fabric, routes) > 0).astype(np.float32)
    dead = ~arrives & uses_intermediate(routes)
    unrouted |= (dead.astype(np.float32) @ turns.T) > 0
    if routes.direct:
        unrouted |= ~arrives
    routed: NDArray[np.bool_] = np.where(uses_intermediate(routes), ~unrouted, arrives)
    return routed


def via_lengths(
    fabric: Fabric,
    routes: CandidateRoutes,
    pairs: NDArray[Any],
    best: NDArray[np.integer[Any]],
    lengths: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return histograms of the lengths of paths via intermediates that are drawn uniformly.

    `pairs` [target rows, rows]: number of pairs of hosts. `best` [target rows, rows]: length of a
    minimal path, in edges. `lengths` [target rows, rows]: edges from a row to the target in the
    second phase.

    Returns float64: number of pairs for each number of edges of the path, and for each number of
    edges by which the path exceeds a minimal one.
    """
    vias = routes.num_intermediates
    share = arrival_shares(fabric, routes) / (vias - 2)
    to_via = longest_paths(fabric, routes, routes.via_set)[0]
    first = np.where((routes.via >= 0)[None, :], to_via.T[:, np.maximum(routes.via, 0)], 0)
    via_pairs = np.where(uses_intermediate(routes), pairs, 0).astype(np.float64)
    most = int(to_via.max(initial=0)) + int(lengths.max(initial=0)) + 1
    links, extra = np.zeros(most), np.zeros(most)
    for shortest in np.unique(best[via_pairs > 0]).tolist():
        selected = np.where(best == shortest, via_pairs, 0.0)
        for to_middle in np.unique(first[share > 0]).tolist():
            weight = selected @ np.where(first == to_middle, share, 0.0)
            weight[~uses_intermediate(routes)] = 0.0
            counts = np.bincount(lengths.reshape(-1), weights=weight.reshape(-1), minlength=most)
            nonzero = np.flatnonzero(counts)
            links[nonzero + to_middle] += counts[nonzero]
            extra[nonzero + to_middle - shortest] += counts[nonzero]
    return links, extra
