"""Exported folders: their files, refused routes, and the tables that the real OpenSM loads."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.irregular import irregular
from tests.oracle.tools import require_tools, simulator
from tests.processes import PATIENCE_S

from weft.cli import main
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.formats import write_fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.lfts import lft_dump, read_lfts
from weft.routing.opensm.lids import predict_lids, read_guid2lid
from weft.routing.opensm.ports import port_guids
from weft.routing.opensm.qos import endpoint_sls
from weft.routing.opensm.sl2vl import read_sl2vl
from weft.routing.opensm.tables_folder import read_settings
from weft.routing.opensm.torus_conf import write
from weft.routing.routes import Routes, TableRoutes, VirtualLanes
from weft.routing.structure.torus import find_tori
from weft.routing.structure.torus_seed import configuration
from weft.subnet.export import export
from weft.subnet.live.running import sm_node
from weft.subnet.live.subnet import live

pytestmark = pytest.mark.oracle

KNS = "kns:k=6,n=2"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["hdor", "updn:roots=center,lmc=2", "minhop"])
def test_opensm_programs_exactly_the_exported_tables(engine: str, tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts")
    fabric = load(KNS)
    routes = route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    export(fabric, routes, tmp_path / "out")
    with live(fabric, tables=tmp_path / "out") as subnet:
        dumped = (subnet.folder / "opensm-lfts.dump").read_text()
        assert dumped == (tmp_path / "out" / "weft.lfts").read_text()
        assert len(subnet.differences(routes)) == 0


def test_exported_lids_replace_other_lids_of_ports(tmp_path: Path) -> None:
    """Earlier LIDs of the fabric have no effect, since OpenSM reads the exported guid2lid."""
    require_tools("opensm", "ibsim", "ibsim-run")
    plain = load(KNS)
    routes = route(plain, "minhop")
    export(plain, routes, tmp_path / "out")
    old = 500 + 3 * np.arange(plain.num_destinations, dtype=np.int32)
    with live(replace(plain, lid=old), tables=tmp_path / "out") as subnet:
        spans = read_guid2lid(tmp_path / "out" / "guid2lid")
        lids = subnet.lids().base
        assert [spans[guid][0] for guid in port_guids(plain).tolist()] == lids.tolist()
        assert "lid 501 " not in subnet.run(["ibnetdiscover"])
        dumped = (subnet.folder / "opensm-lfts.dump").read_text()
        written = (tmp_path / "out" / "weft.lfts").read_text()
        # The headings count up to the highest LID that was ever assigned.
        assert re.findall("^0x.*", dumped, re.M) == re.findall("^0x.*", written, re.M)


def test_lids_of_the_fabric_are_kept(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibsim-run")
    old = 500 + 3 * np.arange(load(KNS).num_destinations, dtype=np.int32)
    fabric = replace(load(KNS), lid=old)
    done = export(fabric, route(fabric, "minhop"), tmp_path / "out")
    assert np.array_equal(done.lids.base, old)
    with live(fabric, tables=tmp_path / "out") as subnet:
        assert np.array_equal(subnet.lids().base, old)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spec", "engine"),
    [("torus:5x5", "dfsssp"), ("torus:5x5", "lash"), ("kns:k=4,n=2", "hdor:lanes=4")],
)
def test_service_levels_and_lanes_are_active(spec: str, engine: str, tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibsim-run", "saquery", "smpquery")
    fabric = load(spec)
    routes = route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    levels = endpoint_sls(fabric, routes)
    assert len(np.unique(levels)) > 1
    export(fabric, routes, tmp_path / "out")
    with live(fabric, tables=tmp_path / "out") as subnet:
        base = subnet.lids().base
        some = np.argwhere(levels > 0)[:8]
        others = np.argwhere(levels == 0)[:8]
        for source, target in [*some, *others]:
            if source != target:
                pair = f"{base[source]}:{base[target]}"
                answer = subnet.run(["saquery", "--src-to-dst", pair])
                result = re.search(r"\bsl\.+0x(\w+)", answer)
                assert result
                assert int(result[1], 16) == levels[source, target]
        answered_lanes = subnet.run(["smpquery", "sl2vl", "-G", hex(int(fabric.node_guid[0])), "1"])
        table = re.search(r"in  2, out  1: \|([ \d|]+)", answered_lanes)
        assert table
        lanes = [int(part) for part in table[1].split("|") if part.strip()]
        assert lanes == routes.lanes.tables[0].tolist()


def test_opensms_own_torus_2qos_computes_the_exported_tables(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts")
    fabric = load("torus:5x4x3")
    routes = route(fabric, "torus-2QoS:balance=opensm", conf=_dimensions(fabric, tmp_path))
    assert isinstance(routes, TableRoutes)
    export(fabric, routes, tmp_path / "out")
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {
        "README.txt", "fabric.ibnetdiscover", "guid2lid", "opensm.conf", "torus-2QoS.conf",
        "weft.json",
    }  # fmt: skip
    assert "torus-2QoS tables configured" in (tmp_path / "out" / "README.txt").read_text()
    with live(fabric, tables=tmp_path / "out") as subnet:
        assert subnet.engine == "torus-2QoS"
        assert len(subnet.differences(routes)) == 0
        lanes, _ = read_sl2vl(fabric, subnet.folder / "opensm-sl2vl.dump")
        assert not lanes.is_uniform


def _dimensions(fabric: Fabric, folder: Path) -> str:
    conf = folder / "conf"
    conf.write_text(write(configuration(fabric, find_tori(fabric)[0].folded())))
    return str(conf)


def test_routes_that_opensm_cannot_express_are_refused(tmp_path: Path) -> None:
    kns, torus = load(KNS), load("torus:5x5")
    out = tmp_path / "out"
    tree = load("kary-n-tree:k=2,n=2")
    refused: dict[str, tuple[Fabric, Routes]] = {
        "sets of candidate ports": (kns, route(kns, "ecmp")),
        "one path for each pair of hosts": (tree, route(tree, "smodk")),
        "use its tables: torus-2QoS:balance=opensm": (
            even := load("torus:6x6"),
            route(even, "torus-2QoS"),
        ),
        "depends on its input": (torus, replace(route(torus, "torus-2QoS"), engine="other")),
    }
    levels = np.zeros((kns.graph.num_rows, kns.num_destinations << 1), dtype=np.uint8)
    levels[:, 1] = 1
    two = replace(route(kns, "minhop:lmc=1"), sl=levels, lanes=VirtualLanes.uniform((0, 1)))
    refused["QoS policy distinguishes ports, not their LIDs"] = (kns, two)
    big = load("xgft:3;12,12,12;1,12,12")
    refused[r"needs 221,616 LIDs with LMC 7 \(1,728 adapter ports, 432 switches\).*49,151"] = (
        big,
        _empty(big, lmc=7),
    )
    for reason, (fabric, routes) in refused.items():
        with pytest.raises(NotApplicable, match=reason):
            export(fabric, routes, out)
        assert not out.exists()
    with pytest.raises(InputError, match="made for another fabric"):
        export(torus, route(kns, "minhop"), out)
    assert not list(tmp_path.iterdir())


def _empty(fabric: Fabric, lmc: int) -> TableRoutes:
    shape = (fabric.num_destinations << lmc, fabric.graph.num_rows)
    return TableRoutes("none", fabric.digest, table=np.full(shape, 255, dtype=np.uint8), lmc=lmc)


def test_invalid_tables_need_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["opensm", "export", "torus:5x5", "--engine", "minhop", "--out", str(out)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "the tables of minhop are not valid" in error
    assert "the routes can deadlock" in error
    assert not list(tmp_path.iterdir())
    assert main([*words, "--force"]) == 0
    assert "THE WRITTEN TABLES ARE NOT VALID" in capsys.readouterr().err
    for name in ("README.txt", "opensm.conf"):
        assert "WARNING: these tables were exported although" in (out / name).read_text()
    assert json.loads((out / "weft.json").read_text())["valid"] is False


def test_the_readme_and_the_output_name_the_next_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["opensm", "export", "torus:5x5", "--engine", "dmodk", "--engine", "dfsssp"]
    assert main([*words, "--out", str(out), "--install", "/etc/opensm/weft"]) == 0
    printed = capsys.readouterr()
    assert "dmodk does not fit" in printed.err
    command = "NEW=/etc/opensm/weft OLD=/etc/opensm/weft.before"
    assert command in printed.out
    readme = (out / "README.txt").read_text()
    assert command in readme
    # The suggested command has the path of the folder.
    network = out / "fabric.ibnetdiscover"
    assert f"weft opensm live {network} --tables {out} -- ibnetdiscover" in printed.out
    assert f"--tables {out} --" in readme
    assert all(entry.name in readme for entry in out.iterdir() if entry.name != "README.txt")
    config = (out / "opensm.conf").read_text().splitlines()
    for line in (
        "routing_engine file",
        "lfts_file /etc/opensm/weft/weft.lfts",
        "qos TRUE",
        "qos_sl2vl 0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
        "qos_policy_file /etc/opensm/weft/qos-policy.conf",
    ):
        assert line in config
    assert json.loads((out / "weft.json").read_text())["lanes"] == 2


def test_present_tables_are_written_beside_the_new_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["opensm", "export", "xgft:2;4,4;1,4", "--out"]
    assert main([*words, "old", "--engine", "dmodk"]) == 0
    assert main([*words, "new", "--engine", "dor", "--before", "old/weft.lfts"]) == 0
    assert not Path("new/previous.guid2lid").exists()
    assert main([*words, "new", "--engine", "dor", "--before", "old"]) == 0
    printed = capsys.readouterr().out
    for name, there in (("lfts", "weft.lfts"), ("guid2lid", "guid2lid")):
        assert Path(f"new/previous.{name}").read_bytes() == Path("old", there).read_bytes()
    facts = json.loads(Path("new/weft.json").read_text())["change"]
    old, new = (read_lfts(load(words[2]), Path(name, "weft.lfts")).table for name in ("old", "new"))
    assert facts["entries"] == (old != new).sum() > 0
    assert (facts["steps"], facts["safe"], facts["lost_pairs"]) == (1, True, 0)
    rows = Path("new/changed-switches.csv").read_text().splitlines()[1:]
    assert sum(int(row.rsplit(",", 1)[1]) for row in rows) == facts["entries"]
    rows = Path("new/changed-hosts.csv").read_text().splitlines()[1:]
    assert sum(int(row.split(",")[1]) for row in rows) == facts["moved_pairs"]
    line = f"{facts['entries']} entries change, in {facts['switches']} of 8 switches"
    assert line in printed
    readme = Path("new/README.txt").read_text()
    assert line in readme
    names = {entry.name for entry in Path("new").iterdir()} - {"README.txt"}
    assert all(name in readme for name in names)
    # Tables of another fabric, or with other LIDs for each host.
    torus = ["opensm", "export", "torus:4x4", "--engine", "lash", "--out", "no", "--before", "old"]
    assert main(torus) == 2
    assert main([*words, "no", "--engine", "dor", "--lmc", "1", "--before", "old"]) == 2
    assert "the present tables have LMC 0, the new ones 1" in capsys.readouterr().err
    assert not Path("no").exists()


#: Shell functions that replace `systemctl`, `pkill` and `weft` in the commands of a README.txt.
MACHINE = """
set -eo pipefail
systemctl() {
  if [ "$1" = start ]; then
    opensm -F "$CONF" >/dev/null 2>&1 &
    sm=$!
    until grep -q 'SUBNET UP' "$LOG" 2>/dev/null; do kill -0 $sm; sleep 0.05; done
  else
    kill -TERM $sm
    wait $sm || true
  fi
}
pkill() { kill "$1" $sm; }
weft() { env -u LD_PRELOAD "$PYTHON" -m weft "$@"; }
trap 'systemctl stop opensm' EXIT
sm=
systemctl start opensm
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("spec", "engine", "own", "moved"),
    [
        (KNS, "hdor", "minhop", False),
        ("torus:5x5", "dfsssp", "dor", True),
        ("torus:5x4x3", "torus-2QoS:balance=opensm", "updn", False),
        ("14", "updn:roots=center", "file", False),
    ],
)
def test_the_commands_of_the_readme_load_and_revert_the_tables(
    spec: str,
    engine: str,
    own: str,
    moved: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each command runs as written, on a subnet for which OpenSM had other routes before.

    The last case replaces known tables by others in two steps, and goes back in two.
    """
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts", "awk", "diff")
    monkeypatch.chdir(tmp_path)
    fabric = irregular(int(spec)) if spec.isdecimal() else load(spec)
    lid = np.arange(fabric.num_destinations, dtype=np.int32)
    running = replace(fabric, lid=500 + 3 * lid if moved else predict_lids(fabric).base)
    write_fabric(running, tmp_path / "net.txt", "ibsim")
    write_fabric(running if not moved else fabric, tmp_path / "fabric.txt", "ibnetdiscover")
    words = ["opensm", "export", "fabric.txt", "--engine", engine, "--out", "out"]
    if own == "file":
        present = route(running, "minhop")
        assert isinstance(present, TableRoutes)
        (tmp_path / "present.lfts").write_text(lft_dump(running, present))
        words += ["--before", "present.lfts"]
    assert main(words) == 0
    assert ("while loading: safe in 2 steps" in capsys.readouterr().out) == (own == "file")
    # The configuration of a site has no final newline, and has lines that the export replaces.
    folders = {name: tmp_path / name for name in ("cache", "dumps")}
    for place in folders.values():
        place.mkdir()
    before = (
        f"routing_engine {own}\nlmc 0\nqos FALSE\nqos_ca_sl2vl 5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5\n"
        f"sweep_interval 0\nlog_flags 0x03\nforce_log_flush TRUE\nlog_file {tmp_path}/opensm.log\n"
        f"dump_files_dir {folders['dumps']}"
    )
    if own == "updn":
        (tmp_path / "roots").write_text(f"{fabric.node_guid[0]:#018x}\n")
        before = f"root_guid_file {tmp_path}/roots\n{before}"
    if own == "file":
        before = f"lfts_file {tmp_path}/present.lfts\n{before}"
    (tmp_path / "opensm.conf").write_text(before)
    readme = (tmp_path / "out" / "README.txt").read_text()
    lines = [line.removeprefix("  ") for line in readme.splitlines() if line.startswith("  ")]
    start = next(n for n, line in enumerate(lines) if line.startswith("# 1."))
    assert lines[start + 1].endswith("-- ibnetdiscover")
    assert main([*lines[start + 1].split()[1:]]) == 0
    text = "\n".join(lines[start + 2 :])
    for old, new in (
        ("CONF=/etc/opensm/opensm.conf", f"CONF={tmp_path}/opensm.conf"),
        ("CACHE=/var/cache/opensm", f"CACHE={folders['cache']}"),
        ("LOG=/var/log/opensm.log", f"LOG={tmp_path}/opensm.log"),
        ("DUMPS=/var/log ", f"DUMPS={folders['dumps']} "),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    sets, _, steps = text.partition("# 3.")
    checks, _, back = steps.partition("# 6.")
    loaded = f"cat $CONF >{tmp_path}/loaded.conf\ndump_fts >{tmp_path}/loaded\n# 6."
    back, _, onward = back.partition("# 7.")
    back += f"cat $CONF >{tmp_path}/restored.conf\n# 7.{onward}"
    (tmp_path / "steps.sh").write_text(f"{sets}{MACHINE}# 3.{checks}{loaded}{back}")
    with simulator(tmp_path / "net.txt", fabric) as environment:
        environment |= {
            "SIM_HOST": fabric.node_names[sm_node(fabric, None)],
            "OSM_CACHE_DIR": str(folders["cache"]),
            "OSM_TMP_DIR": str(folders["dumps"]),
            "PYTHON": sys.executable,
        }
        process = subprocess.Popen(
            ["ibsim-run", "bash", "steps.sh"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            # OpenSM does not end when its simulator has ended.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
    assert process.returncode == 0, f"{output}\n{errors}"
    printed = output.splitlines()
    assert printed[0] == str(fabric.num_switches)
    ports = [line for line in printed if re.fullmatch(r"0x\w{16} 0x\w{4} 0x\w{4}", line)]
    assert len(ports) == (fabric.num_destinations if moved else 0)
    configured = re.findall(r"(\S+) tables configured", output)
    sweeps = 2 if own == "file" else 1
    assert configured == [*[json_engine(tmp_path / "out")] * sweeps, own, own, "file"]
    assert "error" not in next(line for line in printed if line.startswith("OpenSM 3.3.23 of "))
    assert "> 0x" not in output
    # The switches had the exported tables until the last steps restored the earlier ones.
    routes = read_lfts(fabric, tmp_path / "loaded", lids=predict_lids(fabric))
    if (tmp_path / "out" / "weft.lfts").exists():
        wanted = read_lfts(fabric, tmp_path / "out" / "weft.lfts")
        assert np.array_equal(routes.table, wanted.table)
    assert (tmp_path / "restored.conf").read_text() == before
    assert "routing_engine file\n" in (tmp_path / "opensm.conf").read_text()
    during = (tmp_path / "loaded.conf").read_text().splitlines()
    assert len({line.split()[0] for line in during if line[0] != "#"}) == sum(
        line[0] != "#" for line in during
    )
    lanes_kept = engine in ("hdor", "updn:roots=center")
    assert ("qos_ca_sl2vl" in "".join(during)) == lanes_kept
    old = tmp_path / "out.before"
    assert (old / "again").read_text() == (old / "tables").read_text()


def json_engine(folder: Path) -> str:
    """Return the engine in the folder's opensm.conf."""
    return read_settings(folder / "opensm.conf")["routing_engine"]


def test_an_export_is_never_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = load(KNS)
    routes, other = route(fabric, "minhop"), route(fabric, "updn:roots=center")
    out = tmp_path / "out"
    out.mkdir()  # an empty folder is accepted
    export(fabric, routes, out)
    before = {entry.name: entry.read_bytes() for entry in out.iterdir()}
    assert out.stat().st_mode & 0o777 == 0o755

    write = Path.write_text

    def full(self: Path, *arguments: str, **options: str) -> int:
        if self.name == "opensm.conf":
            raise OSError(28, "No space left on device")
        return write(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(InputError, match="cannot be written: No space left"):
            export(fabric, other, out)
    assert {entry.name: entry.read_bytes() for entry in out.iterdir()} == before
    assert list(tmp_path.iterdir()) == [out]

    export(fabric, other, out)  # an export is replaced
    assert (out / "weft.lfts").read_bytes() != before["weft.lfts"]
    (out / "notes").write_text("mine")
    with pytest.raises(InputError, match="such as notes"):
        export(fabric, routes, out)
    export(fabric, routes, out, overwrite=True)
    assert {entry.name: entry.read_bytes() for entry in out.iterdir()} == before
    assert list(tmp_path.iterdir()) == [out]


def test_an_unusable_folder_is_refused_before_routing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def routed(*_: object) -> Routes:
        raise AssertionError("it was routed")

    monkeypatch.setattr("weft.cli.opensm.route", routed)
    (tmp_path / "file").touch()
    tree = ["opensm", "export", "xgft:3;12,12,12;1,12,12", "--out", str(tmp_path / "out")]
    large = ["--engine", "updn:roots=center,lmc=7"]
    assert main([*tree, *large]) == 2
    assert "needs 221,616 LIDs with LMC 7" in capsys.readouterr().err
    with pytest.raises(AssertionError):  # LIDs may suffice for the other engine
        main([*tree, *large, "--engine", "minhop"])
    small = ["opensm", "export", "torus:4", "--engine", "minhop", "--out"]
    for place, reason in {
        "/proc/out": "/proc/out: cannot be written: ",
        str(tmp_path / "file"): "is not a folder",
        str(tmp_path / "none" / "out"): "does not exist",
    }.items():
        assert main([*small, place]) == 2
        assert reason in capsys.readouterr().err
    assert main([*small, str(tmp_path / "out"), "--sm-host", "h1000"]) == 2
    assert "no node 'h1000'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_folders_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    fabric = load("torus:4")
    routes = route(fabric, "updn:roots=center")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "other").write_text("mine")
    for name, reason in {
        "file": "is not a folder",
        "folder": "such as other",
        "none/out": "does not exist",
    }.items():
        with pytest.raises(InputError, match=reason):
            export(fabric, routes, tmp_path / name)
