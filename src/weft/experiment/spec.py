"""What an experiment file may say, and a run of `weft simulate` by flags as well."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from weft.core.errors import InputError
from weft.core.units import Bytes, Nanoseconds
from weft.routing import engine as engines
from weft.sim.flow.network import Multipath
from weft.sim.flow.sharing import Sharing
from weft.sim.packet.congestion_control import Per, Victims
from weft.sim.packet.connections import Lids
from weft.sim.packet.hardware import LONGEST_NS, Hardware, QueuePairs, Queues
from weft.sim.packet.hardware_text import hardware_of
from weft.sim.packet.limits import LONGEST_OPTIONS_NS
from weft.sim.packet.policies import policy as policies
from weft.sim.static.loads import Ports

#: More runs than anybody reads the table of.
MAX_RUNS = 10_000

#: Keys that matter at the flow level only, at the packet level only, and at both.
FLOW_ONLY = ("sharing", "tolerance", "latency", "coefficients", "multipath", "straight")
PACKET_ONLY = ("policy", "hardware", "lids", "snapshot", "trace")
TIMED_ONLY = (
    "eager", "handshake", "overhead", "switch_latency", "local_gbps", "local_latency", "seed",
    "max_time", "max_seconds",
)  # fmt: skip

Level = Literal["flow", "static", "packet"]
#: The policy of routes that leave no choice.
NO_CHOICE = "deterministic"
Overlap = Literal["refuse", "share"]


def _listed(value: Any) -> Any:
    """One thing where a list of things may stand."""
    return (value,) if isinstance(value, str) else value


def _entries(value: Any) -> Any:
    """Entries of an arbitration table, which may stand in one text with commas."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


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
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]
Positive = Annotated[Whole, Field(ge=1)]


class Part(BaseModel):
    """A table of an experiment file: nothing unknown, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


Names = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
Entries = Annotated[tuple[str, ...], BeforeValidator(_entries)]


def _traced(text: str) -> str:
    *_, rank, number = ("", *text.split(":"))
    if not (rank.isdecimal() and number.isdecimal() and len(text) < 200):
        raise ValueError("expected RANK:N, or JOB:RANK:N where there are several jobs")
    return text


def _interval(value: float) -> float:
    if value < 0.001:
        raise ValueError("expected a positive time, 0.001 ns or more")
    return value


def _countable(value: float | None, about: ValidationInfo) -> float | None:
    """A time that picoseconds of 64 bits can count, where packets run."""
    longest = LONGEST_OPTIONS_NS.get(f"{about.field_name}_ns", LONGEST_NS)
    if value is not None and value > longest and "packet" in about.data.get("level", ()):
        raise ValueError(f"expected at most {longest:.4g} ns at the packet level")
    return value


#: A time that the packet level counts in picoseconds.
PacketTime = Annotated[Time, AfterValidator(_countable)]


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


_USUAL = Hardware()


class HardwarePart(Part):
    """Switches and adapters at the packet level: `Hardware` without units in its names."""

    mtu: Size = _USUAL.mtu_bytes
    header: Size = _USUAL.header_bytes
    buffer: Size = _USUAL.buffer_bytes
    credit: Size = _USUAL.credit_bytes
    credit_latency: Time = _USUAL.credit_latency_ns
    switch_latency: Time = _USUAL.switch_latency_ns
    forward_latency: Time | None = None
    queues: Queues = _USUAL.queues
    speedup: Positive = _USUAL.speedup
    vlarb_high: Entries = ()
    vlarb_low: Entries = ()
    high_limit: Whole | None = None
    queue_pairs: QueuePairs = _USUAL.queue_pairs
    turn: Size = _USUAL.turn_bytes
    adapter_gbps: Annotated[Number, Field(gt=0, allow_inf_nan=False)] | None = None
    adapter_latency: Time = _USUAL.adapter_latency_ns
    control: Size = _USUAL.control_bytes
    congestion_control: Truth | None = None
    cc_threshold: Whole | None = None
    cc_marking_rate: Whole | None = None
    cc_packet_size: Whole | None = None
    cc_victims: Victims | None = None
    ccti_increase: Whole | None = None
    ccti_limit: Whole | None = None
    ccti_min: Whole | None = None
    ccti_timer: Whole | None = None
    cct: Entries = ()
    cc_per: Per | None = None

    @property
    def made(self) -> Hardware:
        """The hardware itself."""
        return hardware_of(self.model_dump())

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        try:
            _ = self.made
        except InputError as error:
            raise ValueError(error.message) from None
        return self


class OutputPart(Part):
    """Where results go."""

    folder: Annotated[str, Field(min_length=1)] | None = None
    format: Literal["parquet", "csv"] = "parquet"
    messages: Truth = True
    html: Annotated[str, Field(min_length=1)] | None = None


class Experiment(Part):
    """A whole experiment. Lists of engines, levels and laws are compared.

    What is called as an argument of `weft.simulate` without its unit is that argument.

    Parameters
    ----------
    fabric, faults
        What everything runs on.
    engine, level, sharing, policy
        Each combination is a run; the law of sharing matters at the flow level only, and the policy
        at the packet level, where an engine's routes leave a choice.
    eager, handshake, overhead, local_gbps, local_latency
        Of the flow and the packet level.
    switch_latency
        Of both; that of the hardware when left out.
    tolerance, latency
        Of the flow level.
    coefficients
        File of coefficients of the penalty law that `weft calibrate` wrote; InfiniBand's without.
    multipath
        Of routes that leave a choice, at the flow level.
    straight
        Share of messages that goes straight where routes also allow intermediates, at the flow
        level; left out, the one that makes the largest load least.
    hardware, lids
        Of the packet level.
    snapshot
        Time between two looks at all buffers, at the packet level.
    trace
        Messages whose every hop is written down there: ``RANK:N`` is the message that a rank sends
        as its number N, from 0; with several jobs ``JOB:RANK:N``.
    seed
        Of what is drawn for routes that leave a choice.
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
    policy: Names | None = None
    hardware: HardwarePart = HardwarePart()
    tolerance: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    eager: Size = 16384
    handshake: Truth = True
    overhead: PacketTime = 0.0
    switch_latency: PacketTime | None = None
    latency: Time | None = None
    local_gbps: Annotated[Number, Field(gt=0, allow_inf_nan=False)] = 100.0
    local_latency: PacketTime = 200.0
    coefficients: str | None = None
    multipath: Multipath = "split"
    straight: Annotated[Number, Field(ge=0, le=1)] | None = None
    ports: Ports = "first"
    lids: Lids = "first"
    seed: Seed = 0
    snapshot: Annotated[PacketTime, AfterValidator(_interval)] | None = None
    trace: Annotated[
        tuple[Annotated[str, AfterValidator(_traced)], ...], BeforeValidator(_listed)
    ] = ()
    overlap: Overlap = "refuse"
    max_time: PacketTime | None = None
    max_seconds: Annotated[Number, Field(gt=0)] | None = None
    job: Annotated[tuple[JobPart, ...], BeforeValidator(_tables), Field(min_length=1)]
    output: OutputPart = OutputPart()

    @property
    def latency_of_switches(self) -> float:
        """In ns, at every level."""
        own = self.hardware.switch_latency
        return own if self.switch_latency is None else self.switch_latency

    @property
    def flow_options(self) -> dict[str, Any]:
        """Arguments of `weft.simulate` but for the law of sharing and its coefficients."""
        return {
            **self._timed,
            "mtu_bytes": self.hardware.made.mtu_bytes,
            "header_bytes": self.hardware.made.header_bytes,
            "switch_latency_ns": self.latency_of_switches,
            "latency_ns": self.latency,
            "multipath": self.multipath,
            "straight": self.straight,
            "tolerance": self.tolerance,
        }

    @property
    def packet_options(self) -> dict[str, Any]:
        """Arguments of `weft.simulate_packets` but for the policy and what is traced."""
        made = replace(self.hardware.made, switch_latency_ns=self.latency_of_switches)
        return {
            **self._timed, "hardware": made, "lids": self.lids, "snapshot_ns": self.snapshot,
        }  # fmt: skip

    @property
    def _timed(self) -> dict[str, Any]:
        return {
            "eager_bytes": self.eager,
            "handshake": self.handshake,
            "overhead_ns": self.overhead,
            "local_gbps": self.local_gbps,
            "local_latency_ns": self.local_latency,
            "ports": self.ports,
            "seed": self.seed,
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
