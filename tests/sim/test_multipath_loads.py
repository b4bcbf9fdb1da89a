from __future__ import annotations

from dataclasses import replace
from itertools import product

import networkx as nx
import numpy as np
import pytest
from tests.reference.multipath import all_paths

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.routes import CandidateRoutes
from weft.sim.common.metrics import link_tiers
from weft.sim.static.loads import link_loads
from weft.sim.static.multipath import HASHES, Scheme, multipath_loads

SPLITS = [(1, 1), (1, 20), (8, 1), (8, 20), (30, 3)]


def pairs(fabric: Fabric, flows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    source = random.integers(fabric.num_hosts, size=flows)
    return source, (source + random.integers(1, fabric.num_hosts, size=flows)) % fabric.num_hosts


def hops(fabric: Fabric, source: np.ndarray, destination: np.ndarray) -> int:
    graph = nx.Graph(zip(fabric.link_from.tolist(), fabric.link_to.tolist(), strict=True))
    nodes = fabric.host_nodes
    return sum(
        nx.shortest_path_length(graph, int(nodes[s]), int(nodes[d]))
        for s, d in zip(source, destination, strict=True)
    )


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "torus:4x4", "xgft:2;4,4;1,2;1,2"])
@pytest.mark.parametrize("name", HASHES)
def test_load_is_conserved(spec: str, name: str) -> None:
    fabric = build(spec)
    source, destination = pairs(fabric, 60)
    result = multipath_loads(
        fabric, route(fabric, "ecmp"), source, destination, SPLITS, hash=name, seed=5
    )
    assert result.unrouted == 0
    np.testing.assert_allclose(result.per_link.sum(axis=1), hops(fabric, source, destination))


@pytest.mark.parametrize("name", HASHES)
def test_loads_of_a_split_do_not_depend_on_other_splits(name: str) -> None:
    fabric = build("fat-tree:k=4")
    routes = route(fabric, "ecmp")
    ends = pairs(fabric, 50)
    together = multipath_loads(fabric, routes, *ends, SPLITS, hash=name, seed=1)
    for split, loads in zip(SPLITS, together.per_link, strict=True):
        alone = multipath_loads(fabric, routes, *ends, [split], hash=name, seed=1)
        assert np.array_equal(alone.per_link[0], loads)
    other = multipath_loads(fabric, routes, *ends, [(1, 1)], hash=name, seed=2)
    if name not in ("md5", "crc-polarised"):  # these have no seed
        assert not np.array_equal(other.per_link[0], together.per_link[0])


def test_each_scheme_splits_flows_by_its_queue_pairs_and_epochs() -> None:
    assert [scheme.parts(8, 20) for scheme in Scheme] == [(1, 1), (1, 20), (8, 1), (8, 20)]


def test_ideal_choices_average_to_the_equal_split() -> None:
    fabric = build("fat-tree:k=6")
    routes = route(fabric, "ecmp")
    ends = pairs(fabric, 300)
    equal = link_loads(fabric, routes, *ends)
    parts = 40
    seeds = [multipath_loads(fabric, routes, *ends, [(1, parts)], seed=seed) for seed in range(25)]
    mean = np.mean([result.per_link[0] for result in seeds], axis=0)
    # The mean load of a link is a sum over flows. A flow's term is a mean of 1,000 draws with
    # probability p, and has variance p (1 - p) / 1,000. So the variance of the load is below
    # equal / 1,000.
    deviation = (mean - equal) / np.sqrt(np.maximum(equal, 1e-9) / (parts * len(seeds)))
    busy = (equal > 0) & (np.abs(mean - equal) > 1e-9)
    assert np.abs(deviation[busy]).max() < 4.5
    assert 0.3 < deviation[busy].std() < 1.1


def test_crc_with_one_seed_polarises() -> None:
    # Edge and aggregation switches have 4 candidates each. The second hash repeats the first, so
    # that each aggregation switch uses only one of its four core switches.
    fabric = build("fat-tree:k=8")
    routes = route(fabric, "ecmp")
    ends = pairs(fabric, 4000)
    up = link_tiers(fabric) == "up 2-3"
    used = {
        name: float(
            np.mean(multipath_loads(fabric, routes, *ends, [(4, 4)], hash=name).per_link[0, up] > 0)
        )
        for name in HASHES
    }
    assert used["crc-polarised"] == 0.25
    # A seed per switch changes all hashes there by the same bits: some core links stay unused.
    assert 0.25 < used["crc"] < 0.95
    assert used["crc-offset"] == used["ideal"] == used["linear"] == used["md5"] == 1.0


def test_the_linear_form_with_as_many_qps_as_paths_splits_equally() -> None:
    fabric = build("fat-tree:k=8")
    routes = route(fabric, "ecmp")
    ends = pairs(fabric, 200)
    result = multipath_loads(fabric, routes, *ends, [(16, 1)], hash="linear", seed=9)
    np.testing.assert_allclose(result.per_link[0], link_loads(fabric, routes, *ends), atol=1e-9)


def test_md5_uses_equally_many_paths_for_every_flow() -> None:
    # Of the 16 paths between pods, a flow of 4 QPs uses 4, one of 8 QPs 5, and one of 16 QPs 9.
    fabric = build("fat-tree:k=8")
    routes = route(fabric, "ecmp")
    up = link_tiers(fabric) == "up 2-3"
    splits = [(1, 1), (4, 1), (8, 1), (16, 1)]
    for flow in ([0, 127], [90, 3], [17, 71]):
        result = multipath_loads(fabric, routes, *np.array(flow)[:, None], splits, hash="md5")
        assert (result.per_link[:, up] > 0).sum(axis=1).tolist() == [1, 4, 5, 9]


@pytest.mark.parametrize("k", [4, 6])
def test_paths_are_numbered_as_networkx_lists_them(k: int) -> None:
    # The md5 and linear forms number paths in the order of networkx; weft orders paths by ports.
    half = k // 2
    graph = nx.Graph()
    for pod, a in product(range(k), range(half)):
        for i in range(half):
            graph.add_edge(f"agg{pod}.{a}", f"core{a * half + i}")
        for e in range(half):
            graph.add_edge(f"edge{pod}.{e}", f"agg{pod}.{a}")
    fabric = build(f"fat-tree:k={k}")
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    row = fabric.find_node("edge0.0")
    goal = fabric.find_node(f"edge{k - 1}.0")
    listed = list(nx.all_shortest_paths(graph, "edge0.0", f"edge{k - 1}.0"))
    ours = [
        [fabric.node_names[fabric.link_to[link]] for link in path]
        for path in all_paths(fabric, routes, row, goal)
    ]
    assert len(listed) == len(ours) == half**2
    for path, names in zip(listed, ours, strict=True):
        core = int(path[2].removeprefix("core"))
        assert names[:2] == [path[1], f"core{core // half}.{core % half}"]


def test_flows_within_a_host_or_without_a_path_load_no_link() -> None:
    builder = FabricBuilder("two islands")
    left, right = builder.switches(["a", "b"])
    hosts = builder.hosts(["h0", "h1", "h2", "loose"], forwards=False)
    builder.connect([left, left, right], hosts[:3])
    fabric = builder.fabric()
    result = multipath_loads(
        fabric, route(fabric, "ecmp"), [0, 0, 0, 0, 2], [0, 1, 2, 3, 2], [(2, 2)]
    )
    assert result.unrouted == 2
    assert result.per_link.sum() == 2
    assert result.flows == 5


def test_bad_arguments_are_refused() -> None:
    fabric = build("fat-tree:k=4")
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    with pytest.raises(NotApplicable, match="minhop leaves no choice"):
        multipath_loads(fabric, route(fabric, "minhop"), [0], [1], [(1, 1)])
    with pytest.raises(InputError, match="unknown hash 'sha1'"):
        multipath_loads(fabric, routes, [0], [1], [(1, 1)], hash="sha1")  # type: ignore[arg-type]
    for splits in ([], [(0, 1)], [(1, 1), (2, 0)]):
        with pytest.raises(InputError, match=r"splits \[QPs, epochs\]: "):
            multipath_loads(fabric, routes, [0], [1], splits)
    with pytest.raises(InputError, match="99 is out of range"):
        multipath_loads(fabric, routes, [0], [99], [(1, 1)])
    with pytest.raises(InputError, match="another fabric"):
        multipath_loads(build("fat-tree:k=6"), routes, [0], [1], [(1, 1)])


@pytest.mark.parametrize("name", HASHES)
def test_candidates_that_lead_to_a_dead_end_are_refused(name: str) -> None:
    fabric = build("fat-tree:k=4")
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    set_id = routes.set_id.copy()
    goal = int(fabric.graph.destination_row[fabric.host_endpoint[15]])
    for switch in ("agg0.0", "agg0.1"):
        set_id[goal, fabric.find_node(switch)] = -1
    with pytest.raises(InputError, match=r"from h0\.0\.0 to h3\.1\.1 lead into a dead end"):
        multipath_loads(fabric, replace(routes, set_id=set_id), [0], [15], [(1, 1)], hash=name)


def test_too_many_paths_to_number_are_refused() -> None:
    links = 64
    chain = FabricBuilder("ladder")
    nodes = chain.switches([f"s{i}" for i in range(links + 1)])
    chain.connect(nodes[:-1], nodes[1:], cables=2)
    chain.connect(chain.hosts(["a", "b"], forwards=False), nodes[[0, -1]])
    fabric = chain.fabric()
    routes = route(fabric, "ecmp")
    for name in ("md5", "linear"):
        with pytest.raises(NotApplicable, match=f"the {name} hash cannot number the paths of a to"):
            multipath_loads(fabric, routes, [0], [1], [(1, 1)], hash=name)
    result = multipath_loads(fabric, routes, [0], [1], [(8, 8)])
    assert result.per_link.sum() == links + 2
