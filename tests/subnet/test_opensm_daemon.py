"""A running OpenSM from its configuration: what is refused, and its log."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.routes.mixed_tables import MixedTables
from weft.routing.validation.deadlock import credit_loops
from weft.routing.validation.replacement import loading_steps
from weft.subnet.live.daemon import Daemon
from weft.subnet.live.manager import Manager
from weft.subnet.live.sweep_log import START, SweepLog

FABRIC = load("ring:3")
GOOD = {
    "routing_engine": "file",
    "lfts_file": "{}/weft.lfts",
    "lmc": "2",
    "log_file": "{}/opensm.log",
    "log_flags": "0x43",
    "force_log_flush": "TRUE",
    "dump_files_dir": "{}",
}


@pytest.fixture
def opensm(tmp_path: Path) -> Iterator[int]:
    """Yield the process id of a program that is named opensm."""
    program = tmp_path / "opensm"
    shutil.copy(shutil.which("sleep") or "", program)
    process = subprocess.Popen([program, "1000"])
    while Daemon(process.pid).ended():
        assert process.poll() is None
    yield process.pid
    process.kill()
    process.wait()


def manager(folder: Path, pid: int | str | Path, changes: dict[str, str | None]) -> Manager:
    """Return the OpenSM of a configuration; None removes a setting."""
    settings = {**GOOD, **changes}
    lines = [f"{name} {text}\n" for name, text in settings.items() if text is not None]
    (folder / "opensm.conf").write_text("".join(lines).replace("{}", str(folder)))
    (folder / "opensm.log").touch()
    return Manager.from_conf(FABRIC, folder / "opensm.conf", pid=pid, cache=folder)


def test_a_configuration_that_allows_to_load_tables(tmp_path: Path, opensm: int) -> None:
    (tmp_path / "opensm.pid").write_text(f"{opensm}\n")
    for pid in (opensm, tmp_path / "opensm.pid", str(tmp_path / "opensm.pid")):
        made = manager(tmp_path, pid, {"routing_engine": "file,updn", "log_flags": "0xff"})
        assert (made.lmc, made.process.pid) == (2, opensm)
        assert made.files.lfts == tmp_path / "weft.lfts"
        assert made.files.guid2lid == tmp_path / "guid2lid"
        assert not made.process.ended()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"routing_engine": "updn"}, "set routing_engine file, and restart OpenSM"),
        ({"routing_engine": "(null)"}, "set routing_engine file,"),
        ({"lfts_file": "(null)"}, "set lfts_file FILE,"),
        ({"lmc": "0"}, "set lmc with 1 to 7 "),
        ({"lmc": None}, "set lmc with 1 to 7 "),
        ({"lmc": "many"}, "set lmc with 1 to 7 "),
        ({"log_flags": "0x03"}, "set log_flags 0x43,"),
        ({"log_flags": "0x84"}, "set log_flags 0xc7,"),
        ({"log_flags": None, "lmc": "0"}, r"set lmc with .*, log_flags 0x43, and restart"),
        ({"force_log_flush": "FALSE"}, "set force_log_flush TRUE,"),
        ({"force_log_flush": None}, "set force_log_flush TRUE,"),
        ({"use_ucast_cache": "TRUE"}, "set use_ucast_cache FALSE,"),
        ({"dump_files_dir": "{}/none"}, "the folder of dump_files_dir, .*/none, does not exist"),
        ({"lfts_file": "{}/none/x"}, "the folder of lfts_file, .*/none, does not exist"),
        ({"lfts_file": "weft.lfts"}, r"the folder of lfts_file, \., does not exist"),
        ({"log_file": "{}/none"}, "OpenSM's log .*/none does not exist"),
    ],
)
def test_settings_that_do_not_allow_it_are_refused(
    tmp_path: Path, opensm: int, changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(InputError, match=rf"opensm\.conf: .*{message}"):
        manager(tmp_path, opensm, changes)


def test_a_process_that_is_not_a_running_opensm_is_refused(tmp_path: Path, opensm: int) -> None:
    ended = subprocess.Popen(["true"])
    while Path(f"/proc/{ended.pid}/stat").read_text().split()[2] != "Z":
        pass
    with pytest.raises(InputError, match=f"does not run: process {ended.pid} has ended"):
        manager(tmp_path, ended.pid, {})
    ended.wait()
    with pytest.raises(InputError, match=f"no process {ended.pid} runs"):
        manager(tmp_path, ended.pid, {})
    with pytest.raises(InputError, match=f"process {os.getpid()} is .*, not opensm"):
        manager(tmp_path, os.getpid(), {})
    (tmp_path / "pid").write_text("12a")
    with pytest.raises(InputError, match="pid: expected a process id, found '12a'"):
        manager(tmp_path, tmp_path / "pid", {})
    with pytest.raises(
        InputError, match="none: the process id of OpenSM cannot be read: No such file"
    ):
        manager(tmp_path, tmp_path / "none", {})
    with pytest.raises(InputError, match=r"folder of the cache, .*no-cache, does not exist"):
        Manager.from_conf(FABRIC, tmp_path / "opensm.conf", pid=opensm, cache=tmp_path / "no-cache")


UP = "Nov 24 02:49:04 733611 [127186C0] 0x02 -> SUBNET UP\n"
OTHER = "Nov 24 02:49:04 733611 [127186C0] 0x02 -> another line\n"


def test_ends_of_sweeps_are_found_in_a_log_that_is_replaced_or_shortened(tmp_path: Path) -> None:
    path = tmp_path / "opensm.log"
    log = SweepLog(path)
    assert (log.mark(), log.new_sweep()) == (START, False)

    def add(text: str) -> bool:
        with path.open("a") as stream:
            stream.write(text)
        return log.new_sweep()

    assert add(UP)
    assert not log.new_sweep()
    assert not add(OTHER)
    assert not add(UP[:-5])  # a line that is not complete yet
    assert add(UP[-5:])
    assert not add("")
    mark = log.mark()
    assert not add(OTHER)
    assert log.since(mark)[0] == OTHER

    path.rename(tmp_path / "opensm.log.1")
    assert log.new_sweep()  # its end may have been in the log that is gone
    assert not log.new_sweep()
    assert add(OTHER + UP)
    assert log.since(mark)[0] == OTHER + UP
    path.write_text(OTHER)
    assert log.new_sweep()
    assert not log.new_sweep()


def test_tables_between_which_packets_can_deadlock_on_the_way_are_refused() -> None:
    fabric = load("torus:4x4")
    before, after = (route(fabric, f"updn:roots={root}") for root in ("s0.0", "s2.2"))
    assert isinstance(before, TableRoutes)
    assert isinstance(after, TableRoutes)
    assert [step is after for step in loading_steps(fabric, after, after)] == [True]
    with pytest.raises(NotApplicable, match=r"packets can deadlock, for example s\d"):
        loading_steps(fabric, before, after)


def test_entries_are_there_before_paths_use_them_and_until_no_path_does() -> None:
    """Otherwise a packet is lost that meets a new entry first and a missing one after it."""
    fabric = load("xgft:2;4,4;1,4")
    routes = route(fabric, "dmodk")
    assert isinstance(routes, TableRoutes)
    leaves, spines = slice(0, 4), slice(4, 8)
    ends = []
    for spine in (0, 1):  # by which all packets for host 0, on the first leaf switch, go
        table = routes.table.copy()
        table[0, 1:4] = 5 + spine
        table[0, spines] = routes.no_path
        table[0, 4 + spine] = 1
        ends.append(replace(routes, table=table))
    before, after = ends
    first, last, new = loading_steps(fabric, before, after)
    assert new is after
    for step, others in ((first, before), (last, after)):
        np.testing.assert_array_equal(step.table[0, leaves], others.table[0, leaves])
        assert step.table[0, spines].tolist() == [1, 1, routes.no_path, routes.no_path]
    # If packets are lost anyway, the new tables are loaded at once.
    broken = before.table.copy()
    broken[9, 0] = routes.no_path
    assert loading_steps(fabric, replace(before, table=broken), after) == [after]


def test_there_is_a_way_around_faults_of_a_tree_and_back() -> None:
    """Of the steps from one table to the next, no mixture has a credit loop."""
    whole = load("xgft:3;4,4,4;1,4,4")
    routes = route(whole, "dmodk")
    steps = []
    for seed in range(4):
        held, before = whole, routes
        for fabric in (whole.with_faults(cables=2, seed=seed), whole):
            after = route(fabric, "updn") if fabric is not whole else routes
            assert isinstance(before, TableRoutes)
            assert isinstance(after, TableRoutes)
            moved = before.on(held, fabric)
            way = [moved, *loading_steps(fabric, moved, after)]
            for one, other in pairwise(way):
                assert not credit_loops(fabric, MixedTables.of(one, other))[0]
            assert way[-1] is after
            steps.append(len(way) - 1)
            held, before = fabric, after
    assert set(steps) == {1, 2}
