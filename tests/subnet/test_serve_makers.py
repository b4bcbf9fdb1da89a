"""Keys of the service: phases, LIDs, tables, and advice."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import weft
from weft.core.errors import InputError, NotApplicable
from weft.sim.keys.alternatives import InstalledKey
from weft.sim.keys.network import key_network
from weft.sim.keys.tables import enough_lmc, installed_tables, most_lmc
from weft.subnet.service import makers
from weft.subnet.service.makers import (
    MadeKey,
    MakerSettings,
    advise,
    base_routes,
    expand,
    initialise,
    make,
)

TREE = weft.fabric("xgft:3;4,4,4;1,4,4")
ENGINES = ("dmodk", "updn")
LMC = 4


@pytest.fixture(autouse=True)
def _maker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(makers, "_maker", None)
    initialise(TREE, MakerSettings(ENGINES, LMC, 4, 1))


def phases(seed: int, ranks: int = 24, number: int = 4) -> dict[str, tuple[NDArray[np.int32], ...]]:
    random = np.random.default_rng(seed)
    hosts = random.permutation(64)[:ranks].astype(np.int32)
    return {f"p{at}": (hosts, np.roll(hosts, at + 1)) for at in range(number)}


def followed(fabric: weft.Fabric, routes: weft.TableRoutes, source: int, line: int) -> list[int]:
    """Return the links between switches from a host to a LID, hop by hop."""
    graph = fabric.graph
    row = int(graph.destination_row[fabric.host_endpoint[source]])
    target = int(graph.destination_row[line >> routes.lmc])
    links = []
    while row != target:
        edge = int(graph.slot_edge[graph.row_base[row] + int(routes.table[line, row])])
        links.append(int(graph.edge_link[edge]))
        row = int(graph.edge_row[edge])
        assert len(links) < 10
    return links


@pytest.mark.parametrize("dead", [0, 1, 3])
def test_tables_lead_each_flow_along_its_alternative(dead: int) -> None:
    between = np.flatnonzero(TREE.link_kind[0::2] == weft.LinkKind.SWITCH_SWITCH)
    missing = tuple(np.random.default_rng(2).permutation(between)[:dead].tolist())
    made = make(phases(3), missing, 7)
    assert all(isinstance(each, MadeKey) for each in made)
    keys = [each.key for each in made if isinstance(each, MadeKey)]
    fabric = TREE.without(cables=missing) if missing else TREE
    base = base_routes(fabric, ENGINES)
    tables = installed_tables(fabric, base, keys, LMC, TREE)
    name = {fabric.link_name(link): link for link in range(fabric.num_links)}
    checked = 0
    for key in keys:
        assert key.num_alternatives == 4
        for number in range(4):
            begin, links = key.links(number)
            for flow, (source, destination) in enumerate(
                zip(key.sources.tolist(), key.destinations.tolist(), strict=True)
            ):
                line = (int(fabric.host_endpoint[destination]) << LMC) + int(
                    key.lid_offset[number, flow]
                )
                path = [
                    name[TREE.link_name(int(each))] for each in links[begin[flow] : begin[flow + 1]]
                ]
                assert followed(fabric, tables, source, line) == path
                checked += bool(path)
            assert key.worst(number) == 1
    assert checked > 300
    # The first LID of every host keeps the base routes, and all LIDs are valid together.
    assert np.array_equal(tables.table[:: 1 << LMC], base.table)
    judged = weft.validate(fabric, tables)
    assert judged.ok_where_connected
    assert judged.deadlock == "no"


def test_base_paths_are_those_of_the_base_routes() -> None:
    (made, *_) = make(phases(5), (), 0)
    assert isinstance(made, MadeKey)
    base = base_routes(TREE, ENGINES)
    begin, links = made.base.links(0)
    for flow, (source, destination) in enumerate(
        zip(made.key.sources.tolist(), made.key.destinations.tolist(), strict=True)
    ):
        path = followed(TREE, base, source, int(TREE.host_endpoint[destination]))
        assert links[begin[flow] : begin[flow + 1]].tolist() == path


def test_flows_without_a_lid_take_the_base_routes_and_are_counted() -> None:
    initialise(TREE, MakerSettings(ENGINES, 1, 4, 1))
    made = make(phases(3, ranks=40, number=6), (), 0)
    lost = 0
    for each in made:
        assert isinstance(each, MadeKey)
        usual, own = each.base.links(0), each.key.links(0)
        for flow in np.flatnonzero(each.key.lid_offset[0] == 0):
            mine, other = (links[begin[flow] : begin[flow + 1]] for begin, links in (own, usual))
            assert np.array_equal(mine, other)
        lost += each.without_lid
        # Further alternatives are complete or left out.
        assert (each.key.lid_offset[1:][:, np.diff(own[0]) > 0] > 0).all()
    assert lost > 0
    keys = [each.key for each in made if isinstance(each, MadeKey)]
    assert weft.validate(TREE, installed_tables(TREE, base_routes(TREE, ENGINES), keys, 1, TREE)).ok


def test_an_lmc_that_is_enough_has_lids_for_all_flows_and_the_next_smaller_has_not() -> None:
    tree = weft.fabric("xgft:2;4,6;1,4")
    enough = enough_lmc(key_network(tree))
    ends = np.nonzero(~np.eye(tree.num_hosts, dtype=np.bool_))
    sources, destinations = (each.astype(np.int32) for each in ends)
    left = []
    for lmc in (enough, enough - 1):
        initialise(tree, MakerSettings(ENGINES, lmc, 4, 1))
        made = make({"a": (sources, destinations), "b": (destinations, sources)}, (), 0)
        left.append(sum(each.without_lid for each in made if isinstance(each, MadeKey)))
        assert len(made) == 2
    assert left[0] == 0 < left[1]
    # Subnets have no more than 49,151 unicast LIDs.
    large = weft.fabric("xgft:2;36,36;1,36")
    assert enough_lmc(key_network(large)) == most_lmc(large) == 5


def test_tables_refuse_keys_on_missing_cables() -> None:
    keys = [each.key for each in make(phases(3), (), 0) if isinstance(each, MadeKey)]
    cable = int(keys[0].link[0]) // 2
    fabric = TREE.without(cables=[cable])
    with pytest.raises(NotApplicable, match="key p0 uses cables that are missing"):
        installed_tables(fabric, base_routes(fabric, ENGINES), keys, LMC, TREE)


def test_a_host_without_a_cable_fails_only_its_phases() -> None:
    cable = TREE.find_cable("h9[1]")
    asked = {
        "with": (np.array([9, 1], np.int32), np.array([40, 50], np.int32)),
        "without": (np.array([2, 1], np.int32), np.array([40, 50], np.int32)),
    }
    one, other = make(asked, (cable,), 0)
    assert one == ("with", f"host h9 of {TREE.name} has no cable")
    assert isinstance(other, MadeKey)


def test_phases_are_flows_patterns_or_keys_of_a_workload() -> None:
    found = expand(4, [("a", [(0, 1), (2, 3)]), ("b", "shift:offset=1"), ("c", [])], None)
    assert {name: ends.tolist() for name, ends in found.items()} == {
        "a": [[0, 2], [1, 3]],
        "b": [[0, 1, 2, 3], [1, 2, 3, 0]],
        "c": [[], []],
    }
    found = expand(8, None, "cartesian:keys=true")
    assert len(found) == 6
    assert all(len(sources) == 8 for sources, _ in found.values())
    with pytest.raises(InputError, match="there are two phases named a"):
        expand(4, [("a", "shift"), ("a", "shift")], None)
    with pytest.raises(InputError, match="expected one of 'weft list applications'"):
        expand(4, None, "/etc/passwd")


def test_advice_prefers_less_contention_then_fewer_leaf_switches() -> None:
    # Four hosts of one leaf switch are free, and one of each other: three are wanted.
    free = [0, 4, 8, 13, 20, 21, 22, 23]
    best, *others = advise(4, free, None, "cartesian:keys=true", ())
    assert best.hosts == (20, 21, 22, 23)
    assert best.leaf_switches == 1
    assert all(best.contention <= each.contention for each in others)
    with pytest.raises(InputError, match="9 hosts are wanted, but only 8 are free"):
        advise(9, free, None, None, ())


def test_a_key_that_is_made_again_leaves_the_lids_of_the_keys_that_stay() -> None:
    wanted = phases(3)
    first = [each.key for each in make(wanted, (), 7) if isinstance(each, MadeKey)]
    again = {"p3": wanted["p3"]}
    base = base_routes(TREE, ENGINES)

    def tables(kept: list[InstalledKey]) -> weft.TableRoutes:
        (made,) = make(again, (), 99, kept)
        assert isinstance(made, MadeKey)
        return installed_tables(TREE, base, [*first[:3], made.key], LMC, TREE)

    routes = tables(first[:3])
    for key in first[:3]:
        for number in range(key.num_alternatives):
            begin, links = key.links(number)
            for flow, (source, to) in enumerate(zip(key.sources, key.destinations, strict=True)):
                line = (int(TREE.host_endpoint[to]) << LMC) + int(key.lid_offset[number, flow])
                path = links[begin[flow] : begin[flow + 1]].tolist()
                assert followed(TREE, routes, int(source), line) == path
    with pytest.raises(NotApplicable, match="another key needs other paths"):
        tables([])
