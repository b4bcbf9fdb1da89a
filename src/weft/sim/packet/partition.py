"""Parts of a fabric that threads simulate side by side, and the state of each part."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
from weft.kernels.packet.mail import LINE
from weft.kernels.packet.net import Mailboxes, Net
from weft.kernels.program.operations import LOCAL
from weft.kernels.program.state import Ranks
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.network import PacketNetwork, aligned
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
    """Which part each row, link and rank belongs to.

    Parameters
    ----------
    row
        int32 [rows]: part of each row.
    tail, head
        int32 [links]: part that sends on each link, and part that its packets reach.
    rank
        int32 [ranks]: part of each rank.
    lookahead_ps
        Shortest time in which a part can change what happens in another.
    why
        Reason for which there are not as many parts as wanted; empty if there are.
    """

    row: NDArray[np.int32]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    rank: NDArray[np.int32]
    lookahead_ps: int
    why: str = ""

    @property
    def parts(self) -> int:
        """Number of parts."""
        return int(self.row.max(initial=0)) + 1


def cut_for(
    fabric: Fabric,
    network: PacketNetwork,
    connections: Connections,
    workload: Workload,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
    one: str,
) -> Partition:
    """Return the parts for the threads of a run, by default as many as pay.

    By default there are as many threads as processors that this process may use, if the workload
    has `_LEAST_PACKETS`, but no more than leave each thread `_LEAST_HOPS` packet-hops between two
    meetings when all hosts send at their full rate. A worker process, beside which others work,
    uses one thread.

    Parameters
    ----------
    fabric, network, connections, workload, hosts, options
        As for `partition`; `options["threads"]` is the number of threads, or None.
    one
        Reason for which there can be one part only, if there is one.

    Raises
    ------
    InputError
        If several threads are asked for and only one part can be made.
    """
    wanted = options["threads"]
    threads = cores() if multiprocessing.parent_process() is None else 1
    given = fabric, network, connections, workload, hosts, options
    if wanted is not None:
        cut = partition(*given, wanted, one)
        if cut.parts < min(wanted, 2):
            raise InputError(f"threads {wanted}: this run needs 1 thread, because {cut.why}")
        return cut
    hardware: Hardware = options["hardware"]
    sizes = workload.size_bytes[workload.messages]
    packets = int(np.maximum(-(-sizes // hardware.mtu_bytes), 1).sum())
    if threads == 1 or packets < _LEAST_PACKETS:
        return partition(*given, 1)
    cut = partition(*given, threads, one)
    if cut.parts == 1:
        return cut
    wire = np.minimum(sizes, hardware.mtu_bytes).mean() + hardware.header_bytes
    lasts = 8000.0 * wire / float(np.median(network.rate_gbps))
    hops = len(np.unique(hosts)) * _HOPS * cut.lookahead_ps / lasts
    fit = int(hops / _LEAST_HOPS)
    if fit >= cut.parts:
        return cut
    return partition(*given, max(fit, 1), f"windows of {cut.lookahead_ps / 1000:g} ns are short"
                     if fit <= 1 else "")  # fmt: skip


def partition(
    fabric: Fabric,
    network: PacketNetwork,
    connections: Connections,
    workload: Workload,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
    threads: int,
    one: str = "",
) -> Partition:
    """Cut a fabric into parts that exchange packets and credits only, and those after some time.

    Hosts are in the part of the row that they are attached to. Rows with hosts are cut in their
    order, so that neighbours stay together; the others follow most of their neighbours, as far as
    the numbers of links of the parts allow.

    Parameters
    ----------
    fabric, network, connections, workload, hosts, options
        As in `weft.sim.packet.engine.run_packets`.
    threads
        Number of parts wanted.
    one
        Reason for which there can be one part only, if there is one.
    """
    links, num_rows = network.topology.links, len(network.topology.rows)
    tail, head = (links[name].astype(np.int64) for name in ("tail_row", "head_row"))
    if threads == 1 or one or not num_rows:
        return _uncut(num_rows, len(links), workload.num_ranks, one)
    host_row, ties = _rows_of_hosts(fabric, tail, head, num_rows)
    acting = _acting_at_once(workload, connections, options)
    ends = [host_row[hosts[each[acting]]] for each in (workload.rank, workload.peer)]
    block = _blocks(num_rows + 1, np.concatenate([ties, np.stack(ends, axis=1)]))
    weight = np.bincount(np.concatenate([tail, head])[np.concatenate([tail, head]) >= 0],
                         minlength=num_rows + 1)  # fmt: skip
    between = (tail >= 0) & (head >= 0)
    graph = coo_array(
        (np.ones(between.sum()), (block[tail[between]], block[head[between]])),
        shape=(block.max() + 1,) * 2,
    ).tocsr()
    own = np.zeros(block.max() + 1, dtype=bool)
    own[block[host_row]] = True
    count = min(threads, int(own.sum()))
    part = _assigned(graph, np.bincount(block, weights=weight), own, count)
    row = part[block].astype(np.int32)
    rank = row[host_row[hosts]]
    row = row[:num_rows]
    of_tail, of_head = (row[np.where(mine >= 0, mine, np.maximum(other, 0))]
                        for mine, other in ((tail, head), (head, tail)))  # fmt: skip
    cut = links["kind"][of_tail != of_head]
    lookahead = _lookahead(network, workload, connections, options, np.unique(cut))
    if lookahead <= 0:
        return _uncut(num_rows, len(links), workload.num_ranks,
            "packets and credits take no time between switches: "
            "set a switch latency and a credit latency, or lengths of cables")  # fmt: skip
    why = ""
    if count < threads:
        why = f"the fabric has {count} group{'s' * (count != 1)} of hosts that messages do not tie"
        if count == 1 and not options["handshake"] and len(acting):
            why = (
                "a rendezvous without handshake acts on both its ranks at once: leave the "
                "handshake on"
            )
    return Partition(row, of_tail, of_head, rank, lookahead, why)


def _uncut(rows: int, links: int, ranks: int, why: str) -> Partition:
    nothing = np.zeros(max(rows, links, ranks, 1), dtype=np.int32)
    return Partition(nothing[:rows], nothing[:links], nothing[:links], nothing[:ranks], 0, why)


def _rows_of_hosts(
    fabric: Fabric, tail: NDArray[Any], head: NDArray[Any], num_rows: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a row of each host, `num_rows` for hosts without one, and pairs of rows of a host."""
    graph, first = fabric.graph, fabric.num_switches
    row = np.full(fabric.num_nodes, num_rows, dtype=np.int64)
    out = np.flatnonzero(tail[: fabric.num_links] < 0)
    out = out[head[out] >= 0]
    row[fabric.link_from[out]] = head[out]
    ties = np.stack([row[fabric.link_from[out]], head[out]], axis=1)
    forwards = graph.node_row >= 0
    row[forwards] = graph.node_row[forwards]
    return row[first : first + fabric.num_hosts], ties


def _acting_at_once(
    workload: Workload, connections: Connections, options: Mapping[str, Any]
) -> NDArray[Any]:
    """Return the messages whose two ranks see what the other does at the same time."""
    ops = workload.messages
    at_once = connections.route[ops] == LOCAL
    if not options["handshake"]:
        at_once |= (workload.kind[ops] == Kind.SEND) & (
            workload.size_bytes[ops] > options["eager_bytes"]
        )
    return np.asarray(ops[at_once])


def _blocks(count: int, ties: NDArray[Any]) -> NDArray[Any]:
    """Return the number of the block of each row: rows that are tied are in one."""
    pairs = coo_array((np.ones(len(ties)), (ties[:, 0], ties[:, 1])), shape=(count, count))
    return np.asarray(connected_components(pairs, directed=False)[1])


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


def _lookahead(
    network: PacketNetwork,
    workload: Workload,
    connections: Connections,
    options: Mapping[str, Any],
    cut: NDArray[Any],
) -> int:
    """Return the shortest time in which a packet, or a credit, crosses links of these kinds."""
    hardware: Hardware = options["hardware"]
    ops = workload.messages
    ops = ops[connections.route[ops] != LOCAL]
    sizes = workload.size_bytes[ops]
    large = (workload.kind[ops] == Kind.SEND) & (sizes > options["eager_bytes"])
    if options["handshake"] and large.any():
        sizes = np.append(sizes, hardware.control_bytes)
    last = np.where(sizes > 0, (sizes - 1) % hardware.mtu_bytes + 1, 0)
    payload = 0 if hardware.congestion_control is not None else int(last.min(initial=2**40))
    wire = hardware.header_bytes + min(payload, hardware.mtu_bytes)
    kinds = network.topology.kinds[cut]
    # A credit is sent when its packet has left by some next link.
    lasts = rounded(wire, float(network.rate_gbps.max(initial=1.0)))
    times = np.append(kinds["arrival_ps"], kinds["credit_latency_ps"] + lasts)
    return int(times.min(initial=records.NEVER // 4))


def no_mail(rows: int, barrier: NDArray[np.int64]) -> Mailboxes:
    """Return the mail of a fabric of one part."""
    return Mailboxes(
        letters=aligned(LETTERS, records.PACKET), first=np.full(2, -1, dtype=np.int32),
        row_part=np.zeros(rows, dtype=np.int32), told=np.zeros(2 * LINE, dtype=np.int64),
        barrier=barrier,
    )  # fmt: skip


def split(
    net: Net,
    ranks: Ranks,
    cut: Partition,
    rank_of_op: NDArray[np.int32],
    events: Callable[[], dict[str, Any]],
) -> tuple[list[Net], list[Ranks]]:
    """Return the state of each part at time 0, for that of the whole fabric.

    `rank_of_op` [ops]: rank of each operation. `events`: returns an empty calendar and the credit
    returns of a part.
    """
    parts = cut.parts
    if parts == 1:
        return [net], [ranks]
    crossing = cut.tail != cut.head
    net.topology.links["crosses"] = crossing
    touched = np.bincount(cut.tail[crossing], minlength=parts)
    touched += np.bincount(cut.head[crossing], minlength=parts)
    rules, size = net.rules, int(4 * touched.max() + 64)
    rules.parts, rules.lookahead_ps, rules.box_size = parts, cut.lookahead_ps, size
    mail = Mailboxes(
        letters=aligned(2 * parts * size, records.PACKET),
        first=np.full(2 * parts * parts, -1, dtype=np.int32),
        row_part=cut.row, told=np.zeros(2 * parts * LINE, dtype=np.int64),
        barrier=net.mail.barrier,
    )  # fmt: skip
    of_op = cut.rank[rank_of_op]
    nets, programs = [], []
    for part in range(parts):
        count = net.count.copy()
        count["part"] = part
        nets.append(net._replace(
            **events(), count=count, mail=mail,
            due=np.zeros_like(net.due), best=np.zeros_like(net.best),
            loads=np.zeros_like(net.loads),
            trace=net.trace._replace(
                front_ps=net.trace.front_ps.copy(), hops=net.trace.hops.copy()
            ),
        ))  # fmt: skip
        programs.append(_of_part(ranks, of_op == part, int((cut.rank == part).sum())))
    return nets, programs


def _of_part(ranks: Ranks, mine: NDArray[np.bool_], num_ranks: int) -> Ranks:
    """Return the programs of the ranks of a part, whose operations are marked, at time 0."""
    ops, heap, counts = int(mine.sum()), ranks.heap, ranks.count.copy()
    begin = ranks.ready[: int(counts["ready_tail"])]
    begin = begin[mine[begin]]
    counts["ready_tail"] = len(begin)
    ready = np.zeros(ops + 1, dtype=ranks.ready.dtype)
    ready[: len(begin)] = begin
    # Of each operation, and of the message that it waits for, an event may be due.
    events = 3 * ops + num_ranks * ranks.busy_until.shape[1] + 16
    later = mine[ranks.timeline_op]
    return ranks._replace(
        count=counts, ready=ready, joining=np.zeros(ops + 1, dtype=ranks.joining.dtype),
        timeline_op=ranks.timeline_op[later], timeline_time=ranks.timeline_time[later],
        heap=heap._replace(
            time=np.zeros(events, dtype=heap.time.dtype),
            item=np.zeros(events, dtype=heap.item.dtype),
            size=heap.size.copy(),
        ),
    )  # fmt: skip
