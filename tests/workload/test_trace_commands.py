"""Commands of the trace language, and traces as a workload format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.work import lines_run

from weft.cli import main
from weft.core.errors import InputError, NotApplicable
from weft.workload import Workload, WorkloadBuilder
from weft.workload.formats import read_workload, write_workload
from weft.workload.trace import TraceError, dense_text, folded_text, trace_workload
from weft.workload.workload import same

PIPELINE = (Path(__file__).parents[2] / "examples" / "pipeline.trace").read_text()


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.trace"
    path.write_text(PIPELINE)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main(["trace", *map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_check_prints_a_summary_of_a_program(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "check", pipeline, "--ranks", 4, "--set", "batches=3")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["name", "pipeline"],
        ["ranks", "4"],
        ["operations", "30"],
        ["messages", "9"],
        ["bytes", "9,437,184"],
    ]


def test_dense_and_fold_are_inverse(
    pipeline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dense, folded = tmp_path / "dense.trace", tmp_path / "folded.trace"
    assert run(capsys, "dense", pipeline, "--ranks", 6, "-o", dense)[0] == 0
    assert run(capsys, "fold", dense, "-o", folded)[0] == 0
    assert len(dense.read_text().splitlines()) > 100
    assert folded.read_text().splitlines()[2:] == [
        "",
        "0: FOR i = 0..7",
        "  CALC 2000000",
        "  SEND 1048576 TO 1 TAG i",
        "END",
        "",
        "1..4: FOR i = 0..7",
        "  RECV 1048576 FROM rank - 1 TAG i",
        "  CALC 2000000",
        "  SEND 1048576 TO rank + 1 TAG i",
        "END",
        "",
        "5: FOR i = 0..7",
        "  RECV 1048576 FROM 4 TAG i",
        "  CALC 2000000",
        "END",
    ]
    expected = read_workload(pipeline, ranks=6)
    assert same(read_workload(dense), expected)
    assert same(read_workload(folded), expected)
    _, out, _ = run(capsys, "dense", folded)
    assert out == dense.read_text()


def test_format_writes_the_canonical_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.trace"
    path.write_text("for i=0..3\ncalc  (1+i)*2#two\n\n\nend")
    canonical = "FOR i = 0..3\n  CALC (1 + i) * 2  # two\nEND\n"
    assert run(capsys, "format", path) == (0, canonical, "")
    status, out, err = run(capsys, "format", path, "--check")
    assert (status, out) == (1, "")
    assert "x.trace is not in the canonical form" in err
    assert run(capsys, "format", path, "-i") == (0, "", "")
    assert path.read_text() == canonical
    assert run(capsys, "format", path, "--check")[0] == 0


def test_a_broken_file_gives_one_error_line_and_is_not_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.trace"
    path.write_text("CALC 1\nCLAC 2\n")
    for command in (["format", "-i"], ["dense"], ["fold"], ["check"]):
        status, out, err = run(capsys, *command, path)
        assert (status, out) == (2, "")
        assert err == (
            f"weft: error: {path}:2: column 1: unknown statement 'CLAC' (did you mean 'CALC'?); "
            "in 'CLAC 2'\n"
        )
    assert path.read_text() == "CALC 1\nCLAC 2\n"
    assert [item.name for item in tmp_path.iterdir()] == ["x.trace"]


def test_other_formats_are_folded_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.goal"
    path.write_text(
        "num_ranks 2\nrank 0 {\nl1: send 8b to 1\nl2: calc 5\n}\nrank 1 {\nrecv 8b from 0\n}\n"
    )
    status, out, _ = run(capsys, "fold", path, "--format", "goal")
    assert status == 0
    assert same(trace_workload(out), read_workload(path))


def test_a_trace_is_recognised_and_read_with_options(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text("# a note\nPARAM n = 1\nCALC n STD 1\n")
    assert read_workload(path, ranks=3).num_ops == 3
    set_ = read_workload(path, ranks=3, seed=4, parameters=("n=1us",))
    assert (set_.duration_ns > 900).all()
    for parameters, message in [
        ("n", "'n' is not a parameter; expected name=value"),
        ("n=1,n=2", "parameter n is set twice"),
    ]:
        with pytest.raises(InputError, match=message):
            read_workload(path, ranks=3, parameters=tuple(parameters.split(",")))
    with pytest.raises(TraceError, match="expands to more than 2 operations"):
        read_workload(path, ranks=3, max_operations=2)


def test_any_workload_is_written_and_read_back(tmp_path: Path) -> None:
    builder = WorkloadBuilder(3, name='a "name"')
    builder.notes.append("something\nassumed")
    builder.phase("one")
    builder.put([0, 1, 2], [1, 2, 0], 10, release_ns=[1.5, 0.0, 1e20])
    workload = builder.build()
    for fold in (False, True):
        path = tmp_path / f"{fold}.trace"
        write_workload(workload, path, fold=fold)
        assert path.read_text().startswith("# something assumed\nNAME \"a 'name'\"\nRANKS 3\n")
        again = read_workload(path)
        assert same(again, workload)
        assert again.phase_names == ("", "one")


@pytest.mark.parametrize("sizes", [[2**54, 2**54 + 1, 2**54 + 1, 2**54 + 7], [2**53 + 1] * 4])
def test_sizes_beyond_what_floats_hold_are_folded_exactly(sizes: list[int]) -> None:
    builder = WorkloadBuilder(4)
    builder.put(range(4), [1, 2, 3, 0], sizes)
    workload = builder.build()
    assert same(trace_workload(folded_text(workload)), workload)


def test_lines_that_look_alike_and_do_not_repeat_are_folded_in_linear_time() -> None:
    sizes = np.random.default_rng(1).integers(10**6, size=400).tolist()
    builder = WorkloadBuilder(1)
    for size in sizes:
        builder.calc(0, size)
        builder.isend(0, 0, size)
        builder.irecv(0, 0, size)
        builder.waitall([0])
    workload = builder.build()
    # Each of 1600 lines is compared with at most as many lines before it as a loop may have.
    assert lines_run(lambda: folded_text(workload)) < 6_000_000
    assert same(trace_workload(folded_text(workload)), workload)


def many_requests(count: int) -> Workload:
    builder = WorkloadBuilder(1)
    requests = [builder.isend(0, 0, 1, tag) for tag in range(count)]
    requests += [builder.irecv(0, 0, 1, tag) for tag in range(count)]
    for handle in requests:
        builder.wait(0, handle)
        builder.calc(0, 1)
    return builder.build()


def test_many_requests_are_named_in_linear_time() -> None:
    few, many = many_requests(500), many_requests(2000)
    assert lines_run(lambda: dense_text(many)) < 5 * lines_run(lambda: dense_text(few))
    text = dense_text(many)
    assert "AS r3999\n" in text
    assert same(trace_workload(text), many)


def test_workloads_that_a_trace_cannot_express_are_refused() -> None:
    builder = WorkloadBuilder(1)
    builder.phase('a "phase"')
    with pytest.raises(NotApplicable, match="cannot express the name"):
        dense_text(builder.build())
    builder = WorkloadBuilder(1)
    builder.operations([0], [0], duration_ns=1.0, release_ns=5.0)
    for write in (dense_text, folded_text):
        with pytest.raises(NotApplicable, match=r"operation 0 of rank 0 .*release time"):
            write(builder.build())


def test_fold_finds_rules_over_ranks() -> None:
    ranks = np.arange(12)
    builder = WorkloadBuilder(12)
    x, y = ranks // 4, ranks % 4
    builder.put(ranks, (ranks + 5) % 12, 7)
    builder.put(ranks, 11 - ranks, 7)
    builder.put(ranks, (x + 1) % 3 * 4 + y, 7)
    builder.put(ranks, x * 4 + (y - 1) % 4, 7)
    builder.put(ranks, x * 4 + (y ^ 2), 100 + 8 * ranks)
    builder.put(ranks, 3, 7)
    builder.put(ranks, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], 7)
    text = folded_text(builder.build())
    assert text.splitlines()[2:] == [
        "PUT 7 TO (rank + 5) % size",
        "PUT 7 TO 11 - rank",
        "PUT 7 TO (rank + 4) % size",
        "PUT 7 TO rank + (rank - 1) % 4 - rank % 4",
        "PUT 100 + 8 * rank TO xor(rank, 2)",
        "PUT 7 TO 3",
        "1, 3: PUT 7 TO 1",
        "6: PUT 7 TO 2",
        "0, 9: PUT 7 TO 3",
        "2: PUT 7 TO 4",
        "4, 8, 10: PUT 7 TO 5",
        "7: PUT 7 TO 6",
        "11: PUT 7 TO 8",
        "5: PUT 7 TO 9",
    ]


def test_fold_finds_nested_loops() -> None:
    inner = "  FOR j = 0..4\n    PUT 8 * i + j + 1 TO (rank + j) % size TAG 3 * i\n  END\n"
    text = f"RANKS 6\n\nFOR i = 0..3\n  CALC 5\n{inner}  WAITALL\nEND\n"
    assert folded_text(trace_workload(text)).partition("\n")[2] == text


def test_an_alltoall_is_one_line() -> None:
    text = 'NAME "trace"\nRANKS 12\n\nFOR i = 0..10\n  SENDRECV 8 TO (rank + i + 1) % size FROM '
    text += "(rank + 11 - i) % size TAG -1\nEND\n"
    assert folded_text(trace_workload("RANKS 12\nALLTOALL 8 USING pairwise")) == text


@pytest.mark.parametrize("name", ["binary-tree-32.goal", "smpi-tit-32"])
def test_real_traces_are_written_and_folded_exactly(shared: Path, name: str) -> None:
    workload = read_workload(shared / "traces" / name)
    dense, folded = dense_text(workload), folded_text(workload)
    assert same(trace_workload(dense), workload)
    assert same(trace_workload(folded), workload)
    assert len(folded) < len(dense) / 2


@pytest.mark.parametrize(
    "body",
    [
        "SEND 1 TO 1\nRECV 2 FROM 1\nCALC 5",
        "SENDRECV 1 TO 1, 2 FROM 1 TAG 4\nCALC 5",
        "RECV 2 FROM 1\nSEND 1 TO 1\nCALC 5",
        "CALC 3\nIRECV 2 FROM 1\nISEND 1 TO 1\nCALC 4\nWAITALL\nCALC 5",
        "CALC 3\nIRECV 2 FROM 1\nISEND 1 TO 1\nWAITALL\nCALC 5",
        "CALC 3\nIRECV 2 FROM 1\nSEND 1 TO 1\nWAITALL\nCALC 5",
        "CALC 3\nIRECV 2 FROM 1 AS r0\nISEND 1 TO 1\nWAIT r0\nCALC 5\nWAITALL",
        "PUT 1 TO 1 AS r0\nPUT 2 TO 1 AS r1\nPUT 3 TO 1\nCALC 5\nWAIT r0, r1\nCALC 6\nWAITALL",
        "PUT 1 TO 1 AS r0\nWAIT r0\nPUT 1 TO 1 AS r0\nCALC 7\nWAIT r0\nCALC 8",
        "PUT 1 TO 1 RELEASE 1.5\nRODREQUEST KEY 4\nCALC 5 CPU 2\nRODDONE KEY 4",
    ],
)
def test_dense_text_restores_statements(body: str) -> None:
    tagged = " TAG 4" if "TAG 4" in body else ""
    lines = {"SEND": f"RECV 1 FROM 0{tagged}", "RECV": f"SEND 2 TO 0{tagged}"}
    words = body.replace("SENDRECV", "RECV SEND")
    partner = [line for word, line in lines.items() if f"{word} " in words]
    other = "\n".join(f"I{line}" for line in partner) or "CALC 1"
    blocks = [
        f"{rank}:\n" + "".join(f"  {line}\n" for line in text.splitlines()) + "END\n"
        for rank, text in enumerate((body, other))
    ]
    text = 'NAME "trace"\nRANKS 2\n' + "".join(blocks)
    dense = dense_text(trace_workload(text))
    assert dense.partition("1:\n")[0] == text.partition("1:\n")[0]


@pytest.mark.parametrize(
    "text",
    [
        "CALC 1\nCALC 1\nCALC 1",
        "CALC 1\nCALC 2",
        "PUT 1 TO 0\nCALC 1\nPUT 2 TO 0\nCALC 1\nPUT 4 TO 0\nCALC 1",
        "REPEAT 4\n  CALC 1\nEND",
        "FOR i = 0..3\n  PUT i + 1 TO 0\nEND",
        "REPEAT 2\n  CALC 1\n  CALC 2\n  CALC 3\nEND",
    ],
)
def test_loops_are_made_where_they_save_lines(text: str) -> None:
    assert folded_text(trace_workload(f"RANKS 1\n{text}")).partition("\n\n")[2] == text + "\n"
