"""Jellyfish: a random regular graph of switches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.arguments import whole_number
from weft.core.errors import NotApplicable
from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.sizing import smallest
from weft.fabrics.topology.wiring import labels, switches_with_hosts
from weft.fabrics.topology.xgft import sized_fat_trees, xgft_counts

#: Number of consecutive rounds without a successful exchange after which all ends are re-paired.
MOST_IDLE = 50


def _jellyfish_counts(switches: int, degree: int, hosts: int = 1, seed: int = 0) -> ClosedForm:
    at_least(1, switches=switches, hosts=hosts)
    at_least(0, degree=degree)
    whole_number(seed, "seed")
    need(
        degree < switches,
        f"degree must be below the number of switches, {switches}, not {degree}",
    )
    need(
        switches * degree % 2 == 0,
        f"switches times degree must be even, because a cable has two ends, not "
        f"{switches} times {degree}",
    )
    need(
        degree > 1 or switches == degree + 1,
        f"degree must be at least 2 to connect {switches} switches, not {degree}",
    )
    return ClosedForm(
        hosts=switches * hosts,
        switches=switches,
        cables=switches * hosts + switches * degree // 2,
        radix=hosts + degree,
        source="Singla, Hong, Popa and Godfrey 2012",
    )


def _sized_jellyfish(hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield the Jellyfish with the switches of the fat tree that has full bisection.

    This is the comparison of Singla et al. 2012, section 4.1: hosts are spread evenly over the same
    switches, and all other ports are paired at random, as far as the graph is not complete.
    """
    tree = smallest(xgft_counts, sized_fat_trees(1, hosts, radix), hosts, radix)
    if tree is None:
        return
    switches = tree[1].switches
    per_switch = -(-hosts // switches)
    degree = min(radix - per_switch, switches - 2)
    degree -= switches * degree % 2
    if degree < 2:
        raise NotApplicable(
            f"the fat tree for {hosts:,} hosts has {switches} "
            f"{'switch' if switches == 1 else 'switches'}, too few for a random graph"
        )
    yield {"switches": switches, "degree": degree, "hosts": per_switch}


@topology(
    "jellyfish",
    positional=("switches", "degree", "hosts", "seed"),
    examples=(
        "jellyfish:switches=20,degree=4,hosts=2",
        "jellyfish:switches=20,degree=4,hosts=2,seed=7",
        "jellyfish:switches=50,degree=2",
        "jellyfish:switches=12,degree=9",
        "jellyfish:switches=8,degree=7,hosts=3",
    ),
    closed_form=_jellyfish_counts,
    sizings={"jellyfish": _sized_jellyfish},
    engines=("ugal",),
)
def jellyfish(switches: int, degree: int, hosts: int = 1, seed: int = 0) -> FabricBuilder:
    """Jellyfish: a random regular graph of switches, without parallel cables.

    Ports are paired at random. Then loops and repeated cables exchange an end with random cables
    until none remain, and cables of separate components exchange ends until the graph is connected.
    Every switch has exactly this degree, whereas the paper's procedure may leave a port free.
    Nodes have no coordinates. Ports 1 to `hosts` lead to the hosts, the others to the switches in
    ascending order.

    Parameters
    ----------
    switches
        Number of switches.
    degree
        Number of cables of each switch to other switches.
    seed
        Equal seeds give equal fabrics.

    Raises
    ------
    InputError
        If no connected graph has this degree, or a value is too small.
    """
    check_size(_jellyfish_counts(switches, degree, hosts, seed))
    edges = random_regular_graph(switches, degree, seed)
    build, nodes = switches_with_hosts(
        np.empty((switches, 0), dtype=np.int64), hosts, ports=hosts + degree,
        names=labels("", np.arange(switches)),
    )  # fmt: skip
    # Number the ports of each switch in the order of the switches at the other ends.
    ends = np.concatenate((edges, edges[:, ::-1]))
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    port = np.empty(len(ends), dtype=np.int64)
    port[order] = hosts + 1 + np.arange(len(ends)) % max(degree, 1)
    build.connect(
        nodes[edges[:, 0]],
        nodes[edges[:, 1]],
        a_ports=port[: len(edges)],
        b_ports=port[len(edges) :],
    )
    return build


def random_regular_graph(nodes: int, degree: int, seed: int) -> NDArray[np.int64]:
    """Draw a simple, connected graph of exactly this degree.

    `nodes`, `degree`: number of nodes and degree, as checked by `jellyfish`.

    Returns int64 [edges, 2]: nodes of each edge, the lower one first; edges are sorted.
    """
    random = np.random.default_rng(seed)
    # Exchanging bad pairs stalls in a dense graph, so draw a sparse graph and return its
    # complement, which is connected because its degree is at least half the number of nodes.
    if 2 * degree >= nodes:
        return _complement(nodes, _simple(nodes, nodes - 1 - degree, random))
    return _connected(nodes, _simple(nodes, degree, random), random)


def _keys(nodes: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = edges.min(axis=1) * nodes + edges.max(axis=1)
    return keys


def _simple(nodes: int, degree: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Pair all ends at random, then exchange ends until no pair is a loop or repeats another."""
    ends = np.repeat(np.arange(nodes), degree)
    while True:
        edges = random.permutation(ends).reshape(-1, 2)
        idle = 0
        while idle < MOST_IDLE:
            bad = _bad(nodes, edges)
            if not len(bad):
                return edges
            idle = 0 if _exchange(nodes, edges, bad, random) else idle + 1


def _bad(nodes: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of loops, and of all but the first of equal pairs."""
    keys = _keys(nodes, edges)
    order = np.argsort(keys, kind="stable")
    bad = edges[:, 0] == edges[:, 1]
    bad[order[1:]] |= keys[order[1:]] == keys[order[:-1]]
    return np.flatnonzero(bad)


def _exchange(
    nodes: int, edges: NDArray[np.int64], bad: NDArray[np.int64], random: np.random.Generator
) -> bool:
    """Exchange an end of each bad pair with a good pair, in place, if both new pairs are good.

    Return whether any pair changed.
    """
    partner = random.choice(len(edges), size=len(bad), replace=False)
    free = ~np.isin(partner, bad)
    bad, partner = bad[free], partner[free]
    flip = random.integers(0, 2, size=len(bad))
    first = np.stack((edges[bad, 0], edges[partner, flip]), axis=1)
    second = np.stack((edges[bad, 1], edges[partner, 1 - flip]), axis=1)
    new = np.concatenate((first, second))
    keys = _keys(nodes, new)
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    fine = (new[:, 0] != new[:, 1]) & (counts[inverse] == 1) & ~np.isin(keys, _keys(nodes, edges))
    fine = fine[: len(bad)] & fine[len(bad) :]
    edges[bad[fine]], edges[partner[fine]] = first[fine], second[fine]
    return bool(fine.any())


def _components(nodes: int, edges: NDArray[np.int64]) -> tuple[int, NDArray[np.int32]]:
    graph = coo_array((np.ones(len(edges), dtype=np.int8), edges.T), shape=(nodes, nodes))
    count, label = connected_components(graph, directed=False)
    return count, label


def _connected(
    nodes: int, edges: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Join components by exchanging ends of one edge of each; no edge becomes parallel."""
    count, label = _components(nodes, edges)
    while count > 1:
        component = label[edges[:, 0]]
        here = random.choice(np.flatnonzero(component == 0))
        there = random.choice(np.flatnonzero(component == 1))
        trial = edges.copy()
        trial[here, 1], trial[there, 1] = edges[there, 1], edges[here, 1]
        now, label_now = _components(nodes, trial)
        # If neither cable is on a cycle, the exchange leaves the number of components as it is.
        if now < count:
            edges, count, label = trial, now, label_now
    return _sorted(edges)


def _complement(nodes: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    low, high = np.triu_indices(nodes, k=1)
    everything = np.stack((low, high), axis=1)
    return everything[~np.isin(_keys(nodes, everything), _keys(nodes, edges))]


def _sorted(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    edges = np.sort(edges, axis=1)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]
