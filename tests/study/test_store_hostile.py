"""Stores that somebody else made: they are data, of which nothing is called or printed as it is."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stores import add_runs, square, task_of

from weft.cli.entry import main
from weft.cli.study import _warn_of_another
from weft.core.errors import InputError
from weft.core.files import write_text
from weft.study.command_registry import run_function
from weft.study.runs import shares
from weft.study.runs.execute import StudyProgress
from weft.study.runs.executors import InProcess, Limits
from weft.study.runs.rows import COLUMNS
from weft.study.runs.store import INCOMING, INDEX, PROGRESS, Store, record_of, writer
from weft.study.runs.task import Packed

#: Module that a hostile store names; nothing else imports it.
MODULE = "antigravity"
#: Text that would change a terminal, or what a line seems to say.
ESCAPES = "\x1b]0;owned\x07\x9b31m\r\u202e"
#: Column -> values that it never has, besides those that no column has.
WRONG = {
    "key": ["", "A" * 32, "../" * 11],
    "status": ["", "fine"],
    "wall_s": [-1.0, 9e999],
    "memory_bytes": [-1, 0.5],
    "ended_s": [1e300, -1],
    "limits": ["[]", '{"seconds": "1"}', '{"seconds": 9e999}'],
    "tables": [
        "[]", '{"jobs": []}', '{"jobs": [1]}', '{"../x": [1, "%s"]}' % ("0" * 64),
        '{"jobs": [-1, "%s"]}' % ("0" * 64), '{"jobs": [1, "../../x"]}',
    ],
    "measures": [
        "[]", "3", '{"square": NaN}', '{"square": []}', '{"square": %s}' % ("9" * 400), "9" * 5000,
        '{"square": "\\ud800"}',
    ],
    "libraries": ["[]", '{"numpy": 1}'],
    "inputs": ["[]", '{"a": 1}'],
    "parameters": ["[]", "{", '{"\\ud800": 1}', '{"a": ' * 200 + "1" + "}" * 200, "[" * 100_000],
    "studies.about": [
        "[]", "{}", '{"title": 1}',
        json.dumps({"title": "", "command": "simulate", "file": "", "text": "", "axes": {"a": 1},
                    "baseline": {}, "measures": [], "seeds": []}),
    ],
    "studies.changed_s": [-1.0],
    "members.number": ["one"],
    "members.key": ["nine"],
    "members.seed": ["a"],
    "members.point": ["[]", '{"value": 1}', "{"],
    **{name: [] for name in ("reason", "function", "host", "details", "build", "studies.name")},
}  # fmt: skip


def changed(folder: Path, column: str, value: Any) -> None:
    """Change a column of every row of an index, of which weft makes no use meanwhile."""
    table, _, name = column.rpartition(".")
    with sqlite3.connect(folder / INDEX) as index:
        index.execute(f"UPDATE {table or 'runs'} SET {name} = ?", [value])
    index.close()


def commands(store: Path, folder: Path) -> list[list[str]]:
    """Return command lines that read every column of a store."""
    return [
        ["store", "ls", str(store)], ["store", "ls", str(store), "--studies"],
        ["store", "show", str(store), "1"], ["store", "show", str(store), "1", "--table", "jobs"],
        ["store", "check", str(store), "--rerun", "5"], ["store", "prune", str(store), "--dry-run"],
        ["store", "export", str(store), str(folder / "runs.csv")],
        ["store", "pack", str(store), str(folder / "store.tar")],
        ["store", "pull", str(folder / "own"), str(store)], ["report", str(store)],
    ]  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    add_runs(folder, [3])
    return folder


def test_every_column_is_tested() -> None:
    assert {name for name in WRONG if "." not in name} == set(COLUMNS)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("column", WRONG)
def test_a_wrong_value_in_any_column_is_one_clear_error(
    sound: Path, tmp_path: Path, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in [b"\xff\x00", *WRONG[column]]:
        store = tmp_path / "store"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(sound, store)
        changed(store, column, value)
        found = {}
        for words in commands(store, tmp_path):
            status = main(words)
            said = capsys.readouterr()
            assert "Traceback" not in said.out + said.err
            if status == 2:
                assert len(said.err.splitlines()) == 1, said.err
                found[words[1]] = said.err
            elif words[:2] == ["store", "check"]:
                assert status == 2, (value, said.out)
        # Whoever takes a whole store reads all of it.
        assert "pull" in found, (value, found)
        assert "the index is damaged" in found["pull"], (value, found)
        assert not (tmp_path / "own" / "tables").is_dir() or not any(
            (tmp_path / "own" / "tables").iterdir()
        )


@pytest.mark.parametrize(
    ("function", "run"),
    [
        (f"{MODULE}:geohash", ""),
        ("os:system", ""),
        ("weft.study.runs.typed:perform_typed", "os:system"),
    ],
)
def test_nothing_is_called_that_a_store_names(
    tmp_path: Path, function: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    add_runs(tmp_path, [3])
    changed(tmp_path, "function", function)
    changed(tmp_path, "parameters", json.dumps({"run": run}))
    for words in commands(tmp_path, tmp_path):
        main(words)
    assert "not computed again: run" in capsys.readouterr().out
    assert MODULE not in sys.modules
    folder = shares.write_plan(tmp_path, "squares", [task_of(3)], Limits(), 1)
    plan = folder / shares.PLAN
    plan.write_text(plan.read_text().replace("tests.stores:square", function))
    with pytest.raises(InputError, match="is no function of a command or paper"):
        shares.read_share(folder, 0, run_function)
    assert main(["study", str(folder), "--share", "0"]) == 2
    assert MODULE not in sys.modules


def test_no_text_of_a_store_is_printed_as_a_control_sequence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    add_runs(tmp_path, [3])
    about = {
        "command": "simulate", "seeds": [], "title": ESCAPES, "file": ESCAPES, "text": ESCAPES,
        "axes": {"value": [ESCAPES], "b": [ESCAPES, "c"]}, "baseline": {}, "measures": [],
    }  # fmt: skip
    changed(tmp_path, "studies.about", json.dumps(about))
    changed(tmp_path, "members.point", json.dumps({"value": ESCAPES, "b": ESCAPES}))
    for column in ("reason", "function", "host", "details", "build"):
        changed(tmp_path, column, ESCAPES)
    for column in ("inputs", "libraries", "measures", "parameters"):
        changed(tmp_path, column, json.dumps({ESCAPES: ESCAPES}))
    for status in ("complete", "failed"):
        changed(tmp_path, "status", status)
        for words in [*commands(tmp_path, tmp_path), ["store", "ls", str(tmp_path), "--json"]]:
            main(words)
            said = capsys.readouterr()
            for sign in ("\x1b]", "\x07", "\x9b", "\r", "\u202e"):
                assert sign not in said.out + said.err, words
    write_text(tmp_path / PROGRESS, json.dumps({"ended": False}))
    main(["study", "--watch", "--store", str(tmp_path), str(tmp_path)])
    assert "Traceback" not in capsys.readouterr().err


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"


@pytest.mark.parametrize(
    "statement",
    [
        f"ALTER TABLE runs RENAME TO old; CREATE VIEW runs AS {ENDLESS}",
        f"CREATE VIEW more AS {ENDLESS}",
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM studies; END",
        "ALTER TABLE runs ADD COLUMN more AS (hex(zeroblob(1000000000)))",
    ],
)
def test_an_index_with_more_than_tables_is_refused(
    tmp_path: Path, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    add_runs(store, [3])
    with sqlite3.connect(store / INDEX) as index:
        index.executescript(statement)
    index.close()
    for words in commands(store, tmp_path):
        assert main(words) == 2
        assert "is not a store as weft makes it" in capsys.readouterr().err
    with pytest.raises(InputError, match="as weft makes it"):
        Store(store, write=True)


def test_a_huge_value_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    add_runs(store, [3])
    with sqlite3.connect(store / INDEX) as index:
        index.execute("UPDATE runs SET details = CAST(zeroblob(100000000) AS TEXT)")
    index.close()
    assert main(["store", "pull", str(tmp_path / "own"), str(store)]) == 2
    assert "too big" in capsys.readouterr().err


def test_pages_that_are_read_twice_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    add_runs(store, range(40))
    path = store / INDEX
    with sqlite3.connect(path) as index:
        (size,) = index.execute("PRAGMA page_size").fetchone()
        index.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = index.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()
    index.close()
    data = bytearray(path.read_bytes())
    page = memoryview(data)[(root - 1) * size : root * size]
    assert page[0] == 2  # an inner page
    count = int.from_bytes(page[3:5], "big")
    cells = [int.from_bytes(page[12 + 2 * at : 14 + 2 * at], "big") for at in range(count)]
    for cell in cells:  # every cell leads to the page of the first
        page[cell : cell + 4] = bytes(page[cells[0] : cells[0] + 4])
    page.release()
    path.write_bytes(data)
    assert main(["store", "pull", str(tmp_path / "own"), str(store)]) == 2
    assert "the index is damaged" in capsys.readouterr().err


def test_a_packed_store_cannot_be_larger_than_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, file = tmp_path / "store", tmp_path / "store.tar"
    add_runs(store, [3])
    with tarfile.open(file, "w:gz") as archive:
        archive.add(store, ".")
    assert main(["store", "pull", str(tmp_path / "own"), str(file)]) == 2
    assert "is neither a store nor a packed store" in capsys.readouterr().err


def test_a_device_is_no_input_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_runs(tmp_path, [3])
    changed(tmp_path, "inputs", json.dumps({"/dev/zero": "0" * 64}))
    changed(tmp_path, "parameters", json.dumps({"fabric": {"source": "/dev/zero"}}))
    for words in commands(tmp_path, tmp_path):
        main(words)
    assert "/dev/zero: is not a regular file" in capsys.readouterr().out


def test_a_folder_with_very_many_files_is_no_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.study.runs.task.MOST_FILES", 1)
    folder = tmp_path / "many"
    folder.mkdir()
    for name in "ab":
        (folder / name).touch()
    add_runs(tmp_path, [3])
    changed(tmp_path, "inputs", json.dumps({str(folder): "0" * 64}))
    main(["store", "check", str(tmp_path)])
    assert f"{folder}: has more than 1 files" in capsys.readouterr().out


def test_a_pipe_is_no_packed_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main(["store", "pull", str(tmp_path / "own"), str(tmp_path / "pipe")]) == 2
    assert "is neither a store nor a packed store" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "lock", "index.sqlite-wal", "tables", "tables/zz", "incoming", "incoming/zz", "jobs",
        "jobs/1", "index.sqlite",
    ],
)  # fmt: skip
def test_links_out_of_a_store_are_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store, outside = tmp_path / "store", tmp_path / "outside"
    add_runs(store, [3])
    (store / "lock").unlink()
    outside.mkdir()
    for each in (f"{'0' * 32}.x.{'0' * 8}.parquet", ".x.1-abcdef01.tmp", f"{'0' * 32}.run", "lock"):
        (outside / each).write_text("mine")
    before = sorted(outside.iterdir())
    link = store / name
    if link.exists():  # elsewhere now
        link.rename(tmp_path / "moved")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "lock" if name.startswith(("lock", "index")) else outside)
    for words in [*commands(store, tmp_path), ["store", "prune", str(store)],
                  ["study", "--collect", "--store", str(store)]]:  # fmt: skip
        assert main(words) == 2, words
        assert f"{link}: is " in capsys.readouterr().err
    assert writer(store) == ""
    assert sorted(outside.iterdir()) == before
    assert {each.read_text() for each in before} == {"mine"}


def test_results_replace_links_and_do_not_follow_them(tmp_path: Path) -> None:
    store, victim = tmp_path / "store", tmp_path / "victim"
    victim.write_text("mine")
    (key,) = add_runs(store, [3])
    (table,) = (store / "tables").glob("*/*")
    task, packed = task_of(3), Packed("complete")
    places = [table, store / PROGRESS, shares.result_path(store, key)]
    for path in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
    add_runs(store, [3])
    StudyProgress("squares", 1, 0).write(store / PROGRESS)
    shares.write_result(store, record_of(task, packed, 1.0, 1), packed)
    assert victim.read_text() == "mine"
    assert all(path.is_file() and not path.is_symlink() for path in places)


def test_a_share_writes_no_results_through_links(tmp_path: Path) -> None:
    store, outside = tmp_path / "store", tmp_path / "outside"
    outside.mkdir()
    task = task_of(3)
    add_runs(store, [4])
    folder = shares.write_plan(store, "squares", [task], Limits(), 1)
    (store / INCOMING).symlink_to(outside)
    share = shares.read_share(folder, 0, lambda *_: square)
    with pytest.raises(InputError, match="incoming: is a link"):
        shares.perform_share(share, InProcess(), lambda _: None)
    assert not any(outside.iterdir())


def test_a_result_whose_measures_are_no_text_is_left_out(tmp_path: Path) -> None:
    store = tmp_path / "store"
    add_runs(store, [3])
    record = record_of(task_of(4), Packed("complete"), 1.0, 1)
    shares.write_result(store, {**record, "measures": {}}, Packed("complete"))
    with Store(store, write=True) as opened:
        number, wrong = shares.collect(opened)
    assert (number, len(wrong)) == (0, 1)
    assert "measures of run" in wrong[0]
    assert not shares.waiting_results(store)


def test_a_table_that_is_not_parquet_is_not_pulled_over_a_good_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    add_runs(own, [3])
    with Store(other, write=True) as store:
        junk = Packed("complete", measures='{"square": 9, "half": 1.5}', tables={"jobs": b"junk"})
        store.add(task_of(3), junk, wall_s=1.0, memory_bytes=1)
    assert main(["store", "pull", str(own), str(other)]) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err
    with Store(own) as store:
        assert store.table(task_of(3).key, "jobs") is not None


def test_a_long_name_of_the_file_of_another_study_is_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, store = tmp_path / "s.toml", tmp_path / "store"
    add_runs(store, [3], study="s")
    with Store(store, write=True) as opened:
        about = {**opened.studies()["s"], "file": "x" * 5000}
        opened.set_study("s", about, [])
        planned: Any = SimpleNamespace(study=SimpleNamespace(name="s", path=study))
        _warn_of_another(planned, opened)
    assert not capsys.readouterr().err
