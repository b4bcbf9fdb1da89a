"""Tables are loaded into the real OpenSM and read back, and whatever fails is undone."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S

import weft
from weft.core.errors import InputError, NotApplicable, WeftError
from weft.routing.opensm.lfts import lft_dump
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.keys.tables import key_tables
from weft.subnet.live.manager import Manager
from weft.subnet.live.subnet import Subnet
from weft.subnet.live.verify import differences

pytestmark = pytest.mark.oracle

FABRIC = weft.fabric("xgft:2;4,4;1,4")
#: Entries of 8 switches for 4 LIDs of each of 16 hosts and one LID of each switch.
ENTRIES = 8 * (4 * 16 + 8)
SPINE = [f"s2-0[{port}]" for port in range(1, 5)]


def tables(shift: int) -> TableRoutes:
    """Return the tables of a key in which each host sends to the host so many numbers further."""
    hosts = np.arange(16)
    key = weft.keys(FABRIC, hosts, np.roll(hosts, shift))
    return key_tables(FABRIC, weft.route(FABRIC, "dmodk"), [key], lmc=2).routes


ONE, OTHER = tables(4), tables(9)


@contextmanager
def started() -> Iterator[Subnet]:
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts")
    with weft.live(FABRIC, routes=ONE) as subnet:
        yield subnet


@pytest.fixture(scope="module")
def shared() -> Iterator[Subnet]:
    with started() as subnet:
        yield subnet


@pytest.fixture
def subnet(shared: Subnet) -> Iterator[Subnet]:
    """Yield a subnet with all cables and the tables `ONE`."""
    yield shared
    for port in list(shared._pulled.values()):
        shared.relink(port)
    shared.manager.load(shared.manager.present(), ONE)


def check_held(subnet: Subnet, routes: TableRoutes) -> None:
    """Check that the switches hold tables, by another program, and that OpenSM would load them."""
    seen = subnet.manager._look()
    assert not len(differences(seen.fabric, seen.lids, routes, subnet.lfts()))
    loads = (subnet.folder / "weft.lfts").read_text()
    assert loads == lft_dump(seen.fabric, routes, lids=seen.lids)
    judged = validate(subnet.fabric, subnet.lfts())
    assert judged.ok_where_connected
    assert not subnet.manager.changed()


def updn(fabric: weft.Fabric) -> TableRoutes:
    routes = weft.route(fabric, "updn:lmc=2")
    assert isinstance(routes, TableRoutes)
    return routes


def test_tables_are_replaced_and_read_back(subnet: Subnet) -> None:
    manager = subnet.manager
    assert manager.present() is FABRIC
    assert not manager.changed()
    assert np.count_nonzero(ONE.table != OTHER.table) == 20
    for routes in (OTHER, ONE, OTHER):
        loaded = manager.load(FABRIC, routes)
        assert (loaded.entries, loaded.steps) == (ENTRIES, 1)
        assert 0 < loaded.sweep_s < loaded.total_s
        check_held(subnet, routes)
    manager.sweep_again()
    assert manager.changed()
    assert manager.present() is FABRIC
    assert not manager.changed()


def test_an_opensm_of_somebody_else(subnet: Subnet, tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(str(subnet.pid))
    conf = subnet.folder / "opensm.conf"
    manager = Manager.from_conf(FABRIC, conf, pid=tmp_path / "pid", cache=subnet.folder)
    assert manager.lmc == 2
    assert manager.lids().base.tolist() == subnet.lids().base.tolist()
    assert manager.changed()
    assert manager.load(manager.present(), OTHER).entries == ENTRIES
    # What one of two sees of the other is a sweep.
    assert subnet.manager.changed()
    subnet.manager.present()
    check_held(subnet, OTHER)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("(?s).*", "garbage", "OpenSM programmed 576 entries that differ from the tables"),
        ("Unicast", "garbage", "OpenSM programmed 72 entries .*: no port instead of port 1"),
        ("0x0005 005", "0x0005 006", "OpenSM programmed 1 entries .*: port 6 instead of port 5"),
        (" guid 0x", " guid x", "OpenSM's file refuses .*: PARSE ERROR: .* fell back to minhop"),
    ],
)
def test_the_previous_tables_are_restored_if_opensm_does_not_take_the_file(
    subnet: Subnet, monkeypatch: pytest.MonkeyPatch, before: str, after: str, message: str
) -> None:
    def damaged(*_: object, **__: object) -> bytes:
        text, count = re.subn(before, after, lft_dump(FABRIC, OTHER, lids=subnet.lids()), count=1)
        assert count
        return text.encode()

    assert subnet.manager.load(FABRIC, OTHER)
    subnet.reload(ONE)
    with monkeypatch.context() as patch:
        patch.setattr("weft.subnet.live.manager.lft_bytes", damaged)
        # Nothing suggests that another sweep follows, so there is no wait for one.
        patch.setattr("weft.subnet.live.manager._FURTHER_S", 1000)
        expected = f"{message}.*; the previous file is back, and the switches have its tables again"
        with pytest.raises(WeftError, match=expected):
            subnet.manager.load(FABRIC, OTHER)
    check_held(subnet, ONE)
    subnet.manager.load(FABRIC, OTHER)
    check_held(subnet, OTHER)


def test_an_opensm_that_may_not_fall_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the switches keep their tables if OpenSM refuses the file."""
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts")
    monkeypatch.setattr("weft.subnet.live.running._OURS", set())
    options = {"routing_engine": "file,no_fallback"}
    with weft.live(FABRIC, routes=ONE, options=options) as subnet:
        subnet.manager.present()
        with monkeypatch.context() as patch:
            text = lft_dump(FABRIC, OTHER, lids=subnet.lids()).replace("guid 0x", "guid x").encode()
            patch.setattr("weft.subnet.live.manager.lft_bytes", lambda *_, **__: text)
            expected = "file refuses .* PARSE ERROR: .* fell back to none; the previous file is"
            with pytest.raises(WeftError, match=expected):
                subnet.manager.load(FABRIC, OTHER)
        check_held(subnet, ONE)


@pytest.mark.parametrize(("lines", "more"), [(1, 0), (20, 40), (63, 0)])
def test_dumps_are_read_once_opensm_has_written_them(
    subnet: Subnet, monkeypatch: pytest.MonkeyPatch, lines: int, more: int
) -> None:
    monkeypatch.setattr("weft.subnet.live.manager._WRITING_S", PATIENCE_S)
    path = subnet.folder / "opensm-subnet.lst"
    subnet.manager.sweep_again()
    whole = path.read_text().splitlines(keepends=True)
    assert len(whole) == 2 * FABRIC.num_cables == 64
    path.write_text("".join(whole[:lines]) + whole[lines][:more])
    timer = threading.Timer(0.1, lambda: path.write_text("".join(whole)))
    timer.start()
    assert subnet.manager.present() is FABRIC
    timer.join()


def test_lids_that_change_are_an_error(subnet: Subnet) -> None:
    manager, path = subnet.manager, subnet.folder / "guid2lid"
    manager.present()
    # The tables were made for other LIDs than those that OpenSM has now.
    manager._look().lids.base[3] += 60
    with pytest.raises(WeftError, match=r"1 of 24 ports .* LID, for example h3\[1\]: .* is back"):
        manager.load(FABRIC, OTHER)
    manager.sweep_again()
    text = path.read_text()
    path.write_text(re.sub(r" 0x0(\w{3}) 0x0(\w{3})", r" 0x1\1 0x1\2", text, count=1))
    try:
        with pytest.raises(WeftError, match=r"1 ports have other LIDs than in .*guid2lid, for"):
            manager.present()
    finally:
        path.write_text(text)
    assert manager.present() is FABRIC


def test_tables_that_may_not_be_loaded_are_refused_before_anything_is_written(
    subnet: Subnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = subnet.manager
    lost = OTHER.table.copy()
    lost[5 * 4 + 3, 0] = OTHER.no_path  # an alias LID of host 5 on the leaf switch of host 0
    base = weft.route(FABRIC, "dmodk")
    refused = [
        (replace(OTHER, table=lost), NotApplicable, "not loaded, .* 4 of 240 host pairs"),
        (base, InputError, "OpenSM has LMC 2, but the routes LMC 0"),
        (replace(OTHER, sl=np.ones((), np.uint8)), NotApplicable, "service levels or lanes"),
        (weft.route(FABRIC, "ecmp"), NotApplicable, "loads forwarding tables, but ecmp has none"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr("weft.subnet.live.manager.write_bytes", None)
        patch.setattr("os.kill", None)
        for routes, error, message in refused:
            with pytest.raises(error, match=message):
                manager.load(FABRIC, routes)
        with pytest.raises(InputError, match="made for another fabric"):
            manager.load(FABRIC.without(cables=[SPINE[0]]), OTHER)
    check_held(subnet, ONE)


def test_another_engine_of_opensm_is_refused() -> None:
    with weft.live(FABRIC, "updn") as subnet, pytest.raises(InputError, match="own engine updn"):
        subnet.manager.load(FABRIC, weft.route(FABRIC, "dmodk"))


def test_a_pulled_cable_is_routed_around_and_used_again(subnet: Subnet) -> None:
    manager = subnet.manager
    manager.present()
    subnet.unlink(SPINE[0])
    assert manager.changed()
    smaller = manager.present()
    assert smaller.digest == FABRIC.without(cables=[SPINE[0]]).digest
    assert not manager.changed()
    with pytest.raises(NotApplicable, match=r"24 of 240 host pairs .* have no path"):
        manager.load(FABRIC, ONE)
    loaded = manager.load(smaller, updn(smaller))
    assert loaded.entries == ENTRIES
    check_held(subnet, updn(smaller))

    subnet.relink(SPINE[0])
    assert manager.changed()
    assert manager.present() is FABRIC
    # Routes may leave out a cable that OpenSM sees.
    manager.load(smaller, updn(smaller))
    manager.load(FABRIC, OTHER)
    check_held(subnet, OTHER)


def test_a_way_in_several_steps_is_taken_if_packets_could_circle(subnet: Subnet) -> None:
    """minhop has entries that no path uses and that lead back to where new paths come from."""
    manager = subnet.manager
    subnet.unlink(SPINE[0])
    smaller = manager.present()
    around = weft.route(smaller, "minhop:lmc=2")
    assert isinstance(around, TableRoutes)
    assert manager.load(smaller, around).steps == 2
    check_held(subnet, around)
    subnet.relink(SPINE[0])
    manager.present()
    assert manager.load(FABRIC, ONE).steps == 2
    check_held(subnet, ONE)


def test_switches_and_hosts_that_are_gone(subnet: Subnet) -> None:
    manager = subnet.manager
    gone = [*SPINE, "s1-3[1]"]
    for port in gone:
        subnet.unlink(port)
    smaller = manager.present()
    assert smaller.digest == FABRIC.without(cables=gone).digest
    routes = updn(smaller)
    # Neither the switch nor the LIDs of the switch and the host are there to compare.
    assert manager.load(smaller, routes).entries == 7 * (4 * 15 + 7)
    check_held(subnet, routes)
    for port in gone:
        subnet.relink(port)
    assert manager.present() is FABRIC
    assert manager.load(FABRIC, OTHER).entries == ENTRIES
    check_held(subnet, OTHER)


def test_a_cable_that_fails_while_tables_are_loaded(
    subnet: Subnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = subnet.manager
    manager.present()
    hang_up = manager._hang_up
    cable = FABRIC.find_cable(SPINE[1])

    def pulled() -> None:
        subnet._console(f"Unlink {subnet._end_of(cable)}")
        hang_up()

    with monkeypatch.context() as patch:
        patch.setattr(manager, "_hang_up", pulled)
        manager.load(FABRIC, OTHER)
    subnet._pulled[cable] = SPINE[1]
    assert len(subnet.differences(OTHER)) == 0
    assert manager.changed()
    assert manager.present().digest == FABRIC.without(cables=[SPINE[1]]).digest
    assert not manager.changed()


def test_cables_and_devices_that_are_not_in_the_fabric_are_named(subnet: Subnet) -> None:
    other = subnet.manager
    for smaller, name in (
        (FABRIC.without(cables=[SPINE[0]]), r"s1-0\[5\] to s2-0\[1\]"),
        (FABRIC.without(switches=["s2-3"]), r"s1-0\[8\] to 0x0+200007\[1\]"),
    ):
        manager = Manager(smaller, other.files, other.process, lmc=2)
        for use in (manager.present, lambda: manager.load(smaller, updn(smaller))):  # noqa: B023
            with pytest.raises(InputError, match=f"ends of cables that are not in .* {name}"):
                use()
        assert manager.changed()


def test_a_sweep_that_was_under_way_is_not_taken_for_the_one_that_was_asked_for(
    subnet: Subnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSM has read the previous file before the new one is in its place."""
    manager, path = subnet.manager, subnet.folder / "weft.lfts"
    old, hang_up = path.read_bytes(), manager._hang_up

    def late() -> None:
        new = path.read_bytes()
        assert new != old
        path.write_bytes(old)
        hang_up()

        def follow() -> None:
            path.write_bytes(new)
            hang_up()

        threading.Timer(0.3, follow).start()

    with monkeypatch.context() as patch:
        patch.setattr(manager, "_hang_up", late)
        patch.setattr("weft.subnet.live.manager._FURTHER_S", PATIENCE_S)
        assert manager.load(FABRIC, OTHER).sweep_s > 0.3
    check_held(subnet, OTHER)


def test_an_opensm_that_hangs_is_an_error(subnet: Subnet, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = subnet.manager
    os.kill(subnet.pid, signal.SIGSTOP)
    monkeypatch.setattr(manager, "timeout_s", 0.2)
    try:
        with pytest.raises(WeftError, match=r"within 0\.2 s.* is back, but the switches may have"):
            manager.load(FABRIC, OTHER)
    finally:
        monkeypatch.undo()
        mark = manager._log.mark()
        os.kill(subnet.pid, signal.SIGCONT)
    manager.await_sweep(mark, "no sweep")
    assert manager.changed()
    assert len(subnet.differences(ONE)) == 0


def test_an_opensm_that_has_ended_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with started() as subnet:
        manager, path = subnet.manager, subnet.folder / "weft.lfts"
        manager.present()
        before = path.read_bytes()

        def kill() -> None:
            os.kill(subnet.pid, signal.SIGKILL)

        with monkeypatch.context() as patch:
            patch.setattr(manager, "_hang_up", kill)
            expected = (
                "OpenSM did not finish its sweep: the program ended with signal SIGKILL; .*; "
                "OpenSM does not run .*; the previous file is back, but"
            )
            with pytest.raises(WeftError, match=expected):
                manager.load(FABRIC, OTHER)
        assert path.read_bytes() == before
        with pytest.raises(
            WeftError, match=r"OpenSM does not run .* SIGKILL\); nothing was changed"
        ):
            manager.load(FABRIC, OTHER)
        assert path.read_bytes() == before
        # OpenSM, which was killed, may leave a file of its own.
        assert not list(subnet.folder.glob(".*.tmp"))
