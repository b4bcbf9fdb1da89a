"""What an experiment file may say, and a run of `weft simulate` by flags as well."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    model_validator,
)

from weft.core.errors import InputError
from weft.core.settings import (
    Number,
    Option,
    Positive,
    Setting,
    Truth,
    is_listed,
    pairs_of,
    settings,
)
from weft.core.units import Nanoseconds
from weft.fabrics.faults import Faults
from weft.fabrics.load import Source
from weft.routing import engine as engines
from weft.sim.flow.sharing import Sharing
from weft.sim.options import NO_CHOICE, Level, RunSettings
from weft.sim.packet.hardware import LONGEST_NS, WRITTEN, hardware_of
from weft.sim.packet.limits import LONGEST_OPTIONS_NS
from weft.sim.packet.policies import policy as policies

#: More runs than anybody reads the table of.
MAX_RUNS = 10_000

Overlap = Literal["refuse", "share"]


def _listed(value: Any) -> Any:
    """One thing where a list of things may stand."""
    return (value,) if isinstance(value, str) else value


def _source(value: Any) -> Any:
    if isinstance(value, str):
        return {"source": value}
    if not isinstance(value, dict | Part):
        raise ValueError("expected a spec, a file, or a table with source")
    return value


def _no_keys(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a workload, of which none has a key of its own."""
    for name in ("format", "ranks", "num_ranks", "spec_or_path"):
        if name in options:
            raise ValueError(f"{name} is no option of a workload; the job has keys for it")
    return options


def _tables(value: Any) -> Any:
    """A list of tables, which people like to write as one."""
    if not isinstance(value, list | tuple):
        raise ValueError("expected [[job]], once for each job")
    return value


class Part(BaseModel):
    """A table of an experiment file: nothing unknown, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    #: Makes what the keys say, in Python.
    make: ClassVar[Callable[[Mapping[str, Any]], Any]]

    @property
    def made(self) -> Any:
        """What the table says, in Python."""
        return type(self).make({key: getattr(self, key) for key in type(self).model_fields})


def _countable(value: float | None, about: ValidationInfo) -> float | None:
    """A time that picoseconds of 64 bits can count, where packets run."""
    longest = LONGEST_OPTIONS_NS.get(f"{about.field_name}_ns", LONGEST_NS)
    if value is not None and value > longest and "packet" in about.data.get("level", ()):
        raise ValueError(f"expected at most {longest:.4g} ns at the packet level")
    return value


def _key(item: Setting) -> tuple[Any, Any]:
    """Type and default of a setting's key."""
    hint = item.option.written or item.hint
    default = ... if item.default is MISSING else item.default
    if item.option.written is not None:
        kinds = get_args(item.option.written)
        if not isinstance(default, str) or default not in kinds:
            default = () if is_listed(item) else None
            hint = hint if is_listed(item) else hint | None
    if item.option.compared:
        # One where nothing is listed that depends on other things.
        default = None if default is None else (default,)
        hint = Annotated[tuple[hint, ...], BeforeValidator(_listed), Field(min_length=1)]  # type: ignore[valid-type]
        hint = hint | None if default is None else hint
    if item.field.endswith("_ns") and item.of("packet") and item.option.levels:
        hint = Annotated[hint, AfterValidator(_countable)]
    return hint, default


def _table(
    name: str, items: Any, make: Callable[[Mapping[str, Any]], Any], base: Any = Part
) -> Any:
    """A table of an experiment file with a key for each setting."""
    keys: Any = {item.key: _key(item) for item in items}
    model: Any = create_model(name, __base__=base, **keys)
    model.make = make
    return model


def _can_be(part: Any) -> Any:
    """The table, when what it says can be made."""
    try:
        _ = part.made
    except InputError as error:
        raise ValueError(error.message) from None
    return part


if TYPE_CHECKING:

    class Keys(Part):
        """A table whose keys are made from settings."""

        def __getattr__(self, name: str) -> Any: ...

    FabricPart: TypeAlias = Keys
    FaultsPart: TypeAlias = Keys
    HardwarePart: TypeAlias = Keys
else:
    FabricPart = _table("FabricPart", settings(Source), lambda keys: Source(**keys))
    FaultsPart = _table("FaultsPart", settings(Faults), lambda keys: Faults(**keys))
    HardwarePart = _table("HardwarePart", WRITTEN.values(), hardware_of)

Names = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]


def _engines(names: tuple[str, ...]) -> tuple[str, ...]:
    """``all`` stands for every engine that needs nothing but the fabric."""
    every = tuple(entry.name for entry in engines if "needs" not in entry.facts)
    return tuple(name for given in names for name in (every if given == "all" else (given,)))


class JobPart(Part):
    """One job. Lists are compared: each item makes runs of its own.

    Parameters
    ----------
    name
        Name of the job in results; each job its own, without a colon.
    workload
        A collective, application or traffic pattern with options, such as
        ``allreduce:size=1MiB``, or a file or folder of traces.
    format
        Format of a workload file; its contents tell when left out.
    options
        Options of the workload or of its format, ``NAME=VALUE``.
    ranks
        Number of ranks.
    placement
        Placement of ranks on hosts, with options as in ``random:seed=3``.
    ranks_per_host
        Most ranks on one host.
    distribution
        How ranks fill hosts: ``block``, ``cyclic`` or ``plane=N``.
    hosts
        Hosts that may be used, as a list: ``node[001-036]``.
    start
        When the job begins.
    """

    name: Annotated[str, Field(min_length=1, max_length=80), Option(flag=None)] = "job"
    workload: Annotated[Names, Option(compared="texts")]
    format: Annotated[str | None, Option(flag="workload_format")] = None
    options: Annotated[
        dict[str, str | Number | Truth | tuple[str, ...]],
        BeforeValidator(pairs_of("NAME=VALUE")),
        AfterValidator(_no_keys),
        Option(flag="workload_option"),
    ] = Field(default_factory=dict)
    ranks: Annotated[
        Positive | None, Option(usual="as the file says, or as many as its hosts take")
    ] = None
    placement: Annotated[Names, Option(compared="names")] = ("linear",)
    ranks_per_host: Annotated[Positive | None, Option(usual="1")] = None
    distribution: Annotated[str | None, Option(usual="block")] = None
    hosts: Annotated[Names | None, Option(usual="all")] = None
    start: Nanoseconds = 0.0


class OutputPart(Part):
    """Where results go.

    Parameters
    ----------
    folder
        Folder for tables of runs, jobs, phases, messages, ranks and links.
    format
        Format of tables.
    messages
        Write the table of single messages, too.
    html
        Write a page that shows a run of the packet level over time.
    """

    folder: Annotated[Annotated[str, Field(min_length=1)] | None, Option(flag="out")] = None
    format: Annotated[Literal["parquet", "csv"], Option(flag="csv", means="csv")] = "parquet"
    messages: Annotated[Truth, Option(flag="no_messages", means=False)] = True
    html: Annotated[str, Field(min_length=1)] | None = None


class Head(Part):
    """What everything runs on, and at which levels.

    Parameters
    ----------
    fabric
        A file or a spec; or a table.
    faults
        What to break in it.
    engine
        Routing engines, with options as in ``updn:roots=center``; ``all`` for every one that needs
        no file.
    level
        Levels of detail.
    """

    fabric: Annotated[FabricPart, BeforeValidator(_source), Option(flag=None)]
    faults: Annotated[FaultsPart, AfterValidator(_can_be), Option(flag=None)] = FaultsPart()
    engine: Annotated[
        Names, AfterValidator(_engines), Option(compared="names", plural="engines")
    ] = ("minhop",)
    level: Annotated[
        tuple[Level, ...], BeforeValidator(_listed), Field(min_length=1), Option(compared="names")
    ] = ("flow",)


#: Settings of runs as keys: all but the hardware are alike in Python.
RUN = [item for item in settings(RunSettings) if item.field != "hardware"]

if TYPE_CHECKING:

    class Runs(Head):
        """Settings of runs, one key each."""

        def __getattr__(self, name: str) -> Any: ...

else:
    Runs = _table("Runs", RUN, RunSettings, Head)


class Experiment(Runs):
    """A whole experiment. Lists are compared: each combination is a run.

    Parameters
    ----------
    hardware
        What switches and adapters are like.
    overlap
        Whether two jobs may run on one host.
    max_seconds
        Time on the clock after which a run is stopped.
    job
        The jobs, in the order in which they are placed.
    output
        Where results go.
    """

    hardware: Annotated[HardwarePart, AfterValidator(_can_be)] = HardwarePart()
    overlap: Annotated[Overlap, Option(flag=None)] = "refuse"
    max_seconds: Annotated[Number, Field(gt=0)] | None = None
    job: Annotated[
        tuple[JobPart, ...], BeforeValidator(_tables), Field(min_length=1), Option(flag=None)
    ]
    output: Annotated[OutputPart, Option(flag=None)] = OutputPart()

    def options(self, run: Run) -> dict[str, Any]:
        """Options of `weft.simulate` for a run, but for what is read from files and jobs."""
        given = {
            item.field: getattr(self, item.key)
            for item in settings(RunSettings)
            if item.of(run.level) and item.field not in ("coefficients", "trace")
        }
        made = {"hardware": self.hardware.made, "sharing": run.sharing, "policy": run.policy}
        return {name: made.get(name, value) for name, value in given.items()}

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
        ways = list(
            itertools.chain.from_iterable(map(self._ways, dict.fromkeys(self.engine)))
        )  # fmt: skip
        count = len(ways)
        for choices in jobs:
            count *= len(choices)
        if count > MAX_RUNS:
            raise InputError(f"the lists combine to {count:,} runs; at most {MAX_RUNS:,} are made")
        return [
            Run(number, *way, tuple(choice))
            for number, (choice, way) in enumerate(
                itertools.product(itertools.product(*jobs), ways), 1
            )
        ]

    def _ways(self, engine: str) -> list[tuple[str, Level, Sharing | None, str | None]]:
        """An engine with every level, each with the laws or policies that it knows."""
        listed: list[tuple[str, Level, Sharing | None, str | None]] = []
        for level in self.level:
            if level == "flow":
                listed += [(engine, level, law, None) for law in self.sharing]
            elif level == "packet":
                listed += [(engine, level, None, policy) for policy in self._policies(engine)]
            else:
                listed.append((engine, level, None, None))
        return list(dict.fromkeys(listed))

    def _policies(self, engine: str) -> list[str]:
        """Policies of one engine: those listed that it can have, or the usual one.

        One that leaves no choice has a run even if only policies for the others are listed.
        """
        entry, _ = engines.parse(engine)
        chooses = bool(entry.facts.get("candidates"))
        if self.policy is None:
            if not chooses:
                return [NO_CHOICE]
            return [entry.name if entry.name in policies else "ecmp"]
        fit = [
            spec for spec in self.policy if (policies.parse(spec)[0].name != NO_CHOICE) == chooses
        ]
        if fit:
            return fit
        others = [name for name in self.engine if engines.parse(name)[0].facts.get("candidates")]
        return [NO_CHOICE] if others and not chooses else list(self.policy)


@dataclass(frozen=True)
class Run:
    """One combination: an engine, a level, and the workload and placement of each job."""

    number: int
    engine: str
    level: Level
    sharing: Sharing | None
    policy: str | None
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
