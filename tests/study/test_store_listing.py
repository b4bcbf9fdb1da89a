"""`weft store ls` and `show`: what they find, in which order, and how they refuse wrong names."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.stores import add_runs, make_store, packed_of, task_of

from weft.cli.entry import main
from weft.study.commands.simulate import simulate
from weft.study.runs.listing import list_runs, list_studies, named_run
from weft.study.runs.rows import Member
from weft.study.runs.store import Store
from weft.study.runs.task import RunResult, Task, perform

RUNS = 400


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores") / "many.study"
    make_store(folder, RUNS)
    return folder


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return all runs, read one by one."""
    with Store(folder) as store:
        runs = {run.key: run for run in store.runs()}
        return [
            {
                **member.point, "run": member.number, "seed": str(member.seed),
                "status": runs[member.key].status, **runs[member.key].measures,
            }
            for member in store.members("many")
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "status", "expected"),
    [
        (["engine=d*"], [], lambda row: row["engine"].startswith("d")),
        (["engine=minhop", "engine=updn"], [], lambda row: row["engine"] in ("minhop", "updn")),
        (
            ["engine=*n", "fabric=torus"],
            [],
            lambda row: (row["engine"], row["fabric"]) == ("updn", "torus"),
        ),
        (["seed=1"], ["failed"], lambda row: row["seed"] == "1" and row["status"] == "failed"),
        ([], ["failed", "complete"], lambda row: True),
        (["workload=alltoall:size=1KiB"], [], lambda row: row["workload"] == "alltoall:size=1KiB"),
    ],
)
def test_filters(many: Path, where: list[str], status: list[str], expected: Any) -> None:
    wanted = [row["run"] for row in rows(many) if expected(row)]
    with Store(many) as store:
        found = list_runs(store, where=where, status=status)
        few = list_runs(store, where=where, status=status, limit=3)
    assert wanted
    assert [run.run for run in found.runs] == wanted
    assert [run.run for run in few.runs] == wanted[:3]
    assert few.total == len(wanted)


def test_runs_are_sorted_by_measures_and_missing_values_are_last(many: Path) -> None:
    known = [row for row in rows(many) if "makespan_ns" in row]
    known.sort(key=lambda row: row["makespan_ns"])
    expected = [row["run"] for row in known]
    with Store(many) as store:
        for descending in (False, True):
            found = [
                [run.run for run in listed.runs]
                for listed in (
                    list_runs(store, sort="makespan_ns", descending=descending, limit=limit)
                    for limit in (0, RUNS, 5)
                )
            ]
            assert found[0][: len(known)] == expected[:: -1 if descending else 1]
            assert sorted(found[0]) == list(range(1, RUNS + 1))
            assert found[1:] == [found[0], found[0][:5]]


def test_axes_are_sorted_in_the_order_of_the_file(many: Path) -> None:
    with Store(many) as store:
        found = list_runs(store, sort="faults.random_cables")
    values = [run.point["faults.random_cables"] for run in found.runs]
    assert list(dict.fromkeys(values)) == ["0", "2", "10"]
    assert found.axes == ["fabric", "faults.random_cables", "engine", "workload", "seed"]
    assert found.measures == ["makespan_ns", "communication_ns", "mean_slowdown"]


def test_runs_that_are_not_stored_are_listed_and_counted(tmp_path: Path) -> None:
    keys = add_runs(tmp_path, range(4))
    with Store(tmp_path, write=True) as store:
        store.remove(keys[1:2])
        found = list_runs(store)
        assert [run.status for run in found.runs] == ["complete", "not run", "complete", "complete"]
        assert found.statuses == {"complete": 3, "not run": 1}
        assert [run.run for run in list_runs(store, status=["not run"]).runs] == [2]
        store.set_study("other", store.studies()["squares"], [Member(1, keys[0], None, {})])
        studies, alone = list_studies(store)
    assert [(each.name, each.runs, each.statuses) for each in studies] == [
        ("squares", 4, {"complete": 3, "not run": 1}),
        ("other", 1, {"complete": 1}),
    ]
    assert alone == 0


def test_measures_without_a_finite_value_can_be_sorted(tmp_path: Path) -> None:
    keys = add_runs(tmp_path, range(3))
    with Store(tmp_path, write=True) as store:
        for value, measure in ((0, float("inf")), (1, float("nan"))):
            done = perform(None, Task(odd, {"value": measure}), lambda _: None)
            store.add(task_of(value), done, wall_s=1.0, memory_bytes=1)
        runs = list_runs(store, sort="square").runs
        assert store.run(keys[0]).measures == {"square": float("inf")}  # type: ignore[union-attr]
    assert [run.run for run in runs] == [3, 1, 2]


def odd(parameters: dict[str, float], watch: object) -> RunResult:
    return RunResult({"square": parameters["value"]})


def test_runs_are_named_by_number_or_by_the_beginning_of_the_key(many: Path) -> None:
    with Store(many) as store:
        keys = [member.key for member in store.members("many")]
        assert named_run(store, "17")[0] == keys[16]
        assert named_run(store, keys[3][:12])[0] == keys[3]
        short = sorted(keys)
        twice = next(a[:4] for a, b in itertools.pairwise(short) if a[:4] == b[:4])
        with pytest.raises(Exception, match=f"several runs begin with {twice}.*more digits"):
            named_run(store, twice)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ls", "S", "--study", "mony"], "has no study 'mony' (did you mean 'many'?)"),
        (["ls", "S", "--where", "engin=minhop"], "has no axis 'engin' (did you mean 'engine'?)"),
        (["ls", "S", "--where", "engine"], "--where engine: expected AXIS=VALUE"),
        (["ls", "S", "--where", "engine=dmodkk"], "no value of engine 'dmodkk' (did you mean"),
        (
            ["ls", "S", "--status", "completed"],
            "has no status 'completed' (did you mean 'complete'",
        ),
        (["ls", "S", "--sort", "makspan_ns"], "has no column 'makspan_ns' (did you mean 'makespan"),
        (["ls", "S", "--limit", "-1"], "--limit: expected 0 or more, not -1"),
        (["show", "S", "401"], "the study 'many' has no run 401; expected 1 to 400"),
        (["show", "S", "xyz"], "'xyz' is no run: expected its number in the study, or the first 4"),
        (["show", "S", "ffff0000ffff"], "has no run 'ffff0000ffff'"),
        (
            ["show", "S", "1", "--table", "jobs"],
            "has no table 'jobs'; it has none: study.tables = ",
        ),
        (["show", "S", "1", "-o", "x.csv"], "--output writes a table; name it with --table"),
        (["prune", "S", "--status", "fialed"], "has no status 'fialed' (did you mean 'failed'?)"),
        (["check", "S", "--rerun", "-1"], "--rerun: expected 0 or more, not -1"),
        (["export", "S", "x.txt"], "expected a name that ends in .csv or .parquet"),
        (["export", "S", "x.csv", "--table", "job"], "unknown table 'job' (did you mean 'jobs'?)"),
        (["export", "S", "x.csv", "--table", "jobs"], "has no table 'jobs' of any run"),
        (["pack", "S", "x.zip"], "expected a name that ends in .tar"),
        (["pull", "S", "missing.tar"], "missing.tar: does not exist"),
        (["pull", "S", "S"], "is the store itself"),
        (["ls", "F"], "is not a store of weft: it has no index.sqlite"),
        (["prune", "F"], "is not a store of weft: it has no index.sqlite"),
        (["pack", "F", "x.tar"], "is not a store of weft: it has no index.sqlite"),
    ],
)
def test_mistakes_are_one_line(
    many: Path,
    tmp_path: Path,
    words: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    named = {"S": str(many), "F": "folder"}
    assert main(["store", *(named.get(word, word) for word in words)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert expected in line
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder"]


def test_a_store_of_a_later_format_and_a_damaged_index_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_runs(tmp_path, [1])
    with Store(tmp_path, write=True) as store:
        store.query("PRAGMA user_version = 99")
    assert main(["store", "ls", str(tmp_path)]) == 2
    assert "format 99, made by a later version of weft" in capsys.readouterr().err
    (tmp_path / "index.sqlite").write_bytes(b"no database" * 1000)
    assert main(["store", "check", str(tmp_path)]) == 2
    assert "the index cannot be used: file is not a database" in capsys.readouterr().err


def test_json_has_all_of_a_list(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["store", "ls", str(many), "--where", "engine=updn", "--limit", "2", "--json"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["study"], data["total"], len(data["runs"])) == ("many", 81, 2)
    assert data["runs"][0]["point"]["engine"] == "updn"
    assert data["runs"][0]["measures"]["makespan_ns"] > 0


def test_show_prints_measures_with_units_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "input.txt"
    path.write_text("text")
    store = tmp_path / "store"
    add_runs(store, [5], input=str(path))
    task = task_of(5, input=str(path))
    with Store(store, write=True) as opened:
        task = Task(simulate, task.parameters, task.inputs)
        result = RunResult({"makespan_ns": 12.5}, {"jobs": pl.DataFrame({"rank": [1]})})
        opened.add(task, packed_of(result), wall_s=1.0, memory_bytes=1)
    assert main(["store", "show", str(store), task.key[:10]]) == 0
    shown = capsys.readouterr().out
    assert f"run {task.key}: complete" in shown
    assert "makespan_ns 12.5 ns Time from 0 to the end" in " ".join(shown.split())
    assert f"{path} (sha256 {task.inputs[str(path)]})" in shown
    assert '"value": 5' in shown
    file = tmp_path / "jobs.parquet"
    words = ["store", "show", str(store), task.key[:10], "--table", "jobs", "-o", str(file)]
    assert main(words) == 0
    assert pl.read_parquet(file).to_dict(as_series=False) == {"rank": [1]}
    assert main(words[:-2]) == 0
    assert capsys.readouterr().out.endswith("rank\n1\n")


def test_lists_need_no_slow_modules() -> None:
    code = "import sys, weft.cli.store; print({'polars', 'numba', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
