"""SIGINT and SIGTERM end a command cleanly, at moments when that is safe."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Exit status after each of the signals.
INTERRUPTED, TERMINATED = 130, 143
#: Seconds until a signal that came at a bad time comes again.
AGAIN_S = 0.02
#: Module of what compiled code calls in Python, and of what swallows exceptions in its callbacks.
UNPICKLE, NUMPY = "numba.core.serialize", "numpy"

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
    exception raised there ends in a crash. NumPy makes a TypeError of one now and then. A signal
    that comes just then is sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    process = os.getpid()
    _came.clear()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:
            # A forked process ends as if nobody had asked for more.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif at_a_bad_time(frame):
            threading.Timer(AGAIN_S, os.kill, (process, number)).start()
        else:
            _came.append(number)
            raise KeyboardInterrupt

    # Whoever ignores a signal (nohup, a shell's background) goes on doing so.
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def at_a_bad_time(frame: FrameType | None) -> bool:
    """Whether a frame is, or was called by, NumPy or what compiled code calls as it returns."""
    file = sys.modules[UNPICKLE].__file__ if UNPICKLE in sys.modules else None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("weft."):
            return False
        if frame.f_code.co_filename == file or module.partition(".")[0] == NUMPY:
            return True
        frame = frame.f_back
    return False
