"""Reading and writing workloads: detection of the format, and GOAL."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.workload_runs import same

from weft.core.errors import InputError, NotApplicable
from weft.workload import Kind, WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.formats import (
    read_workload,
    workload_reader,
    workload_writer,
    write_workload,
)
from weft.workload.formats.goal import read as read_goal
from weft.workload.formats.goal import write as write_goal

DOCS = Path(__file__).parents[2] / "docs" / "workload-files.md"
PAIR = "num_ranks 2\nrank 0 {\n%s\n}\nrank 1 {\n%s\n}\n"


def goal(zero: str, one: str = "") -> str:
    return PAIR % (zero, one)


# -- files and formats -----------------------------------------------------------------------------


def ping() -> WorkloadBuilder:
    builder = WorkloadBuilder(2, name="ping")
    builder.rank(0).calc(5).send(1, 8, tag=3)
    builder.rank(1).recv(0, 8, tag=3)
    return builder


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    workload = ping().build()
    path = tmp_path / "ping.goal"
    write_workload(workload, path)
    again = read_workload(path)
    assert same(workload, again)
    assert again.name == "ping"
    assert [item.name for item in tmp_path.iterdir()] == ["ping.goal"]


def test_contents_tell_the_format_where_the_name_does_not(tmp_path: Path) -> None:
    path = tmp_path / "schedule.txt"
    path.write_text("// by hand\n/* two\nlines */ num_ranks 1\nrank 0 {\n}\n")
    assert read_workload(path).num_ranks == 1


def test_the_contents_override_the_name(tmp_path: Path) -> None:
    path = tmp_path / "rank0.trace"
    path.write_text("0 init\n0 compute 5\n")
    assert read_workload(path).duration_ns.tolist() == [5.0]
    path = tmp_path / "broken.goal"
    path.write_text("rank 0 {\n}\n")
    with pytest.raises(InputError, match=r"broken.goal:1: expected 'num_ranks'"):
        read_workload(path)


def test_files_without_a_workload_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "schedule.txt"
    path.write_text("hello\n")
    with pytest.raises(InputError, match=r"schedule.txt: is not in a known workload format.*goal"):
        read_workload(path)
    with pytest.raises(InputError, match=r"unknown readable workload format 'gaol'.*goal"):
        read_workload(path, "gaol")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_workload(tmp_path / "none.goal")
    with pytest.raises(InputError, match="unknown file suffix; expected one of the formats goal"):
        write_workload(ping().build(), tmp_path / "ping.txt")
    with pytest.raises(InputError, match="has no option 'whole'"):
        write_workload(ping().build(), tmp_path / "ping.goal", whole=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="the folder has no files"):
        read_workload(tmp_path / "empty")


def test_files_say_how_many_ranks_they_have(tmp_path: Path) -> None:
    path = tmp_path / "ping.goal"
    write_workload(ping().build(), path)
    assert read_workload(path, ranks=2).num_ranks == 2
    with pytest.raises(InputError, match=r"ping.goal: the file has 2 ranks; expected 3"):
        read_workload(path, ranks=3)
    path = tmp_path / "any.trace"
    path.write_text("BARRIER\n")
    assert read_workload(path, ranks=3).num_ranks == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"num_ranks 1\nrank 0 { \xff\n}", ":2: byte 0xff is not UTF-8"),
        (b"num_ranks 1\nrank 0 {\0\n}", "is a binary file"),
    ],
)
def test_files_that_are_not_text_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.goal"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_workload(path)


def test_a_workload_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "old.goal"
    path.write_text("old")
    builder = WorkloadBuilder(2)
    builder.put(0, 1, 5)
    with pytest.raises(NotApplicable, match=r"operation 0 of rank 0 \(put to rank 1"):
        write_workload(builder.build(), path)
    assert path.read_text() == "old"


@pytest.mark.parametrize("registry", [workload_reader, workload_writer])
def test_every_format_is_documented(registry: object) -> None:
    lines = DOCS.read_text().splitlines()
    for entry in registry:  # type: ignore[attr-defined]
        assert entry.summary.endswith(".")
        text = inspect.getdoc(entry.function)
        row = next(line for line in lines if line.startswith(f"| `{entry.name}`"))
        for option in entry.options:
            assert f"{option}\n" in text
            assert f"`{option}`" in row
        assert all(f"`{suffix}`" in row for suffix in entry.facts["suffixes"])


# -- GOAL ------------------------------------------------------------------------------------------


def test_a_schedule_is_read_line_by_line() -> None:
    workload = read_goal(
        "/* a\ncomment */ num_ranks 2 rank 1 { recv 9 b from 0 tag 7\r\n"
        "  c:calc 30 // then\n}\n"
        "rank 0\n{\n a: calc 100 cpu 3\nb : send 8b to 1 tag 7\n\nb requires a\n"
        "last irequires b\nlast: calc 0 }",
        "folder/x.goal",
    )
    assert workload.name == "x"
    np.testing.assert_array_equal(workload.op_offset, [0, 3, 5])
    np.testing.assert_array_equal(
        workload.kind, [Kind.CALC, Kind.SEND, Kind.CALC, Kind.RECV, Kind.CALC]
    )
    np.testing.assert_array_equal(workload.peer, [-1, 1, -1, 0, -1])
    np.testing.assert_array_equal(workload.size_bytes, [0, 8, 0, 9, 0])
    np.testing.assert_array_equal(workload.tag, [0, 7, 0, 7, 0])
    np.testing.assert_array_equal(workload.duration_ns, [100, 0, 0, 0, 30])
    np.testing.assert_array_equal(workload.cpu, [3, 0, 0, 0, 0])
    np.testing.assert_array_equal(workload.dep_offset, [0, 0, 1, 2, 2, 2])
    np.testing.assert_array_equal(workload.dep, [0, 1])
    np.testing.assert_array_equal(workload.dep_on_start, [False, True])
    np.testing.assert_array_equal(workload.match, [-1, 3, -1, 1, -1])
    assert workload.notes == ()


def test_ignored_parts_of_a_schedule_are_noted() -> None:
    text = goal("send 1b to 1 cpu 2 nic 1", "recv 1b from 0 tag 0 nic 3")
    cpu, nic = read_goal(text, "x.goal").notes
    assert "cpu of 1 sends and receives is ignored" in cpu
    assert cpu.endswith("overhead is on cpu 0")
    assert "nic of 2 sends and receives is ignored" in nic


def test_large_tags_are_told_apart() -> None:
    text = goal(
        "send 1b to 1 tag 4294967294\nsend 2b to 1 tag 2147483646",
        "recv 2b from 0 tag 2147483646\nrecv 1b from 0 tag 4294967294",
    )
    workload = read_goal(text, "x.goal")
    np.testing.assert_array_equal(workload.match, [3, 2, 1, 0])
    assert "tag 4294967294" in write_goal(workload)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("rank 0 {\n}", 1, "expected 'num_ranks' and a number first"),
        ("\nnum_ranks x", 2, "expected 'num_ranks'"),
        ("num_ranks 0\n", 1, "num_ranks 0; expected 1 to 2147483647"),
        ("num_ranks 4000000000\n", 1, "num_ranks 4000000000; expected 1"),
        (
            "num_ranks 2\nrank 1 {\n}\n",
            None,
            "rank 0 has no block; there are blocks of 1 of 2 ranks",
        ),
        ("num_ranks 2000000000\nrank 1 {\n}\n", None, "rank 0 has no block"),
        ("num_ranks 2\nrank 2 {\n}\n", 2, "there is no rank 2; ranks are 0 to 1"),
        ("num_ranks 2\nrank 1 {\n}\nrank 1 {\n}", 4, "rank 1 already has a block, in line 2"),
        ("num_ranks 1\nrank 0 {\ncalc 5\n", 4, "the file ends before the '}' of rank 0"),
        ("num_ranks 2\nrank 0 {\nrank 1 {\n}", 3, "another '{' is before the '}' of rank 0"),
        ("num_ranks 1\nrank 0\ncalc 5\n}", 2, "expected 'rank', its number and '{', not 'rank 0'"),
        ("num_ranks 1\nrank 0 {\n}\n\n}", 5, "expected 'rank', its number and '{', not '}'"),
        ("num_ranks 1\nrank 0 {\n/* calc 5\n}", 3, "a comment begins here without an end"),
        (goal("send 5 to 1"), 3, "expected 'b', not 'to'"),
        (goal("send 5b from 1"), 3, "expected 'to', not 'from'"),
        (goal("\n\nrecv 5b to 1"), 5, "expected 'from', not 'to'"),
        (goal("send b to 1"), 3, "expected a size, not 'b'"),
        (goal("send 5b to"), 3, "expected a rank, not the end of the line"),
        (goal("send 5b to 1 tag"), 3, "expected a number after 'tag', not the end of the line"),
        (goal("send 5b to 1 nic 0 cpu 1"), 3, "expected the end of the line, not 'cpu'"),
        (goal("send -5b to 1"), 3, "expected a size, not '-5'"),
        (goal("send 0x5b to 1"), 3, "expected 'b', not 'x5b'"),
        (goal("send 5b to 2"), 3, "rank 2; expected 0 to 1"),
        (goal("", "calc 1\nrecv 5b from 9"), 7, "rank 9; expected 0 to 1"),
        (goal("send 72057594037927937b to 1"), 3, "size of 72057594037927937; expected 0 to"),
        (goal("send 1" + "0" * 30 + "b to 1"), 3, "is too large"),
        (goal("send 1b to 1 tag 4294967296"), 3, "tag 4294967296; expected 0 to 4294967295"),
        (goal("recv 1b from 1 tag 4294967295"), 3, "means any tag; weft"),
        (goal("recv 1b from -1"), 3, "-1 means any source; weft matches messages in advance"),
        (goal("recv 1b from 1 tag -1"), 3, "-1 means any tag; weft matches messages in advance"),
        (goal("send 1b to -1"), 3, "expected a rank, not '-1'"),
        (goal("send 1b to 1 nic 256"), 3, "nic 256; expected 0 to 255"),
        (goal("calc -1"), 3, "expected a number, not '-1'"),
        (goal("calc 1.5"), 3, "expected the end of the line, not '.'"),
        (goal("calc 9007199254740993"), 3, "duration of 9007199254740993; expected 0 to"),
        (goal("calc 1\ncalc 1 cpu 256"), 4, "cpu 256; expected 0 to 255"),
        (goal("calc 1 nic 0"), 3, "expected the end of the line, not 'nic'"),
        (goal("l1 calc 1"), 3, "expected ':', 'requires' or 'irequires' after 'l1', not 'calc'"),
        (goal("l1:"), 3, "expected an operation, not the end of the line"),
        (goal("5"), 3, "expected 'send', 'recv', 'calc' or a label, not '5'"),
        (goal("a: calc 1\na requires"), 4, "expected a label, not the end of the line"),
        (goal("a: calc 1\na requires a b"), 4, "expected the end of the line, not 'b'"),
        (goal("a: calc 1\na requires b"), 4, "rank 0 has no operation labelled 'b'"),
        (goal("a: calc 1\nb irequires a"), 4, "rank 0 has no operation labelled 'b'"),
        (goal("a: calc 1", "a2: calc 1\na2 requires a"), 7, "rank 1 has no operation labelled 'a'"),
        (goal("a: calc 1\ncalc 2\na: calc 1"), 5, "label 'a' is already defined, in line 3"),
        (
            goal("a: calc 1\nb: calc 2\na requires b\nb requires a"),
            3,
            r"wait for each other in a cycle: operation 0 of rank 0 .* operation 1 of rank 0",
        ),
        (goal("calc 1\nsend 1b to 1"), 4, r"operation 1 of rank 0 .* has no matching receive"),
        (goal("", "recv 1b from 0"), 6, r"operation 0 of rank 1 .* has no matching send"),
        (goal("send 2b to 1", "\nrecv 1b from 0"), 3, "sends 2 bytes, but operation 0 of rank 1"),
    ],
)
def test_errors_in_a_schedule_name_the_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_goal(text, "x.goal")
    assert (caught.value.file, caught.value.line) == ("x.goal", line)


def test_a_long_run_of_spaces_is_read_fast() -> None:
    with pytest.raises(InputError, match="expected the end of the line, not 'y'"):
        read_goal(goal("calc 5" + " " * 300_000 + "y"), "x.goal")


def test_labels_are_defined_before_they_are_used() -> None:
    builder = WorkloadBuilder(1)
    first = builder.calc(0, 1, after=[])
    second = builder.calc(0, 2, cpu=1, after=[])
    builder.requires(first, second)
    builder.requires(builder.calc(0, 3, after=[]), second, start=True)
    text = write_goal(builder.build())
    assert text == (
        "num_ranks 1\n\nrank 0 {\nl0: calc 1\nl1: calc 2 cpu 1\nl2: calc 3\n"
        "l2 irequires l1\nl0 requires l1\n}\n"
    )


def test_every_written_line_is_accepted_by_loggopsim() -> None:
    """LogGOPSim's txt2bin accepts fewer kinds of lines than weft reads."""
    builder = WorkloadBuilder(8)
    everyone = np.arange(8)
    builder.calc(everyone, 10, cpu=3)
    collective_on(builder, "allreduce", everyone, 10_000)
    line = re.compile(
        r"//[^\n]*|num_ranks \d+|rank \d+ \{|\}||[a-z]\d+ i?requires [a-z]\d+|"
        r"[a-z]\d+: (send \d+b to \d+ tag \d+|recv \d+b from \d+ tag \d+|calc \d+( cpu \d+)?)"
    )
    text = write_goal(builder.build())
    assert text.endswith("}\n")
    assert [each for each in text.split("\n") if not line.fullmatch(each)] == []
    labels: set[str] = set()
    for words in map(str.split, text.split("\n")):
        if words[:1] == ["rank"]:
            labels.clear()
        elif len(words) == 3:
            assert {words[0], words[2]} <= labels
        elif words and words[0].endswith(":"):
            labels.add(words[0][:-1])


def test_communicators_become_tags_that_are_free() -> None:
    builder = WorkloadBuilder(2, name="two\nlines")
    comm = builder.communicator([0, 1], "halves")
    for options in ({"tag": 0}, {"tag": 0, "comm": comm}, {"tag": 2}, {"tag": -1}, {"tag": -2}):
        builder.isend(0, 1, 8, **options)
    for options in ({"tag": -1}, {"tag": 0, "comm": comm}, {"tag": 0}, {"tag": -2}, {"tag": 2}):
        builder.irecv(1, 0, 8, **options)
    workload = builder.build()
    text = write_goal(workload)
    assert text.splitlines()[:3] == [
        "// two\ufffdlines",
        "// tag 1 is tag -1 of communicator world",
        "// tag 3 is tag 0 of communicator halves",
    ]
    again = read_goal(text, "x.goal")
    np.testing.assert_array_equal(again.match, workload.match)
    np.testing.assert_array_equal(again.tag[:5], [0, 3, 2, 1, -2])


def release(builder: WorkloadBuilder) -> None:
    builder.put(0, 1, 5, release_ns=7)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (release, "put to rank 1.*without a receive"),
        (lambda b: b.key_request(0, 3), "request of routing key 3.*no routing keys"),
        (lambda b: b.key_done(0, 3), "return of routing key 3.*no routing keys"),
        (lambda b: b.calc(0, 0.5), "operation 0 of rank 0.*integer nanoseconds.*whole_ns"),
        (lambda b: b.calc([0, 1], 0.5), "and 1 more.*integer nanoseconds"),
        (lambda b: b.calc(0, 2.0**54), "longer than 2.53 ns"),
    ],
)
def test_operations_that_goal_cannot_express_are_refused(
    add: Callable[[WorkloadBuilder], object], message: str
) -> None:
    builder = WorkloadBuilder(2)
    add(builder)
    with pytest.raises(NotApplicable, match=message):
        write_goal(builder.build())


def test_durations_are_rounded_on_request() -> None:
    builder = WorkloadBuilder(1)
    builder.rank(0).calc(1.6).calc(0.4)
    assert "l0: calc 2\nl1: calc 0\n" in write_goal(builder.build(), whole_ns=True)


def test_a_real_schedule(shared: Path) -> None:
    workload = read_workload(shared / "traces" / "binary-tree-32.goal")
    assert (workload.num_ranks, len(workload.messages), workload.num_ops) == (32, 31, 62)
    # In a binomial tree, rank r first receives from the rank without r's highest bit; rank 0 only
    # sends.
    receives = np.flatnonzero(workload.kind == Kind.RECV)
    ranks = workload.rank[receives]
    np.testing.assert_array_equal(
        workload.peer[receives], [r & ~(1 << int(r).bit_length() - 1) for r in ranks]
    )
    np.testing.assert_array_equal(workload.op_offset[ranks], receives)
    waits = np.diff(workload.dep_offset)
    np.testing.assert_array_equal(waits, (workload.kind == Kind.SEND) & (workload.rank > 0))
    assert workload.notes == ()
    assert same(workload, read_goal(write_goal(workload), "again.goal"))


@pytest.mark.parametrize("text", ["/**/" * 40 + "x", "/* */\n" * 4000 + "x", "//\n" * 10**5 + "x"])
def test_comments_do_not_slow_down_the_detection_of_the_format(tmp_path: Path, text: str) -> None:
    path = tmp_path / "unnamed"
    path.write_text(text)
    with pytest.raises(InputError, match="is not in a known workload format"):
        read_workload(path)
    path.write_text(text[:-1] + "num_ranks 1 rank 0 {\n}")
    assert read_workload(path).num_ranks == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.goal", goal("x" * 10**5)),
        ("x.goal", goal("send " + "9" * 10**5)),
        ("x.goal", goal("x" * 10**5 + ": calc 1\n" + "x" * 10**5 + ": calc 1")),
        ("x.goal", goal("x" * 10**5 + " requires y")),
        ("x.tit", "0 compute " + "9" * 10**5),
        ("x.tit", "0 wait " + "9" * 10**5),
        ("x.tit", "0 init\n0 " + "x" * 10**5),
    ],
)
def test_long_words_are_shown_in_part(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as raised:
        read_workload(tmp_path / name)
    assert len(str(raised.value)) < 1000
