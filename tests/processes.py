"""Commands in processes of their own, and what is left of them."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

#: Longest wait for what must happen, in seconds. Only a fault takes as long, on any machine.
PATIENCE_S = 600.0


def not_here(message: str) -> NoReturn:
    """Skip a test that this machine cannot run; under CI, fail the test instead."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(message)


def wait_for(is_so: Callable[[], object], said: Callable[[], str] = str) -> None:
    """Wait until something is so; `said` returns what a failure shows."""
    limit_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < limit_s, said()
        time.sleep(0.01)


def left_of(session: int) -> list[int]:
    """Return the processes of a session that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        state = state_of(int(folder.name))
        if state and int(state[3]) == session:
            found.append(int(folder.name))
    return found


def state_of(pid: int) -> list[str]:
    """Return the state of a process as Linux writes it, from field 3 on; empty if it has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if state[0] == "Z" else state


def end(pid: int, *, group: bool = False) -> None:
    """Kill a process or its group at once, and wait until it has ended."""
    with suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)
    with suppress(ChildProcessError):  # the starter's
        os.waitpid(pid, 0)
    while state_of(pid):
        time.sleep(0.001)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let writes beyond a size fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


#: Forks a command of weft for each line of arguments, so that hundreds need not import anything.
_STARTER = """
import os, shlex, signal, sys
from weft.cli import main
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    output, *arguments = shlex.split(line)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND), 1)
        os.dup2(1, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = main(arguments)
        os.write(1, f"exit status {status}\\n".encode())
        os._exit(status)
    print(pid, flush=True)
"""


class Starter:
    """A process that has imported everything, and starts commands of weft.

    Parameters
    ----------
    prepare
        Python statements with what commands import.
    fork
        Whether it forks commands; they are else started as any command.
    """

    def __init__(self, prepare: str, *, fork: bool) -> None:
        self._forker = None
        self.prepare = prepare
        #: Sessions of commands that are to be ended.
        self.last: list[int] = []
        if fork:
            self._forker = subprocess.Popen(
                [sys.executable, "-c", prepare + _STARTER],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip

    def start(self, arguments: list[str], output: Path) -> int:
        """Start a command in a session of its own; return its process id."""
        if self._forker is None:
            command = f"{self.prepare}\nimport sys; from weft.cli import main; sys.exit(main())"
            with output.open("a") as stream:
                process = subprocess.Popen(
                    [sys.executable, "-c", command, *arguments],
                    stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            # Nobody waits for it with `Popen`, but `end` does.
            process.returncode = 0
            return process.pid
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.write(shlex.join([str(output), *arguments]) + "\n")
        self._forker.stdin.flush()
        return int(self._forker.stdout.readline())

    def close(self) -> None:
        """End the process, and commands that a failed test has left."""
        if self._forker is not None:
            self._forker.communicate()
        for pid in self.last:
            for each in left_of(pid):
                os.kill(each, signal.SIGKILL)
