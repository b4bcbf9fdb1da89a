"""Topology files, lists of cables and system files of ibdm."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tests.processes import not_here
from tests.reading import reader_of

import weft
from weft.core.errors import InputError
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats import FormatWarning

read = reader_of("ibdm")

TOPO = """\
# two switches
MTS800 SW1
   P1 -> Cougar H-1 P1
   P2 -4x-10G-> Cougar H-2 P2
   P8 -12X-5G-> MTS800 SW2 P8

MTS800 SW2
   P1 -> MHGS18-XT H-3 P1
"""


def quiet(text: str, **options: object) -> Fabric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return read(text, "f", **options)


def cables(fabric: Fabric) -> set[frozenset[str]]:
    """Return both ends of each cable."""
    names = [fabric.cable_name(cable) for cable in range(fabric.num_cables)]
    return {frozenset(name.split(" -- ")) for name in names}


def test_a_topology_file_has_switches_adapters_and_rates() -> None:
    fabric = quiet(TOPO, rate="4xEDR")
    assert fabric.node_names == ("SW1", "SW2", "H-1", "H-2", "H-3")
    assert fabric.num_ports.tolist() == [8, 8, 2, 2, 1]
    assert cables(fabric) == {
        frozenset(pair)
        for pair in [
            ("SW1[1]", "H-1[1]"), ("SW1[2]", "H-2[2]"), ("SW1[8]", "SW2[8]"), ("SW2[1]", "H-3[1]"),
        ]
    }  # fmt: skip
    assert sorted(fabric.cable_rate_gbps.tolist()) == [32.0, 48.0, 100.0, 100.0]
    assert not fabric.lid.any()


def test_a_list_of_cables_is_read() -> None:
    text = (
        "\nCougar\tA\tP1\tReindeer\tS1\tP1\nCougar\tB\tP1 Reindeer\tS2\tP1\n"
        "Reindeer\tS1\tP2\tReindeer\tS2\tP2\n"
    )
    fabric = quiet(text)
    assert (fabric.num_hosts, fabric.num_switches, fabric.num_cables) == (2, 2, 3)
    assert fabric.num_ports.tolist() == [24, 24, 2, 2]


def test_both_ends_of_a_cable_may_list_it() -> None:
    again = TOPO + "   P8 -12X-5G-> MTS800 SW1 P8\n"
    assert cables(quiet(again)) == cables(quiet(TOPO))


def test_types_without_a_system_file_are_assumed_with_a_warning() -> None:
    text = "MTS400 S1\n   P1 -> NIC h1 P1\n   P7 -> MTS400 S2 P3\n\nMTS400 S2\n   P1 -> NIC h2 P2\n"
    with pytest.warns(FormatWarning) as caught:
        fabric = read(text, "f")
    assert fabric.node_kind.tolist() == [NodeKind.SWITCH] * 2 + [NodeKind.HOST] * 2
    assert fabric.num_ports.tolist() == [7, 7, 2, 2]
    said = str(caught[0].message)
    assert "NIC (adapter of 2 ports)" in said
    assert "MTS400 (switch of 7 ports)" in said


SYSTEM = """\
SYSTEM LEAF,LEAF:4x, LEAF:4X

NODE SW 8 CHIP U1
   1 -> P1
   2 -> P2
   7 -4x-10G-> UP1
   8 -> UP2

SYSTEM LEAF:wide
NODE SW 8 CHIP U1
   1 -12x-> W1
   7 -> UP1

SYSTEM PAIR
NODE SW 8 CHIP U1
   1 -> P1
   2 -> P2
   8 -> U2 8
NODE SW 8 CHIP U2
   1 -> P3
   2 -> P4

TOPSYSTEM Box,Crate

leaf1/U1=isChaBma

SUBSYSTEM LEAF leaf1
   UP1 -> core P1
   P1 -> L1/P1
   P2 -> L1/P2
   W1 -> L1/P1-12x

SUBSYSTEM LEAF leaf2
   UP1 -> core P3
   P1 -> L2/P1
   P2 -> L2/P2
   W1 -> L2/P1-12x

SUBSYSTEM PAIR core
   P2 -> leaf1 UP2
   P4 -> leaf2 UP2

TOPSYSTEM Single
NODE HCA 1 CHIP U1
   1 -> Q1
"""


@pytest.fixture
def systems(tmp_path: Path) -> str:
    folder = tmp_path / "ibnl"
    folder.mkdir()
    (folder / "Box.ibnl").write_text(SYSTEM)
    return str(folder)


def test_a_chassis_is_built_from_its_system_file(systems: str) -> None:
    text = "Crate B\n   L1/P1 -> Single h1 Q1\n   L2/P2 -> Single h2 Q1\n"
    fabric = quiet(text, systems=systems)
    assert fabric.node_names == (
        "B/leaf1/U1", "B/leaf2/U1", "B/core/U1", "B/core/U2", "h1", "h2",
    )  # fmt: skip
    assert cables(fabric) == {
        frozenset(pair)
        for pair in [
            ("B/leaf1/U1[7]", "B/core/U1[1]"), ("B/leaf1/U1[8]", "B/core/U1[2]"),
            ("B/leaf2/U1[7]", "B/core/U2[1]"), ("B/leaf2/U1[8]", "B/core/U2[2]"),
            ("B/core/U1[8]", "B/core/U2[8]"),
            ("B/leaf1/U1[1]", "h1[1]"), ("B/leaf2/U1[2]", "h2[1]"),
        ]
    }  # fmt: skip
    chassis = fabric.system_guid.tolist()
    assert len(set(chassis[:4])) == 1
    assert chassis[0]
    assert chassis[4:] == [0, 0]


def test_boards_may_be_of_another_kind_or_absent(systems: str) -> None:
    text = "Box B CFG: leaf1=wide,leaf2=R\n   L1/P1-12x -> Single h1 Q1\n"
    fabric = quiet(text, systems=systems)
    assert fabric.node_names == ("B/leaf1/U1", "B/core/U1", "B/core/U2", "h1")
    assert fabric.num_cables == 3
    with pytest.raises(InputError, match=r"B has no port L1/P1") as caught:
        quiet(text.replace("L1/P1-12x", "L1/P1"), systems=systems)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("Box B\n   L1/P1 -> Cougar h1 P1\n", 2, "B is a chassis of type Box: give the folder"),
        ("MTS800 S CFG: leaf=R\n   P1 -> Cougar h P1\n", 1, "S is a chassis"),
        ("MTS800 S\n   P1 -> Cougar h P1\n   P1 -> Cougar g P1\n", 3, "port S.1. is listed twice"),
        ("MTS800 S\n   P9 -> Cougar h P1\n", 2, "S has 8 ports, but this line uses port 9"),
        ("MTS800 S\n   P1 -> Cougar h P3\n", 2, "h has 2 ports, but this line uses port 3"),
        ("MTS800 S\n   P1 -> Cougar h P1\n\nCougar S\n", 4, "S is of type Cougar here, but MTS800"),
        ("MTS800 S\n   P1 -> Cougar h P1\nwhat is this\n", 3, "expected a system, or a port"),
        ("MTS800 S\n   P1 -7x-> Cougar h P1\n", 2, "unknown rate"),
        ("MTS800 S\n   P1 -> Cougar h P1\n\n   P2 -> Cougar g P1\n", 4, "expected a system, or"),
        ("MTS800 S CFG: leaf\n   P1 -> Cougar h P1\n", 1, "expected board=modifier"),
        ("MTS800 S\n", None, "lists no cable"),
        ("MTS800 S\n   P1 -> MTS800 S P1\n", 2, "from port S.1. to itself"),
        ("MTS800 S\n   P1 -> Cougar h P1\n" + "#" * 10 + "\nx" + "y" * 3000 + "\n", 4,
         "more than 2000 characters"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_refused(text: str, line: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        quiet(text)
    assert (caught.value.file, caught.value.line) == ("f", line)


@pytest.mark.parametrize(
    ("change", "text", "message"),
    [
        (("", ""), "Box B CFG: leaf9=R\n   L1/P1 -> Single h Q1\n", "has no board leaf9"),
        (("", ""), "Box B CFG: leaf1=odd\n   L1/P1 -> Single h Q1\n", "no board LEAF:odd is def"),
        (("SUBSYSTEM PAIR core", "SUBSYSTEM PAIR"), "", r"Box.ibnl.*:37|expected SYSTEM, NODE"),
        (("SYSTEM PAIR\n", "SYSTEM PAIR\nSUBSYSTEM PAIR again\n"), "", "nested too deeply"),
    ],
)
def test_a_wrong_system_file_is_refused(
    change: tuple[str, str], text: str, message: str, systems: str
) -> None:
    (Path(systems) / "Box.ibnl").write_text(SYSTEM.replace(*change, 1))
    with pytest.raises(InputError, match=message):
        quiet(text or "Box B\n   L1/P1 -> Single h Q1\n", systems=systems)


def test_a_folder_without_system_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no system file \(.ibnl\)"):
        quiet(TOPO, systems=str(tmp_path))


# -- public files ----------------------------------------------------------------------------------


def wide_chassis(folder: Path) -> str:
    """Write a system file of a chassis of twelve leaf boards and twelve spine chips."""
    lines = ["SYSTEM LEAF", "NODE SW 24 CHIP U1"]
    lines += [f"   {n} -> P{n}" for n in range(1, 13)]
    lines += [f"   {n + 12} -> I{n}" for n in range(1, 13)]
    lines += ["TOPSYSTEM MTS14400"]
    for leaf in range(1, 13):
        lines += [f"SUBSYSTEM LEAF leaf{leaf}"]
        lines += [f"   P{n} -> L{leaf}/P{n}" for n in range(1, 13)]
        lines += [f"   I{n} -> spine{n} P{leaf}" for n in range(1, 13)]
    lines += ["SYSTEM SPINE", "NODE SW 24 CHIP U1", *(f"   {n} -> P{n}" for n in range(1, 13))]
    spines = [f"SUBSYSTEM SPINE spine{n}" for n in range(1, 13)]
    at = lines.index("SYSTEM SPINE")
    folder.mkdir()
    (folder / "MTS14400.ibnl").write_text("\n".join([*lines[at:], *lines[:at], *spines]) + "\n")
    return str(folder)


def test_every_public_file_is_read(shared: Path, tmp_path: Path) -> None:
    systems = wide_chassis(tmp_path / "ibnl")
    sizes = {
        "4-ary-2-tree": (16, 8, 32),
        "4-ary-2-tree-missing-sw-link": (14, 8, 29),
        "4-ary-2-tree-links-at-same-rank-1": (16, 8, 35),
        "credit-loops": (16, 20, 48),
        "IS3-loop": (36, 17, 84 - 24 + 24),
        "CreditLoopDemo": (4, 4, 8),
    }
    files = [*(shared / "evidence" / "ibdm").glob("*.topo")]
    files += (shared / "evidence" / "ibdm").glob("*.cables")
    assert {file.stem for file in files} == sizes.keys()
    for file in files:
        fabric = quiet_file(file, systems)
        found = fabric.num_hosts, fabric.num_switches, fabric.num_cables
        assert found == sizes[file.stem], file
    with pytest.raises(InputError, match="SW4 is a chassis of type MTS14400") as caught:
        quiet_file(shared / "evidence" / "ibdm" / "IS3-loop.topo", None)
    assert caught.value.line == 44


def quiet_file(path: Path, systems: str | None) -> Fabric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return weft.fabric(path, format=f"ibdm:systems={systems}" if systems else None)


def test_routes_of_the_files_that_are_meant_to_have_credit_loops(
    shared: Path, tmp_path: Path
) -> None:
    """OpenSM's minhop has a loop on both, as ibdmchk finds on the first with OpenSM's own tables.

    On the second, no shortest path between hosts goes through two leaf boards and on. Only paths
    from and to switches close a loop there.
    """
    systems = wide_chassis(tmp_path / "ibnl")
    loops = quiet_file(shared / "evidence" / "ibdm" / "credit-loops.topo", systems)
    boards = quiet_file(shared / "evidence" / "ibdm" / "IS3-loop.topo", systems)
    for fabric in (loops, boards):
        for engine in ("updn", "updn:balance=opensm"):
            routes = weft.route(fabric, engine)
            assert weft.validate(fabric, routes, management=True).ok
    for fabric, management in ((loops, False), (loops, True), (boards, True)):
        routes = weft.route(fabric, "minhop:balance=opensm")
        found = weft.validate(fabric, routes, management=management)
        assert not found.ok
        assert any("can deadlock" in line for line in found.findings())
    assert weft.validate(boards, routes).ok


@pytest.mark.oracle
def test_system_files_of_debian_are_read() -> None:
    folders = list(Path("/usr/lib").glob("*/ibdm*/ibnl"))
    if not folders:
        not_here("Debian's libibdm1 is not installed")
    files = sorted(folders[0].glob("*.topo"))
    assert files
    for file in files:
        assert quiet_file(file, str(folders[0])).num_hosts > 10
