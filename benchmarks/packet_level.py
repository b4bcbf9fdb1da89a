"""Packet-hops per second of the packet level and of its flit-by-flit reference implementation.

Uniform random traffic of single packets of 2 KiB on 1,728 hosts with 4xQDR cables, on one core.
The reference implementation (tests/reference/packet_*), compiled too, moves every flit of 64 bytes
separately; it simulates a shorter time at the same load. Rates are those of the event loop; set-up
and compilation are printed separately. ``--large`` adds 1 ms of full load, and 8,192 hosts.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import replace

import numpy as np
from tests.reference.packet_layout import Message, compiled_functions, lay
from tests.reference.packet_state import HOPS

from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.routes import CandidateRoutes, Routes
from weft.sim.packet import Hardware
from weft.sim.packet.result import PacketResult
from weft.sim.simulate import simulate
from weft.workload.sources import open_loop

FABRIC = "xgft:3;12,12,12;1,12,12,rate=4xQDR"
LARGE_FABRIC = "xgft:3;16,16,32;1,16,16,rate=4xQDR"
RATE_GBPS = 32.0
SIZE_BYTES = 2048
LOAD = 0.6
DURATION_NS, REFERENCE_NS, FULL_NS, LARGE_NS = 200_000.0, 4_000.0, 1_000_000.0, 50_000.0
TARGETS = {"deterministic, 1 lane": 1.5e6, "adaptive, 8 lanes": 0.8e6}
FULL_S, LARGE_GB = 30.0, 8.0


def timed(
    fabric: Fabric, routes: Routes, load: float, duration_ns: float, policy: str
) -> tuple[PacketResult, float, float]:
    """Simulate uniform traffic; return the result, seconds in all, and seconds of the workload."""
    began = time.perf_counter()
    hardware = Hardware()
    wire = SIZE_BYTES / (SIZE_BYTES + hardware.header_bytes)
    workload = open_loop(
        fabric.num_hosts, "uniform", load=load * wire, rate_gbps=RATE_GBPS, size=SIZE_BYTES,
        duration_ns=duration_ns, seed=1,
    )  # fmt: skip
    wrote = time.perf_counter() - began
    result = simulate(
        fabric,
        routes,
        workload,
        hardware=hardware,
        policy=policy,
        max_time_ns=duration_ns,
        level="packet",
    )
    return result, time.perf_counter() - began, wrote


def reference_rate(fabric: Fabric, routes: Routes) -> float:
    """Return the packet-hops per second of the compiled reference implementation."""
    hosts, hardware = fabric.num_hosts, Hardware()
    random = np.random.default_rng(1)
    count = int(LOAD * RATE_GBPS / 8 * REFERENCE_NS / (SIZE_BYTES + hardware.header_bytes) * hosts)
    sources = random.integers(hosts, size=count)
    targets = (sources + 1 + random.integers(hosts - 1, size=count)) % hosts
    release = np.sort(random.random(count) * REFERENCE_NS * 1000).astype(np.int64)
    messages = [
        Message(int(source), int(source), SIZE_BYTES, int(source), int(target))
        for source, target in zip(sources, targets, strict=True)
    ]
    run = compiled_functions()["run_released"]
    state = lay(fabric, routes, hardware, messages, compiled=True, most_packets=4 * count)
    run(state, release[:1], 1)
    state = lay(fabric, routes, hardware, messages, compiled=True, most_packets=4 * count)
    began = time.perf_counter()
    run(state, release, 2**62)
    return float(state.number[HOPS] / (time.perf_counter() - began))


def main() -> None:
    """Print the rates."""
    fabric = build(FABRIC)
    tables, candidates = route(fabric, "dmodk"), route(fabric, "ecmp")
    began = time.perf_counter()
    timed(fabric, tables, LOAD, 1000.0, "deterministic")
    print(f"{'first run, with compilation':34s}{time.perf_counter() - began:8.1f} s")
    plain = reference_rate(fabric, tables)
    print(f"{'flit-by-flit reference, compiled':34s}{plain / 1e6:8.3f} million packet-hops/s")
    cases: tuple[tuple[str, Routes, str], ...] = (
        ("deterministic, 1 lane", tables, "deterministic"),
        ("ecmp, 1 lane", candidates, "ecmp"),
        ("adaptive, 1 lane", candidates, "adaptive"),
        ("adaptive, 8 lanes", on_eight_lanes(candidates), "adaptive"),
    )
    for name, routes, policy in cases:
        result, took, wrote = timed(fabric, routes, LOAD, DURATION_NS, policy)
        rate = result.num_hops / result.run_s
        target = f"  (target {TARGETS[name] / 1e6:g})" if name in TARGETS else ""
        print(
            f"{name:34s}{rate / 1e6:8.3f} million packet-hops/s, {rate / plain:6.0f} x{target}; "
            f"{result.num_hops:,} in {result.run_s:.2f} s of {took:.2f}, {wrote:.2f} for workload"
        )
    if os.environ.get("WEFT_BENCHMARK_LARGE"):
        large(fabric, tables)


def on_eight_lanes(routes: Routes) -> Routes:
    """Assign the candidates to eight lanes cyclically; on a tree no lane has a credit loop."""
    assert isinstance(routes, CandidateRoutes)
    lanes = (np.arange(len(routes.set_edge)) % 8).astype(np.uint8)
    return replace(routes, set_lane=lanes)


def large(fabric: Fabric, tables: Routes) -> None:
    """Print the rates of one millisecond of full load, and of 8,192 hosts."""
    result, took, _ = timed(fabric, tables, 1.0, FULL_NS, "deterministic")
    print(
        f"{'1 ms of full load':34s}{result.run_s:8.1f} s (target {FULL_S:g}), {took:.1f} in total, "
        f"{result.num_hops:,} packet-hops, {result.num_hops / result.run_s / 1e6:.2f} million/s"
    )
    fabric = build(LARGE_FABRIC)
    result, took, _ = timed(fabric, route(fabric, "dmodk"), LOAD, LARGE_NS, "deterministic")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{f'{fabric.num_hosts:,} hosts':34s}{result.num_hops / result.run_s / 1e6:8.3f} million "
        f"packet-hops/s; {took:.1f} s in total; peak memory {used:.2f} GB (target {LARGE_GB:g})"
    )
