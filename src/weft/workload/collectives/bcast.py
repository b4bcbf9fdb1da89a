"""Broadcast: the root's buffer reaches all ranks."""

from __future__ import annotations

import numpy as np

from weft.core.errors import InputError
from weft.core.units import Bytes
from weft.workload.collectives.allgather import doubling_steps, ring_steps
from weft.workload.collectives.blocks import Blocks, rounded_up, tree
from weft.workload.collectives.collective_registry import BUFFER, Group, algorithm, one_block
from weft.workload.collectives.rooted import scatter_steps


def binomial_steps(group: Group) -> None:
    """Send the whole buffer down a binomial tree."""
    for parent, child, _ in tree(group.n):
        group.message(group.from_root(parent), group.from_root(child), group.sizes, BUFFER)


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


@algorithm("bcast", "chain", source="pipelined chain; Open MPI's pipeline")
def chain(group: Group, *, segment: Bytes = 65536) -> None:
    """Pipeline of segments: each rank receives one from the previous rank and sends it to the next.

    Parameters
    ----------
    segment
        Bytes of a segment; the last one may be smaller.
    """
    if segment < 1:
        raise InputError(f"a segment of {segment} bytes is not possible; expected 1 or more")
    count = max(1, -(-group.sizes // segment))
    group.expect(count * (group.n - 1))
    sizes = np.full(count, segment, dtype=np.int64)
    sizes[-1] = group.sizes - (count - 1) * segment
    group.cut(sizes)
    behind = group.behind_root(group.ranks)
    last = behind == group.n - 1
    to = np.where(last, -1, (group.ranks + 1) % group.n)
    source = np.where(behind == 0, -1, (group.ranks - 1) % group.n)
    receivers, senders = group.ranks[behind > 0], group.ranks[~last]
    group.receive(receivers, source[receivers], sizes[0])
    for at in range(count - 1):
        group.exchange(group.ranks, to, sizes[at], source, sizes[at + 1], one_block(at))
    group.send(senders, to[senders], sizes[-1], one_block(count - 1))


@algorithm("bcast", "hardware", source="Quadrics QsNET; Petrini et al. 2001")
def hardware(group: Group) -> None:
    """One message, whose packets the network copies to all ranks."""
    group.cut(np.array([group.sizes]))
    others = np.delete(group.ranks, group.root)
    group.multicast(group.root, others, group.sizes, BUFFER)
    group.receive(others, np.full_like(others, group.root), group.sizes)
