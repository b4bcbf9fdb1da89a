"""Semantics of programs in the trace language."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.workload_runs import same

from weft.core.errors import InputError, NotApplicable
from weft.workload import Kind, Workload, WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.trace import (
    TraceError,
    dense_text,
    format_program,
    parse,
    trace_workload,
)
from weft.workload.trace.keywords import (
    COLLECTIVES,
    DEFINITIONS,
    FUNCTIONS,
    HEADS,
    OPTIONS,
    SCOPE_FUNCTIONS,
)

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.trace"))


def run(text: str, ranks: int = 4, **options: object) -> Workload:
    return trace_workload(text, ranks=ranks, **options)


def durations(expression: str, ranks: int = 4, before: str = "") -> list[float]:
    return list(run(f"{before}\nCALC {expression}", ranks).duration_ns)


def peers(text: str, ranks: int) -> list[int]:
    """Return the peers of puts, by rank; -1 for ranks without a put."""
    workload = run(text, ranks)
    peer_of = np.full(ranks, -1)
    peer_of[workload.rank] = workload.peer
    return list(peer_of)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("7", [7] * 4),
        ("1.5us", [1500] * 4),
        ("2ms + 3", [2000003] * 4),
        ("rank", [0, 1, 2, 3]),
        ("size - rank", [4, 3, 2, 1]),
        ("2 + 3 * rank ** 2", [2, 5, 14, 29]),
        ("-rank + 3", [3, 2, 1, 0]),
        ("10 - 2 - 3", [5] * 4),
        ("2 ** 3 ** 2", [512] * 4),
        ("8 + -2 ** 2", [4] * 4),
        ("(rank - 3) % 5", [2, 3, 4, 0]),
        ("5 + (rank - 3) // 2", [3, 4, 4, 5]),
        ("rank / 2", [0, 0.5, 1, 1.5]),
        ("1us * rank / 4", [0, 250, 500, 750]),
        ("1MiB / 4KiB", [256] * 4),
        ("min(rank, 2, 5) + max(1, rank)", [1, 2, 4, 5]),
        ("floor(rank / 2) + 10 * ceil(rank / 2) + 100 * round(rank / 2)", [0, 10, 111, 221]),
        ("xor(rank, 3)", [3, 2, 1, 0]),
        ("sqrt(rank * rank) + log2(8)", [3, 4, 5, 6]),
        ("abs(rank - 2)", [2, 1, 0, 1]),
        ("choose(rank == 0, 7, 12 / rank)", [7, 12, 6, 4]),
        ("choose(rank < 2 and rank != 0 or rank == 3, 1, 0)", [0, 1, 0, 1]),
        ("choose(not rank < 2, 1, 0)", [0, 0, 1, 1]),
        ("choose(rank == 0 or 6 // rank == 3, 1, 0)", [1, 0, 1, 0]),
        ("9007199254740993 - 9007199254740992", [1] * 4),
    ],
)
def test_expressions(expression: str, values: list[float]) -> None:
    assert durations(expression) == values


def test_each_rank_has_its_own_variables() -> None:
    before = "LET a = 5\nIF rank > 1\n  LET a = rank * 10\nEND\nLET b = a + 1"
    assert durations("b", before=before) == [6, 6, 21, 31]


def test_parameters_are_set_from_outside() -> None:
    text = "PARAM n = 4KiB\nPARAM m = n * 2\nPUT m TO 0 TAG n // 1KiB"
    assert list(run(text, 1).size_bytes) == [8192]
    changed = run(text, 1, parameters={"n": "1KiB"})
    assert (list(changed.size_bytes), list(changed.tag)) == ([2048], [1])
    for parameters, message in [
        ({"k": 1}, "no parameter 'k'; it has n, m"),
        ({"n": "1us"}, "n=1us must have the type"),
        ({"n": "4K+"}, r"n=4K\+: expected a value"),
        ({"n": "rank"}, "n=rank"),
    ]:
        with pytest.raises(InputError, match=message):
            run(text, 1, parameters=parameters)


# -- scopes and peers ------------------------------------------------------------------------------


def test_the_last_axis_varies_fastest() -> None:
    grid = "SCOPE g = CART ALL (x: 2, y: 3)\nSCOPE g\n"
    assert durations("10 * x + y", 6, grid) == [0, 1, 2, 10, 11, 12]
    assert durations("10 * dim(x) + dim(g, y)", 6, grid) == [23] * 6
    assert durations("x(g) + rank(g)", 6, "SCOPE g = CART ALL (x: 2, y: 3)") == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize(
    ("closed", "peer", "expected"),
    [
        ("", "+x", [3, 4, 5, -1, -1, -1]),
        ("", "-y", [-1, 0, 1, -1, 3, 4]),
        (" PERIODIC", "+y", [1, 2, 0, 4, 5, 3]),
        (" PERIODIC (y)", "+x", [3, 4, 5, -1, -1, -1]),
        (" PERIODIC (y)", "-y", [2, 0, 1, 5, 3, 4]),
        ("", "at(x, y + 2)", [2, -1, -1, 5, -1, -1]),
        (" PERIODIC", "at(x + 3, y - 4)", [5, 3, 4, 2, 0, 1]),
        ("", "at(1, 2)", [5] * 6),
        ("", "NULL", [-1] * 6),
        ("", "(rank + 1) % size", [1, 2, 3, 4, 5, 0]),
    ],
)
def test_neighbours(closed: str, peer: str, expected: list[int]) -> None:
    text = f"SCOPE g = CART ALL (x: 2, y: 3){closed}\nSCOPE g\nPUT 1 TO {peer}"
    assert peers(text, 6) == expected


@pytest.mark.parametrize(
    ("ranks", "axes", "dims"),
    [
        (12, "x: AUTO, y: AUTO", (4, 3)),
        (27, "x: AUTO, y: AUTO, z: AUTO", (3, 3, 3)),
        (16, "x: AUTO, y: 2, z: AUTO", (4, 2, 2)),
        (7, "x: AUTO, y: AUTO", (7, 1)),
        (1, "x: AUTO, y: AUTO", (1, 1)),
    ],
)
def test_dimensions_that_are_left_open_are_balanced(
    ranks: int, axes: str, dims: tuple[int, ...]
) -> None:
    names = "xyz"[: len(dims)]
    value = " + ".join(f"{100**position} * dim({name})" for position, name in enumerate(names))
    before = f"SCOPE g = CART ALL ({axes})\nSCOPE g"
    expected = sum(100**position * dim for position, dim in enumerate(dims))
    assert durations(value, ranks, before) == [expected] * ranks


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("SPLIT ALL BY rank % 2", [2, 3, 4, 5, 0, 1]),
        ("SPLIT ALL BY rank // 3 KEY -rank", [2, 0, 1, 5, 3, 4]),
        ("SPLIT ALL BY choose(rank == 0, -1, 0)", [-1, 2, 3, 4, 5, 1]),
        ("WHERE ALL rank != 2", [1, 3, -1, 4, 5, 0]),
        ("LIST ALL [4, 0..2]", [1, 2, 4, -1, 0, -1]),
        ("LIST ALL [5..1 BY -2]", [-1, 5, -1, 1, -1, 3]),
        ("DUP ALL", [1, 2, 3, 4, 5, 0]),
    ],
)
def test_the_next_rank_in_a_scope(definition: str, expected: list[int]) -> None:
    text = f"SCOPE s = {definition}\nSCOPE s\nPUT 1 TO (rank + 1) % size"
    assert peers(text, 6) == expected


def test_rows_and_planes_of_a_grid() -> None:
    grid = "SCOPE g = CART ALL (x: 2, y: 3, z: 2) PERIODIC (z)\n"
    row = grid + "SCOPE r = SUB g (z)\nPUT 1 TO +z"
    assert peers(row.replace("PUT", "SCOPE r\nPUT"), 12) == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10]
    plane = grid + "SCOPE p = SUB g (x, y)\nSCOPE p\n"
    assert peers(plane + "PUT 1 TO rank", 12) == list(range(12))
    assert peers(plane + "PUT 1 TO +y", 12) == [2, 3, 4, 5, -1, -1, 8, 9, 10, 11, -1, -1]
    assert durations("size + 100 * rank", 12, plane)[:4] == [6, 6, 106, 106]


def test_on_selects_the_scope_of_a_line() -> None:
    text = "SCOPE half = SPLIT ALL BY rank // 2\nSENDRECV size TO 1 - rank FROM 1 - rank ON half"
    workload = run(text)
    receives = workload.kind == Kind.RECV
    assert list(workload.peer[receives]) == [1, 0, 3, 2]
    assert set(workload.size_bytes) == {2}
    assert workload.comm_names == ("world", "half")
    assert set(workload.comm) == {1}


def test_a_scope_holds_to_the_end_of_its_block() -> None:
    text = "SCOPE s = LIST ALL [1, 2]\nREPEAT 1\n  SCOPE s\n  CALC 1\nEND\nCALC 2\nSCOPE s\nCALC 3"
    workload = run(text)
    times = [list(workload.duration_ns[workload.rank == rank]) for rank in range(4)]
    assert times == [[2], [1, 2, 3], [1, 2, 3], [2]]


# -- statements ------------------------------------------------------------------------------------


def test_messages_equal_those_of_the_builder() -> None:
    text = """
    COMMUNICATOR 1 "other"
    IF rank == 0
      SEND 10 TO 1 TAG 5
      IRECV 20 FROM 1 AS r COMM 1
      ISEND 30 TO 1
      PUT 40 TO 1 TAG 2 RELEASE 1us
      WAIT r
      CALC 7 CPU 3
      WAITALL
      CALC 8
    ELSE
      RECV 10 FROM 0 TAG 5
      SEND 20 TO 0 COMM 1
      RECV 30 FROM 0
      RODREQUEST KEY 6 TAG -2 COMM 1
      RODDONE KEY 6 TAG rank COMM 1 AFTER 1
      RODDONE KEY 7 AFTER 1
    END
    """
    b = WorkloadBuilder(2)
    comm = b.communicator([0, 1], "other")
    b.send(0, 1, 10, tag=5)
    handle = b.irecv(0, 1, 20, comm=comm)
    b.isend(0, 1, 30)
    b.put(0, 1, 40, tag=2, release_ns=1000.0)
    b.wait(0, [handle])
    b.calc(0, 7, cpu=3)
    b.waitall([0])
    b.calc(0, 8)
    b.recv(1, 0, 10, tag=5)
    b.send(1, 0, 20, comm=comm)
    b.recv(1, 0, 30)
    b.key_request(1, 6, comm, tag=-2)
    b.key_done(1, 6, comm, tag=1)
    b.key_done(1, 7)
    traced = run(text, 2)
    assert same(traced, b.build())
    assert traced.comm_names == ("world", "other")


def test_neighbours_beyond_a_border_send_and_receive_nothing() -> None:
    text = "SCOPE g = CART ALL (x: 3)\nSCOPE g\nSENDRECV 5 TO +x, 9 FROM -x"
    b = WorkloadBuilder(3)
    comm = b.communicator(range(3))
    b.sendrecv([0, 1, 2], [1, 2, -1], 5, [-1, 0, 1], 9, 0, comm)
    assert same(run(text, 3), b.build())


def test_each_rank_has_its_own_current_phase() -> None:
    workload = run('0: PHASE "a"\nCALC 1\nPHASE "b"\nCALC 2\nPHASE ""\nCALC 3', 2)
    assert workload.phase_names == ("", "a", "b")
    assert list(workload.phase) == [1, 2, 0, 0, 2, 0]


def test_loops_count_both_ends_and_may_differ_by_rank() -> None:
    assert list(run("FOR i = 3..1 BY -2\n  CALC i\nEND", 1).duration_ns) == [3, 1]
    assert run("FOR i = 1..0\n  CALC i\nEND", 1).num_ops == 0
    workload = run("FOR i = rank..3 BY 1 + rank\n  CALC i\nEND", 3)
    times = [list(workload.duration_ns[workload.rank == rank]) for rank in range(3)]
    assert times == [[0, 1, 2, 3], [1, 3], [2]]
    workload = run("REPEAT rank\n  CALC 5\nEND", 3)
    assert list(np.diff(workload.op_offset)) == [0, 1, 2]


def test_after_names_the_dependencies() -> None:
    text = "CALC 1\nCALC 2 AFTER NOTHING\nCALC 3 AFTER 1, 2 START\nCALC 4 AFTER -1\nCALC 5"
    workload = run(text, 1)
    assert list(workload.dep_offset) == [0, 0, 0, 2, 3, 4]
    assert list(workload.dep) == [0, 1, 4, 0]
    assert list(workload.dep_on_start) == [True, False, False, False]


def test_a_request_that_was_not_begun_is_not_waited_for() -> None:
    text = "0: PUT 1 TO 1 AS r\nWAIT r\nWAIT r\nCALC 5"
    workload = run(text, 2)
    assert list(np.diff(workload.dep_offset)) == [0, 1, 0]


def test_a_line_goes_on_while_a_bracket_is_open() -> None:
    text = "SCOPE s = LIST ALL [  # some\n  0,\n  2  # more\n]\nSCOPE s\nCALC (1 +\n 2)"
    workload = run(text)
    assert list(np.diff(workload.op_offset)) == [1, 0, 1, 0]
    assert list(workload.duration_ns) == [3, 3]
    first = format_program(parse(text)).splitlines()[0]
    assert first == "SCOPE s = LIST ALL [0, 2]  # some more"


# -- computing times -------------------------------------------------------------------------------


def test_computing_times_are_uniform_with_the_deviation_that_is_given() -> None:
    times = np.array(durations("100us STD 10us", 20_000))
    assert times.mean() == pytest.approx(100_000, rel=2e-3)
    assert times.std() == pytest.approx(10_000, rel=1e-2)
    half = 10_000 * 3**0.5
    assert 100_000 - half <= times.min() < 100_000 - 0.99 * half
    assert 100_000 + 0.99 * half < times.max() < 100_000 + half
    counts, _ = np.histogram(times, bins=10, range=(100_000 - half, 100_000 + half))
    assert abs(counts - 2000).max() < 200


def test_computing_times_are_never_negative() -> None:
    times = np.array(durations("10 STD 100", 5000))
    assert times.min() == 0
    assert 0.4 < (times == 0).mean() < 0.5


def test_a_rank_draws_its_own_times() -> None:
    text = "CALC 10 STD 1\nCALC 10 STD 1"
    few, many = run(text, 3), run(text, 5)
    assert list(few.duration_ns) == list(many.duration_ns[:6])
    assert len(set(many.duration_ns)) == 10
    shifted = run("0: CALC 10 STD 1\n" + text, 3)
    assert list(shifted.duration_ns[3:]) == list(few.duration_ns[2:])
    assert set(run(text, 3, seed=1).duration_ns).isdisjoint(few.duration_ns)
    assert same(run("SEED 1\n" + text, 3), run(text, 3, seed=1))


# -- collectives -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name", "size", "options"),
    [
        ("BARRIER", "barrier", 0, {}),
        ("BCAST 4KiB ROOT 2", "bcast", 4096, {"root": 2}),
        ("REDUCE 8 ROOT size - 1", "reduce", 8, {"root": 5}),
        ("ALLREDUCE 1MiB USING ring", "allreduce", 2**20, {"algorithm": "ring"}),
        ("mpi_allreduce 8", "allreduce", 8, {}),
        ("ALLGATHER 100", "allgather", 100, {}),
        ("ALLGATHERV 100 * rank", "allgatherv", np.arange(6) * 100, {}),
        ("GATHERV rank ROOT 1", "gatherv", np.arange(6), {"root": 1}),
        ("REDUCE_SCATTER 10", "reduce-scatter", 10, {}),
        ("SCAN 8", "scan", 8, {}),
        ("ALLTOALL 64", "alltoall", 64, {}),
        (
            "ALLTOALLV 10 * rank + peer",
            "alltoallv",
            10 * np.arange(6)[:, None] + np.arange(6),
            {},
        ),
    ],
)
def test_collectives_are_those_of_the_library(
    line: str, name: str, size: object, options: dict[str, object]
) -> None:
    builder = WorkloadBuilder(6)
    collective_on(builder, name, np.arange(6), size, **options)
    assert same(run(line, 6), builder.build())


def test_a_collective_in_every_communicator_of_a_scope() -> None:
    text = "SCOPE row = SPLIT ALL BY choose(rank < 2, 0, 1)\nBCAST 100 * size ROOT size - 1 ON row"
    builder = WorkloadBuilder(5)
    comm = builder.communicator(range(5))
    collective_on(builder, "bcast", [0, 1], 200, root=1, comm=comm)
    collective_on(builder, "bcast", [2, 3, 4], 300, root=2, comm=comm)
    traced = run(text, 5)
    # Two calls have two tags; all else is equal.
    for column in ("op_offset", "kind", "peer", "size_bytes", "comm", "dep", "match"):
        np.testing.assert_array_equal(getattr(traced, column), getattr(builder.build(), column))


# -- examples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_canonical_and_run(path: Path) -> None:
    text = path.read_text()
    assert format_program(parse(text)) == text
    for ranks in (8, 27):
        workload = run(text, ranks)
        assert len(workload.messages)
        assert same(trace_workload(dense_text(workload), builder=WorkloadBuilder), workload)
        assert "AFTER" not in dense_text(workload)


def test_the_stencil_exchanges_six_faces_a_step() -> None:
    (path,) = (path for path in EXAMPLES if path.stem == "stencil")
    workload = run(path.read_text(), 64, parameters={"steps": "2", "face": "1KiB"})
    sends = workload.kind == Kind.SEND
    faces = sends & (workload.size_bytes == 1024)
    assert faces.sum() == 64 * 6 * 2
    assert workload.phase_names == ("", "compute", "exchange")
    # A barrier of 64 ranks takes six rounds.
    assert (sends & (workload.size_bytes == 0)).sum() == 64 * 6 * 2


def test_the_cartesian_workload_is_six_permutations() -> None:
    (path,) = (path for path in EXAMPLES if path.stem == "cartesian")
    workload = run(path.read_text(), 27)
    for number, name in enumerate(workload.phase_names):
        if name[:1] not in ("+", "-"):
            continue
        mine = (workload.phase == number) & (workload.size_bytes > 0)
        sends = mine & (workload.kind == Kind.SEND)
        assert sorted(workload.peer[sends]) == list(range(27))
        stride = {"x": 9, "y": 3, "z": 1}[name[1]]
        source = workload.rank[sends] // stride % 3
        to = workload.peer[sends] // stride % 3
        assert set((to - source) % 3) == {1 if name[0] == "+" else 2}


def test_the_routing_key_is_for_communicator_one() -> None:
    (path,) = (path for path in EXAMPLES if path.stem == "routing-keys")
    workload = run(path.read_text(), 27)
    requests = workload.kind == Kind.KEY_REQUEST
    assert requests.sum() == 27
    assert workload.comm_names[1] == "grid"
    assert set(workload.comm[requests]) == {1}
    assert set(workload.tag[requests]) == {7}
    assert set(workload.size_bytes[requests]) == {1000}
    op = int(np.flatnonzero(requests)[0])
    assert workload.what(op) == "request of routing key 7, tag 1000, communicator grid"


def test_the_number_of_ranks_is_that_of_the_program() -> None:
    assert trace_workload("RANKS 3\nCALC 1").num_ranks == 3
    assert trace_workload("PARAM n = 2\nRANKS n * n\nCALC 1", parameters={"n": 3}).num_ranks == 9
    with pytest.raises(InputError, match=r"x.trace: the program has no RANKS line"):
        trace_workload("CALC 1", "x.trace")
    with pytest.raises(NotApplicable, match="for 3 ranks, not 4"):
        run("RANKS 3\nCALC 1", 4)
    with pytest.raises(TraceError, match="RANKS 0; expected 1 to 10,000,000"):
        trace_workload("RANKS 0\nCALC 1")


# -- documentation ---------------------------------------------------------------------------------

DOCUMENT = (EXAMPLES[0].parents[1] / "docs" / "trace-language.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "word", [*HEADS, *OPTIONS, *DEFINITIONS, *COLLECTIVES, *FUNCTIONS, *SCOPE_FUNCTIONS]
)
def test_every_word_is_documented(word: str) -> None:
    operator = word in ("AND", "OR", "NOT")
    assert re.search(rf"\b{word.lower() if operator else word}\b", DOCUMENT)


def test_programs_in_the_document_run_and_are_canonical() -> None:
    programs = [text for kind, text in BLOCKS if not kind and not text.startswith("$")]
    assert len(programs) == 2
    for text in programs:
        assert format_program(parse(text)) == text
        count = 2 if "RANKS 2" in text else 8
        assert len(run(text, count).messages)


def test_errors_in_the_document_are_those_that_programs_give() -> None:
    (shown,) = (text for kind, text in BLOCKS if kind == "text" and text.startswith("mine"))
    checked = 0
    for line in shown.splitlines():
        number = int(line.split(":")[1])
        quoted = re.search(r"; in '(.*)'$", line)
        if quoted:
            with pytest.raises(TraceError) as raised:
                trace_workload("\n" * (number - 1) + quoted[1], "mine.trace", ranks=4)
            assert str(raised.value) == line
            checked += 1
    assert checked == 3


def test_the_unmatched_receive_of_the_document() -> None:
    text = "RANKS 2\n0:\n  CALC 1\n  CALC 2\n  RECV 1 FROM 1 TAG 7\nEND\n"
    for program in (text, text.replace("CALC 2", "CALC 1 + 1")):
        with pytest.raises(TraceError) as raised:
            trace_workload(program, "mine.trace")
        assert str(raised.value) in DOCUMENT
