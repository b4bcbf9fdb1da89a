"""Adding many operations to a builder in one call."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.workload_runs import same

from weft.core.errors import InputError
from weft.workload import Kind, WorkloadBuilder


def test_one_call_equals_single_calls() -> None:
    single, many = WorkloadBuilder(3), WorkloadBuilder(3)
    first = single.calc(0, 5.0, cpu=2, after=[])
    single.send(0, 1, 7, tag=4, after=[first])
    single.recv(1, 0, 9, tag=4, after=[])
    last = single.calc(1, 1.5, after=[])
    single.requires(last, 2, start=True)
    ops = many.operations(
        [0, 0, 1, 1],
        [Kind.CALC, Kind.SEND, Kind.RECV, Kind.CALC],
        peer=[9, 1, 0, 9],
        size_bytes=[1, 7, 9, 1],
        tag=4,
        duration_ns=[5.0, 1.0, 1.0, 1.5],
        cpu=[2, 3, 3, 0],
    )
    many.requires(ops[[1, 3]], ops[[0, 2]], start=[False, True])
    assert same(single.build(), many.build())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": [0, 2]}, "there is no rank 2"),
        ({"kind": 9}, "kind 9; kinds are 0 to 5"),
        ({"comm": 1}, "no communicator 1"),
        ({"peer": [1, -1]}, "rank 1: peer -1; ranks are 0 to 1"),
        ({"size_bytes": [4, 2**56 + 1]}, "rank 1: size in bytes"),
        ({"tag": 2**31}, "tag 2147483648"),
        ({"kind": Kind.CALC, "duration_ns": [1, -1]}, "not possible"),
        ({"kind": Kind.CALC, "cpu": 256}, "processors are 0 to 255"),
    ],
)
def test_impossible_values_are_refused(options: dict[str, object], message: str) -> None:
    arguments = {"ranks": [0, 1], "kind": Kind.SEND, "peer": [1, 0], **options}
    with pytest.raises(InputError, match=message):
        WorkloadBuilder(2).operations(**arguments)


def test_a_dependency_on_an_unknown_handle_is_refused() -> None:
    builder = WorkloadBuilder(1)
    ops = builder.operations([0, 0], Kind.CALC)
    with pytest.raises(InputError, match="no operation has the handle 2"):
        builder.requires(ops, np.array([0, 2]))


def test_a_wait_for_the_end_replaces_one_for_the_start() -> None:
    builder = WorkloadBuilder(1)
    first, second = builder.operations([0, 0], Kind.CALC)
    builder.requires(second, first, start=True)
    builder.requires(second, first)
    workload = builder.build()
    assert len(workload.dep) == 1
    assert len(workload.dep_on_start) == 0


def waits(builder: WorkloadBuilder) -> list[list[int]]:
    workload = builder.build()
    offset, dep = workload.dep_offset.tolist(), workload.dep.tolist()
    return [dep[first:end] for first, end in pairwise(offset)]


@pytest.mark.parametrize("alone", [True, False])
def test_wait_treats_a_rank_like_a_list_of_ranks(alone: bool) -> None:
    builder = WorkloadBuilder(1)
    ranks: object = 0 if alone else [0]
    handles = [builder.isend(ranks, 0, 8) for _ in range(4)]
    for _ in range(4):
        builder.recv(0, 0, 8)
    # A wait for one handle is a dependency of the next operation; a wait for several handles is
    # an operation of its own.
    builder.wait(ranks, handles[1])
    builder.wait(ranks, -1 if alone else [-1])
    builder.calc(0, 1)
    builder.wait(ranks, np.array([handles[0], handles[2]]).reshape(2, 1))
    builder.waitall()
    builder.waitall()
    builder.calc(0, 2)
    dependencies = waits(builder)
    assert dependencies[8:] == [[1, 7], [0, 2, 8], [3, 9], [10]]


def test_ranks_wait_together_for_operations_begun_one_by_one() -> None:
    builder = WorkloadBuilder(2)
    one = [builder.isend(0, 1, 8), builder.isend(1, 0, 8)]
    both = builder.isend([0, 1], [1, 0], 8)
    builder.recv([0, 1], [1, 0], 8)
    builder.recv([0, 1], [1, 0], 8)
    builder.wait([0, 1], one)
    builder.wait(0, both[0])
    builder.waitall([1])
    builder.calc([0, 1], 1)
    builder.waitall()
    assert builder.num_ops == 12
    # Rank 0: sends 0 and 1, receives 2 and 3, operation 4 that waits for both sends, calculation 5.
    assert waits(builder)[4:6] == [[0, 1, 3], [4]]
    assert waits(builder)[10:] == [[6, 7, 9], [10]]


def test_operations_with_own_dependencies_are_outside_program_order() -> None:
    builder = WorkloadBuilder(1)
    builder.calc(0, 1)
    beside = builder.isend(0, 0, 8, after=[])
    builder.recv(0, 0, 8)
    builder.waitall()
    builder.calc(0, 2)
    builder.wait(0, beside)
    builder.calc(0, 3)
    assert waits(builder) == [[], [], [0], [2], [1, 3]]


def test_wait_refuses_unknown_handles_and_ranks() -> None:
    builder = WorkloadBuilder(1)
    with pytest.raises(InputError, match="no operation has the handle 0"):
        builder.wait(0, 0)
    with pytest.raises(InputError, match="there is no rank 1"):
        builder.wait(1, -1)


def test_later_changes_of_the_callers_arrays_have_no_effect() -> None:
    builder = WorkloadBuilder(3)
    durations = np.array([1.0, 2.0, 3.0])
    builder.calc(np.arange(3), durations)
    durations[:] = 9.0
    assert builder.build().duration_ns.tolist() == [1.0, 2.0, 3.0]
