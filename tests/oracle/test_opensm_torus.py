"""Tables, lanes and coordinates of torus-2QoS, compared with those of the real OpenSM."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import opensm_tables, require_tools

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.torus_conf import parse, write
from weft.routing.routes import TableRoutes
from weft.routing.structure.torus import find_tori
from weft.routing.structure.torus_seed import configuration, seeded
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads

pytestmark = pytest.mark.oracle

WHOLE = ["torus:4x4x4", "torus:5x5x5", "torus:4x5x6", "torus:6x6", "mesh:3x4x2", "hypercube:3"]
#: Tori and a mesh with several hosts per switch or parallel cables.
PARALLEL = ["torus:dims=3x5x3,hosts=2,cables=3", "torus:dims=4x5,hosts=3,cables=2",
            "torus:dims=4x4x4,hosts=1,cables=2", "mesh:dims=3x3x4,hosts=1,cables=3"]  # fmt: skip


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def run(fabric: Fabric, folder: Path, text: str) -> tuple[str, np.ndarray, str]:
    """Return the engine that OpenSM used, its tables, and the path of the configuration."""
    folder.mkdir(exist_ok=True)
    conf = folder / "torus-2QoS.conf"
    conf.write_text(text)
    used, table = opensm_tables(fabric, folder, "torus-2QoS", "-Q", "--torus_config", str(conf))
    return used, table, str(conf)


def folded_configuration(fabric: Fabric) -> str:
    (torus,) = find_tori(fabric)
    return write(configuration(fabric, torus.folded()))


def their_lanes(fabric: Fabric, dump: str) -> dict[tuple[int, int, int], list[int]]:
    """Return the VL of every SL for each (switch, input port, output port)."""
    node_of = {int(guid): node for node, guid in enumerate(fabric.node_guid)}
    result: dict[tuple[int, int, int], list[int]] = {}
    node = -1
    for line in dump.splitlines():
        if header := re.match(r"(\w+) .*?(0x[0-9a-f]+)", line):
            node = node_of.get(int(header[2], 16), -1) if header[1] == "Switch" else -1
        elif node >= 0 and (row := re.match(r"(\d+)\s+(\d+)\s*:((?:\s+\d+){16})", line)):
            result[node, int(row[1]), int(row[2])] = [int(lane) for lane in row[3].split()]
    return result


def their_coordinates(dump: str) -> dict[int, list[int]]:
    return {
        int(guid, 16): [int(part) for part in at.split(",")]
        for at, guid in re.findall(r"switch (\S+) GUID (0x[0-9a-f]+)", dump)
    }


def worst(fabric: Fabric, routes: TableRoutes) -> float:
    return float(all_to_all_loads(fabric, routes).per_link[fabric.link_kind == 0].max())


def compare(fabric: Fabric, folder: Path, text: str) -> None:
    used, table, conf = run(fabric, folder, text)
    assert used == "torus-2QoS"
    same = route(fabric, "torus-2QoS", conf=conf, balance="opensm")
    assert isinstance(same, TableRoutes)
    assert np.array_equal(same.table, table)

    dump = their_lanes(fabric, (folder / "opensm-sl2vl.dump").read_text())
    assert len(dump) > fabric.num_switches
    lanes = same.lanes
    for (row, port_in, port_out), expected in dump.items():
        number = lanes.index[lanes.base[row] + port_in * lanes.ports[row] + port_out]
        assert lanes.tables[number].tolist() == expected, (row, port_in, port_out)

    torus = seeded(fabric, find_tori(fabric), parse(text))
    theirs = their_coordinates((folder / "opensm-torus.dump").read_text())
    ours = fabric.node_guid[fabric.graph.row_node[torus.rows]].tolist()
    assert dict(zip(ours, torus.coordinate.tolist(), strict=True)) == theirs

    as_theirs = validate(fabric, replace(same, table=table))
    for routes in (route(fabric, "torus-2QoS", conf=conf), route(fabric, "torus-2QoS")):
        assert isinstance(routes, TableRoutes)
        result = validate(fabric, routes)
        assert result.ok_where_connected, result.text()
        assert result.lanes <= as_theirs.lanes
        assert result.mean_hops <= as_theirs.mean_hops
        assert worst(fabric, routes) <= worst(fabric, same)
    assert as_theirs.ok_where_connected, as_theirs.text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spec", WHOLE + PARALLEL)
def test_complete_tori_and_meshes_equal_opensms(spec: str, tmp_path: Path) -> None:
    fabric = load(spec)
    compare(fabric, tmp_path, folded_configuration(fabric))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cables", [0, 1])
@pytest.mark.parametrize("spec", ["torus:5x5x4", "torus:6x5"])
def test_tori_without_a_cable_or_a_switch_equal_opensms(
    spec: str, cables: int, tmp_path: Path
) -> None:
    fabric = load(spec).with_faults(cables=cables, switches=1 - cables, seed=3)
    compare(fabric, tmp_path, folded_configuration(fabric))


def test_tori_with_shuffled_ports_equal_opensms(tmp_path: Path) -> None:
    fabric = load("torus:5x4x3").shuffled(1)
    compare(fabric, tmp_path, folded_configuration(fabric))


def test_a_configuration_may_choose_the_datelines_and_axes(tmp_path: Path) -> None:
    fabric = load("torus:dims=5x3,hosts=1,cables=2")
    guid = {name: int(g) for name, g in zip(fabric.node_names, fabric.node_guid, strict=True)}
    text = "\n".join([
        "torus 1 3t 5",
        f"zm_link {guid['s2.1']:#x} {guid['s3.1']:#x}",
        f"yp_link {guid['s2.1']:#x} {guid['s2.2']:#x}",
        "z_dateline -2",
        "y_dateline 1",
        "",
    ])  # fmt: skip
    compare(fabric, tmp_path, text)


def test_a_configuration_may_choose_the_order_of_ports(tmp_path: Path) -> None:
    fabric = load("torus:dims=5x3,hosts=3,cables=2")
    compare(fabric, tmp_path, folded_configuration(fabric) + "port_order 3 1 2\n")


def test_a_mesh_without_a_cable_is_routed_although_opensm_falls_back(tmp_path: Path) -> None:
    fabric = load("mesh:5x5").with_faults(cables=1, seed=0)
    used, _, _ = run(fabric, tmp_path, folded_configuration(fabric))
    assert used == "minhop"  # OpenSM falls back silently
    assert validate(fabric, route(fabric, "torus-2QoS")).ok


def test_opensm_leaves_hosts_unrouted_that_weft_routes(tmp_path: Path) -> None:
    """Two opposite cables of a switch are missing: OpenSM omits it and reports the subnet up."""
    fabric = load("torus:6x5").with_faults(cables=2, seed=0)
    used, table, conf = run(fabric, tmp_path, folded_configuration(fabric))
    assert used == "torus-2QoS"
    theirs = replace(route(fabric, "minhop"), table=table)
    assert validate(fabric, theirs).num_unrouted_pairs == 58
    assert validate(fabric, route(fabric, "torus-2QoS")).ok
    with pytest.raises(NotApplicable, match="can deadlock"):
        route(fabric, "torus-2QoS", conf=conf)
