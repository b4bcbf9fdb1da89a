"""Building workloads: program order, dependencies, matching, and errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from tests.workload_runs import same

from weft.core.errors import InputError, NotApplicable
from weft.core.registry import Registry, convert
from weft.core.units import Bytes, Nanoseconds
from weft.workload import Kind, Workload, WorkloadBuilder, load_workload
from weft.workload.apps import application
from weft.workload.collectives import collective
from weft.workload.load import _kind_of


def waits_for(workload: Workload, op: int) -> list[int]:
    """Return the operations on which an operation depends."""
    run = slice(workload.dep_offset[op], workload.dep_offset[op + 1])
    return workload.dep[run].tolist()


def test_operations_are_grouped_by_rank_in_program_order() -> None:
    builder = WorkloadBuilder(3)
    builder.calc([2, 0], [5.0, 7.0])
    builder.send(0, 2, 10, tag=4)
    builder.recv(2, 0, 10, tag=4)
    work = builder.build()
    assert work.op_offset.tolist() == [0, 2, 2, 4]
    assert work.kind.tolist() == [Kind.CALC, Kind.SEND, Kind.CALC, Kind.RECV]
    assert work.duration_ns.tolist() == [7, 0, 5, 0]
    assert work.rank.tolist() == [0, 0, 2, 2]
    assert work.match.tolist() == [-1, 3, -1, 1]
    assert waits_for(work, 1) == [0]
    assert waits_for(work, 0) == []


def test_blocking_operations_are_waited_for_and_others_are_not() -> None:
    builder = WorkloadBuilder(2)
    first = builder.isend(0, 1, 1)
    builder.isend(0, 1, 2)
    builder.calc(0, 1.0)
    builder.wait(0, first)
    builder.calc(0, 2.0)
    builder.waitall([0])
    for _ in range(2):
        builder.recv(1, 0, 2)
    work = builder.build()
    assert waits_for(work, 2) == []
    # The second calculation depends on the first and on the send that is waited for.
    assert waits_for(work, 3) == [0, 2]
    # The waitall depends on the only open operation, the second send, and on the calculation.
    assert waits_for(work, 4) == [1, 3]


def test_sendrecv_waits_for_both_sides_and_skips_null_processes() -> None:
    builder = WorkloadBuilder(3)
    ranks = np.arange(3)
    builder.sendrecv(ranks, [1, 2, -1], 8, [-1, 0, 1], 8)
    builder.calc(ranks, 1.0)
    work = builder.build()
    assert work.kind.tolist() == [1, 0, 2, 1, 0, 2, 0]
    assert waits_for(work, 4) == [2, 3]
    assert waits_for(work, 3) == []
    assert waits_for(work, 6) == [5]


def test_messages_match_in_posting_order_by_tag_and_communicator() -> None:
    builder = WorkloadBuilder(2)
    other = builder.communicator([0, 1], "other")
    sizes = {}
    for size, tag, comm in ((1, 0, 0), (2, 7, 0), (3, 0, 0), (4, 0, other)):
        sizes[builder.isend(0, 1, size, tag, comm)] = size
    for tag, comm in ((0, other), (7, 0), (0, 0), (0, 0)):
        builder.irecv(1, 0, 100, tag, comm)
    work = builder.build()
    received = [int(work.size_bytes[work.match[op]]) for op in range(4, 8)]
    assert received == [4, 2, 1, 3]


def test_messages_match_where_keys_need_more_than_64_bits() -> None:
    # A tag of 2^18, multiplied by the square of 2^23 (the number of ranks), is 2^64.
    builder = WorkloadBuilder(2**23)
    tags = np.arange(2**18 + 1)
    for rank, kind, order in ((0, Kind.SEND, tags), (1, Kind.RECV, tags[::-1])):
        builder.operations(
            np.full(len(tags), rank), kind, peer=1 - rank, size_bytes=order + 1, tag=order
        )
    work = builder.build()
    assert np.array_equal(work.tag[work.match], work.tag)


def test_scalar_and_vector_calls_make_the_same_workload() -> None:
    one, many = WorkloadBuilder(4), WorkloadBuilder(4)
    for rank in range(4):
        one.calc(rank, 10.0 * rank)
        one.sendrecv(rank, (rank + 1) % 4, 5, (rank - 1) % 4, 5)
    ranks = np.arange(4)
    many.calc(ranks, 10.0 * ranks)
    many.sendrecv(ranks, (ranks + 1) % 4, 5, (ranks - 1) % 4, 5)
    assert same(one.build(), many.build())


def test_phases_are_kept_with_the_operations() -> None:
    builder = WorkloadBuilder(1)
    for name in ("one", "two", "one"):
        builder.phase(name)
        builder.calc(0, 1.0)
    work = builder.build()
    assert [work.phase_names[at] for at in work.phase] == ["one", "two", "one"]


def _cycle(builder: WorkloadBuilder) -> None:
    first = builder.calc(0, 1.0, after=[])
    second = builder.calc(0, 2.0, after=[first])
    builder.requires(first, second)


def _across(builder: WorkloadBuilder) -> None:
    first = builder.calc(0, 1.0)
    builder.calc(1, 1.0, after=[first])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda b: b.rank(0).calc(1).send(1, 100, tag=3),
            r"operation 1 of rank 0 \(send to rank 1, tag 3\) has no matching receive",
        ),
        (
            lambda b: b.rank(2).recv(1, 1).recv(0, 2),
            r"operation 0 of rank 2 \(receive from rank 1, tag 0\) has no matching send; "
            "further unmatched operations: 1",
        ),
        (
            lambda b: (b.rank(0).send(1, 10, comm=b.communicator([0, 1])), b.rank(1).recv(0, 10)),
            r"operation 0 of rank 0 \(send to rank 1, tag 0, communicator 1\) has no matching",
        ),
        (
            lambda b: (b.rank(0).send(1, 100), b.rank(1).recv(0, 50)),
            r"operation 0 of rank 0 .* sends 100 bytes, but .* rank 1 .* takes at most 50",
        ),
        (_cycle, "wait for each other in a cycle: operation . of rank 0 .*2 ns.* waits for"),
        (_across, r"operation 0 of rank 1 .* waits for operation 0 of rank 0 .*, of another rank"),
        (lambda b: b.send(0, 4, 1), "rank 0: peer 4; ranks are 0 to 3"),
        (lambda b: b.send(7, 1, 1), "no rank 7"),
        (lambda b: b.send([0, 1], [1, 0], [5, -1]), "rank 1: size in bytes -1"),
        (lambda b: b.send(0, 1, 2**57), "rank 0: size in bytes"),
        (lambda b: b.send(0, 1, 1.5), "1.5 is not a whole number"),
        (lambda b: b.send(0, 1, 1, tag=2**40), "tag"),
        (lambda b: b.send(0, 1, 1, comm=3), "no communicator 3"),
        (lambda b: b.calc([1, 1], 1.0), "a rank is listed twice"),
        (lambda b: b.calc(0, float("nan")), "duration of nan"),
        (lambda b: b.calc(0, -1.0), "duration of -1"),
        (lambda b: b.wait([0, 1], [0]), "handles of shape"),
        (lambda b: b.wait(0, [5]), "no operation has the handle 5"),
        (lambda b: b.put(0, 1, 1, release_ns=-3.0), "release time -3"),
    ],
)
def test_errors_name_the_operation_or_the_value(
    write: Callable[[WorkloadBuilder], object], message: str
) -> None:
    builder = WorkloadBuilder(4)
    with pytest.raises(InputError, match=message):  # noqa: PT012 - either step may refuse
        write(builder)
        builder.build()


def test_a_workload_without_ranks_is_refused() -> None:
    with pytest.raises(InputError, match="cannot have 0 ranks"):
        WorkloadBuilder(0)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64KiB", 65536), ("1MB", 10**6), ("4k", 4096), ("1.5 KiB", 1536), (7, 7), ("12", 12)],
)
def test_sizes_with_units(text: str | int, size: int) -> None:
    assert convert(text, Bytes, "size") == size


@pytest.mark.parametrize("text", ["-1", "1.5", "1zb", "", "..", "1e30", True, 2**60])
def test_bad_sizes_are_refused(text: str | int) -> None:
    with pytest.raises(InputError, match=r"^size: "):
        convert(text, Bytes, "size")


def test_durations_with_units() -> None:
    assert [convert(text, Nanoseconds, "t") for text in ("10us", "2s", 5, "1.5ms")] == [
        1e4, 2e9, 5, 1.5e6,
    ]  # fmt: skip
    for text in ("-1ns", "3 fortnights", float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"^t: "):
            convert(text, Nanoseconds, "t")


def test_workloads_are_loaded_by_name() -> None:
    assert load_workload("stencil", 8).num_ranks == 8
    assert len(load_workload("allreduce:size=1KiB,algorithm=ring", 4).messages) == 24
    assert len(load_workload("shift", 4).messages) == 4
    with pytest.raises(InputError, match=r"neither a file nor a workload.*did you mean"):
        load_workload("alltoal:size=3", 4)
    with pytest.raises(InputError, match="hpcg needs a number of ranks"):
        load_workload("hpcg")
    with pytest.raises(NotApplicable, match="not 1"):
        load_workload("hpcg", 1)
    with pytest.raises(InputError, match="rounds must be written in the spec"):
        load_workload("shift", 4, rounds=3)


def test_a_collective_imports_no_application() -> None:
    program = (
        "import sys, weft; print(weft.load_workload('alltoall:size=1', 4).num_ranks); "
        "print('weft.workload.apps.stencil' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["4", "False"]


def test_an_application_of_a_plug_in_comes_before_a_collective(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does so whatever was asked before: no name depends on what is loaded already."""
    ours = Registry.__contains__

    def contains(registry: Registry, name: object) -> bool:
        return name == "alltoall" if registry is application else ours(registry, name)

    monkeypatch.setattr(Registry, "has_plugins", lambda registry: registry is application)
    monkeypatch.setattr(Registry, "__contains__", contains)
    assert _kind_of("alltoall:size=8") is application
    assert _kind_of("bcast:size=8") is collective
