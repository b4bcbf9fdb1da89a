"""When a signal may end a command, and when it has to come again."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest

from weft.cli.signals import at_a_bad_time, stoppable


def test_a_signal_waits_where_numpy_calls_back() -> None:
    found = []

    def probe(column: np.ndarray) -> np.ndarray:
        found.append(at_a_bad_time(sys._getframe()))
        return column

    np.apply_along_axis(probe, 0, np.ones((2, 1)))
    probe(np.ones(2))
    assert found[0]
    assert not found[-1]


def test_a_signal_that_came_within_numpy_ends_the_command_after_it() -> None:
    done = []

    def strike(column: np.ndarray) -> np.ndarray:
        if not done:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(len(column))
        return column

    with pytest.raises(KeyboardInterrupt), stoppable():  # noqa: PT012
        np.apply_along_axis(strike, 0, np.ones((2, 3)))
        assert len(done) >= 3
        time.sleep(60)
