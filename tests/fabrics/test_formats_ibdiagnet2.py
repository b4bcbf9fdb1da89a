"""ibdiagnet2's db_csv, net_dump and net_dump_ext, and OpenSM's smdb dump."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.ibdiagnet2_files import (
    LINKS,
    db_csv,
    net_dump,
    net_dump_ext,
    section,
    with_lids,
)
from tests.reading import reader_of

from weft import fabric as load
from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder, NodeKind
from weft.fabrics.formats import FormatWarning, reader, write_fabric
from weft.fabrics.topology import build

read_db_csv = reader_of("db-csv")
read_net_dump = reader_of("net-dump")
RATES = ["1xSDR", "4xDDR", "4xQDR", "4xFDR10", "12xFDR", "8xEDR", "2xHDR", "4xNDR", "4xXDR"]


def every_rate() -> Fabric:
    """Return a fabric with a cable of each speed, descriptions with commas, quotes and colons."""
    make = FabricBuilder("rates")
    (leaf, spine) = make.switches(["leaf, row 2", "MF0;spine:MQM9700/U1"])
    hosts = make.hosts([f'node{number} "a", mlx5_0' for number in range(len(RATES))])
    for host, rate in zip(hosts, RATES, strict=True):
        make.connect([host], [leaf], rate=rate)
    make.connect([leaf], [spine], cables=2, rate="4xNDR")
    parts = make.parts()
    (other,) = np.flatnonzero(np.array(parts.names) == 'node0 "a", mlx5_0')
    parts.port_guid[int(other), 1] = 0xABCDEF
    parts.system_guid[:] = 7
    parts.vendor_id[:] = 0x2C9
    parts.device_id[:] = 0xD2F2
    return with_lids(Fabric.of(parts), lmc=1)


def without_rates(fabric: Fabric, path: Path) -> None:
    """Write a fabric as by an old ibnetdiscover."""
    write_fabric(fabric, path)
    text = path.read_text()
    for name in RATES:
        text = text.replace(f" {name}\n", "\n")
    path.write_text(text)


def assert_same(found: Fabric, expected: Fabric, adapters: bool = True) -> None:
    """Compare fabrics whose nodes may be in another order."""
    order = [found._node_of_guid[guid] for guid in expected.node_guid.tolist()]
    node = np.array(order)
    assert [found.descriptions[at] for at in order] == list(expected.descriptions)
    ends = {}
    for fabric, index in ((found, np.argsort(node)), (expected, np.arange(len(node)))):
        ends[fabric.name] = {
            (
                (int(index[fabric.link_from[link]]), int(fabric.link_from_port[link])),
                (int(index[fabric.link_to[link]]), int(fabric.link_to_port[link])),
                int(fabric.cable_rate_code[link >> 1]),
            )
            for link in range(fabric.num_links)
        }
    first, second = ends.values()
    assert first == second
    if adapters:
        assert found.num_ports[node].tolist() == expected.num_ports.tolist()
        assert found.system_guid[node].tolist() == expected.system_guid.tolist()
        assert found.device_id[node].tolist() == expected.device_id.tolist()
        assert sorted(found.port_guid.tolist()) == sorted(expected.port_guid.tolist())
        assert sorted(found.lmc.tolist()) == sorted(expected.lmc.tolist())
    assert sorted(found.lid.tolist()) == sorted(expected.lid.tolist())


def test_a_db_csv_has_the_nodes_ports_rates_and_lids_of_the_fabric() -> None:
    fabric = every_rate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_db_csv(db_csv(fabric), "f.db_csv")
    assert_same(found, fabric)


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_cable_may_be_listed_once_or_at_both_ends(mirrored: bool) -> None:
    fabric = with_lids(build("xgft:2;3,3;1,2"))
    text = db_csv(fabric)
    head, _, links = text.partition(LINKS + "\n")
    rows = links.partition("END_")[0].split()
    if mirrored:
        rows += [",".join(row.split(",")[2:] + row.split(",")[:2]) for row in rows]
    text = head + "\n".join([LINKS, *rows, "END_LINKS", ""])
    assert_same(read_db_csv(text, "f"), fabric)


def test_sections_and_columns_that_are_unknown_are_counted_in_one_warning() -> None:
    text = db_csv(
        every_rate(), new=section("PLANES", "A,B", ["1,2"]), pm=section("PM_INFO", "A", [])
    )
    text = text.replace("LocalPortNum", "LocalPlane")
    with pytest.warns(FormatWarning, match="1 section and 1 unknown column that weft does") as said:
        read_db_csv(text, "f")
    assert len(said) == 1
    warning = said[0].message
    assert isinstance(warning, FormatWarning)
    assert warning.items == ("PLANES", "NODES.localplane")


def test_a_file_without_cables_adds_to_one_that_has_them(tmp_path: Path) -> None:
    fabric = every_rate()
    (tmp_path / "f.db_csv").write_text(db_csv(fabric).partition("START_LINKS")[0])
    with pytest.raises(InputError, match=r"no cables; add a file that has them"):
        load(tmp_path / "f.db_csv")
    without_rates(fabric, tmp_path / "a.ibnetdiscover")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load(tmp_path / "a.ibnetdiscover", also=[tmp_path / "f.db_csv"])
    assert found.cable_rate_code.tolist() == fabric.cable_rate_code.tolist()
    assert found.lid.tolist() == fabric.lid.tolist()


def smdb(fabric: Fabric) -> str:
    """Return the sections of a smdb dump, whose values are padded, with the columns it shares."""
    guid = [f"{int(each):#018x}" for each in fabric.node_guid]
    kind = [2 if each == NodeKind.SWITCH else 1 for each in fabric.node_kind]
    nodes = [f'{guid[n]}, {kind[n]}, "{fabric.descriptions[n]}"' for n in range(fabric.num_nodes)]
    ports = [
        f"{int(fabric.port_guid[fabric.port_offset[node] + port - 1]):#018x}, {guid[node]}, "
        f"{lid}, {port}"
        for node, port, lid in zip(
            fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), fabric.lid.tolist(),
            strict=False,
        )
    ]  # fmt: skip
    ports += [
        f"{guid[switch]}, {guid[switch]}, {fabric.lid[fabric.num_endpoints + switch]}, 0"
        for switch in range(fabric.num_switches)
    ]
    links = [
        f"{guid[fabric.link_from[link]]}, {fabric.link_from_port[link]}, "
        f"{guid[fabric.link_to[link]]}, {fabric.link_to_port[link]}"
        for link in range(fabric.num_links)
    ]
    return (
        section("NODES", "NodeGUID, NodeType, NodeDesc", nodes)
        + section("PORTS", "PortGUID, NodeGUID, LID, PortNum", ports)
        + section("LINKS", "NodeGUID1, PortNum1, NodeGUID2, PortNum2", links)
        + section("SMS", "PortGUID, LID, Priority, State", [])
    )


def test_a_smdb_dump_has_the_cables_and_lids_but_no_rates() -> None:
    fabric = with_lids(build("xgft:2;3,3;1,2"))
    with pytest.warns(FormatWarning) as said:
        found = read_db_csv(smdb(fabric), "opensm-smdb.dump", rate="4xHDR")
    count = fabric.num_cables
    text = f"{count} of {count} cables without a rate"
    assert any(text in str(each.message) for each in said)
    assert_same(found, fabric, adapters=False)


GUIDS = {
    "0xswitch1": "expected a GUID of hexadecimal digits",
    "": "expected a GUID of hexadecimal digits",
    "0x10000000000000000": "expected a GUID of hexadecimal digits",
    "0x0": "invalid GUID 0x0",
}


@pytest.mark.parametrize("guid", GUIDS)
def test_a_guid_that_is_no_guid_is_refused(guid: str) -> None:
    text = db_csv(with_lids(build("xgft:1;2;1"))).replace("0x0000000000200000", guid)
    with pytest.raises(InputError, match=GUIDS[guid]) as caught:
        read_db_csv(text, "f")
    assert caught.value.line == 6


def test_the_public_db_csv_is_refused_for_its_guids(shared: Path) -> None:
    path = shared / "evidence" / "ibdiagnet2" / "ibdiagnet2.db_csv"
    if not path.exists():
        pytest.skip("the file is not there")
    with pytest.raises(InputError, match=r"NodeGUID is '0xhost1'; expected a GUID of hexadecimal"):
        load(path)


FAULTS = {
    "END_PORTS\n\nSTART_LINKS": ("START_LINKS", "section PORTS has no end before this line"),
    "END_LINKS\n": ("", "section LINKS has no end; the file may be cut short"),
    "START_PORTS\n": ("", "expected a section, found 'NodeGuid,.* between sections"),
    "END_PORTS\n": ("END_PORTS\nEND_PORTS\n", "section PORTS has no beginning before this line"),
    "END_NODES\n": ("END_PORTS\n", "section NODES ends as PORTS, with 13 columns"),
    "START_LINKS\n": ("START_NODES\n", "section NODES occurs twice"),
    "END_LINKS": ("END_LINKS\n0x0000000000200000,2,0x0000000000100003,1", "between sections"),
    "NodeType": ("NodeKind", "section NODES has no column NodeType"),
    LINKS: ("NodeGuid1,PortNum1,PortNum1,PortNum2", "two columns of section LINKS have one name"),
    "START_NODES": ("START_OLD", "section OLD ends as NODES, with 13 columns"),
    ",2,1,1,": (",7,1,1,", "NodeType is 7; expected 1, 2 or 3"),
    ",1,1,2,1028,0,5,4": (",1,1,2,1028,0,5,4,1", "has 10 fields, but 9 columns"),
    "0,2,1028,0,5": ("0,two,1028,0,5", "LinkWidthActv is 'two'; expected a number"),
    "0x0000000000100002,1\nEND": ("0x0000000000999999,1\nEND", "which is not in section NODES"),
    "0x0000000000200000,2,0x0000000000100002": (
        "0x0000000000200000,1,0x0000000000100002",
        "port 1 of S-0000000000200000 leads to H-0000000000100000.1. in another line",
    ),
    "0x0000000000200000,0x0000000000200000,2,": (
        "0x0000000000200000,0x0000000000200000,1,",
        "port 1 of S-0000000000200000 is listed twice",
    ),
}


@pytest.mark.parametrize("old", FAULTS)
def test_faults_are_errors_with_the_line(old: str) -> None:
    text = db_csv(with_lids(build("xgft:1;2;1")))
    new, message = FAULTS[old]
    assert old in text
    with pytest.raises(InputError, match=message) as caught:
        read_db_csv(text.replace(old, new, 1), "f")
    assert caught.value.line


def test_ports_of_nodes_without_a_line_are_a_warning() -> None:
    text = db_csv(with_lids(build("xgft:1;2;1")))
    row = next(row for row in text.splitlines() if row.startswith("0x0000000000100002,0x"))
    text = text.replace(row, row + "\n" + row.replace("0x0000000000100002", "0x99", 1))
    with pytest.warns(FormatWarning) as said:
        read_db_csv(text, "f")
    assert "1 port of nodes that are not in section NODES: 0x99 in line" in str(said[0].message)


# -- net_dump --------------------------------------------------------------------------------------


def test_a_net_dump_has_the_cables_rates_and_lids_of_the_fabric() -> None:
    fabric = every_rate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_net_dump(net_dump(fabric), "f.net_dump")
    assert_same(found, fabric, adapters=False)


def test_a_port_whose_number_is_not_told_loses_its_cable() -> None:
    fabric = with_lids(build("xgft:2;3,3;1,2"))
    text = net_dump(fabric)
    row = next(row for row in text.splitlines() if '"n0"' in row or '"h0"' in row)
    fields = row.split(":")
    fields[10] = " 1/9/9 "
    with pytest.warns(FormatWarning, match="1 cable to ports whose number") as said:
        found = read_net_dump(text.replace(row, ":".join(fields)), "f")
    assert found.num_cables == fabric.num_cables - 1
    assert [each.message.lost for each in said if isinstance(each.message, FormatWarning)] == [1]


TABLES = {
    " : IB# : ": (" : IB : ", "expected a heading with fields of a table"),
    " : LSA     : ": (" : Speed   : ", "the table has no column 'lsa'"),
    '"s0_0", Mellanox': ("s0_0, Mellanox", "expected"),
    ": 1   : ACT": (": one : ACT", "expected a number in column ib#"),
    " : 0x100002  :": (" : 0xhost  :", "expected a GUID of hexadecimal digits"),
    "1/1/2": ("1/1/1", "two ports have the label 1/1/1"),
    ": 4x      : 50": (": 5x      : 50", "unknown rate"),
}


@pytest.mark.parametrize("old", TABLES)
def test_faults_of_a_net_dump_are_errors_with_the_line(old: str) -> None:
    text = net_dump(with_lids(build("xgft:1;2;1")))
    new, message = TABLES[old]
    if old.startswith('"s0_0"'):
        old = text[text.index('"') : text.index(", Mellanox") + 10]
        new = old.replace('"', "")
    assert old in text
    with pytest.raises(InputError, match=message) as caught:
        read_net_dump(text.replace(old, new, 1), "f")
    assert caught.value.line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" : #IB : ", " : Port : ", "the table has no column 'ib#'"),
        ("SW : 1/1/1", "XX : 1/1/1", "'XX' is not a type of node"),
        (" (0x1) : ACT", " : ACT", ""),
        (": 1 (0x1) : ACT", ": one : ACT", "expected a number in column lid"),
    ],
)
def test_faults_of_a_net_dump_ext(old: str, new: str, message: str) -> None:
    text = net_dump_ext(with_lids(build("xgft:1;2;1")))
    assert old in text
    read = reader["net-dump-ext"].function
    if not message:
        assert len(read(text=text.replace(old, new), file="f").ports) == 4
        return
    with pytest.raises(InputError, match=message) as caught:
        read(text=text.replace(old, new), file="f")
    assert caught.value.line


def test_a_net_dump_ext_adds_rates_lids_and_names(tmp_path: Path) -> None:
    fabric = every_rate()
    (tmp_path / "b.net_dump_ext").write_text(net_dump_ext(fabric))
    with pytest.raises(InputError, match="no cables; add a file"):
        load(tmp_path / "b.net_dump_ext")
    without_rates(fabric, tmp_path / "a.ibnetdiscover")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load(tmp_path / "a.ibnetdiscover", also=[tmp_path / "b.net_dump_ext"])
    assert found.cable_rate_code.tolist() == fabric.cable_rate_code.tolist()
    assert sorted(found.lid.tolist()) == sorted(fabric.lid.tolist())


def test_a_folder_of_ibdiagnet2_is_one_fabric(tmp_path: Path) -> None:
    fabric = every_rate()
    (tmp_path / "ibdiagnet2.db_csv").write_text(db_csv(fabric))
    (tmp_path / "ibdiagnet2.net_dump").write_text(net_dump(fabric))
    (tmp_path / "ibdiagnet2.net_dump_ext").write_text(net_dump_ext(fabric))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load(tmp_path)
    assert_same(found, fabric)


# -- other files of the evidence -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::weft.fabrics.formats.FormatWarning")
def test_a_list_of_an_old_program_is_read(shared: Path) -> None:
    path = shared / "evidence" / "ibdm" / "subnet.lst"
    if not path.exists():
        pytest.skip("the file is not there")
    found = load(path)
    assert (found.num_hosts, found.num_switches, found.num_cables) == (3, 62, 172)
    assert len(path.read_text().split("\n")) - 1 == 2 * found.num_cables
    assert sorted(found.lid.tolist()) == list(range(1, 66))
