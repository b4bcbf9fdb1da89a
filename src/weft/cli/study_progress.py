"""Progress of studies: shown by the process that computes, and watched from another terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weft.cli.common import ProgressDisplay
from weft.cli.output import given
from weft.core.counts import count_text
from weft.core.words import clock_text
from weft.study.runs.execute import StudyProgress
from weft.study.runs.shares import PROGRESS_OF_SHARE, waiting_results
from weft.study.runs.store import JOBS, PROGRESS, Store, writer

#: Seconds between two lines of progress if standard error is not a terminal.
LINE_S = 10.0
#: Seconds between two looks at the progress of another process.
LOOK_S = 0.5
#: Seconds without an update after which a job is reported.
SILENT_S = 120.0
#: Types of the parts of a progress that are shown.
_FORM = {
    "ended": bool, "text": str, "runs": int, "stored": int, "done": dict, "process": int,
    "host": str, "rate": float | int | None, "written_s": float,
}  # fmt: skip


class Display(ProgressDisplay):
    """Display of the progress of a study."""

    def __init__(self, first_s: float = 1.0) -> None:
        super().__init__(first_s, LINE_S)
        self._stopping = False

    def update(self, progress: StudyProgress) -> None:
        """Show the progress of this process."""
        if progress.stopping and not self._stopping:
            self._stopping = True
            print(
                "weft: finishing the active runs; a second signal (Ctrl-C) ends them at once",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        self.show(progress.text, progress.runs - progress.left, progress.runs)


def spent_text(progress: StudyProgress) -> str:
    """Return how long a study took and at what rate."""
    done = sum(progress.done.values())
    spent = time.time() - progress.began_s
    rate = done / max(spent, 1e-9)
    return f"computed {count_text(done, 'run')} in {clock_text(spent)} ({rate:.3g} runs/s)"


def watch(folder: Path) -> bool:
    """Show the progress of a study that other processes compute, until they have ended.

    Nothing is written, so that any number of terminals may watch.

    Returns whether the processes have ended as they should.
    """
    Store(folder).close()
    with Display(0.0) as display:
        while who := writer(folder):
            state = _read(folder / PROGRESS)
            if state and not state["ended"]:
                display.show(state["text"], _done(state), state["runs"])
            else:
                display.show(f"{who} has the store, but computes no runs now", 0, 1)
            time.sleep(LOOK_S)
        state = _read(folder / PROGRESS)
        if state and not state["ended"]:
            print(
                f"weft: process {state['process']} on {state['host']} has died after "
                f"{_done(state):,} of {state['runs']:,} runs; their results are kept, and "
                "'weft study' computes the others",
                file=sys.stderr,
            )
            return False
        whole = _watch_jobs(folder, display)
    if whole and not given("--quiet"):
        print(f"nothing computes in {folder} now; weft store ls lists its runs")
    return whole


def _watch_jobs(folder: Path, display: Display) -> bool:
    """Show the progress of the jobs of the last plan of a store until they have ended."""
    while True:
        jobs = list(_shares(folder))
        active = [state for state in jobs if not state["ended"]]
        silent = [each for each in active if time.time() - each["written_s"] > SILENT_S]
        if not active or len(silent) == len(active):
            break
        done, runs = sum(map(_done, jobs)), sum(state["runs"] for state in jobs)
        rate = sum(state["rate"] or 0.0 for state in active)
        text = f"{done:,} of {runs:,} runs; {len(active)} of {count_text(len(jobs), 'job')} active"
        if rate:
            text += f"; {rate:.3g} runs/s; about {clock_text((runs - done) / rate)} left"
        display.show(text, done, runs)
        time.sleep(LOOK_S)
    for state in silent:
        print(
            f"weft: process {state['process']} on {state['host']} has not written for "
            f"{clock_text(time.time() - state['written_s'])}",
            file=sys.stderr,
        )
    waiting = len(waiting_results(folder))
    if waiting:
        print(f"to collect: {count_text(waiting, 'result')} of jobs; see weft study --collect")
    return not silent


def _shares(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the progress of each job of the last plan."""
    plans = [path for path in (folder / JOBS).glob("*") if path.name.isdecimal()]
    if plans:
        last = max(plans, key=lambda path: int(path.name))
        for path in sorted(last.glob(PROGRESS_OF_SHARE.format(share="*"))):
            if state := _read(path):
                yield state


def _read(file: Path) -> Mapping[str, Any] | None:
    """Return a progress that another process has written; None if there is none."""
    try:
        state: Mapping[str, Any] = json.loads(file.read_bytes())
        whole = all(isinstance(state[key], kind) for key, kind in _FORM.items())
        whole = whole and all(isinstance(each, int) for each in state["done"].values())
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return state if whole else None


def _done(state: Mapping[str, Any]) -> int:
    done: int = state["stored"] + sum(state["done"].values())
    return done
