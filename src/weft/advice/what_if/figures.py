"""Figures of forwarding tables on a fabric that lost some parts, as `weft compare` gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from weft.advice.watch.traffic import PairTraffic
from weft.core.arguments import need_memory
from weft.fabrics import Fabric
from weft.kernels.parts import parts
from weft.kernels.routes.dependencies import WaitGraph
from weft.kernels.routes.effective_bisection import draw_bisections
from weft.kernels.routes.tally import (
    Senders,
    Shares,
    add_paths,
    changed_means,
    list_paths,
    table_shares,
    tally_tables,
)
from weft.routing.routes import Routes, TableRoutes
from weft.routing.validation.deadlock import cycles
from weft.routing.validation.validate import validate
from weft.sim.common.metrics import load_metrics
from weft.sim.static.all_to_all import loads_between_machines, within_machines
from weft.sim.static.analysis import analyse
from weft.sim.static.effective_bisection import bisection
from weft.sim.static.loads import inner_links, relative_loads

#: Forwarding tables, as of `TableRoutes`.
Ports = NDArray[np.unsignedinteger[Any]]

#: Bisections whose loads are counted at a time.
_AT_ONCE = 8


@dataclass(frozen=True, eq=False)
class FailureTraffic:
    """The traffic by which failures are judged: all pairs of machines, and random bisections.

    Hosts keep their numbers when parts of a fabric fail, so that it is the same for all failures.
    """

    #: Pairs of hosts within machines, which are not part of the traffic.
    inside: tuple[NDArray[np.int64], NDArray[np.int64]]
    #: int32 [samples, flows]: sending and receiving hosts of each bisection.
    sources: NDArray[np.int32]
    destinations: NDArray[np.int32]
    #: For each `_AT_ONCE` samples, their flows by destination, int32.
    order: list[NDArray[np.int32]]
    seed: int
    #: Further traffic, such as that of the jobs that run.
    demand: PairTraffic | None = None

    @classmethod
    def of(
        cls, fabric: Fabric, samples: int, seed: int, demand: PairTraffic | None = None
    ) -> FailureTraffic:
        """Return the traffic between the hosts of a fabric."""
        flows = fabric.num_hosts // 2
        # Per process: ends, share and path of each flow, and the load of each edge.
        size = samples * (64 * flows + 4 * len(fabric.graph.edge_row))
        need_memory(size, f"the flows of {samples:,} bisections", "ask for fewer")
        sources, destinations = np.empty((2, samples, flows), dtype=np.int32)
        states = np.empty((samples, flows), dtype=np.uint64)
        hosts = np.arange(fabric.num_hosts, dtype=np.int32)
        draw_bisections(hosts, seed, 0, sources, destinations, states)
        parts = np.split(destinations, range(_AT_ONCE, samples, _AT_ONCE))
        order = [np.argsort(part, axis=None, kind="stable").astype(np.int32) for part in parts]
        return cls(within_machines(fabric), sources, destinations, order, seed, demand)


@dataclass(frozen=True, eq=False)
class Remains:
    """What is left of a fabric after some of its switches and cables failed, in its numbering."""

    fabric: Fabric
    #: int64: nodes and cables that failed.
    switches: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    cables: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @cached_property
    def edges(self) -> NDArray[np.bool_]:
        """Whether each edge is left, bool [edges]."""
        graph = self.fabric.graph
        left = np.ones(len(graph.edge_row), dtype=np.bool_)
        if len(self.switches):
            rows = graph.node_row[self.switches]
            left &= ~(np.isin(graph.edge_row, rows) | np.isin(graph.edge_tail, rows))
        if len(self.cables):
            edges = graph.edge_of_link[np.concatenate((2 * self.cables, 2 * self.cables + 1))]
            left[edges[edges >= 0]] = False
        return left

    @cached_property
    def slot_edge(self) -> NDArray[np.int32]:
        """`SwitchGraph.slot_edge` with -1 for edges that failed."""
        graph = self.fabric.graph
        if not len(self.switches) and not len(self.cables):
            return graph.slot_edge
        slots, lost = graph.slot_edge.copy(), np.flatnonzero(~self.edges)
        slots[graph.row_base[graph.edge_tail[lost]] + graph.edge_port[lost]] = -1
        return slots

    @cached_property
    def endpoints(self) -> NDArray[np.bool_]:
        """Whether each endpoint of a host is left and attached to a row, bool [endpoints]."""
        graph, count = self.fabric.graph, self.fabric.num_host_endpoints
        row, link = graph.destination_row[:count], graph.destination_link[:count]
        left = row >= 0
        if len(self.switches):
            left &= ~np.isin(row, graph.node_row[self.switches])
        if len(self.cables):
            left &= (link < 0) | ~np.isin(link >> 1, self.cables)
        return left

    @cached_property
    def host_endpoint(self) -> NDArray[np.int32]:
        """First endpoint left of each host, -1 if it has none, int32 [hosts]."""
        fabric = self.fabric
        left = np.flatnonzero(self.endpoints)
        first = np.full(fabric.num_hosts, -1, dtype=np.int32)
        first[fabric.endpoint_node[left[::-1]] - fabric.num_switches] = left[::-1]
        return first

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Connected part of each row, int32 [rows]."""
        found: NDArray[np.int32] = connected_components(
            self.fabric.graph.matrix(self.edges), directed=False
        )[1]
        return found

    @cached_property
    def part(self) -> NDArray[np.int64]:
        """Connected part of each host, -1 for one without a cable to a row, int64 [hosts]."""
        row = np.append(self.fabric.graph.destination_row, -1)[self.host_endpoint]
        part: NDArray[np.int64] = np.append(self.labels, -1)[row].astype(np.int64)
        return part

    def cut(self, before: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each host has no cable, or has lost its part of the fabric, bool [hosts].

        `before` is `part` at an earlier time. Of each of these, the largest group of hosts stays.
        """
        cut: NDArray[np.bool_] = self.part < 0
        for part in range(before.max(initial=-1) + 1):
            hosts = (before == part) & ~cut
            cut |= hosts & (self.part != np.argmax(np.bincount(self.part[hosts], minlength=1)))
        return cut

    @property
    def disconnected(self) -> int:
        """Number of ordered pairs of hosts that no cables connect."""
        hosts, sizes = len(self.part), np.bincount(self.part[self.part >= 0])
        return hosts * (hosts - 1) - int((sizes * (sizes - 1)).sum())

    @cached_property
    def joined(self) -> NDArray[np.int32]:
        """First endpoints of the hosts that have one, int32."""
        return self.host_endpoint[self.host_endpoint >= 0]

    @cached_property
    def senders(self) -> Any:
        """The parts of `Senders`."""
        graph = self.fabric.graph
        left = np.flatnonzero(self.endpoints).astype(np.int32)
        rows, first, count = np.unique(
            graph.destination_row[left], return_index=True, return_counts=True
        )
        hosts = np.bincount(graph.destination_row[self.joined], minlength=graph.num_rows)
        alone = np.where(count > 1, -1, left[first]).astype(np.int32)
        return parts(Senders(rows.astype(np.int32), alone, hosts.astype(np.int64)))

    @cached_property
    def connected(self) -> bool:
        """Whether all rows are connected."""
        return not self.labels.any()

    @cached_property
    def host_rate_gbps(self) -> float:
        """`Fabric.host_rate_gbps` of what is left."""
        fabric = self.fabric
        links = fabric.graph.destination_link[: fabric.num_host_endpoints][self.endpoints]
        rates = fabric.link_rate_gbps[links[links >= 0]]
        if not len(rates):
            nodes = np.isin(fabric.link_from, self.switches) | np.isin(
                fabric.link_to, self.switches
            )
            nodes[np.concatenate((2 * self.cables, 2 * self.cables + 1))] = True
            rates = fabric.link_rate_gbps[~nodes]
        return float(rates.max(initial=0.0)) or 1.0

    @cached_property
    def costs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Injection rate over the rate of each endpoint's cable (0: none), and of each edge."""
        fabric = self.fabric
        cost = self.host_rate_gbps / fabric.link_rate_gbps
        links = fabric.graph.destination_link[: fabric.num_host_endpoints]
        return np.where(links >= 0, cost[links], 0.0), cost[fabric.graph.edge_link]


@dataclass(frozen=True, eq=False)
class Tally:
    """What all hosts send to all others by forwarding tables."""

    #: int64 [edges]: flows; int32 [dependencies]: number of LIDs that have each dependency.
    loads: NDArray[np.int64]
    waits: NDArray[np.int32]
    #: Number of flows that arrive.
    delivered: int

    @classmethod
    def of(cls, remains: Remains, table: Ports) -> Tally:
        """Return the tally of tables on what is left of a fabric."""
        graph = remains.fabric.graph
        loads = np.zeros(len(graph.edge_row), dtype=np.int64)
        waits = np.zeros(int(graph.first_dependency[-1]), dtype=np.int32)
        lids = np.flatnonzero(remains.endpoints).astype(np.int32)
        delivered = _add(remains, table, lids, 1, loads, waits)
        return cls(loads, waits, delivered)

    def after(self, before: Whole, after: Whole, moved: NDArray[np.bool_]) -> Tally:
        """Return the tally of `after`; this one is that of `before`.

        Only the LIDs in `moved`, bool [endpoints], are followed again.
        """
        lids = np.flatnonzero(moved).astype(np.int32)
        loads, waits = self.loads.copy(), self.waits.copy()
        less = _add(before.remains, before.table, lids, -1, loads, waits)
        more = _add(after.remains, after.table, lids, 1, loads, waits)
        return Tally(loads, waits, self.delivered - less + more)

    def credit_loops(self, fabric: Fabric) -> int:
        """Return the number of credit loops."""
        first = fabric.graph.first_dependency
        bits = np.append(np.packbits(self.waits > 0, bitorder="little"), np.uint8(0))
        used = np.ones(len(first) - 1, dtype=np.uint8)
        return len(cycles(fabric, WaitGraph(1, first, bits, used)))


def _add(
    remains: Remains,
    table: Ports,
    lids: NDArray[np.int32],
    sign: int,
    loads: NDArray[np.int64],
    waits: NDArray[np.int32],
) -> int:
    weighs = np.zeros(len(remains.endpoints), dtype=np.uint8)
    weighs[remains.joined] = 1
    return int(
        tally_tables(
            table, lids, weighs[lids], remains.fabric.graph.parts, remains.slot_edge,
            remains.senders, sign, loads, waits,
        )
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Whole:
    """Tables on what is left of a fabric; see `fast`. Those after a failure share its results."""

    remains: Remains
    table: Ports
    traffic: FailureTraffic

    @cached_property
    def tally(self) -> Tally:
        """What all hosts send to all others."""
        return Tally.of(self.remains, self.table)

    @cached_property
    def shares(self) -> Shares:
        """The flows of the bisections, without their paths."""
        sources, destinations = self._ends
        samples, edges = len(sources), len(self.remains.edges)
        loads = np.empty((samples, edges), dtype=np.int32)
        shares = np.empty(sources.shape)
        for at, order in enumerate(self.traffic.order):
            part = slice(at * _AT_ONCE, (at + 1) * _AT_ONCE)
            table_shares(
                *self._tables, sources[part], destinations[part], order, *self.remains.costs,
                loads[part].reshape(-1), shares[part],
            )  # fmt: skip
        none = np.zeros(0, dtype=np.int32)
        return Shares(loads.reshape(-1), shares.reshape(-1), none, none)

    @cached_property
    def known(self) -> Any:
        """The parts of `Shares`, with all paths."""
        loads, shares, *_ = self.shares
        first = np.empty(len(shares) + 1, dtype=np.int32)
        edges = np.empty(int(loads.sum()), dtype=np.int32)
        known = parts(Shares(loads, shares, first, edges))
        list_paths(*self._tables, *self._ends, known)
        return known

    def figures(self) -> dict[str, Any]:
        """Return the figures, as `figures` does."""
        # One share after the other is added, as `mean_shares` does.
        shares = self.shares.shares.reshape(self.traffic.sources.shape)
        means = np.cumsum(shares, axis=1)[:, -1] / shares.shape[1]
        return self._figures(self.tally, means)

    def figures_after(self, remains: Remains, table: Ports) -> dict[str, Any]:
        """Return the figures of other tables, of the same numbering, on less of the fabric.

        Only the LIDs with another path are followed again.
        """
        before, after = self.remains, Whole(remains, table, self.traffic)
        if not np.array_equal(before.endpoints, remains.endpoints):
            return after.figures()
        graph = remains.fabric.graph
        lost = np.flatnonzero(before.edges & ~remains.edges)
        moved = (self.table[:, graph.edge_tail[lost]] == graph.edge_port[lost]).any(axis=1)
        if table is not self.table:
            moved |= (table != self.table).any(axis=1)
        moved = moved[: len(before.endpoints)] & before.endpoints
        if (
            2 * moved.sum() > before.endpoints.sum()
            or remains.host_rate_gbps != before.host_rate_gbps
        ):
            return after.figures()
        means = np.empty(len(self.traffic.sources))
        if len(means):
            changed_means(*after._tables, *after._ends, moved, self.known, *remains.costs, means)
        return after._figures(self.tally.after(self, after, moved), means)

    @property
    def _tables(self) -> tuple[Ports, Any, NDArray[np.int32]]:
        return self.table, self.remains.fabric.graph.parts, self.remains.slot_edge

    @cached_property
    def _ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """First endpoints of the hosts of each flow, int32 [samples, flows]."""
        endpoint = self.remains.host_endpoint
        return endpoint[self.traffic.sources], endpoint[self.traffic.destinations]

    def _figures(self, tally: Tally, means: NDArray[np.float64]) -> dict[str, Any]:
        remains, fabric = self.remains, self.remains.fabric
        endpoint, demand, lost = remains.host_endpoint, self.traffic.demand, 0.0
        inside, asked = np.zeros((2, len(tally.loads)))
        local = [endpoint[hosts] for hosts in self.traffic.inside]
        add_paths(*self._tables, *local, np.ones(len(local[0])), inside)
        load = ((tally.loads - inside) * remains.costs[1])[remains.edges]
        if demand is not None:
            flows = endpoint[demand.sources], endpoint[demand.destinations], demand.gbps
            lost = add_paths(*self._tables, *flows, asked)
        return {
            "unrouted": fabric.num_hosts * (fabric.num_hosts - 1) - tally.delivered,
            "deadlock": tally.credit_loops(fabric),
            "max_load": float(load.max()) if len(load) else None,
            "p99_load": float(np.percentile(load, 99)) if len(load) else None,
            "ebb": float(means.mean()) if len(means) else None,
            **_of_demand(fabric, demand, asked, lost),
        }


def fast(routes: Routes) -> bool:
    """Whether `Whole` applies: tables with one LID for each port, on one lane."""
    return isinstance(routes, TableRoutes) and routes.lmc == 0 and routes.num_vls == 1


def figures(fabric: Fabric, routes: Routes, traffic: FailureTraffic) -> dict[str, Any]:
    """Return the figures of any routes of a fabric, as `weft.advice.compare.compare` does."""
    checked = validate(fabric, routes)
    flows = loads_between_machines(fabric, routes).per_link
    metrics = load_metrics(relative_loads(fabric, flows)[inner_links(fabric)])
    samples, demand = len(traffic.sources), traffic.demand
    asked, lost = np.zeros(len(fabric.graph.edge_link)), None
    if demand is not None:
        found = analyse(fabric, routes, demand.sources, demand.destinations, weights=demand.gbps)
        asked = found.links["flows"].to_numpy()[fabric.graph.edge_link]
        routed = found.flows["routed"]
        if not routed.null_count():
            lost = float(demand.gbps[~routed.to_numpy()].sum())
    return {
        "unrouted": checked.num_unrouted_pairs,
        "deadlock": len(checked.credit_loops),
        "max_load": metrics["max"][0],
        "p99_load": metrics["p99"][0],
        "ebb": bisection(fabric, routes, samples, traffic.seed).mean if samples else None,
        **_of_demand(fabric, demand, asked, lost),
    }


def _of_demand(
    fabric: Fabric, demand: PairTraffic | None, asked: NDArray[np.float64], lost: float | None
) -> dict[str, float | None]:
    """Return the figures of a demand from its loads in Gb/s, float64 [edges]."""
    if demand is None:
        return {"demand_load": None, "demand_lost_gbps": None}
    rates = fabric.link_rate_gbps[fabric.graph.edge_link]
    return {"demand_load": float((asked / rates).max(initial=0.0)), "demand_lost_gbps": lost}
