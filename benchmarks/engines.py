"""Routing times of weft's engines and of the real OpenSM's on the same fabric.

The fabric is XGFT(3; 12,12,12; 1,12,12) with 1,728 hosts, with ``--large``
XGFT(3; 18,18,18; 1,18,18) with 5,832 hosts, where OpenSM's lash alone takes over twenty minutes.

OpenSM's time is the routing phase of one run, see `benchmarks._opensm`. weft's time is the shortest
of three calls of `weft.route`, without building the fabric. The time to compile weft's kernels,
once per installation, has a column of its own.

Needs opensm and ibsim (Debian: opensm ibsim-utils).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import weft
from benchmarks._opensm import missing_tools, opensm_run
from weft.fabrics import Fabric
from weft.routing import engine as registry

ENGINES = ("minhop", "updn", "ftree", "sssp", "dfsssp", "lash", "nue", "dor")
FABRIC = "xgft:3;12,12,12;1,12,12"
LARGE_FABRIC = "xgft:3;18,18,18;1,18,18"
#: Environment variable that `python -m benchmarks --large` sets.
LARGE = "WEFT_BENCHMARK_LARGE"


def weft_routing_time(fabric: Fabric, engine: str, times: int = 3) -> tuple[float, float]:
    """Return the shortest routing time in s, with compiled kernels, and the cores in use."""
    weft.route(weft.fabric("xgft:3;3,3,3;1,3,3"), engine)
    fabric.graph, fabric.digest  # noqa: B018  OpenSM has these from discovery
    best, cores = float("inf"), 1.0
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        weft.route(fabric, engine)
        took = time.perf_counter() - start
        if took < best:
            best, cores = took, (time.process_time() - used) / took
    return best, cores


def compile_time(engine: str) -> float:
    """Return the additional seconds of the first routing with an empty kernel cache."""
    code = (
        "import time, weft\n"
        "fabric = weft.fabric('xgft:3;3,3,3;1,3,3')\n"
        "start = time.perf_counter()\n"
        f"weft.route(fabric, {engine!r})\n"
        "first = time.perf_counter() - start\n"
        "start = time.perf_counter()\n"
        f"weft.route(fabric, {engine!r})\n"
        "print(first - (time.perf_counter() - start))\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def main() -> None:
    """Time every engine of the list in weft and in OpenSM."""
    if missing := missing_tools():
        print(f"not installed: {missing}")
        return
    spec = LARGE_FABRIC if os.environ.get(LARGE) else FABRIC
    fabric = weft.fabric(spec)
    print(f"{spec}: {fabric.num_hosts} hosts, {fabric.num_switches} switches")
    print("OpenSM routes in one thread; the column cores is for weft")
    print(
        f"{'engine':26s} {'OpenSM s':>9s} {'weft s':>9s} {'ratio':>8s} "
        f"{'compile s':>9s} {'cores':>6s}"
    )
    for name in ENGINES:
        theirs = opensm_run(fabric, name)
        same = registry[name].facts.get("as_opensm", name)
        for ours in dict.fromkeys((name, same)):
            took, cores = weft_routing_time(fabric, ours)
            print(
                f"{ours:26s} {theirs.routing_s:9.3f} {took:9.3f} {theirs.routing_s / took:7.1f}x "
                f"{compile_time(ours):9.1f} {cores:6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
