"""Roles of machines, given by a file or else taken from their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from weft.core.errors import InputError
from weft.core.registry import did_you_mean

#: All roles.
ROLES = ("compute", "storage", "management", "gateway", "subnet-manager", "unknown")

#: Roles of machines on which jobs may run.
COMPUTING = ("compute", "unknown")

#: Role -> words that give a name this role; the first role that matches counts.
ROLE_WORDS = {
    "subnet-manager": ("sm", "opensm", "ufm"),
    "gateway": ("gw", "gateway", "lnet", "router", "skyway"),
    "storage": (
        "beegfs", "ceph", "gpfs", "lustre", "mds", "mgs", "nfs", "nsd", "oss", "ost", "stor",
        "storage", "weka",
    ),
    "management": (
        "adm", "admin", "bcm", "head", "headnode", "login", "master", "mgmt", "mgt",
    ),
    "compute": ("compute", "cn", "dgx", "gpu", "hgx", "nid", "node"),
}  # fmt: skip
_WORD = re.compile(r"[a-z]+", re.ASCII)


def role_of_name(name: str) -> str:
    """Return the role that a machine's name suggests: storage for ``rack2-oss03``.

    A name has a role if one of its words (its runs of letters) is in `ROLE_WORDS`.
    """
    words = set(_WORD.findall(name.lower()))
    return next((role for role, known in ROLE_WORDS.items() if words & set(known)), "unknown")


def check_role(text: str) -> str:
    """Return the text if it is a role."""
    if text not in ROLES:
        raise InputError(
            f"unknown role {text!r}{did_you_mean(text, ROLES)}; there are {', '.join(ROLES)}"
        )
    return text


def roles_of(machines: Iterable[tuple[str, Sequence[int]]], given: Sequence[str]) -> list[str]:
    """Return the role of each host.

    `machines`: name and hosts of each machine. `given`: role that a file gives each host, or an
    empty text.
    """
    roles = [""] * len(given)
    for name, hosts in machines:
        role = next(filter(None, (given[host] for host in hosts)), "") or role_of_name(name)
        for host in hosts:
            roles[host] = role
    return roles
