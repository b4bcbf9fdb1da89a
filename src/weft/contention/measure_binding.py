"""Which processes run a contention graph: one that sends and one that receives for each edge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from weft.core.errors import InputError


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
