"""The contention-graph model of M. Martinasso and J.-F. Mehaut (Euro-Par 2011).

A contention graph has a node for every compute node and an edge for every active communication. Its
shape determines a penalty for each edge: the factor by which the communication is slower than
without contention (equation 4). Penalties are constant until an edge completes or starts; the new
graph has other penalties (equations 1 to 3).

The text of equation 4 is ambiguous; this reading reproduces every number that the paper prints:

- Rule (a), first case: no more edges enter d than leave s, and *all* sources that send to d have as
  many outgoing edges as s. Second case: no other source sends to d ("does not suffer contention on
  the receive node"); the paper prints "in-degree 0", which no destination has.
- Rule (b) requires more than that s has out-degree 1: every other edge into d must come from a
  source with more than one outgoing edge, because d has only one "communication with a full
  bandwidth allocation". Of the penalties of the other edges, the rule uses only the part that
  full-rate senders cause: edge f of figure 3 gets 1.5 = 1 + 1 / (3 - 1), while the total penalty of
  edge e would give 1.43. No other reading is consistent: the rate of edge f determines the rates
  left for edges d and e, so the delay of edge e by other slowed sources cannot increase the rate of
  edge f.
- Rule (c) sums over all edges of the source, including those to which rule (a) applies.

`docs/contention-model.md` lists unexpected consequences of the equation as printed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import finite_number, finite_numbers, whole_numbers
from weft.core.errors import InputError
from weft.kernels.flow.contention_events import solve_events
from weft.kernels.flow.contention_steps import (
    Coefficients,
    StepRecord,
    graph_penalties,
    solve_steps,
)
from weft.kernels.flow.penalty import PenaltyState
from weft.sim.flow.contention.coefficients import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.penalty_state import penalty_state

#: Inverse bandwidth of the paper's testbed (section 5), in seconds per byte: 1.82 GiB/s.
PAPER_INVERSE_BANDWIDTH = 5.105e-10

#: Largest product of steps and edges that is recorded: a gigabyte for each of the two tables.
_MOST_RECORDED = 2**27
#: In graphs of more edges than this, only the penalties that an event changes are updated; in
#: smaller graphs a full recalculation is faster.
_FEW_EDGES = 256


@dataclass(frozen=True, eq=False)
class ContentionSteps:
    """Solution of a dynamic contention graph."""

    #: float64 [edges], completion time of each edge in seconds.
    completion_s: NDArray[np.float64]
    #: float64 [edges], seconds from the start of the edge to its completion, at full precision even
    #: if `completion_s` is too coarse for the difference (2e-7 s on a clock from 1970).
    elapsed_s: NDArray[np.float64]
    #: float64 [steps], end of each step, at which an edge completes or starts.
    end_s: NDArray[np.float64]
    #: float64 [steps, edges], NaN where the edge is not active.
    penalty: NDArray[np.float64]
    #: float64 [steps, edges], bytes left to send at the end of each step.
    remaining_bytes: NDArray[np.float64]


def penalties(
    sources: ArrayLike, destinations: ArrayLike, *, model: PenaltyModel = INFINIBAND
) -> NDArray[np.float64]:
    """Return the penalty of each edge: its time divided by its time without contention.

    Equation 4 of Martinasso and Mehaut 2011.

    Parameters
    ----------
    sources, destinations
        Node numbers of each edge, any integers. Parallel edges are allowed.
    model
        Coefficients of the network technology; by default those of InfiniBand.

    Returns
    -------
    ndarray
        float64 [edges], at least 1, in the order of `sources`.

    Raises
    ------
    InputError
        If lengths differ, a node number is not an integer, or an edge is a loop.

    Examples
    --------
    >>> penalties([0, 0, 3, 4], [1, 2, 1, 2]).round(2).tolist()
    [4.0, 4.0, 1.33, 1.33]
    """
    source, destination, nodes = _graph(sources, destinations)
    penalty = np.empty(len(source))
    graph_penalties(source, destination, nodes, _coefficients(model), penalty)
    return penalty


def predict(
    sources: ArrayLike,
    destinations: ArrayLike,
    size_bytes: ArrayLike,
    start_s: ArrayLike = 0.0,
    inverse_bandwidth_s_per_byte: float = PAPER_INVERSE_BANDWIDTH,
    *,
    model: PenaltyModel = INFINIBAND,
) -> NDArray[np.float64]:
    """Return the completion time of each communication of a dynamic contention graph.

    Equations 1 to 3 of Martinasso and Mehaut 2011, generalised to arbitrary start times.

    Parameters
    ----------
    sources, destinations
        Node numbers of each edge, any integers. Parallel edges are allowed.
    size_bytes
        Bytes to send, one number for all edges or one per edge. An edge of size 0 completes at its
        start and delays no other edge.
    start_s
        Start time of each edge in seconds, one number for all edges or one per edge.
    inverse_bandwidth_s_per_byte
        Seconds per byte without contention; by default that of the paper's testbed.
    model
        Coefficients of the network technology; by default those of InfiniBand.

    Returns
    -------
    ndarray
        float64 [edges], completion times in seconds, on the clock of `start_s`. Only the result is
        rounded to the resolution of that clock; `predict_steps` also returns durations at full
        precision.

    Raises
    ------
    InputError
        If lengths differ, a node number is not an integer, an edge is a loop, or a size, start time
        or inverse bandwidth is out of range.

    Examples
    --------
    >>> predict([0, 0], [1, 2], 20 * 2**20).round(6).tolist()
    [0.021412, 0.021412]
    """
    return predict_steps(
        sources, destinations, size_bytes, start_s, inverse_bandwidth_s_per_byte, model=model,
        recorded=False,
    ).completion_s  # fmt: skip


def predict_steps(
    sources: ArrayLike,
    destinations: ArrayLike,
    size_bytes: ArrayLike,
    start_s: ArrayLike = 0.0,
    inverse_bandwidth_s_per_byte: float = PAPER_INVERSE_BANDWIDTH,
    *,
    model: PenaltyModel = INFINIBAND,
    recorded: bool = True,
) -> ContentionSteps:
    """Return the solution of `predict` with durations, and penalties and bytes left of every step.

    There are at most twice as many steps as edges; without `recorded` the result has none of them.
    Raises `InputError` as `predict` does, and if steps to record times edges exceed 2^27.
    """
    source, destination, nodes = _graph(sources, destinations)
    count = len(source)
    size = finite_numbers(size_bytes, "sizes in bytes", each=count)
    if count and size.max() >= 2.0**63:
        edge = int(size.argmax())
        raise InputError(f"edge {edge}: a size of {size[edge]:g} bytes is too large")
    start = finite_numbers(start_s, "starts in seconds", each=count)
    what = "the inverse bandwidth in s per byte"
    inverse = finite_number(inverse_bandwidth_s_per_byte, what, above=True)
    order = np.argsort(start, kind="stable").astype(np.int64)
    completion, elapsed = np.zeros(count), np.zeros(count)
    empty = np.zeros((0, count))
    solution = ContentionSteps(completion, elapsed, np.zeros(0), empty, empty)
    coefficients = _coefficients(model)
    arguments = (
        source, destination, nodes, size, start, order, inverse, coefficients, completion, elapsed
    )  # fmt: skip
    if count > _FEW_EDGES:
        steps = solve_events(
            _switch(count, nodes, model), source, destination, size, start, order, inverse,
            completion, elapsed,
        )  # fmt: skip
    else:
        steps = solve_steps(*arguments, StepRecord(solution.end_s, empty, empty))
    if not (np.isfinite(completion) & np.isfinite(elapsed)).all():
        raise InputError("the times are too large for 64-bit numbers")
    if not recorded or not steps:
        return solution
    if steps * count > _MOST_RECORDED:
        raise InputError(
            f"{steps:,} steps of {count:,} edges are too many to record; use predict() for "
            "completion times"
        )
    # This kernel may split a step of the other kernel because of rounding, so there may be more
    # steps; unused entries take no memory.
    capacity = min(2 * count, steps + count)
    record = StepRecord(np.zeros(capacity), *np.zeros((2, capacity, count)))
    steps = solve_steps(*arguments, record)
    return ContentionSteps(completion, elapsed, *(each[:steps] for each in record))


def _switch(edges: int, nodes: int, model: PenaltyModel) -> PenaltyState:
    """Return the state of the sharing kernel for adapters of rate 1 and no other bottleneck."""
    return penalty_state(
        np.ones(1), np.array([0, 1]), np.zeros(1, dtype=np.int32), np.zeros(0), edges, nodes,
        model=model, inner=np.zeros(1, dtype=np.bool_),
    )  # fmt: skip


def _graph(
    sources: ArrayLike, destinations: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Return the nodes of each edge, numbered from 0, and the number of nodes."""
    source = whole_numbers(sources, "sources")
    destination = whole_numbers(destinations, "destinations", shape=source.shape)
    loops = np.flatnonzero(source == destination)
    if len(loops):
        edge = int(loops[0])
        raise InputError(
            f"edge {edge} is a loop at node {source[edge]}; a contention graph has no "
            "communications inside a node"
        )
    nodes, inverse = np.unique(np.concatenate([source, destination]), return_inverse=True)
    number: NDArray[np.int32] = inverse.astype(np.int32)
    return number[: len(source)], number[len(source) :], len(nodes)


def _coefficients(model: PenaltyModel) -> Coefficients:
    if not isinstance(model, PenaltyModel):
        raise InputError(f"the model must be a PenaltyModel, not {model!r}")
    return model.coefficients()
