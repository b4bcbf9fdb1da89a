"""The deadlock proof against a walk of every packet, on random fabrics, routes and lanes."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference.dependencies import cycles, dependency_graph
from tests.reference.phases import by_random_groups
from weft.fabrics import Fabric, FabricBuilder
from weft.kernels.parts import parts
from weft.kernels.routes.dependencies import list_dependencies, strip_acyclic
from weft.routing import route
from weft.routing.engine_registry import destination_ports, empty_table
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes, VirtualLanes
from weft.routing.validation.deadlock import credit_loops, dependencies
from weft.routing.validation.validate import validate

CASES = 150


def random_lanes(fabric: Fabric, random: np.random.Generator) -> VirtualLanes:
    """Return random VLs of the 16 SLs, several SLs on one VL; one table, or one per port pair."""
    vls = int(random.integers(1, 4))
    if random.random() < 0.5:
        return VirtualLanes.uniform(random.integers(0, vls, 16))
    ports = np.diff(fabric.graph.row_base).astype(np.int32)
    base = np.concatenate(([0], np.cumsum(ports.astype(np.int64) ** 2)))
    maps = random.integers(0, vls, (4, 16)).astype(np.uint8)
    index = random.integers(0, 4, int(base[-1])).astype(np.int32)
    return VirtualLanes(maps, index, base[:-1], ports)


def random_table(fabric: Fabric, lmc: int, random: np.random.Generator) -> np.ndarray:
    """Return a random tree per LID, in half of the tables with dead ends and loops at random."""
    graph = fabric.graph
    table = empty_table(fabric, lmc)
    ports = destination_ports(fabric)
    for lid, line in enumerate(table):
        goal = graph.destination_row[lid >> lmc]
        if goal < 0:
            continue
        line[goal] = ports[lid >> lmc]
        tree = [int(goal)]
        while True:
            edges = np.flatnonzero(np.isin(graph.edge_row, tree) & ~np.isin(graph.edge_tail, tree))
            if not len(edges):
                break
            edge = random.choice(edges)
            tree.append(int(graph.edge_tail[edge]))
            line[tree[-1]] = graph.edge_port[edge]
    if random.random() < 0.5:
        wrong = random.random(table.shape) < 0.15
        table[wrong] = random.integers(0, 8, int(wrong.sum()))
    return table


def table_case(seed: int) -> tuple[Fabric, TableRoutes]:
    random = np.random.default_rng(seed)
    switches = 2 + seed % 5
    fabric = random_fabric(
        seed, switches=switches, hosts=min(2 * switches - 1, 7), others=seed % 2,
        loopbacks=seed % 3 // 2,
    )  # fmt: skip
    lmc = int(random.integers(0, 2))
    routes = route(fabric, "updn", roots="center", lmc=lmc, passes=1)
    assert isinstance(routes, TableRoutes)
    if random.random() < 0.8:
        routes = replace(routes, table=random_table(fabric, lmc, random))
    lids = fabric.num_destinations << lmc
    shape = [(), (lids,), (fabric.graph.num_rows, lids)][random.integers(3)]
    levels = random.choice(16, int(random.integers(1, 5)), replace=False)
    if len(levels) > 1:
        levels[:2] = 0, 15
    sl = random.choice(levels, shape).astype(np.uint8)
    return fabric, replace(routes, sl=sl, lanes=random_lanes(fabric, random))


def path_case(seed: int) -> tuple[Fabric, PathRoutes]:
    """Return walks of random length from random endpoints, each as the path of some pair."""
    random = np.random.default_rng(seed)
    fabric = random_fabric(seed, switches=2 + seed % 5, hosts=5, loopbacks=seed % 2)
    graph, ends = fabric.graph, fabric.num_host_endpoints
    paths: dict[int, list[int]] = {}
    for _ in range(60):
        source = int(random.integers(ends))
        row, walk = int(graph.destination_row[source]), []
        for _ in range(int(random.integers(0, 4)) if row >= 0 else 0):
            leaving = np.flatnonzero(graph.edge_tail == row)
            if not len(leaving):
                break
            walk.append(int(random.choice(leaving)))
            row = int(graph.edge_row[walk[-1]])
        arriving = np.flatnonzero(
            (graph.destination_row[:ends] == row) & (np.arange(ends) != source)
        )
        if row >= 0 and len(arriving):
            paths[source * ends + int(random.choice(arriving))] = walk
    pairs = sorted(paths)
    offset = np.concatenate(([0], np.cumsum([len(paths[pair]) for pair in pairs])))
    sl = random.integers(0, 16, [(), (len(pairs),)][random.integers(2)]).astype(np.uint8)
    return fabric, PathRoutes(
        "twin", fabric.digest, sl=sl, lanes=random_lanes(fabric, random),
        pair=np.array(pairs, dtype=np.int64), offset=offset.astype(np.int64),
        edge=np.array([edge for pair in pairs for edge in paths[pair]], dtype=np.int32),
    )  # fmt: skip


def candidate_case(seed: int) -> tuple[Fabric, CandidateRoutes]:
    """Return minimal paths, direct or via intermediates, on random lanes; some sets are missing."""
    random = np.random.default_rng(seed)
    fabric = random_fabric(seed, switches=5 + seed % 2, hosts=4, others=seed % 2)
    lanes = 1 + seed // 2 % 3
    routes = by_random_groups(fabric, seed, direct=bool(seed // 6 % 2), lanes=lanes)
    if lanes == 1 and random.random() < 0.5:
        sl = np.array(random.integers(16), dtype=np.uint8)
        lane = VirtualLanes.uniform(random.integers(0, 3, 16))
        routes = replace(routes, set_lane=np.zeros(0, dtype=np.uint8), sl=sl, lanes=lane)
    if random.random() < 0.3:
        none = np.zeros((0, 0), dtype=np.int32)
        ends = routes.set_id.copy()  # the set of a row for itself is not used
        np.fill_diagonal(ends, np.roll(routes.set_id, 1, axis=0).diagonal())
        routes = replace(routes, via=none.reshape(-1), via_set=none, set_id=ends)
    if random.random() < 0.3:
        gone = random.random(routes.set_id.shape) < 0.1
        routes = replace(routes, set_id=np.where(gone, -1, routes.set_id))
    return fabric, routes


def graph_of(fabric: Fabric, routes: Routes, management: bool) -> nx.DiGraph:
    """Return the dependencies of the kernels, as a graph of (link, VL)."""
    graph, vls = fabric.graph, routes.num_vls
    options = {"management": True} if management else {}
    channels = dependencies(fabric, routes, **options)
    used, arguments = channels.used, (graph.parts, parts(channels))
    count = list_dependencies(*arguments, used, *np.zeros((2, 0), dtype=np.int32))
    tails, heads = np.empty((2, count), dtype=np.int32)
    assert list_dependencies(*arguments, used, tails, heads) == count

    def channel(number: int) -> tuple[int, int]:
        return int(graph.edge_link[number // vls]), int(number % vls)

    result = nx.DiGraph()
    result.add_nodes_from(map(channel, np.flatnonzero(used)))
    result.add_edges_from(zip(map(channel, tails), map(channel, heads), strict=True))
    assert result.number_of_edges() == count == int(np.unpackbits(channels.bits).sum())
    stays = strip_acyclic(*arguments)
    on_cycles = {node for component in cycles(result) for node in component}
    behind = on_cycles.union(*(nx.descendants(result, node) for node in on_cycles))
    assert set(map(channel, np.flatnonzero(stays))) == behind
    return result


def check(fabric: Fabric, routes: Routes, management: bool) -> bool:
    """Compare the proof with the packet walk; return whether there is a cycle."""
    routes.check(fabric)
    expected = dependency_graph(fabric, routes, management=management)
    if len(fabric.graph.edge_row):
        result = graph_of(fabric, routes, management)
        assert set(result.nodes) == set(expected.nodes)
        assert set(result.edges) == set(expected.edges)
    loops, lanes = credit_loops(fabric, routes, **({"management": True} if management else {}))
    components = cycles(expected)
    assert lanes == max(len({lane for _, lane in expected}), 1)
    assert len(loops) == len(components)
    for loop in loops:
        (component,) = (component for component in components if loop[0] in component)
        assert set(loop) <= component
        for channel, following in zip(loop, [*loop[1:], loop[0]], strict=True):
            assert expected.has_edge(channel, following)
        back = nx.shortest_path_length(expected.subgraph(component), target=loop[0])
        following = [node for node in expected.successors(loop[0]) if node in component]
        assert len(loop) == 1 + min(back[node] for node in following)
    return bool(components)


def check_verdict(fabric: Fabric, routes: Routes, management: bool, components: bool) -> None:
    """Check the validator's verdict: exact, or "may" for a cycle of links if SLs are unknown."""
    verdict = validate(fabric, routes, management=management)
    assert verdict.deadlock == ("can" if components else "no")
    assert verdict.ok <= (not components)
    expected = dependency_graph(fabric, routes, management=management)
    shared = nx.DiGraph((before[0], after[0]) for before, after in expected.edges)
    unsure = validate(fabric, routes, management=management, levels_known=False)
    assert unsure.deadlock == ("may" if cycles(shared) else "no")
    assert not components or not unsure.ok
    assert not components or unsure.deadlock == "may"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", [table_case, path_case, candidate_case])
def test_dependencies_are_those_of_every_packet_that_can_be_sent(case) -> None:
    verdicts = []
    for seed in range(CASES):
        fabric, routes = case(seed)
        management = seed % 3 == 0 and case is not path_case
        verdicts.append(check(fabric, routes, management))
        check_verdict(fabric, routes, management, verdicts[-1])
    assert 0.25 < np.mean(verdicts) < 0.75, "cases must be both cyclic and free of cycles"


@pytest.mark.parametrize("by_port", [False, True])
def test_a_destination_sends_nothing_to_itself(by_port: bool) -> None:
    """h0's entry at its own switch points to the other switch, but h0 does not use it."""
    for hosts in (1, 2, 3):
        build = FabricBuilder("alone")
        switches = build.switches(["a", "b"])
        build.connect(build.hosts([f"h{i}" for i in range(hosts)]), switches[[0] * hosts])
        build.connect(switches[:1], switches[1:])
        fabric = build.fabric()
        table = empty_table(fabric)
        table[0, 0] = hosts + 1
        ports = np.diff(fabric.graph.row_base).astype(np.int32)
        base = np.concatenate(([0], np.cumsum(ports.astype(np.int64) ** 2)))
        index = np.zeros(int(base[-1]), dtype=np.int32)
        tables = np.zeros((1, 16), dtype=np.uint8)
        lanes = VirtualLanes(tables, index, base[:-1], ports) if by_port else VirtualLanes(tables)
        routes = TableRoutes("twin", fabric.digest, lanes=lanes, table=table)
        assert not check(fabric, routes, False)
        assert int(dependencies(fabric, routes).used.sum()) == (hosts > 1)


def test_equal_paths_to_two_destinations_are_not_those_of_the_same_senders() -> None:
    """Only h0, at the end of a line, sends over the first cable, and not to itself."""
    build = FabricBuilder("line")
    switches = build.switches(["a", "b", "c"])
    build.connect(build.hosts(["h0", "h1"]), switches[[0, 2]])
    build.connect(switches[:2], switches[1:])
    fabric = build.fabric()
    table = empty_table(fabric)
    table[:2] = [2, 2, 2]  # to b; from b to c; back to b
    assert check(fabric, TableRoutes("twin", fabric.digest, table=table), False)


@pytest.mark.parametrize("sl", [[0, 1], [1, 0], [[0, 1], [1, 0]], [[0, 0], [1, 1]]])
def test_service_levels_of_the_smallest_fabric(sl: list[int] | list[list[int]]) -> None:
    build = FabricBuilder("two switches")
    switches = build.switches(["a", "b"])
    build.connect(switches[:1], switches[1:])
    fabric = build.fabric()
    routes = route(fabric, "minhop")
    lanes = VirtualLanes.uniform(range(15))
    assert not check(fabric, replace(routes, sl=np.array(sl, np.uint8), lanes=lanes), True)
