"""Files of studies: the runs that they describe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weft.study.command_registry import study_command
from weft.study.experiment.toml_file import toml_text
from weft.study.plan import tasks_of
from weft.study.resolved import resolved
from weft.study.spec import StudyFile, read_study, study_of

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


MANY = """\
engine = ["dmodk", "minhop"]
level = ["packet", "flow"]
eager = "16KiB"
[fabric]
format = "ibsim"
[hardware]
mtu = "$mtu"
[[job]]
name = "a.b"
workload = ["alltoall:size=1KiB", "barrier"]
[[job]]
ranks = "$ranks"
workload = "hpcg:iterations=${count}"
[study]
seeds = [3, 1]
baseline = { engine = "dmodk" }
measures = ["makespan_ns"]
tables = "links"
run_seconds = 60
run_memory = "2GiB"
[study.product]
fabric.source = { small = "small.net", tall = "tall.net" }
faults = { none = {}, two = { random_cables = 2 } }
job."a.b".placement = ["linear", "random"]
"job.job2.options.levels" = [1, 2]
"$ranks" = [4, 8]
[[study.zip]]
"hardware.header" = [ 30, 40 ]
"$count" = [2, 3]
"$mtu" = ["2KiB", "${small}KiB"]
[[study.zip]]
"$small" = ["4"]
[[study.exclude]]
engine = "minhop"
faults = ["t*", "*wo"]
[[study.exclude]]
fabric.source = "small"
hardware.header = 40
"""


@pytest.fixture
def many(tmp_path: Path) -> StudyFile:
    for name in ("small.net", "tall.net"):
        (tmp_path / name).write_text("")
    return study(tmp_path, MANY)


def test_axes_have_names_labels_and_variables(many: StudyFile, tmp_path: Path) -> None:
    runs = many.runs()
    # 2 fabrics, 2 faults, 2 placements, 2 levels of grids, 2 numbers of ranks, 2 zipped, 2 engines,
    # 2 levels of detail, 2 workloads and 2 seeds; without half of the engines with faults (1/4),
    # and a quarter of the others.
    assert len(runs) == 1024 * 3 // 4 * 3 // 4
    last = runs[-1]
    assert last.seed == 1
    assert last.point == {
        "fabric.source": "tall", "faults": "two", "job.a.b.placement": "random",
        "job.job2.options.levels": "2", "ranks": "8", "hardware.header": "40", "count": "3",
        "mtu": "4KiB", "small": "4", "engine": "dmodk", "level": "flow",
        "workload": "barrier + hpcg:iterations=3",
    }  # fmt: skip
    given = last.parameters
    assert given["fabric"] == {"source": str(tmp_path / "tall.net"), "format": "ibsim"}
    assert given["faults"]["random_cables"] == 2
    assert given["faults"]["seed"] == given["seed"] == 1
    assert given["hardware"]["mtu"] == 4096
    assert given["hardware"]["header"] == 40
    first, second = given["job"]
    assert first["placement"] == "random:seed=1"
    assert (second["ranks"], second["options"]) == (8, {"levels": 2})


def test_the_baseline_has_what_is_zipped_with_it(tmp_path: Path) -> None:
    text = SIMPLE.replace('{ engine = "dmodk" }', '{ fabric = "small" }').replace(
        "[study.product]", "[[study.zip]]"
    )
    assert study(tmp_path, text).baseline == {"fabric": "small", "faults.random_cables": "0"}


SWEEP = """\
command = "sweep"
fabric = "kary-n-tree:k=4,n=2"
level = ["flow", "packet", "flit"]
routing = "nca-random"
load = "0.1:0.5:0.2"
[study.product]
switch_latency = ["50ns", "100ns"]
[study]
seeds = 3
"""


def kept(file: StudyFile) -> list[tuple[object, ...]]:
    tasks = tasks_of(file, file.runs())
    return [
        (run.number, run.seed, run.point, task.key)
        for run, task in zip(file.runs(), tasks, strict=True)
    ]


@pytest.mark.parametrize("text", [SIMPLE, MANY, SWEEP], ids=["simple", "many", "sweep"])
def test_the_resolved_file_describes_the_same_runs(tmp_path: Path, text: str) -> None:
    for name in ("small.net", "tall.net"):
        (tmp_path / name).write_text("")
    file = study(tmp_path, text)
    again = study_of(resolved(file), tmp_path / "many.toml")
    assert kept(again) == kept(file)
    lists = {"product", "zip", "title"}
    assert again.study.model_dump(exclude=lists) == file.study.model_dump(exclude=lists)
    assert resolved(again) == resolved(file)
    assert 'ports = "first"' in resolved(file)


@pytest.mark.parametrize("name", study_command.names())
def test_the_resolved_file_of_every_command_has_its_defaults(tmp_path: Path, name: str) -> None:
    (tmp_path / "graph.txt").write_text("a: 0 -> 1 1MiB")
    example = study_command[name].facts["example"]
    lines = [f"command = {toml_text(name)}"]
    lines += [f"{key} = {toml_text(value)}" for key, value in example.items()]
    file = study(tmp_path, "\n".join(lines))
    again = study_of(resolved(file), tmp_path / "many.toml")
    assert kept(again) == kept(file)
    shown = resolved(file)
    for key in study_command[name].facts["keys"].model_fields:
        assert re.search(rf"^(# |\[|\[\[)?{key}\b", shown, re.MULTILINE), key
