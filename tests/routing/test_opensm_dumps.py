"""OpenSM's dumps of SL to VL tables, and of hops between switches and destinations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.opensm_dumps import lid_matrix, shortest_hops, sl2vl_dump

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.lfts import lft_dump
from weft.routing.opensm.lid_matrix import read_lid_matrix
from weft.routing.opensm.lids import Lids, predict_lids
from weft.routing.opensm.sl2vl import read_sl2vl
from weft.routing.routes import TableRoutes, VirtualLanes


def tiny() -> Fabric:
    """Build host H on port 1 of SW1, whose port 3 is cabled to port 2 of SW2."""
    build = FabricBuilder("tiny")
    build.switches(["SW1", "SW2"], ports=3)
    build.hosts(["H"])
    build.connect([0, 0], [2, 1], a_ports=[1, 3], b_ports=[1, 2])
    return build.fabric()


IDENTITY = " 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  7 \n"
HEADING = """\
#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
#--------------------------------------------------------
"""
END = "#--------------------------------------------------------\n\n"
SL2VL = (
    'Switch 0x0000000000200000, base LID 2, "SW1"\n'
    + HEADING
    + "".join(f"{into}   {out}   :{IDENTITY}" for out in (1, 3) for into in range(4))
    + END
    + 'Channel Adapter 0x0000000000100001, base LID 1, "H"\n'
    + HEADING
    + f"0   0   :{IDENTITY}"
    + END
    + 'Switch 0x0000000000200001, base LID 3, "SW2"\n'
    + HEADING
    + "".join(f"{into}   2   :{IDENTITY}" for into in range(4))
    + END
)
MATRIX = """\
Switch: guid 0x0000000000200000
0x0002: 00 ff ff 02 # portguid 0x0000000000200000
0x0003: 01 ff ff 01 # portguid 0x0000000000200001
Switch: guid 0x0000000000200001
0x0002: 01 ff 01 ff # portguid 0x0000000000200000
0x0003: 00 ff 02 ff # portguid 0x0000000000200001
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "some.dump"
    path.write_text(text)
    return path


def test_equal_lanes_at_all_ports_give_one_table(tmp_path: Path) -> None:
    fabric = tiny()
    lanes, adapters = read_sl2vl(fabric, write(tmp_path, SL2VL))
    assert lanes.is_uniform
    assert lanes.tables.tolist() == [[*range(8)] * 2]
    assert adapters.tolist() == [[*range(8)] * 2]
    assert sl2vl_dump(fabric, lanes, predict_lids(fabric), adapters) == SL2VL
    assert sl2vl_dump(fabric, lanes, predict_lids(fabric)) == SL2VL


def test_an_entry_that_differs_at_one_port_is_read_for_that_port(tmp_path: Path) -> None:
    fabric = tiny()
    at = SL2VL.index("2   3   :")
    text = SL2VL[:at] + SL2VL[at:].replace("   : 0 ", "   : 15", 1)
    lanes, adapters = read_sl2vl(fabric, write(tmp_path, text))
    assert len(lanes.tables) == 2
    special = [
        (row, into, out)
        for row in range(2)
        for into in range(4)
        for out in range(4)
        if lanes.tables[lanes.index[lanes.base[row] + into * lanes.ports[row] + out], 0] == 15
    ]
    assert special == [(0, 2, 3)]
    assert sl2vl_dump(fabric, lanes, predict_lids(fabric), adapters) == text


def test_lanes_survive_a_round_trip(tmp_path: Path) -> None:
    fabric = load("xgft:2;4,4;1,4").shuffled(2)
    random = np.random.default_rng(4)
    ports = (fabric.num_ports[: fabric.num_switches] + 1).astype(np.int32)
    base = np.concatenate(([0], np.cumsum(ports.astype(np.int64) ** 2)))
    tables = random.integers(0, 15, (5, 16)).astype(np.uint8)
    index = random.integers(0, 5, base[-1]).astype(np.int32)
    known = VirtualLanes(tables, index, base[:-1], ports)
    own = random.integers(0, 15, (fabric.num_endpoints, 16)).astype(np.uint8)
    text = sl2vl_dump(fabric, known, predict_lids(fabric), own)
    lanes, adapters = read_sl2vl(fabric, write(tmp_path, text))
    assert np.array_equal(adapters, own)
    assert sl2vl_dump(fabric, lanes, predict_lids(fabric), adapters) == text
    assert np.array_equal(lanes.base, known.base)
    assert np.array_equal(lanes.ports, known.ports)
    for row in range(fabric.num_switches):
        links = fabric.port_link[fabric.port_offset[row] : fabric.port_offset[row + 1]]
        for out in np.flatnonzero(links >= 0) + 1:
            entries = base[row] + np.arange(ports[row]) * ports[row] + out
            assert np.array_equal(lanes.tables[lanes.index[entries]], tables[index[entries]])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0x0000000000200001", "0x7", ":20: 0x0000000000000007 is not a GUID of tiny; expected"),
        ("Switch 0x0000000000200000", "Spam", ":1: expected a heading or a line of a table"),
        ("1   3   :", "1   9   :", ":9: SW1 has no table from port 1 to port 9"),
        ("1   3   :", "1   1   :", ":9: SW1 already has a table from port 1 to port 1"),
        ("1   3   : 0 ", "1   3   : 16", ":9: a VL must be 0 to 15, not 16"),
        (f"1   3   :{IDENTITY}", "", "1 tables of switches are missing, the first from port 1 to"),
        ("0   0   :", "1   0   :", r":17: H\[1\] has no table from port 1 to port 0"),
        (f"0   0   :{IDENTITY}", "", r"1 tables of adapters are missing, the first of H\[1\]"),
        ("1   3   :", "1   3   ", ":9: expected a heading or a line"),
    ],
)
def test_faulty_lanes_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in SL2VL
    with pytest.raises(InputError, match=message):
        read_sl2vl(tiny(), write(tmp_path, SL2VL.replace(old, new, 1)))


def test_a_matrix_of_hops_is_read_and_written(tmp_path: Path) -> None:
    fabric = tiny()
    assert lid_matrix(fabric) == MATRIX
    hops = read_lid_matrix(fabric, write(tmp_path, MATRIX))
    assert np.array_equal(hops, shortest_hops(fabric))
    assert hops[0, 1].tolist() == [1, 255, 255, 1]
    bare = "\n".join(line.partition(" #")[0] for line in MATRIX.split("\n"))
    assert np.array_equal(read_lid_matrix(fabric, write(tmp_path, bare)), hops)
    swapped = Lids(np.array([1, 3, 2], np.int32), np.zeros(3, np.uint8))
    again = read_lid_matrix(fabric, write(tmp_path, bare), lids=swapped)
    assert np.array_equal(again, hops[:, ::-1])
    assert np.array_equal(read_lid_matrix(fabric, write(tmp_path, MATRIX), lids=swapped), hops)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Switch: guid 0x0000000000200001", "Switch: guid 0x7", ":4: switch 0x7 is not in tiny"),
        ("0x0003: 01", "0x0003: 1", ":3: expected 'Switch: guid"),
        ("Switch: guid 0x0000000000200000\n", "", ":1: expected 'Switch: guid"),
        (" ff ff 01 #", " ff ff 01 02 #", ":3: 4 ports, but SW1 has 3"),
        (
            "01 # portguid 0x0000000000200001",
            "01 # portguid 0x0000000000200000",
            ":3: SW1 already has ho",
        ),
        (
            " # portguid 0x0000000000200001",
            " # portguid 0x0000000000000001",
            ":3: LID 3 is not that of",
        ),
    ],
)
def test_a_faulty_matrix_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in MATRIX
    with pytest.raises(InputError, match=message):
        read_lid_matrix(tiny(), write(tmp_path, MATRIX.replace(old, new, 1)))
    with pytest.raises(InputError, match="has no line of hops"):
        read_lid_matrix(tiny(), write(tmp_path, "# nothing\n"))


def test_the_engine_counts_paths_that_differ_from_the_matrix(tmp_path: Path) -> None:
    fabric = load("torus:4x4")
    routes = route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    (tmp_path / "lfts").write_text(lft_dump(fabric, routes))
    hops = shortest_hops(fabric)
    (tmp_path / "matrix").write_text(lid_matrix(fabric, hops))
    spec = f"file:lfts_file={tmp_path / 'lfts'};lid_matrix_dump_file={tmp_path / 'matrix'}"
    assert route(fabric, spec).notes[1].startswith("0 of 240 paths between switches differ from")
    hops[3, 5, 0] += 1
    (tmp_path / "matrix").write_text(lid_matrix(fabric, hops))
    assert route(fabric, spec).notes[1].startswith("1 of 240 paths")


def test_paths_too_long_for_a_byte_are_refused() -> None:
    """Paths have at most 253 hops: the wrong port adds one more, and 255 means no path."""

    def chain(length: int) -> Fabric:
        build = FabricBuilder("chain")
        switches = build.switches([f"s{i}" for i in range(length)])
        build.connect(switches[:-1], switches[1:])
        return build.fabric()

    assert shortest_hops(chain(254))[0, 253].tolist() == [253, 253, 255]
    for length in (255, 300):
        with pytest.raises(NotApplicable, match=f"paths of {length - 1} hops; .* at most 253"):
            shortest_hops(chain(length))


def test_lanes_are_read_for_a_fabric_without_switches() -> None:
    build = FabricBuilder("bare")
    build.connect(build.hosts(["a"]), build.hosts(["b"]))
    fabric = build.fabric()
    text = sl2vl_dump(fabric, VirtualLanes.uniform(), predict_lids(fabric))
    assert text.count("Channel Adapter") == 2
