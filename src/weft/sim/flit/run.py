"""Function `simulate_flits`: synthetic traffic at the flit level, in cycles."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.arguments import finite_number, whole_number
from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.html import facts_table
from weft.core.pool import cores
from weft.core.signals import raise_deferred
from weft.core.student import student_t
from weft.fabrics import Fabric, check_fabric
from weft.kernels.flit.engine import NO_PACKETS, STUCK
from weft.kernels.flit.net import FlitNet
from weft.routing.routes import Routes
from weft.sim.common.congestion_matrix import WAITS, congestion_matrix
from weft.sim.common.metrics import NAMED_LINKS, named_links
from weft.sim.common.replay import ratio
from weft.sim.common.statistics import BATCHES, Interval, interval_of, trend
from weft.sim.flit.deadlock import find_deadlock
from weft.sim.flit.network import Links, lanes_of_class, state, waits_of, with_packets
from weft.sim.flit.router import Router
from weft.sim.flit.routings import Routing, bind, of_routes
from weft.sim.flit.traffic import Load

#: Endpoints times cycles from which a run uses several threads by default: about a second.
LARGE = 2_000_000
#: Largest number of threads.
MOST_THREADS = 1024
#: Cycles between two reports of progress, at most.
REPORT_CYCLES = 1 << 14
#: Longest drain by default, relative to warm-up and measurement.
DRAIN = 10
#: Longest drain, cycles.
LONGEST_DRAIN = 2**30
#: Part of the offered load that may be missing from the accepted one, besides its interval.
LOST = 0.01
#: Confidence of the tests of `settled`: two-sided, that flits are missing, and one-sided, that the
#: latency grows. With 95 %, one run in ten is not settled far below saturation.
CERTAIN, GROWS = 0.999, 0.9999

TRAFFIC_LINK_COLUMNS: Mapping[str, Column] = {
    **NAMED_LINKS,
    "flits": Column(pl.Int64, "", "Flits sent on the link in the whole run"),
    "utilisation": Column(
        pl.Float64, "", "Flits per cycle of the whole run (null: run of 0 cycles)"
    ),
    "wait_cycles": Column(
        pl.Int64,
        "cycles",
        "Total wait of packets at the head of the link, beyond the least time of a router",
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class FlitTraffic:
    """Result of synthetic traffic at the flit level; times are cycles.

    Parameters
    ----------
    fabric, routing, router, load
        The arguments of the run; `routing` is the name of the routing or of the routes' engine.
    offered, accepted
        Flits per cycle and endpoint: generated on average (replies included), and arrived in the
        measurement.
    accepted_ci95
        Half of the 95 % interval of `accepted`, by batch means; NaN if the measurement has fewer
        than 80 cycles.
    latency, network_latency
        Mean time of packets born in the measurement, from birth and from the departure of the
        first flit to the arrival of the last one, with 95 % intervals.
    hops
        Mean number of routers of these packets; NaN if none arrived.
    packets, missing
        Packets born in the measurement that arrived, and those under way at the end of the run;
        packets that wait at a source are not counted.
    settled
        Whether the run is in a steady state: all packets of the measurement arrived, as many flits
        arrive as are offered, and the latency does not grow.
    why
        Why the run is not settled; empty if it is.
    deadlock
        A cycle of buffers that wait for each other, as `find_deadlock` names it; empty if there is
        none, or all packets of the measurement arrived.
    cycles
        Length of the run.
    ejected
        int64 [endpoints]: flits that arrived at each endpoint in the measurement.
    histogram
        int64: measured packets by latency in cycles; the last entry has all longer ones.
    flits, wait_cycles
        int64 [links]: flits sent over each link, and the total wait of packets at its head, that of
        packets still there included.
    flit_hops, run_s
        Flits sent over links, and wall-clock time of the simulation.
    """

    fabric: Fabric
    routing: str
    router: Router
    load: Load
    offered: float
    accepted: float
    accepted_ci95: float
    latency: Interval
    network_latency: Interval
    hops: float
    packets: int
    missing: int
    settled: bool
    why: str
    deadlock: str
    cycles: int
    ejected: NDArray[np.int64]
    histogram: NDArray[np.int64]
    flits: NDArray[np.int64]
    wait_cycles: NDArray[np.int64]
    flit_hops: int
    run_s: float

    def percentile(self, percent: float) -> float:
        """Return a percentile of latency; infinite beyond the histogram, NaN without packets.

        Raises
        ------
        InputError
            If `percent` is not from 0 to 100.
        """
        if not 0 <= finite_number(percent, "percent") <= 100:
            raise InputError(f"percent must be 0 to 100, not {percent}")
        below = np.cumsum(self.histogram)
        if not below[-1]:
            return np.nan
        at = int(np.searchsorted(below, max(percent / 100 * below[-1], 1)))
        return float(at) if at < len(self.histogram) - 1 else np.inf

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `TRAFFIC_LINK_COLUMNS`."""
        return frame(
            TRAFFIC_LINK_COLUMNS,
            {
                **named_links(self.fabric),
                "flits": self.flits,
                "utilisation": ratio(self.flits, np.full(len(self.flits), self.cycles)),
                "wait_cycles": self.wait_cycles,
            },
        )

    def congestion_matrix(self) -> pl.DataFrame:
        """Return where packets wait: one row for each link into a switch.

        See `weft.sim.common.congestion_matrix.CONGESTION_MATRIX_COLUMNS`; waits are `wait_cycles`
        and `switch_wait_cycles`, of the whole run.
        """
        matrix = congestion_matrix(self.fabric, self.wait_cycles)
        return matrix.rename({name: name.replace("_ns", "_cycles") for name in WAITS})

    def summary(self) -> dict[str, Any]:
        """Return the main figures by name."""
        return {
            "routing": self.routing,
            "offered": self.offered,
            "accepted": self.accepted,
            "accepted_ci95": self.accepted_ci95,
            "latency": self.latency.mean,
            "latency_ci95": self.latency.half_width,
            "network_latency": self.network_latency.mean,
            "p99": self.percentile(99),
            "hops": self.hops,
            "packets": self.packets,
            "settled": self.settled,
            "why": self.why,
            "cycles": self.cycles,
        }

    def _repr_html_(self) -> str:
        return facts_table(f"{self.load.pattern} on {self.fabric.name}", self.summary())

    def __repr__(self) -> str:
        state = "settled" if self.settled else self.why
        return (
            f"FlitTraffic({self.load.pattern} on {self.fabric.name}, {self.routing}: "
            f"{self.accepted:.4g} of {self.offered:.4g} flits per cycle and endpoint, latency "
            f"{self.latency.mean:.1f} cycles; {state})"
        )


def simulate_flits(
    fabric: Fabric,
    routing: str | Routes,
    *,
    load: Load | None = None,
    router: Router | None = None,
    latency: NDArray[Any] | int = 1,
    policy: str | None = None,
    drain: int | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FlitTraffic:
    """Run synthetic traffic over routers with virtual channels, cycle by cycle.

    docs/flit-level.md states every rule. Endpoints generate packets during the warm-up, the
    measurement and the drain, which ends as soon as all packets of the measurement have arrived.

    Parameters
    ----------
    fabric
        The fabric.
    routing
        A routing by coordinates by name, such as ``dor``, with options, or routes of an engine.
    load
        The traffic; by default `Load()`.
    router
        Settings of routers; by default `Router()`.
    latency
        Cycles that a flit is on a link: one number, or int [links].
    policy
        Policy that chooses among the candidates of routes, with options; by default the one
        of the engine, or ``ecmp``.
    drain
        Most cycles of the drain; by default ten times the warm-up and measurement.
    threads
        Threads that let parts of the fabric act side by side, with the same results; by default all
        processors for a large run, otherwise 1.
    progress
        Function that is called from time to time with the present cycle and the last one.

    Returns
    -------
    FlitTraffic

    Raises
    ------
    InputError
        If a value is out of range, there are too few virtual channels, or the routing needs one
        thread.
    NotApplicable
        If the routing or the pattern does not fit the fabric.
    """
    check_fabric(fabric)
    load, router = load or Load(), router or Router()
    for given, kind in ((load, Load), (router, Router)):
        if not isinstance(given, kind):
            raise InputError(f"expected {kind.__name__}, not {given!r}")
    until = load.warmup + load.measure
    drain = DRAIN * until if drain is None else whole_number(drain, "drain", 0, LONGEST_DRAIN)
    if until + drain >= 2**31:
        raise InputError("warmup, measure and drain must be less than 2^31 cycles together")
    links = Links.of(fabric, latency)
    chosen = bound(routing, links, lanes_of_class(router, load), policy)
    router = router.sized(load.largest, links.longest, chosen.escapes)
    net = state(
        links, chosen.arrays, router, load, lockstep=chosen.remote,
        threads=thread_count(threads, links, one_thread(chosen), links.ends * until >= LARGE),
    )  # fmt: skip
    began = time.perf_counter()
    net, why = _run(chosen, net, until, until + drain, progress)
    return _result(links, chosen, router, load, net, why, time.perf_counter() - began)


def one_thread(routing: Routing) -> str:
    """Return why a routing needs one thread; empty if it does not."""
    return f"{routing.name} reads the state of distant routers" if routing.remote else ""


def thread_count(wanted: int | None, links: Links, why: str, is_large: bool) -> int:
    """Return the number of threads of a run; `why`: reason for which it can only have one."""
    most = min(len(links.routers), links.ends)
    if wanted is None:
        return min(cores(), most) if is_large and not why else 1
    whole_number(wanted, "threads", 1, MOST_THREADS)
    if wanted > 1 and why:
        raise InputError(f"threads {wanted}: {why}, so this run needs 1 thread")
    return min(wanted, most)


def bound(routing: str | Routes, links: Links, lanes: int, policy: str | None = None) -> Routing:
    """Return the routing of a run.

    `routing`: a routing by coordinates by name, or routes. `lanes`: virtual channels of each class
    of traffic. `policy`: policy that chooses among the candidates of routes; None for the usual
    one.
    """
    if isinstance(routing, Routes):
        return of_routes(links, routing, lanes, policy)
    if not isinstance(routing, str):
        raise InputError(f"routing must be a name or Routes, not {routing!r}")
    if policy is not None:
        raise InputError(f"routing {routing} takes no policy; routes of an engine do")
    return bind(routing, links, lanes)


def _run(
    routing: Routing,
    net: FlitNet,
    measured: int,
    last: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[FlitNet, int]:
    """Run to the end of the measurement, and on until its packets have arrived."""
    run = routing.loop(net)
    while True:
        now = int(net.count.now)
        if now >= last or (now >= measured and _is_drained(net)):
            return net, 0
        until = min(now + REPORT_CYCLES, last)
        until = min(until, measured if now < measured else now + max(measured // 16, 64))
        why = run(until)
        raise_deferred()
        if why == NO_PACKETS:
            net = with_packets(net)
            run = routing.loop(net)
        elif why == STUCK:
            return net, why
        if progress:
            progress(int(net.count.now), last)


def _is_drained(net: FlitNet) -> bool:
    """Return whether all packets born in the measurement have arrived.

    Replies count as born from their birth on, requests when their endpoint begins with them.
    """
    waits = (net.endpoints["birth"] < net.rules.end).any()
    return bool(net.batches["measured"].sum() == net.count.born and not waits)


def _result(
    links: Links, routing: Routing, router: Router, load: Load, net: FlitNet, why: int, run_s: float
) -> FlitTraffic:
    """Return the result of a run."""
    fabric, count, batches = links.fabric, net.count, net.batches
    sending = int((np.diff(net.traffic.target_offset) > 0).sum())
    requests = load.rate * sending / links.ends
    offered = requests * (1 + load.reply / load.mean_size)
    # The last batches are shorter or empty unless 32 divides the measurement.
    begins = np.arange(BATCHES[0]) * float(net.rules.batch)
    cycles = np.clip(load.measure - begins, 0, net.rules.batch)
    rate = interval_of(batches["ejected"] / links.ends, cycles)
    packets = batches["measured"].astype(np.float64)
    latency = interval_of(batches["latency"].astype(np.float64), packets)
    network = interval_of(batches["network"].astype(np.float64), packets)
    measured = int(batches["measured"].sum())
    accepted = float(batches["ejected"].sum() / load.measure / links.ends)
    reasons = []
    deadlock = ""
    if why == STUCK:
        reasons.append("packets are stuck")
    if not _is_drained(net):
        reasons.append("packets of the measurement have not arrived")
        deadlock = find_deadlock(net, links, routing)
    if deadlock:
        reasons.append("buffers wait for each other")
    if rate.few:
        reasons.append("the measurement is too short")
    else:
        wider = student_t(rate.batches - 1, CERTAIN) / student_t(rate.batches - 1)
        if accepted + rate.half_width * wider < offered * (1 - LOST):
            reasons.append("fewer flits arrive than are offered")
    with np.errstate(invalid="ignore"):
        slope = trend(np.arange(float(BATCHES[0])), batches["latency"] / packets, GROWS)
    if slope.grows and slope.slope * BATCHES[0] > 0.1 * latency.mean:
        reasons.append("the latency grows")
    flits, waits = (np.zeros(fabric.num_links, dtype=np.int64) for _ in range(2))
    flits[links.out_link], waits[links.in_link] = net.outputs["flits"], waits_of(net)
    return FlitTraffic(
        fabric=fabric, routing=routing.name, router=router, load=load, offered=offered,
        accepted=accepted, accepted_ci95=rate.half_width,
        latency=latency, network_latency=network,
        hops=count.packet_hops / measured if measured else np.nan,
        packets=measured, missing=int(count.born) - measured,
        settled=not reasons, why="; ".join(reasons), deadlock=deadlock, cycles=int(count.now),
        ejected=net.endpoints["ejected"].copy(), histogram=net.histogram, flits=flits,
        wait_cycles=waits, flit_hops=int(count.hops), run_s=run_s,
    )  # fmt: skip
