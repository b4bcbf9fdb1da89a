"""Routings of the flit level: every hop of every packet against a slow walk of its routes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.flit_runs import Run

import weft
from weft.fabrics import Fabric, FabricBuilder
from weft.kernels.flit.records import GRANTED, HEAD, PACKET_SHIFT
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.sim.flit.network import Links
from weft.sim.flit.router import Router
from weft.sim.flit.routings import of_routes
from weft.sim.flit.traffic import Load

#: A hop: input link, output link, and lane of the output.
Hop = tuple[int, int, int]


def hops_of(run: Run, cycles: int) -> list[tuple[int, int, list[Hop]]]:
    """Return source, destination and hops of each packet that arrives within some cycles."""
    packets: dict[int, tuple[int, int, list[Hop]]] = {}
    links, shift = run.links, int(run.net.rules.lane_shift)
    for cycle in range(1, cycles + 1):
        net = run.until(cycle)
        lanes = net.in_lanes
        for lane in np.flatnonzero((lanes["count"] > 0) & (lanes["state"] >= GRANTED)).tolist():
            here = lanes[lane]
            flit = int(here["front"])
            if not flit & HEAD:
                continue
            slot = flit >> PACKET_SHIFT
            packet, origin = net.packets[slot], net.origins[slot]
            came, out = int(links.in_link[lane >> shift]), int(here["out"])
            hop = (came, int(links.out_link[out >> shift]), out & (1 << shift) - 1)
            ends = int(origin["source"]), int(packet["destination"])
            *_, hops = packets.setdefault(int(packet["key"]), (*ends, []))
            if hop not in hops[-1:]:
                hops.append(hop)
    last = run.fabric.graph.destination_link
    return [each for each in packets.values() if each[2][-1][1] == last[each[1]]]


def check_links(fabric: Fabric, source: int, destination: int, hops: list[Hop]) -> None:
    """Check that hops begin at the source, follow each other and end at the destination."""
    out = fabric.graph.destination_link[destination]
    assert hops[0][0] == fabric.graph.destination_link[source] ^ 1
    assert hops[-1][1] == out
    assert all(after[0] == before[1] for before, after in pairwise(hops))


def virtual_lane(fabric: Fabric, routes: Routes, level: int, hop: Hop) -> int:
    """Return the virtual lane of a service level, from an input link to an output link."""
    lanes, (came, out, _) = routes.lanes, hop
    if lanes.is_uniform:
        return int(lanes.tables[0, level])
    row = fabric.graph.node_row[fabric.link_from[out]]
    at = fabric.link_to_port[came] * lanes.ports[row] + fabric.link_from_port[out]
    return int(lanes.tables[lanes.index[lanes.base[row] + at], level])


def path_of(fabric: Fabric, routes: Routes, source: int, destination: int) -> tuple[list[int], int]:
    """Return the links of a path after the first one, and its service level."""
    graph = fabric.graph
    row, goal = int(graph.destination_row[source]), int(graph.destination_row[destination])
    links = []
    level = routes.sl
    if isinstance(routes, TableRoutes):
        level = (
            level[destination]
            if level.ndim == 1
            else level[row, destination]
            if level.ndim
            else level
        )
        while row != goal:
            link = int(graph.row_link[graph.row_base[row] + routes.table[destination, row]])
            links.append(link)
            row = int(graph.link_row[link])
    else:
        assert isinstance(routes, PathRoutes)
        path = int(
            np.flatnonzero(routes.pair == source * fabric.num_host_endpoints + destination)[0]
        )
        level = level[path] if level.ndim else level
        links = graph.edge_link[routes.edge[routes.offset[path] : routes.offset[path + 1]]].tolist()
    return [*links, int(graph.destination_link[destination])], int(level)


def is_permitted(
    fabric: Fabric, routes: CandidateRoutes, each: int, hops: list[Hop], kinds: str
) -> bool:
    """Return whether candidates permit hops: direct, ``via`` an intermediate, or after a ``turn``.

    ``each`` is the number of lanes of each virtual lane, `kinds` the permitted kinds of paths.
    """
    graph = fabric.graph
    start, goal = (int(graph.link_row[hops[0][0]]), int(graph.link_row[hops[-1][0]]))
    own, other = (int(routes.via[row]) if len(routes.via) else -1 for row in (start, goal))
    apart = own >= 0 and other >= 0 and own != other
    vias = [v for v in range(routes.num_intermediates) if v not in (own, other)] if apart else []
    # A phase is -1 for direct, -2 for a packet that may still turn, or an intermediate.
    phases = set(vias) if "via" in kinds and apart else set()
    if "direct" in kinds or not apart:
        phases.add(-1)
    if "turn" in kinds and apart:
        phases.add(-2)

    def holds(number: int, link: int, lane: int) -> bool:
        if number < 0:
            return False
        at = slice(*routes.set_offset[number : number + 2])
        where = np.flatnonzero(graph.edge_link[routes.set_edge[at]] == link)
        lanes = routes.set_lane[at] if len(routes.set_lane) else np.zeros(len(where) + 99, int)
        return any(lane // each == lanes[k] for k in where)

    for came, link, lane in hops[:-1]:
        row = int(graph.link_row[came])
        if -2 in phases:
            phases |= set(vias) | {-1} if own == routes.via[row] else {-1}
            phases -= set() if own == routes.via[row] else {-2}
        phases = {-1 if v >= 0 and routes.via[row] == v else v for v in phases}
        sets = {-1: routes.set_id[goal, row]}
        if -2 in phases:
            sets = {-2: routes.turn_set[goal, row]} | ({} if own == routes.via[row] else sets)
        sets |= {v: routes.via_set[v, row] for v in phases if v >= 0}
        phases = {v for v in phases if v in sets and holds(int(sets[v]), link, lane)}
    last = int(graph.link_row[hops[-1][0]])
    return any(v < 0 or routes.via[last] == v for v in phases)


def irregular(seed: int) -> Fabric:
    """Return a connected random fabric with parallel cables and uneven hosts."""
    random = np.random.default_rng(seed)
    build = FabricBuilder(f"irregular {seed}")
    nodes = build.switches([f"s{number}" for number in range(9)])
    for number in range(1, 9):
        build.connect([nodes[number]], [nodes[random.integers(number)]])
    for _ in range(9):
        one, two = random.choice(nodes, size=2, replace=False)
        build.connect([one], [two], cables=int(random.integers(1, 3)))
    for number, leaf in enumerate(random.choice(nodes, size=14)):
        build.connect(build.hosts([f"h{number}"]), [leaf])
    return Fabric.of(build.parts())


LOAD: dict[str, Any] = {"rate": 0.5, "size": "1:0.5,3:0.5"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("spec", "engine", "vls"),
    [
        ("torus:4x5", "torus-2QoS", 2),
        ("torus:5x3x4", "torus-2QoS", 2),
        ("xgft:2;4,4;1,4", "smodk", 1),
        *[(seed, engine, 0) for seed in (1, 2) for engine in ("lash", "nue", "dfsssp")],
    ],
)
def test_packets_follow_tables_and_source_routes_with_their_lanes(
    spec: str | int, engine: str, vls: int
) -> None:
    fabric = irregular(spec) if isinstance(spec, int) else weft.fabric(spec)
    routes = weft.route(fabric, engine)
    assert vls in (0, routes.num_vls)
    router = Router(lanes=2 * routes.num_vls, buffer=4)
    run = Run(fabric, router, Load(seed=1, **LOAD), engine=routes)
    packets = hops_of(run, 150)
    assert len(packets) > 100
    seen = set()
    for source, destination, hops in packets:
        check_links(fabric, source, destination, hops)
        links, level = path_of(fabric, routes, source, destination)
        assert [hop[1] for hop in hops] == links
        lanes = [virtual_lane(fabric, routes, level, hop) for hop in hops]
        assert [hop[2] // 2 for hop in hops] == lanes
        seen |= {hop[2] for hop in hops}
    assert len(seen) > routes.num_vls  # both lanes of a virtual lane are in use


def test_service_levels_by_port_and_by_source_give_the_lanes() -> None:
    """A routing that ignored the input port, the output port or the source would fail here."""
    fabric = irregular(3)
    random = np.random.default_rng(0)
    tables = weft.route(fabric, "minhop")
    ports = np.diff(fabric.graph.row_base)
    base = np.concatenate([[0], np.cumsum(ports.astype(np.int64) ** 2)[:-1]])
    lanes = weft.routing.routes.VirtualLanes(
        random.integers(0, 3, (40, 16), dtype=np.uint8),
        random.integers(0, 40, int((ports.astype(np.int64) ** 2).sum()), dtype=np.int32),
        base.astype(np.int64), ports.astype(np.int32),
    )  # fmt: skip
    for shape in ((), (fabric.num_destinations,), (fabric.graph.num_rows, fabric.num_destinations)):
        level = random.integers(0, 16, shape, dtype=np.uint8)
        routes = weft.route(fabric, "minhop")
        object.__setattr__(routes, "sl", np.asarray(level))
        object.__setattr__(routes, "lanes", lanes)
        run = Run(fabric, Router(lanes=3), Load(rate=0.05), engine=routes)
        packets = hops_of(run, 300)
        assert len(packets) > 100
        for source, destination, hops in packets:
            links, own = path_of(fabric, routes, source, destination)
            assert [hop[1] for hop in hops] == links
            assert [hop[2] for hop in hops] == [
                virtual_lane(fabric, routes, own, hop) for hop in hops
            ]
    assert tables.num_vls == 1


#: Policies and the kinds of paths that they may give.
DIRECT = ("ecmp", "spray", "adaptive")
KINDS = {"valiant": "via", "ugal": "direct via", "ugal-g": "direct via", "par": "turn via"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("spec", "engine", "policies"),
    [
        ("dragonfly:p=2,a=4,h=2", "ugal", (*DIRECT, "valiant", "ugal", "ugal-g")),
        ("dragonfly:p=2,a=4,h=2", "ugal:progressive=true", ("par", "ugal")),
        ("dragonfly:p=1,a=3,h=1", "ugal:progressive=true", ("par",)),
        ("hyperx:4x4", "ugal", (*DIRECT, "valiant", "ugal", "ugal-g")),
        ("hyperx:4x4", "valiant", ("valiant",)),
        ("xgft:3;2,2,3;1,2,2", "ecmp", DIRECT),
        ("jellyfish:12;4;2", "ugal", ("valiant", "ugal", "adaptive")),
    ],
)
def test_packets_take_permitted_candidates_on_their_lanes(
    spec: str, engine: str, policies: tuple[str, ...]
) -> None:
    fabric = weft.fabric(spec)
    routes = weft.route(fabric, engine)
    assert isinstance(routes, CandidateRoutes)
    assert not weft.validate(fabric, routes).credit_loops
    router = Router(lanes=2 * routes.num_vls, buffer=4)
    for policy in policies:
        run = Run(fabric, router, Load(**LOAD), engine=routes, policy=policy)
        packets = hops_of(run, 100)
        assert len(packets) > 50
        kinds = KINDS.get(policy, "direct")
        direct = 0
        for source, destination, hops in packets:
            check_links(fabric, source, destination, hops)
            assert is_permitted(fabric, routes, 2, hops, kinds), (policy, hops)
            direct += not is_permitted(fabric, routes, 2, hops, "via")
        if policy in ("ugal", "ugal-g", "par"):
            assert 0 < direct < len(packets)


def test_ecmp_is_one_path_for_a_pair_and_spray_is_not() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    routes = weft.route(fabric, "ecmp")
    used = {}
    for policy in ("ecmp", "spray"):
        run = Run(fabric, Router(), Load(rate=0.3, pattern="shift:offset=4"), engine=routes,
                  policy=policy)  # fmt: skip
        paths: dict[tuple[int, int], set[tuple[int, ...]]] = {}
        for source, destination, hops in hops_of(run, 300):
            paths.setdefault((source, destination), set()).add(tuple(hop[1] for hop in hops))
        used[policy] = [len(each) for each in paths.values()]
    assert used["ecmp"] == [1] * 16
    assert min(used["spray"]) == 4


def test_adaptive_packets_avoid_a_slow_cable() -> None:
    """Cables upwards of the first leaf, one of them ten times slower than the others."""
    fabric = weft.fabric("xgft:2;4,4;1,4")
    routes = weft.route(fabric, "ecmp")
    edge = fabric.graph.edge_offset[0]
    interval = np.ones(2 * fabric.num_cables, dtype=int)
    interval[fabric.graph.edge_link[edge]] = 10
    flits = {}
    for policy in ("spray", "adaptive"):
        run = Run(fabric, Router(lanes=2), Load(rate=0.4, pattern="shift:offset=4"), engine=routes,
                  policy=policy, interval=interval)  # fmt: skip
        flits[policy] = float(run.after(0).batches["ejected"].sum()) / 2000 / 16
    assert flits["adaptive"] == pytest.approx(0.4, rel=0.05)
    # A quarter of the flits of four hosts pass one in 10 cycles at most.
    assert flits["spray"] < 0.75 * 0.4 + 0.25 * 0.4 * 1.01


#: Traffic of each group to the next one, for which minimal paths have one cable for 8 hosts.
ADVERSARIAL: dict[str, Any] = {"pattern": "shift:offset=8", "warmup": 1000, "measure": 2000}


def accepted(engine: str, policy: str, rate: float, **load: Any) -> tuple[float, float]:
    """Return accepted flits per host and cycle, and routers on a path, on 72 hosts."""
    routes = ROUTES.setdefault(engine, weft.route(DRAGONFLY, engine))
    router = Router(lanes=2 * routes.num_vls, buffer=16)
    run = Run(DRAGONFLY, router, Load(rate=rate, **load), engine=routes, policy=policy)
    net = run.after(0)
    ejected = float(net.batches["ejected"].sum()) / run.load.measure / 72
    return ejected, float(net.count.packet_hops) / max(float(net.batches["measured"].sum()), 1)


DRAGONFLY = weft.fabric("dragonfly:p=2,a=4,h=2")
ROUTES: dict[str, Routes] = {}


def test_bounds_of_adversarial_traffic_on_a_dragonfly() -> None:
    """Minimal paths: one global cable for 8 hosts. Valiant: 16 of 7 x 9 x 8 flits at a cable."""
    minimal, _ = accepted("ugal", "ecmp", 0.5, **ADVERSARIAL)
    assert 0.9 / 8 < minimal <= 1.001 / 8
    around, hops = accepted("ugal", "valiant", 0.5, **ADVERSARIAL)
    assert 2 * minimal < around <= 0.4375
    assert hops > 4.5
    for engine, policy in (("ugal", "ugal"), ("ugal", "ugal-g"), ("ugal:progressive=true", "par")):
        adaptive, _ = accepted(engine, policy, 0.5, **ADVERSARIAL)
        assert 1.1 * around < adaptive <= 0.5625


@pytest.mark.parametrize(
    ("engine", "policy"), [("ugal", "ugal"), ("ugal", "ugal-g"), ("ugal:progressive=true", "par")]
)
def test_packets_are_minimal_at_low_load_with_a_bias(engine: str, policy: str) -> None:
    quiet: dict[str, Any] = {"rate": 0.02, "warmup": 0, "measure": 3000}
    _, minimal = accepted("ugal", "ecmp", **quiet)
    _, biased = accepted(engine, f"{policy}:threshold=4", **quiet)
    _, unbiased = accepted(engine, f"{policy}:threshold=0", **quiet)
    assert biased == pytest.approx(minimal, rel=1e-3)
    assert unbiased > 1.005 * minimal


def test_ugal_compares_products_of_loads_and_links() -> None:
    """One packet at a router whose minimal link is loaded: the decision turns at the product."""
    fabric = weft.fabric("dragonfly:p=2,a=4,h=2")
    routes = weft.route(fabric, "ugal")
    assert isinstance(routes, CandidateRoutes)
    source, destination = 0, 71
    start, goal = (int(fabric.graph.destination_row[end]) for end in (source, destination))
    near = len(path_to(fabric, routes, start, goal))
    number = int(routes.set_id[goal, start])
    edge = int(routes.set_edge[routes.set_offset[number]])
    for threshold in (0, 6):
        most = threshold // near
        for load in (most, most + 1):
            run = Run(fabric, Router(lanes=3, buffer=64), Load(rate=0.0001, seed=3), engine=routes,
                      policy=f"ugal:threshold={threshold}")  # fmt: skip
            output = int(run.links.output_of[fabric.graph.edge_link[edge]])
            run.net.out_lanes["credits"][output << int(run.net.rules.lane_shift)] -= load
            run.net.endpoints["birth"] = 2**40
            run.net.endpoints["birth"][source] = 0
            run.net.traffic.targets[source : source + 1] = destination
            hops = hops_of(run, 60)[0][2]
            direct = is_permitted(fabric, routes, 1, hops, "direct")
            assert direct == (load == most)


def path_to(fabric: Fabric, routes: CandidateRoutes, row: int, goal: int) -> list[int]:
    """Return the edges of the first candidates from a row to another one."""
    edges: list[int] = []
    while row != goal:
        edges.append(int(routes.set_edge[routes.set_offset[routes.set_id[goal, row]]]))
        row = int(fabric.graph.edge_row[edges[-1]])
    return edges


@pytest.mark.parametrize(
    ("spec", "engine", "lanes", "policy", "error", "message"),
    [
        ("torus:5x5", "torus-2QoS", 3, None, weft.InputError, "multiple of 2, not 3"),
        ("torus:5x5", "torus-2QoS", 1, None, weft.InputError, "multiple of 2, not 1"),
        ("torus:4x4", "torus-2QoS", 2, "ecmp", weft.NotApplicable, "leave no choice"),
        ("xgft:2;2,2;1,2", "dmodk:lmc=1", 2, None, weft.NotApplicable, "without an LMC"),
        ("xgft:2;2,2;1,2", "ecmp", 2, "ugal", weft.NotApplicable, "ecmp has none"),
        ("xgft:2;2,2;1,2", "ecmp", 2, "best", weft.InputError, "best"),
        ("xgft:2;2,2;1,2", "ecmp", 2, "deterministic", weft.InputError, "deterministic"),
        ("hyperx:3x3", "ugal", 2, "ugal:threshold=-1", weft.InputError, "threshold"),
        ("hyperx:3x3", "ugal", 2, "par", weft.NotApplicable, "progressive=true"),
        ("hyperx:3x3", "valiant", 2, "ugal", weft.NotApplicable, "valiant does"),
    ],
)
def test_routes_and_policies_that_do_not_fit_are_refused(
    spec: str, engine: str, lanes: int, policy: str | None, error: type[Exception], message: str
) -> None:
    fabric = weft.fabric(spec)
    with pytest.raises(error, match=message):
        of_routes(Links.of(fabric), weft.route(fabric, engine), lanes, policy)


@pytest.mark.parametrize("engine", ["minhop", "ecmp", "paths"])
def test_pairs_without_a_path_are_refused(engine: str) -> None:
    fabric = weft.fabric("xgft:2;2,2;1,1").without(cables=["s1-0[3]"])
    if engine == "paths":
        none = np.zeros(0, dtype=np.int64)
        routes: Routes = PathRoutes("paths", fabric.digest, none, np.zeros(1, np.int64),
                                    np.zeros(0, np.int32))  # fmt: skip
    else:
        routes = weft.route(fabric, engine)
    with pytest.raises(weft.NotApplicable, match="no path from"):
        of_routes(Links.of(fabric), routes, 4)


def test_the_lanes_of_packets_that_turn_are_needed() -> None:
    """On the lanes of `ugal` alone, packets that turn could wait for each other in a cycle."""
    routes = weft.route(DRAGONFLY, "ugal:progressive=true")
    assert isinstance(routes, CandidateRoutes)
    assert routes.num_vls == 4
    assert not weft.validate(DRAGONFLY, routes).credit_loops
    shared = weft.route(DRAGONFLY, "ugal:progressive=true")
    object.__setattr__(shared, "set_lane", np.maximum(routes.set_lane, 1) - 1)
    assert weft.validate(DRAGONFLY, shared).credit_loops
    with pytest.raises(weft.NotApplicable, match="not a dragonfly"):
        weft.route(weft.fabric("torus:4x4"), "ugal:progressive=true")
