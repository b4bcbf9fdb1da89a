"""Adapters with several ports, adapters slower than their cable, and waits in adapters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, fabric_of, puts, run

import weft
from weft.fabrics import FabricBuilder
from weft.sim.packet.series import link_series
from weft.workload import WorkloadBuilder


def two_ports() -> weft.Fabric:
    """Build four hosts with two ports; one port is cabled to each of two switches."""
    builder = FabricBuilder("two ports", rate=80.0)
    switches = builder.switches(["a", "b"])
    hosts = builder.hosts(["h0", "h1", "h2", "h3"])
    for switch in range(2):
        builder.connect(switches[[switch] * 4], hosts)
    return builder.fabric()


@pytest.mark.parametrize("queue_pairs", ["pair", "host"])
def test_queue_pairs_of_one_host_use_both_ports(queue_pairs: str) -> None:
    fabric = two_ports()
    result = weft.simulate(
        fabric, weft.route(fabric, "minhop"), puts(4, (0, 1, 1000), (0, 2, 1000), (0, 3, 1000)),
        ports="spread", hardware=replace(PLAIN, queue_pairs=queue_pairs), level="packet",
    )  # fmt: skip
    assert result.complete
    used = result.links().filter(result.links()["packets"] > 0)["name"].to_list()
    assert {name for name in used if name.startswith("h0")} == {
        "h0[1] -> a[1]", "h0[2] -> b[1]",
    }  # fmt: skip
    # One message departs from each port at once; the third one waits for D.
    assert sorted(result.left_ps) == [0, 0, D]


def test_slow_memory_leaves_its_cable_idle_between_packets() -> None:
    slow = replace(PLAIN, adapter_gbps=8.0)
    work = puts(2, (0, 1, 20_000))
    result = run(fabric_of([0, 0]), work, slow, snapshot_ns=50.0)
    assert result.snapshots is not None
    assert (np.diff(result.snapshots.busy_ps, axis=0) >= 0).all()
    series = link_series(result, [1])
    assert series["utilisation"].min() == 0
    assert series["utilisation"].max() == 1
    span = series["end_ns"] - series["begin_ns"]
    sent_ns = result.snapshots.busy_ps[-1, 1] / 1000
    assert (series["utilisation"] * span).sum() == pytest.approx(sent_ns)
    for packets, at in ((0.5, 0.5), (1, 1), (1, 2), (1.5, 10.5)):
        cut = run(fabric_of([0, 0]), work, slow, max_time_ns=at * D / 1000)
        assert cut.busy_ps[1] == packets * D


def test_packets_of_a_message_wait_for_earlier_ones_and_for_credits() -> None:
    result = run(fabric_of([0] * 3), puts(3, (0, 2, 100_000), (1, 2, 100_000)), trace=[0])
    own = result.hop[result.hop["link"] == result.hop["link"][0]]
    ready, left, sent_ps = own["ready_ps"], own["left_ps"], own["gone_ps"]
    # A packet is ready when the previous one has left. Finally credits return at half the rate,
    # so that each packet waits for D.
    assert ready[0] == 0
    assert np.array_equal(ready[1:], sent_ps[:-1])
    assert (left[-20:] - ready[-20:]).tolist() == [D] * 20
    link = int(own["link"][0])
    assert result.wait_ps[link].sum() == (left - ready).sum()


def test_a_message_waits_for_earlier_ones_of_its_queue_pair() -> None:
    builder = WorkloadBuilder(2)
    for _ in range(3):
        builder.put(0, 1, 1000)
    result = run(fabric_of([0, 0]), builder.build(), trace=[0, 1, 2])
    own = result.hop[result.hop["link"] == 1]
    assert own["ready_ps"].tolist() == [0, 0, 0]
    assert own["left_ps"].tolist() == [0, D, 2 * D]
