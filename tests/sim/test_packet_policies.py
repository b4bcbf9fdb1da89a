"""Policies of the packet level: their benefits and requirements, and the cost of reordering."""

from __future__ import annotations

import numpy as np
import pytest
from tests.packet_runs import fabric_of, puts

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing.structure.fat_tree import find_levels
from weft.sim.packet.policies import bind
from weft.sim.packet.policies import policy as policies
from weft.sim.packet.result import PacketResult
from weft.workload import Workload, WorkloadBuilder

#: Gap and time constant last as long as a few messages; the defaults suit TCP's round trips.
CONGA = "conga:gap=5us,t_dre=1us"
POLICIES = ("ecmp", CONGA, "adaptive")


def between_halves(
    fabric: Fabric, load: float, *, size: int = 2048, horizon_ns: float = 150_000.0, seed: int = 1
) -> Workload:
    """Return messages at random times from every host to hosts of the other half."""
    random = np.random.default_rng(seed)
    hosts = fabric.num_hosts
    builder, half = WorkloadBuilder(hosts), hosts // 2
    mean_ns = size * 8 / float(fabric.link_rate_gbps.max()) / load
    for host in range(hosts):
        time = float(random.exponential(mean_ns))
        while time < horizon_ns:
            other = (host // half + 1) % 2 * half + int(random.integers(half))
            builder.put(host, other, size, release_ns=time)
            time += float(random.exponential(mean_ns))
    return builder.build()


def to_next_group(fabric: Fabric, per_group: int, load: float) -> Workload:
    """Return messages at random times from every host to hosts of the next group."""
    random = np.random.default_rng(3)
    builder, size = WorkloadBuilder(fabric.num_hosts), 4096
    mean_ns = size * 8 / float(fabric.link_rate_gbps.max()) / load
    for host in range(fabric.num_hosts):
        time = float(random.exponential(mean_ns))
        while time < 40_000:
            first = (host // per_group + 1) * per_group
            other = (first + int(random.integers(per_group))) % fabric.num_hosts
            builder.put(host, other, size, release_ns=time)
            time += float(random.exponential(mean_ns))
    return builder.build()


def run(fabric: Fabric, engine: str, policy: str, work: Workload, **options: int) -> PacketResult:
    result = weft.simulate(
        fabric, weft.route(fabric, engine), work, policy=policy, **options, level="packet",  # type: ignore[arg-type]
    )  # fmt: skip
    assert result.complete
    assert result.conservation["in_flight_packets"] == 0
    assert result.conservation["injected_packets"] == result.conservation["delivered_packets"]
    return result


def latency_ns(result: PacketResult) -> float:
    """Return the mean time from posting to arrival of messages."""
    ops = result.workload.messages
    return float((result.arrived_ns[ops] - result.posted_ns[ops]).mean())


def links_per_packet(result: PacketResult) -> float:
    return result.num_hops / result.conservation["injected_packets"]


def slowed(spec: str, level: int, factor: float) -> tuple[Fabric, int]:
    """Return a tree with one slow cable, and the downward link of that cable.

    The cable connects a switch of the highest level and the last switch of `level`.
    """
    fabric = weft.fabric(spec)
    graph, levels = fabric.graph, find_levels(fabric)
    last = int(np.flatnonzero(levels == level)[-1])
    climbs = (graph.edge_row == last) & (levels[graph.edge_tail] == levels.max())
    link = int(graph.edge_link[np.flatnonzero(climbs)[0]])
    return fabric.degraded([link >> 1], float(fabric.link_rate_gbps[link]) / factor), link


@pytest.mark.slow
def test_conga_leads_flowlets_around_a_slow_cable_far_away() -> None:
    fabric, slow = slowed("xgft:2;8,2;1,4", 1, 4)
    latency, share = dict.fromkeys(POLICIES, 0.0), dict.fromkeys(POLICIES, 0.0)
    for seed in range(4):
        work = between_halves(fabric, 0.15, seed=seed)
        for policy in POLICIES:
            result = run(fabric, "ecmp", policy, work, seed=seed)
            latency[policy] += latency_ns(result)
            share[policy] += float(result.packets[slow].sum())
    # A local policy is best once full queues extend back to its switch.
    assert latency[CONGA] < 1.15 * latency["adaptive"]
    assert latency["ecmp"] > 8 * latency[CONGA]
    assert share[CONGA] < share["ecmp"] / 2.5


def test_conga_leads_flowlets_around_a_missing_cable() -> None:
    # Two leaves have two cables to each of two spines, except for one missing cable (Alizadeh et
    # al., figure 7). With hashing, half of the traffic crosses the single cable of that pair.
    cables = [(leaf, spine) for leaf in (0, 1) for spine in (2, 3)] * 2
    fabric = fabric_of([0] * 6 + [1] * 6, cables[:-1])
    latency = dict.fromkeys(POLICIES, 0.0)
    for seed in range(4):
        work = between_halves(fabric, 0.35, seed=seed)
        for policy in POLICIES:
            latency[policy] += latency_ns(run(fabric, "ecmp", policy, work, seed=seed))
    assert latency["ecmp"] > 2.5 * latency[CONGA]
    assert latency[CONGA] < 3 * latency["adaptive"]


def test_conga_in_middle_switches_leads_around_a_slow_cable_at_the_top() -> None:
    fabric, _ = slowed("xgft:3;4,2,2;1,2,4", 2, 8)
    work = between_halves(fabric, 0.2)
    hashed, leaves, both = (
        latency_ns(run(fabric, "ecmp", policy, work))
        for policy in ("ecmp", CONGA + ",middle=ecmp", CONGA)
    )
    assert both < leaves / 4
    assert leaves < hashed


def test_ugal_is_minimal_at_low_load_and_as_valiant_under_adversarial_traffic() -> None:
    fabric = weft.fabric("dragonfly:p=2,a=4,h=2")
    low = between_halves(fabric, 0.02, horizon_ns=60_000.0)
    minimal, ugal, valiant = (
        run(fabric, "ugal", policy, low) for policy in ("ecmp", "ugal", "valiant")
    )
    assert links_per_packet(ugal) < 1.02 * links_per_packet(minimal)
    assert links_per_packet(valiant) > 1.2 * links_per_packet(minimal)
    # On minimal paths, the 2 x 4 hosts of a group share one cable, which allows a load of 1/8.
    high = to_next_group(fabric, 8, 0.4)
    minimal, ugal, valiant = (
        run(fabric, "ugal", policy, high) for policy in ("ecmp", "ugal", "valiant")
    )
    assert latency_ns(ugal) < latency_ns(minimal) / 10
    assert latency_ns(ugal) < 1.2 * latency_ns(valiant)


@pytest.mark.parametrize("policy", ["valiant", "ugal"])
def test_valiant_sends_every_packet_via_an_intermediate(policy: str) -> None:
    fabric = weft.fabric("dragonfly:p=2,a=4,h=2")
    work = between_halves(fabric, 0.02, horizon_ns=20_000.0)
    result = run(fabric, "valiant", policy, work)
    graph, ops = fabric.graph, work.messages
    # A packet to another group crosses two cables between groups of four switches.
    group = graph.destination_row // 4
    changes = group[result.host[work.rank[ops]]] != group[result.host[work.peer[ops]]]
    apart = graph.edge_link[graph.edge_tail // 4 != graph.edge_row // 4]
    assert result.packets[apart].sum() == 2 * int(changes.sum()) > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "spec", ["dragonfly:p=2,a=4,h=2", "megafly:p=2,leaves=2,spines=2,h=2", "hyperx:3x4"]
)
@pytest.mark.parametrize("policy", ["valiant", "ugal:threshold=0"])
def test_paths_via_intermediates_do_not_deadlock_with_buffers_of_one_packet(
    spec: str, policy: str
) -> None:
    fabric = weft.fabric(spec)
    work = between_halves(fabric, 2.0, size=3000, horizon_ns=6000.0)
    routes = weft.route(fabric, "ugal")
    tight = weft.Hardware(mtu_bytes=1000, buffer_bytes=1088, speedup=1)
    result = weft.simulate(fabric, routes, work, policy=policy, hardware=tight, level="packet")
    assert result.complete
    assert result.conservation["delivered_packets"] == 3 * len(work.messages)
    assert result.messages()["slowdown"].mean() > 3


@pytest.mark.parametrize(
    ("spec", "engine", "policy"),
    [
        ("xgft:2;4,4;1,4", "ecmp", "spray"),
        ("xgft:2;4,4;1,4", "ecmp", "adaptive:gap=1us"),
        ("xgft:3;2,2,2;1,2,2", "ecmp", CONGA),
        ("dragonfly:p=2,a=4,h=2", "ugal", "ugal:threshold=0,by=queue"),
        ("dragonfly:p=2,a=4,h=2", "ugal", "adaptive"),
    ],
)
def test_runs_are_reproducible_and_depend_on_the_seed(spec: str, engine: str, policy: str) -> None:
    fabric = weft.fabric(spec)
    work = between_halves(fabric, 0.5, size=5000, horizon_ns=5000.0)
    one, again, other = (run(fabric, engine, policy, work, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.arrived_ps, again.arrived_ps)
    assert np.array_equal(one.packets, again.packets)
    assert policy == "adaptive" or not np.array_equal(one.packets, other.packets)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.7])
def test_reordering_agrees_with_the_traced_hops(load: float) -> None:
    fabric = weft.fabric("xgft:2;2,4;1,4")
    work = between_halves(fabric, load, size=20_000, horizon_ns=4000.0)
    result = weft.simulate(
        fabric,
        weft.route(fabric, "ecmp"),
        work,
        policy="spray",
        trace=work.messages.tolist(),
        level="packet",
    )
    table = result.reordering()
    assert table["messages"].sum() == len(work.messages)
    assert table["packets"].sum() == result.conservation["injected_packets"]
    arrivals: dict[int, list[tuple[int, int, int]]] = {}
    for op, number, link, _, _, left, gone, _ in result.hop.tolist():
        if fabric.graph.link_row[link] < 0:
            line = int(result.connections.connection[op])
            arrivals.setdefault(line, []).append((left, number, gone - left))
    most_held = 0
    for row in table.iter_rows(named=True):
        line = row["connection"]
        waiting: dict[int, int] = {}
        expected, late, peak, kept_ps = 0, 0, 0, []
        there, in_order = {}, 0
        for left, number, lasts in sorted(arrivals[line]):
            there[number] = left + lasts
            waiting[number] = round(lasts * float(fabric.link_rate_gbps[0]) / 8000)
            late += number != expected
            if number != expected:
                peak = max(peak, sum(waiting.values()))
            while expected in waiting:
                del waiting[expected]
                in_order = max(in_order, there[expected])
                kept_ps.append(in_order - there[expected])
                expected += 1
        assert (row["early_packets"], row["most_held_bytes"]) == (late, peak), line
        assert (row["reordering_ns"], row["longest_reordering_ns"]) == (
            sum(kept_ps) / 1e3,
            max(kept_ps) / 1e3,
        )
        most_held += peak
    assert most_held > 0
    assert table["reordering_ns"].sum() > 0
    ordered = weft.simulate(fabric, weft.route(fabric, "ecmp"), work, policy="ecmp", level="packet")
    assert ordered.reordering()["early_packets"].sum() == 0
    assert ordered.reordering()["reordering_ns"].sum() == 0


def test_messages_to_several_lids_of_a_port_may_overtake_and_are_counted() -> None:
    fabric = weft.fabric("xgft:2;3,3;1,2")
    messages = [(0, 8, 200 if number % 2 else 9000) for number in range(40)]
    work = puts(9, *messages, *[(1, 7, 9000)] * 30)
    routes = weft.route(fabric, "updn:lmc=1")
    spread, first = (
        weft.simulate(fabric, routes, work, lids=lids, level="packet")
        for lids in ("spread", "first")
    )
    assert spread.reorders
    assert not first.reorders
    assert spread.reordering()["early_packets"].sum() > 0
    assert first.reordering()["early_packets"].sum() == 0
    # If all messages of a connection use one LID, they keep their order.
    lids = work.peer % 2
    assert not weft.simulate(fabric, routes, work, lids=lids, level="packet").reorders


def test_notifications_do_not_break_the_flowlets_of_data() -> None:
    fabric = fabric_of([0, 0, 0, 2, 2, 2], [(0, 1)] * 3 + [(1, 2)] * 3)
    work = puts(6, *((source, 3, 400_000) for source in (0, 1, 2)))
    control = weft.CongestionControl(threshold=15, marking_rate=0)
    hardware = weft.Hardware(congestion_control=control, queues="voq")
    result = weft.simulate(
        fabric,
        weft.route(fabric, "ecmp"),
        work,
        hardware=hardware,
        policy="flowlet:gap=1s",
        level="packet",
    )
    assert result.congestion is not None
    assert result.congestion.notified.sum() > 0
    assert result.overtook.sum() == 0


def test_bounded_adaptive_routing_keeps_bursts_in_order() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    work = between_halves(fabric, 0.6, size=20_000, horizon_ns=5000.0)
    free, bounded = (
        run(fabric, "ecmp", policy, work) for policy in ("adaptive", "adaptive:gap=1ms")
    )
    assert free.overtook.sum() > 0
    assert bounded.overtook.sum() == 0


@pytest.mark.parametrize(
    ("spec", "engine", "policy", "message"),
    [
        ("torus:4x4", "ecmp", "conga", "one level|not a fat tree|forward|level 1"),
        ("dragonfly:p=2,a=4,h=2", "ecmp", "conga", "connects two switches of level 1"),
        ("dragonfly:p=2,a=4,h=2", "valiant", "conga", "every packet via an intermediate"),
        ("dragonfly:p=2,a=4,h=2", "valiant", "ecmp", "expected valiant or ugal"),
        ("xgft:4;2,2,2,2;1,2,2,2", "ecmp", "conga", "has 4"),
        ("xgft:2;4,4;1,4", "ecmp", "ugal", "via intermediates, and ecmp has none"),
        ("xgft:2;4,4;1,4", "ecmp", "valiant", "via intermediates, and ecmp has none"),
        ("xgft:2;4,4;1,4", "ecmp", "deterministic", "makes none"),
        ("xgft:2;4,4;1,4", "dmodk", "conga", "leaves no choice"),
    ],
)
def test_policies_refuse_unsuitable_routes(
    spec: str, engine: str, policy: str, message: str
) -> None:
    fabric = weft.fabric(spec)
    work = between_halves(fabric, 0.5, horizon_ns=100.0)
    with pytest.raises(NotApplicable, match=message):
        weft.simulate(fabric, weft.route(fabric, engine), work, policy=policy, level="packet")


def test_conga_refuses_two_middle_switches_of_one_pod() -> None:
    # Leaf 0 is in a pod with the middle switches 2 and 3, leaf 1 with 4 and 5, all below 6 and 7.
    pods = [(0, 2), (0, 3), (1, 4), (1, 5)]
    fabric = fabric_of([0, 0, 1, 1], pods + [(low, top) for low in (2, 3, 4, 5) for top in (6, 7)])
    work = between_halves(fabric, 0.5, horizon_ns=500.0)
    with pytest.raises(NotApplicable, match="s2 reaches both s4 and s5 of one pod"):
        run(fabric, "ecmp", "conga", work)
    run(fabric, "ecmp", "conga:middle=ecmp", work)


@pytest.mark.parametrize(("left", "middle", "right"), [(0, 1, 2), (1, 0, 2)])
def test_conga_refuses_routes_that_go_up_after_down(left: int, middle: int, right: int) -> None:
    # Three leaves in a row below switches 3 and 4: a packet between the outer ones goes up twice.
    fabric = fabric_of([left, middle, right], [(left, 3), (middle, 3), (middle, 4), (right, 4)])
    work = between_halves(fabric, 0.5, horizon_ns=100.0)
    with pytest.raises(NotApplicable, match=f"up after down, at s{middle}, towards s"):
        run(fabric, "ecmp", "conga", work)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("conga:alpha=0", "alpha must be above 0 and at most 1"),
        ("conga:alpha=1.5", "alpha must be above 0 and at most 1"),
        ("conga:bits=8", "bits must be 1 to 7"),
        ("conga:gap=0", "gap must be 0.001 ns or more"),
        ("conga:t_dre=0", "t_dre must be 0.001 ns or more"),
        ("conga:t_dre=-1", "is not a duration"),
        ("conga:ageing=0", "ageing must be 0.001 ns or more"),
        ("conga:entries=0", "entries must be 1 to"),
        ("conga:middle=spray", "does not fit"),
        ("adaptive:by=bytes", "does not fit"),
        ("adaptive:gap=1e300", "gap must be below"),
        ("flowlet:gap=inf", "gap must be below|is not a duration"),
        ("ugal:threshold=-1", "threshold"),
        ("congo", "did you mean 'conga'"),
    ],
)
def test_bad_options_of_policies_are_refused(policy: str, message: str) -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    with pytest.raises(InputError, match=message):
        bind(policy, fabric, weft.route(fabric, "ecmp"))


def test_a_fact_that_no_policy_has_is_refused() -> None:
    expected = r"policy 'mine': there is no fact 'kept', only .*; the state of its kernels is what"
    with pytest.raises(TypeError, match=expected):
        policies("mine", choose=None, kept=1)
