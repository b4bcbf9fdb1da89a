"""What an experiment file may say, and a run of `weft simulate` by flags as well."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from weft.errors import InputError
from weft.routing import engine as engines
from weft.sim.flow.network import Multipath
from weft.sim.flow.sharing import Sharing
from weft.sim.static import Ports
from weft.units import Bytes, Nanoseconds

#: More runs than anybody reads the table of.
MAX_RUNS = 10_000

#: Keys that matter at the flow level only.
FLOW_ONLY = (
    "tolerance", "eager", "handshake", "overhead", "switch_latency", "latency", "local_gbps",
    "local_latency", "coefficients", "multipath", "seed", "max_time", "max_seconds",
)  # fmt: skip

Level = Literal["flow", "static"]
Overlap = Literal["refuse", "share"]


def _listed(value: Any) -> Any:
    """One thing where a list of things may stand."""
    return (value,) if isinstance(value, str) else value


def _source(value: Any) -> Any:
    if isinstance(value, str):
        return {"source": value}
    if not isinstance(value, dict | FabricPart):
        raise ValueError("expected a spec, a file, or a table with source")
    return value


def _strict(value: Any) -> Any:
    """A truth value is no number, and no number is a truth value."""
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def _truth(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _no_keys(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a workload, of which none has a key of its own."""
    for name in ("format", "ranks", "num_ranks", "spec_or_path"):
        if name in options:
            raise ValueError(f"{name} is no option of a workload; the job has keys for it")
    return options


def _quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number, or text with a unit")
    return value


def _tables(value: Any) -> Any:
    """A list of tables, which people like to write as one."""
    if not isinstance(value, list | tuple):
        raise ValueError("expected [[job]], once for each job")
    return value


Size = Annotated[Bytes, BeforeValidator(_quantity)]
Time = Annotated[Nanoseconds, BeforeValidator(_quantity)]
Whole = Annotated[int, BeforeValidator(_strict)]
Number = Annotated[float, BeforeValidator(_strict)]
Truth = Annotated[bool, BeforeValidator(_truth)]
Seed = Annotated[Whole, Field(ge=0)]
Positive = Annotated[Whole, Field(ge=1)]


class Part(BaseModel):
    """A table of an experiment file: nothing unknown, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


Names = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]


def _engines(names: tuple[str, ...]) -> tuple[str, ...]:
    """``all`` stands for every engine that needs nothing but the fabric."""
    every = tuple(entry.name for entry in engines if "needs" not in entry.facts)
    return tuple(name for given in names for name in (every if given == "all" else (given,)))


class FabricPart(Part):
    """Which fabric: ``fabric = "torus:4x4"``, or a table of its own."""

    source: str = Field(min_length=1)
    format: str | None = None
    names: str | None = None


class FaultsPart(Part):
    """What to break in the fabric."""

    cables: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    slow: dict[str, str] = Field(default_factory=dict)
    random_cables: Seed = 0
    random_switches: Seed = 0
    seed: Seed = 0


class JobPart(Part):
    """One job. Lists are compared: each item makes runs of its own."""

    name: Annotated[str, Field(min_length=1, max_length=80)] = "job"
    workload: Names
    format: str | None = None
    options: Annotated[
        dict[str, str | Number | Truth | tuple[str, ...]], AfterValidator(_no_keys)
    ] = Field(default_factory=dict)
    ranks: Positive | None = None
    placement: Names = ("linear",)
    ranks_per_host: Positive | None = None
    distribution: str | None = None
    hosts: Names | None = None
    start: Time = 0.0


class OutputPart(Part):
    """Where results go."""

    folder: Annotated[str, Field(min_length=1)] | None = None
    format: Literal["parquet", "csv"] = "parquet"
    messages: Truth = True


class Experiment(Part):
    """A whole experiment. Lists of engines, levels and laws are compared.

    What is called as an argument of `weft.simulate` without its unit is that argument.

    Parameters
    ----------
    fabric, faults
        What everything runs on.
    engine, level, sharing
        Each combination is a run; the law of sharing matters at the flow level only.
    tolerance, eager, handshake, overhead, switch_latency, latency, local_gbps, local_latency
        Of the flow level.
    coefficients
        File of coefficients of the penalty law that `weft calibrate` wrote; InfiniBand's without.
    multipath, seed
        Of routes that leave a choice, at the flow level.
    ports
        Which port of a host with several.
    overlap
        Whether two jobs may run on one host.
    max_time
        Simulated time after which a run is stopped.
    max_seconds
        Time on the clock after which a run is stopped.
    job
        The jobs, in the order in which they are placed.
    output
        Where results go.
    """

    fabric: Annotated[FabricPart, BeforeValidator(_source)]
    faults: FaultsPart = FaultsPart()
    engine: Annotated[Names, AfterValidator(_engines)] = ("minhop",)
    level: Annotated[tuple[Level, ...], BeforeValidator(_listed), Field(min_length=1)] = ("flow",)
    sharing: Annotated[tuple[Sharing, ...], BeforeValidator(_listed), Field(min_length=1)] = (
        "maxmin",
    )
    tolerance: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    eager: Size = 16384
    handshake: Truth = True
    overhead: Time = 0.0
    switch_latency: Time = 100.0
    latency: Time | None = None
    local_gbps: Annotated[Number, Field(gt=0)] = 100.0
    local_latency: Time = 200.0
    coefficients: str | None = None
    multipath: Multipath = "split"
    ports: Ports = "first"
    seed: Seed = 0
    overlap: Overlap = "refuse"
    max_time: Time | None = None
    max_seconds: Annotated[Number, Field(gt=0)] | None = None
    job: Annotated[tuple[JobPart, ...], BeforeValidator(_tables), Field(min_length=1)]
    output: OutputPart = OutputPart()

    @property
    def flow_options(self) -> dict[str, Any]:
        """Arguments of `weft.simulate` but for the law of sharing and its coefficients."""
        return {
            "eager_bytes": self.eager,
            "handshake": self.handshake,
            "overhead_ns": self.overhead,
            "switch_latency_ns": self.switch_latency,
            "latency_ns": self.latency,
            "local_gbps": self.local_gbps,
            "local_latency_ns": self.local_latency,
            "multipath": self.multipath,
            "ports": self.ports,
            "seed": self.seed,
            "tolerance": self.tolerance,
            "max_time_ns": self.max_time,
        }

    @model_validator(mode="after")
    def _coefficients_are_used(self) -> Self:
        if self.coefficients is not None and not (
            "flow" in self.level and "penalty" in self.sharing
        ):
            raise ValueError("coefficients are of the law of sharing penalty, which does not run")
        return self

    @model_validator(mode="before")
    @classmethod
    def _default_names(cls, data: Any) -> Any:
        """Jobs without a name are job1, job2 and so on."""
        jobs = data.get("job") if isinstance(data, dict) else None
        if not isinstance(jobs, list | tuple):
            return data
        named = [
            {"name": f"job{number}", **job} if isinstance(job, dict) else job
            for number, job in enumerate(jobs, 1)
        ]
        return {**data, "job": named}

    @property
    def runs(self) -> list[Run]:
        """Every combination of what is listed.

        Raises
        ------
        InputError
            When there are more than `MAX_RUNS`.
        """
        jobs = [list(itertools.product(job.workload, job.placement)) for job in self.job]
        engines = tuple(dict.fromkeys(self.engine))
        count = len(engines) * len(self._levels)
        for choices in jobs:
            count *= len(choices)
        if count > MAX_RUNS:
            raise InputError(f"the lists combine to {count:,} runs; at most {MAX_RUNS:,} are made")
        return [
            Run(number, engine, level, sharing, tuple(choice))
            for number, (choice, engine, (level, sharing)) in enumerate(
                itertools.product(itertools.product(*jobs), engines, self._levels), 1
            )
        ]

    @property
    def _levels(self) -> list[tuple[Level, Sharing | None]]:
        """Levels, each with the laws that it knows."""
        laws: dict[Level, tuple[Sharing | None, ...]] = {"static": (None,), "flow": self.sharing}
        pairs = [(level, law) for level in self.level for law in laws[level]]
        return list(dict.fromkeys(pairs))


@dataclass(frozen=True)
class Run:
    """One combination: an engine, a level, and the workload and placement of each job."""

    number: int
    engine: str
    level: Level
    sharing: Sharing | None
    jobs: tuple[tuple[str, str], ...]

    @property
    def workloads(self) -> str:
        """Workloads of the jobs, as one text."""
        return " + ".join(workload for workload, _ in self.jobs)

    @property
    def placements(self) -> str:
        """Placements of the jobs, as one text; where all have one, it once."""
        placements = [placement for _, placement in self.jobs]
        return placements[0] if len(set(placements)) == 1 else " + ".join(placements)
