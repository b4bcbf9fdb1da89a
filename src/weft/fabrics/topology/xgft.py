"""Extended generalised fat trees with parallel cables, including k-ary n-trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.wiring import MOST_LEVELS, level_pairs, mixed_radix

Ints = tuple[int, ...]


def _check(h: int, m: Ints, w: Ints, p: Ints | None) -> None:
    at_least(1, h=h)
    need(h <= MOST_LEVELS, f"h must be at most {MOST_LEVELS}, not {h}")
    for key, values in (("m", m), ("w", w), ("p", (1,) * h if p is None else p)):
        need(len(values) == h, f"{key} must have one value per level, {h}, not {len(values)}")
        at_least(1, **{key: values})


def halved(per_level: list[int], top_children: int) -> int | None:
    """Return the bisection of an XGFT from the number of cables below each level of switches.

    If the number of top subtrees is even, the bisection is half the number of cables of the level
    with fewest cables, host cables included. Cutting these separates the subtrees into two halves.
    Fewer cables do not suffice: if each host of any two halves sends one flow to the other half,
    spread over all paths up, a cable of level i has a load of at most hosts / cables of level i.
    If the number of top subtrees is odd, the result is None.
    """
    return min(per_level) // 2 if top_children % 2 == 0 else None


def xgft_counts(h: int, m: Ints, w: Ints, p: Ints | None = None) -> ClosedForm:
    """Return the closed form of an XGFT."""
    _check(h, m, w, p)
    copies = p or (1,) * h
    # Öhring's formulas: level i has (m(i+1)…mh)(w1…wi) nodes with mi children each.
    per_level = [prod(m[i:]) * prod(w[: i + 1]) * copies[i] for i in range(h)]
    downs = [m[i] * copies[i] for i in range(h)]
    ups = [*(w[i] * copies[i] for i in range(1, h)), 0]
    farthest = max((level for level in range(1, h + 1) if m[level - 1] > 1), default=0)
    return ClosedForm(
        hosts=prod(m),
        switches=sum(prod(m[i + 1 :]) * prod(w[: i + 1]) for i in range(h)),
        cables=sum(per_level),
        diameter=2 * farthest,
        bisection_cables=halved(per_level, m[-1]),
        radix=max(map(sum, zip(downs, ups, strict=True))),
        source="Öhring et al. 1995 (XGFT); Zahavi 2010 (parallel cables)",
    )


def sized_fat_trees(ratio: int, hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield fat trees whose leaf switches have `ratio` times as many hosts as cables up.

    There are one, two or three levels, as few as possible. Oversubscription is at the leaf switches
    only: a switch of the middle level has as many cables up as down. Parallel cables let the top
    have no more switches than its ports require (Zahavi, "Fat-tree routing and fault tolerance",
    2010: PGFT; Leiserson 1985: the capacity of a level is chosen freely).

    `ratio`: oversubscription: 1 for full bisection. `hosts`, `radix`: number of hosts, and of ports
    of a switch.
    """
    if hosts <= radix:
        yield {"h": 1, "m": (hosts,), "w": (1,)}
        return
    most = radix // (ratio + 1)
    for up in range(1, most + 1):
        leaves = min(-(-hosts // (ratio * up)), radix)
        copies = max(c for c in _divisors(up) if leaves * c <= radix)
        yield {"h": 2, "m": (ratio * up, leaves), "w": (1, up // copies), "p": (1, copies)}
    if hosts <= ratio * most * radix:
        return
    for up in range(1, most + 1):
        for copies in _divisors(up):
            for leaves in range(2, radix // (2 * copies) + 1):
                pods = min(-(-hosts // (ratio * up * leaves)), radix)
                middle = leaves * copies
                above = max(c for c in _divisors(middle) if pods * c <= radix)
                yield {
                    "h": 3,
                    "m": (ratio * up, leaves, pods),
                    "w": (1, up // copies, middle // above),
                    "p": (1, copies, above),
                }


@cache
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(c for c in range(1, number + 1) if number % c == 0)


@topology(
    "xgft",
    aliases=("pgft",),
    positional=("h", "m", "w", "p"),
    examples=(
        "xgft:2;4,4;1,2",
        "xgft:3;2,3,4;1,2,3",
        "xgft:2;4,4;1,2;1,2",
        "xgft:1;8;1",
        "xgft:2;3,4;2,2;2,1",
        "xgft:3;2,2,1;1,2,2",
    ),
    closed_form=xgft_counts,
    sizings={f"fat-tree-{r}:1": partial(sized_fat_trees, r) for r in (1, 2, 3)},
    engines=("dmodk", "ftree", "updn"),
)
def xgft(
    h: int, m: tuple[int, ...], w: tuple[int, ...], p: tuple[int, ...] | None = None
) -> FabricBuilder:
    """XGFT(h; m1..mh; w1..wh): h levels of switches, mi children and wi parents at level i.

    A node of level l has the digits (x1..xl, y(l+1)..yh): x(i) < w(i) is the number of its parallel
    subtree, y(i) < m(i) its number as a child. The node is connected to the nodes of level l + 1
    that agree with it in all digits but digit l + 1. The digits are its coordinates; the first one
    varies fastest, so that the hosts of a leaf switch have consecutive numbers.

    Ports 1 to m(l) p(l) of a switch of level l lead down and the others up. Copy c of the cable to
    child y is port c m(l) + y + 1; copy c of the cable to parent x is up port number
    c w(l+1) + x, as in Zahavi's numbering. A host has w1 p1 ports.

    Parameters
    ----------
    h
        Number of levels of switches.
    m
        Number of children of a node of level i, i = 1..h.
    w
        Number of parents of a node of level i - 1; w1 is the number of leaf switches of a host.
    p
        Number of parallel cables between a node of level i - 1 and a parent (PGFT); by default 1.

    Raises
    ------
    InputError
        If a list does not have one value per level, or a value is below 1.
    """
    check_size(xgft_counts(h, m, w, p))
    return tree(m, w, p or (1,) * h, lambda level, digits: _names(level, len(digits)))


def _names(level: int, count: int) -> list[str]:
    return [f"h{i}" if level == 0 else f"s{level}-{i}" for i in range(count)]


def tree(
    m: Ints,
    w: Ints,
    p: Ints,
    names: Callable[[int, NDArray[np.int64]], list[str]],
    *,
    ports: int = 0,
) -> FabricBuilder:
    """Build a PGFT.

    `m`, `w`, `p`: parameters of `xgft`, already checked. `names`: function that returns the labels
    of the nodes of a level. Its arguments are the level and the digits of these nodes, int64
    [nodes, h]. `ports`: number of ports of every switch; 0 for the number of its cables.
    """
    h = len(m)
    build = FabricBuilder("", dimensions=h)
    previous = np.zeros(0, dtype=np.int32)
    for level in range(h + 1):
        radix = (*w[:level], *m[level:])
        digits = mixed_radix(np.arange(prod(radix)), radix)
        texts = names(level, digits)
        if level == 0:
            nodes = build.hosts(texts, level=0, coordinates=digits)
        else:
            nodes = build.switches(texts, ports=ports, level=level, coordinates=digits)
            child, parent = level_pairs(m, w, level)
            for _ in range(p[level - 1]):
                build.connect(nodes[parent], previous[child])
        previous = nodes
    return build


def thin_tree(
    k: int, up: int, n: int, hosts: int | None, cables: int
) -> tuple[int, Ints, Ints, Ints]:
    """Return the parameters of the XGFT of n levels of switches with k ports down and `up` up.

    `hosts`: number of hosts of a leaf switch; None for k. `cables`: between two switches.
    """
    per_leaf = k if hosts is None else hosts
    at_least(2, k=k)
    at_least(1, up=up, n=n, cables=cables, hosts=per_leaf)
    need(up <= k, f"up must be at most k = {k} for the tree to be slimmed, not {up}")
    need(n <= MOST_LEVELS, f"n must be at most {MOST_LEVELS}, not {n}")
    rest = n - 1
    return n, (per_leaf, *(k,) * rest), (1, *(up,) * rest), (1, *(cables,) * rest)


def _kary_counts(k: int, n: int, hosts: int | None = None, cables: int = 1) -> ClosedForm:
    form = xgft_counts(*thin_tree(k, k, n, hosts, cables))
    return replace(form, source="Petrini and Vanneschi 1997")


@topology(
    "kary-n-tree",
    aliases=("knt",),
    positional=("k", "n"),
    examples=(
        "kary-n-tree:k=4,n=2",
        "kary-n-tree:k=2,n=4",
        "kary-n-tree:k=3,n=3",
        "kary-n-tree:k=4,n=2,hosts=2,cables=3",
        "kary-n-tree:k=6,n=1",
    ),
    closed_form=_kary_counts,
)
def kary_n_tree(k: int, n: int, hosts: int | None = None, cables: int = 1) -> FabricBuilder:
    """k-ary n-tree: k^n hosts on n levels of k^(n-1) switches with k ports down and k ports up.

    It is XGFT(n; k..k; 1,k..k), with the same names, coordinates and port order.

    Parameters
    ----------
    k
        Half the number of ports of a switch.
    n
        Number of levels of switches.
    hosts
        Number of hosts of each leaf switch, by default k.

    Raises
    ------
    InputError
        If k is below 2 or another value is below 1.
    """
    return xgft(*thin_tree(k, k, n, hosts, cables))
