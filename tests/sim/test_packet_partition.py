"""Where a fabric is cut for threads, how many a run uses, and runs that need one."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.packet_runs import PLAIN, fabric_of, puts, run

import weft
from weft import InputError, PacketResult
from weft.kernels.records import CACHE_LINE
from weft.sim.common.progress import Progress, StopRun
from weft.sim.options import USUAL_HARDWARE
from weft.sim.packet import partition as cutting
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.network import PacketNetwork
from weft.sim.packet.partition import Partition
from weft.sim.packet.state import PacketRunState
from weft.workload import WorkloadBuilder

TREE = "xgft:3;4,4,4;1,4,4"
#: Latencies of nothing, and cables of length 0.
INSTANT = Hardware(switch_latency_ns=0.0)


def cut(fabric: weft.Fabric, threads: int, hardware: Hardware = USUAL_HARDWARE) -> Partition:
    """Cut a fabric on which the first host sends to the last."""
    work = puts(2, (0, 1, 4096))
    hosts = np.array([0, fabric.num_hosts - 1], dtype=np.int32)
    network = PacketNetwork.of(fabric, hardware, 1)
    nothing = np.zeros(work.num_ops, dtype=np.int32)
    routes: Any = None
    connections = Connections(routes, nothing, nothing, nothing, 1, 1, 1, nothing)
    options = {"handshake": True, "eager_bytes": 0, "hardware": hardware}
    given = cutting.CutInputs(fabric, network, connections, work, hosts, options)
    return cutting.partition(given, threads)


@pytest.mark.parametrize("threads", [2, 3, 7, 16])
@pytest.mark.parametrize(
    "spec", [TREE, "xgft:2;8,16;1,8", "torus:6x6x6", "dragonfly:p=2,a=4,h=2", "kns:k=4,n=2"]
)
def test_parts_have_like_many_links_and_keep_hosts_at_their_switch(spec: str, threads: int) -> None:
    fabric = weft.fabric(spec)
    parts = cut(fabric, threads)
    links = np.bincount(parts.tail, minlength=threads)
    assert len(links) == parts.parts == threads
    ends = PacketNetwork.of(fabric, USUAL_HARDWARE, 1).topology.links
    largest = np.bincount(ends["tail_row"][ends["tail_row"] >= 0]).max()
    assert links.max() <= 1.05 * links.mean() + 1.5 * largest
    at_host = (ends["tail_row"] < 0) | (ends["head_row"] < 0)
    assert (parts.tail == parts.head)[at_host].all()
    assert (parts.tail != parts.head).any()


def test_pods_stay_whole_whatever_the_order_of_their_switches() -> None:
    for fabric in (weft.fabric(TREE), weft.fabric(TREE).shuffled(3)):
        parts = cut(fabric, 4)
        crossing = (parts.tail != parts.head).sum()
        # Of the 2 x 64 links at the top, a quarter stays in a part.
        assert crossing <= 2 * 64 * 3 / 4


def test_the_lookahead_is_that_of_a_packet_or_of_the_smallest_credit() -> None:
    fabric = fabric_of([0, 1], [(0, 1)])
    packet, credit = 10_000 + 100_000, 10_000 + (4096 % 1000 + 24) * 100
    assert cut(fabric, 2, PLAIN).lookahead_ps == credit
    assert cut(fabric, 2, replace(PLAIN, credit_latency_ns=300.0)).lookahead_ps == packet


def test_runs_that_need_one_thread_say_why() -> None:
    two = fabric_of([0, 0, 1, 1], [(0, 1)])
    flat = two.with_lengths(np.zeros(two.num_cables))
    builder = WorkloadBuilder(4)
    builder.sendrecv(np.arange(4), (np.arange(4) + 2) % 4, 50_000, (np.arange(4) + 2) % 4, 50_000)
    work = builder.build()
    for fabric, hardware, options, why in (
        (flat, INSTANT, {}, "take no time between switches: set a switch latency"),
        (two, PLAIN, {"handshake": False}, "without handshake .*: leave the handshake on"),
        (fabric_of([0] * 4), PLAIN, {}, "1 group of hosts"),
    ):
        with pytest.raises(InputError, match=f"threads 2: this run needs 1 thread, .*{why}"):
            run(fabric, work, hardware, threads=2, **options)
        assert run(fabric, work, hardware, **options).threads == 1
    assert run(two, work, threads=2).threads == 2
    few = run(two, work, threads=5)
    assert few.threads == 2
    assert "2 groups of hosts" in few.fewer_threads


def test_a_scheduler_of_keys_needs_one_thread() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    work = weft.application_workload("cartesian:dims=4x2x2,sizes=1KiB,keys=true", 16)
    routes = weft.route(fabric, "dmodk")
    with pytest.raises(InputError, match="policy nrk has one scheduler"):
        weft.simulate(fabric, routes, work, level="packet", policy="nrk", threads=2)


def test_large_runs_use_all_processors_but_in_worker_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fabric = weft.fabric("xgft:2;8,8;1,8")
    work = puts(64, *[(host, (host + 9) % 64, 20_000) for host in range(64)])
    routes = weft.route(fabric, "dmodk")

    def used() -> PacketResult:
        return weft.simulate(fabric, routes, work, level="packet")

    monkeypatch.setattr(cutting, "cores", lambda: 3)
    assert (used().threads, used().fewer_threads) == (1, "")
    monkeypatch.setattr(cutting, "_LEAST_PACKETS", 500)
    monkeypatch.setattr(cutting, "_LEAST_HOPS", 1000)
    assert used().threads == 1
    assert "windows of " in used().fewer_threads
    monkeypatch.setattr(cutting, "_LEAST_HOPS", 1)
    assert used().threads == 3
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    assert used().threads == 1


def test_a_run_on_threads_may_be_stopped_and_grows_its_arrays() -> None:
    """Every run checks that no packet and no credit was lost."""
    two = fabric_of([0, 0, 1, 1], [(0, 1)] * 2)
    work = puts(4, *[(host, (host + 2) % 4, 3_000_000) for host in range(4)])

    def stop(now: Progress) -> None:
        if now.now_ns > 50_000:
            raise StopRun

    deep = replace(PLAIN, buffer_bytes=2**22, switch_latency_ns=5e5)
    stopped = run(two, work, deep, threads=2, progress=stop)
    assert not stopped.complete
    end = stopped.end_ps
    one = run(two, work, deep, threads=1, max_time_ns=end / 1000)
    assert (one.arrived_ps == stopped.arrived_ps).all()
    assert (one.packets == stopped.packets).all()
    assert one.conservation == stopped.conservation


def test_parts_write_no_line_in_common_also_when_they_have_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = fabric_of([0, 0, 1, 1], [(0, 1)] * 2)
    work = puts(4, *[(host, (host + 2) % 4, 3_000_000) for host in range(4)])
    grow, grown = PacketRunState._grow, []

    def keep(state: PacketRunState, part: int) -> None:
        grow(state, part)
        grown.append((state, state.nets[part]))

    monkeypatch.setattr(PacketRunState, "_grow", keep)
    run(two, work, replace(PLAIN, buffer_bytes=2**22, switch_latency_ns=5e5), threads=2)
    state, _ = grown[0]
    for one, other in zip(*(cutting._of_links(net, state.cut) for net in state.nets), strict=True):
        assert not np.shares_memory(one[0], other[0])
        assert one[0].ctypes.data % CACHE_LINE == other[0].ctypes.data % CACHE_LINE == 0
    for _, net in grown:
        for pool in (net.calendar.state, net.credits.state):
            assert pool.__array_interface__["data"][0] % CACHE_LINE == 0
    assert {int(net.count["part"]) for _, net in grown} == {0, 1}


def test_a_deadlock_across_parts_is_found() -> None:
    ring = fabric_of(range(5), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    work = puts(5, *[(host, (host + 2) % 5, 5000) for host in range(5)])
    with pytest.raises(InputError, match=r"the network is deadlocked .* in a cycle"):
        run(ring, work, replace(PLAIN, buffer_bytes=1024), threads=3)
