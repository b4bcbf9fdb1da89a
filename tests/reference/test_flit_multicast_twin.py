"""Multicasts among other packets, against the reference: random trees, routers and messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from tests.flit_runs import run_workload
from tests.reference.flit_multicast import PlainMulticasts, Post
from tests.reference.test_flit_twin import Draw
from weft import Hardware
from weft.fabrics import Fabric
from weft.sim.flit.adapter import Adapter
from weft.workload import WorkloadBuilder

#: Trees of one to three levels, with and without several top switches and parallel cables.
TREES = (
    "leaf-spine:leaves=1,spines=1,hosts=5",
    "xgft:2;2,3;1,2",
    "xgft:2;3,2;1,2;1,2",
    "xgft:3;2,2,2;1,2,2",
    "kary-n-tree:2;3",
)
#: A flit of 1 byte takes 1 ns at 8 Gb/s.
CYCLE_NS = 1.0


def tree(name: str, draw: Draw) -> Fabric:
    """Return a tree with random latencies and rates of its cables."""
    fabric = weft.fabric(name)
    cables = fabric.num_cables
    slowest = draw.one(1, 1, 3)
    return replace(
        fabric,
        cable_latency_ns=draw.random.integers(1, draw.one(3, 6), size=cables).astype(float),
        cable_rate_gbps=8.0 / draw.random.integers(1, slowest + 1, size=cables),
    )


def posts_of(draw: Draw, hosts: int, least: int) -> list[Post]:
    """Return random messages, by source and cycle."""
    posts = []
    for source in range(hosts):
        cycle = 0
        for _ in range(draw.upto(4)):
            cycle += draw.one(0, 1, draw.upto(60))
            size = draw.upto(9, least)
            if draw.one(True, False):
                low, high = draw.upto(source), draw.upto(hosts - 1, source)
                if low < high:
                    posts.append(Post(cycle, source, low, high, size, True))
            else:
                target = draw.upto(hosts - 1)
                if target != source:
                    posts.append(Post(cycle, source, target, target, size, False))
    return posts


def workload_of(posts: list[Post], hosts: int) -> Any:
    """Return the messages as a workload."""
    builder = WorkloadBuilder(hosts)
    for tag, post in enumerate(posts):
        for host in range(post.low, post.high + 1) if post.is_cast else ():
            if host != post.source:
                builder.irecv(host, post.source, post.size, tag)
    last = [0] * hosts
    for tag, post in enumerate(posts):
        builder.calc(post.source, (post.cycle - last[post.source]) * CYCLE_NS)
        last[post.source] = post.cycle
        if post.is_cast:
            to = [host for host in range(post.low, post.high + 1) if host != post.source]
            builder.multicast(post.source, to, post.size, tag)
        else:
            builder.put(post.source, post.low, post.size, tag)
    return builder.build()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(60))
def test_the_kernel_copies_packets_by_the_rules(seed: int) -> None:
    draw = Draw(seed)
    fabric = tree(TREES[seed % len(TREES)], draw)
    # The fastest cable sets the duration of a cycle.
    if fabric.cable_rate_gbps.max() != 8.0:
        fabric = replace(fabric, cable_rate_gbps=np.full(fabric.num_cables, 8.0))
    circuits = draw.one(True, False)
    posts = posts_of(draw, fabric.num_hosts, 2 if circuits else 1)
    largest = max((post.size for post in posts), default=1)
    router = draw.router(largest, False)
    if router.switching == "store-and-forward":
        router = replace(router, switching="cut-through")
    router = replace(
        router, output_buffer=0, output_speedup=1, speculative=False, hold_switch=False
    )
    adapter = Adapter(window=draw.upto(min(router.lanes, 3), 1))
    if circuits:
        adapter = replace(
            adapter, circuits=True, acknowledge_hop=draw.one(0, 2, 30), service=draw.one(0, 1, 5),
            turnaround=draw.one(0, 3),
        )  # fmt: skip
    routing = draw.one("nca-adaptive", "nca-adaptive", "nca-random")
    twin = PlainMulticasts(
        fabric, routing, router, posts,
        np.repeat(fabric.cable_latency_ns, 2).astype(int).tolist(),
        np.rint(8.0 / np.repeat(fabric.cable_rate_gbps, 2)).astype(int).tolist(),
        adapter.held, adapter.window, seed,
    )  # fmt: skip
    cycles = 0
    while cycles < 20_000 and (twin.count["under_way"] or any(twin.waiting)):
        cycles += 50
        twin.run(cycles)
    assert cycles < 20_000, "the reference does not end"
    work = workload_of(posts, fabric.num_hosts)
    hardware = Hardware(mtu_bytes=10, header_bytes=0, adapter_latency_ns=0.0, control_bytes=0)
    result = run_workload(
        fabric, work, routing, hardware=hardware, router=router, adapter=adapter, flit_bytes=1,
        seed=seed,
    )  # fmt: skip
    assert result.complete
    arrived = {
        (int(work.rank[op]), int(work.tag[op]), int(work.peer[op])): result.arrived_ps[op] // 1000
        for op in work.messages
    }
    expected = {
        (post.source, tag, host): cycle
        for tag, post in enumerate(posts)
        for host, cycle in post.arrived.items()
        if host != post.source
    }
    assert arrived == expected
    assert result.flits.tolist() == [link.flits for link in twin.links]
    assert result.wait_cycles.tolist() == [link.wait for link in twin.links]
