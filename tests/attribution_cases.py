"""Cases of hidden mixes of jobs: the packet level gives counters, and lanes the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

import weft
from tests.reference.attribution import Mixes
from weft.advice.watch.attribution import Attribution, attribute
from weft.counters.rates import Rates
from weft.routing.routes import VirtualLanes
from weft.sim.static.loads import inner_links, link_loads
from weft.workload import WorkloadBuilder
from weft.workload.patterns import traffic
from weft.workload.workload import Kind

FABRICS = (
    "xgft:2;8,8;1,8",
    "xgft:2;8,8;1,4",
    "xgft:2;12,6;1,6",
    "xgft:3;4,4,4;1,4,4",
    "xgft:3;4,4,4;1,2,2",
    "xgft:3;4,4,8;1,4,4",
)
#: The last one takes complete fat trees only.
ENGINES = ("minhop", "updn", "ftree:pure=false", "dmodk")
PATTERNS = ("all-to-all", "ring", "random-permutation", "stencil", "hot-spot", "uniform:flows=3")
PLACEMENTS = ("contiguous", "random", "interleaved")
RUN_NS, SNAPSHOT_NS = 1_000_000.0, 200_000.0


@dataclass(frozen=True)
class Outcome:
    """What was found for the hot cable of a case, and what is true."""

    jobs: int
    engine: str
    faults: bool
    found: Attribution
    #: [jobs + 1]: true rate of each job, and of hosts of no job, on the cable.
    true_gbps: np.ndarray
    #: By how much the first exceeds every other in all mixes that give the true loads.
    lead_gbps: float

    @property
    def determined(self) -> bool:
        return self.lead_gbps > 1e-6 * self.true_gbps.sum()

    @property
    def named(self) -> str | None:
        return self.found.verdicts[0].first

    @property
    def first(self) -> str:
        return self.found.names[int(np.argmax(self.true_gbps))]

    @property
    def share_error(self) -> float:
        """Relative error of the share of the job that loads the cable most."""
        first = np.argmax(self.true_gbps)
        return abs(self.found.explained_gbps[0, first] / self.true_gbps[first] - 1)

    @property
    def covered(self) -> bool:
        """Whether all intervals hold the truth."""
        return self.missed == 0

    @property
    def missed(self) -> float:
        """How far the truth is outside an interval at most, as a part of the cable's traffic.

        Intervals hold with 95 % confidence, because readings cut messages.
        """
        low, high = self.found.low_gbps[0], self.found.high_gbps[0]
        outside = np.maximum(np.maximum(low - self.true_gbps, self.true_gbps - high), 0)
        return float(outside.max() / self.true_gbps.sum())

    @property
    def invented(self) -> bool:
        """Whether a job that is not on the cable has more than its interval allows, or must be."""
        absent = self.true_gbps[:-1] == 0
        low, given, high = (
            each[0, :-1]
            for each in (self.found.low_gbps, self.found.explained_gbps, self.found.high_gbps)
        )
        return bool(np.any(absent & ((given > high) | (low > 0))))


def outcome(number: int) -> Outcome:
    """Run case `number` and explain its hot cable."""
    rng = np.random.default_rng(number)
    fabric = weft.fabric(FABRICS[rng.integers(len(FABRICS))])
    engine = ENGINES[number % len(ENGINES)]
    faults = bool(rng.random() < 0.5) and engine != ENGINES[-1]
    if faults:
        fabric = fabric.with_faults(cables="5%", seed=number)
    routes = weft.route(fabric, engine)
    jobs, background = int(rng.integers(3, 13)), bool(rng.random() < 0.3)
    hosts = _placed(rng, fabric.num_hosts, jobs + background)
    sources, destinations, sizes, times = _messages(rng, fabric, hosts)
    job = np.full(fabric.num_hosts, jobs, dtype=np.uint8)
    for index, members in enumerate(hosts):
        job[members] = index

    # Each job has a lane of its own, by which the truth is known.
    sl = np.zeros(fabric.num_destinations, dtype=np.uint8)
    ends = fabric.endpoint_node[: fabric.num_host_endpoints] - fabric.num_switches
    sl[: len(ends)] = job[ends]
    builder = WorkloadBuilder(fabric.num_hosts)
    order = np.argsort(times, kind="stable")
    builder.operations(
        sources[order], Kind.PUT, peer=destinations[order], size_bytes=sizes[order],
        release_ns=times[order],
    )  # fmt: skip
    run = weft.simulate(
        fabric, replace(routes, sl=sl, lanes=VirtualLanes.uniform(range(15))), builder.build(),
        np.arange(fabric.num_hosts), level="packet", snapshot_ns=SNAPSHOT_NS, max_time_ns=RUN_NS,
    )  # fmt: skip
    assert run.snapshots is not None
    wire = run.snapshots.wire_bytes[:, : fabric.num_links]
    begin, end = (
        int(np.argmin(abs(run.snapshots.time_ps / 1e3 - t))) for t in (SNAPSHOT_NS, RUN_NS)
    )
    span = (run.snapshots.time_ps[end] - run.snapshots.time_ps[begin]) / 1e3
    by_lane = (wire[end] - wire[begin]) * 8 / span
    loads = by_lane.sum(axis=1)
    hot = int(np.argmax(np.where(inner_links(fabric), loads / fabric.link_rate_gbps, 0)))
    groups = {f"job{index}": hosts[index] for index in range(jobs)}
    found = attribute(Rates.of_links(fabric, loads), routes, groups, hot)
    true = np.zeros(jobs + 1)
    true[: by_lane.shape[1]] = by_lane[hot, : jobs + 1]

    exact = _exact_loads(run, fabric, routes, span)
    mixes = Mixes(fabric, routes, hosts[:jobs], exact)
    return Outcome(jobs, engine, faults, found, true, mixes.lead(hot, int(np.argmax(true))))


def _placed(rng: np.random.Generator, hosts: int, jobs: int) -> list[np.ndarray]:
    """Return the hosts of jobs of random sizes, on some or all of the hosts."""
    used = max(int(hosts * rng.uniform(0.7, 1)), 2 * jobs)
    size = 2 + rng.multinomial(used - 2 * jobs, rng.dirichlet(np.full(jobs, 2.0)))
    place = PLACEMENTS[rng.integers(len(PLACEMENTS))]
    order = rng.permutation(hosts) if place == "random" else np.arange(hosts)
    if place == "interleaved":
        index = rng.permutation(np.repeat(np.arange(jobs), size))
        return [order[: len(index)][index == job] for job in range(jobs)]
    return np.split(order[:used], np.cumsum(size)[:-1])


def _messages(
    rng: np.random.Generator, fabric: weft.Fabric, hosts: list[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Return source, destination, size and time of messages: each job sends all the time."""
    parts = []
    for members in hosts:
        name = PATTERNS[rng.integers(len(PATTERNS))]
        flows = traffic(len(members), name)
        each = len(members) / len(flows) * rng.uniform(0.05, 0.6) * fabric.host_rate_gbps
        size = int(rng.choice([16384, 65536]))
        count = rng.poisson(each * RUN_NS / 8 / size, len(flows))
        ends = (np.repeat(members[end], count) for end in flows)
        total = int(count.sum())
        parts.append((*ends, np.full(total, size), rng.uniform(0, RUN_NS, total)))
    source, destination, size, time = (np.concatenate(each) for each in zip(*parts, strict=True))
    return source, destination, size, time


def _exact_loads(
    run: weft.sim.packet.result.PacketResult, fabric: weft.Fabric, routes: weft.Routes, span: float
) -> np.ndarray:
    """Return the loads by rates of pairs: each message counts as far as it is between readings."""
    messages = run.messages().filter(~pl.col("left_ns").is_null())
    left = messages["left_ns"].to_numpy()
    arrived = messages["arrived_ns"].fill_null(RUN_NS).to_numpy()
    inside = np.minimum(arrived, RUN_NS) - np.maximum(left, RUN_NS - span)
    part = np.clip(inside / np.maximum(arrived - left, 1e-9), 0, 1)
    ends = (messages[f"{end}_host"].to_numpy() for end in ("source", "destination"))
    weights = part * messages["size_bytes"].to_numpy() * 8 / span
    return link_loads(fabric, routes, *ends, weights=weights)


def table(outcomes: list[Outcome], by: str) -> pl.DataFrame:
    """Return how many cases there are for each value of an attribute, and what was found."""
    return (
        pl.DataFrame(
            {
                by: [getattr(each, by) for each in outcomes],
                "determined": [each.determined for each in outcomes],
                "right": [each.determined and each.named == each.first for each in outcomes],
                "wrong": [each.named not in (None, each.first) for each in outcomes],
                "not told": [not each.determined and each.named is None for each in outcomes],
                "share": [each.determined and each.share_error <= 0.1 for each in outcomes],
                "share of all": [each.share_error <= 0.1 for each in outcomes],
                "covered": [each.covered for each in outcomes],
                "invented": [each.invented for each in outcomes],
            }
        )
        .group_by(by)
        .agg(pl.len().alias("cases"), pl.all().sum())
        .sort(by)
    )
