"""Open-loop measures of the packet level, compared with closed forms of queueing theory."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.sim.packet import Hardware
from weft.sim.sweep import saturation_load, sweep
from weft.sim.sweep.one_load import RoutedFabric, measure_load
from weft.sim.sweep.settings import TrafficSettings, resolved

#: Time on a cable of 200 Gb/s of a packet with 2,048 bytes of payload and a header.
PACKET_NS = 8 * (2048 + 26) / 200
#: Zero-load latency of one packet: two cables of 10 ns and a switch of 100 ns.
ALONE_NS = PACKET_NS + 120
#: A source sends all its messages in the order of their creation, whatever their destinations.
FIFO = Hardware(header_bytes=0, queue_pairs="host", speedup=1)


def switch(ports: int, hardware: Hardware) -> RoutedFabric:
    fabric = weft.fabric(f"xgft:1;{ports};1")
    return RoutedFabric(fabric, weft.route(fabric, "minhop"), options={"hardware": hardware})


def full_load(ports: int, hardware: Hardware, seed: int = 1):
    """Measure a switch whose hosts send at full rate to destinations that are drawn uniformly."""
    network = switch(ports, hardware)
    traffic = resolved(network.fabric, TrafficSettings(measure="400us", warmup="100us", cooldown=0))
    return measure_load(network, traffic, 1.0, seed)


def test_a_load_near_zero_has_zero_load_latency() -> None:
    fabric = weft.fabric("xgft:1;8;1")
    row = sweep(fabric, loads=(0.001,), measure="4ms", processes=1).row(0, named=True)
    for name in ("min", "p50", "p95"):
        assert row[f"latency_{name}_ns"] == pytest.approx(ALONE_NS, abs=1e-3)
    assert row["latency_mean_ns"] == pytest.approx(ALONE_NS, rel=0.002)
    assert row["steady"]


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_sources_of_a_permutation_are_m_d_1_queues(load) -> None:
    """No two sources contend in the switch: messages wait only for earlier ones of their source."""
    network = switch(16, Hardware())
    traffic = resolved(
        network.fabric, TrafficSettings(pattern="shift:offset=3", measure="400us", warmup="50us")
    )
    result = measure_load(network, traffic, load, 5)
    busy = load * 2074 / 2048
    expected = ALONE_NS + PACKET_NS * busy / (2 * (1 - busy))
    assert result.latency.mean == pytest.approx(expected, abs=1.5 * result.latency.half_width)
    assert result.latency.half_width < 0.06 * expected
    assert result.steady
    assert result.accepted_load == pytest.approx(load, rel=0.02)


def test_a_permutation_saturates_at_the_share_of_payload() -> None:
    row = saturation_load(
        weft.fabric("xgft:1;8;1"), pattern="shift:offset=3", resolution=0.01, highest=1.2,
        measure="400us", processes=1,
    ).row(0, named=True)  # fmt: skip
    assert row["saturation_load"] == pytest.approx(2048 / 2074, abs=0.02)
    assert row["accepted_load"] == pytest.approx(2048 / 2074, abs=0.01)


def test_one_slow_cable_of_many_determines_saturation() -> None:
    """A cable at a quarter of the rate carries a load of 0.2468 in each direction, and headers."""
    fabric = weft.fabric("xgft:1;64;1").degraded([5], 50.0)
    settings = {
        "pattern": "shift:offset=1", "rate_gbps": 200.0, "measure": "100us", "processes": 1,
    }  # fmt: skip
    rows = [
        sweep(fabric, loads=(0.15, 0.28), seed=seed, **settings).rows(named=True)
        for seed in range(5)
    ]
    assert [[row["saturated"] for row in each] for each in rows] == [[False, True]] * 5
    notes = " ".join(each[1]["notes"] for each in rows)
    assert "what rank 5 sends falls behind" in notes or "what rank 4 sends falls behind" in notes
    table = saturation_load(fabric, resolution=0.01, highest=0.5, **settings)
    assert table["saturation_load"][0] == pytest.approx(0.2468, abs=0.02)


def test_a_deadlocked_run_is_a_row_with_the_reason() -> None:
    ring = weft.fabric("ring:n=6,hosts=2")
    table = sweep(ring, "dor", loads=(0.1, 0.9), measure="60us", processes=1)
    assert table["status"].to_list() == ["complete", "failed"]
    assert "full buffers wait for each other in a cycle" in table["reason"][1]
    assert table["accepted_load"].null_count() == 1


def test_messages_in_flight_at_the_end_of_a_run_are_counted() -> None:
    row = sweep(
        weft.fabric("xgft:1;8;1"), loads=(1.0,), measure="100us", drain="0s", processes=1
    ).row(0, named=True)
    assert row["status"] == "partial"
    assert 0 < row["censored"] < row["messages"]
    assert row["latency_max_ns"] is None
    assert f"{row['censored']} messages had not arrived" in row["notes"]


def head_of_line(ports: int, slots: int, seed: int) -> float:
    """Return the share of slots in which an output of a saturated slotted switch is busy.

    Of the inputs whose first packets need the same output, a random one sends in each slot.
    """
    random = np.random.default_rng(seed)
    first = random.integers(0, ports - 1, ports)
    first += first >= np.arange(ports)
    served = 0
    for _ in range(slots):
        order = np.lexsort((random.random(ports), first))
        winner = order[np.r_[True, np.diff(first[order]) > 0]]
        served += len(winner)
        drawn = random.integers(0, ports - 1, len(winner))
        first[winner] = drawn + (drawn >= winner)
    return served / slots / ports


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ports", [4, 8, 16, 32])
def test_head_of_line_blocking_equals_that_of_a_slotted_switch(ports) -> None:
    result = full_load(ports, FIFO)
    assert result.saturated
    assert result.accepted_load == pytest.approx(head_of_line(ports, 4000, 1), abs=0.01)


def test_virtual_output_queues_and_speedup_raise_accepted_load() -> None:
    accepted = [
        full_load(16, Hardware(header_bytes=0, **{"speedup": 1, **settings})).accepted_load
        for settings in (
            {"queue_pairs": "host"},
            {"queues": "voq"},
            {"queues": "voq", "speedup": 4, "buffer_bytes": 65536},
        )
    ]
    assert accepted[0] < 0.62
    assert accepted[1] > 0.93
    assert accepted[2] > 0.98


@pytest.mark.slow
def test_switches_of_many_ports_accept_two_minus_root_two() -> None:
    """Karol, Hluchyj and Morgan 1987: with many ports, input queues saturate at 0.586."""
    results = {ports: full_load(ports, FIFO) for ports in (16, 64, 256)}
    assert all(one.saturated for one in results.values())
    loads = [one.accepted_load for one in results.values()]
    assert loads == sorted(loads, reverse=True)
    assert loads[-1] == pytest.approx(2 - np.sqrt(2), abs=0.003)
