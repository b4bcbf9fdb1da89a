"""Files that runs read: all of them, and nothing else, count in the keys of runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from weft.core.errors import WeftError
from weft.core.files import files_in_spec, listed_files
from weft.fabrics.formats import write_fabric
from weft.fabrics.topology import build
from weft.study.plan import tasks_of
from weft.study.runs.task import Inputs, Task, changed_inputs, contents, perform
from weft.study.spec import read_study

PAIR = ["0 init\n0 send 1 0 100 1\n0 finalize\n", "1 init\n1 recv 0 0 100 1\n1 finalize\n"]
FILE = """\
[fabric]
source = "xgft:1;4;1"
[[job]]
workload = "alltoall:size=1KiB"
"""

#: Lists to which the names of files are added that are opened.
_records: list[list[str]] = []


def _record(event: str, arguments: tuple[object, ...]) -> None:
    if _records and event == "open":
        _records[-1].append(str(arguments[0]))


sys.addaudithook(_record)


@contextmanager
def opened() -> Iterator[list[str]]:
    """Collect the names of the files that are opened."""
    names: list[str] = []
    _records.append(names)
    try:
        yield names
    finally:
        _records.clear()


def tasks(folder: Path, text: str) -> list[Task]:
    path = folder / "many.toml"
    path.write_text(text)
    study = read_study(path)
    return tasks_of(study, study.runs())


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        FILE.replace('"xgft:1;4;1"', '"fabric.ibnetdiscover"'),
        FILE.replace("[[job]]", 'names = "names.map"\n[[job]]').replace(
            "xgft:1;4;1", "fabric.topo"
        ),
        FILE.replace("[[job]]", 'machines = "machines.csv"\n[[job]]'),
        FILE.replace("[[job]]", 'node = "own.toml"\n[[job]]'),
        FILE.replace("alltoall:size=1KiB", "ranks.goal"),
        FILE.replace("alltoall:size=1KiB", "traces"),
        FILE.replace("alltoall:size=1KiB", "list"),
        FILE + 'placement = "file:hosts"\n',
        'command = "predict"\ngraph = "graph.txt"\ncoefficients = "mine.toml"\n',
        'coefficients = "mine.toml"\nsharing = "penalty"\n' + FILE,
        'host_parameters = "own.toml"\n' + FILE,
        'command = "sweep"\nfabric = "xgft:1;4;1"\nload = 0.1\nhost_parameters = "own.toml"\n',
        *(
            f'engine = "{engine}"\n' + FILE
            for engine in (
                "file:lfts_file=tables.dump,lid_matrix_dump_file=matrix.dump",
                "source:paths=with=sign.txt",
                'source:paths=\\"with,comma.txt\\"',
                "sar:flows=flows.txt",
                "updn:root_guid_file=roots.txt",
                "torus-2QoS:conf=torus.conf",
            )
        ),
    ],
)
def test_every_file_that_a_run_reads_is_an_input(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "fabric.ibnetdiscover", "fabric.topo", "names.map", "ranks.goal", "hosts", "mine.toml",
        "tables.dump", "matrix.dump", "with=sign.txt", "with,comma.txt", "flows.txt", "roots.txt",
        "torus.conf", "machines.csv",
    )  # fmt: skip
    for name in names:
        (tmp_path / name).write_text("what no reader expects\n")
    (tmp_path / "mine.toml").write_text("inverse_bandwidth_s_per_byte = 1e-10\n")
    (tmp_path / "own.toml").write_text("adapter_latency_ns = 5000\n")
    (tmp_path / "graph.txt").write_text("a: 0 -> 1  20MiB\n")
    write(tmp_path, traces__r0=PAIR[0], traces__r1=PAIR[1], list="traces/r0\ntraces/r1\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (task,) = tasks(tmp_path, text)
    known = {Path(name) for name in task.inputs}
    for name in list(known):
        known |= set(name.rglob("*")) if name.is_dir() else set(listed_files(name))
    # Most of these files are refused after they are read.
    with opened() as read, suppress(WeftError):
        task.perform({"tables": [], **task.parameters}, lambda _: None)
    used = {Path(name) for name in read if name.startswith(str(tmp_path))}
    assert used
    assert used <= known


def test_a_change_of_a_listed_file_changes_the_keys_of_the_runs_that_use_it(tmp_path: Path) -> None:
    write(tmp_path, r0=PAIR[0], r1=PAIR[1], other=PAIR[0] + PAIR[1], list="r0\nr1\n")
    text = FILE.replace('"alltoall:size=1KiB"', '["list", "other"]')
    listed, alone = (task.key for task in tasks(tmp_path, text))
    (tmp_path / "r1").write_text(PAIR[1].replace("100", "0100"))
    after = [task.key for task in tasks(tmp_path, text)]
    assert after[0] != listed
    assert after[1] == alone


def test_a_list_of_files_ends_at_files_that_exist(tmp_path: Path) -> None:
    write(
        tmp_path, r0="0 init\n", list="# ranks\n\nr0\nmissing\n", trace="0 init\n", binary="r0\0\n"
    )
    assert listed_files(tmp_path / "list") == [tmp_path / "r0"]
    assert listed_files(tmp_path / "trace") == []
    assert listed_files(tmp_path / "binary") == []


def test_a_folder_with_the_name_of_an_engine_is_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (key,) = (task.key for task in tasks(tmp_path, 'engine = "minhop"\n' + FILE))
    write(tmp_path, minhop__file="text", flow__file="text")
    (after,) = tasks(tmp_path, 'engine = "minhop"\n' + FILE)
    assert (after.key, after.inputs) == (key, {})


def test_the_folder_of_the_files_does_not_count(tmp_path: Path) -> None:
    keys = []
    for name in ("here", "there"):
        folder = tmp_path / name
        write(
            tmp_path, **{f"{name}__trace_dot_goal": "text", f"{name}__ports_dot_txt": "H0 H1 1\n"}
        )
        text = 'engine = "source:paths=ports.txt"\n' + FILE.replace(
            "alltoall:size=1KiB", "trace.goal"
        )
        keys += [task.key for task in tasks(folder, text)]
    assert keys[0] == keys[1]


def test_names_of_files_in_specs() -> None:
    files = {"a.dump", "b=c.dump", "d,e.txt", "0.5", "hosts"}

    def found(spec: str) -> list[str]:
        return [spec[start:end] for start, end in files_in_spec(spec, files.__contains__)]

    assert found("file:lfts_file=a.dump,lid_matrix_dump_file=b=c.dump") == ["a.dump", "b=c.dump"]
    assert found('source:paths="d,e.txt"') == ["d,e.txt"]
    assert found("a.dump") == []
    assert found("file:hosts") == found("any:paths=hosts") == ["hosts"]
    assert found("any:share=hosts") == []
    assert found("x:share=0.25,paths=ca.dump") == []


def test_a_file_that_changes_while_a_run_reads_it_gives_no_result(tmp_path: Path) -> None:
    path = tmp_path / "trace.goal"
    path.write_text("before")
    task = Task.of(overwrite, {"path": str(path)})
    assert changed_inputs(task.inputs) == {}
    packed = perform(None, task, lambda _: None)
    assert packed.status == "lost"
    assert "trace.goal: has changed" in packed.reason
    path.unlink()
    assert "No such file" in changed_inputs(task.inputs)[str(path)]


def test_a_process_that_has_a_fabric_reads_it_again_when_its_file_changes(tmp_path: Path) -> None:
    text = FILE.replace("xgft:1;4;1", "net.topo") + 'placement = "linear"\n'
    results = []
    for hosts in (4, 6):
        write_fabric(build(f"xgft:1;{hosts};1"), tmp_path / "net.topo")
        (task,) = tasks(tmp_path, text)
        packed = perform(None, task, lambda _: None)
        assert (packed.status, packed.reason) == ("complete", "")
        results.append(json.loads(packed.measures)["messages"])
    assert results == [4 * 3, 6 * 5]


def overwrite(parameters: dict[str, str], watch: object) -> None:
    Path(parameters["path"]).write_text("after it")


def test_the_hash_of_a_folder_has_names_and_contents(tmp_path: Path) -> None:
    write(tmp_path, traces__r0=PAIR[0], traces__r1=PAIR[1])
    before = contents(str(tmp_path / "traces"))
    (tmp_path / "traces" / "r1").rename(tmp_path / "traces" / "r2")
    renamed = contents(str(tmp_path / "traces"))
    (tmp_path / "traces" / "r2").write_text(PAIR[1] + "\n")
    assert len({before, renamed, contents(str(tmp_path / "traces"))}) == 3


def test_files_that_a_row_of_a_store_does_not_list_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, listed="a\n", other="b\n")
    listed, other = str(tmp_path / "listed"), str(tmp_path / "other")
    inputs = {listed: contents(listed)}
    assert Inputs().are({"file": listed}, inputs)
    assert not Inputs().are({"file": listed}, {listed: contents(other)})
    with opened() as names:
        assert not Inputs().are({"file": listed, "more": other}, inputs)
    assert names == []
