"""Which contention graphs to measure, and which processes run them: one pair for each edge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from weft.contention.graph_file import read_contention_graph
from weft.contention.recovery import as_text
from weft.contention.shapes import Shape, all_shapes, random_graph, shape, smaller_shapes
from weft.core.errors import InputError
from weft.core.files import read_text


class Graph(NamedTuple):
    """A contention graph to run: its name, and source and destination of each edge."""

    name: str
    sources: list[int]
    destinations: list[int]


class Machine(NamedTuple):
    """A machine: its name, and the ranks of the processes on it."""

    name: str
    ranks: list[int]


def machines_of(names: Sequence[str]) -> list[Machine]:
    """Machines in the order of their first process.

    Parameters
    ----------
    names
        Name of the machine of each rank.
    """
    found: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        found.setdefault(name, []).append(rank)
    return [Machine(name, ranks) for name, ranks in found.items()]


def degrees(graph: Graph) -> Counter[int]:
    """Number of edges that leave or enter each node: of processes that it needs."""
    return Counter([*graph.sources, *graph.destinations])


def bind(graph: Graph, machines: Sequence[Machine], share: bool = False) -> list[tuple[int, int]]:
    """Choose processes for the edges of a graph.

    Parameters
    ----------
    graph
        Node i of it runs on the i-th machine.
    machines
        What there is.
    share
        Let nodes share machines: node i runs on machine i modulo their number.

    Returns
    -------
    list of (int, int)
        Rank of the sending and of the receiving process of each edge, all different.

    Raises
    ------
    InputError
        Naming the graph, when machines or processes do not suffice.
    """
    last = max(degrees(graph))
    if not share and last >= len(machines):
        raise InputError(
            f"graph {graph.name!r} has a node {last} and so needs {last + 1} machines; there are "
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


#: Most graphs of one run; 6 edges have 3,445 shapes, of 7 there would be 22,000.
_MANY_EDGES = 6
#: Edges of a graph whose parts are still listed one by one.
_MOST_PARTS = 12

_EDGE = re.compile(r"(\d+)->(\d+)")
_RANDOM = re.compile(r"(\d+)x(\d+)")


@dataclass(frozen=True)
class GraphOptions:
    """Graphs to measure; one communication alone is always among them, and first."""

    graphs_file: Annotated[
        tuple[Path, ...],
        Parameter(
            name="--graphs", help="A file with one graph per line, 'name: 0->1 0->2'; repeatable."
        ),
    ] = ()
    graph: Annotated[
        tuple[Path, ...],
        Parameter(help="A file with one graph, as weft predict reads them; repeatable."),
    ] = ()
    all: Annotated[
        int,
        Parameter(help="All connected graphs of up to this many edges, but for names of nodes."),
    ] = 0
    max_nodes: Annotated[
        int | None, Parameter(help="Of those, only graphs of up to this many nodes.")
    ] = None
    max_degree: Annotated[
        int | None, Parameter(help="Of those, only with up to this many edges at a node.")
    ] = None
    random: Annotated[
        tuple[str, ...],
        Parameter(help="Random graphs: 60x5 for 60 of 5 edges; repeatable."),
    ] = ()
    random_nodes: Annotated[int, Parameter(help="Nodes that random graphs are drawn from.")] = 6
    seed: Annotated[int, Parameter(help="Seed of the random graphs.")] = 0
    smaller: Annotated[
        bool,
        Parameter(help="Also every graph that may remain as communications of the others end."),
    ] = False

    def graphs(self, size_bytes: int) -> list[Graph]:
        """The graphs, one communication alone first.

        Parameters
        ----------
        size_bytes
            Size that all messages will have.

        Raises
        ------
        InputError
            When a file or option is wrong, or two graphs have the same name.
        """
        given = [graph for path in self.graphs_file for graph in read_graphs(path)]
        given += [read_graph(path, size_bytes) for path in self.graph]
        given += self._random()
        known = {shape(graph.sources, graph.destinations) for graph in given}
        extra: dict[Shape, None] = {}
        if not 0 <= self.all <= _MANY_EDGES:
            raise InputError(f"--all {self.all}: expected 1 to {_MANY_EDGES} edges")
        extra.update(dict.fromkeys(form for form in all_shapes(self.all) if self._fits(form)))
        if self.smaller:
            for graph in given:
                if len(graph.sources) > _MOST_PARTS:
                    raise InputError(
                        f"graph {graph.name!r} has {len(graph.sources)} edges, too many to "
                        f"measure all its parts; expected up to {_MOST_PARTS}"
                    )
                extra.update(dict.fromkeys(smaller_shapes(graph.sources, graph.destinations)))
        if not given and not extra:
            raise InputError("expected some graphs: --graphs, --graph, --all or --random")
        alone = next((graph for graph in given if len(graph.sources) == 1), None)
        if alone is None:
            extra[((0, 1),)] = None
        generated = [
            Graph(as_text(form), [s for s, _ in form], [d for _, d in form])
            for form in sorted(extra, key=lambda form: (len(form), form))
            if form not in known
        ]
        graphs = sorted([*generated, *given], key=lambda graph: len(graph.sources) > 1)
        names = set[str]()
        for graph in graphs:
            if graph.name in names:
                raise InputError(f"two graphs are called {graph.name!r}; expected other names")
            names.add(graph.name)
        return graphs

    def _fits(self, form: Shape) -> bool:
        count = degrees(Graph("", [s for s, _ in form], [d for _, d in form]))
        return (self.max_nodes is None or len(count) <= self.max_nodes) and (
            self.max_degree is None or max(count.values()) <= self.max_degree
        )

    def _random(self) -> Iterable[Graph]:
        for text in self.random:
            match = _RANDOM.fullmatch(text)
            if match is None or min(map(int, match.groups())) < 1:
                raise InputError(f"--random {text}: expected graphs x edges, such as 60x5")
            for number in range(int(match[1])):
                edges = int(match[2])
                # Of its own for each, so that more graphs leave the first ones as they are.
                drawn = random_graph(edges, self.random_nodes, (self.seed, edges, number))
                yield Graph(f"random-{edges}-{number}", *drawn)

    def facts(self) -> dict[str, object]:
        """What the head of a file of measurements says about the random graphs."""
        return {"seed": self.seed, "random_nodes": self.random_nodes} if self.random else {}


def read_graph(path: str | Path, size_bytes: int) -> Graph:
    """Read one contention graph that `weft predict` reads too; its name is the file's.

    Parameters
    ----------
    path
        A text file; see `weft.contention.graph_file`. Nodes are numbered in the order in which
        their names first occur.
    size_bytes
        Size that all messages will have.

    Raises
    ------
    InputError
        When the file cannot be used, or asks for other sizes or for starts that differ, which this
        benchmark does not measure.
    """
    found = read_contention_graph(path)
    sizes, starts = sorted(set(found.size_bytes)), set(found.start_s)
    if len(sizes) > 1 or len(starts) > 1:
        what = "sizes" if len(sizes) > 1 else "starts"
        raise InputError(
            f"has {what} that differ; only graphs of equal sizes that start together are measured",
            file=path,
        )
    if sizes[0] != size_bytes:
        raise InputError(
            f"has messages of {sizes[0]} bytes, not {size_bytes}; give --size {sizes[0]}",
            file=path,
        )
    return Graph(Path(path).stem, *found.nodes())


def read_graphs(path: str | Path) -> list[Graph]:
    """Read a list of contention graphs.

    Parameters
    ----------
    path
        A text file with one graph per line: a name, a colon and edges such as ``0->1``. What
        follows ``#`` is a comment.

    Raises
    ------
    InputError
        With file and line, when a line is not of this form, an edge is a loop, or a name occurs
        twice.
    """
    graphs: dict[str, Graph] = {}
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
                    f"{edge!r} is no edge; expected two node numbers such as 0->1",
                    file=path,
                    line=number,
                )
            if int(match[1]) == int(match[2]):
                raise InputError(f"edge {edge} is a loop", file=path, line=number)
            ends.append((int(match[1]), int(match[2])))
        if name in graphs:
            raise InputError(f"a second graph is called {name!r}", file=path, line=number)
        graphs[name] = Graph(name, [s for s, _ in ends], [d for _, d in ends])
    if not graphs:
        raise InputError("has no graphs", file=path)
    return list(graphs.values())
