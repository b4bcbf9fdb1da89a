"""Writer of ``kubectl`` commands that label the nodes of Kubernetes with their switches."""

from __future__ import annotations

import re
from typing import Literal

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import warn, warn_of, writer
from weft.fabrics.formats.switch_tree import SwitchTree

#: Keys of the labels, leaf switches first, by version of topograph.
_KEYS = {
    "tiers": [f"fabric.topograph.run/tier-{tier}" for tier in range(20)],
    "names": [f"network.topology.nvidia.com/{name}" for name in ("leaf", "spine", "core")],
}
#: Names of nodes: DNS subdomains of RFC 1123. Values of labels: at most 63 characters.
_NODE = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@writer("kubernetes", suffixes=(".kubectl.sh",))
def write(fabric: Fabric, *, keys: Literal["names", "tiers"] = "names") -> str:
    """Labels of Kubernetes nodes as topograph sets them: a ``kubectl label`` command per node.

    The value of each label is a switch of the tree of Slurm's ``topology.conf``: the leaf switch of
    the node, the switch above it, and so on. Accelerator domains are no part of a fabric and get no
    label. A `FormatWarning` counts hosts whose names Kubernetes does not accept, and tiers without
    a label.

    Parameters
    ----------
    keys
        ``names``: ``network.topology.nvidia.com/leaf``, ``spine`` and ``core``, of topograph before
        1.0. ``tiers``: ``fabric.topograph.run/tier-0``, ``tier-1`` and so on.

    Raises
    ------
    NotApplicable
        If no host is cabled to a switch, no host has a name that Kubernetes accepts, or the name of
        a switch is not a value of a label.
    """
    lines = []
    refused: list[str] = []
    deepest = 0
    for chain in SwitchTree(fabric, "the list of labels").chains():
        tiers = [line.name for line in chain if line.others is not None]
        if wrong := [name for name in tiers if not _VALUE.fullmatch(name)]:
            raise NotApplicable(f"{wrong[0]!r} is not a value of a label in Kubernetes")
        deepest = max(deepest, len(tiers))
        labels = " ".join(f"{key}={name}" for key, name in zip(_KEYS[keys], tiers, strict=False))
        for host in chain[0].hosts:
            if len(host) < 254 and _NODE.fullmatch(host):
                lines.append(f"kubectl label --overwrite node {host} {labels}")
            else:
                refused.append(host)
    if not lines:
        raise NotApplicable(f"Kubernetes accepts no name of a host, such as {refused[0]!r}")
    what = "without labels, whose names Kubernetes does not accept"
    warn_of(fabric.name, refused, "host", what)
    if deepest > len(_KEYS[keys]):
        warn(fabric.name, f"{deepest - len(_KEYS[keys])} of {deepest} tiers have no label")
    return "\n".join(["#!/bin/sh", *lines, ""])
