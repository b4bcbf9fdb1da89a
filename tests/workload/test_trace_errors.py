"""Each error in a trace program gives line, column and what was expected."""

from __future__ import annotations

import pytest
from tests.work import lines_run

from weft.core.errors import InputError
from weft.workload.trace import TraceError, parse, trace_workload

#: A program for four ranks, the line and column of the error (None: the whole line), and the
#: beginning of the message.
WRONG = [
    ("SEND 4 TOO 3", 1, 8, "expected TO, found 'TOO'"),
    ("SND 4 TO 3", 1, 1, "unknown statement 'SND' (did you mean 'SEND'?)"),
    ("CALC 1 +", 1, 9, "expected a value, found the end of the file"),
    ("LET a = (1", 1, 9, "'(' is never closed"),
    ("LET a = 1)", 1, 10, "')' has no opening bracket"),
    ("LET a = (1]", 1, 11, "']' does not close '('"),
    (
        "CALC 4KiX",
        1,
        6,
        "'4KiX' has the unknown unit 'KiX'; sizes are in B, kB, KiB, MB, MiB, GB, GiB, TB,",
    ),
    ("CALC 1e999", 1, 6, "1e999 is too large"),
    ("CALC 99999999999999999999", 1, 6, "99999999999999999999 is too large"),
    (
        "FOR i = 0\nEND",
        1,
        10,
        "expected '..' and the last value, as in FOR i = 0..9, found the end of the line",
    ),
    ("IF rank == 0\nCALC 1", 1, 1, "the block that begins with 'IF' has no END"),
    (
        "REPEAT 2\nELSE\nEND",
        2,
        1,
        "ELSE is allowed only in an IF, but this block began with 'REPEAT' in line 1",
    ),
    ("IF rank == 0\nELSE\nELSE\nEND", 3, 1, "ELSE comes after the ELSE of this IF"),
    ("END", 1, 1, "END is outside a block"),
    ("ELIF 1", 1, 1, "ELIF is outside a block"),
    (
        "CALC 1 STDD 3",
        1,
        8,
        "expected STD, CPU, AFTER or the end of the line (did you mean 'STD'?), found 'STDD'",
    ),
    ("CALC 1 2", 1, 8, "expected STD, CPU, AFTER or the end of the line, found '2'"),
    ("SEND 1 TO 1 TAG 1 TAG 2", 1, 19, "TAG is given twice"),
    ("SEND 1 TO 1 ON ALL COMM 0", 1, 1, "only one of ON and COMM is allowed"),
    ("SEND 1 TO 1 AS r", 1, 13, "expected TAG, ON, COMM, AFTER or the end of the line, found 'AS'"),
    ("SCOPE ALL = DUP ALL", 1, 1, "ALL always means all ranks; use another name"),
    (
        "SCOPE g = CRT ALL",
        1,
        11,
        "expected one of CART, SUB, SPLIT, WHERE, LIST, DUP (did you mean 'CART'?), found",
    ),
    ("SCOPE g = CART ALL (x: 2, x: 2)", 1, 27, "axis x is given twice"),
    ("SCOPE g = CART ALL (x: 4) PERIODIC (y)", 1, 37, "expected one of the axes x, found 'y'"),
    ("LET tag = 1", 1, 5, "'tag' is a word of the language and cannot name a variable"),
    ("LET rank = 1", 1, 5, "'rank' is a word of the language and cannot name a variable"),
    (
        "LET a = +1",
        1,
        9,
        "a + before a value is not allowed; +x, the neighbour along axis x, is allowed only",
    ),
    ("LET a = 1 < 2 < 3", 1, 15, "a comparison has two values; join comparisons with 'and'"),
    ("LET a = 3 + not 1", 1, 13, "this 'not' must be in parentheses"),
    ("LET a = at(1)", 1, 9, "at(…) is a peer: it must be alone after TO or FROM"),
    ("LET a = min(1)", 1, 9, "min takes two or more arguments, not 1"),
    (
        "PUT 1 TO +",
        1,
        11,
        "expected an axis, as in +x; a computed rank must not begin with a sign, found the",
    ),
    ("NAME stencil", 1, 6, "expected a name between \", found 'stencil'"),
    ('NAME "x', 1, 6, 'a text that begins with " must end on the same line'),
    ("0: 1: CALC 1", 1, 4, "expected a statement, found '1'"),
    ("CALC 1; CALC 2", 1, 7, "unexpected character ';'; use a new line instead"),
    (
        "WAIT",
        1,
        5,
        "expected names of requests, or WAITALL for all of them, found the end of the file",
    ),
    ("CALC 1 AFTER x", 1, 14, "expected a number of operations back, such as 1, found 'x'"),
    ("CALC n", 1, 6, "unknown name 'n'"),
    ("LET nn = 1\nCALC mm + n", 2, 6, "unknown name 'mm'"),
    ("CALC foo(1)", 1, 6, "unknown function 'foo' (did you mean 'floor'?)"),
    ("CALC minn(1, 2)", 1, 6, "unknown function 'minn' (did you mean 'min'?)"),
    ("SCOPE grit", 1, 1, "unknown scope 'grit'; known scopes: ALL"),
    (
        "SCOPE grid = DUP ALL\nBARRIER gird",
        2,
        1,
        "unknown scope 'gird' (did you mean 'grid'?); known scopes: ALL, grid",
    ),
    (
        "PUT 1 TO +x",
        1,
        10,
        "ALL has no axis x because it is not a grid; define one as in SCOPE grid = CART ALL (x",
    ),
    (
        "SCOPE g = CART ALL (x: 4)\nPUT 1 TO +y ON ALL",
        2,
        13,
        "expected TAG, AFTER, AS, RELEASE or the end of the line, found 'ON'",
    ),
    (
        "SCOPE g = CART ALL (x: 4)\nPUT 1 TO +y",
        2,
        10,
        "ALL has no axis y because it is not a grid; define one as in SCOPE grid = CART ALL (x",
    ),
    (
        "SCOPE g = CART ALL (xx: 4)\nSCOPE g\nPUT 1 TO +x",
        3,
        10,
        "g has no axis 'x' (did you mean 'xx'?); it has xx",
    ),
    (
        "SCOPE g = CART ALL (x: 4)\nCALC x",
        2,
        6,
        "x is an axis of g, but the scope here is ALL; write x(g)",
    ),
    (
        "SCOPE g = CART ALL (x: 4)\nSCOPE g\nPUT 1 TO at(x, 1)",
        3,
        10,
        "at(…) has 2 coordinates, but g has 1 axes: x",
    ),
    ("SCOPE g = CART ALL (x: 4)\nLET x = 1", 2, 1, "x is already an axis of g"),
    ("LET g = 1\nSCOPE g = DUP ALL", 2, 1, "g is already a variable"),
    ("PARAM n = 1\nLET n = 2", 2, 1, "n is a parameter; LET cannot change it"),
    (
        "PARAM n = rank",
        1,
        11,
        "'rank' is not a parameter; expected numbers and names defined by PARAM",
    ),
    ("FOR i = 0..1\nLET i = 3\nEND", 2, 1, "i is the counter of an enclosing loop"),
    ("LET i = 1\nFOR i = 0..1\nEND", 2, 1, "i is already a variable"),
    ("REPEAT 1\nPARAM n = 1\nEND", 2, 1, "PARAM is not allowed inside a block"),
    ("SEED 1\nSEED 2", 2, 1, "SEED is given twice"),
    (
        "RANKS 4\n0:\n  CALC 1\n  WAIT r7\nEND",
        4,
        3,
        "no ISEND, IRECV or PUT has the request name 'r7'",
    ),
    ("WAIT r", 1, 1, "no ISEND, IRECV or PUT has the request name 'r'"),
    ("PUT peer TO 1", 1, 5, "peer is allowed only in the size of an ALLTOALLV"),
    ("ALLTOALL peer", 1, 10, "peer is allowed only in the size of an ALLTOALLV"),
    ("CALC g", 1, 6, "unknown name 'g'"),
    ("SCOPE g = DUP ALL\nCALC g", 2, 6, "g is a scope, not a value"),
    (
        "SCOPE s = SUB ALL (x)",
        1,
        11,
        "ALL has no axis x because it is not a grid; define one as in SCOPE grid = CART ALL (x",
    ),
    ("CALC dim(1)", 1, 6, "dim takes an axis, or a scope and one of its axes"),
    ("CALC rank(1)", 1, 6, "rank(…) takes the name of a scope"),
    ("CALC x(ALL)", 1, 6, "unknown function 'x'"),
    ("CALC 1 / (rank - 2)", 1, 8, "division by zero on rank 2"),
    ("CALC 5 % 0", 1, 8, "division by zero"),
    ("CALC -1", 1, 6, "a computing time is -1; expected 0 or more"),
    ("CALC rank - 2", 1, 6, "a computing time is -2 on rank 0; expected 0 or more"),
    ("CALC 1 STD -1", 1, 12, "a standard deviation is -1; expected 0 or more"),
    ("PUT -1 TO 0", 1, 5, "a message size is -1; expected 0 or more"),
    (
        "PUT 1 TO rank - 1",
        1,
        10,
        "rank 0: there is no rank -1 in ALL, whose ranks are 0 to 3; use NULL or an IF",
    ),
    ("PUT 1 TO rank + 1", 1, 10, "rank 3: there is no rank 4 in ALL, whose ranks are 0 to 3"),
    (
        "PUT 1.5 TO 0",
        1,
        5,
        "a message size is 1.5; it must be an integer: use // or round(…)",
    ),
    (
        "PUT rank / 2 TO 0",
        1,
        5,
        "a message size is 0.5 on rank 1; it must be an integer: use // or round(…)",
    ),
    ("PUT 1us TO 0", 1, 5, "a message size is a size, not a time"),
    ("CALC 4KiB", 1, 6, "a computing time is a time, not a size"),
    ("CALC 1us + 4KiB", 1, 10, "a time and a size are incompatible"),
    ("CALC 1us * 1us", 1, 10, "a time times a time has no unit here"),
    ("CALC 2 ** 64", 1, 8, "the value does not fit in 64 bits"),
    ("CALC 9000000000000000000 + 9000000000000000000", 1, 26, "the value does not fit in 64 bits"),
    ("CALC rank * 9000000000000000000", 1, 11, "the value does not fit in 64 bits on rank 2"),
    ("CALC 10.0 ** 400", 1, 11, "the value is not finite"),
    ("CALC rank == 1", 1, 6, "expected a number, found a condition"),
    ("IF rank\nEND", 1, 4, "expected a condition such as rank == 0, found a number"),
    ("CALC sqrt(-1)", 1, 6, "sqrt of a number that is too small"),
    ("CALC xor(-1, 2)", 1, 6, "xor takes integers of 0 or more"),
    (
        "PUT 1 TO 0 TAG 3000000000",
        1,
        1,
        "rank 0: tag 3000000000; tags are -2.14748e+09 to 2.14748e+09",
    ),
    (
        "PUT 2**57 TO 0",
        1,
        1,
        "rank 0: size in bytes 144115188075855872; sizes are 0 to 7.20576e+16",
    ),
    ("SEND 1 TO rank COMM 4", 1, 1, "there is no communicator 4 among 1"),
    ("RANKS 4\nSEED -1", 2, 1, "SEED -1; expected 0 to 2^63 - 1"),
    ("FOR i = 0..3 BY 0\nEND", 1, 17, "the step of a loop cannot be 0"),
    ("REPEAT -1\nEND", 1, 8, "REPEAT -1; expected 0 or more"),
    ("REPEAT 3000000\nEND", 1, 1, "the loops of the program have more than 2,000,000 iterations"),
    ("IF rank == 0\nLET a = 1\nEND\nCALC a", 4, 6, "a has no value on rank 1"),
    (
        "LET a = 1us\nIF rank == 0\nLET a = 1KiB\nEND",
        3,
        1,
        "a has another type or unit on other ranks",
    ),
    ("0..9 BY -1: CALC 1", 1, 1, "the range 0..9 BY -1 never reaches its end"),
    ("CALC 1 AFTER 1", 1, 14, "rank 0 has no operation 1 positions before this one"),
    ("CALC 1 CPU 300", 1, 1, "processor 300; processors are 0 to 255"),
    (
        "COMMUNICATOR 2",
        1,
        1,
        "COMMUNICATOR 2 must be 1: communicators and scopes are numbered from 1 in the order",
    ),
    (
        "SCOPE g = CART ALL (x: 3)",
        1,
        11,
        "a grid of 3 does not fill the 4 ranks of ALL; for fewer ranks, first define a scope",
    ),
    ("SCOPE g = CART ALL (x: 0)", 1, 11, "dimension x is 0; expected 1 or more"),
    (
        "SCOPE g = CART ALL (x: AUTO, y: 3)",
        1,
        11,
        "a grid of AUTO x 3 does not fill the 4 ranks of ALL; for fewer ranks, first define",
    ),
    ("SCOPE s = LIST ALL [9]", 1, 21, "there is no rank 9 in ALL, whose ranks are 0 to 3"),
    ("SCOPE s = LIST ALL [1, 1]", 1, 21, "a rank is listed twice"),
    (
        "SCOPE s = LIST ALL [rank]",
        1,
        21,
        "a rank must be the same on all ranks; it is 0 on rank 0 and 1 on rank 1",
    ),
    ("SCOPE s = WHERE ALL rank > 9", 1, 1, "scope s has no rank"),
    ("SCOPE s = WHERE ALL rank", 1, 21, "expected a condition such as rank == 0, found a number"),
    (
        "SCOPE s = WHERE ALL rank > 1\nPUT 1 TO 0 ON s",
        2,
        12,
        "expected TAG, AFTER, AS, RELEASE or the end of the line, found 'ON'",
    ),
    ("SCOPE s = WHERE ALL rank > 1\nSEND 1 TO 0 ON s", 2, 16, "rank 0 is not in scope s"),
    (
        "SCOPE s = SPLIT ALL BY rank // 3\nSCOPE g = CART s (x: AUTO)",
        2,
        11,
        "the communicators of s have 1 to 3 ranks; a grid needs the same number in each",
    ),
    (
        "SCOPE s = WHERE ALL rank > 1\nCALC rank(s)",
        2,
        6,
        "rank(s) on rank 0: the rank is not in this scope",
    ),
    (
        "IF rank > 1\nBARRIER\nEND",
        2,
        1,
        "BARRIER over ALL is reached by rank 2 but not by rank 0 of the same communicator",
    ),
    ("BCAST 4 ROOT 9", 1, 1, "bcast: there is no root 9 among 4 ranks, counted from 0"),
    ("BCAST 4 ROOT rank", 1, 1, "the root of BCAST is 0 on rank 0 and 1 on rank 1"),
    ("ALLREDUCE rank", 1, 1, "the size of ALLREDUCE is 0 on rank 0 and 1 on rank 1"),
    ("ALLREDUCE -1", 1, 11, "the amount of data is -1 on rank 0; expected 0 or more"),
    (
        "ALLREDUCE 8 USING rng",
        1,
        1,
        "allreduce has no algorithm 'rng' (did you mean 'ring'?); it has rabenseifner,",
    ),
    ("BARRIER 8", 1, 9, "expected USING, ON or the end of the line, found '8'"),
    (
        "ALLTOALLV peer - 1",
        1,
        16,
        "the amount of data is -1 from rank 0 to rank 0; expected 0 or more",
    ),
    (
        "SEND 1 TO rank TAG -1\nBARRIER",
        1,
        20,
        "tags below 0 are for collectives; expected 0 or more",
    ),
    ('0: PHASE "a"\nBARRIER', 2, 1, "rank 0 is in phase 'a' here, but others are not"),
    ("ALLREDUCE 8 ROOT 1", 1, 13, "expected USING, ON or the end of the line, found 'ROOT'"),
    ("BCAST 1us", 1, 7, "the amount of data is a size, not a time"),
    (
        "CALC 1\n0: SEND 4 TO 1",
        2,
        None,
        "operation 1 of rank 0, line 2 (send to rank 1, tag 0) has no matching receive",
    ),
    (
        "CALC 1\n0: SEND 8 TO 1 TAG 2\n1: RECV 4 FROM 0 TAG 2",
        2,
        None,
        "operation 1 of rank 0, line 2 (send to rank 1, tag 2) sends 8 bytes, but operation 1",
    ),
    (
        "RANKS 4\n0:\n  CALC 5\n  RECV 1 FROM 2\nEND",
        4,
        None,
        "operation 1 of rank 0, line 4 (receive from rank 2, tag 0) has no matching send",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), WRONG)
def test_errors_name_the_place_and_what_is_wrong(
    text: str, line: int, column: int | None, message: str
) -> None:
    with pytest.raises(TraceError) as raised:
        trace_workload(text, "x.trace", ranks=4)
    error = raised.value
    assert (error.line, error.column) == (line, column)
    assert error.message.removeprefix(f"column {column}: ").startswith(message)
    shown = str(error)
    assert "\n" not in shown
    assert shown.startswith(f"x.trace:{line}: ")
    if column is not None:
        quoted = " ".join(text.splitlines()[line - 1].split())
        assert shown.endswith(f"; in {quoted!r}")


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (2**31 - 1, "RANKS 2147483647; expected 1 to 10,000,000"),
        (0, "RANKS 0; expected 1 to 10,000,000"),
    ],
)
def test_more_ranks_than_memory_holds_are_refused(ranks: int, message: str) -> None:
    with pytest.raises(TraceError, match=message) as raised:
        trace_workload(f"CALC 1\nRANKS {ranks}")
    assert (raised.value.line, raised.value.column) == (2, 1)
    with pytest.raises(InputError, match=f"{ranks} ranks; expected 1 to 10,000,000"):
        trace_workload("CALC 1", ranks=ranks)


@pytest.mark.parametrize("text", ["x" * 10**5, "CALC " + "9" * 10**5, "CALC 1 TO" + "x" * 10**5])
def test_long_words_are_shown_in_part(text: str) -> None:
    with pytest.raises(TraceError) as raised:
        trace_workload(text, ranks=1)
    assert len(str(raised.value)) < 700
    assert "sys" not in str(raised.value)


@pytest.mark.parametrize("start", ["RANKS 1\n0:\n", "RANKS 1\nIF 1 == 1\n"])
def test_a_trace_may_have_many_phases(start: str) -> None:
    text = start + "".join(f'PHASE "{n}"\nCALC 1\n' for n in range(5_000)) + "END\n"
    assert len(trace_workload(text).phase_names) == 5_001


def test_a_long_line_is_quoted_in_part() -> None:
    with pytest.raises(TraceError) as raised:
        parse("LET a = " + " + ".join(["1"] * 60) + " +")
    assert str(raised.value).endswith("...'")
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CALC " + "(" * 60 + "1" + ")" * 60, "nested more than 50 levels deep"),
        ("CALC " + "-" * 600 + "1", "nested more than 50 levels deep"),
        ("CALC " + "2 ** " * 600 + "1", "nested more than 50 levels deep|more than 100 operators"),
        ("CALC " + " + ".join(["1"] * 200), "more than 100 operators"),
        ("IF rank == 0\n" * 60 + "END\n" * 60, "blocks are nested more than 50 levels deep"),
        ("0: IF rank == 0\n" * 60 + "END\n" * 60, "blocks are nested more than 50 levels deep"),
        ("REPEAT 1\n" * 2000, "blocks are nested more than 50 levels deep"),
    ],
)
def test_nesting_is_limited(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace_workload(text, ranks=1)


def test_the_deepest_programs_run() -> None:
    text = "IF rank == 0\n" * 50 + "CALC " + "(" * 49 + "1" + ")" * 49 + "\n" + "END\n" * 50
    assert trace_workload(text, ranks=2).num_ops == 1
    assert trace_workload("CALC " + " + ".join(["1"] * 101), ranks=1).duration_ns[0] == 101


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("REPEAT 1000\n  CALC 1\nEND", 2),
        ("ALLTOALL 8", 100_000),
        ("ALLREDUCE 1GiB USING ring", 100_000),
        ("ALLTOALLV peer", 100_000),
        ("RANKS 2\n0..1:\n" + "  CALC 1\n" * 1000 + "END\n", 2),
    ],
)
def test_programs_of_too_many_operations_are_refused_at_once(text: str, ranks: int) -> None:
    def refused() -> None:
        with pytest.raises(InputError, match=r"more than 1,000 operations|too many pairs"):
            trace_workload(text, ranks=ranks, max_operations=1000)

    assert lines_run(refused) < 1_000_000


def test_max_operations_limits_the_iterations_of_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weft.workload.trace.lowering.MAX_ITERATIONS", 2)
    text = "REPEAT 5\nEND"
    assert trace_workload(text, ranks=1, max_operations=125).num_ops == 0
    with pytest.raises(TraceError, match="more than 4 iterations; a larger max_operations"):
        trace_workload(text, ranks=1, max_operations=124)
