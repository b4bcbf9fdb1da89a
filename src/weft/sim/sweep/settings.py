"""Settings common to the runs of a load sweep: traffic, windows, engines and policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from weft.core.errors import InputError, NotApplicable
from weft.core.settings import Group, Option, Rate, Settings, known_fields, settings
from weft.core.units import Bytes, Nanoseconds
from weft.fabrics import Fabric, check_fabric
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.common.policies import NO_CHOICE
from weft.sim.common.times import LONGEST_OPTIONS_NS
from weft.sim.methods import Method, methods
from weft.sim.options import Level, RunSettings, check_level, levels_with, usual_policy
from weft.sim.packet import Hardware
from weft.sim.sweep.one_load import OpenLoopTraffic, RoutedFabric, measure_load
from weft.sim.sweep.series import Configuration, Series
from weft.sim.sweep.window_measures import OpenLoopMeasures
from weft.workload import traffic as flows_of
from weft.workload.sources import REQUEST_BYTES, Distribution

#: Default length of the window: the time in which `MESSAGES` messages are generated at load 1,
#: but at least `SHORTEST` and at most `LONGEST` times the time of a message at full rate.
MESSAGES, SHORTEST, LONGEST = 100_000, 500, 4000
#: Defaults of warm-up and cool-down, relative to the window, and of drain, relative to the sum of
#: the three.
WARM_UP, COOL_DOWN, DRAIN = 0.25, 0.25, 10.0
#: Resolution of loads; seeds are derived from the rounded loads.
LOAD_STEP = 1e-6

#: Maximum number of loads in a range.
MOST_LOADS = 1000

#: Settings of runs that a sweep does not have: its messages need no receive, each host has one
#: rank, and the sweep itself limits the time of runs and uses the processors.
OWN = (
    "eager_bytes", "handshake", "rendezvous", "local_gbps", "local_latency_ns", "max_time_ns",
    "scheduler", "snapshot_ns", "trace", "threads", "fast_forward",
)  # fmt: skip

#: Routes of a sweep: the name of an engine, or routes, or a list of names and routes.
Engines = str | Routes | Sequence[str | Routes]

#: Number of packets of a sweep (a few seconds) from which several processes save time.
_WORTH_PROCESSES = 1_000_000


@dataclass(frozen=True)
class TrafficSettings(Settings):
    """Traffic of the sources, and the measurement window.

    Parameters
    ----------
    pattern
        Traffic pattern, with options as in ``hot-spot:fraction=0.2``. Every host is a rank. If each
        message draws its destination (`uniform`, `io`; `hot-spot` with `hosts`), the draws differ
        between loads.
    size
        Mean size of messages.
    size_distribution
        Distribution of sizes.
    interarrival
        Distribution of intervals between messages: ``exponential`` is Poisson traffic.
    write_share
        Probability that a message is written to its destination; else the source requests it, and
        the destination returns it when the request has arrived (a read).
    request_bytes
        Size of the request of a read, which does not count in the load.
    rate_gbps
        Rate of a source at load 1.
    warmup
        Time before the window.
    measure
        Length of the window; messages generated in the window are measured.
    cooldown
        Time for which sources continue after the window.
    drain
        Longest time after the cool-down to wait for messages under way. The flow level waits for
        all messages.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    GROUP: ClassVar[Group] = "workload"

    pattern: Annotated[str, Option(group="first")] = "uniform"
    size: Annotated[Bytes, Field(ge=1)] = 2048
    size_distribution: Distribution = "fixed"
    interarrival: Distribution = "exponential"
    write_share: Annotated[float, Field(ge=0, le=1)] = 1.0
    request_bytes: Bytes = REQUEST_BYTES
    rate_gbps: Annotated[Rate | None, Option(usual="rate of the fastest host cable")] = None
    warmup: Annotated[Nanoseconds | None, Option(usual="a quarter of the window")] = None
    measure: Annotated[
        Annotated[Nanoseconds, Field(gt=0)] | None,
        Option(
            usual="the time in which 100,000 messages are generated at load 1, but at least 500 "
            "and at most 4,000 times the time of a message at full rate"
        ),
    ] = None
    cooldown: Annotated[Nanoseconds | None, Option(usual="a quarter of the window")] = None
    drain: Annotated[
        Nanoseconds | None, Option(usual="ten times the sum of warmup, measure and cooldown")
    ] = None


@dataclass(frozen=True, eq=False)
class LoadSeries(Series):
    """Runs of open-loop traffic."""

    fabric: Fabric
    level: Level
    traffic: OpenLoopTraffic
    seed: int

    @classmethod
    def of(
        cls,
        fabric: Fabric,
        routes: Engines | None,
        level: str,
        policy: str | Sequence[str] | None,
        routing: str | Sequence[str] | None,
        seed: int,
        given: Mapping[str, Any],
    ) -> LoadSeries:
        """Check all settings, make the routes, and try every combination with one message.

        `fabric`, `routes`, `level`, `policy`, `routing`, `seed`: as in `weft.sweep`. `given`:
        settings of the traffic and of runs.

        Raises `NotApplicable` if no combination fits, or the pattern does not exist for this number
        of hosts.
        """
        check_fabric(fabric)
        level = check_level(level)
        if level == "static":
            raise InputError("the static level has no load; expected packet, flow or flit")
        for_traffic = settings(TrafficSettings)
        for_runs = [item for item in settings(RunSettings) if item.field not in OWN]
        known = [*for_traffic, *(item for item in for_runs if item.of(level))]
        owner = f"a sweep at the {level} level"
        known_fields(given, known, owner, lambda name: "" if name in OWN else levels_with(name))
        names = [item.field for item in for_traffic]
        of_traffic = {name: value for name, value in given.items() if name in names}
        of_runs = {name: value for name, value in given.items() if name not in names}
        if policy is not None and level == "flow":
            raise InputError("the flow level has no policy; the packet and the flit level have it")
        if routing is not None and level != "flit":
            raise InputError(f"the {level} level has no routing; the flit level has it")
        chosen = RunSettings.at(level, {**of_runs, "seed": seed})
        traffic = resolved(fabric, TrafficSettings(**of_traffic), level)
        engines = _listed("routes", routes, "an engine by name or Routes", (str, Routes))
        routings = _listed("routing", routing, "a routing by name", (str,))
        policies = _listed("policy", policy, "a policy by name", (str,))
        usual = engines is None and routings is None
        if policies == [] or not (engines or routings or usual):
            raise InputError("neither routes nor policies may be an empty list")
        routed: dict[str | Routes, tuple[str, Routes | NotApplicable]] = {}
        configurations = tuple(
            _configuration(fabric, method, of_runs, routed)
            for method in methods((level,), engines, routings, policies)
        )
        if all(each.what is None for each in configurations):
            reasons = (
                f"{each.names['engine'] or each.names['routing']}: {each.reason}"
                for each in configurations
            )
            raise NotApplicable("; ".join(dict.fromkeys(reasons)))
        router = None
        if level == "flit":
            parts = _unusual(chosen.router, flit_bytes=chosen.flit_bytes), _unusual(chosen.adapter)
            router = ", ".join(each for each in parts if each != "usual") or "usual"
        common = {
            "fabric": fabric.name, "level": level, "pattern": traffic.pattern,
            "size_bytes": traffic.size, "rate_gbps": traffic.rate_gbps, "router": router,
            "hardware": None if level == "flow" else _unusual(chosen.hardware),
        }  # fmt: skip
        return cls(configurations, common, fabric, level, traffic, chosen.seed)

    def seed_of(self, load: float) -> int:
        """Return the seed of a run: equal loads have equal traffic for all engines and policies."""
        entropy = (self.seed, round(load / LOAD_STEP))
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint32)[0])

    def measure(self, number: int, load: float, watch: Callable[[Any], None]) -> OpenLoopMeasures:
        """Run a configuration at a load."""
        network = self.configurations[number].what
        return measure_load(network, self.traffic, load, self.seed_of(load), watch)

    def share(self, load: float) -> float:
        """Return the work of runs whose loads add up to `load`, see `Series.rows`."""
        traffic = self.traffic
        messages = load * traffic.sources * traffic.stop_ns * traffic.rate_gbps / 8 / traffic.size
        return messages * -(-traffic.size // Hardware().mtu_bytes) / _WORTH_PROCESSES


def _configuration(
    fabric: Fabric,
    method: Method,
    options: dict[str, Any],
    routed: dict[str | Routes, tuple[str, Routes | NotApplicable]],
) -> Configuration:
    """Return an engine or a routing, tried with one message.

    `routed`: engines that were routed before, to which this one is added.
    """
    given, level, _, policy, routing = method
    routes: Routes | str | NotApplicable
    if routing is not None:
        routes, names = routing, {"engine": None, "routing": routing}
    else:
        if given not in routed:
            routed[given] = _routed(fabric, given)
        engine, routes = routed[given]
        if level != "flow":
            if policy is None:
                policy = usual_policy(routes, level) if isinstance(routes, Routes) else NO_CHOICE
            options = {**options, "policy": policy}
        names = {"engine": engine, "policy": policy}
    if isinstance(routes, NotApplicable):
        return Configuration(names, None, routes.reason)
    network = RoutedFabric(fabric, routes, level, options)
    try:
        network.try_out()
    except NotApplicable as error:
        return Configuration(names, None, str(error))
    return Configuration(names, network)


def resolved(fabric: Fabric, given: TrafficSettings, level: Level = "packet") -> OpenLoopTraffic:
    """Return the traffic of a sweep with default values filled in."""
    rate = fabric.host_rate_gbps if given.rate_gbps is None else given.rate_gbps
    sources = len(np.unique(flows_of(fabric.num_hosts, given.pattern).sources))
    times = min(max(MESSAGES / sources, SHORTEST), LONGEST)
    window = times * 8 * given.size / rate if given.measure is None else given.measure
    before = WARM_UP * window if given.warmup is None else given.warmup
    after = COOL_DOWN * window if given.cooldown is None else given.cooldown
    drain = DRAIN * (before + window + after) if given.drain is None else given.drain
    longest = LONGEST_OPTIONS_NS["max_time_ns"]
    if before + window + after + drain > longest and level != "flow":
        raise InputError(
            f"warmup, measure, cooldown and drain are {before + window + after + drain:.4g} ns "
            f"together; at most {longest:.4g} ns can be simulated"
        )
    return OpenLoopTraffic(
        pattern=given.pattern,
        size=given.size,
        size_distribution=given.size_distribution,
        interarrival=given.interarrival,
        write_share=given.write_share,
        request_bytes=given.request_bytes,
        rate_gbps=rate,
        sources=sources,
        warmup_ns=before,
        measure_ns=window,
        cooldown_ns=after,
        drain_ns=drain,
    )


def load_value(load: float) -> float:
    """Return a load as a float, checked."""
    if isinstance(load, bool) or not isinstance(load, int | float | np.number):
        raise InputError(f"a load must be a number, not {load!r}")
    if not LOAD_STEP <= load < np.inf:
        raise InputError(f"a load must be at least {LOAD_STEP:g}, not {load}")
    return float(load)


def loads_of(text: str, option: str = "") -> list[float]:
    """Return the loads of a list or of a range, whose last load is included."""
    where = f"{option} {text}: " if option else ""
    try:
        parts = [float(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        parts = []
    if ":" not in text:
        if not parts:
            raise InputError(f"{where}expected FIRST:LAST:STEP or numbers with commas")
        return parts
    if len(parts) != 3 or not 0 < parts[0] <= parts[1] < float("inf") or not parts[2] > 0:
        raise InputError(
            f"{where}expected FIRST:LAST:STEP, such as 0.1:0.9:0.1, with 0 < FIRST <= LAST"
        )
    first, last, step = parts
    number = int((last - first) / step + 1e-9) + 1
    if number > MOST_LOADS:
        raise InputError(f"{where}expected at most {MOST_LOADS:,} loads, not {number:,}")
    return [round(first + index * step, 9) for index in range(number)]


def _listed(name: str, given: Any, expected: str, kinds: tuple[type, ...]) -> list[Any] | None:
    """Return a list of the given item or items; None if nothing is given."""
    if given is None:
        return None
    if isinstance(given, str | Routes):
        given = [given]
    if not isinstance(given, Iterable):
        raise InputError(f"{name} must be one value or a list, not {given!r}")
    items = list(given)
    for each in items:
        if not isinstance(each, kinds):
            raise InputError(f"{name} must be {expected}, not {each!r}")
    return items


def _unusual(chosen: Settings, **more: Any) -> str:
    """Return the settings that differ from the defaults, as text; `more` are settings of runs."""
    usual = RunSettings().table() | type(chosen)().table()
    listed = {**chosen.table(), **more}.items()
    return ", ".join(f"{name}={value}" for name, value in listed if value != usual[name]) or "usual"


def _routed(fabric: Fabric, engine: str | Routes) -> tuple[str, Routes | NotApplicable]:
    """Return the engine's name, and its routes or the reason why there are none."""
    if isinstance(engine, Routes):
        return engine.engine, engine
    try:
        return engine, route(fabric, engine)
    except NotApplicable as error:
        return engine, error
