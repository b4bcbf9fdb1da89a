"""Meshes, tori, rings and hypercubes: switches on a grid, each joined to its next neighbours."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, need, refuse_size, topology
from weft.fabrics.topology.wiring import attach_hosts, connect_copies, labels, mixed_radix

#: Most dimensions of a grid: more of two switches or more could not be built anyway.
MOST_DIMENSIONS = 64


def bisection_by_load(
    switches: int, hosts: int, load: Fraction | int, straight_cut: int | None
) -> int | None:
    """Bisection of a fabric whose all-to-all traffic and straightest cut agree.

    When all n switches exchange one flow each way and no cable between switches carries more than
    `load` of them, s switches on one side of a cut leave it at least 2 s (n - s) / load such
    cables. Hosts that this leaves on the wrong side cost one host cable each, and the sum is
    concave in s, so the bisection is at least its smaller end: all hosts unplugged on one side
    (s = 0), or s = n/2. A cut that attains the second proves it.

    Parameters
    ----------
    switches
        n, all alike.
    hosts
        Hosts of each switch, one cable each.
    load
        Most ordered pairs of switches over one cable, both directions together.
    straight_cut
        Cables of a known cut with half the switches on each side, or None.

    Returns
    -------
    int or None
        The bisection, host cables included; None where the two bounds differ.
    """
    bound = Fraction(switches * switches, 2) / load if load else Fraction(switches * hosts)
    if 2 * bound >= switches * hosts:
        return switches * hosts // 2
    return straight_cut if straight_cut == bound else None


def _grid_counts(dims: tuple[int, ...], hosts: int, cables: int, wrap: bool) -> ClosedForm:
    at_least(1, dims=dims, hosts=hosts, cables=cables)
    need(len(dims) <= MOST_DIMENSIONS, f"there can be at most {MOST_DIMENSIONS} dims")
    switches = prod(dims)
    # A ring of two is one cable, as a line of two is. Under dimension-order routing the busiest
    # cable of a ring of k carries floor(k²/4) pairs of positions, that of a line twice as many.
    ways = [2 if wrap and size > 2 else 1 for size in dims]
    lines = [switches // size for size in dims]
    grid = list(zip(dims, ways, lines, strict=True))
    load = max(Fraction(2 * (size * size // 4) * count, way * cables) for size, way, count in grid)
    cuts = [way * count * cables for size, way, count in grid if size % 2 == 0]
    between = sum(count * (size if way == 2 else size - 1) for size, way, count in grid)
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
    refuse_size(_grid_counts(dims, hosts, cables, wrap))
    count = prod(dims)
    where = mixed_radix(np.arange(count), dims)
    build = FabricBuilder("", dimensions=len(dims))
    names = labels("", *where.T)
    switches = build.switches(
        ["s" + name for name in names], ports=hosts + 2 * len(dims) * cables, coordinates=where
    )
    attach_hosts(build, switches, hosts, names=names, coordinates=where)
    stride = 1
    for d, size in enumerate(dims):
        last = where[:, d] == size - 1
        tail = np.flatnonzero(~last) if size < 3 or not wrap else np.arange(count)
        head = np.where(last[tail], tail - stride * (size - 1), tail + stride)
        first = hosts + 2 * d * cables + 1
        connect_copies(build, switches[tail], switches[head], first, first + cables, cables=cables)
        stride *= size
    return build


def _torus_counts(dims: tuple[int, ...], hosts: int = 1, cables: int = 1) -> ClosedForm:
    return _grid_counts(dims, hosts, cables, True)


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
    closed_form=_torus_counts,
)
def torus(dims: tuple[int, ...], hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Torus: switches on a grid whose every line in every dimension is a ring.

    A ring of two is one cable (or `cables`), not two, and a dimension of one has none. Switch
    ``s{x}.{y}…`` and its hosts have the coordinates (x, y, …); x counts fastest. Ports 1 to
    `hosts` lead to the hosts; then come, dimension by dimension, `cables` ports to the next
    switch up and as many to the next one down, so that a port number is one dimension and
    direction on every switch, as OpenSM's `dor` wants it.

    Parameters
    ----------
    dims
        Switches in each dimension.
    hosts
        Hosts of each switch.
    cables
        Parallel cables between neighbours.

    Raises
    ------
    InputError
        When a value is below 1.
    """
    return _grid(dims, hosts, cables, True)


def _mesh_counts(dims: tuple[int, ...], hosts: int = 1, cables: int = 1) -> ClosedForm:
    return _grid_counts(dims, hosts, cables, False)


@topology(
    "mesh",
    positional=("dims",),
    examples=("mesh:4x4", "mesh:dims=3x4x2,hosts=2", "mesh:5x3", "mesh:7,cables=3", "mesh:4x1x2"),
    closed_form=_mesh_counts,
)
def mesh(dims: tuple[int, ...], hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Mesh: switches on a grid, each joined to the next one in every dimension.

    Names, coordinates and ports are those of `torus`; ports that would lead off the grid stay
    empty.

    Parameters
    ----------
    dims
        Switches in each dimension.
    hosts
        Hosts of each switch.
    cables
        Parallel cables between neighbours.

    Raises
    ------
    InputError
        When a value is below 1.
    """
    return _grid(dims, hosts, cables, False)


def _ring_counts(n: int, hosts: int = 1, cables: int = 1) -> ClosedForm:
    at_least(2, n=n)
    return _grid_counts((n,), hosts, cables, True)


@topology(
    "ring",
    positional=("n",),
    examples=("ring:8", "ring:n=5,hosts=2", "ring:n=2,cables=2", "ring:n=6,hosts=3,cables=2"),
    closed_form=_ring_counts,
)
def ring(n: int, hosts: int = 1, cables: int = 1) -> FabricBuilder:
    """Ring: a torus of one dimension, whose names, coordinates and ports it has.

    Parameters
    ----------
    n
        Switches; two of them are joined by one cable (or `cables`).
    hosts
        Hosts of each switch.
    cables
        Parallel cables between neighbours.

    Raises
    ------
    InputError
        When n is below 2 or another value below 1.
    """
    at_least(2, n=n)
    return _grid((n,), hosts, cables, True)


def _hypercube_counts(n: int, hosts: int = 1, cables: int = 1) -> ClosedForm:
    at_least(1, n=n, hosts=hosts, cables=cables)
    need(n <= MOST_DIMENSIONS, f"n must be at most {MOST_DIMENSIONS}, not {n}")
    switches = 2**n
    return ClosedForm(
        hosts=switches * hosts,
        switches=switches,
        cables=switches * hosts + n * 2 ** (n - 1) * cables,
        diameter=n + 2,
        bisection_cables=min(2 ** (n - 1) * cables, 2 ** (n - 1) * hosts),
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
    """Hypercube: 2^n switches, joined where their binary numbers differ in one bit.

    Switch ``s`` plus its number in binary has that number's bits, lowest first, as coordinates.
    Ports 1 to `hosts` lead to the hosts; then come `cables` ports for each bit, lowest first.

    Parameters
    ----------
    n
        Dimensions.
    hosts
        Hosts of each switch.
    cables
        Parallel cables between neighbours.

    Raises
    ------
    InputError
        When a value is below 1.
    """
    refuse_size(_hypercube_counts(n, hosts, cables))
    number = np.arange(2**n)
    where = mixed_radix(number, (2,) * n)
    build = FabricBuilder("", dimensions=n)
    names = [f"{i:0{n}b}" for i in range(2**n)]
    switches = build.switches(
        ["s" + name for name in names], ports=hosts + n * cables, coordinates=where
    )
    attach_hosts(build, switches, hosts, names=names, coordinates=where)
    for d in range(n):
        low = np.flatnonzero(where[:, d] == 0)
        port = hosts + d * cables + 1
        connect_copies(build, switches[low], switches[low + (1 << d)], port, port, cables=cables)
    return build
