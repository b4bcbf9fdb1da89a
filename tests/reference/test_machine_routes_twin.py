"""Routes inside machines agree with paths from the definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.examples import examples
from tests.reference.machine_routes import path, random_machines
from weft.fabrics.machine_cabling import with_model
from weft.routing import route
from weft.routing.routes import CandidateRoutes, TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import loads_between_machines
from weft.sim.static.loads import flow_loads, host_flows, link_loads

ENGINES = ("minhop", "minhop:lmc=1", "dfsssp", "lash", "nue")


def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.divmod(np.arange(count**2), count)
    return source[source != target], target[source != target]


@pytest.mark.parametrize("seed", range(examples(40)))
@pytest.mark.parametrize("engine", ENGINES)
def test_every_pair_has_the_path_of_its_adapters(engine: str, seed: int) -> None:
    subnet, model = random_machines(seed)
    fabric = with_model(subnet, model)
    assert fabric.subnet.digest == subnet.digest
    assert fabric.subnet.node_names == subnet.node_names
    before, routes = route(subnet, engine), route(fabric, engine)
    assert isinstance(before, TableRoutes)
    assert isinstance(routes, TableRoutes)
    source, target = pairs(fabric.num_hosts)
    flows = host_flows(fabric, source, target, lmc=routes.lmc)
    offset, link = routes.links(fabric, flows)
    sl = np.broadcast_to(routes.sl, (fabric.graph.num_rows, len(routes.table)))
    for at, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        ours = link[offset[at] : offset[at + 1]]
        names = [fabric.node_names[fabric.link_from[each]] for each in ours]
        ends = fabric.host_names[a], fabric.host_names[b]
        expected, level = path(subnet, before, model, *ends)
        assert [*names, ends[1]] == expected
        if level >= 0:
            row = fabric.graph.node_row[fabric.link_to[ours[0]]]
            assert sl[row, int(flows.destinations[at]) << routes.lmc] == level
    found, old = validate(fabric, routes), validate(subnet, before)
    assert (found.ok, found.lanes, found.num_unrouted_pairs) == (old.ok, old.lanes, 0)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_candidates_have_the_loads_of_their_adapters(seed: int) -> None:
    subnet, model = random_machines(seed)
    fabric = with_model(subnet, model)
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    assert validate(fabric, routes).ok
    source, target = pairs(fabric.num_hosts)
    loads = dict(zip(fabric.link_names, link_loads(fabric, routes, source, target), strict=True))
    adapter = fabric.adapter.copy()
    for link in np.flatnonzero(fabric.adapter[fabric.link_from] >= 0):  # behind PCIe switches
        adapter[fabric.link_to[link]] = max(
            adapter[fabric.link_to[link]], fabric.adapter[fabric.link_from[link]]
        )
    away = fabric.machine_of_host[source] != fabric.machine_of_host[target]
    ends = [adapter[fabric.host_nodes[each[away]]] for each in (source, target)]
    theirs = link_loads(subnet, route(subnet, "ecmp"), *ends)
    for name, load in zip(subnet.link_names, theirs, strict=True):
        if " mlx5_" not in name and "oss" not in name:  # between switches
            assert loads[name] == pytest.approx(load)


@pytest.mark.parametrize("engine", ["minhop", "ecmp"])
@pytest.mark.parametrize("seed", range(examples(20)))
def test_all_to_all_counts_flows_inside_machines_where_they_cross_links(
    engine: str, seed: int
) -> None:
    fabric = with_model(*random_machines(seed))
    routes = route(fabric, engine)
    flows = host_flows(fabric, *pairs(fabric.num_hosts))
    expected, found = flow_loads(fabric, routes, flows), loads_between_machines(fabric, routes)
    np.testing.assert_allclose(found.per_link, expected.per_link, atol=1e-9)
    assert (found.flows, found.unrouted) == (len(flows.sources), 0)
