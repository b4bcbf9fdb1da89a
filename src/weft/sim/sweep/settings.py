"""What the runs of a load sweep share: traffic, windows, and every engine with every policy."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, get_args

import numpy as np

from weft.core.arguments import whole_number
from weft.core.errors import InputError, NotApplicable
from weft.core.registry import convert, did_you_mean
from weft.core.units import Bytes, Nanoseconds
from weft.fabrics import Fabric, check_fabric
from weft.routes import Routes
from weft.routing import engine as engines
from weft.routing import route
from weft.sim.flow import simulate
from weft.sim.packet import Hardware, simulate_packets
from weft.sim.packet.limits import LONGEST_OPTIONS_NS
from weft.sim.packet.policies import policy as policies
from weft.sim.static.loads import host_rate_gbps
from weft.sim.sweep.one_load import Level, Network, Traffic
from weft.workload import traffic as flows_of
from weft.workload.sources import Distribution

#: The window takes so many message times (at full rate) that about this number of messages would
#: be born in it at load 1, within these bounds of message times.
MESSAGES, SHORTEST, LONGEST = 100_000, 500, 4000
#: Warm-up and cool-down in windows, and how many times longer than that all of it may take.
WARM_UP, COOL_DOWN, DRAIN = 0.25, 0.25, 10.0
#: Loads are told apart, and seeds made of them, to this.
LOAD_STEP = 1e-6

#: Options of the levels that a sweep sets for each run.
_OWN = (
    "fabric", "routes", "workload", "hardware", "policy", "seed", "max_time_ns", "progress",
)  # fmt: skip

#: Routes of a sweep: an engine by name, routes, or several of both.
Engines = str | Routes | Sequence[str | Routes]
#: The policy of routes that leave no choice.
NO_CHOICE = "deterministic"


class SweepSettings(TypedDict, total=False):
    """What a sweep may be told besides the fabric and the routes.

    Parameters
    ----------
    pattern
        A traffic pattern, with options or not: ``uniform``. Every host is a rank. Where each
        message draws its destination (`uniform`; `hot-spot` with its `hosts` given), the draws
        are other ones for each load.
    size
        Mean size of a message, bytes or text such as ``4KiB``: 2048.
    size_distribution, interarrival
        ``fixed``, ``uniform`` or ``exponential``: of sizes fixed, of times exponential, which is
        Poisson traffic.
    rate_gbps
        Rate that a load of 1 stands for: that of the fastest cable of a host.
    level
        ``packet`` or ``flow``: packet.
    policy
        Of the packet level, one or several. Left out, deterministic; where routes leave a choice
        the one called as the engine, or ecmp.
    hardware
        Of the packet level: `Hardware` with its defaults.
    options
        More options of `simulate_packets`, or of `simulate` at the flow level.
    warmup, measure, cooldown
        Before, in and after which messages are measured, ns or text such as ``1ms``. Left out, the
        window is so long that 100,000 messages would be born in it at load 1, but at least 500 and
        at most 4,000 message times at full rate; warm-up and cool-down are a quarter of it.
    drain
        How long to wait for messages on the way once sources have stopped: ten times all before.
        The flow level waits for all.
    seed
        From which each load's is made: 0.
    """

    pattern: str
    size: str | int
    size_distribution: Distribution
    interarrival: Distribution
    rate_gbps: float | None
    level: Level
    policy: str | Sequence[str]
    hardware: Hardware | None
    options: Mapping[str, Any]
    warmup: str | float | None
    measure: str | float | None
    cooldown: str | float | None
    drain: str | float | None
    seed: int


@dataclass(frozen=True, eq=False)
class Configuration:
    """One engine with one policy.

    Parameters
    ----------
    engine, policy
        Their names; no policy at the flow level.
    network
        None where they do not fit.
    reason
        Why they do not.
    """

    engine: str
    policy: str | None
    network: Network | None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Study:
    """What the runs of a sweep or a search share.

    Parameters
    ----------
    fabric, level, traffic, seed
        Of all runs.
    configurations
        Every engine with every policy, at least one of which fits.
    hardware
        Its unusual settings in words; None at the flow level.
    """

    fabric: Fabric
    level: Level
    traffic: Traffic
    seed: int
    configurations: tuple[Configuration, ...]
    hardware: str | None

    @classmethod
    def of(cls, fabric: Fabric, routes: Engines, settings: SweepSettings) -> Study:
        """Everything checked and routed, and every combination tried with one message.

        Raises
        ------
        InputError
            On a value that cannot be.
        NotApplicable
            When no combination fits, or the pattern does not exist for so many hosts.
        """
        check_fabric(fabric)
        known = SweepSettings.__annotations__
        wrong = [name for name in settings if name not in known]
        if wrong:
            raise InputError(f"unknown setting {wrong[0]!r}; there are {', '.join(known)}")
        level = settings.get("level", "packet")
        if level not in get_args(Level):
            raise InputError(f"unknown level {level!r}; there are {', '.join(get_args(Level))}")
        hardware = settings.get("hardware")
        policy = settings.get("policy")
        if hardware is not None and not isinstance(hardware, Hardware):
            raise InputError(f"expected a Hardware, not {hardware!r}")
        if level == "flow" and (hardware is not None or policy not in (None, NO_CHOICE)):
            raise InputError("the flow level has neither hardware nor policies")
        seed = whole_number(convert(settings.get("seed", 0), int, "seed"), "seed")
        options = _options(level, settings.get("options", {}))
        traffic = resolved(fabric, **settings)
        asked = _listed("routes", routes)
        listed = None if policy is None else _listed("policy", policy)
        if not asked or listed == []:
            raise InputError("neither routes nor policies may be an empty list")
        made = []
        for engine in asked:
            name, ways = _routed(fabric, engine)
            for each in [_usual_policy(ways)] if listed is None else listed:
                chosen = each if level == "packet" else None
                if isinstance(ways, NotApplicable):
                    made.append(Configuration(name, chosen, None, str(ways)))
                    continue
                network = Network(fabric, ways, level, each, hardware or Hardware(), options)
                try:
                    network.try_out()
                    made.append(Configuration(name, chosen, network))
                except NotApplicable as reason:
                    made.append(Configuration(name, chosen, None, str(reason)))
        if all(each.network is None for each in made):
            raise NotApplicable(
                "; ".join(dict.fromkeys(f"{each.engine}: {each.reason}" for each in made))
            )
        said = _unusual(hardware or Hardware()) if level == "packet" else None
        return cls(fabric, level, traffic, seed, tuple(made), said)

    def seed_of(self, load: float) -> int:
        """Seed of a run: equal loads meet equal traffic, whatever the engine and policy."""
        entropy = (self.seed, round(load / LOAD_STEP))
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint32)[0])

    def packets(self, load: float) -> float:
        """About how many packets runs send whose loads add up to this."""
        traffic = self.traffic
        messages = load * traffic.sources * traffic.stop_ns * traffic.rate_gbps / 8 / traffic.size
        return messages * -(-traffic.size // Hardware().mtu_bytes)

    def rows(self, doing: str) -> list[dict[str, Any]]:
        """What the row of each configuration says before anything has run."""
        found = []
        for each in self.configurations:
            fits = each.network is not None
            found.append(
                {
                    "fabric": self.fabric.name,
                    "engine": each.engine,
                    "policy": each.policy,
                    "hardware": self.hardware,
                    "level": self.level,
                    "pattern": self.traffic.pattern,
                    "size_bytes": self.traffic.size,
                    "rate_gbps": self.traffic.rate_gbps,
                    "status": "interrupted" if fits else "does not fit",
                    "reason": f"the {doing} was interrupted" if fits else each.reason,
                }
            )
        return found


def resolved(fabric: Fabric, **settings: Unpack[SweepSettings]) -> Traffic:
    """The traffic of a sweep, with what nobody said filled in; what is no part of it is left out.

    Raises
    ------
    InputError, NotApplicable
        On a value that does not fit, or a pattern that does not exist for so many hosts.
    """
    mean = convert(settings.get("size", 2048), Bytes, "size")
    if mean < 1:
        raise InputError(f"size must be at least 1, not {mean}")
    given = settings.get("rate_gbps")
    rate = host_rate_gbps(fabric) if given is None else convert(given, float, "rate_gbps")
    if not 0 < rate < np.inf:
        raise InputError(f"rate_gbps must be above 0, not {rate}")
    size_distribution = settings.get("size_distribution", "fixed")
    interarrival = settings.get("interarrival", "exponential")
    for name, value in (("size_distribution", size_distribution), ("interarrival", interarrival)):
        if value not in get_args(Distribution):
            known = ", ".join(get_args(Distribution))
            raise InputError(f"unknown {name} {value!r}; there are {known}")
    pattern = settings.get("pattern", "uniform")
    sources = len(np.unique(flows_of(fabric.num_hosts, pattern).sources))
    times = min(max(MESSAGES / sources, SHORTEST), LONGEST)
    window = _time("measure", settings.get("measure"), times * 8 * mean / rate)
    if not window > 0:
        raise InputError("measure must be above 0")
    before = _time("warmup", settings.get("warmup"), WARM_UP * window)
    after = _time("cooldown", settings.get("cooldown"), COOL_DOWN * window)
    drain = _time("drain", settings.get("drain"), DRAIN * (before + window + after))
    longest = LONGEST_OPTIONS_NS["max_time_ns"]
    if before + window + after + drain > longest and settings.get("level", "packet") == "packet":
        raise InputError(
            f"warmup, measure, cooldown and drain are {before + window + after + drain:.4g} ns "
            f"together; at most {longest:.4g} are simulated"
        )
    return Traffic(
        pattern=pattern,
        size=mean,
        size_distribution=size_distribution,
        interarrival=interarrival,
        rate_gbps=rate,
        sources=sources,
        warmup_ns=before,
        measure_ns=window,
        cooldown_ns=after,
        drain_ns=drain,
    )


def load_value(load: float) -> float:
    """A load, when it is one.

    Raises
    ------
    InputError
        Else.
    """
    if isinstance(load, bool) or not isinstance(load, int | float | np.number):
        raise InputError(f"a load is a number, not {load!r}")
    if not LOAD_STEP <= load < np.inf:
        raise InputError(f"a load must be at least {LOAD_STEP:g}, not {load}")
    return float(load)


def _listed(name: str, given: Any) -> list[Any]:
    """One or several as a list.

    Raises
    ------
    InputError
        On what is neither.
    """
    if isinstance(given, str | Routes):
        return [given]
    if not isinstance(given, Iterable):
        raise InputError(f"{name} must be one or a list, not {given!r}")
    return list(given)


def _options(level: Level, given: Any) -> Mapping[str, Any]:
    """Options of a level that a sweep does not set itself.

    Raises
    ------
    InputError
        On others.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"options must be a mapping of names to values, not {given!r}")
    function = simulate_packets if level == "packet" else simulate
    parameters = inspect.signature(function).parameters
    known = [name for name in parameters if name not in _OWN]
    for name in given:
        if name in _OWN:
            raise InputError(f"options: {name} is set by the sweep itself")
        if name not in known:
            raise InputError(
                f"options: the {level} level has no {name!r}{did_you_mean(str(name), known)}; "
                f"there are {', '.join(known)}"
            )
    return given


def _time(name: str, value: str | float | None, default: float) -> float:
    return default if value is None else float(convert(value, Nanoseconds, name))


def _unusual(hardware: Hardware) -> str:
    """Settings that are not the usual ones, in words."""
    usual = Hardware().table()
    return (
        ", ".join(
            f"{name}={value}" for name, value in hardware.table().items() if value != usual[name]
        )
        or "usual"
    )


def _usual_policy(ways: Routes | NotApplicable) -> str:
    """The policy of routes of which nobody said one."""
    if isinstance(ways, NotApplicable) or ways.settled:
        return NO_CHOICE
    name = ways.engine.partition(":")[0]
    return name if name in policies else "ecmp"


def _routed(fabric: Fabric, engine: str | Routes) -> tuple[str, Routes | NotApplicable]:
    """Routes and what to call them."""
    if isinstance(engine, Routes):
        return engine.engine, engine
    if not isinstance(engine, str):
        raise InputError(f"routes are an engine by name or Routes, not {engine!r}")
    try:
        return engine, route(fabric, engine)
    except NotApplicable as reason:
        # Rows have a column for the engine.
        name = engines.parse(engine)[0].name
        return engine, NotApplicable(str(reason).removeprefix(f"{name}: "))
