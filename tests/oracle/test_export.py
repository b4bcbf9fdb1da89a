"""Exported folders: what is in them, what is refused, and that the real OpenSM loads just that."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import require_tools

from weft.cli import main
from weft.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.load import fabric as load
from weft.opensm.guid2lid import read_guid2lid
from weft.opensm.ports import port_guids
from weft.opensm.qos import endpoint_sls
from weft.opensm.sl2vl import read_sl2vl
from weft.opensm.torus_conf import write
from weft.routes import Routes, TableRoutes, VirtualLanes
from weft.routing import route
from weft.routing.structure.torus import find_tori
from weft.routing.structure.torus_seed import configuration
from weft.subnet.export import export
from weft.subnet.live import live

pytestmark = pytest.mark.oracle

KNS = "kns:k=6,n=2"


@pytest.mark.parametrize("engine", ["hdor", "updn:roots=center,lmc=2", "minhop"])
def test_opensm_programs_what_was_exported_to_the_byte(engine: str, tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts")
    fabric = load(KNS)
    routes = route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    export(fabric, routes, tmp_path / "out")
    with live(fabric, tables=tmp_path / "out") as subnet:
        dumped = (subnet.folder / "opensm-lfts.dump").read_text()
        assert dumped == (tmp_path / "out" / "weft.lfts").read_text()
        assert len(subnet.differences(routes)) == 0


def test_lids_are_those_exported_where_ports_have_others(tmp_path: Path) -> None:
    """What the fabric had before changes nothing, as OpenSM is given a memory."""
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
        # The headings count up to the highest LID that there was.
        assert re.findall("^0x.*", dumped, re.M) == re.findall("^0x.*", written, re.M)


def test_lids_that_the_fabric_has_are_kept(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibsim-run")
    old = 500 + 3 * np.arange(load(KNS).num_destinations, dtype=np.int32)
    fabric = replace(load(KNS), lid=old)
    done = export(fabric, route(fabric, "minhop"), tmp_path / "out")
    assert np.array_equal(done.lids.base, old)
    with live(fabric, tables=tmp_path / "out") as subnet:
        assert np.array_equal(subnet.lids().base, old)


@pytest.mark.parametrize(
    ("spec", "engine"),
    [("torus:5x5", "dfsssp"), ("torus:5x5", "lash"), ("kns:k=4,n=2", "hdor:lanes=4")],
)
def test_service_levels_and_lanes_are_in_force(spec: str, engine: str, tmp_path: Path) -> None:
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
                found = re.search(r"\bsl\.+0x(\w+)", answer)
                assert found
                assert int(found[1], 16) == levels[source, target]
        asked = subnet.run(["smpquery", "sl2vl", "-G", hex(int(fabric.node_guid[0])), "1"])
        table = re.search(r"in  2, out  1: \|([ \d|]+)", asked)
        assert table
        lanes = [int(part) for part in table[1].split("|") if part.strip()]
        assert lanes == routes.lanes.tables[0].tolist()


def test_opensms_own_torus_2qos_computes_what_was_exported(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts")
    fabric = load("torus:5x4x3")
    routes = route(fabric, "torus-2QoS:balance=opensm", conf=_dimensions(fabric, tmp_path))
    assert isinstance(routes, TableRoutes)
    export(fabric, routes, tmp_path / "out")
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {
        "README.txt", "guid2lid", "opensm.conf", "torus-2QoS.conf", "weft.json",
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


def test_what_opensm_cannot_carry_is_refused(tmp_path: Path) -> None:
    kns, torus = load(KNS), load("torus:5x5")
    out = tmp_path / "out"
    tree = load("kary-n-tree:k=2,n=2")
    refused: dict[str, tuple[Fabric, Routes]] = {
        "sets of ports": (kns, route(kns, "ecmp")),
        "a way to each pair of hosts": (tree, route(tree, "smodk")),
        "take those: torus-2QoS:balance=opensm": (
            even := load("torus:6x6"),
            route(even, "torus-2QoS"),
        ),
        "depends on the ports": (torus, replace(route(torus, "torus-2QoS"), engine="other")),
    }
    levels = np.zeros((kns.graph.num_rows, kns.num_destinations << 1), dtype=np.uint8)
    levels[:, 1] = 1
    two = replace(route(kns, "minhop:lmc=1"), sl=levels, lanes=VirtualLanes.uniform((0, 1)))
    refused["QoS policy tells ports apart but not their LIDs"] = (kns, two)
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


def test_tables_that_are_not_valid_need_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["opensm", "export", "torus:5x5", "--engine", "minhop", "--out", str(out)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "the tables of minhop are not valid" in error
    assert "it can deadlock" in error
    assert not list(tmp_path.iterdir())
    assert main([*words, "--force"]) == 0
    assert "THESE TABLES ARE NOT VALID" in capsys.readouterr().err
    for name in ("README.txt", "opensm.conf"):
        assert "WARNING: these tables were exported although" in (out / name).read_text()
    assert json.loads((out / "weft.json").read_text())["valid"] is False


def test_what_the_folder_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["opensm", "export", "torus:5x5", "--engine", "dmodk", "--engine", "dfsssp"]
    assert main([*words, "--out", str(out), "--install", "/etc/opensm/weft"]) == 0
    printed = capsys.readouterr()
    assert "dmodk does not fit" in printed.err
    command = "opensm -R file -U /etc/opensm/weft/weft.lfts -l 0 -Q -Y /etc/opensm/weft/qos-policy"
    assert command in printed.out
    readme = (out / "README.txt").read_text()
    assert command in readme
    # It is tried here, where the folder is.
    assert f"weft opensm live FABRIC --tables {out} -- ibnetdiscover" in printed.out
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


def test_it_is_never_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = load(KNS)
    routes, other = route(fabric, "minhop"), route(fabric, "updn:roots=center")
    out = tmp_path / "out"
    out.mkdir()  # an empty folder is taken
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


def test_what_cannot_be_written_is_refused_before_anything_is_routed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def routed(*_: object) -> Routes:
        raise AssertionError("it was routed")

    monkeypatch.setattr("weft.cli.opensm_export.route", routed)
    (tmp_path / "file").touch()
    tree = ["opensm", "export", "xgft:3;12,12,12;1,12,12", "--out", str(tmp_path / "out")]
    large = ["--engine", "updn:roots=center,lmc=7"]
    assert main([*tree, *large]) == 2
    assert "needs 221,616 LIDs with LMC 7" in capsys.readouterr().err
    with pytest.raises(AssertionError):  # another engine may fit
        main([*tree, *large, "--engine", "minhop"])
    small = ["opensm", "export", "torus:4", "--engine", "minhop", "--out"]
    for place, reason in {
        "/proc/out": "/proc/out: cannot be written: ",
        str(tmp_path / "file"): "is no folder",
        str(tmp_path / "none" / "out"): "does not exist",
    }.items():
        assert main([*small, place]) == 2
        assert reason in capsys.readouterr().err
    assert main([*small, str(tmp_path / "out"), "--sm-host", "h1000"]) == 2
    assert "no node 'h1000'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    fabric = load("torus:4")
    routes = route(fabric, "updn:roots=center")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "other").write_text("mine")
    for name, reason in {
        "file": "is no folder",
        "folder": "such as other",
        "none/out": "does not exist",
    }.items():
        with pytest.raises(InputError, match=reason):
            export(fabric, routes, tmp_path / name)
