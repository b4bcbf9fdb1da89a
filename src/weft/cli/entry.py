"""Where the `weft` program begins, and how Ctrl-C ends it before all of it is imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType

#: Exit status after Ctrl-C.
INTERRUPTED = 130
SAID = b"weft: interrupted\n"


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

        return run(sys.argv[1:] if arguments is None else arguments)


@contextmanager
def _left_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process with one line.

    An exception would not do: while modules are imported Python makes another of it now and then,
    a RuntimeError in the body of a class.
    """
    before = signal.getsignal(signal.SIGINT)
    # Whoever ignores it (nohup, a shell's background) goes on doing so.
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        os.write(2, SAID)
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
