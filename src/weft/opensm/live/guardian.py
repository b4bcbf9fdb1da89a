"""The process that takes a live subnet down, whatever becomes of the one that started it.

Run as a program, with nothing but the standard library: ``guardian.py TOKEN FOLDER KEEP PARENT``.
It makes the folder, says ``ready`` and sleeps until its standard input ends or its parent is gone.
Then it ends every process whose environment carries the token and removes the folder. So a normal
end, an exception, a signal and even SIGKILL of the parent all end in the same few lines.

A "parent is dead" signal to each child (PR_SET_PDEATHSIG) would do less: it leaves the folder and
the children's children, and fires when a mere thread of the parent ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

#: Environment variable by which the processes of a subnet are known.
MARK = "WEFT_SUBNET"
#: Seconds from the first polite signal to SIGKILL, and to SIGHUP, which ends an idle shell.
PATIENCE_S = 1.0
HANG_UP_S = 0.3
POLL_S = 0.04


def processes_of(token: str) -> list[int]:
    """Running processes whose environment carries the token; the dead and unreaped do not."""
    mark = f"{MARK}={token}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as stream:
            if mark in stream.read().split(b"\0"):
                found.append(int(name))
    return found


def end_processes(token: str) -> None:
    """End all processes of a subnet: clients of the simulator first, then the simulator.

    A client that goes without a word keeps its place in ibsim, and one whose ibsim is gone may
    wait for it.
    """
    _end(lambda: [pid for pid in processes_of(token) if _name(pid) != "ibsim"])
    _end(lambda: processes_of(token))


def take_down(token: str, folder: str | Path, *, keep: bool) -> None:
    """End all processes of a subnet and remove its folder, unless that is to be kept."""
    end_processes(token)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def _end(running: Callable[[], list[int]]) -> None:
    start = time.monotonic()
    told: dict[int, int] = {}
    leftovers: set[str] = set()
    quiet = 0
    while quiet < 2:  # a process between fork and exec shows at the second look
        pids = running()
        quiet = 0 if pids else quiet + 1
        waited = time.monotonic() - start
        for pid in pids:
            with contextlib.suppress(OSError):
                leftovers.add(os.path.join(os.readlink(f"/proc/{pid}/cwd"), f"sys-{pid}"))
            number = signal.SIGTERM
            if waited > PATIENCE_S:
                number = signal.SIGKILL
            elif waited > HANG_UP_S:
                number = signal.SIGHUP
            if told.get(pid) != number:
                told[pid] = number
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
                    os.kill(pid, signal.SIGCONT)
        time.sleep(POLL_S)
    for folder in leftovers:
        shutil.rmtree(folder, ignore_errors=True)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def remove_leftovers(folder: str | Path) -> None:
    """Remove what umad2sim left in a folder of programs that ended without cleaning up.

    The library gives each program a ``sys-PID`` in its working folder, and a program that a signal
    ends does not remove it.
    """
    with contextlib.suppress(OSError):
        for entry in Path(folder).glob("sys-*"):
            pid = entry.name.removeprefix("sys-")
            if (
                pid.isdecimal()
                and not Path("/proc", pid).exists()
                and (entry / "sys" / "class").is_dir()
            ):
                shutil.rmtree(entry, ignore_errors=True)


def _sleep(parent: int) -> None:
    """Until standard input ends or the parent is gone."""
    with contextlib.suppress(OSError, AttributeError):
        watched = [0, os.pidfd_open(parent)]
        if os.getppid() == parent:
            select.select(watched, [], [])
        return
    while os.getppid() == parent and not select.select([0], [], [], 0.5)[0]:
        pass  # a kernel without pidfd


def main(token: str, folder: str, keep: str, parent: str) -> None:
    """See the module."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        os.mkdir(folder, 0o700)
    except OSError as error:
        sys.exit(error.strerror or str(error))
    try:
        os.write(1, b"ready\n")
        _sleep(int(parent))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        take_down(token, folder, keep=bool(int(keep)))


if __name__ == "__main__":
    main(*sys.argv[1:])
