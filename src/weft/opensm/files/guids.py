"""Lists of GUIDs, one per line: the roots, compute nodes, I/O nodes and order of routing.

OpenSM takes them with ``-a`` (``root_guid_file``), ``-u`` (``cn_guid_file``), ``-G``
(``io_guid_file``) and ``-X`` (``guid_routing_order_file``). What stands behind a GUID, such as a
name, is a comment. OpenSM passes over GUIDs that it does not know; here they are errors, because a
file that names nodes of another fabric never means what it says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.format_registry import warn
from weft.opensm.files.ports import by_port_guid, explain_guid, port_guids

#: What the GUIDs of a file are of: root switches, compute nodes, I/O nodes, ports in the order in
#: which they are to be routed.
GuidKind = Literal["root", "cn", "io", "order"]

_WANTED = {
    "root": "the node GUID of a switch",
    "cn": "the port GUID of an adapter",
    "io": "the port GUID of an adapter",
    "order": "the port GUID of an adapter or switch",
}
_GUID = re.compile(r"(?:0[xX]([0-9a-fA-F]{1,16})|([0-9a-fA-F]{16}))")


def read_guids(fabric: Fabric, path: str | Path, *, kind: GuidKind) -> NDArray[np.int32]:
    """Nodes or destinations that a file lists by GUID.

    Parameters
    ----------
    fabric
        What the GUIDs are of.
    path
        The file: a GUID at the start of each line, comments from ``#``.
    kind
        ``root`` for switches by node GUID; ``cn`` and ``io`` for adapter ports, ``order`` for any,
        by port GUID.

    Returns
    -------
    NDArray
        int32, in the order of the file: nodes (which for switches are rows) for ``root``,
        endpoints for ``cn`` and ``io``, destinations for ``order``.

    Raises
    ------
    InputError
        With file and line, on a line that starts with no GUID, a GUID that the fabric does not
        have or that is of another kind, one that is listed twice, or when no GUID is listed.
    """
    if kind == "root":
        place = {int(g): node for node, g in enumerate(fabric.node_guid[: fabric.num_switches])}
    else:
        place = by_port_guid(fabric)
        if kind != "order":
            place = {g: where for g, where in place.items() if where < fabric.num_endpoints}
    found: dict[int, int] = {}
    for guid, line in parse_guids(read_text(path), str(path)):
        if guid not in place:
            raise InputError(
                f"{guid:#018x} is {explain_guid(fabric, guid)}; expected {_WANTED[kind]}",
                file=path,
                line=line,
            )
        first = found.setdefault(place[guid], line)
        if first != line:
            raise InputError(f"{guid:#018x} stands in line {first} already", file=path, line=line)
    return np.array(list(found), dtype=np.int32)


def listed_nodes(
    fabric: Fabric, names: Sequence[str], *, kind: GuidKind, what: str
) -> NDArray[np.int32]:
    """Nodes or destinations of an option that lists them: names, GUIDs, and files of GUIDs.

    Parameters
    ----------
    fabric
        What the names are of.
    names
        Labels or GUIDs of nodes, GUIDs of ports (not for ``root``), or ``@FILE`` for a file that
        `read_guids` reads.
    kind
        As for `read_guids`. An adapter stands for all its ports.
    what
        The option, for messages: ``"updn: option roots"``.

    Returns
    -------
    NDArray
        int32, in the order of the list, as `read_guids` gives them.

    Raises
    ------
    InputError
        On a node that the fabric does not have or that is of another kind, a file that cannot be
        used, or an empty list.
    """
    if not len(names):
        raise InputError(f"{what} names no node")
    hexadecimal = [name for name in names if _GUID.fullmatch(name) and "x" in name.lower()]
    ports = by_port_guid(fabric) if hexadecimal and kind != "root" else {}
    found: list[int] = []
    for name in names:
        if name.startswith("@"):
            found += read_guids(fabric, name[1:], kind=kind).tolist()
            continue
        port = ports.get(int(name, 16)) if name in hexadecimal else None
        if port is not None and (kind == "order" or port < fabric.num_endpoints):
            found.append(port)
            continue
        try:
            node = fabric.find_node(name)
        except InputError as error:
            raise InputError(
                f"{what} takes names or GUIDs, or @FILE with a GUID on each line: {error.message}"
            ) from None
        switch = fabric.node_kind[node] == NodeKind.SWITCH
        if kind != "order" and switch != (kind == "root"):
            expected = "a switch" if kind == "root" else "an adapter"
            raise InputError(f"{what}: {name} is not {expected}")
        if kind == "root":
            found.append(node)
        elif switch:
            found.append(fabric.num_endpoints + node)
        else:
            found += np.flatnonzero(fabric.endpoint_node == node).tolist()
    return np.array(found, dtype=np.int32)


def parse_guids(text: str, file: str) -> list[tuple[int, int]]:
    """GUIDs of a list and the lines in which they stand, in order.

    OpenSM reads a number without ``0x`` as decimal; 16 digits are taken here as the hexadecimal
    that they most likely are, with a `FormatWarning`.

    Raises
    ------
    InputError
        On a line that starts with no GUID, or when there is none at all.
    """
    found = []
    bare = 0
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split(None, 1)
        if not words or words[0].startswith("#"):
            continue
        match = _GUID.fullmatch(words[0])
        if match is None:
            shown = words[0] if len(words[0]) <= 40 else words[0][:37] + "..."
            raise InputError(
                f"expected a GUID such as 0x0002c9020020d3c8, found {shown!r}",
                file=file,
                line=number,
            )
        bare += match[2] is not None
        found.append((int(match[1] or match[2], 16), number))
    if not found:
        raise InputError("lists no GUID; expected one per line", file=file)
    if bare:
        warn(file, f"{bare} GUIDs are without 0x, and OpenSM would not read them as hexadecimal")
    return found


def guid_list(fabric: Fabric, places: NDArray[np.integer[Any]], *, kind: GuidKind) -> str:
    """The file that `read_guids` reads, with names as comments.

    Parameters
    ----------
    fabric
        What the places are of.
    places
        Switches for ``root``, endpoints for ``cn`` and ``io``, destinations for ``order``.
    kind
        As for `read_guids`.
    """
    if kind == "root":
        guids, nodes = fabric.node_guid[places], places
    else:
        guids = port_guids(fabric)[places]
        everything = np.concatenate((fabric.endpoint_node, np.arange(fabric.num_switches)))
        nodes = everything[places]
    return "".join(
        f"{guid:#018x} # {' '.join(fabric.node_names[node].split())}\n"
        for guid, node in zip(guids.tolist(), nodes.tolist(), strict=True)
    )
