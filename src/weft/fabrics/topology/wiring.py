"""Numbering and wiring functions shared by several families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.fabrics import FabricBuilder

#: Largest number of levels; more would exceed `MOST` nodes even with two children per node.
MOST_LEVELS = 64


def mixed_radix(numbers: ArrayLike, radix: ArrayLike) -> NDArray[np.int64]:
    """Return the digits of each number, least significant first, int64 [numbers, digits]."""
    rest = np.asarray(numbers, dtype=np.int64)
    bases = np.asarray(radix, dtype=np.int64)
    digits = np.empty((len(rest), len(bases)), dtype=np.int64)
    for i, base in enumerate(bases):
        rest, digits[:, i] = np.divmod(rest, base)
    return digits


def near_cubic(dimensions: int, radix: int, least: int = 2) -> Iterator[tuple[int, ...]]:
    """Yield the grids whose sizes differ by at most one, smallest first."""
    for size in range(least, radix):
        for larger in range(dimensions):
            yield (size + 1,) * larger + (size,) * (dimensions - larger)
    yield (radix,) * dimensions


def from_mixed_radix(digits: NDArray[np.int64], radix: ArrayLike) -> NDArray[np.int64]:
    """Return the numbers with these digits, least significant first; inverts `mixed_radix`."""
    bases = np.asarray(radix, dtype=np.int64)
    weights = np.ones(len(bases), dtype=np.int64)
    np.cumprod(bases[:-1], out=weights[1:])
    numbers: NDArray[np.int64] = digits @ weights
    return numbers


def level_pairs(
    m: tuple[int, ...], w: tuple[int, ...], level: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of connected nodes between a level of an XGFT and the level below.

    Pairs are sorted by child, then parent, so that ports assigned in this order increase with the
    digit by which the parents of one child, and the children of one parent, differ.

    Returns int64 [pairs] each: numbers of the nodes within level - 1 and within `level`.
    """
    parents = w[level - 1]
    below = (*w[: level - 1], *m[level - 1 :])
    digits = np.repeat(mixed_radix(np.arange(prod(below)), below), parents, axis=0)
    child = np.repeat(np.arange(prod(below)), parents)
    digits[:, level - 1] = np.tile(np.arange(parents), prod(below))
    return child, from_mixed_radix(digits, (*w[:level], *m[level:]))


def labels(prefix: str, *columns: ArrayLike) -> list[str]:
    """Return labels: the prefix and one value of each column joined by dots, as in ``s2.0.1``."""
    texts = [map(str, np.asarray(column).tolist()) for column in columns]
    return [prefix + ".".join(parts) for parts in zip(*texts, strict=True)]


def switches_with_hosts(
    coordinates: NDArray[np.int64],
    hosts: int,
    *,
    ports: ArrayLike = 0,
    names: Sequence[str] | None = None,
) -> tuple[FabricBuilder, NDArray[np.int32]]:
    """Begin a fabric with a switch at each of the coordinates, and hosts at its first ports.

    `coordinates` [switches, dimensions]: also those of the hosts. `names`: label of each switch
    without its prefix ``s``; by default its coordinates.

    Returns the builder and the switches, int32 [switches].
    """
    build = FabricBuilder("", dimensions=coordinates.shape[1])
    texts = labels("", *coordinates.T) if names is None else names
    switches = build.switches(["s" + text for text in texts], ports=ports, coordinates=coordinates)
    attach_hosts(build, switches, hosts, names=texts, coordinates=coordinates)
    return build, switches


def attach_hosts(
    build: FabricBuilder,
    switches: NDArray[np.int32],
    hosts: int,
    *,
    names: Sequence[str],
    coordinates: NDArray[np.int64],
) -> None:
    """Attach hosts to every switch, at its ports 1 to `hosts`.

    `switches` [switches]: switches that have no cables so far. `names`: label of each switch
    without its prefix. Hosts get this label, with a number appended if `hosts` is above 1.
    `coordinates` [switches, dimensions]: coordinates of each switch, and of its hosts.
    """
    suffixes = [""] if hosts == 1 else [f".{i}" for i in range(hosts)]
    texts = [f"h{name}{suffix}" for name in names for suffix in suffixes]
    nodes = build.hosts(texts, coordinates=np.repeat(coordinates, hosts, axis=0))
    ports = np.tile(np.arange(1, hosts + 1), len(switches))
    build.connect(np.repeat(switches, hosts), nodes, a_ports=ports)


def connect_copies(
    build: FabricBuilder,
    a: NDArray[np.int32],
    b: NDArray[np.int32],
    a_ports: ArrayLike,
    b_ports: ArrayLike,
    *,
    cables: int,
    strides: tuple[int, int] = (1, 1),
) -> None:
    """Connect pairs of switches by parallel cables; cable c is at port + c * stride at each end."""
    for copy in range(cables):
        build.connect(
            a,
            b,
            a_ports=np.broadcast_to(np.asarray(a_ports) + copy * strides[0], a.shape),
            b_ports=np.broadcast_to(np.asarray(b_ports) + copy * strides[1], b.shape),
        )


def cliques(
    build: FabricBuilder,
    members: NDArray[np.int32],
    *,
    first_port: int,
    cables: int = 1,
) -> None:
    """Connect every pair of switches within each group.

    The port of member i that leads to member j is ``first_port`` plus j, minus 1 if j > i (a
    switch has no port to itself); parallel cables are ``size - 1`` ports apart.

    `members` [groups, size]: the switches of each group in order. `first_port`: port that leads to
    the first other member. `cables`: number of parallel cables of each pair.
    """
    groups, size = members.shape
    if size < 2:
        return
    low, high = np.triu_indices(size, k=1)
    connect_copies(
        build,
        members[:, low].reshape(-1),
        members[:, high].reshape(-1),
        np.tile(first_port + high - 1, groups),
        np.tile(first_port + low, groups),
        cables=cables,
        strides=(size - 1, size - 1),
    )
