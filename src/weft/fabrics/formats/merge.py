"""One fabric from what several files say of it, by GUID and port.

The first file that lists all cables is the topology. Without one, it is all cables of the files
that list some, such as the neighbours of one host each. Every file adds what the ones before it do
not say. What it says otherwise is a contradiction: the first file holds, and a `FormatWarning`
names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.core.errors import InputError
from weft.core.severity import Severity
from weft.core.units import RATE_NAMES, WIDTHS
from weft.fabrics import NodeKind
from weft.fabrics.formats.format_registry import warn_of
from weft.fabrics.formats.labels import guid_id
from weft.fabrics.formats.netlist import Netlist, NodeRecord, PortRecord

#: Kind of contradiction -> severity, and what the files say differently.
_KINDS: dict[str, tuple[Severity, str]] = {
    "cables": ("warning", "of cables"),
    "absent cables": ("warning", "of cables that only one of them has"),
    "nodes": ("note", "of nodes that only one of them has"),
    "rates": ("warning", "of rates"),
    "LIDs": ("warning", "of LIDs"),
    "descriptions": ("note", "of node descriptions"),
    "ports": ("warning", "of numbers of ports"),
    "systems": ("note", "of system image GUIDs, vendors or devices"),
}
#: Field of a node -> kind of its contradictions.
_NODE_FIELDS = {
    "ports": "ports", "description": "descriptions", "lid": "LIDs", "port_guid": "systems",
    "system_guid": "systems", "vendor_id": "systems", "device_id": "systems",
}  # fmt: skip
#: Field -> values that say nothing; a LID of 0 is not assigned yet.
_UNKNOWN: dict[str, tuple[Any, ...]] = {
    "lid": (-1, 0), "peer_lid": (-1, 0), "port_guid": (None,), "guid": (None,),
    "peer_guid": (None,), "description": ("",),
}  # fmt: skip
_PORT_FIELDS = ("lid", "guid", "peer_lid", "peer_guid")

_Slot = tuple[int, int]
#: What is known of a port, and its value: GUID ("port") or LID ("lid").
_Key = tuple[str, int]


def merged(nets: Sequence[Netlist]) -> Netlist:
    """Return the records of all files as those of one.

    Raises
    ------
    InputError
        If two files describe different fabrics, a file has no GUIDs, or none lists cables.
    """
    if len(nets) == 1:
        return nets[0]
    if not any(net.whole or _lists_cables(net) for net in nets):
        names = ", ".join(net.file for net in nets)
        raise InputError(f"none of {names} lists cables; expected one that does")
    return together(nets)


def together(nets: Sequence[Netlist]) -> Netlist:
    """Return the records of all files as those of one; see `merged`, but cables are optional."""
    nets = _by_node(nets)
    for net in nets:
        if not net.real_guids:
            net.fail("has no GUIDs, so that other files cannot be merged with it; give it alone")
        if net.whole:
            net.check_ends()
    first = [net for net in nets if net.whole][:1]
    first = first or [net for net in nets if _lists_cables(net)] or list(nets)
    merger = _Merger(first[0])
    for net in [*first, *(net for net in nets if all(net is not each for each in first))]:
        merger.add(net, topology=any(net is each for each in first))
    files = ", ".join(dict.fromkeys(net.file for net in nets))
    return merger.result(files, first[0])


def _lists_cables(net: Netlist) -> bool:
    return any(port.peer for port in net.ports)


def _by_node(nets: Sequence[Netlist]) -> list[Netlist]:
    """Return the files with nodes in place of the ports and LIDs by which some name them."""
    sure = [net for net in nets if net.known_by == "node"]
    sure = sure or [net for net in nets if net.known_by == "port"][:1]
    owners: dict[_Key, NodeRecord] = {}
    doubled: set[_Key] = set()
    for net in sure:
        for node in net.nodes:
            own = (node.port_guid or node.guid) if node.kind == NodeKind.SWITCH else None
            _own(owners, doubled, node, own, node.lid)
        for port in net.ports:
            near, far = net.nodes[port.node], net._by_id.get(port.peer, -1)
            if near.kind != NodeKind.SWITCH:
                _own(owners, doubled, near, port.guid, port.lid)
            if far >= 0 and net.nodes[far].kind != NodeKind.SWITCH:
                _own(owners, doubled, net.nodes[far], port.peer_guid, port.peer_lid)
    for key in doubled:
        del owners[key]
    adapters = {n.guid: n for net in sure for n in net.nodes if n.kind != NodeKind.SWITCH}
    return [
        net if any(net is each for each in sure) else _translated(net, owners, adapters)
        for net in nets
    ]


def _own(
    owners: dict[_Key, NodeRecord], doubled: set[_Key], node: NodeRecord, guid: int | None, lid: int
) -> None:
    """Note that a node has a port of this GUID or LID, if there are any."""
    for key in (("port", guid or 0), ("lid", lid)):
        if key[1] > 0 and owners.setdefault(key, node).guid != node.guid:
            doubled.add(key)


def _translated(
    net: Netlist, owners: Mapping[_Key, NodeRecord], adapters: Mapping[int, NodeRecord]
) -> Netlist:
    """Return the records of a file that names nodes by port or LID, as far as these are known.

    An adapter of which no file tells port GUIDs has those that are usual, if its name is the same.
    """
    ports_of: list[list[int]] = [[] for _ in net.nodes]
    usual: list[list[int]] = [[] for _ in net.nodes]
    for port in net.ports:
        ports_of[port.node].append(port.guid or 0)
        if port.guid:
            # Of adapters with one port, the next GUID may be that of the next adapter.
            usual[port.node] += [port.guid, port.guid - port.port]
    new = replace(net, nodes=[], ports=[], _by_id={}, _by_guid={}, known_by="node")
    number = []
    for node, guids, likely in zip(net.nodes, ports_of, usual, strict=True):
        keys = [node.lid] if net.known_by == "lid" else [node.guid, *guids]
        found = (owners.get((net.known_by, key)) for key in keys)
        owner = next((each for each in found if each), None)
        if owner is None and net.known_by == "port":
            named = (adapters[guid] for guid in likely if guid in adapters)
            owner = next((each for each in named if each.description == node.description), node)
        if owner and owner.guid not in new._by_guid:
            lid = node.lid if owner.kind == NodeKind.SWITCH else -1
            new.add_node(
                replace(node, kind=owner.kind, ports=owner.ports or node.ports, id=owner.id,
                        guid=owner.guid, lid=lid)
            )  # fmt: skip
        number.append(new._by_guid[owner.guid] if owner else -1)
    lost = []
    for port in net.ports:
        at, far = number[port.node], number[net._by_id[port.peer]] if port.peer else -1
        if port.peer and min(at, far) < 0:
            ends = (net.nodes[port.node].id, port.port), (port.peer, port.peer_port)
            lost.append(" to ".join(f"{name}[{end}]" for name, end in sorted(ends)))
        if at >= 0:
            switch = new.nodes[at].kind == NodeKind.SWITCH
            new.ports.append(
                port._replace(node=at, peer=new.nodes[far].id if far >= 0 else "",
                              lid=-1 if switch else port.lid)
            )  # fmt: skip
    if lost:
        new.whole = False
        cables = list(dict.fromkeys(lost))
        what = "left out, of LIDs that are not those of one node in another file"
        warn_of(
            net.file, cables, "cable", what, kind="lost cables", severity="warning",
            lost=len(cables),
        )  # fmt: skip
    return new


@dataclass
class _Merger:
    """The records so far: nodes by GUID, ports and cables by GUID and port."""

    first: Netlist
    nodes: dict[int, NodeRecord] = field(default_factory=dict)
    ports: dict[_Slot, PortRecord] = field(default_factory=dict)
    peer: dict[_Slot, _Slot] = field(default_factory=dict)

    def add(self, net: Netlist, topology: bool) -> None:
        """Add the records of a file; only those of a topology add nodes and cables."""
        self.said: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        guids = [node.guid for node in net.nodes]
        if not topology and guids and self.nodes.keys().isdisjoint(guids):
            net.fail(f"has no node in common with {self.first.file}: they describe two fabrics")
        for node in net.nodes:
            self._add_node(node, topology)
        cables: dict[_Slot, _Slot] = {}
        for port in net.ports:
            far = net._by_id.get(port.peer, -1)
            slot = guids[port.node], port.port
            if port.peer and far < 0:
                net.fail(
                    f"the cable leads to node {port.peer!r}, which has no record; "
                    "the file may be cut short", port.line,
                )  # fmt: skip
            end = (guids[far], port.peer_port) if far >= 0 else slot
            if far >= 0 and cables.setdefault(slot, end) != end:
                net.fail(f"{self._slot(slot)} leads to two other ports", port.line)
            self._add_port(slot, port, topology)
        lost = self._add_cables(cables, topology, net)
        for kind, items in self.said.items():
            severity, what = _KINDS[kind]
            warn_of(
                net.file, items, "contradiction",
                f"to {self.first.file} {what}; {self.first.file} holds",
                kind=f"contradiction {what}", severity=severity,
                lost=lost if "cables" in kind else 0,
            )  # fmt: skip

    def _add_node(self, node: NodeRecord, topology: bool) -> None:
        known = self.nodes.get(node.guid)
        if known is None:
            if topology:
                self.nodes[node.guid] = replace(node)
            else:
                self.said["nodes"].append(_name(node))
            return
        if known.kind != node.kind:
            self.said["systems"].append(f"{_name(known)} is a {node.kind.name.lower()}")
        for name, kind in _NODE_FIELDS.items():
            unknown = _UNKNOWN.get(name, (0,))
            old, new = getattr(known, name), getattr(node, name)
            if old in unknown and new not in unknown:
                setattr(known, name, new)
                if name == "lid":
                    known.lmc = node.lmc
            elif new not in (*unknown, old):
                form = "#x" if isinstance(new, int) and name not in ("ports", "lid") else ""
                self.said[kind].append(f"{_name(known)}: {old:{form}} and {new:{form}}")

    def _add_port(self, slot: _Slot, port: PortRecord, topology: bool) -> None:
        known = self.ports.get(slot)
        if known is None:
            if slot[0] in self.nodes:
                self.ports[slot] = port
            return
        changed: dict[str, Any] = {}
        rate = tuple(b if a < 0 else a for a, b in zip(known.rate, port.rate, strict=True))
        if rate != known.rate:
            changed["rate"] = rate
        if any(a != b for a, b in zip(rate, port.rate, strict=True) if b >= 0):
            self.said["rates"].append(
                f"{self._slot(slot)}: {_rate(known.rate)} and {_rate(port.rate)}"
            )
        for name in _PORT_FIELDS:
            unknown = _UNKNOWN[name]
            old, new = getattr(known, name), getattr(port, name)
            if old in unknown and new not in unknown:
                changed[name] = new
                if name == "lid":
                    changed["lmc"] = port.lmc
            elif name == "lid" and new not in (*unknown, old):
                self.said["LIDs"].append(f"{self._slot(slot)}: {old} and {new}")
        if changed:
            self.ports[slot] = known._replace(**changed)

    def _add_cables(self, cables: dict[_Slot, _Slot], topology: bool, net: Netlist) -> int:
        """Add or compare the cables of a file; return the number of those that are left out."""
        lost = 0
        for slot, far in sorted(cables.items()):
            known = self.peer.get(slot)
            if known == far or (slot > far and cables.get(far) == slot):
                continue  # as known, or said at the other end
            other = self.peer.get(far)
            if topology and known is None and other is None:
                self.peer[slot], self.peer[far] = far, slot
                continue
            lost += 1
            text = f"{self._slot(slot)} to {self._slot(far)}"
            if known is not None:
                self.said["cables"].append(f"{text} and to {self._slot(known)}")
            elif other is not None:
                self.said["cables"].append(
                    f"{self._slot(far)} to {self._slot(slot)} and to {self._slot(other)}"
                )
            else:
                self.said["absent cables"].append(f"{text} only in {net.file}")
        if net.whole and not topology:
            for slot, far in sorted(self.peer.items()):
                if slot < far and slot not in cables and far not in cables:
                    self.said["absent cables"].append(
                        f"{self._slot(slot)} to {self._slot(far)} only in {self.first.file}"
                    )
        return lost

    def _slot(self, slot: _Slot) -> str:
        node = self.nodes.get(slot[0])
        return f"{_name(node) if node else f'{slot[0]:#x}'}[{slot[1]}]"

    def result(self, file: str, like: Netlist) -> Netlist:
        """Return the records; ports that no file describes at one end are listed there, too."""
        net = Netlist(file, like.default_rate, whole=like.whole, known_by=like.known_by)
        for guid, node in self.nodes.items():
            if node.id in net._by_id:
                node.id = guid_id(node.kind, guid)
            net.add_node(node)
        for (guid, number), (far, far_port) in self.peer.items():
            at = net._by_guid[guid]
            port = self.ports.get((guid, number)) or PortRecord(0, at, number)
            # What a port says of itself holds against what is said at the other end.
            own = self.ports.get((far, far_port))
            switch = self.nodes[far].kind == NodeKind.SWITCH
            lid = self.nodes[far].lid if switch else own.lid if own else -1
            own_guid = self.nodes[far].port_guid if switch else own.guid if own else None
            net.ports.append(
                port._replace(
                    node=at, peer=net.nodes[net._by_guid[far]].id, peer_port=far_port,
                    peer_lid=port.peer_lid if lid < 0 else lid,
                    peer_guid=port.peer_guid if own_guid is None else own_guid,
                )
            )  # fmt: skip
        return net


def _name(node: NodeRecord) -> str:
    return node.description.strip() or node.id


def _rate(rate: tuple[int, int]) -> str:
    width, speed = rate
    if min(rate) < 0:
        return "a part of a rate"
    return RATE_NAMES[1 + speed * len(WIDTHS) + width]
