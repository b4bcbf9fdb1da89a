"""Folders of tables, and detection of OpenSM's files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.cli.common import opensm_settings
from weft.core.errors import InputError
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.dumps import find_dumps, load_tables
from weft.routing.opensm.lfts import lft_dump
from weft.routing.opensm.lids import Lids, predict_lids
from weft.routing.opensm.ports import destination_name, port_guids
from weft.routing.opensm.tables_folder import LFTS, read_settings, read_tables
from weft.routing.routes import TableRoutes

CONFIG = """\
# a comment
routing_engine updn,minhop
lmc 2
qos TRUE
qos_ca_sl2vl 0,1,2
qos_policy_file /somewhere/else
log_file /var/log/opensm.log   # ours is another
"""


def test_settings_of_the_original_host_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "opensm.conf").write_text(CONFIG)
    assert read_settings(tmp_path / "opensm.conf")["log_file"] == "/var/log/opensm.log"
    tables = read_tables(tmp_path)  # the folder names an engine but has no tables
    assert tables.settings == {
        "routing_engine": "updn,minhop", "lmc": "2", "qos": "TRUE", "qos_ca_sl2vl": "0,1,2",
    }  # fmt: skip
    (tmp_path / "opensm-lfts.dump").write_text("tables\n")
    tables = read_tables(tmp_path)
    assert tables.settings["routing_engine"] == "file"
    assert tables.files == {LFTS: "tables\n"}
    assert tables.source == tmp_path / "opensm-lfts.dump"
    (tmp_path / "weft.lfts").write_text("ours\n")  # preferred to opensm-lfts.dump
    assert read_tables(tmp_path).files == {LFTS: "ours\n"}


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither weft\.lfts nor opensm-lfts\.dump"):
        read_tables(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_tables(tmp_path / "none")


def test_options_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roots").write_text("0x1\n")
    assert opensm_settings(("root_guid_file=roots", "lash_start_vl=1")) == {
        "root_guid_file": str(tmp_path / "roots"),
        "lash_start_vl": "1",
    }
    for text in ("qos", "=1"):
        with pytest.raises(InputError, match="expected name=value"):
            opensm_settings((text,))


def test_dumps_of_a_folder_and_of_files(tmp_path: Path) -> None:
    (tmp_path / "opensm.fdbs").write_text("dump_ucast_routes: ...\n")
    assert find_dumps([tmp_path]).lfts == tmp_path / "opensm.fdbs"
    (tmp_path / "opensm-lfts.dump").write_text("Unicast lids ...\n")
    (tmp_path / "opensm-sl2vl.dump").write_text("")  # OpenSM without QoS leaves it empty
    dumps = find_dumps([tmp_path])
    assert dumps.lfts == tmp_path / "opensm-lfts.dump"
    assert dumps.sl2vl is None
    assert find_dumps([tmp_path / "opensm-lfts.dump", tmp_path]).lfts == dumps.lfts


@pytest.mark.parametrize("lmc", [0, 2])
def test_tables_as_weft_writes_them(lmc: int, tmp_path: Path) -> None:
    fabric = load("mesh:3x3")
    routes = route(fabric, "updn:roots=center", lmc=lmc)
    assert isinstance(routes, TableRoutes)
    (tmp_path / "dump").write_text(lft_dump(fabric, routes))
    tables = load_tables(fabric, tmp_path / "dump", {})
    assert not tables.problems
    assert tables.routes.lmc == lmc
    assert np.array_equal(tables.base, predict_lids(fabric, lmc=lmc).base)
    adapters = fabric.num_endpoints << lmc
    assert np.array_equal(tables.routes.table[:adapters], routes.table[:adapters])
    switches = slice(adapters, None, 1 << lmc)  # a switch has one LID
    assert np.array_equal(tables.routes.table[switches], routes.table[switches])


@pytest.mark.parametrize("port", [1, 2, 3])
def test_entries_that_leave_by_a_port_without_a_cable(port: int, tmp_path: Path) -> None:
    """Such entries are errors for every port but 0, the switch itself."""
    fabric = load("xgft:2;2,3;1,2")
    routes = route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    (tmp_path / "dump").write_text(lft_dump(fabric, routes))
    spine = fabric.num_switches - 1
    cable = fabric.port_name(spine, port)
    ((kind, text, _),) = load_tables(fabric.without(cables=[cable]), tmp_path / "dump", {}).problems
    assert kind == "dead port"
    assert cable in text


def test_a_port_with_different_lids_in_different_tables(tmp_path: Path) -> None:
    """The LIDs of an adapter with LMC 1 are a pair; a switch has one."""
    fabric = load("xgft:2;2,2;1,2")
    routes = route(fabric, "minhop", lmc=1)
    assert isinstance(routes, TableRoutes)
    lmcs = predict_lids(fabric, lmc=1).lmc
    base = 4 * np.arange(1, fabric.num_destinations + 1, dtype=np.int32)
    head, first, *others = lft_dump(fabric, routes, lids=Lids(base, lmcs)).split("Unicast lids")
    for port in range(fabric.num_destinations):
        for offset in range(1, 4):
            # Only the first table gives the port another LID, which no other port has.
            lid = f"\n0x{base[port]:04x} "
            assert lid in first
            changed = first.replace(lid, f"\n0x{base[port] + offset:04x} ")
            (tmp_path / "dump").write_text("Unicast lids".join((head, changed, *others)))
            problems = load_tables(fabric, tmp_path / "dump", {}).problems
            if offset < 1 << lmcs[port]:
                assert not problems
            else:
                ((kind, text, _),) = problems
                assert kind == "LIDs"
                assert text.endswith(f"different tables: {destination_name(fabric, port)}")


def test_tables_without_guids_are_placed_by_lid(tmp_path: Path) -> None:
    """Tables written by an administrator or by an old ibroute have no GUIDs."""
    fabric = load("mesh:3x3")
    routes = route(fabric, "updn:roots=center")
    assert isinstance(routes, TableRoutes)
    bare = "".join(line.split(" #")[0] + "\n" for line in lft_dump(fabric, routes).splitlines())
    (tmp_path / "dump").write_text(bare)
    base = predict_lids(fabric).base.tolist()
    spans = {guid: (lid, lid) for guid, lid in zip(port_guids(fabric).tolist(), base, strict=True)}
    tables = load_tables(fabric, tmp_path / "dump", spans)
    assert not tables.problems
    assert (tables.routes.table == routes.table).all()
    stale = load_tables(fabric, tmp_path / "dump", {})
    assert [kind for kind, *_ in stale.problems] == ["stale"]
