"""`weft store pack`, `pull` and `export`: results in one file, and results of several stores."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.processes import largest_file
from tests.stores import about, add_runs, packed_of, task_of

from weft.cli.entry import main
from weft.core.errors import InputError
from weft.study.runs.packing import pack, pull
from weft.study.runs.rows import Member, StoredRun
from weft.study.runs.store import Store
from weft.study.runs.task import RunResult
from weft.study.runs.upkeep import check


def runs_of(folder: Path) -> list[StoredRun]:
    with Store(folder) as store:
        found = check(store)
        assert (found.faults, [note for note in found.notes if "of no run" in note]) == (
            [],
            [],
        )
        return list(store.runs())


def packed(folder: Path) -> Path:
    file = folder.with_name(f"{folder.name}.tar")
    with Store(folder) as store:
        assert pack(store, file).left_out == []
    return file


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Return stores of the squares of 0 to 3, and of 2 to 5."""
    first, second = tmp_path / "first", tmp_path / "second"
    add_runs(first, range(4), study="first")
    add_runs(second, range(2, 6), study="second")
    return first, second


def test_an_archive_depends_on_the_contents_only_and_unpacks_to_a_store(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    first, _ = two
    data = packed(first).read_bytes()
    with Store(first, write=True) as store:  # leaves free pages in the index
        add = [task_of(value) for value in range(100, 300)]
        for task in add:
            result = RunResult({"text": "long" * 300})
            store.add(task, packed_of(result), wall_s=0, memory_bytes=0)
        store.remove(task.key for task in add)
    assert packed(first).read_bytes() == data
    with tarfile.open(packed(first)) as archive:
        assert {(each.mtime, each.uid, each.uname, each.mode) for each in archive} == {
            (0, 0, "", 0o644)
        }
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert runs_of(tmp_path / "unpacked") == runs_of(first)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_store_is_packed_as_it_is_at_one_instant(two: tuple[Path, Path], tmp_path: Path) -> None:
    first, _ = two
    with Store(first, write=True) as writer:
        writer.query("BEGIN IMMEDIATE")
        writer.query("DELETE FROM runs")
        file = packed(first)
        writer.query("ROLLBACK")
    with Store(tmp_path / "third", write=True) as store:
        assert pull(store, file).taken == 4


def test_runs_that_a_writer_replaces_meanwhile_are_packed_in_their_new_form(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, _ = two
    original = Store.snapshot

    def snapshot(store: Store, folder: Path) -> None:
        original(store, folder)
        with Store(first, write=True) as writer:
            result = RunResult({"square": 7}, {"jobs": pl.DataFrame({"new": [1]})})
            writer.add(task_of(2), packed_of(result), wall_s=0, memory_bytes=0)
            writer.remove([task_of(3).key])

    monkeypatch.setattr(Store, "snapshot", snapshot)
    file = tmp_path / "first.tar"
    with Store(first) as store:
        assert pack(store, file).left_out == [task_of(3).key]
    third = tmp_path / "third"
    with Store(third, write=True) as store:
        assert pull(store, file).taken == 3
        assert store.run(task_of(2).key).measures == {"square": 7}  # type: ignore[union-attr]
    assert len(runs_of(third)) == 3


def test_runs_with_damaged_tables_are_neither_packed_nor_pulled(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second = two
    (path,) = (first / "tables").glob(f"*/{task_of(2).key}.*")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    file = tmp_path / "first.tar"
    assert main(["store", "pack", str(first), str(file)]) == 1
    assert "1 run left out, with missing or damaged tables" in capsys.readouterr().out
    assert main(["store", "pull", str(second), str(first)]) == 1
    assert "1 run not taken, with missing or damaged tables" in capsys.readouterr().out
    third = tmp_path / "third"
    assert main(["store", "pull", str(third), str(file)]) == 0
    assert {run.key for run in runs_of(third)} == {task_of(value).key for value in (0, 1, 3)}


@pytest.mark.parametrize("form", [lambda folder: folder, packed])
def test_stores_are_merged(two: tuple[Path, Path], form: Callable[[Path], Path]) -> None:
    first, second = two
    before = {run.key: run for folder in two for run in runs_of(folder)}
    with Store(first, write=True) as store:
        done = pull(store, form(second))
        assert (done.taken, done.present, done.kept, done.studies) == (2, 2, [], ["second"])
        assert [member.number for member in store.members("second")] == [1, 2, 3, 4]
        again = pull(store, form(second))
        assert (again.taken, again.present) == (0, 4)
        assert (again.studies, again.kept_studies) == ([], [])
    merged = runs_of(first)
    assert [run.key for run in merged] == sorted(before)
    own = {run.key for run in merged if run.ended_s == before[run.key].ended_s}
    assert own >= {task_of(value).key for value in (0, 1, 4, 5)}
    with Store(first) as store:
        table = store.table(task_of(5).key, "jobs")
    assert table is not None
    assert table["value"].to_list() == [5, 6]


def test_different_results_are_kept_unless_they_are_replaced(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two
    key = task_of(3).key
    result = RunResult({"square": 9.5, "half": 1.5}, {"jobs": pl.DataFrame({"value": [3, 4]})})
    with Store(second, write=True) as store:
        store.add(task_of(3), packed_of(result), wall_s=0, memory_bytes=0)
        other = {"value": "0"}
        store.set_study("first", about({"value": ["0"]}), [Member(1, task_of(0).key, None, other)])
    assert main(["store", "pull", str(first), str(second)]) == 1
    shown = capsys.readouterr().out
    assert "1 run kept, with different results; --replace takes those of the other store:" in shown
    assert "1 study kept, with other runs" in shown
    with Store(first) as opened:
        assert opened.run(key).measures["square"] == 9  # type: ignore[union-attr]
        assert len(opened.members("first")) == 4
    assert main(["store", "pull", str(first), str(second), "--replace"]) == 0
    with Store(first) as opened:
        assert opened.run(key).measures["square"] == 9.5  # type: ignore[union-attr]
        assert len(opened.members("first")) == 1
    assert len(runs_of(first)) == 6


def test_a_result_takes_the_place_of_a_run_without_one(two: tuple[Path, Path]) -> None:
    first, second = two
    late = packed_of(RunResult({}, {}, "partial", "no"))
    with Store(first, write=True) as store, Store(second, write=True) as other:
        store.add(task_of(2), late, wall_s=0, memory_bytes=0)
        other.add(task_of(3), late, wall_s=0, memory_bytes=0)
    with Store(first, write=True) as store:
        done = pull(store, second)
        assert (done.taken, done.present, done.kept) == (3, 1, [])
        assert {run.status for run in store.runs()} == {"complete"}


def test_equal_tables_in_different_files_are_equal(two: tuple[Path, Path]) -> None:
    first, second = two
    result = RunResult({"square": 9, "half": 1.5}, {"jobs": pl.DataFrame({"value": [3, 4]})})
    stream = io.BytesIO()
    result.tables["jobs"].write_parquet(stream, compression="uncompressed")
    packed_run = packed_of(result)
    assert packed_run.tables["jobs"] != stream.getvalue()
    changed = type(packed_run)("complete", "", packed_run.measures, {"jobs": stream.getvalue()})
    with Store(second, write=True) as store:
        store.add(task_of(3), changed, wall_s=0, memory_bytes=0)
    with Store(first, write=True) as store:
        assert pull(store, second).present == 2


def test_a_pull_that_is_killed_leaves_whole_runs_and_can_be_repeated(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two
    original = Store.insert_rows

    def insert(store: Store, records: Iterator[Any]) -> None:
        original(store, records)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "insert_rows", insert)
    with pytest.raises(KeyboardInterrupt), Store(first, write=True) as store:
        pull(store, second)
    monkeypatch.undo()
    assert len(runs_of(first)) == 5
    with Store(first, write=True) as store:
        assert pull(store, second).taken == 1


@pytest.mark.parametrize("name", ["../../" + "a" * 26, "A" * 32])
def test_names_in_an_index_do_not_lead_out_of_the_store(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    add_runs(source, [1])
    with Store(source, write=True) as store:
        store.query("UPDATE runs SET key = ?", [name])
    with Store(tmp_path / "store", write=True) as store:
        with pytest.raises(InputError, match="the index is damaged"):
            pull(store, source)
        assert list(store.runs()) == []


def test_files_that_are_no_stores_are_refused(
    two: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two
    whole = packed(second).read_bytes()
    later = tmp_path / "later"
    add_runs(later, [1])
    with Store(later, write=True) as store:
        store.query("PRAGMA user_version = 99")
    for text, expected in (
        (b"text", "is neither a store nor a packed store"),
        (b"", "is neither a store nor a packed store"),
        (whole[: len(whole) // 2], "is neither a store nor a packed store"),
    ):
        file = tmp_path / "file.tar"
        file.write_bytes(text)
        assert main(["store", "pull", str(first), str(file)]) == 2
        assert f"file.tar: {expected}" in capsys.readouterr().err
    assert main(["store", "pull", str(first), str(later)]) == 2
    assert "later: is a store of format 99" in capsys.readouterr().err
    assert len(runs_of(first)) == 4


def limited(words: list[str], size: int) -> int:
    """Run a command that may write no file above a size, as on a full disk."""
    with largest_file(size):
        return main(["store", *words])


def test_a_full_disk_is_one_error_and_leaves_no_file(
    two: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two
    words = [
        ["pack", str(first), str(tmp_path / "x.tar")],
        ["export", str(first), str(tmp_path / "x.parquet")],
        ["pull", str(tmp_path / "third"), str(second)],
    ]
    for each in words:
        assert limited(each, 1000) == 2
        said = capsys.readouterr()
        assert said.out == ""
        (line,) = said.err.splitlines()
        assert line.startswith("weft: error: ")
        assert "File too large" in line or "disk" in line
    names = {path.name for path in tmp_path.iterdir()}
    assert names <= {"first", "second", "third"}
    assert len(runs_of(first)) == len(runs_of(second)) == 4
    # With some bytes more, the disk is full in the middle of the runs; what was taken is whole.
    add_runs(second, range(2, 60))
    assert limited(["pull", str(first), str(second)], 100_000) == 2
    with Store(first, write=True) as store:
        store.clean()
    assert 4 < len(runs_of(first)) < 60
    assert main(["store", "pull", str(first), str(second)]) == 0
    assert len(runs_of(first)) == 60


# -- export ----------------------------------------------------------------------------------------


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Return a store with two complete runs, a partial one, and one that is missing."""
    folder = tmp_path / "store"
    with Store(folder, write=True) as store:
        members = []
        for number in range(1, 5):
            task = task_of(number)
            table = pl.DataFrame({"run": [1, 1], "rank": [0, number]})
            result = RunResult({"makespan_ns": number * 1.5, "messages": 7}, {"jobs": table})
            if number == 3:
                result = RunResult({}, {}, "partial", "too slow")
            members.append(Member(number, task.key, number % 2, {"engine": f"e{number}"}))
            if number < 4:
                store.add(task, packed_of(result), wall_s=2.5, memory_bytes=99)
        description = about({"engine": [f"e{number}" for number in range(1, 5)]}, [0, 1])
        store.set_study("many", {**description, "measures": ["messages"]}, members)
    return folder


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_all_runs_are_exported_with_axes_and_measures(measured: Path, suffix: str) -> None:
    file = measured.with_name(f"runs.{suffix}")
    assert main(["store", "export", str(measured), str(file)]) == 0
    table = pl.read_csv(file) if suffix == "csv" else pl.read_parquet(file)
    assert table["run"].to_list() == [1, 2, 3, 4]
    assert table["status"].to_list() == ["complete", "complete", "partial", "not run"]
    assert table["engine"].to_list() == ["e1", "e2", "e3", "e4"]
    assert table["makespan_ns"].to_list() == [1.5, 3.0, None, None]
    assert table["messages"].to_list() == [7, 7, None, None]
    assert table["wall_s"].to_list() == [2.5, 2.5, 2.5, None]
    meanings = pl.read_csv(file.with_name("runs.columns.csv"))
    assert meanings["column"].to_list() == table.columns
    units = dict(meanings.select("column", "unit").iter_rows())
    assert (units["makespan_ns"], units["wall_s"], units["memory_bytes"]) == ("ns", "s", "B")


def test_a_table_of_all_runs_is_exported_with_their_numbers(measured: Path) -> None:
    file = measured.with_name("jobs.csv")
    assert main(["store", "export", str(measured), str(file), "--table", "jobs"]) == 0
    assert pl.read_csv(file).rows() == [(1, 0), (1, 1), (2, 0), (2, 2)]
