"""Programs of a live subnet: finding them, starting them, and taking all of them down."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from weft.core.errors import InputError, WeftError
from weft.opensm.live import guardian

#: Debian package of each program that weft may run.
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
#: Where Debian puts programs of the administrator, which users' PATH lacks.
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
#: Seconds that the guardian may need: twice its patience, and a loaded machine.
_TEAR_DOWN_S = 4 * guardian.PATIENCE_S + 10
_POLL_S = 0.005
_TAIL_LINES = 3
#: Longest time that programs are waited for; the system's calls take not much more.
_LONGEST_S = 1e6


def search_path(path: str | None = None) -> str:
    """PATH, with the folders of the administrator's programs behind it."""
    given = os.environ.get("PATH", "") if path is None else path
    folders = [folder for folder in given.split(os.pathsep) if folder]
    return os.pathsep.join([*folders, *(f for f in _SYSTEM_FOLDERS if f not in folders)])


def find_program(name: str) -> str:
    """Path of a program.

    Raises
    ------
    WeftError
        When it is not installed, with the Debian package that has it.
    """
    found = shutil.which(name, path=search_path())
    if found is None:
        package = PACKAGES.get(name)
        hint = f"; on Debian it is in the package {package}" if package else ""
        raise WeftError(f"the program {name} is not installed, or not in PATH{hint}")
    return found


def check_limit(limit_s: float) -> None:
    """Refuse a time limit that cannot be waited for.

    Raises
    ------
    InputError
        When it is not above 0 s, too long, or no number.
    """
    if not 0 < limit_s <= _LONGEST_S:
        raise InputError(
            f"a time limit must be above 0 s and at most {_LONGEST_S:,.0f} s, not {limit_s:g}"
        )


def preload(limit_s: float) -> str:
    """LD_PRELOAD that makes a program talk to ibsim, as ``ibsim-run`` sets it."""
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
        raise WeftError(f"{program} sets no LD_PRELOAD; expected the one of Debian's ibsim-utils")
    return ":".join(filter(None, (os.environ.get("LD_PRELOAD", ""), library)))


class Processes:
    """The folder and processes of one subnet, which end together.

    Parameters
    ----------
    keep
        Folder to work in and leave behind; a temporary one that is removed when left out.

    Raises
    ------
    WeftError
        When the folder cannot be made.
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
            # Inside another subnet it does not count as one of that one's processes, whose guardian
            # would give it no more time than a command.
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
        """Start a program in the background, in a session of its own, with its output in a file."""
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
        """End everything, remove the folder, and wait until that is done.

        The guardian does the work, so that a second interrupt does not stop it; where it was
        killed, this process does.
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


def wait_for(
    ready: Callable[[], bool],
    process: subprocess.Popen[Any],
    logs: Sequence[Path],
    limit_s: float,
    what: str,
    hint: Callable[[], str] = str,
) -> None:
    """Wait until a program is ready.

    Parameters
    ----------
    ready
        Tells whether it is.
    process, logs
        The program, and where it says something; the first log that has any counts.
    limit_s
        Limit in seconds.
    what
        What did not happen, for the message.
    hint
        Why the time may have been over, asked then; empty when there is nothing to say.

    Raises
    ------
    WeftError
        When it ends before, or the time is over, with the end of its log.
    """
    deadline = time.monotonic() + limit_s
    while not ready():
        status = process.poll()
        if status is not None:
            if ready():
                return
            raise WeftError(f"{what}: it ended with {ending(status)}{tail(*logs)}")
        if time.monotonic() > deadline:
            raise WeftError(f"{what} within {limit_s:g} s{hint()}{tail(*logs)}")
        time.sleep(_POLL_S)


def ending(status: int) -> str:
    """Exit status as people read it."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def tail(*logs: Path) -> str:
    """The last lines of the first log that has any, as the end of a message."""
    for log in logs:
        lines = [line.strip() for line in log_text(log).splitlines() if line.strip()]
        if lines:
            return f"; the end of its log: {' / '.join(lines[-_TAIL_LINES:])}"
    return ""


def log_text(log: Path, start: int = 0) -> str:
    """What a program wrote to its log from a byte on; empty while there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(start)
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


@contextmanager
def orderly_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP leave like an exception, so that what was started ends first.

    Where the program has handlers of its own, or in another thread than the main one, they stay:
    should the process die of them, the guardian cleans up a moment later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]

    def leave(number: int, frame: Any) -> None:
        for other in ours:
            signal.signal(other, signal.SIG_IGN)  # once is enough
        raise SystemExit(128 + number)

    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def interrupts_left_to_the_command() -> Iterator[None]:
    """While a command has the terminal, Ctrl-C is meant for it: weft waits for how it ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A handler, not SIG_IGN, which the command would inherit.
    before = {n: signal.signal(n, lambda *_: None) for n in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def write_all(stream: IO[bytes], text: str) -> None:
    """Write a line to a program's standard input."""
    stream.write(text.encode() + b"\n")
    stream.flush()
