"""Hosts as single words in files of paths."""

from __future__ import annotations

from weft.core.errors import InputError
from weft.fabrics import Fabric


def host_word(fabric: Fabric, node: int) -> str:
    """Return a host's name, or its GUID if the name is not unique or not a single word."""
    name = fabric.node_names[node]
    plain = len(name.split()) == 1 and not {"#", "|"} & set(name) and fabric.find_node(name) == node
    return name if plain else f"0x{int(fabric.node_guid[node]):016x}"


def host_number(fabric: Fabric, text: str) -> int:
    """Return the number of the host with a name or GUID."""
    node = fabric.find_node(text)
    host = node - fabric.num_switches
    if not 0 <= host < fabric.num_hosts:
        which = "among the hosts that are judged" if fabric.host_of_whole[node] >= 0 else "a host"
        raise InputError(f"{fabric.node_names[node]} is not {which}")
    return host
