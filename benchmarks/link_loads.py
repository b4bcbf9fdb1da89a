"""Link loads of an all-to-all over XGFT(3;12,12,12;1,12,12): flow-hops per second on one core.

weft is compared with a version on networkx, in which the path of a flow is a list of nodes and a
dictionary counts its edges. This version runs on a sample of the flows, because its rate does not
depend on their number.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import networkx as nx
import numpy as np

import weft
from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes
from weft.sim.static.all_to_all import all_to_all_loads

SPEC = "xgft:3;12,12,12;1,12,12"
SAMPLE = 20_000


def best_of(repeats: int, run) -> float:
    """Return the shortest time of several runs, the one least disturbed by other processes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def networkx_loads(fabric: Fabric, routes: TableRoutes, sources, destinations) -> Counter:
    """Count the loads of flows on a networkx graph whose edges have the ports of the tables."""
    graph = nx.DiGraph()
    for tail, port, head, _, _ in fabric.links.tolist():
        graph.add_edge(tail, head, port=port)
    out_by_port = {
        node: {data["port"]: head for _, head, data in graph.out_edges(node, data=True)}
        for node in graph
    }
    loads: Counter = Counter()
    endpoint = fabric.host_endpoint
    for source, destination in zip(sources.tolist(), destinations.tolist(), strict=True):
        goal = fabric.num_switches + destination
        path = [fabric.num_switches + source]
        path.append(next(iter(graph.successors(path[0]))))
        while path[-1] != goal:
            port = int(routes.table[endpoint[destination], path[-1]])
            path.append(out_by_port[path[-1]][port])
        loads.update(nx.utils.pairwise(path))
    return loads


def main() -> None:
    os.sched_setaffinity(0, {0})
    fabric = weft.fabric(SPEC)
    routes = weft.route(fabric, "dmodk")
    hosts = fabric.num_hosts
    source, destination = np.divmod(np.arange(hosts**2), hosts)
    moving = source != destination
    source, destination = source[moving], destination[moving]
    loads = weft.link_loads(fabric, routes, source, destination)
    hops = int(loads.sum())
    print(f"{SPEC}: {hosts} hosts, {len(source):,} flows, {hops:,} flow-hops, one core")

    one_by_one = best_of(5, lambda: weft.link_loads(fabric, routes, source, destination))
    print(f"weft.link_loads      {hops / one_by_one / 1e6:10.1f} million flow-hops/s")
    together = best_of(5, lambda: all_to_all_loads(fabric, routes))
    assert np.array_equal(all_to_all_loads(fabric, routes).per_link, loads)
    print(f"all_to_all_loads     {hops / together / 1e6:10.1f} million flow-hops/s (same loads)")

    random = np.random.default_rng(0)
    some = random.choice(len(source), SAMPLE, replace=False)
    expected = weft.link_loads(fabric, routes, source[some], destination[some])
    start = time.perf_counter()
    counted = networkx_loads(fabric, routes, source[some], destination[some])
    plain = time.perf_counter() - start
    assert sum(counted.values()) == expected.sum()
    rate = int(expected.sum()) / plain
    print(f"networkx             {rate / 1e6:10.3f} million flow-hops/s ({SAMPLE:,} of the flows)")
    print(f"ratio                {hops / one_by_one / rate:10.0f} : 1")


if __name__ == "__main__":
    main()
