"""Flows per second of the flow level and of SimGrid, and the effect of a tolerance.

weft and SimGrid simulate the same flows, 1 to 100 MB between random hosts and all starting
together, over the same routes of the same fabric, with max–min sharing. SimGrid's time excludes the
construction of its platform. weft's time is that of `weft.simulate`; the time of its event loop is
printed separately.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time

import numpy as np
from numpy.typing import NDArray

from benchmarks._simgrid import Flows, random_flows, run_simgrid
from weft.fabrics.topology import build
from weft.routing import route
from weft.sim.common.progress import IncompleteRun
from weft.sim.flow.result import FlowResult
from weft.sim.simulate import simulate

FABRIC = "xgft:2;32,32;1,32"
TOLERANCE = 0.01
#: (flows, tolerance, smallest accepted ratio to SimGrid's flows per second).
TARGETS = ((1000, 0.0, 20), (10_000, 0.0, 15), (10_000, TOLERANCE, 200))
LARGE = 100_000
LARGE_TARGETS_S = {0.0: 20 * 60, TOLERANCE: 60}
MILLION = 1_000_000
MILLION_GB = 4
SPREAD_NS = 4e9


def timed(flows: Flows, tolerance: float) -> tuple[FlowResult, float]:
    """Simulate flows; return the result and the seconds that it took."""
    workload, placement = flows.workload(), flows.placement()
    started = time.perf_counter()
    result = simulate(
        flows.fabric, flows.routes, workload, placement, latency_ns=0, tolerance=tolerance
    )
    return result, time.perf_counter() - started


def error(flows: Flows, ended_ns: NDArray[np.float64], exact_ns: NDArray[np.float64]) -> float:
    """Return the largest error of completion times, relative to the duration of the flow."""
    return float((np.abs(ended_ns - exact_ns) / (exact_ns - flows.start_ns)).max())


def against_simgrid() -> None:
    fabric = build(FABRIC)
    routes = route(fabric, "dmodk")
    timed(random_flows(fabric, routes, 100), 0.0)
    for count in sorted({count for count, _, _ in TARGETS}):
        flows = random_flows(fabric, routes, count)
        theirs = run_simgrid(flows)
        print(
            f"SimGrid  {count:6d} flows             {theirs.run_s:9.3f} s "
            f"{count / theirs.run_s:9.0f} flows/s  (platform built in {theirs.build_s:.2f} s)"
        )
        for size, tolerance, target in TARGETS:
            if size != count:
                continue
            # The first run also loads code and data into the caches.
            result, took = min(
                (timed(flows, tolerance) for _ in range(3)), key=lambda pair: pair[1]
            )
            ours = result.arrived_ns
            print(
                f"weft     {count:6d} flows, tolerance {tolerance:4.0%} {took:9.4f} s "
                f"{count / took:9.0f} flows/s  {theirs.run_s / took:6.0f} times SimGrid "
                f"(target {target}); loop alone {result.run_s:.4f} s, "
                f"{theirs.run_s / result.run_s:.0f} times; largest difference "
                f"{error(flows, ours, theirs.finish_ns):.1e}",
                flush=True,
            )


def large() -> None:
    fabric = build(FABRIC)
    flows = random_flows(fabric, route(fabric, "dmodk"), LARGE)
    ended = {}
    for tolerance, target in sorted(LARGE_TARGETS_S.items(), reverse=True):
        result, took = timed(flows, tolerance)
        ended[tolerance] = result.arrived_ns
        print(
            f"weft     {LARGE} flows, tolerance {tolerance:4.0%} {took:8.1f} s "
            f"(target {target} s), rates computed {result.num_shares} times",
            flush=True,
        )
    worst = error(flows, ended[TOLERANCE], ended[0.0])
    print(f"         measured error of completion times {worst:.2%} (allowed {TOLERANCE:.0%})")


def million() -> None:
    """Simulate a million flows in two ways, each in a new process to measure its memory."""
    for call in (f"run_million({MILLION})", f"run_crowd({MILLION})"):
        program = f"import benchmarks.flow_level as b; b.{call}"
        subprocess.run([sys.executable, "-c", program], check=True)


def run_million(count: int) -> None:
    """Simulate flows that start within `SPREAD_NS`, about half of full load, without tolerance."""
    fabric = build(FABRIC)
    flows = random_flows(fabric, route(fabric, "dmodk"), count, spread_ns=SPREAD_NS)
    result, took = timed(flows, 0.0)
    print(
        f"weft     {count} flows started within {SPREAD_NS / 1e9:g} s, up to "
        f"{result.most_concurrent} at once, tolerance 0 {took:8.1f} s, peak {_peak_gb():.2f} GB"
    )


def run_crowd(count: int) -> None:
    """Start all flows at once and stop after their rates are computed, to measure memory."""
    fabric = build(FABRIC)
    flows = random_flows(fabric, route(fabric, "dmodk"), count)
    with contextlib.suppress(IncompleteRun):
        simulate(
            flows.fabric, flows.routes, flows.workload(), flows.placement(), latency_ns=0,
            max_time_ns=1.0,
        )  # fmt: skip
    print(f"weft     {count} flows at once: peak {_peak_gb():.2f} GB (target {MILLION_GB} GB)")


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    against_simgrid()
    if os.environ.get("WEFT_BENCHMARK_LARGE"):
        large()
        million()


if __name__ == "__main__":
    main()
