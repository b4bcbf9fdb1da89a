"""The guardian: a process that ends a live subnet, however its parent process ends.

It runs as a program with only the standard library: ``guardian.py TOKEN FOLDER KEEP PARENT``. It
creates the folder, prints ``ready`` and sleeps until its standard input or its parent ends. Then it
ends every process whose environment contains the token and removes the folder. A normal end, an
exception, a signal and even SIGKILL of the parent are thus handled by the same code.

A signal to each child at the parent's death (PR_SET_PDEATHSIG) is not enough: it neither removes
the folder nor ends the children's children, and is also sent when only a thread of the parent ends.
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

#: Environment variable that identifies the processes of a subnet.
MARK = "WEFT_SUBNET"
#: Seconds from SIGTERM to SIGKILL, from SIGTERM to SIGHUP (which ends an idle shell), and between
#: two searches for processes.
PATIENCE_S = 1.0
HANG_UP_S = 0.3
POLL_S = 0.04


def processes_of(token: str) -> list[int]:
    """Return the process ids with the token in their environment; zombies have no environment."""
    mark = f"{MARK}={token}".encode()
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as stream:
            if mark in stream.read().split(b"\0"):
                pids.append(int(name))
    return pids


def end_processes(token: str) -> None:
    """End all processes of a subnet: clients of the simulator first, then the simulator.

    A client that ends without disconnecting keeps its slot in ibsim, and a client may hang if ibsim
    ends first.
    """
    _end(lambda: [pid for pid in processes_of(token) if _name(pid) != "ibsim"])
    _end(lambda: processes_of(token))


def take_down(token: str, folder: str | Path, *, keep: bool) -> None:
    """End all processes of a subnet and, unless `keep` is set, remove its folder."""
    end_processes(token)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def _end(running: Callable[[], list[int]]) -> None:
    start = time.monotonic()
    sent: dict[int, int] = {}
    leftovers: set[str] = set()
    quiet = 0
    while quiet < 2:  # a process between fork and exec is only found the second time
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
            if sent.get(pid) != number:
                sent[pid] = number
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
    """Remove the folders that programs with ibsim's library umad2sim left behind.

    The library creates a folder ``sys-PID`` in each program's working folder, and a program that is
    ended by a signal does not remove it.
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
    """Sleep until standard input or the parent ends."""
    with contextlib.suppress(OSError, AttributeError):
        watched = [0, os.pidfd_open(parent)]
        if os.getppid() == parent:
            select.select(watched, [], [])
        return
    while os.getppid() == parent and not select.select([0], [], [], 0.5)[0]:
        pass  # on a kernel without pidfd


def main(token: str, folder: str, keep: str, parent: str) -> None:
    """Run the guardian; see the module's description."""
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
