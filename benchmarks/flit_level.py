"""The flit level on one core: flit-hops per second, beside its plain reference implementation.

Uniform traffic at 60 % load on k-ary n-trees, four virtual channels of eight flits. With
``WEFT_BENCHMARK_LARGE=1``, a torus of 100x100x100 routers with one node each for 1,000 cycles, on
all processors, at 10 % of the capacity of 8/100 flits per cycle and node; the output has its time
and the memory of the process.
"""

from __future__ import annotations

import os
import resource
import time

from tests.flit_runs import Run
from tests.reference.flit_twin import PlainFlits

import weft
from weft.core.pool import cores
from weft.sim.flit.router import Router
from weft.sim.flit.traffic import Load

#: Spec, routing (None: tables of dmodk), cycles.
TREES = {
    "kary-n-tree:4;3": 20_000,
    "kary-n-tree:8;3": 20_000,
    "kary-n-tree:8;4": 2_000,
}
ROUTER = Router(lanes=4, buffer=8)
WARMUP, RATE, REPEATS = 500, 0.6, 3
MOST = 2**28
#: Cycles of the reference.
PLAIN = 200


def speed(spec: str, routing: str | None, size: int, cycles: int) -> tuple[float, float]:
    """Return the best of several runs, in flit-hops/s, and its seconds."""
    best, took = 0.0, 0.0
    for _ in range(REPEATS):
        run = Run(
            spec, ROUTER, Load(rate=RATE, size=size, warmup=WARMUP, measure=MOST), routing=routing
        )
        before = int(run.until(WARMUP).count.hops)
        start = time.perf_counter()
        hops = int(run.until(WARMUP + cycles).count.hops) - before
        seconds = time.perf_counter() - start
        if hops / seconds > best:
            best, took = hops / seconds, seconds
    return best, took


def plain(spec: str) -> float:
    """Return the flit-hops/s of the reference."""
    run = Run(spec, ROUTER, Load(rate=RATE, warmup=0, measure=MOST))
    table = weft.route(run.fabric, "dmodk").table
    ones = [1] * run.fabric.num_links
    twin = PlainFlits(run.fabric, table, ROUTER, run.load, ones, ones)
    start = time.perf_counter()
    twin.run(PLAIN)
    return int(twin.count["hops"]) / (time.perf_counter() - start)


def main() -> None:
    """Print speeds by size, and, if asked for, the run of a million routers."""
    for routing in (None, "nca-random"):
        for spec, cycles in TREES.items():
            for size in (1, 8):
                rate, seconds = speed(spec, routing, size, cycles)
                print(
                    f"{spec} {routing or 'tables'}, packets of {size}: {rate / 1e6:.1f} million "
                    f"flit-hops/s, {cycles:,} cycles in {seconds:.2f} s"
                )
    rate = plain("kary-n-tree:4;3")
    print(f"kary-n-tree:4;3 reference: {rate / 1e6:.3f} million flit-hops/s")
    if os.environ.get("WEFT_BENCHMARK_LARGE"):
        start = time.perf_counter()
        run = Run(
            "torus:100x100x100", Router(lanes=4, buffer=4),
            Load(rate=0.008, warmup=500, measure=500), routing="dor",
            threads=cores(),
        )  # fmt: skip
        ready = time.perf_counter()
        hops = int(run.until(1000).count.hops)
        seconds = time.perf_counter() - ready
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"torus:100x100x100: made in {ready - start:.0f} s, 1,000 cycles with {hops:,} "
            f"flit-hops in {seconds:.0f} s, {memory:.1f} GiB"
        )
