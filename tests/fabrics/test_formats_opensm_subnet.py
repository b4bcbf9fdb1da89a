"""OpenSM's opensm-subnet.lst."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from tests.reading import reader_of

from weft.fabrics import rate_text
from weft.fabrics.formats import FormatWarning
from weft.fabrics.formats.subnet_list import read_seen

read = reader_of("opensm-subnet")

#: LIDs of the switches by GUID.
LID = {0x1002: 6, 0x1003: 7}


def end(guid: int, port: int) -> str:
    return (
        f"{{ SW Ports:14 SystemGUID:{guid + 0x10:016x} NodeGUID:{guid:016x} "
        f"PortGUID:{guid:016x} VenID:0002C9 DevID:D2F0 Rev:00000000 {{}} LID:{LID[guid]:04X} "
        f"PN:{port:02X} }}"
    )


def cable(port: int, state: str, speed: str) -> str:
    """Return the lines of a cable that connects equal ports of both switches."""
    ends = end(0x1002, port), end(0x1003, port)
    return "".join(
        f"{one} {other} PHY=4x LOG={state} SPD={speed}\n" for one, other in (ends, ends[::-1])
    )


def test_cables_that_are_down_are_left_out(tmp_path: Path) -> None:
    """Switches keep their LIDs, and cables in any other state are part of the fabric."""
    text = cable(1, "ACT", "50") + cable(2, "DWN", "2.5") + cable(0x13, "INI", "25")
    fabric = read(text, "f")
    assert fabric.lid.tolist() == [6, 7]
    assert fabric.link_from_port.tolist() == [1, 1, 0x13, 0x13]
    rates = zip(fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True)
    assert [rate_text(*rate) for rate in rates] == ["4xHDR", "4xEDR"]
    (tmp_path / "list").write_text(text)
    seen = read_seen(tmp_path / "list")
    assert seen.lid == LID
    assert seen.cables == {
        (one, port, other, port) for one, other in permutations(LID) for port in (1, 0x13)
    }


def test_a_captured_list_is_read_as_the_list(tmp_path: Path) -> None:
    text = cable(1, "ACT", "50")
    path = tmp_path / "list"
    path.write_text(text)
    seen = read_seen(path)
    path.write_text(f"[me@n1 ~]$ cat opensm-subnet.lst\n{text}[me@n1 ~]$ \n")
    with pytest.warns(FormatWarning, match="2 lines of a terminal session"):
        assert read_seen(path) == seen


def test_a_switch_with_only_a_cable_that_is_down_is_part_of_the_fabric() -> None:
    fabric = read(cable(1, "DWN", "2.5"), "f")
    assert (fabric.num_switches, fabric.num_cables) == (2, 0)


def test_identifiers_are_hexadecimal_and_kept() -> None:
    fabric = read(cable(1, "ACT", "50"), "f")
    assert fabric.node_names == ("S-0000000000001002", "S-0000000000001003")
    assert fabric.node_guid.tolist() == [*LID]
    assert fabric.system_guid.tolist() == [0x1012, 0x1013]
    assert fabric.vendor_id.tolist() == [0x2C9] * 2
    assert fabric.device_id.tolist() == [0xD2F0] * 2
    assert fabric.num_ports.tolist() == [0x14] * 2
