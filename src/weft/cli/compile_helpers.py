"""Processes that compile kernels beside a command that meets an empty cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.core.pool import cores

#: More would mostly wait for one another.
MOST_HELPERS = 3


@contextmanager
def compile_helpers(kind: str) -> Iterator[Callable[[], None]]:
    """Give what starts helpers for a kind of command, once; at the end none is left.

    Each core but one gets a helper. The command finds what they compiled on the disk: it does and
    gives the same without them.

    Parameters
    ----------
    kind
        Of `weft.cli.warmup.PARTS`.
    """
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        helpers = min(cores() - 1, MOST_HELPERS)
        for number in range(0 if started else helpers):
            words = [sys.executable, "-m", "weft.cli.warmup", kind, str(number), str(helpers)]
            # They end when this pipe does, however this process ends.
            started.append(
                subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip

    try:
        yield begin
    finally:
        for helper in started:
            helper.kill()
        for helper in started:
            helper.communicate()
