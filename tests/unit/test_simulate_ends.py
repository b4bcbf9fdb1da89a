"""How `weft simulate` ends: early, interrupted, and what it leaves in its folder."""

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
from tests.simulate_runs import RING, TOLD, TREE, run

from weft.cli import simulate as command
from weft.experiment.run import perform


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


def test_tables_of_others_are_not_removed(capsys, tmp_path) -> None:
    (tmp_path / "messages.csv").write_text("mine")
    assert run(capsys, TREE, "--workload", "barrier", "--out", tmp_path)[0] == 0
    assert (tmp_path / "messages.csv").read_text() == "mine"


def test_folders_that_cannot_be_written_are_refused_before_the_run(capsys, tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "inner"):
        status, out, err = run(capsys, TREE, "--workload", RING, "--out", folder)
        assert (status, out) == (2, "")
        assert f"--out {folder}: {tmp_path / 'file'} is no folder" in err


@pytest.mark.parametrize(
    ("key", "words", "said"),
    [
        ("folder", (), "{file}: output.folder {inner}: {taken} is no folder"),
        ("folder", ("--out", ""), "--out: expected a folder, not an empty text"),
        ("html", (), "{file}: output.html {inner}: {taken} is no folder"),
        ("html", ("--html", "/nowhere/page.html"), "--html /nowhere/page.html: the folder /nowher"),
    ],
)
def test_bad_output_is_named_as_it_was_given(capsys, tmp_path, key, words, said) -> None:
    file, taken = tmp_path / "e.toml", tmp_path / "file"
    taken.write_text("x")
    file.write_text(
        f'fabric = "{TREE}"\nlevel = "packet"\n[[job]]\nworkload = "{RING}"\n'
        f'[output]\n{key} = "{taken / "inner"}"\n'
    )
    status, out, err = run(capsys, file, *words)
    assert (status, out) == (2, "")
    assert said.format(file=file, taken=taken, inner=taken / "inner") in err


def test_an_interrupt_says_how_far_it_came_and_keeps_nothing(capsys, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "results"

    def interrupted(*arguments: object, stage, **options: object):
        for outcome in perform(*arguments, stage=stage, **options):
            yield outcome
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "perform", interrupted)
    status, out, err = run(
        capsys, TREE, "--workload", RING, "--engine", "updn", "--engine", "minhop", "--out", folder
    )
    assert (status, out) == (130, "")
    assert "weft: interrupted: run 1 of 2 (updn), at " in err
    assert "480 of 480 messages arrived; no result is kept" in err
    assert not folder.exists()


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_a_long_run_and_leaves_nothing(tmp_path, number, status, said) -> None:
    folder = tmp_path / "results"
    words = ["simulate", "xgft:2;16,16;1,16", "--workload", "alltoall:size=1MiB,count=20"]
    child = subprocess.Popen(
        [sys.executable, "-c", TOLD, *words, "--out", str(folder), "--progress"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert child.stderr is not None
    while "of simulated time" not in (told := child.stderr.readline()):
        assert told, "it ended before it ran"
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (status, "")
    assert f"weft: {said}: " in err
    assert not folder.exists()


def test_a_signal_while_compiled_code_returns_is_kept_for_later(capsys, monkeypatch) -> None:
    """Raising in what a kernel calls as it returns crashes: it must be raised after that."""
    code = "def called():\n    return signal.raise_signal(signal.SIGINT)\n"
    beyond: list[bool] = []
    space: dict[str, Any] = {"signal": signal, "__name__": serialize.__name__}
    exec(compile(code, serialize.__file__, "exec"), space)

    def perform(*arguments: object, **options: object):
        space["called"]()
        beyond.append(True)
        time.sleep(60)  # the signal comes again
        yield

    monkeypatch.setattr(command, "perform", perform)
    before = signal.getsignal(signal.SIGINT)
    status, _, err = run(capsys, TREE, "--workload", RING)
    assert status == 130
    assert "weft: interrupted: " in err
    assert beyond
    assert signal.getsignal(signal.SIGINT) is before
