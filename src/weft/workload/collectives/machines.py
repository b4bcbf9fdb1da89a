"""The machines of a group of ranks, for collectives with a step within each machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.workload.collectives.blocks import Ints
from weft.workload.collectives.collective_registry import Group


@dataclass(frozen=True)
class Machines:
    """Leaders of machines, int64 [machines], and groups of the ranks of machines of equal size.

    A leader is rank 0 of the group of its machine; machines with one rank have no group.
    """

    leaders: Ints
    groups: list[Group]


def machines_of(group: Group, root: int = 0) -> Machines:
    """Return the machines of a group; the leader is the lowest rank, or the root."""
    order = np.lexsort((group.ranks != root, group.machine))
    first = np.flatnonzero(np.diff(group.machine[order], prepend=-1))
    members = np.split(order, first[1:])
    sizes = np.array([len(each) for each in members])
    groups = [
        group.part(np.stack([each for each in members if len(each) == size]))
        for size in np.unique(sizes[sizes > 1])
    ]
    return Machines(order[first], groups)
