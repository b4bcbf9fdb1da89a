"""Which runs of a study are computed again: after a longer list, a changed file, a new version."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stores import packed_of

from weft.cli import main
from weft.cli.study import plan_lines
from weft.study.perform import store_study
from weft.study.plan import Plan, plan
from weft.study.runs.store import Store
from weft.study.runs.task import RunResult
from weft.study.spec import StudyPart, read_study

TEXT = """\
[fabric]
source = "xgft:1;4;1"
[[job]]
workload = ["alltoall:size=1KiB", "ranks", "one.goal"]
placement = "random"
[study]
seeds = 2
product.engine = ["minhop", "updn"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ranks").write_text("rank0\nrank1\n")
    for name in ("rank0", "rank1", "one.goal"):
        (tmp_path / name).write_text(f"contents of {name}\n")
    return tmp_path


def planned(folder: Path, text: str = TEXT, **options: bool) -> Plan:
    (folder / "many.toml").write_text(text)
    with Store(folder / "store", write=True) as store:
        return plan(read_study(folder / "many.toml"), store, **options)


def finish(folder: Path, done: Plan, status: str = "complete") -> None:
    """Store a result of every run that is to be computed."""
    with Store(folder / "store", write=True) as store:
        store_study(done, store)
        for number in done.todo:
            result = packed_of(RunResult({"makespan_ns": 1.0}, {}, status))  # type: ignore[arg-type]
            store.add(done.tasks[number], result, wall_s=1.0, memory_bytes=1)


def todo(done: Plan) -> set[tuple[str, str, int | None]]:
    runs = [done.runs[number] for number in done.todo]
    return {(run.point["workload"], run.point["engine"], run.seed) for run in runs}


def test_a_finished_study_has_nothing_to_compute(folder: Path) -> None:
    first = planned(folder)
    assert len(first.todo) == len(first.runs) == 12
    finish(folder, first)
    again = planned(folder)
    assert (list(again.todo), again.stored) == ([], 12)
    # Titles, comments, the order and the names of values do not count.
    text = TEXT.replace("[study]", '[study]\ntitle = "Many"').replace(
        '["minhop", "updn"]', '{ b = "updn", a = "minhop" }'
    )
    assert list(planned(folder, text).todo) == []


def test_an_extended_study_computes_what_is_new(folder: Path) -> None:
    finish(folder, planned(folder))
    longer = planned(folder, TEXT.replace('"updn"]', '"updn", "sssp"]'))
    assert {engine for _, engine, _ in todo(longer)} == {"sssp"}
    assert len(longer.todo) == 6
    finish(folder, longer)
    assert todo(planned(folder, TEXT.replace("seeds = 2", "seeds = 3"))) == {
        (workload, engine, 2)
        for workload in ("alltoall:size=1KiB", "ranks", "one.goal")
        for engine in ("minhop", "updn")
    }
    assert list(planned(folder, TEXT.replace("seeds = 2", "seeds = 1")).todo) == []


@pytest.mark.parametrize(
    ("changed", "workload"), [("one.goal", "one.goal"), ("rank1", "ranks"), ("ranks", "ranks")]
)
def test_a_changed_file_invalidates_the_runs_that_read_it(
    folder: Path, changed: str, workload: str
) -> None:
    finish(folder, planned(folder))
    text = (folder / changed).read_text()
    (folder / changed).write_text(text + "\n")
    after = planned(folder)
    assert {each for each, _, _ in todo(after)} == {workload}
    assert len(after.todo) == 4
    (folder / changed).write_text(text)
    assert list(planned(folder).todo) == []


def test_another_version_is_named_and_its_results_are_computed_again_or_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(folder, planned(folder))
    monkeypatch.setattr("weft.study.runs.task.build_of", lambda *_: "9.9.9+later")
    after = planned(folder)
    assert (len(after.todo), sum(after.older.values())) == (12, 12)
    (line,) = [line for line in plan_lines(after, folder / "store") if "to compute again" in line]
    assert "--keep-versions" in line
    assert "weft store check" in line
    assert list(planned(folder, keep_versions=True).todo) == []


def test_the_documentation_has_every_key_and_the_example_its_runs() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs" / "studies.md").read_text()
    assert [name for name in StudyPart.model_fields if f"`study.{name}`" not in text] == []
    runs = read_study(root / "examples" / "study.toml").runs()
    assert len(runs) == 48
    assert "48 runs" in text


def test_runs_whose_tables_are_lost_are_computed_again(folder: Path) -> None:
    done = planned(folder)
    finish(folder, done)
    with Store(folder / "store", write=True) as store:
        store.remove([done.tasks[3].key])
    assert list(planned(folder).todo) == [3]


QUICK = """\
fabric = "xgft:1;4;1"
level = "static"
[[job]]
workload = "shift"
[study]
title = "First"
product.engine = ["minhop", "dmodk"]
"""


def study(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> str:
    assert main(["study", str(file), "--store", str(file.parent / "shared"), *more]) == 0
    return "".join(capsys.readouterr())


def test_an_edited_study_with_nothing_to_compute_is_stored_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "many.toml"
    file.write_text(QUICK)
    study(capsys, file, "--workers", "0")
    edited = QUICK.replace("First", "Second").replace(
        "product", 'measures = ["mean_contention"]\nbaseline.engine = "dmodk"\nproduct'
    )
    file.write_text(edited)
    said = study(capsys, file)
    assert "2 runs done, 0 to compute" in said
    assert "Second" in said
    assert "First" not in said
    assert "The baseline is engine = dmodk." in said
    assert "Mean contention" in said
    file.write_text(QUICK.replace(', "dmodk"', ""))
    study(capsys, file)
    with Store(tmp_path / "shared") as store:
        assert store.studies()["many"]["axes"] == {"engine": ["minhop"]}
        assert len(store.members("many")) == 1


def test_a_second_study_on_a_store_has_its_own_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text(QUICK)
    study(capsys, one, "--workers", "0")
    other.write_text(QUICK.replace("First", "Other").replace('"minhop", ', ""))
    said = study(capsys, other)
    assert "0 to compute" in said
    assert "1 complete" in said
    assert "Other" in said
    assert main(["report", str(tmp_path / "shared")]) == 0
    assert "Other" in capsys.readouterr().out
    # What only the second study needs stays.
    one.write_text(QUICK.replace(', "dmodk"', ""))
    study(capsys, one)
    assert main(["store", "prune", str(tmp_path / "shared"), "--not-in-study"]) == 0
    assert "removed 0 runs" in capsys.readouterr().out
    assert "0 to compute" in study(capsys, other)


def test_a_study_that_replaces_one_of_another_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    for file in (tmp_path / "many.toml", folder / "many.toml"):
        file.write_text(QUICK)
    study(capsys, tmp_path / "many.toml", "--workers", "0")
    words = ["study", str(folder / "many.toml"), "--store", str(tmp_path / "shared")]
    assert main(words) == 0
    assert f"replaces that of {tmp_path / 'many.toml'}" in capsys.readouterr().err
    assert main(words) == 0
    assert "replaces" not in capsys.readouterr().err
