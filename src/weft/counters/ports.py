"""The port of a fabric that a reading is about."""

from __future__ import annotations

from weft.counters.formats.counter_format_registry import PortReading
from weft.fabrics import Fabric


class Ports:
    """Look-up of the slots of a fabric by GUID, LID, or host and device, with the port number."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._named: dict[str, set[int]] = {}
        for names in (fabric.node_names, fabric.descriptions):
            for node, name in enumerate(names):
                self._named.setdefault(name, set()).add(node)
        port = fabric.slot_port
        self._of_guid: dict[tuple[int, int], int] = {}
        for guids in (fabric.port_guid, fabric.node_guid[fabric.slot_node]):
            keys = zip(guids.tolist(), port.tolist(), strict=True)
            self._of_guid |= {key: slot for slot, key in enumerate(keys)}
        lids = fabric.slot_lid.tolist()
        lmc = dict(zip(fabric.lid.tolist(), fabric.lmc.tolist(), strict=True))
        self._of_lid = {
            (lid + offset, number): slot
            for slot, (lid, number) in enumerate(zip(lids, port.tolist(), strict=True))
            if lid
            for offset in range(1 << lmc[lid])
        }
        self._adapters: dict[tuple[str, str], list[int]] = {}
        for name, hosts in fabric.machines.items():
            for host in hosts:
                device = fabric.devices[host]
                for key in {device, _numbered(device)}:
                    self._adapters.setdefault((name, key), []).append(fabric.num_switches + host)

    def slot_of(self, reading: PortReading) -> int:
        """Return the slot of a port, -1 for a port that the fabric lacks.

        -2 means that the GUID and the LID of the reading are those of two ports.
        """
        if reading.host:
            return self._of_device(reading)
        slots = []
        if reading.guid:
            slots.append(self._of_guid.get((reading.guid, reading.port), -1))
        if reading.lid and (self._of_lid or not slots):
            slots.append(self._of_lid.get((reading.lid, reading.port), -1))
        slot = slots[0] if len({*slots}) == 1 else -2 if max(slots, default=-1) >= 0 else -1
        if slot >= 0 and reading.of_node and not self._is_of(slot, *reading.of_node):
            return -2
        return slot

    def _is_of(self, slot: int, guid: int, name: str) -> bool:
        """Return whether a node of this GUID and name can have a port."""
        node = int(self.fabric.slot_node[slot])
        known = self._named.get(name, {node})
        return node in known and (
            not guid or guid in (int(self.fabric.node_guid[node]), int(self.fabric.port_guid[slot]))
        )

    def _of_device(self, reading: PortReading) -> int:
        """Return the slot of a port of an adapter that its machine and device name."""
        names = dict.fromkeys((reading.host, reading.host.partition(".")[0]))
        devices = (reading.device, _numbered(reading.device), "")
        for key in ((name, device) for name in names for device in devices):
            nodes = self._adapters.get(key, [])
            if len(nodes) == 1:
                node = nodes[0]
                there = reading.port <= int(self.fabric.num_ports[node])
                return int(self.fabric.port_offset[node]) + reading.port - 1 if there else -1
        return -1


def _numbered(device: str) -> str:
    """Return the common name of ``mlx5_0`` and ``HCA-1``; other names are their own."""
    name, _, number = device.rpartition("_")
    if name.startswith("mlx") and number.isdecimal():
        return f"HCA-{int(number) + 1}"
    return device
