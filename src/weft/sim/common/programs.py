"""Programs of ranks as arrays for the levels with time, their queue pairs and their deadlocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.program import operations
from weft.kernels.program.state import COUNT, HEAP_SIZE, Heap, Program, Ranks, rules_dtype
from weft.kernels.records import copied, record
from weft.sim.common.host_parameters import NO_OVERHEAD, Overhead
from weft.sim.common.times import LONGEST_NS, PS_PER_NS, picoseconds
from weft.workload import Kind, Workload

#: How the data of a large message are moved once both sides are ready.
Rendezvous = Literal["get", "put", "put-shared"]
#: Queues of a rendezvous: that of requests and answers, and that of data.
_QUEUES: Mapping[Rendezvous, tuple[int, int]] = {"get": (0, 1), "put": (1, 0), "put-shared": (0, 0)}
#: Keys below this bound are numbered by means of a table of all possible keys.
_DENSE = 2**24
#: Number of ranks that the message about a deadlock names.
_NAMED = 4


def lay_ranks(
    workload: Workload,
    route: NDArray[np.int32],
    options: Mapping[str, Any],
    scheduled: bool = False,
) -> Ranks:
    """Return the kernels' state of the programs of ranks at time 0.

    `route` [ops]: route of each operation; `LOCAL` if the message stays within a machine.
    `options`: those of a run. Times are whole ps if the level has adapters, by its ``hardware``;
    otherwise ns. `scheduled`: whether requests of routing keys wait for the scheduler.
    """
    hardware = options.get("hardware")
    in_unit: Callable[[Any], NDArray[Any]] = np.asarray if hardware is None else picoseconds
    duration, latency = map(in_unit, host_times(workload, options["overhead"]))
    release = in_unit(workload.release_ns)
    rules = {
        "eager_bytes": options["eager_bytes"],
        "handshake": options["handshake"],
        **queues_of(options["rendezvous"]),
        "adapter_latency": 0 if hardware is None else in_unit(hardware.adapter_latency_ns),
        "local_latency": in_unit(options["local_latency_ns"]),
        "local_gbps": options["local_gbps"],
        "local_units_per_byte": 8.0 if hardware is None else 8.0 * PS_PER_NS,
        "local_whole": hardware is not None,
        "scheduled": scheduled,
    }
    ops, ranks = workload.num_ops, workload.num_ranks
    pending = np.subtract(
        workload.dep_offset[1:], workload.dep_offset[:-1], dtype=np.int32, casting="same_kind"
    )
    free = pending == 0
    later = free & (release > 0) if len(release) else np.zeros(ops, dtype=bool)
    begin = np.flatnonzero(free & ~later)
    # Queues and heaps are not read before they are written: they take memory as they fill.
    ready = np.empty(ops + 1, dtype=np.int32)
    ready[: len(begin)] = begin
    timeline = np.flatnonzero(later)
    if len(release):
        timeline = timeline[np.argsort(release[timeline], kind="stable")]
    processors = int(workload.cpu.max(initial=0)) + 1
    events = 2 * ops + ranks * processors + 16
    unit = duration.dtype
    copied = workload.messages[route[workload.messages] == operations.LOCAL]
    key = workload.rank[copied].astype(np.int64) * ranks + workload.peer[copied]
    pairs, pair_of_copy = numbered(key, ranks**2)
    copy_pair = np.zeros(ops if len(copied) else 0, dtype=np.int32)
    copy_pair[copied] = pair_of_copy
    offset, successor, on_start = workload.after
    return Ranks(
        program=Program(
            kind=workload.kind,
            rank=workload.rank,
            size_bytes=workload.size_bytes,
            match=workload.match,
            cpu=workload.cpu,
            duration=duration,
            release=release,
            latency=latency,
            successor_offset=offset,
            successor=successor,
            successor_on_start=on_start,
            route=route,
        ),
        rules=record(rules_dtype(unit), **rules),
        count=record(COUNT, ready_tail=len(begin)),
        heap=Heap(
            time=np.empty(events, dtype=unit),
            item=np.empty(events, dtype=np.int64),
            size=record(HEAP_SIZE),
        ),
        timeline_op=timeline.astype(np.int32),
        timeline_time=release[timeline].astype(unit),
        pending=pending,
        ready=ready,
        posted=np.full(ops, -1, dtype=unit),
        ended=np.full(ops, -1, dtype=unit),
        left=np.full(ops, -1, dtype=unit),
        arrived=np.full(ops, -1, dtype=unit),
        busy_until=np.zeros((ranks, processors), dtype=unit),
        first_waiting=np.zeros((ranks, processors), dtype=np.int32),
        left_below=np.zeros(ops, dtype=np.int32),
        right_below=np.zeros(ops, dtype=np.int32),
        sends=np.zeros(ops, dtype=np.uint8),
        joining=np.empty(ops + 1, dtype=np.int32),
        asked=np.zeros(np.count_nonzero(workload.kind >= Kind.KEY_REQUEST) + 1, dtype=np.int32),
        copy_pair=copy_pair,
        copied_until=np.zeros(len(pairs), dtype=unit),
    )


def host_times(
    workload: Workload, overhead: Sequence[Overhead]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the time that each operation takes of its processor, and its latency at the sender.

    Both are float64 [ops] ns; the latter is empty if it is 0. The former is the duration of a
    calculation, and the overhead of a send, put or receive by the size of its message.
    """
    if overhead == NO_OVERHEAD:
        return workload.duration_ns, np.zeros(0)
    kind = workload.kind
    ops = np.flatnonzero((kind == Kind.SEND) | (kind == Kind.PUT) | (kind == Kind.RECV))
    received = kind[ops] == Kind.RECV
    size = workload.size_bytes[np.where(received, workload.match[ops], ops)]
    takes = workload.duration_ns.copy()
    takes[ops], later = overhead_of(size, overhead)
    latency = np.zeros(workload.num_ops if any(part.latency_ns for part in overhead) else 0)
    if len(latency):
        latency[ops[~received]] = later[~received]
    return takes, latency


def overhead_of(
    size_bytes: NDArray[np.int64], overhead: Sequence[Overhead]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the overhead of messages by their sizes, and their latency at the sender, in ns."""
    parts = [(each.from_bytes, each.ns, each.ns_per_byte, each.latency_ns) for each in overhead]
    begin, ns, ns_per_byte, latency_ns = np.array(parts, dtype=np.float64).T
    part = np.searchsorted(begin, size_bytes, side="right") - 1
    takes = ns[part] + ns_per_byte[part] * size_bytes
    if takes.max(initial=0) > LONGEST_NS:
        raise InputError(f"the overhead of a message is {takes.max():.4g} ns; expected less")
    return takes, latency_ns[part]


class RankPairs(NamedTuple):
    """Operations that cross the network, and the ordered pair of ranks of each operation."""

    #: int32, ascending: indices of sends and puts between machines, and of receives that answer a
    #: request.
    ops: NDArray[np.int32]
    #: int32: host numbers of sender and receiver.
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    #: int64, ascending: the ordered pairs of ranks, as source rank x number of ranks + destination
    #: rank.
    key: NDArray[np.int64]
    #: int32: index of each operation's pair in `key`.
    pair: NDArray[np.int32]
    #: Whether some of the operations ask or answer.
    meets: bool

    def queues(self, rendezvous: Rendezvous) -> int:
        """Return the number of queues of each pair of ranks."""
        return 1 + max(_QUEUES[rendezvous]) if self.meets else 1


def queue_pairs(
    fabric: Fabric, workload: Workload, hosts: NDArray[np.int32], eager_bytes: int, handshake: bool
) -> RankPairs:
    """Return the queue pairs of a workload's messages, requests and answers between machines.

    `hosts` [ranks]: host of each rank. If `handshake` is true, sends of more than `eager_bytes` are
    answered by the receiver.
    """
    kind, rank, peer = workload.kind, workload.rank, workload.peer
    sends = (kind == Kind.SEND) | (kind == Kind.PUT)
    answered = (kind == Kind.SEND) & (workload.size_bytes > eager_bytes) & handshake
    sends[workload.match[answered]] = True
    ops = np.flatnonzero(sends).astype(np.int32)
    ops = ops[fabric.apart(hosts[rank[ops]], hosts[peer[ops]])]
    ranks = workload.num_ranks
    key, pair = numbered(rank[ops].astype(np.int64) * ranks + peer[ops], ranks**2)
    source, target = hosts[rank[ops]], hosts[peer[ops]]
    return RankPairs(ops, source, target, key, pair, meets=bool(answered[ops].any()))


def queues_of(rendezvous: Rendezvous) -> dict[str, int]:
    """Return the queues of a rendezvous by their names in the kernels' rules."""
    return dict(zip(("control_queue", "data_queue"), _QUEUES[rendezvous], strict=True))


def numbered(key: NDArray[np.int64], bound: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the distinct keys, int64 ascending, and the index of each key in them, int32.

    Keys are from 0 and below `bound`.
    """
    if bound > _DENSE:
        distinct, inverse = np.unique(key, return_inverse=True)
        return distinct, inverse.astype(np.int32)
    number = np.full(bound, -1, dtype=np.int32)
    number[key] = 0
    distinct = np.flatnonzero(number >= 0)
    number[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, number[key]


def deadlock_of_ranks(
    workload: Workload, posted: NDArray[Any], ended: NDArray[Any], now: str,
    place: NDArray[Any] | None = None,
) -> str:  # fmt: skip
    """Return text that names the waiting ranks of a deadlocked workload and their operations.

    `posted`, `ended`: times of all operations, below 0 for events that have not happened. `place`:
    number of each operation in the program of its rank, if `workload` is a window of a rolled one.
    """
    if place is None:
        place = np.arange(workload.num_ops) - workload.op_offset[workload.rank]
    waiting = np.flatnonzero((posted >= 0) & (ended < 0))
    ranks, first = np.unique(workload.rank[waiting], return_index=True)
    names = "; ".join(
        f"rank {workload.rank[op]} in {_wait(workload, int(op), place[op])}"
        for op in waiting[first][:_NAMED]
    )
    more = f"; and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
    return f"the workload deadlocks after {now}: {len(ranks)} ranks wait for ever: {names}{more}"


def _wait(workload: Workload, op: int, number: int) -> str:
    """Return text for a waiting operation and the reason."""
    reason = ""
    if workload.kind[op] == Kind.SEND:
        reason = " for its receive, which is not posted (the message is not eager)"
    elif workload.kind[op] == Kind.RECV:
        reason = " for its send, which has not begun"
    return f"operation {number}, {workload.what(op)}, waits{reason}"


def split_programs(
    ranks: Ranks, parts: int, of_rank: NDArray[np.int32], rank_of_op: NDArray[np.int32]
) -> list[Ranks]:
    """Return the programs of each part at time 0.

    `of_rank` [ranks], `rank_of_op` [ops]: part of each rank, and rank of each operation.
    """
    if parts == 1:
        return [ranks]
    of_op = of_rank.astype(np.min_scalar_type(parts))[rank_of_op]
    ops, of_parts = np.bincount(of_op, minlength=parts), np.bincount(of_rank, minlength=parts)
    begin, later = ranks.ready[: int(ranks.count.ready_tail)], ranks.timeline_op
    begins, laters = (
        np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of, minlength=parts))[:-1])
        for of in (of_op[begin], of_op[later])
    )
    return [
        _of_part(ranks, begin[begins[part]], laters[part], int(ops[part]), int(of_parts[part]))
        for part in range(parts)
    ]


def _of_part(
    ranks: Ranks, begin: NDArray[Any], later: NDArray[Any], ops: int, num_ranks: int
) -> Ranks:
    """Return the programs of a part with so many operations and ranks at time 0.

    `begin`: operations that begin. `later`: places in the timeline.
    """
    heap = ranks.heap
    ready = np.empty(ops + 1, dtype=ranks.ready.dtype)
    ready[: len(begin)] = begin
    # Of each operation, and of the message that it waits for, an event may be due.
    events = 3 * ops + num_ranks * ranks.busy_until.shape[1] + 16
    return ranks._replace(
        count=copied(ranks.count, ready_tail=len(begin)), ready=ready,
        asked=np.zeros_like(ranks.asked), joining=np.empty(ops + 1, dtype=ranks.joining.dtype),
        timeline_op=ranks.timeline_op[later], timeline_time=ranks.timeline_time[later],
        heap=heap._replace(
            time=np.empty(events, dtype=heap.time.dtype),
            item=np.empty(events, dtype=heap.item.dtype),
            size=copied(heap.size),
        ),
    )  # fmt: skip
