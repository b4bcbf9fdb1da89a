"""Files of studies: the runs that they describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.study.plan import tasks_of
from weft.study.spec import StudyFile, read_study

SIMPLE = """\
engine = ["dmodk", "minhop"]
[[job]]
workload = "alltoall:size=1KiB"
placement = "random"
[study]
seeds = 2
baseline = { engine = "dmodk" }
[study.product]
fabric = { small = "xgft:2;2,2;1,2", tall = "xgft:3;2,2,2;1,2,2" }
faults.random_cables = [0, 1]
"""


def study(folder: Path, text: str) -> StudyFile:
    path = folder / "many.toml"
    path.write_text(text)
    return read_study(path)


def test_products_lists_and_seeds_multiply(tmp_path: Path) -> None:
    runs = study(tmp_path, SIMPLE).runs()
    assert [run.number for run in runs] == list(range(1, 17))
    assert {run.point["fabric"] for run in runs} == {"small", "tall"}
    assert [run.point["engine"] for run in runs[:4]] == ["dmodk", "minhop", "dmodk", "minhop"]
    assert [run.seed for run in runs[:4]] == [0, 0, 1, 1]
    last = runs[-1]
    assert last.parameters["fabric"]["source"] == "xgft:3;2,2,2;1,2,2"
    assert last.parameters["faults"]["seed"] == 1
    assert last.parameters["job"][0]["placement"] == "random:seed=1"
    assert last.point == {"fabric": "tall", "faults.random_cables": "1", "engine": "minhop"}


def test_runs_that_differ_have_different_keys(tmp_path: Path) -> None:
    file = study(tmp_path, SIMPLE)
    keys = [task.key for task in tasks_of(file, file.runs())]
    assert len(set(keys)) == len(keys)


def test_the_key_of_a_run_follows_the_contents_of_its_files(tmp_path: Path) -> None:
    trace = tmp_path / "ranks.goal"
    text = SIMPLE.replace("alltoall:size=1KiB", "ranks.goal").replace(
        'fabric = { small = "xgft:2;2,2;1,2", tall', "fabric = { tall"
    )

    def keys() -> list[str]:
        file = study(tmp_path, text)
        return [task.key for task in tasks_of(file, file.runs())]

    trace.write_text("num_ranks 1\nrank 0 {\nl1: calc 1\n}\n")
    before = keys()
    assert before == keys()
    trace.write_text("num_ranks 1\nrank 0 {\nl1: calc 200\n}\n")
    assert not set(before) & set(keys())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 2", "seeds = 0", r"many.toml:6: study, seeds: 0 does not fit: expected a number"),
        ("seeds = 2", "sseds = 2", r"many.toml:6: .*unknown key 'sseds'.*'seeds'"),
        ("random_cables = [0, 1]", "random_cables = []", r"many.toml:10: .*the list is empty"),
        ("random_cables = [0, 1]", 'random_cables = ["x"]', r"many.toml:10: .*'x' does not fit"),
        ('engine = "dmodk" }', 'engine = "dmodc" }', r"many.toml:7: .*did you mean 'dmodk'"),
        ("baseline = { engine", "baseline = { engin", r"many.toml:7: .*'engin' varies.*'engine'"),
    ],
)
def test_mistakes_are_named_with_their_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SIMPLE
    with pytest.raises(InputError) as error:
        study(tmp_path, SIMPLE.replace(old, new)).runs()
    assert __import__("re").search(message, str(error.value)), str(error.value)
