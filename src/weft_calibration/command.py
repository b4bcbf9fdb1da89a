"""`weft calibrate`: fit the coefficients of the contention model to measured times."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from weft.cli.common import announced_compile, check_files, console
from weft.cli.option_types import FLOW, OUTPUT, RUNS, File, Name, Whole
from weft.cli.output import emit
from weft.core.files import write_text
from weft.sim.flow.contention.coefficients import INFINIBAND, read_coefficients, write_coefficients
from weft_calibration.fit import COEFFICIENTS, Calibration, fit
from weft_calibration.measurements import read_measurements


def calibrate_command(
    file: Annotated[
        Path,
        Parameter(help="File of measurements, written by `python -m weft_calibration.measure`."),
    ],
    /,
    *,
    out: Annotated[
        File | None, OUTPUT(help="Write the coefficients, for 'weft predict --coefficients'.")
    ] = None,
    fit_only: Annotated[
        tuple[Name, ...],
        FLOW(
            name="--fit",
            help="Fit only this coefficient. Repeatable. The others keep InfiniBand's values, or "
            "the values of --start.",
        ),
    ] = (),
    start: Annotated[File | None, FLOW(help="File of coefficients to start from.")] = None,
    measured_bandwidth: Annotated[
        bool,
        FLOW(help="Use the measured bandwidth of a single communication; do not fit it."),
    ] = False,
    max_edges: Annotated[
        Whole | None,
        RUNS(help="Fit only graphs of at most this many edges; errors are for all graphs."),
    ] = None,
    tolerance: Annotated[
        float, RUNS(help="Relative difference below which two times count as equal.")
    ] = 0.01,
    start_tolerance: Annotated[
        float,
        RUNS(help="Largest difference of a graph's start times, divided by its shortest time."),
    ] = 0.05,
    penalties: Annotated[
        File | None, OUTPUT(help="Write the penalties that the times imply, as CSV.")
    ] = None,
) -> int:
    """Fit the contention model to measured times of contention graphs.

    Prints the coefficients with their standard errors, and the errors of predicted times by number
    of edges.

    Example: `weft calibrate times.csv --out coefficients.toml`
    """
    check_files(("--out", out, ()), ("--penalties", penalties, ()))
    measured = read_measurements(file)
    if measured.metadata.get("shared_machines") == "yes":
        print(
            f"weft: warning: {file}: several nodes ran on one machine, so these are not times of a "
            "network",
            file=sys.stderr,
        )
    with announced_compile():
        result = fit(
            measured.measurements,
            coefficients=fit_only or COEFFICIENTS,
            model=INFINIBAND if start is None else read_coefficients(start).model,
            fit_bandwidth=not measured_bandwidth,
            max_edges=max_edges,
            tolerance=tolerance,
            start_tolerance=start_tolerance,
        )
    if out is not None:
        write_coefficients(
            out,
            result.model,
            result.inverse_bandwidth_s_per_byte,
            result.uncertainty,
            f"Calibrated from {len(measured.measurements)} graphs of {file.name}",
        )
    if penalties is not None:
        write_text(penalties, result.recovery.frame().write_csv())
    emit(
        coefficients=result.model, standard_errors=result.uncertainty, errors=result.errors,
        inverse_bandwidth_s_per_byte=result.inverse_bandwidth_s_per_byte,
    )  # fmt: skip
    screen = console()
    screen.print(_coefficients(result))
    screen.print(_errors(result))
    alpha = result.inverse_bandwidth_s_per_byte
    screen.print(
        f"Bandwidth without contention: {1e-9 / alpha:.4g} GB/s. Root mean square error of the "
        f"fitted times: {100 * result.residual:.2g} %.",
        soft_wrap=True,
    )
    for what, path in (("coefficients", out), ("penalties", penalties)):
        if path is not None:
            print(f"{what}: {path}")
    return 0


def _coefficients(result: Calibration) -> Table:
    table = Table()
    table.add_column("coefficient")
    for name in ("value", "standard error", "InfiniBand"):
        table.add_column(name, justify="right")
    values: Mapping[str, float] = {
        "inverse_bandwidth_s_per_byte": result.inverse_bandwidth_s_per_byte,
        **{name: getattr(result.model, name) for name in COEFFICIENTS},
    }
    for name, value in values.items():
        error = result.uncertainty.get(name)
        table.add_row(
            name,
            f"{value:.4g}",
            "fixed" if error is None else f"{error:.2g}",
            f"{getattr(INFINIBAND, name):g}" if name in COEFFICIENTS else "",
        )
    return table


def _errors(result: Calibration) -> Table:
    table = Table()
    heads = (
        "edges",
        "graphs",
        "times",
        "mean error %",
        "max graph mean error %",
        "max error %",
    )
    for name in heads:
        table.add_column(name, justify="right")
    table.add_column("worst graph", overflow="fold")
    for row in result.errors.iter_rows(named=True):
        table.add_row(
            *(str(row[name]) for name in ("edges", "graphs", "times")),
            *(f"{row[name]:.2f}" for name in ("mean_error", "max_mean_error", "max_error")),
            escape(row["worst_graph"]),
        )
    return table
