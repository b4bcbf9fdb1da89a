"""Contention graphs to measure, and the pair of processes that runs each edge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.sim.flow.contention.graph_file import read_contention_graph
from weft_calibration.recovery import as_text
from weft_calibration.shapes import Shape, all_shapes, random_graph, shape, smaller_shapes


class MeasuredGraph(NamedTuple):
    """A contention graph to run: its name, and the source and destination of each edge."""

    name: str
    sources: list[int]
    destinations: list[int]


class HostRanks(NamedTuple):
    """A machine: its name, and the ranks of the processes on it."""

    name: str
    ranks: list[int]


def machines_of(names: Sequence[str]) -> list[HostRanks]:
    """Return the machines in the order of their first process.

    `names`: name of the machine of each rank.
    """
    by_name: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        by_name.setdefault(name, []).append(rank)
    return [HostRanks(name, ranks) for name, ranks in by_name.items()]


def degrees(graph: MeasuredGraph) -> Counter[int]:
    """Return the number of edges at each node; the node needs as many processes."""
    return Counter([*graph.sources, *graph.destinations])


def bind(
    graph: MeasuredGraph, machines: Sequence[HostRanks], share: bool = False
) -> list[tuple[int, int]]:
    """Choose processes for the edges of a graph.

    `graph`: the graph; node i runs on the i-th machine. `share`: let nodes share machines: node i
    runs on machine i modulo the number of machines.

    Returns the rank of the sending and of the receiving process of each edge; no rank occurs twice.
    """
    last = max(degrees(graph))
    if not share and last >= len(machines):
        raise InputError(
            f"graph {graph.name!r} has a node {last} and needs {last + 1} machines; there are "
            f"{len(machines)}; start the program on more, or let nodes share machines for a trial"
        )
    needed: Counter[int] = Counter()
    for node, processes in degrees(graph).items():
        needed[node % len(machines)] += processes
    for number, processes in sorted(needed.items()):
        name, ranks = machines[number]
        if processes > len(ranks):
            raise InputError(
                f"graph {graph.name!r} needs {processes} processes on machine {number} "
                f"({name}), one for each end of a communication; there are {len(ranks)}"
            )
    free = {number: iter(machines[number].ranks) for number in needed}
    return [
        (next(free[source % len(machines)]), next(free[destination % len(machines)]))
        for source, destination in zip(graph.sources, graph.destinations, strict=True)
    ]


#: Largest value of --all; there are 3,445 shapes of up to 6 edges, and about 22,000 of 7 edges.
_MANY_EDGES = 6
#: Largest number of edges of a graph whose subgraphs are enumerated.
_MOST_PARTS = 12

_EDGE = re.compile(r"(\d+)->(\d+)")
_RANDOM = re.compile(r"(\d{1,9})x(\d{1,9})")


@dataclass(frozen=True)
class GraphOptions:
    """Graphs to measure; the first is always a single communication."""

    graphs_file: Annotated[
        tuple[Path, ...],
        Parameter(
            name="--graphs", help="File with one graph per line, 'name: 0->1 0->2'; repeatable."
        ),
    ] = ()
    graph: Annotated[
        tuple[Path, ...],
        Parameter(help="File with one graph, in the format of weft predict; repeatable."),
    ] = ()
    all: Annotated[
        int,
        Parameter(help="All connected graphs of up to this many edges, up to isomorphism."),
    ] = 0
    max_nodes: Annotated[
        int | None, Parameter(help="Largest number of nodes of the graphs of --all.")
    ] = None
    max_degree: Annotated[
        int | None, Parameter(help="Largest number of edges at a node of the graphs of --all.")
    ] = None
    random: Annotated[
        tuple[str, ...],
        Parameter(help="Random graphs: 60x5 for 60 graphs of 5 edges; repeatable."),
    ] = ()
    random_nodes: Annotated[int, Parameter(help="Number of nodes to draw random graphs from.")] = 6
    seed: Annotated[int, Parameter(help="Seed of the random graphs.")] = 0
    smaller: Annotated[
        bool,
        Parameter(help="Also the connected subgraphs that may remain as communications end."),
    ] = False

    def graphs(self, size_bytes: int) -> list[MeasuredGraph]:
        """Return the graphs; the first is a single communication."""
        listed = [graph for path in self.graphs_file for graph in read_graphs(path)]
        listed += [read_graph(path, size_bytes) for path in self.graph]
        listed += self._random()
        known = {shape(graph.sources, graph.destinations) for graph in listed}
        extra: dict[Shape, None] = {}
        if not 0 <= self.all <= _MANY_EDGES:
            raise InputError(f"--all {self.all}: expected 1 to {_MANY_EDGES} edges")
        extra.update(
            dict.fromkeys(candidate for candidate in all_shapes(self.all) if self._fits(candidate))
        )
        if self.smaller:
            for graph in listed:
                if len(graph.sources) > _MOST_PARTS:
                    raise InputError(
                        f"graph {graph.name!r} has {len(graph.sources)} edges, too many to "
                        f"measure all its subgraphs; expected up to {_MOST_PARTS}"
                    )
                extra.update(dict.fromkeys(smaller_shapes(graph.sources, graph.destinations)))
        if not listed and not extra:
            raise InputError("expected some graphs: --graphs, --graph, --all or --random")
        alone = next((graph for graph in listed if len(graph.sources) == 1), None)
        if alone is None:
            extra[((0, 1),)] = None
        generated = [
            MeasuredGraph(as_text(candidate), [s for s, _ in candidate], [d for _, d in candidate])
            for candidate in sorted(extra, key=lambda candidate: (len(candidate), candidate))
            if candidate not in known
        ]
        graphs = sorted([*generated, *listed], key=lambda graph: len(graph.sources) > 1)
        names = set[str]()
        for graph in graphs:
            if graph.name in names:
                raise InputError(f"two graphs have the name {graph.name!r}; names must be unique")
            names.add(graph.name)
        return graphs

    def _fits(self, candidate: Shape) -> bool:
        count = degrees(MeasuredGraph("", [s for s, _ in candidate], [d for _, d in candidate]))
        return (self.max_nodes is None or len(count) <= self.max_nodes) and (
            self.max_degree is None or max(count.values()) <= self.max_degree
        )

    def _random(self) -> Iterable[MeasuredGraph]:
        for text in self.random:
            match = _RANDOM.fullmatch(text)
            if match is None or min(map(int, match.groups())) < 1:
                raise InputError(f"--random {text}: expected graphs x edges, such as 60x5")
            for number in range(int(match[1])):
                edges = int(match[2])
                # Each graph has its own seed, so that it does not depend on the number of graphs.
                drawn = random_graph(edges, self.random_nodes, (self.seed, edges, number))
                yield MeasuredGraph(f"random-{edges}-{number}", *drawn)

    def facts(self) -> dict[str, object]:
        """Return the metadata of random graphs, for the lines before a table of measurements."""
        return {"seed": self.seed, "random_nodes": self.random_nodes} if self.random else {}


def read_graph(path: str | Path, size_bytes: int) -> MeasuredGraph:
    """Read one contention graph in the format of `weft predict`; it is named after the file.

    `path`: a text file in the format of `weft.sim.flow.contention.graph_file`. Nodes are numbered
    in the order of first occurrence.
    """
    graph = read_contention_graph(path)
    sizes, starts = sorted(set(graph.size_bytes)), set(graph.start_s)
    if len(sizes) > 1 or len(starts) > 1:
        what = "sizes" if len(sizes) > 1 else "starts"
        raise InputError(
            f"{what} must be equal: all communications start together with one size",
            file=path,
        )
    if sizes[0] != size_bytes:
        raise InputError(
            f"messages have {sizes[0]} bytes, not {size_bytes}; use --size {sizes[0]}",
            file=path,
        )
    return MeasuredGraph(Path(path).stem, *graph.nodes())


def read_graphs(path: str | Path) -> list[MeasuredGraph]:
    """Read a list of contention graphs.

    `path`: a text file with one graph per line: a name, a colon and edges such as ``0->1``.
    Comments begin with ``#``.
    """
    graphs: dict[str, MeasuredGraph] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, colon, edges = (part.strip() for part in text.rpartition(":"))
        matches = [_EDGE.fullmatch(edge) for edge in edges.split()]
        if not (colon and name and name.isprintable() and matches):
            raise InputError(
                "expected a name, a colon and edges, such as 'star: 0->1 0->2'",
                file=path,
                line=number,
            )
        ends = []
        for edge, match in zip(edges.split(), matches, strict=True):
            if match is None or len(edge) > 20:
                raise InputError(
                    f"{edge!r} is not an edge such as 0->1",
                    file=path,
                    line=number,
                )
            if int(match[1]) == int(match[2]):
                raise InputError(f"edge {edge} is a loop", file=path, line=number)
            ends.append((int(match[1]), int(match[2])))
        if name in graphs:
            raise InputError(f"a second graph has the name {name!r}", file=path, line=number)
        graphs[name] = MeasuredGraph(name, [s for s, _ in ends], [d for _, d in ends])
    if not graphs:
        raise InputError("the file has no graphs", file=path)
    return list(graphs.values())
