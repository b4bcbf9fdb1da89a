"""Numbering and wiring that several families share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.fabrics import FabricBuilder


def mixed_radix(numbers: ArrayLike, radix: ArrayLike) -> NDArray[np.int64]:
    """Digits of each number, least significant first, int64 [numbers, digits]."""
    rest = np.asarray(numbers, dtype=np.int64)
    bases = np.asarray(radix, dtype=np.int64)
    digits = np.empty((len(rest), len(bases)), dtype=np.int64)
    for place, base in enumerate(bases):
        rest, digits[:, place] = np.divmod(rest, base)
    return digits


def from_mixed_radix(digits: NDArray[np.int64], radix: ArrayLike) -> NDArray[np.int64]:
    """Numbers of digits, least significant first, int64; the inverse of `mixed_radix`."""
    bases = np.asarray(radix, dtype=np.int64)
    weights = np.ones(len(bases), dtype=np.int64)
    np.cumprod(bases[:-1], out=weights[1:])
    numbers: NDArray[np.int64] = digits @ weights
    return numbers


def labels(prefix: str, *columns: ArrayLike) -> list[str]:
    """One label per row: the prefix, then the columns joined by dots, as in ``s2.0.1``."""
    texts = [map(str, np.asarray(column).tolist()) for column in columns]
    return [prefix + ".".join(parts) for parts in zip(*texts, strict=True)]


def attach_hosts(
    build: FabricBuilder,
    switches: NDArray[np.int32],
    hosts: int,
    *,
    names: Sequence[str],
    coordinates: NDArray[np.int64] | None = None,
    level: int = -1,
) -> NDArray[np.int32]:
    """Give every switch its own hosts, on its ports 1 to `hosts`.

    Parameters
    ----------
    build
        Gets the hosts and their cables.
    switches
        int32 [switches], none of them with a cable yet.
    hosts
        Hosts of each switch.
    names
        Label of each switch without its prefix; a host adds its number there when it shares it.
    coordinates
        int64 [switches, d], which the hosts take over.
    level
        Tree level of the hosts.

    Returns
    -------
    ndarray
        int32 [switches * hosts], switch by switch.
    """
    if hosts == 1:
        texts = [f"h{name}" for name in names]
    else:
        texts = [f"h{name}.{i}" for name in names for i in range(hosts)]
    where = None if coordinates is None else np.repeat(coordinates, hosts, axis=0)
    nodes = build.hosts(texts, level=level, coordinates=where)
    ports = np.tile(np.arange(1, hosts + 1), len(switches))
    build.connect(np.repeat(switches, hosts), nodes, a_ports=ports)
    return nodes


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
    """Cable pairs of switches in parallel; copy c uses the ports given plus c of its strides."""
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
    """Join the switches of each group all to all.

    The port of member i that leads to member j is ``first_port`` plus j, less one if j > i (a
    switch has no port to itself); parallel cables follow, ``size - 1`` ports apart.

    Parameters
    ----------
    build
        Gets the cables.
    members
        int32 [groups, size]: the switches of each group in order.
    first_port
        Port that leads to the first other member.
    cables
        Parallel cables of each pair.
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
