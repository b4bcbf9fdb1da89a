"""Stores for tests and benchmarks: small ones with tables, and large ones made at once."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from weft.study.runs.rows import Member
from weft.study.runs.store import Store
from weft.study.runs.task import Packed, RunResult, Task
from weft.study.runs.versions import build

AXES = {
    "fabric": ["fat tree", "dragonfly", "torus", "hyperx"],
    "faults.random_cables": ["0", "2", "10"],
    "engine": ["minhop", "dfsssp", "updn", "ftree", "dmodk"],
    "workload": ["alltoall:size=1KiB", "allreduce:size=1MiB", "stencil"],
    "level": ["flow"],
}
#: Measures of a run at the flow level, the main one first.
MEASURES = (
    "makespan_ns", "communication_ns", "mean_slowdown", "mean_message_ns", "max_message_ns",
    "messages", "size_bytes", "ranks", "jobs",
)  # fmt: skip
PARAMETERS = {
    "fabric": {"source": "xgft:2;2,2;1,2"}, "tolerance": 0.0, "eager": 16384, "handshake": True,
    "hardware": dict.fromkeys(("mtu", "header", "buffer", "credit", "control"), 100.0),
    "job": [{"name": "job1", "workload": "alltoall:size=1KiB", "placement": "random:seed=0"}],
}  # fmt: skip


def make_store(folder: Path, runs: int, study: str = "many") -> None:
    """Create a store of a study with runs of random values, in one transaction, without tables."""
    members, rows = [], []
    dice = random.Random(0)
    for number, (point, seed) in enumerate(itertools.islice(_points(), runs), 1):
        key = hashlib.sha256(str(number).encode()).hexdigest()[:32]
        members.append(Member(number, key, seed, point))
        rows.append(_row(key, number, dice))
    with Store(folder, write=True) as store:
        store.insert_rows(rows)
        store.set_study(study, about(AXES, {member.seed for member in members}), members)


def about(axes: Mapping[str, Iterable[str]], seeds: Iterable[int | None] = ()) -> dict[str, Any]:
    """Return the description of a study of `weft simulate`."""
    return {
        "title": "Many runs", "command": "simulate", "file": "/studies/many.toml", "text": "",
        "axes": {name: list(values) for name, values in axes.items()}, "baseline": {},
        "measures": [], "seeds": sorted(seed for seed in seeds if seed is not None),
    }  # fmt: skip


def _points() -> Iterator[tuple[dict[str, str], int]]:
    for seed in itertools.count():
        for values in itertools.product(*AXES.values()):
            yield dict(zip(AXES, values, strict=True)), seed


def _row(key: str, number: int, dice: random.Random) -> dict[str, Any]:
    failed = number % 50 == 0
    measures = {} if failed else {name: dice.uniform(1e3, 1e7) for name in MEASURES}
    return {
        "key": key, "function": "weft.study.commands.simulate:simulate",
        "parameters": json.dumps({**PARAMETERS, "seed": number}), "inputs": "{}",
        "status": "failed" if failed else "complete", "reason": "no way" if failed else "",
        "measures": json.dumps(measures), "tables": "{}", "wall_s": dice.uniform(0.01, 2.0),
        "memory_bytes": dice.randrange(1 << 27, 1 << 30), "limits": "{}", "build": build(),
        "libraries": json.dumps({"python": "3.11.7", "numpy": "2.4.6", "polars": "2.1.0"}),
        "host": "node", "ended_s": time.time() - number, "details": "",
    }  # fmt: skip


def square(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
    """Perform a run of `add_runs`."""
    value = parameters["value"]
    table = pl.DataFrame({"value": [value, value + 1]})
    return RunResult({"square": value * value, "half": value / 2}, {"jobs": table})


def task_of(value: int, **parameters: Any) -> Task:
    """Return a run of `square`."""
    return Task.of(square, {"value": value, **parameters})


def packed_of(result: RunResult) -> Packed:
    """Return a result as it is stored."""
    tables = {}
    for name, table in result.tables.items():
        stream = io.BytesIO()
        table.write_parquet(stream)
        tables[name] = stream.getvalue()
    return Packed(result.status, result.reason, json.dumps(dict(result.measures)), tables)


def add_runs(
    folder: Path, values: Iterable[int], study: str | None = "squares", **parameters: Any
) -> list[str]:
    """Store the squares of numbers, with a table each, and a study of them; return the keys."""
    tasks = {value: task_of(value, **parameters) for value in values}
    with Store(folder, write=True) as store:
        for task in tasks.values():
            result = packed_of(square(task.parameters, lambda _: None))
            store.add(task, result, wall_s=1.0, memory_bytes=1 << 20)
        if study is not None:
            members = [
                Member(number, task.key, None, {"value": str(value)})
                for number, (value, task) in enumerate(tasks.items(), 1)
            ]
            store.set_study(study, about({"value": map(str, tasks)}), members)
    return [task.key for task in tasks.values()]
