"""Independent runs over all cores, which an interrupt ends soon with what is known so far."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from weft.core.errors import InputError, PluginWarning

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")
Shared_contra = TypeVar("Shared_contra", contravariant=True)
Task_contra = TypeVar("Task_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

#: Who asks all processes to end may get to this one after the workers.
_A_MOMENT_S = 0.5


class RunTask(Protocol[Shared_contra, Task_contra, Result_co]):
    """A function of a module: what all runs share, one task, and what to call now and then.

    What `watch` raises ends the run; arguments to it are ignored.
    """

    def __call__(
        self, shared: Shared_contra, task: Task_contra, watch: Callable[[Any], None], /
    ) -> Result_co:
        """Do the task."""


class _Stopped(Exception):
    """Another process asked this one to end its run."""


def cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def check_processes(asked: int | None) -> None:
    """Refuse a number of processes that is none.

    Raises
    ------
    InputError
        When it is no whole number, or less than 1; None leaves the number open.
    """
    if asked is None:
        return
    if not hasattr(asked, "__index__"):
        raise InputError(f"processes are a whole number, not {asked!r}")
    if asked < 1:
        raise InputError(f"there must be at least 1 process, not {asked}")


def run_all(
    run: RunTask[Shared, Task, Result],
    shared: Shared,
    tasks: Sequence[Task],
    processes: int,
    done: Callable[[int, int], None] | None = None,
) -> tuple[list[Result | None], bool]:
    """Do every task, in this process or in several.

    Parameters
    ----------
    run
        What does a task, equally in any process. An interrupt takes effect when it calls `watch`
        and between tasks: it should call it several times a second.
    shared
        What every run needs; each process gets it once.
    tasks
        Which should not depend on each other; those that take longest first share cores best.
    processes
        How many; 1 is this one. Others ignore SIGINT, which a terminal sends to all.
    done
        Called with how many tasks are done, of how many, first before any is.

    Returns
    -------
    list
        Result of each task, in order, None where an interrupt came first.
    bool
        Whether all tasks were done: False after a KeyboardInterrupt. All processes have ended.

    Raises
    ------
    InputError
        When the processes die, as they do where a script has no main guard.

    Notes
    -----
    What a task raises is raised here and ends the others.
    """
    results: list[Result | None] = [None] * len(tasks)
    told = done or (lambda ready, number: None)
    if processes == 1 or len(tasks) < 2:
        try:
            with held_signals() as watch:
                for number, task in enumerate(tasks):
                    told(number, len(tasks))
                    watch(None)
                    results[number] = run(shared, task, watch)
                watch(None)
            told(len(tasks), len(tasks))
        except KeyboardInterrupt:
            return results, False
        return results, True
    return results, _in_pool(run, shared, tasks, min(processes, len(tasks)), told, results)


def _in_pool(
    run: RunTask[Shared, Task, Result],
    shared: Shared,
    tasks: Sequence[Task],
    processes: int,
    told: Callable[[int, int], None],
    results: list[Result | None],
) -> bool:
    # Spawned, not forked: polars and numba keep threads that a fork would leave locked.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    packed = pickle.dumps(shared, pickle.HIGHEST_PROTOCOL)
    pool = ProcessPoolExecutor(
        processes, mp_context=context, initializer=_begin, initargs=(run, packed, stop)
    )
    try:
        _gather(pool, tasks, told, results)
    except KeyboardInterrupt:
        return False
    finally:
        # Runs under way end at their next call of watch.
        stop.set()
        pool.shutdown(cancel_futures=True)
    return True


def _gather(
    pool: ProcessPoolExecutor,
    tasks: Sequence[Task],
    told: Callable[[int, int], None],
    results: list[Result | None],
) -> None:
    try:
        with _later():
            waiting: dict[Future[Result], int] = {
                pool.submit(_work, task): number for number, task in enumerate(tasks)
            }
        left = set(waiting)
        told(0, len(tasks))
        while left:
            ready, left = wait(left, return_when=FIRST_COMPLETED)
            for future in ready:
                results[waiting[future]] = future.result()
            told(len(tasks) - len(left), len(tasks))
    except BrokenProcessPool:
        time.sleep(_A_MOMENT_S)
        raise InputError(
            "the worker processes did not survive; a script that asks for them must keep its own "
            "work under `if __name__ == '__main__':`, and processes=1 does without them"
        ) from None


@contextmanager
def held_signals() -> Iterator[Callable[[Any], None]]:
    """Hold SIGINT and SIGTERM back until the function that this gives is called, or to the end.

    Elsewhere they would leave half of a run as a whole: the packet level gives what it has when it
    is interrupted.
    """
    before: dict[int, Callable[[int, Any], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        asked = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in asked.items() if callable(handler)}
    came: list[int] = []

    def watch(_: Any) -> None:
        if came:
            number = came[-1]
            came.clear()
            before[number](number, None)
            raise KeyboardInterrupt

    for number in before:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield watch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        watch(None)


@contextmanager
def _later() -> Iterator[None]:
    """Hold back interrupts while processes start, which inherit that: they never hear of any."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


#: Of a worker process: what runs, what is shared, and how it hears that it is to stop.
_state: dict[str, Any] = {}


def _begin(run: Any, shared: bytes, stop: Any) -> None:
    # An interrupt on a terminal goes to every process; the first one tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", PluginWarning)  # the first process has said it
    _state.update(run=run, shared=pickle.loads(shared), stop=stop)


def _work(task: Any) -> Any:
    def watch(_: Any) -> None:
        if _state["stop"].is_set():
            raise _Stopped

    watch(None)
    return _state["run"](_state["shared"], task, watch)
