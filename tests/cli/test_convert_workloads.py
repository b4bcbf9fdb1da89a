"""`weft convert` with workloads."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.workload_runs import same

from weft.cli import main
from weft.workload.formats import read_workload
from weft.workload.load import load_workload

PING = "0 init\n0 compute 5\n0 send 1 3 100\n1 init\n1 recv 0 3 100\n"


def test_a_trace_becomes_a_schedule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, schedule = tmp_path / "ping.tit", tmp_path / "ping.goal"
    trace.write_text(PING)
    assert main(["convert", str(trace), "-o", str(schedule)]) == 0
    assert capsys.readouterr().err == "note: ranks compute at 1e+09 flop/s in 1 computations\n"
    assert same(read_workload(schedule), read_workload(trace))
    assert main(["convert", str(schedule), "--to", "goal"]) == 0
    assert capsys.readouterr().out == schedule.read_text()


def test_options_of_both_formats_are_accepted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "ping.txt"
    trace.write_text(PING)
    words = ["convert", str(trace), "--format", "tit:flops_per_s=4e9", "--ranks", "2", "--to"]
    assert main([*words, "goal:whole_ns=true"]) == 0
    assert "l0: calc 1\n" in capsys.readouterr().out
    assert main([*words, "goal"]) == 2
    assert "GOAL durations are integer nanoseconds" in capsys.readouterr().err
    words[words.index("2")] = "3"
    assert main([*words, "goal"]) == 2
    assert "has 2 ranks; expected 3" in capsys.readouterr().err


def test_a_spec_becomes_a_schedule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "ring.goal"
    spec = "allreduce:size=1KiB,algorithm=ring"
    assert main(["convert", spec, "--ranks", "4", "-o", str(path)]) == 0
    assert len(read_workload(path).messages) == len(load_workload(spec, 4).messages) == 24
    assert main(["convert", spec, "-o", str(path)]) == 2
    assert "needs a number of ranks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["xgft:1;4;1", "--ranks", "4"], "--ranks requires a workload"),
        (
            ["barrier", "--ranks", "4", "--to", "goal", "--fail-switch", "x"],
            "faults require a fabric",
        ),
        (["barrier", "--ranks", "4", "--to", "goal:whole=1"], "has no option 'whole'"),
        (
            ["barrier", "--ranks", "4", "--to", "gaol"],
            "'gaol' (did you mean 'goal'?)",
        ),
    ],
)
def test_options_that_do_not_apply_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["convert", *words]) == 2
    assert message in capsys.readouterr().err
