"""Starting and ending programs, without OpenSM's programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes import wait_for as until

from weft.core.errors import WeftError
from weft.subnet.live import guardian
from weft.subnet.live.processes import (
    Child,
    Processes,
    ending,
    find_program,
    interrupts_left_to_the_command,
    orderly_signals,
    search_path,
    tail,
    wait_for,
)


def test_close_ends_all_processes_and_removes_the_folder(tmp_path: Path) -> None:
    processes = Processes(None)
    environment = {**os.environ, guardian.MARK: processes.token}
    command = ["sh", "-c", "trap '' TERM; sleep 100 & echo started; wait; sleep 100"]
    process = processes.start(command, processes.folder / "log", environment)
    wait_for(
        lambda: "started" in (processes.folder / "log").read_text(),
        Child(process).ended,
        [],
        60,
        "it failed",
    )
    (processes.folder / f"sys-{process.pid}").mkdir()
    # A process between fork and exec has no environment by which it could be recognised.
    wait_for(
        lambda: len(guardian.processes_of(processes.token)) == 2,
        Child(process).ended,
        [],
        60,
        "it has no child",
    )
    processes.close()
    assert guardian.processes_of(processes.token) == []
    assert not processes.folder.exists()
    assert process.returncode is not None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_when_the_guardian_is_killed(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("HANG_UP_S", "PATIENCE_S"):
        monkeypatch.setattr(guardian, wait, 60.0)
    processes = Processes(None)
    environment = {**os.environ, guardian.MARK: processes.token}
    process = processes.start(["sleep", "100"], processes.folder / "log", environment)
    processes._guardian.send_signal(number)
    processes._guardian.wait()
    processes.close()
    assert process.returncode == -signal.SIGTERM
    assert not processes.folder.exists()


def test_a_guardian_is_not_a_process_of_an_enclosing_subnet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(guardian.MARK, "around")
    processes = Processes(None)
    assert processes._guardian.pid not in guardian.processes_of("around")
    processes.close()


def test_a_folder_that_is_kept_and_one_that_cannot_be_made(tmp_path: Path) -> None:
    Processes(tmp_path / "kept").close()
    assert (tmp_path / "kept").is_dir()
    with pytest.raises(WeftError, match=r"cannot set up .*kept: File exists$"):
        Processes(tmp_path / "kept")
    with pytest.raises(WeftError) as refused:
        Processes(Path("/proc/kept"))
    assert str(refused.value) == "cannot set up /proc/kept: No such file or directory"


def test_the_guardian_acts_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from weft.subnet.live import guardian\n"
        "from weft.subnet.live.processes import Processes\n"
        "p = Processes(None)\n"
        "e = {**os.environ, guardian.MARK: p.token}\n"
        "p.start(['sleep', '100'], p.folder / 'log', e)\n"
        "print(p.token, p.folder, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    token, folder = done.stdout.split()
    assert done.returncode == -signal.SIGKILL
    until(lambda: not Path(folder).exists() and not guardian.processes_of(token))


def test_folders_left_by_umad2sim_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name in (f"sys-{ended.pid}", f"sys-{os.getpid()}"):
        (tmp_path / name / "sys" / "class").mkdir(parents=True)
    other = subprocess.Popen(["true"])
    other.wait()
    (tmp_path / f"sys-{other.pid}").mkdir()  # not of umad2sim: without sys/class
    (tmp_path / "sys-files").mkdir()
    guardian.remove_leftovers(tmp_path)
    names = {entry.name for entry in tmp_path.iterdir()}
    assert names == {f"sys-{os.getpid()}", f"sys-{other.pid}", "sys-files"}


def test_waiting_ends_with_the_reason_and_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n\ntwo\nthree\nfour\n")
    assert tail(tmp_path / "none", log) == "; the end of its log: two / three / four"
    assert tail(tmp_path / "none") == ""
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    with pytest.raises(
        WeftError, match=r"it failed: the program ended with status 3; .* two / three"
    ):
        wait_for(lambda: False, Child(process).ended, [log], 60, "it failed")
    process = subprocess.Popen(["sleep", "100"])
    try:
        with pytest.raises(WeftError, match=r"it failed within 0\.05 s"):
            wait_for(lambda: False, Child(process).ended, [], 0.05, "it failed")
    finally:
        process.kill()
        process.wait()
    assert ending(-9) == "signal SIGKILL"
    assert ending(-99) == "signal 99"


def test_finding_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert search_path("/bin") == "/bin:/usr/sbin:/sbin"
    assert search_path("/sbin::/bin") == "/sbin:/bin:/usr/sbin"
    (tmp_path / "ibsim").write_text("#!/bin/sh\n")
    (tmp_path / "ibsim").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("ibsim") == str(tmp_path / "ibsim")
    with pytest.raises(WeftError, match=r"no-such is not installed, or not in PATH$"):
        find_program("no-such")
    with pytest.raises(WeftError, match="on Debian it is in the package ibsim-utils"):
        find_program("ibsim-run")


def test_signals_end_in_order_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as error, orderly_signals():  # noqa: PT012
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        assert error.value.code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

        def own(*_: object) -> None: ...

        signal.signal(signal.SIGTERM, own)
        with orderly_signals():
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ctrl_c_is_ignored_while_a_command_runs() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts_left_to_the_command():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
