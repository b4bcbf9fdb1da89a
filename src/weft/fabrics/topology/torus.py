"""Meshes, tori, rings and hypercubes: switches on a grid, connected to their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import numpy as np

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.wiring import (
    connect_copies,
    mixed_radix,
    near_cubic,
    switches_with_hosts,
)

#: Largest number of dimensions; with more, even a grid of size 2 in each one is too large.
MOST_DIMENSIONS = 64


def bisection_by_load(
    switches: int, hosts: int, load: Fraction | int, straight_cut: int | None
) -> int | None:
    """Return the bisection of a fabric if a lower bound by all-to-all load equals a known cut.

    If each ordered pair of the n switches exchanges one flow and no cable between switches carries
    more than `load` flows, a cut with s switches on one side has at least 2 s (n - s) / load such
    cables. Balancing the hosts then costs one host cable per misplaced host. The total is concave
    in s, so the bisection is at least the smaller of its values at s = 0 (half of all host cables)
    and at s = n/2. The value at s = n/2, if smaller, is the bisection if a cut of that size is
    known.

    `switches`: number of switches, n, with equal numbers of hosts. `hosts`: number of hosts of each
    switch, one cable each. `load`: largest number of ordered pairs of switches whose flows cross
    one cable in either direction. `straight_cut`: number of cables of a known cut with half the
    switches on each side, or None.

    Returns the bisection, host cables included; None if the two bounds differ.
    """
    bound = Fraction(switches * switches, 2) / load if load else Fraction(switches * hosts)
    if 2 * bound >= switches * hosts:
        return switches * hosts // 2
    return straight_cut if straight_cut == bound else None


def _grid_counts(
    dims: tuple[int, ...], hosts: int = 1, cables: int = 1, *, wrap: bool
) -> ClosedForm:
    at_least(1, dims=dims, hosts=hosts, cables=cables)
    need(len(dims) <= MOST_DIMENSIONS, f"dims must have at most {MOST_DIMENSIONS} values")
    switches = prod(dims)
    # A ring of two is one cable, as a line of two is. Under dimension-order routing the most loaded
    # cable carries floor(k²/4) pairs of positions in a ring of k, and 2 floor(k²/4) in a line of k.
    crossings = [2 if wrap and size > 2 else 1 for size in dims]
    lines = [switches // size for size in dims]
    grid = list(zip(dims, crossings, lines, strict=True))
    load = max(Fraction(2 * (size * size // 4) * count, cut * cables) for size, cut, count in grid)
    cuts = [cut * count * cables for size, cut, count in grid if size % 2 == 0]
    between = sum(count * (size if cut == 2 else size - 1) for size, cut, count in grid)
    return ClosedForm(
        hosts=switches * hosts,
        switches=switches,
        cables=switches * hosts + between * cables,
        diameter=2 + sum(size // 2 if wrap else size - 1 for size in dims),
        bisection_cables=bisection_by_load(switches, hosts, load, min(cuts, default=None)),
        radix=hosts + 2 * len(dims) * cables,
        source="Dally and Towles 2004",
    )


def _grid(dims: tuple[int, ...], hosts: int, cables: int, wrap: bool) -> FabricBuilder:
    check_size(_grid_counts(dims, hosts, cables, wrap=wrap))
    count = prod(dims)
    position = mixed_radix(np.arange(count), dims)
    build, switches = switches_with_hosts(position, hosts, ports=hosts + 2 * len(dims) * cables)
    stride = 1
    for d, size in enumerate(dims):
        last = position[:, d] == size - 1
        tail = np.flatnonzero(~last) if size < 3 or not wrap else np.arange(count)
        head = np.where(last[tail], tail - stride * (size - 1), tail + stride)
        first = hosts + 2 * d * cables + 1
        connect_copies(build, switches[tail], switches[head], first, first + cables, cables=cables)
        stride *= size
    return build


def _sized_tori(hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield tori of three nearly equal dimensions, with at most half of the ports for hosts.

    This is the rule of the InfiniBand torus Gordon (San Diego Supercomputer Center, user guide):
    three cables to each of six neighbours, and 17 hosts, on switches of 36 ports. Every dimension
    has at least three switches; if fewer than 27 switches are needed, there are two dimensions.
    """
    for dimensions in (3, 2):
        cables = radix // (4 * dimensions)
        most = 2 * dimensions * cables
        if not cables or (dimensions == 2 and -(-hosts // most) > 5 * 5):
            continue
        for dims in near_cubic(dimensions, radix, least=3):
            switches = prod(dims)
            yield {"dims": dims, "hosts": min(-(-hosts // switches), most), "cables": cables}
            if switches * most >= hosts:
                break


@topology(
    "torus",
    positional=("dims",),
    examples=(
        "torus:4x4x4",
        "torus:3x3",
        "torus:dims=5x4,hosts=2,cables=2",
        "torus:2x3x4",
        "torus:6x2",
        "torus:8x1",
    ),
    closed_form=partial(_grid_counts, wrap=True),
    sizings={"torus": _sized_tori},
    engines=("torus-2QoS",),
)
def torus(dims: tuple[int, ...], hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Torus: switches on a grid whose lines are rings in every dimension.

    A ring of two switches has one cable (or `cables`), not two; a dimension of size 1 has none.
    Switch ``s{x}.{y}…`` and its hosts have the coordinates (x, y, …); x varies fastest. Ports 1 to
    `hosts` lead to the hosts; they are followed, dimension by dimension, by `cables` ports to the
    next switch and `cables` ports to the previous one, so that a port number has the same dimension
    and direction on every switch, as OpenSM's `dor` requires.

    Parameters
    ----------
    dims
        Number of switches in each dimension.

    Raises
    ------
    InputError
        If a value is below 1.
    """
    return _grid(dims, hosts, cables, True)


@topology(
    "mesh",
    positional=("dims",),
    examples=("mesh:4x4", "mesh:dims=3x4x2,hosts=2", "mesh:5x3", "mesh:7,cables=3", "mesh:4x1x2"),
    closed_form=partial(_grid_counts, wrap=False),
)
def mesh(dims: tuple[int, ...], hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Mesh: switches on a grid, each connected to its neighbours in every dimension.

    Names, coordinates and ports are those of `torus`; ports that would lead off the grid stay
    empty.

    Parameters
    ----------
    dims
        Number of switches in each dimension.

    Raises
    ------
    InputError
        If a value is below 1.
    """
    return _grid(dims, hosts, cables, False)


def _ring_counts(n: int, hosts: int = 1, cables: int = 1) -> ClosedForm:
    at_least(2, n=n)
    return _grid_counts((n,), hosts, cables, wrap=True)


@topology(
    "ring",
    positional=("n",),
    examples=("ring:8", "ring:n=5,hosts=2", "ring:n=2,cables=2", "ring:n=6,hosts=3,cables=2"),
    closed_form=_ring_counts,
)
def ring(n: int, hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Ring: a torus of one dimension, with the same names, coordinates and ports.

    Parameters
    ----------
    n
        Number of switches; a ring of two is one cable (or `cables`).

    Raises
    ------
    InputError
        If n is below 2 or another value is below 1.
    """
    at_least(2, n=n)
    return _grid((n,), hosts, cables, True)


def _hypercube_counts(n: int, hosts: int = 1, cables: int = 1) -> ClosedForm:
    at_least(1, n=n, hosts=hosts, cables=cables)
    need(n <= MOST_DIMENSIONS, f"n must be at most {MOST_DIMENSIONS}, not {n}")
    return replace(
        _grid_counts((2,) * n, hosts, cables, wrap=False),
        radix=hosts + n * cables,
        source="Saad and Schultz 1988; Leighton 1992 (bisection)",
    )


@topology(
    "hypercube",
    positional=("n",),
    examples=("hypercube:4", "hypercube:n=3,hosts=2,cables=2", "hypercube:n=1,hosts=3"),
    closed_form=_hypercube_counts,
)
def hypercube(n: int, hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Hypercube: 2^n switches, connected if their binary numbers differ in one bit.

    The name of a switch is ``s`` and its number in binary; its coordinates are the bits, lowest
    first. Ports 1 to `hosts` lead to the hosts, followed by `cables` ports per bit, lowest first.

    Parameters
    ----------
    n
        Number of dimensions.

    Raises
    ------
    InputError
        If a value is below 1.
    """
    check_size(_hypercube_counts(n, hosts, cables))
    position = mixed_radix(np.arange(2**n), (2,) * n)
    names = [f"{i:0{n}b}" for i in range(2**n)]
    build, switches = switches_with_hosts(position, hosts, ports=hosts + n * cables, names=names)
    for d in range(n):
        low = np.flatnonzero(position[:, d] == 0)
        port = hosts + d * cables + 1
        connect_copies(build, switches[low], switches[low + (1 << d)], port, port, cables=cables)
    return build
