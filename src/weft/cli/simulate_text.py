"""Output of `weft simulate`: settings and runs; for a single run its jobs, phases and links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.cli.common import as_number, as_share, table_width
from weft.cli.output import emit
from weft.core.arguments import bytes_text
from weft.core.settings import settings
from weft.core.words import clock_span
from weft.sim.methods import CHOOSING
from weft.sim.options import TIMED, USUAL_HOST, RunSettings
from weft.sim.packet.hardware import OF_LEVEL
from weft.study.experiment import Experiment
from weft.study.experiment.result_tables import job_rows, run_row, tables
from weft.study.experiment.run_level import Outcome, duration
from weft.study.experiment.spec import TABLES, HardwarePart, Head

#: Number of phases and links of one run that are printed; files have all of them.
PHASES, LINKS = 24, 8

_AXES = ("engine", "routing", "level", "sharing", "policy", "workload", "placement")


def _ratio(value: float) -> str:
    return f"{value:.3g}"


#: Heading and form of each column that is printed.
_SHOWN: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "run": ("run", str),
    "engine": ("engine", str),
    "routing": ("routing", str),
    "level": ("level", str),
    "sharing": ("sharing", str),
    "policy": ("policy", str),
    "job": ("job", str),
    "phase": ("phase", str),
    "workload": ("workload", str),
    "placement": ("placement", str),
    "status": ("status", str),
    "ranks": ("ranks", as_number),
    "hosts": ("hosts", as_number),
    "machines": ("machines", as_number),
    "makespan_ns": ("makespan", duration),
    "start_ns": ("start", duration),
    "time_ns": ("time", duration),
    "begin_ns": ("begin", duration),
    "span_ns": ("span", duration),
    "communication_ns": ("communication", duration),
    "tokens_per_s": ("tokens/s", as_number),
    "mfu": ("MFU", as_share),
    "exposed_ns": ("exposed", duration),
    "late_ns": ("late", duration),
    "messages": ("messages", as_number),
    "size_bytes": ("bytes", as_number),
    "mean_message_ns": ("mean message", duration),
    "max_message_ns": ("max message", duration),
    "mean_slowdown": ("mean slowdown", _ratio),
    "mean_contention": ("mean contention", _ratio),
    "max_contention": ("max contention", _ratio),
    "bound_ns": ("lower bound", duration),
    "busiest_link": ("busiest link", str),
    "busiest_share": ("busy", as_share),
    "packet_hops": ("packet-hops", as_number),
    "flit_hops": ("flit-hops", as_number),
    "mean_wait_ns": ("mean wait", duration),
    "early_packets": ("early packets", as_number),
    "most_held_bytes": ("most held bytes", as_number),
    "reordering_ns": ("total held", duration),
}
_LEFT = {
    "engine", "routing", "level", "sharing", "policy", "job", "phase", "name", "workload",
    "placement", "status", "busiest_link",
}  # fmt: skip

#: Columns that are left out, in this order, if the terminal is too narrow; files have them.
_DISPENSABLE = (
    "reordering_ns", "packet_hops", "flit_hops", "most_held_bytes", "busiest_share",
    "max_message_ns", "mean_contention", "hosts", "machines", "size_bytes", "mean_message_ns",
    "messages", "early_packets", "busiest_link", "begin_ns", "late_ns", "mean_wait_ns",
    "tokens_per_s", "mean_slowdown", "bound_ns", "communication_ns", "exposed_ns", "workload",
)  # fmt: skip
#: Minimum width of a column of folded text.
_NARROWEST = 12

_RUN_SHOWN = (
    "run", *_AXES, "status", "makespan_ns", "tokens_per_s", "mfu", "communication_ns",
    "mean_message_ns", "max_message_ns", "mean_slowdown", "mean_contention", "max_contention",
    "bound_ns", "packet_hops", "flit_hops", "mean_wait_ns", "early_packets", "most_held_bytes",
    "reordering_ns", "busiest_link", "busiest_share",
)  # fmt: skip
_JOB_SHOWN = (
    "run", "job", "workload", "placement", "ranks", "hosts", "machines", "start_ns", "time_ns",
    "tokens_per_s", "mfu", "communication_ns", "messages", "size_bytes", "mean_message_ns",
    "max_message_ns", "mean_slowdown", "mean_contention", "max_contention", "bound_ns",
)  # fmt: skip
_PHASE_SHOWN = (
    "job", "phase", "begin_ns", "span_ns", "exposed_ns", "late_ns", "messages", "size_bytes",
    "mean_message_ns", "max_message_ns", "mean_slowdown", "mean_contention", "max_contention",
    "bound_ns",
)  # fmt: skip
_UNITS = {
    "eager": " B", "overhead": " ns", "switch_latency": " ns", "latency": " ns",
    "local_latency": " ns", "max_time": " ns", "max_seconds": " s", "start": " ns",
    "snapshot": " ns", "mtu": " B", "header": " B", "buffer": " B", "credit": " B",
    "flit_size": " B", "credit_latency": " ns", "forward_latency": " ns",
    "adapter_latency": " ns", "control": " B",
}  # fmt: skip


def show(experiment: Experiment, outcomes: Sequence[Outcome], out: Console) -> None:
    """Print the settings, a table of the runs, and the details of a single run.

    `outcomes`: outcomes of its runs, at least one with a result.
    """
    for line in _settings(experiment):
        out.print(escape(line), soft_wrap=True)
    rows = [outcome.row or run_row(outcome) for outcome in outcomes]
    jobs = [row for outcome in outcomes for row in outcome.jobs or job_rows(outcome)]
    emit(runs=rows, jobs=jobs)
    if len(outcomes) > 1:
        varying = [name for name in _AXES if len({row[name] for row in rows}) > 1]
        hidden = {name for name in _AXES if name not in varying}
        if all(outcome.status == "complete" for outcome in outcomes):
            hidden.add("status")
        _table(out, "Runs", rows, [name for name in _RUN_SHOWN if name not in hidden])
        if len(experiment.job) > 1:
            _table(out, "Jobs", jobs, _JOB_SHOWN)
        for line in _only_written(experiment):
            out.print(line)
    else:
        # The settings already show the workload and placement of a single job.
        known = {"run", "job", "workload", "placement"} if len(jobs) == 1 else {"run"}
        _table(
            out, "Jobs" if len(jobs) > 1 else "Job", jobs, [n for n in _JOB_SHOWN if n not in known]
        )
        _details(out, outcomes[0])
    for line in reasons(outcomes):
        out.print(escape(line), soft_wrap=True)
    notes: dict[str, dict[str, None]] = {}
    used = len({outcome.run.routes for outcome in outcomes})
    for outcome in outcomes:
        for note in outcome.notes:
            notes.setdefault(note, {})[outcome.run.routes] = None
    for note, engines in notes.items():
        whose = f"{', '.join(engines)}: " if len(engines) < used else ""
        out.print(escape(whose + note), soft_wrap=True)
    for line in _answer(rows):
        out.print(escape(line), soft_wrap=True)


def show_forecasts(outcomes: Iterable[Outcome], out: Console) -> int:
    """Print the time and memory that each run is expected to take.

    Return the exit status: 1 if memory does not suffice for a run, or it would fail.
    """
    found, known, rows = list(outcomes), [], []
    for outcome in found:
        run, told = outcome.run, outcome.forecast
        row = {"run": run.number, **run.axes, "status": outcome.status, "reason": outcome.reason}
        rows.append(row if told is None else {**row, **asdict(told)})
        if told is not None:
            known.append(told)
            named = ", ".join(each for each in run.axes.values() if each is not None)
            names = {"operations": "operations", "messages": "messages"}
            if run.level in CHOOSING:
                names["hops"] = f"{run.level}-hops"
            events = (f"{told.counts[name]:,.0f} {what}" for name, what in names.items())
            text = f"run {run.number} ({named}): {told.text()}; {', '.join(events)}"
            out.print(escape(text), soft_wrap=True)
    emit(forecasts=rows)
    for line in reasons(found):
        out.print(escape(line), soft_wrap=True)
    if len(known) > 1:
        span = clock_span(sum(told.least_s for told in known), sum(told.most_s for told in known))
        most = bytes_text(max(told.memory_bytes for told in known))
        out.print(f"all runs: {span}, up to {most} of memory at a time", soft_wrap=True)
    fine = {"not run", "does not fit"}
    return 0 if known and all(outcome.status in fine for outcome in found) else 1


def _only_written(experiment: Experiment) -> list[str]:
    """Return a note on requested tables that several runs do not print."""
    requested = {"hops": bool(experiment.trace), "series": experiment.snapshot is not None}
    written = [name for name, wanted in requested.items() if wanted]
    if not written or experiment.output.folder is not None:
        return []
    what = " and ".join(written)
    return [f"Only a single run prints {what}; --out FOLDER writes them for several runs."]


def _answer(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the makespan of a single run, or the extremes of runs with one sharing model."""
    timed = [row for row in rows if row["makespan_ns"] is not None]
    if len(rows) == 1 and timed:
        return [f"Makespan: {duration(timed[0]['makespan_ns'])}."]
    least, most = (
        which(timed, key=lambda row: row["makespan_ns"], default=None) for which in (min, max)
    )
    if least is None or len({row["sharing"] for row in timed}) > 1:
        return []
    assert most is not None
    if least["makespan_ns"] == most["makespan_ns"]:
        return []
    varying = [name for name in _AXES if len({row[name] for row in timed}) > 1]
    times = [duration(row["makespan_ns"]) for row in (least, most)]
    low, high = (
        f"run {row['run']} ({', '.join(_values(row, varying))}) with {time}"
        for row, time in zip((least, most), times, strict=True)
    )
    more = most["makespan_ns"] / least["makespan_ns"] - 1 if least["makespan_ns"] else 0.0
    # If both times have the same four digits, add the difference.
    difference = f", {100 * more:.2g}% more" if times[0] == times[1] else ""
    return [f"Shortest: {low}; longest: {high}{difference}."]


def _values(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the values of a row; engines and routings may have the same names."""
    return [
        f"routing {row[name]}" if name == "routing" else row[name]
        for name in names
        if row[name] is not None
    ]


def reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the reasons why runs have no result, each once: ``runs 3, 4 (does not fit): …``."""
    runs: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.reason:
            key = outcome.status, outcome.reason
            runs.setdefault(key, []).append(str(outcome.run.number))
    return [
        f"run{'s' if len(numbers) > 1 else ''} {', '.join(numbers)} ({status}): {reason}"
        for (status, reason), numbers in runs.items()
    ]


def _settings(experiment: Experiment) -> list[str]:
    """Return the resolved configuration, one line for each part."""
    levels = experiment.level
    left_out = {"fabric", "faults", "job", "output", *TABLES}
    left_out |= {item.key for kind in (Head, RunSettings) for item in settings(kind)} - {
        item.key for kind in (Head, RunSettings) for each in levels for item in settings(kind, each)
    }
    timed = any(level in TIMED for level in levels)
    if not timed:
        left_out.add("max_seconds")
    data = experiment.model_dump(exclude=left_out)
    if data.get("engine", ()) is None:
        data["engine"] = tuple(dict.fromkeys(run.engine for run in experiment.runs if run.engine))
    if data.get("switch_latency", 0) is None:
        data["switch_latency"] = experiment.hardware.switch_latency
    if timed and data["host_parameters"] is None:
        data |= {key: usual for key, usual in USUAL_HOST.items() if data[key] is None}
    if any(level in CHOOSING for level in levels):
        data["policy"] = tuple(dict.fromkeys(run.policy for run in experiment.runs if run.policy))
    lines = [f"fabric: {_pairs(experiment.fabric.model_dump())}"]
    faults = {key: value for key, value in experiment.faults.model_dump().items() if value}
    if faults:
        lines.append(f"faults: {_pairs(faults)}")
    lines.append(f"settings: {_pairs(data)}")
    packets, flits = "packet" in levels, "flit" in levels
    if packets or flits or (timed and experiment.hardware != HardwarePart()):
        only = {key for level in levels for key in OF_LEVEL.get(level, ())} - {"buffer"}
        hardware = experiment.hardware.model_dump(
            include=None if packets else only, exclude={"switch_latency"}
        )
        if "adapter_latency" in hardware and data.get("host_parameters") is None:
            hardware["adapter_latency"] = hardware["adapter_latency"] or 0.0
        lines.append(f"hardware: {_pairs(hardware)}")
    if flits:
        lines.append(f"router: {_pairs(experiment.router.model_dump(), units={})}")
        lines.append(f"adapter: {_pairs(experiment.adapter.model_dump(), units={})}")
    for job in experiment.job:
        lines.append(f"{job.name}: {_pairs(job.model_dump(exclude={'name'}))}")
    return lines


def _pairs(values: Mapping[str, Any], units: Mapping[str, str] = _UNITS) -> str:
    return "; ".join(
        f"{name} {_text(value)}{units.get(name, '')}"
        for name, value in values.items()
        if value not in (None, (), {})
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _details(out: Console, outcome: Outcome) -> None:
    """Print phases and the busiest links of one run."""
    frames = tables(outcome, ("phases", "links", "queues", "hops"))
    phases = frames["phases"].to_dicts()
    if len(phases) > 1:
        several = len({row["job"] for row in phases} - {None}) > 1
        for row in phases:
            row["phase"] = row["phase"] or "(outside phases)"
        columns = _PHASE_SHOWN if several else _PHASE_SHOWN[1:]
        printed = PHASES if len(phases) > PHASES + 1 else len(phases)
        _table(out, "Phases", phases[:printed], columns)
        if len(phases) > printed:
            out.print(f"… and {len(phases) - printed:,} more phases")
    if outcome.run.level in CHOOSING:
        from weft.cli.simulate_packets_text import flit_details, packet_details

        details = packet_details if outcome.run.level == "packet" else flit_details
        details(out, outcome.result, frames)
        return
    links = frames["links"]
    busy = "utilisation" if "utilisation" in links.columns else "busy_ns"
    top = links.filter(pl.col("carried_bytes") > 0).sort(
        [busy, "link"], descending=[True, False], nulls_last=True
    )
    if not len(top):
        out.print("No link carries a byte.")
        return
    table = Table(title="Busiest links", title_justify="left")
    table.add_column("link", overflow="fold")
    for name in ("rate", "bytes", "messages", "busy"):
        table.add_column(name, justify="right")
    for row in top.head(LINKS).iter_rows(named=True):
        table.add_row(
            escape(row["name"]),
            f"{row['rate_gbps']:g} Gb/s",
            as_number(row["carried_bytes"]),
            f"{row['messages']:,.4g}" if row["messages"] < 1e4 else as_number(row["messages"]),
            (duration if busy == "busy_ns" else as_share)(row[busy])
            if row[busy] is not None
            else "",
        )
    out.print(table)


def _table(
    out: Console, title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> None:
    """Print a table of the columns that are not empty and fit the terminal."""
    kept = [
        name
        for name in columns
        if any(row.get(name) is not None for row in rows)
        and not (name == "start_ns" and not any(row[name] for row in rows))
    ]
    cells = {
        name: ["" if row.get(name) is None else _SHOWN[name][1](row[name]) for row in rows]
        for name in kept
    }
    need = {name: max(map(len, (_SHOWN[name][0], *texts))) for name, texts in cells.items()}
    left_out = []
    for name in _DISPENSABLE:
        if table_width(need.values()) > out.width and name in need:
            left_out.append((name, need.pop(name)))
    # Removing a wide column last may have made room for narrower ones removed before it.
    for name, width in reversed(left_out):
        if table_width([*need.values(), width]) <= out.width:
            need[name] = width
    need = {name: need[name] for name in kept if name in need}
    fits = table_width(need.values()) <= out.width
    table = Table(title=title, title_justify="left")
    for name, width in need.items():
        left = name in _LEFT
        table.add_column(
            _SHOWN[name][0],
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=fits or not left,
            min_width=min(width, _NARROWEST) if left else None,
        )
    for at in range(len(rows)):
        table.add_row(*(escape(cells[name][at]) for name in need))
    out.print(table)
