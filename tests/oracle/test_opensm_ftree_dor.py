"""weft's `ftree` and `dor`: every table entry is compared with that of the real OpenSM."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.oracle.tools import opensm_tables, require_tools
from tests.reference.ftree import FatTree
from tests.reference.test_ftree_twin import messy_tree
from tests.routing.test_ftree import leaf_to_leaf

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.engine_registry import sending_rows
from weft.routing.opensm.guids import guid_list
from weft.routing.routes import TableRoutes

pytestmark = pytest.mark.oracle

CLUSTER = str(Path(__file__).parents[2] / "examples" / "cluster.ibnetdiscover")
TREES = [
    "xgft:3;6,6,6;1,6,6",
    "xgft:3;3,4,3;1,2,3",
    "kary-n-tree:k=4,n=2,hosts=2,cables=3",
    "xgft:2;8,4;1,4;1,2",
    "leaf-spine:leaves=6,spines=3,hosts=4,cables=2",
    "slimmed-fat-tree:k=4,up=1,n=3,cables=2",
    "cellia:nodes=36",
    "megafly:p=2,leaves=4,spines=4,h=2",
]
OTHERS = ["kns:k=6,n=2", "torus:4x4x4", "mesh:3x5", "hypercube:4", "torus:dims=5x4,cables=2"]
SHUFFLES = [None, 1]


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def fabric_of_spec(spec: str, shuffle: int | None) -> Fabric:
    return load(spec) if shuffle is None else load(spec).shuffled(shuffle)


def ours(fabric: Fabric, engine: str, **options: Any) -> np.ndarray:
    routes = route(fabric, engine, **options)
    assert isinstance(routes, TableRoutes)
    return routes.table


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("spec", TREES)
def test_ftree_equals_opensms_on_complete_trees(
    spec: str, shuffle: int | None, tmp_path: Path
) -> None:
    fabric = fabric_of_spec(spec, shuffle)
    used, table = opensm_tables(fabric, tmp_path, "ftree")
    assert used == "ftree"
    assert np.array_equal(ours(fabric, "ftree"), table)


@pytest.mark.parametrize("spec", ["torus:4x4x4", "jellyfish:switches=20,degree=4", CLUSTER])
def test_both_refuse_an_incomplete_tree(spec: str, tmp_path: Path) -> None:
    used, _ = opensm_tables(load(spec), tmp_path, "ftree")
    assert used == "minhop"  # OpenSM falls back silently
    with pytest.raises(NotApplicable):
        route(load(spec), "ftree")


def test_fabrics_that_opensm_leaves_unrouted_are_refused(tmp_path: Path) -> None:
    fabric = load("kns:k=6,n=2")
    used, table = opensm_tables(fabric, tmp_path, "ftree")
    assert used == "ftree"
    leaves = np.unique(fabric.graph.destination_row[: fabric.num_endpoints])
    gaps = int((table[: fabric.num_endpoints, leaves] == 255).sum())
    with pytest.raises(NotApplicable, match=f"{gaps} pairs of a switch and a host"):
        route(fabric, "ftree")


def test_opensm_skips_hosts_of_leaves_that_a_cable_connects(tmp_path: Path) -> None:
    fabric = leaf_to_leaf(4)
    hosts, leaves = fabric.num_endpoints, sending_rows(fabric)
    gaps = 0
    for run in range(5):
        (tmp_path / str(run)).mkdir()
        used, table = opensm_tables(fabric, tmp_path / str(run), "ftree")
        assert used == "ftree"
        gaps += np.count_nonzero(table[:hosts][:, leaves] == 255)
    assert gaps > 0
    with pytest.raises(NotApplicable, match="from run to run"):
        route(fabric, "ftree")
    (tmp_path / "one").mkdir()
    used, table = opensm_tables(leaf_to_leaf(1), tmp_path / "one", "ftree")
    assert used == "ftree"
    assert np.array_equal(ours(leaf_to_leaf(1), "ftree"), table)


def lists(fabric: Fabric, folder: Path) -> dict[str, Path]:
    """Write lists of some compute nodes and some input/output nodes; return the files by kind."""
    files = {"cn": fabric.host_endpoint[::2], "io": fabric.host_endpoint[1::4]}
    for kind, ends in files.items():
        (folder / kind).write_text(guid_list(fabric, ends, kind=kind))  # type: ignore[arg-type]
    return {kind: folder / kind for kind in files}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("hops", [0, 2])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_ftree_equals_opensms_with_compute_and_io_nodes(
    shuffle: int | None, hops: int, tmp_path: Path
) -> None:
    fabric = fabric_of_spec("xgft:3;4,4,4;1,4,4", shuffle)
    files = lists(fabric, tmp_path)
    used, table = opensm_tables(
        fabric, tmp_path, "ftree", "-u", str(files["cn"]), "-G", str(files["io"]), "-H", f"{hops}"
    )
    assert used == "ftree"
    named = {"compute": (f"@{files['cn']}",), "io": (f"@{files['io']}",)}
    assert np.array_equal(ours(fabric, "ftree", **named, max_reverse_hops=hops), table)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("connect", [False, True])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_ftree_equals_opensms_on_faulty_trees_with_roots(
    shuffle: int | None, connect: bool, tmp_path: Path
) -> None:
    complete = fabric_of_spec("xgft:3;4,4,4;1,4,4", shuffle)
    tops = [complete.node_names[node] for node in FatTree(complete).roots]
    fabric = complete.with_faults(cables=4, switches=1, seed=2)
    roots = [fabric.find_node(name) for name in tops if name in fabric.node_names]
    file = tmp_path / "roots"
    file.write_text(guid_list(fabric, np.array(roots), kind="root"))
    more = ["-z"] if connect else []
    used, table = opensm_tables(fabric, tmp_path, "ftree", "-a", str(file), *more)
    assert used == "ftree"
    result = ours(fabric, "ftree", roots=(f"@{file}",), connect_roots=connect)
    assert np.array_equal(result, table)


def test_a_faulty_tree_without_roots_is_refused_by_both(tmp_path: Path) -> None:
    fabric = load("xgft:3;4,4,4;1,4,4").with_faults(cables=4, switches=1, seed=2)
    used, _ = opensm_tables(fabric, tmp_path, "ftree")
    assert used == "minhop"
    with pytest.raises(NotApplicable, match="not a complete fat tree"):
        route(fabric, "ftree")


@pytest.mark.parametrize("seed", [3, 5, 8, 28])
def test_ftree_equals_opensms_in_the_reachable_part_of_irregular_trees(
    seed: int, tmp_path: Path
) -> None:
    fabric = messy_tree(seed)
    routes = route(fabric, "ftree", pure=False)
    assert isinstance(routes, TableRoutes)
    label = fabric.graph.components
    part = label[fabric.graph.destination_row[0]]
    file = tmp_path / "roots"
    file.write_text(guid_list(fabric, np.array(sorted(FatTree(fabric).roots)), kind="root"))
    used, table = opensm_tables(fabric, tmp_path, "ftree", "-a", str(file))
    assert used == "ftree"
    rows = fabric.graph.destination_row
    seen = label[rows] == part
    assert np.array_equal(routes.table[seen][:, label == part], table[seen][:, label == part])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("spec", [*OTHERS, TREES[3], CLUSTER])
def test_dor_equals_opensms(spec: str, shuffle: int | None, tmp_path: Path) -> None:
    fabric = fabric_of_spec(spec, shuffle)
    used, table = opensm_tables(fabric, tmp_path, "dor")
    assert used == "dor"
    assert np.array_equal(ours(fabric, "dor"), table)


@pytest.mark.parametrize("lmc", [1, 2])
@pytest.mark.parametrize("spec", ["mesh:dims=3x4,hosts=2,cables=3", "kns:k=6,n=2,cables=2"])
def test_dor_equals_opensms_with_several_lids(spec: str, lmc: int, tmp_path: Path) -> None:
    fabric = load(spec).shuffled(3)
    used, _ = opensm_tables(fabric, tmp_path, "dor", "-l", f"{lmc}")
    assert used == "dor"
    result = ours(fabric, "dor", lmc=lmc)
    dump = (tmp_path / "opensm-lfts.dump").read_text()
    node_of = {int(guid): switch for switch, guid in enumerate(fabric.node_guid)}
    ports: dict[tuple[int, int], list[int]] = defaultdict(list)
    switch = -1
    for line in dump.splitlines():
        if header := re.match(r"Unicast lids .* guid (0x[0-9a-f]+)", line):
            switch = node_of[int(header[1], 16)]
        elif row := re.match(r"0x[0-9a-f]+\s+(\d+)\s+# Channel.*portguid (0x[0-9a-f]+)", line):
            ports[int(row[2], 16), switch].append(int(row[1]))
    slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    for end, guid in enumerate(fabric.port_guid[slots].tolist()):
        for switch in range(fabric.num_switches):
            lids = result[end << lmc : (end + 1) << lmc, switch]
            assert lids.tolist() == ports[guid, switch]


def test_dor_equals_opensms_with_destinations_ordered_by_a_file(tmp_path: Path) -> None:
    fabric = load("mesh:dims=3x4,hosts=2,cables=3").shuffled(3)
    ends = np.random.default_rng(1).permutation(fabric.num_destinations)[:20]
    file = tmp_path / "order"
    file.write_text(guid_list(fabric, ends, kind="order"))
    used, table = opensm_tables(fabric, tmp_path, "dor", "-X", str(file))
    assert used == "dor"
    assert np.array_equal(ours(fabric, "dor", order=(f"@{file}",)), table)
    assert not np.array_equal(ours(fabric, "dor"), table)
