"""Every workload survives a round trip, and readers fail only with an error of weft."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.workload_runs import same

from weft.core.errors import InputError
from weft.workload import Kind, Workload, WorkloadBuilder
from weft.workload.formats.goal import read as read_goal
from weft.workload.formats.goal import write as write_goal
from weft.workload.formats.tit import read as read_tit

#: Replacements: words of the file formats, and texts that occur in no file.
PIECES = [*"\n {}:é", "//", "/*", "*/", "-1", "0", "9" * 25, "requires", ""]
CUTS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(PIECES)), max_size=3)
ENDS = st.floats(0, 1) | st.just(1.0)


def broken(text: str, cuts: list[tuple[float, int, str]], end: float) -> str:
    """Return the text truncated, with pieces of it replaced."""
    for place, length, piece in cuts:
        at = round(place * len(text))
        text = text[:at] + piece + text[at + length :]
    return text[: round(end * len(text))]


def check_refused_or_read(read: Callable[[str, str], Workload], text: str) -> None:
    error = None
    try:
        read(text, "x")
    except InputError as caught:
        error = caught
    if error is not None:
        # The remains of a trace may be the name of an existing file or directory, such as "//".
        assert error.file == "x" or error.file in [line.strip() for line in text.split("\n")]
        assert error.line is None or 1 <= error.line <= text.count("\n") + 1


@st.composite
def workloads(draw: st.DrawFn, communicators: bool = False) -> Workload:
    """Draw a small workload with random dependencies on starts and ends of operations."""
    ranks = draw(st.integers(1, 4))
    builder = WorkloadBuilder(ranks, name=draw(st.text(max_size=8)))
    comms = [0] + [builder.communicator([0]) for _ in range(2 if communicators else 0)]
    # Collectives have negative tags.
    tags = st.integers(-3 if communicators else 0, 3) | st.just(2**31 - 1) | st.just(-(2**31))
    programs: list[list[int]] = [[] for _ in range(ranks)]

    def add(rank: int, op: int) -> None:
        earlier = programs[rank]
        for before in draw(st.lists(st.sampled_from(earlier), max_size=2)) if earlier else ():
            builder.requires(op, before, start=draw(st.booleans()))
        earlier.append(op)

    for _ in range(draw(st.integers(0, 12))):
        rank, to = draw(st.integers(0, ranks - 1)), draw(st.integers(0, ranks - 1))
        if draw(st.booleans()):
            duration, cpu = draw(st.integers(0, 2**53)), draw(st.integers(0, 255))
            add(rank, builder.calc(rank, duration, cpu=cpu, after=[]))
            continue
        tag, comm = draw(tags), draw(st.sampled_from(comms))
        add(rank, builder.send(rank, to, draw(st.integers(0, 2**40)), tag, comm, after=[]))
        add(to, builder.recv(to, rank, 2**40, tag, comm, after=[]))
    return builder.build()


@given(workload=workloads())
def test_a_written_schedule_is_read_as_the_same(workload: Workload) -> None:
    assert same(workload, read_goal(write_goal(workload), "x.goal"))


@given(workload=workloads(communicators=True))
def test_messages_of_communicators_match_as_before(workload: Workload) -> None:
    text = write_goal(workload)
    again = read_goal(text, "x.goal")
    for name in ("op_offset", "kind", "peer", "size_bytes", "duration_ns", "dep", "match"):
        np.testing.assert_array_equal(getattr(again, name), getattr(workload, name))
    assert same(again, read_goal(write_goal(again), "x.goal"))


@settings(max_examples=examples(300))
@given(
    workload=workloads(),
    cuts=CUTS,
    end=ENDS,
)
def test_a_broken_schedule_is_refused_or_read(
    workload: Workload, cuts: list[tuple[float, int, str]], end: float
) -> None:
    text = broken(write_goal(workload), cuts, end)
    check_refused_or_read(read_goal, text)


@given(text=st.text())
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"expected 'num_ranks'|comment begins"):
        read_goal(text, "x.goal")


# -- time-independent traces -----------------------------------------------------------------------


@st.composite
def traces(draw: st.DrawFn) -> str:
    """Draw traces in which every sent message is received, with lines of ranks shuffled."""
    ranks = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["", " 1", " 6"]))
    programs: list[list[str]] = [["init 1"] for _ in range(ranks)]
    counts = " ".join(["2"] * ranks)
    together = [
        "barrier", f"bcast 9 {ranks - 1}{kind}", "reduce 4 100", f"allreduce 4 100{kind}",
        f"scan 5{kind}", f"alltoall 3 3{kind}", f"allgather 3 3{kind}", f"gather 3 3 0{kind}",
        f"scatter 3 3 {ranks - 1}{kind}", f"gatherv 2 {counts} 0{kind}", f"scatterv {counts} 2 0",
        f"allgatherv 2 {counts}", f"reducescatter {counts} 50{kind}",
        f"alltoallv 9 {counts} 9 {counts}",
    ]  # fmt: skip
    for _ in range(draw(st.integers(0, 10))):
        match draw(st.integers(0, 3)):
            case 0:
                collective = draw(st.sampled_from(together))
                for program in programs:
                    program.append(collective)
            case 1:
                programs[draw(st.integers(0, ranks - 1))].append(
                    draw(st.sampled_from(["compute 2.5e3", "sleep 1e-3", "waitall", "comm_dup"]))
                )
            case _:
                one, other = draw(st.integers(0, ranks - 1)), draw(st.integers(0, ranks - 1))
                tag, size = draw(st.integers(0, 2)), draw(st.integers(0, 9))
                later = draw(st.booleans())
                programs[one].append(f"isend {other} {tag} {size}{kind}")
                programs[other].append(f"{'i' * later}recv {one} {tag} {size}{kind}")
                if later:
                    programs[other].append(f"wait {one} {other} {tag}")
                else:
                    programs[one].append(f"test {one} {other} {tag}")
    lines = [f"{rank} {action}" for rank, program in enumerate(programs) for action in program]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@given(text=traces())
def test_a_trace_of_any_actions_is_read(text: str) -> None:
    workload = read_tit(text, "x")
    sent = sum(line.split()[1] == "isend" for line in text.splitlines())
    assert np.sum((workload.kind == Kind.SEND) & (workload.tag >= 0)) == sent
    # The order of lines of different ranks in a file does not matter.
    lines = sorted(text.splitlines(), key=lambda line: -int(line.split()[0]))
    assert same(workload, read_tit("\n".join(lines), "x"))


@settings(max_examples=examples(300))
@given(text=traces(), cuts=CUTS, end=ENDS)
def test_a_broken_trace_is_refused_or_read(
    text: str, cuts: list[tuple[float, int, str]], end: float
) -> None:
    check_refused_or_read(read_tit, broken(text, cuts, end))


@given(text=st.text())
def test_any_text_is_not_a_trace(text: str) -> None:
    with pytest.raises(
        InputError, match=r"expected a rank|neither actions nor|is a folder|no file"
    ):
        read_tit(text, "x")
