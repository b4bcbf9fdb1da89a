"""Reading SMPI's time-independent traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.workload_runs import same

from weft.core.errors import InputError
from weft.workload import Kind, Workload, WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.formats import read_workload
from weft.workload.formats.tit import TYPE_BYTES
from weft.workload.formats.tit import read as read_tit


def trace(*programs: str, **options: object) -> Workload:
    """Read a trace of several ranks in one file; ';' separates the actions of a program."""
    lines = [
        f"{rank} {action.strip()}"
        for rank, program in enumerate(programs)
        for action in program.split(";")
    ]
    return read_tit("\n".join(lines), "x.tit", **options)


def program(workload: Workload, rank: int) -> list[tuple[object, ...]]:
    """Return the operations of a rank: kind, peer, size and tag, or the time of a calculation."""
    ops = range(workload.op_offset[rank], workload.op_offset[rank + 1])
    return [
        ("calc", float(workload.duration_ns[op]))
        if workload.kind[op] == Kind.CALC
        else (
            Kind(int(workload.kind[op])).name.lower(),
            int(workload.peer[op]),
            int(workload.size_bytes[op]),
            int(workload.tag[op]),
        )
        for op in ops
    ]


def waits(workload: Workload, op: int) -> list[int]:
    return workload.dep[workload.dep_offset[op] : workload.dep_offset[op + 1]].tolist()


# -- messages and computations ---------------------------------------------------------------------


def test_messages_and_computations() -> None:
    workload = trace(
        "init; compute 5000; send 1 7 100; recv 1 8 10 1; sleep 2e-6; finalize",
        "init 1; recv 0 7 100; send 0 8 5; finalize",
        flops_per_s=2e9,
    )
    # init without an argument counts bytes, with one it counts doubles; datatype 1 is int.
    assert program(workload, 0) == [
        ("calc", 2500.0),
        ("send", 1, 100, 7),
        ("recv", 1, 40, 8),
        ("calc", 2000.0),
    ]
    assert program(workload, 1) == [("recv", 0, 800, 7), ("send", 0, 40, 8)]
    assert [waits(workload, op) for op in range(6)] == [[], [0], [1], [2], [], [4]]
    assert workload.name == "x"
    assert workload.notes == ("ranks compute at 2e+09 flop/s in 1 computations",)


def test_waits_are_for_the_operations_that_match() -> None:
    workload = trace(
        "init; irecv 1 3 8; isend 1 4 8; irecv 1 3 8; wait 1 0 3; compute 1; wait 0 1 4; "
        "compute 2; waitall; compute 3",
        "init; isend 0 3 8; isend 0 3 8; recv 0 4 8; waitAll 2",
    )
    assert [entry[0] for entry in program(workload, 0)] == [
        "recv", "send", "recv", "calc", "calc", "calc"
    ]  # fmt: skip
    assert waits(workload, 3) == [0]
    assert waits(workload, 4) == [1, 3]
    assert waits(workload, 5) == [2, 4]
    # waitall waits for both isends and the receive before them.
    assert waits(workload, 9) == [6, 7, 8]


def test_open_operations_are_waited_for_at_the_end() -> None:
    workload = trace("init; isend 1 3 8; isend 1 3 8", "init; recv 0 3 8; irecv 0 3 8; finalize")
    assert waits(workload, 2) == [0, 1]
    assert waits(workload, 4) == [3]
    assert workload.num_ops == 5


def test_traces_without_tags() -> None:
    lines = (
        "init; isend 1 100; irecv 1 7 1; wait; compute 1; wait; test; compute 2",
        "init; send 0 7 1; irecv 0 100; waitall",
    )
    workload = trace(*lines)
    assert program(workload, 0)[:2] == [("send", 1, 100, 0), ("recv", 1, 28, 0)]
    assert waits(workload, 2) == [1]
    assert waits(workload, 3) == [0, 2]
    assert workload.notes[-1] == "messages have no tags in the trace; all get tag 0"
    # A wait is for the open message begun last, whether there is one partner or several.
    last = trace(
        "init; isend 1 100; isend 2 100; isend 1 100; wait; compute 1; wait; compute 2",
        "init; recv 0 100; recv 0 100",
        "init; recv 0 100",
    )
    assert [waits(last, op) for op in (3, 4)] == [[2], [1, 3]]
    # Three arguments are a partner, a tag and a count, unless specified or inferred otherwise.
    three = ("init; send 1 7 1", "init; recv 0 7 1")
    assert program(trace(*three), 0) == [("send", 1, 1, 7)]
    assert program(trace(*three, tags=False), 0) == [("send", 1, 28, 0)]
    bare = ("init; isend 1 7 1; wait", "init; recv 0 7 1")
    assert program(trace(*bare), 0) == [("send", 1, 28, 0)]


def test_a_second_wait_for_a_message_is_ignored() -> None:
    workload = trace(
        "init; isend 1 3 8; wait 0 1 3; wait 0 1 3; test 0 1 3",
        "init; irecv 0 3 8; waitall; wait 0 1 3",
    )
    assert workload.num_ops == 2
    assert workload.notes == (
        "1 test actions do not wait",
        "2 waits for messages that were already waited for are ignored",
    )


def test_a_receive_without_a_size_takes_the_size_of_the_send() -> None:
    workload = trace(
        "init; send 1 3 77; send 1 3 0; send 1 3 5", "init; recv 0 3 0; recv 0 3 -1; recv 0 3 9"
    )
    assert [entry[2] for entry in program(workload, 1)] == [77, 0, 9]


def test_sendrecv_numbers_ranks_from_0_or_processes_from_1() -> None:
    ranks = trace("init; sendrecv 8 1 8 -666 1 2", "init; sendRecv 8 -666 32 0")
    assert program(ranks, 0) == [("send", 1, 32, 0)]
    assert program(ranks, 1) == [("recv", 0, 32, 0)]
    ring = [f"init; sendRecv 8 {(r + 1) % 3} 8 {(r - 1) % 3} 6 6" for r in range(3)]
    processes = [f"init; sendRecv 8 {(r + 1) % 3 + 1} 8 {(r - 1) % 3 + 1} 6 6" for r in range(3)]
    assert same(trace(*ring), trace(*processes))
    assert trace(*ring).notes == ()
    assert "numbered from 1" in trace(*processes).notes[0]
    # A size or datatype is not a partner, even if it is 0.
    for more in ("sendRecv 0 {} 0 {} 0 0", "sendRecv 8 {} 8 {} 0 0"):
        processes = [f"init; {more.format((r + 1) % 3 + 1, (r - 1) % 3 + 1)}" for r in range(3)]
        assert "numbered from 1" in trace(*processes).notes[0]


def test_all_datatypes_have_a_size() -> None:
    # UB and LB, 51 and 52, have no size.
    assert sorted(TYPE_BYTES) == [number for number in range(56) if number not in (51, 52)]
    assert [TYPE_BYTES[number] for number in range(7)] == [8, 4, 1, 2, 8, 4, 1]


# -- collectives -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "name", "sizes", "root"),
    [
        (["barrier"] * 3, "barrier", 0, 0),
        (["bcast 5"] * 3, "bcast", 40, 0),
        (["bcast 5 2 1"] * 3, "bcast", 20, 2),
        (["reduce 5 0 1 1"] * 3, "reduce", 20, 1),
        (["allReduce 5e3 0"] * 3, "allreduce", 40_000, 0),
        (["scan 5 1"] * 3, "scan", 20, 0),
        (["exscan -1 0 5 1"] * 3, "exscan", 20, 0),
        (["alltoall 5 6 1 1"] * 3, "alltoall", 20, 0),
        (["allgather 5 5"] * 3, "allgather", 40, 0),
        (["gather 5 5 2 1 1"] * 3, "gather", 20, 2),
        (["gather 5 0 1 1", "gather 5 5 1 1 1", "gather 5 0 1 1"], "gather", 20, 1),
        (["scatter 5 5 1", "scatter 6 6 1", "scatter 0 6 1"], None, None, None),
        (["scatter 0 6 1", "scatter 6 6 1", "scatter 1 7 1"], "scatter", 48, 1),
        (
            ["gatherV 1 1 2 24 32 5 0 6 6", "gatherV 2 0 6 6", "gatherV 3 0", "gatherV 4",
             "gatherV 5 0 6"],
            "gatherv", [1, 2, 24, 32, 5], 0,
        ),
        (["gatherV 1 1 2 3", "gatherV 2 0 0 0", "gatherV 3 0 0 0"], "gatherv", [8, 16, 24], 0),
        (["scatterv 1 2 3 1 2 6 6", "scatterv 1 2 3 2 2 6 6", "scatterv 1 2 3 3 2 6 6"],
         "scatterv", [1, 2, 3], 2),
        (
            ["scatterv 1 1 6 6", "scatterv 1 2 3 4 5 2 1 6 6", "scatterv 9 1", "scatterv 9 1 6 6",
             "scatterv 0 0 0 0 0 9 1 6 6"],
            "scatterv", [1, 2, 3, 4, 5], 1,
        ),
        (["allgatherv 1 1 2 3 6", "allgatherv 2 1 2 3 6 6", "allgatherv 3 1 2 3 6 6"],
         "allgatherv", [1, 2, 3], 0),
        (["allgatherv 1 1 2 3 6", "allgatherv 2 1 1 3 6", "allgatherv 3 1 2 3 6 6"],
         None, None, None),
        (["allgatherv 1 8 16 24 6 6", "allgatherv 2 8 16 24 6 0 1 3", "allgatherv 3 1 2 3 0 1 3"],
         "allgatherv", [1, 2, 24], 0),
        (["reducescatter 1 2 3 0 6"] * 3, "reduce-scatter", [1, 2, 3], 0),
        (
            ["alltoallv 6 1 2 3 6 1 4 7 6 6", "alltoallv 15 4 5 6 9 2 5 8 6 6",
             "alltoallv 24 7 8 9 99 3 6 9 6 6"],
            "alltoallv", [[1, 2, 3], [4, 5, 6], [7, 8, 9]], 0,
        ),
    ],
)  # fmt: skip
def test_collectives(actions: list[str], name: str | None, sizes: object, root: int | None) -> None:
    programs = [f"init 1; {action}" for action in actions]
    if name is None:
        with pytest.raises(InputError, match=r"receives \d+ bytes from rank"):
            trace(*programs)
        return
    builder = WorkloadBuilder(len(actions))
    collective_on(builder, name, np.arange(len(actions)), np.array(sizes), root=root or 0)
    assert same(trace(*programs), builder.build())


def test_reductions_are_computed_after_their_collective() -> None:
    workload = trace(*["init; allreduce 4 1000"] * 2, algorithms=("allreduce-recursive-doubling",))
    assert program(workload, 0)[-1] == ("calc", 1000.0)
    assert len(waits(workload, workload.op_offset[1] - 1)) > 0


def test_algorithms_are_chosen_by_name() -> None:
    programs = ["init; compute 1; allreduce 4000 0; alltoall 4 4"] * 4
    ring = trace(*programs, algorithms=("allreduce-ring", "alltoall-pairwise"))
    builder = WorkloadBuilder(4)
    everyone = np.arange(4)
    builder.calc(everyone, 1)
    collective_on(builder, "allreduce", everyone, 4000, algorithm="ring")
    collective_on(builder, "alltoall", everyone, 4, algorithm="pairwise")
    assert same(ring, builder.build())
    assert not same(ring, trace(*programs))
    with pytest.raises(InputError, match="unknown collective 'allreduce-star'"):
        trace(*programs, algorithms=("allreduce-star",))


def test_collectives_wait_for_what_came_before() -> None:
    """Each rank's program stays in order, even if its lines are far apart in the file."""
    workload = trace(
        "init; compute 1; barrier; compute 2; barrier; send 1 0 8",
        "init; barrier; barrier; recv 0 0 8; compute 3",
    )
    kinds = [entry[0] for entry in program(workload, 0)]
    assert kinds == ["calc", "recv", "send", "calc", "recv", "send", "send"]
    assert waits(workload, 3) == [1, 2]
    kinds = [entry[0] for entry in program(workload, 1)]
    assert kinds == ["recv", "send", "recv", "send", "recv", "calc"]


def test_communicators_are_noted() -> None:
    workload = trace(*["init; comm_split; comm_size 1; comm_dup; location a.c 3; barrier"] * 2)
    assert "4 communicators are created" in workload.notes[0]
    assert len(workload.messages) == 2


# -- files -----------------------------------------------------------------------------------------


def test_a_list_of_files_that_do_not_exist_is_recognised(tmp_path: Path) -> None:
    listing = tmp_path / "all.txt"
    listing.write_text("# traces\nrun/rank0.txt\nrun/rank1.txt\n")
    with pytest.raises(InputError, match=r"all.txt:2: there is no file 'run/rank0.txt', beside"):
        read_workload(listing)


def test_files_are_found_in_a_list_or_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for rank in range(11):
        (folder / f"rank{rank}.txt").write_text(
            f"# part\n\np{rank}\tinit\np{rank} compute {rank}\n"
        )
    names = [f"parts/rank{rank}.txt" for rank in range(11)]
    listing = tmp_path / "all.txt"
    listing.write_text("# traces\n" + "\n".join(names) + "\n\n")
    by_list, by_folder = read_workload(listing), read_workload(folder)
    assert (by_list.name, by_folder.name) == ("all", "parts")
    assert same(by_list, by_folder)
    assert by_list.duration_ns.tolist() == list(range(1, 11))
    listing.write_text("\n".join(str(tmp_path / name) for name in names))
    assert same(by_list, read_workload(listing))
    (folder / "README").write_text("Hello, world\n")
    with pytest.raises(InputError, match="is not in a known workload format"):
        read_workload(folder)
    with pytest.raises(InputError, match=r"README:1: expected a rank and an action, not 'Hello"):
        read_workload(folder, "tit")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("0 init\n1 fly", 2, "unknown action 'fly'; SMPI replays finalize"),
        ("0 init\n0", 2, "expected a rank and an action, not '0'"),
        ("0 init\n-1 init", 2, "expected a rank and an action, not '-1 init'"),
        ("0 init\n4000000000 init", 2, "expected a rank and an action"),
        ("0 init\n2 init", None, "rank 1 has no line; the last rank is 2"),
        ("0 init\n1900000000 init", None, "rank 1 has no line"),
        ("none.txt", 1, "there is no file 'none.txt', beside this list or in this folder"),
        ("0x7", 1, "or a file's name, not '0x7'"),
        ("0 compute", 1, "compute: expected an amount of flops, not the end of the line"),
        ("0 compute x", 1, "compute: expected an amount of flops, not 'x'"),
        ("0 compute -1", 1, "amount of flops -1; expected 0 or more"),
        ("0 compute nan", 1, "amount of flops nan; expected"),
        ("0 compute 1\n0 sleep 1e308", 2, "sleep: the duration is inf ns; expected at most"),
        ("0 compute 1e25", 1, r"compute: the duration is 1e\+25 ns"),
        ("0 compute 1 2", 1, "expected the end of the line, not '2'"),
        ("0 send 1 0 8", 1, "send: a destination 1; ranks are 0 to 0"),
        ("0 isend -1 0 8", 1, "isend: a destination -1; ranks are"),
        ("0 recv -555 0 8", 1, "recv: -555 means any source; weft matches"),
        ("0 recv -1 0 8", 1, "recv: -1 means any source; weft matches"),
        ("0 irecv 0 -444 8", 1, "irecv: tag -444 is negative, perhaps a wildcard"),
        ("0 send 0 0 -8", 1, "a count -8; expected 0 to"),
        ("0 send 0 0 1.5", 1, "a count 1.5 is not an integer"),
        ("0 send 0 0 inf", 1, "a count inf; expected 0 to"),
        ("0 send 0 0 1e17", 1, "a count 1e17; expected 0 to"),
        ("0 send 0 0 " + "9" * 5000, 1, "expected 0 to"),
        ("0 send 0 0 36028797018963968 1", 1, "are more than 2.56 bytes"),
        ("0 send 0 0 8 51", 1, "datatype 51; expected a datatype of SMPI"),
        ("0 send 0 0 8 -1", 1, "datatype -1; expected a datatype of SMPI"),
        ("0 send 0 0 8 1e6", 1, "datatype 1000000; expected a datatype of SMPI"),
        ("0 send 0 0 8 0 1", 1, "expected the end of the line, not '1'"),
        ("0 send 0 8\n0 recv 0 0 8 1", 2, "recv: expected the end of the line, not '1'"),
        ("0 send 0 0 8", 1, "operation 0 of rank 0 .* has no matching receive"),
        ("0 init\n0 irecv 0 0 8\n0 compute 2", 2, "has no matching send"),
        ("0 wait 0 0 0", 1, "rank 0 began no message from 0 to 0 with tag 0"),
        ("0 isend 0 4 8\n0 wait 0 0 5", 2, "rank 0 began no message from 0 to 0 with tag 5"),
        ("0 isend 0 4 8\n0 wait 0 0", 2, "wait: expected a tag, not the end of the line"),
        ("0 isend 0 8\n0 wait\n0 wait", 3, "wait: there is nothing to wait for"),
        ("0 sendrecv 8 0 8", 1, "sendrecv: expected a source"),
        ("0 bcast 8 1", 1, "bcast: a root 1; expected 0 to 0"),
        ("0 reduce 8", 1, "reduce: expected an amount of flops"),
        ("0 alltoallv 8 8 8", 1, "expected 1 counts to receive, one for each rank, not 0"),
        ("0 barrier 1", 1, "barrier: expected the end of the line, not '1'"),
        ("0 barrier\n1 init", 1, "barrier: rank 0 calls it, but rank 1 ends before it"),
        ("0 barrier\n1 bcast 8", 2, "bcast: rank 1 calls bcast, but rank 0 calls barrier in .*:1"),
        ("0 bcast 8 0\n1 bcast 8 1", 2, "rank 1 has root 1, but rank 0 has root 0"),
        ("0 bcast 8\n1 bcast 9", 2, "rank 1 has 9 bytes, but rank 0 has 8 bytes in the .*x.tit:1"),
        ("0 reducescatter 8 9 0\n1 reducescatter 8 8 0", 2, "rank 1 has blocks of 8, 8 bytes"),
        ("0 alltoall 8 8\n1 alltoall 8 7", 2, "rank 1 receives 7 bytes from rank 0, which sends 8"),
        ("0 gatherv 8 0\n1 gatherv 8 0", 1, "root has no counts to receive|counts to rec"),
        (
            "0 alltoallv 9 1 8 9 1 8\n1 alltoallv 9 9 1 9 7 1",
            2,
            "rank 1 receives 7 bytes from rank 0, which sends 8, at x.tit:1",
        ),
        (
            "0 gatherv 1 1 1\n1 gatherv 2 1 1",
            1,
            "rank 0 receives 1 bytes from rank 1, which sends 2",
        ),
        (
            "0 scatterv 1 2 1\n1 scatterv 0 0 1",
            2,
            "rank 1 receives 1 bytes from rank 0, which sends 2",
        ),
    ],
)
def test_errors_in_a_trace_name_the_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_tit(text, "x.tit")
    assert (caught.value.file, caught.value.line) == ("x.tit", line)


def test_errors_in_lists_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0 init\n0 compute x\n")
    (tmp_path / "b").write_text("1 init\n0 compute 3\n")
    listing = tmp_path / "list"
    listing.write_text("a\na\n")
    with pytest.raises(InputError, match=r"list:2: a is already listed, in line 1"):
        read_workload(listing)
    listing.write_text("a\nc\n")
    with pytest.raises(InputError, match=r"list:2: expected .* or a file's name, not 'c'"):
        read_workload(listing)
    listing.write_text("a\nb\n")
    with pytest.raises(InputError, match=r"b:2: rank 0 has lines in .*a already"):
        read_workload(listing)
    (tmp_path / "b").write_text("1 init\n01 init\n")
    with pytest.raises(InputError, match=r"b:2: rank 1 has lines in .*b already"):
        read_workload(listing)
    (tmp_path / "b").write_text("1 init\n")
    with pytest.raises(InputError, match=r"a:2: compute: expected an amount of flops, not 'x'"):
        read_workload(listing)


@pytest.mark.parametrize("flops_per_s", [0, -1, float("nan"), float("inf")])
def test_the_speed_is_a_positive_number(flops_per_s: float) -> None:
    with pytest.raises(InputError, match="flops_per_s is"):
        trace("init", flops_per_s=flops_per_s)


def test_a_real_trace(shared: Path) -> None:
    folder = shared / "traces" / "smpi-tit-32"
    workload = read_workload(folder)
    assert workload.num_ranks == 32
    words = [
        [line.split()[1:] for line in (folder / f"ti_trace{rank}.txt").read_text().splitlines()]
        for rank in range(32)
    ]
    # Build the workload without the reader: all ranks do the same actions in the same order.
    builder, count = WorkloadBuilder(32), Counter()
    actions = [[w for w in mine if w[0] not in ("init", "finalize", "comm_size")] for mine in words]
    while any(actions):
        for rank, mine in enumerate(actions):
            while mine and mine[0][0] == "compute":
                builder.calc(rank, float(mine.pop(0)[1]))
        if not any(actions):
            break
        calls = [mine.pop(0) for mine in actions]
        (name,) = {call[0] for call in calls}
        count[name] += 1
        sizes = [[8 * int(word) for word in call[1:]] for call in calls]
        size: object = 0
        if name == "alltoallv":
            size = np.array(sizes)[:, 1:33]
        elif name != "barrier":
            (size,) = {row[0] for row in sizes}
            if name == "allreduce" and len(calls[0]) == 4:
                size //= {"0": 1, "1": 2}[calls[0][3]]
        collective_on(builder, name, np.arange(32), size)
        if name == "allreduce":
            for rank, call in enumerate(calls):
                builder.calc(rank, float(call[2]))
    assert count == {
        "barrier": 16, "bcast": 9, "allreduce": 6, "alltoall": 5, "alltoallv": 2, "gather": 1
    }  # fmt: skip
    assert same(workload, builder.build())
    assert workload.notes == ("ranks compute at 1e+09 flop/s in 1632 computations",)
