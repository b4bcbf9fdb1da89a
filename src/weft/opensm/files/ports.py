"""Port GUIDs: how OpenSM's files name what weft calls a destination."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.records import kind_of

#: Linear forwarding tables hold unicast LIDs 1 to 0xBFFF.
MAX_LID = 0xBFFF


def port_guids(fabric: Fabric) -> NDArray[np.uint64]:
    """Port GUID of each destination: of the adapter port, or of a switch's port 0.

    Parameters
    ----------
    fabric
        Any fabric.

    Returns
    -------
    NDArray
        uint64 [destinations].
    """
    guid = np.empty(fabric.num_destinations, dtype=np.uint64)
    slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    guid[: fabric.num_endpoints] = fabric.port_guid[slots]
    switches = guid[fabric.num_endpoints :]
    switches[:] = fabric.node_guid[: fabric.num_switches]
    with_ports = np.flatnonzero(fabric.num_ports[: fabric.num_switches] > 0)
    switches[with_ports] = fabric.port_guid[fabric.port_offset[with_ports]]
    return guid


def by_port_guid(fabric: Fabric) -> dict[int, int]:
    """Destination of each port GUID.

    Raises
    ------
    InputError
        When two ports have the same GUID, so that no file could tell them apart.
    """
    found: dict[int, int] = {}
    for destination, guid in enumerate(port_guids(fabric).tolist()):
        if found.setdefault(guid, destination) != destination:
            raise InputError(
                f"{fabric.name}: {destination_name(fabric, found[guid])} and "
                f"{destination_name(fabric, destination)} have the same port GUID {guid:#018x}"
            )
    return found


def destination_name(fabric: Fabric, destination: int) -> str:
    """A destination as people write it: ``node17[1]`` or, of a switch, ``leaf3``."""
    if destination >= fabric.num_endpoints:
        return fabric.node_names[destination - fabric.num_endpoints]
    node = int(fabric.endpoint_node[destination])
    return fabric.port_name(node, int(fabric.endpoint_port[destination]))


def explain_guid(fabric: Fabric, guid: int) -> str:
    """What a GUID is that was expected to be another kind: "the node GUID of node17"."""
    slots = np.flatnonzero(fabric.port_guid == np.uint64(guid))
    nodes = np.flatnonzero(fabric.node_guid == np.uint64(guid))
    if len(nodes):
        kind = NodeKind(int(fabric.node_kind[nodes[0]]))
        what = "switch" if kind == NodeKind.SWITCH else "node"
        return f"the {what} GUID of {fabric.node_names[nodes[0]]}"
    if len(slots):
        node = int(np.searchsorted(fabric.port_offset, slots[0], side="right")) - 1
        if fabric.node_kind[node] == NodeKind.SWITCH:
            return f"the port GUID of switch {fabric.node_names[node]}"
        port = int(slots[0] - fabric.port_offset[node]) + 1
        cable = "" if fabric.port_link[slots[0]] >= 0 else ", which has no cable"
        return f"the GUID of port {fabric.port_name(node, port)}{cable}"
    return f"no GUID of {fabric.name}"


def node_types(fabric: Fabric) -> list[str]:
    """How OpenSM calls each node's type."""
    words = ["Switch"] * fabric.num_switches + ["Channel Adapter"] * fabric.num_hosts
    for node in range(len(words), fabric.num_nodes):
        said = kind_of(
            "Ca",
            fabric.descriptions[node],
            int(fabric.vendor_id[node]),
            int(fabric.device_id[node]),
        )
        words.append("Channel Adapter" if said == NodeKind.AUXILIARY else "Router")
    return words


def refuse_forwarding_hosts(fabric: Fabric) -> None:
    """Refuse what OpenSM has no tables for.

    Raises
    ------
    NotApplicable
        When a host forwards.
    """
    if fabric.graph.num_rows > fabric.num_switches:
        host = fabric.node_names[fabric.graph.row_node[fabric.num_switches]]
        raise NotApplicable(
            f"{fabric.graph.num_rows - fabric.num_switches} hosts of {fabric.name} forward, such "
            f"as {host}, and OpenSM has forwarding tables for switches only"
        )
