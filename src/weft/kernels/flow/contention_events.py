"""Completion times of large contention graphs: an event updates only the penalties it affects."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.flow.contention_steps import SAME, end_of_step
from weft.kernels.flow.penalty import penalty_add, penalty_remove, penalty_solve


@njit(cache=True)
def solve_events(
    state, source, destination, size, start, order, inverse_bandwidth, completion, elapsed
):
    """Solve a dynamic contention graph as `weft.kernels.flow.contention_steps.solve_steps` does.

    `state`: a `weft.kernels.flow.penalty.PenaltyState` without flows, for adapters of rate 1. It
    has one route, which all edges use, and one slot per edge. The other arguments, and the result,
    are those of `solve_steps`.
    """
    # Active edges are stored contiguously in separate arrays, because each step visits all of them.
    count = len(source)
    rate = np.zeros(count)
    changed = np.zeros(count, dtype=np.int32)
    edge = np.zeros(count, dtype=np.int32)
    position = np.zeros(count, dtype=np.int32)
    left = np.zeros(count)  # seconds left without contention
    speed = np.zeros(count)
    steps, following, running = 0, 0, 0
    now, beyond = 0.0, 0.0
    while following < count or running > 0:
        if running == 0:
            now, beyond = start[order[following]], 0.0
        while following < count and (start[order[following]] - now) - beyond <= 0.0:
            e = order[following]
            following += 1
            if size[e] > 0.0:
                edge[running], position[e] = e, running
                left[running] = size[e] * inverse_bandwidth
                running += 1
                penalty_add(state, e, 0, source[e], destination[e])
            else:
                completion[e] = start[e]
                elapsed[e] = 0.0
        if running == 0:
            continue
        for i in range(penalty_solve(state, rate, changed)):
            speed[position[changed[i]]] = rate[changed[i]]
        shortest = np.inf
        for at in range(running):
            shortest = min(shortest, left[at] / speed[at])
        later = start[order[following]] if following < count else np.inf
        passed, now, beyond = end_of_step(now, beyond, shortest, later)
        at = 0
        while at < running:
            if left[at] > passed * (1.0 + SAME) * speed[at]:
                left[at] -= passed * speed[at]
                at += 1
                continue
            e = edge[at]
            completion[e] = now
            elapsed[e] = (now - start[e]) + beyond
            penalty_remove(state, e, source[e], destination[e])
            running -= 1
            if at < running:
                edge[at], left[at], speed[at] = edge[running], left[running], speed[running]
                position[edge[at]] = at
        steps += 1
    return steps
