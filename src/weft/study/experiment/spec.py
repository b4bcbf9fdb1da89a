"""Keys of experiment files, which are also options of `weft simulate`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    get_args,
    get_origin,
)

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
from pydantic_core import PydanticCustomError

from weft.core.errors import InputError
from weft.core.settings import (
    File,
    Folder,
    Group,
    Number,
    Option,
    Positive,
    Setting,
    Truth,
    is_listed,
    pairs_of,
    parts_of,
    settings,
)
from weft.core.toml_lines import UNFIT_TABLE
from weft.core.units import Nanoseconds
from weft.counters.times import BEGIN, time_of
from weft.fabrics import Fabric
from weft.fabrics.faults import Faults
from weft.fabrics.judged import Judged
from weft.fabrics.load import Source
from weft.fabrics.load import fabric as read_fabric
from weft.routing import engine as engines
from weft.sim.common.times import LONGEST_NS, LONGEST_OPTIONS_NS
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import Router
from weft.sim.flow import Sharing
from weft.sim.methods import CHOOSING, USUAL_ENGINE, fitting_methods
from weft.sim.options import (
    COARSE,
    FLIT,
    Level,
    RunSettings,
    chooses,
    listed,
)
from weft.sim.packet.hardware import WRITTEN, hardware_of

#: Largest number of runs of an experiment or a study.
MAX_RUNS = 1_000_000

Overlap = Literal["refuse", "share"]


def _source(value: Any) -> Any:
    if isinstance(value, str):
        return {"source": value}
    if not isinstance(value, dict | Part):
        raise ValueError("expected a spec, a file, or a table with source")
    return value


def _no_keys(options: dict[str, Any]) -> dict[str, Any]:
    """Check that no option of a workload is a key of the job."""
    for name in ("format", "ranks", "num_ranks", "spec_or_path"):
        if name in options:
            raise ValueError(f"{name} is not an option of a workload; use the keys of the job")
    return options


def _tables(value: Any) -> Any:
    """Refuse a single table ``[job]`` instead of a list of tables."""
    if not isinstance(value, list | tuple):
        raise ValueError("expected [[job]], once for each job")
    return value


class Part(BaseModel):
    """A table of an experiment file; unknown keys are refused and values are read-only."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    #: Function that makes the Python object of the table from its keys.
    make: ClassVar[Callable[[Mapping[str, Any]], Any]]

    @functools.cached_property
    def instance(self) -> Any:
        """The Python object of the table."""
        return type(self).make({key: getattr(self, key) for key in type(self).model_fields})


def _countable(value: float | None, about: ValidationInfo) -> float | None:
    """Refuse times that do not fit 64-bit picoseconds, if the packet or the flit level runs."""
    longest = LONGEST_OPTIONS_NS.get(f"{about.field_name}_ns", LONGEST_NS)
    counted = [level for level in about.data.get("level", ()) if level in ("packet", "flit")]
    if value is not None and value > longest and counted:
        raise ValueError(f"expected at most {longest:.4g} ns at the {counted[0]} level")
    return value


def _key(item: Setting) -> tuple[Any, Any]:
    """Return the type and default of a setting's key."""
    hint = item.option.written or item.hint
    default = ... if item.default is MISSING else item.default
    if item.option.written is not None:
        kinds = get_args(item.option.written)
        if not isinstance(default, str) or default not in kinds:
            default = () if is_listed(item) else None
            hint = hint if is_listed(item) else hint | None
    if item.option.compared:
        # The list of one default, or None if the default depends on other settings.
        if not any(get_origin(part) is tuple for part in parts_of(hint)):
            default = None if default is None else (default,)
            hint = tuple[hint, ...]  # type: ignore[valid-type]
        hint = Annotated[hint, BeforeValidator(listed), Field(min_length=1)]
        hint = hint | None if default is None else hint
    if item.field.endswith("_ns") and item.of("packet") and item.option.levels:
        hint = Annotated[hint, AfterValidator(_countable)]
    return Annotated[hint, Field(description=item.help), item.option], default


def table_model(
    name: str, items: Any, make: Callable[[Mapping[str, Any]], Any] = dict, base: Any = Part
) -> Any:
    """Return the model of a table with a key for each setting."""
    keys: Any = {item.key: _key(item) for item in items}
    model: Any = create_model(name, __base__=base, **keys)
    model.make = make
    return model


#: Settings of the table of a fabric: its source, and the hosts that are judged.
FABRIC = (*settings(Source), *settings(Judged))


def can_be(part: Any) -> Any:
    """Refuse a table whose Python object cannot be made."""
    try:
        _ = part.instance
    except InputError as error:
        raise PydanticCustomError(UNFIT_TABLE, "{text}", {"text": error.message}) from None
    return part


if TYPE_CHECKING:

    class Keys(Part):
        """A table whose keys are generated from settings."""

        def __getattr__(self, name: str) -> Any: ...

    FabricPart: TypeAlias = Keys
    FaultsPart: TypeAlias = Keys
    HardwarePart: TypeAlias = Keys
    RouterPart: TypeAlias = Keys
    AdapterPart: TypeAlias = Keys
else:
    FabricPart = table_model("FabricPart", FABRIC)
    FaultsPart = table_model("FaultsPart", settings(Faults), lambda keys: Faults(**keys))
    HardwarePart = table_model("HardwarePart", WRITTEN.values(), hardware_of)
    RouterPart = table_model("RouterPart", settings(Router), lambda keys: Router(**keys))
    AdapterPart = table_model("AdapterPart", settings(Adapter), lambda keys: Adapter(**keys))

Names = Annotated[tuple[str, ...], BeforeValidator(listed), Field(min_length=1)]
NumberOrText = Annotated[
    str,
    BeforeValidator(
        lambda it: str(it) if isinstance(it, int) and not isinstance(it, bool) else it,
        json_schema_input_type=int | str,
    ),
]


def _engines(names: tuple[str, ...]) -> tuple[str, ...]:
    """Replace ``all`` by every engine that needs no file."""
    every: tuple[str, ...] = ()
    if "all" in names:
        every = tuple(entry.name for entry in engines if "needs" not in entry.facts)
    return tuple(name for given in names for name in (every if given == "all" else (given,)))


class JobPart(Part):
    """One job. Each item of a list of workloads or placements makes separate runs to compare.

    Parameters
    ----------
    name
        Name of the job in results; unique, without a colon.
    workload
        A collective, application or traffic pattern with options, such as
        ``allreduce:size=1MiB``, or a file or folder of traces.
    format
        Format of a workload file; if not given, recognised by the contents of the file.
    options
        Options of the workload or of its format, ``NAME=VALUE``.
    ranks
        Number of ranks.
    placement
        Placement of ranks on hosts, with options as in ``random:seed=3``.
    ranks_per_host
        Maximum number of ranks on one machine, whose adapters they use in turn.
    distribution
        Distribution of ranks to hosts: ``block``, ``cyclic`` or ``plane=N``.
    hosts
        List of hosts that may be used: ``node[001-036]``.
    start
        Start time of the job.
    rolled
        Store operations that ranks have in common once, lay rounds as they begin, and compute
        those that are alike once; times of single messages are not kept. Otherwise only workloads
        of more than 2^24 messages are.
    """

    GROUP: ClassVar[Group] = "workload"

    name: Annotated[str, Field(min_length=1, max_length=80), Option(flag=None)] = "job"
    workload: Annotated[Names, Option(compared="texts", group="first")]
    format: Annotated[str | None, Option(flag="workload_format")] = None
    options: Annotated[
        dict[str, str | Number | Truth | tuple[str, ...]],
        BeforeValidator(pairs_of("NAME=VALUE")),
        AfterValidator(_no_keys),
        Option(flag="workload_option"),
    ] = Field(default_factory=dict)
    ranks: Annotated[
        Positive | None, Option(usual="number in the file, or as many as fit on the hosts")
    ] = None
    placement: Annotated[Names, Option(compared="names", group="first")] = ("linear",)
    ranks_per_host: Annotated[Positive | None, Option(usual="1")] = None
    distribution: Annotated[str | None, Option(usual="block")] = None
    hosts: Annotated[Names | None, Option(usual="all")] = None
    start: Nanoseconds = 0.0
    rolled: Annotated[Truth, Option(flag="rolled", means=True, levels=COARSE)] = False


def _begin(text: str) -> str:
    time_of(text)
    return text


class OutputPart(Part):
    """Files of results.

    Parameters
    ----------
    folder
        Folder for tables of runs, jobs, phases, messages, ranks and links.
    format
        Format of tables.
    messages
        Table of messages, one row per message.
    html
        Write a page that shows a run of the packet level over time.
    congestion_matrix
        Draw where packets wait in a run of the packet or the flit level (.png, .svg or .pdf).
    counters
        Folder for what ``perfquery -x`` of all ports would have shown in a run of the packet level:
        a file at the beginning, at each snapshot, if there are any, and at the end.
    counters_begin
        Date and time of day at which the run begins, for these files.
    """

    GROUP: ClassVar[Group] = "output"

    folder: Annotated[
        Annotated[Folder, Field(min_length=1)] | None, Option(flag="out", group="first")
    ] = None
    format: Annotated[Literal["parquet", "csv"], Option(flag="csv", means="csv")] = "parquet"
    messages: Annotated[Truth, Option(flag="no_messages", means=False)] = True
    html: Annotated[File, Field(min_length=1)] | None = None
    congestion_matrix: Annotated[File, Field(min_length=1)] | None = None
    counters: Annotated[Folder, Field(min_length=1)] | None = None
    counters_begin: Annotated[str, AfterValidator(_begin)] = BEGIN


class FabricKeys(Part):
    """A fabric.

    Parameters
    ----------
    fabric
        A file or a spec, or a table.
    faults
        Faults of the fabric.
    """

    fabric: Annotated[
        FabricPart,
        BeforeValidator(_source, json_schema_input_type=str | FabricPart),
        Option(flag=None),
    ]
    faults: Annotated[FaultsPart, AfterValidator(can_be), Option(flag=None)] = FaultsPart()

    def load_fabric(self) -> Fabric:
        """Read or build the fabric, with its faults and the hosts that are judged.

        Raises
        ------
        InputError
            If that is impossible.
        """
        part = self.fabric
        loaded = read_fabric(
            part.source,
            format=part.format,
            names=part.names,
            also=part.also or (),
            machines=part.machines,
            node=part.node,
            cabling=part.cabling,
            faults=self.faults.instance,
        )
        return Judged(part.hosts, part.without).of(loaded)


class Head(FabricKeys):
    """Fabric, engines and levels of an experiment.

    Parameters
    ----------
    engine
        Routing engines, with options as in ``updn:roots=center``; ``all`` selects every engine that
        needs no file.
    routing
        Routings by coordinates, with options as in ``dor:ties=forward``, to compare with the routes
        of engines.
    level
        Levels of detail.
    """

    engine: Annotated[
        Annotated[Names, AfterValidator(_engines)] | None,
        Option(
            compared="names", plural="engines", group="first",
            usual=f"{USUAL_ENGINE}; at the flit level none if a routing is given",
        ),
    ] = None  # fmt: skip
    routing: Annotated[
        Names | None, Option(compared="names", plural="routings", levels=FLIT, group="routing")
    ] = None
    level: Annotated[
        tuple[Level, ...],
        BeforeValidator(listed),
        Field(min_length=1),
        Option(compared="names", group="first"),
    ] = ("flow",)


#: Settings of runs that are tables of an experiment.
TABLES = ("hardware", "router", "adapter")
#: Settings of runs that are keys of an experiment: all others.
RUN = [item for item in settings(RunSettings) if item.field not in TABLES]

Runs: Any = table_model("Runs", RUN, base=Head)


class Simulation(Runs):  # type: ignore[misc]
    """Runs of workloads. Each combination of the items of compared lists is a run.

    Parameters
    ----------
    hardware
        Properties of switches and adapters.
    router, adapter
        Properties of the routers and of the adapters of the flit level.
    overlap
        Whether two jobs may run on one host.
    max_seconds
        Wall time in seconds after which a run is stopped.
    job
        The jobs, in the order in which they are placed.
    """

    hardware: Annotated[HardwarePart, AfterValidator(can_be)] = HardwarePart()
    router: Annotated[RouterPart, AfterValidator(can_be), Option(levels=FLIT)] = RouterPart()
    adapter: Annotated[AdapterPart, AfterValidator(can_be), Option(levels=FLIT)] = AdapterPart()
    overlap: Annotated[Overlap, Option(flag=None)] = "refuse"
    max_seconds: Annotated[Number, Field(gt=0)] | None = None
    job: Annotated[
        tuple[JobPart, ...], BeforeValidator(_tables), Field(min_length=1), Option(flag=None)
    ]

    def options(self, run: Run) -> dict[str, Any]:
        """Return the options of `weft.simulate` for a run, without coefficients and trace."""
        given = {
            item.field: getattr(self, item.key)
            for item in settings(RunSettings, run.level)
            if item.field not in ("coefficients", "trace")
        }
        keyed = run.policy is not None and run.policy.partition(":")[0] == "nrk"
        own = {
            "sharing": run.sharing, "policy": run.policy,
            "scheduler": self.scheduler if keyed else None,
        }  # fmt: skip
        return {
            name: value.instance if isinstance(value, Part) else own.get(name, value)
            for name, value in given.items()
        }

    @model_validator(mode="after")
    def _coefficients_are_used(self) -> Self:
        if self.coefficients is not None and not (
            "flow" in self.level and "penalty" in self.sharing
        ):
            raise ValueError("coefficients require level flow with sharing penalty")
        return self

    @model_validator(mode="after")
    def _policies_are_used(self) -> Self:
        listed = self.policy or ()
        for spec in listed:
            if not {*CHOOSING} & {*self.level} and chooses(spec):
                raise ValueError(f"policy {spec} requires level {' or '.join(CHOOSING)}")
        if self.scheduler and not any(spec.partition(":")[0] == "nrk" for spec in listed):
            raise ValueError("scheduler requires policy nrk")
        return self

    @model_validator(mode="before")
    @classmethod
    def _default_names(cls, data: Any) -> Any:
        """Name jobs without a name job1, job2 and so on."""
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
        """All combinations of the listed values."""
        jobs = [list(itertools.product(job.workload, job.placement)) for job in self.job]
        methods = fitting_methods(self.level, self.engine, self.routing, self.policy, self.sharing)
        count = len(methods)
        for choices in jobs:
            count *= len(choices)
        if count > MAX_RUNS:
            raise InputError(f"the lists combine to {count:,} runs; expected at most {MAX_RUNS:,}")
        return [
            Run(number, **method._asdict(), jobs=tuple(choice))
            for number, (choice, method) in enumerate(
                itertools.product(itertools.product(*jobs), methods), 1
            )
        ]


class Experiment(Simulation):
    """Runs of workloads, and where their results are written.

    Parameters
    ----------
    output
        Files of results.
    """

    output: Annotated[OutputPart, Option(flag=None)] = OutputPart()


@dataclass(frozen=True)
class Run:
    """One combination: a `Method`, and the workload and placement of each job."""

    number: int
    engine: str | None
    level: Level
    sharing: Sharing | None
    policy: str | None
    routing: str | None
    jobs: tuple[tuple[str, str], ...]

    @property
    def routes(self) -> str:
        """The engine or the routing."""
        return self.engine or self.routing or ""

    @property
    def workloads(self) -> str:
        """Workloads of the jobs, as one text."""
        return " + ".join(workload for workload, _ in self.jobs)

    @property
    def placements(self) -> str:
        """Placements of the jobs, as one text; one placement if all are equal."""
        placements = [placement for _, placement in self.jobs]
        return placements[0] if len(set(placements)) == 1 else " + ".join(placements)

    @property
    def method(self) -> dict[str, str | None]:
        """How it is computed, by key of an experiment."""
        names = ("engine", "routing", "level", "sharing", "policy")
        return {name: getattr(self, name) for name in names}

    @property
    def axes(self) -> dict[str, str | None]:
        """The method, the workloads and the placements, by key."""
        return {**self.method, "workload": self.workloads, "placement": self.placements}
