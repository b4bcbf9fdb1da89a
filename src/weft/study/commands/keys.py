"""Studies of `weft keys`: contention of routing keys beside that of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import polars as pl

from weft.core.columns import Column, frame
from weft.core.errors import NotApplicable
from weft.core.settings import Option, Positive, Seed
from weft.routing import engine as engines
from weft.sim.keys.key_set import workload_keys
from weft.sim.keys.make import Colours, Method
from weft.sim.keys.network import key_network
from weft.sim.static.loads import flow_loads, host_flows, inner_links, relative_loads
from weft.study.checks import (
    FABRIC_FILES,
    WORKLOADS,
    Files,
    check_distinct,
    check_fabric,
    check_specs,
    check_workload_text,
    seeded,
    with_seed,
)
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.run import LAST
from weft.study.experiment.spec import FabricKeys, Names
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult
from weft.workload import load_workload
from weft.workload.placement import placement as placements

_COLUMNS = {
    "contention": Column(
        pl.Float64, "", "Largest load of a link between switches over its rate, of all keys"
    ),
    "engine_contention": Column(
        pl.Float64, "", "The same of the flows of a key with the routes of the engine"
    ),
    "contention_bound": Column(pl.Float64, "", "Largest lower bound for any routing"),
    "mean_contention": Column(pl.Float64, "", "Mean contention of the keys"),
    "mean_engine_contention": Column(
        pl.Float64, "", "Mean contention of the flows of the keys with the routes of the engine"
    ),
    "optimal": Column(pl.Float64, "share", "Keys whose contention is their lower bound"),
    "colours": Column(pl.Int64, "", "Largest number of colours of a key"),
    "keys": Column(pl.Int64, "", "Number of keys"),
    "flows": Column(pl.Int64, "", "Number of flows of all keys"),
}
MEASURES = measures(
    _COLUMNS,
    lower=(
        "contention", "engine_contention", "contention_bound", "mean_contention",
        "mean_engine_contention", "colours",
    ),
    higher=("optimal",),
)  # fmt: skip
KEY_COLUMNS = {
    "key": Column(pl.String, "", "Name of the key"),
    "flows": Column(pl.Int64, "", "Number of flows"),
    "colours": Column(pl.Int64, "", "Number of colours"),
    "contention": Column(pl.Float64, "", "Largest load of a link between switches over its rate"),
    "contention_bound": Column(pl.Float64, "", "Lower bound for any routing"),
    "engine_contention": Column(pl.Float64, "", "Contention with the routes of the engine"),
}


class KeysKeys(FabricKeys):
    """Routing keys of workloads. Each combination of workload, placement and engine is a run.

    Parameters
    ----------
    workload
        Workloads, such as ``cartesian`` or ``transpose``. Each key that a workload requests, or
        each phase, is one key.
    ranks
        Number of ranks.
    placement
        Placements of the ranks.
    engine
        Engines whose contention is compared.
    method
        ``exact``: the fewest colours possible; ``greedy``: as in the paper.
    colours
        ``fewest``, or ``all``: spread the flows over all switches above.
    seed
        Seed of the keys.
    """

    workload: Names
    ranks: Annotated[Positive | None, Option(usual="one per host")] = None
    placement: Names = ("linear",)
    engine: Names = ("dmodk",)
    method: Method = "exact"
    colours: Colours = "fewest"
    seed: Seed = 0


def points(keys: KeysKeys, files: Files) -> list[Point]:
    """Return a run for each workload, placement and engine."""
    check_fabric(keys, files)
    for number, text in enumerate(keys.workload):
        check_workload_text(text, files, "workload", number)
    check_distinct(keys.workload, "workload")
    check_specs(placements, keys.placement, files, "placement")
    check_specs(engines, keys.engine, files, "engine")
    common = keys.model_dump(mode="json", exclude_none=True)
    found = []
    for workload in keys.workload:
        for placement in keys.placement:
            for engine in keys.engine:
                axes = {"workload": workload, "placement": placement, "engine": engine}
                found.append(Point(axes, {**common, **axes}))
    return found


def with_seeds(
    parameters: Mapping[str, Any], given: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Put a seed into parameters, except where `given` has one."""
    changed = seeded(parameters, given, seed)
    changed["workload"] = with_seed(changed["workload"], seed, *WORKLOADS)
    changed["placement"] = with_seed(changed["placement"], seed, placements)
    return changed


@study_command(
    "keys",
    keys=KeysKeys,
    points=points,
    measures=MEASURES,
    tables={"keys": KEY_COLUMNS},
    seeded=with_seeds,
    files=(*FABRIC_FILES, "workload"),
    example={
        "fabric": "xgft:2;8,8;1,4", "workload": "random-permutation", "placement": "random",
    },
)  # fmt: skip
def routing_keys(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Make routing keys, as `weft keys` does, and compare their contention with an engine's."""
    keys, wanted = keys_and_tables(KeysKeys, parameters)
    fabric = LAST.fabric(keys)
    ranks = len(key_network(fabric).hosts) if keys.ranks is None else keys.ranks
    work = load_workload(keys.workload[0], ranks)
    made = workload_keys(
        fabric, work, keys.placement[0], method=keys.method, colours=keys.colours, seed=keys.seed
    ).keys
    if not made:
        raise NotApplicable(f"{keys.workload[0]} has no flows between hosts")
    routes = LAST.routes(fabric, keys.engine[0], lambda doing: None)
    if isinstance(routes, NotApplicable):
        raise routes
    inner = inner_links(fabric)
    rows = []
    for key in made:
        watch(None)
        flows = host_flows(fabric, key.sources, key.destinations, lmc=routes.lmc)
        loads = relative_loads(fabric, flow_loads(fabric, routes, flows).per_link)[inner]
        rows.append((key.name, len(key.sources), key.num_colours, key.contention,
                     key.contention_bound, float(loads.max(initial=0.0))))  # fmt: skip
    table = dict(zip(KEY_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    contention, bound = np.array(table["contention"]), np.array(table["contention_bound"])
    row = {
        "contention": float(contention.max()),
        "engine_contention": max(table["engine_contention"]),
        "contention_bound": float(bound.max()),
        "mean_contention": float(contention.mean()),
        "mean_engine_contention": float(np.mean(table["engine_contention"])),
        "optimal": float((contention <= bound * (1 + 1e-9)).mean()),
        "colours": max(table["colours"]),
        "keys": len(made),
        "flows": sum(table["flows"]),
    }
    tables = {"keys": frame(KEY_COLUMNS, table)} if "keys" in wanted else {}
    return RunResult(values(MEASURES, row), tables)
