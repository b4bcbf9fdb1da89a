"""Alternatives of routing keys that forwarding tables hold."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.sim.keys import keys
from weft.sim.keys.alternatives import (
    Alternatives,
    alternatives,
    installed_key,
    links_in,
)
from weft.sim.keys.network import key_network
from weft.sim.keys.scheduler import Place, Request, Scheduler

TREE = weft.fabric("xgft:3;4,4,4;1,4,4")


def made(fabric: weft.Fabric = TREE, flows: int = 40, seed: int = 1) -> weft.RoutingKey:
    ends = np.random.default_rng(seed).permutation(64)[: 2 * (flows // 2)].reshape(2, -1)
    return keys(fabric, *ends, first="random", seed=seed)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 16])
def test_alternatives_differ_and_have_the_contention_of_the_key(count: int) -> None:
    key = made()
    found = alternatives(key, count)
    assert len(found) == count
    assert np.array_equal(found[0], key.column)
    assert len({each.tobytes() for each in found}) == count
    for column in found:
        moved = key.moved(column)
        assert moved.worst == key.worst
        # Every path leads from its source to its destination.
        begin, edges = moved.paths
        graph = TREE.graph
        for flow in range(len(key.sources)):
            path = edges[begin[flow] : begin[flow + 1]]
            rows = [int(graph.destination_row[key.endpoints[0, flow]]), *graph.edge_row[path]]
            assert [int(graph.edge_tail[edge]) for edge in path] == rows[:-1]
            assert rows[-1] == graph.destination_row[key.endpoints[1, flow]]


def test_a_small_network_has_fewer_alternatives() -> None:
    tree = weft.fabric("xgft:2;4,4;1,4")
    assert len(alternatives(keys(tree, [0, 1], [4, 8]), 9)) == 4
    one = weft.fabric("xgft:2;4,4;1,1")
    assert len(alternatives(keys(one, [0], [4]), 3)) == 1


@pytest.mark.parametrize("seed", range(8))
def test_alternatives_avoid_missing_cables(seed: int) -> None:
    fabric = TREE.with_faults(cables=12, seed=seed)
    key = made(fabric, seed=seed)
    found = alternatives(key, 4)
    for column in found:
        assert (key.paths_on(column)[1] >= 0).all()
        assert key.moved(column).contention <= key.contention
    assert len(found) >= 2


def test_links_of_a_fabric_with_missing_cables_are_those_of_the_whole() -> None:
    fabric = TREE.with_faults(cables=9, seed=3)
    for own, link in enumerate(links_in(fabric, TREE).tolist()):
        assert TREE.link_from[link] == fabric.link_from[own]
        assert TREE.link_from_port[link] == fabric.link_from_port[own]
        assert TREE.link_to[link] == fabric.link_to[own]


def test_an_installed_key_adds_the_loads_of_its_columns() -> None:
    key = made()
    network = key_network(TREE)
    columns = alternatives(key, 3)
    links = links_in(TREE, TREE)[TREE.graph.edge_link]
    nothing = np.zeros((3, len(key.sources)), dtype=np.int32)
    # No flow is without a LID, so the paths of the base routes do not matter.
    base = installed_key(key, columns[:1], nothing[:1], None, links)
    installed = installed_key(key, columns, nothing, base, links)
    ours, plain = (
        Alternatives.of(network, installed), Alternatives.of(network, key, tuple(columns))
    )  # fmt: skip
    for number, column in enumerate(columns):
        loads = np.zeros(len(network.edge), dtype=np.int32)
        ours.add(number, 1, loads)
        assert np.array_equal(loads, key.moved(column).loads)
        plain.add(number, -1, loads)
        assert not loads.any()
    # Flows without a LID take the paths of the base routes.
    lost = nothing.copy()
    lost[1, ::2] = -1
    mixed = installed_key(key, columns, lost, base, links)
    begin, path = mixed.links(1)
    for flow in range(len(key.sources)):
        source = base.links(0) if flow % 2 == 0 else installed.links(1)
        expected = source[1][source[0][flow] : source[0][flow + 1]]
        assert np.array_equal(path[begin[flow] : begin[flow + 1]], expected)
    assert (mixed.lid_offset == 0).all()


def test_flows_between_the_same_hosts_count_once() -> None:
    key = keys(TREE, [0, 0, 1], [20, 20, 40])
    network = key_network(TREE)
    nothing = np.zeros((1, 3), dtype=np.int32)
    installed = installed_key(
        key, [key.column], nothing, None, links_in(TREE, TREE)[TREE.graph.edge_link]
    )
    loads = np.zeros(len(network.edge), dtype=np.int32)
    Alternatives.of(network, installed).add(0, 1, loads)
    assert np.array_equal(loads, key.loads)


def test_a_grant_takes_the_alternative_with_the_least_load() -> None:
    tree = weft.fabric("xgft:2;4,4;1,4")
    state = Scheduler(key_network(tree), choice="installed")
    for name, source in zip("ABCDE", (0, 1, 2, 3, 0), strict=True):
        key = keys(tree, [source], [source + 4], name=name)
        state.handle(Place(0.0, key, tuple(alternatives(key, 4))))
    grants = [grant for name in "ABCDE" for grant in state.handle(Request(1.0, name))]
    assert [grant.alternative for grant in grants] == [0, 1, 2, 3, 0]
    assert state.loads.max() == 2
    with pytest.raises(weft.InputError, match="cannot be granted with alternative 1 again"):
        state.restore("A", 1)


def test_alternatives_need_the_choice_installed() -> None:
    key = made()
    nothing = np.zeros((1, len(key.sources)), dtype=np.int32)
    installed = installed_key(
        key, [key.column], nothing, None, links_in(TREE, TREE)[TREE.graph.edge_link]
    )
    with pytest.raises(weft.InputError, match="expected the choice installed, not shift"):
        Scheduler(key_network(TREE)).handle(Place(0.0, installed))
