"""Extended generalised fat trees with parallel cables, and the trees that are special cases."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.fabric import FabricBuilder
from weft.topology.base import ClosedForm, need, topology


def _check(h: int, m: tuple[int, ...], w: tuple[int, ...], p: tuple[int, ...] | None) -> None:
    need(h >= 1, f"h must be at least 1, not {h}")
    for key, values in (("m", m), ("w", w), ("p", p if p is not None else (1,) * h)):
        need(len(values) == h, f"{key} needs one value per level, {h}, not {len(values)}")
        need(min(values) >= 1, f"every value of {key} must be at least 1")


def level_sizes(m: tuple[int, ...], w: tuple[int, ...]) -> list[int]:
    """Nodes at each level, hosts (level 0) first."""
    return [prod(m[level:]) * prod(w[:level]) for level in range(len(m) + 1)]


def _xgft_counts(
    h: int, m: tuple[int, ...], w: tuple[int, ...], p: tuple[int, ...] | None = None
) -> ClosedForm:
    sizes = level_sizes(m, w)
    per_level = [sizes[i] * w[i] * (p[i] if p else 1) for i in range(h)]
    # A cut of the top level that halves every top switch's children; even m_h halves the hosts.
    cut = None
    if m[-1] % 2 == 0:
        cut = min(prod(m[i:]) * prod(w[: i + 1]) * (p[i] if p else 1) for i in range(h)) // 2
    return ClosedForm(
        hosts=sizes[0],
        switches=sum(sizes[1:]),
        cables=sum(per_level),
        diameter=2 * h if m[-1] > 1 else None,
        bisection_cables=cut,
        source="Öhring et al. 1995 (XGFT); Zahavi 2010 (parallel ports)",
    )


@topology(
    "xgft",
    aliases=("pgft",),
    positional=("h", "m", "w", "p"),
    examples=("xgft:2;4,4;1,2", "xgft:3;2,3,4;1,2,3", "xgft:2;4,4;1,2;1,2", "xgft:1;8;1"),
    closed_form=_xgft_counts,
)
def xgft(
    h: int, m: tuple[int, ...], w: tuple[int, ...], p: tuple[int, ...] | None = None
) -> FabricBuilder:
    """XGFT(h; m1..mh; w1..wh): h levels of switches, mi children and wi parents at level i.

    A node of level l is the digits (x1..xl, y(l+1)..yh): x(i) < w(i) tells which of the parallel
    subtrees it stands in, y(i) < m(i) which child. It is joined to the nodes of level l + 1 that
    agree in all digits but digit l + 1. Those digits are its coordinates.

    Parameters
    ----------
    h
        Levels of switches.
    m
        Children of a node of level i, i = 1..h.
    w
        Parents of a node of level i - 1; w1 is the number of leaf switches a host is joined to.
    p
        Parallel cables between a node of level i - 1 and each parent (PGFT); 1 where left out.
    """
    _check(h, m, w, p)
    build = FabricBuilder("", dimensions=h)
    previous = np.zeros(0, dtype=np.int32)
    for level in range(h + 1):
        radix = np.array([*w[:level], *m[level:]], dtype=np.int64)
        count = int(radix.prod())
        digits = mixed_radix(np.arange(count), radix)
        if level == 0:
            nodes = build.hosts(
                [f"h{i}" for i in range(count)], level=0, coordinates=digits, forwards=False
            )
        else:
            nodes = build.switches(
                [f"s{level}-{i}" for i in range(count)], level=level, coordinates=digits
            )
            # Child c and its parents agree in all digits but number level - 1; parents come in
            # order of their own digit there, so up-port j leads to parent j of every child.
            child_radix = np.array([*w[: level - 1], *m[level - 1 :]], dtype=np.int64)
            child_digits = mixed_radix(np.arange(len(previous)), child_radix)
            parallel = p[level - 1] if p else 1
            # Cable order: by parallel copy, then child, then parent digit.
            for _ in range(parallel):
                child = np.repeat(np.arange(len(previous)), w[level - 1])
                parent_digits = np.repeat(child_digits, w[level - 1], axis=0)
                parent_digits[:, level - 1] = np.tile(np.arange(w[level - 1]), len(previous))
                parent = from_mixed_radix(parent_digits, radix)
                build.connect(nodes[parent], previous[child])
        previous = nodes
    return build


def mixed_radix(numbers: np.ndarray, radix: np.ndarray) -> np.ndarray:
    """Digits of each number, least significant first, int64 [numbers, digits]."""
    digits = np.empty((len(numbers), len(radix)), dtype=np.int64)
    rest = np.asarray(numbers, dtype=np.int64)
    for place, base in enumerate(radix):
        rest, digits[:, place] = np.divmod(rest, base)
    return digits


def from_mixed_radix(digits: np.ndarray, radix: np.ndarray) -> np.ndarray:
    """Numbers of digits, least significant first; the inverse of `mixed_radix`."""
    weights = np.concatenate(([1], np.cumprod(radix)[:-1]))
    return digits @ weights


def _kary_counts(k: int, n: int) -> ClosedForm:
    return ClosedForm(
        hosts=k**n,
        switches=n * k ** (n - 1),
        cables=n * k**n,
        diameter=2 * n,
        bisection_cables=k**n // 2 if k % 2 == 0 else None,
        source="Petrini and Vanneschi 1997",
    )


@topology(
    "kary-n-tree",
    aliases=("knt",),
    positional=("k", "n"),
    examples=("kary-n-tree:k=4,n=2", "kary-n-tree:k=2,n=4"),
    closed_form=_kary_counts,
)
def kary_n_tree(k: int, n: int) -> FabricBuilder:
    """k-ary n-tree: k^n hosts on n levels of k^(n-1) switches with k ports each way.

    Parameters
    ----------
    k
        Half the ports of a switch.
    n
        Levels of switches.
    """
    need(k >= 2, f"k must be at least 2, not {k}")
    need(n >= 1, f"n must be at least 1, not {n}")
    return xgft(n, (k,) * n, (1,) + (k,) * (n - 1))
