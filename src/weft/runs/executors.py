"""Where runs are computed: in this process, in worker processes, or on the workers of Dask."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self

from weft.core.errors import InputError
from weft.core.pool import Ended, Stopped, Workers, measured
from weft.runs.task import Packed, Task, perform

#: Seconds between two ticks while Dask computes.
_TICK_S = 0.2
#: Texts of results of runs that exceeded a limit.
OVER = {
    "time": ("out of time", "took longer than {seconds:g} s"),
    "memory": ("out of memory", "took more than {bytes} bytes of memory"),
}


@dataclass(frozen=True)
class Limits:
    """Limits of one run; None for no limit.

    Parameters
    ----------
    seconds
        Wall time.
    bytes
        Resident memory of its process.
    """

    seconds: float | None = None
    bytes: int | None = None

    @property
    def table(self) -> dict[str, float]:
        """The limits that are set."""
        both = {"seconds": self.seconds, "bytes": self.bytes}
        return {name: value for name, value in both.items() if value is not None}


class Executor(Protocol):
    """Where runs are computed."""

    #: Number of runs at the same time.
    width: int

    def run(self, tasks: Iterator[tuple[int, Task]], tick: Callable[[], None]) -> Iterator[Ended]:
        """Run tasks, and yield the end of each as soon as it is known.

        A value is a `Packed`. The tasks are read as places become free; if `tasks` ends, the
        active runs are finished. `tick` is called several times a second; its exceptions end the
        execution.
        """
        ...

    def finish(self) -> None:
        """Begin no further runs, also of those that were read: `run` ends with the active ones."""
        ...

    def kill(self) -> None:
        """End all active runs at once."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class InProcess:
    """Runs in this process, one after the other, without limits."""

    width = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run(self, tasks: Iterator[tuple[int, Task]], tick: Callable[[], None]) -> Iterator[Ended]:
        """Run tasks; see `Executor.run`."""

        def watch(_: Any) -> None:
            try:
                tick()
            except KeyboardInterrupt:  # levels would return a partial result
                raise Stopped from None

        for number, task in tasks:
            try:
                packed, wall_s, memory = measured(partial(perform, None, task, watch))
            except Stopped:
                raise KeyboardInterrupt from None
            yield Ended(number, packed, wall_s=wall_s, memory_bytes=memory)
            tick()

    def finish(self) -> None:
        """Do nothing: no run is read before it begins."""

    def kill(self) -> None:
        """Do nothing: an interrupt ends the active run."""


class LocalProcesses(Workers):
    """Runs in worker processes of this machine."""

    def __init__(self, processes: int, limits: Limits) -> None:
        super().__init__(perform, None, processes, limit_s=limits.seconds, limit_bytes=limits.bytes)
        self.width = processes


class DaskCluster:
    """Runs on the workers of a Dask cluster, each in a process of its own beside the worker.

    Parameters
    ----------
    address
        Address of the scheduler: ``tcp://host:8786``.
    limits
        Limits of each run.

    Raises
    ------
    InputError
        If Dask is not installed, or the scheduler cannot be reached or has no workers.
    """

    def __init__(self, address: str, limits: Limits) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise InputError("--scheduler requires Dask: pip install 'weft[dask]'") from None
        try:
            self._client = Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {address}: {error}") from None
        self._limits = limits
        self._finishing = False
        threads = self._client.nthreads().values()
        self.width = sum(threads)
        if not self.width:
            self._client.close()
            raise InputError(f"the Dask scheduler at {address} has no workers")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self, tasks: Iterator[tuple[int, Task]], tick: Callable[[], None]) -> Iterator[Ended]:
        """Run tasks; see `Executor.run`. Dask repeats the run of a worker that dies."""
        from distributed import wait

        active: dict[Any, int] = {}
        while True:
            # Two runs for each place, so that no worker waits for the next one.
            while len(active) < 2 * self.width and (following := next(tasks, None)) is not None:
                number, task = following
                future = self._client.submit(
                    run_apart, task, self._limits, key=f"weft-{task.key}-{id(self)}-{number}",
                    pure=False, retries=2,
                )  # fmt: skip
                active[future] = number
            if not active:
                return
            try:
                ready = wait(list(active), timeout=_TICK_S, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                ready = ()
            if self._finishing:
                # What no worker has begun is given up; call stacks are those of begun runs.
                begun = self._client.call_stack(keys=[future.key for future in active])
                keys = {key for stacks in begun.values() for key in stacks}
                idle = [each for each in active if not each.done() and each.key not in keys]
                self._client.cancel(idle)
                for future in idle:
                    del active[future]
            for future in ready:
                number = active.pop(future)
                if future.status == "finished":
                    yield replace(future.result(), number=number)
                else:
                    yield Ended(number, died=f"Dask gave up: {future.exception()}")
            tick()

    def finish(self) -> None:
        """Begin no further runs."""
        self._finishing = True

    def kill(self) -> None:
        """Give up the active runs; Dask ends them as soon as it can."""
        self._client.close()


def _no_tick() -> None:
    return None


#: Thread of a Dask worker -> the process in which its runs are performed.
_apart = threading.local()


def run_apart(task: Task, limits: Limits) -> Ended:
    """Perform a run in a process beside this one, which later runs of this thread use again."""
    if getattr(_apart, "limits", None) != limits:
        _apart.limits, _apart.process = limits, LocalProcesses(1, limits)
    # Workers of Dask are daemons, which Python allows no processes; ours end with their parent.
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    before = config.get("daemon")
    config["daemon"] = False
    try:
        ended: Ended
        (ended,) = _apart.process.run(iter([(0, task)]), _no_tick)
    finally:
        config["daemon"] = before
    return ended


def packed(ended: Ended, limits: Limits) -> Packed:
    """Return the result of a run from its end, also if it exceeded a limit or its process died."""
    if ended.over:
        status, text = OVER[ended.over]
        return Packed(status, text.format(**limits.table))  # type: ignore[arg-type]
    if ended.died:
        return Packed("lost", ended.died)
    if ended.error is not None:
        return Packed("failed", f"unexpected {type(ended.error).__name__}: {ended.error}")
    result: Packed = ended.value
    return result
