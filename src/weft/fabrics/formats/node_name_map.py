"""Reader and writer of node-name-maps, which assign names to node GUIDs.

The programs of infiniband-diags and OpenSM read them: one line per node with its GUID and name,
``0x0008f10500108c5c "spine 3"``. The name ends at the second quote, or, without quotes, at a ``#``
or the end of the line. Lines with ibnetdiscover's id instead of the GUID (``H-78e7d10300227744
sl390lin1``) are read as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from weft.core.counts import count_text
from weft.core.errors import InputError, NotApplicable, source_name
from weft.core.files import read_text
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import one_line, warn, warn_of, writer
from weft.fabrics.formats.labels import guid_id
from weft.fabrics.formats.records import MAX_LINE, lines_of, shown
from weft.fabrics.formats.session import without_session

_ENTRY = re.compile(
    r"\s*+(?:0[xX]([0-9a-fA-F]{1,16})|[SHR]-([0-9a-fA-F]{16}))\s++"
    r'(?:"([^"]*)"\s*+(?:#.*)?|([^"#\s][^"#]*)(?:#.*)?)'
)


class MappedName(NamedTuple):
    """A name and the number of its line."""

    text: str
    line: int


def read_names(path: str | Path) -> dict[int, MappedName]:
    """Return names by GUID from a node-name-map file."""
    return parse_names(without_session(read_text(path), source_name(path)), str(path))


def parse_names(text: str, file: str) -> dict[int, MappedName]:
    """Return names by GUID from the contents of a node-name-map."""
    names: dict[int, MappedName] = {}
    for number, line in enumerate(lines_of(text), 1):
        if not line or line.lstrip().startswith("#"):
            continue
        match = _ENTRY.fullmatch(line) if len(line) <= MAX_LINE else None
        name = (match[3] or match[4] or "").strip() if match else ""
        if not match or not name:
            raise InputError(
                f'expected a GUID and a name, as in 0x0008f10500108c5c "spine 3", found '
                f"{shown(line)}",
                file=file,
                line=number,
            )
        guid = int(match[1] or match[2], 16)
        first = names.setdefault(guid, MappedName(name, number))
        if first.text != name:
            raise InputError(
                f"GUID {guid:#018x} has the name {name!r} here and {first.text!r} in line "
                f"{first.line}",
                file=file,
                line=number,
            )
    if not names:
        raise InputError("has no entry; expected lines of a GUID and a name", file=file)
    return names


def with_names(fabric: Fabric, names: Mapping[int, MappedName], file: str) -> Fabric:
    """Return the fabric with labels from a node-name-map.

    Nodes to which the map gives the same name keep their labels. If the map assigns the present
    label of a node to another node, the first node is labelled with the id made from its GUID. Both
    names of several nodes and GUIDs that the fabric lacks cause a `FormatWarning`.
    """
    guids = fabric.node_guid.tolist()
    known = set(guids)
    unknown = [guid for guid in names if guid not in known]
    if unknown:
        warn(
            file,
            f"{fabric.name} does not have the GUIDs of {len(unknown)} of "
            f"{count_text(len(names), 'name')}: "
            + few([f"{guid:#018x} {names[guid].text!r}" for guid in unknown]),
        )
    given = [names[guid].text if guid in names else None for guid in guids]
    times = Counter(given)
    shared = {text: count for text, count in times.items() if text is not None and count > 1}
    if shared:
        texts = [f"{text!r} of {count}" for text, count in shared.items()]
        warn(
            file,
            f"{sum(shared.values())} nodes share a name with another node and keep their own "
            f"labels: {few(texts)}",
        )
    labels = list(fabric.node_names)
    for node, text in enumerate(given):
        if text is not None and text not in shared:
            labels[node] = text
        elif labels[node] in times:
            labels[node] = guid_id(int(fabric.node_kind[node]), guids[node])
    if len(set(labels)) < len(labels):
        raise InputError("a name equals the id of another node", file=file)
    return replace(fabric, node_names=tuple(labels))


@writer("node-name-map", suffixes=(".node-name-map", ".map"))
def write(fabric: Fabric) -> str:
    """Node-name-map with the labels of all nodes.

    Raises
    ------
    NotApplicable
        If a label is empty, has a quote or an unprintable character, or a blank at either end.
    """
    lines = [f"# node-name-map of {one_line(fabric.name, 'the fabric name')}"]
    hashed = []
    for guid, label in zip(fabric.node_guid.tolist(), fabric.node_names, strict=True):
        one_line(label, "the label")
        if '"' in label or label != label.strip() or not label:
            raise NotApplicable(
                f"a node-name-map cannot hold the label {label!r}, which is empty, has a quote, "
                f"or has a blank at either end"
            )
        if "#" in label:
            hashed.append(repr(label))
        lines.append(f'{guid:#018x} "{label}"')
    what = "with a #, where infiniband-diags ends a name"
    warn_of(fabric.name, hashed, "label", what)
    return "\n".join([*lines, ""])
