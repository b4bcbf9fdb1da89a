"""Forwarding tables read from files and written to files."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import FormatWarning
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.lft_lines import parse_dump
from weft.routing.opensm.lfts import _Resolver, lft_dump, lft_form, read_lfts
from weft.routing.opensm.lids import Lids, predict_lids
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate


def pair() -> Fabric:
    """Build H1 and H2 on SW1, H3 and H4 on SW2; port 3 of each switch connects it to the other."""
    build = FabricBuilder("pair")
    build.switches(["SW1", "SW2"], ports=8)
    build.hosts(["H1", "H2", "H3", "H4"])
    build.connect([0, 0, 1, 1], [2, 3, 4, 5], a_ports=[1, 2, 1, 2], b_ports=[1, 1, 1, 1])
    build.connect([0], [1], a_ports=[3], b_ports=[3])
    return build.fabric()


#: The dump of the tables of `pair` by OpenSM 3.3.23; destinations are H1 H2 H3 H4 SW1 SW2.
OPENSM = """\
Unicast lids [0-6] of switch Lid 2 guid 0x0000000000200000 ('SW1'):
0x0001 001 # Channel Adapter portguid 0x0000000000100001: 'H1'
0x0002 000 # Switch portguid 0x0000000000200000: 'SW1'
0x0003 003 # Switch portguid 0x0000000000200001: 'SW2'
0x0004 002 # Channel Adapter portguid 0x0000000000100003: 'H2'
0x0005 003 # Channel Adapter portguid 0x0000000000100005: 'H3'
0x0006 003 # Channel Adapter portguid 0x0000000000100007: 'H4'
6 lids dumped
Unicast lids [0-6] of switch Lid 3 guid 0x0000000000200001 ('SW2'):
0x0001 003 # Channel Adapter portguid 0x0000000000100001: 'H1'
0x0002 003 # Switch portguid 0x0000000000200000: 'SW1'
0x0003 000 # Switch portguid 0x0000000000200001: 'SW2'
0x0004 003 # Channel Adapter portguid 0x0000000000100003: 'H2'
0x0005 001 # Channel Adapter portguid 0x0000000000100005: 'H3'
0x0006 002 # Channel Adapter portguid 0x0000000000100007: 'H4'
6 lids dumped
"""
TABLE = [[1, 3], [2, 3], [3, 1], [3, 2], [0, 3], [3, 0]]

DUMP_FTS = """\
Unicast lids [0x0-0x6] of switch DR path slid 0; dlid 0; 0,1,3 guid 0x0000000000200001 (SW2):
  Lid  Out   Destination
       Port     Info 
0x0001 003 : (Channel Adapter portguid 0x0000000000100001: 'H1')
0x0002 003 : (Switch portguid 0x0000000000200000: 'SW1')
0x0003 000 : (Switch portguid 0x0000000000200001: 'SW2')
0x0004 003 : (Channel Adapter portguid 0x0000000000100003: 'H2')
0x0005 001 : (Channel Adapter portguid 0x0000000000100005: 'H3')
0x0006 002 : (Channel Adapter portguid 0x0000000000100007: 'H4')
6 valid lids dumped 
Unicast lids [0x0-0x6] of switch DR path slid 65535; dlid 65535; 0,1 guid 0x200000 (SW1):
  Lid  Out   Destination
       Port     Info 
0x0000 255 : (path #0 - illegal port)
0x0001 001 : (Channel Adapter portguid 0x0000000000100001: 'H1')
0x0002 000 : (Switch portguid 0x0000000000200000: 'SW1')
0x0003 003 : (Switch portguid 0x0000000000200001: 'SW2')
0x0004 002 : (Channel Adapter portguid 0x0000000000100003: 'H2')
0x0005 003 : (Channel Adapter portguid 0x0000000000100005: 'H3')
0x0006 003 : (Channel Adapter portguid 0x0000000000100007: 'H4')
7 lids dumped 
"""  # noqa: W291 - as the program writes it
FDBS = """\
dump_ucast_routes: Switch 0x0000000000200000
LID    : Port : Hops : Optimal
0x0001 : 001  : 01   : yes
0x0002 : 000  : 00   : yes
0x0003 : 003  : 01   : yes
0x0004 : 002  : 01   : No 1 hop path possible via port 3!
0x0005 : 003  : HOPS UNKNOWN
0x0006 : UNREACHABLE
dump_ucast_routes: Switch 0x0000000000200001
LID    : Port : Hops : Optimal
0x0001 : 003  : 02   : yes
0x0002 : 003  : 01   : yes
0x0003 : 000  : 00   : yes
0x0004 : 003  : 02   : yes
0x0005 : 001  : 01   : yes
0x0006 : 002  : 01   : yes
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "some.lfts"
    path.write_bytes(text.encode())
    return path


def bare(text: str) -> str:
    return "\n".join(line.partition(" #")[0] for line in text.split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        OPENSM,
        OPENSM.replace("\n", "\r\n"),
        DUMP_FTS,
        bare(OPENSM),
        OPENSM.replace("[0-6]", "[0x0-0x6]"),
        OPENSM.replace(" ('SW1'):", ":"),
        OPENSM.replace("switch Lid 2 ", "switch DR path slid 0; dlid 0; 0,1,3 "),
        "# by hand\n\n" + OPENSM.replace("6 lids dumped\n", "") + "\n# the end",
        OPENSM.replace("'SW1'", "'it's (\"SW1\") guid 0x7:'"),
        OPENSM.replace("'H1'", "'portguid 0x99: '"),
        OPENSM.replace(" Channel Adapter portguid", "portguid"),
        OPENSM.replace("0x0005 ", "0x1234 ").replace("0x0003 ", "0x0005 "),
    ],
    ids=[
        "opensm",
        "crlf",
        "dump_fts",
        "bare",
        "hexadecimal range",
        "no switch name",
        "directed path",
        "by hand",
        "odd switch name",
        "odd host name",
        "squeezed",
        "different LIDs",
    ],
)
def test_dumps_of_all_programs_are_read(text: str, tmp_path: Path) -> None:
    fabric = pair()
    routes = read_lfts(fabric, write(tmp_path, text))
    assert routes.table.tolist() == TABLE
    assert (routes.lmc, routes.engine) == (0, "file")
    assert validate(fabric, routes).ok


def test_opensm_fdbs_is_read(tmp_path: Path) -> None:
    table = read_lfts(pair(), write(tmp_path, FDBS)).table
    assert table.tolist() == [*TABLE[:3], [255, 2], *TABLE[4:]]


def test_the_writers_output_equals_opensms() -> None:
    fabric = pair()
    routes = replace(route(fabric, "minhop"), table=np.array(TABLE, dtype=np.uint8))
    assert lft_dump(fabric, routes) == OPENSM


def test_only_lines_without_guids_depend_on_lids(tmp_path: Path) -> None:
    fabric = pair()
    other = replace(
        fabric, lid=np.array([9, 8, 7, 6, 5, 4], np.int32), lmc=np.zeros(6, dtype=np.uint8)
    )
    assert read_lfts(other, write(tmp_path, OPENSM)).table.tolist() == TABLE
    with pytest.raises(InputError, match=r":6: .* the LIDs are not those of pair"):
        read_lfts(other, write(tmp_path, bare(OPENSM)))
    lids = Lids(np.array([1, 4, 5, 6, 2, 3], np.int32), np.zeros(6, dtype=np.uint8))
    assert read_lfts(other, write(tmp_path, bare(OPENSM)), lids=lids).table.tolist() == TABLE
    # If only the first table has GUIDs, the LIDs of the second are taken from the first.
    first, second = OPENSM.split("6 lids dumped\n")[:2]
    mixed = f"{first}6 lids dumped\n{bare(second)}6 lids dumped\n".replace("0x0001 ", "0x0009 ")
    assert read_lfts(fabric, write(tmp_path, mixed)).table.tolist() == TABLE


def test_the_lmc_is_recognised_or_checked(tmp_path: Path) -> None:
    fabric = load("xgft:2;4,4;1,4")
    routes = route(fabric, "minhop", lmc=2)
    assert isinstance(routes, TableRoutes)
    text = lft_dump(fabric, routes)
    again = read_lfts(fabric, write(tmp_path, text))
    assert again.lmc == 2
    adapters = fabric.num_endpoints << 2
    assert np.array_equal(again.table[:adapters], routes.table[:adapters])
    assert np.array_equal(again.table[adapters::4], routes.table[adapters::4])
    assert validate(fabric, again).ok
    stripped = bare(text)
    assert np.array_equal(read_lfts(fabric, write(tmp_path, stripped), lmc=2).table, again.table)
    wider = read_lfts(fabric, write(tmp_path, text), lmc=3)
    assert (wider.table[8 * 3 + 4 : 8 * 3 + 8] == 255).sum() + (
        wider.table[8 * 3 : 8 * 3 + 4] == 255
    ).sum() == 4 * fabric.num_switches
    with pytest.raises(InputError, match="has tables for LMC 2, not for lmc=1"):
        read_lfts(fabric, write(tmp_path, text), lmc=1)
    with pytest.raises(InputError, match="lmc must be 0 to 7, not 9"):
        read_lfts(fabric, write(tmp_path, text), lmc=9)


LINE = "0x0004 002 # Channel Adapter portguid 0x0000000000100003: 'H2'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("spam\n", "is not a dump of forwarding tables"),
        (
            OPENSM.replace("200001 (", "200009 ("),
            "no table of 1 of .*: SW2; .* of unknown switches: SW2",
        ),
        (OPENSM.replace("20000", "20009"), "none of its 2 switches is in pair: SW1, SW2"),
        (OPENSM[: OPENSM.index("Unicast", 9)], "has no table of 1 of the 2 switches of pair: SW2"),
        (OPENSM + OPENSM, ":17: SW1 already has a table in line 1"),
        (
            OPENSM.replace("6 lids", "7 lids", 1),
            ":8: the table of .* has 6 entries, but its last line says",
        ),
        (OPENSM[:-90], ":9: the table of switch 0x0+200001 that begins here has no end"),
        (
            DUMP_FTS.replace("0x0006 002 : ", "# "),
            ":10: .* has 5 entries, but its last line says 6; part",
        ),
        (DUMP_FTS.replace("6 valid", "5 valid"), ":10: .* has 6 entries, but its last line says 5"),
        (OPENSM.replace("6 lids dumped\n", "")[:-1], ":14: the file ends within a line"),
        (OPENSM.replace("0x0004 002", "0x0004 009"), ":5: LID 4 leaves SW1 by port 9, but SW1 has"),
        (OPENSM.replace("0x0004 002", "0x0004 256"), ":5: expected a LID and a port"),
        (OPENSM.replace("0x0004 002", "0x0004 0²"), ":5: expected a LID and a port"),
        (OPENSM.replace("0x0004 002", "0x0004"), ":5: expected a LID and a port, found .0x0004 #"),
        (OPENSM.replace("0x0004 002", "0xc004 002"), ":5: LID 0xc004 is not a unicast LID"),
        (OPENSM.replace("0x0004 002", "0xspam 002"), ":5: expected a LID and a port"),
        (OPENSM.replace("0x0004 002", "0x0004 000"), ":5: LID 4, of H2.1., leaves SW1 by port 0"),
        (OPENSM.replace("0x0002 000", "0x0002 001"), ":3: LID 2, of SW1, leaves SW1 by port 1"),
        (
            OPENSM.replace(LINE, LINE + LINE),
            ":6: LID 4 already has an entry in the table of SW1 in line 5",
        ),
        (OPENSM.replace("100003", "10000g", 1), ":5: expected a LID and a port"),
        (OPENSM.replace("100003", "100001", 1), ":13: LID 4 is of port 0x0+100003 here and"),
        (OPENSM.replace("100003", "100005", 1), ":13: LID 4 is of port 0x0+100003"),
        (OPENSM.replace(" guid ", " uuid "), ":1: expected the GUID of a switch"),
        (LINE + OPENSM, ":1: the entry .0x0004 .* belongs to no switch"),
        ("6 lids dumped\n" + OPENSM, ":1: a count of entries belongs to no switch"),
        (OPENSM.replace("Unicast lids", "Multicast mlids"), ":1: is a dump of multicast tables"),
        (OPENSM.replace("0x00000000001", "0x00000000009"), "none of its 4 ports"),
    ],
)
def test_faulty_dumps_give_an_error_of_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read_lfts(pair(), path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_only_paths_through_a_failed_switch_are_lost(tmp_path: Path) -> None:
    fabric = load("xgft:2;3,3;1,2")
    routes = route(fabric, "minhop")
    path = write(tmp_path, lft_dump(fabric, routes))
    spine = int(np.flatnonzero(fabric.level[: fabric.num_switches] == 2)[0])
    cables = [fabric.port_name(spine, port) for port in range(1, int(fabric.num_ports[spine]) + 1)]
    pulled = validate(fabric.without(cables=cables), read_lfts(fabric.without(cables=cables), path))
    left = fabric.without(switches=[spine])
    with pytest.warns(FormatWarning) as warned:
        routes_left = read_lfts(left, path)
    assert f"1 switches are not in {fabric.name}" in str(warned[0].message)
    report = validate(left, routes_left)
    assert 0 < report.num_unrouted_pairs == pulled.num_unrouted_pairs


def test_lines_and_ports_that_are_skipped_cause_a_warning(tmp_path: Path) -> None:
    noise = "ibwarn: [12] mad_rpc: _do_madrpc failed; dport (Lid 2)\n"
    with pytest.warns(FormatWarning, match=r"2 lines are not part of a table .* line 1: 'ibwarn"):
        routes = read_lfts(pair(), write(tmp_path, noise + OPENSM + noise))
    assert routes.table.tolist() == TABLE
    with pytest.warns(FormatWarning, match="1 ports are not in pair; .*: 0x0000000000999999"):
        routes = read_lfts(pair(), write(tmp_path, OPENSM.replace("100003", "999999")))
    assert routes.table.tolist() == [TABLE[0], [255, 255], *TABLE[2:]]
    path = write(tmp_path, bare(OPENSM).replace("0x0004", "0x004d"))
    with pytest.warns(FormatWarning, match=r"1 LIDs are not of a port of pair; .*: 77"):
        routes = read_lfts(pair(), path)
    assert routes.table[1].tolist() == [255, 255]


def test_tables_of_disconnected_switches_may_be_missing(tmp_path: Path) -> None:
    build = FabricBuilder("split")
    build.switches(["s0", "s1"], ports=2)
    build.hosts(["a", "b"])
    build.connect([2, 3], [0, 1])
    fabric = build.fabric()
    text = lft_dump(fabric, route(fabric, "minhop"))
    assert text.count("Unicast") == 1
    with pytest.warns(
        FormatWarning, match="has no table of 1 switches that are not connected to the others: s1"
    ):
        assert read_lfts(fabric, write(tmp_path, text)).table[:, 1].tolist() == [255] * 4


def test_fabrics_that_opensm_tables_cannot_describe_are_refused(tmp_path: Path) -> None:
    build = FabricBuilder("relays")
    build.switches(["s"])
    build.hosts(["a", "b"], forwards=True)
    build.connect([1, 2], [0, 0])
    fabric = build.fabric()
    routes = route(fabric, "minhop")
    with pytest.raises(NotApplicable, match="2 hosts of relays forward, for example a, but OpenSM"):
        lft_dump(fabric, routes)
    with pytest.raises(NotApplicable, match="2 hosts of relays forward"):
        read_lfts(fabric, write(tmp_path, OPENSM))
    star = FabricBuilder("star")
    star.switches(["s"], ports=300)
    star.connect([0], star.hosts(["a"]), a_ports=[300])
    with pytest.raises(NotApplicable, match="s has 300 ports"):
        lft_dump(star.fabric(), route(star.fabric(), "minhop"))
    fabric = pair()
    routes = route(fabric, "minhop")
    with pytest.raises(InputError, match=r"H1\[1\] has LMC 1, but the routes are for LMC 0"):
        lft_dump(fabric, routes, lids=predict_lids(fabric, lmc=1))
    twice = Lids(np.array([1, 2, 3, 4, 5, 3], np.int32), np.zeros(6, np.uint8))
    with pytest.raises(InputError, match=r"H3\[1\] and SW2 both have LID 3"):
        lft_dump(fabric, routes, lids=twice)


def test_the_engine_reads_the_file_and_requires_one(tmp_path: Path) -> None:
    fabric = pair()
    path = write(tmp_path, OPENSM)
    routes = route(fabric, f"file:lfts_file={path}")
    assert isinstance(routes, TableRoutes)
    assert routes.table.tolist() == TABLE
    assert routes.options["lfts_file"] == str(path)
    assert str(path) in routes.notes[0]
    with pytest.raises(NotApplicable, match="file: needs the file with the tables"):
        route(fabric, "file")
    with pytest.raises(InputError, match=r"nothing\.lfts: cannot be read"):
        route(fabric, "file", lfts_file=str(tmp_path / "nothing.lfts"))


@pytest.mark.parametrize("chunk", [1, 40, 69, 70, 71, 500])
def test_files_are_read_in_parts_of_any_length(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.routing.opensm.lft_lines._CHUNK", chunk)
    assert read_lfts(pair(), write(tmp_path, OPENSM)).table.tolist() == TABLE
    with pytest.raises(
        InputError, match=r":16: the table of .* has 6 entries, but its last line says 8"
    ):
        read_lfts(pair(), write(tmp_path, OPENSM[: -len("6 lids dumped\n")] + "8 lids dumped\n"))


def test_dumps_of_opensm_are_read_at_once_and_as_line_by_line(tmp_path: Path) -> None:
    fabric = load("xgft:2;4,4;1,4").without(cables=["s1-0[5]"])
    routes = route(fabric, "minhop", lmc=2)
    assert isinstance(routes, TableRoutes)
    table = routes.table.copy()
    table[5:9, 2] = routes.no_path  # such as a host that a switch does not reach
    routes = replace(routes, table=table)
    lids = predict_lids(fabric, lmc=2)
    data = lft_dump(fabric, routes, lids=lids).encode()
    form = lft_form(fabric, lids, 2)
    dice = random.Random(1)
    found = {True: 0, False: 0}
    for tried in range(600):
        changed = bytearray(data)
        if tried:
            at = dice.randrange(len(data))
            begin = data.rfind(b"\n", 0, at) + 1
            match dice.randrange(3):
                case 0:
                    changed[at] = dice.choice(b"0123456789abcdef \n#x")
                case 1:
                    changed[begin + dice.randrange(10)] = dice.choice(b"0123456789")
                case 2:  # a line is gone, or there twice
                    line = data[begin : data.find(b"\n", at) + 1]
                    changed[begin : begin + len(line)] = line * dice.choice([0, 2])
        path = write(tmp_path, changed.decode())
        read = form.read(bytes(changed))
        found[read is not None] += 1
        if read is not None:
            slow = _Resolver(fabric, parse_dump(changed.decode(), str(path)), str(path))
            assert np.array_equal(read.table, slow.routes(lids, 2).table)
            assert np.array_equal(read_lfts(fabric, path, lids=lids, lmc=2).table, read.table)
    assert min(found.values()) > 50, found
    for line in (5, 9):  # tables of equal length that lack different LIDs
        table = routes.table.copy()
        table[line, 1] = routes.no_path
        read = form.read(form.written(replace(routes, table=table)))
        assert read is not None
        assert read.table[:64].tolist() == table[:64].tolist()
