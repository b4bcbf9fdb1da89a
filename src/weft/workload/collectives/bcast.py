"""Broadcast: the root's buffer reaches all ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.core.errors import InputError
from weft.core.registry import wrong_name
from weft.core.units import Bytes
from weft.workload.collectives import trees
from weft.workload.collectives.allgather import doubling_steps, ring_steps
from weft.workload.collectives.blocks import Blocks, evenly, rounded_up, tree
from weft.workload.collectives.collective_registry import BUFFER, Carries, Group, algorithm
from weft.workload.collectives.machines import machines_of
from weft.workload.collectives.rooted import scatter_steps
from weft.workload.collectives.trees import segments


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
    sizes = group.cut(segments(group.sizes, segment))
    trees.bcast_steps(group, trees.chain(group.n), sizes)


@algorithm("bcast", "binary", source="Open MPI")
def binary(group: Group, *, segment: Bytes = 0) -> None:
    """Segments pass down a binary tree with odd ranks on one side.

    Parameters
    ----------
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    sizes = group.cut(segments(group.sizes, segment))
    trees.bcast_steps(group, trees.binary(group.n), sizes)


@algorithm("bcast", "binomial-near", source="Open MPI's binomial")
def binomial_near(group: Group, *, segment: Bytes = 0) -> None:
    """Binomial tree in which the nearest ranks come first; ceil(log2 n) rounds of a buffer.

    Parameters
    ----------
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    sizes = group.cut(segments(group.sizes, segment))
    trees.bcast_steps(group, trees.binomial_near(group.n), sizes)


@algorithm("bcast", "knomial", source="Open MPI; MVAPICH2's pipelined broadcast")
def knomial(group: Group, *, radix: int = 4, segment: Bytes = 0) -> None:
    """Tree in which a rank serves radix - 1 others in each of log n rounds to the base radix.

    Parameters
    ----------
    radix
        2 for the binomial tree.
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    sizes = group.cut(segments(group.sizes, segment))
    trees.bcast_steps(group, trees.knomial(group.n, radix), sizes)


@algorithm("bcast", "split-binary", source="Pjesivac-Grbovic et al. 2007; Open MPI")
def split_binary(group: Group, *, segment: Bytes = 0) -> None:
    """Each half of the buffer passes down one side of a binary tree; then the sides exchange them.

    Parameters
    ----------
    segment
        Bytes of a segment of a half; the last one may be smaller. 0 for whole halves.
    """
    n, halves = group.n, evenly(group.sizes, 2)
    count = len(segments(int(halves[0]), segment))
    # Odd ranks behind the root have the first half, even ones the second.
    cuts = np.stack([evenly(int(half), count) for half in halves])
    group.cut(cuts.ravel())
    side = (group.ranks + 1) % 2

    def carries(at: int, child: int) -> Carries:
        def of(rank: int) -> tuple[int]:
            half = child if rank == group.root else int(side[group.behind_root(rank)])
            return (half * count + at,)

        return of

    trees.bcast_steps(group, trees.binary(n), cuts.T[:, side], carries)
    behind = group.ranks[1 : n - (n % 2 == 0)]
    peer = behind + np.where(behind % 2, 1, -1)
    group.exchange(
        group.from_root(behind), group.from_root(peer), halves[side[behind]],
        group.from_root(peer), halves[side[peer]],
        lambda rank: _half(int(side[group.behind_root(rank)]), count),
    )  # fmt: skip
    if n % 2 == 0:
        last = group.from_root(n - 1)
        group.message(group.root, last, int(halves[1]), lambda _: _half(1, count))


#: Broadcasts that send whole buffers, unless they are given segments.
WHOLE: dict[str, Callable[[Group], None]] = {
    "binary": binary,
    "binomial": binomial,
    "binomial-near": binomial_near,
    "chain": lambda group: chain(group, segment=0),
    "knomial": knomial,
    "linear": linear,
}
#: Broadcasts among leaders of machines, and within machines: those without options of their own.
_BETWEEN = {
    "binomial": binomial,
    "scatter-ring": scatter_ring,
    "scatter-doubling": scatter_doubling,
}
_WITHIN = {"binomial": binomial_steps, "linear": linear_steps}


@algorithm("bcast", "two-level", source="MVAPICH2")
def two_level(
    group: Group,
    *,
    between: str = "knomial",
    within: str = "knomial",
    radix: int = 4,
    segment: Bytes = 8192,
) -> None:
    """Broadcast among one leader a machine, then within each machine; the root is a leader.

    Parameters
    ----------
    between
        Algorithm among leaders: knomial, binomial, scatter-ring or scatter-doubling.
    within
        Within a machine: knomial, binomial, or linear (all read the leader's memory at once).
    radix
        Radix of knomial trees.
    segment
        Bytes of a segment of a knomial tree among leaders; 0 for the whole buffer.
    """
    if between not in (*_BETWEEN, "knomial"):
        raise InputError(wrong_name("bcast has no algorithm", between, [*_BETWEEN, "knomial"]))
    if within not in (*_WITHIN, "knomial"):
        raise InputError(wrong_name("within machines there is no", within, [*_WITHIN, "knomial"]))
    machines = machines_of(group, group.root)
    leaders = group.part(machines.leaders, root=int(np.argmax(machines.leaders == group.root)))
    if leaders.n == 1:
        leaders.cut(np.array([group.sizes]))
    elif between == "knomial":
        knomial(leaders, radix=radix, segment=segment)
    else:
        _BETWEEN[between](leaders)
    everything: Carries = lambda _: range(leaders.parts)  # noqa: E731
    for local in machines.groups:
        if within == "knomial":
            whole = np.array([group.sizes])
            trees.bcast_steps(local, trees.knomial(local.n, radix), whole, lambda *_: everything)
        else:
            _WITHIN[within](local, everything)


def _half(which: int, count: int) -> range:
    return range(which * count, (which + 1) * count)


@algorithm("bcast", "hardware", source="Quadrics QsNET; Petrini et al. 2001")
def hardware(group: Group) -> None:
    """One message, whose packets the network copies to all ranks."""
    group.cut(np.array([group.sizes]))
    others = np.delete(group.ranks, group.root)
    group.multicast(group.root, others, group.sizes, BUFFER)
    group.receive(others, np.full_like(others, group.root), group.sizes)
