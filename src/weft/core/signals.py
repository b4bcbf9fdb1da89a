"""Handling of SIGINT and SIGTERM: end a command cleanly, at moments when that is safe."""

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
#: Seconds until a signal that arrived at an unsafe moment is sent again.
AGAIN_S = 0.02
#: Module of the Python functions that compiled code calls.
UNPICKLE = "numba.core.serialize"
#: Packages and modules that swallow exceptions, or leave objects that cannot be deleted. LLVM's
#: objects fail when they are half initialised, and may crash when they are deleted in the
#: wrong order.
NUMPY, LLVM, CODEGEN = "numpy", "llvmlite", "numba.core.codegen"
WEAK = frozenset({"weakref", "_weakrefset"})
#: Methods whose exceptions are ignored by Python, or by extensions that look up a dictionary key.
FROM_C = frozenset({"__del__", "__hash__", "__eq__"})

#: Signals that ended the running command.
_came: list[int] = []
#: Signals that arrived at an unsafe moment and are still to be handled.
_deferred: list[int] = []


def ended_by() -> tuple[str, int]:
    """Return the word for the signal that ended the running command, and the exit status."""
    if signal.SIGTERM in _came:
        return "terminated", TERMINATED
    return "interrupted", INTERRUPTED


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the running code with a KeyboardInterrupt, when that is safe.

    Batch systems send SIGTERM before they kill a process; an exception lets the code clean up.

    Compiled code calls Python functions as it returns and does not check for exceptions: an
    exception raised there causes a crash. NumPy sometimes converts an exception to a TypeError, and
    Python ignores exceptions of finalizers and of callbacks from C, of which a compilation has
    many. A signal that arrives at such a moment is sent again, and so is a signal whose exception
    was ignored nevertheless.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    process = os.getpid()
    _came.clear()
    _deferred.clear()

    ending = False
    timers: list[threading.Timer] = []

    def again(number: int) -> None:
        # Keep timers that have not started: a signal may arrive between creation and start.
        timers[:] = [each for each in timers if each.ident is None or each.is_alive()]
        _deferred.append(number)
        timers.append(threading.Timer(AGAIN_S, resend, (number,)))
        timers[-1].daemon = True
        timers[-1].start()

    def resend(number: int) -> None:
        if _deferred:  # otherwise `raise_deferred` has handled it
            os.kill(process, number)

    lost: list[int] = []

    def ignored(given: Any) -> None:
        if issubclass(given.exc_type, KeyboardInterrupt) and _came:
            lost.append(_came[-1])
            again(_came[-1])
        else:
            hook(given)

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:
            # The default action ends a forked process.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif ending:
            pass
        elif at_a_bad_time(frame):
            again(number)
        else:
            _deferred.clear()
            _came.append(number)
            raise KeyboardInterrupt

    # A process that ignores a signal (nohup, a job in a shell's background) continues to ignore it.
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
        if lost:  # the ignored KeyboardInterrupt may have caused this exception
            raise KeyboardInterrupt from None
        raise
    finally:
        # The code to interrupt has ended. A timer that is sending its signal cannot be cancelled:
        # wait for it, or the signal would interrupt later code.
        ending = True
        for timer in timers:
            timer.cancel()
            if timer.ident is not None:
                timer.join()
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_deferred() -> None:
    """Raise the KeyboardInterrupt of a signal that arrived at an unsafe moment.

    Loops around kernels call this. A signal that is sent again can only be handled when a kernel
    returns, which is an unsafe moment itself.
    """
    if _deferred:
        _came.append(_deferred[-1])
        _deferred.clear()
        raise KeyboardInterrupt


def at_a_bad_time(frame: FrameType | None) -> bool:
    """Return whether an exception in a frame would be lost or would do harm.

    This is the case in functions that compiled code calls as it returns, in NumPy, in finalizers,
    hashes and callbacks of weak references, and in LLVM.
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
