"""Slimmed fat trees: fewer cables towards the root than towards the hosts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, check_size, need, topology
from weft.fabrics.topology.wiring import labels
from weft.fabrics.topology.xgft import thin_tree, tree, xgft, xgft_counts


def _thin_counts(k: int, up: int, n: int, hosts: int | None = None, cables: int = 1) -> ClosedForm:
    form = xgft_counts(*thin_tree(k, up, n, hosts, cables))
    return replace(form, source="Navaridas et al. 2010 (thin trees)")


@topology(
    "slimmed-fat-tree",
    aliases=("sft", "thin-tree"),
    positional=("k", "up", "n"),
    examples=(
        "slimmed-fat-tree:k=4,up=2,n=3",
        "slimmed-fat-tree:k=4,up=1,n=3,cables=2",
        "slimmed-fat-tree:k=2,up=1,n=4,hosts=3",
    ),
    closed_form=_thin_counts,
)
def slimmed_fat_tree(
    k: int, up: int, n: int, hosts: int | None = None, cables: int = 1
) -> FabricBuilder:
    """k:k'-ary n-thin tree: n levels of switches with k ports down and k' = `up` ports up.

    It is XGFT(n; k..k; 1,k'..k'), with the same names, coordinates and port order. Use `xgft` for
    other slimmed trees.

    Parameters
    ----------
    k
        Number of ports down.
    up
        Number of ports up, at most k; k / up is the slimming factor of each level.
    n
        Number of levels of switches.
    hosts
        Number of hosts of each leaf switch, by default k.

    Raises
    ------
    InputError
        If k is below 2, `up` is above k or another value is below 1.
    """
    return xgft(*thin_tree(k, up, n, hosts, cables))


def _cellia_counts(nodes: int = 45) -> ClosedForm:
    need(nodes in (36, 45), f"nodes must be 45, or 36 with one host fewer per leaf, not {nodes}")
    form = xgft_counts(3, (nodes // 9, 3, 3), (1, 3, 1), (1, 1, 2))
    source = "paper on the CELLIA cluster, cabling derived from its port counts"
    return replace(form, radix=8, source=source)


@topology(
    "cellia",
    positional=("nodes",),
    examples=("cellia:nodes=45", "cellia:nodes=36"),
    closed_form=_cellia_counts,
)
def cellia(nodes: int = 45) -> FabricBuilder:
    """The slimmed fat tree of the CELLIA cluster: 21 switches of 8 ports in stages of 9, 9 and 3.

    According to the paper there are three groups of three leaf switches with five hosts each, 45
    in total, and parallel cables connect the switches of the upper stages; the 36-host version has
    one host fewer per leaf. The paper's figure was not available; the cabling is derived from the
    eight ports. A leaf has 5 hosts and so 3 cables up, one to each of the three middle switches of
    its group. The three top switches have 24 ports for nine middle switches, so each middle switch
    has two cables up (three would need 27 ports). These are parallel cables, so middle switch j of
    each group is connected to top switch j. A top switch then uses 6 of its ports and a middle
    switch 5. This is PGFT(3; 5,3,3; 1,3,1; 1,1,2), with the digits as coordinates and the same port
    order.

    Parameters
    ----------
    nodes
        Number of hosts, 45 or 36.

    Raises
    ------
    InputError
        If the number of nodes is neither 45 nor 36.
    """
    check_size(_cellia_counts(nodes))
    return tree((nodes // 9, 3, 3), (1, 3, 1), (1, 1, 2), _names, ports=8)


def _names(level: int, digits: NDArray[np.int64]) -> list[str]:
    a, b, c = digits.T
    if level == 0:
        return labels("h", c, b, a)
    if level == 1:
        return labels("leaf", c, b)
    return labels("mid", c, b) if level == 2 else labels("top", b)
