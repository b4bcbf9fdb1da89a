"""Static figures of a site: bandwidth of a client in the worst case, and the cables that limit it.

All clients transfer at once and at the same rate, the largest that every link can carry. Time,
queues and message sizes are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.advice.io_nodes.settings import IoSettings, Site
from weft.advice.io_nodes.traffic import compute_pairs, own_server, servers_of
from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.static.loads import flow_loads, host_flows, link_users

Direction = Literal["write", "read", "mix"]

#: Flows of each rank that stand for the random destinations of the compute job.
FLOWS = 16
#: Relative difference below which two loads are equal (rounding errors of sums).
EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Demand:
    """Pairs of clients and I/O nodes, and the share of a client's traffic in each."""

    #: int32 [pairs]: hosts.
    clients: NDArray[np.int32]
    nodes: NDArray[np.int32]
    #: float64 [pairs]; the weights of a client add up to 1.
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, site: Site, chosen: IoSettings) -> Demand:
        """Return the demand of the I/O job."""
        own = own_server(site)
        if len(site.io) == 1 and (own >= 0).all():
            raise InputError("the only client is the only I/O node; expected another client")
        if chosen.choice != "random":
            server = servers_of(site, chosen.choice, 1, 0)[:, 0]
            there = server >= 0
            nodes = site.io[server[there]]
            return cls(site.clients[there], nodes, np.ones(len(nodes)))
        clients, nodes = np.broadcast_arrays(site.clients[:, None], site.io)
        away = np.arange(len(site.io)) != own[:, None]
        each = 1.0 / np.maximum(away.sum(axis=1), 1)
        return cls(clients[away], nodes[away], np.broadcast_to(each[:, None], away.shape)[away])


@dataclass(frozen=True, eq=False)
class Limit:
    """What limits the clients in one direction."""

    #: Bandwidth of each client when all transfer at once.
    gbps: float
    #: int64: directed links that are then full.
    links: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SiteLoads:
    """Loads of the links by the I/O job and the compute job of one site."""

    #: What is loaded.
    fabric: Fabric
    routes: Routes
    site: Site
    chosen: IoSettings

    @cached_property
    def demand(self) -> Demand:
        """Pairs of clients and I/O nodes."""
        return Demand.of(self.site, self.chosen)

    @cached_property
    def write(self) -> NDArray[np.float64]:
        """float64 [links]: rate on each link if every client writes at rate 1."""
        demand = self.demand
        return self._loads(demand.clients, demand.nodes, demand.weights)

    @cached_property
    def read(self) -> NDArray[np.float64]:
        """float64 [links]: rate on each link if every client reads at rate 1."""
        demand = self.demand
        return self._loads(demand.nodes, demand.clients, demand.weights)

    @cached_property
    def compute(self) -> NDArray[np.float64]:
        """float64 [links]: rate on each link if every compute rank sends at rate 1."""
        pairs = compute_pairs(len(self.site.compute), self.chosen, FLOWS)
        count = np.bincount(pairs.sources, minlength=len(self.site.compute))
        hosts = self.site.compute
        return self._loads(
            hosts[pairs.sources], hosts[pairs.destinations], 1.0 / count[pairs.sources]
        )

    def _loads(
        self,
        sources: NDArray[np.int32],
        destinations: NDArray[np.int32],
        weights: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        away = self.fabric.apart(sources, destinations)
        ends = sources[away], destinations[away]
        flows = host_flows(self.fabric, *ends, weights=weights[away], lmc=self.routes.lmc)
        loads = flow_loads(self.fabric, self.routes, flows)
        if loads.unrouted:
            raise InputError(
                f"{loads.unrouted:,} of {loads.flows:,} pairs of these hosts have no path in the "
                f"{self.routes.engine} routes of {self.fabric.name}; expected hosts that all "
                "reach each other"
            )
        return np.asarray(loads.per_link, dtype=np.float64)

    def io(self, direction: Direction) -> NDArray[np.float64]:
        """Return the rate on each link if every client transfers at rate 1, float64 [links]."""
        if direction != "mix":
            return self.write if direction == "write" else self.read
        writes = self.chosen.writes
        return writes * self.write + (1 - writes) * self.read

    def limit(self, direction: Direction, *, cables_of_hosts: bool = False) -> Limit:
        """Return the bandwidth of a client and the links that limit it.

        `direction`: direction of the data; ``mix`` is the share of writes asked for.
        `cables_of_hosts`: consider only the cables of hosts: the bound on any cabling between the
        switches.
        """
        load = self.io(direction) / self.fabric.link_rate_gbps
        if cables_of_hosts:
            load = np.where(host_links(self.fabric), load, 0.0)
        worst = float(load.max(initial=0.0))
        if not worst:
            return Limit(float("inf"), np.zeros(0, dtype=np.int64))
        return Limit(1 / worst, np.flatnonzero(load >= worst * (1 - EQUAL)))

    @cached_property
    def worst(self) -> Direction:
        """The direction that counts: the slower one, or the mix if a share of writes is given."""
        if self.chosen.write_share is not None:
            return "mix"
        return "read" if self.limit("read").gbps < self.limit("write").gbps else "write"

    @cached_property
    def client_gbps(self) -> float:
        """Bandwidth of each client in the direction that counts."""
        return self.limit(self.worst).gbps

    @cached_property
    def unevenness(self) -> float:
        """Sum of the squares of the loads between switches, by which equal sites are ordered."""
        inner = ~host_links(self.fabric)
        load = self.io("mix")[inner] / self.fabric.link_rate_gbps[inner]
        return float(load @ load)

    @cached_property
    def compute_gbps(self) -> float:
        """Rate at which all compute ranks can send at once without I/O."""
        worst = float((self.compute / self.fabric.link_rate_gbps).max(initial=0.0))
        return 1 / worst if worst else float("inf")

    @cached_property
    def kept(self) -> float:
        """Share of the rates of both jobs that the links can carry at the same time, up to 1."""
        io = self.limit("mix").gbps
        load = self.io("mix") * (io if np.isfinite(io) else 0.0) + self.compute * self.compute_gbps
        return 1 / max(float((load / self.fabric.link_rate_gbps).max(initial=0.0)), 1.0)

    def better(self, other: SiteLoads) -> bool:
        """Return whether the clients get more, or the same with evener loads on the cables."""
        if abs(self.client_gbps - other.client_gbps) > EQUAL * other.client_gbps:
            return self.client_gbps > other.client_gbps
        return self.unevenness < other.unevenness * (1 - EQUAL)

    def crossing(self, link: int, direction: Direction) -> tuple[int, int] | None:
        """Return how many clients and I/O nodes use a link; None if routes leave a choice."""
        if not self.routes.settled:
            return None
        demand = self.demand
        ways = [(demand.clients, demand.nodes), (demand.nodes, demand.clients)]
        users = []
        for source, destination in ways if direction == "mix" else ways[direction == "read" :][:1]:
            flows = host_flows(self.fabric, source, destination, lmc=self.routes.lmc)
            through = link_users(self.fabric, self.routes, flows, np.array([link]))[0]
            users.append(through[self.fabric.apart(source[through], destination[through])])
        pairs = np.concatenate(users)
        return len(np.unique(demand.clients[pairs])), len(np.unique(demand.nodes[pairs]))


def host_links(fabric: Fabric) -> NDArray[np.bool_]:
    """Return whether each link is a host's, bool [links]."""
    first, last = fabric.num_switches, fabric.num_switches + fabric.num_hosts
    result = np.zeros(fabric.num_links, dtype=bool)
    for ends in (fabric.link_from, fabric.link_to):
        result |= (ends >= first) & (ends < last) & ~fabric.forwards[ends]
    return result
