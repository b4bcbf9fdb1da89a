from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.guids import guid_list
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads


def ftree(fabric: Fabric, **options: Any) -> TableRoutes:
    routes = route(fabric, "ftree", **options)
    assert isinstance(routes, TableRoutes)
    return routes


def loads(fabric: Fabric, routes: TableRoutes) -> np.ndarray:
    return all_to_all_loads(fabric, routes).per_link[fabric.link_kind == 0]


@pytest.mark.parametrize("seed", [None, 5])
def test_an_all_to_all_loads_links_evenly(seed: int | None) -> None:
    fabric = load("xgft:3;6,6,6;1,6,6")
    fabric = fabric if seed is None else fabric.shuffled(seed)
    result = loads(fabric, ftree(fabric))
    assert (result.max(), result.min()) == (210, 180)


def test_paths_to_a_leaf_diverge_despite_missing_hosts() -> None:
    """Paths from another leaf to the remaining hosts of a leaf still use different uplinks."""
    complete = load("xgft:2;4,4;1,4")
    removed = ["h2", "h7", "h8"]
    fabric = complete.without(cables=[f"{name}[1]" for name in removed])
    kept = [h for h, name in enumerate(complete.host_names) if name not in removed]
    order = ftree(complete)
    # Hosts of a leaf are taken in the order of its ports, so that no uplink is left out at a gap.
    up = order.table[: complete.num_hosts, : complete.num_switches]
    fewer = ftree(fabric).table[: len(kept), : complete.num_switches]
    leaf_of = complete.graph.destination_row[: complete.num_hosts]
    assert np.array_equal(fewer[kept.index(12)], up[12])
    for leaf in range(4):
        own = [number for number, h in enumerate(kept) if leaf_of[h] == leaf]
        other = (leaf + 1) % 4
        assert len(np.unique(fewer[own, other])) == len(own)


def test_faulty_trees_need_roots_or_pure_false() -> None:
    fabric = load("xgft:3;4,4,4;1,4,4").with_faults(cables=4, switches=1, seed=2)
    with pytest.raises(NotApplicable, match=r"not a complete fat tree: .* neighbours above"):
        ftree(fabric)
    routes = ftree(fabric, pure=False)
    result = validate(fabric, routes)
    assert result.ok
    assert result.max_detour == 0
    tops = tuple(name for name in fabric.node_names if name.startswith("s3-"))
    assert np.array_equal(ftree(fabric, roots=tops).table, routes.table)


def test_pairs_without_an_up_down_path_are_refused() -> None:
    with pytest.raises(NotApplicable, match=r"900 pairs of a switch and a host .* from r1\.1"):
        ftree(load("kns:k=6,n=2"))


@pytest.mark.parametrize("spec", ["torus:4x4", "mesh:3x3", "jellyfish:switches=20,degree=4"])
def test_other_topologies_than_trees_are_refused(spec: str) -> None:
    with pytest.raises(NotApplicable, match="not a tree of several levels"):
        ftree(load(spec))


def test_lists_of_guids_and_of_names_give_the_same_tables(tmp_path: Path) -> None:
    fabric = load("xgft:3;3,4,3;1,2,3").shuffled(3)
    io = fabric.host_nodes[::4]
    ends = fabric.host_endpoint[::4]
    (tmp_path / "io").write_text(guid_list(fabric, ends, kind="io"))
    (tmp_path / "cn").write_text(guid_list(fabric, fabric.host_endpoint[1::2], kind="cn"))
    by_name = ftree(fabric, io=tuple(fabric.node_names[node] for node in io))
    slots = fabric.port_offset[io]
    assert np.array_equal(by_name.table, ftree(fabric, io=(f"@{tmp_path}/io",)).table)
    ports = tuple(f"{int(guid):#x}" for guid in fabric.port_guid[slots])
    assert np.array_equal(by_name.table, ftree(fabric, io=ports).table)
    assert not np.array_equal(by_name.table, ftree(fabric).table)
    two = ftree(fabric, io=(f"@{tmp_path}/io",), compute=(f"@{tmp_path}/cn",))
    assert not np.array_equal(by_name.table, two.table)
    assert validate(fabric, two).ok


def test_input_output_nodes_may_be_at_the_roots() -> None:
    """Only compute nodes must be on leaves. Roots reach the others via a hop in reverse."""
    build = FabricBuilder("io at roots")
    tops, leaves = build.switches(["t0", "t1"]), build.switches(["l0", "l1", "l2"])
    build.connect(np.repeat(tops, 3), np.tile(leaves, 2))
    build.connect(leaves, build.hosts(["a", "b", "c"]))
    build.connect(tops, build.hosts(["x", "y"]))
    fabric = build.fabric()
    with pytest.raises(NotApplicable):
        ftree(fabric, roots=("t0", "t1"))
    options: dict[str, Any] = {"roots": ("t0", "t1"), "compute": ("a", "b", "c"), "io": ("x", "y")}
    with pytest.raises(NotApplicable, match="2 pairs of a switch and a host"):
        ftree(fabric, **options)
    routes = ftree(fabric, **options, max_reverse_hops=1)
    result = validate(fabric, routes)
    assert result.ok
    assert not result.credit_loops


def test_roots_have_paths_to_each_other_on_request() -> None:
    fabric = load("xgft:2;4,4;1,4")
    between = slice(fabric.num_endpoints + 4, None)
    assert (ftree(fabric).table[between, 4:] == 255).sum() == 12
    joined = ftree(fabric, connect_roots=True)
    assert (joined.table[between, 4:] != 255).all()
    assert np.array_equal(joined.table[: fabric.num_endpoints], ftree(fabric).table[:16])


@pytest.mark.parametrize("leaves", [3, 5])
def test_paths_that_could_deadlock_are_refused(leaves: int) -> None:
    """Cables between neighbouring leaves form a ring; paths follow it only if it is long."""
    build = FabricBuilder("a root over a ring")
    ring = build.switches([f"l{i}" for i in range(leaves)])
    build.connect(np.repeat(build.switches(["top"]), leaves), ring)
    build.connect(ring, np.roll(ring, 1))
    build.connect(ring, build.hosts([f"h{i}" for i in range(leaves)]))
    fabric = build.fabric()
    if leaves == 5:
        with pytest.raises(NotApplicable, match=r"can deadlock: l\d\[\d\] -> l\d"):
            ftree(fabric)
    else:
        assert validate(fabric, ftree(fabric)).ok


def test_bad_options_are_refused() -> None:
    fabric = load("xgft:2;4,4;1,4")
    with pytest.raises(InputError, match="must be at least 0"):
        ftree(fabric, max_reverse_hops=-1)
    with pytest.raises(InputError, match="h0 is not a switch"):
        ftree(fabric, roots=("h0",))
    with pytest.raises(InputError, match="option io: s2-0 is not an adapter"):
        ftree(fabric, io=("s2-0",))
    with pytest.raises(InputError, match="expected at least one node"):
        ftree(fabric, roots=())
    with pytest.raises(InputError, match="no node 'h99'"):
        ftree(fabric, compute=("h99",))
    with pytest.raises(InputError, match="lmc"):
        route(fabric, "ftree", lmc=1)


def test_planes_are_routed_as_separate_trees() -> None:
    fabric = load("xgft:2;3,4;2,2;2,1")
    routes = ftree(fabric)
    assert validate(fabric, routes).ok
    assert len(routes.notes) == 2
    assert routes.notes[0] == routes.notes[1]


@pytest.mark.parametrize("spec", ["", "io=0x10010c", "roots=spine1,spine2,spine3,spine4"])
def test_adapters_on_upper_levels_are_refused_with_options_that_work(spec: str) -> None:
    fabric = load("examples/cluster.ibnetdiscover")
    with pytest.raises(NotApplicable, match=r"spine1 .*hops from the roots") as caught:
        route(fabric, f"ftree:{spec}")
    if "io" not in spec:
        assert "Aggregation Node (0x10010c) is attached to switch spine1" in str(caught.value)
    advice = str(caught.value).rpartition("; the fabric can be routed with io=")[2]
    assert validate(fabric, route(fabric, f"ftree:io={advice}")).ok


def test_advice_is_limited_to_a_few_nodes() -> None:
    builder = FabricBuilder("a tree with adapters at a root")
    roots = builder.switches([f"top;{number}" for number in range(30)])
    leaves = builder.switches([f"leaf{number}" for number in range(20)])
    builder.connect(roots.repeat(20), np.tile(leaves, 30))
    builder.connect(leaves.repeat(20), builder.hosts([f"h{number}" for number in range(400)]))
    builder.connect(roots[:1].repeat(9), builder.hosts([f"{number}, 1" for number in range(9)]))
    with pytest.raises(NotApplicable) as caught:
        route(builder.fabric(), "ftree")
    assert 'io="0, 1", "1, 1", "2, 1" and 6 more;roots="top;0"' in str(caught.value)
    assert len(str(caught.value)) < 400


def test_idle_leaf_switches_are_not_advised_as_roots() -> None:
    builder = FabricBuilder("a tree with an idle leaf and a server at a spine")
    leaves, spines, tops = (
        builder.switches([f"{level}{at}" for at in range(4)]) for level in ("leaf", "spine", "top")
    )
    builder.connect(leaves.repeat(2), spines[[0, 1, 0, 1, 2, 3, 2, 3]])
    builder.connect(spines.repeat(2), tops[[0, 1, 2, 3, 0, 1, 2, 3]])
    builder.connect(leaves[:3].repeat(4), builder.hosts([f"h{number}" for number in range(12)]))
    builder.connect(spines[:1], builder.hosts(["server"]))
    fabric, advice = builder.fabric(), "io=server;roots=top0,top1,top2,top3"
    with pytest.raises(NotApplicable, match=f"the fabric can be routed with {advice}$"):
        ftree(fabric)
    assert validate(fabric, route(fabric, f"ftree:{advice}")).ok


def test_general_advice_is_given_where_no_nodes_can_be_named() -> None:
    builder = FabricBuilder("hosts at both ends of a line")
    switches = builder.switches(["s0", "s1", "s2", "s3"])
    builder.connect(switches[:-1], switches[1:])
    builder.connect(switches[[0, 1, 1, 3]], builder.hosts(["h0", "h1", "h2", "h3"]))
    with pytest.raises(NotApplicable, match="specify the roots, and the io nodes"):
        ftree(builder.fabric())


def leaf_to_leaf(hosts: int) -> Fabric:
    """Return two leaves with hosts, two spines, and a cable between the leaves."""
    build = FabricBuilder("leaf to leaf")
    leaves, spines = build.switches(["leaf0", "leaf1"]), build.switches(["spine0", "spine1"])
    for number, leaf in enumerate(leaves):
        build.connect([leaf] * hosts, build.hosts([f"h{number}.{i}" for i in range(hosts)]))
        build.connect([leaf, leaf], spines)
    build.connect(leaves[:1], leaves[1:])
    return build.fabric()


def test_a_cable_between_leaves_with_several_hosts_is_refused() -> None:
    """OpenSM then skips hosts of a leaf, which differ from run to run."""
    with pytest.raises(NotApplicable, match=r"cables connect leaf0 to leaf1 .* from run to run"):
        route(leaf_to_leaf(4), "ftree")
    assert validate(leaf_to_leaf(1), route(leaf_to_leaf(1), "ftree")).ok
