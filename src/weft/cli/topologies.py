"""`weft topologies`: machines of every family, sized for a number of hosts and compared."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.advice.machine_room import Prices
from weft.cli.common import (
    TABLES,
    announced_compile,
    as_number,
    check_files,
    check_folder,
    console,
    table_width,
)
from weft.cli.option_types import FIRST, OUTPUT, RUNS, File, Folder, Whole
from weft.cli.options import options_of
from weft.cli.output import emit
from weft.cli.report import PAGES
from weft.cli.study_progress import Display
from weft.core.columns import Column, frame, write_table
from weft.core.errors import InputError
from weft.core.pool import check_processes, cores
from weft.core.settings import settings
from weft.core.signals import ended_by
from weft.fabrics.topology.sizing import Machine, machines_for, ports_of
from weft.kernels.flow import engine as flow_engine
from weft.report.study_page import write_study_page
from weft.routing import engine as engine_registry
from weft.study.commands.topologies import ONE_OF, RandomFaults, TopologyKeys
from weft.study.data import study_data
from weft.study.experiment.run_level import duration
from weft.study.experiment.toml_file import toml_text
from weft.study.machines import (
    MACHINE_COLUMNS,
    OF_ROUTES,
    ROUTINGS,
    MachineRun,
    of_fabric,
    routes_text,
    uneven,
)
from weft.study.perform import perform, store_study
from weft.study.plan import Plan, plan
from weft.study.runs.executors import LocalProcesses
from weft.study.runs.store import Store
from weft.study.spec import StudyFile, study_of
from weft.workload import load_workload
from weft.workload.placement.placement_registry import placement as placement_registry

#: Options of the machines and of their workloads: keys of a study.
TopologyOptions: Any = options_of(
    "TopologyOptions",
    [
        *(item for item in settings(TopologyKeys) if item.key not in ("hosts", "radix", "faults")),
        *settings(RandomFaults),
    ],
)
DEFAULT = TopologyOptions()
#: Exit status when no run has a result.
NO_RESULT = 1
#: Statuses of runs that have a result, or the figures that need no routes.
CUT = ("out of time", "out of memory")
KNOWN = ("complete", "partial")
#: Wall time of a run at the flow level after which it is given up, unless another is asked for.
RUN_SECONDS = 600.0

#: Columns that are left out, in this order, if the terminal is too narrow.
DISPENSABLE = ("ports", "optical", "hops", "diameter")

#: Columns of the table of runs.
RUN_COLUMNS: Mapping[str, Column] = {
    "machine": Column(pl.String, "", "Name of the machine"),
    "spec": Column(pl.String, "", "Spec of the fabric"),
    "places": Column(pl.Int64, "", "Number of hosts for which the machine has ports"),
    "workload": Column(pl.String, "", "Workload (null: the search for saturation)"),
    "status": Column(
        pl.String,
        "",
        "complete, partial, out of time, out of memory, failed, does not fit or not run",
    ),
    "reason": Column(pl.String, "", "Why there is no result (null: there is one)"),
    **MACHINE_COLUMNS,
}


def topologies_command(
    *,
    hosts: Annotated[Whole, FIRST(help="Number of hosts.")],
    radix: Annotated[
        Whole | None,
        FIRST(
            help="Number of ports of a switch. Default: 24 at SDR and DDR, 36 at QDR, FDR and EDR, "
            "40 at HDR, 64 at NDR, 144 at XDR, else 64."
        ),
    ] = None,
    chosen: TopologyOptions = DEFAULT,
    processes: Annotated[
        Whole | None, RUNS(help="Number of worker processes. Default: one per core.")
    ] = None,
    run_seconds: Annotated[
        float | None,
        RUNS(
            help="Time after which a run is ended, which then has no routes and times. "
            f"Default: {RUN_SECONDS:g} at the flow level, else none."
        ),
    ] = None,
    output: Annotated[
        File | None,
        OUTPUT(name=["--output", "-o"], help="Write the table to this .csv or .parquet file."),
    ] = None,
    report: Annotated[File | None, OUTPUT(help="Write one self-contained HTML page.")] = None,
    store: Annotated[
        Folder | None,
        OUTPUT(
            help="Keep the results in this folder; runs that it has are not repeated. A call with "
            "other options is another study."
        ),
    ] = None,
) -> int:
    """Size machines of every family for a number of hosts, and compare them.

    The smallest machine of each family that switches of this many ports can build is chosen. Hosts
    beyond those asked for are not attached. The comparison is a study, as `weft study` runs them.
    What takes too much time or memory, or cannot be built, is named; the rest is printed. The exit
    status is 1 if no run has a result.

    Example: `weft topologies --hosts 64 --family fat-tree,dragonfly`
    """
    check_files(("--output", output, TABLES), ("--report", report, PAGES))
    check_folder("--store", store)
    check_processes(processes)
    given, faults = chosen.converted(TopologyKeys), chosen.converted(RandomFaults)
    if family := given.get("family"):
        given["family"] = tuple(name.strip() for text in family for name in text.split(","))
    keys = TopologyKeys.model_construct(
        hosts=hosts, faults=RandomFaults.model_construct(**faults), **given
    )
    rate, engine, routing, level = keys.rate, keys.engine, keys.routing, keys.level
    ports = ports_of(rate) if radix is None else radix
    machines, refused = machines_for(hosts, ports, rate, keys.family)
    _check(hosts, keys.workload, keys.placement, engine)
    if engine is not None and routing is not None:
        raise InputError(f"--routing {routing}, --engine {engine}: {ONE_OF}")
    missing, fault_seed = keys.faults.random_cables, keys.faults.seed
    if fault_seed and not missing:
        raise InputError("--fault-seed requires --random-cables")
    prices = None if keys.prices is None else Prices.read(keys.prices)
    currency = "" if prices is None else prices.currency
    kind = f"engine {engine}" if engine is not None else f"{routing or ROUTINGS[0]} routing"
    headline = f"{hosts:,} hosts at {rate}, switches of {ports} ports; {kind}; level {level}"
    if run_seconds is None and {level, keys.saturation or level} == {"flow"}:
        run_seconds = RUN_SECONDS
    if missing:
        what = "cable" if missing == 1 else "cables"
        of = f"{missing} of the cables" if isinstance(missing, str) else f"{missing} {what}"
        headline += f"; {of} between switches missing at random, seed {fault_seed}"
    data = keys.model_copy(update={"radix": ports}).model_dump(exclude_none=True)
    data |= {"faults": data.pop("faults") if missing else None, "prices": data.pop("prices", None)}
    limits = {} if run_seconds is None else {"run_seconds": run_seconds}
    data = {"command": "topologies", **data, "study": {"title": headline, **limits}}
    text = "".join(f"{key} = {toml_text(data[key])}\n" for key in data if data[key] is not None)
    # Other options are another study in the same store.
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    study = study_of(text, Path.cwd() / f"topologies-{hosts}-{rate}-{digest}.toml")
    with _folder(store) as folder:
        planned, whole = _perform(study, folder, processes or cores())
        rows = list(_rows(planned, folder, machines))
        for row in rows:
            if row["status"] in CUT:
                run = MachineRun(
                    row["spec"], prices=prices, seed=keys.seed, random_cables=missing,
                    fault_seed=fault_seed,
                )  # fmt: skip
                row.update(of_fabric(run, {OF_ROUTES: row["reason"]}))
        if report is not None:
            write_study_page(study_data(folder, study.name), report)
    table = frame(RUN_COLUMNS, {name: [row[name] for row in rows] for name in RUN_COLUMNS})
    out = console()
    out.print(escape(headline), soft_wrap=True)
    show(rows, out, currency)
    for name, reason in refused.items():
        out.print(escape(f"{name}: {reason}"), soft_wrap=True)
    emit(runs=table, not_sized=refused)
    if output is not None:
        write_table(table, output)
    if report is not None:
        print(f"page: {report}")
    if not whole:
        word, status = ended_by()
        left = int((~table["status"].is_in(KNOWN)).sum())
        print(f"weft: {word}: {left} of {len(table)} runs have no result", file=sys.stderr)
        return status
    return 0 if table["status"].is_in(KNOWN).any() else NO_RESULT


def _check(hosts: int, workloads: Sequence[str], placed: str, engine: str | None) -> None:
    """Refuse what no machine can do, before anything runs: all machines have the same hosts."""
    for registry, name in ((placement_registry, placed), (engine_registry, engine)):
        if name is not None:
            registry.bind(*registry.parse(name))
    for name in workloads:
        load_workload(name, hosts)


@contextmanager
def _folder(store: Path | None) -> Iterator[Path]:
    """Yield the folder of the results, which is temporary unless one is given."""
    if store is not None:
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="weft-topologies-") as folder:
        yield Path(folder)


def _perform(study: StudyFile, folder: Path, processes: int) -> tuple[Plan, bool]:
    """Perform the runs that the folder does not have; return whether none was interrupted."""
    with Store(folder, write=True) as store:
        planned = plan(study, store)
        if not planned.todo:
            store_study(planned, store)
            return planned, True
        executor = LocalProcesses(min(processes, len(planned.todo)), planned.limits)
        kernel = flow_engine.run
        with announced_compile(kernel), Display() as display:
            return planned, not perform(planned, store, executor, display.update).stopping


def _rows(planned: Plan, folder: Path, machines: Sequence[Machine]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `RUN_COLUMNS` of all runs."""
    machine_of = {machine.spec: machine for machine in machines}
    with Store(folder) as store:
        runs = {run.key: run for run in store.runs(task.key for task in planned.tasks)}
    for one, task in zip(planned.runs, planned.tasks, strict=True):
        machine = machine_of[one.parameters["spec"]]
        run = runs.get(task.key)
        yield {
            **dict.fromkeys(RUN_COLUMNS),
            **({} if run is None else run.measures),
            "machine": machine.name,
            "spec": machine.spec,
            "places": machine.places,
            "workload": one.parameters.get("workload"),
            "status": "not run" if run is None else run.status,
            "reason": run.reason or None if run is not None else None,
        }


# -- output ----------------------------------------------------------------------------------------


def _time(value: float | None) -> str:
    return "-" if value is None else duration(value)


def show(rows: Sequence[Mapping[str, Any]], out: Console, currency: str) -> None:
    """Print the best machines, then a table with a row for each machine, then failures.

    `rows`: rows of `RUN_COLUMNS`. `currency`: currency of the prices, empty without prices.
    """
    done = [row for row in rows if row["status"] in KNOWN + CUT]
    for line in answers(done, currency):
        out.print(escape(line), soft_wrap=True)
    if done:
        _table(done, out, currency)
    spare = {row["machine"]: row for row in done if row["places"] > row["hosts"]}
    if spare:
        text = ", ".join(f"{name} {row['places']:,}" for name, row in spare.items())
        out.print(escape(f"Machines with ports for more hosts: {text}."), soft_wrap=True)
    for reason, names in _failures(rows).items():
        out.print(escape(f"{', '.join(names)}: {reason}"), soft_wrap=True)


def _failures(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the reasons of failures, and of figures that are missing, and their machines."""
    failures: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["status"] not in ("complete", "not run"):
            failures.setdefault(row["not_computed"] or row["reason"], {})[row["machine"]] = None
    return {reason: list(names) for reason, names in failures.items()}


def answers(done: Sequence[Mapping[str, Any]], currency: str) -> Iterator[str]:
    """Yield a line for each question: which machine is cheapest, fastest, and fastest for its cost.

    `done`: rows of `RUN_COLUMNS` with figures. `currency`: currency of the prices, empty without
    prices.
    """
    workloads = list(dict.fromkeys(row["workload"] for row in done if row["workload"]))
    price, unit = ("cost", currency) if currency else ("switches", "switch")
    first = {row["machine"]: row for row in done}.values()
    head = "Cheapest" if currency else "Fewest switches"
    yield from _best(head, first, price, lambda value: f"{value:,.0f} {currency}".rstrip())
    for name in workloads:
        here = [row for row in done if row["workload"] == name]
        yield from _best(f"Fastest {name}", here, "makespan_ns", _time)
        worth = [{**row, "worth": None} for row in here]
        for row in worth:
            if row["throughput_gbps"] and row[price]:
                row["worth"] = -row["throughput_gbps"] * row["hosts"] / row[price]
        yield from _best(
            f"Most throughput of {name} per {unit}", worth, "worth",
            lambda value: f"{-value:,.0f} Gb/s" if value <= -1e4 else f"{-value:,.4g} Gb/s",
        )  # fmt: skip
    full = [
        {**row, "load": None if row["saturation"] is None else -row["saturation"]}
        for row in done
        if row["workload"] is None
    ]
    yield from _best("Highest saturation", full, "load", lambda value: f"{-value:.2f}")


def _best(
    question: str, rows: Iterable[Mapping[str, Any]], column: str, text: Callable[[float], str]
) -> Iterator[str]:
    """Yield the machines with the lowest value, the next ones, and those without a value."""
    every = list(rows)
    known = sorted((row for row in every if row[column] is not None), key=lambda row: row[column])
    unknown = [row["machine"] for row in every if row[column] is None]
    shown: dict[str, list[str]] = {}
    for row in known:
        shown.setdefault(text(row[column]), []).append(row["machine"])
    parts = [f"{' and '.join(names)} ({value})" for value, names in list(shown.items())[:2]]
    if parts:
        rest = f"; not known of {', '.join(unknown)}" if unknown else ""
        yield f"{question}: {', then '.join(parts)}{rest}."


def _table(done: Sequence[Mapping[str, Any]], out: Console, currency: str) -> None:
    workloads = list(dict.fromkeys(row["workload"] for row in done if row["workload"]))
    searched = any(row["saturation"] is not None for row in done)
    powered = any(row["power_w"] is not None for row in done)
    broken = any(row["faults"] is not None for row in done)
    heads = ["machine", "switches", "ports", "cables", "optical"]
    heads += ["missing"] if broken else []
    heads += [f"cost {currency}"] if currency else []
    heads += ["power W"] if powered else []
    heads += ["diameter", "hops", "bisection", "uniform"]
    heads += ["saturation"] if searched else []
    for name in workloads:
        heads += [name.partition(":")[0], "alone"]
    rows = []
    for name in dict.fromkeys(row["machine"] for row in done):
        here = [row for row in done if row["machine"] == name]
        row = max(here, key=lambda each: each["engine"] is not None)
        times = {
            each["workload"]: (each["makespan_ns"], each["contention_free_ns"]) for each in here
        }
        load = next((each["saturation"] for each in here if each["saturation"] is not None), None)
        cells = [name]
        cells += [as_number(row[key]) for key in ("switches", "ports", "cables", "optical_cables")]
        cells += [str(row["faults"]).partition(" cables")[0]] if broken else []
        cells += [as_number(row["cost"])] if currency else []
        cells += [as_number(row["power_w"])] if powered else []
        cells += [as_number(row["diameter"]), as_number(row["mean_hops"], 2)]
        cells += [as_number(row["bisection"], 2), as_number(row["uniform"], 2)]
        cells += [as_number(load, 2)] if searched else []
        for each in workloads:
            cells += [_time(value) for value in times.get(each, (None, None))]
        rows.append([*cells, routes_text(row)])
    columns = [(head, list(each)) for head, *each in zip([*heads, "routes"], *rows, strict=True)]
    for head in DISPENSABLE:
        if table_width(max(map(len, (name, *cells))) for name, cells in columns) > out.width:
            columns = [each for each in columns if each[0] != head]
    table = Table()
    for head, _ in columns:
        is_text = head in ("machine", "routes")
        table.add_column(head, justify="left" if is_text else "right", overflow="fold")
    for line in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*map(escape, line))
    out.print(table)
    out.print(
        "bisection: smallest cut found, uniform: largest uniform load without a full link; both "
        "shares of full rate. alone: time without contention, as if each pair of ranks had the "
        "network to itself.",
        soft_wrap=True,
    )
    for text in uneven(workloads, done[0]["hosts"]):
        out.print(escape(text), soft_wrap=True)
