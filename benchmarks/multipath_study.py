"""Time of the complete multipath study, and paths walked per second by weft and by plain Python.

The plain version is written like the paper's simulator: it lists every equal-cost path of every
pair with networkx, and sums loads in a dictionary.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise

import networkx as nx

from weft.sim.static.multipath import HashName, multipath_loads
from weft_papers.multipath.study import SIZE, SIZE_EPOCHS, SIZE_QPS, network, traffic

FLOWS = 2000
TARGET_S = 60
#: Epochs of the plain version; its time is proportional to them, and 20 take long.
PLAIN_EPOCHS = 4

# Runs in a process of its own, to measure the memory of the study only.
STUDY = """
import resource, time
started = time.perf_counter()
from weft_papers.multipath.study import multipath_ecmp
multipath_ecmp(seeds=30, processes=1)
used = resource.getrusage(resource.RUSAGE_SELF)
wall = time.perf_counter() - started
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def plain_walks_per_second() -> float:
    fabric, _, _ = network(SIZE)
    graph = nx.Graph(zip(fabric.link_from.tolist(), fabric.link_to.tolist(), strict=True))
    hosts = fabric.host_nodes.tolist()
    source, destination, _ = traffic(SIZE, FLOWS, 0)
    started = time.perf_counter()
    flows = [(hosts[s], hosts[d]) for s, d in zip(source, destination, strict=True)]
    paths = {flow: list(nx.all_shortest_paths(graph, *flow)) for flow in flows}
    loads: dict[tuple[int, int], float] = {}
    for flow in flows:
        for qp in range(SIZE_QPS):
            for epoch in range(PLAIN_EPOCHS):
                number = hash((flow, qp, epoch)) % len(paths[flow])
                for link in pairwise(paths[flow][number]):
                    loads[link] = loads.get(link, 0.0) + 1 / (SIZE_QPS * PLAIN_EPOCHS)
    return FLOWS * SIZE_QPS * PLAIN_EPOCHS / (time.perf_counter() - started)


def walks_per_second(k: int, name: HashName) -> float:
    fabric, routes, _ = network(k)
    source, destination, seed = traffic(k, FLOWS, 0)
    split = [(SIZE_QPS, SIZE_EPOCHS)]
    repeats = 10
    multipath_loads(fabric, routes, source, destination, split, hash=name, seed=seed)
    started = time.perf_counter()
    for _ in range(repeats):
        multipath_loads(fabric, routes, source, destination, split, hash=name, seed=seed)
    return repeats * FLOWS * SIZE_QPS * SIZE_EPOCHS / (time.perf_counter() - started)


def main() -> None:
    output = subprocess.run(
        [sys.executable, "-c", STUDY], check=True, capture_output=True, text=True
    ).stdout
    wall, cpu, peak = map(float, output.split())
    print(
        f"complete study, 30 seeds, k up to 32, imports included: {wall:.1f} s on one core "
        f"({cpu:.1f} s of CPU), {peak:.0f} MiB; {TARGET_S / wall:.0f} times as fast as the "
        f"target of {TARGET_S} s"
    )
    plain = plain_walks_per_second()
    print(f"paths walked per second, plain Python, k = {SIZE}: {plain:,.0f}")
    for k in (SIZE, 32):
        for name in ("ideal", "md5", "crc"):
            rate = walks_per_second(k, name)
            print(f"  weft, k = {k}, {name}: {rate:,.0f} ({rate / plain:.0f} times)")


if __name__ == "__main__":
    main()
