"""Traffic of an I/O job and of a compute job, and the bandwidth that each gets in a run.

Both jobs are closed loops, as the I/O benchmarks of Petrini et al. (2003, sections 4.6 and 4.7) at
full load: a client has one transaction outstanding, and a compute rank one message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.advice.io_nodes.settings import Choice, IoSettings, Site
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.flit.router import Router
from weft.sim.options import Level
from weft.sim.simulate import simulate
from weft.workload import Kind, Pairs, Workload, WorkloadBuilder, traffic
from weft.workload.jobs import Job, combine
from weft.workload.patterns import pattern as patterns

#: Allowed relative error of times at the flow level, far below the differences that matter.
TOLERANCE = 0.01
#: Size of the request for a read; data are larger.
REQUEST_BYTES = 64
#: Messages that all compute ranks can send in the window together, and the fewest and most of one:
#: more ranks average out the draws in a shorter window.
MESSAGES, FEWEST, MOST = 8192, 24, 128
#: Share of a run before the window.
WARM_UP = 0.25
#: Parts of transactions that a client transfers in a run at its share of the I/O nodes' cables, and
#: the least size of a part.
PARTS, PART_BYTES = 16, 4096
#: Ratio of the data that a client can transfer in a run to that share.
AHEAD = 2.5


@dataclass(frozen=True)
class Extent:
    """Length of a run, and the traffic that fills it."""

    #: End of the window.
    until_ns: float
    #: Messages of a compute rank: what it can send at full rate.
    messages: int
    #: Transactions are transferred in parts of this size, so that the window counts what has
    #: arrived of long ones; and the number of parts of a client.
    part_bytes: int
    parts: int

    @classmethod
    def of(cls, site: Site, chosen: IoSettings, rate_gbps: float) -> Extent:
        """Return the extent of runs of a site, given the rate of hosts."""
        messages = min(max(MESSAGES // len(site.compute), FEWEST), MOST)
        until = messages * chosen.compute_bytes * 8 / rate_gbps
        share = min(1.0, len(site.io) / len(site.clients))
        room = share * messages * chosen.compute_bytes
        part = max(int(room / PARTS) // PART_BYTES * PART_BYTES, PART_BYTES)
        part = min(part, chosen.io_bytes)
        busier = max(chosen.writes, 1 - chosen.writes)
        most = min(messages * chosen.compute_bytes, AHEAD * room / busier)
        return cls(until, messages, part, int(most / part) + 2)


def servers_of(site: Site, choice: Choice, transactions: int, seed: int) -> NDArray[np.int64]:
    """Return the index of the I/O node of each transaction, int64 [clients, transactions].

    A client on an I/O node uses the other I/O nodes: its own needs no network. If there is no other
    one, the index is -1.
    """
    own = own_server(site)
    count, number = len(site.io), len(site.clients)
    others = np.where(own < 0, count, count - 1)
    if choice == "random":
        drawn = np.random.default_rng(seed).random((number, transactions))
        index = (drawn * others[:, None]).astype(np.int64)
        index += (own[:, None] >= 0) & (index >= own[:, None])
    else:
        index = np.arange(number, dtype=np.int64)
        index = index % count if choice == "cyclic" else index * count // number
        index = np.where(index == own, (index + 1) % count, index)
        index = np.repeat(index[:, None], transactions, axis=1)
    index[others == 0] = -1
    return index


def own_server(site: Site) -> NDArray[np.int64]:
    """Return the index of the I/O node that each client runs on, or -1, int64 [clients]."""
    order = np.argsort(site.io)
    at = np.minimum(np.searchsorted(site.io, site.clients, sorter=order), len(site.io) - 1)
    return np.where(site.io[order[at]] == site.clients, order[at], -1)


def io_workload(site: Site, chosen: IoSettings, extent: Extent) -> Workload:
    """Return the transactions of the I/O job; its ranks are the clients, then the I/O nodes.

    A write is puts. A read is a short request, which the I/O node answers with the data. The job
    begins as if it had run for long: the first transaction of a client is a random part of one, and
    in the direction that has more data, for which nearly all clients then wait.
    """
    clients, parts = len(site.clients), extent.parts
    builder = WorkloadBuilder(clients + len(site.io), name="io")
    draw = np.random.default_rng([chosen.seed, 1])
    each = -(-chosen.io_bytes // extent.part_bytes)
    left = draw.integers(1, each, (clients, 1), endpoint=True)
    place = np.arange(parts) - left  # within the transactions after the first
    number = np.where(place < 0, 0, 1 + place // each)
    begins = (place < 0) & (np.arange(parts) == 0) | (place >= 0) & (place % each == 0)
    transactions = int(number.max()) + 1
    # Writes are spread evenly over the transactions of a client, from a random one on.
    turn = draw.random((clients, 1)) + chosen.writes * np.arange(transactions + 1)
    writes = np.diff(np.floor(turn), axis=1) > 0
    if chosen.writes != 0.5:
        writes[:, 0] = chosen.writes > 0.5
    at = np.arange(clients)[:, None], number
    write = writes[at]
    server = servers_of(site, chosen.choice, transactions, chosen.seed)[at]
    there = server >= 0
    client, tag = np.broadcast_arrays(*np.ogrid[:clients, :parts])
    size = np.full((clients, parts), extent.part_bytes)
    size[:, 0] = draw.integers(REQUEST_BYTES, extent.part_bytes, clients) + 1
    first = np.full((clients, parts), -1, dtype=np.int64)
    last = first.copy()
    some = write & there
    first[some] = last[some] = builder.operations(
        client[some], Kind.PUT, peer=clients + server[some], size_bytes=size[some]
    )
    some = ~write & there
    node = clients + server
    part: dict[str, Any] = {"size_bytes": size[some], "tag": parts + tag[some]}
    answer = np.full((clients, parts), -1, dtype=np.int64)
    answer[some] = builder.operations(node[some], Kind.SEND, peer=client[some], **part)
    first[some] = last[some] = builder.operations(client[some], Kind.RECV, peer=node[some], **part)
    onward = some & ~begins
    builder.requires(answer[onward], answer[np.roll(onward, -1, axis=1)])
    some &= begins
    request: dict[str, Any] = {"size_bytes": REQUEST_BYTES, "tag": tag[some]}
    ask = builder.operations(client[some], Kind.SEND, peer=node[some], **request)
    asked = builder.operations(node[some], Kind.RECV, peer=client[some], **request)
    builder.requires(answer[some], asked)
    builder.requires(first[some], ask)
    first[some] = ask
    there = there[:, 0]
    builder.requires(first[there, 1:].ravel(), last[there, :-1].ravel())
    return builder.build()


def compute_pairs(ranks: int, chosen: IoSettings, flows: int) -> Pairs:
    """Return the flows of the compute job: `flows` of each rank if its pattern draws them."""
    entry, given = patterns.parse(chosen.pattern)
    options: dict[str, Any] = {}
    if "flows" in entry.options and "flows" not in given:
        options["flows"] = flows
    if "seed" in entry.options and "seed" not in given:
        options["seed"] = chosen.seed
    return traffic(ranks, chosen.pattern, **options)


def compute_workload(ranks: int, chosen: IoSettings, number: int) -> Workload:
    """Return `number` messages of each compute rank, to its destinations in turn."""
    builder = WorkloadBuilder(ranks, name="compute")
    pairs = compute_pairs(ranks, chosen, number)
    order = np.argsort(pairs.sources, kind="stable")
    source, start, count = np.unique(pairs.sources[order], return_index=True, return_counts=True)
    turn = start[:, None] + np.arange(number) % count[:, None]
    put = builder.operations(
        np.repeat(source, number), Kind.PUT, peer=pairs.destinations[order][turn].ravel(),
        size_bytes=chosen.compute_bytes,
    ).reshape(-1, number)  # fmt: skip
    builder.requires(put[:, 1:].ravel(), put[:, :-1].ravel())
    return builder.build()


def bandwidths(
    fabric: Fabric,
    routes: Routes,
    jobs: Mapping[str, tuple[Workload, NDArray[np.int32]]],
    level: Level,
    until_ns: float,
    seed: int,
) -> dict[str, float]:
    """Run jobs together and return the rate at which data of each arrive in the window, in Gb/s.

    `jobs`: workload, and host of each rank, by name. `until_ns`: end of the window, which begins at
    `WARM_UP` of this time.
    """
    mix = combine(
        [Job(work, name, hosts) for name, (work, hosts) in jobs.items()], fabric, overlap="share"
    )
    work = mix.workload
    ops = work.messages[work.size_bytes[work.messages] != REQUEST_BYTES]
    size, job = work.size_bytes[ops], mix.job[work.rank[ops]]
    # Data are eager: the time of a handshake is not bandwidth.
    options: dict[str, Any] = {"eager_bytes": int(size.max()), "seed": seed}
    options |= {"tolerance": TOLERANCE} if level == "flow" else {"max_time_ns": until_ns}
    if level == "flit":
        lanes = Router().lanes
        options["router"] = Router(lanes=-(-lanes // routes.num_vls) * routes.num_vls)
    result: Any = simulate(fabric, routes, work, mix.hosts, level=level, **options)
    arrived = result.arrived_ns[ops]
    counted = (arrived > WARM_UP * until_ns) & (arrived <= until_ns)
    totals = np.bincount(job[counted], weights=size[counted], minlength=len(jobs))
    rates = 8 * totals / ((1 - WARM_UP) * until_ns)
    return dict(zip(jobs, rates.tolist(), strict=True))
