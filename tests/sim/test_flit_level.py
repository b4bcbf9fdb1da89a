"""Workloads at the flit level: times by hand, early ends, waits, and input that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.packet_runs import fabric_of, line, puts
from tests.random_workloads import random_workload

import weft
from weft import Adapter, Hardware, Router
from weft.fabrics import Fabric, FabricBuilder
from weft.sim.flit.workloads import FlitResult
from weft.workload import Workload, WorkloadBuilder

#: Packets of up to 1000 bytes of payload and a header of 24 bytes: 16 flits of 64 bytes.
PLAIN = Hardware(mtu_bytes=1000, header_bytes=24)
#: Time of a flit at 80 Gb/s, ns. A cable of unknown length takes 10 ns, so 2 cycles.
CYCLE_NS, CABLE = 6.4, 2
#: Cycles of a router by default: lane allocation, switch allocation and traversal.
ROUTER = 1 + 2


def run(fabric: Fabric, work: Workload, **options: Any) -> FlitResult:
    given = {"hardware": PLAIN, **options}
    return weft.simulate(fabric, weft.route(fabric, "minhop"), work, level="flit", **given)


@pytest.mark.parametrize(
    ("size", "flits"), [(0, 1), (100, 2), (104, 2), (105, 3), (1000, 16), (1001, 17), (2000, 32)]
)
@pytest.mark.parametrize("adapter_ns", [0.0, 500.0])
def test_a_message_takes_its_flits_and_the_delays_of_its_path(
    size: int, flits: int, adapter_ns: float
) -> None:
    hardware = Hardware(mtu_bytes=1000, header_bytes=24, adapter_latency_ns=adapter_ns)
    result = run(fabric_of([0, 0]), puts(2, (0, 1, size)), hardware=hardware)
    (message,) = result.messages().to_dicts()
    cycles = CABLE + ROUTER + CABLE + flits - 1
    # The adapter's latency passes before the first flit leaves, which happens at whole cycles.
    left = np.ceil(adapter_ns / CYCLE_NS) * CYCLE_NS
    assert message["left_ns"] == pytest.approx(left)
    assert message["arrived_ns"] == pytest.approx(left + cycles * CYCLE_NS + adapter_ns)
    assert message["alone_ns"] == pytest.approx(cycles * CYCLE_NS + adapter_ns)
    assert result.links()["flits"].sort(descending=True).to_list()[:3] == [flits, flits, 0]


def test_a_slow_cable_takes_a_flit_in_several_cycles() -> None:
    result = run(line([80, 20], [2, 2]), puts(2, (0, 1, 1000)))
    links = result.links().filter(links_used := result.links()["flits"] > 0)
    assert links_used.sum() == 2
    # 16 flits, one in 4 cycles.
    last = CABLE + ROUTER + CABLE + 15 * 4
    assert result.makespan_ns == pytest.approx(last * CYCLE_NS)
    busy = dict(zip(links["rate_gbps"], links["utilisation"], strict=True))
    assert busy == pytest.approx({80: 16 / last, 20: 64 / last})


@pytest.mark.parametrize("delays", [{}, {"routing_delay": 10}, {"vc_delay": 5}])
def test_packets_of_a_message_follow_without_gaps_by_default(delays: dict[str, Any]) -> None:
    """The delays of heads need places, too: without them each packet leaves a gap."""
    result = run(fabric_of([0, 1], [(0, 1)]), puts(2, (0, 1, 200_000)), router=Router(**delays))
    assert result.router.buffer is not None
    assert result.messages()["slowdown"].item() == pytest.approx(1, rel=0.005)


def test_a_run_that_ends_before_its_limit_is_complete() -> None:
    """The limit may be as near as two cycles."""
    work = puts(2, (0, 1, 1000))
    end = run(fabric_of([0, 0]), work).makespan_ns
    assert end is not None
    early, late = (
        run(fabric_of([0, 0]), work, max_time_ns=end + cycles * CYCLE_NS) for cycles in (-1, 2)
    )
    assert not early.complete
    assert late.complete
    assert late.makespan_ns == end


def test_a_limit_beyond_the_longest_run_does_not_end_it_in_silence() -> None:
    builder = WorkloadBuilder(2)
    builder.calc(0, 20e9)
    with pytest.raises(weft.InputError, match=r"takes more than 2\^31 cycles"):
        run(fabric_of([0, 0]), builder.build(), max_time_ns=30e9)


def test_packets_that_have_just_come_have_no_negative_wait() -> None:
    for cycles in range(4, 60, 4):
        router, limit = Router(routing_delay=30), cycles * CYCLE_NS
        result = run(fabric_of([0, 0]), puts(2, (0, 1, 9000)), router=router, max_time_ns=limit)
        assert result.wait_cycles.min() >= 0
        assert len(result.congestion_matrix())


def test_an_acknowledgement_over_many_routers_is_no_deadlock() -> None:
    long = line([80] * 82, [2] * 82)
    result = run(long, puts(2, (0, 1, 1000)), adapter=Adapter(circuits=True, acknowledge_hop=1000))
    assert result.complete
    assert result.messages()["slowdown"].item() == pytest.approx(1)


def test_flits_may_have_another_size() -> None:
    result = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)), flit_bytes=512)
    assert result.cycle_ns == pytest.approx(51.2)
    # The cable takes a cycle at least.
    assert result.makespan_ns == pytest.approx((1 + ROUTER + 1 + 1) * 51.2)


def test_a_routing_by_name_needs_no_routes() -> None:
    fabric = weft.fabric("torus:4x4")
    work = weft.load_workload("alltoall:size=4KiB", 16)
    result = weft.simulate(fabric, "adaptive", work, level="flit", router=Router(lanes=3))
    assert (result.engine, result.complete, result.router.lanes) == ("adaptive", True, 3)
    assert (result.messages()["arrived_ns"] > 0).all()


def _stop(_: Any) -> None:
    raise weft.StopRun


@pytest.mark.parametrize("options", [{"max_time_ns": 1000.0}, {"progress": _stop}])
def test_a_run_that_stops_early_is_incomplete(options: dict[str, Any]) -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    work = weft.load_workload("alltoall:size=64KiB", 16)
    result = run(fabric, work, **options)
    assert not result.complete
    if "max_time_ns" in options:
        assert result.end_ps == 1_000_000
    ops = work.messages
    assert (result.arrived_ns[ops] <= result.end_ps / 1000 + CYCLE_NS).all()
    assert (result.arrived_ns[ops] < 0).any()


def test_progress_counts_messages_and_time() -> None:
    seen: list[Any] = []
    fabric = weft.fabric("xgft:2;4,4;1,4")
    work = weft.load_workload("alltoall:size=4KiB", 16)
    result = run(fabric, work, progress=seen.append)
    assert [each.now_ns for each in seen] == sorted(each.now_ns for each in seen)
    assert seen[-1].arrived == seen[-1].messages == 240
    assert result.makespan_ns <= seen[-1].now_ns + CYCLE_NS


def test_packets_wait_where_an_incast_meets() -> None:
    """Hosts 1 to 3 send to host 0 of one switch: packets wait at the ends of their own cables."""
    result = run(fabric_of([0] * 4), puts(4, *((source, 0, 1000) for source in (1, 2, 3))))
    matrix = result.congestion_matrix()
    assert matrix["wait_ns"].sum() == pytest.approx(result.wait_ns.sum())
    waits = dict(zip(matrix["name"], matrix["wait_ns"] / CYCLE_NS, strict=True))
    # A lane of their own each; the link serves one flit of each packet in turn.
    assert sorted(waits.values()) == pytest.approx([0, 0, 1, 2])
    assert waits["h0[1] -> s0[1]"] == 0
    assert len(weft.plot(result).axes) > 0


def test_lanes_without_room_wait_for_ever_on_a_ring_without_datelines() -> None:
    fabric = weft.fabric("torus:4x4")
    work = weft.load_workload("alltoall:size=64KiB", 16)
    with pytest.raises(weft.InputError, match=r"the network is deadlocked after .* s0.0"):
        weft.simulate(
            fabric, weft.route(fabric, "dor"), work, level="flit", router=Router(lanes=1, buffer=1)
        )
    result = weft.simulate(fabric, "dor", work, level="flit", router=Router(lanes=2, buffer=1))
    assert result.complete


def _switch() -> Fabric:
    return fabric_of([0, 0])


def _mixed_rates() -> Fabric:
    return fabric_of([0, 0], rates=[80, 50])


def _two_ports() -> Fabric:
    builder = FabricBuilder("two ports")
    switches = builder.switches(["s0", "s1"])
    hosts = builder.hosts(["h0", "h1"])
    for switch in switches:
        for host in hosts:
            builder.connect([switch], [host])
    return builder.fabric()


@pytest.mark.parametrize(
    ("fabric", "routes", "options", "error", "message"),
    [
        (_switch, "minhop", {"speed": 1}, weft.InputError, "the flit level has no 'speed'"),
        (_switch, "minhop", {"scheduler": "choice=optimum"}, weft.InputError,
         "has no scheduler; the flow and the packet level have it"),
        (_switch, "minhop", {"policy": "nrk"}, weft.InputError,
         "the flit level has no policy nrk; it has deterministic, adaptive,"),
        (_switch, "minhop", {"policy": "sprya"}, weft.InputError, "unknown policy 'sprya'"),
        (_switch, "minhop", {"policy": "spray"}, weft.NotApplicable, "no choice to policy spray"),
        (_switch, "minhop", {"lids": "hash"}, weft.InputError, "has no lids; the packet level has"),
        (_switch, "minhop", {"switch_latency_ns": 1}, weft.InputError, "has no switch_latency_ns"),
        (_switch, "minhop", {"router": "lanes=2"}, weft.InputError, "expected a Router"),
        (_switch, "minhop", {"router": Router(buffer=9, switching="cut-through")}, weft.InputError,
         "cut-through needs buffers for a packet of 16 flits, not of 9"),
        (_switch, "minhop", {"adapter": Adapter(window=5)}, weft.InputError,
         "each of the 5 packets of an adapter's window .* and there are 4"),
        (_switch, "minhop",
         {"adapter": Adapter(circuits=True), "hardware": Hardware(mtu_bytes=64, header_bytes=0)},
         weft.InputError, "packets that hold circuits have at least 2 flits"),
        (lambda: line([9000, 9000], [2, 2]), "minhop", {"flit_bytes": 1}, weft.NotApplicable,
         "a flit of 1 bytes takes 0.889 ps at 9000 Gb/s"),
        (_switch, "minhop", {"flit_bytes": 0}, weft.InputError, "flit_bytes: 0 does not fit"),
        (_switch, "minhop", {"max_time_ns": 1e30}, weft.InputError, "max_time_ns must be at most"),
        (_switch, "nowhere", {"level": "flit"}, weft.InputError, "unknown routing 'nowhere'"),
        (_switch, "nca-random", {"level": "packet"}, weft.InputError, "not 'nca-ra"),
        (_switch, "nca-random", {"policy": "spray"}, weft.InputError, "takes no policy"),
        ("torus:4x4", "dor", {"router": Router(lanes=1)}, weft.InputError,
         "routing dor needs 2 virtual channels .* not 1"),
        ("torus:5x5", "dfsssp", {"router": Router(lanes=1)}, weft.InputError,
         r"use \d virtual lanes, so .* must be a multiple of \d, not 1"),
        ("torus:4x4", "nca-random", {}, weft.NotApplicable, "fat tree"),
        (_switch, "minhop", {"threads": 2, "adapter": Adapter(circuits=True)}, weft.InputError,
         "threads 2: packets that hold circuits are acknowledged one after the other, so this run"),
        (_switch, "minhop", {"threads": 0}, weft.InputError, "threads"),
        (_mixed_rates, "minhop", {}, weft.NotApplicable,
         "has a rate of 50 Gb/s; the flit level takes rates of which the fastest, 80 Gb/s, is a"),
        (lambda: line([80, 80], [2, 1e6]), "minhop", {}, weft.NotApplicable,
         "has a latency of 781,.* cycles of 6.4 ns; the flit level takes at most 32,768"),
        (lambda: line([80, 80], [2, 30_000]), "minhop", {}, weft.InputError, "so set buffer"),
        (_two_ports, "minhop", {}, weft.NotApplicable, "hosts have one port"),
        ("bcube:3,k=1", "minhop", {}, weft.NotApplicable, "hosts"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    fabric: Any, routes: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    built = weft.fabric(fabric) if isinstance(fabric, str) else fabric()
    given = {"level": "flit", "hardware": PLAIN, **options}
    known = weft.route(built, routes) if routes in ("minhop", "dfsssp") else routes
    with pytest.raises(error, match=message):
        weft.simulate(built, known, puts(2, (0, 1, 2000)), **given)


def test_a_thread_of_its_own_for_each_rank_needs_a_handshake() -> None:
    options: dict[str, Any] = {"handshake": False, "threads": 2}
    builder = WorkloadBuilder(2)
    builder.rank(0).send(1, 90_000)
    builder.rank(1).recv(0, 90_000)
    with pytest.raises(weft.InputError, match="threads 2: without handshake both ranks of a large"):
        run(fabric_of([0, 1], [(0, 1)]), builder.build(), **options)


@given(
    st.integers(0, 10**6), st.sampled_from(["xgft:2;4,4;1,2", "torus:4x4", "xgft:1;20;1"]),
    st.sampled_from([Router(), Router(lanes=2, arbiter="least-recent", output_buffer=8)]),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(25), deadline=None)
def test_workloads_are_the_same_for_any_number_of_threads(
    seed: int, spec: str, router: Router, early: bool
) -> None:
    random = np.random.default_rng(seed)
    fabric = weft.fabric(spec)
    routes = "dor" if spec.startswith("torus") else weft.route(fabric, "minhop")
    work = random_workload(seed, ranks=20)
    options: dict[str, Any] = {
        "placement": random.integers(fabric.num_hosts, size=20), "level": "flit", "router": router,
        "overhead_ns": float(random.choice([0, 70])), "eager_bytes": int(random.choice([0, 9000])),
        "rendezvous": str(random.choice(["get", "put"])), "hardware": PLAIN, "seed": seed,
        "max_time_ns": 20_000.0 if early else None,
    }  # fmt: skip
    one = weft.simulate(fabric, routes, work, threads=1, **options)
    for threads in (2, 3, 7):
        other = weft.simulate(fabric, routes, work, threads=threads, **options)
        assert other.threads == min(threads, fabric.num_switches, fabric.num_hosts)
        for name, value in vars(one).items():
            if name not in ("run_s", "threads", "options"):
                np.testing.assert_equal(getattr(other, name), value, err_msg=name)


def test_ranks_that_wait_for_ever_are_named() -> None:
    builder = WorkloadBuilder(2)
    for rank in range(2):
        builder.rank(rank).recv(1 - rank, 100).send(1 - rank, 100)
    with pytest.raises(weft.InputError, match=r"deadlocks after .*: 2 ranks wait for ever: rank 0"):
        run(fabric_of([0, 0]), builder.build())
