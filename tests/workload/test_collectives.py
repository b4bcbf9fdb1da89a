"""Collectives: the choice among algorithms, matching, specs and bad input."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.reference.collectives import run_collective

from weft.core.errors import InputError
from weft.workload import Kind, Workload, WorkloadBuilder
from weft.workload.collectives import (
    algorithms,
    collective_on,
    collective_workload,
    default_algorithm,
)


@pytest.mark.parametrize(
    ("name", "size", "n", "algorithm"),
    [
        ("barrier", 0, 7, "dissemination"),
        ("bcast", 12287, 64, "binomial"),
        ("bcast", 12288, 64, "scatter-doubling"),
        ("bcast", 12288, 65, "scatter-ring"),
        ("bcast", 12288, 7, "binomial"),
        ("bcast", 524287, 64, "scatter-doubling"),
        ("bcast", 524288, 64, "scatter-ring"),
        ("bcast", 524288, 4, "binomial"),
        ("reduce", 2048, 16, "binomial"),
        ("reduce", 2049, 16, "rabenseifner"),
        ("reduce", 2049, 4096, "binomial"),
        ("allreduce", 2048, 16, "recursive-doubling"),
        ("allreduce", 2049, 16, "rabenseifner"),
        ("allreduce", 4095, 4097, "recursive-doubling"),
        ("allreduce", 4096, 4097, "rabenseifner"),
        ("allgather", 8191, 64, "recursive-doubling"),
        ("allgather", 8192, 64, "ring"),
        ("allgather", 8191, 10, "bruck"),
        ("allgather", 8192, 10, "ring"),
        ("allgatherv", [81919, 0, 0], 3, "bruck"),
        ("allgatherv", [81919, 0, 1], 3, "ring"),
        ("reduce_scatter", 524287, 1, "recursive-halving"),
        ("reduce-scatter", 262144, 2, "pairwise"),
        ("reduce-scatter", [262144, 262143], 2, "recursive-halving"),
        ("alltoall", 256, 8, "bruck"),
        ("alltoall", 256, 7, "linear"),
        ("alltoall", 257, 8, "linear"),
        ("alltoall", 32768, 8, "linear"),
        ("alltoall", 32769, 8, "pairwise"),
        ("alltoall", 32769, 7, "pairwise"),
        ("alltoallv", 1, 8, "linear"),
        ("gather", 1, 8, "binomial"),
        ("gatherv", 1, 8, "linear"),
        ("scatter", 1, 8, "binomial"),
        ("scatterv", 1, 8, "linear"),
        ("scan", 1, 8, "recursive-doubling"),
        ("exscan", 1, 8, "recursive-doubling"),
    ],
)
def test_the_default_algorithm_is_that_of_mpich(
    name: str, size: object, n: int, algorithm: str
) -> None:
    assert default_algorithm(name, size, n) == algorithm
    if n < 100:
        chosen = collective_on(WorkloadBuilder(n), name, range(n), size)
        assert chosen == algorithm


def parts(workload: Workload) -> list[tuple[int, ...]]:
    """Return every message: source, destination, bytes, tag, communicator."""
    at = workload.messages
    columns = (workload.rank, workload.peer, workload.size_bytes, workload.tag, workload.comm)
    return [tuple(int(column[op]) for column in columns) for op in at]


def test_default_sizes_give_the_known_small_schedules() -> None:
    """The expected schedules are written by hand: source, destination and bytes."""
    bcast = collective_workload("bcast:size=100,root=1", 4)
    assert sorted(row[:3] for row in parts(bcast)) == [(1, 2, 100), (1, 3, 100), (3, 0, 100)]
    ring = collective_workload("allreduce:size=7,algorithm=ring", 3)
    sent = sorted(row[:3] for row in parts(ring))
    assert [row[:2] for row in sent] == [(0, 1)] * 4 + [(1, 2)] * 4 + [(2, 0)] * 4
    assert [row[2] for row in sent] == sorted([2, 2, 2, 3]) + sorted([3, 3, 2, 2]) + [2, 2, 2, 3]


def test_a_collective_matches_only_its_own_messages() -> None:
    builder = WorkloadBuilder(6)
    comm = builder.communicator(range(6))
    everyone = np.arange(6)
    pending = builder.irecv(everyone, (everyone - 1) % 6, 8)
    collective_on(builder, "allreduce", [0, 1, 2], 40)
    # Overlapping sets of ranks of one communicator, listed in any order.
    collective_on(builder, "alltoall", [2, 3, 4], 9)
    collective_on(builder, "alltoall", [3, 2, 5], 9)
    collective_on(builder, "bcast", everyone, 9, comm=comm)
    builder.isend(everyone, (everyone + 1) % 6, 8)
    builder.wait(everyone, pending)
    builder.waitall()
    workload = builder.build()
    rows = parts(workload)
    assert {tag for *_, tag, comm in rows if comm == 0} == {0, -1, -2, -3}
    assert {tag for *_, tag, at in rows if at == comm} == {-1}
    sends = workload.messages
    np.testing.assert_array_equal(workload.tag[sends], workload.tag[workload.match[sends]])
    np.testing.assert_array_equal(workload.comm[sends], workload.comm[workload.match[sends]])


def test_operations_begun_before_a_collective_continue_during_it() -> None:
    builder = WorkloadBuilder(4)
    open_receive = builder.irecv(0, 3, 10)
    collective_on(builder, "alltoall", range(4), 10, algorithm="linear")
    collective_on(builder, "gather", range(4), 10, algorithm="linear")
    after = builder.calc(0, 5.0)
    builder.send(3, 0, 10)
    builder.wait(0, open_receive)
    workload = builder.build()
    operation = int(np.flatnonzero(workload.duration_ns == 5.0)[0])
    assert after > open_receive
    before: set[int] = set()
    todo = [operation]
    while todo:
        op = todo.pop()
        dependencies = workload.dep[workload.dep_offset[op] : workload.dep_offset[op + 1]].tolist()
        todo += [dep for dep in dependencies if dep not in before]
        before |= set(dependencies)
    users = np.flatnonzero((workload.kind == Kind.RECV) & (workload.tag == 0))
    assert len(users) == 1
    assert not before & set(users.tolist())


def test_empty_blocks_of_uneven_collectives_are_not_sent() -> None:
    sizes = np.zeros((6, 6), dtype=int)
    sizes[0, 3] = sizes[4, 2] = sizes[3, 3] = 7
    workload, _, _ = run_collective("alltoallv", "linear", np.arange(6), sizes)
    assert [row[:3] for row in parts(workload)] == [(0, 3, 7), (4, 2, 7)]
    workload, _, _ = run_collective("alltoallv", "pairwise", np.arange(6), sizes)
    assert len(workload.messages) == 30
    for name in ("gatherv", "scatterv"):
        workload, _, _ = run_collective(name, "linear", np.arange(4), [5, 0, 6, 1], root=3)
        assert sorted(workload.size_bytes[workload.messages]) == [5, 6]


def test_zero_bytes_give_no_messages_and_a_note() -> None:
    workload = collective_workload("allreduce:size=0", 8)
    assert workload.num_ops == 0
    assert workload.notes == ("allreduce of 0 bytes sends nothing, as in MPICH",)
    assert len(collective_workload("barrier", 8).messages) == 24


def test_a_spec_sets_all_parameters() -> None:
    text = "allreduce:size=4KiB,algorithm=recursive-doubling,count=3,compute=2us,"
    workload = collective_workload(text + "reduce_ns_per_byte=0.25", 4)
    assert workload.name == text + "reduce_ns_per_byte=0.25"
    assert len(workload.messages) == 3 * 4 * 2
    assert set(workload.size_bytes[workload.messages]) == {4096}
    durations = workload.duration_ns[workload.kind == Kind.CALC]
    assert sorted(durations) == [1024.0] * 24 + [2000.0] * 12
    rooted = collective_workload("bcast:size=1MB,algorithm=chain,segment=250kB,root=2", 5)
    assert {row[0] for row in parts(rooted)} == {2, 3, 4, 0}
    assert set(rooted.size_bytes[rooted.messages]) == {250_000}


def test_spread_draws_sizes_from_a_seed() -> None:
    def sizes(spec: str) -> list[int]:
        workload = collective_workload("alltoallv:size=1000,algorithm=pairwise," + spec, 9)
        return [int(size) for size in workload.size_bytes[workload.messages]]

    assert set(sizes("spread=0")) == {1000}
    drawn = sizes("spread=0.3,seed=4")
    assert min(drawn) >= 700
    assert max(drawn) <= 1300
    assert len(set(drawn)) > 30
    assert drawn == sizes("spread=0.3,seed=4") != sizes("spread=0.3,seed=5")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("alreduce:size=1", "unknown collective 'alreduce' (did you mean 'allreduce'?)"),
        ("allreduce", "allreduce needs size, the bytes of the buffer"),
        ("allgather:count=2", "allgather needs size, the bytes of the block of one rank"),
        ("allreduce:size=1,algorithm=rng", "no algorithm 'rng' (did you mean 'ring'?)"),
        ("allreduce:size=-1", "allreduce:size=-1: size: '-1' does not fit"),
        ("allreduce:size=1,count=0", "count is 0; expected 1 or more"),
        ("allreduce:size=1,count=x", "count: 'x' does not fit"),
        ("allreduce:size=1,root=1", "allreduce has no root"),
        ("allreduce:size=1,segment=4", "'allreduce-recursive-doubling' has no option 'segment'"),
        ("allreduce:size=1,spread=0.5", "the blocks of allreduce have equal sizes"),
        ("alltoallv:size=1,spread=2", "spread is 2.0; expected 0 to 1"),
        ("alltoallv:size=1,spread=1,seed=-1", "seed must be at least 0, not -1"),
        ("bcast:size=1,root=4", "bcast: there is no root 4 among 4 ranks"),
        ("bcast:size=1,reduce_ns_per_byte=1", "bcast has no reduction"),
        ("reduce:size=1,reduce_ns_per_byte=-1", "combining a byte cannot take -1.0 ns"),
        ("barrier:size=8", "barrier has no data; its size must be 0"),
        ("allreduce-ring:size=8,algorithm=rabenseifner", "allreduce-ring names the algorithm"),
        ("bcast:size=8,library=mpi", "unknown library 'mpi' (did you mean 'mpich'?)"),
        ("bcast:size=8,library=mpich,algorithm=chain", "the library selects no algorithm where"),
        ("scan:size=8,library=openmpi-5", "weft does not have the rules of openmpi-5 for scan"),
        (
            "reduce-scatter:size=1,library=openmpi-5",
            "what openmpi-5 takes here, recursive_doubling",
        ),
        ("alltoall:size=8,algorithm=linear,throttle=-1", "throttle is -1; expected 0 or more"),
        ("alltoall:size=8PiB", "alltoall:size=8PiB: size: '8PiB' does not fit"),
        ("alltoall:size=8192TiB", "alltoall: 1.44e+17 bytes in all; expected at most 2^56"),
    ],
)
def test_a_wrong_spec_is_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        collective_workload(spec, 3 if spec.startswith("reduce-scatter") else 4)


@pytest.mark.parametrize(
    ("name", "members", "size", "options", "message"),
    [
        ("broadcast", [0, 1], 1, {}, "unknown collective 'broadcast' (did you mean 'bcast'?)"),
        ("bcast", [0, 1, 1], 1, {}, "a collective names rank 1 twice"),
        ("bcast", [[0, 1], [2, 0]], 1, {}, "a collective names rank 0 twice"),
        ("bcast", [0, 8], 1, {}, "a collective names rank 8; ranks are 0 to 7"),
        ("bcast", [0, -1], 1, {}, "a collective names rank -1"),
        ("bcast", [], 1, {}, "members of a collective must be a list of ranks"),
        ("bcast", [0.5, 1], 1, {}, "members of a collective must be ranks"),
        ("bcast", [0, 1], 1, {"root": 2}, "there is no root 2 among 2 ranks"),
        ("bcast", [0, 1], 1, {"root": "x"}, "there is no root x among 2 ranks"),
        ("bcast", [0, 1], 1, {"comm": 3}, "there is no communicator 3"),
        ("bcast", [0, 1], 1, {"algorithm": ""}, "bcast has no algorithm ''"),
        ("bcast", [0, 1], -5, {}, "bcast: a size of -5 bytes; expected 0 to 2^56"),
        ("bcast", [0, 1], 2**60, {}, "a size of 1152921504606846976 bytes"),
        ("bcast", [0, 1], 0.5, {}, "size 0.5 is not a whole number"),
        ("bcast", [0, 1], float("nan"), {}, "size nan is not a whole number"),
        ("bcast", [0, 1], [1, 2], {}, "sizes of shape (2,); expected one number"),
        ("gather", [0, 1], [1, 2], {}, "sizes of shape (2,); expected one number"),
        ("gatherv", [0, 1], [1, 2, 3], {}, "sizes of shape (3,); expected one number or an array"),
        ("alltoallv", [0, 1], [1, 2], {}, "an array of shape (2, 2)"),
        ("allgatherv", [0, 1], [2**56, 2**56], {}, "bytes in all; expected at most 2^56"),
    ],
)
def test_wrong_arguments_are_refused(
    name: str, members: list, size: object, options: dict, message: str
) -> None:
    builder = WorkloadBuilder(8)
    with pytest.raises(InputError, match=re.escape(message)):
        collective_on(builder, name, members, size, **options)


@pytest.mark.parametrize(
    ("spec", "ranks", "message"),
    [
        ("alltoall:size=64KiB", 100_000, "of 100000 ranks has 9,999,900,000 messages"),
        ("alltoallv:size=1", 100_000, "has 9,999,900,000 messages"),
        ("alltoallv:size=1,algorithm=pairwise", 100_000, "has 9,999,900,000 messages"),
        ("allreduce:size=1,algorithm=ring", 100_000, "has 19,999,800,000 messages"),
        ("reduce-scatter:size=1,algorithm=pairwise", 100_000, "has 9,999,900,000 messages"),
        ("bcast:size=1TiB,algorithm=chain,segment=1", 2, "has 1,099,511,627,776 messages"),
        ("barrier:count=1000000000", 8, "1,000,000,000 times 48 operations"),
    ],
)
def test_sizes_too_large_for_a_workload_are_refused_at_once(
    spec: str, ranks: int, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        collective_workload(spec, ranks)


def test_algorithms_lists_names() -> None:
    assert algorithms("allreduce") == [
        "rabenseifner", "recursive-doubling", "reduce-bcast", "ring", "two-level",
    ]  # fmt: skip
    with pytest.raises(InputError, match="unknown collective"):
        algorithms("allreduces")
    with pytest.raises(InputError, match="there cannot be 0 ranks"):
        default_algorithm("bcast", 1, 0)


@pytest.mark.parametrize("tag", [-1, np.array([-1]), -(2**31)])
def test_messages_cannot_have_the_tags_of_collectives(tag: int) -> None:
    def one(builder: WorkloadBuilder) -> None:
        builder.operations([0], Kind.SEND, peer=1, size_bytes=1, tag=tag)

    senders = (
        lambda builder: builder.send(0, 1, 1, tag),
        lambda builder: builder.sendrecv([0], [1], 1, [1], 1, tag),
        one,
    )
    for action in senders:
        after, before = WorkloadBuilder(2), WorkloadBuilder(2)
        collective_on(after, "barrier", [0, 1])
        with pytest.raises(InputError, match="tags below 0 are reserved for the collectives"):
            action(after)
        action(before)
        with pytest.raises(InputError, match="tags below 0, which are reserved for coll"):
            collective_on(before, "barrier", [0, 1])


def test_unmatched_operations_may_have_any_tag_beside_collectives() -> None:
    builder = WorkloadBuilder(2)
    builder.put(0, 1, 1, tag=-1)
    builder.key_request(0, -5, tag=-1)
    collective_on(builder, "barrier", [0, 1])
    builder.put(0, 1, 1, tag=-1)
    builder.operations([0, 0], [Kind.PUT, Kind.KEY_DONE], peer=1, size_bytes=0, tag=-1)
    assert len(builder.build().messages) == 5


def test_routing_keys_and_their_tags_have_32_bits() -> None:
    builder = WorkloadBuilder(1)
    for key, tag, wrong in [(2**31, 0, "routing key"), (0, -(2**31) - 1, "tag")]:
        with pytest.raises(InputError, match=f"{wrong} -?2147483"):
            builder.key_request(0, key, tag=tag)
        with pytest.raises(InputError, match=f"{wrong} -?2147483"):
            builder.operations([0], Kind.KEY_DONE, tag=key, size_bytes=tag)
    builder.operations([0], Kind.KEY_DONE, tag=3, size_bytes=-4)
    assert builder.build().what(0) == "return of routing key 3, tag -4"
