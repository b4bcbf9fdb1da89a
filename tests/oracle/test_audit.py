"""Findings of `weft audit` in dumps of the real OpenSM that are intact or edited."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import require_tools

from weft.cli import main
from weft.core.errors import InputError, NotApplicable
from weft.fabrics.formats import read_file, write_fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.subnet.audit import Audit, audit
from weft.subnet.live.subnet import live

pytestmark = pytest.mark.oracle

KNS = "kns:k=6,n=2"


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dump the state of OpenSM with tables of weft's hdor on an intact fabric of 36 hosts."""
    require_tools("opensm", "ibsim", "ibsim-run", "ibnetdiscover")
    folder = tmp_path_factory.mktemp("audit") / "dumps"
    fabric = load(KNS)
    with live(fabric, routes=route(fabric, "hdor"), keep=folder) as subnet:
        (folder / "fabric.ibnetdiscover").write_text(subnet.run(["ibnetdiscover"]))
    return folder


def real(spec: str, engine: str, folder: Path) -> Audit:
    """Return the audit of routes that the real OpenSM computes with an engine of its own."""
    require_tools("opensm", "ibsim", "ibsim-run")
    with live(load(spec), engine, keep=folder):
        pass
    return audit([folder])


def kinds(actual: Audit) -> list[str]:
    return [finding.kind for finding in actual.findings if finding.severity != "note"]


def test_intact_dumps_have_no_findings(dumped: Path) -> None:
    actual = audit([dumped])
    assert actual.ok
    assert (actual.engine, actual.worst, actual.mean) == ("file", 30, 30)
    assert actual.version.startswith("3.")
    assert "all 1,260 host pairs have a path, and the routes are deadlock-free" in actual.notes
    assert audit([dumped], load(str(dumped / "fabric.ibnetdiscover"))).ok


def test_the_fabric_is_read_from_opensms_list_of_cables(dumped: Path) -> None:
    listed = read_file(dumped / "opensm-subnet.lst")
    seen = load(str(dumped / "fabric.ibnetdiscover"))
    for fabric in (listed, seen):
        assert (fabric.num_hosts, fabric.num_switches, fabric.num_cables) == (36, 48, 108)
    order = np.argsort(listed.node_guid), np.argsort(seen.node_guid)
    for name in ("node_guid", "node_kind", "num_ports", "device_id"):
        ours, theirs = getattr(listed, name), getattr(seen, name)
        assert np.array_equal(ours[order[0]], theirs[order[1]])
    ours, theirs = (
        {frozenset(fabric.cable_name(cable).split(" -- ")) for cable in range(108)}
        for fabric in (listed, seen)
    )
    assert ours == theirs
    assert set(listed.cable_rate_code) == set(seen.cable_rate_code)
    assert sorted(listed.lid) == sorted(seen.lid)
    with pytest.raises(InputError, match=r"guid2lid:1: expected both ends of a cable"):
        read_file(dumped / "guid2lid", "opensm-subnet")


def test_real_ftree_leaves_pairs_without_a_path(tmp_path: Path) -> None:
    actual = real(KNS, "ftree", tmp_path / "dumps")
    assert kinds(actual) == ["unrouted"]
    assert "900 of 1,260 host pairs (71.4%) have no path" in actual.findings[0].text
    cures = [note for note in actual.notes if note.startswith("cure: ")]
    # OpenSM's own engines come before static tables.
    assert cures[0].startswith("cure: OpenSM's own ")
    assert actual.alternatives[0].cures


def test_real_minhop_on_a_torus_can_deadlock(tmp_path: Path) -> None:
    actual = real("torus:4x4", "minhop", tmp_path / "dumps")
    assert kinds(actual) == ["deadlock"]
    assert "waits for" in actual.findings[0].text


@pytest.mark.slow
def test_real_minhop_on_a_tree_overloads_cables(tmp_path: Path) -> None:
    actual = real("xgft:3;6,6,6;1,6,6", "minhop", tmp_path / "dumps")
    assert kinds(actual) == ["unbalanced"]
    assert actual.ok
    assert actual.findings[0].severity == "warning"
    assert main(["audit", str(tmp_path / "dumps")]) == 0
    assert main(["audit", str(tmp_path / "dumps"), "--fail-on", "warning"]) == 1
    assert actual.worst == 1080
    assert actual.better_worst == 210
    assert any(
        note.startswith("better: OpenSM's own ftree: routing_engine ftree in opensm.conf")
        and "largest load 210, " in note
        for note in actual.notes
    )


def test_a_silent_fallback_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="fell back"):
        real(KNS, "updn", tmp_path / "dumps")
    actual = audit([tmp_path / "dumps"])
    assert "fallback" in kinds(actual)
    text = next(finding.text for finding in actual.findings if finding.kind == "fallback")
    assert text.startswith("OpenSM routes with minhop (updn: ")
    assert "no root nodes" in text


def test_deadlock_is_undecided_without_service_levels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    actual = real("torus:5x5", "dfsssp", tmp_path / "dumps")
    assert actual.ok
    assert actual.as_json()["deadlock"] == "may"
    assert kinds(actual) == ["may deadlock"]
    assert main(["audit", str(tmp_path / "dumps")]) == 0
    assert main(["audit", str(tmp_path / "dumps"), "--fail-on", "warning"]) == 1
    out = capsys.readouterr().out
    assert "may deadlock: dfsssp assigns service levels" in out
    assert "deadlock-free" not in out


def test_active_lanes_are_checked(tmp_path: Path) -> None:
    """The tables could deadlock on one lane; the policy and the SL to VL tables prevent it."""
    require_tools("opensm", "ibsim", "ibsim-run")
    fabric = load("torus:5x5")
    routes = route(fabric, "dfsssp")
    assert isinstance(routes, TableRoutes)
    assert not validate(fabric, replace(routes, sl=np.zeros((), np.uint8))).ok
    dumps = tmp_path / "dumps"
    with live(fabric, routes=routes, keep=dumps):
        pass
    assert audit([dumps]).ok
    lanes = (dumps / "opensm-sl2vl.dump").read_text()
    (dumps / "opensm-sl2vl.dump").write_text(lanes.replace(": 0  1 ", ": 0  0 "))
    assert kinds(audit([dumps])) == ["deadlock"]
    # Packets on VL 15 are dropped, which does not matter at service levels without traffic.
    (dumps / "opensm-sl2vl.dump").write_text(re.sub(r"(?m)^(\d.*:.*)\d\d? *$", r"\g<1>15", lanes))
    assert audit([dumps]).ok
    (dumps / "opensm-sl2vl.dump").write_text(lanes.replace(": 0  1 ", ": 0  15"))
    actual = audit([dumps])
    assert "lanes" in kinds(actual)
    assert "packets of service level 1: their tables map it to VL 15" in actual.text()
    (dumps / "opensm-sl2vl.dump").unlink()
    actual = audit([dumps])
    assert actual.ok
    assert kinds(actual) == ["may deadlock"]
    assert "may deadlock: the lanes of service levels are unknown" in actual.text()
    (dumps / "opensm-sl2vl.dump").write_text("nothing of the kind")
    assert "may deadlock" in kinds(audit([dumps]))
    (dumps / "opensm-sl2vl.dump").write_text(lanes)
    (dumps / "qos-policy.conf").unlink()
    assert kinds(audit([dumps])) == ["deadlock"]


def edited(dumped: Path, folder: Path, name: str, pattern: str, text: str, count: int = 1) -> Path:
    """Copy the dumps, replace a pattern in one of the files, and return the folder of the copy."""
    folder.mkdir()
    for entry in dumped.iterdir():
        if entry.is_file():
            (folder / entry.name).write_bytes(entry.read_bytes())
    path = folder / name
    changed, times = re.subn(pattern, text, path.read_text(), count=count, flags=re.M | re.S)
    assert times
    path.write_text(changed)
    return folder


def test_faults_in_edited_tables_are_reported(dumped: Path, tmp_path: Path) -> None:
    lfts = "opensm-lfts.dump"
    without = edited(dumped, tmp_path / "a", lfts, r"^Unicast lids.*?lids dumped\n", "")
    actual = audit([without])
    assert kinds(actual) == ["unrouted", "no table"]
    assert "1 of 48 switches without a table: r0.0" in actual.findings[1].text
    # The example of a pair without a path never has a host without a cable.
    cut = audit([without], load(KNS).without(cables=["h0.1[1]"]))
    assert " have no path, for example " in cut.findings[0].text
    assert "h0.1" not in cut.findings[0].text

    # r0.0 sends packets for its own host back to the line switch from which they came.
    row = r"^(0x0001 )001( # Channel Adapter portguid 0x0000000000100001: 'h0.0')"
    actual = audit([edited(dumped, tmp_path / "b", lfts, row, r"\g<1>002\2")])
    assert kinds(actual)[:2] == ["unrouted", "loop"]
    assert "r0.0 -> s0.0" in actual.findings[1].text

    actual = audit([edited(dumped, tmp_path / "c", lfts, row, r"\g<1>009\2")])
    assert kinds(actual) == ["unrouted", "dead port"]
    assert "1 port without a cable: r0.0[9]" in actual.findings[1].text

    cut = load(KNS).without(cables=["r0.1[2]"])
    write_fabric(cut, tmp_path / "cut.ibnetdiscover", "ibnetdiscover")
    actual = audit([dumped], load(str(tmp_path / "cut.ibnetdiscover")))
    assert kinds(actual) == ["unrouted", "dead port", "stale", "uneven uplinks"]
    assert "r0.1[2]" in actual.findings[1].text
    assert "OpenSM discovered 2 ends of cables that are not in" in actual.findings[2].text


def test_tables_without_any_route_are_reported(dumped: Path, tmp_path: Path) -> None:
    name = "opensm-lfts.dump"
    actual = audit([edited(dumped, tmp_path / "a", name, r"^0x.*\n", "", count=0)])
    assert "unrouted" in kinds(actual)
    assert not actual.links
    assert "most loaded" not in actual.text()
    assert "cure: " in actual.text()


def test_lids_that_differ_or_clash_in_guid2lid_are_reported(dumped: Path, tmp_path: Path) -> None:
    changed = edited(dumped, tmp_path / "a", "guid2lid", "0x0001 0x0001", "0x0100 0x0100")
    actual = audit([changed])
    assert kinds(actual) == ["LIDs", "LIDs"]
    assert (
        "1 port with different LIDs in the tables and in guid2lid, for example h0.0[1]: 1 and 256"
        in (actual.findings[0].text)
    )
    clash = edited(dumped, tmp_path / "b", "guid2lid", "0x0001 0x0001", "0x0001 0x0002")
    actual = audit([clash])
    assert kinds(actual) == ["LIDs"]
    assert "in guid2lid, 1 LID of two ports each: LID 2 of" in actual.findings[0].text


def test_lids_of_two_ports_are_reported(dumped: Path, tmp_path: Path) -> None:
    # In one switch's table the lines of two hosts are exchanged.
    text = (dumped / "opensm-lfts.dump").read_text()
    one, two = re.findall(r"^0x\w+ \d+( # Channel.*\n)", text, flags=re.M)[:2]
    first = text.index("lids dumped")
    swapped = text[:first].replace(one, "\0").replace(two, one).replace("\0", two)
    folder = edited(dumped, tmp_path / "a", "opensm-lfts.dump", r"\A.*?(?=lids dumped)", "")
    (folder / "opensm-lfts.dump").write_text(swapped + text[first:])
    actual = audit([folder])
    assert [f.text.partition(":")[0] for f in actual.findings if f.kind == "LIDs"][:2] == [
        "in the tables, 2 LIDs of two ports each",
        "2 ports with different LIDs in different tables",
    ]
    fabric = load(KNS)
    lid = np.zeros(fabric.num_destinations, np.int32)
    lid[:3] = 1, 3, 3
    fabric = replace(fabric, lid=lid, lmc=np.zeros(len(lid), np.uint8))
    assert any(
        "in the fabric, 1 LID of two ports each" in f.text for f in audit([dumped], fabric).findings
    )


def test_ports_that_opensm_did_not_discover_are_reported(dumped: Path, tmp_path: Path) -> None:
    """OpenSM's list of cables has what it discovered, whatever the specified fabric is."""
    guid = r"PortGUID:0000000000{}"
    hidden = edited(
        dumped, tmp_path / "a", "opensm-subnet.lst", r"^[^\n]*NodeGUID:0{10}200001[^\n]*\n", "", 0
    )
    text = audit([hidden], load(KNS)).text()
    # Only the switch is reported, not the nodes behind it.
    assert "error stale: OpenSM did not discover 1 port of the fabric: r0.1\n" in text
    other = edited(
        dumped,
        tmp_path / "b",
        "opensm-subnet.lst",
        guid.format("100001"),
        "PortGUID:" + "9" * 16,
        0,
    )
    text = audit([other], load(KNS)).text()
    assert "OpenSM discovered 1 port not in the fabric: 0x9999999999999999" in text
    assert "OpenSM did not discover 1 port of the fabric: h0.0[1]" in text
    lost = edited(
        dumped, tmp_path / "c", "opensm-subnet.lst", r"\{h0.0\} LID:0001", "{h0.0} LID:0000", 0
    )
    for fabric in (None, load(KNS)):
        assert "error LIDs: 1 port without a LID: h0.0[1]" in audit([lost], fabric).text()


def test_a_missing_lfts_file_is_reported(dumped: Path, tmp_path: Path) -> None:
    """Without lfts_file, OpenSM's engine `file` computes minhop, and its log does not say so."""
    printed = "opensm.conf has no lfts_file"
    assert printed not in audit([dumped]).text()
    for number, line in enumerate(("", "lfts_file (null)\n")):
        without = edited(dumped, tmp_path / str(number), "opensm.conf", r"^lfts_file .*?\n", line)
        assert printed in audit([without]).text()


def test_a_log_may_have_any_bytes(dumped: Path, tmp_path: Path) -> None:
    # Node names may have any encoding, and a rotated log begins with zeros.
    path = tmp_path / "opensm.log"
    path.write_bytes(b"\0" * 100 + (dumped / "opensm.log").read_bytes() + b"\xfc\n")
    actual = audit([path], load(KNS))
    assert actual.ok
    assert actual.engine == "file"


def test_single_files_are_recognised_by_their_contents(dumped: Path, tmp_path: Path) -> None:
    names = {
        "opensm-lfts.dump": "a", "opensm.log": "b", "guid2lid": "c", "opensm-subnet.lst": "d",
        "opensm.conf": "e",
    }  # fmt: skip
    for old, new in names.items():
        (tmp_path / new).write_bytes((dumped / old).read_bytes())
    paths = [tmp_path / name for name in names.values()]
    assert audit(paths).ok
    only_log = audit([tmp_path / "b"], load(KNS))
    assert only_log.ok
    assert only_log.routes is None
    (tmp_path / "f").write_bytes((dumped / "opensm.log").read_bytes())
    (tmp_path / "g").write_text("hello\n")
    for given, reason in {
        (tmp_path / "a",): "nothing describes the fabric",
        (tmp_path / "b", tmp_path / "f"): "is of the same kind as",
        (tmp_path / "g",): "is in no format that weft reads",
    }.items():
        with pytest.raises(InputError, match=reason):
            audit(given)
    other = load("torus:4x4")
    guid, port = (guids + np.uint64(1 << 40) for guids in (other.node_guid, other.port_guid))
    other = replace(other, node_guid=guid, port_guid=port)
    with pytest.raises(InputError, match="none of its switches is in"):
        audit([tmp_path / "a"], other)


def test_the_command_reports_findings_by_its_status_and_output(
    dumped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(dumped)]) == 0
    output = capsys.readouterr().out
    assert "of 36 hosts and 48 switches, engine file: nothing found" in output
    broken = edited(
        dumped, tmp_path / "a", "opensm-lfts.dump", r"^Unicast lids.*?lids dumped\n", ""
    )
    assert main(["audit", str(broken)]) == 1
    assert "2 errors" in capsys.readouterr().out
    assert main(["audit", str(broken), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False
    assert [finding["kind"] for finding in result["findings"]] == ["unrouted", "no table"]
    counted = [len(finding["items"]) for finding in result["findings"]]
    assert counted == [result["unrouted_pairs"], 1]
    assert main(["audit", str(broken), "--fail-on", "never"]) == 0
    rows = tmp_path / "findings.csv"
    assert main(["audit", str(broken), "--findings", str(rows)]) == 1
    assert len(rows.read_text().splitlines()) == 1 + sum(counted)
    assert main(["audit", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err
