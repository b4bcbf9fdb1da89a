"""`weft predict`: completion times of the communications of a contention graph."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from weft.cli.common import announced_compile, console
from weft.cli.option_types import FLOW, OUTPUT, File, Pair, Rate
from weft.cli.output import emit
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.coefficients import read_coefficients
from weft.sim.flow.contention.graph_file import (
    ContentionGraph,
    parse_bandwidth,
    read_contention_graph,
)
from weft.sim.flow.contention.model import (
    PAPER_INVERSE_BANDWIDTH,
    ContentionSteps,
    predict_steps,
)

#: Largest number of edges for which the table has a column of penalties.
MOST_PENALTIES = 1000
#: Names of the values that ``--json`` prints for an edge.
_EDGE = (
    "name", "source", "destination", "size_bytes", "start_s", "completion_s", "elapsed_s",
)  # fmt: skip


def predict_command(
    file: Annotated[
        Path,
        Parameter(help="Contention graph with lines such as 'a: 0 -> 1  20MiB', one per edge."),
    ],
    /,
    *,
    bandwidth: Annotated[
        Rate | None,
        FLOW(
            help="Bandwidth of a communication without contention, such as 1.82GiB/s, 100Gb/s or "
            "4xHDR."
        ),
    ] = None,
    inverse_bandwidth: Annotated[
        float | None,
        FLOW(help="The same bandwidth as seconds per byte, such as 5.105e-10."),
    ] = None,
    steps: Annotated[
        bool, OUTPUT(help="Show every step: penalties, remaining bytes and end time.")
    ] = False,
    coefficients: Annotated[
        File | None,
        FLOW(help="File of coefficients and bandwidth, written by 'weft calibrate'."),
    ] = None,
    coefficient: Annotated[
        tuple[Pair, ...],
        FLOW(
            help="Value of a coefficient, NAME=VALUE, in place of the file's or InfiniBand's "
            "value. Repeatable."
        ),
    ] = (),
) -> int:
    """Predict the completion times of communications that contend for adapters.

    The model is by Martinasso and Mehaut, with coefficients from a file or else for InfiniBand. The
    bandwidth is taken from the options, else from the file of coefficients, else from the graph,
    else from the paper's cluster (5.105e-10 seconds per byte).

    Example: `weft predict examples/contention_graph.txt --bandwidth 4xHDR`
    """
    if bandwidth is not None and inverse_bandwidth is not None:
        raise InputError("expected --bandwidth or --inverse-bandwidth, not both")
    network = None if coefficients is None else read_coefficients(coefficients)
    model = _model(coefficient, INFINIBAND if network is None else network.model)
    graph = read_contention_graph(file)
    inverse = inverse_bandwidth
    if bandwidth is not None:
        inverse = 1 / parse_bandwidth(bandwidth)
    if inverse is None and network is not None:
        inverse = network.inverse_bandwidth_s_per_byte
    if inverse is None:
        inverse = graph.inverse_bandwidth_s_per_byte
    if inverse is None:
        inverse = PAPER_INVERSE_BANDWIDTH
    with announced_compile():
        recorded = steps or len(graph.names) <= MOST_PENALTIES
        result = predict_steps(
            *graph.nodes(), graph.size_bytes, graph.start_s, inverse, model=model, recorded=recorded
        )
    completion, elapsed = result.completion_s, result.elapsed_s
    digits = _digits(completion, elapsed)
    out = console()
    if steps:
        out.print(_steps_table(graph, result, digits))
    else:
        out.print(_table(graph, result, inverse, digits, penalties=recorded))
    emit(
        edges=lambda: [
            dict(zip(_EDGE, row, strict=True))
            for row in zip(
                graph.names, graph.sources, graph.destinations, graph.size_bytes, graph.start_s,
                completion, elapsed, strict=True,
            )
        ],
        inverse_bandwidth_s_per_byte=inverse,
    )  # fmt: skip
    counts = _count(len(graph.names), "edge")
    if recorded:
        counts += f", {_count(len(result.end_s), 'step')}"
    out.print(
        f"{counts}, {inverse:g} s/byte ({1 / inverse / 1e9:.4g} GB/s); last completion at "
        f"{completion.max():.{digits}g} s.",
        soft_wrap=True,
    )
    return 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _digits(completion: NDArray[np.float64], elapsed: NDArray[np.float64]) -> int:
    """Return the number of digits of times that shows the shortest duration to four digits."""
    shortest = elapsed[elapsed > 0]
    if not len(shortest):
        return 6
    return int(np.clip(4 + np.ceil(np.log10(completion.max() / shortest.min())), 6, 17))


def _model(words: tuple[str, ...], base: PenaltyModel) -> PenaltyModel:
    names = [field.name for field in fields(PenaltyModel)]
    given: dict[str, float] = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in names:
            raise InputError(
                f"--coefficient {word}: expected NAME=VALUE with one of {', '.join(names)}"
                f"{did_you_mean(name, names)}"
            )
        if name in given:
            raise InputError(f"--coefficient {name} is given twice")
        try:
            given[name] = float(value)
        except ValueError:
            raise InputError(f"--coefficient {word}: {value!r} is not a number") from None
    return replace(base, **given)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}"


def _table(
    graph: ContentionGraph, result: ContentionSteps, inverse: float, digits: int, *, penalties: bool
) -> Table:
    """Return a table with one row per edge: its penalties, completion time and slowdown."""
    table = Table()
    table.add_column("edge")
    table.add_column("from", overflow="fold")
    table.add_column("to", overflow="fold")
    for name in ("bytes", "start s", *["penalties"] * penalties, "completes s", "slowdown"):
        table.add_column(name, justify="right")
    for edge, name in enumerate(graph.names):
        size, start = graph.size_bytes[edge], graph.start_s[edge]
        alone = size * inverse
        table.add_row(
            escape(name),
            escape(graph.sources[edge]),
            escape(graph.destinations[edge]),
            f"{size:,}",
            f"{start:.{digits}g}",
            *([_distinct(result.penalty[:, edge])] if penalties else ()),
            f"{result.completion_s[edge]:.{digits}g}",
            f"{result.elapsed_s[edge] / alone:.3f}" if alone else "-",
        )
    return table


def _distinct(penalty: NDArray[np.float64]) -> str:
    """Return the penalties of an edge over the steps, without repetitions."""
    values: list[str] = []
    for value in penalty[~np.isnan(penalty)]:
        if values[-1:] != [_number(value)]:
            values.append(_number(value))
    return ", ".join(values) or "-"


def _steps_table(graph: ContentionGraph, result: ContentionSteps, digits: int) -> Table:
    """Return a table as in figure 3 of the paper: penalty and bytes left per step and edge.

    The time of an edge is the end of the step, or the completion of the edge if that is earlier.
    """
    table = Table()
    table.add_column("step", justify="right")
    table.add_column("edge")
    for name in ("penalty", "bytes left", "time s"):
        table.add_column(name, justify="right")
    for step, end in enumerate(result.end_s):
        for edge, name in enumerate(graph.names):
            completed = result.completion_s[edge]
            waiting = np.isnan(result.penalty[step, edge]) and completed > end
            table.add_row(
                str(step + 1) if edge == 0 else "",
                escape(name),
                _number(result.penalty[step, edge]),
                f"{result.remaining_bytes[step, edge]:,.0f}",
                "not started" if waiting else f"{min(end, completed):.{digits}g}",
                end_section=edge == len(graph.names) - 1,
            )
    return table
