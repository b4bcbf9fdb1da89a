"""Settings of a run at any level of detail: what `weft.simulate`, files and commands take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf

from weft.contention import INFINIBAND, PenaltyModel
from weft.contention.coefficients import read_coefficients
from weft.core.errors import InputError
from weft.core.settings import Number, Option, Rate, Seed, Settings, Truth, known_fields, settings
from weft.core.units import Bytes, Nanoseconds
from weft.routes import Routes
from weft.sim.flow.network import Multipath
from weft.sim.flow.sharing import Sharing
from weft.sim.packet.connections import Lids
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.policies import policy as policies
from weft.sim.static.loads import Ports

Level = Literal["flow", "static", "packet"]
LEVELS: tuple[Level, ...] = get_args(Level)
FLOW, PACKET, TIMED = ("flow",), ("packet",), ("flow", "packet")
USUAL_HARDWARE = Hardware()
#: The policy of routes that leave no choice.
NO_CHOICE = "deterministic"


def _interval(value: float) -> float:
    if value < 0.001:
        raise ValueError("expected a positive time, 0.001 ns or more")
    return value


def _traced(text: str) -> str:
    *_, rank, number = ("", *text.split(":"))
    if not (rank.isdecimal() and number.isdecimal() and len(text) < 200):
        raise ValueError("expected RANK:N, or JOB:RANK:N where there are several jobs")
    return text


def _listed(given: object) -> object:
    return (given,) if isinstance(given, str) else given


Traced = Annotated[tuple[Annotated[str, AfterValidator(_traced)], ...], BeforeValidator(_listed)]


def _model(given: object) -> object:
    return read_coefficients(given).model if isinstance(given, str | Path) else given


@dataclass(frozen=True)
class RunSettings(Settings):
    """Settings of a run.

    Parameters
    ----------
    sharing
        How messages that are under way together share links: ``maxmin`` (max-min fairness over all
        links), ``penalty`` (contention graphs: Martinasso and Méhaut 2011) or ``none`` (every pair
        of ranks as if it were alone).
    policy
        How packets choose where routes leave a choice, with options as in ``flowlet:gap=10us``.
    hardware
        What switches and adapters are like. The flow level takes `mtu`, `header` and
        `switch_latency` of it.
    tolerance
        Relative error of completion times, counted from the start of the run, that is allowed for
        speed under ``maxmin``. The bound is measured, not proved (docs/flow-level.md); 0 is exact.
    eager_bytes
        A send up to this size ends at once and its data leaves without asking. A larger one waits
        for its receive (rendez-vous) and ends when its last byte has left.
    handshake
        A rendez-vous takes a request and an answer before data leaves.
    overhead_ns
        Time of the processor at either side of each message (o of LogP).
    switch_latency_ns
        Latency of each switch on the way, besides the cables'.
    latency_ns
        Latency of every message between hosts, instead of that of its way.
    local_gbps
        Rate of messages within a host, one after the other between the same two ranks.
    local_latency_ns
        Latency of messages within a host.
    coefficients
        Coefficients of the law ``penalty``: a `PenaltyModel`, or the file of one that `weft
        calibrate` wrote.
    multipath
        Where routes leave a choice: ``split`` every message over all ways or draw one for each by
        ``hash``. Messages go to the first LID of their destination.
    straight
        Share of messages that goes straight where it may also go by an intermediate (``ugal``).
    ports
        Which ports hosts with several use.
    lids
        Which LID of a destination with an LMC messages go to: the ``first``, one by the ``hash`` of
        the ranks, all in turn (``spread``), or in Python an offset for each operation.
    seed
        Seed of all draws.
    snapshot_ns
        Time between two looks at all buffers; it doubles whenever 2,000 have been taken, and every
        other one goes.
    trace
        Messages whose every hop is written down: ``RANK:N`` is the message that a rank sends as its
        number N, from 0, ``JOB:RANK:N`` where there are several jobs; in Python, operations.
    max_time_ns
        Simulated time at which a run is stopped.

    Raises
    ------
    InputError
        On a value that cannot be.
    """

    sharing: Annotated[Sharing, Option(levels=FLOW, compared="names")] = "maxmin"
    policy: Annotated[
        str | None,
        Option(
            levels=PACKET, compared="names", plural="policies",
            usual="the engine's own, or ecmp where routes leave a choice",
        ),
    ] = None  # fmt: skip
    hardware: Annotated[
        InstanceOf[Hardware],
        Option(levels=TIMED, written=tuple[str, ...], usual="the usual"),
    ] = USUAL_HARDWARE
    tolerance: Annotated[Number, Field(ge=0, lt=1), Option(levels=FLOW)] = 0.0
    eager_bytes: Annotated[Bytes, Option(levels=TIMED)] = 16384
    handshake: Annotated[Truth, Option(flag="no_handshake", means=False, levels=TIMED)] = True
    overhead_ns: Annotated[Nanoseconds, Option(levels=TIMED)] = 0.0
    switch_latency_ns: Annotated[
        Nanoseconds | None, Option(levels=TIMED, usual="that of the hardware")
    ] = None
    latency_ns: Annotated[Nanoseconds | None, Option(levels=FLOW)] = None
    local_gbps: Annotated[Rate, Option(levels=TIMED)] = 100.0
    local_latency_ns: Annotated[Nanoseconds, Option(levels=TIMED)] = 200.0
    coefficients: Annotated[
        InstanceOf[PenaltyModel],
        BeforeValidator(_model),
        Option(levels=FLOW, written=str, usual="InfiniBand's"),
    ] = INFINIBAND
    multipath: Annotated[Multipath, Option(levels=FLOW)] = "split"
    straight: Annotated[
        Annotated[Number, Field(ge=0, le=1)] | None,
        Option(levels=FLOW, usual="what makes the largest load between switches least"),
    ] = None
    ports: Ports = "first"
    lids: Annotated[Any, Option(levels=PACKET, written=Lids)] = "first"
    seed: Annotated[Seed, Option(levels=TIMED)] = 0
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
    max_time_ns: Annotated[Nanoseconds | None, Option(levels=TIMED)] = None

    @classmethod
    def at(cls, level: Level, given: dict[str, Any]) -> RunSettings:
        """Settings of a run at one level, which has to know each of those given.

        Raises
        ------
        InputError
            On a name that the level does not know, with the levels that do, or a value that cannot
            be.
        """
        known = [item for item in settings(cls) if item.of(level)]
        known_fields(given, known, f"the {level} level", levels_that_know)
        return cls(**given)

    @property
    def latency_of_switches_ns(self) -> float:
        """Latency of a switch, wherever it was given."""
        own = self.hardware.switch_latency_ns
        return own if self.switch_latency_ns is None else self.switch_latency_ns

    @property
    def flow(self) -> dict[str, Any]:
        """All that the flow level takes, by name."""
        return {
            **self._of("flow"),
            "mtu_bytes": self.hardware.mtu_bytes,
            "header_bytes": self.hardware.header_bytes,
            "switch_latency_ns": self.latency_of_switches_ns,
        }

    def packet(self, routes: Routes) -> dict[str, Any]:
        """All that the packet level takes, by name."""
        return {
            **self._of("packet"),
            "hardware": replace(self.hardware, switch_latency_ns=self.latency_of_switches_ns),
            "policy": usual_policy(routes) if self.policy is None else self.policy,
        }

    def _of(self, level: Level) -> dict[str, Any]:
        return {
            item.field: getattr(self, item.field)
            for item in settings(RunSettings)
            if item.of(level) and item.field not in ("hardware", "switch_latency_ns")
        }


def levels_that_know(name: str) -> str:
    """Which levels know a setting, in words; empty where none does."""
    (found,) = [item for item in settings(RunSettings) if item.field == name] or (None,)
    if found is None:
        return ""
    levels = [level for level in LEVELS if found.of(level)]
    return f"the {' and the '.join(levels)} level {'have' if len(levels) > 1 else 'has'} it"


def check_level(level: object) -> Level:
    """A level of detail.

    Raises
    ------
    InputError
        When there is none of that name.
    """
    if level not in LEVELS:
        raise InputError(f"unknown level {level!r}; there are {', '.join(LEVELS)}")
    return level


def usual_policy(routes: Routes) -> str:
    """The policy of routes of which nobody said one: the engine's own, or ecmp, for candidates."""
    if routes.settled:
        return NO_CHOICE
    name = routes.engine.partition(":")[0]
    return name if name in policies else "ecmp"
