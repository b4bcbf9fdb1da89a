"""Shapes of contention graphs: which graphs, and which edges of them, are the same but for names.

Graphs here are directed, may have parallel edges, and are small: tens of edges. Everything goes by
connected component, as communications that share no node, directly or through others, share no
adapter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from weft.core.errors import InputError

#: Edges (source, destination) of a graph in its canonical numbering of nodes, sorted.
Shape = tuple[tuple[int, int], ...]
#: A connected shape with one of its edges picked out: (source, destination, 1 for that edge).
EdgeShape = tuple[tuple[int, int, int], ...]

_Labelled = list[tuple[int, int, int]]


def components(sources: Sequence[int], destinations: Sequence[int]) -> list[list[int]]:
    """Connected components of a graph, as lists of edge numbers.

    Parameters
    ----------
    sources, destinations
        Nodes of each edge.

    Returns
    -------
    list of list of int
        Edges of each component in ascending order; components by their first edge.
    """
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for source, destination in zip(sources, destinations, strict=True):
        parent[root(source)] = root(destination)
    found: dict[int, list[int]] = defaultdict(list)
    for edge, source in enumerate(sources):
        found[root(source)].append(edge)
    return list(found.values())


def shape(sources: Sequence[int], destinations: Sequence[int]) -> Shape:
    """Canonical form of a graph: two graphs have the same one just when they are isomorphic.

    Parameters
    ----------
    sources, destinations
        Nodes of each edge, any integers.
    """
    first, edges = 0, []
    for part in sorted(
        (
            _canonical([(sources[edge], destinations[edge], 0) for edge in component])
            for component in components(sources, destinations)
        ),
        key=lambda part: (-len(part), part),
    ):
        edges += [(first + source, first + destination) for source, destination, _ in part]
        first += 1 + max(max(edge[:2]) for edge in part)
    return tuple(edges)


def edge_shapes(sources: Sequence[int], destinations: Sequence[int]) -> list[EdgeShape]:
    """Place of each edge in its component, the same for two edges that an isomorphism maps.

    Parameters
    ----------
    sources, destinations
        Nodes of each edge, any integers.

    Returns
    -------
    list of EdgeShape
        One per edge, in the order given.
    """
    found: list[EdgeShape] = [()] * len(sources)
    for component in components(sources, destinations):
        known: dict[tuple[int, int], EdgeShape] = {}
        for edge in component:
            ends = sources[edge], destinations[edge]
            if ends not in known:  # parallel edges have the same place
                known[ends] = _canonical(
                    [(sources[e], destinations[e], int(e == edge)) for e in component]
                )
            found[edge] = known[ends]
    return found


def all_shapes(max_edges: int) -> Iterator[Shape]:
    """All connected graphs of 1 to `max_edges` edges, each once up to isomorphism.

    Parallel edges and pairs of opposite edges occur; loops and isolated nodes do not. Shapes come
    by number of edges, then in ascending order. There are 1, 5, 18, 91, 468 and 2,862 of 1 to 6
    edges.
    """
    last: set[Shape] = {((0, 1),)}
    for _ in range(max_edges):
        yield from sorted(last)
        last = {wider for smaller in last for wider in _one_edge_more(smaller)}


def _one_edge_more(smaller: Shape) -> Iterator[Shape]:
    nodes = 1 + max(max(edge) for edge in smaller)
    sources, destinations = [edge[0] for edge in smaller], [edge[1] for edge in smaller]
    for a in range(nodes):
        for b in range(nodes + 1):  # the last one is a new node
            if a == b:
                continue
            yield shape([*sources, a], [*destinations, b])
            if b == nodes:
                yield shape([*sources, b], [*destinations, a])


def smaller_shapes(sources: Sequence[int], destinations: Sequence[int]) -> list[Shape]:
    """Connected shapes that may be left over when some communications of a graph have ended.

    Parameters
    ----------
    sources, destinations
        Nodes of each edge.

    Returns
    -------
    list of Shape
        The components of the graph and of all its parts, each shape once, those with most edges
        first. A graph of n edges has up to 2**n parts.
    """
    found: dict[Shape, None] = {}
    waiting = [list(zip(sources, destinations, strict=True))]
    while waiting:
        edges = waiting.pop()
        for component in components(*zip(*edges, strict=True)):
            ends = [edges[edge] for edge in component]
            form = shape(*zip(*ends, strict=True))
            if form in found:
                continue
            found[form] = None
            if len(form) > 1:
                waiting += [ends[:edge] + ends[edge + 1 :] for edge in range(len(ends))]
    return sorted(found, key=lambda form: (-len(form), form))


def random_graph(edges: int, nodes: int, seed: int | Sequence[int]) -> tuple[list[int], list[int]]:
    """Sources and destinations of a random directed graph, any two nodes equally likely per edge.

    Edges are drawn one by one and independently, so that parallel ones occur. Nodes that are met
    are numbered by their first edge, so there may be fewer than `nodes`.

    Parameters
    ----------
    edges
        Number of edges, at least 1.
    nodes
        Number of nodes to draw from, at least 2.
    seed
        Seed of the draws, a number or several.

    Raises
    ------
    InputError
        For no edges, fewer than two nodes or a negative seed.
    """
    if edges < 1 or nodes < 2 or np.min(seed) < 0:
        raise InputError(
            f"a random graph of {edges} edges among {nodes} nodes with seed {seed}: expected at "
            "least 1 edge, 2 nodes and no negative seed"
        )
    random = np.random.default_rng(seed)
    source = random.integers(nodes, size=edges)
    destination = (source + random.integers(1, nodes, size=edges)) % nodes
    names: dict[int, int] = {}
    ends = [
        names.setdefault(node, len(names))
        for pair in zip(source.tolist(), destination.tolist(), strict=True)
        for node in pair
    ]
    return ends[::2], ends[1::2]


def _canonical(edges: _Labelled) -> EdgeShape:
    """Smallest form of a connected labelled graph over the leaves of a refinement search."""
    names: dict[int, int] = {}
    for source, destination, _ in edges:
        names.setdefault(source, len(names))
        names.setdefault(destination, len(names))
    renamed = [(names[source], names[destination], label) for source, destination, label in edges]
    return _smallest(renamed, [0] * len(names))


def _smallest(edges: _Labelled, colour: list[int]) -> EdgeShape:
    colour = _refined(edges, colour)
    classes: dict[int, list[int]] = defaultdict(list)
    for node, number in enumerate(colour):
        classes[number].append(node)
    unsettled = [number for number, members in classes.items() if len(members) > 1]
    if not unsettled:
        return tuple(sorted((colour[s], colour[d], label) for s, d, label in edges))
    members = classes[min(unsettled)]
    best: EdgeShape | None = None
    tried: list[int] = []
    for node in members:
        if any(_are_twins(edges, node, other) for other in tried):
            continue  # an automorphism leads to what was found already
        tried.append(node)
        # Even numbers leave room for the one node that now comes before the rest of its class.
        apart = [2 * number + 1 for number in colour]
        apart[node] -= 1
        form = _smallest(edges, apart)
        if best is None or form < best:
            best = form
    assert best is not None
    return best


def _refined(edges: _Labelled, colour: list[int]) -> list[int]:
    """Split classes of nodes by the classes of their neighbours until nothing more splits."""
    count = len(set(colour))
    while True:
        leaving: list[list[tuple[int, int]]] = [[] for _ in colour]
        arriving: list[list[tuple[int, int]]] = [[] for _ in colour]
        for source, destination, label in edges:
            leaving[source].append((label, colour[destination]))
            arriving[destination].append((label, colour[source]))
        seen = [
            (number, sorted(arriving[node]), sorted(leaving[node]))
            for node, number in enumerate(colour)
        ]
        keys = [(number, tuple(into), tuple(out)) for number, into, out in seen]
        rank = {key: at for at, key in enumerate(sorted(set(keys)))}
        colour = [rank[key] for key in keys]
        if len(rank) == count:
            return colour
        count = len(rank)


def _are_twins(edges: _Labelled, a: int, b: int) -> bool:
    """Whether exchanging two nodes gives the same graph."""
    swap = {a: b, b: a}
    exchanged = [(swap.get(s, s), swap.get(d, d), label) for s, d, label in edges]
    return sorted(exchanged) == sorted(edges)
