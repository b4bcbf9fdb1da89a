"""ibsim net files: weft reads them as the simulator does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.reading import reader_of

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder, NodeKind, Parts, rate_text
from weft.fabrics.formats import FormatWarning, read_file, write_fabric
from weft.fabrics.formats.ibsim import write
from weft.fabrics.topology import build

read = reader_of("ibsim")

PLAIN = """\
# two switches, as people write them
Switch 8 "sw1"
[1]\t"hostA"[1]\t# "x" lid 0 4xQDR
[3]\t"sw2"[3]\t# "x" lid 0 4xQDR
# a comment does not end a record
[4]\t"sw2"[4]\t# lid 0 12xDDR

Switch\t8 "sw2"\t# second switch lid 7 lmc 0
[3]\t"sw1"[3]\t# "x" lid 0 4xQDR
[4]\t"sw1"[4]\t# lid 0 12xDDR
[8]\t"host B"

Hca\t2 "hostA"\t# "login node"
[1]\t"sw1"[1]\t# lid 5 lmc 1 "x" lid 0 4xQDR

Ca\t1 "host B"\t# ""
[1]\t"sw2"[8]\t# lid 9 lmc 0 "x" lid 7 4xHDR
"""


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text, "x.net")
    assert caught.value.file == "x.net"
    return caught.value


def rates(text: str) -> list[str]:
    fabric = read(text, "f")
    pairs = zip(fabric.cable_rate_gbps, fabric.cable_rate_code, strict=True)
    return [rate_text(float(gbps), int(code)) for gbps, code in pairs]


def test_a_plain_file_is_read() -> None:
    fabric = read(PLAIN, "f")
    assert fabric.node_names == ("sw1", "sw2", "hostA", "host B")
    # ibsim numbers nodes: a switch takes one GUID, an adapter takes its number of ports + 1.
    assert fabric.node_guid.tolist() == [0x200000, 0x200001, 0x100000, 0x100003]
    assert fabric.port_guid[-3:].tolist() == [0x100001, 0x100002, 0x100004]
    assert fabric.descriptions == ("sw1", "second switch", "login node", "")
    assert rates(PLAIN) == ["4xQDR", "4xQDR", "12xDDR", "4xHDR"]
    assert fabric.lid.tolist() == [5, 9, 0, 7]
    assert fabric.lmc.tolist() == [1, 0, 0, 0]


def test_guids_and_identifiers_are_read() -> None:
    text = """\
vendid=0x2c9
devid=0x1
sysimgguid=0xabc
switchguid=0x5000(5000)
Switch 2 "a"
[1]"h"[1]
[2]"r"[1]
caguid = 0x9000
Ca 1 "h"
[1]"a"[1]

rtguid=77
devid=2
Rt 1 "r"
[1]"a"[2]

caguid+16
Ca 1 "lonely"

Ca 3 "lonelier"
"""
    with pytest.warns(FormatWarning, match="2 of 2 cables without a rate"):
        fabric = read(text, "f")
    assert fabric.node_names == ("a", "h", "lonely", "lonelier", "r")
    assert fabric.node_guid.tolist() == [0x5000, 0x9000, 0x9010, 0x9012, 77]
    assert fabric.node_kind[-1] == NodeKind.AUXILIARY
    # As in ibsim, a device id applies to all nodes up to the next one; others apply to one node.
    assert fabric.device_id.tolist() == [1, 1, 2, 2, 2]
    assert fabric.vendor_id.tolist() == [0x2C9, 0, 0, 0, 0]
    assert fabric.system_guid.tolist() == [0xABC, 0, 0, 0, 0]


def test_ids_are_prefixed_by_their_module() -> None:
    text = """\
module = "r1"
Switch 2 "leaf"
[1]"h"[1]
[2]"r2#leaf"[2]
Ca 1 "h"
[1]"leaf"[1]

module = "r2"
Switch 2 "leaf"
[2]"r1#leaf"[2]
"""
    with pytest.warns(FormatWarning):
        assert read(text, "f").node_names == ("r1#leaf", "r2#leaf", "r1#h")
    assert "leads to node 'r1#leaf2'" in refused(text.replace('"leaf"[1]', '"leaf2"[1]')).message


CABLE = 'Switch 2 "a"\n[1]"b"[1]{}\n\nSwitch 2 "b"\n[1]"a"[1]{}\n'


@pytest.mark.parametrize(
    ("head", "one", "other", "rate"),
    [
        ("", " w=8 s=4", " w=8 s=4", "12xQDR"),
        ("", " w=8", " w=8", "12xSDR"),
        ("", "\ts=7", " s=3", "4xDDR"),
        ("", " w=31 s=7 e=7", " w=31 s=7 e=3", "12xEDR"),
        ("", " s=1 e=15", " s=1 e=15", "4xNDR"),
        ("", " w=18 s=2", " w=16 s=2", "2xDDR"),
        ("speed=4\nwidth=1\n", "", "", "1xQDR"),
        ("speed=2\n", " s=3", "", "4xDDR"),
        ("extspeed=4\n", "", "", "4xHDR"),
        ("speed=4\n", ' # "x" lid 0 4xFDR10', "", "4xFDR10"),
        ("", " s=4", ' # "x=y" lid 0 4xDDR', "4xDDR"),
        # A comment at either end has priority over the options, whatever its rate.
        ("", ' # "x" lid 0 4xDDR', " s=4", "4xDDR"),
        ("", " s=4", ' # "x" lid 0 1xSDR', "1xSDR"),
        ("", ' s=4 # "x" lid 0 1xSDR', "", "1xSDR"),
        # An end without options enables 4x and SDR only.
        ("", " w=31 s=7 e=15", "", "4xSDR"),
    ],
)
def test_rates_follow_from_the_settings_of_both_ports(
    head: str, one: str, other: str, rate: str
) -> None:
    assert rates(head + CABLE.format(one, other)) == [rate]


@pytest.mark.parametrize(("one", "other"), [(" s=4", " s=2"), (" w=1", ""), (" s=2", "")])
def test_ports_that_enable_no_common_rate_are_refused(one: str, other: str) -> None:
    error = refused(CABLE.format(one, other))
    assert "enable no width and speed in common" in error.message
    assert error.line == 2


def test_a_missing_rate_is_assumed() -> None:
    with pytest.warns(FormatWarning, match="1 of 1 cable without a rate; 4xHDR is assumed"):
        assert rates(CABLE.format("", "")) == ["4xHDR"]
    with pytest.warns(FormatWarning, match="1xNDR is assumed"):
        read(CABLE.format("", ""), "f", rate="1xNDR")


def test_a_long_label_of_a_host_is_no_value_of_sim_host() -> None:
    fabric = build("xgft:1;3;1")
    names = {0x100000: "h" * 31, 0x100002: "h" * 32, 0x200000: "s" * 32}
    with pytest.warns(FormatWarning, match="replace 1 label that ibsim does not take: 'hhh"):
        text = write(fabric.renamed(names))
    for node_id in ("h" * 31, "H-0000000000100002", "s" * 32):
        assert f'"{node_id}"' in text


BAD = {
    "include": ('Switch 8 "sw1"', 'include "x"\nSwitch 8 "sw1"', 2, "'include' is not supported"),
    "command": ('Switch 8 "sw1"', 'do Dump\nSwitch 8 "sw1"', 2, "'do' is not supported"),
    "debug": ('Switch 8 "sw1"', 'pdebug=1\nSwitch 8 "sw1"', 2, "'pdebug' is not supported"),
    "alias": ('Switch 8 "sw1"', '@[1] "x"\nSwitch 8 "sw1"', 2, "'@' is not supported"),
    "alias as a peer": ('"sw2"[3]', '"@x"', 4, "port alias '@x' is not supported"),
    "unknown setting": ('Switch 8 "sw1"', 'colour=red\nSwitch 8 "sw1"', 2, "or a setting, found"),
    "swallowed line": ("# lid 0 12xDDR\n\nSwitch", "# lid 0 12xDDR\nSwitch", 7, "would skip this"),
    "space before the port": ('"sw2"[3]', '"sw2" [3]', 4, "without a space"),
    "unknown option": ('"host B"', '"host B" q=1', 11, "malformed port line"),
    "option out of range": ('"host B"', '"host B" s=9', 11, "s=9 is out of range"),
    "width out of range": ("# two", "width=0\n# two", 1, "width=0 is out of range"),
    "speed is no sum": ("# two", "speed+1\n# two", 1, "must be set with '=', not '+'"),
    "id twice": ('"hostA"\t# "login', '"sw1"\t# "login', 13, "declared twice"),
    "GUID of the first node": ("Hca\t2", "caguid=0x200000\nHca\t2", 14, "0x200000 of 'sw1'"),
    "GUID twice": ("Hca\t2", "caguid=0x200001\nHca\t2", 14, "has the GUID 0x200001 of 'sw2'"),
    "reserved id": ('"hostA"\t# "login', '"host#A"\t# "login', 13, "is invalid in ibsim"),
    "long id": ('"hostA"\t# "login', f'"{"h" * 65}"\t# "login', 13, "is invalid in ibsim"),
    "no id": ('"hostA"\t# "login', '""\t# "login', 13, "is invalid in ibsim"),
    "module": ("# two", f'module="{"m" * 21}"\n# two', 1, "not a module name"),
    "unknown peer": ('"sw1"[3]', '"sw9"[3]', 9, "which has no record"),
    "port above the node's": ("[8]\t", "[9]\t", 11, "has 8 ports"),
    "port twice": ("[8]\t", "[3]\t", 11, "listed twice"),
    "ends disagree": ('"sw1"[4]', '"sw1"[3]', 6, "ends of a cable disagree"),
    "unknown rate": ("7 4xHDR", "7 4xWDR", 17, "unknown rate '4xWDR'"),
    "LID out of range": ("lid 9 lmc", "lid 60000 lmc", 17, "not a unicast LID"),
    "port line first": ("# two", '[1] "a"[1]\n# two', 1, "outside a record"),
    "too long a line": ("# two", "x" * 3000, 1, "longer than 2000"),
}


@pytest.mark.parametrize("what", BAD)
def test_each_contradiction_is_one_error_with_its_line(what: str) -> None:
    old, new, line, message = BAD[what]
    assert old in PLAIN
    error = refused(PLAIN.replace(old, new, 1))
    assert message in error.message
    assert error.line == line


def test_port_guids_that_ibsim_would_change_are_counted() -> None:
    fabric = build("xgft:1;2;1")
    port_guid = fabric.port_guid.copy()
    port_guid[-1] = fabric.node_guid[-1]
    with pytest.warns(FormatWarning, match="assigns other GUIDs than the file to 1 adapter ports"):
        text = write(replace(fabric, port_guid=port_guid))
    assert read(text, "f").port_guid.tolist() == port_guid.tolist()


def test_routers_need_a_guid() -> None:
    assert "GUID 0x0" in refused('Rt 1 "r"\n').message


def test_guids_that_overflow_are_refused() -> None:
    assert "or a setting, found" in refused("caguid=0x10000000000000000\n" + PLAIN).message
    text = 'caguid=0xffffffffffffffff\nCa 1 "a"\n\nCa 1 "b"\n'
    assert "the invalid GUID" in refused(text).message


# -- writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["xgft:2;4,4;1,2", "xgft:3;2,3,4;1,2,3,rate=4xEDR,host_rate=QDR"])
def test_written_fabrics_are_read_as_the_same(spec: str) -> None:
    fabric = build(spec)
    for same in (fabric, fabric.shuffled(5)):
        again = read(write(same), "f")
        assert again.digest == same.digest
        assert again.node_names == same.node_names
        assert np.array_equal(again.cable_rate_gbps, same.cable_rate_gbps)


def test_the_real_cluster_is_written_and_read_back(shared: Path, tmp_path: Path) -> None:
    folder = shared / "fabrics"
    fabric = read_file(folder / "psmn-x5.ibnetdiscover", names=folder / "psmn-x5.node-name-map")
    target = tmp_path / "x5.net"
    # Switch descriptions that contain # cannot be node ids.
    with pytest.warns(FormatWarning, match="replace 5 labels that"):
        write_fabric(fabric, target)
    again = read_file(target)
    assert again.digest == fabric.digest
    assert again.node_names == fabric.node_names
    assert again.descriptions == fabric.descriptions
    for key in ("port_guid", "system_guid", "vendor_id", "device_id", "lid", "lmc"):
        assert np.array_equal(getattr(again, key), getattr(fabric, key)), key
    assert np.array_equal(again.cable_rate_code, fabric.cable_rate_code)


def test_names_with_spaces_and_unicode_are_ids() -> None:
    fabric = build("xgft:1;2;1").renamed({0x200000: "Schrank 3 – oben", 0x100000: "küche"})
    again = read(write(fabric), "f")
    assert again.node_names == ("Schrank 3 – oben", "küche", "h1")


def test_labels_equal_to_ids_of_other_nodes_are_refused() -> None:
    fabric = build("xgft:1;2;1").renamed({0x200000: "a#b", 0x100000: "S-0000000000200000"})
    with pytest.raises(NotApplicable, match="the GUID of another node"):
        write(fabric)


def test_descriptions_that_differ_from_the_label_are_kept() -> None:
    parts = Parts.of(build("xgft:1;2;1"))
    parts.descriptions = ['a "quoted" = sign', "", "h1 HCA-1"]
    again = read(write(Fabric.of(parts)), "f")
    assert again.descriptions == ('a "quoted" = sign', "", "h1 HCA-1")
    assert again.node_names == ("s1-0", "h0", "h1")


def test_fabrics_that_the_format_cannot_state_are_refused(tmp_path: Path) -> None:
    maker = FabricBuilder("f", rate=37.0)
    maker.connect(maker.switches(["s"]), maker.hosts(["h"]))
    with pytest.raises(NotApplicable, match="37 Gb/s"):
        write_fabric(maker.fabric(), tmp_path / "f.net")
    assert list(tmp_path.iterdir()) == []
