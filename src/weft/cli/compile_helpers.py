"""Helper processes that compile kernels in parallel with a command when the cache is empty."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.core.pool import cores

#: Maximum number of helpers; more would mostly wait for each other.
MOST_HELPERS = 3


@contextmanager
def compile_helpers(kind: str) -> Iterator[Callable[[], None]]:
    """Yield a function that starts the helpers of a kind of command once; end them on exit.

    Their number is that of the cores minus 1, at most `MOST_HELPERS`. The command loads kernels
    that helpers have compiled from the cache; its results do not depend on helpers.

    `kind`: names of `weft.cli.warmup.PARTS`, separated by commas.
    """
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        helpers = min(cores() - 1, MOST_HELPERS)
        for number in range(0 if started else helpers):
            words = [sys.executable, "-m", "weft.cli.warmup", kind, str(number), str(helpers)]
            # A helper ends when this pipe closes, which happens however this process ends.
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
