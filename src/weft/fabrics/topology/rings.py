"""Rings upon rings: the multi-ring, and the recursive diagonal torus."""

from __future__ import annotations

import numpy as np

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, need, refuse_size, topology
from weft.fabrics.topology.wiring import (
    attach_hosts,
    connect_copies,
    from_mixed_radix,
    labels,
    mixed_radix,
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
        f"rings must leave the innermost one two switches or more: {rings} rings of {n} switches "
        f"with one in {ratio} elected do not",
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
        bisection_cables=None,
        radix=hosts + 2 * rings * cables,
        source="Junginger and Lee 2002, as read here",
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
    """Multi-ring: an outer ring of all switches, and inner rings of ever fewer elected ones.

    The literature leaves open who is elected; here it is every `ratio`-th member of the ring
    around, so that inner ring j has n / ratio^j switches and each of its cables spans ratio^j
    steps of the outer ring. A ring of two is one cable (or `cables`).

    Switch ``s{i}`` and its hosts have the coordinate i, its place on the outer ring. Ports 1 to
    `hosts` lead to the hosts; then come, from the outer ring inwards, `cables` ports to the next
    switch of the ring and as many to the one before.

    Parameters
    ----------
    n
        Switches of the outer ring.
    ratio
        One of how many is elected to the next ring.
    rings
        Rings, the outer one included.
    hosts
        Hosts of each switch.
    cables
        Parallel cables between neighbours.

    Raises
    ------
    InputError
        When a ring would not close evenly or have fewer than two switches.
    """
    refuse_size(_multi_ring_counts(n, ratio, rings, hosts, cables))
    place = np.arange(n)
    level = np.zeros(n, dtype=np.int64)
    for inner in range(1, rings):
        level[:: ratio**inner] = inner
    build = FabricBuilder("", dimensions=1)
    names = labels("", place)
    switches = build.switches(
        ["s" + name for name in names],
        ports=hosts + 2 * (level + 1) * cables,
        coordinates=place[:, None],
    )
    attach_hosts(build, switches, hosts, names=names, coordinates=place[:, None])
    for ring in range(rings):
        members = switches[:: ratio**ring]
        tail = np.arange(_ring_cables(len(members)))
        first = hosts + 2 * ring * cables + 1
        connect_copies(
            build,
            members[tail],
            members[(tail + 1) % len(members)],
            first,
            first + cables,
            cables=cables,
        )
    return build


def rank_step(n: int, rank: int) -> int:
    """How far one link of a torus of rank `rank` goes in each dimension that it changes."""
    return int(n**rank) << rank // 2


def _rdt_counts(
    size: int, n: int = 2, R: int = 2, m: int = 1, hosts: int = 1, cables: int = 1
) -> ClosedForm:
    at_least(1, size=size, R=R, m=m, hosts=hosts, cables=cables)
    at_least(2, n=n)
    need(m <= R, f"m must be at most R = {R}, since a node has each upper torus once, not {m}")
    need(
        n * n * m >= R,
        f"R must be at most n² m = {n * n * m}, or some rank would belong to no node, not {R}",
    )
    need(size.bit_length() > R, f"size {size} is too small for rank R = {R}")
    step = rank_step(n, R)
    need(
        size % step == 0 and size >= 3 * step,
        f"size must be a multiple of {step}, the step of rank {R}, and at least three times that, "
        f"not {size}",
    )
    nodes = size * size
    return ClosedForm(
        hosts=nodes * hosts,
        switches=nodes,
        cables=nodes * hosts + 2 * nodes * (m + 1) * cables,
        diameter=None,
        bisection_cables=None,
        radix=hosts + 4 * (m + 1) * cables,
        source="Yang et al. 2001",
    )


#: The four directions of a rank: straight for even ranks, diagonal for odd ones; opposite
#: directions follow each other.
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

    The torus of rank 0 is the usual one of size times size nodes. A torus of rank r + 1 joins a
    node to the four that lie n links of rank r one way and n links across: rank 1 goes (±n, ±n),
    rank 2 goes 2n² along one dimension, rank 3 goes (±2n³, ±2n³), and so on. Every node has rank
    0 and m of the ranks 1 to R.

    Which ones is the *torus assignment*, of which several are published under names such as
    RDT(2,4,1)/α; the tables are not at hand. Here the nodes whose x modulo n and y modulo n give
    the class c = x + n y have the m ranks 1 + (c m + i) mod R, i < m, which each torus can keep
    since all its steps are multiples of n. RDT(2,4,1) on 256 times 256 nodes then has the
    diameter 11 that its authors publish.

    Switch ``s{x}.{y}`` and its hosts have the coordinates (x, y). Ports 1 to `hosts` lead to the
    hosts; then come, rank by rank of those the node has, `cables` ports each for +x, -x, +y, -y,
    or for odd ranks (+,+), (-,-), (+,-), (-,+).

    Parameters
    ----------
    size
        Nodes along each side, a multiple of the step of rank R and at least three times that.
    n
        Links of one rank that one of the next stands for, the cardinal number.
    R
        Highest rank.
    m
        Upper tori that a node belongs to.
    hosts
        Hosts of each node.
    cables
        Parallel cables between neighbours.

    Raises
    ------
    InputError
        When the highest rank does not close evenly, or the ranks do not fit the nodes.
    """
    refuse_size(_rdt_counts(size, n, R, m, hosts, cables))
    where = mixed_radix(np.arange(size * size), (size, size))
    build = FabricBuilder("", dimensions=2)
    names = labels("", *where.T)
    switches = build.switches(
        ["s" + name for name in names], ports=hosts + 4 * (m + 1) * cables, coordinates=where
    )
    attach_hosts(build, switches, hosts, names=names, coordinates=where)
    # Ranks of each class of nodes in ascending order: rank 0, then the m upper ones.
    upper = 1 + (np.arange(n * n)[:, None] * m + np.arange(m)) % R
    by_class = np.hstack((np.zeros((n * n, 1), dtype=np.int64), np.sort(upper, axis=1)))
    ranks = by_class[where[:, 0] % n + n * (where[:, 1] % n)]
    for rank, place in np.ndindex(R + 1, m + 1):
        mine = np.flatnonzero(ranks[:, place] == rank)
        for way in (0, 2):
            step = np.array((_DIAGONAL if rank % 2 else _STRAIGHT)[way]) * rank_step(n, rank)
            there = from_mixed_radix((where[mine] + step) % size, (size, size))
            first = hosts + (4 * place + way) * cables + 1
            connect_copies(
                build, switches[mine], switches[there], first, first + cables, cables=cables
            )
    return build
