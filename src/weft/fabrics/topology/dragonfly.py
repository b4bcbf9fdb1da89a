"""Dragonflies: groups of switches that are fully connected to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.wiring import (
    attach_hosts,
    cliques,
    connect_copies,
    labels,
    switches_with_hosts,
)

Arrangement = Literal["absolute", "palmtree"]


def _rounds(groups: int, ends: int) -> int:
    """Return the number of cables between two groups that have `ends` global ports each."""
    return ends // (groups - 1) if groups > 1 else 0


def _group_check(g: int | None, ends: int, formula: str) -> int:
    groups = ends + 1 if g is None else g
    at_least(1, g=groups)
    need(
        groups <= ends + 1,
        f"g must be at most {formula} + 1 = {ends + 1}, so that all groups can be connected, "
        f"not {groups}",
    )
    return groups


def global_ends(
    groups: int, ends: int, arrangement: Arrangement
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the groups and global ports that each global cable connects.

    The ports of a group are numbered 0 to ends - 1, switch by switch, and used in rounds of
    groups - 1 ports, one to each other group. In the *absolute* arrangement port j of a round leads
    from group i to group j, or to j + 1 if j >= i. In the *palmtree* arrangement port j leads to
    group i - j - 1, modulo the number of groups. Ports after the last full round stay empty.

    Returns int64 [cables] each: group and global port at both ends, the lower group first.
    """
    low, high = np.triu_indices(groups, k=1)
    if arrangement == "absolute":
        low_end, high_end = high - 1, low
    else:
        low_end, high_end = (low - high - 1) % groups, high - low - 1
    rounds = _rounds(groups, ends)
    step = np.repeat(np.arange(rounds), len(low)) * (groups - 1)
    return (
        np.tile(low, rounds),
        np.tile(low_end, rounds) + step,
        np.tile(high, rounds),
        np.tile(high_end, rounds) + step,
    )


def _dragonfly_counts(
    p: int,
    a: int,
    h: int,
    g: int | None = None,
    arrangement: Arrangement = "absolute",
    cables: int = 1,
) -> ClosedForm:
    at_least(1, p=p, a=a, h=h, cables=cables)
    groups = _group_check(g, a * h, "a·h")
    rounds = _rounds(groups, a * h)
    between = groups * (groups - 1) // 2 * rounds
    # Besides local-global-local, two switches may have a path global-global via a third group, but
    # a switch reaches at most h (h - 1) others that way. If more switches than that need three
    # hops, or if there is one group, the diameter is certain.
    diameter = None
    if groups == 1:
        diameter = 3 if a > 1 else 2
    elif rounds == 1 and (groups - 1 - min(h, groups - 1)) * (a - 1) > h * (h - 1):
        diameter = 5
    return ClosedForm(
        hosts=p * a * groups,
        switches=a * groups,
        cables=p * a * groups + groups * (a * (a - 1) // 2) * cables + between,
        diameter=diameter,
        radix=p + (a - 1) * cables + h,
        source="Kim, Dally, Scott and Abts 2008",
    )


def _sized_dragonflies(hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield balanced dragonflies, a = 2p = 2h, with as many groups as the hosts need.

    The balance is that of Kim, Dally, Scott and Abts 2008, section 3.1. With fewer than the largest
    number of groups, ah + 1, the global ports of a group are shared by the other groups, so that
    there are parallel cables. There are at least two groups.
    """
    for p in range(1, (radix + 1) // 4 + 1):
        groups = min(-(-hosts // (2 * p * p)), 2 * p * p + 1)
        if groups >= 2:
            yield {"p": p, "a": 2 * p, "h": p, "g": groups}


def _sized_megaflies(hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield megaflies with as many leaves as spines, whose switches have half their ports up.

    As in Shpiner et al. 2017 (Dragonfly+) and Flajslik et al. 2018, section 3, a leaf has as many
    hosts as cables to spines, and a spine as many global cables as cables to leaves. Parallel
    cables between leaves and spines make groups smaller, until at least two are needed.
    """
    for p in range(1, radix // 2 + 1):
        for cables in range(1, p // 2 + 1):
            size = p // cables
            if p % cables == 0 and hosts > size * p:
                groups = min(-(-hosts // (size * p)), size * p + 1)
                yield {
                    "p": p, "leaves": size, "spines": size, "h": p, "g": groups, "cables": cables,
                }  # fmt: skip
                break


@topology(
    "dragonfly",
    positional=("p", "a", "h", "g"),
    examples=(
        "dragonfly:p=2,a=4,h=2",
        "dragonfly:p=2,a=4,h=2,arrangement=palmtree",
        "dragonfly:p=1,a=3,h=2,g=4,arrangement=palmtree",
        "dragonfly:p=1,a=4,h=3,g=6,cables=2",
        "dragonfly:p=3,a=2,h=1",
        "dragonfly:p=2,a=5,h=1,g=1",
    ),
    closed_form=_dragonfly_counts,
    sizings={"dragonfly": _sized_dragonflies},
    engines=("ugal",),
)
def dragonfly(
    p: int,
    a: int,
    h: int,
    g: int | None = None,
    arrangement: Arrangement = "absolute",
    cables: int = 1,
) -> FabricBuilder:
    """Dragonfly: g groups of a switches, fully connected within a group and between the groups.

    Any two groups are connected by ah / (g - 1) cables, rounded down; the remaining ports stay
    empty. Switch ``s{group}.{switch}`` and its hosts have the coordinates (group, switch).
    Ports 1 to p lead to the hosts, the next a - 1 (times `cables`) to the other switches of the
    group in order. The last h are global: global port t of switch r is number r h + t of its group.

    Parameters
    ----------
    p
        Number of hosts of each switch.
    a
        Number of switches of each group.
    h
        Number of global ports of each switch.
    g
        Number of groups, at most a h + 1, which is the default.
    arrangement
        Assignment of global ports to groups. ``absolute``: port j of group i leads to group j, or
        j + 1 if j >= i. ``palmtree``: port j leads to group i - j - 1, modulo g.
    cables
        Number of parallel cables between two switches of a group; global cables follow from h.

    Raises
    ------
    InputError
        If a value is below 1 or g is too large.
    """
    form = _dragonfly_counts(p, a, h, g, arrangement, cables)
    check_size(form)
    groups = form.switches // a
    coords = np.stack(np.divmod(np.arange(a * groups), a), axis=1)
    build, switches = switches_with_hosts(coords, p, ports=p + (a - 1) * cables + h)
    cliques(build, switches.reshape(groups, a), first_port=p + 1, cables=cables)
    _join_groups(build, switches.reshape(groups, a), h, p + (a - 1) * cables + 1, arrangement)
    return build


def _join_groups(
    build: FabricBuilder,
    members: NDArray[np.int32],
    h: int,
    first_port: int,
    arrangement: Arrangement,
) -> None:
    groups, size = members.shape
    a_group, a_end, b_group, b_end = global_ends(groups, size * h, arrangement)
    build.connect(
        members[a_group, a_end // h],
        members[b_group, b_end // h],
        a_ports=first_port + a_end % h,
        b_ports=first_port + b_end % h,
    )


def _megafly_counts(
    p: int,
    leaves: int,
    spines: int,
    h: int,
    g: int | None = None,
    arrangement: Arrangement = "absolute",
    cables: int = 1,
) -> ClosedForm:
    at_least(1, p=p, leaves=leaves, spines=spines, h=h, cables=cables)
    groups = _group_check(g, spines * h, "spines·h")
    within = groups * leaves * spines * cables
    between = groups * (groups - 1) // 2 * _rounds(groups, spines * h)
    return ClosedForm(
        hosts=p * leaves * groups,
        switches=(leaves + spines) * groups,
        cables=p * leaves * groups + within + between,
        diameter=5 if groups > 1 else (4 if leaves > 1 else 2),
        radix=max(p + spines * cables, leaves * cables + h),
        source="Flajslik et al. 2018 (Megafly); Shpiner et al. 2017 (Dragonfly+)",
    )


@topology(
    "megafly",
    aliases=("dragonfly+", "dragonfly-plus"),
    positional=("p", "leaves", "spines", "h", "g"),
    examples=(
        "megafly:p=2,leaves=4,spines=4,h=2",
        "megafly:p=2,leaves=3,spines=2,h=2,g=3,arrangement=palmtree",
        "megafly:p=1,leaves=2,spines=3,h=1,cables=2",
        "megafly:p=2,leaves=3,spines=2,h=1,g=1",
    ),
    closed_form=_megafly_counts,
    sizings={"megafly": _sized_megaflies},
    engines=("ugal",),
)
def megafly(
    p: int,
    leaves: int,
    spines: int,
    h: int,
    g: int | None = None,
    arrangement: Arrangement = "absolute",
    cables: int = 1,
) -> FabricBuilder:
    """Megafly, or Dragonfly+: a dragonfly whose groups are two-level trees of leaves and spines.

    Hosts are attached to leaves, each leaf is connected to each spine of its group, and spines have
    the global ports, arranged as in `dragonfly`. Leaf ``leaf{group}.{i}``, spine
    ``spine{group}.{i}`` and the hosts of a leaf have the coordinates (group, tier, i), with tier 0
    for leaves and hosts and 1 for spines. Leaf ports: hosts, then spines. Spine ports: leaves,
    then global ports.

    Parameters
    ----------
    p
        Number of hosts of each leaf.
    leaves, spines
        Number of switches of each tier in a group.
    h
        Number of global ports of each spine.
    g
        Number of groups, at most spines times h plus 1, which is the default.
    arrangement
        As in `dragonfly`.
    cables
        Number of parallel cables between a leaf and a spine.

    Raises
    ------
    InputError
        If a value is below 1 or g is too large.
    """
    check_size(_megafly_counts(p, leaves, spines, h, g, arrangement, cables))
    groups = spines * h + 1 if g is None else g
    build = FabricBuilder("", dimensions=3)
    tiers = []
    for tier, (kind, size, ports) in enumerate(
        (("leaf", leaves, p + spines * cables), ("spine", spines, leaves * cables + h))
    ):
        group, number = np.divmod(np.arange(groups * size), size)
        coords = np.stack((group, np.full(len(group), tier), number), axis=1)
        names = labels("", group, number)
        nodes = build.switches([kind + name for name in names], ports=ports, coordinates=coords)
        if tier == 0:
            attach_hosts(build, nodes, p, names=names, coordinates=coords)
        tiers.append(nodes.reshape(groups, size))
    low, high = tiers
    leaf, spine = (ends.reshape(-1) for ends in np.indices((leaves, spines)))
    connect_copies(
        build,
        low[:, leaf].reshape(-1),
        high[:, spine].reshape(-1),
        np.tile(p + 1 + spine, groups),
        np.tile(1 + leaf, groups),
        cables=cables,
        strides=(spines, leaves),
    )
    _join_groups(build, high, h, leaves * cables + 1, arrangement)
    return build
