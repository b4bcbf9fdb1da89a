"""`weft store check` and `prune`: what is wrong, what would change, and what may go."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.stores import add_runs, make_store, packed_of, square, task_of

from weft.cli.entry import main
from weft.core.errors import InputError
from weft.study import command_registry
from weft.study.runs.execute import StudyProgress, execute
from weft.study.runs.executors import InProcess, Limits
from weft.study.runs.rows import StoredRun, StoreError
from weft.study.runs.store import Store, writer
from weft.study.runs.task import Packed, RunResult, Task
from weft.study.runs.upkeep import check, computed_again, removable, sample


def files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files but those that SQLite makes while it reads."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def table_of(folder: Path, key: str) -> Path:
    (path,) = (folder / "tables").glob(f"*/{key}.*")
    return path


def test_a_sound_store_has_no_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_runs(tmp_path, range(3))
    with Store(tmp_path) as store:
        found = check(store)
    assert (found.faults, found.notes, found.runs, found.tables) == ([], [], 3, 3)
    assert main(["store", "check", str(tmp_path)]) == 0
    assert "read 3 runs and 3 tables" in capsys.readouterr().out


def test_what_a_killed_writer_had_begun_is_undone_for_a_reader(tmp_path: Path) -> None:
    """A store is created with a rollback journal, which may be left if the process is killed."""
    make_store(tmp_path / "begun", 30)
    index = tmp_path / "begun" / "index.sqlite"
    with closing(sqlite3.connect(index, isolation_level=None)) as writing:
        for command in ("journal_mode = DELETE", "cache_size = 1", "synchronous = FULL"):
            writing.execute(f"PRAGMA {command}")
        writing.execute("BEGIN")
        writing.execute("UPDATE runs SET reason = hex(zeroblob(3000))")
        shutil.copytree(tmp_path / "begun", tmp_path / "killed")
    assert (tmp_path / "killed" / "index.sqlite-journal").stat().st_size > 0
    with Store(tmp_path / "killed") as store:
        assert store.query("SELECT count(*) FROM runs WHERE reason GLOB '00*'") == [(0,)]


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(("harm", "word"), [(damage, "damaged"), (Path.unlink, "missing")])
def test_damaged_tables_are_found_and_their_runs_can_be_pruned(
    tmp_path: Path,
    harm: Callable[[Path], None],
    word: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = add_runs(tmp_path, range(3))
    harm(table_of(tmp_path, keys[1]))
    assert main(["store", "check", str(tmp_path)]) == 1
    assert f"wrong: run {keys[1]}: table jobs is {word}\n" in capsys.readouterr().out
    assert main(["store", "prune", str(tmp_path), "--damaged"]) == 0
    with Store(tmp_path) as store:
        assert {run.key for run in store.runs()} == {keys[0], keys[2]}
    assert main(["store", "check", str(tmp_path)]) == 0
    assert "study squares: 1 of 3 runs are not computed yet" in capsys.readouterr().out


def test_changed_inputs_are_faults_of_the_runs_that_use_them(tmp_path: Path) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("1")
    second.write_text("2")
    folder = tmp_path / "store"
    keys = add_runs(folder, range(2), study="one", input=str(first))
    add_runs(folder, range(3), study="two", input=str(second))
    add_runs(folder, range(9), study=None, input=[str(second), "unused"])
    first.write_text("changed")
    with Store(folder) as store:
        found = check(store)
        assert found.faults == [
            f"{first}: has changed since it was read by 2 runs, such as {min(keys)[:8]}"
        ]
        second.unlink()
        found = check(store)
    assert len(found.faults) == 1
    assert [note for note in found.notes if "second.txt: cannot be read: No such file" in note]
    # The runs of the changed file are computed again as other runs; those before are in no study.
    add_runs(folder, range(2), study="one", input=str(first))
    with Store(folder) as store:
        found = check(store)
        assert found.faults == []
        assert [note for note in found.notes if "read by 2 runs of no study" in note]
        assert set(removable(store, alone=True)) >= set(keys)


def test_files_of_killed_processes_are_noted_and_only_they_are_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (key,) = add_runs(tmp_path, [1])
    table = table_of(tmp_path, key)
    orphan = table.with_name("0" * 32 + ".jobs.01234567.parquet")
    older = table.with_name(f"{key}.jobs.01234567.parquet")
    unfinished = table.with_name(f".{table.name}.123-89abcdef.tmp")
    progress = tmp_path / ".progress.json.123-89abcdef.tmp"
    left = [orphan, older, unfinished, progress]
    (tmp_path / "incoming").mkdir()
    others = [
        table.with_name("notes.txt"), table.with_name(".hidden"), tmp_path / "report.html",
        tmp_path / "incoming" / ".x.123-89abcdef.tmp",
    ]  # fmt: skip
    for path in (*left, *others):
        path.write_text("text")
    assert main(["store", "check", str(tmp_path)]) == 0
    assert "note: 4 files of no run" in capsys.readouterr().out
    before = files(tmp_path)
    assert main(["store", "prune", str(tmp_path), "--dry-run"]) == 0
    assert files(tmp_path) == before
    assert "would remove 0 runs and 4 files of no run" in capsys.readouterr().out
    assert main(["store", "prune", str(tmp_path)]) == 0
    assert before.keys() - files(tmp_path).keys() == {
        str(path.relative_to(tmp_path)) for path in left
    }
    with Store(tmp_path) as store:
        assert check(store).notes == []


def test_prune_removes_the_runs_to_which_all_conditions_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = add_runs(tmp_path, range(4))
    monkeypatch.setattr("weft.study.runs.task.build_of", lambda *_: "0.0.1+older")
    old = add_runs(tmp_path, range(2), study=None)
    assert old == keys[:2]
    with Store(tmp_path, write=True) as store:
        store.add(
            task_of(0), packed_of(RunResult({}, {}, "stopped", "no")), wall_s=0, memory_bytes=0
        )
        alone = task_of(100)
        store.add(alone, packed_of(RunResult()), wall_s=0, memory_bytes=0)
        assert removable(store) == []
        assert removable(store, older=True) == sorted([*old, alone.key])
        assert removable(store, older=True, alone=True) == [alone.key]
        assert removable(store, status=["complete"], older=True, alone=False) == sorted(
            [old[1], alone.key]
        )
        assert removable(store, status=["failed", "stopped"]) == [old[0]]
        notes = check(store).notes
    assert [note for note in notes if note.startswith("3 runs of weft 0.0.1+older; this is ")]
    assert [note for note in notes if note == "1 run of no study"]
    assert main(["store", "prune", str(tmp_path), "--older-versions"]) == 0
    with Store(tmp_path) as store:
        assert {run.key for run in store.runs()} == set(keys[2:])
        assert len(list((tmp_path / "tables").glob("*/*"))) == 2


def test_a_store_that_is_written_to_is_not_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_runs(tmp_path, [1])
    before = files(tmp_path)
    with Store(tmp_path, write=True):
        assert main(["store", "prune", str(tmp_path), "--status", "complete"]) == 2
        assert "is in use by process" in capsys.readouterr().err
    assert before.keys() == files(tmp_path).keys()


# -- another version -------------------------------------------------------------------------------


def test_equal_results_are_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_runs(tmp_path, range(4))
    before = files(tmp_path)
    monkeypatch.setattr(command_registry, "run_function", lambda name, parameters: square)
    assert main(["store", "check", str(tmp_path), "--rerun", "2", "--workers", "1"]) == 0
    assert "computed 2 runs again: 0 would change" in capsys.readouterr().out
    assert files(tmp_path) == before


def cube(parameters: Mapping[str, Any], watch: Any) -> RunResult:
    """Another version of `square`."""
    value = parameters["value"]
    if value == 3:
        raise InputError("no threes")
    table = pl.DataFrame({"value": [value, value + 1 + (value == 2)]})
    return RunResult({"square": value * value * 1.5, "half": value / 2, "more": 1}, {"jobs": table})


def sampled(store: Store, count: int, seed: int) -> dict[str, tuple[StoredRun, Task]]:
    """Return runs whose function is another version of `square`."""
    runs, unknown = sample(store, count, seed, lambda name, parameters: cube)
    assert unknown == []
    return runs


def test_another_version_says_what_it_would_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = dict(zip(range(1, 4), add_runs(tmp_path, range(1, 4)), strict=True))
    monkeypatch.setattr(command_registry, "run_function", lambda name, parameters: cube)
    with Store(tmp_path) as store:
        done = {
            run.key: {each.name: each for each in differences}
            for run, differences in computed_again(store, sampled(store, 9, 0), InProcess())
        }
    assert done.keys() == set(keys.values())
    assert list(done[keys[1]]) == ["square", "more"]
    assert done[keys[1]]["square"].change == pytest.approx(0.5)
    assert (done[keys[1]]["more"].before, done[keys[1]]["more"].change) == (None, None)
    assert list(done[keys[2]]) == ["square", "more", "table jobs"]
    assert [each.after for each in done[keys[3]].values()] == ["failed no threes"]
    monkeypatch.setattr("weft.study.runs.executors.LocalProcesses", lambda *_: InProcess())
    assert main(["store", "check", str(tmp_path), "--rerun", "9"]) == 1
    shown = capsys.readouterr().out
    assert "computed 3 runs again: 3 would change" in shown
    assert "wrong: square of 2 runs, at most by +50.000%" in shown


def test_a_sample_has_only_runs_that_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_text("1")
    folder = tmp_path / "store"
    gone = add_runs(folder, range(3), study=None, input=str(path))
    kept = add_runs(folder, range(5))
    stopped = Task(square, {"value": 77})
    with Store(folder, write=True) as store:
        result = packed_of(RunResult({}, {}, "stopped", "no"))
        store.add(stopped, result, wall_s=0, memory_bytes=0)
        path.write_text("2")
        runs = list(sampled(store, 100, 0))
        assert set(runs) == set(kept)
        assert not set(runs) & {*gone, stopped.key}
        assert list(sampled(store, 2, 0)) == runs[:2]
        assert list(sampled(store, 100, 1)) != runs


def test_a_store_that_cannot_be_opened_is_not_held(tmp_path: Path) -> None:
    Store(tmp_path, write=True).close()
    (tmp_path / "index.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="is not a database") as caught:
        Store(tmp_path, write=True)
    assert caught.value.__traceback__ is not None  # what it keeps alive may not hold the lock
    assert writer(tmp_path) == ""


def test_an_error_of_the_display_is_no_result_of_a_run(tmp_path: Path) -> None:
    def closed(progress: StudyProgress) -> None:
        if calls.pop() == 0:
            raise BrokenPipeError

    calls, kept = [0, 1], list[Packed]()
    with pytest.raises(BrokenPipeError):
        execute(
            [Task(watched, {})], InProcess(), lambda *each: kept.append(each[1]),
            Limits(), StudyProgress("one", 1, 0), None, closed,
        )  # fmt: skip
    assert kept == []


def watched(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
    """Perform a run that calls `watch`."""
    watch(None)
    return RunResult()
