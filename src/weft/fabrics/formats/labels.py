"""Choosing a unique label for each node from what a file says about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from weft.fabrics import NodeKind
from weft.fabrics.machines import host_part

_GUID_ID = re.compile(r"[SHR]-[0-9a-f]{16}")


def is_guid_id(node_id: str) -> bool:
    """Whether an id is one that ibnetdiscover makes from a GUID, which nobody calls a node by."""
    return _GUID_ID.fullmatch(node_id) is not None


def guid_id(kind: int, guid: int, router: bool = False) -> str:
    """The id that ibnetdiscover makes from a GUID: ``S-0008f10500108c5c``."""
    letter = "S" if kind == NodeKind.SWITCH else "R" if router else "H"
    return f"{letter}-{guid:016x}"


def choose_labels(
    kinds: Sequence[int], ids: Sequence[str], descriptions: Sequence[str]
) -> list[str]:
    """One unique label per node.

    A node is called by its id when people chose it, else by the host name in its description, else
    by the whole description, else by its id: the first of these that no other node goes by.

    Parameters
    ----------
    kinds
        `NodeKind` of each node.
    ids
        Unique id of each node in its file.
    descriptions
        Description of each node, not unique.
    """
    taken = set(ids)
    choices: list[list[str]] = []
    for kind, node_id, description in zip(kinds, ids, descriptions, strict=True):
        options = [node_id]
        if is_guid_id(node_id):
            whole = description.strip()
            host = host_part(whole) if kind == NodeKind.HOST else whole
            names = [name for name in dict.fromkeys((host, whole)) if name and name not in taken]
            options = names + options
        choices.append(options)
    # A label that two nodes go by is given up by both, until none is left; ids are unique, so the
    # rounds are at most as many as the options.
    place = [0] * len(choices)
    while True:
        labels = [options[at] for options, at in zip(choices, place, strict=True)]
        count = Counter(labels)
        moved = False
        for node, label in enumerate(labels):
            if count[label] > 1 and place[node] < len(choices[node]) - 1:
                place[node] += 1
                moved = True
        if not moved:
            return labels
