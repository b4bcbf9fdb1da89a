"""Real studies that are killed at random instants, and what must be left of them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.processes import Starter, end, left_of, state_of, wait_for
from tests.study_runs import logged, prepared, quick_file
from weft.study.runs.rows import StoreError
from weft.study.runs.store import Store

#: Columns of the index that differ between two executions of the same runs.
VARYING = frozenset({"wall_s", "memory_bytes", "ended_s"})
#: Results that a worker may have ended and that are not stored yet: two are sent to it at a time.
_AHEAD = 2


def rows(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Check a store, and return key -> what does not vary of each run."""
    with Store(folder) as store:
        assert list(store.damages()) == []
        columns = [name for _, name, *_ in store.query("PRAGMA table_info(runs)")]
        kept = ", ".join(name for name in columns if name not in VARYING)
        return {row[0]: row for row in store.query(f"SELECT {kept} FROM runs ORDER BY key")}


def members(folder: Path) -> list[Any]:
    """Return the runs of the studies of a store."""
    with Store(folder) as store:
        return store.query("SELECT * FROM members ORDER BY study, number")


def wait_until(pid: int, instant_s: float) -> None:
    """Wait until an instant, or until a process has ended."""
    while time.monotonic() < instant_s and state_of(pid):
        time.sleep(0.002)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that run."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [child for child in map(int, text.split()) if state_of(child)]
    return []


def run_kills(folder: Path, kills: int, seed: int, *, runs: int = 60) -> Counter[str]:
    """Kill studies and their workers again and again; check all that they had stored.

    Parameters
    ----------
    folder
        For the stores.
    kills, seed
        Number of kills; seed of all that is random.
    runs
        Runs of a study.

    Returns
    -------
    Counter
        Counts of what happened.
    """
    with closing(Starter(prepared(folder / "log"), fork=True)) as starter:
        return _run_kills(starter, folder, kills, random.Random(seed), runs)


def _run_kills(
    starter: Starter, folder: Path, kills: int, dice: random.Random, runs: int
) -> Counter[str]:
    log, said = folder / "log", folder / "said"
    said.touch()
    file = quick_file(folder, runs, seconds=0.01)
    store = folder / "quick.study"

    def start(workers: int) -> int:
        pid = starter.start(["study", str(file), "--workers", str(workers)], said)
        starter.last.append(pid)
        return pid

    def wait(pid: int) -> None:
        wait_for(lambda: not state_of(pid), said.read_text)

    # The uninterrupted study, and how long it takes.
    long_s = {}
    for workers in (0, 2):
        shutil.rmtree(store, ignore_errors=True)
        began = time.monotonic()
        wait(start(workers))
        long_s[workers] = time.monotonic() - began
    whole, listed = rows(store), members(store)
    assert len(whole) == runs

    counts: Counter[str] = Counter(kills=0, runs=0, sessions=0, lost=0, corrupt=0, whole=0)
    shutil.rmtree(store)
    had: dict[str, tuple[Any, ...]] = {}
    while counts["kills"] < kills:
        workers = dice.choice([0, 2, 2, 3])
        log.unlink(missing_ok=True)
        pid = start(workers)
        counts["sessions"] += 1
        struck = 0
        began = time.monotonic()
        until = began + dice.uniform(0, 1.1 * long_s[min(workers, 2)])
        # Workers die, too: at most two, since a run whose worker dies three times is given up.
        for _ in range(dice.choice([0, 0, 1, 2]) if workers else 0):
            wait_until(pid, dice.uniform(time.monotonic(), until))
            if found := children(pid):
                with suppress(ProcessLookupError):
                    os.kill(dice.choice(found), signal.SIGKILL)
                    struck += 1
        counts["kills"] += struck
        counts["workers"] += struck
        wait_until(pid, until)
        if state_of(pid):
            end(pid, group=dice.random() < 0.3)
            counts["kills"] += 1
        elif not had:  # how long a whole study takes depends on what else the machine does
            long_s[min(workers, 2)] = time.monotonic() - began
        # The next study may begin at once: workers end soon after their main process.
        now = rows(store) if (store / "index.sqlite").exists() and _is_store(store) else {}
        for key, row in had.items():
            assert now.get(key) == row, f"lost or changed: {key}"
        for key, row in now.items():
            assert row == whole[key], f"different: {key}"
        lost = len(logged(log)[1]) - (len(now) - len(had))
        assert lost <= _AHEAD * (max(workers, 1) + struck), (lost, workers)
        counts["runs"] += len(now) - len(had)
        counts["lost"] += max(lost, 0)
        had = now
        if len(now) == runs:
            assert members(store) == listed
            counts["whole"] += 1
            shutil.rmtree(store)
            had = {}
    wait(start(2))
    assert rows(store) == whole
    with Store(store) as opened:
        assert opened.files_of_no_run() == []
    wait_for(lambda: not any(map(left_of, starter.last)))
    # A worker that Python is just starting complains that its parent has gone.
    assert "src/weft/" not in said.read_text(), said.read_text()
    return counts


def _is_store(store: Path) -> bool:
    """Return whether a store was created before its study was killed."""
    try:
        Store(store).close()
    except StoreError as error:
        if "is not a store of weft" in str(error):
            return False
        raise
    return True
