"""Run a workload message by message and track the data, to check what a collective computes.

The module uses no helpers of the builder: it reads the flat arrays of a `Workload` and a
`BlockRecord`. The value of a block is the multiset of the ranks that contributed to it. A message
carries the state of its sender after exactly those receives on which the send depends, directly or
indirectly.
A send and its receive end together (synchronous sends), so a workload that completes here cannot
deadlock, whatever the threshold of eager messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from weft.workload import Kind, Multicast, Workload, WorkloadBuilder
from weft.workload.collectives import COLLECTIVES, BlockRecord, Sizes, collective_on

State = dict[int, Counter]


@dataclass
class Run:
    """Final state and cost of a run.

    Parameters
    ----------
    state
        State of each rank.
    combined_bytes
        Received bytes that each rank combined with a block it already had.
    ends
        End of each operation, with the given durations of messages and calculations.
    """

    state: list[State]
    combined_bytes: NDArray[np.int64]
    ends: NDArray[np.float64]


def follow(
    workload: Workload,
    trace: BlockRecord,
    start: Callable[[int], State],
    size: Callable[[int, int], int],
    *,
    message: Callable[[int], float] = lambda size: 1.0,
    calculation: Callable[[float], float] = lambda duration: 0.0,
) -> Run:
    """Run a workload and return the final states.

    Parameters
    ----------
    start
        Initial state of a rank.
    size
        Function of a rank and of a block that it sends or combines; returns the bytes of the block.
    message, calculation
        Functions that return the duration of a message from its size, and the duration of a
        calculation in the run from its duration in the workload.
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
    # Index of each send among the sends of its rank, and of each receive among the receives.
    index: dict[int, int] = {}
    bit: dict[int, int] = {}
    for rank in range(ranks):
        ops = range(workload.op_offset[rank], workload.op_offset[rank + 1])
        for operation in (Kind.SEND, Kind.RECV):
            operations = [op for op in ops if kind[op] == operation]
            recorded = trace.sent_blocks if operation == Kind.SEND else trace.taken
            assert len(recorded.get(rank, [])) == len(operations)
            index.update({op: at for at, op in enumerate(operations)})
        bit.update({op: 1 << index[op] for op in ops if kind[op] == Kind.RECV})

    payload: dict[int, dict[int, Counter]] = {}  # by receive operation
    combined = np.zeros(ranks, dtype=np.int64)
    receive_of: list[dict[int, int]] = [{} for _ in range(ranks)]
    for op in bit:
        receive_of[workload.rank[op]][index[op]] = op
    known: list[dict[int, State]] = [{0: start(rank)} for rank in range(ranks)]

    def take(rank: int, state: State, receive: int, count: bool) -> State:
        """Return a copy of a state with a receive applied."""
        add, also = trace.taken[rank][index[receive]]
        new = dict(state)
        received = payload[receive]
        targets = list(received.items())
        if also:
            (value,) = received.values()
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
        """Return the state of a rank after the receives `seen`, applied in program order."""
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
    tests = {op: group for group in tests_of(workload) for op in [*group, *match[group].tolist()]}
    done = 0

    def follows(finished: list[int]) -> int:
        """Let the followers of operations that have ended go on; return the number of these."""
        for end in finished:
            for follower in after[end]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    ready.append(follower)
        return len(finished)

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
            if op in tests:
                finished = [*tests[op], *match[tests[op]].tolist()]
                if not posted.issuperset(finished):
                    continue
                receives = finished[len(tests[op]) :]
                has = {op: state_of(int(workload.rank[op]), seen[op])[0] for op in receives}
                for receive in receives:
                    others = [has[other] for other in receives if other != receive]
                    payload[receive] = {0: sum(others, Counter())}
                duration = message(0)
                for end in finished:
                    ends[end] = max(starts[each] for each in finished) + duration
                done += follows(finished)
                continue
            if other not in posted:
                continue
            send, receive = (op, other) if kind[op] == Kind.SEND else (other, op)
            sender = int(workload.rank[send])
            has = state_of(sender, seen[send])
            blocks = trace.sent_blocks[sender][index[send]]
            assert len(set(blocks)) == len(blocks)
            for block in blocks:
                assert block in has, f"{workload.describe(send)} holds {block}: not there yet"
            total = sum(size(sender, block) for block in blocks)
            assert workload.size_bytes[send] == total, workload.describe(send)
            assert workload.size_bytes[receive] == total, workload.describe(receive)
            payload[receive] = {block: has[block] for block in blocks}
            duration = message(total)
            ends[send] = ends[receive] = max(starts[send], starts[receive]) + duration
            finished = [send, receive]
        done += follows(finished)
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


def tests_of(workload: Workload) -> list[list[int]]:
    """Return the sends of each multicast that is a test, for which all its ranks wait."""
    groups: list[list[int]] = []
    for op in np.flatnonzero(workload.multicast).tolist():
        if workload.multicast[op] == Multicast.FURTHER:
            groups[-1].append(op)
        else:
            groups.append([op])
    return [group for group in groups if workload.multicast[group[0]] == Multicast.TEST]


def begins(name: str, n: int, root: int, parts: int, index: int) -> State:
    """Return the state of a rank before a collective."""
    own = Counter([index])
    if name in ("bcast", "scatter", "scatterv"):
        count = parts if name == "bcast" else n
        return dict.fromkeys(range(count), own) if index == root else {}
    if name == "barrier":
        return {0: own}
    if name in ("reduce", "allreduce"):
        return dict.fromkeys(range(parts), own)
    if name == "reduce-scatter":
        return dict.fromkeys(range(n), own)
    if name == "scan":
        return {0: own, 1: own}
    if name == "exscan":
        return {0: own}
    if name in ("alltoall", "alltoallv"):
        return {index * n + other: own for other in range(n)}
    assert name in ("allgather", "allgatherv", "gather", "gatherv")
    return {index: own}


def result(name: str, n: int, root: int, parts: int, index: int, sizes) -> State:
    """Return the state of a rank after a collective as MPI defines it, without empty blocks."""
    everyone = Counter(range(n))
    if name == "bcast":
        return {block: Counter([root]) for block in range(parts)}
    if name in ("reduce", "allreduce"):
        has = name == "allreduce" or index == root
        return dict.fromkeys(range(parts), everyone) if has else {}
    if name in ("scan", "exscan"):
        upto = range(index + (name == "scan"))
        return {1: Counter(upto)} if upto else {}
    if name in ("allgather", "allgatherv", "gather", "gatherv"):
        has = name.startswith("all") or index == root
        return {block: Counter([block]) for block in range(n) if sizes[block] and has}
    if name in ("scatter", "scatterv"):
        return {index: Counter([root])} if sizes[index] else {}
    if name == "reduce-scatter":
        return {index: everyone}
    if name in ("alltoall", "alltoallv"):
        return {i * n + index: Counter([i]) for i in range(n) if sizes[i, index]}
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
) -> tuple[Workload, BlockRecord, Run]:
    """Build one collective, run it, and compare the ranks' states with MPI's definition.

    `members` is [n] or [groups, n]; `options` may include `message` and `calculation` of `follow`.
    """
    costs = {key: options.pop(key) for key in ("message", "calculation") if key in options}
    groups = np.atleast_2d(members)
    n = groups.shape[1]
    builder = WorkloadBuilder(num_ranks or int(groups.max()) + 1, name=f"{name} {algorithm}")
    trace = BlockRecord()
    # Every operation of the collective must depend on the calculation before the collective and
    # precede the calculation after it.
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
    index_of = {int(rank): index for row in groups for index, rank in enumerate(row)}
    if n > 1 and kind.sizes is Sizes.BUFFER:
        assert trace.cuts.sum() == sizes
    parts = len(trace.cuts)

    def start(rank: int) -> State:
        return begins(name, n, root, parts, index_of[rank]) if rank in index_of else {}

    def size(_: int, block: int) -> int:
        if kind.sizes is Sizes.NONE:
            return 0
        if kind.sizes is Sizes.BUFFER:
            return int(sizes if name.endswith("scan") else trace.cuts[block])
        return int(sizes[block] if kind.sizes is Sizes.BLOCK else sizes[divmod(block, n)])

    run = follow(workload, trace, start, size, **costs)
    group_of = {int(rank): row for row in groups for rank in row}
    for rank, index in index_of.items():
        state = run.state[rank]
        for block, value in result(name, n, root, parts, index, sizes).items():
            assert state.get(block) == value, f"index {index}, block {block}"
        if name == "barrier":
            assert set(state[0]) == set(range(n))
        if name == "exscan" and index == 0:
            assert 1 not in state
        operations = slice(*workload.op_offset[rank : rank + 2])
        computes = workload.duration_ns[operations].sum()
        assert computes == pytest.approx(run.combined_bytes[rank] * reduce_ns_per_byte)
        peers = workload.peer[operations]
        assert np.isin(peers[peers >= 0], group_of[rank]).all()
    outside = np.setdiff1d(np.arange(workload.num_ranks), groups)
    assert not np.diff(workload.op_offset)[outside].any()
    # A hardware barrier tests the rank that sends, too.
    own = (workload.peer == workload.rank) & (workload.kind == Kind.SEND)
    assert own.sum() == len(tests_of(workload))
    return workload, trace, run
