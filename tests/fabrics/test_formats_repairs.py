"""Files that are repaired, and files whose format is recognised and not read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reading import reader_of

from weft.cli import main
from weft.core.errors import InputError
from weft.fabrics import Fabric, rate_text
from weft.fabrics.formats import FormatWarning, read_file
from weft.fabrics.formats.signatures import BOOKSIM, SIGNATURES, signature
from weft.fabrics.load import fabric as load

read_list = reader_of("opensm-subnet")

read = reader_of("ibnetdiscover")

LISTING = """\
switchguid=0x2(2)
Switch\t4 "S-0000000000000002"\t\t# "sw" base port 0 lid 1 lmc 0
[1]\t"H-0000000000000010"[1](11) \t\t# "a" lid 2{}

caguid=0x10
Ca\t1 "H-0000000000000010"\t\t# "a"
[1](11) \t"S-0000000000000002"[1]\t\t# lid 2 lmc 0 "sw" lid 1{}
"""
END = (
    "{{ {} Ports:0{} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{:016x} VenID:000002c9 "
    "DevID:{} Rev:000000a1 {{{}}} LID:{:04x} PN:{:02x} }}"
)


def rates(fabric: Fabric) -> list[str]:
    pairs = zip(fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True)
    return [rate_text(*pair) for pair in pairs]


# -- rates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "rate", "warning"),
    [
        # What one end does not know, the other does.
        (" 4x???", " 4xEDR", "4xEDR", ""),
        (" 4x???", " ??EDR", "4xEDR", ""),
        (" ?????", " 1xQDR", "1xQDR", ""),
        ("", " 1xQDR", "1xQDR", ""),
        # Half of the assumed 4xHDR.
        (" 1x???", " 1x???", "1xHDR", "1 of 1 cables have a rate without width or without speed;"),
        (" 12x???", "", "12xHDR", "that of 4xHDR is assumed; they are in line 3"),
        (" ??EDR", " ??EDR", "4xEDR", "that of 4xHDR is assumed"),
        (" ?xFDR10", " ?xFDR10", "4xFDR10", "that of 4xHDR is assumed"),
        (" ?????", " ???", "4xHDR", "1 of 1 cable without a rate; 4xHDR is assumed"),
        (" EDR", " EDR", "4xEDR", ""),
        # Ends that disagree.
        (" 4xHDR", " 1xHDR", "1xHDR", r"S-0{15}2\[1\] 4xHDR in line 3 and .* 1xHDR in line 7"),
        (" 1xHDR", " 4xSDR", "4xSDR", "the ends of 1 of 1 cables have different rates; the lower"),
        (" 4x???", " 1xHDR", "1xHDR", "different rates"),
    ],
)
def test_the_known_part_of_a_rate_is_kept(one: str, other: str, rate: str, warning: str) -> None:
    text = LISTING.format(one, other)
    if warning:
        with pytest.warns(FormatWarning, match=warning) as caught:
            assert rates(read(text, "f")) == [rate]
        assert len(caught) == 1
    else:
        assert rates(read(text, "f")) == [rate]


def test_the_assumed_half_is_that_of_the_option() -> None:
    with pytest.warns(FormatWarning, match="that of 12xNDR is assumed"):
        assert rates(read(LISTING.format(" 4x???", ""), "f", rate="12xNDR")) == ["4xNDR"]
    with pytest.warns(FormatWarning, match="without a rate; 37 is assumed"):
        assert rates(read(LISTING.format(" 4x???", ""), "f", rate="37")) == ["37 Gb/s"]


@pytest.mark.filterwarnings("default::weft.fabrics.formats.FormatWarning")
def test_options_of_a_reader_are_part_of_the_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "f.topo"
    path.write_text(LISTING.format("", ""))
    with pytest.warns(FormatWarning, match="4xNDR is assumed"):
        assert rates(load(path, format="ibnetdiscover:rate=4xNDR")) == ["4xNDR"]
    assert main(["info", str(path), "--format", "ibnetdiscover:rate=1xEDR"]) == 0
    out, err = capsys.readouterr()
    assert "1 × 1xEDR" in out
    assert "1xEDR is assumed" in err
    with pytest.raises(InputError, match="'ibnetdiscover' has no option 'rat'"):
        load(path, format="ibnetdiscover:rat=4xNDR")
    with pytest.raises(InputError, match="rate is also given as an option"):
        read_file(path, "ibnetdiscover:rate=4xNDR", rate="4xHDR")


# -- terminal sessions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[root@node1 ~]# ibnetdiscover\n", "[root@node1 ~]#"),
        ("root@node1:/etc/x y# ibnetdiscover\n", "root@node1:/etc/x y# exit\nlogout\n"),
        ("node1:~ # ibnetdiscover\n", "node1:~ # \n"),
        ("bash-5.1$ ibnetdiscover\n", "bash-5.1$ "),
        ("(base) [me@node1 ~]$ sudo ibnetdiscover\n[sudo] password for me: \n", ""),
        ("$ ssh node1\nLast login: Mon Jan  5 10:00:00 2026 from host\n% ibnetdiscover\n", ""),
        ("=~=~=~=~= PuTTY log 2026.01.05 10:00:00 =~=~=~=~=\nlogin as: me\nn1> show\n", "n1> "),
        ("Script started on 2026-01-05\n❯ ibnetdiscover\n", "❯ exit\n\nScript done on 2026\n"),
        ("PS C:\\Users\\me> ssh n1 ibnetdiscover\n", "PS C:\\Users\\me>"),
        ("\x1b[?2004h[me@n1 ~]$ ibnetdiscover\r\n\x1b[?2004l\r", "\x1b]0;n1\x07[me@n1 ~]$ "),
    ],
)
def test_a_terminal_session_around_a_capture_is_left_out(
    before: str, after: str, tmp_path: Path
) -> None:
    listing = LISTING.format(" 4xEDR", " 4xEDR")
    comments = "#\n# Topology file: generated\n"
    path = tmp_path / "capture"
    for text in (before + listing + after, before + comments + listing + after):
        path.write_text(text, newline="")
        with pytest.warns(FormatWarning, match=r"left out: \d lines? of a terminal session \('"):
            assert load(path).digest == read(listing, "f").digest


@pytest.mark.parametrize("text", ["[root@node1 ~]# ls\n", "lost line\n", '"sw" lid 1 4xEDR\n'])
def test_no_line_within_a_listing_is_left_out(text: str, tmp_path: Path) -> None:
    lines = LISTING.format(" 4xEDR", " 4xEDR").splitlines(keepends=True)
    path = tmp_path / "f.topo"
    path.write_text("".join([*lines[:4], text, *lines[4:]]))
    with pytest.raises(InputError, match=r"f.topo:5: expected a record of ibnetdiscover"):
        load(path)


def test_lines_keep_their_numbers_after_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "f.topo"
    path.write_text("$ ibnetdiscover\n" + LISTING.format(" 4xFOO", ""))
    with (
        pytest.warns(FormatWarning, match="1 line of a terminal session"),
        pytest.raises(InputError, match=r"f\.topo:4: unknown rate '4xFOO'"),
    ):
        load(path)


def test_prompts_around_a_node_name_map_are_left_out(tmp_path: Path) -> None:
    path, names = tmp_path / "f.topo", tmp_path / "names"
    path.write_text(LISTING.format(" 4xEDR", " 4xEDR"))
    names.write_text('[a@b ~]$ cat names\n0x2 "leaf 1"\n[a@b ~]$\n')
    with pytest.warns(FormatWarning, match="2 lines of a terminal session"):
        assert load(path, names=names).node_names == ("leaf 1", "a")


# -- opensm-subnet.lst -----------------------------------------------------------------------------


def listed(speed: str, case: str = "lower") -> str:
    """Return a list of one cable in lower or upper case, with comments."""
    host = END.format("CA", 1, 0x10, 0x10, 0x11, "1003", "node1 HCA-1", 0xA, 1)
    switch = END.format("SW", 8, 2, 2, 2, "c738", "leaf0", 2, 0x1F).replace("Ports:08", "Ports:24")
    lines = [f"{host} {switch}", f"{switch} {host}"]
    if case == "upper":
        lines = [
            line.replace("1f", "1F").replace("0a", "0A").replace("c738", "C738") for line in lines
        ]
    return "# made by a program\n\n" + "".join(f"{line} PHY=4x LOG=ACT{speed}\n" for line in lines)


@pytest.mark.parametrize("case", ["lower", "upper"])
def test_a_list_is_read_in_lower_and_upper_case(case: str, tmp_path: Path) -> None:
    path = tmp_path / "unnamed"
    path.write_text(listed(" SPD=10", case))
    fabric = load(path)
    assert rates(fabric) == ["4xQDR"]
    assert fabric.node_names == ("leaf0", "node1")
    assert sorted(fabric.lid.tolist()) == [2, 10]
    assert fabric.link_from_port.tolist() == [0x1F, 1]
    assert fabric.device_id.tolist() == [0xC738, 0x1003]


@pytest.mark.parametrize("speed", ["", " SPD=?"])
def test_a_list_without_speeds_has_those_of_the_option(speed: str) -> None:
    with pytest.warns(FormatWarning, match="1 of 1 cables have a rate without width or without sp"):
        assert rates(read_list(listed(speed), "f", rate="1xEDR")) == ["4xEDR"]


# -- formats that are not read ---------------------------------------------------------------------

OTHER = {
    "a topology file of Slurm": "# tree\nSwitchName=s0 Nodes=n[0-3]\n",
    "platform of SimGrid": "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"simgrid.dtd\">\n",
    "GraphML": '<?xml version="1.0"?>\n<graphml>\n',
    "Graphviz": 'graph "x" {\n  rankdir=BT;\n',
    "a cable plan": "#Fields:StartDevice,StartPort,EndDevice,EndPort,LinkType\n",
    "dump of forwarding tables": "Unicast lids [0-6] of switch Lid 2 guid 0x0000000000200000:\n",
    "adaptive routing tables": "File version: 1\nSwitch 0x0000000000200000\nGroups Definition:\n",
    "SL to VL tables": "0x0000000000200000 1 2 0x01 0x23 0x45 0x67 0x01 0x23 0x45 0x67\n",
    "port counters": "-----\nPort=1 Lid=0x0004 GUID=0x0000000000200000 Device=1 Port Name=a/U1/1\n",
    "list of LIDs": "0x0000000000100001 0x0001 0x0001\n\n",
    "a log of OpenSM": "Nov 27 10:57:57 576255 [4675FC40] 0x03 -> OpenSM 3.3.23\n",
    "a QoS policy": "qos-ulps\nend-qos-ulps\nqos-levels\n",
    "a configuration of OpenSM": "# OpenSM\nrouting_engine updn\n",
    "a matrix of hops": "Switch: guid 0x0000000000200000\n0x0002: 00 ff # portguid\n",
    "multicast tables": "Switch 0x0000000000200000\nLID    : Out Port(s)\n0xC000 : 0x001\n",
    "SHARP's settings": "-----\nSW_GUID=0x0000000000200000\nendianness = 0\n",
    "output of perfquery": "# Port extended counters: Lid 7 port 1\nPortSelect:....1\n",
    "output of ibqueryerrors": 'Errors for "node1 HCA-1"\n   GUID 0x1 port 1: [VL15Dropped == 4]\n',
    "Prometheus text": 'node_infiniband_vl15_dropped_total{device="mlx5_0",port="1"} 0\n',
    "a file of ibdiagnet2": "# This database file was automatically generated by IBDIAG\n",
    "a workload": "# two ranks\n0 init\n1 init\n",
    "a configuration file of BookSim": "// torus\ntopology = torus;\nk = 4;\n",
}


@pytest.mark.parametrize("name", OTHER)
def test_an_error_names_the_format_and_what_to_give_instead(name: str, tmp_path: Path) -> None:
    found = signature(OTHER[name])
    assert found is not None
    assert name in found.name
    path = tmp_path / "other"
    path.write_text(OTHER[name])
    with pytest.raises(InputError) as caught:
        load(path)
    assert caught.value.message == f"is {found.name}; {found.instead}"


def test_every_signature_has_an_example() -> None:
    assert {signature(text) for text in OTHER.values()} == set(SIGNATURES)


@pytest.mark.parametrize(
    ("text", "is_booksim"),
    [
        ("k = 8; n = 2; // a torus\r\n", True),
        ("x = 1\nprint('a;')\n", False),
        ("def f(a: str) -> str:\n    b = a\n    return 'b; c'\n", False),
        ("# Notes\n\nx = the number of cables\n\nIt is large; see below.\n", False),
        ("text = 'a; b'\n", False),
    ],
)
def test_only_assignments_that_fill_a_line_are_those_of_booksim(
    text: str, is_booksim: bool
) -> None:
    assert (signature(text) is BOOKSIM) == is_booksim


def test_no_file_that_is_read_has_a_signature() -> None:
    assert signature(LISTING) is None
    assert signature(listed(" SPD=10")) is None


# -- the cases that showed these faults ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("captured_with_prompt.txt", {}, ["4xHDR", "4xEDR"]),
        ("director.ibnetdiscover", {"names": "director_names.map"}, ["4xDDR"] * 3),
        ("ibdiagnet2_lowercase.lst", {}, ["4xQDR"]),
        ("no_rates.ibnetdiscover", {"format": "ibnetdiscover:rate=4xNDR"}, ["4xNDR"] * 2),
        ("rate_disagrees.ibnetdiscover", {}, ["1xHDR", "4xEDR"]),
        ("ports_report.txt", {}, ["4xHDR"]),
        ("unknown_speed.ibnetdiscover", {}, ["4xHDR", "4xEDR"]),
    ],
)
@pytest.mark.filterwarnings("ignore::weft.fabrics.formats.FormatWarning")
def test_small_files_of_public_reports_are_read(
    shared: Path, name: str, options: dict[str, str], expected: list[str]
) -> None:
    cases = shared / "cases"
    if "names" in options:
        options = {"names": str(cases / options["names"])}
    assert rates(load(cases / name, **options)) == expected  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::weft.fabrics.formats.FormatWarning")
def test_no_file_of_the_evidence_ends_in_a_traceback(shared: Path) -> None:
    for path in sorted(shared.glob("evidence/**/*.*")):
        try:
            read_file(path)
        except InputError as error:
            assert error.file == str(path)  # noqa: PT017
