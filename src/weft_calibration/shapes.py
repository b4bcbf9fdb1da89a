"""Shapes of contention graphs: isomorphism classes of graphs and of their edges.

Graphs here are directed, may have parallel edges, and are small: tens of edges. All functions work
on connected components, because communications of different components share no adapter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from weft.core.errors import InputError

#: Edges (source, destination) of a graph in its canonical numbering of nodes, sorted.
Shape = tuple[tuple[int, int], ...]
#: A connected shape with one marked edge: (source, destination, 1 for the marked edge).
EdgeShape = tuple[tuple[int, int, int], ...]

_Labelled = list[tuple[int, int, int]]


def components(sources: Sequence[int], destinations: Sequence[int]) -> list[list[int]]:
    """Return the connected components of a graph as lists of edge numbers.

    Returns edges of each component, ascending; components are ordered by their first edge.
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
    members: dict[int, list[int]] = defaultdict(list)
    for edge, source in enumerate(sources):
        members[root(source)].append(edge)
    return list(members.values())


def shape(sources: Sequence[int], destinations: Sequence[int]) -> Shape:
    """Return the canonical form of a graph; only isomorphic graphs have the same form.

    `sources`, `destinations`: nodes of each edge, any integers.
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
    """Return the place of each edge: the shape of its component, with the edge marked.

    Isomorphic edges have the same place.

    `sources`, `destinations`: nodes of each edge, any integers.

    Returns one place per edge, in the order of `sources`.
    """
    result: list[EdgeShape] = [()] * len(sources)
    for component in components(sources, destinations):
        known: dict[tuple[int, int], EdgeShape] = {}
        for edge in component:
            ends = sources[edge], destinations[edge]
            if ends not in known:  # parallel edges have the same place
                known[ends] = _canonical(
                    [(sources[e], destinations[e], int(e == edge)) for e in component]
                )
            result[edge] = known[ends]
    return result


def all_shapes(max_edges: int) -> Iterator[Shape]:
    """Yield all connected graphs of 1 to `max_edges` edges, each once up to isomorphism.

    Parallel edges and pairs of opposite edges occur; loops and isolated nodes do not. Shapes are
    ordered by number of edges, then ascending. There are 1, 5, 18, 91, 468 and 2,862 shapes of 1,
    2, ..., 6 edges.
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
    """Return the connected shapes that may remain when some communications of a graph have ended.

    Returns the components of the graph and of all its subgraphs, each shape once, by decreasing
    number of edges. A graph of n edges has up to 2**n subgraphs.
    """
    result: dict[Shape, None] = {}
    waiting = [list(zip(sources, destinations, strict=True))]
    while waiting:
        edges = waiting.pop()
        for component in components(*zip(*edges, strict=True)):
            ends = [edges[edge] for edge in component]
            component_shape = shape(*zip(*ends, strict=True))
            if component_shape in result:
                continue
            result[component_shape] = None
            if len(component_shape) > 1:
                waiting += [ends[:edge] + ends[edge + 1 :] for edge in range(len(ends))]
    return sorted(result, key=lambda component_shape: (-len(component_shape), component_shape))


def random_graph(edges: int, nodes: int, seed: int | Sequence[int]) -> tuple[list[int], list[int]]:
    """Return sources and destinations of a random directed graph with uniformly drawn edges.

    Edges are drawn independently, so parallel edges occur. Nodes are numbered in the order of first
    occurrence; nodes without an edge are left out.

    `edges`: number of edges, at least 1. `nodes`: number of nodes to draw from, at least 2. `seed`:
    seed of the draws, one or more numbers.
    """
    if edges < 1 or nodes < 2 or np.min(seed) < 0:
        raise InputError(
            f"a random graph of {edges} edges on {nodes} nodes with seed {seed}: expected at "
            "least 1 edge, 2 nodes and seeds of 0 or more"
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
    """Return the canonical form of a connected labelled graph: the smallest of all tried forms."""
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
    ambiguous = [number for number, members in classes.items() if len(members) > 1]
    if not ambiguous:
        return tuple(sorted((colour[s], colour[d], label) for s, d, label in edges))
    members = classes[min(ambiguous)]
    best: EdgeShape | None = None
    tried: list[int] = []
    for node in members:
        if any(_are_twins(edges, node, other) for other in tried):
            continue  # an automorphism maps this node to one already tried
        tried.append(node)
        # All other nodes get odd numbers, this node the even number just below the rest of its
        # class.
        individualised = [2 * number + 1 for number in colour]
        individualised[node] -= 1
        form = _smallest(edges, individualised)
        if best is None or form < best:
            best = form
    assert best is not None
    return best


def _refined(edges: _Labelled, colour: list[int]) -> list[int]:
    """Split classes of nodes by the classes of their neighbours until no class splits."""
    count = len(set(colour))
    while True:
        leaving: list[list[tuple[int, int]]] = [[] for _ in colour]
        arriving: list[list[tuple[int, int]]] = [[] for _ in colour]
        for source, destination, label in edges:
            leaving[source].append((label, colour[destination]))
            arriving[destination].append((label, colour[source]))
        signatures = [
            (number, sorted(arriving[node]), sorted(leaving[node]))
            for node, number in enumerate(colour)
        ]
        keys = [(number, tuple(into), tuple(out)) for number, into, out in signatures]
        rank = {key: at for at, key in enumerate(sorted(set(keys)))}
        colour = [rank[key] for key in keys]
        if len(rank) == count:
            return colour
        count = len(rank)


def _are_twins(edges: _Labelled, a: int, b: int) -> bool:
    """Return whether exchanging two nodes gives the same graph."""
    swap = {a: b, b: a}
    exchanged = [(swap.get(s, s), swap.get(d, d), label) for s, d, label in edges]
    return sorted(exchanged) == sorted(edges)
