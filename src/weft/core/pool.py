"""Independent runs in worker processes; an interrupt ends them soon and keeps finished results."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, Literal, Protocol, Self, TypeVar

from weft.core.arguments import whole_number
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
#: Linux: send a signal to this process when its parent ends (prctl).
_PR_SET_PDEATHSIG = 1
#: Tasks that a worker has at most: the active one, and the next, so that it never waits for one.
_AHEAD = 2
#: ``end_s``: instant at which the task of this process is ended, by `time.monotonic`. ``tell``:
#: function that tells the main process whether what runs is common to tasks of one kind.
_active = SimpleNamespace(end_s=math.inf, tell=lambda common: None)
#: Seconds between two looks at the time and memory of workers, and at the request to stop.
_LOOK_S = 0.05
#: Longest time in seconds between two ticks.
_TICK_S = 0.2
#: Workers on which a task is tried before it counts as the cause of their deaths; also the number
#: of workers that may be killed one after the other before any can begin.
TRIES = 3
#: Largest message in bytes to a worker that is busy, which does not read it yet: what a socket
#: holds. While the main process waits for a worker, it must not wait for that process.
_WITHOUT_WAITING = 1 << 15


class RunTask(Protocol[Shared_contra, Task_contra, Result_co]):
    """Function of a module that takes shared data, a task and `watch`, and calls `watch` regularly.

    An exception that `watch` raises ends the run; the argument of `watch` is ignored.
    """

    def __call__(
        self, shared: Shared_contra, task: Task_contra, watch: Callable[[Any], None], /
    ) -> Result_co:
        """Do the task."""


class Stopped(BaseException):
    """Exception that ends the run of a worker process on request of the main process."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def free_cores() -> int:
    """Return the number of threads of a run by default; a worker, beside others, has one."""
    return cores() if multiprocessing.parent_process() is None else 1


def time_left() -> float:
    """Return the seconds after which the task of this worker process is ended; inf for no limit."""
    return float(_active.end_s - time.monotonic())


@contextmanager
def common_to_kind() -> Iterator[None]:
    """Compute what tasks of one kind have in common: if this takes too long, all of them do."""
    _active.tell(True)
    try:
        yield
    finally:
        _active.tell(False)


def check_processes(asked: int | None) -> None:
    """Refuse an invalid number of processes; None is valid and leaves the number open."""
    if asked is not None:
        whole_number(asked, "processes", 1)


def run_all(
    run: RunTask[Shared, Task, Result],
    shared: Shared,
    tasks: Sequence[Task],
    processes: int,
    done: Callable[[int, int], None] | None = None,
) -> tuple[list[Result | None], bool]:
    """Run every task, in this process or in several worker processes.

    - `run`: function that runs a task. An interrupt takes effect between tasks and when `run` calls
      `watch`, so `run` should call it several times a second.
    - `shared`: data of all runs; each process receives it once.
    - `tasks`: independent tasks; cores are balanced best if the longest tasks come first.
    - `processes`: number of processes; if it is 1, this process runs the tasks. Workers ignore
      SIGINT, which a terminal sends to all processes. The task of a worker that dies is tried
      again.
    - `done`: function to call with the number of finished tasks and of all tasks; the first call is
      before any task has finished.

    Returns the result of each task in order, None for tasks that an interrupt prevented; and
    whether all tasks ran. In both cases all workers have ended.

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
    try:
        with Workers(run, shared, min(processes, len(tasks))) as workers:
            report(0, len(tasks))
            for ready, ended in enumerate(workers.run(enumerate(tasks)), 1):
                if ended.error is not None:
                    raise ended.error
                if ended.died:
                    time.sleep(_A_MOMENT_S)
                    raise InputError(f"the worker processes died: {ended.died}")
                results[ended.number] = ended.value
                report(ready, len(tasks))
    except KeyboardInterrupt:
        return results, False
    return results, True


@dataclass(frozen=True, eq=False)
class Ended:
    """The end of a task."""

    number: int
    #: Value that the function returned, unless one of the next three is set.
    value: Any = None
    #: Exception of the function.
    error: BaseException | None = None
    #: The limit that the task exceeded, so that its worker was ended.
    over: Literal["", "time", "memory"] = ""
    #: How the workers died on which the task was tried.
    died: str = ""
    #: Seconds that the task took.
    wall_s: float = 0.0
    #: Largest resident memory of the worker during the task; 0 if unknown.
    memory_bytes: int = 0
    #: Whether the task was not begun, on request.
    skipped: bool = False


@dataclass(eq=False)
class _Worker:
    """A worker process and the tasks that it has, of which the first is active.

    If it is ended because a task exceeds a limit, `over` is the limit and `task_over` the task.
    If it ends on request, `leaving` is true.
    """

    process: Any
    connection: Connection
    tasks: deque[int] = field(default_factory=deque)
    ready: bool = False
    began_s: float = 0.0
    over: Literal["", "time", "memory"] = ""
    task_over: int = -1
    leaving: bool = False
    #: Kind of the task that it was sent last.
    kind: object = None
    #: Whether it computes what tasks of one kind have in common.
    common: bool = False


class Workers:
    """Worker processes that run one function; a worker that dies is replaced.

    No lock is shared, so that the death of a worker at any instant leaves the others working.

    `run`: function of a module; see `RunTask`. `shared`: data of all tasks; each process receives
    it once. `limit_s`, `limit_bytes`: time and resident memory after which a task is ended with its
    process; None for no limit. `kind`: function of a task's data whose value tasks share that one
    process should run one after the other, because it keeps what they have in common.
    """

    def __init__(
        self,
        run: RunTask[Any, Any, Any],
        shared: Any,
        processes: int,
        *,
        limit_s: float | None = None,
        limit_bytes: int | None = None,
        kind: Callable[[Any], object] = lambda data: None,
    ) -> None:
        # Spawned, not forked: polars and numba keep threads that a fork would leave locked.
        self._context = multiprocessing.get_context("spawn")
        limit = math.inf if limit_s is None else limit_s
        self._packed = pickle.dumps((run, shared, limit), pickle.HIGHEST_PROTOCOL)
        self._processes = processes
        self._limit_s, self._limit_bytes = limit_s, limit_bytes
        self._kind = kind
        self._workers: list[_Worker] = []
        # Workers stop when the other end closes: on request, or because this process has ended.
        self._stop_reader, self._stop_writer = self._context.Pipe(duplex=False)
        # In the same way they begin no further task.
        self._last_reader, self._last_writer = self._context.Pipe(duplex=False)
        self._finishing = False
        self._deaths: dict[int, int] = {}
        self._early_deaths = 0
        self._kinds: dict[int, object] = {}
        #: Kinds whose common part exceeds the limit of time. Memory may be that of other kinds.
        self._slow: set[object] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._end()

    def run(
        self, tasks: Iterator[tuple[int, Any]], tick: Callable[[], None] = lambda: None
    ) -> Iterator[Ended]:
        """Run tasks, and yield the end of each as soon as it is known.

        `tasks`: number and data of each task; read only as workers become free, and a few ahead.
        `tick`: function to call several times a second.
        """
        waiting: deque[int] = deque()
        data: dict[int, bytes] = {}
        with _later():
            missing = self._processes - len(self._workers)
            self._workers += [self._new() for _ in range(missing)]
        tasks = iter(tasks)
        while True:
            for worker in sorted(self._workers, key=lambda each: len(each.tasks)):
                while len(worker.tasks) < _AHEAD and not self._finishing:
                    # The last tasks are shared evenly: none waits behind another.
                    missing = _AHEAD * self._processes - len(waiting)
                    for following in itertools.islice(tasks, max(missing, 0)):
                        data[following[0]] = pickle.dumps(following, pickle.HIGHEST_PROTOCOL)
                        self._kinds[following[0]] = self._kind(following[1])
                        waiting.append(following[0])
                    cut = [each for each in waiting if self._kinds[each] in self._slow]
                    for number in cut:
                        waiting.remove(number)
                        del data[number]
                        yield Ended(number, over="time")
                    if cut:  # there is room to read more
                        continue
                    if not waiting:
                        break
                    number = self._best(worker, waiting)
                    if worker.tasks and (
                        any(not each.tasks for each in self._workers)
                        or len(data[number]) > _WITHOUT_WAITING
                    ):
                        break
                    waiting.remove(number)
                    worker.kind = self._kinds[number]
                    self._send(worker, number, data)
            if self._finishing:
                for number in waiting:
                    del data[number]
                waiting.clear()
            if not data:
                return
            for ended in self._wait(waiting):
                del data[ended.number]
                self._deaths.pop(ended.number, None)
                if not ended.skipped:
                    yield ended
            tick()

    def _best(self, worker: _Worker, waiting: deque[int]) -> int:
        """Return the first task of the worker's last kind, else of no worker's kind, else any."""
        taken, kinds = {each.kind for each in self._workers}, self._kinds
        return min(
            waiting,
            key=lambda number: (kinds[number] != worker.kind) * (1 + (kinds[number] in taken)),
        )

    def finish(self) -> None:
        """Begin no further task: `run` ends with the active ones."""
        self._finishing = True
        self._last_writer.close()

    def _new(self) -> _Worker:
        here, there = self._context.Pipe()
        given = (there, self._stop_reader, self._last_reader, self._packed, os.getpid())
        process = self._context.Process(target=_serve, args=given, daemon=True)
        try:
            process.start()
        except OSError as error:
            here.close()
            raise InputError(f"cannot start a worker process: {error.strerror}") from None
        finally:
            there.close()
        return _Worker(process, here)

    def _send(self, worker: _Worker, number: int, data: dict[int, bytes]) -> None:
        if not worker.tasks:
            worker.began_s = time.monotonic()
        worker.tasks.append(number)
        with contextlib.suppress(OSError):  # a dead worker is noticed by `_wait`
            worker.connection.send_bytes(data[number])

    def _wait(self, waiting: deque[int]) -> Iterator[Ended]:
        """Yield the tasks that end next; put those of dead workers back into `waiting`."""
        looking = self._limit_s is not None or self._limit_bytes is not None
        sources: list[Any] = [worker.connection for worker in self._workers]
        sources += [worker.process.sentinel for worker in self._workers]
        found = wait(sources, _LOOK_S if looking else _TICK_S)
        for worker in list(self._workers):
            # A process that it forked keeps the sentinel open.
            died = worker.process.sentinel in found or worker.process.exitcode is not None
            if worker.connection in found or died:
                yield from self._receive(worker)
            if died:
                yield from self._replace(worker, waiting)
        if looking:
            self._look()

    def _receive(self, worker: _Worker) -> Iterator[Ended]:
        """Yield the ends of tasks that a worker has reported."""
        try:
            while worker.connection.poll():
                kind, number, value, wall_s, memory = worker.connection.recv()
                if kind == "common":
                    worker.common = value
                    continue
                worker.began_s = time.monotonic()
                if kind == "ready":
                    worker.ready = True
                    self._early_deaths = 0
                    continue
                if kind == "leaving":
                    worker.leaving = True
                    continue
                worker.tasks.remove(number)
                yield Ended(number, wall_s=wall_s, memory_bytes=memory, **{kind: value})
        except (EOFError, OSError, pickle.UnpicklingError):
            pass  # it died, possibly while it was sending

    def _replace(self, worker: _Worker, waiting: deque[int]) -> Iterator[Ended]:
        """Replace a dead worker, and yield the end of its task if that is to blame."""
        worker.process.join()
        worker.connection.close()
        self._workers.remove(worker)
        if not worker.ready:
            self._note_early_death(worker.process.exitcode)
        if worker.tasks:
            active = worker.tasks.popleft()
            spent = time.monotonic() - worker.began_s
            if worker.over and worker.task_over == active:
                if worker.common and worker.over == "time":
                    self._slow.add(self._kinds[active])
                yield Ended(active, over=worker.over, wall_s=spent)
            elif worker.over or worker.leaving:  # the task is not to blame
                waiting.appendleft(active)
            else:
                self._deaths[active] = self._deaths.get(active, 0) + worker.ready
                if self._deaths[active] < TRIES:
                    waiting.appendleft(active)
                else:
                    how = f"{_how(worker.process.exitcode)} in each of {TRIES} tries"
                    yield Ended(active, died=how, wall_s=spent)
            waiting.extendleft(reversed(worker.tasks))
        if not self._finishing:
            with _later():
                self._workers.append(self._new())

    def _note_early_death(self, status: int | None) -> None:
        """Count a worker that died before it could begin; give up if others would die, too."""
        self._early_deaths += 1
        killed = status is not None and status < 0
        if killed and self._early_deaths < TRIES * self._processes:
            return
        time.sleep(_A_MOMENT_S)
        raise InputError(
            f"the worker processes died; {_how(status)} before it could begin"
            if killed
            else "the worker processes died; a script that uses them must have its code under "
            "`if __name__ == '__main__':`; processes=1 needs no workers"
        )

    def _look(self) -> None:
        """End the workers whose tasks exceed a limit."""
        now = time.monotonic()
        for worker in self._workers:
            if not (worker.ready and worker.tasks and not worker.over):
                continue
            if self._limit_s is not None and now - worker.began_s > self._limit_s:
                worker.over = "time"
            elif (
                self._limit_bytes is not None and _resident(worker.process.pid) > self._limit_bytes
            ):
                worker.over = "memory"
            if worker.over:
                worker.task_over = worker.tasks[0]
                worker.process.kill()

    def stop(self) -> None:
        """Ask workers to end their tasks at their next call of `watch`."""
        self._stop_writer.close()

    def kill(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.process.kill()

    def _end(self) -> None:
        for worker in self._workers:
            if not worker.tasks:  # Python would take its time to end
                worker.process.kill()
            with contextlib.suppress(OSError):
                worker.connection.close()
        for worker in self._workers:
            worker.process.join()
        self._workers.clear()
        for end in (self._stop_reader, self._last_reader, self._last_writer):
            end.close()


def _how(status: int | None) -> str:
    """Return how a process died, in words."""
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-status).name
            hint = " (is there enough memory?)" if -status == signal.SIGKILL else ""
            return f"its process was ended by {name}{hint}"
    return f"its process ended with status {status}"


def _resident(process: int) -> int:
    """Return the resident memory of a process in bytes; 0 if unknown."""
    try:
        with open(f"/proc/{process}/statm", "rb") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _forget_peak() -> None:
    """Begin a new measurement of the largest resident memory of this process (Linux)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "wb") as stream:
        stream.write(b"5")


def _peak() -> int:
    """Return the largest resident memory of this process since `_forget_peak`; 0 if unknown."""
    with contextlib.suppress(OSError), open("/proc/self/status", "rb") as stream:
        for line in stream:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def measured(function: Callable[[], Result]) -> tuple[Result, float, int]:
    """Call a function; return its value, its wall time in s and its peak memory in bytes."""
    _forget_peak()
    began = time.perf_counter()
    value = function()
    return value, time.perf_counter() - began, _peak()


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
    """Block signals while workers start, which inherit the mask until they handle them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # would be started with the first worker and unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    connection: Connection, stop: Connection, last: Connection, packed: bytes, parent: int
) -> None:
    """Run the tasks of a worker process until its connection closes."""
    # A terminal sends an interrupt to every process; only the main process acts and stops workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    warnings.simplefilter("ignore", PluginWarning)  # the main process has shown it
    run, shared, limit_s = pickle.loads(packed)
    looked = 0.0
    active = terminated = ready = False

    def watch(_: Any) -> None:
        nonlocal looked
        now = time.monotonic()
        if now - looked >= _LOOK_S:
            looked = now
            if stop.poll():
                raise Stopped

    def terminate(number: int, frame: Any) -> None:
        # Batch systems send SIGTERM to every process: the active task is finished, as in the main
        # process.
        nonlocal terminated
        terminated = True
        if not active:
            raise Stopped

    signal.signal(signal.SIGTERM, terminate)
    with contextlib.suppress(EOFError, OSError, Stopped):
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        while not terminated:
            number, task = pickle.loads(connection.recv_bytes())  # imports what it needs
            active = True
            if not ready:
                connection.send(("ready", -1, None, 0.0, 0))
                ready = True
            if last.poll():
                connection.send(("skipped", number, True, 0.0, 0))
                active = False
                continue
            _active.end_s = time.monotonic() + limit_s
            _active.tell = lambda common: connection.send(("common", -1, common, 0.0, 0))
            began = time.perf_counter()
            try:
                value, wall_s, memory = measured(partial(run, shared, task, watch))
                _reply(connection, ("value", number, value, wall_s, memory))
            except Stopped:
                raise
            except BaseException as error:
                _reply(connection, ("error", number, error, time.perf_counter() - began, _peak()))
            active = False
    if terminated:
        with contextlib.suppress(OSError):
            connection.send(("leaving", -1, None, 0.0, 0))


def _reply(connection: Connection, message: tuple[Any, ...]) -> None:
    """Send the end of a task; an object that cannot be sent becomes an error."""
    try:
        packed = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        pickle.loads(packed) if message[0] == "error" else None
    except Exception as problem:
        text = f"{type(message[2]).__name__}: {message[2]} (cannot be sent: {problem})"
        packed = pickle.dumps(("error", message[1], RuntimeError(text), *message[3:]))
    connection.send_bytes(packed)
