"""Studies as arrays of Slurm, with a stand-in for sbatch that runs the scripts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores import add_runs, packed_of, square, task_of
from tests.study_kills import members, rows
from tests.study_runs import quick, quick_file, registered

from weft.cli import main
from weft.core.errors import InputError
from weft.study.command_registry import run_function
from weft.study.runs import shares
from weft.study.runs.executors import InProcess, Limits
from weft.study.runs.store import Store, record_of
from weft.study.runs.task import Packed, Task

#: Runs the tasks of an array at the same time, and a job as soon as those are done.
SBATCH = f"""#!{sys.executable}
import os, re, subprocess, sys
*options, script = sys.argv[1:]
assert options[0] == "--parsable"
said = open("{{log}}", "a+")
said.seek(0)
job = 100 + len(said.readlines())
lines = [line.split()[1] for line in open(script) if line.startswith("#SBATCH")]
said.write(" ".join([os.path.basename(script), *options[1:], *lines]) + "\\n")
array = [re.fullmatch(r"--array=0-(\\d+)", line) for line in lines]
numbers = [str(n) for found in array if found for n in range(int(found[1]) + 1)] or [None]
tasks = []
for number in numbers:
    given = {{"SLURM_CPUS_PER_TASK": "1"}}
    if number is not None:
        given["SLURM_ARRAY_TASK_ID"] = number
    output = open(f"{{script}}.{{number}}.out", "w")
    tasks.append(subprocess.Popen(
        ["/bin/sh", script], env=os.environ | given, stdout=output, stderr=output
    ))
for task in tasks:
    task.wait()
print(f"{{job}};cluster")
"""


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for sbatch on the path; return the file with a line for each job."""
    folder, log = tmp_path / "bin", tmp_path / "jobs.log"
    folder.mkdir()
    (folder / "sbatch").write_text(SBATCH.replace("{log}", str(log)))
    (folder / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    # The commands that the scripts start know the command ``quick``, too.
    (folder / "sitecustomize.py").write_text(
        "import sys\nif 'weft' in sys.orig_argv:\n"
        "    from tests.study_runs import register\n    register()\n"
    )
    here = f"{folder}{os.pathsep}{Path(__file__).parents[2]}"
    monkeypatch.setenv("PYTHONPATH", here, prepend=os.pathsep)
    return log


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "a study"
    folder.mkdir()
    with registered():
        yield quick_file(folder, 20)


def done_here(file: Path, folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return the rows of a study that this process computes."""
    main(["study", str(file), "--workers", "0", "--store", str(folder)])
    return rows(folder)


def test_an_array_of_jobs_gives_the_results_of_this_process(
    sbatch: Path, file: Path, tmp_path: Path, capsys
) -> None:
    words = ["--sbatch", "--array", "2", "--submit", "--sbatch-option=--time=5"]
    assert main(["study", str(file), *words, "--sbatch-option=--qos=a b"]) == 0
    store = file.with_suffix(".study")
    first, second = sbatch.read_text().splitlines()
    assert first.startswith("array.sh --job-name=weft-quick --array=0-1 ")
    assert "--time=5 --qos=a" in first
    assert second.startswith("collect.sh --dependency=afterany:100 ")
    assert "submitted job 101, which collects" in capsys.readouterr().out
    assert list((store / "incoming").glob("*/*")) == []
    here = tmp_path / "here"
    assert rows(store) == done_here(file, here)
    assert len(rows(store)) == 20
    assert members(store) == members(here)
    # Shares are about equal, and each run was computed once.
    said = [path.read_text() for path in sorted((store / "jobs" / "1").glob("array.sh.*.out"))]
    counts = [int(re.search(r"computed (\d+) runs", text)[1]) for text in said]
    assert counts == [10, 10]
    assert main(["study", str(file), "--sbatch"]) == 1  # two runs failed; nothing is left to do
    assert not (store / "jobs" / "2").exists()


def test_scripts_are_written_and_not_submitted(sbatch: Path, file: Path, capsys) -> None:
    assert main(["study", str(file), "--sbatch"]) == 0
    folder = file.with_suffix(".study") / "jobs" / "1"
    assert f"sh '{folder}/submit.sh'" in capsys.readouterr().out
    assert not sbatch.exists()
    assert len((folder / "plan.jsonl").read_text().splitlines()) == 21
    assert main(["study", str(file), "--sbatch"]) == 0  # nothing was computed yet
    assert (folder.parent / "2" / "plan.jsonl").read_text() == (folder / "plan.jsonl").read_text()


def test_a_study_takes_results_that_wait_and_computes_the_rest(file: Path, tmp_path: Path) -> None:
    """A share is computed, the other jobs never run, and a study is run by hand."""
    main(["study", str(file), "--sbatch", "--array", "2"])
    store = file.with_suffix(".study")
    assert main(["study", str(store / "jobs" / "1"), "--share", "1", "--workers", "0"]) == 0
    assert len(shares.waiting_results(store)) == 10
    assert rows(store) == {}
    assert main(["study", str(file), "--collect"]) == 1
    assert len(rows(store)) == 10
    here = done_here(file, tmp_path / "here")
    main(["study", str(file), "--workers", "0"])
    assert rows(store) == here


@pytest.mark.parametrize("worse", ["out of time", "older"])
def test_a_result_that_waits_does_not_replace_a_better_one(tmp_path: Path, worse: str) -> None:
    (key,) = add_runs(tmp_path, [3])
    task = task_of(3)
    packed = Packed("out of time" if worse == "out of time" else "complete", measures='{"half": 7}')
    record = record_of(task, packed, 1.0, 0)
    if worse == "older":
        record["build"] = "0.0.1+00000000"
    shares.write_result(tmp_path, record, packed)
    before = rows(tmp_path)
    with Store(tmp_path, write=True) as store:
        assert shares.collect(store) == (1, [])
        assert store.wrong_tables(key, store.briefs()[key]) == {}
    assert rows(tmp_path) == before
    assert shares.waiting_results(tmp_path) == []


def test_a_result_that_waits_replaces_a_worse_one(tmp_path: Path) -> None:
    task = task_of(3)
    with Store(tmp_path, write=True) as store:
        store.add(task, Packed("lost", "its host died"), wall_s=1.0, memory_bytes=0)
    packed = packed_of(square(task.parameters, lambda _: None))
    shares.write_result(tmp_path, record_of(task, packed, 1.0, 0), packed)
    with Store(tmp_path, write=True) as store:
        shares.collect(store)
        assert store.briefs()[task.key].status == "complete"


def test_a_collection_is_not_whole_while_results_are_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graph.txt").write_text("a: 0 -> 1  20MiB\n")
    file = tmp_path / "one.toml"
    file.write_text('command = "predict"\ngraph = "graph.txt"\n')
    assert main(["study", str(file), "--workers", "0"]) == 0
    assert main(["study", str(file), "--collect"]) == 0
    monkeypatch.setattr("weft.study.runs.task.build_of", lambda *_: "0.2.0+00000000")
    capsys.readouterr()
    assert main(["study", str(file), "--collect"]) == 1
    assert "0 runs done, 1 to compute" in capsys.readouterr().out


def test_a_plan_keeps_any_text(tmp_path: Path) -> None:
    task = task_of(3, name="a\u2028b\x85c")
    folder = shares.write_plan(tmp_path, "one", [task], Limits(), 1)
    (read,) = shares.read_share(folder, 0, lambda name, parameters: square).tasks
    assert (read.parameters, read.key) == (task.parameters, task.key)


def test_a_share_that_is_begun_again_computes_only_what_is_missing(file: Path, capsys) -> None:
    main(["study", str(file), "--sbatch", "--array", "1"])
    store = file.with_suffix(".study")
    share = [str(store / "jobs" / "1"), "--share", "0", "--workers", "0"]
    main(["study", *share])
    for path in shares.waiting_results(store)[:3]:
        path.unlink()
    capsys.readouterr()
    main(["study", *share])
    assert "computed 3 runs" in capsys.readouterr().out


@pytest.mark.slow
def test_a_collection_that_is_killed_at_any_line_loses_nothing(
    file: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(shares, "_AT_ONCE", 5)
    here = done_here(file, tmp_path / "here")
    main(["study", str(file), "--sbatch", "--array", "1"])
    store = file.with_suffix(".study")
    shares.perform_share(
        shares.read_share(store / "jobs" / "1", 0, run_function), InProcess(), lambda progress: None
    )
    step, kills = 1, 0
    while killed_at(step, lambda: collected(store)):
        kills += 1
        step = step + 23 if kills % 2 else step + 71
        stored = rows(store)
        left = {path.stem for path in shares.waiting_results(store)}
        assert left | set(stored) == set(here)
        assert stored.items() <= here.items()
    assert kills > 20
    assert rows(store) == here
    assert shares.waiting_results(store) == []


def collected(store: Path) -> None:
    with Store(store, write=True) as opened:
        shares.collect(opened)


def killed_at(number: int, action: Callable[[], None]) -> bool:
    """Run an action in a process that is killed at a line of weft; return whether it was."""
    child = os.fork()
    if child == 0:
        count = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal count
            if event == "call" and "weft.study.runs" not in frame.f_globals.get("__name__", ""):
                return None
            count += event == "line"
            if count >= number:
                os.kill(os.getpid(), 9)
            return trace

        sys.settrace(trace)
        action()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def test_damaged_results_are_reported_and_computed_again(
    file: Path, tmp_path: Path, capsys
) -> None:
    main(["study", str(file), "--sbatch", "--array", "1"])
    store = file.with_suffix(".study")
    share = shares.read_share(store / "jobs" / "1", 0, run_function)
    shares.perform_share(share, InProcess(), lambda progress: None)
    short, changed, renamed, empty, *_ = shares.waiting_results(store)
    short.write_bytes(short.read_bytes()[:-1])
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    renamed.rename(renamed.with_stem("0" * 32))
    empty.write_bytes(b"")
    capsys.readouterr()
    main(["study", str(file), "--collect"])
    said = capsys.readouterr()
    assert said.err.count("is not a whole result of a run; the run is still to be computed") == 4
    assert "collected 16 results" in said.out
    assert len(rows(store)) == 16
    main(["study", str(file), "--workers", "0"])
    assert rows(store) == done_here(file, tmp_path / "here")


def test_a_plan_of_another_version_is_refused(file: Path, tmp_path: Path, monkeypatch) -> None:
    task = Task(quick, {"number": 1, "seconds": 0.0})
    folder = shares.write_plan(tmp_path, "many", [task] * 3, Limits(seconds=2.5), 2)
    share = shares.read_share(folder, 1, run_function)
    assert (share.tasks, share.limits, share.store) == ([task], Limits(seconds=2.5), tmp_path)
    with pytest.raises(InputError, match="has the shares 0 to 1, but not 2"):
        shares.read_share(folder, 2, run_function)
    plan = folder / shares.PLAN
    text = plan.read_text()
    plan.write_text(text[: text.rindex("[")])
    with pytest.raises(InputError, match="is not a whole plan"):
        shares.read_share(folder, 0, run_function)
    plan.write_text(text)
    monkeypatch.setattr(shares, "build", lambda: "9.9.9+0")
    with pytest.raises(InputError, match=r"was made by weft .*, but this is 9\.9\.9"):
        shares.read_share(folder, 0, run_function)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--array", "3"], "--array requires --sbatch"),
        (["--submit"], "--submit requires --sbatch"),
        (["--sbatch", "--array", "0"], "--array: expected 1 to 1,001 jobs, not 0"),
        (["--sbatch", "--workers", "2"], "--workers and --sbatch exclude each other"),
        (["--sbatch", "--sbatch-option=time"], "'time' is not an option of sbatch"),
        (["--sbatch", "--submit"], "sbatch is not found"),
        (["--collect"], "is not a store of weft"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(
    file: Path, words: list[str], text: str, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["study", str(file), *words]) == 2
    assert text in capsys.readouterr().err
    assert not file.with_suffix(".study").exists()


def test_what_sbatch_says_against_a_job_is_printed(sbatch: Path, file: Path, capsys) -> None:
    (sbatch.parent / "bin" / "sbatch").write_text("#!/bin/sh\necho invalid qos >&2\nexit 1\n")
    assert main(["study", str(file), "--sbatch", "--submit"]) == 2
    assert "sbatch failed: invalid qos" in capsys.readouterr().err
