"""The real OpenSM on a simulated fabric: it is started, changed, and removed completely."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.oracle.tools import ndr_text, require_tools
from tests.processes import PATIENCE_S

from weft.cli import main
from weft.core.errors import InputError, NotApplicable, WeftError
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import write_fabric
from weft.fabrics.formats.format_registry import FormatWarning
from weft.fabrics.formats.ibsim import simulated
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.lfts import read_lfts
from weft.routing.opensm.lids import predict_lids
from weft.routing.opensm.ports import destination_name
from weft.routing.routes import Routes, TableRoutes
from weft.routing.validation.validate import validate
from weft.subnet.audit import audit
from weft.subnet.export import export
from weft.subnet.live import guardian
from weft.subnet.live.opensm_conf import check_settings, known_settings
from weft.subnet.live.subnet import Subnet, live

pytestmark = pytest.mark.oracle

KNS = "kns:k=6,n=2"
WEFT = str(Path(sys.executable).with_name("weft"))
GOING_DOWN = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@pytest.fixture(scope="module", autouse=True)
def _heard_signals() -> Iterator[None]:
    """Stop ignoring signals that the tests' parent ignored, so that started programs receive them.

    A program under nohup, or in a shell's background, ignores signals, and so do its children.
    """
    ignored = [one for one in GOING_DOWN if signal.getsignal(one) == signal.SIG_IGN]
    for one in ignored:
        plain = one != signal.SIGINT
        signal.signal(one, signal.SIG_DFL if plain else signal.default_int_handler)
    yield
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test folders of its own, which must be empty afterwards."""
    require_tools("opensm", "ibsim", "ibsim-run", "ibnetdiscover", "ibtracert")
    working, temporary = tmp_path / "working", tmp_path / "temporary"
    working.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(working)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("WEFT_TEST", f"{os.getpid()}-{tmp_path}")
    yield
    assert_gone(temporary, within_s=0)
    assert not list(working.glob("sys-*"))


def ours() -> list[str]:
    """Return running programs that the test started, by a variable in their environment."""
    mark = f"WEFT_TEST={os.environ['WEFT_TEST']}".encode()
    result = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if mark in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                result.append(Path("/proc", pid, "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return result


def sockets() -> list[str]:
    """Return the names of the sockets of all simulated subnets of the machine."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line.split()[-1] for line in lines if "@weft-" in line]


def assert_gone(temporary: Path, within_s: float) -> None:
    """Assert that all processes and folders of the test are gone within a time."""
    deadline = time.monotonic() + within_s
    while (left := [*ours(), *map(str, temporary.iterdir())]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def started(*command: str, engine: str = "minhop") -> subprocess.Popen[str]:
    """Start weft with a command that prints ``up`` and continues; return once it has printed."""
    process = subprocess.Popen(
        [WEFT, "opensm", "live", KNS, "--real", engine, "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    return process


STAY = ("sh", "-c", "sleep 1000 & echo up; wait")


def test_the_subnet_is_up_and_programs_run_in_it() -> None:
    fabric = load(KNS)
    with live(fabric, "dor") as subnet:
        assert subnet.sweep.engine == "dor"
        assert subnet.version.startswith("3.")
        output = subnet.run(["ibnetdiscover"])
        assert output.count("\nSwitch") == fabric.num_switches
        again = subprocess.run(
            ["ibnetdiscover"], env=subnet.environment, capture_output=True, text=True, check=True
        )
        assert again.stdout.count("\nCa") == fabric.num_hosts
        folder, name = subnet.folder, subnet.environment["IBSIM_SOCKNAME"]
        assert any(name in socket for socket in sockets())
    assert not folder.exists()
    assert not any(name in socket for socket in sockets())


@pytest.mark.parametrize("last", ["host", "switch"])
def test_the_highest_lid_is_known_or_not_judged_if_dump_fts_leaves_it_out(
    last: str, tmp_path: Path
) -> None:
    """Of 48 hosts and 16 switches, LID 64 is in a block of its own."""
    fabric = load("xgft:2;8,6;1,10")
    lid = np.arange(1, fabric.num_destinations + 1, dtype=np.int32)
    fabric = replace(fabric, lid=lid if last == "switch" else np.roll(lid, fabric.num_endpoints))
    routes = route(fabric, "minhop")
    with live(fabric, routes=routes) as subnet:
        (tmp_path / "tables").write_text(subnet.run(["dump_fts"]))
        assert "0x0040 " not in (tmp_path / "tables").read_text()
        assert not len(subnet.differences(routes))
        own = subnet.log.parent / "opensm-lfts.dump"
        assert not any("LID" in each for each in audit([own], fabric).unknown)
    name = destination_name(fabric, int(np.argmax(fabric.lid)))
    # Without LIDs in the fabric, it is the only port without entries.
    for known in (fabric, replace(fabric, lid=0 * lid)):
        found = audit([tmp_path / "tables"], known)
        assert found.ok
        assert found.fabric.num_hosts == 48 - (last == "host")
        text = f"paths to {name}: dump_fts and ibroute leave out the highest LID, 64, since"
        assert any(each.startswith(text) for each in found.unknown)
    with pytest.warns(FormatWarning, match="leave out the highest LID, 64, since it is a multiple"):
        read_lfts(fabric, tmp_path / "tables")


def test_two_subnets_at_a_time_are_separate() -> None:
    ring, mesh = load("torus:4"), load("mesh:3x3")
    with live(ring) as one, live(mesh) as two:
        assert one.run(["ibnetdiscover"]).count("\nSwitch") == ring.num_switches
        assert two.run(["ibnetdiscover"]).count("\nSwitch") == mesh.num_switches


def test_host_names_may_be_longer_than_ibsims() -> None:
    """ibsim cuts SIM_HOST at 31 characters."""
    fabric = load("xgft:1;3;1")
    names = {0x100000: "a" * 40, 0x100002: "b" * 31, 0x100004: "c" * 32}
    with live(fabric.renamed(names)) as subnet:
        assert subnet.pairs == 6


def test_the_folder_can_be_kept(tmp_path: Path) -> None:
    with live(load("torus:4"), keep=tmp_path / "kept"):
        pass
    assert "SUBNET UP" in (tmp_path / "kept" / "opensm.log").read_text()
    with (
        pytest.raises(WeftError, match=r"cannot set up .*File exists"),
        live(load("torus:4"), keep=tmp_path / "kept"),
    ):
        pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_an_exception(error: type[BaseException]) -> None:
    with pytest.raises(error), live(load("torus:4")) as subnet:  # noqa: PT012
        process = subprocess.Popen(["sleep", "1000"], env=subnet.environment)
        raise error
    assert process.wait(PATIENCE_S) < 0  # ended by a signal; which one depends on timing


def test_use_of_a_subnet_that_has_ended_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with live(load("ring:3")) as subnet:
        pass
    monkeypatch.setattr("subprocess.Popen", None)  # no process is started
    monkeypatch.setattr("time.sleep", None)  # and there is no wait
    for use in (
        lambda: subnet.run(["ibnetdiscover"]),
        lambda: subnet.run_in_terminal(["ibnetdiscover"]),
        subnet.lfts,
        lambda: subnet.unlink("s0[2]"),
    ):
        with pytest.raises(WeftError, match="the subnet that simulated ring:3 has ended"):
            use()


def test_programs_that_fail_or_hang_are_errors() -> None:
    with live(load("torus:4")) as subnet:
        with pytest.raises(WeftError, match=r"sleep did not end within 0\.2 s"):
            subnet.run(["sleep", "1000"], timeout_s=0.2)
        with pytest.raises(WeftError, match="ibtracert failed with status"):
            subnet.run(["ibtracert", "1", "999"])
        with pytest.raises(WeftError, match="no-such-program is not installed"):
            subnet.run(["no-such-program"])
        assert subnet.run(["false"], check=False) == ""


def test_silent_fallbacks_of_opensm_are_errors() -> None:
    fabric = load(KNS)
    with (
        pytest.raises(NotApplicable, match=r"OpenSM's updn refuses .*no root nodes.*to minhop"),
        live(fabric, "updn"),
    ):
        pass
    with pytest.raises(InputError, match=r"no routing engine 'updm' \(did you mean 'updn'"):  # noqa: SIM117
        with live(fabric, "updm"):
            pass


def test_lanes_are_configured_for_engines_that_need_them() -> None:
    with live(load("torus:3x3"), "lash") as subnet:
        assert "| 0| 1| 2|" in subnet.run(["smpquery", "sl2vl", "-G", "0x200000"])


def test_settings_that_opensm_does_not_have_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """OpenSM ignores unknown settings silently; weft checks them by OpenSM's list of settings."""
    words = ["opensm", "live", "torus:4", "--option"]
    assert main([*words, "qos_max_vl=3", "--", "true"]) == 2
    expected = "weft: error: OpenSM has no setting 'qos_max_vl' (did you mean 'qos_max_vls'?); "
    error = capsys.readouterr().err
    assert error.startswith(expected)
    assert error.count("\n") == 1
    assert main([*words, "qos_max_vls=3", "--", "true"]) == 0


def test_settings_are_not_checked_if_opensm_does_not_list_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(tmp_path / "silent", "opensm", "exit 3", monkeypatch)
    program = str(tmp_path / "silent" / "opensm")
    assert known_settings(program) == frozenset()
    check_settings(["anything"], program)


def test_torus_2qos_gets_a_configuration(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["opensm", "live", "torus:3x5", "--real", "torus-2QoS"]
    assert main([*words, "--", "true"]) == 0
    assert "no torus_config was given; OpenSM uses /" in capfd.readouterr().err
    assert main([*words, "--option", "torus_config=no-file", "--", "true"]) == 2
    assert "no-file: there is no such file for torus_config" in capfd.readouterr().err
    with (
        pytest.raises(
            NotApplicable, match=r"cannot create one for kns.*--option torus_config=FILE"
        ),
        live(load(KNS), "torus-2QoS"),
    ):
        pass
    fabric = load("torus:3x5")
    with live(fabric, "torus-2QoS") as subnet:
        own = (subnet.folder / "torus-2QoS.conf").read_text()
        Path("mine.conf").write_text(own)
        assert subnet.notes
    # The path of the file is relative, though OpenSM runs in another folder.
    with live(fabric, "torus-2QoS", options={"torus_config": "mine.conf"}) as subnet:
        assert not subnet.notes


def test_dumped_tables_can_be_loaded_again(tmp_path: Path) -> None:
    fabric = load("torus:3x3")
    with live(fabric, "dor", keep=tmp_path / "first", lmc=1):
        dumped = (tmp_path / "first" / "opensm-lfts.dump").read_text()
    with live(fabric, tables=tmp_path / "first") as subnet:
        assert subnet.engine == "file"
        assert (subnet.folder / "opensm-lfts.dump").read_text() == dumped
    with live(fabric, tables=tmp_path / "first" / "opensm-lfts.dump") as subnet:
        assert subnet.engine == "file"
        assert (subnet.folder / "opensm-lfts.dump").read_text() == dumped
    with (
        pytest.raises(InputError, match="the tables are for LMC 1, not 0"),
        live(fabric, tables=tmp_path / "first", lmc=0),
    ):
        pass
    (tmp_path / "empty").mkdir()
    with (
        pytest.raises(InputError, match=r"neither weft\.lfts nor opensm-lfts\.dump"),
        live(fabric, tables=tmp_path / "empty"),
    ):
        pass
    with (
        pytest.raises(FormatWarning, match=r"first/opensm-lfts.dump: 5 switches are not in mesh"),
        live(load("mesh:2x2").shuffled(1), tables=tmp_path / "first"),
    ):
        pass


def test_an_audit_uses_the_cables_that_opensm_discovered(tmp_path: Path) -> None:
    """Static tables still use a missing cable, which is reported with or without `fabric`."""
    fabric = load("xgft:2;4,4;1,2")
    with live(fabric, routes=route(fabric, "minhop"), keep=tmp_path / "kept") as subnet:
        subnet.unlink("s1-0[5]")
    for given in (None, fabric):
        result = audit([tmp_path / "kept"], fabric=given)
        kinds = {finding.kind for finding in result.findings}
        assert {"unrouted", "dead port"} <= kinds
        assert "stale" in kinds  # the net file in the folder still has the cable


def test_the_commands_of_an_export_simulate_the_faulty_fabric(tmp_path: Path) -> None:
    fabric = load("xgft:2;4,4;1,2").without(switches=["s2-1"])
    exported = export(fabric, route(fabric, "minhop"), tmp_path / "tables")
    first = re.search(r"^weft opensm live (\S+) --tables", exported.commands, re.MULTILINE)
    assert first is not None
    assert (
        main(["opensm", "live", first[1], "--tables", str(tmp_path / "tables"), "--", "true"]) == 0
    )


@pytest.mark.parametrize("lmc", [0, 2])
def test_routes_are_programmed_traced_and_changed(lmc: int) -> None:
    fabric = load(KNS)
    routes = route(fabric, "minhop", lmc=lmc)
    with live(fabric, routes=routes) as subnet:
        assert subnet.engine == "file"
        assert subnet.lfts().lmc == lmc
        assert len(subnet.differences(routes)) == 0
        assert_traced(subnet, routes)

        subnet.unlink("r0.1[2]")
        around = route(subnet.fabric, "minhop", lmc=lmc)
        assert len(subnet.differences(around)) > 0  # OpenSM keeps the routes it loaded
        subnet.reload(around)
        assert len(subnet.differences(around)) == 0
        assert_traced(subnet, around)
        with pytest.raises(InputError, match="made for another fabric"):
            subnet.reload(route(load("torus:4"), "minhop", lmc=lmc))
        subnet.reload(routes)  # of the whole fabric, some of which lead to the unplugged cable
        assert len(subnet.differences(routes)) == 0
        subnet.reload(around)

        subnet.relink("r0.1[2]")
        other = route(subnet.fabric, "updn:roots=center", lmc=lmc)
        subnet.reload(other)
        assert len(subnet.differences(other)) == 0


@pytest.mark.parametrize("static", [True, False])
def test_after_a_failure_engines_reroute_and_static_tables_do_not(static: bool) -> None:
    """This is what `weft compare` and the README.txt of an export say."""
    fabric = load("xgft:2;4,4;1,2")
    given = {"routes": route(fabric, "updn")} if static else {"engine": "updn"}
    spine = fabric.find_node("s2-0")
    ports = [fabric.port_name(spine, port) for port in range(1, int(fabric.num_ports[spine]) + 1)]
    with live(fabric, **given) as subnet:  # type: ignore[arg-type]
        for failed in (ports[:1], ports):
            before = subnet.lfts()
            for port in failed:
                subnet.unlink(port)
            assert subnet.sweep.up
            unrouted = len(validate(subnet.fabric, subnet.lfts()).unrouted_connected_pairs)
            assert (unrouted > 0) == static
            kept = np.array_equal(subnet.lfts().table, before.table)
            # The rows of a missing switch are not compared.
            assert kept == (static and len(failed) == 1)
            for port in failed:
                subnet.relink(port)
            assert not len(validate(subnet.fabric, subnet.lfts()).unrouted_connected_pairs)


def assert_traced(subnet: Subnet, routes: Routes) -> None:
    """Assert that the paths of ibtracert between some pairs of hosts are those of the tables."""
    assert isinstance(routes, TableRoutes)
    fabric = subnet.fabric
    random = np.random.default_rng(1)
    for _ in range(8):
        pair = random.choice(fabric.num_host_endpoints, 2, replace=False)
        source, target = (int(node) for node in fabric.endpoint_node[pair])
        offset = int(random.integers(1 << routes.lmc))
        path = [source]
        slot = fabric.port_offset[source] + fabric.endpoint_port[pair[0]] - 1
        link = fabric.port_link[slot]
        while (node := int(fabric.link_to[link])) != target:
            path.append(node)
            port = int(routes.table[(pair[1] << routes.lmc) + offset, node])
            link = fabric.port_link[fabric.port_offset[node] + port - 1]
        assert subnet.trace(source, target, offset=offset) == (*path, target)


def test_routes_that_opensm_cannot_load_are_refused() -> None:
    fabric = load(KNS)
    with (
        pytest.raises(NotApplicable, match="ecmp gives sets of candidate ports"),
        live(fabric, routes=route(fabric, "ecmp")),
    ):
        pass
    with live(fabric) as subnet, pytest.raises(InputError, match="its own engine minhop"):
        subnet.reload(route(fabric, "minhop"))
    with (
        pytest.raises(InputError, match="lfts_file is set by weft"),
        live(fabric, options={"lfts_file": "x"}),
    ):
        pass


def test_a_subnet_with_unexpected_state_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = load("torus:3x3")
    routes = route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    changed = routes.table.copy()
    changed[0, -1] = changed[0, -1] % 4 + 1
    monkeypatch.setattr(
        "weft.subnet.live.verify.read_lfts",
        lambda *_, **__: replace(routes, table=changed),
    )
    with (
        pytest.raises(WeftError, match=r"OpenSM programmed 1 entries that differ.*instead of port"),
        live(fabric, routes=routes),
    ):
        pass


def ndr(folder: Path, **options: Any) -> Fabric:
    """Return a fabric whose port GUIDs are not those that ibsim derives from node GUIDs."""
    path = folder / "ndr.ibnetdiscover"
    path.write_text(ndr_text(**options))
    return load(str(path))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("lids", [False, True])
def test_port_guids_other_than_ibsims_are_simulated(
    tmp_path: Path, lids: bool, mixed: bool
) -> None:
    """LIDs, tables and paths are as specified, whatever the GUIDs of the adapters."""
    fabric = ndr(tmp_path, lids=lids, mixed=mixed)
    routes = route(fabric, "ftree")
    assert isinstance(routes, TableRoutes)
    export(fabric, routes, tmp_path / "out")
    dumps = tmp_path / "dumps"
    for given in ({"routes": routes}, {"tables": tmp_path / "out"}, {"engine": "updn"}):
        with live(fabric, keep=dumps, **given) as subnet:  # type: ignore[arg-type]
            assert subnet.lids().base.tolist() == predict_lids(fabric).base.tolist()
            assert not subnet.problems
            assert "16 adapters are simulated with other node GUIDs" in subnet.notes[0]
            if subnet.engine == "file":
                assert (dumps / "opensm-lfts.dump").read_text() == (
                    tmp_path / "out" / "weft.lfts"
                ).read_text()
                assert len(subnet.differences(routes)) == 0
                assert_traced(subnet, routes)
        assert audit([dumps], fabric).ok
        assert audit([dumps]).ok
        shutil.rmtree(dumps)


def odd_ports(fabric: Fabric, guids: dict[tuple[str, int], int]) -> Fabric:
    """Return the fabric with other port GUIDs; keys are (name of node, port)."""
    changed = fabric.port_guid.copy()
    for (node, port), guid in guids.items():
        changed[fabric.port_offset[fabric.find_node(node)] + port - 1] = guid
    return replace(fabric, port_guid=changed)


def test_port_guids_that_ibsim_cannot_simulate_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric = load("torus:3x3")
    assert simulated(fabric) is fabric
    switch = odd_ports(fabric, {("s0.0", port): 0x99 for port in range(1, 6)})
    with pytest.raises(NotApplicable, match=r"s0\.0 has 0x0+99 there and the node GUID 0x0+200000"):
        simulated(switch)
    builder = FabricBuilder("two")
    ends = builder.switches(["s"]), builder.hosts(["a", "b"])
    for _ in range(2):
        builder.connect(ends[1], np.repeat(ends[0], 2))
    apart = odd_ports(builder.fabric(), {("a", 1): 0x100, ("a", 2): 0x108})
    with pytest.raises(NotApplicable, match="the port GUIDs of a match no node GUID"):
        simulated(apart)
    taken = odd_ports(fabric, {("h0.0", 1): int(fabric.node_guid[8]) + 1})
    write_fabric(taken, tmp_path / "taken.ibnetdiscover", "ibnetdiscover")
    assert main(["opensm", "live", str(tmp_path / "taken.ibnetdiscover"), "--", "true"]) == 2
    assert "gives s2.2 and h0.0 the same node GUID" in capsys.readouterr().err
    assert not ours()


def test_a_subnet_with_other_port_guids_than_its_tables_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """weft reports the error, although OpenSM reports that the subnet is up."""
    monkeypatch.setattr("weft.subnet.live.running.simulated", lambda fabric: fabric)
    monkeypatch.setattr("weft.subnet.live.running._MOST_LIDS", 30)
    fabric = ndr(tmp_path, lids=True)
    words = ["opensm", "live", str(tmp_path / "ndr.ibnetdiscover"), "--keep"]
    for number, routes in enumerate((["--engine", "ftree"], ["--real", "updn"])):
        dumps = tmp_path / f"dumps{number}"
        assert main([*words, str(dumps), *routes, "--", "touch", "it-ran"]) == 2
        assert "SUBNET UP" in (dumps / "opensm.log").read_text()
        assert not Path("it-ran").exists()
        assert "the subnet is not as expected: OpenSM did not discover" in capsys.readouterr().err
    # Without the comparison of cables, ports without a LID are reported.
    monkeypatch.setattr("weft.subnet.live.verify.cable_faults", lambda *_: ([], ""))
    assert main([*words, str(tmp_path / "dumps"), "--engine", "ftree", "--", "true"]) == 2
    error = capsys.readouterr().err
    assert "16 of 22 ports without a LID: dgx0 mlx5_0[1]" in error
    assert re.search(r"OpenSM logged: OPENSM RAN OUT OF LIDS!!! \(\d+ times\)\n", error)

    result = audit([tmp_path / "dumps"])
    text = result.text()
    assert not result.ok
    assert "error unrouted: 240 of 240 host pairs" in text
    assert re.search(r"LIDs: the last sweep omitted ports; OpenSM logged: OPENSM RAN OUT", text)
    assert "OpenSM discovered 16 ports not in the fabric: 0xa088c20300c00001" in text
    text = audit([tmp_path / "dumps"], fabric).text()
    assert "error unrouted: 240 of 240 host pairs" in text
    assert "OpenSM discovered 16 ports not in the fabric: 0xa088c20300c00001" in text
    assert "OpenSM did not discover 16 ports of the fabric: dgx0 mlx5_0[1]" in text


def test_other_lids_than_those_specified_are_an_error(tmp_path: Path) -> None:
    """OpenSM reassigns LIDs, which then differ from the LIDs of the exported tables."""
    plain = load("torus:3x3")
    routes = route(plain, "updn:roots=center")
    old = replace(plain, lid=500 + 3 * np.arange(plain.num_destinations, dtype=np.int32))
    export(old, routes, tmp_path / "out")
    expected = r"18 of 18 ports have an unexpected LID, for example h0.0\[1\]: 1 instead of 500"
    with (
        pytest.raises(WeftError, match=expected),
        live(plain, tables=tmp_path / "out", options={"reassign_lids": "TRUE"}),
    ):
        pass


def test_cables_that_opensm_does_not_discover_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = load("torus:3x3")
    cut = complete.without(cables=["s0.0[2]"])
    name = complete.cable_name(complete.find_cable("s0.0[2]"))
    routes = route(complete, "updn:roots=center")
    with monkeypatch.context() as patch:
        patch.setattr("weft.subnet.live.running.simulated", lambda _: cut)
        with pytest.raises(WeftError, match=rf"did not discover 1 cable: {re.escape(name)}"):  # noqa: SIM117
            with live(complete, routes=routes):
                pass
        patch.setattr("weft.subnet.live.running.simulated", lambda _: complete)
        with (
            pytest.raises(WeftError, match="discovered 2 ends of cables that are not in"),
            live(cut),
        ):
            pass


def test_pairs_that_opensm_leaves_without_a_path_are_reported(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["opensm", "live", KNS, "--real", "ftree", "--", "sh", "-c", "exit 5"]) == 5
    assert main(["opensm", "live", KNS, "--real", "ftree", "--", "true"]) == 1
    error = capfd.readouterr().err
    assert "routes with ftree (OpenSM's own), but 900 of 1,260 host pairs have no path" in error
    assert "up in" not in error
    assert main(["opensm", "live", KNS, "--real", "dor", "--", "true"]) == 0
    assert re.search(r"up in [\d.]+ s, all 1,260 host pairs have a path\n", capfd.readouterr().err)
    with pytest.raises(InputError, match="engine file loads tables"), live(load(KNS), "file"):
        pass


def test_opensm_runs_on_the_specified_host() -> None:
    fabric = load("torus:4")
    last = fabric.host_names[-1]
    with live(fabric, sm_host=last) as subnet:
        assert hex(int(fabric.port_guid[fabric.port_offset[fabric.find_node(last)]])) in subnet.run(
            ["sminfo"]
        )
    with pytest.raises(InputError, match="runs on a host, not on"), live(fabric, sm_host=0):
        pass
    with pytest.raises(NotApplicable, match="forward packets"), live(load("bcube:n=3,k=1")):
        pass


#: A fabric in which the first host has a cable only in port 2.
SECOND_PORT = """\
Switch\t4 "S0"
[1]\t"H0"[2]
[2]\t"H1"[1]

Ca\t2 "H0"
[2]\t"S0"[1]

Ca\t2 "H1"
[1]\t"S0"[2]
"""


@pytest.mark.filterwarnings("ignore::weft.fabrics.formats.FormatWarning")
def test_opensm_runs_on_a_host_with_a_cable_in_port_1(tmp_path: Path) -> None:
    path = tmp_path / "second.net"
    path.write_text(SECOND_PORT)
    fabric = load(str(path))
    with live(fabric, routes=route(fabric, "minhop"), timeout_s=PATIENCE_S) as subnet:
        assert subnet.lids().base.tolist() == predict_lids(fabric).base.tolist()
        assert subnet.trace("H1", "H0") == tuple(map(fabric.find_node, ("H1", "S0", "H0")))
    with pytest.raises(InputError, match="H0 has no cable in port 1"), live(fabric, sm_host="H0"):
        pass
    path.write_text(SECOND_PORT.replace('"H1"[1]', '"H1"[2]').replace('[1]\t"S0"', '[2]\t"S0"'))
    with pytest.raises(NotApplicable, match="no host with a cable in port 1"), live(
        load(str(path))
    ):  # fmt: skip
        pass


def test_the_exit_status_and_output_are_those_of_the_command(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["opensm", "live", KNS, "--", "sh", "-c", "sminfo; exit 5"]) == 5
    output, errors = capfd.readouterr()
    assert "SMINFO_MASTER" in output
    assert "(36 hosts, 48 switches) routes with minhop (OpenSM's own)" in errors
    assert main(["opensm", "live", "torus:4", "--", "sh", "-c", "kill -KILL $$"]) == 128 + 9
    assert main(["opensm", "live", "torus:4", "--command-timeout", "0.2", "--", *STAY]) == 2
    assert "sh did not end within 0.2 s" in capfd.readouterr().err


def test_a_shell_runs_if_no_command_is_specified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stub(tmp_path / "shell", "myshell", "ibnetdiscover -l | grep -c ^Switch; exit 3", monkeypatch)
    monkeypatch.setenv("SHELL", str(tmp_path / "shell" / "myshell"))
    assert main(["opensm", "live", "torus:4"]) == 3
    output, errors = capfd.readouterr()
    assert output == "4\n"
    assert "type 'exit' to end it" in errors


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "command"),
    [
        (signal.SIGTERM, "trap '' TERM INT HUP; echo up; while :; do sleep 1; done"),
        (signal.SIGHUP, STAY[2]),
    ],
)
def test_a_signal_ends_all_programs_before_weft_ends(number: signal.Signals, command: str) -> None:
    process = started("sh", "-c", command)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert not ours()


def test_ctrl_c_ends_the_command() -> None:
    process = started("sh", "-c", "trap 'exit 7' INT; echo up; while :; do sleep 0.1; done")
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 7


def test_even_sigkill_leaves_no_processes_or_files(tmp_path: Path) -> None:
    process = started(*STAY)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert_gone(tmp_path / "temporary", within_s=PATIENCE_S)


def stub(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a shell program of the given name in a folder, and put the folder first in PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def over_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let weft's time limits expire once a file exists, and not before."""
    hours = count(0, 3600)  # an hour per reading: the first may already see the file
    clock = SimpleNamespace(monotonic=lambda: next(hours) if here.exists() else 0, sleep=time.sleep)
    monkeypatch.setattr("weft.subnet.live.processes.time", clock)


def test_an_opensm_that_hangs_or_ends_at_the_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    script = f"trap '' TERM; touch {here}; while :; do sleep 1; done"
    stub(tmp_path / "hangs", "opensm", script, monkeypatch)
    with monkeypatch.context() as until:
        over_once(here, until)
        with (
            pytest.raises(WeftError, match=r"did not bring up torus:4 within 600 s"),
            live(load("torus:4"), timeout_s=PATIENCE_S),
        ):
            pass
    stub(tmp_path / "ends", "opensm", "echo no device; exit 3", monkeypatch)
    with pytest.raises(WeftError, match=r"ended with status 3.*no device"), live(load("torus:4")):
        pass
    assert not ours()


def test_a_log_in_an_unknown_format_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = "sed -n 's/^log_file //p' $2"
    printed = "2030-01-02T03:04:05 INFO SUBNET UP"
    here = tmp_path / "here"
    stay = f"touch {here}; exec sleep 1000"
    over_once(here, monkeypatch)
    stub(tmp_path / "other", "opensm", f'echo "{printed}" >$({log}); {stay}', monkeypatch)
    expected = (
        r"within 600 s; the format of opensm.log differs .*; the end "
        r"of its log: 2030-01-02T03:04:05 INFO SUBNET UP"
    )
    with pytest.raises(WeftError, match=expected), live(load("torus:4"), timeout_s=PATIENCE_S):
        pass
    here.unlink()
    understood = "Jan 02 03:04:05 000001 [ABCD] 0x02 -> starting"
    stub(tmp_path / "known", "opensm", f'echo "{understood}" >$({log}); {stay}', monkeypatch)
    with pytest.raises(WeftError, match=r"within 600 s; the end"):  # noqa: SIM117
        with live(load("torus:4"), timeout_s=PATIENCE_S):
            pass


def test_an_opensm_that_ends_while_the_command_runs_is_reported(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = (
        "for p in /proc/[0-9]*; do "
        'if tr "\\0" "\\n" < $p/environ 2>/dev/null | grep -q "^WEFT_SUBNET=$WEFT_SUBNET$" '
        '&& [ "$(cat $p/comm)" = opensm ]; then kill -KILL ${p#/proc/}; '
        "while readlink $p/exe >/dev/null; do sleep 0.05; done; fi; done"
    )
    assert main(["opensm", "live", "torus:4", "--", "sh", "-c", script]) == 0
    assert "OpenSM ended with signal SIGKILL before the command did" in capfd.readouterr().err


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-1", "1e12"])
def test_bad_time_limits_are_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--timeout", "--command-timeout"):
        assert main(["opensm", "live", "torus:4", option, limit, "--", "true"]) == 2
        assert "time limit must be above 0 s and at most 1,000,000 s" in capsys.readouterr().err


def test_ctrl_c_while_a_subnet_comes_up_ends_all_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(tmp_path / "hangs", "opensm", f"touch {tmp_path}/here; sleep 1000", monkeypatch)
    process = subprocess.Popen(
        [WEFT, "opensm", "live", "torus:4", "--", "true"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "here").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert not ours()


@pytest.mark.parametrize("missing", ["ibsim", "ibsim-run", "opensm"])
def test_a_missing_program_is_named_with_its_package(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    which = __import__("shutil").which
    monkeypatch.setattr(
        "weft.subnet.live.processes.shutil.which",
        lambda name, **options: None if name == missing else which(name, **options),
    )
    assert main(["opensm", "live", "torus:4", "--", "true"]) == 2
    error = capsys.readouterr().err
    assert f"the program {missing} is not installed" in error
    assert ("package opensm" if missing == "opensm" else "package ibsim-utils") in error


def test_an_empty_search_path_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WeftError, match="package ibsim-utils"), live(load("torus:4")):
        pass


def test_the_guardian_identifies_processes_by_their_whole_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wait in ("HANG_UP_S", "PATIENCE_S"):
        monkeypatch.setattr(guardian, wait, 60.0)
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, guardian.MARK: "abc"})
    try:
        while process.pid not in guardian.processes_of("abc"):
            time.sleep(0.01)
        assert guardian.processes_of("ab") == []
        guardian.end_processes("abc")
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()


def test_cables_are_unplugged_and_plugged_in_again() -> None:
    fabric = load(KNS)
    with live(fabric) as subnet:
        subnet.unlink("r0.1[2]")
        assert subnet.run(["ibnetdiscover"]).count('"S-0000000000200001"[2]') == 0
        with pytest.raises(InputError, match="already unplugged"):
            subnet.unlink("r0.1[2]")
        subnet.relink("r0.1[2]")
        assert subnet.run(["ibnetdiscover"]).count('"S-0000000000200001"[2]') == 1
        with pytest.raises(InputError, match="is not unplugged"):
            subnet.relink("r0.1[2]")
        with pytest.raises(InputError, match="on which OpenSM runs"):
            subnet.unlink("h0.0[1]")
