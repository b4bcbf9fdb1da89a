"""Studies of `weft sweep`: latency and accepted load over offered load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from weft.core.errors import InputError
from weft.core.settings import Number
from weft.sim.sweep import SWEEP_COLUMNS
from weft.sim.sweep.loads import LOADS, run_load
from weft.sim.sweep.series import table
from weft.sim.sweep.settings import LOAD_STEP
from weft.study.checks import FABRIC_FILES, Files, check_distinct
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.run import LAST
from weft.study.measures import HOSTS, measures, values
from weft.study.open_loop import LoadText, OpenLoopKeys, as_loads, seeded
from weft.study.runs.task import RunResult

MEASURES = measures(
    {**SWEEP_COLUMNS, **HOSTS},
    first=("latency_mean_ns", "accepted_load", "latency_p99_ns"),
    lower=[
        name for name in SWEEP_COLUMNS
        if name.startswith("latency_") and not name.endswith(("ci95", "ci95_ns", "trend"))
    ],
    higher=("accepted_load",),
    without=("size_bytes", "rate_gbps", "load", "seed"),
)  # fmt: skip

_TIMES = [each.name for each in MEASURES if each.name.startswith("latency_")]


Load = Annotated[Number, Field(ge=LOAD_STEP, allow_inf_nan=False)]


class SweepKeys(OpenLoopKeys):
    """Open-loop traffic at several loads.

    Parameters
    ----------
    load
        Offered loads: mean rates of a source divided by its rate at load 1. A list, or text
        FIRST:LAST:STEP such as ``0.1:0.9:0.1``.
    """

    load: Annotated[
        tuple[Load, ...],
        BeforeValidator(as_loads, json_schema_input_type=LoadText),
        Field(min_length=1),
    ] = LOADS


def points(keys: SweepKeys, files: Files) -> list[Point]:
    """Return a run for each engine and policy, or routing, and load."""
    keys.check(files)
    check_distinct(keys.load, "load")
    common = keys.model_dump(mode="json", exclude_none=True, exclude={"load"})
    return [
        Point(
            {**keys.axes(method), "load": f"{load:g}"},
            {**keys.parameters(method, common), "load": load},
        )
        for method in keys.methods()
        for load in keys.load
    ]


def void(found: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return why latencies do not count: they depend on the length of the run."""
    if found.get("saturated"):
        return "saturated", _TIMES
    return ("cut off", _TIMES) if found.get("censored") else ("", [])


@study_command(
    "sweep",
    keys=SweepKeys,
    points=points,
    measures=MEASURES,
    tables={"loads": SWEEP_COLUMNS},
    files=(*FABRIC_FILES, "coefficients", "host_parameters"),
    seeded=seeded,
    void=void,
    example={
        "fabric": "xgft:2;4,4;1,2", "engine": "dmodk", "load": 0.3, "measure": "20us",
    },
)  # fmt: skip
def sweep(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Measure latency and accepted load at an offered load, as `weft sweep` does."""
    keys, wanted = keys_and_tables(SweepKeys, parameters)
    series = keys.configuration(LAST)
    (load,) = keys.load
    row = series.row(0, "run") | {"hosts": series.fabric.num_hosts}
    row |= {"load": load, "seed": series.seed_of(load), **run_load(series, (0, load), watch)}
    if row["status"] == "failed":
        raise InputError(row["reason"])
    tables = {"loads": table(SWEEP_COLUMNS, [row])} if "loads" in wanted else {}
    return RunResult(values(MEASURES, row), tables)
