"""Reader of records of the subnet administration as ``saquery`` prints them."""

from __future__ import annotations

import re
from collections import Counter

from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics import DEFAULT_RATE, NodeKind
from weft.fabrics.formats.diags import TYPES, entries, has_line, rate_of, warn_absent
from weft.fabrics.formats.format_registry import reader, warn
from weft.fabrics.formats.merge import together
from weft.fabrics.formats.netlist import MAX_LID, MAX_PORTS, Netlist, NodeRecord, PortRecord
from weft.fabrics.formats.records import node_record, shown

#: Kind of record -> fields that it must have.
_FIELDS = {
    "NodeRecord": ("lid", "node_type", "num_ports", "node_guid", "port_guid", "port_num"),
    "PortInfoRecord": ("EndPortLid", "PortNum"),
    "LinkRecord": ("FromLID", "FromPort", "ToPort", "ToLID"),
}
_KIND_OF = {field: kind for kind, fields in _FIELDS.items() for field in fields}
#: Fields with the speed of a lane; the first one that has one holds.
_SPEED_FIELDS = ("ExtActive2", "ExtActive", "Active")
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|\d{1,19}", re.ASCII)
_LINE = re.compile(
    r"(?P<kind>\w+ ?Record)(?: group| member)? dump:"
    r"|\s*+(?:(?P<name>NodeDescription)\.{9}|(?P<key>\w+):?\.++)(?P<value>.*)|\s+\S.*",
    re.ASCII,
)


@reader("saquery", suffixes=(".saquery",), sniff=has_line(f"(?:{'|'.join(_FIELDS)}) dump:"))
def read(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """Records of ``saquery``: nodes (``NR``), ports (``PIR``) and links (``LR``), in any order.

    Ports and links name nodes by their LIDs, so node records are needed, or another file that has
    LIDs and GUIDs. Other records are counted in a `FormatWarning`.

    Parameters
    ----------
    rate
        Rate of cables whose port records are missing.

    Raises
    ------
    InputError
        If a line is not one of a record, or a record lacks a field or contradicts another.
    """
    records = _Records(file, rate)
    for line, match in entries(text, file, "", _LINE, "a record of saquery"):
        if match["kind"]:
            records.end()
            records.line, records.kind = line, match["kind"].replace(" ", "")
        elif key := match["name"] or match["key"]:
            records.take(line, key, match["value"])
    records.end()
    return records.net()


class _Records:
    """Records so far: `nodes` by GUID, `ports` by LID, and the fields of the present record."""

    def __init__(self, file: str, rate: str):
        self.nodes = Netlist(file, rate, whole=False)
        self.ports = Netlist(file, rate, known_by="lid")
        self.at: dict[tuple[int, int], int] = {}
        #: Nodes from which link records lead, and to which they lead.
        self.listed: set[int] = set()
        self.reached: set[int] = set()
        self.others: Counter[str] = Counter()
        self.line, self.kind = 0, ""
        self.fields: dict[str, str] = {}

    def take(self, line: int, key: str, value: str) -> None:
        """Take a field of the present record."""
        if not self.kind or key in self.fields or _KIND_OF.get(key, self.kind) != self.kind:
            self.nodes.fail(f"{key} is not one of the record above; its first line is lost", line)
        self.fields[key] = value.strip()

    def end(self) -> None:
        """Take the present record, which has ended."""
        fields, self.fields = self.fields, {}
        if self.kind not in _FIELDS:
            self.others[self.kind] += bool(self.kind)
            return
        for key in _FIELDS[self.kind]:
            if key not in fields:
                self.nodes.fail(f"this {self.kind} has no {key}; the file may be cut", self.line)
        self._fields = fields
        {"NodeRecord": self._node, "PortInfoRecord": self._port, "LinkRecord": self._link}[
            self.kind
        ]()

    def _number(self, key: str) -> int:
        text = self._fields.get(key, "0")
        if not _NUMBER.fullmatch(text):
            self.nodes.fail(f"{key} {shown(text)} is not a number", self.line)
        return int(text, 0 if text.startswith("0x") else 10)

    def _node(self) -> None:
        net, number = self.nodes, self._number
        node_type = TYPES.get(self._fields["node_type"])
        if node_type is None:
            net.fail(f"unknown type of node {shown(self._fields['node_type'])}", self.line)
        guid, vendor, device = number("node_guid"), number("vendor_id"), number("device_id")
        name = self._fields.get("NodeDescription", "")
        if guid not in net._by_guid:
            net.add_node(
                node_record(
                    self.line, node_type, guid, name, number("num_ports"), lid=number("lid"),
                    port_guid=number("port_guid"), system_guid=number("sys_guid"),
                    vendor_id=vendor, device_id=device,
                )
            )  # fmt: skip
        if node_type != "Switch":
            at, lid = net._by_guid[guid], net.lid(number("lid"), 0, self.line)
            port = number("port_num")
            net.ports.append(PortRecord(self.line, at, port, lid=lid, guid=number("port_guid")))

    def _at(self, lid: int, port: int) -> int:
        """Return the index of the record of a port; all ports of a LID are those of one node."""
        net = self.ports
        if not 0 < lid <= MAX_LID or not 0 < port <= MAX_PORTS:
            net.fail(f"LID {lid}, port {port} is not a port of a node", self.line)
        if lid not in net._by_guid:
            net.add_node(NodeRecord(self.line, NodeKind.HOST, 1, f"LID {lid}", lid, "", lid))
        node = net._by_guid[lid]
        net.nodes[node].ports = max(net.nodes[node].ports, port)
        at = self.at.setdefault((lid, port), len(net.ports))
        if at == len(net.ports):
            net.ports.append(PortRecord(self.line, node, port))
        return at

    def _port(self) -> None:
        lid, port = self._number("EndPortLid"), self._number("PortNum")
        if port == 0:
            return
        at, fields = self._at(lid, port), self._fields
        width = fields.get("LinkWidthActive", "")
        speeds = [fields.get(f"LinkSpeed{kind}", "") for kind in _SPEED_FIELDS]
        words = [rate_of(width, speed) for speed in speeds]
        known = [text for text in words if not text.endswith("?")] or words
        text = "??" if fields.get("LinkState") == "Down" else known[0]
        self.ports.ports[at] = self.ports.ports[at]._replace(
            rate=self.ports.rate(text, self.line), lid=lid, lmc=self._number("LMC")
        )

    def _link(self) -> None:
        numbers = [self._number(key) for key in _FIELDS["LinkRecord"]]
        lid, port, far_port, far = numbers
        ports, at = self.ports.ports, self._at(lid, port)
        self.reached.add(ports[self._at(far, far_port)].node)
        before, name = ports[at], f"LID {far}"
        if before.peer and (before.peer, before.peer_port) != (name, far_port):
            self.ports.fail(
                f"port {port} of LID {lid} leads to port {far_port} of LID {far} here, but to "
                f"another in line {before.line}",
                self.line,
            )
        ports[at] = before._replace(line=self.line, peer=name, peer_port=far_port)
        self.listed.add(ports[at].node)

    def net(self) -> Netlist:
        """Return the records of the file."""
        if others := {kind: count for kind, count in self.others.items() if kind}:
            names = [f"{count} {kind}" for kind, count in others.items()]
            warn(
                self.nodes.file,
                f"{count_text(sum(others.values()), 'record')} of kinds that are not read: "
                f"{few(names)}",
                kind="other records", items=tuple(names),
            )  # fmt: skip
        absent = self.reached - self.listed
        self.ports.mirror(absent)
        self.ports.whole = bool(self.listed) and not absent
        warn_absent(self.ports, absent)
        nets = [net for net in (self.nodes, self.ports) if net.nodes]
        if not nets:
            self.nodes.fail("has no records of nodes (NR), ports (PIR) or links (LR)")
        return nets[0] if len(nets) == 1 else together(nets)
