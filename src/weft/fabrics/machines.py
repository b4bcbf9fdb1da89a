"""Grouping of adapters into machines by system image GUIDs and by the names that drivers give."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.words import natural_key
from weft.fabrics.arrays import FabricArrays

#: Host and device in an adapter's description, as rdma-ndd ("%h %d") and the drivers write them.
_ADAPTER = re.compile(
    r"(\S+)\s+(HCA-\d+|(?:mlx\d|mlx\d_bond|hfi1|efa)_\d+|(?:ib|mthca|qib|ipath|irdma|bnxt_re)\d+"
    r"|(?:ibp|ibs|rocep|rdmap)\d\w*)",
    re.ASCII,
)

#: The same with both in one word (``node1-ib0``), which other names may also look like.
_ONE_WORD = re.compile(
    r"([^\s]*[^\s._:-])[._:-]((?:ib|hca|hfi|opa|hsn|roce)-?\d{1,4}|(?:mlx\d|hfi1)_\d{1,4})",
    re.ASCII,
)

_DIGITS = re.compile(r"\d+")


def adapter_parts(description: str) -> tuple[str, str] | None:
    """Return host and device of a description such as ``node001 HCA-1``, or None."""
    match = _ADAPTER.fullmatch(description)
    return (match[1], match[2]) if match else None


def host_part(description: str) -> str:
    """Return the host name in an adapter's description: ``node001`` of ``node001 HCA-1``."""
    parts = adapter_parts(description)
    return parts[0] if parts else description


def host_parts(fabric: FabricArrays) -> list[tuple[str, str] | None]:
    """Return host and device that the label, or else the description, of each host names.

    Names of one word (``node1-ib0``) count if no host has the host name as its label, and several
    begin with the same host name and have different devices. One name alone counts if other hosts,
    whose names differ in numbers only, have this device among several.
    """
    found: list[tuple[str, str] | None] = []
    words: dict[str, list[tuple[int, str]]] = {}
    for host, node in enumerate(fabric.host_nodes.tolist()):
        texts = {fabric.node_names[node].strip(): None, fabric.descriptions[node].strip(): None}
        found.append(next(filter(None, map(adapter_parts, texts)), None))
        one = None if found[-1] else next(filter(None, map(_ONE_WORD.fullmatch, texts)), None)
        if one:
            words.setdefault(one[1], []).append((host, one[2]))
    names = {*fabric.host_names, *(parts[0] for parts in found if parts)}
    several: set[tuple[str, str]] = set()
    for name, adapters in sorted(words.items(), key=lambda each: -len(each[1])):
        devices = {(name_stem(name), device) for _, device in adapters}
        if name in names or len(devices) < len(adapters):
            continue
        if len(adapters) > 1:
            several |= devices
        if devices <= several:
            for host, device in adapters:
                found[host] = (name, device)
    return found


def name_stem(name: str) -> str:
    """Return what is equal in names that differ in numbers only."""
    return _DIGITS.sub("", name)


def first_adapters(
    fabric: FabricArrays, parts: Sequence[tuple[str, str] | None]
) -> NDArray[np.int64]:
    """Return int64 [nodes]: first adapter of each host's machine; other nodes map to themselves.

    `parts` [hosts]: from `host_parts`. A table of machines comes first. Otherwise adapters are in
    one machine if they have the same system image GUID and no names of different hosts, or if
    their names are of the same host and different devices (``node1 mlx5_0``, ``node1 mlx5_1``). If
    a host name occurs twice with the same device, several hosts have this name (``localhost``, for
    example), and it does not join adapters.
    """
    keys: dict[object, list[int]] = {}
    devices: dict[object, set[str]] = {}
    hosts: dict[object, set[str]] = {}
    named = {machine for machine, _ in fabric.assigned}
    for node, its in zip(fabric.host_nodes.tolist(), parts, strict=True):
        machine = _assigned(fabric, node) or (its[0] if its and its[0] in named else "")
        if machine:
            keys.setdefault((machine,), []).append(node)
            continue
        guid = int(fabric.system_guid[node])
        if guid:
            keys.setdefault(guid, []).append(node)
        if its:
            hosts.setdefault(guid, set()).add(its[0])
            keys.setdefault(its[0], []).append(node)
            devices.setdefault(its[0], set()).add(its[1])
    joined = [
        nodes
        for key, nodes in keys.items()
        if len(devices.get(key, nodes)) == len(nodes) and len(hosts.get(key, ())) < 2
    ]
    tail = np.array([nodes[0] for nodes in joined for _ in nodes], dtype=np.int64)
    head = np.array([node for nodes in joined for node in nodes], dtype=np.int64)
    graph = coo_array((np.ones(len(head)), (tail, head)), shape=(fabric.num_nodes,) * 2)
    _, part = connected_components(graph, directed=False)
    first = np.full(fabric.num_nodes, fabric.num_nodes, dtype=np.int64)
    np.minimum.at(first, part, np.arange(fabric.num_nodes))
    adapters: NDArray[np.int64] = first[part]
    return adapters


def ordinals(
    parts: Sequence[tuple[str, str] | None], machine: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return int64 [hosts]: index of each adapter in its machine; `machine`: first adapter [hosts].

    Adapters are ordered by the names of their devices (``mlx5_9`` before ``mlx5_10``), then by
    host number.
    """
    devices = [its[1] if its else "" for its in parts]
    number = {text: at for at, text in enumerate(sorted(set(devices), key=natural_key))}
    order = np.lexsort((np.array([number[text] for text in devices], dtype=np.int64), machine))
    _, first = np.unique(machine[order], return_index=True)
    index = np.arange(len(order))
    index[order] = index - np.repeat(first, np.diff(first, append=len(order)))
    return index


def machines_by_name(
    fabric: FabricArrays,
    parts: Sequence[tuple[str, str] | None],
    machine: NDArray[np.int64],
    ordinal: NDArray[np.int64],
) -> dict[str, list[int]]:
    """Return the host numbers of each machine; the arguments are from the functions above.

    The name of a machine is that of the table, or the host name of its first adapter. If there is
    none, or two machines have the same one, it is the label of its first adapter.
    """
    groups: dict[int, list[int]] = {}
    of_host = machine[fabric.host_nodes]
    for host in np.lexsort((ordinal, of_host)).tolist():
        groups.setdefault(int(of_host[host]), []).append(host)
    names = {}
    for first in groups:
        its = parts[first - fabric.num_switches]
        names[first] = _assigned(fabric, first) or (its[0] if its else "")
    count = Counter(names.values())
    return {
        names[first]
        if names[first] and count[names[first]] == 1
        else fabric.node_names[first]: hosts
        for first, hosts in groups.items()
    }


def _assigned(fabric: FabricArrays, node: int) -> str:
    return fabric.assigned[node][0] if fabric.assigned else ""
