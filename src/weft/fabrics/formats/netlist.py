"""Nodes and ports as the records of a file list them, and the fabric made from them.

ibnetdiscover and ibsim describe a fabric by one record per node that lists its cabled ports; each
cable is in the records of both its ends. `Netlist` collects the records of one file and joins the
ends, or reports where they contradict each other. Other formats know less; what several files say
of one fabric is merged by `weft.fabrics.formats.merge`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.units import LANE_RATE_GBPS, RATE_NAMES, WIDTHS, parse_rate, rate_code, rate_gbps
from weft.core.words import few
from weft.fabrics import DEFAULT_RATE, Fabric, NodeKind, Parts
from weft.fabrics.formats.format_registry import ASSUMED_RATE, warn, warn_of
from weft.fabrics.formats.labels import choose_labels
from weft.fabrics.parts import cable_latency_ns

#: Largest unicast LID.
MAX_LID = 0xBFFF
#: LID that ports may show, instead of 0, before a subnet manager has configured them.
PERMISSIVE_LID = 0xFFFF
#: Largest number of ports of a node: port numbers have 8 bits, and 255 means all ports.
MAX_PORTS = 254

_GUID_MASK = (1 << 64) - 1
#: Rate of which a half is unknown, as ibnetdiscover prints it: ``4x???``, ``??EDR``.
_HALF = re.compile(
    rf"(?:({'|'.join(map(str, WIDTHS))})x\?+|\?+x?({'|'.join(LANE_RATE_GBPS)})?)", re.IGNORECASE
)
_UNKNOWN = -1
#: Index of the width, and of the speed, in the order of `RATE_NAMES`; -1 if unknown.
Rate = tuple[int, int]


@dataclass
class NodeRecord:
    """The header of one record; 0, -1 and None for values that the file lacks, also `ports`."""

    line: int
    kind: NodeKind
    ports: int
    id: str
    guid: int
    description: str
    lid: int = -1
    lmc: int = 0
    port_guid: int | None = None
    system_guid: int = 0
    vendor_id: int = 0
    device_id: int = 0


class PortRecord(NamedTuple):
    """One port as a record lists it; -1 and None for values that the line lacks.

    A port whose line names no other end has an empty `peer`.
    """

    line: int
    node: int
    port: int
    peer: str = ""
    peer_port: int = 0
    rate: Rate = (_UNKNOWN, _UNKNOWN)
    lid: int = -1
    lmc: int = 0
    guid: int | None = None
    peer_lid: int = -1
    peer_guid: int | None = None


@dataclass
class Netlist:
    """Records of one file."""

    #: Name of the file, for messages.
    file: str
    #: Rate of cables whose lines have none, and the half of a rate that they lack.
    default_rate: str = DEFAULT_RATE
    #: Whether the file lists all nodes and cables of the fabric. Other files say something of some.
    whole: bool = True
    #: Whether nodes have the GUIDs of real ones, so that other files can say more of them.
    real_guids: bool = True
    #: What the GUIDs are those of: nodes; switches and ports of adapters; or LIDs stand for them.
    known_by: Literal["node", "port", "lid"] = "node"
    nodes: list[NodeRecord] = field(default_factory=list)
    ports: list[PortRecord] = field(default_factory=list)
    _by_id: dict[str, int] = field(default_factory=dict)
    _by_guid: dict[int, int] = field(default_factory=dict)
    _rates: dict[str, Rate] = field(default_factory=dict)

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Refuse the file with a message."""
        raise InputError(message, file=self.file, line=line)

    def add_node(self, record: NodeRecord) -> None:
        """Add the header of the next record."""
        if not 0 <= record.ports <= MAX_PORTS or (self.whole and not record.ports):
            self.fail(
                f"{record.id} has {record.ports} ports; expected 1 to {MAX_PORTS}", record.line
            )
        first = self._by_id.get(record.id, -1)
        if first >= 0:
            self.fail(
                f"node id {record.id!r} is declared twice; the first time in line "
                f"{self.nodes[first].line}",
                record.line,
            )
        first = self._by_guid.get(record.guid, -1)
        if first >= 0:
            self.fail(
                f"{record.id!r} has the GUID {record.guid:#x} of {self.nodes[first].id!r} in line "
                f"{self.nodes[first].line}",
                record.line,
            )
        if not 0 < record.guid <= _GUID_MASK:
            self.fail(f"{record.id} has the invalid GUID {record.guid:#x}", record.line)
        for what, value in (("vendid", record.vendor_id), ("devid", record.device_id)):
            if value >> 32:
                self.fail(f"{what} {value:#x} is out of range; expected 32 bits", record.line)
        record.lid = self.lid(record.lid, record.lmc, record.line)
        self._by_id[record.id] = self._by_guid[record.guid] = len(self.nodes)
        self.nodes.append(record)

    def rate(self, text: str, line: int) -> Rate:
        """Return the rate that a line states, of which a half or all may be unknown."""
        rate = self._rates.get(text)
        if rate is None:
            half = _HALF.fullmatch(text)
            try:
                code = rate_code(f"{half[1] or 4}x{half[2] or 'SDR'}" if half else text)
            except InputError as error:
                self.fail(error.message, line)
            speed, width = divmod(code - 1, len(WIDTHS))
            if half:
                width, speed = width if half[1] else _UNKNOWN, speed if half[2] else _UNKNOWN
            rate = self._rates[text] = width, speed
        return rate

    def lid(self, lid: int, lmc: int, line: int) -> int:
        """Return a LID after checking it: 0 if none is assigned, -1 if the line has none."""
        if lid == PERMISSIVE_LID:
            return 0
        if not 0 <= lmc <= 7:
            self.fail(f"LMC {lmc} is out of range; expected 0 to 7", line)
        if lid + (1 << lmc) - 1 > MAX_LID:
            self.fail(
                f"LID {lid} with LMC {lmc} is not a unicast LID; expected at most {MAX_LID}", line
            )
        return lid

    # -- joining -----------------------------------------------------------------------------

    def mirror(self, nodes: Collection[int] | None = None) -> None:
        """List cables that the file lists at one end only at the other end, too.

        `nodes`: only at ends in these; by default in all.
        """
        listed = {(port.node, port.port): at for at, port in enumerate(self.ports)}
        for port in list(self.ports):
            far = self._by_id.get(port.peer, -1)
            if far < 0 or (nodes is not None and far not in nodes):
                continue
            at = listed.setdefault((far, port.peer_port), len(self.ports))
            if at == len(self.ports):
                self.ports.append(PortRecord(port.line, far, port.peer_port, rate=port.rate))
            if not self.ports[at].peer:
                self.ports[at] = self.ports[at]._replace(
                    peer=self.nodes[port.node].id, peer_port=port.port
                )

    def check_ends(self) -> None:
        """Refuse the file if the ends of its cables contradict each other."""
        _Ends(replace(self, ports=[port for port in self.ports if port.peer]))

    def fabric(self) -> Fabric:
        """Join both ends of every cable and return the fabric.

        A `FormatWarning` is issued for rates that are assumed, for cables whose ends have different
        rates, and for LIDs that two ports have.
        """
        if not self.nodes:
            self.fail("it has no record of a switch or adapter")
        if self.known_by == "lid":
            self.fail("names nodes by LID; add a file with LIDs and GUIDs (--also)")
        adapters = sum(node.kind != NodeKind.SWITCH for node in self.nodes)
        if self.known_by == "port" and adapters:
            warn(
                self.file,
                f"{count_text(adapters, 'adapter')} with the GUID of a port as that of the node, "
                "which is not in the file",
                kind="node GUIDs",
            )
        self.ports = [port for port in self.ports if port.peer]
        if not self.ports and not self.whole:
            self.fail("has nodes or ports, but no cables; add a file that has them (--also)")
        for port in self.ports if not self.whole else ():
            far = self._by_id.get(port.peer, -1)
            for node, number in ((port.node, port.port), (far, port.peer_port)):
                if node >= 0 and self.nodes[node].ports < number <= MAX_PORTS:
                    self.nodes[node].ports = number
        ends = _Ends(self)
        cable = np.flatnonzero(ends.slot < ends.peer_slot)
        other = ends.line_at[ends.peer_slot[cable]]
        gbps, code = self._cable_rates(cable, other, self.default_rate)
        kinds = np.array([node.kind for node in self.nodes], dtype=np.uint8)
        length = np.full(len(cable), np.nan)
        count = len(self.nodes)
        return Fabric.of(
            Parts(
                name=self.file,
                kind=kinds,
                names=choose_labels(
                    kinds.tolist(),
                    [node.id for node in self.nodes],
                    [node.description for node in self.nodes],
                ),
                ports=np.array([node.ports for node in self.nodes], dtype=np.int32),
                a_node=ends.node[cable],
                a_port=ends.port[cable],
                b_node=ends.node[other],
                b_port=ends.port[other],
                rate_gbps=gbps,
                rate_code=code,
                length_m=length,
                latency_ns=cable_latency_ns(length),
                guid=np.array([node.guid for node in self.nodes], dtype=np.uint64),
                forwards=kinds == NodeKind.SWITCH,
                level=np.full(count, -1, dtype=np.int8),
                coordinates=np.zeros((count, 0), dtype=np.int32),
                descriptions=[node.description for node in self.nodes],
                system_guid=np.array([node.system_guid for node in self.nodes], dtype=np.uint64),
                vendor_id=np.array([node.vendor_id for node in self.nodes], dtype=np.uint32),
                device_id=np.array([node.device_id for node in self.nodes], dtype=np.uint32),
                port_guid=self._port_guids(ends),
                lid=self._lids(ends),
            )
        )

    def _cable_rates(
        self, cable: NDArray[np.int64], other: NDArray[np.int64], default_rate: str
    ) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Return the rate in Gb/s and its index in `RATE_NAMES` of each cable.

        `cable`, `other`: index of the listing of either end. `default_rate`: see `fabric`.
        """
        default_gbps, default_code = parse_rate(default_rate)
        stated = np.array([port.rate for port in self.ports], dtype=np.int64).reshape(-1, 2)
        near, far = stated[cable], stated[other]
        ends = np.array([np.where(near < 0, far, near), np.where(far < 0, near, far)])
        lacking = ends[0] < 0
        # A default without a name has no halves.
        none = lacking.all(axis=1) | (lacking.any(axis=1) & (default_code == 0))
        half = np.flatnonzero(lacking.any(axis=1) & ~none)
        speed, width = divmod(max(default_code, 1) - 1, len(WIDTHS))
        ends = np.where(lacking, (width, speed), ends)
        codes = 1 + ends[:, :, 1] * len(WIDTHS) + ends[:, :, 0]
        gbps_of = np.array([0.0, *(rate_gbps(known) for known in range(1, len(RATE_NAMES)))])
        code = np.where(gbps_of[codes[0]] <= gbps_of[codes[1]], *codes)
        gbps = gbps_of[code]
        gbps[none], code[none] = default_gbps, default_code
        if none.any():
            warn(
                self.file,
                f"{none.sum()} of {count_text(len(code), 'cable')} without a rate; {default_rate} "
                "is assumed",
                kind=ASSUMED_RATE,
            )
        if len(half):
            lines = [self.ports[at].line for at in cable[half].tolist()]
            warn(
                self.file,
                f"{len(half)} of {len(code)} cables have a rate without width or without speed; "
                f"that of {default_rate} is assumed; they are in line {few(lines)}",
            )
        differ = np.flatnonzero((codes[0] != codes[1]) & ~none)
        if len(differ):
            pairs = [
                " and ".join(
                    f"{self._end(port.node, port.port)} {RATE_NAMES[known]} in line {port.line}"
                    for port, known in zip(
                        (self.ports[cable[at]], self.ports[other[at]]), codes[:, at], strict=True
                    )
                )
                for at in differ.tolist()
            ]
            warn(
                self.file,
                f"the ends of {len(differ)} of {len(code)} cables have different rates; the lower "
                f"one is used: {few(pairs)}",
            )
        return gbps, code.astype(np.uint8)

    def _port_guids(self, ends: _Ends) -> dict[tuple[int, int], int]:
        """Return the port GUIDs that are not node GUID (switch) or node GUID + port (adapter)."""
        odd: dict[tuple[int, int], int] = {}
        for number, node in enumerate(self.nodes):
            own = node.port_guid
            if own is not None and node.kind == NodeKind.SWITCH and own != node.guid:
                odd.update({(number, port): own for port in range(1, node.ports + 1)})
        used: dict[int, PortRecord] = {}
        for at, port in enumerate(self.ports):
            node = self.nodes[port.node]
            if node.kind == NodeKind.SWITCH:
                continue
            usual = (node.guid + port.port) & _GUID_MASK
            peer = self.ports[ends.line_at[ends.peer_slot[at]]]
            guid = peer.peer_guid if port.guid is None else port.guid
            if guid is None:
                guid = usual
            elif guid != usual:
                odd[port.node, port.port] = guid
            first = used.setdefault(guid, port)
            if first is not port:
                self.fail(
                    f"port GUID {guid:#x} of {node.id}[{port.port}] is also that of "
                    f"{self.nodes[first.node].id}[{first.port}] in line {first.line}",
                    port.line,
                )
        return odd

    def _lids(self, ends: _Ends) -> dict[tuple[int, int], tuple[int, int]]:
        lids: dict[tuple[int, int], tuple[int, int]] = {}
        line_of: dict[tuple[int, int], int] = {}
        for number, node in enumerate(self.nodes):
            if node.lid > 0:
                lids[number, 0], line_of[number, 0] = (node.lid, node.lmc), node.line
        for at, port in enumerate(self.ports):
            if self.nodes[port.node].kind == NodeKind.SWITCH:
                continue
            peer = self.ports[ends.line_at[ends.peer_slot[at]]]
            lid, lmc = (port.lid, port.lmc) if port.lid >= 0 else (peer.peer_lid, 0)
            if lid > 0:
                lids[port.node, port.port], line_of[port.node, port.port] = (lid, lmc), port.line
        last, owner = 0, (-1, -1)
        doubled = []
        for end, (lid, lmc) in sorted(lids.items(), key=lambda item: (item[1], item[0])):
            if lid > last:
                last, owner = lid + (1 << lmc) - 1, end
                continue
            doubled.append(
                f"LID {lid} of {self._end(*end)} (line {line_of[end]}) is also one of "
                f"{self._end(*owner)} (line {line_of[owner]})"
            )
            del lids[end]
        what = "of two ports, of which the second is left without a LID"
        warn_of(self.file, doubled, "LID", what, kind="doubled LIDs", severity="error")
        return lids

    def _end(self, node: int, port: int) -> str:
        return f"{self.nodes[node].id}[{port}]" if port else self.nodes[node].id


class _Ends:
    """The listed ports, each joined to the listing of the port at the other end of its cable.

    `net`: records whose ends must agree.
    """

    def __init__(self, net: Netlist):
        self.net = net
        listed = net.ports
        columns: list[Sequence[int]] = [
            [port.node for port in listed],
            [port.port for port in listed],
            [net._by_id.get(port.peer, -1) for port in listed],
            [port.peer_port for port in listed],
        ]
        self.node, self.port, peer, peer_port = (
            np.array(column, dtype=np.int32) for column in columns
        )
        ports = np.array([node.ports for node in net.nodes], dtype=np.int64)
        offset = np.zeros(len(ports) + 1, dtype=np.int64)
        np.cumsum(ports, out=offset[1:])

        for at in _first(peer < 0):
            net.fail(
                f"the cable leads to node {listed[at].peer!r}, which has no record; "
                f"the file may be cut short",
                listed[at].line,
            )
        for node, port in ((self.node, self.port), (peer, peer_port)):
            for at in _first((port < 1) | (port > ports[node])):
                net.fail(
                    f"{net.nodes[node[at]].id} has {ports[node[at]]} ports, but this line uses "
                    f"port {port[at]}",
                    listed[at].line,
                )
        self.slot = offset[self.node] + self.port - 1
        self.peer_slot = offset[peer] + peer_port - 1
        #: Index of the listing of each slot, -1 for a slot that is not listed.
        self.line_at = np.full(int(offset[-1]), -1, dtype=np.int64)
        self.line_at[self.slot[::-1]] = np.arange(len(listed))[::-1]
        for at in _first(self.line_at[self.slot] != np.arange(len(listed))):
            net.fail(
                f"port {self._own(at)} is listed twice; the first time in line "
                f"{listed[self.line_at[self.slot[at]]].line}",
                listed[at].line,
            )
        for at in _first(self.slot == self.peer_slot):
            net.fail(f"a cable leads from port {self._own(at)} to itself", listed[at].line)
        back = self.line_at[self.peer_slot]
        for at in _first(back < 0):
            net.fail(
                f"the cable from {self._own(at)} to {self._peer(at)} is listed only at this end: "
                f"{listed[at].peer} lists no cable in port {listed[at].peer_port}",
                listed[at].line,
            )
        for at in _first(self.peer_slot[back] != self.slot):
            net.fail(
                f"the ends of a cable disagree: here {self._own(at)} leads to {self._peer(at)}, "
                f"but in line {listed[back[at]].line} that port leads to {self._peer(back[at])}",
                listed[at].line,
            )
        for at, back_at in enumerate(back.tolist()):
            self._agree(listed[at], listed[back_at])

    def _agree(self, port: PortRecord, peer: PortRecord) -> None:
        """Check the GUID and LID that a line states for the port at the other end."""
        node = self.net.nodes[peer.node]
        switch = node.kind == NodeKind.SWITCH
        own_lid = node.lid if switch else peer.lid
        for what, stated, own in (
            ("port GUID", port.peer_guid, node.port_guid if switch else peer.guid),
            ("LID", None if port.peer_lid < 0 else port.peer_lid, None if own_lid < 0 else own_lid),
        ):
            if stated is not None and own is not None and stated != own:
                form = "#x" if what == "port GUID" else "d"
                self.net.fail(
                    f"the ends of a cable disagree: the {what} of {port.peer} is {stated:{form}} "
                    f"here, but {own:{form}} in line {node.line if switch else peer.line}",
                    port.line,
                )

    def _own(self, at: int) -> str:
        port = self.net.ports[at]
        return f"{self.net.nodes[port.node].id}[{port.port}]"

    def _peer(self, at: int) -> str:
        port = self.net.ports[at]
        return f"{port.peer}[{port.peer_port}]"


def _first(bad: NDArray[np.bool_]) -> list[int]:
    """Return a list with the index of the first bad listing; empty if there is none."""
    return [int(at) for at in np.flatnonzero(bad)[:1]]
