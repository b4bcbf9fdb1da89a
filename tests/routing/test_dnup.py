"""dnup, and updn with roots from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.engine_registry import never_deadlocks
from weft.routing.engines.dnup import leaf_ranks
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.effective_bisection import bisection


def test_the_level_of_a_switch_follows_from_its_distance_from_the_leaves() -> None:
    fabric = load("xgft:3;2,2,2;1,2,2")
    ranks = leaf_ranks(fabric)[: fabric.num_switches]
    # 4 leaves, 4 switches above them and 4 at the top.
    assert np.bincount(ranks).tolist() == [4, 4, 4]


@pytest.mark.parametrize("balance", ["flows", "opensm"])
def test_routes_of_a_tree_are_minimal(balance: str) -> None:
    fabric = load("xgft:3;4,4,4;1,4,4")
    verdict = validate(fabric, route(fabric, "dnup", balance=balance))
    assert verdict.ok
    assert verdict.minimal_share == 1


def test_flows_are_balanced_at_least_as_well_as_by_updn() -> None:
    fabric = load("xgft:3;4,4,4;1,4,4").with_faults(cables=3, switches=1, seed=4)
    between = fabric.link_kind == 0
    worst = [
        all_to_all_loads(fabric, route(fabric, name)).per_link[between].max()
        for name in ("dnup", "updn")
    ]
    assert worst[0] <= worst[1]


def test_hosts_without_a_path_are_refused_or_lost_as_by_opensm() -> None:
    fabric = load("kns:k=4,n=2")
    with pytest.raises(NotApplicable, match="have no path that goes away"):
        route(fabric, "dnup")
    routes = route(fabric, "dnup", balance="opensm")
    verdict = validate(fabric, routes)
    assert (verdict.num_unrouted_pairs, verdict.num_disconnected_pairs) == (144, 0)
    assert not verdict.ok_where_connected
    (note,) = routes.notes
    assert note.startswith("OpenSM leaves 144 pairs of a switch and a host without a path, such as")


@pytest.mark.parametrize("balance", ["flows", "opensm"])
def test_second_ports_of_hosts_are_reached_or_reported(balance: str) -> None:
    # One of two spines connects leaves a and b, the other connects leaves b and c.
    build = FabricBuilder("two rails")
    a, b, c, left, right = build.switches(["a", "b", "c", "left", "right"])
    build.connect([left, left, right, right], [a, b, b, c])
    hosts = build.hosts(["x", "y", "z"])
    build.connect(hosts, [a, b, b])
    assert validate(build.fabric(), route(build.fabric(), "dnup", balance=balance)).ok
    build.connect([hosts[2]], [c])
    if balance == "opensm":
        (note,) = route(build.fabric(), "dnup", balance=balance).notes
        assert note.endswith("such as from c to x")
        return
    with pytest.raises(NotApplicable, match="for example from c to x"):
        route(build.fabric(), "dnup", balance=balance)


def test_a_fabric_without_leaf_switches_is_refused() -> None:
    fabric = load("xgft:2;2,2;1,2")
    bare = fabric.without(switches=fabric.node_names[:2])
    with pytest.raises(NotApplicable, match="no switch with an adapter"):
        route(bare, "dnup")


def guid_file(folder: Path, text: str) -> Path:
    path = folder / "roots.txt"
    path.write_text(text)
    return path


def test_roots_are_those_named_in_a_file(tmp_path: Path) -> None:
    fabric = load("xgft:2;4,4;1,4")
    names = fabric.node_names[fabric.num_switches - 1], fabric.node_names[fabric.num_switches - 2]
    guids = [int(fabric.node_guid[fabric.find_node(name)]) for name in names]
    path = guid_file(tmp_path, f"# two roots\n{guids[0]:#018x}\n\n{guids[1]:#x} # the other\n")
    listed = route(fabric, "updn", root_guid_file=path)
    named = route(fabric, "updn", roots=names)
    assert isinstance(listed, TableRoutes)
    assert isinstance(named, TableRoutes)
    assert np.array_equal(listed.table, named.table)
    assert listed.notes == named.notes
    text = route(fabric, f"updn:root_guid_file={path}")
    assert isinstance(text, TableRoutes)
    assert np.array_equal(text.table, named.table)


def test_a_guid_that_no_switch_has_is_refused_with_its_line(tmp_path: Path) -> None:
    fabric = load("torus:4x4")
    path = guid_file(tmp_path, f"{int(fabric.node_guid[0]):#x}\n0xdead\n")
    with pytest.raises(InputError, match=r"roots\.txt.*2.*0x000000000000dead") as caught:
        route(fabric, "updn", root_guid_file=path)
    assert "\n" not in str(caught.value)


def test_roots_and_a_file_of_roots_exclude_each_other(tmp_path: Path) -> None:
    fabric = load("torus:4x4")
    path = guid_file(tmp_path, f"{int(fabric.node_guid[0]):#x}\n")
    with pytest.raises(InputError, match="must not both be given"):
        route(fabric, "updn", roots="center", root_guid_file=path)


@pytest.mark.parametrize("name", ["dnup", "updn:roots=center"])
def test_paths_longer_than_the_limit_of_opensm_are_lost(name: str) -> None:
    ring = load("torus:600")
    routes = route(ring, name, balance="opensm")
    assert routes.notes[-1].endswith(", because it allows at most 254 hops")
    assert validate(ring, routes).num_unrouted_pairs > 0
    ring = load("torus:250")
    assert validate(ring, route(ring, name, balance="opensm")).num_unrouted_pairs == 0


@pytest.mark.parametrize("name", ["dnup", "updn", "minhop"])
@pytest.mark.parametrize("balance", ["flows", "opensm"])
def test_passes_must_be_at_least_one_with_any_balance(name: str, balance: str) -> None:
    with pytest.raises(InputError, match="passes: 0 does not fit: expected 1 or more"):
        route(load("xgft:2;4,4;1,4"), name, balance=balance, passes=0)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_spine_with_an_adapter_stays_above_the_leaves(seed: int | None) -> None:
    fabric = load("examples/cluster.ibnetdiscover")
    fabric = fabric if seed is None else fabric.shuffled(seed)
    routes = route(fabric, "dnup")
    assert validate(fabric, routes).ok
    assert all_to_all_loads(fabric, routes).per_link[fabric.link_kind == 0].min() > 0
    share = bisection(fabric, routes, 300).mean
    assert share >= bisection(fabric, route(fabric, "dnup", balance="opensm"), 300).mean


@pytest.mark.parametrize("name", ["dnup", "updn"])
def test_tables_of_opensm_are_not_declared_deadlock_free(name: str) -> None:
    assert never_deadlocks(name)
    assert not never_deadlocks(f"{name}:balance=opensm")
    assert not never_deadlocks("minhop")


def test_opensms_dnup_can_deadlock_on_a_torus() -> None:
    fabric = load("torus:4x4x4")
    assert validate(fabric, route(fabric, "dnup", balance="opensm")).credit_loops
    assert not validate(fabric, route(fabric, "dnup")).credit_loops
