"""HyperX and flattened butterflies: grids whose lines are fully connected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.torus import MOST_DIMENSIONS, bisection_by_load
from weft.fabrics.topology.wiring import cliques, mixed_radix, near_cubic, switches_with_hosts


def _multiplicities(S: tuple[int, ...], K: tuple[int, ...]) -> tuple[int, ...]:
    return K * len(S) if len(K) == 1 else K


def _hyperx_counts(S: tuple[int, ...], K: tuple[int, ...] = (1,), T: int = 1) -> ClosedForm:
    at_least(1, S=S, K=K, T=T)
    need(len(S) <= MOST_DIMENSIONS, f"S can have at most {MOST_DIMENSIONS} dimensions")
    need(
        len(K) in (1, len(S)),
        f"K must have one value, or one per dimension of S, {len(S)}, not {len(K)}",
    )
    switches = prod(S)
    grid = list(zip(S, _multiplicities(S, K), strict=True))
    # All cables between two hyperplanes of a dimension share the flows between them equally.
    load = max(Fraction(2 * switches, size * k) if size > 1 else Fraction(0) for size, k in grid)
    cuts = [switches * size * k // 4 for size, k in grid if size % 2 == 0]
    return ClosedForm(
        hosts=switches * T,
        switches=switches,
        cables=switches * T + sum(switches * (size - 1) // 2 * k for size, k in grid),
        diameter=2 + sum(size > 1 for size in S),
        bisection_cables=bisection_by_load(switches, T, load, min(cuts, default=None)),
        radix=T + sum((size - 1) * k for size, k in grid),
        source="Ahn, Binkert, Davis, McLaren and Schreiber 2009",
    )


def _sized_hyperx(hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield regular HyperX of one to four nearly equal dimensions with full bisection.

    The relative bisection bandwidth of a dimension is S K / 2T (Ahn et al. 2009, section 3.2), so
    that T is at most half of the smallest S, times K.
    """
    for dimensions in range(1, 5):
        for shape in near_cubic(dimensions, radix):
            switches = prod(shape)
            for k in range(1, radix // sum(size - 1 for size in shape) + 1):
                per_switch = min(-(-hosts // switches), min(shape) * k // 2)
                if per_switch:
                    yield {"S": shape, "K": (k,), "T": per_switch}
            if switches >= hosts:
                break


@topology(
    "hyperx",
    positional=("S", "K", "T"),
    examples=(
        "hyperx:4x4",
        "hyperx:S=4x4x2,K=1,1,2,T=3",
        "hyperx:3x3;2;2",
        "hyperx:S=5,T=4",
        "hyperx:S=2x3x1,K=2",
    ),
    closed_form=_hyperx_counts,
    sizings={"hyperx": _sized_hyperx},
    engines=("ugal", "dor"),
)
def hyperx(S: tuple[int, ...], K: tuple[int, ...] = (1,), T: int = 1) -> FabricBuilder:
    """HyperX(L, S, K, T): switches on a grid, each connected to all others of its lines.

    Switch ``s{x}.{y}…`` and its hosts have the coordinates (x, y, …); x varies fastest. Ports 1 to
    T lead to the hosts; they are followed, dimension by dimension, by the S - 1 ports to the other
    switches of the line in the order of their coordinate. This sequence is repeated K times.

    Parameters
    ----------
    S
        Number of switches in each dimension; L is the number of dimensions.
    K
        Number of parallel cables in each dimension, or one number for all dimensions.
    T
        Number of hosts of each switch.

    Raises
    ------
    InputError
        If a value is below 1, or the length of K is neither 1 nor the length of S.
    """
    check_size(_hyperx_counts(S, K, T))
    build, switches = switches_with_hosts(mixed_radix(np.arange(prod(S)), S), T)
    port = T + 1
    # Axis d of this array is dimension d; after it is moved to the end, each row is a line.
    grid = switches.reshape(S, order="F")
    for d, (size, k) in enumerate(zip(S, _multiplicities(S, K), strict=True)):
        lines = np.moveaxis(grid, d, -1).reshape(-1, size)
        cliques(build, lines, first_port=port, cables=k)
        port += (size - 1) * k
    return build


def _butterfly_counts(k: int, n: int, hosts: int | None = None, cables: int = 1) -> ClosedForm:
    at_least(2, k=k, n=n)
    per_switch = k if hosts is None else hosts
    at_least(1, cables=cables, hosts=per_switch)
    need(n <= MOST_DIMENSIONS, f"n must be at most {MOST_DIMENSIONS}, not {n}")
    form = _hyperx_counts((k,) * (n - 1), (cables,), per_switch)
    return replace(form, source="Kim, Dally and Abts 2007")


@topology(
    "flattened-butterfly",
    positional=("k", "n"),
    examples=(
        "flattened-butterfly:k=4,n=3",
        "flattened-butterfly:k=3,n=2",
        "flattened-butterfly:k=2,n=4,hosts=1,cables=2",
    ),
    closed_form=_butterfly_counts,
)
def flattened_butterfly(k: int, n: int, hosts: int | None = None, cables: int = 1) -> FabricBuilder:
    """k-ary n-flat: k^n hosts on k^(n-1) switches in n - 1 dimensions of fully connected lines.

    It is HyperX(n - 1, k, 1, k), with the same names, coordinates and ports.

    Parameters
    ----------
    k
        Number of switches in each dimension.
    n
        Number of dimensions of the grid, plus one.
    hosts
        Number of hosts of each switch, by default k.

    Raises
    ------
    InputError
        If k or n is below 2, or another value is below 1.
    """
    check_size(_butterfly_counts(k, n, hosts, cables))
    return hyperx((k,) * (n - 1), (cables,), k if hosts is None else hosts)
