"""Settings common to the runs of a load sweep: traffic, windows, engines and policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from weft.core.errors import InputError, NotApplicable
from weft.core.settings import Option, Rate, Settings, known_fields, settings
from weft.core.units import Bytes, Nanoseconds
from weft.fabrics import Fabric, check_fabric
from weft.routing import engine as engines
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.common.times import LONGEST_OPTIONS_NS
from weft.sim.options import (
    NO_CHOICE,
    Level,
    RunSettings,
    check_level,
    levels_with,
    usual_policy,
)
from weft.sim.packet import Hardware
from weft.sim.sweep.one_load import OpenLoopTraffic, RoutedFabric
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
#: rank, and the sweep itself limits the time of runs.
OWN = (
    "eager_bytes", "handshake", "rendezvous", "local_gbps", "local_latency_ns", "max_time_ns",
    "scheduler", "snapshot_ns", "trace",
)  # fmt: skip

#: Routes of a sweep: the name of an engine, or routes, or a list of names and routes.
Engines = str | Routes | Sequence[str | Routes]
#: Engine if neither an engine nor a routing is given.
USUAL_ENGINE = "minhop"


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

    pattern: str = "uniform"
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
class Configuration:
    """One engine with one policy, or a routing by coordinates."""

    #: Names of engine and policy; None for a routing. There is no policy at the flow level.
    engine: str | None
    policy: str | None
    #: Fabric, routes and options; None if engine and policy do not fit.
    network: RoutedFabric | None
    #: Reason why they do not fit.
    reason: str = ""
    #: Name of the routing; None for an engine.
    routing: str | None = None


@dataclass(frozen=True, eq=False)
class LoadStudy:
    """Common settings of the runs of a sweep or a search."""

    #: Fabric, level, traffic and seed of all runs.
    fabric: Fabric
    level: Level
    traffic: OpenLoopTraffic
    seed: int
    #: Every engine with every policy; at least one combination fits.
    configurations: tuple[Configuration, ...]
    #: Settings of hardware, and of routers and adapters, that differ from the defaults, as text;
    #: None at levels that have none.
    hardware: str | None
    router: str | None

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
    ) -> LoadStudy:
        """Check all settings, make the routes, and try every combination with one message.

        Parameters
        ----------
        fabric, routes, level, policy, routing, seed
            As in `weft.sweep`.
        given
            Settings of the traffic and of runs.

        Raises
        ------
        NotApplicable
            If no combination fits, or the pattern does not exist for this number of hosts.
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
        if routes is None:
            routes = USUAL_ENGINE if routing is None else ()
        engine_list = _listed("routes", routes)
        routing_list = [] if routing is None else _listed("routing", routing)
        policies = None if policy is None else _listed("policy", policy)
        if not (engine_list or routing_list) or policies == []:
            raise InputError("neither routes nor policies may be an empty list")
        configurations = []

        def add(routed: Routes | str, options: dict[str, Any], *names: str | None) -> None:
            engine, policy, routing = names
            network = RoutedFabric(fabric, routed, level, options)
            reason = ""
            try:
                network.try_out()
            except NotApplicable as error:
                reason = str(error)
            fits = None if reason else network
            configurations.append(Configuration(engine, policy, fits, reason, routing))

        for engine in engine_list:
            name, routed = _routed(fabric, engine)
            usual = NO_CHOICE if isinstance(routed, NotApplicable) else usual_policy(routed, level)
            for each in [usual] if policies is None else policies:
                named = None if level == "flow" else each
                if isinstance(routed, NotApplicable):
                    configurations.append(Configuration(name, named, None, str(routed)))
                    continue
                options = of_runs if level == "flow" else {**of_runs, "policy": each}
                add(routed, options, name, named, None)
        for each in routing_list:
            if not isinstance(each, str):
                raise InputError(f"routing must be a routing by name, not {each!r}")
            add(each, of_runs, None, None, each)
        if all(each.network is None for each in configurations):
            raise NotApplicable(
                "; ".join(
                    dict.fromkeys(
                        f"{each.engine or each.routing}: {each.reason}" for each in configurations
                    )
                )
            )
        hardware = None if level == "flow" else _unusual(chosen.hardware)
        router = None
        if level == "flit":
            parts = _unusual(chosen.router, flit_bytes=chosen.flit_bytes), _unusual(chosen.adapter)
            router = ", ".join(each for each in parts if each != "usual") or "usual"
        return cls(fabric, level, traffic, chosen.seed, tuple(configurations), hardware, router)

    def seed_of(self, load: float) -> int:
        """Return the seed of a run: equal loads have equal traffic for all engines and policies."""
        entropy = (self.seed, round(load / LOAD_STEP))
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint32)[0])

    def packets(self, load: float) -> float:
        """Return the approximate number of packets of runs whose loads add up to `load`."""
        traffic = self.traffic
        messages = load * traffic.sources * traffic.stop_ns * traffic.rate_gbps / 8 / traffic.size
        return messages * -(-traffic.size // Hardware().mtu_bytes)

    def rows(self, doing: str) -> list[dict[str, Any]]:
        """Return the initial row of each configuration."""
        rows = []
        for each in self.configurations:
            fits = each.network is not None
            rows.append(
                {
                    "fabric": self.fabric.name,
                    "engine": each.engine,
                    "policy": each.policy,
                    "routing": each.routing,
                    "hardware": self.hardware,
                    "router": self.router,
                    "level": self.level,
                    "pattern": self.traffic.pattern,
                    "size_bytes": self.traffic.size,
                    "rate_gbps": self.traffic.rate_gbps,
                    "status": "interrupted" if fits else "does not fit",
                    "reason": f"the {doing} was interrupted" if fits else each.reason,
                }
            )
        return rows


def resolved(fabric: Fabric, given: TrafficSettings, level: Level = "packet") -> OpenLoopTraffic:
    """Return the traffic of a sweep with default values filled in.

    Raises
    ------
    InputError, NotApplicable
        If a value does not fit, or the pattern does not exist for this number of hosts.
    """
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


def loads_of(text: str, option: str) -> list[float]:
    """Return the loads of a list or of a range, whose last load is included."""
    try:
        parts = [float(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        parts = []
    if ":" not in text:
        if not parts:
            raise InputError(f"{option} {text}: expected FIRST:LAST:STEP or numbers with commas")
        return parts
    if len(parts) != 3 or not 0 < parts[0] <= parts[1] < float("inf") or not parts[2] > 0:
        raise InputError(
            f"{option} {text}: expected FIRST:LAST:STEP, such as 0.1:0.9:0.1, with 0 < FIRST <= "
            "LAST"
        )
    first, last, step = parts
    number = int((last - first) / step + 1e-9) + 1
    if number > MOST_LOADS:
        raise InputError(f"{option} {text}: expected at most {MOST_LOADS:,} loads, not {number:,}")
    return [round(first + index * step, 9) for index in range(number)]


def _listed(name: str, given: Any) -> list[Any]:
    """Return a list of the given item or items."""
    if isinstance(given, str | Routes):
        return [given]
    if not isinstance(given, Iterable):
        raise InputError(f"{name} must be one value or a list, not {given!r}")
    return list(given)


def _unusual(chosen: Settings, **more: Any) -> str:
    """Return the settings that differ from the defaults, as text; `more` are settings of runs."""
    usual = RunSettings().table() | type(chosen)().table()
    listed = {**chosen.table(), **more}.items()
    return ", ".join(f"{name}={value}" for name, value in listed if value != usual[name]) or "usual"


def _routed(fabric: Fabric, engine: str | Routes) -> tuple[str, Routes | NotApplicable]:
    """Return the engine's name, and its routes or the reason why there are none."""
    if isinstance(engine, Routes):
        return engine.engine, engine
    if not isinstance(engine, str):
        raise InputError(f"routes must be an engine by name or Routes, not {engine!r}")
    try:
        return engine, route(fabric, engine)
    except NotApplicable as reason:
        # The engine has a column of its own.
        name = engines.parse(engine)[0].name
        return engine, NotApplicable(str(reason).removeprefix(f"{name}: "))
