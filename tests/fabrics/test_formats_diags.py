# ruff: noqa: E501
"""What the programs of infiniband-diags print, and captures of it in a terminal."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from tests.diags_files import iblinkinfo, ports_report
from tests.ibdiagnet2_files import with_lids

from weft.core.errors import InputError
from weft.core.units import RATE_NAMES
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats import FormatWarning, read_file, reader
from weft.fabrics.formats.diags import has_line
from weft.fabrics.formats.ibnetdiscover import write as write_ibnetdiscover
from weft.fabrics.topology import build

#: Two hosts of one name and one with two ports, two switches, a router, and ports that are down.
PORTS = """\
CA     3  1 0x0000000000003001 4x EDR - SW     1  1 0x0000000000001000 ( 'n1 HCA-1' - 'leaf' )
CA     4  2 0x0000000000003002 4x EDR - SW     2  1 0x0000000000002000 ( 'n1 HCA-1' - 'it's up' )
CA     5  1 0x0000000000004000 2x NDR - SW     1  2 0x0000000000001000 ( 'n1 HCA-1' - 'leaf' )
RT     6  1 0x0000000000005000 4x XDR - SW     2  3 0x0000000000002000 ( 'gate' - 'it's up' )
SW     1 40 0x0000000000001000 4x ???                                    'leaf'
SW     1  3 0x0000000000001000 1x FDR10 - SW     2  2 0x0000000000002000 ( 'leaf' - 'it's up' )
SW     1  2 0x0000000000001000 2x NDR - CA     5  1 0x0000000000004000 ( 'leaf' - 'n1 HCA-1' )
SW     1  1 0x0000000000001000 4x EDR - CA     3  1 0x0000000000003001 ( 'leaf' - 'n1 HCA-1' )
SW     2  3 0x0000000000002000 4x XDR - RT     6  1 0x0000000000005000 ( 'it's up' - 'gate' )
SW     2  2 0x0000000000002000 1x FDR10 - SW     1  3 0x0000000000001000 ( 'it's up' - 'leaf' )
SW     2  1 0x0000000000002000 4x EDR - CA     4  2 0x0000000000003002 ( 'it's up' - 'n1 HCA-1' )
"""
LINKS = """\
CA: n1 HCA-1:
      0x0000000000003001      3    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       1    1[  ] "leaf" ( )
      0x0000000000003009      4    2[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2    1[  ] "it"s (up)" ( Could be 53.125 Gbps)
CA: n2 HCA-1:
      0x0000000000004000      5    1[  ] ==( 2X        106.25 Gbps Active/  LinkUp) (HOQ:0 VL_Stall:7)==>       1    2[ 7] "leaf" (Could be 4X )
Switch: 0x0000000000001000 leaf:
           1    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       3    1[  ] "n1 HCA-1" ( )
           1    2[ 7] ==( 2X        106.25 Gbps Active/  LinkUp)==>       5    1[  ] "n2 HCA-1" (Could be 4X )
           1    3[ 8] ==( 1X 10.0 Gbps (FDR10)   Init/  LinkUp)==>       2    2[  ] "it"s (up)" ( )
           1    4[ 9] ==(                Down/ Polling)==>             [  ] "" ( )
           1    5[10] ==( 4X undefined (0) Active/  LinkUp)==>    "Port not available"
Switch: 0x0000000000002000 it"s (up):
           2    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       4    2[  ] "n1 HCA-1" ( Could be FDR10 (Found link at QDR but expected speed is FDR10))
           2    2[  ] ==( 1X 10.0 Gbps (FDR10)   Init/  LinkUp)==>       1    3[  ] "leaf" ( )
"""
RECORDS = """\
NodeRecord dump:
\t\tlid.....................0x1
\t\tnode_type...............Switch
\t\tnum_ports...............4
\t\tsys_guid................0x0000000000001000
\t\tnode_guid...............0x0000000000001000
\t\tport_guid...............0x0000000000001001
\t\tpartition_cap...........0x40
\t\tdevice_id...............0xCB20
\t\tport_num................0
\t\tvendor_id...............0x2C9
\t\tNodeDescription.........leaf
NodeRecord dump:
\t\tlid.....................3
\t\tnode_type...............Channel Adapter
\t\tnum_ports...............2
\t\tsys_guid................0x0000000000003000
\t\tnode_guid...............0x0000000000003000
\t\tport_guid...............0x0000000000003002
\t\tport_num................2
\t\tvendor_id...............0x2C9
\t\tNodeDescription.........n1 ...x
PortInfoRecord dump:
\tRID
\t\tEndPortLid..............1
\t\tPortNum.................1
\t\tOptions.................0x0
\tPortInfo dump:
\t\tCapMask:.........................0x50c04a
\t\t\t\tIsSM
\t\tLMC:.............................0
\t\tLinkWidthActive:.................2X
\t\tLinkState:.......................Active
\t\tLinkSpeedActive:.................Extended speed
\t\tMcastPkeyTrapSuppressionEnabled:.0
\t\tLinkSpeedExtActive:..............No Extended Speed
\t\tLinkSpeedExtActive2:.............212.5 Gbps
LinkRecord dump:
\t\tFromLID....................1
\t\tFromPort...................1
\t\tToPort.....................2
\t\tToLID......................3
LinkRecord dump:
\t\tFromLID....................3
\t\tFromPort...................2
\t\tToPort.....................1
\t\tToLID......................1
"""


def read(text: str, folder: Path, *also: str) -> tuple[Fabric, list[FormatWarning]]:
    """Return the fabric of files with these contents, and the warnings."""
    paths = [folder / f"file{number}" for number in range(1 + len(also))]
    for path, each in zip(paths, (text, *also), strict=True):
        path.write_bytes(each.encode())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = read_file(paths[0], also=paths[1:])
    return found, [each.message for each in caught if isinstance(each.message, FormatWarning)]


def listed(fabric: Fabric) -> list[str]:
    """Return cables by labels, with their rates, sorted."""
    return sorted(
        f"{fabric.cable_name(cable)} {RATE_NAMES[code]}"
        for cable, code in enumerate(fabric.cable_rate_code.tolist())
    )


def refused(text: str, folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(text, folder)
    assert caught.value.file == str(folder / "file0")
    return f"{caught.value.line}: {caught.value.message}"


def kinds(said: list[FormatWarning]) -> list[str]:
    return [each.kind for each in said]


# -- ports report ----------------------------------------------------------------------------------


def test_a_ports_report_is_a_fabric(tmp_path: Path) -> None:
    fabric, said = read(PORTS, tmp_path)
    assert kinds(said) == ["node GUIDs"]
    assert (fabric.num_switches, fabric.num_hosts, fabric.num_cables) == (2, 2, 5)
    assert fabric.descriptions == ("leaf", "it's up", "n1 HCA-1", "n1 HCA-1", "gate")
    # The ports of 0x3001 and 0x3002 are those of one adapter, that of 0x4000 is another.
    assert fabric.node_guid.tolist() == [0x1000, 0x2000, 0x3001, 0x4000, 0x5000]
    assert fabric.num_ports.tolist() == [40, 3, 2, 1, 1]
    assert fabric.node_kind[4] == NodeKind.AUXILIARY
    assert sorted(fabric.lid.tolist()) == [1, 2, 3, 4, 5, 6]
    rates = [RATE_NAMES[code] for code in fabric.cable_rate_code]
    assert sorted(rates) == ["1xFDR10", "2xNDR", "4xEDR", "4xEDR", "4xXDR"]


def test_an_excerpt_of_a_ports_report_says_which_nodes_have_no_lines(tmp_path: Path) -> None:
    fabric, said = read("".join(PORTS.splitlines(keepends=True)[:8]), tmp_path)
    assert fabric.num_cables == 5
    assert (said[0].kind, said[0].items) == ("incomplete", ("it's up",))


def test_names_that_could_be_divided_in_two_ways_are_not_used(tmp_path: Path) -> None:
    fabric, _ = read(PORTS.replace("n1 HCA-1", "a' - 'b"), tmp_path)
    assert fabric.num_cables == 5
    assert fabric.descriptions[2:4] == ("", "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (PORTS.splitlines(keepends=True)[8], "", "4: .* listed only at this end"),
        ("CA     5  1 0x", "CA     9  1 0x", "7: .*LID 5, of a Ca here, but .*LID 9"),
        ("RT     6  1", "SW     6  1", "9: .* of a Rt here, but .* of a Switch in line 4"),
        ("4x XDR - RT", "4x XDR + RT", "9: expected a line of ibnetdiscover -p"),
        ("SW     1 40", "SW     1  0", "5: port 0 is not one of a cable"),
        ("SW     1 40", "SW     1  3", "6: port 3 of 0x1000 is listed twice; .* in line 5"),
        ("2x NDR - CA", "2x NDS - CA", "7: unknown rate '2xNDS'"),
        ("\nSW     2  2 ", "\nibpanic: [7] ", "10: the program failed"),
    ],
)
def test_damage_to_a_ports_report_is_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    assert old in PORTS
    assert re.search(f"^{message}", refused(PORTS.replace(old, new, 1), tmp_path))


# -- iblinkinfo ------------------------------------------------------------------------------------


def test_iblinkinfo_under_headings_is_a_fabric(tmp_path: Path) -> None:
    fabric, said = read(LINKS, tmp_path)
    assert kinds(said) == ["node GUIDs"]
    assert listed(fabric) == [
        'it"s (up)[1] -- n1[2] 4xEDR',
        "leaf[1] -- n1[1] 4xEDR",
        "leaf[2] -- n2[1] 2xNDR",
        'leaf[3] -- it"s (up)[2] 1xFDR10',
    ]
    assert fabric.node_guid.tolist() == [0x1000, 0x2000, 0x3001, 0x4000]
    assert fabric.num_ports.tolist() == [5, 2, 2, 1]
    assert fabric.lid.tolist() == [3, 4, 5, 1, 2]


def test_iblinkinfo_on_lines_is_the_same_fabric(tmp_path: Path) -> None:
    guids = {"1": "1000", "2": "2000", "3": "3001", "4": "3002", "5": "4000"}
    names = {"1": "leaf", "2": 'it"s (up)', "3": "n1 HCA-1", "4": "n1 HCA-1", "5": "n2 HCA-1"}
    text = ""
    for line in LINKS.splitlines():
        match = re.fullmatch(r"(?:\s+0x\w+)?(\s+(\d) .*==>)( +(\d) .*| .*)", line)
        if match:
            peer = f"  0x{guids[match[4]]:0>16}" if match[4] else ""
            own = match[2]
            text += f'0x{guids[own]:0>16} "{names[own]:>30}"{match[1]}{peer}{match[3]}\n'
    fabric, _ = read(text, tmp_path)
    assert listed(fabric) == listed(read(LINKS, tmp_path)[0])
    assert fabric.lid.tolist() == [3, 4, 5, 1, 2]


def test_cables_to_unknown_or_doubled_lids_are_counted_as_lost(tmp_path: Path) -> None:
    switches = LINKS[LINKS.index("Switch: ") :]
    fabric, said = read(switches, tmp_path)
    assert listed(fabric) == ['leaf[3] -- it"s (up)[2] 1xFDR10']
    assert [(each.kind, each.lost) for each in said] == [("lost cables", 3)]
    unmanaged = re.sub(r"(>|^|[0-9a-f]{16})( +)\d( +\d\[)", r"\1\g<2>0\3", LINKS, flags=re.M)
    with pytest.warns(FormatWarning, match="4 cables left out"):
        net = reader["iblinkinfo"].function(unmanaged, "f")
    assert not any(port.peer for port in net.ports)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("CA: n2 HCA-1:\n", "", "4: port H-.* is listed twice"),
        ("Switch: 0x0000000000001000 leaf:\n", "", "6: this port is not one of the node"),
        ('Switch: 0x0000000000002000 it"s (up):\n', "", "12: LID 2 of a switch with LID 1"),
        ("           2    2[  ]", "           2    3[  ]", "9: .* only at this end|12: "),
        ("LinkUp)==>       4", "LinkUp)=>       4", "13: expected a heading or a port"),
    ],
)
def test_damage_to_iblinkinfo_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in LINKS
    assert re.search(f"^(?:{message})", refused(LINKS.replace(old, new), tmp_path))


# -- saquery and lists of nodes --------------------------------------------------------------------


def test_records_of_nodes_ports_and_links_are_a_fabric(tmp_path: Path) -> None:
    fabric, said = read(RECORDS, tmp_path)
    assert not said
    assert listed(fabric) == ["leaf[1] -- n1 ...x[2] 2xXDR"]
    assert fabric.node_guid.tolist() == [0x1000, 0x3000]
    assert fabric.num_ports.tolist() == [4, 2]
    assert fabric.device_id.tolist() == [0xCB20, 0]
    assert fabric.lid.tolist() == [3, 1]
    assert fabric.port_guid.tolist()[:4] == [0x1001] * 4


def test_records_of_links_need_a_file_with_lids(tmp_path: Path) -> None:
    at = RECORDS.index("PortInfo")
    nodes, links = RECORDS[:at], RECORDS[at:]
    assert "names nodes by LID" in refused(links, tmp_path)
    assert "no cables" in refused(nodes, tmp_path)
    assert listed(read(links, tmp_path, nodes)[0]) == listed(read(RECORDS, tmp_path)[0])
    link = links[links.index("LinkRecord") : links.rindex("LinkRecord")]
    unknown = link.replace("Port...................1", "Port...................2").replace("3", "7")
    fabric, said = read(links + unknown, tmp_path, nodes)
    assert fabric.num_cables == 1
    assert [(each.kind, each.lost) for each in said] == [("incomplete", 0), ("lost cables", 1)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t\tToPort.....................1\n", "", "43: this LinkRecord has no ToPort"),
        ("LinkRecord dump:\n", "", "38: FromLID is not one of the record above"),
        ("NodeRecord dump:\n", "", "1: lid is not one of the record above"),
        ("ToPort.....................1", "ToPort.....................x", "43: ToPort 'x' is not a"),
        ("ToPort.....................1", "ToPort.....................0", "43: LID 1, port 0 is"),
        ("ToPort.....................1", "ToPort.....................3", "43: .* at this end"),
        ("Channel Adapter", "Chanel Adapter", "13: unknown type of node"),
        ("LinkRecord dump:\n", "LinkRecordump:\n", "38: expected a record of saquery"),
    ],
)
def test_damage_to_records_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in RECORDS
    assert re.search(f"^(?:{message})", refused(RECORDS.replace(old, new, 1), tmp_path))


def test_other_records_are_counted(tmp_path: Path) -> None:
    other = "SwitchInfoRecord dump:\n\t\tRID\n\t\tLID.....................................1\n"
    _, said = read(RECORDS + other * 2, tmp_path)
    assert [(each.kind, each.items) for each in said] == [
        ("other records", ("2 SwitchInfoRecord",))
    ]


NODES = """\
Ca\t: 0x0000000000100000 ports 2 "node "7" HCA-1"
Switch\t: 0x0000000000200000 ports 36 "leaf" enhanced port 0 lid 12 lmc 0
Router\t : 0x0000000000300000 ports 1 devid 0x1b01 vendid 0x2c9 "gate"
"""


def test_lists_of_nodes_give_names_and_lids(tmp_path: Path) -> None:
    topology = """\
Switch\t36 "S-0000000000200000"\t\t# ""
[1]\t"H-0000000000100000"[1]
[2]\t"R-0000000000300000"[1]
Ca\t2 "H-0000000000100000"\t\t# ""
[1]\t"S-0000000000200000"[1]
Rt\t1 "R-0000000000300000"\t\t# ""
[1]\t"S-0000000000200000"[2]
"""
    fabric, said = read(topology, tmp_path, NODES)
    assert len(said) == 1
    assert "2 of 2 cables without a rate" in str(said[0])
    assert fabric.descriptions == ("leaf", 'node "7" HCA-1', "gate")
    assert fabric.node_names[1] == 'node "7" HCA-1'
    assert fabric.lid.tolist()[-1] == 12
    assert fabric.device_id.tolist() == [0, 0, 0x1B01]
    assert "no cables" in refused(NODES, tmp_path)
    assert "3: expected a line of ibswitches" in refused(
        NODES.replace("Router", "Riuter"), tmp_path
    )


# -- with other files ------------------------------------------------------------------------------

ADAPTER = """\
Switch\t4 "S-0000000000001000"\t\t# "leaf" base port 0 lid 1 lmc 0
[1]\t"H-0000000000003000"[1](3001)\t\t# "n1 HCA-1" lid 3
[2]\t"H-0000000000003000"[2](3007)\t\t# "n1 HCA-1" lid 4
Ca\t2 "H-0000000000003000"\t\t# "n1 HCA-1"
[1](3001) \t"S-0000000000001000"[1]\t\t# lid 3 lmc 0 "leaf" lid 1
[2](3007) \t"S-0000000000001000"[2]\t\t# lid 4 lmc 0 "leaf" lid 1
"""
BY_PORT = """\
CA     3  1 0x0000000000003001 2x NDR - SW     1  1 0x0000000000001000 ( 'n1 HCA-1' - 'leaf' )
CA     4  2 0x0000000000003007 1x EDR - SW     1  2 0x0000000000001000 ( 'n1 HCA-1' - 'leaf' )
SW     1  2 0x0000000000001000 1x EDR - CA     4  2 0x0000000000003007 ( 'leaf' - 'n1 HCA-1' )
SW     1  1 0x0000000000001000 2x NDR - CA     3  1 0x0000000000003001 ( 'leaf' - 'n1 HCA-1' )
"""
BY_LID = """\
PortInfoRecord dump:
\t\tEndPortLid..............4
\t\tPortNum.................2
\t\tLinkWidthActive:.................1X
\t\tLinkSpeedExtActive:..............25.78125 Gbps
PortInfoRecord dump:
\t\tEndPortLid..............1
\t\tPortNum.................1
\t\tLinkWidthActive:.................2X
\t\tLinkSpeedExtActive:..............106.25 Gbps
"""


@pytest.mark.parametrize("rates", [BY_PORT, BY_LID])
def test_ports_and_lids_are_those_of_the_nodes_of_another_file(rates: str, tmp_path: Path) -> None:
    # Alone, the ports of this adapter are two hosts, since their GUIDs do not tell the node.
    assert read(BY_PORT, tmp_path)[0].num_hosts == 2
    for files in ((ADAPTER, rates), (rates, ADAPTER)):
        fabric, said = read(*files[:1], tmp_path, *files[1:])
        assert not said
        assert fabric.node_guid.tolist() == [0x1000, 0x3000]
        assert listed(fabric) == ["leaf[1] -- n1[1] 2xNDR", "leaf[2] -- n1[2] 1xEDR"]


def test_adapters_of_a_list_of_nodes_have_usual_port_guids(tmp_path: Path) -> None:
    text = """\
CA     3  1 0x0000000000003001 2x NDR - CA     4  1 0x0000000000004000 ( 'n1 HCA-1' - 'n2' )
CA     4  1 0x0000000000004000 2x NDR - CA     3  1 0x0000000000003001 ( 'n2' - 'n1 HCA-1' )
"""
    nodes = 'Ca\t: 0x0000000000003000 ports 2 "n1 HCA-1"\nCa\t: 0x0000000000004000 ports 1 "n2"\n'
    fabric, said = read(text, tmp_path, nodes)
    assert not said
    assert fabric.node_guid.tolist() == [0x3000, 0x4000]
    assert fabric.num_ports.tolist() == [2, 1]
    other, said = read(text, tmp_path, nodes.replace("n1", "n3"))
    assert other.node_guid.tolist() == [0x3001, 0x4000]
    assert [each.items for each in said] == [("n3 HCA-1",)]


def test_contradictions_name_the_node_and_not_the_port(tmp_path: Path) -> None:
    other = BY_PORT.replace("2x NDR", "4x NDR")
    _, said = read(ADAPTER.replace("lid 3\n", "lid 3 2xNDR\n"), tmp_path, other)
    contradictions = [each.items for each in said if "contradiction" in each.kind]
    assert contradictions == [("leaf[1]: 2xNDR and 4xNDR",)]


def test_a_lid_of_two_nodes_tells_neither(tmp_path: Path) -> None:
    nodes = NODES.replace("Router", "Switch").replace(
        ' devid 0x1b01 vendid 0x2c9 "gate"', ' "gate" base port 0 lid 12 lmc 0'
    )
    links = RECORDS[RECORDS.index("LinkRecord") :].replace(
        "LID....................1\n", "LID....................12\n"
    )
    links = links.replace("LID......................1\n", "LID......................12\n")
    gate = 'Switch\t4 "S-0000000000200000"\nSwitch\t4 "S-0000000000300000"\n'
    cable = (
        gate.replace("\nS", '\n[1]\t"S-0000000000300000"[1]\nS') + '[1]\t"S-0000000000200000"[1]\n'
    )
    fabric, said = read(cable, tmp_path, nodes, links)
    assert fabric.num_cables == 1
    assert [each.lost for each in said if each.kind == "lost cables"] == [1]


# -- captures in a terminal ------------------------------------------------------------------------

TREE = with_lids(build("xgft:2;2,3;1,2;1,2"))
TREE = replace(TREE, descriptions=tuple(f"{name} a b" for name in TREE.descriptions))
LISTINGS = {
    "ibnetdiscover": write_ibnetdiscover(TREE),
    "ibnetdiscover -p": ports_report(TREE),
    "iblinkinfo": iblinkinfo(TREE),
    "iblinkinfo -l": iblinkinfo(TREE, by_line=True),
}


def wrapped(text: str, width: int, *, trimmed: bool) -> str:
    """Return what a terminal of a width shows of a text."""
    lines = [line.expandtabs() for line in text.splitlines()]
    rows = [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]
    return "".join(f"{row.rstrip() if trimmed else row}\r\n" for row in rows)


def known(fabric: Fabric) -> tuple[object, ...]:
    return listed(fabric), fabric.descriptions, fabric.lid.tolist(), fabric.node_guid.tolist()


@pytest.mark.parametrize("trimmed", [True, False])
@pytest.mark.parametrize("width", [80, 132])
@pytest.mark.parametrize("name", LISTINGS)
def test_a_wrapped_listing_is_the_listing(
    name: str, width: int, trimmed: bool, tmp_path: Path
) -> None:
    text = LISTINGS[name]
    long = sum(len(line.expandtabs()) > width for line in text.splitlines())
    fabric, said = read(wrapped(text, width, trimmed=trimmed), tmp_path)
    assert known(fabric) == known(read(text, tmp_path)[0])
    repairs = [len(each.items) for each in said if each.kind == "repaired"]
    assert repairs == ([long] if long else [])


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_of_any_width_is_read_as_it_is_or_refused(name: str, tmp_path: Path) -> None:
    text = LISTINGS[name]
    expected, _ = read(text, tmp_path)
    refusals = 0
    for width in range(72, 150):
        try:
            fabric, _ = read(wrapped(text, width, trimmed=True), tmp_path)
        except InputError:
            refusals += 1
        else:
            assert known(fabric) == known(expected)
    assert refusals <= 16


def test_lost_tabs_are_counted(tmp_path: Path) -> None:
    text = LISTINGS["ibnetdiscover"]
    fabric, said = read(text.replace("\t", ""), tmp_path)
    assert known(fabric) == known(read(text, tmp_path)[0])
    # Lines of adapters have a blank beside the tab.
    tabs = sum("\t" in line and not line.startswith("[1](") for line in text.splitlines())
    assert [(each.kind, len(each.items)) for each in said] == [("repaired", tabs)]


@pytest.mark.parametrize("mark", ["--More--\r        \r", "-- More -- \b\b\b", "--More--(7%)\n"])
@pytest.mark.parametrize("name", LISTINGS)
def test_page_breaks_are_counted(name: str, mark: str, tmp_path: Path) -> None:
    lines = LISTINGS[name].splitlines(keepends=True)
    pages = ["".join(lines[at : at + 10]) for at in range(0, len(lines), 10)]
    fabric, said = read(mark.join(pages), tmp_path)
    assert known(fabric) == known(read("".join(lines), tmp_path)[0])
    assert f"left out: {len(pages) - 1} page break" in str(said[0])


@pytest.mark.parametrize("name", LISTINGS)
def test_the_greeting_of_a_host_is_left_out(name: str, tmp_path: Path) -> None:
    before = (
        '=~=~=~= PuTTY log 2026.01.05 10:00:00 =~=~=~=\nUsing username "me".\n'
        "Welcome to Linux 6.1\n\n * 3 updates can be applied\n\n"
        f"[me@n1 ~]$ sudo {name}\n[sudo] password for me: \n"
    )
    fabric, said = read(before + LISTINGS[name] + "[me@n1 ~]$ exit\nlogout\n", tmp_path)
    assert known(fabric) == known(read(LISTINGS[name], tmp_path)[0])
    assert "left out: 8 lines of a terminal session" in str(said[0])
    # A listing is no greeting.
    twice = LISTINGS[name] + f"[me@n1 ~]$ {name}\n" + LISTINGS[name]
    assert "expected a" in refused(twice, tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A name that may have had blanks at its end.
        ('"s1-0 a b" base port', '"s1-0 a\n b" base port'),
        # A line shorter than the terminal is wide by more than blanks explain.
        ("lid 7 4xHDR\n", "lid 7\n4xHDR\n"),
        # The rest of a line without its beginning.
        ("\n[1]", '\n# "h0 a b" lid 1 4xHDR\n[1]'),
    ],
)
def test_what_has_several_readings_is_refused(old: str, new: str, tmp_path: Path) -> None:
    text = LISTINGS["ibnetdiscover"]
    assert old in text
    longest = "#" + " a comment that is longer than any other line" * 4
    assert refused(f"{longest}\n" + text.replace(old, new, 1), tmp_path)


def test_a_line_is_recognised_without_the_lines_around_it() -> None:
    """A pattern that goes on in the next lines takes a quadratic time in many empty ones."""
    begins = has_line(r"\s*port\s+\d")
    assert begins("text\n \tport \t1\n")
    assert not begins("port\n 1\n")
