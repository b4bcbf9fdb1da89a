"""Fabric, routes and router settings as the state of the flit level's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import whole_number, whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.flit import records
from weft.kernels.flit.net import Net, Tables
from weft.kernels.records import record
from weft.routes import TableRoutes

#: Bits of the masks of ports and of lanes.
MOST_PORTS, MOST_LANES = 64, 32


@dataclass(frozen=True)
class Router:
    """Settings of all routers; delays are cycles.

    Parameters
    ----------
    lanes
        Virtual channels of each link.
    buffer
        Flits that the buffer of a virtual channel holds.
    routing_delay
        Time to choose the output link of a packet at the front of a buffer.
    vc_delay
        Time to allocate a virtual channel of that link.
    switch_delay
        Time from switch allocation to the departure of a flit: allocation and traversal.
    credit_delay
        Time from switch allocation to the departure of the credit, without the link.
    iterations
        Iterations of switch allocation in a cycle.
    switching
        ``wormhole``; ``cut-through``: a packet needs room for all its flits in the next buffer; or
        ``store-and-forward``: also, all its flits must have arrived.
    atomic
        Whether a packet may use a virtual channel only when its buffer is empty.
    """

    lanes: int = 4
    buffer: int = 8
    routing_delay: int = 0
    vc_delay: int = 1
    switch_delay: int = 2
    credit_delay: int = 1
    iterations: int = 1
    switching: str = "wormhole"
    atomic: bool = False

    def check(self, size: int) -> None:
        """Refuse settings that cannot work with packets of `size` flits.

        Raises
        ------
        InputError
            If a number is out of range, or a buffer cannot hold a packet that it must hold.
        """
        whole_number(self.lanes, "lanes", 1, MOST_LANES)
        whole_number(self.buffer, "buffer", 1, 2**15 - 1)
        for name in ("routing_delay", "vc_delay"):
            whole_number(getattr(self, name), name, 0, 1000)
        for name in ("switch_delay", "credit_delay"):
            whole_number(getattr(self, name), name, 0, 1000)
        whole_number(self.iterations, "iterations", 1, MOST_PORTS)
        if self.switching not in ("wormhole", "cut-through", "store-and-forward"):
            raise InputError(
                "switching must be wormhole, cut-through or store-and-forward, not "
                f"{self.switching!r}"
            )
        if self.switching != "wormhole" and self.buffer < size:
            raise InputError(
                f"{self.switching} needs buffers for a packet of {size} flits, not of {self.buffer}"
            )


@dataclass(frozen=True)
class Load:
    """Synthetic traffic of all sources.

    Parameters
    ----------
    rate
        Flits per cycle and source, above 0 and at most 1.
    size
        Flits of a packet.
    warmup, measure
        Cycles before the measurement, and of the measurement.
    seed
        Seed of births and destinations.
    targets
        int32 [endpoints]: destination of each source, or None for a random other one per packet.
    """

    rate: float
    size: int = 1
    warmup: int = 1000
    measure: int = 2000
    seed: int = 0
    targets: NDArray[np.int32] | None = None

    def check(self, endpoints: int) -> None:
        """Refuse traffic that the endpoints of a fabric cannot have.

        Raises
        ------
        InputError
            If a number is out of range, or there is no other endpoint to send to.
        """
        whole_number(self.size, "size", 1, 2**20)
        whole_number(self.warmup, "warmup", 0)
        whole_number(self.measure, "measure", 1)
        whole_number(self.seed, "seed", 0, 2**63 - 1)
        if not 0 < self.rate <= 1:
            raise InputError(f"the rate must be above 0 and at most 1, not {self.rate}")
        if self.targets is not None:
            whole_numbers(
                self.targets, "targets", low=0, high=endpoints - 1, shape=(endpoints,),
                of="endpoints",
            )  # fmt: skip
        elif endpoints < 2:
            raise InputError("random destinations need at least two endpoints")


def flit_net(
    fabric: Fabric, routes: TableRoutes, router: Router, load: Load, latency: NDArray[Any] | int = 1
) -> Net:
    """Return the state at cycle 0.

    Parameters
    ----------
    fabric, routes
        The fabric, and its forwarding tables without an LMC.
    router, load
        Settings of routers, and traffic.
    latency
        Latency of links in cycles, at least 1: one number, or int [links].

    Raises
    ------
    InputError
        If a setting is out of range.
    NotApplicable
        If a router has more than 64 ports, hosts forward, a pair has no path, or the routes have an
        LMC or several lanes.
    """
    routes.check(fabric)
    router.check(load.size)
    ends = fabric.num_endpoints
    load.check(ends)
    if fabric.graph.num_rows != fabric.num_switches:
        raise NotApplicable("the flit level takes fabrics whose hosts do not forward")
    for row, table in enumerate(routes.table[:ends].T):
        if (table == routes.no_path).any():
            raise NotApplicable(
                f"{fabric.node_names[fabric.graph.row_node[row]]} has no path to some hosts"
            )
    if routes.lmc or routes.num_vls > 1:
        raise NotApplicable("the flit level takes tables without an LMC and with one virtual lane")
    graph = fabric.graph
    links = np.zeros(2 * fabric.num_cables, dtype=records.LINK)
    if not isinstance(latency, int):
        latency = whole_numbers(
            latency, "latencies", low=1, high=1 << 20, shape=(len(links),), of="links"
        )
    head, tail = links["head_row"], links["tail_row"]
    head[:] = tail[:] = -1
    head[graph.edge_link], tail[graph.edge_link] = graph.edge_row, graph.edge_tail
    down, rows = graph.destination_link[:ends], graph.destination_row[:ends]
    tail[down], head[down ^ 1] = rows, rows
    links["latency"] = latency
    if links["latency"].min(initial=1) < 1:
        raise InputError("links have a latency of at least 1 cycle")
    links["free"] = (1 << router.lanes) - 1
    links["last_lane"] = router.lanes - 1
    links["last_port"] = MOST_PORTS - 1
    in_links, first_in = _numbered(links, "head_row", "in_port", graph.num_rows)
    _numbered(links, "tail_row", "out_port", graph.num_rows)
    routers = np.zeros(graph.num_rows, dtype=records.ROUTER)
    routers["first_in"], routers["last_waiting"] = first_in, MOST_PORTS - 1

    lanes = np.zeros(len(links) * router.lanes, dtype=records.LANE)
    lanes["owner"] = -1
    lanes["link"] = np.repeat(np.arange(len(links)), router.lanes)
    lanes["credits"] = np.where(
        head[lanes["link"]] < 0, max(load.size, router.buffer), router.buffer
    )
    sources = np.zeros(ends, dtype=records.SOURCE)
    sources["packet"], sources["link"] = -1, down ^ 1
    rate = load.rate / load.size
    births = np.random.default_rng(load.seed).random(ends)
    if rate < 1:
        sources["birth"] = np.floor(np.log1p(-births) / np.log1p(-rate))

    longest = int(links["latency"].max(initial=1)) + max(
        router.switch_delay, router.credit_delay, router.vc_delay, router.routing_delay
    )
    horizon = 1 << int(longest).bit_length()
    slot = 2 * len(links)
    packets = 4 * ends + len(links)
    warmup, end = load.warmup, load.warmup + load.measure
    return Net(
        rules=record(
            records.RULES, lanes=router.lanes, buffer=router.buffer,
            routing_delay=router.routing_delay, vc_delay=router.vc_delay,
            switch_delay=router.switch_delay, credit_delay=router.credit_delay,
            iterations=router.iterations, atomic=router.atomic,
            whole=router.switching != "wormhole", stored=router.switching == "store-and-forward",
            size=load.size, horizon=horizon, slot=slot, seed=np.uint64(load.seed), rate=rate,
            warmup=warmup, end=end,
        ),
        count=record(records.COUNT, packets=packets),
        links=links,
        lanes=lanes,
        routers=routers,
        in_links=in_links,
        flits=np.zeros(len(lanes) * router.buffer, dtype=np.int32),
        events=np.zeros(horizon * slot, dtype=np.int64),
        used=np.zeros(horizon, dtype=np.int32),
        decided=np.full(horizon, -1, dtype=np.int32),
        births=np.full(horizon, -1, dtype=np.int32),
        active=_bits(graph.num_rows, False),
        packets=np.zeros(packets, dtype=records.PACKET),
        free_packets=np.arange(packets, dtype=np.int32),
        sources=sources,
        sending=_bits(ends, True),
        targets=np.full(ends, -1, np.int32) if load.targets is None else load.targets,
        requests=np.zeros(MOST_PORTS, dtype=np.uint64),
        offers=np.zeros(MOST_PORTS, dtype=np.int32),
        routes=Tables(routes.table, graph.row_base, graph.row_link),
    )  # fmt: skip


def with_packets(net: Net) -> Net:
    """Return the state with room for twice as many packets under way."""
    old = len(net.packets)
    free = np.zeros(2 * old, dtype=np.int32)
    count = int(net.count.packets)
    free[:count] = net.free_packets[:count]
    free[count : count + old] = np.arange(old, 2 * old)
    net.count.packets = count + old
    return net._replace(
        packets=np.concatenate([net.packets, np.zeros(old, dtype=records.PACKET)]),
        free_packets=free,
    )


def _numbered(
    links: NDArray[Any], end: str, port: str, rows: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the links at each router; return them in this order, and the index of its first."""
    used = np.flatnonzero(links[end] >= 0)
    used = used[np.argsort(links[end][used], kind="stable")]
    count = np.bincount(links[end][used], minlength=rows)
    if count.max(initial=0) > MOST_PORTS:
        raise NotApplicable(f"the flit level takes routers with at most {MOST_PORTS} ports")
    first = np.cumsum(count) - count
    links[port][used] = np.arange(len(used)) - first[links[end][used]]
    return used.astype(np.int32), first


def _bits(count: int, value: bool) -> NDArray[np.uint64]:
    """Return `count` bits of one value, in words of 64."""
    bits = np.zeros(-(-count // 64) * 64, dtype=np.uint8)
    bits[:count] = value
    return np.packbits(bits, bitorder="little").view(np.uint64)
