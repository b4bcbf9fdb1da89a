"""Files with one GUID per line: root switches, compute nodes, I/O nodes, or the routing order.

OpenSM reads them with ``-a`` (``root_guid_file``), ``-u`` (``cn_guid_file``), ``-G``
(``io_guid_file``) and ``-X`` (``guid_routing_order_file``). Text after a GUID, such as a name, is a
comment. OpenSM ignores unknown GUIDs; here they are errors, since the file is then probably of
another fabric.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.format_registry import warn
from weft.routing.opensm.ports import by_port_guid, by_switch_guid, explain_guid, port_guids

#: Kind of a file: GUIDs of root switches, compute nodes, I/O nodes, or ports in routing order.
GuidKind = Literal["root", "cn", "io", "order"]

_WANTED = {
    "root": "the node GUID of a switch",
    "cn": "the port GUID of an adapter",
    "io": "the port GUID of an adapter",
    "order": "the port GUID of an adapter or switch",
}
_GUID = re.compile(r"(?:0[xX]([0-9a-fA-F]{1,16})|([0-9a-fA-F]{16}))")


def read_guids(fabric: Fabric, path: str | Path, *, kind: GuidKind) -> NDArray[np.int32]:
    """Return the nodes or destinations that a file lists by GUID.

    The file has a GUID at the start of each line, and comments from ``#``. They are node GUIDs of
    switches (kind ``root``), port GUIDs of adapters (``cn`` and ``io``), or port GUIDs of adapters
    and switches (``order``).

    Returns int32 [GUIDs], in the order of the file: switches for ``root``, endpoints for ``cn`` and
    ``io``, destinations for ``order``.
    """
    if kind == "root":
        index = by_switch_guid(fabric)
    else:
        index = by_port_guid(fabric)
        if kind != "order":
            index = {g: port for g, port in index.items() if port < fabric.num_endpoints}
    lines: dict[int, int] = {}
    for guid, line in parse_guids(read_text(path), str(path)):
        wrong = partial(InputError, file=path, line=line)
        if guid not in index:
            what = explain_guid(fabric, guid)
            raise wrong(f"{guid:#018x} is {what}; expected {_WANTED[kind]}")
        first = lines.setdefault(index[guid], line)
        if first != line:
            raise wrong(f"{guid:#018x} is already in line {first}")
    return np.array(list(lines), dtype=np.int32)


def listed_nodes(
    fabric: Fabric, names: Sequence[str], *, kind: GuidKind, what: str
) -> NDArray[np.int32]:
    """Return the nodes or destinations that an option lists by names, GUIDs or files of GUIDs.

    `names`: names or GUIDs of nodes, GUIDs of ports (not for ``root``), or ``@FILE`` for a file
    that `read_guids` reads. `kind`: as for `read_guids`. The name or GUID of an adapter stands for
    all its ports. `what`: name of the option, for messages: ``"updn: option roots"``.

    Returns as from `read_guids`, in the order of the list.
    """
    if not len(names):
        raise InputError(f"{what} is empty; expected at least one node")
    hexadecimal = [name for name in names if _GUID.fullmatch(name) and "x" in name.lower()]
    ports = by_port_guid(fabric) if hexadecimal and kind != "root" else {}
    indices: list[int] = []
    for name in names:
        if name.startswith("@"):
            indices += read_guids(fabric, name[1:], kind=kind).tolist()
            continue
        port = ports.get(int(name, 16)) if name in hexadecimal else None
        if port is not None and (kind == "order" or port < fabric.num_endpoints):
            indices.append(port)
            continue
        try:
            node = fabric.find_node(name)
        except InputError as error:
            raise InputError(
                f"{what}: expected names or GUIDs, or @FILE with one GUID per line: {error.message}"
            ) from None
        switch = fabric.node_kind[node] == NodeKind.SWITCH
        if kind != "order" and switch != (kind == "root"):
            expected = "a switch" if kind == "root" else "an adapter"
            raise InputError(f"{what}: {name} is not {expected}")
        if kind == "root":
            indices.append(node)
        elif switch:
            indices.append(fabric.num_endpoints + node)
        else:
            indices += np.flatnonzero(fabric.endpoint_node == node).tolist()
    return np.array(indices, dtype=np.int32)


def parse_guids(text: str, file: str) -> list[tuple[int, int]]:
    """Return the GUIDs of a list and their line numbers, in order.

    OpenSM reads a number without ``0x`` as decimal. This function reads 16 digits without ``0x`` as
    hexadecimal, with a `FormatWarning`.
    """
    guids = []
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
        guids.append((int(match[1] or match[2], 16), number))
    if not guids:
        raise InputError("lists no GUID; expected one per line", file=file)
    if bare:
        warn(file, f"{bare} GUIDs have no 0x; OpenSM would not read them as hexadecimal")
    return guids


def guid_list(fabric: Fabric, indices: NDArray[np.integer[Any]], *, kind: GuidKind) -> str:
    """Return the text of a file for `read_guids`, with names as comments.

    `indices`: switches for ``root``, endpoints for ``cn`` and ``io``, destinations for ``order``.
    `kind`: as for `read_guids`.
    """
    if kind == "root":
        guids, nodes = fabric.node_guid[indices], indices
    else:
        guids = port_guids(fabric)[indices]
        everything = np.concatenate((fabric.endpoint_node, np.arange(fabric.num_switches)))
        nodes = everything[indices]
    return "".join(
        f"{guid:#018x} # {' '.join(fabric.node_names[node].split())}\n"
        for guid, node in zip(guids.tolist(), nodes.tolist(), strict=True)
    )
