"""Studies of `weft predict`: completion times of the edges of contention graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import AfterValidator, Field

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.registry import wrong_name
from weft.core.settings import Number, Option
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.coefficients import read_coefficients
from weft.sim.flow.contention.graph_file import parse_bandwidth, read_contention_graph
from weft.sim.flow.contention.model import PAPER_INVERSE_BANDWIDTH, predict_steps
from weft.study.checks import Files, check_distinct, check_file, check_with
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.spec import Names, Part
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult

_COLUMNS = {
    "last_completion_s": Column(pl.Float64, "s", "Time at which the last edge completes"),
    "mean_elapsed_s": Column(pl.Float64, "s", "Mean time of the edges from start to completion"),
    "mean_slowdown": Column(
        pl.Float64, "", "Mean of the time of an edge over its time without contention"
    ),
    "max_slowdown": Column(pl.Float64, "", "Largest slowdown of an edge"),
    "edges": Column(pl.Int64, "", "Number of edges"),
}
MEASURES = measures(_COLUMNS, lower=[name for name in _COLUMNS if name != "edges"])
EDGE_COLUMNS = {
    "name": Column(pl.String, "", "Name of the edge"),
    "source": Column(pl.String, "", "Node that sends"),
    "destination": Column(pl.String, "", "Node that receives"),
    "size_bytes": Column(pl.Int64, "B", "Size of the message"),
    "start_s": Column(pl.Float64, "s", "Start of the message"),
    "completion_s": Column(pl.Float64, "s", "Completion of the message"),
    "elapsed_s": Column(pl.Float64, "s", "Time from start to completion"),
}
_COEFFICIENTS = [each.name for each in fields(PenaltyModel)]


def _known(given: dict[str, float]) -> dict[str, float]:
    for name in given:
        if name not in _COEFFICIENTS:
            raise ValueError(wrong_name("unknown coefficient", name, _COEFFICIENTS))
    return given


def _bandwidth(text: str) -> str:
    try:
        parse_bandwidth(text)
    except InputError as error:
        raise ValueError(error.message) from None
    return text


class PredictKeys(Part):
    """Contention graphs, each of which is a run.

    Parameters
    ----------
    graph
        Files of contention graphs, with lines such as ``a: 0 -> 1  20MiB``.
    bandwidth
        Bandwidth of a communication without contention, such as ``1.82GiB/s``, ``100Gb/s`` or
        ``4xHDR``.
    coefficients
        File of coefficients and bandwidth, written by ``weft calibrate``.
    coefficient
        Coefficients in place of the file's or InfiniBand's.
    """

    graph: Names
    bandwidth: Annotated[
        Annotated[str, AfterValidator(_bandwidth)] | None,
        Option(usual="that of the coefficients, of the graph, or of the paper's cluster"),
    ] = None
    coefficients: Annotated[str | None, Option(usual="InfiniBand's")] = None
    coefficient: Annotated[dict[str, Number], AfterValidator(_known)] = Field(default_factory=dict)


def points(keys: PredictKeys, files: Files) -> list[Point]:
    """Return a run for each graph."""
    check_distinct(keys.graph, "graph")
    for number, name in enumerate(keys.graph):
        check_file(files, name, "graph", number)
        check_with(("graph", number), read_contention_graph, files.find(name))
    if keys.coefficients is not None:
        check_file(files, keys.coefficients, "coefficients")
        check_with(("coefficients",), read_coefficients, files.find(keys.coefficients))
    common = keys.model_dump(mode="json", exclude_none=True)
    return [Point({"graph": name}, {**common, "graph": name}) for name in keys.graph]


@study_command(
    "predict",
    keys=PredictKeys,
    points=points,
    measures=MEASURES,
    tables={"edges": EDGE_COLUMNS},
    files=("graph", "coefficients"),
    example={"graph": "graph.txt"},
)
def predict(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Predict the completion times of the edges of a contention graph, as `weft predict` does."""
    keys, wanted = keys_and_tables(PredictKeys, parameters)
    network = None if keys.coefficients is None else read_coefficients(keys.coefficients)
    model = replace(INFINIBAND if network is None else network.model, **keys.coefficient)
    graph = read_contention_graph(keys.graph[0])
    own = None if keys.bandwidth is None else 1 / parse_bandwidth(keys.bandwidth)
    measured = None if network is None else network.inverse_bandwidth_s_per_byte
    known = (own, measured, graph.inverse_bandwidth_s_per_byte, PAPER_INVERSE_BANDWIDTH)
    inverse = next(each for each in known if each is not None)
    result = predict_steps(
        *graph.nodes(), graph.size_bytes, graph.start_s, inverse, model=model, recorded=False
    )
    completion, elapsed = result.completion_s, result.elapsed_s
    alone = np.asarray(graph.size_bytes) * inverse
    slowdown = elapsed[alone > 0] / alone[alone > 0]
    row = {
        "last_completion_s": completion.max(),
        "mean_elapsed_s": elapsed.mean(),
        "mean_slowdown": slowdown.mean() if len(slowdown) else None,
        "max_slowdown": slowdown.max() if len(slowdown) else None,
        "edges": len(graph.names),
    }
    tables = {}
    if "edges" in wanted:
        columns = (
            graph.names, graph.sources, graph.destinations, graph.size_bytes, graph.start_s,
            completion, elapsed,
        )  # fmt: skip
        tables["edges"] = frame(EDGE_COLUMNS, dict(zip(EDGE_COLUMNS, columns, strict=True)))
    return RunResult(values(MEASURES, row), tables)
