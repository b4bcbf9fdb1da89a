"""`weft study` as a process: signals, watching from outside, and stores that cannot be used."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.processes import Starter, end, largest_file
from tests.study_kills import rows
from tests.study_processes import Study, computed_here
from tests.study_runs import logged, prepared, quick_file, registered

from weft.cli import main, study_progress
from weft.study.runs.store import INDEX, PROGRESS


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """Return a process that forks commands, whose runs write to one log."""
    log = tmp_path_factory.mktemp("log") / "log"
    with closing(Starter(prepared(log), fork=True)) as forker:
        yield forker


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered():
        yield


# -- signals -----------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_finishes_active_runs(
    starter: Starter, tmp_path: Path, workers: int, number: signal.Signals, status: int
) -> None:
    study = Study(starter, quick_file(tmp_path, 100, seconds=0.1), "--workers", workers)
    study.wait(lambda: study.stored() > 2)
    os.killpg(study.pid, number)  # as a terminal and batch systems do
    said = study.wait_end()
    assert "finishing the active runs" in said
    assert f"exit status {status}" in said
    assert "Traceback" not in said
    begun, ended = logged(study.log)
    assert sorted(begun) == sorted(ended)
    stored = rows(study.store)
    assert len(stored) == len(ended) < 100
    assert f"{100 - len(stored):,} runs left" in said
    state = json.loads((study.store / PROGRESS).read_text())
    assert (state["ended"], state["stopping"]) == (True, True)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_second_signal_ends_active_runs_at_once(
    starter: Starter, tmp_path: Path, workers: int
) -> None:
    study = Study(starter, quick_file(tmp_path, 5, seconds=3600.0), "--workers", workers)
    study.wait(lambda: len(logged(study.log)[0]) >= max(workers, 1))
    os.killpg(study.pid, signal.SIGINT)
    study.wait(lambda: "finishing the active runs" in study.said)
    os.killpg(study.pid, signal.SIGINT)
    said = study.wait_end()
    assert "exit status 130" in said
    assert "5 runs left" in said
    assert rows(study.store) == {}


def test_an_interrupted_study_goes_on_where_it_was(starter: Starter, tmp_path: Path) -> None:
    study = Study(starter, quick_file(tmp_path, 20, seconds=0.1), "--workers", 2)
    study.wait(lambda: study.stored() > 2)
    os.kill(study.pid, signal.SIGINT)
    study.wait_end()
    before = rows(study.store)
    main(["study", str(study.file), "--workers", "0"])
    after = rows(study.store)
    assert before.items() < after.items()
    assert after == computed_here(study.file, tmp_path / "here")


# -- watching ----------------------------------------------------------------------------------


def test_progress_is_watched_from_outside(
    starter: Starter, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(study_progress, "LINE_S", 0.0)
    study = Study(starter, quick_file(tmp_path, 60, seconds=0.05), "--workers", 2)
    study.wait(lambda: study.stored() > 0)
    assert main(["study", str(study.file), "--watch"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"weft: \d+ of 60 runs; .*[\d.]+ runs/s; about \d+ s left", said), said
    assert "60 runs" in study.wait_end()
    assert len(rows(study.store)) == 60
    assert main(["study", str(study.file), "--watch"]) == 0
    assert "nothing computes in " in capsys.readouterr().out


def test_a_killed_process_is_reported_by_those_who_watch(
    starter: Starter, tmp_path: Path, capsys
) -> None:
    study = Study(starter, quick_file(tmp_path, 60, seconds=0.05), "--workers", 0)
    study.wait(lambda: study.stored() > 0)
    study.wait(lambda: json.loads((study.store / PROGRESS).read_text())["done"])
    end(study.pid)
    assert main(["study", str(study.file), "--watch"]) == 1
    assert re.search(
        rf"process {study.pid} on \S+ has died after [1-9]\d* of 60 runs", capsys.readouterr().err
    )
    # Another process takes the store, and those who watch do not disturb it.
    study.wait_end()
    assert main(["study", str(study.file), "--workers", "0"]) == 1
    assert len(rows(study.store)) == 60


def test_rate_and_time_left_are_printed_without_a_terminal(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(study_progress, "LINE_S", 0.2)
    file = quick_file(tmp_path, 30, seconds=0.06)
    main(["study", str(file), "--workers", "0"])
    said = capsys.readouterr()
    assert re.search(r"weft: \d+ of 30 runs; .*[\d.]+ runs/s; about \d s left", said.err)
    assert re.search(r"computed 30 runs in \d s \([\d.]+ runs/s\)", said.out)


# -- stores that cannot be used ----------------------------------------------------------------


def test_a_second_study_of_one_store_is_refused_and_the_first_goes_on(
    starter: Starter, tmp_path: Path, capsys
) -> None:
    study = Study(starter, quick_file(tmp_path, 40, seconds=0.05), "--workers", 0)
    study.wait(lambda: study.stored() > 0)
    assert main(["study", str(study.file), "--workers", "0"]) == 2
    assert f"is in use by process {study.pid} on " in capsys.readouterr().err
    study.wait_end()
    assert len(rows(study.store)) == 40


def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path, capsys) -> None:
    file = quick_file(tmp_path, 5)
    main(["study", str(file), "--workers", "0"])
    index = file.with_suffix(".study") / INDEX
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = index.read_bytes()
    capsys.readouterr()
    for words in ([], ["--dry-run"], ["--watch"], ["--collect"]):
        assert main(["study", str(file), *words]) == 2
        said = capsys.readouterr().err
        assert "is a store of format 99, made by a later version of weft" in said
    assert index.read_bytes() == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [0, 2000, 120_000, 160_000])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_full_disk_ends_the_study_and_loses_nothing(
    tmp_path: Path, capsys, size: int, workers: int
) -> None:
    file = quick_file(tmp_path, 60)
    with largest_file(size):
        assert main(["study", str(file), "--workers", str(workers)]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert re.search(r"quick\.study.* (cannot be|full|I/O)", said), said
    store = file.with_suffix(".study")
    stored = rows(store) if size > 100_000 else {}
    assert bool(stored) == (size > 100_000)
    assert main(["study", str(file), "--workers", "0"]) == 1
    assert stored.items() < rows(store).items()
    assert rows(store) == computed_here(file, tmp_path / "here")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up the right to write everywhere, if this process has it."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, capsys) -> None:
    file = quick_file(tmp_path, 5)
    store = file.with_suffix(".study")
    here = computed_here(file, store)
    shared = Path(tempfile.gettempdir())
    above = [each for each in tmp_path.parents if shared in each.parents]
    for path in (tmp_path, *above, store, store / "tables"):
        path.chmod(0o755)
    for path in (store / "tables").iterdir():
        path.chmod(0o555)
    store.chmod(0o555)
    tmp_path.chmod(0o555)
    capsys.readouterr()
    try:
        with unprivileged():
            for folder in (store, tmp_path / "new"):
                words = ["study", str(file), "--workers", "0", "--store", str(folder)]
                assert main(words) == 2
                said = capsys.readouterr().err
                assert re.search(r"cannot be written to: Permission denied", said), said
            assert rows(store) == here  # it can be read
    finally:
        for path in (tmp_path, store):
            path.chmod(0o755)
    assert not (tmp_path / "new").exists()
