"""Several jobs in one workload: their combination, placement and errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload_runs import same

from weft.core.errors import InputError, NotApplicable
from weft.fabrics.load import fabric as load
from weft.workload import Kind, Workload, WorkloadBuilder
from weft.workload.jobs import Job, combine

TREE = load("xgft:2;4,4;1,4")


def ring(ranks: int, name: str = "ring", size: int = 64) -> Workload:
    """Return a workload in which each rank calculates, then sends to the next rank."""
    builder = WorkloadBuilder(ranks, name=name)
    every = np.arange(ranks)
    builder.calc(every, 10.0)
    builder.phase("turn")
    builder.sendrecv(every, (every + 1) % ranks, size, (every - 1) % ranks, size)
    builder.calc(every, 5.0)
    return builder.build()


Program = list[tuple[int, int, int, int, int]]


def programs(ranks: int) -> st.SearchStrategy[Program]:
    """Return a strategy that draws lists of steps (kind, rank, peer, tag, communicator)."""
    rank = st.integers(0, ranks - 1)
    return st.lists(
        st.tuples(st.integers(0, 3), rank, rank, st.integers(0, 2), st.integers(0, 1)), max_size=12
    )


def write(builder: WorkloadBuilder, steps: Program, first: int, comms: list[int]) -> None:
    for kind, rank, peer, tag, comm in steps:
        me, other = rank + first, peer + first
        if kind == 0:
            builder.calc(me, float(tag), cpu=comm)
        elif kind == 1:
            builder.put(me, other, 10 * tag, release_ns=float(tag))
        elif kind == 2:
            builder.key_request(me, tag, comms[comm])
        else:
            builder.isend(me, other, 8, tag, comms[comm])
            builder.irecv(other, me, 9, tag, comms[comm])
            if tag == 1:
                builder.waitall([me])
    builder.phase(f"last of {first}")
    builder.calc(first, 1.0)


@settings(max_examples=60)
@given(one=programs(3), two=programs(4), start=st.sampled_from([0.0, 250.0]))
def test_combined_jobs_equal_the_workload_of_one_builder(
    one: Program, two: Program, start: float
) -> None:
    parts = []
    for ranks, steps in ((3, one), (4, two)):
        builder = WorkloadBuilder(ranks)
        write(builder, steps, 0, [0, builder.communicator([0], "c")])
        parts.append(builder.build())
    mix = combine([Job(parts[0], "a"), Job(parts[1], "b", start_ns=start)], TREE)

    builder = WorkloadBuilder(7)
    for first, steps in ((0, one), (3, two)):
        comms = [builder.communicator([first]), builder.communicator([first])]
        write(builder, steps, first, comms)
    expected_workload = builder.build()
    if not start:
        assert same(mix.workload, expected_workload)
        return
    # The job's start is the release time of operations without dependencies. Other release times
    # are that much later.
    for op in range(expected_workload.num_ops):
        late = expected_workload.rank[op] >= 3
        before = expected_workload.release_ns[op] if len(expected_workload.release_ns) else 0.0
        alone = expected_workload.dep_offset[op] == expected_workload.dep_offset[op + 1]
        expected = before + start if late and (alone or before) else before
        assert mix.workload.release_ns[op] == expected


def test_each_job_has_ranks_phases_and_communicators_of_its_own() -> None:
    mix = combine([Job(ring(3), "a"), Job(ring(5), "b")], TREE)
    assert mix.job.tolist() == [0] * 3 + [1] * 5
    assert mix.rank_in_job.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert mix.first_rank.tolist() == [0, 3, 8]
    assert mix.workload.phase_names == ("a", "a: turn", "b", "b: turn")
    assert mix.first_phase.tolist() == [0, 2, 4]
    assert mix.workload.comm_names == ("all jobs", "a: world", "b: world")
    messages = mix.workload.messages
    assert (mix.job[mix.workload.rank[messages]] == mix.job[mix.workload.peer[messages]]).all()
    assert set(mix.workload.comm[messages].tolist()) == {1, 2}
    sends = np.flatnonzero(mix.workload.kind == Kind.SEND)
    assert (mix.workload.match[mix.workload.match[sends]] == sends).all()
    assert "a of 3 ranks, b of 5 ranks" in repr(mix)


def test_the_workload_of_a_single_job_is_unchanged() -> None:
    part = ring(4)
    mix = combine([Job(part, "a", "random:seed=3")], TREE)
    assert mix.workload is part
    late = combine([Job(part, "a", start_ns=7)], TREE).workload
    first = np.diff(part.dep_offset) == 0
    assert late.release_ns.tolist() == np.where(first, 7.0, 0.0).tolist()
    assert first.sum() == 4


def test_jobs_are_placed_in_order_on_the_free_hosts() -> None:
    jobs = [
        Job(ring(4), "a"),
        Job(ring(3), "b", "hosts:h[6-8]"),
        Job(ring(4), "c", "cyclic"),
        Job(ring(3), "d", hosts="h[0-15]"),
    ]
    hosts = combine(jobs, TREE).hosts.tolist()
    assert hosts[:7] == [0, 1, 2, 3, 6, 7, 8]
    assert hosts[7:11] == [4, 9, 12, 5]
    assert hosts[11:] == [10, 11, 13]


@settings(max_examples=20)
@given(sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3), seed=st.integers(0, 9))
def test_randomly_placed_jobs_do_not_share_hosts(sizes: list[int], seed: int) -> None:
    jobs = [
        Job(ring(size), str(number), f"random:seed={seed}") for number, size in enumerate(sizes)
    ]
    hosts = combine(jobs, TREE).hosts
    assert len(set(hosts.tolist())) == sum(sizes)


def test_shared_hosts_are_allowed_when_asked_for() -> None:
    jobs = [Job(ring(4), "a"), Job(ring(4), "b", [3, 4, 3, 4])]
    with pytest.raises(InputError, match=r"job b: rank 0 is on host h3, where job a runs; .*share"):
        combine(jobs, TREE)
    assert combine(jobs, TREE, overlap="share").hosts.tolist() == [0, 1, 2, 3, 3, 4, 3, 4]
    alike = combine([Job(ring(4), "a"), Job(ring(4), "b")], TREE, overlap="share")
    assert alike.hosts.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def bad_jobs() -> Iterator[tuple[list[Job], str]]:
    four = ring(4)
    yield [], "there is no job"
    yield [Job(four, "a"), Job(four, "a")], "two jobs are called 'a'"
    yield [Job(four, "a: b")], "'a: b' is not a job name"
    yield [Job(four, "")], "'' is not a job name"
    yield [Job(four, "a", start_ns=-1.0)], r"job a: a start at -1\.0 ns"
    yield [Job(four, "a", start_ns=float("nan"))], "job a: a start at nan ns"
    yield [Job(four, "a", start_ns=float("inf"))], "job a: a start at inf ns"
    yield [Job(four, "a"), Job(four, "b", "liner")], "job b: unknown placement 'liner'"
    yield [Job(four, "a"), Job(four, "b", "hosts:h[4-5]")], r"job b: placement hosts: 4 ranks"
    yield (
        [Job(ring(9), "a"), Job(ring(9), "b", "random")],
        r"job b: placement random: 9 ranks do not fit on the 7 hosts of xgft:2;4,4;1,4 without "
        r"other jobs \(9 have ranks of a\), one rank each: 7 fit",
    )
    yield (
        [Job(four, "a"), Job(four, "b", hosts="h[2-5]")],
        r"job b: .* the 2 hosts that it may use without other jobs \(2 have ranks of a\).*: 2 fit",
    )


@pytest.mark.parametrize(("jobs", "message"), list(bad_jobs()))
def test_bad_jobs_are_refused(jobs, message) -> None:
    with pytest.raises(InputError, match=message):
        combine(jobs, TREE)


def test_an_unknown_overlap_and_an_unsuitable_placement_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown overlap 'shared' \(did you mean 'share'\?\)"):
        combine([Job(ring(4))], TREE, overlap="shared")  # type: ignore[arg-type]
    jellyfish = load("jellyfish:switches=8,degree=3,hosts=3")
    with pytest.raises(NotApplicable, match=r"job a: placement coordinates: .* has no coordinates"):
        combine([Job(ring(4), "a", "coordinates")], jellyfish)
