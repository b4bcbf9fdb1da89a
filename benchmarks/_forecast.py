"""Random runs with which `weft.sim.forecast` is calibrated and judged."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import least_squares, nnls

import weft
from weft.core.pool import measured
from weft.sim.forecast import costs, counted, data_of, memory_of, wait_ns
from weft.sim.options import Level, RunSettings
from weft.workload import load_workload
from weft.workload.placement import host_of_rank

#: Fabric -> engines, and routings of the flit level, which end in an exclamation mark.
FABRICS = {
    "xgft:2;16,16;1,16": ("minhop", "dmodk", "ecmp"),
    "xgft:2;16,16;1,4": ("minhop", "updn", "ar_updn", "nca-adaptive!"),
    "xgft:3;12,12,12;1,12,12": ("dmodk", "minhop", "ar_updn"),
    "xgft:2;8,8;1,4": ("dmodk", "ecmp", "nca-random!"),
    "torus:8x8x4": ("dfsssp", "dor!", "adaptive!"),
    "hyperx:6,6,hosts=4": ("dfsssp", "dor!"),
    "dragonfly:p=4,a=8,h=4": ("dfsssp", "valiant"),
}
WORKLOADS = (
    "alltoall", "alltoall-linear", "alltoall-bruck", "allreduce-ring", "allgather-ring",
    "allreduce-recursive-doubling", "bcast-binomial", "ebb", "stencil",
    "pattern:pattern=permutation", "pattern:pattern=uniform,rounds=8", "pattern:pattern=hotspot",
)  # fmt: skip
PLACEMENTS = ("linear", "random:seed=1")
#: Least and most packets, flits or messages over links that a run has.
LEAST_HOPS, MOST_HOPS = 2e5, 1.5e7
#: Seeds of runs for the calibration, and of those that test it.
CALIBRATION, TEST = range(48), range(1000, 1012)
#: Runs with much memory: level, fabric, engine, workload, ranks.
LARGE = tuple(
    (level, "xgft:3;12,12,12;1,12,12", engine, workload, ranks)
    for level in ("static", "flow", "packet", "flit")
    for engine, workload, ranks in (
        ("dmodk", "alltoall:size=512B", 432), ("dmodk", "allreduce-ring:size=64KiB", 864),
        ("minhop", "alltoall-linear:size=64B", 384), ("ecmp", "allgather-ring:size=64B", 1024),
        ("dmodk", "ebb:size=64B,rounds=400", 1728),
    )
)  # fmt: skip

Case = tuple[Level, str, str, str, int | None, str]


@cache
def _routed(spec: str, engine: str) -> tuple[Any, Any]:
    fabric = weft.fabric(spec)
    return fabric, engine[:-1] if engine.endswith("!") else weft.route(fabric, engine)


def drawn(level: Level, seed: int) -> Case | None:
    """Draw a run of a level; None if it does not fit."""
    random = np.random.default_rng([seed, len(level)])
    spec = str(random.choice(list(FABRICS)))
    engine = str(random.choice(FABRICS[spec]))
    size = int(10 ** random.uniform(1.5, 6))
    workload = str(random.choice(WORKLOADS))
    if not workload.startswith("stencil"):
        workload += f"{',' if ':' in workload else ':'}size={size}B"
    ranks = int(2 ** random.integers(5, 11))
    if engine.endswith("!") and level != "flit":
        return None
    return level, spec, engine, workload, ranks, str(random.choice(PLACEMENTS))


def measure(case: Case, most_hops: float = MOST_HOPS) -> dict[str, Any] | None:
    """Run a case, and return what was expected and what was measured; None if it does not fit."""
    level, spec, engine, workload, ranks, placement = case
    fabric, routes = _routed(spec, engine)
    work_of_ranks = load_workload(workload, min(ranks or fabric.num_hosts, fabric.num_hosts))
    one: dict[str, Any] = {"threads": 1} if level == "packet" else {}
    settings = RunSettings.at(level, one)
    hosts = host_of_rank(fabric, work_of_ranks.num_ranks, placement)
    gc.collect()
    before = measured(int)[2]
    counts = counted(settings, level, fabric, routes, work_of_ranks, hosts)
    if not LEAST_HOPS <= counts["hops"] <= most_hops:
        return None

    def run() -> float:
        began = time.process_time()
        weft.simulate(fabric, routes, work_of_ranks, placement, level=level, **one)
        return time.process_time() - began

    cpu_s, wall_s, peak = measured(run)
    return {
        "level": level, "case": list(case), "counts": counts,
        "memory": memory_of(level, counts)[0], "wait_ns": wait_ns(data_of(level, counts)),
        "seconds": min(cpu_s, wall_s), "peak": peak - before,
    }  # fmt: skip


def in_process(*words: object) -> Iterator[dict[str, Any]]:
    """Yield what a process of its own measures; see `main`."""
    command = [sys.executable, "-m", "benchmarks._forecast", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    yield from map(json.loads, done.stdout.splitlines())


def main() -> None:
    """Measure the runs of a level with some seeds, or a run of `LARGE`; print each as JSON."""
    level, *numbers = sys.argv[1:]
    if level == "large":
        case = LARGE[int(numbers[0])]
        measure((case[0], "xgft:2;8,8;1,4", case[2], "alltoall:size=64KiB", 64, "linear"))
        print(json.dumps(measure((*case, "linear"), np.inf)), flush=True)
        return
    for seed in range(int(numbers[0]), int(numbers[1])):
        # A seed that gives no run gives way to others.
        for other in range(seed, seed + 10**6, 10**4):
            case = drawn(level, other)  # type: ignore[arg-type]
            try:
                found = None if case is None else measure(case)
            except weft.WeftError:
                continue
            if found is not None:
                print(json.dumps(found), flush=True)
                break


def fit(level: Level, rows: Sequence[Mapping[str, Any]]) -> tuple[float, dict[str, Any]]:
    """Return the spread of the times of a level, and the costs of what is counted."""
    names = list(costs()[level]["time"])
    parts = np.array(
        [[row["counts"][name] * each for name in names for each in (1, row["wait_ns"])]
         for row in rows]
    ) / 1e9  # fmt: skip
    seconds = np.array([row["seconds"] for row in rows])
    scale = np.median(seconds[:, None] / np.maximum(parts, 1e-12), axis=0).clip(1e-3, 1e4)

    def deviation(shares: Any) -> Any:
        return np.log(parts @ (shares * scale) / seconds)

    starts = [np.full(len(scale), each) for each in (0.5, 0.1, 0.02)]
    starts.append(nnls(parts * scale / seconds[:, None], np.ones(len(seconds)))[0] + 1e-3)
    found = min(
        (least_squares(deviation, start, bounds=(0, np.inf), loss="soft_l1", f_scale=0.3)
         for start in starts),
        key=lambda each: each.cost,
    )  # fmt: skip
    each = [float(f"{value:.3g}") if value > 1e-3 else 0.0 for value in found.x * scale]
    spread = float(np.exp(np.quantile(np.abs(deviation(found.x)), 0.9)))
    table = dict(zip(names, zip(each[::2], each[1::2], strict=True), strict=True))
    return round(max(spread, 1.2), 2), table


if __name__ == "__main__":
    main()
