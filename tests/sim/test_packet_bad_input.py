"""Bad input of the packet level gives one error with the index, and no overflow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from weft.core.errors import InputError, NotApplicable
from weft.sim.common.progress import StopRun
from weft.sim.packet import Hardware, VlArbitration
from weft.workload import WorkloadBuilder, load_workload

TREE = weft.fabric("xgft:2;2,2;1,2")
ROUTES = weft.route(TREE, "dmodk")
WORK = load_workload("alltoall:size=4KiB", 4)


def simulate(fabric=TREE, routes=ROUTES, workload=WORK, **options: Any):
    return weft.simulate(fabric, routes, workload, **options, level="packet")


def one_message(size_bytes: int):
    builder = WorkloadBuilder(2)
    builder.send(0, 1, size_bytes)
    builder.recv(1, 0, size_bytes)
    return builder.build()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "sprai"}, r"unknown policy 'sprai' \(did you mean 'spray'\?\)"),
        ({"policy": ""}, "unknown policy ''; expected one of adaptive"),
        ({"policy": 3}, "policy: 3 does not fit: expected text"),
        ({"policy": "deterministic:x=1"}, "policy 'deterministic' has no option 'x'"),
        ({"lids": "frist"}, "unknown lids 'frist'; there are first, hash, spread"),
        ({"lids": [0]}, "lids of the operations: expected whole numbers, 28 of them, not 1"),
        (
            {"lids": np.full(WORK.num_ops, 1)},
            "lids: 1 at index 0 is out of range; offsets of LMC 0 are 0",
        ),
        ({"ports": "last"}, "ports: 'last' does not fit: expected 'first' or 'spread'"),
        ({"seed": -1}, "seed: -1 does not fit: expected 0 or more"),
        ({"seed": 2**63}, "seed: 9.22e.18 does not fit: expected a number less than 9223372"),
        ({"hardware": 3}, "hardware: 3 does not fit: expected a Hardware"),
        ({"workload": 3}, "expected Workload, not 3"),
        ({"routes": 3}, "expected Routes, not 3"),
        ({"eager_bytes": -1}, "eager_bytes: -1 does not fit"),
        ({"eager_bytes": float("nan")}, "eager_bytes: nan does not fit"),
        ({"handshake": "maybe"}, "handshake: 'maybe' does not fit"),
        ({"overhead_ns": -1}, "overhead_ns: -1 does not fit"),
        ({"overhead_ns": 1e30}, r"overhead_ns must be at most 3\.603e\+13, not 1e\+30"),
        ({"local_latency_ns": 1e30}, "local_latency_ns must be at most"),
        ({"local_latency_ns": float("nan")}, "local_latency_ns: nan does not fit"),
        ({"local_gbps": 0.0}, "local_gbps: 0.0 does not fit: expected a number greater than 0"),
        ({"local_gbps": -1.0}, "local_gbps: -1.0 does not fit: expected a number greater than 0"),
        (
            {"local_gbps": float("nan")},
            "local_gbps: nan does not fit: expected a number greater than 0",
        ),
        ({"trace": 0}, "trace must be a list of operations, not 0"),
        ({"trace": "0"}, "trace must be a list of operations, not '0'"),
        ({"max_time_ns": -1}, "max_time_ns: -1 does not fit"),
        ({"max_time_ns": 1e30}, "max_time_ns must be at most"),
        ({"max_time_ns": float("inf")}, "max_time_ns: inf does not fit"),
        ({"snapshot_ns": -1}, "snapshot_ns: -1 does not fit"),
        ({"snapshot_ns": 0}, "snapshot_ns: 0 does not fit: expected a positive time, 0.001 ns"),
        ({"snapshot_ns": float("nan")}, "snapshot_ns: nan does not fit"),
        ({"snapshot_ns": 1e30}, "snapshot_ns must be at most"),
        ({"trace": [10**9]}, "operation 1000000000 sends no message to trace"),
        ({"trace": [-1]}, "operation -1 sends no message"),
        ({"placement": [0, 1, 2, 99]}, "99 at index 3 is out of range; hosts of .* are 0 to 3"),
        ({"placement": [0, 1, 2]}, "hosts of the ranks: expected whole numbers, 4 of them, not 3"),
    ],
)
def test_bad_options_are_refused(options, message) -> None:
    with pytest.raises(InputError, match=message):
        simulate(**options)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), 1e-300])
def test_cables_without_a_possible_rate_are_named(rate) -> None:
    rates = TREE.cable_rate_gbps.copy()
    rates[3] = rate
    fabric = replace(TREE, cable_rate_gbps=rates)
    with pytest.raises(InputError, match=r"-> .* has a rate of .* Gb/s"):
        simulate(fabric)


@pytest.mark.parametrize("latency", [-1.0, float("nan"), float("inf"), 1e30])
def test_cables_without_a_possible_latency_are_named(latency) -> None:
    latencies = np.array(TREE.cable_latency_ns, dtype=float)
    latencies[2] = latency
    with pytest.raises(InputError, match=r"the cable .* has a latency of .* ns; expected 0 to"):
        simulate(replace(TREE, cable_latency_ns=latencies))


def test_memory_too_slow_for_the_range_of_times_is_refused() -> None:
    with pytest.raises(InputError, match=r"adapter_gbps is 1e-300, at which a packet of 2074"):
        simulate(hardware=Hardware(adapter_gbps=1e-300))


@pytest.mark.parametrize(
    ("work", "options", "message"),
    [
        (
            one_message(2**56), {},
            r"operation 0 of rank 0 \(send to rank 1, tag 0\) sends 72,057,594,037,927,936 bytes, "
            "which take more than 13 days at 200 Gb/s, the slowest link",
        ),
        (
            one_message(2**40), {"hardware": Hardware(adapter_gbps=1e-6)},
            "more than 13 days at 1e-06 Gb/s, the slowest link",
        ),
        (
            one_message(2**40), {"placement": [0, 0], "local_gbps": 1e-9},
            "more than 13 days at 1e-09 Gb/s, local_gbps",
        ),
        (one_message(2**32), {"hardware": Hardware(mtu_bytes=1)}, "rank 0 sends 4.295e.09 packets"),
    ],
)  # fmt: skip
def test_messages_that_take_too_long_are_named(work, options, message) -> None:
    with pytest.raises(InputError, match=message):
        simulate(workload=work, **options)


def test_calculations_that_take_too_long_are_named() -> None:
    builder = WorkloadBuilder(1)
    builder.calc(0, 1e30)
    with pytest.raises(InputError, match=r"operation 0 of rank 0 \(.*\) takes 1e\+30 ns; at most"):
        simulate(workload=builder.build())
    builder = WorkloadBuilder(1)
    for _ in range(3):
        builder.calc(0, 1e15)
    with pytest.raises(InputError, match="simulated time exceeds 27 days"):
        simulate(workload=builder.build())


def test_lanes_that_never_send_are_named() -> None:
    torus = weft.fabric("torus:5")
    routes = weft.route(torus, "dfsssp")
    work = load_workload("alltoall:size=64", 5)
    only = Hardware(vl_arbitration=VlArbitration(low=((0, 4),)))
    with pytest.raises(InputError, match=r"VL 1 has no weight .* never send; SL 1 maps to"):
        simulate(torus, routes, work, hardware=only)
    nothing = Hardware(vl_arbitration=VlArbitration(high=((0, 0), (1, 0))))
    with pytest.raises(InputError, match="VL 0 has no weight"):
        simulate(torus, routes, work, hardware=nothing)


def test_service_levels_without_a_data_lane_are_refused() -> None:
    torus = weft.fabric("torus:5")
    routes = weft.route(torus, "dfsssp")
    tables = routes.lanes.tables.copy()
    tables[:, 1] = 15
    routes = replace(routes, lanes=replace(routes.lanes, tables=tables))
    with pytest.raises(InputError, match="SL 1 maps to VL 15; a virtual lane is 0 to 14"):
        simulate(torus, routes, load_workload("alltoall:size=64", 5))


def test_truth_values_of_numpy_are_accepted() -> None:
    for level in ("flow", "packet"):
        with_handshake, without_handshake = (
            weft.simulate(
                TREE, ROUTES, one_message(100_000), level=level, handshake=np.bool_(value)
            ).makespan_ns
            for value in (True, False)
        )
        assert with_handshake is not None
        assert without_handshake is not None
        assert without_handshake < with_handshake


def test_pairs_without_a_path_are_named() -> None:
    cut = TREE.without(cables=["s1-0[3]", "s1-0[4]"])
    with pytest.raises(InputError, match="there is no path from h0 to h2 in the minhop routes"):
        simulate(cut, weft.route(cut, "minhop"))
    other = weft.fabric("xgft:2;2,2;1,1")
    with pytest.raises(InputError, match="routes"):
        simulate(other)


def test_policies_need_routes_that_leave_a_choice() -> None:
    with pytest.raises(NotApplicable, match="dmodk leaves no choice of paths to policy spray"):
        simulate(policy="spray")
    with pytest.raises(NotApplicable, match="ecmp leaves a choice of paths, and policy determ"):
        simulate(routes=weft.route(TREE, "ecmp"), policy="deterministic")
    assert simulate(routes=weft.route(TREE, "ecmp")).policy == "ecmp"


def test_ranks_that_wait_for_ever_are_named() -> None:
    builder = WorkloadBuilder(2)
    for me in (0, 1):
        builder.send(me, 1 - me, 10**6)
        builder.recv(me, 1 - me, 10**6)
    with pytest.raises(InputError, match=r"the workload deadlocks after .*: 2 ranks wait for ever"):
        simulate(workload=builder.build())


def test_buffers_that_wait_for_ever_are_named() -> None:
    ring = weft.fabric("torus:5,hosts=2")
    work = load_workload("alltoall:size=256KiB", 10)
    with pytest.raises(InputError, match=r"the network is deadlocked .* in a cycle: the buffer"):
        simulate(ring, weft.route(ring, "minhop"), work, hardware=Hardware(buffer_bytes=4096))


def test_the_progress_function_may_stop_a_run() -> None:
    def stop(now: object) -> None:
        raise StopRun

    result = simulate(workload=load_workload("alltoall:size=1MiB,count=20", 4), progress=stop)
    assert not result.complete
    counts = result.conservation
    assert counts["injected_packets"] == counts["delivered_packets"] + counts["in_flight_packets"]
    # A run that ends before it is stopped is complete.
    assert simulate(progress=stop).complete
    with pytest.raises(ZeroDivisionError):
        simulate(progress=lambda now: 1 / 0)


@pytest.mark.parametrize("limit_ns", [0.0, 100.0, 300.0, 800.0])
def test_a_time_limit_keeps_all_results_up_to_it(limit_ns) -> None:
    complete, part = simulate(), simulate(max_time_ns=limit_ns)
    assert not part.complete
    assert part.end_ps == limit_ns * 1000
    for name in ("posted_ps", "left_ps", "arrived_ps", "ended_ps"):
        known, all_of_it = getattr(part, name), getattr(complete, name)
        happened = (all_of_it >= 0) & (all_of_it <= part.end_ps)
        assert (known == np.where(happened, all_of_it, -1)).all()
    frames = (part.messages(), part.links(), part.queues(), part.ranks(), part.phases())
    assert all(frame.width for frame in frames)
    assert (part.phases()["span_ns"].fill_null(0) >= 0).all()
    assert simulate(max_time_ns=complete.makespan_ns).complete


def test_too_large_buffers_of_a_node_are_refused() -> None:
    # Leaf switches have two hosts and two uplinks, and so four buffers.
    fits = Hardware(buffer_bytes=2**29 - 1, credit_bytes=1)
    assert simulate(hardware=fits).complete
    with pytest.raises(InputError, match=r"the 4 buffers of s1-0 hold 536,870,912 credits each; "):
        simulate(hardware=replace(fits, buffer_bytes=2**29))
    # Each lane has its own buffer.
    torus = weft.fabric("torus:5")
    routes = weft.route(torus, "dfsssp")
    work = load_workload("alltoall:size=64", 5)
    large = Hardware(buffer_bytes=2**29, credit_bytes=1)
    with pytest.raises(InputError, match=r"the 6 buffers of .* hold 536,870,912 credits each"):
        simulate(torus, routes, work, hardware=large)
    assert simulate(torus, weft.route(torus, "minhop"), work, hardware=large).complete


@pytest.mark.parametrize("lids", ["hash", "spread"])
def test_lid_policies_require_an_lmc(lids: str) -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    work = weft.load_workload("alltoall:size=1KiB", 4)
    with pytest.raises(weft.NotApplicable, match="LIDs of an LMC"):
        weft.simulate(fabric, weft.route(fabric, "minhop"), work, lids=lids, level="packet")  # type: ignore[arg-type]
    weft.simulate(fabric, weft.route(fabric, "minhop:lmc=1"), work, lids=lids, level="packet")  # type: ignore[arg-type]
