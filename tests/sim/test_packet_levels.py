"""The packet level compared with max-min fairness: where both agree, and how much they differ."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._levels import (
    FABRICS,
    PATTERNS,
    Flows,
    deviations,
    draw_flows,
    draw_pairs,
    on_own_lanes,
)
from tests.packet_runs import arrivals, duration_ps, fabric_of, puts, run

import weft
from weft import Hardware
from weft.fabrics import Fabric, FabricBuilder

#: Two packets may leave an input port at once, so that ports do not limit the links.
SPEEDUP_2 = Hardware(speedup=2)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("spec", FABRICS)
def test_levels_agree_where_inputs_and_rates_are_equal(spec: str, pattern: str) -> None:
    """Levels agree within 2 % if links have equally many flows from each input, all of one rate.

    Then round robin by input equals round robin by flow, and no flow blocks a faster one: every
    link gives its flows equal shares, as max-min fairness does.
    """
    worst = []
    for seed in range(4):
        flows = draw_flows(spec, pattern, seed).with_equal_inputs(np.random.default_rng(seed))
        assert flows.has_equal_inputs()
        if flows.has_equal_rates():
            worst.append(np.abs(deviations(flows, SPEEDUP_2)).max())
    assert max(worst, default=0) < 0.02


def test_many_incasts_have_equal_inputs_and_rates() -> None:
    """At least a third of the incasts do; in nearly all of these, flows share links."""
    sharing = []
    for spec in FABRICS:
        for seed in range(4):
            flows = draw_flows(spec, "incast", seed)
            even = flows.with_equal_inputs(np.random.default_rng(seed))
            if even.has_equal_rates():
                sharing.append(even.most_at_a_link())
    assert len(sharing) > 10
    assert max(sharing) >= 6
    assert np.mean(np.array(sharing) > 1) > 0.9


def _mixed_tree(random: np.random.Generator) -> Fabric:
    """Build a random tree of eight switches with two hosts each, on cables of 10 to 200 Gb/s."""
    builder = FabricBuilder("mixed")
    switches = builder.switches([f"s{n}" for n in range(8)])
    rates = [10.0, 25.0, 40.0, 100.0, 200.0]
    for at in range(1, 8):
        below = switches[[int(random.integers(at))]]
        builder.connect(switches[[at]], below, rate=float(random.choice(rates)))
    for host in builder.hosts([f"h{n}" for n in range(16)]):
        builder.connect([host], switches[[host % 8]], rate=float(random.choice(rates)))
    return builder.fabric()


@pytest.mark.parametrize("seed", range(7))
def test_levels_agree_on_cables_of_several_rates(seed: int) -> None:
    """Levels agree within 2 % even if each flow has another slowest cable."""
    random = np.random.default_rng(seed)
    fabric = _mixed_tree(random)
    flows = Flows.of(fabric, weft.route(fabric, "minhop"), *draw_pairs("uniform", 16, random))
    flows = flows.with_equal_inputs(random)
    while not flows.has_equal_rates():
        keep = np.arange(len(flows.source)) != random.integers(len(flows.source))
        flows = Flows.of(fabric, flows.routes, flows.source[keep], flows.destination[keep])
        flows = flows.with_equal_inputs(random)
    assert len(flows.source) >= 2
    assert np.abs(deviations(flows, SPEEDUP_2, 4 << 20)).max() < 0.02


@pytest.mark.sampled(8)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("spec", FABRICS)
def test_a_lane_for_each_flow_is_max_min_fair(spec: str, pattern: str) -> None:
    """With one lane per flow, levels agree within 3 % for all inputs and rates.

    Round robin by flow at every link, with a separate window for each flow at every hop, gives
    max-min fair rates when windows hold a round trip (Hahne 1991, IEEE JSAC 9(7)).
    """
    for seed in range(2):
        flows = on_own_lanes(draw_flows(spec, pattern, seed))
        assert np.abs(deviations(flows, SPEEDUP_2)).max() < 0.03


# -- where they differ ---------------------------------------------------------------------------


@pytest.mark.parametrize("behind", range(2, 7))
def test_levels_differ_at_unequal_inputs_as_by_a_closed_form(behind: int) -> None:
    """n flows via a trunk get 1/(2n) each, a flow beside it 1/2; under max-min each has 1/(n + 1).

    If all flows have size S, all end at (n + 1) S under max-min fairness. At the packet level the
    single flow ends at 2 S, and the others end at (n + 1) S, since the link is never idle.
    """
    fabric = fabric_of([0] * behind + [1, 1], [(0, 1)])
    routes = weft.route(fabric, "minhop")
    source = np.arange(behind + 1)
    flows = Flows.of(fabric, routes, source, np.full(behind + 1, behind + 1))
    assert not flows.has_equal_inputs()
    assert flows.rate == pytest.approx(10 / (behind + 1))
    errors = deviations(flows, SPEEDUP_2)
    assert errors[-1] == pytest.approx(2 / (behind + 1) - 1, abs=0.005)
    assert errors[:-1] == pytest.approx(0, abs=0.02)


FIGURE_3 = [(0, 1), (0, 2), (0, 3), (4, 1), (4, 5), (6, 5)]
FIGURE_4_A = [(0, 1), (0, 2), (3, 1), (4, 1), (5, 2)]


@pytest.mark.parametrize(
    ("edges", "speedup", "packets", "maxmin"),
    [
        (FIGURE_4_A, 1, [3, 3, 3, 3, 1.5], [3, 2, 3, 3, 2]),
        (FIGURE_4_A, 2, [3, 3, 3, 3, 1.5], [3, 2, 3, 3, 2]),
        (FIGURE_3, 1, [3, 3, 3, 3, 3, 1.5], [3, 3, 3, 2, 2, 2]),
        (FIGURE_3, 2, [3, 3, 3, 2, 2, 2], [3, 3, 3, 2, 2, 2]),
    ],
)
def test_levels_differ_at_unequal_rates_because_of_blocking(
    edges: list[tuple[int, int]], speedup: int, packets: list[float], maxmin: list[float]
) -> None:
    """Graphs of the contention-graph paper with equal sizes and equal inputs at every link.

    Figure 4 A: host 0 has a third of the link to host 1. Its packets for hosts 1 and 2 alternate,
    so that it has a third of the link to host 2 as well, and host 5 has two thirds. Under max-min
    fairness each has half of that link.

    Figure 3: while a packet from host 4 to host 1 waits for one from host 0, the next packet, for
    host 5, waits behind it, and host 6 uses the slot. With a speedup of 2 both packets leave
    together, in time for every second slot of host 5.
    """
    fabric = fabric_of([0] * 7)
    routes = weft.route(fabric, "minhop")
    ends = np.array(edges)
    flows = Flows.of(fabric, routes, ends[:, 0], ends[:, 1])
    assert flows.has_equal_inputs()
    assert not flows.has_equal_rates()
    work = puts(7, *((source, target, 1 << 22) for source, target in edges))
    wire_ps = (1 << 11) * duration_ps(2048 + 26, 80)
    result = run(fabric, work, Hardware(speedup=speedup))
    assert np.array(arrivals(result)) / wire_ps == pytest.approx(np.array(packets), rel=0.002)
    fluid = weft.simulate(fabric, routes, work, latency_ns=0).messages()["arrived_ns"].to_numpy()
    assert fluid * 10 / (1 << 22) == pytest.approx(np.array(maxmin), rel=1e-6)
    assert np.abs(deviations(on_own_lanes(flows), SPEEDUP_2)).max() < 0.005


def test_levels_differ_at_input_ports_without_speedup() -> None:
    """One packet at a time leaves the port for two slow cables: half of the max-min rate each."""
    fabric = fabric_of([0] * 3, rates=[160.0, 80.0, 80.0])
    routes = weft.route(fabric, "minhop")
    flows = Flows.of(fabric, routes, np.zeros(2, dtype=np.int64), np.array([1, 2]))
    assert flows.has_equal_inputs()
    assert flows.has_equal_rates()
    assert flows.rate == pytest.approx(10)
    assert deviations(flows, Hardware(speedup=1)) == pytest.approx(1, abs=0.01)
    assert deviations(flows, SPEEDUP_2) == pytest.approx(0, abs=0.01)
