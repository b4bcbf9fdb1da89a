"""Validation of routes that are broken by hand, and arrays that are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder, Parts
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.routes import CandidateRoutes, Routes, TableRoutes, VirtualLanes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.effective_bisection import bisection
from weft.sim.static.loads import link_loads


def tables(fabric: Fabric, engine: str = "minhop", **options: object) -> TableRoutes:
    routes = route(fabric, engine, **options)
    assert isinstance(routes, TableRoutes)
    return routes


def candidates(fabric: Fabric) -> CandidateRoutes:
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    return routes


def test_paths_of_more_than_254_hops_are_counted() -> None:
    fabric = build("ring:600")
    report = validate(fabric, tables(fabric))
    assert (report.num_unrouted_pairs, report.num_disconnected_pairs) == (0, 0)
    assert report.max_hops == 302
    assert report.max_detour == 0
    assert validate(fabric, candidates(fabric)).hops.tolist() == report.hops.tolist()
    assert validate(fabric, tables(fabric, "updn", roots="center")).ok


def test_a_chain_of_300_switches_is_a_thin_fat_tree() -> None:
    builder = FabricBuilder("chain")
    chain = builder.switches([f"s{i}" for i in range(300)])
    builder.connect(chain[1:], chain[:-1])
    builder.connect(chain[:1].repeat(2), builder.hosts(["a", "b"]))
    fabric = builder.fabric()
    report = validate(fabric, tables(fabric, "dmodk"))
    assert report.ok
    assert report.max_hops == 2


def test_a_pair_needs_a_path_to_every_lid() -> None:
    fabric = build("xgft:2;2,2;1,2")
    routes = tables(fabric, lmc=1)
    table = routes.table.copy()
    target = int(fabric.host_endpoint[3])
    source_leaf = int(fabric.graph.destination_row[fabric.host_endpoint[0]])
    table[(target << 1) + 1, source_leaf] = routes.no_path
    report = validate(fabric, replace(routes, table=table))
    assert not report.ok
    assert report.num_unrouted_pairs == 2
    assert report.unrouted_pairs.tolist() == [[0, 3], [1, 3]]
    assert report.hops.sum() == 12  # the path to the first LID exists


def test_hops_of_hosts_that_forward_have_no_host_cable() -> None:
    builder = FabricBuilder("mixed")
    (switch,) = builder.switches(["s"])
    (router,) = builder.hosts(["router"], forwards=True)
    builder.connect([switch, switch, router], builder.hosts(["a", "b", "c"]))
    builder.connect([switch], [router])
    fabric = builder.fabric()
    # router-a, router-b: 2; router-c: 1; a-b: 2; a-c, b-c: 3; each in both directions.
    for routes in (tables(fabric), candidates(fabric)):
        assert validate(fabric, routes).hops.tolist() == [0, 2, 6, 4]


def test_candidates_that_lead_into_a_dead_end_do_not_arrive() -> None:
    fabric = build("xgft:2;2,2;1,2")
    routes = candidates(fabric)
    spine, leaf = 2, 0
    sets = routes.set_id.copy()
    sets[1, spine] = -1  # a spine that leaf 0 may choose towards leaf 1
    report = validate(fabric, replace(routes, set_id=sets))
    assert fabric.node_names[spine].startswith("s2")
    assert report.unrouted_pairs.tolist() == [[0, 2], [1, 2], [0, 3], [1, 3]]
    assert report.num_unrouted_pairs == 4
    sets = routes.set_id.copy()
    sets[1, leaf] = routes.set_id[leaf, 1]
    with pytest.raises(InputError, match="contains an edge that leaves another node"):
        validate(fabric, replace(routes, set_id=sets))


@pytest.mark.parametrize(("goal", "other"), [(0, 1), (1, 0)])
def test_candidates_that_lead_back_are_a_loop(goal: int, other: int) -> None:
    fabric = build("xgft:2;2,2;1,2")
    routes = candidates(fabric)
    spine = 2
    sets = routes.set_id.copy()
    sets[goal, spine] = routes.set_id[other, spine]
    report = validate(fabric, replace(routes, set_id=sets))
    assert report.num_loops == 1
    assert sorted(report.loops[0]) == [other, spine]


@pytest.mark.parametrize(
    "consume",
    [
        validate,
        all_to_all_loads,
        lambda fabric, routes: bisection(fabric, routes, samples=1),
        lambda fabric, routes: link_loads(fabric, routes, [0], [1]),
    ],
)
def test_arrays_of_the_wrong_shape_are_refused(consume) -> None:
    fabric = build("xgft:2;2,2;1,2")
    routes, sets = tables(fabric), candidates(fabric)
    levels = np.zeros(3, dtype=np.uint8)
    wrong: list[tuple[Routes, str]] = [
        (replace(routes, table=routes.table[:5].copy()), "the table has shape"),
        (replace(routes, table=routes.table[:, :2].copy()), "the table has shape"),
        (replace(routes, lmc=1), "with LMC 1 needs"),
        (replace(routes, sl=levels), "service levels have shape"),
        (replace(routes, sl=np.uint8(16)), "a service level is 0 to 15, not 16"),
        (replace(routes, sl=np.full(fabric.num_destinations, -1)), "0 to 15, not -1"),
        (replace(routes, sl=np.full(fabric.num_destinations, 0.5)), "must be integers, not float"),
        (replace(routes, table=routes.table.astype(float)), "unsigned integers, not float64"),
        (replace(routes, lanes=VirtualLanes.uniform([15])), "SL 0 maps to VL 15; a virtual lane"),
        (replace(sets, set_lane=np.full_like(sets.set_edge, 99, np.uint8)), "0 to 14, not 99"),
        (replace(sets, set_id=sets.set_id[:2].copy()), "the port sets have shape"),
        (
            replace(sets, set_id=sets.set_id + sets.num_sets),
            "number of a port set must be 0 to",
        ),
        (replace(sets, set_id=sets.set_id - 2), "number of a port set must be 0 to"),
        (replace(sets, set_edge=sets.set_edge + 8), "an edge of a port set must be 0 to 7"),
        (replace(sets, set_edge=sets.set_edge - 8), "an edge of a port set must be 0 to 7"),
        (replace(sets, set_offset=sets.set_offset[:-1].copy()), "must ascend from 0 to"),
        (replace(sets, set_offset=sets.set_offset[::-1].copy()), "must ascend from 0 to"),
    ]
    for broken, match in wrong:
        with pytest.raises(InputError, match=match):
            consume(fabric, broken)
    with pytest.raises(InputError, match="an LMC is 0 to 7, not -1"):
        replace(routes, lmc=-1)
    two = tables(fabric, lmc=1)
    lids = 2 * fabric.num_destinations
    consume(fabric, replace(two, sl=np.zeros((fabric.graph.num_rows, lids), dtype=np.uint8)))
    per_destination = np.zeros(fabric.num_destinations, dtype=np.uint8)
    with pytest.raises(InputError, match=rf"needs \(\), \({lids},\) or \(4, {lids}\)"):
        consume(fabric, replace(two, sl=per_destination))
    fine = replace(routes, sl=np.uint8(15), lanes=VirtualLanes.uniform([*range(15), 14]))
    consume(fabric, fine)


def test_lanes_by_port_that_do_not_fit_are_refused() -> None:
    fabric = build("torus:5x5")
    routes = tables(fabric, "torus-2QoS")
    lanes = routes.lanes
    assert validate(fabric, routes).ok
    assert not lanes.is_uniform
    runs = "ports x ports entries, port 0 included, for each of the 25 rows"
    wrong = [
        (replace(lanes, index=lanes.index[:-1].copy()), runs),
        (replace(lanes, base=lanes.base + 1), runs),
        (replace(lanes, base=lanes.base - 1), runs),
        (replace(lanes, ports=lanes.ports - 1), runs),
        (VirtualLanes(lanes.tables, lanes.index), runs),
        (
            replace(lanes, index=lanes.index + len(lanes.tables)),
            "SL to VL table must be 0 to 4",
        ),
        (replace(lanes, index=lanes.index - 5), "SL to VL table must be 0 to 4"),
        (replace(lanes, tables=lanes.tables[:, :8].copy()), "expected 16 entries each"),
        (replace(lanes, tables=lanes.tables[:0].copy()), "expected 16 entries each"),
    ]
    for broken, match in wrong:
        with pytest.raises(InputError, match=match):
            validate(fabric, replace(routes, lanes=broken))


def test_routes_of_a_fabric_with_other_forwarding_hosts_are_refused() -> None:
    fabric = build("xgft:2;2,2;1,2")
    parts = Parts.of(fabric)
    parts.forwards[fabric.num_switches] = True
    with pytest.raises(InputError, match="made for another fabric"):
        validate(Fabric.of(parts), tables(fabric))
