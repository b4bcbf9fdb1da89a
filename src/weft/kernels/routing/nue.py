"""Nue routing: trees towards destinations inside a channel dependency graph that stays acyclic.

A channel is an edge of the fabric's graph. The dependency of channel f on a channel e that leaves
the head of f has number ``dependency[f] + e - edge_offset[edge_row[f]]``. Each virtual lane has an
order of all channels, ``order[channel]`` with the inverse ``channel_at[position]``, in which every
used dependency leads to a later channel.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.heaps import sort_part
from weft.kernels.routing.distances import UNREACHED

#: States of a dependency.
UNUSED, USED, BLOCKED = 0, 1, 2


class NueDemand(NamedTuple):
    """What all lanes and passes route."""

    #: float64 [edges]: 1 / (rate in Gbit/s).
    edge_cost: Any
    #: int64 [rows]: number of hosts that send through the row.
    row_sources: Any
    #: Number of all these hosts.
    senders: Any
    #: int64 [rows]: 0 for a row that needs no path.
    weight: Any
    #: uint16 [rows, rows]: fewest hops between two rows, `UNREACHED` where there is no path.
    distances: Any


@njit(cache=True)
def _admit(f, e, graph, state, order, channel_at, space, trail):
    """Mark the dependency of f on e as blocked if it closes a cycle, else as used.

    If e is before f in the order, the search goes from e to the channels that follow, up to f's
    position. If it does not find f, the channels found are moved behind those that precede f
    (Pearce and Kelly 2006). trail[0] counts the marked dependencies, which are listed from trail[1]
    on. Return whether the dependency is used.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    edge_tail, reverse, dependency = graph.edge_tail, graph.edge_back, graph.first_dependency
    seen, stack, after, before, moved = space
    head = edge_row[f]
    which = dependency[f] + e - edge_offset[head]
    if state[which] != UNUSED:
        return state[which] == USED
    trail[0] += 1
    trail[trail[0]] = which
    first, last = order[e], order[f]
    if first < last:
        state[which] = BLOCKED
        seen[0] += 1
        mark = seen[0]
        following = 0
        stack[0] = e
        seen[e + 1] = mark
        top = 1
        while top > 0:
            top -= 1
            channel = stack[top]
            after[following] = order[channel]
            following += 1
            row = edge_row[channel]
            for other in range(edge_offset[row], edge_offset[row + 1]):
                if (
                    state[dependency[channel] + other - edge_offset[row]] == USED
                    and seen[other + 1] != mark
                    and order[other] <= last
                ):
                    if other == f:
                        return False
                    seen[other + 1] = mark
                    stack[top] = other
                    top += 1
        preceding = 0
        stack[0] = f
        seen[f + 1] = mark
        top = 1
        while top > 0:
            top -= 1
            channel = stack[top]
            before[preceding] = order[channel]
            preceding += 1
            row = edge_tail[channel]
            for out in range(edge_offset[row], edge_offset[row + 1]):
                other = reverse[out]
                if (
                    seen[other + 1] != mark
                    and order[other] >= first
                    and state[dependency[other] + channel - edge_offset[row]] == USED
                ):
                    seen[other + 1] = mark
                    stack[top] = other
                    top += 1
        sort_part(before, 0, preceding)
        sort_part(after, 0, following)
        for i in range(preceding):
            moved[i] = channel_at[before[i]]
        for i in range(following):
            moved[preceding + i] = channel_at[after[i]]
        b, a = 0, 0
        for i in range(preceding + following):
            if a == following or (b < preceding and before[b] < after[a]):
                position = before[b]
                b += 1
            else:
                position = after[a]
                a += 1
            channel_at[position] = moved[i]
            order[moved[i]] = position
    state[which] = USED
    return True


@njit(cache=True)
def _undo(state, trail, since):
    """Unmark all dependencies of the trail but the first `since`."""
    for i in range(since + 1, trail[0] + 1):
        state[trail[i]] = UNUSED
    trail[0] = since


@njit(cache=True)
def _admit_redirect(
    row, other_edge, by, level, graph, hops, chosen, state, order, channel_at, space, trail
):
    """Admit the dependencies that a row needs to send by other_edge instead.

    Channel `by` and all channels that already enter the row depend on other_edge, and other_edge
    depends on the next channel. Return whether all these dependencies are admitted.
    """
    edge_offset, edge_row, reverse = graph.edge_offset, graph.edge_row, graph.edge_back
    onward = chosen[edge_row[other_edge]]
    since = trail[0]
    fits = _admit(np.int32(by), np.int32(other_edge), graph, state, order, channel_at, space, trail)
    if fits and onward >= 0:
        fits = _admit(
            np.int32(other_edge), np.int32(onward), graph, state, order, channel_at, space, trail
        )
    if fits:
        for out in range(edge_offset[row], edge_offset[row + 1]):
            entering = reverse[out]
            child = edge_row[out]
            if hops[child] == level and chosen[child] == entering:
                fits = _admit(
                    np.int32(entering), np.int32(other_edge), graph, state, order, channel_at,
                    space, trail,
                )  # fmt: skip
                if not fits:
                    break
    if not fits:
        _undo(state, trail, since)
    return fits


@njit(cache=True)
def _cheapest(row, level, graph, edge_cost, load, state, tree):
    """Return the edge of a row, to a row one hop nearer, of the cheapest path, and the path's cost.

    The edge is -1 if all dependencies of such paths are blocked.
    """
    edge_offset, edge_row, dependency = graph.edge_offset, graph.edge_row, graph.first_dependency
    hops, chosen, cost, _, _ = tree
    best = np.int64(-1)
    least = np.inf
    for e in range(edge_offset[row], edge_offset[row + 1]):
        other = edge_row[e]
        if hops[other] != level - 1:
            continue
        onward = chosen[other]
        if onward >= 0 and state[dependency[e] + onward - edge_offset[other]] == BLOCKED:
            continue
        here = cost[other] + load[e] * edge_cost[e]
        if here < least:
            least = here
            best = e
    return best, least


@njit(cache=True)
def _grow(goal, limit, demand, graph, load, state, order, channel_at, space, trail, tree):
    """Choose an edge for each row towards the goal, nearest rows first, in one lane.

    Each row takes the cheapest of the paths via a row one hop nearer whose dependency is admitted.
    If all these dependencies are blocked, a nearer row may be redirected to another of its shortest
    paths (local backtracking). If that fails too, the row is tried again one hop farther from the
    goal.

    Return the number of rows reached, which are listed nearest first, and the excess. The excess is
    the sum over all rows of the row's weight times the number of edges by which its path exceeds a
    minimal one. The search stops when the excess reaches `limit`; the excess is also `limit` if a
    row of positive weight is not reached.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    weight, distances, edge_cost = demand.weight, demand.distances, demand.edge_cost
    hops, chosen, cost, rows, waiting = tree
    hops[:] = -1
    hops[goal] = 0
    chosen[goal] = -1
    cost[goal] = 0.0
    rows[0] = goal
    start, count, level = 0, 1, 0
    excess = np.int64(0)
    while start < count and excess < limit:
        stop = count
        level += 1
        waits = 0
        for q in range(start, stop):
            for out in range(edge_offset[rows[q]], edge_offset[rows[q] + 1]):
                row = edge_row[out]
                if hops[row] != -1:
                    continue
                while hops[row] == -1:
                    best, least = _cheapest(row, level, graph, edge_cost, load, state, tree)
                    if best < 0:
                        break
                    onward = chosen[edge_row[best]]
                    if onward < 0 or _admit(
                        np.int32(best), np.int32(onward), graph, state, order, channel_at, space,
                        trail,
                    ):  # fmt: skip
                        hops[row] = level
                        chosen[row] = best
                        cost[row] = least
                        rows[count] = row
                        count += 1
                if hops[row] == -1:
                    hops[row] = -2  # tried at this number of hops
                    waiting[waits] = row
                    waits += 1
        for i in range(waits):
            row = waiting[i]
            for e in range(edge_offset[row], edge_offset[row + 1]):
                middle = edge_row[e]
                if hops[row] != -2 or level < 2 or hops[middle] != level - 1:
                    continue
                for other_edge in range(edge_offset[middle], edge_offset[middle + 1]):
                    if (
                        hops[edge_row[other_edge]] == level - 2
                        and other_edge != chosen[middle]
                        and _admit_redirect(
                            middle, other_edge, e, level,
                            graph, hops, chosen, state, order, channel_at, space, trail,
                        )
                    ):  # fmt: skip
                        chosen[middle] = other_edge
                        cost[middle] = (
                            cost[edge_row[other_edge]] + load[other_edge] * edge_cost[other_edge]
                        )
                        hops[row] = level
                        chosen[row] = e
                        cost[row] = cost[middle] + load[e] * edge_cost[e]
                        rows[count] = row
                        count += 1
                        break
            if hops[row] == -2:
                hops[row] = -1
        for i in range(stop, count):
            excess += weight[rows[i]] * (level - np.int64(distances[goal, rows[i]]))
        start = stop
    for row in range(len(hops)):
        if weight[row] > 0 and hops[row] < 0 and distances[goal, row] != UNREACHED:
            excess = limit
    return count, min(excess, limit)


@njit(cache=True)
def share_lanes(graph, demand, goals, parent, wanted, aimed, load, state, order, channel_at, lane):
    """Grow a tree towards each goal in a lane that admits it, and mark its dependencies as used.

    Each lane first gets the dependencies of its paths along the escape tree. Then each goal
    without a lane gets the first lane in which all rows of positive weight have minimal paths. If
    there is no such lane, it gets the lane of the least excess (see `_grow`) among those that reach
    all rows, or else the last lane, in which the escape tree must lead to the goal.

    - `demand`: parts of `NueDemand`.
    - `goals`, int32: target rows, in the order of routing; each row occurs once per destination.
    - `parent`, int32 [rows]: channel of each row towards the root of the escape tree.
    - `wanted`, `aimed`, uint8 [lanes, rows]: 1 for the rows on a lane's escape paths to its goals;
      and 1 for rows on branches of the escape tree that lead to such a goal.
    - `load`, int64 [edges]: flows on each edge; initially zeros, changed in place.
    - `state`, uint8 [lanes, dependencies]: `UNUSED`, `USED` or `BLOCKED`, changed in place.
    - `order`, `channel_at`, int32 [lanes, edges], changed in place; see the module.
    - `lane`, int32 [rows]: the lane of each goal, changed in place where it is -1.
    """
    edge_offset, edge_row, reverse = graph.edge_offset, graph.edge_row, graph.edge_back
    rows, channels, lanes = len(edge_offset) - 1, len(edge_row), len(state)
    space = (
        np.zeros(channels + 1, dtype=np.int32),
        np.empty(channels, dtype=np.int32),
        np.empty(channels, dtype=np.int32),
        np.empty(channels, dtype=np.int32),
        np.empty(channels, dtype=np.int32),
    )
    hops = np.empty(rows, dtype=np.int32)
    chosen = np.empty(rows, dtype=np.int32)
    listed = np.empty(rows, dtype=np.int32)
    tree = (
        hops,
        chosen,
        np.empty(rows, dtype=np.float64),
        listed,
        np.empty(channels + 1, dtype=np.int32),
    )
    flow = np.empty(rows, dtype=np.int64)
    # A tree marks each dependency once; `_undo` removes from the trail what it unmarks.
    trail = np.zeros(state.shape[1] + 1, dtype=np.int32)
    for v in range(lanes):
        for row in range(rows):
            for edge in range(edge_offset[row], edge_offset[row + 1]):
                below = edge_row[edge]
                if edge != parent[row] and (parent[below] != reverse[edge] or not aimed[v, below]):
                    continue
                if not wanted[v, row]:
                    continue
                for back in range(edge_offset[row], edge_offset[row + 1]):
                    source = edge_row[back]
                    if back == edge or (
                        back != parent[row]
                        and (parent[source] != reverse[back] or not wanted[v, source])
                    ):
                        continue
                    trail[0] = 0
                    _admit(
                        np.int32(reverse[back]), np.int32(edge), graph,
                        state[v], order[v], channel_at[v], space, trail,
                    )  # fmt: skip
    no_limit = np.int64(np.iinfo(np.int64).max)
    for goal in goals:
        if lane[goal] < 0:
            lane[goal] = lanes - 1
            least = no_limit
            for attempt in range(2 * lanes):  # The first `lanes` attempts accept no detours.
                v = attempt % lanes
                trail[0] = 0
                _, excess = _grow(
                    goal, np.int64(1) if attempt < lanes else least, demand, graph, load, state[v],
                    order[v], channel_at[v], space, trail, tree,
                )  # fmt: skip
                _undo(state[v], trail, 0)
                if excess < (1 if attempt < lanes else least):
                    lane[goal], least = v, excess
                    if excess == 0:
                        break
        v = lane[goal]
        trail[0] = 0
        count, _ = _grow(
            goal, no_limit, demand, graph, load, state[v], order[v], channel_at[v], space, trail,
            tree,
        )  # fmt: skip
        for i in range(count):
            flow[listed[i]] = demand.row_sources[listed[i]]
        for i in range(count - 1, 0, -1):
            e = chosen[listed[i]]
            load[e] += flow[listed[i]]
            flow[edge_row[e]] += flow[listed[i]]
