"""Deadlocks of the flit level: what is found never moves again, and what moves is not found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.flit_runs import Run, holding

import weft
from weft.fabrics import Fabric, FabricBuilder
from weft.kernels.flit.engine import STUCK
from weft.kernels.flit.records import FORKED
from weft.sim.flit.deadlock import find_deadlock, shortest_cycle, stuck_lanes
from weft.sim.flit.multicast import casts_of
from weft.sim.flit.network import Links
from weft.sim.flit.router import Router
from weft.sim.flit.run import simulate_flits
from weft.sim.flit.traffic import Load
from weft.workload import WorkloadBuilder


def ring(switches: int) -> Fabric:
    """Return a ring of switches with one host each, and two hosts at a switch beside it."""
    build = FabricBuilder("ring")
    nodes = build.switches([f"s{number}" for number in range(switches)])
    build.connect(nodes, np.roll(nodes, -1))
    build.connect(build.hosts([f"h{number}" for number in range(switches)]), nodes)
    beside = build.switches(["t"])
    build.connect(beside, nodes[:1])
    build.connect(build.hosts(["a", "b"]), np.repeat(beside, 2))
    return Fabric.of(build.parts())


def deadlocking(**changes: Any) -> Run:
    """Return a run in which hosts of a ring send two switches on; a and b send to each other."""
    router = {key: value for key, value in changes.items() if key not in ("size", "engine")}
    circuits = holding(1) if router.pop("circuits", False) else None
    load = Load(rate=1.0, pattern="shift", size=changes.get("size", 12), measure=10**6)
    run = Run(ring(5), Router(**{"lanes": 1, "buffer": 2, **router}), load, engine="minhop",
              circuits=circuits, window=2)  # fmt: skip
    run.net.endpoints["birth"][:] = 0
    run.net.traffic.targets[:] = [2, 3, 4, 0, 1, 6, 5]
    return run


def test_a_ring_deadlocks_in_part_and_the_text_names_its_links() -> None:
    run = deadlocking()
    assert find_deadlock(run.net, run.links, run.routing) == ""
    net = run.until(1000)
    ejected = int(net.endpoints["packets"][5])
    text = find_deadlock(net, run.links, run.routing)
    assert ejected < run.until(3000).endpoints["packets"][5]  # a goes on
    waits = stuck_lanes(net, run.links, run.routing)
    cycle = shortest_cycle(waits)
    # Links of the ring, in the direction of all packets, and of its hosts take turns: a packet
    # waits for a lane that the packet of a host has, which waits for a place behind the next link.
    assert len(cycle) == 10
    fabric = run.fabric
    for lane in cycle:
        link = int(run.links.in_link[lane])
        assert f"{fabric.link_name(link)} (link {link}, lane 0)" in text
        assert fabric.node_names[fabric.link_to[link]].startswith("s")
    assert text.count("which waits for") == 10
    assert text.startswith("the buffer behind s")


SETTINGS: list[dict[str, Any]] = [
    {}, {"size": 1, "lanes": 2}, {"vc_delay": 3, "routing_delay": 2},
    {"shared_buffer": 3}, {"atomic": True},
    {"switching": "cut-through", "buffer": 13}, {"switching": "store-and-forward", "buffer": 12},
    {"switching": "cut-through", "shared_buffer": 3, "size": 4},
    {"output_buffer": 3, "output_speedup": 2}, {"output_buffer": 3, "atomic": True},
    {"hold_switch": True, "lanes": 2}, {"speculative": True}, {"circuits": True},
]  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_deadlock_is_found_if_packets_are_stuck_and_never_moves_again(
    settings: dict[str, Any],
) -> None:
    run = deadlocking(**settings)
    run.net.endpoints["birth"][5:7] = 2**40  # so that nothing moves in the end
    first: dict[int, tuple[int, ...]] = {}
    seen = None
    for cycle in range(20, 6000, 20):
        run.until(cycle)
        waits = stuck_lanes(run.net, run.links, run.routing)
        assert first.keys() <= waits.keys()
        if waits and not first:
            first = waits
            seen = run.net.in_lanes[["front", "first"]][list(first)].copy()
    assert first
    assert (run.net.in_lanes[["front", "first"]][list(first)] == seen).all()
    ended = STUCK
    for cycle in range(6500, 12_000, 500):
        ended = run.routing.loop(run.net)(cycle)
        if ended == STUCK:
            break
    assert ended == STUCK
    assert "waits for" in find_deadlock(run.net, run.links, run.routing)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("spec", "engine", "policy", "lanes", "settings"),
    [
        ("torus:5x5", "torus-2QoS", None, 2, {}),
        ("torus:5x5", "torus-2QoS", None, 2, {"shared_buffer": 2, "output_buffer": 2}),
        ("dragonfly:p=2,a=4,h=2", "ugal:progressive=true", "par", 4, {}),
        ("dragonfly:p=2,a=4,h=2", "ugal:progressive=true", "par", 4, {"atomic": True}),
        ("xgft:2;4,4;1,2", "ecmp", "adaptive", 1, {"switching": "cut-through"}),
        ("xgft:2;4,4;1,2", "ecmp", "spray", 2, {"hold_switch": True}),
        ("xgft:2;4,4;1,2", "dmodk", None, 2, {"circuits": True}),
    ],
)
def test_congestion_is_no_deadlock(
    spec: str, engine: str, policy: str | None, lanes: int, settings: dict[str, Any]
) -> None:
    circuits = holding(1) if settings.get("circuits") else None
    router = {key: value for key, value in settings.items() if key != "circuits"}
    load = Load(rate=1.0, size="2:0.5,4:0.5", measure=10**6)
    run = Run(spec, Router(**{"lanes": lanes, "buffer": 4, **router}), load, engine=engine,
              policy=policy, circuits=circuits)  # fmt: skip
    for cycle in range(50, 1000, 50):
        before = int(run.net.count.hops)
        net = run.until(cycle)
        assert net.count.hops > before
        assert find_deadlock(net, run.links, run.routing) == ""


def test_an_adaptive_packet_is_not_stuck_while_another_candidate_may_become_free() -> None:
    """On minimal candidates of a torus packets may turn any way, so rings alone are no deadlock."""
    run = Run("torus:4x4", Router(lanes=1, buffer=2), Load(rate=1.0, size=4, measure=10**6),
              engine="ecmp:max_vls=1", policy="adaptive")  # fmt: skip
    first: dict[int, tuple[int, ...]] = {}
    seen = None
    for cycle in range(10, 3000, 10):
        net = run.until(cycle)
        if not first:
            first = stuck_lanes(net, run.links, run.routing)
            seen = net.in_lanes[["front", "first"]][list(first)].copy()
    assert first
    assert (run.net.in_lanes[["front", "first"]][list(first)] == seen).all()


def forked(held: dict[int, list[int]]) -> Run:
    """Return a state in which packets of hosts 0 and 1 of a switch are copied to hosts 2 and 3.

    Parameters
    ----------
    held
        Hosts to which the packet of each host has a lane.
    """
    fabric = weft.fabric("leaf-spine:leaves=1,spines=1,hosts=4")
    work = WorkloadBuilder(4)
    for source, others in ((0, [1, 2, 3]), (1, [0, 2, 3])):
        for rank in others:
            work.irecv(rank, source, 4)
        work.multicast(source, others, 4)
    hosts = np.arange(4, dtype=np.int32)
    casts = casts_of(Links.of(fabric, 1, 1), work.build(), hosts, None)
    run = Run(fabric, Router(lanes=1, buffer=2), Load(size=4), casts=casts)
    net, links = run.net, run.links
    first = int(net.routers["first_out"][0])
    out = {host: int(links.inputs["tail"][host]) for host in (2, 3)}
    for source in (0, 1):
        lane = int(links.outputs["head"][source])
        net.in_lanes["state"][lane], net.in_lanes["count"][lane] = FORKED, 1
        net.casts.forks["wanted"][lane] = sum(1 << each - first for each in out.values())
        for host in held[source]:
            net.casts.forks["held"][lane] |= np.uint64(1 << out[host] - first)
            net.out_lanes["owner"][out[host]] = lane
    return run


def test_multicasts_are_named() -> None:
    run = forked({0: [2], 1: [3]})
    lanes = [int(run.links.outputs["head"][host]) for host in (0, 1)]
    waits = stuck_lanes(run.net, run.links, run.routing)
    assert waits == {lanes[0]: (lanes[1],), lanes[1]: (lanes[0],)}
    text = find_deadlock(run.net, run.links, run.routing)
    assert text.startswith(
        "the buffer behind h0.0[1] -> leaf0[1] (link 1, lane 0), which waits for"
    )


@pytest.mark.parametrize("held", [{0: [2, 3], 1: []}, {0: [], 1: [2]}, {0: [], 1: []}])
def test_multicasts_that_can_have_all_their_outputs_are_not_stuck(
    held: dict[int, list[int]],
) -> None:
    run = forked(held)
    assert stuck_lanes(run.net, run.links, run.routing) == {}


def test_a_shortest_cycle_begins_at_its_lowest_lane() -> None:
    assert shortest_cycle({1: (2,), 2: (3,), 3: (1,), 5: (6,), 6: (5, 1)}) == [5, 6]
    assert shortest_cycle({1: (4,), 4: (2, 9), 2: (4,), 9: (1,)}) == [2, 4]
    assert shortest_cycle({}) == []


def test_a_result_names_the_deadlock_of_its_run() -> None:
    load = Load(rate=1.0, pattern="shift:offset=2", measure=3000)
    result = simulate_flits(
        weft.fabric("torus:5"), weft.route(weft.fabric("torus:5"), "minhop"), load=load,
        router=Router(lanes=1, buffer=2), drain=5000,
    )  # fmt: skip
    assert not result.settled
    assert result.deadlock.startswith("the buffer behind ")
