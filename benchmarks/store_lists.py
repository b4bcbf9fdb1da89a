"""Time of `weft store ls` on a store of 100,000 finished runs: in a process, and as a command.

The time is the shortest of three: the elapsed one, and that of the processor.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.stores import make_store

from weft.study.runs.listing import list_runs
from weft.study.runs.store import Store

RUNS = 100_000
TIMES = 3
LISTS: dict[str, dict[str, Any]] = {
    "first 100": {"limit": 100},
    "two axes": {"limit": 100, "where": ["engine=d*", "fabric=torus"]},
    "failed": {"limit": 100, "status": ["failed"]},
    "by a measure": {"limit": 100, "sort": "makespan_ns"},
    "all runs": {"limit": 0},
}


def timed(function: Callable[[], object]) -> str:
    """Return the shortest elapsed time and processor time of a function in s, as text."""
    best = [float("inf")] * 2
    for _ in range(TIMES):
        before = time.perf_counter(), sum(_processor())
        function()
        took = time.perf_counter() - before[0], sum(_processor()) - before[1]
        best = list(map(min, best, took))
    return f"{best[0]:9.2f} {best[1]:9.2f}"


def _processor() -> tuple[float, float]:
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "many.study"
        make_store(store, RUNS)
        print(f"{RUNS:,} runs{'':8s} {'list s':>9s} {'CPU s':>9s} {'command s':>9s} {'CPU s':>9s}")
        for name, options in LISTS.items():
            words = [sys.executable, "-m", "weft", "store", "ls", str(store)]
            for option, value in options.items():
                for each in value if isinstance(value, list) else [value]:
                    words += [f"--{option}", str(each)]

            def command(words: list[str] = words) -> None:
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

            def listed(options: dict[str, Any] = options) -> None:
                with Store(store) as opened:
                    list_runs(opened, **options)

            print(f"{name:20s} {timed(listed)} {timed(command)}", flush=True)


if __name__ == "__main__":
    main()
