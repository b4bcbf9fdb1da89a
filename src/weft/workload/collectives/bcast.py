"""Broadcast: the root's buffer reaches all ranks."""

from __future__ import annotations

from typing import Literal

import numpy as np

from weft.core.units import Bytes
from weft.workload.collectives.allgather import doubling_steps, ring_steps
from weft.workload.collectives.blocks import Blocks, evenly, rounded_up, tree
from weft.workload.collectives.collective_registry import BUFFER, Carries, Group, algorithm
from weft.workload.collectives.rooted import scatter_steps
from weft.workload.collectives.trees import Shape, bcast_steps, segments, tree_of


def binomial_steps(group: Group, carries: Carries = BUFFER) -> None:
    """Send the whole buffer down a binomial tree."""
    for parent, child, _ in tree(group.n):
        group.message(group.from_root(parent), group.from_root(child), group.sizes, carries)


@algorithm(
    "bcast", "binomial", source="MPICH; Thakur, Rabenseifner and Gropp 2005, 3.2", first=True
)
def binomial(group: Group) -> None:
    """Binomial tree from the root; ceil(log2 n) rounds of the whole buffer."""
    group.cut(np.array([group.sizes]))
    binomial_steps(group)


def _scatter(group: Group) -> Blocks:
    """Scatter the buffer: send one part to each rank, down a binomial tree."""
    parts = rounded_up(group.sizes, group.n)
    group.cut(np.roll(parts, group.root))
    blocks = Blocks(parts)
    scatter_steps(group, blocks)
    return blocks


@algorithm("bcast", "scatter-ring", source="van de Geijn; Thakur et al. 2005, 3.2; MPICH")
def scatter_ring(group: Group) -> None:
    """Binomial scatter of the buffer, then ring allgather."""
    ring_steps(group, _scatter(group))


@algorithm("bcast", "scatter-doubling", source="van de Geijn; Thakur et al. 2005, 3.2; MPICH")
def scatter_doubling(group: Group) -> None:
    """Binomial scatter of the buffer, then allgather by recursive doubling."""
    doubling_steps(group, _scatter(group))


def linear_steps(group: Group, carries: Carries = BUFFER) -> None:
    """Send the whole buffer from the root to all others at once."""
    others = np.delete(group.ranks, group.root)
    sends = [group.begin_send(group.root, at, group.sizes, carries) for at in others.tolist()]
    group.wait(group.root, sends)
    group.receive(others, np.full_like(others, group.root), group.sizes)


@algorithm("bcast", "linear", source="Open MPI's basic linear")
def linear(group: Group) -> None:
    """The root sends the whole buffer to all others at once."""
    group.cut(np.array([group.sizes]))
    linear_steps(group)


@algorithm("bcast", "chain", source="pipelined chain; Open MPI's pipeline")
def chain(group: Group, *, segment: Bytes = 65536) -> None:
    """Pipeline of segments: each rank receives one from the previous rank and sends it to the next.

    Parameters
    ----------
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    down_tree(group, shape="chain", segment=segment)


@algorithm("bcast", "tree", source="Open MPI; MVAPICH2's pipelined broadcast")
def down_tree(
    group: Group, *, shape: Shape = "knomial", radix: int = 4, segment: Bytes = 0
) -> None:
    """Segments pass down a tree from rank to rank.

    Parameters
    ----------
    shape
        chain; binary, with odd ranks on one side; near, a binomial tree with the nearest ranks
        first; or knomial, in which a rank serves radix - 1 others a round, the farthest first.
    radix
        Radix of a knomial tree.
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    sizes = group.cut(segments(group, group.sizes, segment))
    bcast_steps(group, tree_of(shape, group.n, radix), sizes)


@algorithm("bcast", "split-binary", source="Pjesivac-Grbovic et al. 2007; Open MPI")
def split_binary(group: Group) -> None:
    """Each half passes down one side of a binary tree; then pairs of the sides exchange them."""
    n, halves = group.n, group.cut(evenly(group.sizes, 2))
    # Odd ranks behind the root have the first half, even ones the second.
    side = (group.ranks + 1) % 2

    def half(rank: int, child: int = 0) -> tuple[int]:
        return (child if rank == group.root else int(side[group.behind_root(rank)]),)

    bcast_steps(
        group, tree_of("binary", n), halves[np.newaxis, side],
        lambda _, child: lambda rank: half(rank, child), at_once=False,
    )  # fmt: skip
    behind = group.ranks[1 : n - (n % 2 == 0)]
    peer = behind + np.where(behind % 2, 1, -1)
    ranks, to = group.from_root(behind), group.from_root(peer)
    group.exchange(ranks, to, halves[side[behind]], to, halves[side[peer]], half)
    if n % 2 == 0:
        last = group.from_root(n - 1)
        group.message(group.root, last, int(halves[1]), lambda rank: half(rank, 1))


@algorithm("bcast", "two-level", source="MVAPICH2", machines=True)
def two_level(
    group: Group,
    *,
    between: Literal["knomial", "binomial", "scatter-ring", "scatter-doubling"] = "knomial",
    radix: int = 4,
    segment: Bytes = 8192,
) -> None:
    """Broadcast among one leader a machine, then within each machine; the root is a leader.

    Parameters
    ----------
    between
        Algorithm among leaders. With knomial, the machines have such trees, too; else their ranks
        read the leader's memory at once.
    radix
        Radix of knomial trees.
    segment
        Bytes of a segment of a knomial tree among leaders; 0 for the whole buffer.
    """
    leaders, machines = group.machines()
    if leaders.n == 1:
        leaders.cut(np.array([group.sizes]))
    elif between == "knomial":
        down_tree(leaders, radix=radix, segment=segment)
    else:
        steps = {"binomial": binomial, "scatter-ring": scatter_ring}
        steps.get(between, scatter_doubling)(leaders)
    for local in machines:
        if between == "knomial":
            tree, whole = tree_of("knomial", local.n, radix), np.array([group.sizes])
            bcast_steps(local, tree, whole, lambda *_: lambda _: range(leaders.parts))
        else:
            linear_steps(local, lambda _: range(leaders.parts))


@algorithm("bcast", "hardware", source="Quadrics QsNET; Petrini et al. 2001")
def hardware(group: Group) -> None:
    """One message, whose packets the network copies to all ranks."""
    group.cut(np.array([group.sizes]))
    others = np.delete(group.ranks, group.root)
    group.multicast(group.root, others, group.sizes, BUFFER)
    group.receive(others, np.full_like(others, group.root), group.sizes)
