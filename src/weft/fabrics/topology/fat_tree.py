"""Fat trees of data centres: the three-tier k-ary fat tree and leaf-spine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.wiring import labels
from weft.fabrics.topology.xgft import tree, xgft_counts


def _fat_tree_counts(k: int, hosts: int | None = None, cables: int = 1) -> ClosedForm:
    at_least(2, k=k)
    need(k % 2 == 0, f"k must be even, because half the ports lead up, not {k}")
    at_least(1, cables=cables, hosts=k // 2 if hosts is None else hosts)
    half = k // 2
    form = xgft_counts(
        3, (half if hosts is None else hosts, half, k), (1, half, half), (1, cables, cables)
    )
    return replace(form, source="Al-Fares, Loukissas and Vahdat 2008")


@topology(
    "fat-tree",
    aliases=("k-ary-fat-tree",),
    positional=("k",),
    examples=("fat-tree:k=4", "fat-tree:8", "fat-tree:k=4,hosts=3,cables=2", "fat-tree:k=2"),
    closed_form=_fat_tree_counts,
)
def fat_tree(k: int, hosts: int | None = None, cables: int = 1) -> FabricBuilder:
    """Three-tier k-ary fat tree: k pods of k/2 edge and k/2 aggregation switches under a core.

    Core switch i of group j, ``core{j}.{i}``, is connected to aggregation switch j of each pod,
    ``agg{pod}.{j}``, which is connected to each edge switch of its pod, ``edge{pod}.{e}``. The tree
    is XGFT(3; k/2,k/2,k; 1,k/2,k/2), whose digits are the coordinates.

    Ports are numbered as in the paper. Port i + 1 of a core switch leads to pod i. On the other
    switches, the first k/2 port numbers lead down and the others up, in the order of the nodes at
    the other ends.

    Parameters
    ----------
    k
        Number of ports of a switch, even.
    hosts
        Number of hosts of each edge switch, by default k/2.

    Raises
    ------
    InputError
        If k is odd or below 2, or another value is below 1.
    """
    check_size(_fat_tree_counts(k, hosts, cables))
    half = k // 2
    per_edge = half if hosts is None else hosts
    return tree((per_edge, half, k), (1, half, half), (1, cables, cables), _three_tier_names)


def _three_tier_names(level: int, digits: NDArray[np.int64]) -> list[str]:
    a, b, c = digits.T
    if level == 0:
        return labels("h", c, b, a)
    if level == 1:
        return labels("edge", c, b)
    return labels("agg", c, b) if level == 2 else labels("core", b, c)


def _leaf_spine_counts(leaves: int, spines: int, hosts: int, cables: int = 1) -> ClosedForm:
    at_least(1, leaves=leaves, spines=spines, hosts=hosts, cables=cables)
    form = xgft_counts(2, (hosts, leaves), (1, spines), (1, cables))
    return replace(form, source="Clos 1953, folded")


@topology(
    "leaf-spine",
    aliases=("folded-clos", "clos"),
    positional=("leaves", "spines", "hosts"),
    examples=(
        "leaf-spine:leaves=4,spines=2,hosts=3",
        "leaf-spine:leaves=6,spines=3,hosts=4,cables=2",
        "leaf-spine:3;2;2",
        "leaf-spine:leaves=1,spines=1,hosts=4",
    ),
    closed_form=_leaf_spine_counts,
)
def leaf_spine(leaves: int, spines: int, hosts: int, cables: int = 1) -> FabricBuilder:
    """Leaf switches, each connected to every spine switch: a folded Clos network of two tiers.

    It is XGFT(2; hosts,leaves; 1,spines) with parallel cables, with the digits as coordinates and
    the same port order: a leaf's ports 1 to `hosts` lead to its hosts, the next ones to spine 0,
    1, …, repeated for each further parallel cable.

    Parameters
    ----------
    leaves, spines
        Number of switches of each tier.
    hosts
        Number of hosts of each leaf.
    cables
        Number of parallel cables between a leaf and a spine.

    Raises
    ------
    InputError
        If a value is below 1.
    """
    check_size(_leaf_spine_counts(leaves, spines, hosts, cables))

    def names(level: int, digits: NDArray[np.int64]) -> list[str]:
        a, b = digits.T
        if level == 0:
            return labels("h", b, a)
        return labels("leaf", b) if level == 1 else labels("spine", b)

    return tree((hosts, leaves), (1, spines), (1, cables), names)
