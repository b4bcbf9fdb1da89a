"""Studies of `weft flits`: synthetic traffic at the flit level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import polars as pl
from pydantic import AfterValidator, BeforeValidator, Field

from weft.core.columns import Column
from weft.core.errors import InputError, NotApplicable
from weft.core.settings import Number, Option, Whole, settings
from weft.routing import engine as engines
from weft.routing.routes import Routes
from weft.sim.flit import routing as routings
from weft.sim.flit.router import MOST_CYCLES
from weft.sim.flit.run import LONGEST_DRAIN, simulate_flits
from weft.sim.flit.traffic import Load
from weft.sim.methods import USUAL_ENGINE
from weft.sim.sweep.flits import TRAFFIC_COLUMNS, measured
from weft.study.checks import (
    FABRIC_FILES,
    Files,
    WrongKey,
    check_distinct,
    check_fabric,
    check_policies,
    check_spec,
    check_specs,
)
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.run import LAST
from weft.study.experiment.spec import (
    FabricKeys,
    Names,
    NumberOrText,
    RouterPart,
    can_be,
    table_model,
)
from weft.study.measures import HOSTS, measures, values
from weft.study.open_loop import LoadText, as_loads, methods_of, seeded
from weft.study.runs.task import RunResult
from weft.workload.patterns import pattern as patterns

_COLUMNS = {
    **TRAFFIC_COLUMNS,
    "deadlocked": Column(pl.Boolean, "", "Whether buffers wait for each other in a cycle"),
}
MEASURES = measures(
    {**_COLUMNS, **HOSTS},
    first=("latency_mean_cycles", "accepted_load"),
    lower=[name for name in _COLUMNS if "latency" in name and "ci95" not in name] + ["deadlocked"],
    higher=("accepted_load", "settled"),
    without=("reply", "seed", "load"),
)

_TIMES = [each.name for each in MEASURES if "latency" in each.name]


class FlitsHead(FabricKeys):
    """Fabric and routes of synthetic traffic.

    Parameters
    ----------
    engine
        Routing engines, with options as in ``updn:roots=center``.
    routing
        Routings by coordinates, with options as in ``dor:ties=forward``.
    policy
        Policies that choose among the candidates of an engine's routes, with options.
    load
        Flits that an endpoint generates in a cycle on average, requests only, at most 1. A list, or
        text FIRST:LAST:STEP such as ``0.1:0.9:0.1``.
    latency
        Cycles that a flit is on a link.
    drain
        Most cycles after the measurement in which its packets may arrive.
    router
        Properties of the routers.
    """

    engine: Annotated[
        Names | None, Option(usual=f"{USUAL_ENGINE}, or none if a routing is given")
    ] = None
    routing: Names | None = None
    policy: Annotated[Names | None, Option(usual="the engine's own, or ecmp")] = None
    load: Annotated[
        tuple[Annotated[Number, Field(gt=0, le=1)], ...],
        BeforeValidator(as_loads, json_schema_input_type=LoadText),
        Field(min_length=1),
    ] = (0.1,)
    latency: Annotated[Whole, Field(ge=1, le=MOST_CYCLES)] = 1
    drain: Annotated[
        Annotated[Whole, Field(ge=0, le=LONGEST_DRAIN)] | None,
        Option(usual="ten times warmup and measure"),
    ] = None
    router: Annotated[RouterPart, AfterValidator(can_be)] = RouterPart()


_TRAFFIC = [item for item in settings(Load) if item.field != "rate"]


_Traffic: Any = table_model("Traffic", _TRAFFIC, base=FlitsHead)


class FlitsKeys(_Traffic):  # type: ignore[misc]
    """Synthetic traffic of the flit level.

    Parameters
    ----------
    size
        Flits of a packet, or several sizes with the shares of packets that have them, as in
        ``1:0.8,5:0.2``.
    """

    size: NumberOrText = "1"


def _load(keys: FlitsKeys) -> Load:
    """Return the traffic at the first load."""
    given = {item.field: getattr(keys, item.key) for item in _TRAFFIC}
    return Load(rate=keys.load[0], **{k: v for k, v in given.items() if v is not None})


def points(keys: FlitsKeys, files: Files) -> list[Point]:
    """Return a run for each engine and policy, or routing, and load."""
    check_fabric(keys, files)
    check_specs(engines, keys.engine, files, "engine")
    check_specs(routings, keys.routing, files, "routing")
    check_policies(["flit"], keys.policy)
    check_spec(patterns, keys.pattern, files, "pattern")
    check_distinct(keys.load, "load")
    try:
        _load(keys)
    except InputError as error:
        raise WrongKey.of(error, keys) from None
    single = {"engine", "routing", "policy", "load"}
    common = keys.model_dump(mode="json", exclude_none=True, exclude=single)
    return [
        Point({**method, "load": f"{load:g}"}, {**common, **method, "load": load})
        for each in methods_of(keys, ("flit",))
        for method in [{name: text for name, text in each.items() if name != "level"}]
        for load in keys.load
    ]


def void(found: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return why latencies do not count: they depend on the length of the run."""
    if found.get("deadlocked"):
        return "deadlocked", _TIMES
    return ("", []) if found.get("settled", 1) else ("not settled", _TIMES)


@study_command(
    "flits",
    keys=FlitsKeys,
    points=points,
    measures=MEASURES,
    tables={},
    seeded=seeded,
    void=void,
    files=FABRIC_FILES,
    example={"fabric": "torus:4x4", "routing": "dor", "measure": 500, "load": 0.2},
)
def flits(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Run synthetic traffic cycle by cycle at an offered load, as `weft flits` does."""
    keys, _ = keys_and_tables(FlitsKeys, parameters)
    fabric = LAST.fabric(keys)
    routing: str | Routes | NotApplicable = (keys.routing or ("",))[0]
    if keys.engine:
        routing = LAST.routes(fabric, keys.engine[0], lambda doing: None)
    if isinstance(routing, NotApplicable):
        raise routing
    result = simulate_flits(
        fabric, routing, load=_load(keys), router=keys.router.instance,
        latency=keys.latency, policy=keys.policy[0] if keys.policy else None, drain=keys.drain,
        threads=1,
        progress=lambda now, last: watch(now),
    )  # fmt: skip
    row = measured(result, keys.router.instance)
    row |= {"deadlocked": row["deadlock"] != "", "hosts": fabric.num_hosts}
    return RunResult(values(MEASURES, row))
