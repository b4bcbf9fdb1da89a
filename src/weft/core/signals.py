"""SIGINT and SIGTERM end a command cleanly, at moments when that is safe."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: Exit status after each of the signals.
INTERRUPTED, TERMINATED = 130, 143
#: Seconds until a signal that came at a bad time comes again.
AGAIN_S = 0.02
#: Module of what compiled code calls in Python.
UNPICKLE = "numba.core.serialize"
#: Packages and modules that swallow exceptions, or leave objects that cannot be deleted. LLVM's
#: complain when they are half made, and may crash when they are deleted in another order.
NUMPY, LLVM, CODEGEN = "numpy", "llvmlite", "numba.core.codegen"
WEAK = frozenset({"weakref", "_weakrefset"})
#: Methods whose exceptions Python ignores, or extensions that look a key up in a dictionary.
FROM_C = frozenset({"__del__", "__hash__", "__eq__"})

#: Signals that ended what is under way.
_came: list[int] = []


def ended_by() -> tuple[str, int]:
    """The word for what interrupted the command under way, and its exit status."""
    if signal.SIGTERM in _came:
        return "terminated", TERMINATED
    return "interrupted", INTERRUPTED


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM end what is under way, so that it tidies up, where that is safe.

    Both raise KeyboardInterrupt; batch systems send SIGTERM before they kill.

    Compiled code calls back into Python as it returns, and does not look whether that failed: an
    exception raised there ends in a crash. NumPy makes a TypeError of one now and then, and Python
    itself ignores those of finalizers and of callbacks from C, of which a compilation has many. A
    signal that comes just then is sent again; so is one whose exception was ignored nevertheless.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    process = os.getpid()
    _came.clear()

    ending = False
    timers: list[threading.Timer] = []

    def again(number: int) -> None:
        # One that has not begun yet is about to: this signal came meanwhile.
        timers[:] = [each for each in timers if each.ident is None or each.is_alive()]
        timers.append(threading.Timer(AGAIN_S, os.kill, (process, number)))
        timers[-1].daemon = True
        timers[-1].start()

    lost: list[int] = []

    def ignored(given: Any) -> None:
        if issubclass(given.exc_type, KeyboardInterrupt) and _came:
            lost.append(_came[-1])
            again(_came[-1])
        else:
            hook(given)

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:
            # A forked process ends as if nobody had asked for more.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif ending:
            pass
        elif at_a_bad_time(frame):
            again(number)
        else:
            _came.append(number)
            raise KeyboardInterrupt

    # Whoever ignores a signal (nohup, a shell's background) goes on doing so.
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    hook, sys.unraisablehook = sys.unraisablehook, ignored
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except Exception:
        if lost:  # it broke off what this failed for the lack of
            raise KeyboardInterrupt from None
        raise
    finally:
        # What a timer would interrupt has ended. One that is sending its signal cannot be
        # cancelled: wait for it, or the signal would strike what comes next.
        ending = True
        for timer in timers:
            timer.cancel()
            if timer.ident is not None:
                timer.join()
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def at_a_bad_time(frame: FrameType | None) -> bool:
    """Whether an exception in a frame would be lost or would do harm.

    So it is in what compiled code calls as it returns, within NumPy, in finalizers, hashes and
    callbacks of weak references, and while LLVM works.
    """
    file = sys.modules[UNPICKLE].__file__ if UNPICKLE in sys.modules else None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("weft.") and module != __name__:
            return False
        name, package = frame.f_code.co_name, module.partition(".")[0]
        if frame.f_code.co_filename == file or package == NUMPY:
            return True
        if name in FROM_C or module in WEAK:
            return True
        if package == LLVM or module == CODEGEN:
            return True
        frame = frame.f_back
    return False
