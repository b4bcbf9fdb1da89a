"""Tasks of worker processes, in a module that imports little: each process imports it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.core.pool import common_to_kind, time_left

Watch = Callable[[Any], None]


def add(shared: int, task: int, watch: Watch) -> int:
    watch(None)
    return shared + task


def count_tasks(shared: list[int], task: int, watch: Watch) -> tuple[int, int]:
    """Return the number of tasks that this process has run, and its process id."""
    shared.append(task)
    return len(shared), os.getpid()


def fail(shared: object, task: int, watch: Watch) -> int:
    if task == 1:
        raise InputError("no way")
    return task


def die(shared: object, task: int, watch: Watch) -> None:
    os._exit(3)


def linger(shared: object, task: int, watch: Watch) -> int:
    """End the first task at once; let the others run until stopped."""
    while task:
        watch(None)
        time.sleep(0.005)
    return -1


def linger_in_part(shared: object, task: str, watch: Watch) -> str:
    """Linger in what is common to a kind, after it, or not at all."""
    with contextlib.suppress(InputError), common_to_kind():
        linger(shared, task == "a common", watch)
        fail(shared, int(task == "c fails"), watch)
    return task if linger(shared, task.endswith("own"), watch) else ""


def join(shared: str, task: str, watch: Watch) -> str:
    return shared + task


def strike(shared: Path, task: signal.Signals, watch: Watch) -> str:
    """Send the worker a signal, the first time also one that has no number."""
    if task or not shared.exists():
        shared.touch()
        os.kill(os.getpid(), task or signal.SIGKILL)
    return "survived"


def fill(shared: object, task: int, watch: Watch) -> int:
    """Take so many bytes of memory, and linger if they are many."""
    return len(bytearray(b"x") * task) if task < 1000 else linger(bytearray(b"x") * task, 1, watch)


def log_and_wait(shared: Path, task: int, watch: Watch) -> int:
    """Write that the task has begun, and wait for the file ``go``."""
    (shared / f"begun{task}").touch()
    while not (shared / "go").exists():
        time.sleep(0.005)
    return task


class Deadly:
    """An object that ends the process that reads it, with a status or a signal."""

    def __init__(self, how: Callable[[int], Any], number: int) -> None:
        self.how, self.number = how, number

    def __reduce__(self) -> Any:
        return self.how, (self.number,)


def fork_and_die(folder: Path, task: int, watch: object) -> None:
    """Leave a process behind and die."""
    process = os.fork()
    if process == 0:
        time.sleep(60.0)
        os._exit(0)
    (folder / str(process)).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def loaded(value: int) -> int:
    time.sleep(3.5)
    return value


class SlowToLoad:
    """A task that imports much, for example."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return loaded, (self.value,)


def nothing() -> None:
    """Prepare nothing."""


def take(size: int) -> int:
    """Take memory."""
    return len(b"x" * size)


def linger_and_tell(shared: object, task: int, watch: Watch) -> int:
    time.sleep(0.02)
    return os.getpid()


def count_down(shared: None, number: int, watch: Watch) -> float:
    return time_left()
