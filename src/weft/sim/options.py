"""Settings of a run at any level of detail, for `weft.simulate`, files and commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf

from weft.core.errors import InputError, NotApplicable
from weft.core.registry import Registry
from weft.core.settings import (
    Called,
    File,
    Group,
    Number,
    Option,
    Rate,
    Seed,
    Settings,
    Truth,
    Whole,
    known_fields,
    settings,
)
from weft.core.units import Bytes, Nanoseconds, parse_share
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import (
    NO_OVERHEAD,
    HostParameters,
    Overhead,
    read_host_parameters,
)
from weft.sim.common.policies import NO_CHOICE, usual_of
from weft.sim.common.programs import Rendezvous
from weft.sim.flit import policy as flit_policies
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import Router
from weft.sim.flow import Multipath, Sharing
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.coefficients import read_coefficients
from weft.sim.keys.run import KeyRules
from weft.sim.packet.connections import Lids
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.policies import Policy
from weft.sim.packet.policies import policy as policies
from weft.sim.static.loads import Ports

Level = Literal["flow", "static", "packet", "flit"]
LEVELS: tuple[Level, ...] = get_args(Level)
FLOW, PACKET, FLIT, COARSE = ("flow",), ("packet",), ("flit",), ("flow", "packet")
TimedLevel = Literal["flow", "packet", "flit"]
TIMED: tuple[TimedLevel, ...] = get_args(TimedLevel)
USUAL_HARDWARE, USUAL_ROUTER, USUAL_ADAPTER = Hardware(), Router(), Adapter()
#: Settings of a host without parameters of its own.
USUAL_HOST: Mapping[str, float] = {"eager": 16384, "overhead": 0}
#: Largest error that fast-forward may be allowed.
MOST_ERROR = 0.1
#: Largest flit.
MOST_FLIT_BYTES = 2**20
#: Level -> its policies.
POLICIES: Mapping[Level, Registry] = {
    "flow": policies, "packet": policies, "flit": flit_policies,
}  # fmt: skip


def _interval(value: float) -> float:
    if value < 0.001:
        raise ValueError("expected a positive time, 0.001 ns or more")
    return value


def _error(value: float) -> float:
    if not 0 <= value <= MOST_ERROR:
        raise ValueError(
            f"expected a share from 0 to {MOST_ERROR}, such as 0.01 or 1%; 0 skips nothing"
        )
    return value


def _traced(text: str) -> str:
    *_, rank, number = ("", *text.split(":"))
    if not (rank.isdecimal() and number.isdecimal() and len(text) < 200):
        raise ValueError("expected RANK:N, or JOB:RANK:N with several jobs")
    return text


def listed(given: object) -> object:
    """Convert a single text to a list."""
    return (given,) if isinstance(given, str) else given


Traced = Annotated[tuple[Annotated[str, AfterValidator(_traced)], ...], BeforeValidator(listed)]
#: Settings that are a table in files, and texts NAME=VALUE on the command line.
Table = Mapping[str, str]


def _model(given: object) -> object:
    return read_coefficients(given).model if isinstance(given, str | Path) else given


def _host_parameters(given: object) -> object:
    return read_host_parameters(given) if isinstance(given, str | Path) else given


Phase = Annotated[str, Called("phase")]


@dataclass(frozen=True)
class RunSettings(Settings):
    """Settings of a run.

    Parameters
    ----------
    sharing
        How concurrent messages share links: ``maxmin`` (max-min fairness over all links),
        ``penalty`` (contention graphs: Martinasso and Méhaut 2011) or ``none`` (as if each pair of
        ranks had the network to itself).
    policy
        Policy that chooses among the candidates of a packet, with options as in
        ``flowlet:gap=10us``. The flow level has only policies without such a choice:
        ``deterministic``, and ``ark`` and ``nrk`` (routing keys). The flit level has policies of
        its own (``weft list flit-policies``).
    scheduler
        Further options of the policy ``nrk``, as in ``latency=5us,choice=optimum``.
    hardware
        Settings of switches and adapters. The flow level uses only `mtu`, `header`,
        `switch_latency`, `adapter_gbps` and `adapter_latency`, the flit level `mtu`, `header`,
        `control` and `adapter_latency`.
    router
        Settings of routers, as in ``lanes=4,buffer=8``.
    adapter
        Settings of adapters, as in ``window=2,circuits=true``.
    flit_bytes
        Size of a flit. A cycle is the time of a flit on the fastest cable.
    cycle_ns
        Cycle for which the settings of routers and adapters are meant. A fabric with another one
        is refused.
    high_priority
        Phases or jobs whose packets count as older than others, by `ageing` of the adapter, for
        routers with the arbiter ``age``.
    tolerance
        For ``maxmin``: allowed relative error of completion times, counted from the start of the
        run. The bound is measured, not proved (docs/flow-level.md); 0 is exact.
    eager_bytes
        Size of the largest eager send. An eager send ends at once, and its data leaves without a
        request; a larger send waits for its receive (rendezvous) and ends when its last byte has
        left.
    handshake
        Whether a rendezvous exchanges a request and an answer before its data leaves.
    rendezvous
        What moves the data then, and so what they wait for. The receiver reads them with ``get``,
        which no message of the sender's queue pairs holds up. The sender writes them with ``put``
        behind earlier data, while requests and answers have queue pairs of their own, and with
        ``put-shared`` all use one queue pair. The flit level, where messages take turns, has only
        ``get`` and ``put``, which are the same there.
    overhead_ns
        Processor time at the sender and at the receiver of each message (o of LogP).
    host_parameters
        Parameters of hosts, or their file, as ``weft expect --fit`` writes it: `eager_bytes`,
        overhead by size instead of `overhead_ns`, `adapter_latency` and `adapter_gbps` of the
        hardware. Settings that are given override it.
    switch_latency_ns
        Latency of each switch on the path, in addition to the latency of cables.
    latency_ns
        Latency of every message between hosts, instead of the latency of its path.
    local_gbps
        Rate of messages within a machine; messages between the same two ranks are sent one after
        the other.
    local_latency_ns
        Latency of messages within a machine.
    coefficients
        Coefficients of the sharing model ``penalty``: a `PenaltyModel`, or a file written by `weft
        calibrate`.
    multipath
        If routes leave a choice: ``split`` every message over all paths, or select one path for
        each message by a ``hash``. Messages are sent to the first LID of their destination.
    minimal_share
        Share of messages on the minimal path if they may also use an intermediate (``ugal``).
    ports
        Ports that messages of hosts with several ports use.
    lids
        LID to which messages are sent if the destination has several (LMC): the ``first``, one
        selected by a ``hash`` of the ranks, all of them round robin (``spread``), or in Python an
        offset for each operation.
    seed
        Seed of all random draws.
    snapshot_ns
        Time between two snapshots of all buffers. At 2,000 snapshots every other snapshot is
        dropped and this time doubles.
    trace
        Messages whose hops are recorded: ``RANK:N`` is message number N, from 0, that a rank sends;
        in a workload of several jobs ``JOB:RANK:N``; in Python, indices of operations.
    max_time_ns
        Simulated time at which a run is stopped.
    threads
        Threads that simulate parts of the fabric side by side. Results are the same for any number.
    fast_forward
        Allowed relative error of rates, such as 0.01 or 1%, at most 0.1: traffic whose rates have
        settled is skipped. What repeats itself exactly is skipped without error. 0 simulates every
        packet.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    GROUP: ClassVar[Group] = "levels"

    sharing: Annotated[Sharing, Option(levels=FLOW, compared="names")] = "maxmin"
    policy: Annotated[
        str | None,
        Option(
            levels=TIMED, compared="names", plural="policies", group="routing",
            usual="the engine's own, or ecmp if routes leave a choice",
        ),
    ] = None  # fmt: skip
    scheduler: Annotated[str | None, Option(levels=COARSE, group="routing")] = None
    hardware: Annotated[
        InstanceOf[Hardware],
        Option(levels=TIMED, written=Table, usual="the usual"),
    ] = USUAL_HARDWARE
    router: Annotated[
        InstanceOf[Router],
        Option(levels=FLIT, written=Table, usual="the usual"),
    ] = USUAL_ROUTER
    adapter: Annotated[
        InstanceOf[Adapter],
        Option(levels=FLIT, written=Table, usual="the usual"),
    ] = USUAL_ADAPTER
    flit_bytes: Annotated[
        Bytes, Field(ge=1, le=MOST_FLIT_BYTES), Option(key="flit_size", levels=FLIT)
    ] = 64
    cycle_ns: Annotated[
        Annotated[Nanoseconds, Field(gt=0)] | None, Option(levels=FLIT, usual="any")
    ] = None
    high_priority: Annotated[
        Annotated[tuple[Phase, ...], BeforeValidator(listed)], Option(levels=FLIT)
    ] = ()
    tolerance: Annotated[Number, Field(ge=0, lt=1), Option(levels=FLOW)] = 0.0
    eager_bytes: Annotated[
        Bytes | None, Option(levels=TIMED, usual="16 KiB, or that of the host parameters")
    ] = None
    handshake: Annotated[Truth, Option(flag="no_handshake", means=False, levels=TIMED)] = True
    rendezvous: Annotated[Rendezvous, Option(levels=TIMED)] = "get"
    overhead_ns: Annotated[
        Nanoseconds | None, Option(levels=TIMED, usual="0, or that of the host parameters")
    ] = None
    host_parameters: Annotated[
        InstanceOf[HostParameters] | None,
        BeforeValidator(_host_parameters),
        Option(levels=TIMED, written=File),
    ] = None
    switch_latency_ns: Annotated[
        Nanoseconds | None, Option(levels=COARSE, usual="the switch latency of the hardware")
    ] = None
    latency_ns: Annotated[Nanoseconds | None, Option(levels=FLOW)] = None
    local_gbps: Annotated[Rate, Option(levels=TIMED)] = 100.0
    local_latency_ns: Annotated[Nanoseconds, Option(levels=TIMED)] = 200.0
    coefficients: Annotated[
        InstanceOf[PenaltyModel],
        BeforeValidator(_model),
        Option(levels=FLOW, written=File, usual="InfiniBand's"),
    ] = INFINIBAND
    multipath: Annotated[Multipath, Option(levels=FLOW)] = "split"
    minimal_share: Annotated[
        Annotated[Number, Field(ge=0, le=1)] | None,
        Option(levels=FLOW, usual="the share that minimises the largest load between switches"),
    ] = None
    ports: Annotated[Ports, Option(group="routing")] = "first"
    lids: Annotated[Any, Option(levels=PACKET, written=Lids)] = "first"
    seed: Annotated[Seed, Option(levels=TIMED, group="runs")] = 0
    snapshot_ns: Annotated[
        Annotated[Nanoseconds, AfterValidator(_interval)] | None, Option(levels=PACKET)
    ] = None
    trace: Annotated[
        Any,
        Option(
            flag="trace_message", levels=PACKET,
            written=Traced,
        ),
    ] = ()  # fmt: skip
    max_time_ns: Annotated[Nanoseconds | None, Option(levels=TIMED, group="runs")] = None
    threads: Annotated[
        Annotated[Whole, Field(ge=1)] | None,
        Option(
            levels=(*PACKET, *FLIT), group="runs",
            usual="all processors for one large run, 1 for each of several runs",
        ),
    ] = None  # fmt: skip
    fast_forward: Annotated[
        Annotated[
            Number,
            BeforeValidator(parse_share, json_schema_input_type=float | str),
            AfterValidator(_error),
        ]
        | None,
        Option(levels=PACKET, usual="0"),
    ] = None

    @classmethod
    def at(cls, level: Level, given: dict[str, Any]) -> RunSettings:
        """Return the settings of a run at one level, checked against its options."""
        known_fields(given, settings(cls, level), f"the {level} level", levels_with)
        chosen = cls(**given)
        if level == "flit" and chosen.policy is not None:
            check_policy(level, chosen.policy)
        if level == "flow" and chosen.policy is not None and chooses(chosen.policy):
            name = chosen.policy.partition(":")[0]
            raise InputError(f"the flow level has no policy {name}; the packet level has it")
        if level == "flit" and chosen.rendezvous == "put-shared":
            raise InputError(
                "rendezvous 'put-shared' needs queue pairs, which the flit level does not have; "
                "its messages take turns, so use get or put"
            )
        if chosen.coefficients != INFINIBAND and chosen.sharing != "penalty":
            raise InputError(f"coefficients go with sharing 'penalty', not '{chosen.sharing}'")
        return chosen

    @property
    def latency_of_switches_ns(self) -> float:
        """Latency of a switch: the run's setting if given, otherwise the hardware's."""
        own = self.hardware.switch_latency_ns
        return own if self.switch_latency_ns is None else self.switch_latency_ns

    def check_rolled(self, level: Level) -> None:
        """Raise `NotApplicable` if a run at a level needs all operations of a program at once."""
        reasons = {
            f"the {level} level needs all messages at once": level not in COARSE,
            "the sharing model penalty looks at all messages": self.sharing == "penalty",
            "routing keys are of phases": self.keys is not None,
            "messages take LIDs or queue pairs in turn": self.lids not in ("first", "hash")
            or self._policy.queue_pairs > 1,
            "fast_forward looks ahead of messages": bool(self.fast_forward),
            "snapshots and traces show messages": self.snapshot_ns or len(self.trace) > 0,
        }
        for reason in (reason for reason, holds in reasons.items() if holds):
            raise NotApplicable(f"the workload is rolled, and {reason}")

    @property
    def keys(self) -> KeyRules | None:
        """How the run uses routing keys; None if its policy uses none."""
        return self._policy.keys

    @property
    def _policy(self) -> Policy:
        spec = self.policy or NO_CHOICE
        if self.scheduler:
            if spec.partition(":")[0] != "nrk":
                raise InputError(f"only policy nrk has a scheduler, not {spec}")
            spec += ("," if ":" in spec else ":") + self.scheduler
        entry, options = policies.parse(spec)
        chosen: Policy = entry.function(**policies.bind(entry, options))
        return chosen

    @property
    def flow(self) -> dict[str, Any]:
        """Options of the flow level by name."""
        hardware = self._hardware
        wire_bytes = hardware.mtu_bytes + hardware.header_bytes
        gbps = hardware.adapter_gbps
        return {
            **self._of("flow"),
            "mtu_bytes": hardware.mtu_bytes,
            "header_bytes": hardware.header_bytes,
            "switch_latency_ns": self.latency_of_switches_ns,
            "adapter_gbps": None if gbps is None else gbps * hardware.mtu_bytes / wire_bytes,
            "adapter_latency_ns": hardware.adapter_latency_ns,
        }

    def packet(self, routes: Routes) -> dict[str, Any]:
        """Return the options of the packet level by name."""
        hardware, latency_ns = self._hardware, self.latency_of_switches_ns
        if hardware.switch_latency_ns != latency_ns:
            hardware = replace(hardware, switch_latency_ns=latency_ns)
        return {
            **self._of("packet"),
            "hardware": hardware,
            "policy": usual_policy(routes) if self.policy is None else self.policy,
        }

    def flit(self, routes: Routes | str) -> dict[str, Any]:
        """Return the options of the flit level by name; a routing by name has no policy."""
        usual = usual_policy(routes, "flit") if isinstance(routes, Routes) else None
        return {
            **self._of("flit"),
            "hardware": self._hardware,
            "policy": usual if self.policy is None else self.policy,
        }

    @property
    def _hardware(self) -> Hardware:
        """Hardware with the host parameters that it does not set."""
        known = self.host_parameters or HostParameters()
        own, gbps = self.hardware, self.hardware.adapter_gbps
        latency_ns = known.adapter_latency_ns if own.adapter_latency_ns is None else None
        return replace(
            own,
            adapter_gbps=known.adapter_gbps if gbps is None else gbps,
            adapter_latency_ns=latency_ns or own.adapter_latency_ns or 0.0,
        )

    def _of(self, level: Level) -> dict[str, Any]:
        values = {
            item.field: getattr(self, item.field)
            for item in settings(RunSettings, level)
            if item.field not in ("hardware", "switch_latency_ns", "host_parameters")
        }
        if level in TIMED:
            known = self.host_parameters or HostParameters()
            usual = known.overhead or NO_OVERHEAD
            own = self.overhead_ns
            values["overhead"] = usual if own is None else (Overhead.model_construct(ns=own),)
            values["eager_bytes"] = next(
                size
                for size in (self.eager_bytes, known.eager_bytes, USUAL_HOST["eager"])
                if size is not None
            )
        return values


def levels_with(name: str) -> str:
    """Return text for the levels that have a setting; empty if none does."""
    (setting,) = [item for item in settings(RunSettings) if item.field == name] or (None,)
    if setting is None:
        return ""
    *others, last = (f"the {level}" for level in LEVELS if setting.of(level))
    named = f"{', '.join(others)} and {last}" if others else last
    return f"{named} level {'have' if others else 'has'} it"


def check_level(level: object) -> Level:
    """Return a level of detail, checked."""
    if level not in LEVELS:
        raise InputError(f"unknown level {level!r}; there are {', '.join(LEVELS)}")
    return level


def chooses(policy: str) -> bool:
    """Return whether a policy of the packet level chooses among the candidates of a packet."""
    return policies.parse(policy)[0].facts.get("choose") is not None


def has_policy(level: Level, policy: str) -> bool:
    """Return whether a level has a policy of this name."""
    name = policy.partition(":")[0].strip()
    return name == NO_CHOICE or name in POLICIES[level]


def check_policy(level: Level, policy: str) -> None:
    """Refuse a policy that a level does not have, and wrong options."""
    if level == "flit":
        if policy == NO_CHOICE:
            return
        if not has_policy(level, policy) and has_policy("packet", policy):
            name = policy.partition(":")[0].strip()
            raise InputError(
                f"the flit level has no policy {name}; it has {NO_CHOICE}, "
                f"{', '.join(flit_policies.names())}"
            )
    registry = POLICIES[level]
    entry, given = registry.parse(policy)
    entry.function(**registry.bind(entry, given))


def usual_policy(routes: Routes, level: Level = "packet") -> str:
    """Return the default policy of routes at a level.

    Candidates have the policy of their engine, such as adaptive; if there is none, ecmp.
    """
    return NO_CHOICE if routes.settled else usual_choice(routes.engine, level)


def usual_choice(engine: str, level: Level) -> str:
    """Return the default policy of the candidates of an engine at a level."""
    return usual_of(engine, POLICIES[level])
