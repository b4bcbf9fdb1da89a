"""Audits of names, LIDs, roots, the place of a subnet manager, adaptive tables; pages, metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.diags_files import subnet_list
from tests.ibdiagnet2_files import db_csv, far, section
from tests.ibdiagnet2_files import with_lids as assigned

from weft.advice.faults import HEADINGS
from weft.cli import main
from weft.core.errors import InputError
from weft.fabrics import Fabric, Parts
from weft.fabrics.formats import write_fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.opensm.guids import guid_list
from weft.routing.opensm.lfts import lft_dump
from weft.routing.opensm.ports import port_guids
from weft.routing.routes import CandidateRoutes
from weft.sim.static.all_to_all import all_to_all_loads
from weft.subnet.audit import Audit, audit
from weft.subnet.evidence import find_evidence
from weft.subnet.finding import Finding

TREE = build("xgft:2;4,4;1,2")


def with_lids(fabric: Fabric, step: int = 1) -> Fabric:
    lid = np.arange(1, fabric.num_destinations + 1, dtype=np.int32) * step
    return replace(fabric, lid=lid, lmc=np.zeros(len(lid), np.uint8))


def found(folder: Path, fabric: Fabric = TREE, **files: str) -> Audit:
    folder.mkdir()
    write_fabric(fabric, folder / "net.ibnetdiscover")
    (folder / "opensm-lfts.dump").write_text(lft_dump(fabric, route(fabric, "updn")))
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return audit([folder])


def test_faults_of_the_fabric_say_what_to_do() -> None:
    assert [kind for kind in HEADINGS if not Finding.of(kind, "").action] == []


def kinds(actual: Audit) -> list[tuple[str, str]]:
    return [(finding.severity, finding.kind) for finding in actual.findings]


def test_roots_are_compared_with_the_top_level(tmp_path: Path) -> None:
    top = np.flatnonzero(TREE.level[: TREE.num_switches] == 2)
    leaf = np.flatnonzero(TREE.level[: TREE.num_switches] == 1)[:1]
    conf = "routing_engine updn\nroot_guid_file /etc/opensm/roots.txt\n"
    good = found(tmp_path / "a", opensm_conf=conf, roots_txt=guid_list(TREE, top, kind="root"))
    assert kinds(good) == []
    less = guid_list(TREE, np.append(top[:1], leaf), kind="root") + "0x99\n"
    bad = found(tmp_path / "b", opensm_conf=conf, roots_txt=less)
    assert kinds(bad) == [("warning", "roots")] * 3
    names = [TREE.node_names[node] for node in (top[1], leaf[0])]
    assert sorted(item for each in bad.findings for item in each.items) == sorted(
        [*names, f"{0x99:#018x}"]
    )
    lost = found(tmp_path / "c", opensm_conf=conf)
    assert kinds(lost) == [("note", "roots")]
    assert lost.findings[0].cost == ""  # nothing is known to be wrong
    other = found(tmp_path / "d", opensm_conf=conf.replace("updn", "minhop"), roots_txt=less)
    assert kinds(other) == []


def test_a_manager_on_a_machine_that_computes_is_named(tmp_path: Path) -> None:
    parts = Parts.of(TREE)
    names = [*parts.names[: TREE.num_switches], "admin1", *(f"node{n}" for n in range(15))]
    parts.names, parts.descriptions = names, names
    fabric = Fabric.of(parts)
    guids = port_guids(fabric)
    at = "Jun 18 04:37:25 404440 [49C006C0] 0x02 -> "
    text = f"{at}osm_vendor_bind: Mgmt class 0x81 binding to port GUID {{:#x}}\n"
    for number, (port, expected) in enumerate(
        ((0, []), (3, [("warning", "subnet manager")]), (None, [("warning", "stale")]))
    ):
        guid = 0x77 if port is None else int(guids[port])
        actual = found(tmp_path / str(number), fabric, opensm_log=text.format(guid))
        assert kinds(actual) == expected


def test_lids_that_are_not_aligned_to_the_lmc_are_errors(tmp_path: Path) -> None:
    lid = np.zeros(TREE.num_destinations, np.int32)
    lmc = np.zeros(len(lid), np.uint8)
    lid[:2], lmc[:2] = (4, 10), 2
    path = tmp_path / "net.ibnetdiscover"
    write_fabric(replace(TREE, lid=lid, lmc=lmc), path)
    (finding,) = audit([path]).findings
    assert (finding.kind, finding.items) == ("LIDs", ("10",))


def test_equal_paths_of_all_lids_are_a_waste(tmp_path: Path) -> None:
    spent = found(tmp_path / "a", with_lids(TREE, 4))
    assert kinds(spent) == []
    folder = tmp_path / "b"
    folder.mkdir()
    write_fabric(TREE, folder / "net.ibnetdiscover")
    for engine, expected in (("minhop:lmc=1", []), ("updn", [("warning", "LMC")])):
        routes = route(TREE, engine)
        if not routes.lmc:
            table = np.repeat(routes.table, 2, axis=0)
            routes = replace(routes, table=table, lmc=1)
        (folder / "opensm-lfts.dump").write_text(lft_dump(TREE, routes))
        assert kinds(audit([folder])) == expected


def test_contradictions_between_files_are_findings(tmp_path: Path) -> None:
    first, second = tmp_path / "a.ibnetdiscover", tmp_path / "b.ibnetdiscover"
    write_fabric(TREE, first)
    slow = TREE.degraded([f"{TREE.node_names[0]}[1]"], "1xHDR")
    write_fabric(slow, second)
    actual = audit([first, second])
    assert kinds(actual) == [("warning", "contradiction of rates")]
    assert len(actual.findings[0].items) == 2  # both ends


def test_metrics_count_findings_and_have_the_load_of_each_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = TREE.without(cables=[f"{TREE.node_names[0]}[5]"])
    actual = found(tmp_path / "a", cut)
    file = tmp_path / "weft.prom"
    assert main(["audit", str(tmp_path / "a"), "--metrics", str(file)]) == 1
    lines = file.read_text().splitlines()
    assert 'weft_audit_findings{severity="error"} 1.0' in lines
    assert 'weft_audit_items{kind="missing cable",severity="error"} 1.0' in lines
    loads = [line for line in lines if line.startswith("weft_link_load_flows{")]
    assert len(loads) == 2 * (cut.num_cables - cut.num_hosts)
    assert max(float(line.rpartition(" ")[2]) for line in loads) == actual.worst


def test_a_fabric_alone_is_judged_by_its_cables(tmp_path: Path) -> None:
    path = tmp_path / "net.ibnetdiscover"
    write_fabric(TREE.degraded([f"{TREE.node_names[0]}[5]"], "1xHDR"), path)
    actual = audit([path])
    (finding,) = actual.findings
    assert finding.kind == "degraded cable"
    assert finding.cost == "150 Gb/s in each direction"
    assert any(each.startswith("paths, loops") for each in actual.unknown)


def test_names_beside_the_managers_own_list_leave_that_list_the_fabric(tmp_path: Path) -> None:
    own = tmp_path / "opensm-subnet.lst"
    own.write_text(subnet_list(TREE))
    names = tmp_path / "names.map"
    names.write_text(f'0x{int(TREE.node_guid[0]):016x} "core of the hall"\n')
    for paths in ([own, names], [names, own], [tmp_path]):
        evidence = find_evidence(paths)
        assert evidence.fabric.digest == TREE.digest
        assert evidence.fabric.node_names[0] == "core of the hall"
        assert not evidence.independent


def test_groups_of_adaptive_tables_are_judged_and_weighed(tmp_path: Path) -> None:
    """Switches with groups of several ports spread flows that the static ports put on one."""
    fabric = assigned(build("xgft:2;8,8;1,4"))
    routes = route(fabric, "ar_updn")
    assert isinstance(routes, CandidateRoutes)
    assert routes.fallback is not None
    write_fabric(fabric, tmp_path / "net.ibnetdiscover")
    (tmp_path / "ibdiagnet2.far").write_text(far(fabric, routes, routes.fallback))
    actual = audit([tmp_path])
    assert not actual.count("error")
    assert "adaptive groups of ports are deadlock-free" in actual.notes
    spread = all_to_all_loads(fabric, routes).per_link
    assert actual.loads is not None
    assert np.allclose(actual.loads, spread)
    assert any("static fallback" in note for note in actual.notes)


def test_groups_that_wait_for_each_other_are_a_deadlock(tmp_path: Path) -> None:
    """On a ring, minimal paths in both directions wait for each other; the static ones do not."""
    fabric = assigned(build("ring:6"))
    static = route(fabric, "updn:roots=center")
    routes = replace(route(fabric, "ecmp"), fallback=static)
    assert isinstance(routes, CandidateRoutes)
    write_fabric(fabric, tmp_path / "net.ibnetdiscover")
    (tmp_path / "ibdiagnet2.far").write_text(far(fabric, routes, static))
    actual = audit([tmp_path])
    (finding,) = (each for each in actual.findings if each.severity == "error")
    assert finding.kind == "deadlock"
    assert finding.text.startswith("by groups of ports, ")


def test_groups_and_static_ports_are_proved_together(tmp_path: Path) -> None:
    """Two orders of a ring's switches are each free of loops, but not both on one lane."""
    fabric = assigned(build("ring:6"))
    static = route(fabric, f"updn:roots={fabric.node_names[3]}")
    for root, expected in ((3, []), (0, ["may deadlock"])):
        routes = route(fabric, f"ar_updn:roots={fabric.node_names[root]}")
        assert isinstance(routes, CandidateRoutes)
        folder = tmp_path / str(root)
        folder.mkdir()
        write_fabric(fabric, folder / "net.ibnetdiscover")
        (folder / "ibdiagnet2.far").write_text(far(fabric, routes, static))
        actual = audit([folder])
        assert not actual.count("error")
        found = [each.kind for each in actual.findings if "deadlock" in each.kind]
        assert found == expected


def test_the_page_has_the_findings_first(tmp_path: Path) -> None:
    cut = TREE.without(cables=[f"{TREE.node_names[0]}[5]"])
    folder, page = tmp_path / "a", tmp_path / "a.html"
    found(folder, cut)
    assert main(["audit", str(folder), "--report", str(page)]) == 1
    text = page.read_text()
    assert text.index("missing cable") < text.index('id="fabric"')
    assert "the tables in place" in text
    assert "Not judged: " in text
    assert "Facts, and what could not be judged" in text


def test_files_of_a_folder_that_are_not_used_are_listed(tmp_path: Path) -> None:
    """Damaged and compressed files do not end the audit, and a second table is not forgotten."""
    table = lft_dump(TREE, route(TREE, "minhop"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "core.gz").write_bytes(b"\x1f\x8b no archive")
    (tmp_path / "a" / "core.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))
    (tmp_path / "a").rename(tmp_path / "more")
    actual = found(tmp_path / "b", z_fdbs=table, notes_txt="hello\n")
    assert any("z.fdbs (a dump of forwarding tables)" in each for each in actual.unknown)
    both = audit([tmp_path / "b", tmp_path / "more"])
    (text,) = (each for each in both.unknown if each.startswith("4 files, of no known use"))
    assert "notes.txt (unknown), z.fdbs" in text
    plan = tmp_path / "plan.csv"
    plan.write_text("StartDevice,StartPort,EndDevice,EndPort\n")
    with pytest.raises(InputError, match=r"plan\.csv: is a cable plan; 'weft check'"):
        audit([tmp_path / "b", plan])


def test_hosts_are_cut_off_only_if_no_host_reaches_them(tmp_path: Path) -> None:
    """Hosts without cables make no other host unreachable, and one lost pair does not."""
    fabric = TREE.without(cables=[f"{TREE.node_names[leaf]}[1]" for leaf in range(4)])
    lines = lft_dump(fabric, route(fabric, "updn")).splitlines()
    other = f"{int(fabric.node_guid[3]):016x}"  # a leaf switch that the host is not at
    target = fabric.node_names[fabric.host_nodes[1]]
    start = next(at for at, line in enumerate(lines) if "Unicast lids" in line and other in line)
    del lines[next(at for at in range(start, len(lines)) if f"'{target}'" in lines[at])]
    folder = tmp_path / "a"
    folder.mkdir()
    write_fabric(fabric, folder / "net.ibnetdiscover")
    (folder / "opensm-lfts.dump").write_text("\n".join(lines) + "\n")
    (lost,) = (each for each in audit([folder]).findings if each.kind == "unrouted")
    assert "unreachable" not in lost.cost


def test_the_roots_of_this_machine_are_not_those_of_the_files(tmp_path: Path) -> None:
    roots = tmp_path / "roots.txt"
    roots.write_text("0x99\n")
    actual = found(tmp_path / "a", opensm_conf=f"routing_engine updn\nroot_guid_file {roots}\n")
    assert kinds(actual) == [("note", "roots")]


def test_hosts_of_an_incomplete_list_are_not_said_to_be_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "ports.txt"
    port = "SW {} {} 0x{:016x} 4x HDR - CA {} 1 0x{:016x} ( 's{}' - 'h{}' )"
    path.write_text(
        "\n".join(port.format(sw, at, sw, at + 9 * sw, at + 9 * sw, sw, at)
                  for sw, count in ((1, 3), (2, 1)) for at in range(1, count + 1)) + "\n"
    )  # fmt: skip
    part = audit([path])
    assert ("warning", "disconnected host") in kinds(part)
    assert any(each.startswith("whether cables are missing") for each in part.unknown)


@pytest.mark.parametrize("form", ["pm", "db_csv", "ibqueryerrors", "exporter"])
def test_ports_with_errors_are_named_the_worst_first(tmp_path: Path, form: str) -> None:
    guids = [f"{int(guid):#018x}" for guid in TREE.node_guid]
    ports = {(0, 1): (3, 0, 2), (1, 5): (70000, 1, 0), (2, 1): (0, 0, 0)}
    if form == "pm":
        text = "".join(
            f"Port={port} Lid=0x0001 GUID={guids[node]} Device=1 Port Name=x\n"
            f"symbol_error_counter=0x{min(symbol, 0xFFFF):x}\nlink_down_counter={down}\n"
            f"symbol_error_counter_extended=0x{symbol:x}\nexcesive_buffer_errors={buffer}\n"
            for (node, port), (symbol, buffer, down) in ports.items()
        )
        files = {"ibdiagnet2_pm": text}
    elif form == "ibqueryerrors":
        text = "".join(
            f'Errors for {guids[node]} "{TREE.descriptions[node]}"\n   GUID {guids[node]} port '
            f"{port}: [SymbolErrorCounter == {symbol}] [LinkDownedCounter == {down}]"
            f" [ExcessiveBufferOverrunErrors == {buffer}]\n"
            for (node, port), (symbol, buffer, down) in ports.items()
        )
        # Of a series, the last reading counts.
        files = {"1767225600_txt": text.replace("== ", "== 5"), "1767225700_txt": text}
    elif form == "exporter":
        names = ("symbol_error", "excessive_buffer_overrun_errors", "link_downed")
        files = {
            f"{guids[node]}_prom": "".join(
                f'infiniband_switch_port_{name}_total{{guid="{guids[node]}",port="{port}"}} {n}\n'
                for name, n in zip(names, values, strict=True)
            )
            for (node, port), values in ports.items()
        }
    else:
        columns = "NodeGUID,PortNumber,SymbolErrorCounter,SymbolErrorCounterExt,"
        columns += "ExcessiveBufferOverrunErrors,LinkDownedCounter,PortXmitDiscards"
        rows = [
            f"{guids[node]},{port},{min(symbol, 0xFFFF)},{symbol},{buffer},{down},9"
            for (node, port), (symbol, buffer, down) in ports.items()
        ]
        counters = section("PM_INFO", columns, rows)
        files = {"ibdiagnet2_db_csv": db_csv(TREE, counters=counters)}
    actual = found(tmp_path / "a", **files)
    errors = next(each for each in actual.findings if each.kind == "cable errors")
    down = next(each for each in actual.findings if each.kind == "links down")
    names = TREE.node_names
    (near,) = np.flatnonzero((TREE.link_from == 1) & (TREE.link_from_port == 5)).tolist()
    peer = f"{names[TREE.link_to[near]]}[{TREE.link_to_port[near]}]"
    host = names[TREE.host_nodes[0]]
    assert errors.items == (
        f"{names[1]}[5] to {peer}: buffer overruns 1, symbol errors 70,000",
        f"{names[0]}[1] to {host}[1]: symbol errors 3",
    )
    assert down.items == (f"{names[0]}[1] to {host}[1]: link downed 2",)
    assert (errors.severity, down.severity) == ("warning", "note")
    assert any("no time of their last reset" in each for each in actual.unknown)


def test_counters_that_cannot_be_read_do_not_end_the_audit(tmp_path: Path) -> None:
    actual = found(tmp_path / "a", ibdiagnet2_pm="Port=1 Lid=0x1 GUID=0x1\nnonsense\n")
    assert kinds(actual) == []
    assert any(each.startswith("errors of cables: ") for each in actual.unknown)
    other = found(
        tmp_path / "b",
        ibdiagnet2_pm="Port=1 Lid=0x1 GUID=0x99\nsymbol_error_counter=2\n",
    )
    assert kinds(other) == [("warning", "stale")]


def test_a_topology_file_of_slurm_is_held_against_the_cables(tmp_path: Path) -> None:
    write_fabric(TREE, tmp_path / "topology.conf")
    text = (tmp_path / "topology.conf").read_text()
    assert kinds(found(tmp_path / "a", topology_conf=text)) == []
    line = next(each for each in text.splitlines() if "Nodes=" in each)
    actual = found(tmp_path / "b", topology_conf=text.replace(line + "\n", line + "x\n", 1))
    assert {each.kind for each in actual.findings} == {"Slurm's topology"}
    assert "topology.conf" in actual.findings[0].text
    assert actual.findings[0].items[0].startswith("line ")
