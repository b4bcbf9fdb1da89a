"""Signals: when a signal may end a command, and when it is sent again."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from weft.core.signals import AGAIN_S, at_a_bad_time, stoppable


def test_a_signal_is_deferred_in_callbacks_of_numpy() -> None:
    results = []

    def probe(column: np.ndarray) -> np.ndarray:
        results.append(at_a_bad_time(sys._getframe()))
        return column

    np.apply_along_axis(probe, 0, np.ones((2, 1)))
    probe(np.ones(2))
    assert results[0]
    assert not results[-1]


def signal_within_numpy(done: list[int]) -> None:
    """Call NumPy with three callbacks and a signal in the first; record each callback."""

    def strike(column: np.ndarray) -> np.ndarray:
        if not done:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(len(column))
        return column

    np.apply_along_axis(strike, 0, np.ones((2, 3)))


def test_a_signal_in_a_numpy_callback_ends_the_command_when_numpy_returns() -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt), stoppable():  # noqa: PT012
        signal_within_numpy(done)
        assert len(done) >= 3
        time.sleep(60)


class Dying:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def drop() -> None:
    Dying()


class Hashed:
    def __hash__(self) -> int:
        signal.raise_signal(signal.SIGINT)
        return 1


def look_up() -> None:
    get = ctypes.pythonapi.PyDict_GetItem
    get.restype = ctypes.c_void_p
    get(ctypes.py_object({1: 2}), ctypes.py_object(Hashed()))


@pytest.mark.parametrize(
    "strike", [drop, look_up, ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))]
)
def test_a_signal_whose_exception_python_ignores_is_sent_again(strike, capsys) -> None:
    before = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), stoppable():  # noqa: PT012
        strike()
        time.sleep(60)
    assert sys.unraisablehook is before
    assert capsys.readouterr().err == ""


def test_a_failure_caused_by_an_interrupted_step_counts_as_the_signal() -> None:
    with pytest.raises(KeyboardInterrupt), stoppable():  # noqa: PT012
        ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()
        raise RuntimeError("no compiled object yet")


def test_a_second_signal_is_deferred_while_the_first_is_being_resent(monkeypatch) -> None:
    """On a busy machine the next signal may arrive before the timer of the first has started."""
    done, started = [], []

    class Timer(threading.Timer):
        def start(self) -> None:
            started.append(self)
            if len(started) == 1:
                signal.raise_signal(signal.SIGINT)
            super().start()

    monkeypatch.setattr("weft.core.signals.threading.Timer", Timer)
    with pytest.raises(KeyboardInterrupt), stoppable():  # noqa: PT012
        signal_within_numpy(done)
        time.sleep(60)
    assert len(done) >= 3
    assert len(started) >= 2


def test_a_resent_signal_does_not_reach_later_code(monkeypatch) -> None:
    class Sending(threading.Timer):
        """A timer that can no longer be cancelled."""

        def cancel(self) -> None:
            pass

    done: list[int] = []
    monkeypatch.setattr("weft.core.signals.threading.Timer", Sending)
    with stoppable():
        signal_within_numpy(done)
    time.sleep(10 * AGAIN_S)
    assert len(done) >= 3


def test_other_exceptions_that_python_ignores_are_reported(monkeypatch) -> None:
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda given: reported.append(given.exc_type))
    with stoppable():
        ctypes.CFUNCTYPE(None)(lambda: 1 // 0)()
    assert reported == [ZeroDivisionError]


#: Compiles a kernel and sends a signal at the first call of a given function.
COMPILE = """
import signal, sys, time
import weft.cli.app as app
from numba import njit
from weft.core.signals import stoppable

def strike(frame, event, argument):
    if frame.f_code.co_qualname == sys.argv[1]:
        sys.setprofile(None)
        print("struck", flush=True)
        signal.raise_signal(signal.SIGINT)

class Program:
    def __call__(self, *words, **options):
        sys.setprofile(strike)
        njit(lambda x: x + 1)(1)
        sys.setprofile(None)
        time.sleep(60)

app.program = lambda words, known: Program()
sys.exit(app.run(["info"]))
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "function",
    ["TypeInferer.propagate", "ObjectRef.__init__", "_LLVMLock.__exit__", "ObjectRef.__del__"],
)
def test_ctrl_c_while_a_kernel_is_compiled_prints_one_line(function: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", COMPILE, function], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (
        130, "struck\n", "weft: interrupted\n",
    )  # fmt: skip
