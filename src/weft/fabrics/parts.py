"""`Parts`: the editable form of a fabric, and its assembly into a `Fabric`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import MAX_INT32, whole_number
from weft.core.errors import InputError
from weft.core.units import DEFAULT_LENGTH_M, LATENCY_NS_PER_M, parse_rate
from weft.fabrics.arrays import OUTSIDE, FabricArrays, NodeKind
from weft.fabrics.machine_model import MachineModel

F = TypeVar("F", bound=FabricArrays)

#: First GUIDs of switches and of adapters that ibsim assigns if a file has no GUIDs.
SWITCH_GUID = 0x200000
ADAPTER_GUID = 0x100000
#: First GUID of adapters if their range would otherwise overlap the range of the switches.
FAR_ADAPTER_GUID = 0x1000000000


@dataclass
class Parts:
    """Nodes and cables before they are numbered: the editable form of a fabric.

    All arrays are as in `Fabric`, except that nodes are in any order, `ports` is the number of
    ports of each node, and a cable is given by the node and port of both ends.
    """

    name: str
    kind: NDArray[np.uint8]
    names: list[str]
    ports: NDArray[np.int32]
    a_node: NDArray[np.int32]
    a_port: NDArray[np.int32]
    b_node: NDArray[np.int32]
    b_port: NDArray[np.int32]
    rate_gbps: NDArray[np.float64]
    rate_code: NDArray[np.uint8]
    length_m: NDArray[np.float64]
    latency_ns: NDArray[np.float64]
    guid: NDArray[np.uint64]
    forwards: NDArray[np.bool_]
    level: NDArray[np.int8]
    coordinates: NDArray[np.int32]
    descriptions: list[str]
    system_guid: NDArray[np.uint64]
    vendor_id: NDArray[np.uint32]
    device_id: NDArray[np.uint32]
    #: (node, port) -> port GUID, where it is not node GUID + port (adapter) or node GUID (switch).
    port_guid: dict[tuple[int, int], int] = field(default_factory=dict)
    #: (node, port) -> (LID, LMC); port 0 for a switch.
    lid: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    family: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    host_of_whole: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    assigned: list[tuple[str, str]] = field(default_factory=list)
    machine_model: MachineModel | None = None
    adapter: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def __post_init__(self) -> None:
        if len(self.adapter) != len(self.kind):
            self.adapter = np.full(len(self.kind), OUTSIDE, dtype=np.int32)
        if len(self.host_of_whole) != len(self.kind):
            self.host_of_whole = np.full(len(self.kind), -1, dtype=np.int32)

    @classmethod
    def of(cls, fabric: FabricArrays) -> Parts:
        """Return the parts of a fabric, from which `assemble` makes the same fabric."""
        slot_node, slot_port = fabric.slot_node, fabric.slot_port
        adapter = fabric.node_kind[slot_node] != NodeKind.SWITCH
        usual = fabric.node_guid[slot_node] + np.where(adapter, slot_port, 0).astype(np.uint64)
        odd = np.flatnonzero(fabric.port_guid != usual)
        nodes = np.concatenate((fabric.endpoint_node, np.arange(fabric.num_switches)))
        node_ports = np.concatenate((fabric.endpoint_port, np.zeros(fabric.num_switches, np.int32)))
        return cls(
            name=fabric.name,
            kind=fabric.node_kind.copy(),
            names=list(fabric.node_names),
            ports=fabric.num_ports.copy(),
            a_node=fabric.link_from[0::2].copy(),
            a_port=fabric.link_from_port[0::2].astype(np.int32),
            b_node=fabric.link_from[1::2].copy(),
            b_port=fabric.link_from_port[1::2].astype(np.int32),
            rate_gbps=fabric.cable_rate_gbps.copy(),
            rate_code=fabric.cable_rate_code.copy(),
            length_m=fabric.cable_length_m.copy(),
            latency_ns=fabric.cable_latency_ns.copy(),
            guid=fabric.node_guid.copy(),
            forwards=fabric.forwards.copy(),
            level=fabric.level.copy(),
            coordinates=fabric.coordinates.copy(),
            descriptions=list(fabric.descriptions),
            system_guid=fabric.system_guid.copy(),
            vendor_id=fabric.vendor_id.copy(),
            device_id=fabric.device_id.copy(),
            port_guid={
                (int(slot_node[s]), int(slot_port[s])): int(fabric.port_guid[s]) for s in odd
            },
            lid={
                (int(node), int(port)): (int(lid), int(lmc))
                for node, port, lid, lmc in zip(
                    nodes, node_ports, fabric.lid, fabric.lmc, strict=True
                )
                if lid
            },
            family=fabric.family,
            parameters=dict(fabric.parameters),
            host_of_whole=fabric.host_of_whole.copy(),
            assigned=list(fabric.assigned),
            machine_model=fabric.machine_model,
            adapter=fabric.adapter.copy(),
        )


def assemble(parts: Parts, fabric_class: type[F]) -> F:
    """Return the fabric that consists of these parts; see `Fabric.of`."""
    order = np.lexsort((parts.host_of_whole, parts.kind)).astype(np.int32)
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    names = tuple(parts.names[node] for node in order)
    kind = parts.kind[order]
    _refuse_duplicates(parts.name, names, parts.guid[order])

    ports = parts.ports[order]
    whole_number(int(ports.sum(dtype=np.int64)), f"{parts.name}: the number of ports", 0, MAX_INT32)
    port_offset = np.zeros(len(order) + 1, dtype=np.int32)
    np.cumsum(ports, out=port_offset[1:])

    cables = len(parts.a_node)
    ends = np.array([number[parts.a_node], number[parts.b_node]], dtype=np.int32)
    end_ports = np.array([parts.a_port, parts.b_port], dtype=np.int32)
    swap = (ends[0] > ends[1]) | ((ends[0] == ends[1]) & (end_ports[0] > end_ports[1]))
    ends[:, swap], end_ports[:, swap] = ends[::-1, swap], end_ports[::-1, swap]
    cable = np.lexsort((end_ports[0], ends[0]))
    link_from = ends[:, cable].T.reshape(-1)
    link_port = end_ports[:, cable].T.reshape(-1)
    bad = np.flatnonzero((link_port < 1) | (link_port > ports[link_from]))
    if len(bad):
        node, port = link_from[bad[0]], link_port[bad[0]]
        raise InputError(
            f"{parts.name}: {names[node]} has {ports[node]} ports, but a cable uses port {port}"
        )
    slots = port_offset[link_from] + link_port - 1
    port_link = np.full(int(port_offset[-1]), -1, dtype=np.int32)
    port_link[slots] = np.arange(2 * cables, dtype=np.int32)
    clash = np.flatnonzero(port_link[slots] != np.arange(2 * cables))
    if len(clash):
        node, port = link_from[clash[0]], link_port[clash[0]]
        raise InputError(f"{parts.name}: two cables are plugged into {names[node]}[{port}]")

    port_guid = np.repeat(parts.guid[order], ports)
    slot_node = np.repeat(np.arange(len(order)), ports)
    adapter = kind[slot_node] != NodeKind.SWITCH
    slot_port = np.arange(len(slot_node)) - port_offset[slot_node] + 1
    port_guid[adapter] += slot_port[adapter].astype(np.uint64)
    for (node, port), guid in parts.port_guid.items():
        port_guid[port_offset[number[node]] + port - 1] = guid

    some = ((parts.host_of_whole >= 0) & (parts.kind != NodeKind.HOST)).any()
    fabric = fabric_class(
        name=parts.name,
        node_kind=kind,
        node_guid=parts.guid[order],
        node_names=names,
        forwards=parts.forwards[order] | (kind == NodeKind.SWITCH),
        port_offset=port_offset,
        port_guid=port_guid,
        port_link=port_link,
        link_from=link_from,
        link_from_port=link_port.astype(np.uint16),
        link_to=_swapped(link_from),
        link_to_port=_swapped(link_port).astype(np.uint16),
        cable_rate_gbps=parts.rate_gbps[cable],
        cable_rate_code=parts.rate_code[cable],
        cable_length_m=parts.length_m[cable],
        cable_latency_ns=parts.latency_ns[cable],
        level=parts.level[order],
        coordinates=parts.coordinates[order],
        descriptions=tuple(parts.descriptions[node] for node in order),
        system_guid=parts.system_guid[order],
        vendor_id=parts.vendor_id[order],
        device_id=parts.device_id[order],
        lid=np.zeros(0, dtype=np.int32),
        lmc=np.zeros(0, dtype=np.uint8),
        host_of_whole=parts.host_of_whole[order] if some else np.full_like(order, -1),
        adapter=parts.adapter[order],
        family=parts.family,
        parameters=dict(parts.parameters),
        assigned=tuple(parts.assigned[node] for node in order) if parts.assigned else (),
        machine_model=parts.machine_model,
    )
    lid, lmc = _destination_lids(fabric, number, parts.lid)
    return replace(fabric, lid=lid, lmc=lmc)


def _refuse_duplicates(fabric: str, names: Sequence[str], guids: NDArray[np.uint64]) -> None:
    if len(set(names)) < len(names):
        seen: set[str] = set()
        duplicate = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"{fabric}: two nodes are named {duplicate!r}")
    first: dict[int, int] = {}
    for node, guid in enumerate(guids.tolist()):
        if guid in first:
            raise InputError(
                f"{fabric}: {names[first[guid]]} and {names[node]} have the same GUID {guid:#x}"
            )
        first[guid] = node


def _swapped(ends: NDArray[Any]) -> NDArray[Any]:
    """Exchange the values of each cable's two directed links."""
    return ends.reshape(-1, 2)[:, ::-1].reshape(-1).copy()


def _destination_lids(
    fabric: FabricArrays, number: NDArray[np.int32], lids: Mapping[tuple[int, int], tuple[int, int]]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    lid = np.zeros(fabric.num_destinations, dtype=np.int32)
    lmc = np.zeros(fabric.num_destinations, dtype=np.uint8)
    if lids:
        ends = zip(fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), strict=True)
        destinations = {end: destination for destination, end in enumerate(ends)}
        for switch in range(fabric.num_switches):
            destinations[switch, 0] = fabric.num_endpoints + switch
        for (node, port), (value, mask) in lids.items():
            destination = destinations.get((int(number[node]), port))
            if destination is not None:
                lid[destination], lmc[destination] = value, mask
    return lid, lmc


def cable_latency_ns(length_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the propagation delays of cables; an unknown length counts as `DEFAULT_LENGTH_M`."""
    return np.where(np.isnan(length_m), DEFAULT_LENGTH_M, length_m) * LATENCY_NS_PER_M


def default_guids(kind: NDArray[np.uint8], ports: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return GUIDs as ibsim assigns them: in steps of 1 for switches, ports + 1 for adapters."""
    switch = kind == NodeKind.SWITCH
    step = np.where(switch, 0, ports + 1).astype(np.uint64)
    before = np.cumsum(step) - step
    base = ADAPTER_GUID if int(step.sum()) <= SWITCH_GUID - ADAPTER_GUID else FAR_ADAPTER_GUID
    rank = (np.cumsum(switch) - switch).astype(np.uint64)
    return np.where(switch, np.uint64(SWITCH_GUID) + rank, np.uint64(base) + before)


def set_rate(parts: Parts, cables: NDArray[np.integer[Any]], rate: str | float) -> None:
    """Set the rate of some cables, in place."""
    parts.rate_gbps[cables], parts.rate_code[cables] = parse_rate(rate)
