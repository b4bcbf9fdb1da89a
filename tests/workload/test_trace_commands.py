"""Commands of the trace language, and traces as a workload format."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.work import lines_run
from tests.workload_runs import same

from weft.cli import main
from weft.core.errors import InputError, NotApplicable
from weft.workload import Workload, WorkloadBuilder
from weft.workload.formats import read_workload, write_workload
from weft.workload.trace import TraceError, dense_text, trace_workload

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


def test_dense_writes_the_operations_of_each_rank(
    pipeline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dense = tmp_path / "dense.trace"
    assert run(capsys, "dense", pipeline, "--ranks", 6, "-o", dense)[0] == 0
    assert len(dense.read_text().splitlines()) > 100
    assert same(read_workload(dense), read_workload(pipeline, ranks=6))


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
    for command in (["format", "-i"], ["dense"], ["check"]):
        status, out, err = run(capsys, *command, path)
        assert (status, out) == (2, "")
        assert err == (
            f"weft: error: {path}:2: column 1: unknown statement 'CLAC' (did you mean 'CALC'?); "
            "in 'CLAC 2'\n"
        )
    assert path.read_text() == "CALC 1\nCLAC 2\n"
    assert [item.name for item in tmp_path.iterdir()] == ["x.trace"]


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
    path = tmp_path / "x.trace"
    write_workload(workload, path)
    assert path.read_text().startswith("# something assumed\nNAME \"a 'name'\"\nRANKS 3\n")
    again = read_workload(path)
    assert same(again, workload)
    assert again.phase_names == ("", "one")


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
    with pytest.raises(NotApplicable, match=r"operation 0 of rank 0 .*release time"):
        dense_text(builder.build())


@pytest.mark.parametrize("name", ["binary-tree-32.goal", "smpi-tit-32"])
def test_real_traces_are_written_exactly(shared: Path, name: str) -> None:
    workload = read_workload(shared / "traces" / name)
    assert same(trace_workload(dense_text(workload)), workload)
