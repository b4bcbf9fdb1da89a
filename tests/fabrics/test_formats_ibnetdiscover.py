"""ibnetdiscover output: real files, and all kinds of errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reading import reader_of

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder, NodeKind, Parts
from weft.fabrics.formats import FormatWarning, read_file, write_fabric
from weft.fabrics.formats.ibnetdiscover import write
from weft.fabrics.topology import build

read = reader_of("ibnetdiscover")

#: Two leaves and a spine of mixed speeds, hosts with various names, a SHARP aggregation node
#: inside the spine, and a router.
MESSY = """\
#
# Topology file: generated on Thu Jan  1 00:00:00 1970
#
# Reported max hops discovered: 4
# Total MADs used: 91
# Initiated from node 0c42a10300000010 port 0c42a10300000010

vendid=0x2c9
devid=0xd2f2
sysimgguid=0xb8cef60300000100
switchguid=0xb8cef60300000100(b8cef60300000100)
Switch\t41 "S-b8cef60300000100"\t\t# "MF0;spine01:MQM9700/U1" enhanced port 0 lid 1 lmc 0
[1]\t"S-b8cef60300000200"[9]\t\t# "MF0;leaf01:MQM8700/U1" lid 2 4xNDR
[2]\t"S-b8cef60300000200"[10]\t\t# "MF0;leaf01:MQM8700/U1" lid 2 4xNDR
[3]\t"S-0002c90300000300"[36]\t\t# "" lid 3 4xFDR10
[41]\t"H-b8cef60300000108"[1](b8cef60300000108) \t\t# "Mellanox Technologies Aggregation Node" \
lid 14 4xHDR

vendid=0x2c9
devid=0xd2f0
sysimgguid=0xb8cef60300000200
switchguid=0xb8cef60300000200(b8cef60300000200)
Switch\t41 "S-b8cef60300000200"\t\t# "MF0;leaf01:MQM8700/U1" enhanced port 0 lid 2 lmc 0
[1]\t"H-0c42a10300000010"[1](0c42a10300000010) \t\t# "node001 HCA-1" lid 21 2xHDR
[2]\t"H-0c42a10300000020"[1](0c42a10300000020) \t\t# "node002 mlx5_0" lid 22 2xHDR
[3]\t"H-0c42a10300000021"[1](0c42a10300000021) \t\t# "node002 mlx5_1" lid 23 2xHDR
[9]\t"S-b8cef60300000100"[1]\t\t# "MF0;spine01:MQM9700/U1" lid 1 4xNDR
[10]\t"S-b8cef60300000100"[2]\t\t# "MF0;spine01:MQM9700/U1" lid 1 4xNDR

vendid=0x2c9
devid=0xbd36
switchguid=0x2c90300000300(2c90300000300)
Switch\t36 "S-0002c90300000300"\t\t# "" base port 0 lid 3 lmc 0
[1]\t"H-0002c90300000400"[2](2c90300000402) \t\t# "rack "7" #3, bay=2" lid 24 4xQDR
[2]\t"H-0002c90300000500"[1](2c90300000501) \t\t# "" lid 32 4xDDR
[3]\t"R-0002c90300000600"[1](2c90300000601) \t\t# "gateway" lid 28 4xQDR
[4]\t"H-0002c90300000700"[1](2c90300000701)
[36]\t"S-b8cef60300000100"[3]\t\t# "MF0;spine01:MQM9700/U1" lid 1 4xFDR10

vendid=0x2c9
devid=0xcf09
sysimgguid=0xb8cef60300000100
caguid=0xb8cef60300000108
Ca\t1 "H-b8cef60300000108"\t\t# "Mellanox Technologies Aggregation Node"
[1](b8cef60300000108) \t"S-b8cef60300000100"[41]\t\t# lid 14 lmc 0 "MF0;spine01:MQM9700/U1" lid 1 \
4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300000010
caguid=0xc42a10300000010
Ca\t1 "H-0c42a10300000010"\t\t# "node001 HCA-1"
[1](c42a10300000010) \t"S-b8cef60300000200"[1]\t\t# lid 21 lmc 0 "MF0;leaf01:MQM8700/U1" lid 2 2xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300000020
caguid=0xc42a10300000020
Ca\t1 "H-0c42a10300000020"\t\t# "node002 mlx5_0"
[1](c42a10300000020) \t"S-b8cef60300000200"[2]\t\t# lid 22 lmc 0 "MF0;leaf01:MQM8700/U1" lid 2 2xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300000020
caguid=0xc42a10300000021
Ca\t1 "H-0c42a10300000021"\t\t# "node002 mlx5_1"
[1](c42a10300000021) \t"S-b8cef60300000200"[3]\t\t# lid 23 lmc 0 "MF0;leaf01:MQM8700/U1" lid 2 2xHDR

caguid=0x2c90300000400
Ca\t2 "H-0002c90300000400"\t\t# "rack "7" #3, bay=2"
[2](2c90300000402) \t"S-0002c90300000300"[1]\t\t# lid 24 lmc 2 "" lid 3 4xQDR

caguid=0x2c90300000500
Ca\t1 "H-0002c90300000500"\t\t# ""
[1](2c90300000501) \t"S-0002c90300000300"[2]\t\t# lid 32 lmc 0 "" lid 3 4xDDR

rtguid=0x2c90300000600
Rt\t1 "R-0002c90300000600"\t\t# "gateway"
[1](2c90300000601) \t"S-0002c90300000300"[3]\t\t# lid 28 lmc 0 "" lid 3 4xQDR

caguid=0x2c90300000700
Ca\t1 "H-0002c90300000700"\t\t# "old HCA-1"
[1](2c90300000701) \t"S-0002c90300000300"[4]\t\t# lid 33 lmc 0 "" lid 3 4xSDR
"""

PAIR = """\
switchguid=0x2(2)
Switch\t4 "S-0000000000000002"\t\t# "sw" base port 0 lid 1 lmc 0
[1]\t"H-0000000000000010"[1](11) \t\t# "a" lid 2 4xEDR
[3]\t"H-0000000000000020"[1](21) \t\t# "b" lid 3 4xEDR

caguid=0x10
Ca\t1 "H-0000000000000010"\t\t# "a"
[1](11) \t"S-0000000000000002"[1]\t\t# lid 2 lmc 0 "sw" lid 1 4xEDR

caguid=0x20
Ca\t2 "H-0000000000000020"\t\t# "b"
[1](21) \t"S-0000000000000002"[3]\t\t# lid 3 lmc 0 "sw" lid 1 4xEDR
"""


def cables(fabric: Fabric) -> dict[frozenset[tuple[int, int]], str]:
    """Return the rate of each cable by the set of its two ends, (node GUID, port)."""
    from weft.fabrics import rate_text

    ends = zip(fabric.node_guid[fabric.link_from].tolist(), fabric.link_from_port, strict=True)
    pairs = [(guid, int(port)) for guid, port in ends]
    rates = zip(fabric.cable_rate_gbps, fabric.cable_rate_code, strict=True)
    return {
        frozenset((pairs[2 * c], pairs[2 * c + 1])): rate_text(float(gbps), int(code))
        for c, (gbps, code) in enumerate(rates)
    }


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text, "x.topo")
    assert caught.value.file == "x.topo"
    return caught.value


def test_messy_output_is_read_completely() -> None:
    fabric = read(MESSY, "messy")
    assert (fabric.num_switches, fabric.num_hosts, fabric.num_cables) == (3, 6, 11)
    assert fabric.num_nodes == 11
    auxiliary = fabric.node_kind == NodeKind.AUXILIARY
    assert [fabric.node_names[n] for n in np.flatnonzero(auxiliary)] == [
        "Mellanox Technologies Aggregation Node",
        "gateway",
    ]
    spine, leaf, old = 0xB8CEF60300000100, 0xB8CEF60300000200, 0x2C90300000300
    assert cables(fabric) == {
        frozenset({(spine, 1), (leaf, 9)}): "4xNDR",
        frozenset({(spine, 2), (leaf, 10)}): "4xNDR",
        frozenset({(spine, 3), (old, 36)}): "4xFDR10",
        frozenset({(spine, 41), (0xB8CEF60300000108, 1)}): "4xHDR",
        frozenset({(leaf, 1), (0xC42A10300000010, 1)}): "2xHDR",
        frozenset({(leaf, 2), (0xC42A10300000020, 1)}): "2xHDR",
        frozenset({(leaf, 3), (0xC42A10300000021, 1)}): "2xHDR",
        frozenset({(old, 1), (0x2C90300000400, 2)}): "4xQDR",
        frozenset({(old, 2), (0x2C90300000500, 1)}): "4xDDR",
        frozenset({(old, 3), (0x2C90300000600, 1)}): "4xQDR",
        frozenset({(old, 4), (0x2C90300000700, 1)}): "4xSDR",
    }
    assert fabric.num_ports.tolist()[:3] == [41, 41, 36]


def test_labels_are_host_names_where_these_are_unique() -> None:
    fabric = read(MESSY, "messy")
    assert fabric.node_names[:3] == (
        "MF0;spine01:MQM9700/U1",
        "MF0;leaf01:MQM8700/U1",
        "S-0002c90300000300",
    )
    assert fabric.host_names == (
        "node001",
        "node002 mlx5_0",
        "node002 mlx5_1",
        'rack "7" #3, bay=2',
        "H-0002c90300000500",
        "old",
    )
    assert fabric.descriptions[3] == "node001 HCA-1"


def test_identifiers_are_kept() -> None:
    fabric = read(MESSY, "messy")
    node = fabric.find_node("node002 mlx5_1")
    assert fabric.node_guid[node] == 0xC42A10300000021
    assert fabric.system_guid[node] == 0xC42A10300000020
    assert (fabric.vendor_id[node], fabric.device_id[node]) == (0x2C9, 0x101B)
    # The port GUID of a newer adapter is its node GUID; older ones add the port number.
    slot = fabric.port_offset
    assert fabric.port_guid[slot[node]] == 0xC42A10300000021
    old = fabric.find_node('rack "7" #3, bay=2')
    assert fabric.port_guid[slot[old] + 1] == 0x2C90300000402
    ends = list(zip(fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), strict=True))
    at = ends.index((old, 2))
    assert (fabric.lid[at], fabric.lmc[at]) == (24, 2)
    # Identifiers that the file does not state are 0.
    identifiers = (fabric.vendor_id, fabric.device_id, fabric.system_guid)
    assert [int(each[old]) for each in identifiers] == [0, 0, 0]
    assert fabric.lid[fabric.num_endpoints :].tolist() == [1, 2, 3]


@pytest.mark.parametrize("text", [MESSY, PAIR], ids=["messy", "pair"])
def test_written_output_is_read_as_the_same_fabric(text: str) -> None:
    fabric = read(text, "f")
    again = read(write(fabric), "f")
    assert again.digest == fabric.digest
    assert again.node_names == fabric.node_names
    assert again.descriptions == fabric.descriptions
    for key in ("node_guid", "port_guid", "system_guid", "vendor_id", "device_id", "lid", "lmc"):
        assert np.array_equal(getattr(again, key), getattr(fabric, key)), key
    assert np.array_equal(again.cable_rate_code, fabric.cable_rate_code)


def test_the_order_of_records_does_not_matter_within_a_kind() -> None:
    records = PAIR.split("\n\n")
    turned = "\n\n".join([*records[1:], records[0]])
    assert read(turned, "f").digest == read(PAIR, "f").digest


def test_the_real_cluster_is_read_and_written_back(shared: Path) -> None:
    folder = shared / "fabrics"
    source = folder / "psmn-x5.ibnetdiscover"
    fabric = read_file(source, names=folder / "psmn-x5.node-name-map")
    assert (fabric.num_switches, fabric.num_hosts, fabric.num_cables) == (11, 89, 159)
    assert set(cables(fabric).values()) == {"4xDDR", "4xQDR"}
    assert list(cables(fabric).values()).count("4xDDR") == 23
    assert fabric.find_node("sl390lin101") == fabric.find_node("0x78e7d1030022a46c")
    # The written file has the same lines as the source, except for the date and "enhanced".
    lines = [line.replace("enhanced", "base") for line in source.read_text().splitlines()]
    assert write(fabric).splitlines()[4:] == lines[4:]


# -- messages between lines ------------------------------------------------------------------

MESSAGES = [
    "ibwarn: [4711] _do_madrpc: recv failed: Connection timed out",
    "src/query_smp.c:199; umad (DR path slid 0; dlid 0; 0,1,20,34 Attr 0x11:0) bad status 110; "
    "Connection timed out",
    "../libibnetdisc/ibnetdisc.c:812; Duplicate Node: Node with guid 0x2 already exists",
    'WARNING failed line: "0x12 x"',
]


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_between_any_two_lines_are_set_aside_and_shown(message: str) -> None:
    lines = PAIR.splitlines()
    for at in range(len(lines) + 1):
        text = "\n".join([*lines[:at], message, *lines[at:]])
        with pytest.warns(FormatWarning, match="1 line with messages") as caught:
            fabric = read(text, "f")
        assert f"line {at + 1}: {message}" in str(caught[0].message)
        assert fabric.digest == read(PAIR, "f").digest


def test_a_message_within_a_line_is_removed() -> None:
    expected = read(PAIR, "f")
    body = PAIR.rstrip("\n")
    for at in range(len(body)):
        text = body[:at] + MESSAGES[0] + "\n" + body[at:] + "\n"
        with pytest.warns(FormatWarning, match="1 line with messages"):
            fabric = read(text, "f")
        assert fabric.digest == expected.digest
        assert np.array_equal(fabric.lid, expected.lid)
        assert np.array_equal(fabric.cable_rate_code, expected.cable_rate_code)


def test_a_message_appended_to_a_line_does_not_affect_the_next_line() -> None:
    text = PAIR.replace("lid 2 4xEDR\n", f"lid 2 4xEDR{MESSAGES[0]}\n{MESSAGES[1]}\n", 1)
    with pytest.warns(FormatWarning, match="2 lines with messages"):
        assert read(text, "f").digest == read(PAIR, "f").digest


def test_not_all_of_many_messages_are_shown() -> None:
    text = "\n".join(MESSAGES[:1] * 12) + "\n" + PAIR
    with pytest.warns(FormatWarning, match="and 7 more"):
        read(text, "f")


def test_a_run_that_failed_is_refused() -> None:
    error = refused("/usr/sbin/ibnetdiscover: iberror: failed: discover failed\n")
    assert "is incomplete" in str(error)
    assert error.line == 1


# -- grouping, options ----------------------------------------------------------------------


def test_output_grouped_by_chassis_is_read() -> None:
    text = """\
DR path slid 0; dlid 0; 0 -> new Channel Adapter {0000000000000010} portnum 1 lid 4-4 "a"
DR path slid 0; dlid 0; 0,1 -> new Switch {0000000000000002} portnum 0 lid 6-6 "ISR9024 Voltaire"
#
# Topology file: generated on Thu Jan  1 00:00:00 1970
#
# Initiated from node 0000000000000010 port 0000000000000011

Chassis 1 (guid 0x8f10400000000)
Hostname: director

# Spine Nodes
vendid=0x8f1
devid=0x5a06
sysimgguid=0x8f10400000000\t\t# Chassis 1 (director) slot 2
switchguid=0x2(2)\t# ISR9024 Spine 1 Chip 1
Switch\t24 "S-0000000000000002"\t\t# "ISR9024 Voltaire" base port 0 lid 6 lmc 0
[19][ext 9]\t"H-0000000000000010"[1](11) \t\t# "a" lid 4 4xSDR s=1 w=2 v=4 (scp)
[20][ext 10]\t"S-0000000000000003"[4][ext 1]\t\t# "line" lid 7 12xDDR slot 20

# Line Nodes
# Chassis Switches
vendid=0x8f1
devid=0x5a06
\t\t# Chassis 1
switchguid=0x3(3)\t# ISR9024 Line 1 Chip 1
Switch\t24 "S-0000000000000003"\t\t# "line" base port 0 lid 7 lmc 0
[4][ext 1]\t"S-0000000000000002"[20][ext 10]\t\t# "ISR9024 Voltaire" lid 6 12xDDR s=2 w=8 v=4

# Chassis CAs

Non-Chassis Nodes

caguid=0x10
Ca\t2 "H-0000000000000010"\t\t# "a" (scp)
[1](11) \t"S-0000000000000002"[19][ext 9]\t\t# lid 4 lmc 0 "ISR9024 Voltaire" lid 6 4xSDR s=1 \
w=2 v=4
"""
    fabric = read(text, "g")
    assert set(cables(fabric).values()) == {"12xDDR", "4xSDR"}
    assert fabric.node_names == ("ISR9024 Voltaire", "line", "a")
    assert int(fabric.system_guid[0]) == 0x8F10400000000


def test_adapters_cabled_to_each_other_are_read() -> None:
    text = """\
caguid=0x10
Ca\t1 "H-0000000000000010"\t\t# "a"
[1](11) \t"H-0000000000000020"[2] (22) \t\t# lid 1 lmc 0 "b" lid 2 1xEDR

caguid=0x20
Ca\t2 "H-0000000000000020"\t\t# "b"
[2](22) \t"H-0000000000000010"[1] (11) \t\t# lid 2 lmc 0 "a" lid 1 1xEDR
"""
    fabric = read(text, "f")
    assert cables(fabric) == {frozenset({(0x10, 1), (0x20, 2)}): "1xEDR"}
    assert write(fabric).endswith(text.partition("\n")[2].partition("caguid")[2])


def test_missing_rates_are_assumed() -> None:
    text = PAIR.replace(" 4xEDR", "")
    with pytest.warns(FormatWarning, match="2 of 2 cables without a rate; 4xHDR is assumed"):
        assert set(cables(read(text, "f")).values()) == {"4xHDR"}
    with pytest.warns(FormatWarning, match="4xSDR is assumed"):
        assert set(cables(read(text, "f", rate="4xSDR")).values()) == {"4xSDR"}
    with pytest.raises(InputError, match="unknown rate '4xFOO'"):
        read(PAIR, "f", rate="4xFOO")


def test_rate_lid_and_port_guid_may_stand_at_one_end_only() -> None:
    *lines, last = PAIR.splitlines()
    assert last.startswith("[1](21)")
    fabric = read("\n".join([*lines, '[1] "S-0000000000000002"[3]']), "f")
    assert set(cables(fabric).values()) == {"4xEDR"}
    assert fabric.lid.tolist() == [2, 3, 1]


def test_unassigned_lids_are_read_as_0() -> None:
    text = PAIR.replace("lid 3", "lid 65535").replace("lid 2", "lid 0")
    assert read(text, "f").lid.tolist() == [0, 0, 1]


def test_a_port_guid_of_a_switch_may_differ_from_its_node_guid() -> None:
    fabric = read(PAIR.replace("switchguid=0x2(2)", "switchguid=0x2(7)"), "f")
    assert fabric.port_guid[:4].tolist() == [7] * 4
    assert "switchguid=0x2(7)" in write(fabric)


# -- refusals ---------------------------------------------------------------------------------

BAD = {
    "unknown line": ("switchguid=0x2(2)", "switchguid: 0x2", 1, "expected a record"),
    "diff": ("[3]", "< [3]", 4, "expected a record"),
    "garbled port line": ('[3]\t"H-', "[3]\t'H-", 4, "expected a record"),
    "no peer port": ('20"[1](21)', '20"(21)', 4, "malformed port line"),
    "garbled comment": ('# "b" lid 3', '# "b" LID 3', 4, "malformed comment"),
    "garbled head comment": ('"sw" base port 0 lid', '"sw" base port 9 lid', 2, "malformed"),
    "unknown peer": ("0000000000000020", "0000000000000021", 4, "which has no record"),
    "id does not fit the GUID": ("caguid=0x10", "caguid=0x12", 6, "does not match the record"),
    "id is not of the type": ('Ca\t1 "H-0', 'Ca\t1 "S-0', 7, "is not an ibnetdiscover id"),
    "id is a name": ('"S-0000000000000002"\t', '"sw2"\t', 2, "other ids may be in the ibsim"),
    "key of another type": ("caguid=0x10", "switchguid=0x10", 6, "does not match the record"),
    "key twice": ("caguid=0x10", "caguid=0x10\ncaguid=0x10", 7, "given twice"),
    "port above the node's": ("[3]\t", "[5]\t", 4, "has 4 ports, but this line uses port 5"),
    "peer port above the peer's": ('10"[1]', '10"[2]', 3, "has 1 ports, but this line uses"),
    "port 0": ("[3]\t", "[0]\t", 4, "uses port 0"),
    "port twice": ("[3]\t", "[1]\t", 4, "listed twice; the first time in line 3"),
    "ends disagree on the port": (
        '[1](11) \t"S-0000000000000002"[1]',
        '[1](11) \t"S-0000000000000002"[3]',
        3,
        "ends of a cable",
    ),
    "ends disagree on the LID": ("# lid 2 lmc", "# lid 7 lmc", 3, "is 2 here, but"),
    "ends disagree on the port GUID": ("\n[1](11)", "\n[1](19)", 3, "is 0x11 here, but 0x19"),
    "unknown rate": ("lid 3 4xEDR", "lid 3 4xWDR", 4, "unknown rate '4xWDR'"),
    "unknown half of a rate": ("lid 3 4xEDR", "lid 3 5x???", 4, "unknown rate '5x???'"),
    "LID out of range": ("base port 0 lid 1", "base port 0 lid 49152", 2, "not a unicast LID"),
    "LMC out of range": ("lid 2 lmc 0", "lid 2 lmc 8", 8, "LMC 8 is out of range"),
    "port GUID twice": ("(21)", "(11)", 12, "port GUID 0x11"),
    "node declared twice": ("caguid=0x20", 'Ca\t1 "H-0000000000000010"', 10, "declared twice"),
    "no ports": ("Switch\t4", "Switch\t0", 2, "has 0 ports; expected 1 to 254"),
    "too many ports": ("Switch\t4", "Switch\t300", 2, "has 300 ports"),
    "GUID 0": (
        'caguid=0x10\nCa\t1 "H-0000000000000010"',
        'Ca\t1 "H-0000000000000000"',
        6,
        "invalid GUID 0x0",
    ),
    "vendor id": ("caguid=0x10", "vendid=0x123456789", 7, "out of range; expected 32 bits"),
    "port line first": ("switchguid=0x2(2)", '[1] "S-0000000000000002"[1]', 1, "outside a record"),
}


@pytest.mark.parametrize("what", BAD)
def test_each_contradiction_is_one_error_with_its_line(what: str) -> None:
    old, new, line, message = BAD[what]
    every = what == "port GUID twice"
    assert old in PAIR
    error = refused(PAIR.replace(old, new) if every else PAIR.replace(old, new, 1))
    assert message in error.message
    assert error.line == line


def test_a_lid_of_two_ports_is_left_to_the_first() -> None:
    with pytest.warns(FormatWarning, match="LID 2 of H-0000000000000020") as said:
        fabric = read(PAIR.replace("lid 3", "lid 2"), "pair")
    assert fabric.lid.tolist() == [2, 0, 1]
    message = said[0].message
    assert isinstance(message, FormatWarning)
    assert (message.severity, len(message.items)) == ("error", 1)


def test_a_cable_listed_at_one_end_only_is_refused() -> None:
    lines = PAIR.splitlines()
    error = refused("\n".join(lines[:7]))
    assert "which has no record" in error.message
    error = refused("\n".join(lines[:11]))
    assert "is listed only at this end" in error.message
    assert error.line == 4


def test_a_cable_from_a_port_to_itself_is_refused() -> None:
    text = 'Switch\t4 "S-0000000000000002"\n[1]\t"S-0000000000000002"[1]\n'
    assert "leads from port S-0000000000000002[1] to itself" in refused(text).message


def test_a_file_cut_within_a_record_head_is_refused() -> None:
    error = refused(PAIR + "\nvendid=0x2c9\n")
    assert "may be cut short" in error.message


def test_an_overlong_line_is_refused() -> None:
    error = refused(PAIR + "#" + "x" * 5000)
    assert "longer than 2000" in error.message


def test_a_file_without_records_is_refused() -> None:
    assert "no record" in refused("# Topology file: generated on a Sunday\n").message


# -- writing ----------------------------------------------------------------------------------


def test_written_fabrics_are_read_as_the_same() -> None:
    for spec in ("xgft:2;4,4;1,2", "xgft:2;4,4;1,2;1,2,rate=4xNDR,host_rate=2xNDR"):
        fabric = build(spec)
        again = read(write(fabric), "f")
        assert again.digest == fabric.digest
        assert again.node_names == fabric.node_names
        assert np.array_equal(again.cable_rate_gbps, fabric.cable_rate_gbps)


def test_fabrics_that_the_format_cannot_state_are_refused(tmp_path: Path) -> None:
    def one_switch(**kwargs: object) -> Fabric:
        build = FabricBuilder("f", rate=kwargs.get("rate", "4xHDR"))  # type: ignore[arg-type]
        switch = build.switches(["s"], ports=kwargs.get("ports", 4))  # type: ignore[arg-type]
        build.connect(switch, build.hosts([str(kwargs.get("host", "h"))]))
        return build.fabric()

    target = tmp_path / "f.topo"
    for fabric, message in (
        (one_switch(rate=37.0), r"s\[1\] -- h\[1\] runs at 37 Gb/s"),
        (one_switch(ports=255), "s has 255 ports"),
        (one_switch(host="x" * 65), "65 bytes"),
        (one_switch(host="a\nb"), "unprintable"),
        (one_switch(host="half \ud800"), "unprintable"),
        (one_switch(host="no Aggregation Node"), "aggregation node"),
        (FabricBuilder("f").fabric(), "f has no nodes"),
    ):
        for format in ("ibnetdiscover", "ibsim"):
            with pytest.raises(NotApplicable, match=message):
                write_fabric(fabric, target, format)
    assert list(tmp_path.iterdir()) == []


def test_a_warning_counts_hosts_that_forward() -> None:
    build = FabricBuilder("f")
    build.connect(build.switches(["s"]), build.hosts(["h"], forwards=True))
    with pytest.warns(FormatWarning, match="cannot mark them: 1 host$"):
        text = write(build.fabric())
    assert not read(text, "f").forwards[1]


def test_a_degraded_rate_is_written() -> None:
    fabric = build("xgft:1;2;1").degraded([0], "1xSDR")
    assert sorted(cables(read(write(fabric), "f")).values()) == ["1xSDR", "4xHDR"]


def test_routers_and_aggregation_nodes_are_written_as_they_were_read() -> None:
    text = write(read(MESSY, "f"))
    assert 'Rt\t1 "R-0002c90300000600"' in text
    assert 'Ca\t1 "H-b8cef60300000108"' in text


def test_peers_named_with_an_equals_sign_do_not_look_like_options() -> None:
    parts = Parts.of(build("xgft:1;2;1"))
    parts.descriptions[0] = "speed=9"
    lines = write(Fabric.of(parts)).splitlines()
    assert [line for line in lines if "speed=9" in line] == [
        'Switch\t2 "S-0000000000200000"\t\t# "speed=9" base port 0 lid 0 lmc 0'
    ]
    assert sum("speed:9" in line for line in lines) == 2
