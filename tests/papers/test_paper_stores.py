"""Studies of papers with a store: same results, resumption, more seeds, and a kill in mid-run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.processes import PATIENCE_S

from weft.cli import main
from weft.core.errors import InputError
from weft.study.runs.execute import StudyProgress
from weft.study.runs.store import INDEX, Store
from weft.study.runs.typed import Results
from weft_papers import paper
from weft_papers.contention import packets

#: Paper -> the smallest study, and the option that adds runs.
SMALL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "contention-model": (
        {"edges": 1, "graphs": 1, "shapes": 1, "packet_graphs": 2}, {"packet_graphs": 3},
    ),
    "kns-infiniband": (
        {"ranks_per_node": (1,), "benchmarks": ("natural-ring-latency",), "level": "flow",
         "placements": 1, "choices": False, "beyond": False, "processes": 1},
        {"placements": 2},
    ),
    "multipath-ecmp": ({"seeds": 2, "flows": 20, "k": (4, 6), "processes": 1}, {"seeds": 3}),
    "qsnet": (
        {"seeds": 2, "figures": ("9", "10"), "quick": True, "processes": 1}, {"seeds": 3},
    ),
    "routing-keys": (
        {"seeds": 2, "figures": ("4",), "quick": True, "hosts": 400, "processes": 1}, {"seeds": 3},
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def few_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "TOLD", packets.TOLD[:0])
    monkeypatch.setattr(packets, "VARIANTS", packets.VARIANTS[-2:])


class Counted:
    """A store, and how many runs a study has computed and found."""

    def __init__(self, store: Path | None, stop_at: int | None = None) -> None:
        self.computed = self.found = 0
        self._seen: dict[str, StudyProgress] = {}
        self._stop_at = stop_at
        self.results = Results(store, self._watch)

    def _watch(self, progress: StudyProgress) -> None:
        self._seen[progress.study] = progress
        self.computed = sum(sum(each.done.values()) for each in self._seen.values())
        self.found = sum(each.stored for each in self._seen.values())
        if self._stop_at is not None and self.computed >= self._stop_at:
            raise KeyboardInterrupt


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", list(SMALL))
def test_a_store_changes_no_result_and_is_computed_once(name: str, tmp_path: Path) -> None:
    options, more = SMALL[name]
    study = paper[name].function
    memory = Counted(None)
    text = study(**options, results=memory.results).text(200)
    # Interrupted after one run, then resumed: only the rest is computed.
    first = Counted(tmp_path, stop_at=1)
    with contextlib.suppress(KeyboardInterrupt):  # one run may be too little for a result
        assert study(**options, results=first.results).partial
    rest = Counted(tmp_path)
    assert study(**options, results=rest.results).text(200) == text
    assert (first.computed, rest.found) == (1, 1)
    assert rest.computed == memory.computed - 1 > 0
    # All results are read back.
    said: list[str] = []
    never = Results(tmp_path, lambda _: pytest.fail("runs were computed"), said.append)
    assert study(**options, results=never).text(200) == text
    assert said == [f"store {tmp_path}: {memory.computed} of {memory.computed} runs are done"]
    # More seeds: only theirs are computed.
    larger = Counted(tmp_path)
    extended = study(**{**options, **more}, results=larger.results)
    assert larger.found == memory.computed
    fresh = Counted(None)
    assert extended.text(200) == study(**{**options, **more}, results=fresh.results).text(200)
    assert larger.computed == fresh.computed - memory.computed > 0
    with Store(tmp_path) as store:
        assert not list(store.damages())
        assert {run.status for run in store.runs()} == {"complete"}
        assert all(run.measures for run in store.runs())
        assert len(store.briefs()) == fresh.computed
        members = [each for study in store.studies() for each in store.members(study)]
        assert {each.key for each in members} == set(store.briefs())


#: Program that runs a paper with a store and kills itself after three runs.
KILLED = """
import os, signal, sys
from weft.cli import main
from weft.study.runs.store import INDEX, Store

add = Store.add

def kill(store, *given, **more):
    add(store, *given, **more)
    if len(store.briefs()) >= 3:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    Store.add = kill
    main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_study_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["paper", "multipath", "--seeds", "3", "--flows", "20", "--k", "4,6"]
    stored = [*words, "--store", str(tmp_path / "store"), "--processes", "2"]
    program = tmp_path / "program.py"
    program.write_text(KILLED)
    child = subprocess.run(
        [sys.executable, program, *stored], check=False, capture_output=True, timeout=PATIENCE_S
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert main(words) == 0
    whole = capsys.readouterr().out
    assert main([*words, "--store", str(tmp_path / "store")]) == 0
    resumed = capsys.readouterr()
    assert resumed.out == whole
    done, runs = map(int, re.findall(r"(\d+) of (\d+) runs are done", resumed.err)[0])
    assert 3 <= done < runs
    with Store(tmp_path / "store") as store:
        assert not list(store.damages())
        assert len(store.briefs()) == runs


# -- typed functions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    share: float
    sizes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Job:
    name: str
    part: Part
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Made:
    job: Job
    number: int
    yes: bool
    values: dict[str, float]
    arrays: dict[str, NDArray[Any]]
    parts: dict[str, Part2]
    one: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Part2:
    low: float
    loads: NDArray[np.float32]


#: All kinds of doubles, some of which are equal or print alike.
AWKWARD = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, 0.1, 0.1 + 2**-56] * 9)


def make(shared: dict[str, float], job: Job, watch: Callable[[Any], None]) -> Made:
    if job.name == "bad":
        raise InputError("no such job")
    if job.name == "fault":
        raise ZeroDivisionError("by zero")
    assert isinstance(job.part.sizes, tuple)
    loads = np.arange(6, dtype=np.float32).reshape(2, 3)
    return Made(
        job, 2**60 + job.seed, job.seed > 0, {"a.b": 0.1 + 0.2, "-": -0.0, "?": np.nan},
        {"x": AWKWARD.reshape(9, 9), "none": np.empty((0, 4)), "flag": np.array([True, False])},
        {"p": Part2(shared["low"], loads)}, np.array(7, dtype=np.int32),
    )  # fmt: skip


JOB = Job("a", Part(0.1, ((1, 2), ())))


@pytest.mark.parametrize("stored", [False, True])
def test_results_are_restored_to_the_last_bit(stored: bool, tmp_path: Path) -> None:
    shared = {"low": 1 / 3}
    for _ in range(1 + stored):
        (made,) = Results(tmp_path if stored else None).of("s", make, shared, [JOB], 1).values()
        direct = make(shared, JOB, print)
        assert made.job is JOB
        assert (made.number, made.yes) == (direct.number, False)
        assert repr(made.values) == repr(direct.values)
        assert list(made.arrays) == list(direct.arrays)
        pairs = [(made.arrays[name], direct.arrays[name]) for name in direct.arrays]
        pairs += [(made.parts["p"].loads, direct.parts["p"].loads), (made.one, direct.one)]
        for ours, theirs in pairs:
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert ours.tobytes() == theirs.tobytes()
        assert made.parts["p"].low == 1 / 3


def test_what_determines_a_run_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def computed(shared: dict[str, float], *jobs: Job) -> int:
        counted = Counted(tmp_path)
        counted.results.of("s", make, shared, jobs, 1)
        return counted.computed

    assert computed({"low": 1.0}, JOB) == 1
    assert computed({"low": 1.0}, JOB) == 0
    assert computed({"low": 2.0}, JOB) == 1
    assert computed({"low": 1.0}, JOB, replace(JOB, part=Part(0.2))) == 1
    assert computed({"low": 1.0}, JOB, replace(JOB, seed=1)) == 1
    monkeypatch.setattr("weft.study.runs.task.build_of", lambda *_: "later")
    assert computed({"low": 1.0}, JOB) == 1


def test_a_list_of_runs_shows_what_varies(tmp_path: Path) -> None:
    jobs = [JOB, replace(JOB, part=Part(0.2)), replace(JOB, seed=1)]
    Results(tmp_path).of("s", make, {"low": 1.0}, jobs, 1)
    with Store(tmp_path) as store:
        members = store.members("s")
        assert [each.point for each in members] == [
            {"part.share": x} for x in ("0.1", "0.2", "0.1")
        ]
        assert [each.seed for each in members] == [0, 0, 1]
        about = store.studies()["s"]
        assert (about["axes"], about["seeds"]) == ({"part.share": ["0.1", "0.2"]}, [0, 1])
        first, *_ = store.run(members[0].key).measures  # type: ignore[union-attr]
        assert first == "number"


def test_a_damaged_table_is_computed_again(tmp_path: Path) -> None:
    Results(tmp_path).of("s", make, {"low": 1.0}, [JOB], 1)
    path = next(tmp_path.glob("tables/*/*.float64.*"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    counted = Counted(tmp_path)
    (made,) = counted.results.of("s", make, {"low": 1.0}, [JOB], 1).values()
    assert counted.computed == 1
    assert made.arrays["x"].tobytes() == AWKWARD.tobytes()


@pytest.mark.parametrize("change", ["nothing", "text", "shape", "table"])
def test_results_that_no_run_has_written_are_computed_again(change: str, tmp_path: Path) -> None:
    Results(tmp_path).of("s", make, {"low": 1.0}, [JOB], 1)
    with closing(sqlite3.connect(tmp_path / INDEX)) as index:
        key, measures, tables = index.execute("SELECT key, measures, tables FROM runs").fetchone()
        known = json.loads(measures)
        made = {
            "nothing": {}, "text": known | {"number": "x"},
            "shape": known | {"arrays.x": "float64 7"}, "table": known,
        }[change]  # fmt: skip
        if change == "table":
            junk, names = b"junk", json.loads(tables)
            name, digest = next(iter(names)), hashlib.sha256(junk).hexdigest()
            names[name] = [len(junk), digest]
            with Store(tmp_path) as store:
                store.table_path(key, name, digest).write_bytes(junk)
            tables = json.dumps(names)
        index.execute("UPDATE runs SET measures = ?, tables = ?", (json.dumps(made), tables))
        index.commit()
    counted = Counted(tmp_path)
    (again,) = counted.results.of("s", make, {"low": 1.0}, [JOB], 1).values()
    assert counted.computed == 1
    assert (again.number, again.arrays["x"].shape) == (2**60, (9, 9))


def test_a_failed_run_does_not_stop_the_others_of_a_store(tmp_path: Path) -> None:
    jobs = [replace(JOB, name=name) for name in ("bad", "good")]
    with pytest.raises(InputError, match=r"a run failed: no such job$"):
        Results(tmp_path).of("s", make, {"low": 1.0}, jobs, 1)
    with Store(tmp_path) as store:
        assert sorted(run.status for run in store.runs()) == ["complete", "failed"]
    with pytest.raises(InputError, match="unexpected ZeroDivisionError: by zero\nTraceback"):
        Results().of("s", make, {"low": 1.0}, [replace(JOB, name="fault")], 1)


def test_data_that_json_does_not_describe_is_refused() -> None:
    shared: dict[Any, float] = {1: 1.0}
    with pytest.raises(TypeError, match=r"JSON does not describe \{1: 1.0\}"):
        Results().of("s", make, shared, [JOB], 1)
