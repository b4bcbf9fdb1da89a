"""Parts of a fabric that threads simulate side by side, and the state of each part."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra

from weft.core.errors import InputError
from weft.core.pool import cores
from weft.fabrics import Fabric
from weft.kernels.packet import records
from weft.kernels.packet.engine import LETTERS
from weft.kernels.packet.lanes import rounded
from weft.kernels.packet.mail import HEADS
from weft.kernels.packet.net import Mailboxes, Net
from weft.kernels.program.operations import LOCAL
from weft.kernels.records import aligned, copied
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.network import PacketNetwork
from weft.workload import Kind, Workload

#: Largest load of a part relative to the mean, when switches without hosts choose their part.
_BALANCE = 1.05
#: Least packets of a workload for which threads are used by default: about a second of one thread.
_LEAST_PACKETS = 200_000
#: Least packet-hops of a thread in a window, some twenty times as long as a meeting, and links of
#: a path for the estimate.
_LEAST_HOPS, _HOPS = 40, 5


@dataclass(frozen=True, eq=False)
class Partition:
    """Which part each row, link and rank belongs to."""

    #: int32 [rows]; int32 [links]: part that sends on a link, and part that its packets reach; and
    #: int32 [ranks].
    row: NDArray[np.int32]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    rank: NDArray[np.int32]
    #: Shortest time in which a part can change what happens in another.
    lookahead_ps: int
    #: Reason for which there are not as many parts as wanted; empty if there are.
    why: str = ""

    @property
    def parts(self) -> int:
        """Number of parts."""
        return int(self.row.max(initial=0)) + 1


class CutInputs(NamedTuple):
    """What determines the parts: arguments and options of `run_packets`, and what it made of them.

    `one`: reason for which there can be one part only, if there is one. `times`: how often each
    message is sent.
    """

    fabric: Fabric
    network: PacketNetwork
    connections: Connections
    workload: Workload
    hosts: NDArray[np.int32]
    options: Mapping[str, Any]
    one: str = ""
    times: NDArray[np.int64] | int = 1


def cut_for(given: CutInputs) -> Partition:
    """Return the parts for the threads of a run, by default as many as pay.

    By default there are as many threads as processors that this process may use, if the workload
    has `_LEAST_PACKETS`, but no more than leave each thread `_LEAST_HOPS` packet-hops between two
    meetings when all hosts send at their full rate. A worker process, beside which others work,
    uses one thread. If several threads are asked for and only one part can be made, this is an
    InputError.
    """
    wanted, hardware = given.options["threads"], given.options["hardware"]
    if wanted is not None:
        cut = partition(given, wanted)
        if cut.parts < min(wanted, 2):
            raise InputError(f"threads {wanted}: this run needs 1 thread, because {cut.why}")
        return cut
    sizes = given.workload.size_bytes[given.workload.messages]
    packets = int((given.times * np.maximum(-(-sizes // hardware.mtu_bytes), 1)).sum())
    if multiprocessing.parent_process() is not None or packets < _LEAST_PACKETS:
        return partition(given, 1)
    cut = partition(given, cores())
    if cut.parts == 1:
        return cut
    wire = np.minimum(sizes, hardware.mtu_bytes).mean() + hardware.header_bytes
    lasts = 8000.0 * wire / float(np.median(given.network.rate_gbps))
    fit = int(len(np.unique(given.hosts)) * _HOPS * cut.lookahead_ps / lasts / _LEAST_HOPS)
    if fit >= cut.parts:
        return cut
    if fit < 2:
        return _uncut(given, f"windows of {cut.lookahead_ps / 1000:g} ns are short")
    return partition(given, fit)


def partition(given: CutInputs, threads: int) -> Partition:
    """Cut a fabric into parts that exchange packets and credits only, and those after some time.

    Hosts are in the part of the row that they are attached to. Rows with hosts are cut in their
    order, so that neighbours stay together; the others follow most of their neighbours, as far as
    the numbers of links of the parts allow.
    """
    links, num_rows = given.network.topology.links, len(given.network.topology.rows)
    if threads == 1 or given.one or not num_rows:
        return _uncut(given, given.one if threads > 1 else "")
    tail, head = (links[name].astype(np.int64) for name in ("tail_row", "head_row"))
    row_of_host, ties = _ties(given, tail, head)
    pairs = coo_array((np.ones(len(ties)), ties.T), shape=(num_rows + 1,) * 2)
    blocks, block = connected_components(pairs, directed=False)  # rows that are tied are one
    between = (tail >= 0) & (head >= 0)
    graph = coo_array(
        (np.ones(between.sum()), (block[tail[between]], block[head[between]])), shape=(blocks,) * 2
    ).tocsr()
    own = np.zeros(blocks, dtype=bool)
    own[block[row_of_host]] = True
    count = min(threads, int(own.sum()))
    ends = np.concatenate([tail, head])
    part = _assigned(graph, np.bincount(block[ends[ends >= 0]], minlength=blocks), own, count)
    row = part[block].astype(np.int32)
    of_tail = row[np.where(tail >= 0, tail, head)]
    of_head = row[np.where(head >= 0, head, tail)]
    lookahead = _lookahead(given, np.unique(links["kind"][of_tail != of_head]))
    if lookahead <= 0:
        return _uncut(
            given, "packets take no time between switches: set a switch latency, or cable lengths"
        )
    why = ""
    if count == 1 and not given.options["handshake"]:
        why = "without handshake both ranks of a large send act at once: leave the handshake on"
    elif count < threads:
        why = f"the fabric has {count} group{'s' * (count != 1)} of hosts that messages do not tie"
    return Partition(
        row[:num_rows], of_tail, of_head, row[row_of_host[given.hosts]], lookahead, why
    )


def _uncut(given: CutInputs, why: str) -> Partition:
    topology, ranks = given.network.topology, given.workload.num_ranks
    sizes = len(topology.rows), len(topology.links), ranks
    rows, links, of_rank = (np.zeros(size, dtype=np.int32) for size in sizes)
    return Partition(rows, links, links, of_rank, 0, why)


def _ties(
    given: CutInputs, tail: NDArray[Any], head: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a row of each host, and pairs of rows that must be in one part, int64 [pairs, 2].

    A host may be attached to several rows, and ranks may act on each other at once. Hosts without
    a row have the number behind the last.
    """
    fabric, workload, options = given.fabric, given.workload, given.options
    graph, first = fabric.graph, fabric.num_switches
    row = np.full(fabric.num_nodes, graph.num_rows, dtype=np.int64)
    out = np.flatnonzero((tail < 0) & (head >= 0) & (np.arange(len(tail)) < fabric.num_links))
    row[fabric.link_from[out]] = head[out]
    row = np.where(graph.node_row >= 0, graph.node_row, row)
    of_host = row[first : first + fabric.num_hosts]
    ops = workload.messages
    at_once = given.connections.route[ops] == LOCAL
    if not options["handshake"]:
        large = workload.size_bytes[ops] > options["eager_bytes"]
        at_once |= (workload.kind[ops] == Kind.SEND) & large
    ranks = np.stack([workload.rank[ops[at_once]], workload.peer[ops[at_once]]], axis=1)
    several = np.stack([row[fabric.link_from[out]], head[out]], axis=1)
    return of_host, np.concatenate([several, of_host[given.hosts[ranks]]])


def _assigned(
    graph: Any, weight: NDArray[Any], own: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    """Return the part of each block: first of those with hosts, then of the others."""
    part = np.full(len(weight), -1)
    leaves = np.flatnonzero(own)
    above = np.full(len(weight), -1)
    for leaf in leaves:
        around = graph.indices[graph.indptr[leaf] : graph.indptr[leaf + 1]]
        above[leaf] = around[~own[around]].min(initial=len(weight))
    leaves = leaves[np.lexsort((leaves, above[leaves]))]
    middle = np.cumsum(weight[leaves]) - weight[leaves] / 2
    part[leaves] = np.minimum(count * middle / weight[leaves].sum(), count - 1).astype(np.int64)
    load = np.bincount(part[leaves], weights=weight[leaves], minlength=count)
    most = weight.sum() / count * _BALANCE
    levels = dijkstra(graph, directed=False, indices=leaves, unweighted=True, min_only=True)
    others = np.flatnonzero(~own)
    for block in others[np.argsort(levels[others], kind="stable")]:
        around = slice(graph.indptr[block], graph.indptr[block + 1])
        near = part[graph.indices[around]]
        votes = np.bincount(near[near >= 0], weights=graph.data[around][near >= 0], minlength=count)
        full = load + weight[block] > most
        part[block] = np.lexsort((np.arange(count), load, -votes * ~full, full))[0]
        load[part[block]] += weight[block]
    return part


def _lookahead(given: CutInputs, cut: NDArray[Any]) -> int:
    """Return the shortest time in which a packet, or a credit, crosses links of these kinds."""
    workload, options, network = given.workload, given.options, given.network
    hardware: Hardware = options["hardware"]
    ops = workload.messages
    ops = ops[given.connections.route[ops] != LOCAL]
    sizes, mtu = workload.size_bytes[ops], hardware.mtu_bytes
    large = sizes > options["eager_bytes"]
    if options["handshake"] and (workload.kind[ops[large]] == Kind.SEND).any():
        sizes = np.append(sizes, hardware.control_bytes)
    last = np.append((sizes[sizes > mtu] - 1) % mtu + 1, mtu)
    payload = int(min(last.min(), sizes.min(initial=mtu)))
    if hardware.congestion_control is not None:
        payload = 0
    # A credit is sent when its packet has left by some next link.
    wire_bytes = hardware.header_bytes + payload
    lasts = rounded(wire_bytes, float(network.rate_gbps.max(initial=1.0)))
    kinds = network.topology.kinds[cut]
    times = np.append(kinds["arrival_ps"], kinds["credit_latency_ps"] + lasts)
    return int(times.min(initial=records.NEVER // 4))


def mailboxes(cut: Partition, barrier: NDArray[np.int64], size: int = LETTERS) -> Mailboxes:
    """Return empty boxes for letters, of which each part has two of a size."""
    parts = cut.parts
    line = -(-(HEADS + parts) // 8) * 8
    told = aligned(2 * parts * line, np.int64).reshape(-1, line)
    told[:, HEADS:] = -1
    return Mailboxes(
        letters=aligned(2 * parts * size, records.PACKET), row_part=cut.row, told=told,
        barrier=barrier,
    )  # fmt: skip


def split(net: Net, cut: Partition, events: Callable[[], dict[str, Any]]) -> list[Net]:
    """Return the state of each part at time 0, for that of the whole fabric.

    `events`: returns an empty calendar and the credit returns of a part.
    """
    parts = cut.parts
    if parts == 1:
        return [net]
    crossing = cut.tail != cut.head
    net.topology.links["crosses"] = crossing
    touched = np.bincount(cut.tail[crossing], minlength=parts)
    touched += np.bincount(cut.head[crossing], minlength=parts)
    rules, size = net.rules, int(4 * touched.max() + 64)
    rules.parts, rules.lookahead_ps, rules.box_size = parts, cut.lookahead_ps, size
    mail = mailboxes(cut, net.mail.barrier, size)
    nets = []
    for part in range(parts):
        own = [aligned(len(array), array.dtype) for array, _ in _of_links(net, cut)]
        for mine, (array, at) in zip(own, _of_links(net, cut, part), strict=True):
            mine[at] = array[at]
        links, arbiters, lanes, asked, queues, port_free = own
        links[:] = net.topology.links  # packets know their output link before they arrive at it
        nets.append(net._replace(
            **events(), count=copied(net.count, part=part), mail=mail,
            topology=net.topology._replace(links=links), lanes=lanes, asked=asked,
            arbitration=net.arbitration._replace(arbiters=arbiters), queues=queues,
            port_free=port_free, due=np.zeros_like(net.due),
            best=aligned(len(net.best), net.best.dtype),
            loads=aligned(len(net.loads), net.loads.dtype),
            trace=net.trace._replace(
                front_ps=net.trace.front_ps.copy(), hops=net.trace.hops.copy()
            ),
        ))  # fmt: skip
    return nets


def _of_links(net: Net, cut: Partition, part: int = 0) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the arrays of links, each with which entries a part writes: at tails, then at heads.

    Each part has its own, as what two parts write at the ends of a cable would share cache lines.
    """
    rules, tail, head = net.rules, cut.tail == part, cut.head == part
    queues = rules.lanes * net.topology.links["queues"].astype(np.int64)
    return [
        (net.topology.links, tail), (net.arbitration.arbiters, tail),
        (net.lanes, np.repeat(tail, rules.lanes)),
        (net.asked, np.repeat(tail, rules.lanes * rules.words)),
        (net.queues, np.repeat(head, queues)), (net.port_free, np.repeat(head, rules.speedup)),
    ]  # fmt: skip


def gathered(nets: list[Net], cut: Partition) -> Net:
    """Return the state of the first part, into which the others have written what is of links."""
    for part, net in enumerate(nets[1:], 1):
        into = _of_links(nets[0], cut)
        for (own, at), (array, _) in zip(_of_links(net, cut, part), into, strict=True):
            array[at] = own[at]
    return nets[0]
