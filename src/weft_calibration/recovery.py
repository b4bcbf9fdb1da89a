"""Penalties from measured times: the inverse of the step-wise solution.

Section 3.3 of M. Martinasso and J.-F. Mehaut, "A contention-aware performance model for HPC-based
networks" (Euro-Par 2011). Number the communications of a graph by their end times
T_1 <= T_2 <= ..., and let all have m bytes. Step j takes t_j = T_j - T_(j-1), with T_0 = 0; in step
j, communication i sends m_ij = t_j / (alpha rho_ij). In all steps after the first, some
communications have ended, so the penalties are those of a smaller graph, which is measured
separately. Hence

    rho_i1 = T_1 / (alpha m_i1)    with    m_i1 = m - m_i2 - ... - m_ii

and for three communications m_22 = (T_2 - T_1) / (alpha rho_22), m_32 = (T_2 - T_1) / (alpha
rho_32) and m_33 = (T_3 - T_2) / (alpha rho_33). The indices of T printed in the paper contradict
its equation 3.

The edges of a shape fall into *places*: classes of edges that an isomorphism maps to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft_calibration.measurements import Measurement
from weft_calibration.shapes import EdgeShape, Shape, components, edge_shapes, shape

#: Columns of `Recovery.frame`.
PENALTY_COLUMNS: dict[str, Column] = {
    "graph": Column(pl.String, "", "Name of the measured graph"),
    "edge": Column(pl.Int64, "", "Index of the communication in the graph"),
    "source": Column(pl.Int64, "", "Sending node"),
    "destination": Column(pl.Int64, "", "Receiving node"),
    "penalty": Column(
        pl.Float64,
        "",
        "Time per byte while all communications of the graph are active, relative to a single "
        "communication (null in components of more than `max_edges` edges)",
    ),
}


class Case(NamedTuple):
    """One connected shape with measured times."""

    #: Name of the first measured graph with this shape.
    name: str
    #: Source and destination of each edge in that graph.
    edges: list[tuple[int, int]]
    #: Number of each edge's place; edges of the same place have equal times except for noise.
    places: list[int]


@dataclass(frozen=True, eq=False)
class Survey:
    """Measured times by connected shape and place."""

    #: The shapes, by increasing number of edges.
    cases: list[Case]
    #: Number of each place, from 0.
    numbers: dict[EdgeShape, int]
    #: int64 [times]: number of the place, and index of the measured graph, of each time.
    place: NDArray[np.int64]
    graph: NDArray[np.int64]
    #: float64 [times]: the measured times.
    time_s: NDArray[np.float64]
    #: Size of every message.
    size_bytes: int

    def alone_s(self) -> float:
        """Return the mean time of a single communication [s]."""
        if len(self.cases[0].edges) > 1:
            raise InputError(
                "no graph of a single communication was measured, so the bandwidth is unknown; "
                "also measure the graph 0->1"
            )
        return float(self.time_s[self.place == self.cases[0].places[0]].mean())


@dataclass(frozen=True)
class Recovery:
    """Penalties recovered from measured times."""

    measurements: tuple[Measurement, ...]
    #: alpha: mean time of a single communication divided by its size.
    inverse_bandwidth_s_per_byte: float
    #: Penalties of each measurement's edges while all of them are active, float64 [edges] each; NaN
    #: in components of more than `max_edges` edges.
    penalties: tuple[NDArray[np.float64], ...]

    def frame(self) -> pl.DataFrame:
        """Return a table with one row per communication; see `PENALTY_COLUMNS`."""
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
    """Return the penalties of static-synchronous graphs from completion times, by recursion.

    Graphs are split into connected components, which do not contend with each other. Times of
    isomorphic edges, within a graph and across all graphs of one shape, are averaged first.

    Parameters
    ----------
    measurements
        Static-synchronous graphs: their communications start together and have equal sizes. The
        graphs must include a single communication and, for each graph, all smaller graphs that
        remain as its communications end.
    tolerance
        Largest relative difference between end times that count as the end of one step.
    start_tolerance
        Largest difference of starts in one graph, relative to its shortest time.
    max_edges
        Only connected components of at most this many edges are included; by default all.

    Returns
    -------
    Recovery
        The penalties, and alpha.

    Raises
    ------
    InputError
        If a graph is not static-synchronous, a smaller graph is missing, or times contradict the
        times of smaller graphs; the message names the graph.
    """
    observations = survey(measurements, start_tolerance=start_tolerance, max_edges=max_edges)
    known = place_penalties(observations, tolerance)
    return Recovery(
        tuple(measurements),
        observations.alone_s() / observations.size_bytes,
        tuple(
            np.array(
                [
                    known.get(place, np.nan)
                    for place in edge_shapes(graph.sources.tolist(), graph.destinations.tolist())
                ]
            )
            for graph in measurements
        ),
    )


def place_penalties(observations: Survey, tolerance: float) -> dict[EdgeShape, float]:
    """Return the penalty of each place by the recursion of `recover_penalties`."""
    if not 0 <= tolerance < 1:
        raise InputError(f"tolerance must be at least 0 and below 1, not {tolerance}")
    alone = observations.alone_s()
    mean = (
        np.bincount(observations.place, observations.time_s)
        / np.bincount(observations.place)
        / alone
    )
    by_number = {number: place for place, number in observations.numbers.items()}
    known: dict[EdgeShape, float] = {}
    for case in observations.cases:
        penalties = penalties_of_first_step(
            case.edges,
            [float(mean[place]) for place in case.places],
            known,
            tolerance=tolerance,
            name=case.name,
        )
        known.update((by_number[n], rho) for n, rho in zip(case.places, penalties, strict=True))
    return known


def penalties_of_first_step(
    graph: Sequence[tuple[int, int]],
    times: Sequence[float],
    known: Mapping[EdgeShape, float],
    *,
    tolerance: float,
    name: str,
) -> list[float]:
    """Return the penalties of one graph's edges while all of them are active.

    - `graph`: source and destination of each edge.
    - `times`: end time of each edge, relative to the time of a single communication.
    - `known`: penalties of smaller graphs by place.
    - `tolerance`: largest relative difference between end times that count as the end of one step.
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
                f"graph {name!r}: with the penalties of the smaller graphs, "
                f"{as_text([graph[edge]])} of {as_text(graph)} sends {later:.3g} times its size in "
                "the steps after the first; the times contradict each other, perhaps due to noise"
            )
        penalties.append(ends[0][0] / (1 - later))
    return penalties


def _step_ends(times: Sequence[float], tolerance: float) -> list[tuple[float, list[int]]]:
    """Return the end of each step, and the edges that are active after it."""
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

    `measurements`, `start_tolerance`, `max_edges`: as for `recover_penalties`.
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
    for number, graph in enumerate(measurements):
        _refuse_others(graph, measurements[0], start_tolerance)
        sources, destinations = graph.sources.tolist(), graph.destinations.tolist()
        for component in components(sources, destinations):
            if max_edges is not None and len(component) > max_edges:
                continue
            ends = [sources[e] for e in component], [destinations[e] for e in component]
            places = [numbers.setdefault(place, len(numbers)) for place in edge_shapes(*ends)]
            rows += [
                (place, number, float(graph.time_s[edge]))
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
    """Refuse a graph that is not static-synchronous, or has another size than `other`."""
    sizes = graph.size_bytes
    if sizes.min() != sizes.max():
        raise InputError(
            f"graph {graph.name!r} is not static-synchronous: its sizes are {sizes.min()} to "
            f"{sizes.max()} bytes; expected one size for all communications"
        )
    spread = float(graph.start_s.max() - graph.start_s.min())
    if spread > start_tolerance * graph.time_s.min():
        raise InputError(
            f"graph {graph.name!r} is not static-synchronous: its communications started "
            f"{spread:.3g} s apart; expected at most {100 * start_tolerance:g} % of the shortest "
            f"time {graph.time_s.min():.3g} s; measure larger sizes"
        )
    if sizes[0] != other.size_bytes[0]:
        raise InputError(
            f"graph {graph.name!r} has messages of {sizes[0]} bytes and graph {other.name!r} of "
            f"{other.size_bytes[0]}; expected one size: calibrate each separately"
        )


def _missing(
    name: str, graph: Sequence[tuple[int, int]], remaining: Sequence[int], place: EdgeShape
) -> str:
    component = [(source, destination) for source, destination, _ in place]
    return (
        f"graph {name!r}: when other communications of {as_text(graph)} have ended, "
        f"{as_text([graph[edge] for edge in remaining])} remain, but no graph of the shape "
        f"{as_text(component)} was measured; also measure it, or leave out graphs of more than "
        f"{len(component)} edges"
    )


def as_text(edges: Sequence[tuple[int, int]]) -> str:
    """Return edges as text: ``0->1 0->2``."""
    return " ".join(f"{source}->{destination}" for source, destination in edges)
