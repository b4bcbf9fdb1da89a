"""Independent runs in worker processes; an interrupt ends them soon and keeps finished results."""

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

#: Seconds to wait after workers have died: a signal that killed them may be about to reach this
#: process.
_A_MOMENT_S = 0.5


class RunTask(Protocol[Shared_contra, Task_contra, Result_co]):
    """Function of a module that takes shared data, a task and `watch`, and calls `watch` regularly.

    An exception that `watch` raises ends the run; the argument of `watch` is ignored.
    """

    def __call__(
        self, shared: Shared_contra, task: Task_contra, watch: Callable[[Any], None], /
    ) -> Result_co:
        """Do the task."""


class _Stopped(Exception):
    """Exception that ends the run of a worker process on request of the main process."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def check_processes(asked: int | None) -> None:
    """Refuse an invalid number of processes; None is valid and leaves the number open.

    Raises
    ------
    InputError
        If the number is not whole, or is less than 1.
    """
    if asked is None:
        return
    if not hasattr(asked, "__index__"):
        raise InputError(f"processes must be a whole number, not {asked!r}")
    if asked < 1:
        raise InputError(f"processes must be at least 1, not {asked}")


def run_all(
    run: RunTask[Shared, Task, Result],
    shared: Shared,
    tasks: Sequence[Task],
    processes: int,
    done: Callable[[int, int], None] | None = None,
) -> tuple[list[Result | None], bool]:
    """Run every task, in this process or in several worker processes.

    Parameters
    ----------
    run
        Function that runs a task. An interrupt takes effect between tasks and when `run` calls
        `watch`, so `run` should call it several times a second.
    shared
        Data of all runs; each process receives it once.
    tasks
        Independent tasks; cores are balanced best if the longest tasks come first.
    processes
        Number of processes; if it is 1, this process runs the tasks. Workers ignore SIGINT, which
        a terminal sends to all processes.
    done
        Function to call with the number of finished tasks and of all tasks; the first call is
        before any task has finished.

    Returns
    -------
    list
        Result of each task, in order; None for tasks that an interrupt prevented.
    bool
        Whether all tasks ran; False after a KeyboardInterrupt. In both cases all workers have
        ended.

    Raises
    ------
    InputError
        If the workers die, for example because a script has no main guard.

    Notes
    -----
    An exception of a task is raised here and ends the other tasks.
    """
    results: list[Result | None] = [None] * len(tasks)
    report = done or (lambda ready, number: None)
    if processes == 1 or len(tasks) < 2:
        try:
            with held_signals() as watch:
                for number, task in enumerate(tasks):
                    report(number, len(tasks))
                    watch(None)
                    results[number] = run(shared, task, watch)
                watch(None)
            report(len(tasks), len(tasks))
        except KeyboardInterrupt:
            return results, False
        return results, True
    return results, _in_pool(run, shared, tasks, min(processes, len(tasks)), report, results)


def _in_pool(
    run: RunTask[Shared, Task, Result],
    shared: Shared,
    tasks: Sequence[Task],
    processes: int,
    report: Callable[[int, int], None],
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
        _gather(pool, tasks, report, results)
    except KeyboardInterrupt:
        return False
    finally:
        # Active runs end at their next call of watch.
        stop.set()
        pool.shutdown(cancel_futures=True)
    return True


def _gather(
    pool: ProcessPoolExecutor,
    tasks: Sequence[Task],
    report: Callable[[int, int], None],
    results: list[Result | None],
) -> None:
    try:
        with _later():
            waiting: dict[Future[Result], int] = {
                pool.submit(_work, task): number for number, task in enumerate(tasks)
            }
        left = set(waiting)
        report(0, len(tasks))
        while left:
            ready, left = wait(left, return_when=FIRST_COMPLETED)
            for future in ready:
                results[waiting[future]] = future.result()
            report(len(tasks) - len(left), len(tasks))
    except BrokenProcessPool:
        time.sleep(_A_MOMENT_S)
        raise InputError(
            "the worker processes died; a script that uses them must have its code under "
            "`if __name__ == '__main__':`; processes=1 needs no workers"
        ) from None


@contextmanager
def held_signals() -> Iterator[Callable[[Any], None]]:
    """Delay SIGINT and SIGTERM until the yielded function is called, or until the block ends.

    Otherwise an interrupted run could pass for a complete one: the packet level returns a partial
    result when it is interrupted.
    """
    before: dict[int, Callable[[int, Any], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in handlers.items() if callable(handler)}
    pending: list[int] = []

    def watch(_: Any) -> None:
        if pending:
            number = pending[-1]
            pending.clear()
            before[number](number, None)
            raise KeyboardInterrupt

    for number in before:
        signal.signal(number, lambda number, frame: pending.append(number))
    try:
        yield watch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        watch(None)


@contextmanager
def _later() -> Iterator[None]:
    """Block SIGINT while workers start: workers inherit the mask and so never receive SIGINT."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


#: State of a worker process: function, shared data and the event that stops it.
_state: dict[str, Any] = {}


def _begin(run: Any, shared: bytes, stop: Any) -> None:
    # A terminal sends an interrupt to every process; only the main process acts and stops workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", PluginWarning)  # the main process has shown it
    _state.update(run=run, shared=pickle.loads(shared), stop=stop)


def _work(task: Any) -> Any:
    def watch(_: Any) -> None:
        if _state["stop"].is_set():
            raise _Stopped

    watch(None)
    return _state["run"](_state["shared"], task, watch)
