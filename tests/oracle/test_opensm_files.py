"""Files and LIDs of weft, compared with those of the real OpenSM."""

from __future__ import annotations

import re
import subprocess
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.opensm_dumps import lid_matrix, shortest_hops, sl2vl_dump
from tests.oracle.tools import require_tools, simulator
from tests.processes import PATIENCE_S
from tests.random_fabrics import random_fabric

from weft.core.errors import WeftError
from weft.fabrics import Fabric
from weft.fabrics.formats import FormatWarning, write_fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.dumps import find_dumps, load_tables
from weft.routing.opensm.lfts import lft_dump, read_lfts
from weft.routing.opensm.lid_matrix import read_lid_matrix
from weft.routing.opensm.lids import Lids, guid2lid, predict_lids, read_guid2lid
from weft.routing.opensm.ports import port_guids
from weft.routing.opensm.qos import endpoint_sls, qos_options, qos_policy
from weft.routing.opensm.sl2vl import read_sl2vl
from weft.routing.routes import TableRoutes, VirtualLanes
from weft.subnet.live.subnet import live

pytestmark = pytest.mark.oracle


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def sweep(
    fabric: Fabric,
    folder: Path,
    *options: str,
    engine: str = "minhop",
    sm: str = "",
    commands: tuple[str, ...] = (),
) -> dict[str, str]:
    """Let the real OpenSM sweep once; return its files and the outputs of commands by name."""
    folder.mkdir(exist_ok=True)
    net = folder / "net.txt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        write_fabric(fabric, net, "ibsim")
    first = re.search(r'^(?:Ca|Hca)\s+\d+\s+"([^"]+)"', net.read_text(), re.MULTILINE)
    assert first
    (folder / "cache").mkdir(exist_ok=True)
    with simulator(net, fabric) as environment:
        environment |= {
            "SIM_HOST": sm or first[1],
            "OSM_CACHE_DIR": str(folder / "cache"),
            "OSM_TMP_DIR": str(folder),
        }
        opensm = ["opensm", "-o", "-e", "-f", str(folder / "osm.log"), "-D", "0x43"]
        opensm += ["--dump_files_dir", str(folder), "-R", engine, *options]
        printed = {}
        for command in ([*opensm], *(command.split() for command in commands)):
            done = subprocess.run(
                ["ibsim-run", *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE_S,
                check=True,
                text=True,
            )
            printed[" ".join(command)] = done.stdout
    files = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    files["guid2lid"] = (folder / "cache" / "guid2lid").read_text()
    return files | printed


def lid_map(fabric: Fabric, lids: Lids) -> dict[int, tuple[int, int]]:
    guids = port_guids(fabric).tolist()
    return {
        guid: (base, base + (1 << lmc) - 1)
        for guid, base, lmc in zip(guids, lids.base.tolist(), lids.lmc.tolist(), strict=True)
        if base
    }


def named_rates(fabric: Fabric) -> Fabric:
    """Return the fabric; every cable has a rate that ibsim's format can express."""
    return fabric.degraded(np.flatnonzero(fabric.cable_rate_code == 0).tolist(), "4xQDR")


# -- LIDs ------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lmc", [0, 1, 2, 3])
@pytest.mark.parametrize("spec", ["kns:k=3,n=2", "xgft:2;4,4;1,4", "torus:3x3"])
def test_lids_of_a_new_subnet_are_predicted(spec: str, lmc: int, tmp_path: Path) -> None:
    fabric = load(spec) if lmc % 2 else load(spec).shuffled(lmc)
    files = sweep(fabric, tmp_path, "-l", str(lmc))
    assert lid_map(fabric, predict_lids(fabric, lmc=lmc)) == dict(
        read_guid2lid(tmp_path / "cache" / "guid2lid")
    )
    assert len(files["guid2lid"].split()) == 3 * fabric.num_destinations


@pytest.mark.parametrize("seed", range(4))
def test_lids_of_split_fabrics_and_several_ports_are_predicted(seed: int, tmp_path: Path) -> None:
    fabric = named_rates(random_fabric(seed, others=2))
    sm = fabric.node_names[
        fabric.endpoint_node[fabric.host_endpoint[fabric.host_endpoint >= 0][-1]]
    ]
    lmc = 2 * (seed % 2)
    sweep(fabric, tmp_path, "-l", str(lmc), sm=sm)
    real = read_guid2lid(tmp_path / "cache" / "guid2lid")
    ours = lid_map(fabric, predict_lids(fabric, lmc=lmc, sm=sm))
    known = set(port_guids(fabric).tolist())
    assert ours == {guid: lids for guid, lids in real.items() if guid in known}


def with_random_lids(seed: int) -> Fabric:
    fabric = load("xgft:2;4,4;1,4").shuffled(3)
    random = np.random.default_rng(seed)
    count = fabric.num_destinations
    lid = np.where(random.random(count) < 0.7, random.integers(1, 40, count), 0).astype(np.int32)
    lmc = np.zeros(count, np.uint8)
    lmc[: fabric.num_endpoints] = random.integers(0, 1 + 2 * (seed % 2), fabric.num_endpoints)
    return replace(fabric, lid=lid, lmc=lmc)


@pytest.mark.parametrize("seed", range(4))
def test_existing_lids_are_kept_where_opensm_keeps_them(seed: int, tmp_path: Path) -> None:
    fabric = with_random_lids(seed)
    for lmc in (0, 1):
        folder = tmp_path / str(lmc)
        sweep(fabric, folder, "-l", str(lmc))
        result = predict_lids(fabric, lmc=lmc)
        assert lid_map(fabric, result) == read_guid2lid(folder / "cache" / "guid2lid")


@pytest.mark.parametrize("seed", range(4))
def test_lids_in_the_cache_of_opensm_are_kept(seed: int, tmp_path: Path) -> None:
    fabric = with_random_lids(seed)
    random = np.random.default_rng(seed)
    places = iter(4 * random.permutation(30) + 4 + seed % 2)
    cache = {0xABC: (300, 303)}
    for guid in port_guids(fabric).tolist():
        if random.random() < 0.6:
            first = int(next(places))
            cache[guid] = first, first + int(random.choice([0, 0, 1, 3]))
    for lmc in (0, 1):
        folder = tmp_path / str(lmc)
        (folder / "cache").mkdir(parents=True)
        (folder / "cache" / "guid2lid").write_text(guid2lid(cache))
        sweep(fabric, folder, "-l", str(lmc))
        real = read_guid2lid(folder / "cache" / "guid2lid")
        ours = lid_map(fabric, predict_lids(fabric, lmc=lmc, cache=cache))
        assert ours == {guid: lids for guid, lids in real.items() if guid != 0xABC}


def test_reassigned_lids_and_lids_of_switches_with_an_lmc_are_predicted(tmp_path: Path) -> None:
    fabric = with_random_lids(1)
    sweep(fabric, tmp_path / "anew", "-l", "1", "-r")
    result = predict_lids(fabric, lmc=1, reassign=True)
    assert lid_map(fabric, result) == read_guid2lid(tmp_path / "anew" / "cache" / "guid2lid")

    lmc = np.zeros(fabric.num_destinations, np.uint8)
    lmc[fabric.num_endpoints : fabric.num_endpoints + 3] = (
        2  # ibsim then gives switches an enhanced port 0
    )
    fabric = replace(fabric, lid=np.zeros_like(fabric.lid), lmc=lmc)
    (tmp_path / "conf").write_text("lmc_esp0 TRUE\n")
    sweep(fabric, tmp_path / "wide", "-l", "2", "-F", str(tmp_path / "conf"))
    result = predict_lids(fabric, lmc=2, wide_switches=range(3))
    assert lid_map(fabric, result) == read_guid2lid(tmp_path / "wide" / "cache" / "guid2lid")


def test_a_lid_that_opensm_assigns_twice_is_predicted(tmp_path: Path) -> None:
    fabric = with_random_lids(17)
    sweep(fabric, tmp_path, "-l", "0")
    result = predict_lids(fabric)
    assert lid_map(fabric, result) == read_guid2lid(tmp_path / "cache" / "guid2lid")
    assert [lid for lid, _, _ in result.clashes] == [10, 14]
    # A subnet with such LIDs is not up, whatever OpenSM reports.
    with pytest.raises(WeftError, match="2 LIDs of two ports each: LID 10 of"), live(fabric):
        pass


# -- forwarding tables -----------------------------------------------------------------------------

CLUSTER = str(Path(__file__).parents[2] / "examples" / "cluster.ibnetdiscover")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lmc", [0, 2])
@pytest.mark.parametrize("spec", ["kns:k=3,n=2", "xgft:2;4,4;1,4", "torus:3x3", CLUSTER])
def test_a_dump_that_is_read_and_written_is_identical(spec: str, lmc: int, tmp_path: Path) -> None:
    fabric = load(spec) if lmc else load(spec).shuffled(1)
    dump = sweep(fabric, tmp_path, "-l", str(lmc))["opensm-lfts.dump"]
    routes = read_lfts(fabric, tmp_path / "opensm-lfts.dump")
    assert routes.lmc == lmc
    assert lft_dump(fabric, routes) == dump
    if not lmc:
        same = route(fabric, "minhop", balance="opensm")
        assert isinstance(same, TableRoutes)
        assert np.array_equal(routes.table, same.table)


@pytest.mark.parametrize("lmc", [0, 2])
@pytest.mark.parametrize("spec", ["kns:k=3,n=2", "xgft:2;4,4;1,4", CLUSTER])
def test_opensm_programs_the_tables_that_weft_writes(spec: str, lmc: int, tmp_path: Path) -> None:
    fabric = load(spec).shuffled(2)
    routes = route(fabric, "minhop", lmc=lmc)
    assert isinstance(routes, TableRoutes)
    text = lft_dump(fabric, routes)
    (tmp_path / "mine.lfts").write_text(text)
    options = ("-U", str(tmp_path / "mine.lfts"), "-l", str(lmc))
    assert sweep(fabric, tmp_path, *options, engine="file")["opensm-lfts.dump"] == text


@pytest.mark.parametrize("lmc", [0, 1])
def test_the_output_of_every_tool_is_read(lmc: int, tmp_path: Path) -> None:
    require_tools("ibroute", "dump_fts")
    fabric = load("xgft:2;4,4;1,4").shuffled(4)
    lids = predict_lids(fabric, lmc=lmc)
    switches = lids.base[fabric.num_endpoints :].tolist()
    tools = ["dump_fts", "dump_fts -n", "dump_fts -a"]
    routers = [f"ibroute{option} {lid}" for option in ("", " -n", " -a") for lid in switches]
    printed = sweep(fabric, tmp_path, "-l", str(lmc), commands=(*tools, *routers))
    expected = read_lfts(fabric, tmp_path / "opensm-lfts.dump").table
    outputs = [printed[tool] for tool in tools]
    count = len(switches)
    outputs += ["".join(printed[r] for r in routers[i : i + count]) for i in (0, count, 2 * count)]
    outputs.append(printed["opensm.fdbs"])
    for text in outputs:
        (tmp_path / "printed").write_text(text)
        result = read_lfts(fabric, tmp_path / "printed", lids=lids)
        assert np.array_equal(result.table, expected)
        again = read_lfts(fabric, tmp_path / "printed", lmc=lmc)
        assert np.array_equal(again.table, expected)


def test_a_folder_of_opensm_has_the_same_tables_in_both_forms(tmp_path: Path) -> None:
    files = sweep(load("xgft:2;4,4;1,3").shuffled(3), tmp_path, engine="updn")
    dumps = find_dumps([tmp_path])
    assert dumps.subnet == tmp_path / "opensm-subnet.lst"
    assert dumps.lfts == tmp_path / "opensm-lfts.dump"
    assert dumps.others == (tmp_path / "opensm.fdbs",)
    found = load(dumps.subnet)
    first, second = (load_tables(found, path, {}) for path in (dumps.lfts, *dumps.others))
    assert not [*first.problems, *second.problems]
    assert np.array_equal(first.routes.table, second.routes.table)
    assert np.array_equal(first.base, second.base)
    assert "dump_ucast_routes: Switch 0x" in files["opensm.fdbs"]


# -- lanes and hops --------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("spec", "lmc"), [("kns:k=3,n=2", 0), ("xgft:2;4,4;1,4", 1), (CLUSTER, 0)])
def test_dumps_of_lanes_and_hops_are_identical(spec: str, lmc: int, tmp_path: Path) -> None:
    fabric = load(spec).shuffled(5)
    options = qos_options([3, 1, 0, 2], adapters=[1, 1, 1, 0])
    (tmp_path / "opensm.conf").write_text(options)
    files = sweep(fabric, tmp_path, "-F", str(tmp_path / "opensm.conf"), "-l", str(lmc))
    lids = predict_lids(fabric, lmc=lmc)
    lanes, adapters = read_sl2vl(fabric, tmp_path / "opensm-sl2vl.dump")
    assert sl2vl_dump(fabric, lanes, lids, adapters) == files["opensm-sl2vl.dump"]
    hosts = fabric.num_host_endpoints  # routers, left out here, have the general table
    assert adapters[:hosts, :5].tolist() == [[1, 1, 1, 0, 0]] * hosts
    assert lanes.tables[:, :5].tolist() == [[3, 1, 0, 2, 0]]
    assert lid_matrix(fabric, lids=lids) == files["opensm-lid-matrix.dump"]
    hops = read_lid_matrix(fabric, tmp_path / "opensm-lid-matrix.dump")
    assert np.array_equal(hops, shortest_hops(fabric))


# -- service levels --------------------------------------------------------------------------------


def test_opensm_answers_path_queries_with_the_service_levels_of_the_routes(tmp_path: Path) -> None:
    require_tools("saquery")
    fabric = load("xgft:2;4,4;1,4").shuffled(7)
    routes = route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    random = np.random.default_rng(1)
    sl = random.integers(0, 3, (fabric.num_switches, fabric.num_destinations)).astype(np.uint8)
    routes = replace(routes, sl=sl, lanes=VirtualLanes.uniform([0, 1, 2]))
    wanted = endpoint_sls(fabric, routes)
    lids = predict_lids(fabric)
    for name, text in (
        ("qos-policy.conf", qos_policy(fabric, routes)),
        ("mine.lfts", lft_dump(fabric, routes)),
        ("opensm.conf", qos_options(routes.lanes)),
    ):
        (tmp_path / name).write_text(text)
    write_fabric(fabric, tmp_path / "net.txt", "ibsim")
    with simulator(tmp_path / "net.txt", fabric) as environment:
        environment |= {"SIM_HOST": fabric.host_names[0], "OSM_CACHE_DIR": str(tmp_path)}
        environment |= {"OSM_TMP_DIR": str(tmp_path)}
        log = tmp_path / "osm.log"
        options = ["-e", "-f", str(log), "-D", "0x43", "-d2", "-s", "0", "-R", "file"]
        options += ["-F", str(tmp_path / "opensm.conf"), "-U", str(tmp_path / "mine.lfts")]
        options += ["-Y", str(tmp_path / "qos-policy.conf"), "--dump_files_dir", str(tmp_path)]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        manager = subprocess.Popen(
            ["ibsim-run", "opensm", *options],
            env=environment,
            stderr=subprocess.DEVNULL,
            **quiet,  # type: ignore[call-overload]
        )
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not log.exists() or "SUBNET UP" not in log.read_text(errors="replace"):
                assert manager.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            for source, target in random.integers(0, fabric.num_endpoints, (12, 2)).tolist():
                pair = f"{lids.base[source]}:{lids.base[target]}"
                answer = subprocess.run(
                    ["ibsim-run", "saquery", "--src-to-dst", pair],
                    env=environment,
                    capture_output=True,
                    timeout=PATIENCE_S,
                    check=True,
                    text=True,
                ).stdout
                result = re.search(r"\bsl\.+(\S+)", answer)
                assert result, answer
                assert int(result[1], 0) == wanted[source, target]
        finally:
            manager.terminate()
            manager.wait(PATIENCE_S)
    assert len(np.unique(wanted)) == 3
