"""`weft sweep`: latency and accepted load over offered load, and saturation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.cli.common import (
    ALL_HOSTS,
    TABLES,
    FabricArgument,
    JudgedOptions,
    announced_compile,
    console,
)
from weft.cli.option_types import FIRST, OUTPUT, RUNS, File, Loads
from weft.cli.options import options_of
from weft.cli.output import emit
from weft.cli.series import (
    NO_RESULT,
    USUAL,
    SeriesOptions,
    heading,
    interrupted,
    load_text,
    show_runs,
    watched,
)
from weft.cli.simulate_options import WORDS
from weft.core.errors import InputError
from weft.core.registry import convert
from weft.core.settings import settings
from weft.kernels.flow import engine as flow_engine
from weft.kernels.packet import engine as packet_engine
from weft.sim.flit.router import Router
from weft.sim.options import RunSettings, TimedLevel
from weft.sim.packet import Hardware
from weft.sim.packet.hardware import check_known, hardware_of, parse_hardware
from weft.sim.sweep import SWEEP_COLUMNS, TrafficSettings, saturation_load, sweep
from weft.sim.sweep.settings import OWN, loads_of
from weft.study.experiment.run_level import duration

#: Settings of the traffic and of runs, except those that a sweep sets for each run.
_SETTINGS = [
    *settings(TrafficSettings),
    *(item for item in settings(RunSettings) if item.field not in OWN),
]
_Options: Any = options_of("SweepOptions", _SETTINGS)


class SweepOptions(_Options):  # type: ignore[misc]
    """Options of the traffic, of the measurement windows and of runs."""

    def given(self, level: str) -> dict[str, Any]:
        """Return the given options as settings of a sweep at a level."""
        values = {}
        for name, item in self.items.items():
            if not self.is_given(name):
                continue
            value = self.value(name)
            if item.field in WORDS:
                values[item.field] = _parsed(item.field, value)
            if item.field == "hardware":
                check_known(parse_hardware(value), (level,))
            elif item.field == "policy":
                values[item.field] = value
            elif item.field not in WORDS:
                one = ",".join(value) if item.option.compared else value
                values[item.field] = convert(one, item.hint, item.flag)
            if item.field == "policy" and level == "flow":
                raise InputError("--policy requires --level packet or flit")
            if not item.of(level):
                raise InputError(f"{item.flag} requires --level {' or '.join(item.option.levels)}")
        return values


DEFAULT = SweepOptions()


def sweep_command(
    fabric: FabricArgument,
    /,
    *,
    series: SeriesOptions = USUAL,
    loads: Annotated[
        Loads,
        FIRST(
            name=["--load", "--loads"],
            help="Offered loads: FIRST:LAST:STEP, or a list with commas.",
        ),
    ] = "0.1:0.9:0.1",
    saturation: Annotated[
        float | None,
        RUNS(help="Also search for the saturation load, to this resolution, such as 0.01."),
    ] = None,
    chosen: SweepOptions = DEFAULT,
    level: Annotated[TimedLevel, FIRST(help="Level of detail.")] = "packet",
    also: Annotated[
        tuple[File, ...],
        OUTPUT(help="Table of an earlier sweep to draw in the same plot. Repeatable."),
    ] = (),
    options: JudgedOptions = ALL_HOSTS,
) -> int:
    """Measure latency and accepted load over offered load, with one run per load.

    Sources inject at random times, independent of arrivals (open loop). Saturated loads are marked;
    their latency depends on the length of the run. The exit status is 1 if no run has a result.

    Example: `weft sweep torus:4x4 --engine dor --load 0.2:0.8:0.2`
    """
    series.check()
    for path in also:
        if path.suffix.lower() not in TABLES:
            raise InputError(f"--also {path}: expected a name that ends in {' or '.join(TABLES)}")
    if also and series.plot is None:
        raise InputError("--also requires --plot FILE")
    wanted = loads_of(loads, "--load")
    earlier = [_read(path) for path in also]
    engines, routings = (names or None for names in series.names)
    given = {
        "level": level, "routing": routings, "processes": series.processes, **chosen.given(level),
    }  # fmt: skip
    workers = {"flow": lambda: flow_engine.run, "packet": lambda: packet_engine.run}.get(level)
    with announced_compile(workers and workers()):
        loaded = options.load(fabric)
        with watched("runs") as progress:
            table = sweep(loaded, engines, loads=wanted, progress=progress, **given)
        out = console()
        show(table, out)
        emit(loads=table)
        has_result = table["offered_load"].is_not_null().any()
        series.write(table, [table, *earlier] if has_result else [], out)
        finished = "interrupted" not in table["status"]
        if saturation is not None and finished:
            with watched("searches") as progress:
                limits = saturation_load(
                    loaded, engines, resolution=saturation, highest=max(*wanted, 1.0),
                    progress=progress, **given,
                )  # fmt: skip
            show_saturation(limits, out)
            emit(saturation=limits)
            finished = "interrupted" not in limits["status"]
    if not finished:
        return interrupted(int((table["status"] == "interrupted").sum()), len(table))
    return 0 if has_result else NO_RESULT


# -- input -----------------------------------------------------------------------------------------


def _parsed(name: str, words: tuple[str, ...]) -> Hardware | Router:
    try:
        parsed = WORDS[name](words)
        return hardware_of(parsed) if name == "hardware" else Router(**parsed)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"--{name}: {error.message}") from None


def _read(path: Path) -> pl.DataFrame:
    """Read a table of an earlier sweep."""
    schema = {name: column.dtype for name, column in SWEEP_COLUMNS.items()}
    if not path.is_file():
        raise InputError("cannot be read: it is not a file", file=path)
    try:
        if path.suffix.lower() == ".csv":
            frame = pl.read_csv(path, schema_overrides=schema)
        else:
            frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read: {str(error).splitlines()[0]}", file=path) from None
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise InputError(f"has no column {missing[0]}: not a table of weft sweep", file=path)
    try:
        return frame.select(pl.col(name).cast(kind) for name, kind in schema.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(f"wrong column type: {str(error).splitlines()[0]}", file=path) from None


# -- output ----------------------------------------------------------------------------------------


def _time(value: float | None) -> str:
    return "-" if value is None else duration(value)


def show(frame: pl.DataFrame, out: Console) -> None:
    """Print a sweep: its settings, a row for each load, and the saturation of each engine.

    `frame`: frame of `SWEEP_COLUMNS`.
    """
    first = frame.row(0, named=True)
    out.print(
        escape(
            f"{first['fabric']}: {first['pattern']}, messages of {first['size_bytes']:,} B, load 1 "
            f"is {first['rate_gbps']:g} Gb/s; level {first['level']}"
            + "".join(
                f"; {first[name]}"
                for name in ("hardware", "router")
                if first[name] not in (None, "usual")
            )
        ),
        soft_wrap=True,
    )
    heads = ("offered", "accepted", "mean", "±", "median", "p95", "p99", "p99.9", "max")
    show_runs(frame, heads, _cells, lambda row: bool(row["saturated"]), _summary, out)


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a run."""
    return [
        load_text(row["offered_load"]),
        load_text(row["accepted_load"]),
        (">" if row["censored"] else "") + _time(row["latency_mean_ns"]),
        _time(row["latency_ci95_ns"]),
        *(_time(row[f"latency_{part}_ns"]) for part in ("p50", "p95", "p99", "p99_9", "max")),
        escape(row["notes"]),
    ]


def _summary(part: pl.DataFrame) -> Iterator[str]:
    """Yield a summary of the runs of one engine and policy."""
    known = part.filter(pl.col("saturated").is_not_null())
    if len(known):
        past = known.filter(pl.col("saturated"))["offered_load"].to_list()
        sustained = known.filter(~pl.col("saturated"))["offered_load"].to_list()
        limits = [f"sustains {max(sustained):.3f}"] if sustained else []
        limits += [f"saturated from {min(past):.3f} on"] if past else []
        most = max(known["accepted_load"].to_list())
        yield f"{', '.join(limits)}; largest accepted load {most:.3f}."
    failed = part.filter(pl.col("status") == "failed")
    if len(failed):
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        yield f"failed at {failed['load'][0]:.3f}{others}: {failed['reason'][0]}"


def show_saturation(frame: pl.DataFrame, out: Console) -> None:
    """Print the saturation of engines and policies.

    `frame`: frame of `SATURATION_COLUMNS`.
    """
    table = Table(title="Saturation", title_justify="left")
    table.add_column("engine", overflow="fold")
    for name in ("sustained", "saturated", "accepted at saturation", "runs"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    for row in frame.iter_rows(named=True):
        reason = "" if row["reason"] is None else f"{row['status']}: {row['reason']}"
        table.add_row(
            escape(heading(row)),
            *(
                load_text(row[name])
                for name in ("sustained_load", "saturated_load", "accepted_load")
            ),
            "-" if row["runs"] is None else str(row["runs"]),
            escape(reason),
        )
    out.print(table)
