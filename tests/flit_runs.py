"""Runs of the flit level for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.fabrics import Fabric
from weft.kernels.flit.engine import NO_PACKETS
from weft.kernels.flit.net import FlitNet
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import NO_OVERHEAD
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.network import Links, lanes_of_class, state, with_packets
from weft.sim.flit.router import Router
from weft.sim.flit.routings import Routing, bind, of_routes
from weft.sim.flit.traffic import Load
from weft.sim.flit.workloads import FlitResult, run_flits
from weft.workload import Workload


def holding(acknowledge_hop: int, service: int = 0, turnaround: int = 0) -> Adapter:
    """Return an adapter whose packets hold circuits."""
    return Adapter(
        circuits=True, acknowledge_hop=acknowledge_hop, service=service, turnaround=turnaround
    )


class Run:
    """A run of synthetic traffic.

    Parameters
    ----------
    fabric
        A fabric or its spec.
    router, load
        Settings of routers, and traffic.
    routing
        Name of a routing; None for the routes of `engine`.
    engine, policy
        An engine with options, or its routes; and the policy if they leave a choice.
    latency, interval
        As in `Links.of`.
    **options
        Options of `state`.
    """

    def __init__(
        self,
        fabric: Fabric | str,
        router: Router,
        load: Load,
        *,
        routing: str | None = None,
        engine: str | Routes = "dmodk",
        policy: str | None = None,
        latency: Any = 1,
        interval: Any = 1,
        **options: Any,
    ):
        self.fabric = weft.fabric(fabric) if isinstance(fabric, str) else fabric
        self.load = load
        self.links = Links.of(self.fabric, latency, interval)
        lanes = lanes_of_class(router, load)
        if routing is None:
            routes = weft.route(self.fabric, engine) if isinstance(engine, str) else engine
            self.routing: Routing = of_routes(self.links, routes, lanes, policy)
        else:
            self.routing = bind(routing, self.links, lanes)
        options.setdefault("lockstep", self.routing.remote)
        self.net: FlitNet = state(self.links, self.routing.arrays, router, load, **options)
        self._loop = self.routing.loop(self.net)

    def until(self, cycle: int) -> FlitNet:
        """Simulate up to a cycle and return the state."""
        while self._loop(cycle) == NO_PACKETS:
            self.net = with_packets(self.net)
            self._loop = self.routing.loop(self.net)
        return self.net

    def after(self, more: int = 2000) -> FlitNet:
        """Simulate the measurement and some more cycles, and return the state."""
        return self.until(self.load.warmup + self.load.measure + more)


def run_workload(
    fabric: Fabric | str, work: Workload, routing: str = "nca-adaptive", **options: Any
) -> FlitResult:
    """Run a workload on the hosts of the same numbers.

    Parameters
    ----------
    fabric
        A fabric or its spec.
    work, routing
        The workload and a routing by name.
    **options
        Options of `run_flits`.
    """
    usual: dict[str, Any] = {
        "eager_bytes": 2**30, "handshake": False, "rendezvous": "get", "overhead": NO_OVERHEAD,
        "local_gbps": 100.0, "local_latency_ns": 200.0, "seed": 0, "max_time_ns": None,
        "policy": None,
    }  # fmt: skip
    built = weft.fabric(fabric) if isinstance(fabric, str) else fabric
    hosts = np.arange(work.num_ranks, dtype=np.int32)
    return run_flits(built, routing, work, hosts, {**usual, **options})
