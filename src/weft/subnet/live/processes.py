"""Programs of a live subnet: their paths, start and end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from weft.core.errors import InputError, WeftError
from weft.subnet.live import guardian

#: Debian packages of the programs that weft runs.
PACKAGES = {
    "ibsim": "ibsim-utils",
    "ibsim-run": "ibsim-utils",
    "opensm": "opensm",
    "dump_fts": "infiniband-diags",
    "ibnetdiscover": "infiniband-diags",
    "ibroute": "infiniband-diags",
    "ibtracert": "infiniband-diags",
    "saquery": "infiniband-diags",
    "sminfo": "infiniband-diags",
    "smpquery": "infiniband-diags",
}
#: Debian's folders of system administration programs, which users' PATH lacks.
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
#: Time limit in seconds for the guardian to end, enough for a loaded machine.
_TEAR_DOWN_S = 4 * guardian.PATIENCE_S + 10
_POLL_S = 0.005
_TAIL_LINES = 3
#: Longest time limit in seconds; system calls do not support much longer ones.
_LONGEST_S = 1e6


def search_path(path: str | None = None) -> str:
    """Return PATH followed by the folders of system administration programs."""
    text = os.environ.get("PATH", "") if path is None else path
    folders = [folder for folder in text.split(os.pathsep) if folder]
    return os.pathsep.join([*folders, *(f for f in _SYSTEM_FOLDERS if f not in folders)])


def find_program(name: str) -> str:
    """Return the path of a program."""
    program = shutil.which(name, path=search_path())
    if program is None:
        package = PACKAGES.get(name)
        hint = f"; on Debian it is in the package {package}" if package else ""
        raise WeftError(f"the program {name} is not installed, or not in PATH{hint}")
    return program


def check_limit(limit_s: float) -> None:
    """Check a time limit."""
    if not 0 < limit_s <= _LONGEST_S:
        raise InputError(
            f"a time limit must be above 0 s and at most {_LONGEST_S:,.0f} s, not {limit_s:g}"
        )


def preload(limit_s: float) -> str:
    """Return the LD_PRELOAD that ``ibsim-run`` sets to make programs use ibsim's fabric."""
    program = find_program("ibsim-run")
    clean = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    try:
        library = subprocess.run(
            [program, "/bin/sh", "-c", 'echo "$LD_PRELOAD"'],
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise WeftError(f"{program} does not work: {error}") from None
    if not library:
        raise WeftError(f"{program} sets no LD_PRELOAD; expected ibsim-run of Debian's ibsim-utils")
    return ":".join(filter(None, (os.environ.get("LD_PRELOAD", ""), library)))


class Processes:
    """The folder and processes of one subnet, which end together.

    `keep`: working folder that is kept; None for a temporary folder that is removed.
    """

    def __init__(self, keep: Path | None):
        self.token = uuid.uuid4().hex
        self.folder = (
            Path(tempfile.gettempdir(), f"weft-subnet-{self.token[:12]}")
            if keep is None
            else keep.absolute()
        )
        self._keep = keep is not None
        self._children: list[subprocess.Popen[Any]] = []
        arguments = [self.token, str(self.folder), str(int(self._keep)), str(os.getpid())]
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, *arguments],
            # Omit the mark of an outer subnet, whose guardian would end this guardian too early.
            env={name: text for name, text in os.environ.items() if name != guardian.MARK},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
        assert self._guardian.stdout
        assert self._guardian.stderr
        if self._guardian.stdout.readline() != b"ready\n":
            *_, reason = ["no reason given", *self._guardian.stderr.read().decode().splitlines()]
            self._guardian.communicate()
            raise WeftError(f"cannot set up {self.folder}: {reason}")

    def start(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a program in the background in a new session, with its output in a file."""
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **options,
            )
        self._children.append(process)
        return process

    def close(self) -> None:
        """End all processes, remove the folder, and wait until that is done.

        The guardian does this, so that a second interrupt cannot stop it; if the guardian was
        killed, this process does it.
        """
        if self._guardian.stdin:
            with contextlib.suppress(OSError):
                self._guardian.stdin.close()
        for process in self._children:
            if process.stdin:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        deadline = time.monotonic() + _TEAR_DOWN_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guardian.wait(_TEAR_DOWN_S)
        if self._guardian.returncode != 0:
            guardian.take_down(self.token, self.folder, keep=self._keep)
        for process in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for stream in (self._guardian.stdout, self._guardian.stderr):
            if stream:
                stream.close()


@dataclass(frozen=True)
class Child:
    """A program that this process started."""

    process: subprocess.Popen[Any]

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def ended(self) -> str:
        """Return text that says how the program ended; empty while it runs."""
        status = self.process.poll()
        return "" if status is None else f"the program ended with {ending(status)}"


def end_process(process: subprocess.Popen[Any]) -> None:
    """End a program by SIGTERM, or by SIGKILL if it takes too long."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(guardian.PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(
    ready: Callable[[], bool],
    ended: Callable[[], str],
    logs: Sequence[Path],
    limit_s: float,
    what: str,
    hint: Callable[[], str] = str,
) -> None:
    """Wait until a program is ready.

    - `ready`: returns whether the program is ready.
    - `ended`: returns text that says how the program ended; empty while it runs.
    - `logs`: the program's logs; the message quotes the first log that is not empty.
    - `what`: text for the message that says what did not happen.
    - `hint`: called after the time limit; returns a possible reason for the message, or empty text.
    """
    start = time.monotonic()
    while not ready():
        if end := ended():
            if ready():
                return
            raise WeftError(f"{what}: {end}{tail(*logs)}")
        if (waited := time.monotonic() - start) > limit_s:
            raise WeftError(f"{what} within {limit_s:g} s{hint()}{tail(*logs)}")
        # To look takes time that the program may need: seldom in long waits, 2 % late at most.
        time.sleep(max(_POLL_S, waited / 50))


def ending(status: int) -> str:
    """Return an exit status as text."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def tail(*logs: Path) -> str:
    """Return the last lines of the first log that is not empty, as the end of a message."""
    for log in logs:
        lines = [line.strip() for line in log_text(log).splitlines() if line.strip()]
        if lines:
            return f"; the end of its log: {' / '.join(lines[-_TAIL_LINES:])}"
    return ""


def log_text(log: Path, start: int = 0) -> str:
    """Return the text of a log from byte `start` on; empty if there is no log."""
    try:
        with log.open("rb") as stream:
            stream.seek(start)
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


@contextmanager
def _handled(numbers: Iterable[int], handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle signals by a function during a block; outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def orderly_signals() -> AbstractContextManager[None]:
    """Make SIGTERM and SIGHUP raise `SystemExit`, so that started programs are ended first.

    Nothing changes outside the main thread, or for a signal with a handler of the program's own. If
    the signal then ends the process, the guardian cleans up.
    """
    ours = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]

    def leave(number: int, frame: Any) -> None:
        for other in ours:
            signal.signal(other, signal.SIG_IGN)  # ignore further signals
        raise SystemExit(128 + number)

    return _handled(ours, leave)


def interrupts_left_to_the_command() -> AbstractContextManager[None]:
    """Ignore Ctrl-C in this process while a command uses the terminal."""
    # A handler rather than SIG_IGN, which the command would inherit.
    return _handled((signal.SIGINT, signal.SIGQUIT), lambda *_: None)


def write_all(stream: IO[bytes], text: str) -> None:
    """Write a line to a program's standard input."""
    stream.write(text.encode() + b"\n")
    stream.flush()
