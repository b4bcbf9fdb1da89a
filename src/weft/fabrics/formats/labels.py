"""Choice of a unique label for each node from its id and description in a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from weft.fabrics import NodeKind
from weft.fabrics.machines import host_part

_GUID_ID = re.compile(r"[SHR]-[0-9a-f]{16}")


def is_guid_id(node_id: str) -> bool:
    """Return whether ibnetdiscover made an id from a GUID, so that it is not a chosen name."""
    return _GUID_ID.fullmatch(node_id) is not None


def guid_id(kind: int, guid: int, router: bool = False) -> str:
    """Return the id that ibnetdiscover makes from a GUID: ``S-0008f10500108c5c``."""
    letter = "S" if kind == NodeKind.SWITCH else "R" if router else "H"
    return f"{letter}-{guid:016x}"


def choose_labels(
    kinds: Sequence[int], ids: Sequence[str], descriptions: Sequence[str]
) -> list[str]:
    """Return a unique label for each node.

    The label is the id unless ibnetdiscover made the id from the GUID. Otherwise it is the first of
    these that is not a label of another node: host name in the description, description, id.

    `ids`: unique id of each node in its file. `descriptions`: description of each node; several
    nodes may have the same.
    """
    taken = set(ids)
    choices: list[list[str]] = []
    for kind, node_id, description in zip(kinds, ids, descriptions, strict=True):
        options = [node_id]
        if is_guid_id(node_id):
            text = description.strip()
            host = host_part(text) if kind == NodeKind.HOST else text
            names = [name for name in dict.fromkeys((host, text)) if name and name not in taken]
            options = names + options
        choices.append(options)
    # While several nodes have one label, each of them moves to its next option. The last option is
    # the unique id, so this ends.
    chosen = [0] * len(choices)
    while True:
        labels = [options[at] for options, at in zip(choices, chosen, strict=True)]
        count = Counter(labels)
        moved = False
        for node, label in enumerate(labels):
            if count[label] > 1:
                chosen[node] += 1
                moved = True
        if not moved:
            return labels
