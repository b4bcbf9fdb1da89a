"""Cost of a run of a study beyond the run itself, and use of the cores by short runs.

A study stores each result durably; a `concurrent.futures.ProcessPoolExecutor` only returns the
results of the same runs. Both have one process for each core, and times begin when these have
started and loaded their kernels. The share of the processes' time that is spent within runs does
not depend on what else the machine does.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from weft.core.pool import cores, measured
from weft.study.plan import tasks_of
from weft.study.runs.execute import StudyProgress, execute
from weft.study.runs.executors import Limits, LocalProcesses
from weft.study.runs.store import Store
from weft.study.runs.task import Packed, RunResult, Task, perform
from weft.study.spec import read_study

#: Numbers of trivial and of short runs.
TRIVIAL, SHORT = 2000, 1000
#: Results before the measurement begins.
WARM = 100
#: Largest accepted overhead of a run in ms, and smallest accepted share of time within runs.
TARGET_MS, TARGET_SHARE = 5.0, 0.90
STUDY = f"""\
fabric = "xgft:2;4,4;1,4"
engine = ["dmodk", "minhop"]
[[job]]
workload = ["alltoall:size=1KiB", "alltoall:size=2KiB"]
placement = "random"
[study]
seeds = {SHORT // 4}
"""


def nothing(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
    """Do nothing."""
    return RunResult({"number": parameters["number"]})


def main() -> None:
    """Print overheads and shares."""
    trivial = [Task("benchmarks.study_runs:nothing", {"number": n}) for n in range(TRIVIAL)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "short.toml"
        path.write_text(STUDY)
        study = read_study(path)
        began = time.perf_counter()
        runs = study.runs()
        short = tasks_of(study, runs)
        planned_s = time.perf_counter() - began
        print(f"{len(short):,} runs planned in {planned_s:.2f} s")
        for name, tasks in (("trivial", trivial), ("short flow-level", short)):
            ours = of_study(tasks, Path(folder) / name)
            peer = of_peer(tasks)
            for who, each in (("study", ours), ("ProcessPoolExecutor", peer)):
                print(
                    f"{name:17} {who:20} {each.wall_s / each.runs * 1e3:7.2f} ms per run, "
                    f"{each.share:4.0%} of the time of {cores()} processes within runs, "
                    f"main process {each.main_s / each.runs * 1e3:.2f} ms per run",
                    flush=True,
                )
            print(f"{'':17} study takes {ours.wall_s / peer.wall_s:.2f} times as long")
            if name == "trivial":
                print(f"{'':17} target: under {TARGET_MS:g} ms per run")
            else:
                print(f"{'':17} target: over {TARGET_SHARE:.0%} within runs")


class Measured:
    """Measurement that begins after some results."""

    def __init__(self) -> None:
        self.runs = -WARM
        self.within_s = 0.0

    def count(self, wall_s: float) -> None:
        """Count a run that took a time."""
        self.runs += 1
        if self.runs <= 0:
            self._began_s, self._main_s = time.perf_counter(), time.process_time()
        else:
            self.within_s += wall_s
            self.wall_s = time.perf_counter() - self._began_s
            self.main_s = time.process_time() - self._main_s

    @property
    def share(self) -> float:
        """Share of the time of all processes within runs."""
        return self.within_s / (self.wall_s * cores())


def of_study(tasks: Sequence[Task], folder: Path) -> Measured:
    """Measure a study."""
    found = Measured()
    with Store(folder, write=True) as store:

        def keep(task: Task, packed: Packed, wall_s: float, memory_bytes: int) -> None:
            store.add(task, packed, wall_s=wall_s, memory_bytes=memory_bytes)
            found.count(wall_s)

        execute(
            tasks, LocalProcesses(cores(), Limits()), keep, Limits(),
            StudyProgress("benchmark", len(tasks), 0), folder / "progress.json",
            lambda progress: None,
        )  # fmt: skip
    return found


def of_peer(tasks: Sequence[Task]) -> Measured:
    """Measure the pool of processes of Python."""
    found = Measured()
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(timed, task) for task in tasks]):
            _, wall_s, _ = future.result()
            found.count(wall_s)
    return found


def timed(task: Task) -> tuple[Packed, float, int]:
    """Perform a run and measure it as a worker of a study does."""
    return measured(lambda: perform(None, task, lambda _: None))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
