"""How `weft simulate` ends: complete, early or interrupted; and the files that it writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import polars as pl
import pytest
from numba.core import serialize
from tests.processes import PATIENCE_S
from tests.simulate_runs import RING, TOLD, TREE, run

from weft.cli import simulate as command
from weft.core.signals import AGAIN_S, raise_deferred, stoppable
from weft.sim.common.progress import Progress
from weft.study.experiment import check
from weft.study.experiment.run import ExperimentStage, perform
from weft.study.experiment.store import ResultWriter


@pytest.mark.parametrize("limit", [("--max-time", "2us"), ("--max-seconds", "1e-9")])
def test_a_run_that_stops_early_says_so_and_writes_nothing(capsys, tmp_path, limit) -> None:
    folder = tmp_path / "results"
    words = (TREE, "--workload", "alltoall:size=64KiB", "--out", folder, *limit)
    status, out, err = run(capsys, *words)
    assert (status, out) == (1, "")
    assert "run 1 (stopped): stopped " in err
    assert "of 240 messages had arrived; there is no result" in err
    assert not folder.exists()


def test_stopped_runs_among_others_have_no_tables(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    small, large = "alltoall:size=64", "alltoall:size=64MiB"
    status, out, _ = run(
        capsys, TREE, "--workload", small, "--workload", large, "--max-time", "1ms",
        "--out", folder,
    )  # fmt: skip
    assert status == 1
    assert "run 2 (stopped): stopped at" in out
    runs = pl.read_parquet(folder / "runs.parquet")
    assert runs["status"].to_list() == ["complete", "stopped"]
    assert runs["makespan_ns"].null_count() == 1
    assert runs["reason"].null_count() == 1
    assert sorted(path.name for path in folder.glob("messages*")) == ["messages-1.parquet"]
    assert pl.read_parquet(folder / "jobs.parquet")["run"].to_list() == [1]


def test_results_replace_earlier_ones_and_nothing_else(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    words = (TREE, "--workload", "barrier", "--out", folder)
    assert run(capsys, *words, "--engine", "updn", "--engine", "minhop")[0] == 0
    assert (folder / "messages-2.parquet").exists()
    (folder / "notes.txt").write_text("mine")
    (folder / "messages-of-mine.csv").write_text("mine")
    assert run(capsys, *words, "--no-messages")[0] == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "columns.csv", "experiment.toml", "jobs.parquet", "links.parquet", "messages-of-mine.csv",
        "notes.txt", "phases.parquet", "ranks.parquet", "runs.parquet",
    ]  # fmt: skip


def test_tables_of_other_programs_are_not_removed(capsys, tmp_path) -> None:
    (tmp_path / "messages.csv").write_text("mine")
    assert run(capsys, TREE, "--workload", "barrier", "--out", tmp_path)[0] == 0
    assert (tmp_path / "messages.csv").read_text() == "mine"


def test_folders_that_cannot_be_written_are_refused_before_the_run(capsys, tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "inner"):
        status, out, err = run(capsys, TREE, "--workload", RING, "--out", folder)
        assert (status, out) == (2, "")
        assert f"--out {folder}: {tmp_path / 'file'} is not a folder" in err


@pytest.mark.parametrize(
    ("key", "words", "message"),
    [
        ("folder", (), "{file}: output.folder {inner}: {taken} is not a folder"),
        ("folder", ("--out", ""), "--out: expected a folder, not an empty text"),
        ("html", (), "{file}: output.html {inner}: {taken} is not a folder"),
        ("html", ("--html", "/nowhere/page.html"), "--html /nowhere/page.html: the folder /nowher"),
    ],
)
def test_bad_output_is_named_as_it_was_given(capsys, tmp_path, key, words, message) -> None:
    file, taken = tmp_path / "e.toml", tmp_path / "file"
    taken.write_text("x")
    file.write_text(
        f'fabric = "{TREE}"\nlevel = "packet"\n[[job]]\nworkload = "{RING}"\n'
        f'[output]\n{key} = "{taken / "inner"}"\n'
    )
    status, out, err = run(capsys, file, *words)
    assert (status, out) == (2, "")
    assert message.format(file=file, taken=taken, inner=taken / "inner") in err


FOUR = (TREE, "--workload", RING, "--engine", "updn,minhop", "--level", "flow,static")


@pytest.mark.parametrize(
    ("doing", "number", "statuses", "message"),
    [
        ("routing", 1, None, "run 1 of 4 (updn), routing; no result is kept"),
        ("running", 2, ["complete", "stopped", "not run", "not run"],
         "run 2 of 4 (updn), running; 2 more not run"),
        ("routing", 3, ["complete", "complete", "stopped", "not run"],
         "run 3 of 4 (minhop), routing; 1 more not run"),
    ],
)  # fmt: skip
def test_an_interrupt_keeps_the_complete_runs(
    capsys, tmp_path, monkeypatch, doing, number, statuses, message
) -> None:
    folder = tmp_path / "results"

    def interrupted(*arguments: object, watch, **options: object):
        def see(stage: ExperimentStage) -> None:
            if stage.run is not None and (stage.run.number, stage.doing) == (number, doing):
                signal.raise_signal(signal.SIGINT)

        return perform(*arguments, watch=see, **options)

    monkeypatch.setattr(command, "perform", interrupted)
    status, out, err = run(capsys, *FOUR, "--out", folder)
    assert (status, err) == (130, f"weft: interrupted: {message}\n")
    if statuses is None:
        assert out == ""
        assert not folder.exists()
        return
    assert f"run {number} (stopped): interrupted, {doing}; there is no result" in out
    assert "(not run): interrupted" in out
    runs = pl.read_parquet(folder / "runs.parquet")
    assert runs["run"].to_list() == [1, 2, 3, 4]
    assert runs["status"].to_list() == statuses
    assert sorted(path.name for path in folder.glob("links*")) == [
        f"links-{each}.parquet" for each in range(1, number)
    ]
    assert not list(folder.glob(".unfinished*"))


@pytest.mark.parametrize(
    ("method", "statuses"),
    [("add", ["complete", *3 * ["not run"]]), ("keep", 4 * ["complete"])],
)
def test_an_interrupt_waits_until_a_run_is_stored(
    capsys, tmp_path, monkeypatch, method, statuses
) -> None:
    real, calls = getattr(ResultWriter, method), []

    def interrupted(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(ResultWriter, method, interrupted)
    status, out, err = run(capsys, *FOUR, "--out", tmp_path)
    assert status == 130
    assert pl.read_parquet(tmp_path / "runs.parquet")["status"].to_list() == statuses
    if method == "keep":  # nothing was printed
        assert (out, f"; results are in {tmp_path}\n" in err) == ("", True)
    else:
        assert "weft: interrupted: run 1 of 4" in err


def test_remaining_time_extrapolates_the_speed_so_far(monkeypatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    (only,) = check({"fabric": TREE, "job": [{"workload": RING}]}).runs
    stage = ExperimentStage(1, only)
    stage.at("running")
    assert (stage.outlook(), stage.left_s()) == ("running", None)

    def report(after_s: float, arrived: int, delivered: float | None = None) -> str:
        clock[0] = 100.0 + after_s
        stage.at("running", Progress(0, 9, arrived, 100, 5e6 * arrived, delivered))
        return stage.outlook().partition("arrived")[2]

    # The first 30 s, in which kernels are compiled, are not counted.
    assert report(30, 0) == "; remaining time unknown"
    assert report(30.9, 50) == "; remaining time unknown"
    assert report(40, 0, 0.004) == " (0% of all bytes); remaining time unknown"
    assert report(40, 0, 0.01) == " (1% of all bytes); about 16 min left"
    assert report(40, 10) == "; about 90 s left"
    assert report(40, 0, 0.5) == " (50% of all bytes); about 10 s left"
    assert report(7230, 50) == "; about 2.0 h left"
    stage.limit_ns = 1e9
    assert report(40, 0, 0.1) == " (10% of all bytes); about 90 s left"
    assert report(40, 100, 0.1) == " (10% of all bytes); about 10 s left"  # half of limit_ns
    stage.limit_s = 45.0
    assert report(40, 100, 0.1) == " (10% of all bytes); about 5 s left"
    assert report(50, 0, 0.0) == " (0% of all bytes); about 0 s left"
    stage.at("running")  # the next run
    stage.limit_s = None
    assert report(60, 0) == "; remaining time unknown"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_a_long_run_and_leaves_no_files(tmp_path, number, status, word) -> None:
    folder = tmp_path / "results"
    words = ["simulate", "xgft:2;8,8;1,8", "--workload", "alltoall:size=1MiB,count=400"]
    child = subprocess.Popen(
        [sys.executable, "-c", TOLD, *words, "--out", str(folder), "--progress"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert child.stderr is not None
    while "of simulated time" not in (line := child.stderr.readline()):
        assert line, "it ended before it ran"
    child.send_signal(number)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (status, "")
    assert f"weft: {word}: " in err
    assert not folder.exists()


def test_a_deferred_signal_is_raised_between_two_calls_of_a_kernel() -> None:
    """A signal sent again would be handled when the next call returns, which is unsafe too."""
    code = "def called():\n    return signal.raise_signal(signal.SIGINT)\n"
    space: dict[str, Any] = {"signal": signal, "__name__": serialize.__name__}
    exec(compile(code, serialize.__file__, "exec"), space)
    ended = []

    def loop() -> None:
        space["called"]()
        ended.append("called")
        raise_deferred()
        ended.append("raised nothing")

    with pytest.raises(KeyboardInterrupt), stoppable():
        loop()
    time.sleep(2 * AGAIN_S)  # the signal is not sent again
    assert ended == ["called"]


def test_a_signal_while_compiled_code_returns_is_kept_for_later(capsys, monkeypatch) -> None:
    """An exception raised while a kernel returns crashes the program: it is raised afterwards."""
    code = "def called():\n    return signal.raise_signal(signal.SIGINT)\n"
    beyond: list[bool] = []
    space: dict[str, Any] = {"signal": signal, "__name__": serialize.__name__}
    exec(compile(code, serialize.__file__, "exec"), space)

    def perform(*arguments: object, **options: object):
        space["called"]()
        beyond.append(True)
        time.sleep(60)  # the signal is raised again
        yield

    monkeypatch.setattr(command, "perform", perform)
    before = signal.getsignal(signal.SIGINT)
    status, _, err = run(capsys, TREE, "--workload", RING)
    assert status == 130
    assert "weft: interrupted: " in err
    assert beyond
    assert signal.getsignal(signal.SIGINT) is before
