"""Where runs are computed: in this process, in worker processes, or on the workers of Dask."""

from __future__ import annotations

import logging
import multiprocessing
import threading
import time
import uuid
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, Self

from weft.core.errors import InputError
from weft.core.pool import TRIES, Ended, Stopped, Workers, measured
from weft.study.runs.task import Packed, Task, perform
from weft.study.runs.versions import build

#: Seconds between two ticks while Dask computes, and between two questions whether it has workers.
_TICK_S, _LOOK_S = 0.2, 5.0
#: Seconds to wait for a scheduler, and for workers if all have gone.
_CONNECT_S, _NO_WORKERS_S = 10.0, 60.0
#: Texts of results of runs that exceeded a limit.
OVER = {
    "time": ("out of time", "took longer than {seconds:g} s"),
    "memory": ("out of memory", "took more than {bytes} bytes of memory"),
}


@dataclass(frozen=True)
class Limits:
    """Limits of one run; None for no limit."""

    #: Wall time.
    seconds: float | None = None
    #: Resident memory of its process.
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
        raised: list[BaseException] = []

        def watch(_: Any) -> None:
            try:
                tick()
            except (
                BaseException
            ) as error:  # not of the run, whose result would be partial or failed
                raised.append(error)
                raise Stopped from None

        for number, task in tasks:
            try:
                packed, wall_s, memory = measured(partial(perform, None, task, watch))
            except Stopped:
                raise raised[0] from None
            yield Ended(number, packed, wall_s=wall_s, memory_bytes=memory)
            tick()

    def finish(self) -> None:
        """Do nothing: no run is read before it begins."""

    def kill(self) -> None:
        """Do nothing: an interrupt ends the active run."""


class LocalProcesses(Workers):
    """Runs in worker processes of this machine."""

    def __init__(self, processes: int, limits: Limits) -> None:
        super().__init__(
            perform, None, processes, limit_s=limits.seconds, limit_bytes=limits.bytes,
            # A process keeps the fabric and routes of its last run.
            kind=lambda task: task.parameters.get("spec"),
        )  # fmt: skip
        self.width = processes


class DaskCluster:
    """Runs on the workers of a Dask cluster, each in a process of its own beside the worker.

    `address`: address of the scheduler: ``tcp://host:8786``.
    """

    def __init__(self, address: str, limits: Limits) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise InputError("--scheduler requires Dask: pip install 'weft[dask]'") from None
        self._address, self._limits = address, limits
        self._session = uuid.uuid4().hex
        self._finishing = self._told = False
        # Failures become errors of this class; the log would show them a second time.
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"no Dask scheduler answers at {address}: {error}") from None
        try:
            self.width = sum(self._client.nthreads().values())
            if not self.width:
                raise InputError(f"the Dask scheduler at {address} has no workers")
            for worker, found in self._client.run(_build_here).items():
                if found != build():
                    raise InputError(f"the Dask worker {worker} has {found}, this is {build()}")
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self, tasks: Iterator[tuple[int, Task]], tick: Callable[[], None]) -> Iterator[Ended]:
        """Run tasks; see `Executor.run`. Dask repeats the run of a worker that dies."""
        from distributed.comm import CommClosedError

        try:
            yield from self._run(tasks, tick)
        except (CommClosedError, CancelledError, TimeoutError) as error:
            raise InputError(
                f"the Dask scheduler at {self._address} has gone: {error or type(error).__name__}"
            ) from None

    def _run(self, tasks: Iterator[tuple[int, Task]], tick: Callable[[], None]) -> Iterator[Ended]:
        active: dict[Any, int] = {}
        ready: SimpleQueue[Any] = SimpleQueue()
        seen_s = looked_s = time.monotonic()
        while True:
            # Two runs for each place, so that no worker waits for the next one.
            while len(active) < 2 * self.width and (following := next(tasks, None)) is not None:
                number, task = following
                future = self._client.submit(
                    run_apart, task, self._limits, build(), self._session, pure=False,
                    retries=TRIES - 1,
                    key=f"weft-{task.key}-{id(self)}-{number}",
                )  # fmt: skip
                active[future] = number
                future.add_done_callback(ready.put)
            if self._finishing and not self._told:
                self._told = True
                self._client.run(_finish_here, self._session, on_error="ignore")
            if not active:
                return
            with suppress(Empty):
                future = ready.get(timeout=_TICK_S)
                ended = self._ended(future, active.pop(future))
                seen_s = time.monotonic()
                if not ended.skipped:
                    yield ended
            now = time.monotonic()
            if now - max(seen_s, looked_s) > _LOOK_S:
                looked_s = now
                if self._client.nthreads():
                    seen_s = now
                elif now - seen_s > _NO_WORKERS_S:
                    raise InputError(
                        f"the Dask scheduler at {self._address} has had no workers for "
                        f"{_NO_WORKERS_S:g} s"
                    )
            tick()

    def _ended(self, future: Any, number: int) -> Ended:
        """Return the end of a run."""
        if future.status == "finished":
            ended: Ended = future.result()
            return replace(ended, number=number)
        if future.status == "cancelled":
            raise CancelledError("it has given up the runs")
        return Ended(number, died=f"Dask gave up: {future.exception()}")

    def finish(self) -> None:
        """Begin no further runs."""
        self._finishing = True

    def kill(self) -> None:
        """Give up the active runs: their processes are ended when the workers hear of it."""
        self._client.close()


def _build_here() -> str:
    """Return the version of weft of a Dask worker."""
    return build()


def _finish_here(session: str) -> None:
    """Begin no further runs of a session on this Dask worker."""
    _finished.add(session)


#: Sessions of which this Dask worker begins no further runs.
_finished: set[str] = set()
#: Thread of a Dask worker -> the process in which its runs are performed.
_apart = threading.local()


def run_apart(task: Task, limits: Limits, made_by: str, session: str) -> Ended:
    """Perform a run in a process beside that of a Dask worker, which later runs use again."""
    if session in _finished:
        return Ended(0, skipped=True)
    if build() != made_by:
        return Ended(0, died=f"the Dask worker has weft {build()}, not {made_by}")
    if getattr(_apart, "limits", None) != limits:
        _apart.limits, _apart.process = limits, LocalProcesses(1, limits)
    # Workers of Dask are daemons, which Python allows no processes; ours end with their parent.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    try:
        ended: Ended
        (ended,) = _apart.process.run(iter([(0, task)]), _check_wanted)
    except BaseException:
        _apart.limits = None
        _apart.process.kill()
        _apart.process.__exit__()
        raise
    return ended


def _check_wanted() -> None:
    """End the run of this thread of a Dask worker if nobody waits for its result any more."""
    from distributed.worker import get_worker, thread_state

    known = get_worker().state.tasks.get(thread_state.key)
    if known is None or known.state == "cancelled":
        raise RuntimeError("the run was given up")


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
