"""Kernels of the runs of a study are compiled once a machine, not once a worker."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kernel_runs import run

from weft.study.runs.executors import Limits, LocalProcesses
from weft.study.runs.task import Task


def test_one_worker_compiles_a_kernel_for_all(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "begun"
    folder.mkdir()
    tasks = [Task(run, {"folder": str(folder), "runs": 3, "number": number}) for number in range(3)]
    with LocalProcesses(3, Limits()) as workers:
        ends = list(workers.run(enumerate(tasks), lambda: None))
    found = [json.loads(ended.value.measures) for ended in ends]
    assert sorted(each["total"] for each in found) == [0, 0, 1]
    assert len({each["process"] for each in found}) == 3
    assert sorted(bool(each["passes"]) for each in found) == [False, False, True]
