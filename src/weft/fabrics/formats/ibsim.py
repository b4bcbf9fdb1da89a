"""Reader and writer of net files of ``ibsim``, the InfiniBand simulator."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.core.counts import count_text
from weft.core.errors import NotApplicable
from weft.core.words import few
from weft.fabrics import DEFAULT_RATE, Fabric, NodeKind
from weft.fabrics.formats.format_registry import reader, warn, writer
from weft.fabrics.formats.netlist import Netlist, NodeRecord, PortRecord
from weft.fabrics.formats.records import (
    GROUPING,
    GUID_KEYS,
    HEADER,
    HEADER_COMMENT,
    MAX_LINE,
    NET_FILE_MARK,
    PORT,
    RecordWriter,
    is_ibsim,
    kind_of,
    lines_of,
    shown,
)

#: Longest node id in ibsim, and longest id of a host as the value of SIM_HOST, in bytes.
MAX_ID = 64
_MAX_HOST = 31
#: Characters that an id must not contain.
_RESERVED = re.compile('[#@"\x00-\x1f\x7f]')

_KEY = re.compile(
    r"(switchguid|caguid|hcaguids|rtguid|vendid|devid|sysimgguid|width|speed|extspeed)\s*+([=+])"
    r"\s*+(?:0x([0-9a-fA-F]{1,16})|(\d{1,20}))(?:\(([0-9a-fA-F]{1,16})\))?\s*+(?:#.*)?"
)
_MODULE = re.compile(r'module\s*+=\s*+"([^"]*)"\s*+(?:#.*)?')
_REFUSED = re.compile(r"include\b|do\b|pdebug\b|@")
_OWN_LID = re.compile(r"lid (\d{1,5})(?: lmc (\d{1,2}))?")
#: The rate follows the last "lid" that has no quote after it, as in ibsim.
_PEER_RATE = re.compile(r'lid \d{1,5} ((?:\d{1,2}x|\?)\S++)[^"]*+$')

#: First GUIDs that ibsim assigns to nodes without GUIDs.
_FIRST_GUID = {"Switch": 0x200000, "Ca": 0x100000, "Rt": 0}
#: Bits of `w=`, `s=` and `e=` from the fastest to the slowest.
_WIDTH_BITS = ((8, 12), (4, 8), (2, 4), (16, 2), (1, 1))
_EXTENDED_BITS = ((8, "NDR"), (4, "HDR"), (2, "EDR"), (1, "FDR"))
_SPEED_BITS = ((4, "QDR"), (2, "DDR"), (1, "SDR"))


@reader("ibsim", suffixes=(".net", ".ibsim"), sniff=is_ibsim)
def read(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """Net file of ``ibsim``.

    Nodes without a GUID get the GUID that ibsim assigns: from 0x200000 in steps of 1 for switches,
    from 0x100000 in steps of ports + 1 for adapters. A cable's rate is read from the comments
    that ibnetdiscover writes, else from the options ``w=``, ``s=`` and ``e=`` or the lines
    ``width=``, ``speed=`` and ``extspeed=``. ``include``, ``do``, ``pdebug`` and port aliases are
    refused.

    Parameters
    ----------
    rate
        Rate of cables for which the file states none; ibsim itself uses 4xSDR.

    Raises
    ------
    InputError
        If a line is invalid; the message names file and line.
    """
    return _IbsimReader(file, rate).read(text)


class _IbsimReader:
    """Parser state between the lines of one file, as in ibsim."""

    def __init__(self, file: str, rate: str):
        self.net = Netlist(file, rate)
        self.module = ""
        self.next_guid = dict(_FIRST_GUID)
        self.base_guid = dict(_FIRST_GUID)
        self.once = {"vendid": 0, "sysimgguid": 0}
        self.port_guid: int | None = None
        self.kept = {"devid": 0, "width": 0, "speed": 0, "extspeed": 0}
        #: Number of ports that the current record may still list.
        self.open = 0
        self.in_record = False
        #: Index in net.ports -> enabled (width, speed, extended speed) bits, 0 where not stated.
        self.enabled: dict[int, tuple[int, int, int]] = {}

    def read(self, text: str) -> Netlist:
        for number, line in enumerate(lines_of(text), 1):
            if len(line) > MAX_LINE:
                self.net.fail(f"the line is longer than {MAX_LINE} characters", number)
            self.take(number, line)
        self.settle_rates()
        return self.net

    def take(self, number: int, line: str) -> None:
        match = PORT.fullmatch(line)
        if match:
            self.take_port(number, match)
        elif line.startswith("#"):
            pass
        elif not line:
            self.in_record = False
        elif line.startswith("["):
            self.net.fail(
                f'malformed port line {shown(line)}; expected [port] "peer"[port] without a space '
                f"before the peer's port",
                number,
            )
        elif self.in_record and self.open:
            self.net.fail(
                f"expected a port line or the blank line that ends a record, found {shown(line)}; "
                f"ibsim would skip this line",
                number,
            )
        elif (match := HEADER.fullmatch(line)) and match["gap"]:
            self.take_header(number, match)
        elif match := _KEY.fullmatch(line):
            self.take_key(number, match)
        elif match := _MODULE.fullmatch(line):
            self.module = match[1]
            if len(self.module.encode()) > 20 or _RESERVED.search(self.module):
                self.net.fail(f"{self.module!r} is not a module name of at most 20 bytes", number)
        elif GROUPING.fullmatch(line):
            pass
        elif match := _REFUSED.match(line):
            self.net.fail(
                f"{match[0]!r} is not supported: weft reads one file and runs no commands; expand "
                f"the file first",
                number,
            )
        else:
            self.net.fail(
                f"expected a record of an ibsim net file (Switch, Ca, Hca or Rt, then one line "
                f"per port) or a setting, found {shown(line)}",
                number,
            )

    def take_key(self, number: int, match: re.Match[str]) -> None:
        key, sign, hexadecimal, decimal, port_guid = match.groups()
        value = int(hexadecimal, 16) if hexadecimal else int(decimal)
        if key.endswith(("guid", "guids")) and key != "sysimgguid":
            node_type = {"s": "Switch", "c": "Ca", "h": "Ca", "r": "Rt"}[key[0]]
            if sign == "=":
                self.base_guid[node_type], value = value, 0
            self.next_guid[node_type] = self.base_guid[node_type] + value
            if node_type == "Switch":
                self.port_guid = int(port_guid, 16) if port_guid else None
        elif sign == "+":
            self.net.fail(f"{key} must be set with '=', not '+'", number)
        elif key in self.once:
            self.once[key] = value
        else:
            most = {"width": 31, "speed": 7, "extspeed": 15}.get(key)
            if most is not None and not 1 <= value <= most:
                self.net.fail(f"{key}={value} is out of range; expected 1 to {most}", number)
            self.kept[key] = value

    def take_header(self, number: int, match: re.Match[str]) -> None:
        node_type = "Ca" if match["type"] == "Hca" else match["type"]
        node_id, ports = match["id"], int(match["ports"])
        if not node_id or _RESERVED.search(node_id) or len(node_id.encode()) > MAX_ID:
            self.net.fail(
                f"node id {node_id!r} is invalid in ibsim; expected 1 to {MAX_ID} bytes without "
                f"# @ or control characters",
                number,
            )
        if self.module:
            node_id = f"{self.module}#{node_id}"
        description, rest = _description(match["comment"] or "")
        lid = re.search(r"lid (\d{1,5})", rest)
        lmc = re.search(r"lmc (\d{1,2})", rest)
        vendor, device = self.once["vendid"], self.kept["devid"]
        guid = self.next_guid[node_type]
        self.net.add_node(
            NodeRecord(
                line=number,
                kind=kind_of(node_type, description or "", vendor, device),
                ports=ports,
                id=node_id,
                guid=guid,
                description=node_id if description is None else description,
                lid=int(lid[1]) if lid and node_type == "Switch" else -1,
                lmc=int(lmc[1]) if lmc and node_type == "Switch" else 0,
                port_guid=self.port_guid if node_type == "Switch" else None,
                system_guid=self.once["sysimgguid"],
                vendor_id=vendor,
                device_id=device,
            )
        )
        if node_type == "Switch":
            self.port_guid = None
        self.next_guid[node_type] = guid + (1 if node_type == "Switch" else ports + 1)
        self.once = dict.fromkeys(self.once, 0)
        self.in_record, self.open = True, ports

    def take_port(self, number: int, match: re.Match[str]) -> None:
        net = self.net
        if not self.in_record:
            net.fail("a port line outside a record; expected a Switch, Ca or Rt line first", number)
        node = net.nodes[-1]
        peer, comment = match["peer"], match["comment"] or ""
        if "@" in peer:
            net.fail(f"port alias {peer!r} is not supported; expected a node id", number)
        if self.module and "#" not in peer:
            peer = f"{self.module}#{peer}"
        own = _OWN_LID.search(comment) if node.kind != NodeKind.SWITCH else None
        lmc = int(own[2] or 0) if own else 0
        rate = _PEER_RATE.search(comment)
        options = dict(part.split("=") for part in match["options"].split())
        limits = {"w": 31, "s": 7, "e": 15}
        bits = {key: int(value) for key, value in options.items()}
        for key, value in bits.items():
            if value > limits[key]:
                net.fail(f"{key}={value} is out of range; expected at most {limits[key]}", number)
        mask = (
            bits.get("w", self.kept["width"]),
            bits.get("s", self.kept["speed"]),
            bits.get("e", self.kept["extspeed"]),
        )
        if any(mask):
            self.enabled[len(net.ports)] = mask
        net.ports.append(
            PortRecord(
                number,
                len(net.nodes) - 1,
                int(match["port"]),
                peer,
                int(match["peer_port"] or 1),
                net.rate(rate[1] if rate else "??", number),
                net.lid(int(own[1]), lmc, number) if own else -1,
                lmc,
                int(match["guid"], 16) if match["guid"] else None,
                -1,
                int(match["peer_guid"], 16) if match["peer_guid"] else None,
            )
        )
        self.open -= 1

    def settle_rates(self) -> None:
        """Set the fastest rate that both ends enable on cables without a rate in a comment."""
        if not self.enabled:
            return
        net = self.net
        listing = {(net.nodes[p.node].id, p.port): at for at, p in enumerate(net.ports)}
        for at, mask in self.enabled.items():
            port = net.ports[at]
            other = listing.get((port.peer, port.peer_port), -1)
            if -1 not in port.rate or (other >= 0 and -1 not in net.ports[other].rate):
                continue
            peer_mask = self.enabled.get(other, (0, 0, 0))
            # Defaults of ibsim: 4x, SDR, no extended speed.
            width, speed, extended = (
                (own or default) & (other_end or default)
                for own, other_end, default in zip(mask, peer_mask, (2, 1, 0), strict=True)
            )
            wide = next((lanes for bit, lanes in _WIDTH_BITS if width & bit), None)
            fast = next(
                (
                    name
                    for have, names in ((extended, _EXTENDED_BITS), (speed, _SPEED_BITS))
                    for bit, name in names
                    if have & bit
                ),
                None,
            )
            if wide is None or fast is None:
                net.fail("the ends of this cable enable no width and speed in common", port.line)
            enabled = net.rate(f"{wide}x{fast}", port.line)
            width, speed = (
                own if own >= 0 else both for own, both in zip(port.rate, enabled, strict=True)
            )
            net.ports[at] = port._replace(rate=(width, speed))


def _description(comment: str) -> tuple[str | None, str]:
    """Return the description in the comment of a record's header, and the rest of the comment."""
    match = HEADER_COMMENT.fullmatch(comment)
    if match:
        return match["description"], comment[match.end("description") :]
    if comment.startswith('"'):
        text, _, rest = comment[1:].partition('"')
        return text, rest
    cut = re.search(r"(?:^| )(?:enhanced port|base port|lid|lmc) ", comment)
    text = comment[: cut.start()] if cut else comment
    return text or None, comment[len(text) :]


@writer("ibsim", suffixes=(".net", ".ibsim"))
def write(fabric: Fabric) -> str:
    """Net file for ``ibsim``, with the rates of the cables.

    Node ids are the labels where ibsim allows them (no ``#``, ``@`` or ``"``, at most 64 bytes, for
    hosts 31), else the ids that ibnetdiscover makes from the GUIDs. The GUIDs are the fabric's; a
    `FormatWarning` counts the ports to which ibsim assigns other GUIDs (see `simulated`).

    Raises
    ------
    NotApplicable
        If ``ibnetdiscover`` cannot hold the fabric either, or a label equals the id made from the
        GUID of another node.
    """
    out = RecordWriter(fabric, "ibsim")
    ids = list(fabric.node_names)
    unfit = [
        node
        for node, label in enumerate(ids)
        if not label
        or _RESERVED.search(label)
        or len(label.encode("utf-8", "replace"))
        > (_MAX_HOST if fabric.node_kind[node] == NodeKind.HOST else MAX_ID)
    ]
    for node in unfit:
        ids[node] = out.ids[node]
    if len(set(ids)) < len(ids):
        raise NotApplicable("a label equals the id made from the GUID of another node")
    if unfit:
        warn(
            fabric.name,
            f"ids made from GUIDs replace {count_text(len(unfit), 'label')} that ibsim does not "
            f"take: {few([repr(fabric.node_names[node]) for node in unfit])}",
        )
    out.ids = ids
    other = np.count_nonzero(_node_guids(fabric) != fabric.node_guid[fabric.endpoint_node])
    if other:
        warn(
            fabric.name,
            f"ibsim assigns other GUIDs than the file to {other} adapter ports: node GUID + port "
            "number",
        )
    out.lines.append(f"{NET_FILE_MARK}: generated by weft")
    devices = bool(fabric.device_id.any())
    for node in range(fabric.num_nodes):
        out.lines.append("")
        for key, value, wanted in (
            ("vendid", int(fabric.vendor_id[node]), False),
            ("devid", int(fabric.device_id[node]), devices),
            ("sysimgguid", int(fabric.system_guid[node]), False),
            (GUID_KEYS[out.types[node]], int(fabric.node_guid[node]), True),
        ):
            if value or wanted:
                out.lines.append(f"{key}={value:#x}")
        if fabric.node_kind[node] == NodeKind.SWITCH:
            out.lines[-1] += f"({out.guids[node, 0]:x})"
        out.record(node)
    return out.text()


def simulated(fabric: Fabric) -> Fabric:
    """Return the fabric with node GUIDs from which ibsim derives the fabric's port GUIDs.

    ibsim ignores the port GUIDs in a net file: port p of an adapter gets the adapter's node
    GUID + p, and port 0 of a switch gets the switch's node GUID. OpenSM's files identify ports by
    port GUID, so the port GUIDs are kept and the node GUIDs of adapters are changed where they do
    not match.

    Returns the fabric with the same numbers of nodes, ports and destinations; `fabric` itself if
    all GUIDs match.

    Source: ``init_ports`` and ``new_node`` of ibsim 0.10.
    """
    switches = fabric.num_switches
    first = fabric.port_offset[:switches]
    odd = np.flatnonzero(fabric.num_ports[:switches] > 0)
    odd = odd[fabric.port_guid[first[odd]] != fabric.node_guid[odd]]
    for switch in odd[:1]:
        raise NotApplicable(
            f"ibsim cannot simulate {fabric.name}: port 0 of a switch must have the node GUID, but "
            f"{fabric.node_names[switch]} has {fabric.port_guid[first[switch]]:#018x} there and "
            f"the node GUID {fabric.node_guid[switch]:#018x}"
        )
    wanted = _node_guids(fabric)
    guids = fabric.node_guid.copy()
    # Derive the node GUID of an adapter without a cable from its first port, so that it differs
    # from the changed GUIDs of other adapters.
    alone = np.setdiff1d(np.arange(switches, fabric.num_nodes), fabric.endpoint_node)
    alone = alone[fabric.num_ports[alone] > 0]
    guids[alone] = fabric.port_guid[fabric.port_offset[alone]] - np.uint64(1)
    guids[fabric.endpoint_node] = wanted
    for end in np.flatnonzero(guids[fabric.endpoint_node] != wanted)[:1]:
        node = fabric.endpoint_node[end]
        raise NotApplicable(
            f"ibsim cannot simulate {fabric.name}: port p of an adapter must have the GUID node "
            f"GUID + p, but the port GUIDs of {fabric.node_names[node]} match no node GUID"
        )
    order = np.argsort(guids, kind="stable")
    for at in np.flatnonzero(guids[order][1:] == guids[order][:-1])[:1]:
        names = " and ".join(fabric.node_names[node] for node in order[at : at + 2])
        raise NotApplicable(
            f"ibsim cannot simulate {fabric.name}: port p of an adapter must have the GUID node "
            f"GUID + p, which gives {names} the same node GUID"
        )
    return fabric if np.array_equal(guids, fabric.node_guid) else replace(fabric, node_guid=guids)


def _node_guids(fabric: Fabric) -> NDArray[np.uint64]:
    """Return the node GUID from which ibsim derives each endpoint's port GUID, uint64."""
    slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    guids: NDArray[np.uint64] = fabric.port_guid[slots] - fabric.endpoint_port.astype(np.uint64)
    return guids
