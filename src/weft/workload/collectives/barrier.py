"""Barrier: nobody leaves before everybody has come. Messages hold no bytes."""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import powers, tree
from weft.workload.collectives.collective_registry import Group, algorithm


def _news(_: int) -> tuple[int]:
    """What every message says: who has come, so far."""
    return (0,)


@algorithm(
    "barrier",
    "dissemination",
    source="Hensgen, Finkel and Manber 1988; MPICH",
    first=True,
)
def dissemination(group: Group) -> None:
    """In round k each rank tells the one 2^k places on; ceil(log2 n) rounds."""
    for step in powers(group.n):
        to, source = (group.places + step) % group.n, (group.places - step) % group.n
        group.exchange(group.places, to, 0, source, 0, _news, add=True)


@algorithm("barrier", "tree", source="binomial gather and broadcast of nothing")
def binomial(group: Group) -> None:
    """Up a binomial tree to rank 0, and down again; 2 ceil(log2 n) rounds."""
    rounds = list(tree(group.n))
    for parent, child, _ in reversed(rounds):
        group.message(child, parent, 0, _news, add=True)
    for parent, child, _ in rounds:
        group.message(parent, child, 0, _news, add=True)


@algorithm("barrier", "linear", source="gather to rank 0 and broadcast, Open MPI's basic linear")
def linear(group: Group) -> None:
    """Everybody tells rank 0, which then tells everybody."""
    others = group.places[1:]
    root = np.zeros_like(others)
    group.send(others, root, 0, _news)
    group.wait(0, [group.begin_receive(0, place, 0, add=True) for place in range(1, group.n)])
    group.wait(0, [group.begin_send(0, place, 0, _news) for place in range(1, group.n)])
    group.receive(others, root, 0, add=True)
