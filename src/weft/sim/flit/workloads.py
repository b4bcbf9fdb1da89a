"""Workloads at the flit level: programs of ranks whose messages are sent as packets of flits."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from weft.core.columns import Column, frame
from weft.core.errors import InputError, NotApplicable
from weft.core.signals import raise_deferred
from weft.fabrics import Fabric
from weft.kernels.flit.engine import DONE, MORE, NO_PACKETS, STUCK
from weft.kernels.flit.net import FlitNet
from weft.kernels.program import operations
from weft.kernels.program.state import Ranks
from weft.routing.routes import Routes
from weft.sim.common.congestion_matrix import WithCongestionMatrix
from weft.sim.common.host_parameters import NO_OVERHEAD
from weft.sim.common.metrics import NAMED_LINKS, named_links
from weft.sim.common.programs import (
    deadlock_of_ranks,
    lay_ranks,
    queue_pairs,
    split_programs,
)
from weft.sim.common.progress import REPORT_S, Progress, StopRun
from weft.sim.common.replay import ReplayInPicoseconds, ratio
from weft.sim.common.times import (
    PS_PER_NS,
    check_durations,
    check_latencies,
    check_options,
    picoseconds,
)
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.deadlock import find_deadlock
from weft.sim.flit.multicast import casts_of, check_multicasts
from weft.sim.flit.network import FlitMessages, Links, state, waits_of, with_packets
from weft.sim.flit.router import MOST_CYCLES as LONGEST_DELAY
from weft.sim.flit.router import Router
from weft.sim.flit.run import bound, one_thread, thread_count
from weft.sim.flit.team import member_of
from weft.workload import Kind, Workload

#: Largest number of cycles of a run: packets keep the cycle of their arrival in 32 bits.
MOST_CYCLES = 2**31 - 1
#: Least endpoints and flits for which several threads are used by default: threads meet three times
#: in a cycle, which must take long enough, and the run about a second.
_LEAST_ENDS, _LEAST_FLITS = 2000, 1_000_000
#: Largest relative error of the time of a flit, which is rounded to picoseconds.
MOST_ROUNDED = 0.001

LINK_COLUMNS: Mapping[str, Column] = {
    **NAMED_LINKS,
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate"),
    "flits": Column(pl.Int64, "", "Flits sent on the link"),
    "utilisation": Column(
        pl.Float64, "", "Part of the run for which the link carried flits (null: run of 0 ns)"
    ),
    "wait_ns": Column(
        pl.Float64,
        "ns",
        "Total wait of packets at the head of the link, beyond the least time of a router",
    ),
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FlitResult(WithCongestionMatrix, ReplayInPicoseconds):
    """Result of a workload at the flit level.

    Parameters
    ----------
    fabric, engine, workload, router, options
        The arguments of the run; `engine` is the name of the routes' engine, or the
        routing.
    host
        int32 [ranks]: host of each rank.
    cycle_ns
        Duration of a cycle.
    posted_ps, ended_ps
        int64 [ops]: start and end of every operation, -1 if it did not happen.
    left_ps, arrived_ps
        int64 [ops]: departure of the first flit and arrival of the last flit of every message.
    end_ps
        Simulated time at the end.
    complete
        False if the run was stopped before everything had ended.
    deadlock
        For a stopped run: a cycle of buffers that wait for each other forever, while others may
        move; empty if there is none.
    from_ps
        Time from which links and bytes are counted.
    flits, wait_cycles
        int64 [links]: flits sent over each link, and the total wait of packets at its head.
    carried
        int64 [ops]: bytes of each message in packets that arrived.
    alone
        int64 [messages]: time of each message from departure to arrival in an empty network, ps.
    flit_hops, threads, run_s
        Flits sent over links, threads, and wall-clock time of the simulation.
    """

    router: Router
    cycle_ns: float
    end_ps: int
    complete: bool
    deadlock: str
    from_ps: int
    flits: NDArray[np.int64]
    wait_cycles: NDArray[np.int64]
    carried: NDArray[np.int64]
    alone: NDArray[np.int64]
    flit_hops: int
    threads: int

    def alone_ns(self) -> NDArray[np.float64]:
        """Return the zero-load time of each message from its departure, float64 [messages].

        Packets follow each other without a gap on a path with the least delays, as with cut-through
        and adapters whose service and window do not limit them.
        """
        return np.asarray(self.alone / PS_PER_NS)

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `LINK_COLUMNS`."""
        count, rate = self.fabric.num_links, self.fabric.link_rate_gbps
        busy_ns = self.flits * self.cycle_ns * (rate.max(initial=0.0) / rate)
        return frame(
            LINK_COLUMNS,
            {
                **named_links(self.fabric),
                "rate_gbps": rate,
                "flits": self.flits,
                "utilisation": ratio(
                    busy_ns, np.full(count, (self.end_ps - self.from_ps) / PS_PER_NS)
                ),
                "wait_ns": self.wait_ns,
            },
        )

    @property
    def wait_ns(self) -> NDArray[np.float64]:
        """Total wait of packets at the head of each link, ns, float64 [links]."""
        return np.asarray(self.wait_cycles * self.cycle_ns, dtype=np.float64)

    def _waits_ns(self) -> NDArray[np.float64]:
        return self.wait_ns


def run_flits(
    fabric: Fabric,
    routing: str | Routes,
    workload: Workload,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
    progress: Callable[[Progress], None] | None = None,
) -> FlitResult:
    """Run a workload at the flit level, for `weft.simulate`, which checks the arguments.

    A cycle is the time that the fastest cable takes for a flit. Messages of an endpoint take turns,
    packet by packet (docs/flit-level.md).

    `fabric`, `routing`, `workload`: the fabric, its routes or a routing by name, and the workload.
    `hosts` [ranks]: host of each rank. `options`: options, as returned by
    `weft.sim.options.RunSettings.flit`. `progress`: called several times a second with the progress
    of the run. It may raise `StopRun`.
    """
    router: Router = options["router"]
    hardware, adapter = options["hardware"], options.get("adapter") or Adapter()
    if fabric.num_host_endpoints != fabric.num_hosts:
        raise NotApplicable("the flit level takes fabrics whose hosts have one port")
    check_options(options)
    check_latencies(fabric)
    check_durations(workload)
    several = np.flatnonzero(workload.multicast)
    casts, work = None, workload
    if len(several):
        name = routing if isinstance(routing, str) else routing.engine
        check_multicasts(name, router, adapter.held, workload)
        if options["overhead"] != NO_OVERHEAD:
            raise InputError("hardware broadcasts and barriers go without overhead of messages")
        # Whatever its size, a multicast needs no rendezvous.
        size = workload.size_bytes.copy()
        size[several] = size[workload.match[several]] = 0
        work = replace(workload, size_bytes=size)
    queues = queue_pairs(fabric, work, hosts, options["eager_bytes"], options["handshake"])
    ops = queues.ops
    if len(several):
        # A rank on the sender's host gets the copy that comes back.
        ops = np.union1d(ops, several).astype(np.int32)
    cycle_ps, latency, interval = cycles_of(fabric, options["flit_bytes"])
    _check_cycle(fabric, cycle_ps, options)
    links = Links.of(fabric, latency, interval)
    if len(several):
        casts = casts_of(links, workload, hosts, adapter.held)
    chosen = bound(routing, links, router.lanes, options["policy"])
    source, target = (np.zeros(workload.num_ops, dtype=np.int32) for _ in range(2))
    source[ops], target[ops] = hosts[workload.rank[ops]], hosts[workload.peer[ops]]
    messages = FlitMessages(
        source, target, int(workload.size_bytes[ops].max(initial=0)),
        _smallest_payload(workload, ops, options),
        flit_bytes=options["flit_bytes"], payload_bytes=hardware.mtu_bytes,
        overhead_bytes=hardware.header_bytes, control_bytes=hardware.control_bytes,
        cycle_ps=cycle_ps, turn_packets=adapter.turn_packets,
        priority=_priority(workload, options.get("high_priority", ()), router),
    )  # fmt: skip
    router = router.sized(messages.largest, links.longest, chosen.escapes)
    if adapter.window > router.lanes:
        raise InputError(
            f"each of the {adapter.window} packets of an adapter's window has a virtual channel of "
            f"its own, and there are {router.lanes}"
        )
    if adapter.circuits and router.switching == "store-and-forward":
        raise InputError(
            "store-and-forward routers wait for the tail of a packet, and with circuits the tail "
            "waits for the packet's arrival; use wormhole or cut-through"
        )
    net = state(
        links, chosen.arrays, router, messages, lockstep=chosen.remote, seed=options["seed"],
        circuits=adapter.held, window=adapter.window, ageing=adapter.ageing,
        casts=casts, threads=_threads(workload, messages, links, chosen, adapter, options),
    )  # fmt: skip
    ranks = _ranks(work, ops, options)
    threads = len(net.members)
    programs = split_programs(ranks, threads, member_of(net, hosts), workload.rank)
    began = time.perf_counter()
    limit = options["max_time_ns"]
    wanted = MOST_CYCLES if limit is None else -(-int(picoseconds(limit)) // cycle_ps)
    last = min(wanted, MOST_CYCLES)
    first = min(int(picoseconds(options.get("from_ns", 0.0))) // cycle_ps, last)
    net, why, stopped = _run(chosen, net, programs, workload, first, progress)
    before = _counted(links, net, ranks, workload, messages)
    begin = int(net.count.now)
    if why == MORE and not stopped:
        net, why, stopped = _run(chosen, net, programs, workload, last, progress)
    # The loop sees the end of a run only some cycles later.
    ended, arrived = _over(programs)
    counts = (ended, arrived, int(net.count.under_way))
    over = why == DONE or counts == (workload.num_ops, len(workload.messages), 0)
    timed_out = why == MORE and not stopped and not over
    took = time.perf_counter() - began
    if why == STUCK:
        raise InputError(_stuck(workload, net, ranks, cycle_ps, find_deadlock(net, links, chosen)))
    if timed_out and (limit is None or wanted > MOST_CYCLES):
        raise InputError(
            f"the run takes more than 2^31 cycles of {cycle_ps / PS_PER_NS:g} ns; "
            f"{arrived:,} of {len(workload.messages):,} messages have arrived"
        )
    complete = over and not stopped
    after = _counted(links, net, ranks, workload, messages)
    flits, waits, carried = (now - then for now, then in zip(after, before, strict=True))
    waits = np.maximum(waits, 0)  # packets that have just come count as negative
    end = int(net.count.now) * cycle_ps if limit is None or stopped else int(picoseconds(limit))
    if complete:
        end = max(int(ranks.ended.max(initial=0)), int(ranks.arrived.max(initial=0)))
    engine = routing.engine if isinstance(routing, Routes) else routing
    return FlitResult(
        fabric=fabric, engine=engine, workload=workload, host=hosts, router=router,
        options=_recorded(options), cycle_ns=cycle_ps / PS_PER_NS, posted_ps=ranks.posted,
        ended_ps=ranks.ended, left_ps=ranks.left, arrived_ps=ranks.arrived,
        end_ps=end, complete=complete, from_ps=begin * cycle_ps,
        deadlock="" if complete else find_deadlock(net, links, chosen), flits=flits,
        wait_cycles=waits, carried=carried,
        alone=_alone(links, router, adapter, workload, hosts, messages, options),
        flit_hops=int(net.count.hops), threads=threads, run_s=took,
    )  # fmt: skip


def cycles_of(fabric: Fabric, flit_bytes: int) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Return the duration of a cycle in ps, and the latency and interval of links in cycles."""
    rate = fabric.link_rate_gbps
    fastest = float(rate.max())
    exact = flit_bytes * 8000 / fastest
    cycle_ps = max(round(exact), 1)
    if abs(cycle_ps - exact) > MOST_ROUNDED * exact:
        raise NotApplicable(
            f"a flit of {flit_bytes} bytes takes {exact:.3g} ps at {fastest:g} Gb/s, and the flit "
            "level takes whole picoseconds; use larger flits"
        )
    parts = fastest / rate
    wrong = np.flatnonzero(np.abs(parts - np.rint(parts)) > 1e-6 * parts)
    if len(wrong):
        raise NotApplicable(
            f"{fabric.link_name(int(wrong[0]))} has a rate of {rate[wrong[0]]:g} Gb/s; the flit "
            f"level takes rates of which the fastest, {fastest:g} Gb/s, is a multiple"
        )
    latency = np.repeat(picoseconds(fabric.cable_latency_ns), 2)
    cycles = np.maximum(np.rint(latency / cycle_ps).astype(np.int64), 1)
    intervals = np.rint(parts).astype(np.int64)
    for many, what in ((cycles, "a latency"), (intervals, "a time per flit")):
        link = int(many.argmax()) if len(many) else 0
        if len(many) and many[link] > LONGEST_DELAY:
            raise NotApplicable(
                f"{fabric.link_name(link)} has {what} of {many[link]:,} cycles of "
                f"{cycle_ps / PS_PER_NS:g} ns; the flit level takes at most {LONGEST_DELAY:,}"
            )
    return cycle_ps, cycles, intervals


def _check_cycle(fabric: Fabric, cycle_ps: int, options: Mapping[str, Any]) -> None:
    """Refuse a fabric whose cycle is not that for which the settings are meant."""
    wanted_ns = options.get("cycle_ns")
    if wanted_ns is None or abs(cycle_ps - wanted_ns * PS_PER_NS) <= MOST_ROUNDED * cycle_ps:
        return
    flit_bytes = options["flit_bytes"]
    raise InputError(
        f"the settings are for cycles of {wanted_ns:g} ns, but on the fastest cable of "
        f"{fabric.name}, with {fabric.link_rate_gbps.max():g} Gb/s, a flit of {flit_bytes} B takes "
        f"{cycle_ps / PS_PER_NS:g} ns; expected a rate of {8 * flit_bytes / wanted_ns:g} Gb/s"
    )


def _priority(workload: Workload, names: Sequence[str], router: Router) -> NDArray[np.uint8] | None:
    """Return 1 for each operation of some phases or jobs and 0 for the others; None if none is."""
    if not names:
        return None
    if router.arbiter != "age":
        raise InputError(
            f"high_priority works with the arbiter age of routers, not {router.arbiter}"
        )
    of_phase = np.zeros(len(workload.phase_names), dtype=np.uint8)
    for name in names:
        found = [phase == name or phase.startswith(f"{name}: ") for phase in workload.phase_names]
        if not name or not any(found):
            known = ", ".join(repr(phase) for phase in workload.phase_names if phase)
            raise InputError(
                f"no phase or job has the name {name!r}; there are {known or 'none with a name'}"
            )
        of_phase |= np.array(found, dtype=np.uint8)
    return of_phase[workload.phase]


def _smallest_payload(
    workload: Workload, ops: NDArray[np.int32], options: Mapping[str, Any]
) -> int:
    """Return the least payload of a packet of the messages that operations send, bytes."""
    most = options["hardware"].mtu_bytes
    size = workload.size_bytes[ops].astype(np.int64)
    least = int(np.where(size > 0, (size - 1) % most + 1, 0).min(initial=most))
    meets = (workload.kind[ops] == Kind.SEND) & (size > options["eager_bytes"])
    control = options["hardware"].control_bytes
    return min(least, control) if options["handshake"] and meets.any() else least


def _ranks(workload: Workload, ops: NDArray[np.int32], options: Mapping[str, Any]) -> Ranks:
    """Return the state of the programs of ranks at time 0."""
    route = np.full(workload.num_ops, operations.LOCAL, dtype=np.int32)
    route[ops] = 0
    return lay_ranks(workload, route, options)


def _threads(
    workload: Workload, messages: FlitMessages, links: Links, routing: Any, adapter: Adapter,
    options: Mapping[str, Any],
) -> int:  # fmt: skip
    """Return the number of threads of a run, of which each has the programs of its hosts."""
    ops = workload.messages
    why = one_thread(routing)
    if adapter.held is not None:
        why = "packets that hold circuits are acknowledged one after the other"
    elif workload.multicast.any():
        why = "copies of hardware broadcasts are counted in one place"
    elif not options["handshake"] and (
        (workload.kind == Kind.SEND) & (workload.size_bytes > options["eager_bytes"])
    ).any():  # fmt: skip
        why = "without handshake both ranks of a large send act at once"
    flits = workload.size_bytes[ops].sum() / messages.flit_bytes + len(ops)
    large = multiprocessing.parent_process() is None and links.ends >= _LEAST_ENDS
    return thread_count(options.get("threads", 1), links, why, large and flits >= _LEAST_FLITS)


def _recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: options[key] for key in options if key not in ("hardware", "router", "adapter")}


def _run(
    routing: Any,
    net: FlitNet,
    programs: Sequence[Ranks],
    workload: Workload,
    last: int,
    progress: Callable[[Progress], None] | None,
) -> tuple[FlitNet, int, bool]:
    """Run to the end; return the state, the reason for stopping, and whether the user stopped."""
    cycles = 1000
    messages = len(workload.messages)
    run = routing.loop(net, programs)
    while True:
        began = time.perf_counter()
        try:
            until = min(int(net.count.now) + cycles, last)
            why = run(until)
            raise_deferred()
        except KeyboardInterrupt:
            return net, MORE, True
        if why == NO_PACKETS:
            net = with_packets(net)
            run = routing.loop(net, programs)
            continue
        if progress:
            ended, arrived = _over(programs)
            now = float(net.count.now) * float(net.rules.cycle_ps) / PS_PER_NS
            try:
                progress(Progress(ended, workload.num_ops, arrived, messages, now))
            except StopRun:
                return net, why, why == MORE
        if why != MORE or int(net.count.now) >= last:
            return net, why, False
        took = max(time.perf_counter() - began, 1e-4)
        cycles = int(min(max(cycles * REPORT_S / took, 100), 4 * cycles, 2**30))


def _over(programs: Sequence[Ranks]) -> tuple[int, int]:
    """Return how many operations have ended, and how many messages have arrived."""
    counts = [ranks.count for ranks in programs]
    return sum(int(each.ended) for each in counts), sum(int(each.arrived) for each in counts)


def _counted(
    links: Links, net: FlitNet, ranks: Ranks, workload: Workload, messages: FlitMessages
) -> tuple[NDArray[np.int64], ...]:
    """Return flits and waits of each link, and bytes of each message that have arrived."""
    flits, waits = (np.zeros(links.fabric.num_links, dtype=np.int64) for _ in range(2))
    flits[links.out_link], waits[links.in_link] = net.outputs["flits"], waits_of(net)
    size = workload.size_bytes.astype(np.int64)
    packets = np.maximum(-(-size // messages.payload_bytes), 1)
    arrived = packets - net.messages["missing"][: workload.num_ops]
    carried = np.minimum(arrived * messages.payload_bytes, size)
    return flits, waits, np.where(ranks.left >= 0, carried, 0)


def _stuck(workload: Workload, net: FlitNet, ranks: Ranks, cycle_ps: int, deadlock: str) -> str:
    """Return why nothing moves any more."""
    now = f"{int(net.count.now) * cycle_ps / PS_PER_NS:g} ns"
    tests = 0 if net.casts is None else int(net.casts.tests.under_way)
    if net.count.under_way == tests:
        return deadlock_of_ranks(workload, ranks.posted, ranks.ended, now)
    left = f"{int(net.count.under_way)} packets cannot move"
    if not deadlock:
        return f"nothing moves after {now}, and no buffers wait for each other in a cycle: {left}"
    return (
        f"the network is deadlocked after {now}: {left}, because buffers wait for each other in a "
        f"cycle: {deadlock}"
    )


def _alone(
    links: Links,
    router: Router,
    adapter: Adapter,
    workload: Workload,
    hosts: NDArray[np.int32],
    messages: FlitMessages,
    options: Mapping[str, Any],
) -> NDArray[np.int64]:
    """Return the time of each message in an empty network, ps."""
    fabric, graph, ops = links.fabric, links.fabric.graph, workload.messages
    source, target = hosts[workload.rank[ops]], hosts[workload.peer[ops]]
    size = workload.size_bytes[ops].astype(np.int64)
    local = 8000 * size / options["local_gbps"] + picoseconds(options["local_latency_ns"])
    alone: NDArray[np.int64] = np.rint(local).astype(np.int64)
    away = fabric.apart(source, target)
    if not away.any():
        return alone
    delay = router.routing_delay + router.switch_delay
    delay += 0 if router.speculative else router.vc_delay
    latency = np.zeros(fabric.num_links)
    latency[links.in_link] = links.inputs["latency"]
    weights = latency[graph.edge_link] + delay
    shape = (graph.num_rows, graph.num_rows)
    place = graph.edge_tail.astype(np.int64) * graph.num_rows + graph.edge_row
    order = np.lexsort((weights, place))
    first = order[np.diff(place[order], prepend=-1) > 0]  # the shortest of parallel cables
    matrix = coo_array((weights[first], (graph.edge_tail[first], graph.edge_row[first])), shape)
    rows, which = np.unique(graph.destination_row[source[away]], return_inverse=True)
    distance = dijkstra(matrix.tocsr(), indices=rows)
    down = graph.destination_link
    path = distance[which, graph.destination_row[target[away]]]
    path += latency[down[source[away]] ^ 1] + latency[down[target[away]]] + delay
    payload, overhead = messages.payload_bytes, messages.overhead_bytes
    full, rest = np.divmod(size[away], payload)
    flits = full * (-(-(payload + overhead) // messages.flit_bytes))
    last = (rest > 0) | (full == 0)
    flits += np.where(last, np.maximum(-(-(rest + overhead) // messages.flit_bytes), 1), 0)
    last_link = links.inputs["tail"][target[away]]
    slowest = np.maximum(links.interval[source[away]], links.interval[last_link])
    # With circuits the tail of the last packet follows after the data.
    cycles = path + (flits - 1 - adapter.circuits) * slowest
    extra = int(picoseconds(options["hardware"].adapter_latency_ns))
    alone[away] = np.rint(cycles).astype(np.int64) * messages.cycle_ps + extra
    return alone
