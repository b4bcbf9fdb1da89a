"""Worker processes, which compute while the service answers."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any, TypeVar

from weft.core.errors import InputError, WeftError

T = TypeVar("T")
#: Linux: send a signal to this process when its parent ends (prctl).
_PR_SET_PDEATHSIG = 1
#: Share of the memory of the machine that the data of a worker may take.
_MEMORY = 0.4


class Worker:
    """A process that runs functions one after the other; a new one replaces it if it dies.

    `what`: what the process does, for messages, such as ``makes keys``. `prepare`: function that
    the process runs first, for which there is no time limit.
    """

    def __init__(self, what: str, prepare: Callable[..., object], *arguments: Any) -> None:
        self._what = what
        self._prepare = prepare
        self._arguments = arguments
        self._process = self._new()
        self._one = asyncio.Lock()
        self._ready = False

    def _new(self) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        arguments = (os.getpid(), self._prepare, *self._arguments)
        return ProcessPoolExecutor(1, spawn, _begin, arguments)

    async def run(
        self, function: Callable[..., T], *arguments: Any, limit_s: float | None = None
    ) -> T:
        """Run a function of a module in the process, and return its result.

        Raises `WeftError` if it did not finish within `limit_s` seconds and was ended, or the
        process died.
        """
        async with self._one:  # so that the time limit is for this function only
            if not self._ready:
                await self._run(_nothing, (), None)
                self._ready = True
            return await self._run(function, arguments, limit_s)

    async def start(self) -> None:
        """Let the process begin, so that the first function does not wait for it."""
        with contextlib.suppress(WeftError):  # another one begins with the first function
            await self.run(_nothing)

    async def _run(
        self, function: Callable[..., T], arguments: tuple[Any, ...], limit_s: float | None
    ) -> T:
        process = self._process
        # The start of a process waits until it has read the arguments, so another thread does it.
        try:
            submitted = await asyncio.to_thread(process.submit, function, *arguments)
            return await asyncio.wait_for(asyncio.wrap_future(submitted), limit_s)
        except TimeoutError:
            self._replace(process)
            raise WeftError(
                f"the process that {self._what} did not finish within {limit_s:g} s and was ended"
            ) from None
        except MemoryError:
            raise InputError(
                f"the process that {self._what} needs more than "
                f"{memory_limit() / 2**30:.1f} GiB of memory for this"
            ) from None
        except BrokenExecutor:
            self._replace(process)
            raise WeftError(f"the process that {self._what} has died; try again") from None

    def _replace(self, process: ProcessPoolExecutor) -> None:
        if process is self._process:
            _end(process)
            self._process, self._ready = self._new(), False

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        _end(self._process)
        self._process.shutdown(wait=True)
        # Its semaphores are removed with it; an end by a signal would leave them behind.
        del self._process
        gc.collect()


def _end(process: ProcessPoolExecutor) -> None:
    running = list((process._processes or {}).values())
    process.shutdown(wait=False, cancel_futures=True)
    for each in running:
        with contextlib.suppress(OSError):
            each.kill()


def memory_limit() -> int:
    """Return the most bytes of data of a worker."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = int(whole * _MEMORY)
    return most if hard == resource.RLIM_INFINITY else min(most, hard)


def _nothing() -> None:
    pass


def _begin(parent: int, prepare: Callable[..., object], *arguments: Any) -> None:
    """Begin a worker process; it ends with its parent and gives way to it."""
    # Ctrl-C and the end of the terminal concern the service, which ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (memory_limit(), hard))
    os.nice(5)
    prepare(*arguments)
