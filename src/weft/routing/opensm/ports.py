"""Port GUIDs, which identify destinations in OpenSM's files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.records import kind_of

#: Linear forwarding tables hold unicast LIDs 1 to 0xBFFF.
MAX_LID = 0xBFFF
#: Largest LMC, which has three bits.
MAX_LMC = 7


def check_lmc(lmc: int) -> None:
    """Check that an LMC is in InfiniBand's range."""
    if not 0 <= lmc <= MAX_LMC:
        raise InputError(f"lmc must be 0 to {MAX_LMC}, not {lmc}")


def port_guids(fabric: Fabric) -> NDArray[np.uint64]:
    """Return the port GUID of each destination: of an adapter port, or of a switch's port 0.

    Returns uint64 [destinations].
    """
    guid = np.empty(fabric.num_destinations, dtype=np.uint64)
    slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    guid[: fabric.num_endpoints] = fabric.port_guid[slots]
    switches = guid[fabric.num_endpoints :]
    switches[:] = fabric.node_guid[: fabric.num_switches]
    with_ports = np.flatnonzero(fabric.num_ports[: fabric.num_switches] > 0)
    switches[with_ports] = fabric.port_guid[fabric.port_offset[with_ports]]
    return guid


def common(
    one: NDArray[np.uint64], other: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the GUIDs that both arrays have, in each."""
    _, first, second = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return first, second


def by_port_guid(fabric: Fabric) -> dict[int, int]:
    """Return the destination of each port GUID."""
    destinations: dict[int, int] = {}
    for destination, guid in enumerate(port_guids(fabric).tolist()):
        if destinations.setdefault(guid, destination) != destination:
            raise InputError(
                f"{fabric.name}: {destination_name(fabric, destinations[guid])} and "
                f"{destination_name(fabric, destination)} have the same port GUID {guid:#018x}"
            )
    return destinations


def by_switch_guid(fabric: Fabric) -> dict[int, int]:
    """Return the switch of each node GUID."""
    return {guid: at for at, guid in enumerate(fabric.node_guid[: fabric.num_switches].tolist())}


def destination_name(fabric: Fabric, destination: int) -> str:
    """Return a destination's name: ``node17[1]`` for an adapter port, ``leaf3`` for a switch."""
    if destination >= fabric.num_endpoints:
        return fabric.node_names[destination - fabric.num_endpoints]
    node = int(fabric.endpoint_node[destination])
    return fabric.port_name(node, int(fabric.endpoint_port[destination]))


def explain_guid(fabric: Fabric, guid: int) -> str:
    """Describe a GUID for an error message, for example "the node GUID of node17"."""
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
    return f"not a GUID of {fabric.name}"


def node_types(fabric: Fabric) -> list[str]:
    """Return the type of each node as OpenSM writes it."""
    words = ["Switch"] * fabric.num_switches + ["Channel Adapter"] * fabric.num_hosts
    for node in range(len(words), fabric.num_nodes):
        maker = int(fabric.vendor_id[node]), int(fabric.device_id[node])
        kind = kind_of("Ca", fabric.descriptions[node], *maker)
        words.append("Channel Adapter" if kind == NodeKind.AUXILIARY else "Router")
    return words


def refuse_forwarding_hosts(fabric: Fabric) -> None:
    """Refuse hosts that forward, for which OpenSM has no tables."""
    if fabric.graph.num_rows > fabric.num_switches:
        host = fabric.node_names[fabric.graph.row_node[fabric.num_switches]]
        raise NotApplicable(
            f"{fabric.graph.num_rows - fabric.num_switches} hosts of {fabric.name} forward, for "
            f"example {host}, but OpenSM has forwarding tables only for switches"
        )
