"""Every workload comes back as it was written, and no text makes a reader fail in another way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.workload import Workload, WorkloadBuilder
from weft.workload.files.goal import read as read_goal
from weft.workload.files.goalwriter import write as write_goal
from weft.workload.workload import same

#: What files are mutated with: their words, and what stands nowhere in them.
PIECES = [*"\n {}:é", "//", "/*", "*/", "-1", "0", "9" * 25, "requires", ""]


@st.composite
def workloads(draw: st.DrawFn, communicators: bool = False) -> Workload:
    """Small workloads of calculations and messages with random dependencies of both sorts."""
    ranks = draw(st.integers(1, 4))
    builder = WorkloadBuilder(ranks, name=draw(st.text(max_size=8)))
    comms = [0] + [builder.communicator([0]) for _ in range(2 if communicators else 0)]
    # Collectives have tags below 0.
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


@settings(deadline=None)
@given(workload=workloads())
def test_a_schedule_comes_back(workload: Workload) -> None:
    assert same(workload, read_goal(write_goal(workload), "x.goal"))


@settings(deadline=None)
@given(workload=workloads(communicators=True))
def test_messages_of_communicators_match_as_before(workload: Workload) -> None:
    text = write_goal(workload)
    again = read_goal(text, "x.goal")
    for name in ("op_offset", "kind", "peer", "size_bytes", "duration_ns", "dep", "match"):
        np.testing.assert_array_equal(getattr(again, name), getattr(workload, name))
    assert same(again, read_goal(write_goal(again), "x.goal"))


@settings(deadline=None, max_examples=300)
@given(
    workload=workloads(),
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(PIECES)), max_size=3
    ),
    end=st.floats(0, 1) | st.just(1.0),
)
def test_a_broken_schedule_is_refused_or_read(
    workload: Workload, cuts: list[tuple[float, int, str]], end: float
) -> None:
    text = write_goal(workload)
    for place, length, piece in cuts:
        at = round(place * len(text))
        text = text[:at] + piece + text[at + length :]
    text = text[: round(end * len(text))]
    error = None
    try:
        read_goal(text, "x.goal")
    except InputError as caught:
        error = caught
    if error is not None:
        assert error.file == "x.goal"
        assert error.line is None or 1 <= error.line <= text.count("\n") + 1


@given(text=st.text())
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"expected 'num_ranks'|comment begins"):
        read_goal(text, "x.goal")
