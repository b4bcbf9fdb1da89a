"""Barrier: no rank leaves before all have entered. Messages have no bytes."""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import powers, tree
from weft.workload.collectives.collective_registry import Group, algorithm, one_block

#: Block of every message: the set of ranks known to have entered.
_ENTERED = one_block(0)


@algorithm(
    "barrier",
    "dissemination",
    source="Hensgen, Finkel and Manber 1988; MPICH",
    first=True,
)
def dissemination(group: Group) -> None:
    """In round k rank r sends to rank r + 2^k; ceil(log2 n) rounds."""
    for step in powers(group.n):
        to, source = (group.ranks + step) % group.n, (group.ranks - step) % group.n
        group.exchange(group.ranks, to, 0, source, 0, _ENTERED, add=True)


@algorithm("barrier", "tree", source="binomial gather and broadcast of nothing")
def binomial(group: Group) -> None:
    """Binomial gather to rank 0, then binomial broadcast; 2 ceil(log2 n) rounds."""
    rounds = list(tree(group.n))
    for parent, child, _ in reversed(rounds):
        group.message(child, parent, 0, _ENTERED, add=True)
    for parent, child, _ in rounds:
        group.message(parent, child, 0, _ENTERED, add=True)


@algorithm("barrier", "linear", source="gather to rank 0 and broadcast, Open MPI's basic linear")
def linear(group: Group) -> None:
    """All ranks send to rank 0, which then sends to all."""
    others = group.ranks[1:]
    root = np.zeros_like(others)
    group.send(others, root, 0, _ENTERED)
    group.wait(0, [group.begin_receive(0, rank, 0, add=True) for rank in range(1, group.n)])
    group.wait(0, [group.begin_send(0, rank, 0, _ENTERED) for rank in range(1, group.n)])
    group.receive(others, root, 0, add=True)


@algorithm("barrier", "hardware", source="Quadrics QsNET; Petrini et al. 2001")
def hardware(group: Group) -> None:
    """Rank 0 sends a packet, copied to all ranks by the network, until all have entered."""
    first, others = group.ranks[:1], group.ranks[1:]
    own = group.begin_receive(first, first, 0, add=True)
    group.multicast(0, group.ranks, 0, _ENTERED, test=True)
    group.receive(others, np.zeros_like(others), 0, add=True)
    group.wait(first, [own])
