"""Entry point of the `weft` program; Ctrl-C also ends it while modules are imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

#: Signal -> exit status and message of a command that it ends.
ENDED = {signal.SIGINT: (130, b"weft: interrupted\n"), signal.SIGTERM: (143, b"weft: terminated\n")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    `arguments`: words of the command line; by default, the arguments of this process.

    Returns the exit status of the command, by default 0; 2 on bad input, with one line on standard
    error.
    """
    # Imports take most of the time of a short command, and there is nothing to clean up yet.
    with _left_at_once() if arguments is None else nullcontext():
        from weft.cli.app import run

        if arguments is not None:
            return run(arguments)
        status = run(sys.argv[1:])
        if status in {status for status, _ in ENDED.values()}:
            # If the signal interrupted the body of a class, Python would kill itself by the signal.
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, AttributeError):
                    stream.flush()
            os._exit(status)
        return status


@contextmanager
def _left_at_once() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the process with a one-line message.

    An exception is not enough: during imports Python may turn it into another one, such as a
    RuntimeError in the body of a class.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        status, message = ENDED[signal.Signals(number)]
        os.write(2, message)
        os._exit(status)

    # A process that ignores a signal (nohup, a job in a shell's background) continues to ignore it.
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
