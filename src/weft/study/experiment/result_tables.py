"""Tables of the outcomes of an experiment, and descriptions of their columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.sim.common import replay
from weft.sim.common.congestion_matrix import CONGESTION_MATRIX_COLUMNS
from weft.sim.common.rolled_result import RolledReplay
from weft.sim.options import TIMED, Level
from weft.study.experiment.run_level import Outcome
from weft.workload import Kind
from weft.workload.jobs import JobMix
from weft.workload.workload import TrainingStep

_RUN = Column(pl.Int32, "", "Number of the run, from 1")
_JOB = Column(pl.String, "", "Name of the job")

#: Columns on messages; null at levels that do not have them.
_MESSAGES = {
    "messages": Column(pl.Int64, "", "Number of messages"),
    "size_bytes": Column(pl.Int64, "B", "Total size of the messages"),
    "mean_message_ns": Column(
        pl.Float64, "ns", "Mean time from departure to arrival of messages (all levels but static)"
    ),
    "max_message_ns": Column(
        pl.Float64, "ns", "Longest time from departure to arrival (all levels but static)"
    ),
    "mean_slowdown": Column(
        pl.Float64,
        "",
        "Mean slowdown: time from departure to arrival over the time without contention (all "
        "levels but static)",
    ),
    "mean_contention": Column(
        pl.Float64,
        "flows",
        "Mean over messages between hosts of the largest contention on the path, in the phase of "
        "the message (static level; null if routes do not fix paths)",
    ),
    "max_contention": Column(pl.Float64, "flows", "Largest contention (static level)"),
    "bound_ns": Column(
        pl.Float64,
        "ns",
        "Lower bound of the time of consecutive phases: sum over phases of the transfer time of "
        "the busiest link (static level)",
    ),
}

#: Columns on a step of training; null for other workloads.
_STEP = {
    "tokens_per_s": Column(
        pl.Float64,
        "1/s",
        "Tokens of a step of training, divided by its time (all levels but static)",
    ),
    "mfu": Column(
        pl.Float64,
        "",
        "Model FLOPS utilisation: time of the operations of a step of training at the full speed "
        "of all GPUs, divided by the time of the step (all levels but static)",
    ),
}

#: Columns of the table of runs, one row per run.
RUN_COLUMNS: Mapping[str, Column] = {
    "run": _RUN,
    "engine": Column(pl.String, "", "Routing engine, with its options (null: a routing)"),
    "routing": Column(pl.String, "", "Routing by coordinates, with its options (flit level)"),
    "level": Column(pl.String, "", "Level of detail: flow, packet, flit or static"),
    "sharing": Column(pl.String, "", "Sharing model of links (flow level)"),
    "policy": Column(pl.String, "", "Policy that chooses among candidates (packet and flit level)"),
    "workload": Column(pl.String, "", "Workloads of the jobs, joined by +"),
    "placement": Column(pl.String, "", "Placements of the jobs, joined by + unless all are equal"),
    "status": Column(
        pl.String,
        "",
        "Status: complete, partial, stopped, does not fit, out of memory, failed or not run",
    ),
    "reason": Column(pl.String, "", "Reason of a missing or partial result (null if complete)"),
    "makespan_ns": Column(
        pl.Float64,
        "ns",
        "Time from 0 to the end of the last operation or arrival (all levels but static)",
    ),
    "communication_ns": Column(
        pl.Float64,
        "ns",
        "Mean over the ranks of all jobs of the time without calculation until the rank's last "
        "operation (all levels but static)",
    ),
    **_STEP,
    **_MESSAGES,
    "bound_ns": Column(
        pl.Float64,
        "ns",
        "Lower bound of the makespan if the phases of each job are consecutive: largest sum "
        "of start_ns and bound_ns of a job (static level)",
    ),
    "busiest_link": Column(
        pl.String, "", "Link with the largest utilisation (static level: longest transfer time)"
    ),
    "busiest_share": Column(
        pl.Float64,
        "",
        "Utilisation of the busiest link: carried bytes over capacity (flow level), or share of "
        "the time in which the link sends (packet and flit level)",
    ),
    "end_ns": Column(
        pl.Float64,
        "ns",
        "Simulated time at the end of the run, complete or partial (packet and flit level)",
    ),
    "packets": Column(
        pl.Int64, "", "Number of injected packets, including control packets (packet level)"
    ),
    "in_flight_packets": Column(
        pl.Int64, "", "Number of packets not delivered at the end (packet level; 0 if complete)"
    ),
    "packet_hops": Column(pl.Int64, "", "Total number of hops of all packets (packet level)"),
    "skipped_hops": Column(
        pl.Int64, "", "Number of these hops that were skipped (packet level with fast_forward)"
    ),
    "flit_hops": Column(pl.Int64, "", "Total number of hops of all flits (flit level)"),
    "mean_wait_ns": Column(
        pl.Float64,
        "ns",
        "Mean wait per hop: from the time at which a packet could leave without contention to its "
        "departure (packet level)",
    ),
    "early_packets": Column(
        pl.Int64,
        "",
        "Number of early packets, which arrived before a packet sent earlier, so that receivers "
        "kept them (packet level; null if the policy preserves order)",
    ),
    "most_held_bytes": Column(
        pl.Int64,
        "B",
        "Most bytes of early packets kept for one queue of a pair of ranks (packet level)",
    ),
    "reordering_ns": Column(
        pl.Float64, "ns", "Total time for which receivers kept early packets (packet level)"
    ),
}

#: Columns of the table of jobs, one row per job of each run with a result.
JOB_COLUMNS: Mapping[str, Column] = {
    "run": _RUN,
    "job": _JOB,
    "workload": Column(pl.String, "", "Workload of the job, with all options"),
    "placement": Column(pl.String, "", "Placement of the job, as given"),
    "ranks": Column(pl.Int32, "", "Number of ranks"),
    "hosts": Column(pl.Int32, "", "Number of hosts that run the ranks"),
    "machines": Column(pl.Int32, "", "Number of machines of these hosts (null: as many)"),
    "start_ns": Column(pl.Float64, "ns", "Start time of the job"),
    "end_ns": Column(
        pl.Float64, "ns", "End of the job's last operation or arrival (all levels but static)"
    ),
    "time_ns": Column(pl.Float64, "ns", "Time from start to end (all levels but static)"),
    "calculation_ns": Column(
        pl.Float64,
        "ns",
        "Mean over ranks of the time in which a calculation runs (all levels but static)",
    ),
    "communication_ns": Column(
        pl.Float64,
        "ns",
        "Mean over ranks of the time without calculation until the rank's last operation (all "
        "levels but static)",
    ),
    **_STEP,
    **_MESSAGES,
}

_OF_RANKS = {"source_rank", "destination_rank", "rank"}


def _with_job(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns of a level's table with run and job; ranks are numbered in the job."""
    own = {
        name: column._replace(meaning=f"{column.meaning.rstrip('.')}, numbered in its job")
        if name in _OF_RANKS
        else column
        for name, column in columns.items()
    }
    return {"run": _RUN, "job": _JOB, **own}


_HOST_NAME = Column(pl.String, "", "Label of the host")
_PLACED = {name: replay.RANK_COLUMNS[name] for name in ("rank", "host")}

#: Names of the tables of runs.
TABLES = ("phases", "messages", "ranks", "links", "queues", "congestion", "hops", "series")
#: Levels in the order in which their columns are described.
LEVELS: tuple[Level, ...] = (*TIMED, "static")


@cache
def columns_of(level: Level) -> Mapping[str, Mapping[str, Column]]:
    """Return the columns of each table of a level."""
    if level == "static":
        from weft.sim.static import phases as static

        return {
            "phases": _with_job(static.PHASE_COLUMNS),
            "messages": _with_job(static.MESSAGE_COLUMNS),
            "ranks": _with_job({**_PLACED, "host_name": _HOST_NAME}),
            "links": {"run": _RUN, **static.LINK_COLUMNS},
        }
    own: Mapping[str, Mapping[str, Column]]
    if level == "packet":
        from weft.study.experiment.packet_tables import COLUMNS

        own = COLUMNS
    elif level == "flit":
        from weft.sim.flit.workloads import LINK_COLUMNS

        own = {"links": LINK_COLUMNS, "congestion": CONGESTION_MATRIX_COLUMNS}
    else:
        from weft.sim.flow.result import LINK_COLUMNS

        own = {"links": LINK_COLUMNS}
    return {
        "phases": _with_job(replay.PHASE_COLUMNS),
        "messages": _with_job(replay.MESSAGE_COLUMNS),
        "ranks": _with_job({**_PLACED, "host_name": _HOST_NAME, **replay.RANK_COLUMNS}),
        **{
            name: _with_job(columns) if name == "hops" else {"run": _RUN, **columns}
            for name, columns in own.items()
        },
    }


def run_row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of a run in the table of runs."""
    run = outcome.run
    row: dict[str, Any] = dict.fromkeys(RUN_COLUMNS)
    row |= {
        "run": run.number,
        **run.axes,
        "status": outcome.status,
        "reason": outcome.reason or None,
    }
    result, mix = outcome.result, outcome.mix
    if result is None or mix is None:
        return row
    if isinstance(result, RolledReplay):
        step = _step(mix.steps[0], result.makespan_ns)
        summary = result.summary().items()
        row |= step | {key: value for key, value in summary if row.get(key, "") is None}
        return row | (_packets(result) if run.level == "packet" else {})
    every = np.ones(len(mix.workload.messages), dtype=bool)
    if run.level == "static":
        row |= _static(result, every, np.arange(len(mix.workload.phase_names)))
        row["bound_ns"] = max(job["start_ns"] + job["bound_ns"] for job in job_rows(outcome))
        busiest = result.links().sort("busy_ns", descending=True, maintain_order=True).head(1)
        if len(busiest) and busiest["busy_ns"][0]:
            row["busiest_link"] = result.fabric.link_name(int(busiest["link"][0]))
        return row
    row |= result.figures(every)
    if outcome.status == "complete":
        calculation, until = _times(result)
        row |= {
            "makespan_ns": result.makespan_ns,
            "communication_ns": float(
                np.mean(until - mix.start_ns[mix.job] - calculation) if len(until) else 0.0
            ),
        }
        if len(mix.names) == 1:
            row |= _step(mix.steps[0], result.makespan_ns - float(mix.start_ns[0]))
    if run.level == "packet":
        row |= _packets(result)
    if run.level == "flit":
        row |= {"end_ns": result.end_ps / 1000, "flit_hops": result.flit_hops}
    busiest = result.links().sort("utilisation", descending=True, nulls_last=True).head(1)
    if len(busiest) and busiest["utilisation"][0]:
        row["busiest_link"] = busiest["name"][0]
        row["busiest_share"] = busiest["utilisation"][0]
    return row


def _packets(result: Any) -> dict[str, Any]:
    """Return the packet columns of the table of runs."""
    from weft.study.experiment.packet_tables import row

    return row(result)


def job_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the rows of a run in the table of jobs; no rows if the run has no result."""
    result, mix = outcome.result, outcome.mix
    if result is None or mix is None:
        return []
    work = mix.workload
    rolled = isinstance(result, RolledReplay)  # of one job, from time 0
    job_of_message: Any = None if rolled else mix.job[work.rank[work.messages]]
    timed = not rolled and outcome.run.level != "static"
    calculation, until = _times(result) if timed else (None, None)
    rows = []
    for number, name in enumerate(mix.names):
        ranks = slice(int(mix.first_rank[number]), int(mix.first_rank[number + 1]))
        mine = job_of_message == number
        start = float(mix.start_ns[number])
        row: dict[str, Any] = dict.fromkeys(JOB_COLUMNS)
        row |= {
            "run": outcome.run.number,
            "job": name,
            "workload": mix.workloads[number],
            "placement": outcome.run.jobs[number][1],
            "ranks": ranks.stop - ranks.start,
            "hosts": len(np.unique(mix.hosts[ranks])),
            "start_ns": start,
        }
        machines = len(np.unique(result.fabric.machine_of_host[mix.hosts[ranks]]))
        row["machines"] = machines if machines < row["hosts"] else None
        if rolled:
            end = result.makespan_ns
            row |= {"end_ns": end, "time_ns": end, **result.figures(), **_step(mix.steps[0], end)}
        elif outcome.run.level == "static":
            phases = np.arange(mix.first_phase[number], mix.first_phase[number + 1])
            row |= _static(result, mine, phases)
        elif outcome.status != "complete":
            row |= result.figures(mine)
        elif calculation is not None and until is not None:
            arrived = result.arrived_ns[work.messages[mine]].max(initial=start)
            end = max(float(until[ranks].max(initial=start)), float(arrived))
            row |= result.figures(mine)
            row |= {
                "end_ns": end,
                "time_ns": end - start,
                "calculation_ns": float(calculation[ranks].mean()),
                "communication_ns": float((until[ranks] - start - calculation[ranks]).mean()),
                **_step(mix.steps[number], end - start),
            }
        rows.append(row)
    return rows


def brief(outcome: Outcome) -> Outcome:
    """Return the outcome with its rows of the tables, but without the result and the jobs."""
    jobs = tuple(job_rows(outcome))
    return replace(outcome, row=run_row(outcome), jobs=jobs, result=None, mix=None)


def of_columns(columns: Mapping[str, Column], rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a frame of the rows."""
    listed = list(rows)
    return frame(columns, {name: [row[name] for row in listed] for name in columns})


def tables(outcome: Outcome, only: Collection[str] = TABLES) -> dict[str, pl.DataFrame]:
    """Return those tables of one run whose names are in `only`."""
    result, mix = outcome.result, outcome.mix
    if result is None or mix is None:
        return {}
    makers: dict[str, Callable[[], pl.DataFrame]] = {
        "phases": result.phases,
        "messages": result.messages,
        "links": result.links,
    }
    if outcome.run.level == "static":
        numbers = np.arange(len(mix.hosts), dtype=np.int32)
        makers["ranks"] = lambda: pl.DataFrame({"rank": numbers, "host": mix.hosts})
    else:
        makers["ranks"] = result.ranks
    if isinstance(result, RolledReplay):
        del makers["messages"]
    if outcome.run.level == "packet":
        from weft.study.experiment.packet_tables import makers as packet_makers

        makers |= packet_makers(result)
    if outcome.run.level == "flit":
        makers["congestion"] = result.congestion_matrix
    frames = {name: make() for name, make in makers.items() if name in only}
    names = np.array(mix.names, dtype=object)
    work = mix.workload
    phases: dict[str, tuple[str | None, str]] = {
        name: _own_phase(mix, at) for at, name in enumerate(work.phase_names)
    }
    if outcome.run.level == "static":
        from weft.sim.static.phases import TOGETHER

        phases[TOGETHER] = None, TOGETHER
    new: dict[str, list[pl.Series]] = {
        name: [] for name in ("links", "queues", "congestion", "series")
    }
    if "messages" in frames:
        new["messages"] = [pl.Series("job", names[mix.job[work.rank[work.messages]]].tolist())]
    if "hops" in frames:
        of_hops = work.rank[frames["hops"]["message"].to_numpy()]
        new["hops"] = [pl.Series("job", names[mix.job[of_hops]].tolist())]
    if "ranks" in frames:
        hosts = np.array(result.fabric.host_names, dtype=object)
        new["ranks"] = [
            pl.Series("job", names[mix.job].tolist()),
            pl.Series("host_name", hosts[mix.hosts].tolist()),
        ]
    if "phases" in frames:
        jobs = [phases[name][0] for name in frames["phases"]["phase"]]
        new["phases"] = [pl.Series("job", jobs, pl.String)]
    own = {name: phase for name, (_, phase) in phases.items()}
    run = pl.lit(outcome.run.number, pl.Int32).alias("run")
    return {
        name: table.with_columns(
            run,
            *new[name],
            *(pl.col("phase").replace(own) for _ in range("phase" in table.columns)),
            *(
                pl.Series(column, mix.rank_in_job[table[column].to_numpy()], dtype=pl.Int32)
                for column in sorted(_OF_RANKS & set(table.columns))
            ),
        ).select(list(columns_of(outcome.run.level)[name]))
        for name, table in frames.items()
    }


def _own_phase(mix: JobMix, phase: int) -> tuple[str, str]:
    """Return the job of a phase and the name of the phase in the job."""
    job = mix.names[int(np.searchsorted(mix.first_phase, phase, side="right")) - 1]
    name = mix.workload.phase_names[phase]
    if len(mix.names) > 1:
        name = "" if name == job else name.removeprefix(f"{job}: ")
    return job, name


def _static(
    result: Any, mine: NDArray[np.bool_], phases: NDArray[np.integer[Any]]
) -> dict[str, Any]:
    """Return the static columns of the messages of some phases."""
    work = result.workload
    ops = work.messages[mine]
    away = result.fabric.apart(result.host[work.rank[ops]], result.host[work.peer[ops]])
    contention = result.contention[mine][away] if len(result.contention) else np.zeros(0)
    names = [work.phase_names[phase] for phase in phases]
    rows = result.phases().filter(pl.col("phase").is_in(names))
    return {
        "messages": len(ops),
        "size_bytes": int(work.size_bytes[ops].sum()),
        "mean_contention": float(contention.mean()) if len(contention) else None,
        "max_contention": rows["max_contention"].max(),
        "bound_ns": float(rows["bound_ns"].sum()),
    }


def _step(step: TrainingStep | None, time_ns: float) -> dict[str, float]:
    """Return the columns of a step of training that takes a time."""
    if step is None or not time_ns:
        return {}
    return {"tokens_per_s": step.tokens / time_ns * 1e9, "mfu": step.peak_ns / time_ns}


def _times(result: replay.Replay) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each rank the time in which calculations run and the end of its last operation."""
    work = result.workload
    until = np.zeros(work.num_ranks)
    np.maximum.at(until, work.rank, result.ended_ns)
    calc = np.flatnonzero((work.kind == Kind.CALC) & (work.duration_ns > 0))
    rank, begin, end = work.rank[calc], result.posted_ns[calc], result.ended_ns[calc]
    if len(work.cpu):
        # Calculations on several processors may overlap: count only time not covered before.
        order = np.lexsort((begin, rank))
        rank, begin, end = rank[order], begin[order], end[order]
        shift = rank * (result.makespan_ns + 1.0)
        covered = np.maximum.accumulate(end + shift)
        begin = np.maximum(begin, np.concatenate(([-np.inf], covered[:-1])) - shift)
        end = np.maximum(begin, end)
    time: NDArray[Any] = np.bincount(rank, weights=end - begin, minlength=work.num_ranks)
    return time.astype(np.float64), until
