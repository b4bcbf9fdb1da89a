"""Hosts that are judged: their names, and the fabric with traffic of these hosts only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.core.settings import Group, Hosts, Settings
from weft.fabrics import variants
from weft.fabrics.arrays import NodeKind
from weft.fabrics.fabric import Fabric
from weft.fabrics.formats.hostlist import expand
from weft.fabrics.roles import check_role


@dataclass(frozen=True)
class Judged(Settings):
    """Hosts whose traffic is judged.

    Parameters
    ----------
    hosts
        Judge the traffic of these hosts only: a list such as ``node[001-036],login2``, or
        ``role=compute``.
    without
        Leave out the traffic of these hosts, such as ``admin[1-5]`` or ``role=storage``.

    Raises
    ------
    InputError
        If a list is invalid.
    """

    GROUP: ClassVar[Group] = "fabric"

    hosts: Hosts | None = None
    without: Hosts | None = None

    def of(self, fabric: Fabric) -> Fabric:
        """Return the fabric in which the other hosts have paths, but no traffic."""
        if self.hosts is None and self.without is None:
            return fabric
        if fabric.forwards[fabric.host_nodes].any():
            raise InputError(f"hosts of {fabric.name} forward packets, so all are judged")
        kept = np.full(fabric.num_hosts, self.hosts is None)
        if self.hosts is not None:
            kept[_numbers(fabric, self.hosts)] = True
        if self.without is not None:
            kept[_numbers(fabric, self.without)] = False
        if not kept.any():
            raise InputError(f"no host of {fabric.name} is left to judge")
        return Fabric.of(variants.judged(fabric, kept))


EVERYBODY = Judged()


def _numbers(fabric: Fabric, names: str) -> NDArray[np.int64]:
    return np.array([host for name in expand(names) for host in hosts_named(fabric, name)])


def host_named(fabric: Fabric, name: str) -> int:
    """Return the number of the host of this name or GUID."""
    try:
        node = fabric.find_node(name)
    except InputError:
        if name in fabric.machines:
            raise
        raise InputError(
            f"no host {name!r} in {fabric.name}{did_you_mean(name, fabric.host_names)}"
        ) from None
    kind = fabric.node_kind[node]
    if kind != NodeKind.HOST:
        if fabric.host_of_whole[node] >= 0:
            raise InputError(f"{name} is not among the hosts that are judged")
        what = "a switch" if kind == NodeKind.SWITCH else "an adapter that runs no ranks"
        raise InputError(f"{name} is {what}, not a host")
    return node - fabric.num_switches


def hosts_named(fabric: Fabric, name: str) -> list[int]:
    """Return the number of the host of this name or GUID, or of all hosts of this machine or role.

    A role is written ``role=compute``.
    """
    try:
        return [host_named(fabric, name)]
    except InputError:
        if name in fabric.machines:
            return fabric.machines[name]
        if name.startswith("role="):
            return _hosts_of_role(fabric, check_role(name.removeprefix("role=")))
        raise


def _hosts_of_role(fabric: Fabric, role: str) -> list[int]:
    hosts = [host for host, its in enumerate(fabric.roles) if its == role]
    if not hosts:
        count = Counter(fabric.roles).most_common()
        there = ", ".join(f"{number:,} {each}" for each, number in count)
        raise InputError(f"no host of {fabric.name} has the role {role}; there are {there}")
    return hosts
