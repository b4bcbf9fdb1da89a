"""Fast-forward of the packet level on a step of training, against the full run.

A step of llama3-8b on 128 GPUs of 16 machines at random places (dp=4, tp=8, pp=4), with buckets of
64 MiB, on two levels of a fat tree without and with oversubscription of the leaf switches. Times
are CPU seconds of `weft.simulate`, and counts are events of the loop. Each full run takes minutes;
``--large`` adds the oversubscribed ones.
"""

from __future__ import annotations

import os
import time

import numpy as np

import weft
from weft.sim.packet.result import PacketResult
from weft.workload.places import Places

FABRICS = {
    "no oversubscription": "xgft:2;16,8;1,16,rate=400",
    "2:1": "xgft:2;16,8;1,8,rate=400",
    "4:1": "xgft:2;16,8;1,4,rate=400",
}
WORKLOAD = "train:model=llama3-8b,dp=4,tp=8,pp=4,global_batch=32,sequence=4096,buckets=16"
GPUS, TARGET = 128, 30


def timed(spec: str, error: float, workload: str = WORKLOAD) -> tuple[PacketResult, float]:
    """Simulate the step of training; return the result and the CPU seconds."""
    fabric = weft.fabric(spec, node="dgx-h100", cabling="leaf")
    hosts = weft.place(fabric, GPUS, "random:seed=1", ranks_per_host=8)
    work = weft.load_workload(workload, GPUS, places=Places.of(fabric, hosts))
    routes = weft.route(fabric, "minhop")
    began = time.process_time()
    result = weft.simulate(
        fabric, routes, work, hosts, level="packet", fast_forward=error, threads=1
    )
    return result, time.process_time() - began


def main() -> None:
    """Print times, counts of events, and their ratios."""
    timed(FABRICS["4:1"], 0.01, "alltoall:size=64KiB")
    count = len(FABRICS) if os.environ.get("WEFT_BENCHMARK_LARGE") else 1
    for name, spec in list(FABRICS.items())[:count]:
        short, short_s = min((timed(spec, 0.01) for _ in range(3)), key=lambda run: run[1])
        full, full_s = timed(spec, 0.0)
        assert short.skipped is not None
        same = np.array_equal(full.arrived_ps, short.arrived_ps) and full.end_ps == short.end_ps
        print(
            f"{name:22s}{full_s:7.1f} s full, {short_s:5.2f} s skipping "
            f"{short.skipped.hops / short.num_hops:.2%} of {short.num_hops:,} packet-hops: "
            f"{full_s / short_s:.0f} x (target {TARGET}), "
            f"{full.num_events / short.num_events:.0f} x fewer events; "
            f"times {'equal' if same else 'DIFFER'}",
            flush=True,
        )
