"""Studies of `weft compare`: validity and static loads of routing engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import polars as pl
from pydantic import AfterValidator, Field

from weft.advice.compare import PATTERNS, compare, default_engines
from weft.advice.comparison import ENGINE_COLUMNS, RUN_COLUMNS
from weft.core.columns import Column
from weft.core.errors import NotApplicable
from weft.core.settings import Seed, Truth, Whole
from weft.routing import engine as engines
from weft.study.checks import FABRIC_FILES, Files, check_fabric, check_specs, with_seed
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.run import LAST
from weft.study.experiment.spec import FabricKeys, Names
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult
from weft.workload.patterns import pattern as patterns


def _contention(pattern: str) -> str:
    """Return the measure of a pattern with any options."""
    return f"contention_{patterns.parse(pattern)[0].name.replace('-', '_')}"


_COLUMNS = {
    **ENGINE_COLUMNS,
    **{
        _contention(each.name): Column(
            pl.Float64, "flows", f"Largest contention of a link under {each.name}"
        )
        for each in patterns
    },
}
MEASURES = measures(
    _COLUMNS,
    first=("ebb", "max_load"),
    higher=("ebb", "ebb_low", "ebb_high", "valid", "minimal", "used"),
    lower=[
        "max_load", "p99_load", "cv", "mean_hops", "max_hops", "lanes", "unrouted", "deadlock",
        *(name for name in _COLUMNS if name.startswith("contention_")),
    ],
)  # fmt: skip


def _engines(names: tuple[str, ...]) -> tuple[str, ...]:
    """Replace ``all`` by the engines that `weft compare` compares without any."""
    every = tuple(default_engines())
    return tuple(name for given in names for name in (every if given == "all" else (given,)))


class CompareKeys(FabricKeys):
    """A comparison of routing engines, each of which is a run.

    Parameters
    ----------
    engine
        Routing engines, with options as in ``updn:roots=center``; ``all`` selects every engine that
        needs no file, and OpenSM's engines also with OpenSM's own balancing.
    pattern
        Traffic patterns of each run, with options as in ``shift:offset=3``.
    samples
        Number of random bisections.
    two_way
        Whether both halves of a bisection send at the same time.
    seed
        Seed of bisections and random patterns.
    """

    engine: Annotated[Names, AfterValidator(_engines)] = Field(
        default=("all",), validate_default=True
    )
    pattern: Names = PATTERNS
    samples: Annotated[Whole, Field(ge=1)] = 1000
    two_way: Truth = False
    seed: Seed = 0


def points(keys: CompareKeys, files: Files) -> list[Point]:
    """Return a run for each engine."""
    check_fabric(keys, files)
    check_specs(engines, keys.engine, files, "engine")
    check_specs(patterns, keys.pattern, files, "pattern")
    common = keys.model_dump(mode="json", exclude_none=True)
    return [Point({"engine": each}, {**common, "engine": each}) for each in keys.engine]


def draws(parameters: Mapping[str, Any]) -> list[str]:
    """Return the measures of random bisections and random patterns."""
    random = [text for text in parameters["pattern"] if with_seed(text, 0, patterns) != text]
    return ["ebb", "ebb_low", "ebb_high", *map(_contention, random)]


@study_command(
    "compare",
    keys=CompareKeys,
    points=points,
    measures=MEASURES,
    tables={"patterns": RUN_COLUMNS},
    files=FABRIC_FILES,
    draws=draws,
    example={"fabric": "xgft:2;4,4;1,2", "engine": "minhop", "samples": 20},
)
def compare_engine(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Route a fabric with an engine, validate the routes and compute loads, as `weft compare`."""
    keys, wanted = keys_and_tables(CompareKeys, parameters)
    result = compare(
        LAST.fabric(keys), keys.engine, keys.pattern, samples=keys.samples, seed=keys.seed,
        two_way=keys.two_way,
    )  # fmt: skip
    (outcome,) = result.outcomes
    if outcome.refusal:
        raise NotApplicable(outcome.refusal)
    row = result.table.row(0, named=True)
    for each in result.runs_table.iter_rows(named=True):
        name = _contention(each["pattern"])
        row[name] = max(row.get(name, 0.0), each["contention"])
    tables = {"patterns": result.runs_table} if "patterns" in wanted else {}
    return RunResult(values(MEASURES, row), tables)
