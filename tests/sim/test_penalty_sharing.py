"""The contention-graph sharing model at the flow level: workloads on fabrics."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.sim.flow.contention import INFINIBAND, PenaltyModel

SIZE = 1 << 20


def times_s(fabric, source, destination, size, start_ns, **options) -> np.ndarray:
    """Return the arrival time of each message; each has its own pair of ranks."""
    builder = weft.WorkloadBuilder(2 * len(source))
    for number, (count, release) in enumerate(zip(size, start_ns, strict=True)):
        builder.put(2 * number, 2 * number + 1, count, release_ns=release)
    hosts = np.column_stack([source, destination]).ravel()
    routes = weft.route(fabric, "dmodk")
    messages = weft.simulate(
        fabric, routes, builder.build(), hosts, sharing="penalty", latency_ns=0.0, **options
    ).messages()
    return messages["arrived_ns"].to_numpy() * 1e-9


@pytest.mark.parametrize(
    "model", [INFINIBAND, PenaltyModel(out_weight=0.75, back_pressure=0.5)], ids=["IB", "other"]
)
def test_times_on_one_switch_equal_those_of_predict(model: PenaltyModel) -> None:
    fabric = weft.fabric("xgft:1;9;1")
    inverse = 8e-9 / float(fabric.link_rate_gbps[0])
    random = np.random.default_rng(11)
    for count in (1, 3, 6, 12, 30):
        for _ in range(6):
            source = random.integers(9, size=count)
            destination = (source + random.integers(1, 9, size=count)) % 9
            size = random.choice([SIZE, SIZE, 3 * SIZE, 12345], size=count)
            start_ns = random.choice([0.0, 0.0, 1e4, 3e5], size=count)
            expected = weft.predict(
                source, destination, size, start_ns * 1e-9, inverse, model=model
            )
            arrived_s = times_s(
                fabric, source.tolist(), destination.tolist(), size.tolist(), start_ns.tolist(),
                coefficients=model,
            )  # fmt: skip
            np.testing.assert_allclose(arrived_s, expected, rtol=1e-9)


def test_a_cable_between_switches_is_shared_as_well() -> None:
    """4 hosts per leaf, one spine: flows between leaves share a cable, a local flow does not."""
    fabric = weft.fabric("xgft:2;4,2;1,1")
    alone = SIZE * 8e-9 / float(fabric.link_rate_gbps[0])
    arrived_s = times_s(fabric, [0, 1, 2, 3], [4, 5, 6, 7], [SIZE] * 4, [0.0] * 4)
    np.testing.assert_allclose(arrived_s, 4 * alone, rtol=1e-9)
    arrived_s = times_s(fabric, [0, 1, 2], [4, 5, 3], [SIZE] * 3, [0.0] * 3)
    np.testing.assert_allclose(arrived_s, [2 * alone, 2 * alone, alone], rtol=1e-9)
    # Host 2 sends over the shared cable and to its neighbour: back-pressure slows both flows.
    arrived_s = times_s(fabric, [0, 1, 2, 2], [4, 5, 6, 3], [SIZE] * 4, [0.0] * 4)
    np.testing.assert_allclose(arrived_s, 3 * alone, rtol=1e-9)
    # Without back-pressure the flow to the neighbour has half of the adapter until it ends.
    free = PenaltyModel(back_pressure=0.0)
    arrived_s = times_s(
        fabric, [0, 1, 2, 2], [4, 5, 6, 3], [SIZE] * 4, [0.0] * 4, coefficients=free
    )
    np.testing.assert_allclose(arrived_s, [3 * alone, 3 * alone, 3 * alone, 2 * alone], rtol=1e-9)


def slowed(fabric, *hosts: int):
    """Return the fabric with the cables of some hosts at half their rate."""
    half = float(fabric.link_rate_gbps[0]) / 2
    return fabric.degraded([f"{fabric.host_names[host]}[1]" for host in hosts], half)


def test_a_slow_adapter_sets_the_rate_of_its_flows() -> None:
    fabric = weft.fabric("xgft:1;4;1")
    alone = SIZE * 8e-9 / float(fabric.link_rate_gbps[0])
    arrived_s = times_s(slowed(fabric, 1), [0, 1, 2], [1, 2, 3], [SIZE] * 3, [0.0] * 3)
    np.testing.assert_allclose(arrived_s, [2 * alone, 2 * alone, alone], rtol=1e-9)
    # Two slow senders fill a fast receiver, and two slow receivers a fast sender; three slow
    # senders contend for the receiver.
    arrived_s = times_s(slowed(fabric, 0, 1), [0, 1], [2, 2], [SIZE] * 2, [0.0] * 2)
    np.testing.assert_allclose(arrived_s, 2 * alone, rtol=1e-9)
    arrived_s = times_s(slowed(fabric, 0, 1, 2), [0, 1, 2], [3, 3, 3], [SIZE] * 3, [0.0] * 3)
    np.testing.assert_allclose(arrived_s, 3 * alone, rtol=1e-9)
    arrived_s = times_s(slowed(fabric, 0, 1), [2, 2], [0, 1], [SIZE] * 2, [0.0] * 2)
    np.testing.assert_allclose(arrived_s, 2 * alone, rtol=1e-9)
    # Two fast senders share a slow receiver.
    arrived_s = times_s(slowed(fabric, 0), [1, 2], [0, 0], [SIZE] * 2, [0.0] * 2)
    np.testing.assert_allclose(arrived_s, 4 * alone, rtol=1e-9)


def test_two_slow_cables_between_switches_fill_an_adapter() -> None:
    """Host 0 sends via two spines over cables of half its rate, and fills both."""
    fabric = weft.fabric("xgft:2;4,2;1,2")
    alone = SIZE * 8e-9 / float(fabric.link_rate_gbps[0])
    half = float(fabric.link_rate_gbps[0]) / 2
    leaf = fabric.node_names[0]
    slow = fabric.degraded([f"{leaf}[5]", f"{leaf}[6]"], half)
    arrived_s = times_s(slow, [0, 0], [4, 5], [SIZE] * 2, [0.0] * 2)
    np.testing.assert_allclose(arrived_s, 2 * alone, rtol=1e-9)
    arrived_s = times_s(slow, [0, 1], [4, 5], [SIZE] * 2, [0.0] * 2)
    np.testing.assert_allclose(arrived_s, 2 * alone, rtol=1e-9)
    arrived_s = times_s(slow, [0, 1], [4, 6], [SIZE] * 2, [0.0] * 2)
    np.testing.assert_allclose(arrived_s, 4 * alone, rtol=1e-9)


def test_each_port_of_a_host_is_an_adapter_of_its_own() -> None:
    builder = weft.FabricBuilder("two ports")
    switches = builder.switches(["s0", "s1"])
    hosts = builder.hosts([f"h{n}" for n in range(4)])
    builder.connect(np.repeat(switches, 4), np.tile(hosts, 2))
    builder.connect(switches[:1], switches[1:])
    fabric = builder.fabric()
    alone = SIZE * 8e-9 / float(fabric.link_rate_gbps[0])

    def arrived_s(ports: str) -> np.ndarray:
        workload = weft.WorkloadBuilder(4)
        workload.put(0, 1, SIZE)
        workload.put(0, 2, SIZE)
        result = weft.simulate(
            fabric, weft.route(fabric, "minhop"), workload.build(), sharing="penalty",
            latency_ns=0.0, ports=ports,
        )  # fmt: skip
        return result.messages()["arrived_ns"].to_numpy() * 1e-9

    np.testing.assert_allclose(arrived_s("spread"), alone, rtol=1e-9)
    np.testing.assert_allclose(arrived_s("first"), 2 * alone, rtol=1e-9)
