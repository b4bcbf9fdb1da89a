"""`weft expect`: whether logs of benchmarks show what the fabric should give, and what is slow."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from weft.advice.expect.expect import TOLERANCE, Expectation, expect
from weft.cli.common import (
    ALL_HOSTS,
    TABLES,
    JudgedOptions,
    announced_compile,
    check_files,
    console,
)
from weft.cli.option_types import (
    FIRST,
    OUTPUT,
    ROUTING,
    WORKLOAD,
    Engine,
    File,
    Name,
    Pair,
    Source,
    Whole,
)  # fmt: skip
from weft.cli.options import options_of
from weft.cli.output import emit
from weft.cli.watch import in_place
from weft.core.columns import write_table
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.settings import settings
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.faults import Faults
from weft.measured.measurements import MEASUREMENT_COLUMNS, Measurements
from weft.measured.read import read_measurements
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.options import RunSettings
from weft.workload.collectives.libraries import library as libraries

_FIELDS = (
    "policy", "eager_bytes", "rendezvous", "overhead_ns", "host_parameters", "switch_latency_ns",
    "local_gbps", "local_latency_ns", "multipath", "seed",
)  # fmt: skip
ModelOptions: Any = options_of(
    "ModelOptions", [item for item in settings(RunSettings) if item.field in _FIELDS]
)
USUAL = ModelOptions()
#: Columns of the machines of a pairwise run, and most pairs that are compared one by one.
_PAIR, _FEW = ["from_machine", "to_machine"], 2


def expect_command(
    *logs: Annotated[
        str,
        Parameter(
            help="Logs of nccl-tests, OSU micro-benchmarks and perftest, and CSV; files and "
            "folders.",
            name="LOG",
        ),
    ],
    fabric: Annotated[Source, FIRST(help="The fabric: a file, a folder, or a spec.")],
    engine: Annotated[Engine | None, ROUTING(help="Engine that routes. Default: minhop.")] = None,
    tables: Annotated[
        tuple[File, ...],
        ROUTING(help="Files or folders of the tables in place.", consume_multiple=(1, None)),
    ] = (),
    only: Annotated[
        tuple[Pair, ...],
        FIRST(help="Take only rows with this value, as in nodes=32 or operation=allreduce."),
    ] = (),
    level: Annotated[Literal["flow", "packet"], FIRST(help="Level of detail.")] = "flow",
    library: Annotated[
        Name, WORKLOAD(help="MPI library whose algorithms the OSU micro-benchmarks ran.")
    ] = "",
    ranks_per_machine: Annotated[
        Whole | None,
        WORKLOAD(help="Ranks on each machine where logs do not say it. Default: one per host."),
    ] = None,
    tolerance: Annotated[
        float, FIRST(help="Deviation of a time that counts as expected, such as 0.2.")
    ] = TOLERANCE,
    model: ModelOptions = USUAL,
    options: JudgedOptions = ALL_HOSTS,
    fit: Annotated[
        File | None,
        OUTPUT(help="Estimate parameters of hosts from latencies and bandwidths; write them here."),
    ] = None,
    report: Annotated[
        File | None, OUTPUT(help="Write a page with pictures and the loads of links (.html).")
    ] = None,
    output: Annotated[
        File | None, OUTPUT(help="Write a row for each size to this .csv or .parquet file.")
    ] = None,
) -> int:
    """Compare logs of benchmarks with what the fabric should give, and say what is slow.

    Each measured operation and size is run on the fabric, with the messages of the benchmark and
    the library. The answer names what bounds each size and ends with a verdict. The exit status is
    1 if a series is not as expected.

    Example: `weft expect latency.log --fabric fat-tree:k=8 --engine ftree --overhead 300ns`
    """
    check_files(("--report", report, (".html", ".htm")), ("--output", output, TABLES))
    if not logs:
        raise InputError("expected one or more logs of benchmarks")
    if not 0 < tolerance < 10:
        raise InputError(f"--tolerance: expected a share such as 0.2, not {tolerance:g}")
    if ranks_per_machine is not None and ranks_per_machine < 1:
        raise InputError(f"--ranks-per-machine: expected at least 1, not {ranks_per_machine}")
    if library:
        libraries[library]  # an unknown one is refused
    given = model.converted(RunSettings)
    options.build(Faults)  # wrong values are refused before logs are read
    measured = _selected(read_measurements(logs), only)
    pairs = measured.frame.filter(pl.col("from_machine") != "")
    pairwise = pairs.n_unique(_PAIR) > _FEW
    unused = {
        "--level": level != "flow", "--library": library, "--tolerance": tolerance != TOLERANCE,
        "--ranks-per-machine": ranks_per_machine, "--report": fit and report,
        "--output": fit and output,
    }  # fmt: skip
    if (fit or pairwise) and any(unused.values()):
        names = ", ".join(name for name, is_given in unused.items() if is_given)
        raise InputError(f"{'--fit' if fit else 'a log of pairwise runs'} takes no {names}")
    with announced_compile():
        if tables or (engine is None and Path(fabric).is_dir()):
            loaded, routes, *_ = in_place(fabric, options, tables, engine)
        else:
            loaded = options.load(fabric)
            routes = route(loaded, engine or "minhop")
        if fit is not None:
            return _fit(loaded, routes, measured.frame, given, fit)
        if pairwise:
            if others := len(measured.frame) - len(pairs):
                warnings.warn(f"left out: {count_text(others, 'value')} of no pair", stacklevel=1)
            return _pairwise(loaded, routes, pairs, given, report, output)
        result = expect(
            loaded, routes, measured, level=level, library=library, per_machine=ranks_per_machine,
            tolerance=tolerance, **given,
        )  # fmt: skip
    if output is not None:
        write_table(result.table(), output)
    if report is not None:
        from weft.advice.expect.page import expectation_page
        from weft.report.comparison_page import write_comparison_page

        write_comparison_page(expectation_page(result), report)
    emit(**result.as_json())
    _show(result)
    return int(any(each.status != "as expected" for each in result.series))


def _selected(measured: Measurements, only: tuple[str, ...]) -> Measurements:
    """Return the rows that have the values of ``--only``."""
    frame = measured.frame
    for text in only:
        name, _, value = text.partition("=")
        if name not in MEASUREMENT_COLUMNS:
            raise InputError(f"--only {text}: expected one of {', '.join(MEASUREMENT_COLUMNS)}")
        values = frame[name].cast(str)
        there = values.unique(maintain_order=True).drop_nulls().to_list()
        frame = frame.filter(values == value)
        if frame.is_empty():
            raise InputError(f"--only {text}: no row has it; there are {few(there)}")
    return Measurements(frame)


def _fit(
    fabric: Fabric, routes: Routes, runs: pl.DataFrame, given: dict[str, Any], path: File
) -> int:
    """Estimate parameters of hosts, write and print them."""
    from weft.advice.expect.fit import fit

    result = fit(fabric, routes, runs, **given)
    lines = result.text()
    result.parameters.write(path, lines)
    lines.append(f"written to {path}; --host-parameters {path} takes them")
    emit(host_parameters=result.parameters.model_dump(exclude_none=True), notes=lines)
    console().print(escape("\n".join(lines)), soft_wrap=True)
    return 0


def _pairwise(
    fabric: Fabric,
    routes: Routes,
    runs: pl.DataFrame,
    given: dict[str, Any],
    report: File | None,
    output: File | None,
) -> int:
    """Print what pairwise runs say of parts of the fabric: each operation at one size."""
    from weft.advice.expect.pairwise import pairwise

    found = {}
    for part in runs.partition_by("operation", maintain_order=True):
        name = part["operation"][0]
        # Small messages show latency, large ones bandwidth.
        size = sorted(part["size_bytes"])[0 if name == "latency" else -1]
        result = pairwise(fabric, routes, part.filter(size_bytes=size), **given)
        found[f"{name} at {size:,} B"] = result
    if output is not None:
        tables = (r.pairs.insert_column(0, pl.lit(n).alias("runs")) for n, r in found.items())
        write_table(pl.concat(tables), output)
    if report is not None:
        from weft.advice.expect.pairwise_page import pairwise_page
        from weft.report.comparison_page import write_comparison_page

        write_comparison_page(pairwise_page(found), report)
    for name, result in found.items():
        console().print(escape(f"{name}: {result}"), soft_wrap=True)
    emit(
        pairwise=[
            {"runs": name, "suspects": [vars(each) for each in result.suspects],
             "typical": result.typical, "noise": result.noise, "untested": result.untested,
             "pairs": result.pairs}
            for name, result in found.items()
        ]
    )  # fmt: skip
    return int(any(each.suspects for each in found.values()))


def _show(result: Expectation) -> None:
    out = console()
    for each in result.series:
        screen = Table(title=escape(each.name), title_justify="left")
        for name in ("size", "measured", "expected", "ratio", "interval", "bound by"):
            screen.add_column(name, justify="left" if name == "bound by" else "right")
        for at in each.figures:
            values = (each.shown(value, at.size_bytes) for value in (at.measured, at.expected))
            interval = "" if at.low is None else f"{at.low:.2f}–{at.high:.2f}"
            screen.add_row(
                f"{at.size_bytes:,} B", *values, f"{at.ratio:.2f}", interval,
                escape(f"{at.bound.text()} ({at.bound.share:.0%})"),
            )  # fmt: skip
        out.print(screen)
    out.print(escape(result.text()), soft_wrap=True)
