"""Runs of the flit level for tests."""

from __future__ import annotations

from typing import Any

import weft
from weft.fabrics import Fabric
from weft.kernels.flit.engine import NO_PACKETS
from weft.kernels.flit.net import Net
from weft.routes import Routes
from weft.sim.flit.network import Links, lanes_of_class, state, with_packets
from weft.sim.flit.router import Router
from weft.sim.flit.routings import Routing, bind, of_routes
from weft.sim.flit.traffic import Load


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
        self.net: Net = state(self.links, self.routing.arrays, router, load, **options)

    def until(self, cycle: int) -> Net:
        """Simulate up to a cycle and return the state."""
        while self.routing.loop(self.net, None, cycle) == NO_PACKETS:
            self.net = with_packets(self.net)
        return self.net

    def after(self, more: int = 2000) -> Net:
        """Simulate the measurement and some more cycles, and return the state."""
        return self.until(self.load.warmup + self.load.measure + more)
