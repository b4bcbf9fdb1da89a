"""How far predicted times of contention graphs are from measured ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from weft.contention.coefficients import PenaltyModel
from weft.contention.measurements import Measurement
from weft.contention.model import predict
from weft.core.columns import Column, frame
from weft.core.errors import InputError

#: What the columns of `errors_by_size` hold: the table under figure 5 of the paper.
ERROR_COLUMNS: dict[str, Column] = {
    "edges": Column(pl.Int64, "", "number of communications in the graphs of this row"),
    "graphs": Column(pl.Int64, "", "number of measured graphs"),
    "times": Column(pl.Int64, "", "number of measured times"),
    "mean_error": Column(pl.Float64, "%", "mean of the absolute errors of all times"),
    "max_mean_error": Column(
        pl.Float64, "%", "maximum over the graphs of the mean absolute error of their times"
    ),
    "max_error": Column(pl.Float64, "%", "maximum of the absolute errors of all times"),
    "worst_graph": Column(pl.String, "", "name of the graph with that error"),
}

#: What the columns of `errors_by_edge` hold.
EDGE_ERROR_COLUMNS: dict[str, Column] = {
    "graph": Column(pl.String, "", "name of the measured graph"),
    "edges": Column(pl.Int64, "", "number of its communications"),
    "edge": Column(pl.Int64, "", "number of the communication in it, from 0"),
    "source": Column(pl.Int64, "", "node that sends"),
    "destination": Column(pl.Int64, "", "node that receives"),
    "measured_s": Column(pl.Float64, "s", "measured completion time"),
    "predicted_s": Column(pl.Float64, "s", "predicted completion time"),
    "error": Column(pl.Float64, "%", "predicted less measured time, of the measured one"),
}


def errors_by_edge(
    measurements: Sequence[Measurement],
    model: PenaltyModel,
    inverse_bandwidth_s_per_byte: float,
) -> pl.DataFrame:
    """Measured beside predicted time of every communication; see `EDGE_ERROR_COLUMNS`.

    Parameters
    ----------
    measurements
        Measured graphs. Starts and sizes may differ here.
    model, inverse_bandwidth_s_per_byte
        What to predict with.

    Raises
    ------
    InputError
        When there are no measurements.
    """
    if not measurements:
        raise InputError("there are no measurements")
    counts = [graph.num_edges for graph in measurements]
    measured = np.concatenate([graph.time_s for graph in measurements])
    predicted = np.concatenate(
        [
            predict(
                graph.sources,
                graph.destinations,
                graph.size_bytes,
                0.0,
                inverse_bandwidth_s_per_byte,
                model=model,
            )
            for graph in measurements
        ]
    )
    return frame(
        EDGE_ERROR_COLUMNS,
        {
            "graph": [graph.name for graph in measurements for _ in graph.sources],
            "edges": np.repeat(counts, counts),
            "edge": np.concatenate([np.arange(count) for count in counts]),
            "source": np.concatenate([graph.sources for graph in measurements]),
            "destination": np.concatenate([graph.destinations for graph in measurements]),
            "measured_s": measured,
            "predicted_s": predicted,
            "error": 100 * (predicted - measured) / measured,
        },
    )


def errors_by_size(
    measurements: Sequence[Measurement],
    model: PenaltyModel,
    inverse_bandwidth_s_per_byte: float,
) -> pl.DataFrame:
    """Errors of predicted times per number of edges, as in figure 5; see `ERROR_COLUMNS`.

    Parameters
    ----------
    measurements
        Measured graphs, at least one.
    model, inverse_bandwidth_s_per_byte
        What to predict with.

    Raises
    ------
    InputError
        When there are no measurements.
    """
    edges = errors_by_edge(measurements, model, inverse_bandwidth_s_per_byte)
    size = edges["edges"].to_numpy()
    error = np.abs(edges["error"].to_numpy())
    graph = np.repeat(np.arange(len(measurements)), [m.num_edges for m in measurements])
    mean = np.bincount(graph, error) / np.bincount(graph)
    rows: dict[str, list[object]] = {name: [] for name in ERROR_COLUMNS}
    for count in np.unique(size).tolist():
        here = size == count
        graphs = np.unique(graph[here])
        worst = int(np.argmax(np.where(here, error, -1.0)))
        for name, value in (
            ("edges", count),
            ("graphs", len(graphs)),
            ("times", int(here.sum())),
            ("mean_error", float(error[here].mean())),
            ("max_mean_error", float(mean[graphs].max())),
            ("max_error", float(error[worst])),
            ("worst_graph", measurements[int(graph[worst])].name),
        ):
            rows[name].append(value)
    return frame(ERROR_COLUMNS, rows)
