"""Runs a workload message by message and follows the data, to see what a collective does.

Independent of the builder's helpers: it reads the flat arrays of a `Workload` and a `Trace`. The
value of a block is a multiset of the ranks that contributed to it. A message holds what its sender
has by then: the effects of those receives that the send waits for, however indirectly, and of no
others. A send and its receive end together (synchronous sends), so what runs here cannot deadlock
whatever the threshold of eager messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from weft.workload import Kind, Workload, WorkloadBuilder
from weft.workload.collectives import COLLECTIVES, Sizes, Trace, collective_on

State = dict[int, Counter]


@dataclass
class Run:
    """What ranks have in the end, and what it took.

    Parameters
    ----------
    state
        Of each rank.
    combined_bytes
        Of each rank: bytes that came and were combined with some that were there.
    ends
        Of each operation: the end when messages and calculations take what they were said to.
    """

    state: list[State]
    combined_bytes: NDArray[np.int64]
    ends: NDArray[np.float64]


def follow(
    workload: Workload,
    trace: Trace,
    start: Callable[[int], State],
    size: Callable[[int, int], int],
    *,
    message: Callable[[int], float] = lambda size: 1.0,
    calculation: Callable[[float], float] = lambda duration: 0.0,
) -> Run:
    """Run it.

    Parameters
    ----------
    start
        What a rank has in the beginning.
    size
        Bytes of a block, given a rank that has to do with it and the block.
    message, calculation
        How long a message of a size, or a calculation of a duration, takes.
    """
    ranks = workload.num_ranks
    kind, match = workload.kind, workload.match
    assert len(workload.dep_on_start) == 0
    before = [
        workload.dep[workload.dep_offset[op] : workload.dep_offset[op + 1]].tolist()
        for op in range(workload.num_ops)
    ]
    after: list[list[int]] = [[] for _ in before]
    for op, deps in enumerate(before):
        for dep in deps:
            after[dep].append(op)
    # The n-th send and the n-th receive of a rank, in program order.
    place: dict[int, int] = {}
    bit: dict[int, int] = {}
    for rank in range(ranks):
        ops = range(workload.op_offset[rank], workload.op_offset[rank + 1])
        for wanted in (Kind.SEND, Kind.RECV):
            mine = [op for op in ops if kind[op] == wanted]
            notes = trace.carried if wanted == Kind.SEND else trace.taken
            assert len(notes.get(rank, [])) == len(mine)
            place.update({op: at for at, op in enumerate(mine)})
        bit.update({op: 1 << place[op] for op in ops if kind[op] == Kind.RECV})

    payload: dict[int, dict[int, Counter]] = {}  # of each receive
    combined = np.zeros(ranks, dtype=np.int64)
    receive_of: list[dict[int, int]] = [{} for _ in range(ranks)]
    for op in bit:
        receive_of[workload.rank[op]][place[op]] = op
    known: list[dict[int, State]] = [{0: start(rank)} for rank in range(ranks)]

    def take(rank: int, state: State, receive: int, count: bool) -> State:
        """A state after a receive."""
        add, also = trace.taken[rank][place[receive]]
        new = dict(state)
        came = payload[receive]
        targets = list(came.items())
        if also:
            (value,) = came.values()
            targets += [(block, value) for block in also]
        for block, value in targets:
            if add and block in new:
                new[block] = new[block] + value
                if count:
                    combined[rank] += size(rank, block)
            else:
                new[block] = value
        return new

    def state_of(rank: int, seen: int) -> State:
        """What a rank has after these receives, taken in program order."""
        if seen not in known[rank]:
            last = 1 << (seen.bit_length() - 1)
            earlier = state_of(rank, seen ^ last)
            receive = receive_of[rank][seen.bit_length() - 1]
            known[rank][seen] = take(rank, earlier, receive, count=False)
        return known[rank][seen]

    seen = [0] * workload.num_ops
    starts = np.zeros(workload.num_ops)
    ends = np.full(workload.num_ops, -1.0)
    waiting = [len(deps) for deps in before]
    ready = [op for op, count in enumerate(waiting) if count == 0]
    posted: set[int] = set()
    done = 0
    while ready:
        op = ready.pop()
        for dep in before[op]:
            seen[op] |= seen[dep] | bit.get(dep, 0)
            starts[op] = max(starts[op], ends[dep])
        if kind[op] == Kind.CALC:
            ends[op] = starts[op] + calculation(float(workload.duration_ns[op]))
            finished = [op]
        else:
            other = int(match[op])
            posted.add(op)
            if other not in posted:
                continue
            send, receive = (op, other) if kind[op] == Kind.SEND else (other, op)
            sender = int(workload.rank[send])
            has = state_of(sender, seen[send])
            blocks = trace.carried[sender][place[send]]
            assert len(set(blocks)) == len(blocks)
            for block in blocks:
                assert block in has, f"{workload.describe(send)} holds {block}: not there yet"
            total = sum(size(sender, block) for block in blocks)
            assert workload.size_bytes[send] == total, workload.describe(send)
            assert workload.size_bytes[receive] == total, workload.describe(receive)
            payload[receive] = {block: has[block] for block in blocks}
            took = message(total)
            ends[send] = ends[receive] = max(starts[send], starts[receive]) + took
            finished = [send, receive]
        for end in finished:
            done += 1
            for follower in after[end]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    ready.append(follower)
    assert done == workload.num_ops, "deadlock with synchronous sends"
    final = []
    for rank in range(ranks):
        state = start(rank)
        last = workload.op_offset[rank + 1] - 1
        for at in range(len(receive_of[rank])):
            assert seen[last] >> at & 1, f"rank {rank} goes on before its receive {at} is over"
            state = take(rank, state, receive_of[rank][at], count=True)
        final.append(state)
    return Run(final, combined, ends)


def begins(name: str, n: int, root: int, parts: int, place: int) -> State:
    """What a rank has before a collective."""
    mine = Counter([place])
    if name in ("bcast", "scatter", "scatterv"):
        count = parts if name == "bcast" else n
        return dict.fromkeys(range(count), mine) if place == root else {}
    if name == "barrier":
        return {0: mine}
    if name in ("reduce", "allreduce"):
        return dict.fromkeys(range(parts), mine)
    if name == "reduce-scatter":
        return dict.fromkeys(range(n), mine)
    if name == "scan":
        return {0: mine, 1: mine}
    if name == "exscan":
        return {0: mine}
    if name in ("alltoall", "alltoallv"):
        return {place * n + other: mine for other in range(n)}
    assert name in ("allgather", "allgatherv", "gather", "gatherv")
    return {place: mine}


def result(name: str, n: int, root: int, parts: int, place: int, sizes) -> State:
    """What MPI says that a rank has after it, empty blocks left out."""
    everyone = Counter(range(n))
    if name == "bcast":
        return {block: Counter([root]) for block in range(parts)}
    if name in ("reduce", "allreduce"):
        has = name == "allreduce" or place == root
        return dict.fromkeys(range(parts), everyone) if has else {}
    if name in ("scan", "exscan"):
        upto = range(place + (name == "scan"))
        return {1: Counter(upto)} if upto else {}
    if name in ("allgather", "allgatherv", "gather", "gatherv"):
        has = name.startswith("all") or place == root
        return {block: Counter([block]) for block in range(n) if sizes[block] and has}
    if name in ("scatter", "scatterv"):
        return {place: Counter([root])} if sizes[place] else {}
    if name == "reduce-scatter":
        return {place: everyone}
    if name in ("alltoall", "alltoallv"):
        return {i * n + place: Counter([i]) for i in range(n) if sizes[i, place]}
    assert name == "barrier"
    return {}


def run_collective(
    name: str,
    algorithm: str | None,
    members: NDArray[np.int64],
    size_bytes,
    *,
    root: int = 0,
    num_ranks: int | None = None,
    reduce_ns_per_byte: float = 0.0,
    **options,
) -> tuple[Workload, Trace, Run]:
    """Write one collective, run it, and hold what ranks have against what MPI says.

    `members` is [n] or [groups, n]; options of `follow` are given by name, too.
    """
    costs = {key: options.pop(key) for key in ("message", "calculation") if key in options}
    groups = np.atleast_2d(members)
    n = groups.shape[1]
    builder = WorkloadBuilder(num_ranks or int(groups.max()) + 1, name=f"{name} {algorithm}")
    trace = Trace()
    # A calculation before and one after, which all that lies between must keep apart.
    builder.calc(groups.ravel(), 0.0)
    collective_on(
        builder, name, members, size_bytes, algorithm=algorithm, root=root,
        reduce_ns_per_byte=reduce_ns_per_byte, trace=trace, **options,
    )  # fmt: skip
    builder.calc(groups.ravel(), 0.0)
    workload = builder.build()
    assert (np.diff(workload.dep_offset) == 0).sum() == groups.size
    assert (np.bincount(workload.dep, minlength=workload.num_ops) == 0).sum() == groups.size
    kind = COLLECTIVES[name]
    shape = {Sizes.BLOCK: (n,), Sizes.PAIR: (n, n)}.get(kind.sizes, ())
    sizes = np.broadcast_to(size_bytes, shape)
    if kind.sizes is not Sizes.NONE and not sizes.any():
        assert workload.num_ops == 2 * groups.size
        return workload, trace, Run([{}] * n, np.zeros(n), np.zeros(0))
    place_of = {int(rank): place for row in groups for place, rank in enumerate(row)}
    if n > 1 and kind.sizes is Sizes.BUFFER:
        assert trace.cuts.sum() == sizes
    parts = len(trace.cuts)

    def start(rank: int) -> State:
        return begins(name, n, root, parts, place_of[rank]) if rank in place_of else {}

    def size(_: int, block: int) -> int:
        if kind.sizes is Sizes.NONE:
            return 0
        if kind.sizes is Sizes.BUFFER:
            return int(sizes if name.endswith("scan") else trace.cuts[block])
        return int(sizes[block] if kind.sizes is Sizes.BLOCK else sizes[divmod(block, n)])

    run = follow(workload, trace, start, size, **costs)
    group_of = {int(rank): row for row in groups for rank in row}
    for rank, place in place_of.items():
        state = run.state[rank]
        for block, value in result(name, n, root, parts, place, sizes).items():
            assert state.get(block) == value, f"place {place}, block {block}"
        if name == "barrier":
            assert set(state[0]) == set(range(n))
        if name == "exscan" and place == 0:
            assert 1 not in state
        mine = slice(*workload.op_offset[rank : rank + 2])
        computes = workload.duration_ns[mine].sum()
        assert computes == pytest.approx(run.combined_bytes[rank] * reduce_ns_per_byte)
        peers = workload.peer[mine]
        assert np.isin(peers[peers >= 0], group_of[rank]).all()
    outside = np.setdiff1d(np.arange(workload.num_ranks), groups)
    assert not np.diff(workload.op_offset)[outside].any()
    assert not (workload.peer == workload.rank).any()
    return workload, trace, run
