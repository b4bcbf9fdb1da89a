"""`weft check`: what it says of each kind of difference, and of plans that it cannot compare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import weft
from weft.advice.plan_check.check import CHECK_COLUMNS, KINDS
from weft.cli import main
from weft.fabrics.formats.cable_plan import read_plan

HEAD = "from_node,from_port,from_rack,to_node,to_port,to_rack,rate\n"
Cable = tuple[str, str]


def fabric_of(
    cables: list[Cable], rate: str = "4xHDR", guid: int = 0, more: Iterable[str] = ()
) -> weft.Fabric:
    """Return a fabric of cables such as ``("leaf1[2]", "h1[1]")``; hosts have names with an h.

    `guid`: first of the GUIDs; 0 for those of a fabric without any. `more`: nodes without cables.
    """
    ends = [
        [(text.partition("[")[0], int(text.rpartition("[")[2][:-1])) for text in cable]
        for cable in cables
    ]
    names = sorted({name for pair in ends for name, _ in pair} | set(more))
    build = weft.FabricBuilder("found", rate=rate)
    number = {}
    for kind, add in ((False, build.switches), (True, build.hosts)):
        mine = [name for name in names if name.startswith("h") == kind]
        number |= dict(zip(mine, add(mine, ports=[40] * len(mine)).tolist(), strict=True))
    (a, p), (b, q) = (
        ([number[pair[end][0]] for pair in ends], [pair[end][1] for pair in ends]) for end in (0, 1)
    )
    build.connect(a, b, a_ports=p, b_ports=q)
    fabric = build.fabric()
    if not guid:
        return fabric
    return replace(fabric, node_guid=np.arange(fabric.num_nodes, dtype=np.uint64) * 256 + guid)


def plan_of(cables: list[Cable], rate: str = "4xHDR", racks: dict[str, str] | None = None) -> str:
    rows = []
    for cable in cables:
        cells = []
        for text in cable:
            name, _, port = text.removesuffix("]").rpartition("[")
            cells += [name, port, (racks or {}).get(name, "")]
        rows.append(",".join([*cells, rate]))
    return HEAD + "\n".join(rows) + "\n"


@pytest.fixture
def compared(capsys, tmp_path: Path, monkeypatch):
    """Return a function that runs the command on a plan and a fabric.

    It returns the status, and kind, place and action (of readings: text) of each difference.
    """
    monkeypatch.chdir(tmp_path)

    def run(plan: str | weft.Fabric, found: weft.Fabric, *words: str):
        weft.write_fabric(found, "found.ibnetdiscover")
        name = "plan.csv"
        if isinstance(plan, str):
            Path(name).write_text(plan)
        else:
            weft.write_fabric(plan, name := "old.ibnetdiscover")
        status = main(["check", name, "found.ibnetdiscover", "--json", *words])
        out, err = capsys.readouterr()
        assert not err, err
        result = json.loads(out)
        rows = {row["number"]: row for row in reversed(result["differences"])}
        say = "text" if result["readings"] else "action"
        return (
            status,
            [
                (row["kind"], row["severity"], row["node"], row["port"], row[say])
                for _, row in sorted(rows.items())
            ],
            result,
        )

    return run


#: A leaf with two hosts and two uplinks, and another one.
CABLES = [
    ("leaf1[1]", "h1[1]"), ("leaf1[2]", "h2[1]"), ("leaf2[1]", "h3[1]"), ("leaf2[2]", "h4[1]"),
    ("leaf1[11]", "spine1[1]"), ("leaf1[12]", "spine2[1]"),
    ("leaf2[11]", "spine1[2]"), ("leaf2[12]", "spine2[2]"),
]  # fmt: skip
RACKS = {
    "leaf1": "B1",
    "leaf2": "B2",
    "h1": "B1",
    "h2": "B1",
    "h3": "B2",
    "h4": "B2",
    "spine1": "A1",
    "spine2": "A1",
}


def rewired(*changes: Cable | tuple[int, Cable | None]) -> list[Cable]:
    """Return the cables with other ones at some positions, without some, or with more."""
    cables: list[Cable | None] = list(CABLES)
    for change in changes:
        if isinstance(change[0], int):
            cables[change[0]] = change[1]  # type: ignore[call-overload]
        else:
            cables.append(change)  # type: ignore[arg-type]
    return [cable for cable in cables if cable]


def test_a_plan_that_is_kept(compared) -> None:
    status, differences, result = compared(plan_of(CABLES), fabric_of(CABLES))
    assert (status, differences, result["same_cables"]) == (0, [], 8)
    assert result["notes"] == []


@pytest.mark.parametrize(
    ("cables", "difference"),
    [
        (
            rewired((4, ("leaf1[11]", "spine2[1]")), (5, ("leaf1[12]", "spine1[1]"))),
            # At one device rather than at two, though they are in one rack, too.
            (
                "swapped cables", "warning", "leaf1", 11,
                "exchange the plugs in leaf1[11] and leaf1[12]",
            ),
        ),
        (
            rewired((4, ("leaf1[11]", "spine2[2]")), (7, ("leaf2[12]", "spine1[1]"))),
            # In one rather than in two racks.
            (
                "swapped cables", "error", "spine1", 1,
                "exchange the plugs in spine1[1] and spine2[2]",
            ),
        ),
        (
            rewired((0, ("leaf1[5]", "h1[1]"))),
            ("moved cables", "warning", "leaf1", 5, "move the plug in leaf1[5] to leaf1[1]"),
        ),
        (
            rewired((0, ("leaf2[5]", "h1[1]"))),
            ("moved cables", "error", "leaf2", 5, "move the plug in leaf2[5] to leaf1[1] in B1"),
        ),
        (
            rewired((0, ("leaf1[2]", "h1[1]")), (1, ("leaf1[3]", "h2[1]"))),
            (
                "moved cables", "warning", "leaf1", 2,
                "move the plugs in this order: leaf1[2] to leaf1[1], leaf1[3] to leaf1[2]",
            ),
        ),
        (
            rewired(
                (0, ("leaf1[2]", "h1[1]")), (1, ("leaf1[12]", "h2[1]")),
                (5, ("leaf1[1]", "spine2[1]")),
            ),
            (
                "moved cables", "warning", "leaf1", 1,
                "move the plugs in a circle: leaf1[1] to leaf1[12], leaf1[12] to leaf1[2], "
                "leaf1[2] to leaf1[1]",
            ),
        ),
        (
            rewired((4, ("leaf1[13]", "spine1[3]"))),
            (
                "moved cables", "warning", "spine1", 3,
                "move both plugs: spine1[3] to spine1[1], leaf1[13] to leaf1[11]",
            ),
        ),
        (
            rewired((4, None)),
            (
                "missing cable", "error", "spine1", 1,
                "connect the cable to leaf1[11] in B1 (both ports have no link)",
            ),
        ),
        (
            rewired(("leaf1[9]", "leaf2[9]")),
            (
                "additional cable", "warning", "leaf1", 9,
                "unplug the cable to leaf2[9] in B2, or add it to the plan",
            ),
        ),
        (
            rewired(("leaf1[9]", "spine3[1]"), ("leaf2[9]", "spine3[2]")),
            ("additional device", "warning", "spine3", 1, "add it to the plan, or remove it"),
        ),
        (
            [(a.replace("spine1", "spine9"), b.replace("spine1", "spine9")) for a, b in CABLES][:5]
            + CABLES[5:6] + CABLES[7:],
            (
                "absent device", "error", "spine1", 1,
                "check its power, name and cables (2 planned cables: leaf1[11], leaf2[11])",
            ),
        ),
    ],
)  # fmt: skip
def test_each_kind_of_difference(compared, cables: list[Cable], difference: tuple) -> None:
    status, differences, result = compared(plan_of(CABLES, racks=RACKS), fabric_of(cables))
    assert differences[0] == difference
    assert {each[0] for each in differences[1:]} <= {"additional device"}
    assert status == 1
    assert result["planned_cables"] == 8


def test_racks_come_before_names_in_the_list(compared) -> None:
    found = fabric_of(rewired((0, None), (2, None), (4, None), (7, None)), more=["h1", "h3"])
    _, differences, _ = compared(plan_of(CABLES, racks=RACKS | {"leaf2": "A2"}), found)
    assert [(node, port) for _, _, node, port, _ in differences] == [
        ("spine1", 1), ("spine2", 2), ("leaf2", 1), ("h1", 1),
    ]  # fmt: skip


def test_shifts_and_exchanged_devices_are_one_difference(compared) -> None:
    plan = [(f"leaf1[{at}]", f"h{at}[1]") for at in range(1, 13)]
    plan += [(f"leaf2[{at}]", f"h{at + 20}[1]") for at in range(1, 13)]
    shifted = [(f"leaf1[{at + 2 * (at > 4)}]", f"h{at}[1]") for at in range(1, 13)]
    del shifted[8]  # a missing cable does not break the shift
    _, differences, _ = compared(plan_of(plan), fabric_of(shifted + plan[12:], more=["h9"]))
    assert differences == [
        (
            "missing cable", "error", "h9", 1,
            "connect the cable to leaf1[9] (leaf1[9] has another cable now)",
        ),
        (
            "shifted cables", "warning", "leaf1", 7,
            "move the plugs in leaf1[7-10,12-14] 2 ports down",
        ),
    ]  # fmt: skip
    turned = [(f"leaf1[{at % 12 + 1}]", f"h{at}[1]") for at in range(1, 13)]
    _, differences, _ = compared(plan_of(plan), fabric_of(turned + plan[12:]))
    assert differences == [
        (
            "shifted cables", "warning", "leaf1", 1,
            "move the plugs in leaf1[2-12] 1 port down, and leaf1[1] to leaf1[12]",
        )
    ]  # fmt: skip
    other = [
        (
            a.translate(
                str.maketrans("12", "21"),
            )
            if a[4] in "12"
            else a,
            b,
        )
        for a, b in plan
    ]
    other = [(f"leaf{3 - int(a[4])}{a[5:]}", b) for a, b in plan]
    _, differences, result = compared(plan_of(plan), fabric_of(other))
    assert differences == [
        (
            "exchanged devices", "error", "leaf1", 1,
            "exchange the plugs of leaf1 and leaf2, or the devices",
        )
    ]  # fmt: skip
    assert len(result["differences"]) == 24
    # Two are a coincidence.
    few = plan[:2] + plan[12:14]
    _, differences, _ = compared(plan_of(few), fabric_of(other[:2] + other[12:14]))
    assert [each[0] for each in differences] == ["swapped cables", "swapped cables"]


@pytest.mark.parametrize(
    ("planned", "found", "kind"),
    [
        ("4xHDR", "2xHDR", "narrower cable"),
        ("4xHDR", "4xEDR", "slower cable"),
        ("4xHDR", "1xEDR", "slower cable"),
        ("4xEDR", "4xHDR", "faster cable"),
        ("100", "4xHDR", "faster cable"),
        ("200000", "1xHDR", "narrower cable"),
        ("200", "4xFDR", "slower cable"),
        ("40000", "4xQDR", None),
        ("56", "4xFDR", None),
        ("2xHDR", "4xEDR", None),
        ("", "1xSDR", None),
    ],
)
def test_rates(compared, planned: str, found: str, kind: str | None) -> None:
    status, differences, result = compared(plan_of(CABLES, planned), fabric_of(CABLES, found))
    assert {each[0] for each in differences} == ({kind} if kind else set())
    assert len(differences) == (8 if kind else 0)
    assert status == (kind not in ("faster cable", None))
    assert result["notes"] == ([] if planned else ["no rate in the plan for 8 cables"])


def test_two_readings_are_compared_by_guid(compared) -> None:
    old = fabric_of(CABLES, guid=0x5000_0000_0000_0000)
    found = fabric_of(
        rewired((0, ("leaf1[3]", "h1[1]")), (5, None), ("leaf1[8]", "spine1[8]")),
        guid=0x5000_0000_0000_0000,
    )
    names = ["new" if name == "h4" else name for name in found.node_names]
    guids = found.node_guid.copy()
    guids[found.find_node("h3")] += np.uint64(7)
    found = replace(found, node_names=tuple(names), descriptions=tuple(names), node_guid=guids)
    status, differences, result = compared(old, found)
    assert result["readings"]
    assert [(kind, severity, text) for kind, severity, _, _, text in differences] == [
        (
            "replaced device", "note",
            "h3 has another GUID: 0x5000000000000607, not 0x5000000000000600",
        ),
        ("moved cables", "warning", "h1[1] leads to leaf1[3], not leaf1[1]"),
        ("additional cable", "warning", "leaf1[8] -- spine1[8] is new"),
        ("missing cable", "error", "no link leaf1[12] -- spine2[1]"),
        ("renamed device", "note", "h4 is now new"),
    ]  # fmt: skip
    assert status == 1


@pytest.mark.parametrize("order", [1, -1])
def test_hosts_of_an_absent_leaf_switch_are_listed_with_it(compared, order: int) -> None:
    old = fabric_of(CABLES[::order], guid=0x5000_0000_0000_0000)
    found = fabric_of([each for each in CABLES if "leaf1" not in each[0]], guid=1 << 60)
    guids = [int(old.node_guid[old.find_node(name)]) for name in found.node_names]
    _, differences, result = compared(old, replace(found, node_guid=np.array(guids, np.uint64)))
    assert [each[:3] for each in differences] == [("absent device", "error", "leaf1")]
    assert differences[0][4].startswith("leaf1 was not found (4 earlier cables: ")
    assert {row["peer_node"] for row in result["differences"]} == {"h1", "h2", "spine1", "spine2"}


def test_names_of_chassis_adapters_and_in_other_case(compared) -> None:
    found = fabric_of(
        [("leaf[1]", "a[5]"), ("leaf[2]", "b[6]"), ("a[30]", "s[1]"), ("b[30]", "s[2]"),
         ("leaf[3]", "h1[1]"), ("leaf[4]", "h2[1]"), ("leaf[5]", "h3[1]")]
    )  # fmt: skip
    names = {
        "leaf": "MF0;Leaf 1:MQM8700/U1", "a": "MF0;dir:CS8500/L01/U1", "b": "MF0;dir:CS8500/L01/U2",
        "s": "MF0;dir:CS8500/S01/U1", "h1": "n1 mlx5_0", "h2": "n1 mlx5_1", "h3": "n2 HCA-1",
    }  # fmt: skip
    texts = tuple(names[name] for name in found.node_names)
    guids = np.arange(found.num_nodes, dtype=np.uint64) + 0x5000_0000_0000_0000
    found = replace(found, node_names=texts, descriptions=texts, node_guid=guids)
    plan = (
        f"{HEAD}LEAF1,1,,dir,Blade 1_Port 1/5,,\nLEAF1,2,,DIR,blade 01_port 2/6,,\n"
        "LEAF1,3,,n1,mlx5_0,,\nLEAF1,4,,n1,1,,\n"
    )
    _, differences, result = compared(plan, found)
    assert result["same_cables"] == 3
    assert [each[0] for each in differences] == [*["additional device"] * 2, "unknown rows"]
    assert "has the adapters" in result["differences"][-1]["text"]
    assert result["differences"][-1]["line"] == 5
    assert "not compared: 2 cables inside a chassis" in result["notes"]
    assert any(
        note.startswith("2 names of the plan fit only without regard to case")
        for note in result["notes"]
    )


def test_hosts_count_only_if_the_plan_names_one(compared) -> None:
    status, differences, result = compared(plan_of(CABLES[4:]), fabric_of(CABLES))
    assert (status, differences) == (0, [])
    assert result["notes"] == ["not compared: 4 cables to hosts, of which the plan names none"]
    status, differences, _ = compared(plan_of(CABLES[3:]), fabric_of(CABLES))
    assert [each[0] for each in differences] == ["additional device"] * 3


def test_rows_that_are_not_understood_are_listed_with_their_lines(compared) -> None:
    plan = plan_of([*CABLES, ("leaf1[11]", "h9[1]"), ("leaf1[x]", "h9[1]")])
    status, differences, result = compared(plan, fabric_of(CABLES))
    assert [(row["line"], row["text"]) for row in result["differences"]] == [
        (10, "leaf1[11] has another cable in line 6"), (11, "the port 'x' is not understood"),
    ]  # fmt: skip
    assert [each[:2] for each in differences] == [("unknown rows", "warning")]
    assert status == 1
    assert compared(plan, fabric_of(CABLES), "--fail-on", "error")[0] == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_differences_are_written_with_their_columns(compared, suffix: str) -> None:
    found = fabric_of(rewired((0, None), (6, ("leaf2[13]", "spine1[2]"))), more=["h1"])
    compared(plan_of(CABLES, racks=RACKS), found, "--out", f"out{suffix}")
    path = Path(f"out{suffix}")
    table = pl.read_parquet(path) if suffix == ".parquet" else pl.read_csv(path)
    assert list(table.columns) == list(CHECK_COLUMNS)
    assert table["kind"].to_list() == ["missing cable", "moved cables"]
    assert set(table["kind"]) <= set(KINDS)
    assert table.row(1, named=True) == {
        "number": 2, "kind": "moved cables", "severity": "warning", "line": 8, "rack": "B2",
        "unit": None, "node": "leaf2", "port": 13, "right_rack": "B2", "right_node": "leaf2",
        "right_port": 11, "peer_rack": "A1", "peer_node": "spine1", "peer_port": 2,
        "planned_gbps": None, "found_gbps": None,
        "text": "spine1[2] leads to leaf2[13], not leaf2[11]",
        "action": "move the plug in leaf2[13] to leaf2[11]",
    }  # fmt: skip


def test_the_list_on_the_screen(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.csv").write_bytes(b"\xff\xfe" + plan_of(CABLES, racks=RACKS).encode("utf-16-le"))
    found = fabric_of(rewired((0, None), (6, ("leaf2[13]", "spine1[2]"))), more=["h1"])
    weft.write_fabric(found, "found.net")
    assert main(["check", "plan.csv", "found.net"]) == 1
    out, _ = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip()]
    assert lines == [
        "plan.csv: 8 cables planned; found.net: 7 found; 6 the same",
        "1 × missing cable; 1 × moved cables",
        "rack port difference to do",
        lines[3],
        "1 B1 h1[1] missing cable connect the cable to leaf1[1] (both ports have no link)",
        "2 B2 leaf2[13] moved cables move the plug in leaf2[13] to leaf2[11]",
    ]
    Path("other.csv").write_text(plan_of([("x[1]", "y[1]")]))
    assert main(["check", "other.csv", "found.net"]) == 2
    assert capsys.readouterr().err.startswith(
        "weft: error: no device of other.csv occurs in found.net, by GUID or by name: x, y are "
    )
    Path("plan.xlsx").write_bytes(b"PK\3\4")
    assert main(["check", "plan.xlsx", "found.net"]) == 2
    assert capsys.readouterr().err == (
        "weft: error: plan.xlsx: is a workbook; export its sheet as CSV\n"
    )
    assert main(["check", "found.net", "found.net"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no difference"


def test_a_topology_file_of_slurm_is_checked(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    fabric = weft.fabric("xgft:2;2,2;1,1")
    weft.write_fabric(fabric, "found.net")
    weft.write_fabric(fabric, "topology.conf")
    weft.write_fabric(fabric, "topology.yaml", topologies=("tree", "block"))
    for name in ("topology.conf", "topology.yaml"):
        assert main(["check", name, "found.net"]) == 0
        out = capsys.readouterr().out
        assert out == f"{name}: 4 nodes, compared with found.net: no difference\n"
    text = Path("topology.conf").read_text()
    Path("topology.conf").write_text(text.replace("h[2-3]", "h[2,4]"))
    assert main(["check", "topology.conf", "found.net"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "warning: topology.conf:2: 1 host of found.net not listed: h3",
        "warning: topology.conf:3: s1-1: not in found.net: h4",
        "topology.conf: 4 nodes, compared with found.net: 2 warnings",
    ]
    assert main(["check", "topology.conf", "found.net", "--fail-on", "error", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(each["severity"], each["line"]) for each in found] == [("warning", 2), ("warning", 3)]
    assert main(["check", "topology.conf", "found.net", "--out", "x.csv"]) == 2
    assert "--out requires cables" in capsys.readouterr().err
    Path("topology.conf").write_text("SwitchName=a Nodes=h[0-\n")
    assert main(["check", "topology.conf", "found.net"]) == 2
    assert capsys.readouterr().err.startswith("weft: error: topology.conf:1: ")


def test_the_sheet_of_a_site(compared, shared: Path) -> None:
    path = shared / "evidence" / "cable-plans" / "ndt.csv"
    if not path.is_file():
        pytest.skip("the sheet is not there")
    text = path.read_text(encoding="utf-8-sig")
    sheet = read_plan(text, path.name, {})
    names = [device.name for device in sheet.devices]
    build = weft.FabricBuilder("site", rate="4xHDR")
    nodes = build.switches(names, ports=[41] * len(names))
    a, b = (np.array([cable.ends[at] for cable in sheet.cables]) for at in (0, 1))
    # Two cables with exchanged plugs at their first ends, and one that is missing.
    a[[3, 40]] = a[[40, 3]]
    a, b = a[1:], b[1:]
    build.connect(nodes[a[:, 0]], nodes[b[:, 0]], a_ports=a[:, 1], b_ports=b[:, 1])
    found = build.fabric()
    texts = [re.sub(r"(.*)/L(\d+)/U(\d+)", r"MF0;\1:CS8500/L0\2/U\3", name) for name in names]
    order = [texts[names.index(name)] for name in found.node_names]
    guids = np.arange(len(names), dtype=np.uint64) + 0x5000_0000_0000_0000
    found = replace(found, node_names=tuple(order), descriptions=tuple(order), node_guid=guids)
    _, differences, result = compared(text, found)
    kinds = [each[0] for each in differences]
    assert kinds == ["swapped cables", "missing cable", "unknown rows"]
    assert {row["rack"] for row in result["differences"] if row["node"]} <= {"R01-DR426"}
    assert (result["planned_cables"], result["same_cables"]) == (360, 357)
    assert sum(row["kind"] == "unknown rows" for row in result["differences"]) == 40


def test_a_device_with_another_name_and_the_planned_cables(compared) -> None:
    """All of its cables must be in the planned ports; then their rates are compared as well."""
    other = [(a.replace("h1", "hx"), b.replace("h1", "hx")) for a, b in CABLES]
    status, differences, result = compared(plan_of(CABLES, racks=RACKS), fabric_of(other, "4xEDR"))
    assert (status, result["same_cables"]) == (1, 8)
    assert [each[0] for each in differences].count("slower cable") == 8
    assert [each for each in differences if each[0] != "slower cable"] == [
        (
            "replaced device", "warning", "h1", None,
            "check which device it is: hx has the cables of h1",
        )
    ]  # fmt: skip
    spine = [(a, b.replace("spine1", "spinex")) for a, b in CABLES]
    _, differences, _ = compared(plan_of(CABLES, racks=RACKS), fabric_of(spine))
    assert [each[:3] for each in differences] == [("replaced device", "warning", "spine1")]
    spine[4] = ("leaf1[11]", "spinex[7]")
    _, differences, _ = compared(plan_of(CABLES, racks=RACKS), fabric_of(spine))
    assert [each[0] for each in differences] == ["absent device", "additional device"]


@pytest.mark.parametrize(
    ("words", "slower"), [((), 1), (("--format", "ibnetdiscover:rate=1xNDR"), 8)]
)
def test_rates_that_a_reading_lacks_are_no_differences(
    capsys, tmp_path: Path, monkeypatch, words: tuple[str, ...], slower: int
) -> None:
    """Seven cables have no rate in the file; the rate of the other one is compared."""
    monkeypatch.chdir(tmp_path)
    Path("plan.csv").write_text(plan_of(CABLES, "4xNDR"))
    found = fabric_of(CABLES).degraded(["h1[1]"], "1xNDR")
    weft.write_fabric(found, "found.txt", "ibnetdiscover")
    Path("found.txt").write_text(Path("found.txt").read_text().replace(" 4xHDR", ""))
    assert main(["check", "plan.csv", "found.txt", "--json", *words]) == 1
    out, err = capsys.readouterr()
    assert err.count("cables without a rate; ") == 1
    result = json.loads(out)
    assert [row["kind"] for row in result["differences"]] == ["narrower cable"] * slower
    note = "rates of 200 Gb/s in found.txt not compared: some are assumed"
    assert result["notes"] == [note] * (not words)
