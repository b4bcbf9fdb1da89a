"""Stores of many runs, made at once: the rows of real runs with other keys, points and values."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.runs.store import Member, Store
from weft.runs.versions import build

AXES = {
    "fabric": ["fat tree", "dragonfly", "torus", "hyperx"],
    "faults.random_cables": ["0", "2", "8"],
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
    with Store(folder, write=True) as store:
        members, rows = [], []
        dice = random.Random(0)
        for number, (point, seed) in enumerate(itertools.islice(_points(), runs), 1):
            key = hashlib.sha256(str(number).encode()).hexdigest()[:32]
            members.append(Member(number, key, seed, point))
            rows.append(_row(key, number, dice))
        store.insert_rows(rows)
        axes = {**AXES, "faults.random_cables": AXES["faults.random_cables"]}
        about = {
            "title": study, "command": "simulate", "file": f"{study}.toml", "text": "",
            "axes": axes, "baseline": {}, "measures": [], "seeds": [0],
        }  # fmt: skip
        store.set_study(study, about, members)


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
