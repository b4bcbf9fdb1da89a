"""Candidates by way of intermediates, as matrices over rows: who arrives where, over how much."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.routes.intermediates import arrivals, way_lengths
from weft.routes.candidates import CandidateRoutes


def goes_round(routes: CandidateRoutes) -> NDArray[np.bool_]:
    """Bool [target rows, rows]: pairs of rows whose packets may go by an intermediate."""
    if not routes.num_intermediates:
        return np.zeros(routes.set_id.shape, dtype=bool)
    via = routes.via
    apart: NDArray[np.bool_] = (
        (via[:, None] != via[None, :]) & (via >= 0)[:, None] & (via >= 0)[None, :]
    )
    return apart


def members(routes: CandidateRoutes) -> NDArray[np.bool_]:
    """Bool [intermediates, rows]: which rows each intermediate has."""
    inside: NDArray[np.bool_] = routes.via[None, :] == np.arange(len(routes.via_set))[:, None]
    return inside


def turn_shares(fabric: Fabric, routes: CandidateRoutes) -> NDArray[np.float64]:
    """Where packets turn to their destination.

    Returns
    -------
    ndarray
        float64 [rows, rows]: of what row ``s`` sends to the intermediate of row ``a``, the part
        that turns on ``a``, split equally at every hop; 0 when ``s`` is in that one itself.
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


def leads_on(
    fabric: Fabric, routes: CandidateRoutes, lines: NDArray[np.int32], ends: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Bool [lines, rows]: no choice by the line leads into a dead end.

    Parameters
    ----------
    fabric, routes
        Whose sets they are.
    lines
        int32 [lines, rows]: `CandidateRoutes.set_id` or `via_set`.
    ends
        Bool [lines, rows]: where ways should end.

    Raises
    ------
    InputError
        When a set is empty or names an edge that leaves another row.
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
            raise InputError(f"a port set of {name} names a cable that is not plugged into it")
        heads = graph.edge_row[edges]
        onward = reached[target, heads]
        while len(rows) and not onward.all():
            reached[target, rows] = np.logical_and.reduceat(onward, first)
            before, onward = onward, reached[target, heads]
            if np.array_equal(before, onward):
                break
    return reached


def longest_ways(
    fabric: Fabric, routes: CandidateRoutes, lines: NDArray[np.int32]
) -> tuple[NDArray[np.int32], tuple[int, int]]:
    """Links of the longest way by each line from each row, and a (line, row) on a circle.

    (-1, -1) says that nothing circles; otherwise the lengths mean nothing.
    """
    lengths = np.zeros(lines.shape, dtype=np.int32)
    line, row = way_lengths(
        lines, routes.set_offset, routes.set_edge, fabric.graph.edge_row, lengths
    )
    return lengths, (int(line), int(row))


def routed_rows(fabric: Fabric, routes: CandidateRoutes) -> NDArray[np.bool_]:
    """Bool [target rows, rows]: whatever is chosen, what the row sends to the target arrives."""
    rows = fabric.graph.num_rows
    straight = leads_on(fabric, routes, routes.set_id, np.eye(rows, dtype=bool))
    if not routes.num_intermediates:
        return straight
    inside = members(routes)
    starts = leads_on(fabric, routes, routes.via_set, inside)
    # A row is in one intermediate, which it need not go to; of the others any may be drawn.
    stuck = (~starts & ~inside).astype(np.int64)
    of_target = np.where((routes.via >= 0)[:, None], stuck[routes.via], 0)
    lost = (stuck.sum(axis=0)[None, :] - of_target) > 0
    turns = (turn_shares(fabric, routes) > 0).astype(np.float32)
    dead = ~straight & goes_round(routes)
    lost |= (dead.astype(np.float32) @ turns.T) > 0
    if routes.direct:
        lost |= ~straight
    routed: NDArray[np.bool_] = np.where(goes_round(routes), ~lost, straight)
    return routed


def round_lengths(
    fabric: Fabric,
    routes: CandidateRoutes,
    pairs: NDArray[Any],
    best: NDArray[np.integer[Any]],
    lengths: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many links packets take that go by intermediates, drawn uniformly.

    Parameters
    ----------
    fabric, routes
        Routes with intermediates.
    pairs
        [target rows, rows]: how many pairs of hosts.
    best
        [target rows, rows]: links of a shortest way.
    lengths
        int32 [target rows, rows]: links from a row to the target in the second phase.

    Returns
    -------
    ndarray, ndarray
        float64: pairs by links between their rows, and by links more than the shortest way has.
    """
    vias = routes.num_intermediates
    share = turn_shares(fabric, routes) / (vias - 2)
    to_via = longest_ways(fabric, routes, routes.via_set)[0]
    first = np.where((routes.via >= 0)[None, :], to_via.T[:, np.maximum(routes.via, 0)], 0)
    round_about = np.where(goes_round(routes), pairs, 0).astype(np.float64)
    most = int(to_via.max(initial=0)) + int(lengths.max(initial=0)) + 1
    links, extra = np.zeros(most), np.zeros(most)
    for shortest in np.unique(best[round_about > 0]).tolist():
        some = np.where(best == shortest, round_about, 0.0)
        for climb in np.unique(first[share > 0]).tolist():
            weight = some @ np.where(first == climb, share, 0.0)
            weight[~goes_round(routes)] = 0.0
            counts = np.bincount(lengths.reshape(-1), weights=weight.reshape(-1), minlength=most)
            there = np.flatnonzero(counts)
            links[there + climb] += counts[there]
            extra[there + climb - shortest] += counts[there]
    return links, extra
