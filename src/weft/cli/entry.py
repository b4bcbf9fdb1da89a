"""Where the `weft` program begins, and how Ctrl-C ends it before all of it is imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

#: What each signal makes of a command: exit status and line.
ENDED = {signal.SIGINT: (130, b"weft: interrupted\n"), signal.SIGTERM: (143, b"weft: terminated\n")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments
        Words of the command line; the process's own when left out.

    Returns
    -------
    int
        Exit status: 0, 2 on bad input (one line on standard error), or what the command gives.
    """
    # Imports are most of the time of a short command, and nothing is there yet to tidy up.
    with _left_at_once() if arguments is None else nullcontext():
        from weft.cli.app import run

        if arguments is not None:
            return run(arguments)
        status = run(sys.argv[1:])
        if status in {status for status, _ in ENDED.values()}:
            # Python would end itself by the signal where it broke off the body of a class.
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, AttributeError):
                    stream.flush()
            os._exit(status)
        return status


@contextmanager
def _left_at_once() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the process with one line.

    An exception would not do: while modules are imported Python makes another of it now and then,
    a RuntimeError in the body of a class.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        status, said = ENDED[signal.Signals(number)]
        os.write(2, said)
        os._exit(status)

    # Whoever ignores a signal (nohup, a shell's background) goes on doing so.
    before = {
        number: handler
        for number in ENDED
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
