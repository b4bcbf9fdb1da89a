"""Penalties from measured times: the reverse of the step-wise solution.

Section 3.3 of M. Martinasso and J.-F. Mehaut, "A contention-aware performance model for HPC-based
networks" (Euro-Par 2011). Number the communications of a graph by the times T_1 <= T_2 <= ... at
which they end, and let all have m bytes. Step j lasts t_j = T_j - T_(j-1), with T_0 = 0, and in it
communication i sends m_ij = t_j / (alpha rho_ij). In all steps but the first some communications
have ended, so the penalties there are those of a smaller graph, measured on its own. Hence

    rho_i1 = T_1 / (alpha m_i1)    with    m_i1 = m - m_i2 - ... - m_ii

and for three communications m_22 = (T_2 - T_1) / (alpha rho_22), m_32 = (T_2 - T_1) / (alpha
rho_32) and m_33 = (T_3 - T_2) / (alpha rho_33). The paper prints other indices of T, by which its
own equation 3 would not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.contention.measurements import Measurement
from weft.contention.shapes import EdgeShape, Shape, components, edge_shapes, shape
from weft.core.columns import Column, frame
from weft.core.errors import InputError

#: What the columns of `Recovery.frame` hold.
PENALTY_COLUMNS: dict[str, Column] = {
    "graph": Column(pl.String, "", "name of the measured graph"),
    "edge": Column(pl.Int64, "", "number of the communication in its graph, from 0"),
    "source": Column(pl.Int64, "", "node that sends"),
    "destination": Column(pl.Int64, "", "node that receives"),
    "penalty": Column(
        pl.Float64,
        "",
        "time per byte while all communications of the graph run, over that of one alone; null "
        "where the graph has more edges than were asked for",
    ),
}


class Case(NamedTuple):
    """One connected shape of which times were measured.

    Attributes
    ----------
    name
        The first measured graph that has it.
    edges
        Source and destination of each edge, as that graph numbers its nodes.
    places
        Number of each edge's place; edges of one place have the same times but for noise.
    """

    name: str
    edges: list[tuple[int, int]]
    places: list[int]


@dataclass(frozen=True, eq=False)
class Survey:
    """What was measured, by connected shape and by place in it.

    Attributes
    ----------
    cases
        The shapes, those with fewer edges first.
    numbers
        Number of each place.
    place, graph
        Place and number of the measured graph of each time, int64 [times].
    time_s
        The times, float64 [times].
    size_bytes
        Size of all messages.
    """

    cases: list[Case]
    numbers: dict[EdgeShape, int]
    place: NDArray[np.int64]
    graph: NDArray[np.int64]
    time_s: NDArray[np.float64]
    size_bytes: int

    def alone_s(self) -> float:
        """Mean time of one communication alone [s].

        Raises
        ------
        InputError
            When none was measured.
        """
        if len(self.cases[0].edges) > 1:
            raise InputError(
                "no graph of one communication alone was measured, so the bandwidth is unknown; "
                "measure the graph 0->1 too"
            )
        return float(self.time_s[self.place == self.cases[0].places[0]].mean())


@dataclass(frozen=True)
class Recovery:
    """Penalties that measured times imply.

    Attributes
    ----------
    measurements
        What was measured.
    inverse_bandwidth_s_per_byte
        alpha: time over size of one communication alone, mean over all that were measured.
    penalties
        Penalties of each measurement's edges while all of them run, float64 [edges] each; NaN in
        components with more edges than `max_edges`.
    """

    measurements: tuple[Measurement, ...]
    inverse_bandwidth_s_per_byte: float
    penalties: tuple[NDArray[np.float64], ...]

    def frame(self) -> pl.DataFrame:
        """One row per communication; see `PENALTY_COLUMNS`."""
        return frame(
            PENALTY_COLUMNS,
            {
                "graph": [graph.name for graph in self.measurements for _ in graph.sources],
                "edge": [edge for graph in self.measurements for edge in range(graph.num_edges)],
                "source": np.concatenate([graph.sources for graph in self.measurements]),
                "destination": np.concatenate([graph.destinations for graph in self.measurements]),
                "penalty": np.concatenate(self.penalties),
            },
        )


def recover_penalties(
    measurements: Sequence[Measurement],
    *,
    tolerance: float = 0.01,
    start_tolerance: float = 0.05,
    max_edges: int | None = None,
) -> Recovery:
    """Penalties of static-synchronous graphs from their completion times, by recursion.

    Graphs are taken apart into connected components, which do not contend. Times of edges that an
    isomorphism exchanges, and of all graphs of one shape, are averaged first.

    Parameters
    ----------
    measurements
        Graphs whose communications started together with equal sizes. With a graph must come all
        smaller ones that remain as its communications end, and one of one communication.
    tolerance
        Times this close, relative to the shorter one, end one step together.
    start_tolerance
        Largest difference of starts in one graph, relative to its shortest time.
    max_edges
        Leave out components of more edges than this.

    Returns
    -------
    Recovery
        The penalties, and alpha.

    Raises
    ------
    InputError
        Naming the graph, when it is not static-synchronous, a smaller graph is missing, or its
        times contradict those of the smaller ones.
    """
    seen = survey(measurements, start_tolerance=start_tolerance, max_edges=max_edges)
    found = place_penalties(seen, tolerance)
    return Recovery(
        tuple(measurements),
        seen.alone_s() / seen.size_bytes,
        tuple(
            np.array(
                [
                    found.get(place, np.nan)
                    for place in edge_shapes(graph.sources.tolist(), graph.destinations.tolist())
                ]
            )
            for graph in measurements
        ),
    )


def place_penalties(seen: Survey, tolerance: float) -> dict[EdgeShape, float]:
    """Penalty of each place by the recursion; see `recover_penalties`."""
    if not 0 <= tolerance < 1:
        raise InputError(f"tolerance must be at least 0 and below 1, not {tolerance}")
    alone = seen.alone_s()
    mean = np.bincount(seen.place, seen.time_s) / np.bincount(seen.place) / alone
    by_number = {number: place for place, number in seen.numbers.items()}
    found: dict[EdgeShape, float] = {}
    for case in seen.cases:
        penalties = penalties_of_first_step(
            case.edges,
            [float(mean[place]) for place in case.places],
            found,
            tolerance=tolerance,
            name=case.name,
        )
        found.update((by_number[n], rho) for n, rho in zip(case.places, penalties, strict=True))
    return found


def penalties_of_first_step(
    graph: Sequence[tuple[int, int]],
    times: Sequence[float],
    known: Mapping[EdgeShape, float],
    *,
    tolerance: float,
    name: str,
) -> list[float]:
    """Penalties of one graph's edges while all of them run.

    Parameters
    ----------
    graph
        Source and destination of each edge.
    times
        When each edge ends, in units of the time of one communication alone.
    known
        Penalties of smaller graphs by the place of an edge in them.
    tolerance
        Times this close, relative to the shorter one, end one step together.
    name
        What messages call the graph.

    Raises
    ------
    InputError
        When a smaller graph is missing, or the later steps leave nothing to send in the first.
    """
    ends = _step_ends(times, tolerance)
    sent_later = [0.0] * len(graph)
    previous, remaining = ends[0]
    for end, after in ends[1:]:
        places = edge_shapes([graph[e][0] for e in remaining], [graph[e][1] for e in remaining])
        for edge, place in zip(remaining, places, strict=True):
            if place not in known:
                raise InputError(_missing(name, graph, remaining, place))
            sent_later[edge] += (end - previous) / known[place]
        previous, remaining = end, after
    penalties = []
    for edge, later in enumerate(sent_later):
        if later >= 1:
            raise InputError(
                f"graph {name!r}: by the penalties of the smaller graphs {as_text([graph[edge]])} "
                f"of {as_text(graph)} sends {later:.3g} times its size in the steps after the "
                "first; the times contradict each other, perhaps by noise"
            )
        penalties.append(ends[0][0] / (1 - later))
    return penalties


def _step_ends(times: Sequence[float], tolerance: float) -> list[tuple[float, list[int]]]:
    """End of each step, and the edges that are still running after it."""
    order = sorted(range(len(times)), key=lambda edge: times[edge])
    ends: list[tuple[float, list[int]]] = []
    first = 0
    while first < len(order):
        last = first
        while last < len(order) and times[order[last]] <= times[order[first]] * (1 + tolerance):
            last += 1
        mean = sum(times[edge] for edge in order[first:last]) / (last - first)
        ends.append((mean, sorted(order[last:])))
        first = last
    return ends


def survey(
    measurements: Sequence[Measurement],
    *,
    start_tolerance: float,
    max_edges: int | None = None,
) -> Survey:
    """Sort measured times by connected shape and place.

    Parameters
    ----------
    measurements, start_tolerance, max_edges
        As for `recover_penalties`.

    Raises
    ------
    InputError
        When there are no measurements, or one is not static-synchronous or has another size.
    """
    if not measurements:
        raise InputError("there are no measurements")
    if not 0 <= start_tolerance < 1:
        raise InputError(f"start_tolerance must be at least 0 and below 1, not {start_tolerance}")
    if max_edges is not None and max_edges < 1:
        raise InputError(f"max_edges must be at least 1, not {max_edges}")
    numbers: dict[EdgeShape, int] = {}
    cases: dict[Shape, Case] = {}
    rows: list[tuple[int, int, float]] = []
    for at, graph in enumerate(measurements):
        _refuse_others(graph, measurements[0], start_tolerance)
        sources, destinations = graph.sources.tolist(), graph.destinations.tolist()
        for component in components(sources, destinations):
            if max_edges is not None and len(component) > max_edges:
                continue
            ends = [sources[e] for e in component], [destinations[e] for e in component]
            places = [numbers.setdefault(place, len(numbers)) for place in edge_shapes(*ends)]
            rows += [
                (place, at, float(graph.time_s[edge]))
                for place, edge in zip(places, component, strict=True)
            ]
            form = shape(*ends)
            if form not in cases:
                cases[form] = Case(graph.name, list(zip(*ends, strict=True)), places)
    if not cases:
        raise InputError(f"no measured graph has {max_edges} edges or fewer")
    return Survey(
        [cases[form] for form in sorted(cases, key=lambda form: (len(form), form))],
        numbers,
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows]),
        int(measurements[0].size_bytes[0]),
    )


def _refuse_others(graph: Measurement, other: Measurement, start_tolerance: float) -> None:
    """Raise where a graph is not static-synchronous, or its size is not that of the others."""
    sizes = graph.size_bytes
    if sizes.min() != sizes.max():
        raise InputError(
            f"graph {graph.name!r} is not static-synchronous: its sizes are {sizes.min()} to "
            f"{sizes.max()} bytes, expected the same for all communications"
        )
    apart = float(graph.start_s.max() - graph.start_s.min())
    if apart > start_tolerance * graph.time_s.min():
        raise InputError(
            f"graph {graph.name!r} is not static-synchronous: its communications started "
            f"{apart:.3g} s apart where the shortest took {graph.time_s.min():.3g} s, expected at "
            f"most {100 * start_tolerance:g} % of that; measure larger sizes"
        )
    if sizes[0] != other.size_bytes[0]:
        raise InputError(
            f"graph {graph.name!r} has messages of {sizes[0]} bytes and graph {other.name!r} of "
            f"{other.size_bytes[0]}; expected one size, calibrate each on its own"
        )


def _missing(
    name: str, graph: Sequence[tuple[int, int]], remaining: Sequence[int], place: EdgeShape
) -> str:
    component = [(source, destination) for source, destination, _ in place]
    return (
        f"graph {name!r}: when others of {as_text(graph)} have ended, "
        f"{as_text([graph[edge] for edge in remaining])} remain, and no graph of the shape "
        f"{as_text(component)} was measured; measure it too, or leave out graphs of more than "
        f"{len(component)} edges"
    )


def as_text(edges: Sequence[tuple[int, int]]) -> str:
    """Edges as messages write them: ``0->1 0->2``."""
    return " ".join(f"{source}->{destination}" for source, destination in edges)
