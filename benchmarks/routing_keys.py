"""Routing keys on one core, beside rustworkx and networkx: colourings, keys, decisions.

- Colouring: regular bipartite multigraphs of 100,000 edges, unions of random permutations, beside
  rustworkx's `graph_bipartite_edge_color`. networkx repeats `hopcroft_karp_matching`, as the method
  ``greedy`` does, on 10,000 edges.
- Keys: a random permutation of all hosts. Separate are the time of recognising the network, of the
  first key on it, and of rustworkx, which colours the flows at the leaf switches and nothing else.
- Decisions: requests to the scheduler for keys of random hosts, in a network of 1,728 hosts with 36
  applications of 48 hosts each; the median of 200, the first of each key included.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import networkx as nx
import numpy as np
import rustworkx as rx

import weft
from benchmarks.link_loads import best_of
from weft.kernels.keys.colouring import colour_edges
from weft.routing.structure.folded_clos import find_folded_clos
from weft.sim.keys import keys
from weft.sim.keys.network import key_network
from weft.sim.keys.scheduler import Done, Place, Request, Scheduler

#: Vertices on each side, and edges of each vertex.
GRAPHS = ((1000, 100), (2500, 40), (400, 250))
SMALL_GRAPH = (100, 100)
SPECS = {"xgft:3;12,12,12;1,12,12": 2e-3, "xgft:3;48,48,48;1,48,48": 0.3}
COLOURING_S = 0.1
DECISIONS_S = {("shift", 36): 50e-6, ("optimum", 36): 1e-3, ("optimum", 1728): 5e-3}
APPLICATIONS, RANKS = 36, 48
KEYS, REPEATS = 20, 10


def random_graph(size: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the edges of a regular multigraph, int32."""
    random = np.random.default_rng(size)
    right = np.stack([random.permutation(size) for _ in range(degree)], axis=1)
    return np.repeat(np.arange(size, dtype=np.int32), degree), right.ravel().astype(np.int32)


def rustworkx_colouring(left: np.ndarray, right: np.ndarray) -> tuple[float, int]:
    """Return seconds and number of colours; the graph is made before."""
    graph = rx.PyGraph(multigraph=True)
    first_right = int(left.max()) + 1
    graph.add_nodes_from(range(first_right + int(right.max()) + 1))
    graph.add_edges_from_no_data(
        list(zip(left.tolist(), (right + first_right).tolist(), strict=True))
    )
    colours = rx.graph_bipartite_edge_color(graph)
    return best_of(3, lambda: rx.graph_bipartite_edge_color(graph)), max(colours.values()) + 1


def networkx_colouring(left: np.ndarray, right: np.ndarray) -> tuple[float, int]:
    """Return seconds and number of colours of repeated maximum-cardinality matching."""
    rest = Counter(zip(left.tolist(), (~right).tolist(), strict=True))
    start = time.perf_counter()
    graph, colours = nx.Graph(rest.keys()), 0
    while rest:
        heads = {head for head in graph if head >= 0}
        for edge in nx.bipartite.hopcroft_karp_matching(graph, heads).items():
            if edge[0] >= 0:
                rest[edge] -= 1
                if not rest[edge]:
                    del rest[edge]
                    graph.remove_edge(*edge)
        colours += 1
    return time.perf_counter() - start, colours


def colourings() -> None:
    for size, degree in GRAPHS:
        ends = random_graph(size, degree)
        colour = colour_edges(*ends, degree, np.uint64(0))
        took = best_of(5, lambda ends=ends, d=degree: colour_edges(*ends, d, np.uint64(0)))
        slow, theirs = rustworkx_colouring(*ends)
        assert colour.max() + 1 == theirs == degree
        print(
            f"colour {len(colour):7,} edges, {degree:3d} colours {1e3 * took:8.1f} ms "
            f"(aim < {1e3 * COLOURING_S:g}); rustworkx {1e3 * slow:6.1f} ms, "
            f"{slow / took:5.1f} : 1",
            flush=True,
        )
    ends, degree = random_graph(*SMALL_GRAPH), SMALL_GRAPH[1]
    took = best_of(5, lambda: colour_edges(*ends, degree, np.uint64(0)))
    slow, theirs = networkx_colouring(*ends)
    print(
        f"colour {len(ends[0]):7,} edges, {degree:3d} colours {1e3 * took:8.1f} ms; networkx "
        f"{1e3 * slow:.1f} ms, {theirs} colours, {slow / took:.0f} : 1"
    )


def seconds(run) -> float:
    """Return the time of a call."""
    return best_of(1, run)


def whole_keys() -> None:
    for spec, aim in SPECS.items():
        fabric = weft.fabric(spec)
        find_folded_clos.cache_clear()
        key_network.cache_clear()
        recognition = seconds(lambda fabric=fabric: key_network(fabric))
        ends = [np.random.default_rng(seed).permutation(fabric.num_hosts) for seed in (1, 2)]
        first = seconds(lambda fabric=fabric, ends=ends: keys(fabric, *ends))
        took = best_of(10, lambda fabric=fabric, ends=ends: keys(fabric, *ends))
        key = keys(fabric, *ends)
        assert key.worst <= 1
        apart = key.colour >= 0
        slow, theirs = rustworkx_colouring(*(leaf[apart, 0] for leaf in key.subtrees))
        assert theirs == key.num_colours
        print(
            f"key for {fabric.num_hosts:7,} hosts {1e3 * took:8.2f} ms (aim < {1e3 * aim:g}), "
            f"first {1e3 * first:.1f} ms, recognition {1e3 * recognition:.1f} ms; rustworkx for "
            f"the leaf switches {1e3 * slow:.1f} ms, {slow / took:.1f} : 1",
            flush=True,
        )


def decisions() -> None:
    fabric = weft.fabric(next(iter(SPECS)))
    hosts = fabric.num_hosts
    for choice in ("shift", "optimum"):
        for criterion in ("max", "variance"):
            random = np.random.default_rng(0)
            state = Scheduler(key_network(fabric), choice=choice, criterion=criterion)
            for number, own in enumerate(random.permutation(hosts).reshape(APPLICATIONS, RANKS)):
                state.handle(
                    Place(0.0, keys(fabric, own, random.permutation(own), name=f"{number}"))
                )
                state.handle(Request(0.0, f"{number}"))
            for flows in (36, hosts):
                names = [f"{flows} {number}" for number in range(KEYS)]
                for name in names:
                    ends = (random.permutation(hosts)[:flows] for _ in range(2))
                    state.handle(Place(0.0, keys(fabric, *ends, name=name)))
                times = []
                for name in names * REPEATS:
                    times.append(
                        seconds(lambda state=state, name=name: state.handle(Request(0.0, name)))
                    )
                    state.handle(Done(0.0, name))
                aim = DECISIONS_S.get((choice, flows))
                print(
                    f"decision, {flows:5,} flows, {choice:7s} by {criterion:8s} "
                    f"{1e6 * float(np.median(times)):8.1f} us"
                    + (f" (aim < {1e6 * aim:g})" if aim else ""),
                    flush=True,
                )


def main() -> None:
    os.sched_setaffinity(0, {0})
    colourings()
    whole_keys()
    decisions()


if __name__ == "__main__":
    main()
