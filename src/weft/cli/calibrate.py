"""`weft calibrate`: coefficients of the contention model from measured times."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from weft.cli.common import Whole, announced_compile, check_files, console
from weft.cli.machine_output import emit
from weft.contention.calibration import COEFFICIENTS, Calibration, fit
from weft.contention.coefficients import INFINIBAND, read_coefficients, write_coefficients
from weft.contention.measurements import read_measurements
from weft.core.files import write_text


def calibrate_command(
    file: Annotated[
        Path,
        Parameter(help="Measurements, such as `python -m weft.contention.measure` writes."),
    ],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Write the coefficients, for weft predict --coefficients.")
    ] = None,
    fit_only: Annotated[
        tuple[str, ...],
        Parameter(
            name="--fit",
            help="Fit only this coefficient; repeatable. The others stay InfiniBand's, or those "
            "of --start.",
        ),
    ] = (),
    start: Annotated[Path | None, Parameter(help="A file of coefficients to start from.")] = None,
    measured_bandwidth: Annotated[
        bool,
        Parameter(help="Take the bandwidth of one communication alone, and fit it to no others."),
    ] = False,
    max_edges: Annotated[
        Whole | None,
        Parameter(help="Fit to graphs of up to this many edges; errors are given for all."),
    ] = None,
    tolerance: Annotated[
        float, Parameter(help="Communications whose times differ by less end together.")
    ] = 0.01,
    start_tolerance: Annotated[
        float,
        Parameter(help="How far starts may be apart in a graph, relative to its shortest time."),
    ] = 0.05,
    penalties: Annotated[
        Path | None, Parameter(help="Write the penalties that the times imply, as CSV.")
    ] = None,
) -> int:
    """Fit the contention model to measured times of contention graphs.

    Prints the coefficients with their standard errors, and how far predictions are from the
    measured times, by number of edges.
    """
    check_files(("--out", out, ()), ("--penalties", penalties, ()))
    measured = read_measurements(file)
    if measured.metadata.get("shared_machines") == "yes":
        print(
            f"weft: warning: {file}: nodes shared machines, so these are no times of a network",
            file=sys.stderr,
        )
    with announced_compile():
        found = fit(
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
            found.model,
            found.inverse_bandwidth_s_per_byte,
            found.uncertainty,
            f"Calibrated from {len(measured.measurements)} graphs of {file.name}",
        )
    if penalties is not None:
        write_text(penalties, found.recovery.frame().write_csv())
    emit(
        coefficients=found.model, standard_errors=found.uncertainty, errors=found.errors,
        inverse_bandwidth_s_per_byte=found.inverse_bandwidth_s_per_byte,
    )  # fmt: skip
    screen = console()
    screen.print(_coefficients(found))
    screen.print(_errors(found))
    alpha = found.inverse_bandwidth_s_per_byte
    screen.print(
        f"One communication alone: {1e-9 / alpha:.4g} GB/s. Root mean square error of the fitted "
        f"times: {100 * found.residual:.2g} %.",
        soft_wrap=True,
    )
    for what, path in (("coefficients", out), ("penalties", penalties)):
        if path is not None:
            print(f"{what}: {path}")
    return 0


def _coefficients(found: Calibration) -> Table:
    table = Table()
    table.add_column("coefficient")
    for name in ("value", "standard error", "InfiniBand"):
        table.add_column(name, justify="right")
    values: Mapping[str, float] = {
        "inverse_bandwidth_s_per_byte": found.inverse_bandwidth_s_per_byte,
        **{name: getattr(found.model, name) for name in COEFFICIENTS},
    }
    for name, value in values.items():
        error = found.uncertainty.get(name)
        table.add_row(
            name,
            f"{value:.4g}",
            "held" if error is None else f"{error:.2g}",
            f"{getattr(INFINIBAND, name):g}" if name in COEFFICIENTS else "",
        )
    return table


def _errors(found: Calibration) -> Table:
    table = Table()
    heads = ("edges", "graphs", "times", "mean error %", "max mean of a graph %", "max error %")
    for name in heads:
        table.add_column(name, justify="right")
    table.add_column("worst graph", overflow="fold")
    for row in found.errors.iter_rows(named=True):
        table.add_row(
            *(str(row[name]) for name in ("edges", "graphs", "times")),
            *(f"{row[name]:.2f}" for name in ("mean_error", "max_mean_error", "max_error")),
            escape(row["worst_graph"]),
        )
    return table
