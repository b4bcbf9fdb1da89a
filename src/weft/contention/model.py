"""The contention-graph model of M. Martinasso and J.-F. Mehaut (Euro-Par 2011).

A contention graph has a node for every compute node and an edge for every communication that is
under way. Its shape alone gives each edge a penalty, by which the edge is slower than it would be
alone (equation 4); it holds until an edge completes or starts, and then the next graph's penalties
do (equations 1 to 3).

Where the text of equation 4 can be read in several ways, this one gives every number that the
paper prints:

- Rule (a), first case: no more edges enter d than leave s, and *all* sources that send to d have as
  many outgoing edges as s. Second case, printed as in-degree 0, which no destination has: no
  other source sends to d ("does not suffer contention on the receive node").
- Rule (b) needs more than out-degree 1: every other edge into d comes from a source with more
  than one outgoing edge, as "a communication with a full bandwidth allocation" is the only one at
  d. And of the others' penalties it counts what full-rate senders cause: figure 3's f gets 1.5
  = 1 + 1 / (3 - 1), while the whole penalty of e would give 1.43. Seen from the receiver this is
  the only consistent way: f's rate decides what d and e have left, so what other slowed sources
  do to e cannot give f more before it was asked.
- Rule (c) sums over all edges of the source, including those for which rule (a) holds.

`docs/contention-model.md` lists what follows from the equation as printed and looks odd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.contention.coefficients import INFINIBAND, PenaltyModel
from weft.contention.penalty_state import penalty_state
from weft.core.arguments import finite_number, finite_numbers, whole_numbers
from weft.core.errors import InputError
from weft.kernels.flow.contention_events import solve_events
from weft.kernels.flow.contention_steps import Coefficients, graph_penalties, solve_steps
from weft.kernels.flow.penalty import State

#: Of the paper's testbed (section 5), in seconds per byte: 1.82 GiB/s.
PAPER_INVERSE_BANDWIDTH = 5.105e-10

#: Steps times edges that are recorded at most: a gigabyte for each of the two tables.
_MOST_RECORDED = 2**27
#: Graphs of more edges are solved by what each event reaches; up to here all is reckoned faster.
_FEW_EDGES = 256


@dataclass(frozen=True, eq=False)
class ContentionSteps:
    """A dynamic contention graph, solved.

    Parameters
    ----------
    completion_s
        float64 [edges]: when each edge has sent everything, in seconds.
    elapsed_s
        float64 [edges]: seconds from the edge's start until then, to all digits, also where the
        clock of `completion_s` is too coarse for the difference (2e-7 s on a clock from 1970).
    end_s
        float64 [steps]: when each step ends, because an edge completes or another starts.
    penalty
        float64 [steps, edges]: NaN where the edge is not there.
    remaining_bytes
        float64 [steps, edges]: what is left to send at the end of each step.
    """

    completion_s: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    penalty: NDArray[np.float64]
    remaining_bytes: NDArray[np.float64]


def penalties(
    sources: ArrayLike, destinations: ArrayLike, *, model: PenaltyModel = INFINIBAND
) -> NDArray[np.float64]:
    """Penalty of each edge of a contention graph: how many times longer it takes than alone.

    Equation 4 of Martinasso and Mehaut 2011.

    Parameters
    ----------
    sources, destinations
        Node numbers, one of each per edge; any whole numbers. Parallel edges may occur.
    model
        Coefficients of the network technology; InfiniBand's when left out.

    Returns
    -------
    ndarray
        float64 [edges], at least 1, in the order given.

    Raises
    ------
    InputError
        When lengths differ, a number is not whole, or an edge leads from a node to itself.

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
    """When each communication of a dynamic contention graph completes.

    Equations 1 to 3 of Martinasso and Mehaut 2011, generalised to edges that start when they
    like.

    Parameters
    ----------
    sources, destinations
        Node numbers, one of each per edge; any whole numbers. Parallel edges may occur.
    size_bytes
        Bytes to send, one number for all edges or one each. An edge of size 0 completes as it
        starts and delays nobody.
    start_s
        When each edge starts, in seconds, one number for all edges or one each.
    inverse_bandwidth_s_per_byte
        Seconds that a byte takes without contention; the paper's testbed's when left out.
    model
        Coefficients of the network technology; InfiniBand's when left out.

    Returns
    -------
    ndarray
        float64 [edges]: completion times in seconds, on the clock of `start_s`. Steps are added up
        without loss, so only the result is rounded to that clock; `predict_elapsed` gives what
        does not depend on it.

    Raises
    ------
    InputError
        When lengths differ, a node number is not whole, an edge leads from a node to itself, or a
        size, start or bandwidth is negative, not finite or too large.

    Examples
    --------
    >>> predict([0, 0], [1, 2], 20 * 2**20).round(6).tolist()
    [0.021412, 0.021412]
    """
    return _solve(
        sources, destinations, size_bytes, start_s, inverse_bandwidth_s_per_byte, model, False
    ).completion_s


def predict_elapsed(
    sources: ArrayLike,
    destinations: ArrayLike,
    size_bytes: ArrayLike,
    start_s: ArrayLike = 0.0,
    inverse_bandwidth_s_per_byte: float = PAPER_INVERSE_BANDWIDTH,
    *,
    model: PenaltyModel = INFINIBAND,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """As `predict`, and how long each communication takes from its own start.

    Returns
    -------
    completion_s, elapsed_s
        float64 [edges] each, as in `ContentionSteps`.

    Raises
    ------
    InputError
        As for `predict`.
    """
    found = _solve(
        sources, destinations, size_bytes, start_s, inverse_bandwidth_s_per_byte, model, False
    )
    return found.completion_s, found.elapsed_s


def predict_steps(
    sources: ArrayLike,
    destinations: ArrayLike,
    size_bytes: ArrayLike,
    start_s: ArrayLike = 0.0,
    inverse_bandwidth_s_per_byte: float = PAPER_INVERSE_BANDWIDTH,
    *,
    model: PenaltyModel = INFINIBAND,
) -> ContentionSteps:
    """As `predict`, with the penalties and what is left to send of every step.

    There are at most twice as many steps as edges. Raises `InputError` as `predict` does, and when
    steps times edges exceed 2^27.
    """
    return _solve(
        sources, destinations, size_bytes, start_s, inverse_bandwidth_s_per_byte, model, True
    )


def _solve(
    sources: ArrayLike,
    destinations: ArrayLike,
    size_bytes: ArrayLike,
    start_s: ArrayLike,
    inverse_bandwidth: float,
    model: PenaltyModel,
    recorded: bool,
) -> ContentionSteps:
    source, destination, nodes = _graph(sources, destinations)
    count = len(source)
    size = finite_numbers(size_bytes, "sizes in bytes", each=count)
    if count and size.max() >= 2.0**63:
        edge = int(size.argmax())
        raise InputError(f"edge {edge}: a size of {size[edge]:g} bytes is too large")
    start = finite_numbers(start_s, "starts in seconds", each=count)
    inverse = finite_number(inverse_bandwidth, "the inverse bandwidth in s per byte", above=True)
    order = np.argsort(start, kind="stable").astype(np.int64)
    completion, elapsed = np.zeros(count), np.zeros(count)
    empty = np.zeros((0, count))
    found = ContentionSteps(completion, elapsed, np.zeros(0), empty, empty)
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
        steps = solve_steps(*arguments, found.end_s, empty, empty)
    if not (np.isfinite(completion) & np.isfinite(elapsed)).all():
        raise InputError("the times are too large for numbers of 64 bits")
    if not recorded or not steps:
        return found
    if steps * count > _MOST_RECORDED:
        raise InputError(
            f"{steps:,} steps of {count:,} edges are too many to record; predict() gives their "
            "times alone"
        )
    # Rounding may part ends that are the same in the other kernel; unused room takes no memory.
    room = min(2 * count, steps + count)
    end, penalty, remaining = np.zeros(room), np.zeros((room, count)), np.zeros((room, count))
    steps = solve_steps(*arguments, end, penalty, remaining)
    return ContentionSteps(completion, elapsed, end[:steps], penalty[:steps], remaining[:steps])


def _switch(edges: int, nodes: int, model: PenaltyModel) -> State:
    """State of the sharing kernel for adapters of rate 1 that nothing but them slows down."""
    return penalty_state(
        np.ones(1), np.array([0, 1]), np.zeros(1, dtype=np.int32), np.zeros(0), edges, nodes,
        model=model, inner=np.zeros(1, dtype=np.bool_),
    )  # fmt: skip


def _graph(
    sources: ArrayLike, destinations: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Source and destination of each edge among nodes numbered from 0, and how many there are."""
    source = whole_numbers(sources, "sources")
    destination = whole_numbers(destinations, "destinations", shape=source.shape)
    loops = np.flatnonzero(source == destination)
    if len(loops):
        edge = int(loops[0])
        raise InputError(
            f"edge {edge} leads from node {source[edge]} to itself; communications inside a node "
            "have no place in a contention graph"
        )
    names, inverse = np.unique(np.concatenate([source, destination]), return_inverse=True)
    number: NDArray[np.int32] = inverse.astype(np.int32)
    return number[: len(source)], number[len(source) :], len(names)


def _coefficients(model: PenaltyModel) -> Coefficients:
    if not isinstance(model, PenaltyModel):
        raise InputError(f"the model must be a PenaltyModel, not {model!r}")
    return model.coefficients()
