"""One open-loop run at a level of detail: its workload and the arrivals of its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.common.times import picoseconds
from weft.sim.flit.workloads import FlitResult
from weft.sim.options import Level
from weft.sim.packet.result import PacketResult
from weft.sim.simulate import simulate
from weft.sim.sweep.job_measures import measure_jobs
from weft.sim.sweep.window_measures import OpenLoopMeasures
from weft.workload import Workload, WorkloadBuilder
from weft.workload.patterns import pattern as patterns
from weft.workload.sources import Distribution, open_loop

#: Function that is called several times a second during a run; an exception ends the run.
Watch = Callable[[Any], None]


@dataclass(frozen=True)
class OpenLoopTraffic:
    """Traffic of the sources, and the measurement window."""

    #: A traffic pattern with its options.
    pattern: str
    #: As in `weft.workload.sources.OpenLoop`.
    size: int
    size_distribution: Distribution
    interarrival: Distribution
    write_share: float
    request_bytes: int
    #: Rate of a source at load 1.
    rate_gbps: float
    #: Number of ranks that issue transfers.
    sources: int
    #: Time before the window, and length of the window; messages generated in the window are
    #: measured.
    warmup_ns: float
    measure_ns: float
    #: Time for which sources continue after the window, so that the last measured messages are also
    #: exposed to traffic.
    cooldown_ns: float
    #: Longest time for which the run continues after the sources stop.
    drain_ns: float

    @property
    def stop_ns(self) -> float:
        """Time at which sources stop."""
        return self.warmup_ns + self.measure_ns + self.cooldown_ns

    def workload(self, num_ranks: int, load: float, seed: int) -> Workload:
        """Return the messages of one load."""
        return open_loop(
            num_ranks,
            self._seeded(seed),
            load=load,
            rate_gbps=self.rate_gbps,
            size=self.size,
            size_distribution=self.size_distribution,
            interarrival=self.interarrival,
            write_share=self.write_share,
            request_bytes=self.request_bytes,
            duration_ns=self.measure_ns + self.cooldown_ns,
            warmup_ns=self.warmup_ns,
            seed=seed,
        )

    def _seeded(self, seed: int) -> str:
        """Return the pattern with this seed if the seed affects only the draws of destinations."""
        if not draws_destinations(self.pattern):
            return self.pattern
        return f"{self.pattern}{',' if ':' in self.pattern else ':'}seed={seed}"


def draws_destinations(pattern: str) -> bool:
    """Return whether a seed of a pattern would affect only the draws of destinations."""
    entry, given = patterns.parse(pattern)
    options = entry.options
    draws = {"flows", "seed"} <= options.keys() and not {"flows", "seed"} & given.keys()
    # Randomly chosen hot hosts are part of the pattern, so they are the same at all loads.
    return draws and not ("targets" in options and "hosts" not in given)


@dataclass(frozen=True, eq=False)
class RoutedFabric:
    """A fabric, routes and a level of detail."""

    #: The fabric, and its routes or a routing of the flit level by name.
    fabric: Fabric
    routes: Routes | str
    #: ``packet``, ``flow`` or ``flit``.
    level: Level = "packet"
    #: Settings of runs, as in `weft.simulate`.
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(
        self, workload: Workload, seed: int, max_time_ns: float | None, watch: Watch | None
    ) -> tuple[NDArray[np.float64], float]:
        """Run a workload; return the arrival times of messages and the end of the run.

        All are in ns; the time of a message that did not arrive is negative. Messages between
        adapters of one machine cross the fabric, as a load of the fabric.
        """
        fabric = self.fabric.by_adapter
        if self.level == "flow":
            assert isinstance(self.routes, Routes)
            # The flow level has no incomplete results, so it runs without a time limit.
            flow = simulate(
                fabric, self.routes, workload, seed=seed, progress=watch, **self.options
            )
            return flow.arrived_ns, flow.makespan_ns
        result = simulate(
            fabric, self.routes, workload, level=self.level, seed=seed,
            max_time_ns=max_time_ns, progress=watch, **self.options,
        )  # fmt: skip
        assert isinstance(result, PacketResult | FlitResult)
        arrived = np.where(result.arrived_ps < 0, -1.0, result.arrived_ps / 1e3)
        if result.complete:
            return arrived, result.end_ps / 1e3
        if max_time_ns is None or result.end_ps < int(picoseconds(max_time_ns)):
            raise KeyboardInterrupt  # the only other cause of an incomplete run
        return arrived, max_time_ns

    def try_out(self) -> None:
        """Send one message of no bytes, to compile the kernels and to raise errors early."""
        work = WorkloadBuilder(self.fabric.num_hosts)
        work.put(0, 1, 0)
        self.run(work.build(), 0, None, None)


def measure_load(
    network: RoutedFabric,
    traffic: OpenLoopTraffic,
    load: float,
    seed: int,
    watch: Watch | None = None,
) -> OpenLoopMeasures:
    """Run the traffic at one load and measure the run.

    `load`: offered load: mean rate of a source divided by the traffic's rate. `seed`: seed of
    times, sizes and destinations, and of the policy. `watch`: called several times a second with
    the progress.
    """
    if not 0 < load < np.inf:
        raise InputError(f"a load must be above 0, not {load}")
    workload = traffic.workload(network.fabric.num_hosts, load, seed)
    arrived, end = network.run(workload, seed, traffic.stop_ns + traffic.drain_ns, watch)
    (measures,) = measure_jobs(
        workload,
        arrived,
        warmup_ns=traffic.warmup_ns,
        measure_ns=traffic.measure_ns,
        sources=traffic.sources,
        rate_gbps=traffic.rate_gbps,
        sources_stop_ns=traffic.stop_ns,
        stopped_ns=end,
        load=load,
    ).values()
    return measures
