"""Penalties of a contention graph, and its solution step by step.

`weft.sim.flow.contention.coefficients` has the formula of the penalty. Sources and destinations are
nodes of one numbering from 0; sending and receiving at one node are independent of each other.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.program.dag import by_key

#: Two events count as one if the time between them is less than this part of a step. Equal edges
#: then finish together, although their penalties were summed in different orders.
SAME = 1e-12


class Coefficients(NamedTuple):
    """Coefficients of the model, float64; see `weft.sim.flow.contention.PenaltyModel`."""

    out_offset: float
    out_weight: float
    in_weight: float
    in_exponent: float
    full_rate_weight: float
    balanced_weight: float
    back_pressure: float


@njit(cache=True, inline="always")
def demand(coefficients, out):
    """Return the share of the receiver that an edge demands if its source has `out` edges."""
    exponent = coefficients.in_exponent
    if exponent == 1.0:
        return 1.0 / out
    return out**-exponent


@njit(cache=True, inline="always")
def full_rate_penalty(coefficients, out, here, total, most):
    """Return rho' of rule (b): the penalty of an edge if it conflicts only with full-rate senders.

    A full-rate sender has one edge. `here` is the number of full-rate senders to the edge's
    destination. Of the numbers of full-rate senders to the destinations of all `out` edges of
    the edge's source, `total` is the sum and `most` the largest.
    """
    share = coefficients.out_offset + coefficients.out_weight * out
    back = coefficients.back_pressure
    own = max(1.0, share + coefficients.in_weight * (here + back * (total - here)))
    top = max(1.0, share + coefficients.in_weight * (back * total + (1.0 - back) * most))
    return own + back * (top - own)


@njit(cache=True, inline="always")
def added_penalty(coefficients, out, others, conflict, conflicts, into, least, most, full, slower):
    """Return k of the model, by which conflicts at receivers raise the penalty; at least 0.

    - `out`: number of outgoing edges of the edge's source.
    - `others`: number of edges from other sources into the edge's destination.
    - `conflict`, `conflicts`: total demand of these other edges, and the sum of such totals over
      all edges of the source.
    - `into`, `least`, `most`: number of edges into the destination, and smallest and largest number
      of outgoing edges of the sources of these edges.
    - `full`: number of edges into the destination whose source has no other outgoing edge.
    - `slower`: largest rho' of an edge into the destination whose source has several edges.
    """
    if others == 0:
        return 0.0
    added = coefficients.in_weight * (
        conflict + coefficients.back_pressure * (conflicts - conflict)
    )
    if into <= out and least == out and most == out:
        return added * coefficients.balanced_weight
    if out == 1 and full == 1 and slower > 1.0:
        return min(added, coefficients.full_rate_weight / (slower - 1.0))
    return added


class Sums(NamedTuple):
    """Sums over the active edges of each node: int32 [nodes], but the last three float64."""

    #: Number of edges from the node, and number of edges into the node.
    out: Any
    into: Any
    #: Number of edges into the node whose source has no other edge; smallest and largest number of
    #: outgoing edges of the sources of edges into the node.
    full: Any
    least: Any
    most: Any
    #: Sum and maximum of `full` over the destinations of the node's edges.
    full_total: Any
    full_most: Any
    #: Scratch: number of edges from one source into the node; 0 between uses.
    parallel: Any
    #: Total demand of the edges into the node.
    asked: Any
    #: Sum of c of the model over the edges from the node.
    conflicts: Any
    #: Largest rho' of an edge into the node from a source with several edges.
    slower: Any


@njit(cache=True)
def empty_sums(nodes):
    """Return `Sums` of zeros for a number of nodes."""
    return Sums(
        np.zeros(nodes, dtype=np.int32), np.zeros(nodes, dtype=np.int32),
        np.zeros(nodes, dtype=np.int32), np.zeros(nodes, dtype=np.int32),
        np.zeros(nodes, dtype=np.int32), np.zeros(nodes, dtype=np.int32),
        np.zeros(nodes, dtype=np.int32), np.zeros(nodes, dtype=np.int32),
        np.zeros(nodes), np.zeros(nodes), np.zeros(nodes),
    )  # fmt: skip


@njit(cache=True)
def active_penalties(source, destination, offset, edges, active, coefficients, sums, penalty):
    """Write the penalties of the active edges; leave those of other edges unchanged.

    `offset` and `edges` group all edges by source (`by_key`); `active` is bool [edges].
    """
    nodes = len(offset) - 1
    out, into, full, least, most, full_total, full_most, parallel, asked, conflicts, slower = sums
    back = coefficients.back_pressure
    for v in range(nodes):
        out[v] = into[v] = full[v] = most[v] = full_total[v] = full_most[v] = 0
        least[v] = len(source) + 1
        asked[v] = conflicts[v] = slower[v] = 0.0
    for e in range(len(source)):
        if active[e]:
            out[source[e]] += 1
            into[destination[e]] += 1
    for e in range(len(source)):
        if active[e]:
            s, d = source[e], destination[e]
            asked[d] += demand(coefficients, out[s])
            least[d] = min(least[d], out[s])
            most[d] = max(most[d], out[s])
            if out[s] == 1:
                full[d] += 1
    for e in range(len(source)):
        s, d = source[e], destination[e]
        if active[e] and out[s] > 1:
            full_total[s] += full[d]
            full_most[s] = max(full_most[s], full[d])
    for e in range(len(source)):
        s, d = source[e], destination[e]
        if active[e] and out[s] > 1 and full[d] == 1:
            rho = full_rate_penalty(coefficients, out[s], full[d], full_total[s], full_most[s])
            slower[d] = max(slower[d], rho)
    for s in range(nodes):
        if out[s] == 0:
            continue
        each = demand(coefficients, out[s])
        for i in range(offset[s], offset[s + 1]):
            if active[edges[i]]:
                parallel[destination[edges[i]]] += 1
        for i in range(offset[s], offset[s + 1]):
            e = edges[i]
            d = destination[e]
            if active[e] and into[d] > parallel[d]:
                conflicts[s] += max(0.0, asked[d] - parallel[d] * each)
        top = 1.0
        for i in range(offset[s], offset[s + 1]):
            e = edges[i]
            if active[e]:
                d = destination[e]
                others = into[d] - parallel[d]
                added = added_penalty(
                    coefficients, out[s], others, max(0.0, asked[d] - parallel[d] * each),
                    conflicts[s], into[d], least[d], most[d], full[d], slower[d],
                )  # fmt: skip
                penalty[e] = max(
                    1.0, coefficients.out_offset + coefficients.out_weight * out[s] + added
                )
                top = max(top, penalty[e])
        for i in range(offset[s], offset[s + 1]):
            e = edges[i]
            if active[e]:
                penalty[e] += back * (top - penalty[e])
                parallel[destination[e]] = 0


@njit(cache=True)
def graph_penalties(source, destination, nodes, coefficients, penalty):
    """Write the penalty of every edge of a contention graph.

    `source`, `destination`, int32 [edges]: source and destination node of each edge. `penalty`,
    float64 [edges], written.
    """
    offset, edges = by_key(source, nodes)
    sums = empty_sums(nodes)
    active = np.ones(len(source), dtype=np.bool_)
    active_penalties(source, destination, offset, edges, active, coefficients, sums, penalty)


@njit(cache=True, inline="always")
def clock_sum(high, low, passed):
    """Add a duration to the time `high` + `low`; return two numbers whose sum is exact.

    Steps of microseconds stay exact on a clock that counts from 1970, and also if another edge
    lasts for days.
    """
    more = low + passed
    total = high + more
    part = total - high
    return total, (high - (total - part)) + (more - part)


@njit(cache=True, inline="always")
def end_of_step(now, beyond, shortest, following):
    """Return the length of a step, and the clock (two numbers) at its end.

    The clock at the start of the step is `now` + `beyond`. `shortest` is the duration until the
    first edge completes, `following` the time at which the next edge starts. Completion and start
    count as one event if they differ only by rounding.
    """
    gap = (following - now) - beyond
    if gap < shortest * (1.0 - SAME):
        return gap, following, 0.0
    now, beyond = clock_sum(now, beyond, shortest)
    if gap <= shortest * (1.0 + SAME) and (following - now) - beyond > 0.0:
        now, beyond = following, 0.0
    return shortest, now, beyond


class StepRecord(NamedTuple):
    """Steps of a dynamic contention graph."""

    #: float64 [steps]: end of each step.
    end: Any
    #: float64 [steps, edges]: penalties, nan for an inactive edge; bytes left at the end of the
    #: step.
    penalty: Any
    remaining: Any


@njit(cache=True)
def solve_steps(
    source, destination, nodes, size, start, order, inverse_bandwidth, coefficients,
    completion, elapsed, record,
):  # fmt: skip
    """Solve a dynamic contention graph step by step.

    A step lasts until an edge completes or starts. An edge of size 0 completes as it starts and
    delays no other edge.

    - `source`, `destination`, int32 [edges]: source and destination node of each edge.
    - `size`, `start`, float64 [edges]: bytes to send, and time of the start in seconds.
    - `order`, int64 [edges]: edges in the order of their starts.
    - `inverse_bandwidth`: seconds per byte without contention.
    - `completion`, `elapsed`, float64 [edges], written: time of completion on the clock of `start`,
      and time from the edge's start to its completion, for which that clock may be too coarse;
      seconds.
    - `record`: a `StepRecord`, written unless it is empty.

    Returns the number of steps.
    """
    count = len(source)
    offset, edges = by_key(source, nodes)
    sums = empty_sums(nodes)
    active = np.zeros(count, dtype=np.bool_)
    penalty = np.full(count, np.nan)
    remaining = size.copy()
    steps, following, running = 0, 0, 0
    now, beyond = 0.0, 0.0
    while following < count or running > 0:
        if running == 0:
            now, beyond = start[order[following]], 0.0
        while following < count and (start[order[following]] - now) - beyond <= 0.0:
            e = order[following]
            following += 1
            if remaining[e] > 0.0:
                active[e] = True
                running += 1
            else:
                completion[e] = start[e]
                elapsed[e] = 0.0
        if running == 0:
            continue
        active_penalties(source, destination, offset, edges, active, coefficients, sums, penalty)
        shortest = np.inf
        for e in range(count):
            if active[e]:
                shortest = min(shortest, remaining[e] * penalty[e] * inverse_bandwidth)
        if len(record.end) > 0:
            for e in range(count):
                record.penalty[steps, e] = penalty[e] if active[e] else np.nan
        later = start[order[following]] if following < count else np.inf
        passed, now, beyond = end_of_step(now, beyond, shortest, later)
        for e in range(count):
            if active[e]:
                needed = remaining[e] * penalty[e] * inverse_bandwidth
                if needed <= passed * (1.0 + SAME):
                    remaining[e] = 0.0
                    completion[e] = now
                    elapsed[e] = (now - start[e]) + beyond
                    active[e] = False
                    running -= 1
                else:
                    remaining[e] -= passed / (penalty[e] * inverse_bandwidth)
        if len(record.end) > 0:
            record.end[steps] = now
            for e in range(count):
                record.remaining[steps, e] = remaining[e]
        steps += 1
    return steps


@njit(cache=True)
def synchronous_times(offset, source, destination, nodes, coefficients, completion):
    """Write when each edge completes, if all edges of a graph start together with equal sizes.

    `offset`, int64 [graphs + 1]: first edge of each graph. `source`, `destination`, int32 [edges]:
    source and destination node of each edge; each graph numbers nodes from 0. `nodes`, int64
    [graphs]: number of nodes of each graph. `completion`, float64 [edges], written: time of
    completion, in units of the time of one communication alone.
    """
    record = StepRecord(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))
    elapsed = np.zeros(len(source))
    for g in range(len(nodes)):
        first, last = offset[g], offset[g + 1]
        solve_steps(
            source[first:last], destination[first:last], nodes[g],
            np.ones(last - first), np.zeros(last - first), np.arange(last - first), 1.0,
            coefficients, completion[first:last], elapsed[first:last], record,
        )  # fmt: skip
