"""Execution of the runs of a study: each result is stored as soon as it is known."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from weft.core.counts import with_status
from weft.core.errors import InputError
from weft.core.files import write_text
from weft.core.pool import held_signals
from weft.core.words import clock_text
from weft.study.runs.executors import Executor, Limits, packed
from weft.study.runs.task import Packed, Task

#: Seconds between two writes of the progress.
_WRITE_S = 1.0
#: Number of last runs from which the rate is computed.
_LAST = 200


@dataclass
class StudyProgress:
    """Progress of a study."""

    #: Name of the study.
    study: str
    #: Number of all runs, and of those that were stored before.
    runs: int
    stored: int
    #: Status -> number of runs since the start.
    done: dict[str, int] = field(default_factory=dict)
    #: Whether the active runs are the last.
    stopping: bool = False
    #: Time of the start, in seconds since 1970.
    began_s: float = field(default_factory=time.time)
    #: Whether the execution has ended.
    ended: bool = False
    #: Number of the process.
    process: int = field(default_factory=os.getpid)
    _times: list[float] = field(default_factory=lambda: [time.monotonic()])

    def count(self, status: str) -> None:
        """Count a run that has ended."""
        self.done[status] = self.done.get(status, 0) + 1
        self._times = [*self._times[-_LAST:], time.monotonic()]

    @property
    def left(self) -> int:
        """Number of runs that are not done."""
        return self.runs - self.stored - sum(self.done.values())

    def rate(self) -> float | None:
        """Return the rate of the last runs in runs per second; None before the first."""
        spent = time.monotonic() - self._times[0]
        return (len(self._times) - 1) / spent if len(self._times) > 1 and spent > 0 else None

    @property
    def text(self) -> str:
        """The progress in words."""
        parts = [f"{self.runs - self.left:,} of {self.runs:,} runs"]
        if self.done and set(self.done) != {"complete"}:
            parts.append(counts(self.done))
        if rate := self.rate():
            parts.append(f"{rate:.3g} runs/s")
            parts += [f"about {clock_text(self.left / rate)} left"] * (self.left > 0)
        return "; ".join(parts)

    def write(self, file: Path) -> None:
        """Write the progress for other processes; a full disk does not stop the study here."""
        table = {
            "study": self.study, "runs": self.runs, "stored": self.stored, "done": self.done,
            "stopping": self.stopping, "began_s": self.began_s, "ended": self.ended,
            "process": self.process, "host": platform.node(), "rate": self.rate(),
            "text": self.text, "written_s": time.time(),
        }  # fmt: skip
        with suppress(InputError):
            write_text(file, json.dumps(table), follow=False)


def execute(
    tasks: Sequence[Task],
    executor: Executor,
    keep: Callable[[Task, Packed, float, int], None],
    limits: Limits,
    progress: StudyProgress,
    file: Path | None,
    watch: Callable[[StudyProgress], None],
) -> bool:
    """Run tasks and keep each result as soon as it is known.

    The first interrupt stops the start of further runs; the active ones are finished and kept.
    A second one ends them at once.

    - `tasks`: the tasks, in the order in which they begin.
    - `keep`: function that stores a result: task, result, wall time in s, and memory in bytes.
    - `limits`: limits of each run, for the reasons of runs that exceed them.
    - `file`: file to which the progress is written now and then; None to write none.
    - `watch`: function that is called after each run.

    Returns whether all tasks have ended; False after an interrupt. If a result cannot be stored,
    the active runs are given up.
    """
    waiting = iter(enumerate(tasks))
    written = 0.0

    def following() -> Iterator[tuple[int, Task]]:
        # Read again after an interrupt, when there is nothing left to start.
        while not progress.stopping and (task := next(waiting, None)) is not None:
            yield task

    def write() -> None:
        if file is not None:
            progress.write(file)

    def tell() -> None:
        nonlocal written
        if time.monotonic() - written >= _WRITE_S:
            written = time.monotonic()
            write()
        watch(progress)

    with executor, held_signals() as raise_held:

        def tick() -> None:
            try:
                raise_held(None)
            except KeyboardInterrupt:
                if progress.stopping:
                    raise
                progress.stopping = True
                executor.finish()
            tell()

        try:
            tell()
            for ended in executor.run(following(), tick):
                result = packed(ended, limits)
                keep(tasks[ended.number], result, ended.wall_s, ended.memory_bytes)
                progress.count(result.status)
        except KeyboardInterrupt:
            executor.kill()
        except BaseException:
            executor.kill()
            raise
        finally:
            progress.ended = True
            write()
    return not progress.stopping


def counts(statuses: Mapping[str, int]) -> str:
    """Return the statuses of runs in words: ``12 complete, 1 failed``."""
    return ", ".join(
        with_status(number, status) for status, number in Counter(statuses).most_common()
    )
