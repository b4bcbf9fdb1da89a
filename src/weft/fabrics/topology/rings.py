"""The multi-ring and the recursive diagonal torus."""

from __future__ import annotations

import numpy as np

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.wiring import (
    connect_copies,
    from_mixed_radix,
    mixed_radix,
    switches_with_hosts,
)


def _ring_cables(size: int) -> int:
    return size if size > 2 else size - 1


def _multi_ring_counts(
    n: int, ratio: int, rings: int, hosts: int = 1, cables: int = 1
) -> ClosedForm:
    at_least(2, n=n, ratio=ratio)
    at_least(1, rings=rings, hosts=hosts, cables=cables)
    need(
        rings <= n.bit_length() and ratio ** (rings - 1) * 2 <= n,
        f"the innermost ring must have at least two switches; it has fewer with {rings} rings, {n} "
        f"switches and a ratio of {ratio}",
    )
    need(
        n % ratio ** (rings - 1) == 0,
        f"n must be a multiple of ratio^(rings - 1) = {ratio ** (rings - 1)}, not {n}",
    )
    sizes = [n // ratio**level for level in range(rings)]
    return ClosedForm(
        hosts=n * hosts,
        switches=n,
        cables=n * hosts + sum(map(_ring_cables, sizes)) * cables,
        diameter=n // 2 + 2 if rings == 1 else None,
        radix=hosts + 2 * rings * cables,
        source="Junginger and Lee 2002, every ratio-th switch elected",
    )


@topology(
    "multi-ring",
    positional=("n", "ratio", "rings"),
    examples=(
        "multi-ring:n=16,ratio=4,rings=2",
        "multi-ring:n=27,ratio=3,rings=3,hosts=2,cables=2",
        "multi-ring:n=16,ratio=2,rings=4",
        "multi-ring:9;3;1",
    ),
    closed_form=_multi_ring_counts,
)
def multi_ring(n: int, ratio: int, rings: int, hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Multi-ring: an outer ring of all switches, and inner rings of elected switches.

    The literature does not specify which switches are elected. Here every `ratio`-th switch of a
    ring is also on the next ring inwards. Inner ring j thus has n / ratio^j switches, and each of
    its cables spans ratio^j steps of the outer ring. A ring of two switches is one cable (or
    `cables`).

    Switch ``s{i}`` and its hosts have the coordinate i, its position on the outer ring. Ports 1 to
    `hosts` lead to the hosts; they are followed, from the outer ring inwards, by `cables` ports to
    the next switch of the ring and `cables` ports to the previous one.

    Parameters
    ----------
    n
        Number of switches of the outer ring.
    ratio
        Number of switches of a ring divided by the number of switches of the next ring inwards.
    rings
        Number of rings, including the outer one.

    Raises
    ------
    InputError
        If n is not divisible as required, or a ring would have fewer than two switches.
    """
    check_size(_multi_ring_counts(n, ratio, rings, hosts, cables))
    level = np.zeros(n, dtype=np.int64)
    for inner in range(1, rings):
        level[:: ratio**inner] = inner
    build, switches = switches_with_hosts(
        np.arange(n)[:, None], hosts, ports=hosts + 2 * (level + 1) * cables
    )
    for ring in range(rings):
        members = switches[:: ratio**ring]
        tail = np.arange(_ring_cables(len(members)))
        first = hosts + 2 * ring * cables + 1
        head = (tail + 1) % len(members)
        connect_copies(build, members[tail], members[head], first, first + cables, cables=cables)
    return build


def rank_step(n: int, rank: int) -> int:
    """Return the offset of a link of rank `rank` in each dimension that it changes."""
    return int(n**rank) << rank // 2


def _rdt_counts(
    size: int, n: int = 2, R: int = 2, m: int = 1, hosts: int = 1, cables: int = 1
) -> ClosedForm:
    at_least(1, size=size, R=R, m=m, hosts=hosts, cables=cables)
    at_least(2, n=n)
    need(m <= R, f"m must be at most R = {R}, because a node has each rank once, not {m}")
    need(
        n * n * m >= R,
        f"R must be at most n² m = {n * n * m}, so that every rank has nodes, not {R}",
    )
    need(size.bit_length() > R, f"size {size} is too small for rank R = {R}")
    step = rank_step(n, R)
    need(
        size % step == 0 and size >= 3 * step,
        f"size must be a multiple of {step}, the offset of links of rank {R}, and at least "
        f"{3 * step}, not {size}",
    )
    nodes = size * size
    return ClosedForm(
        hosts=nodes * hosts,
        switches=nodes,
        cables=nodes * hosts + 2 * nodes * (m + 1) * cables,
        radix=hosts + 4 * (m + 1) * cables,
        source="Yang et al. 2001",
    )


#: The four directions of even and of odd ranks; opposite directions are adjacent.
_STRAIGHT = ((1, 0), (-1, 0), (0, 1), (0, -1))
_DIAGONAL = ((1, 1), (-1, -1), (1, -1), (-1, 1))


@topology(
    "rdt",
    aliases=("recursive-diagonal-torus",),
    positional=("size", "n", "R", "m"),
    examples=(
        "rdt:size=24,n=2,R=2,m=1",
        "rdt:size=6,n=2,R=1,m=1,hosts=2,cables=2",
        "rdt:size=24,n=2,R=2,m=2",
        "rdt:9;3;1;1",
        "rdt:size=48,n=2,R=3,m=2",
    ),
    closed_form=_rdt_counts,
)
def rdt(
    size: int, n: int = 2, R: int = 2, m: int = 1, hosts: int = 1, cables: int = 1
) -> FabricBuilder:
    """Recursive diagonal torus RDT(n, R, m): a square torus and m tori of higher rank per node.

    Rank 0 is a torus of size times size nodes. A link of rank r + 1 spans n links of rank r along
    one axis and n along the other. Its offset is thus (±n, ±n) for rank 1, ±2n² in one dimension
    for rank 2, (±2n³, ±2n³) for rank 3, and so on. Every node has links of rank 0 and of m of the
    ranks 1 to R.

    The choice of these ranks is the *torus assignment*. Several are published, under names such as
    RDT(2,4,1)/α, but their tables were not available. Here a node of class c = x mod n +
    n (y mod n) has the m ranks 1 + (c m + i) mod R, i < m. Links connect nodes of the same class,
    because all steps are multiples of n. With this assignment RDT(2,4,1) on 256 times 256 nodes
    has the published diameter, 11.

    Switch ``s{x}.{y}`` and its hosts have the coordinates (x, y). Ports 1 to `hosts` lead to the
    hosts; they are followed, for each rank of the node, by `cables` ports each for +x, -x, +y, -y,
    or for odd ranks (+,+), (-,-), (+,-), (-,+).

    Parameters
    ----------
    size
        Number of nodes per side: a multiple of the offset of links of rank R, and at least three
        times that offset.
    n
        Cardinal number: number of links of one rank that a link of the next rank spans per axis.
    R
        Highest rank.
    m
        Number of ranks above 0 of each node.
    hosts
        Number of hosts of each node.

    Raises
    ------
    InputError
        If the torus of the highest rank does not fit the size, or R does not fit n and m.
    """
    check_size(_rdt_counts(size, n, R, m, hosts, cables))
    position = mixed_radix(np.arange(size * size), (size, size))
    build, switches = switches_with_hosts(position, hosts, ports=hosts + 4 * (m + 1) * cables)
    # Ranks of each class of nodes in ascending order: rank 0, then the m upper ones.
    upper = 1 + (np.arange(n * n)[:, None] * m + np.arange(m)) % R
    by_class = np.hstack((np.zeros((n * n, 1), dtype=np.int64), np.sort(upper, axis=1)))
    ranks = by_class[position[:, 0] % n + n * (position[:, 1] % n)]
    for rank, column in np.ndindex(R + 1, m + 1):
        members = np.flatnonzero(ranks[:, column] == rank)
        for direction in (0, 2):
            step = np.array((_DIAGONAL if rank % 2 else _STRAIGHT)[direction]) * rank_step(n, rank)
            heads = from_mixed_radix((position[members] + step) % size, (size, size))
            first = hosts + (4 * column + direction) * cables + 1
            connect_copies(
                build, switches[members], switches[heads], first, first + cables, cables=cables
            )
    return build
