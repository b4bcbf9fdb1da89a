"""Node-name-maps, which give nodes the names that people call them by, read and written.

Every program of infiniband-diags and OpenSM takes one: a line per node, its GUID and its name,
``0x0008f10500108c5c "spine 3"``. The name ends at the second quote, or, without quotes, at a ``#``
or the end of the line. Files that name the node by ibnetdiscover's id (``H-78e7d10300227744
sl390lin1``) are read as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from weft.core.errors import InputError, NotApplicable
from weft.core.files import read_text
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import one_line, warn, writer
from weft.fabrics.formats.labels import guid_id
from weft.fabrics.formats.records import MAX_LINE, lines_of, shown

_ENTRY = re.compile(
    r"\s*+(?:0[xX]([0-9a-fA-F]{1,16})|[SHR]-([0-9a-fA-F]{16}))\s++"
    r'(?:"([^"]*)"\s*+(?:#.*)?|([^"#\s][^"#]*)(?:#.*)?)'
)


class Name(NamedTuple):
    """A name and the line that gives it."""

    text: str
    line: int


def read_names(path: str | Path) -> dict[int, Name]:
    """Names by GUID from a node-name-map file.

    Raises
    ------
    InputError
        With file and line, when the file is no node-name-map.
    """
    return parse_names(read_text(path), str(path))


def parse_names(text: str, file: str) -> dict[int, Name]:
    """Names by GUID from the contents of a node-name-map.

    Raises
    ------
    InputError
        On a line that is none of it, or a GUID with two names.
    """
    names: dict[int, Name] = {}
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
        first = names.setdefault(guid, Name(name, number))
        if first.text != name:
            raise InputError(
                f"GUID {guid:#018x} is called {name!r} here and {first.text!r} in line "
                f"{first.line}",
                file=file,
                line=number,
            )
    if not names:
        raise InputError("names no node; expected lines of a GUID and a name", file=file)
    return names


def with_names(fabric: Fabric, names: Mapping[int, Name], file: str) -> Fabric:
    """The fabric with the labels that a node-name-map gives.

    A label that the map takes away from another node leaves that one with its GUID's id. GUIDs that
    no node has are a `FormatWarning`.

    Parameters
    ----------
    fabric
        Any fabric.
    names
        Names by node GUID.
    file
        Where they came from.

    Raises
    ------
    InputError
        When two nodes of the fabric are given one name.
    """
    guids = fabric.node_guid.tolist()
    known = set(guids)
    strangers = [guid for guid in names if guid not in known]
    if strangers:
        warn(
            file,
            f"{len(strangers)} of {len(names)} names are of GUIDs that {fabric.name} does not "
            f"have: " + few([f"{guid:#018x} {names[guid].text!r}" for guid in strangers]),
        )
    given: dict[str, int] = {}
    labels = list(fabric.node_names)
    for node, guid in enumerate(guids):
        if guid not in names:
            continue
        text, line = names[guid]
        if text in given:
            raise InputError(
                f"{text!r} names two nodes of {fabric.name}, {given[text]:#018x} and {guid:#018x}; "
                f"a label must be unique",
                file=file,
                line=line,
            )
        given[text] = guid
        labels[node] = text
    for node, guid in enumerate(guids):
        if guid not in names and labels[node] in given:
            labels[node] = guid_id(int(fabric.node_kind[node]), guid)
    if len(set(labels)) < len(labels):
        raise InputError("a name is the id of another node", file=file)
    return replace(fabric, node_names=tuple(labels))


@writer("node-name-map", suffixes=(".node-name-map", ".map"))
def write(fabric: Fabric) -> str:
    """A node-name-map of every node's label.

    Raises
    ------
    NotApplicable
        When a label has a quote or an unprintable character, or is empty.
    """
    lines = [f"# node-name-map of {one_line(fabric.name, 'the fabric name')}"]
    hashed = []
    for guid, label in zip(fabric.node_guid.tolist(), fabric.node_names, strict=True):
        one_line(label, "the label")
        if '"' in label or label != label.strip() or not label:
            raise NotApplicable(
                f"the label {label!r} has a quote or is blank at an end, and a node-name-map "
                f"cannot hold it"
            )
        if "#" in label:
            hashed.append(repr(label))
        lines.append(f'{guid:#018x} "{label}"')
    if hashed:
        warn(
            fabric.name,
            f"{len(hashed)} labels have a #, at which infiniband-diags ends a name: {few(hashed)}",
        )
    return "\n".join([*lines, ""])
