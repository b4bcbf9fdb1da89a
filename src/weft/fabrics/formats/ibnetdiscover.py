"""Reader and writer of the output of infiniband-diags' ``ibnetdiscover``."""

from __future__ import annotations

import re

from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics import DEFAULT_RATE, Fabric, NodeKind
from weft.fabrics.formats.diags import FATAL, MESSAGE, warn_messages
from weft.fabrics.formats.format_registry import reader, warn, writer
from weft.fabrics.formats.labels import is_guid_id
from weft.fabrics.formats.netlist import Netlist, PortRecord
from weft.fabrics.formats.records import (
    GROUPING,
    GUID_KEYS,
    HEADER,
    HEADER_COMMENT,
    KEY,
    MAX_LINE,
    PORT,
    PORT_COMMENT,
    RecordWriter,
    is_ibnetdiscover,
    lines_of,
    node_record,
    shown,
)
from weft.fabrics.formats.session import rejoined

#: Progress output of the option -s.
_PROGRESS = re.compile(
    r"DR path slid \d+; dlid \d+; [\d,]+ -> (?:new|known) [A-Za-z ]+ \{[0-9a-f]{16}\} portnum .*"
)
#: How lines begin, other than the rest of one that was wrapped.
_START = re.compile(
    r'\[\d+\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s*"|(?:Switch|Ca|Hca|Rt)\s*\d|\w+=0x'
    r'|\s*#(?!\s*(?:"|lid \d))|Chassis |Non-Chassis |Hostname: |DR path '
)
#: A comment of its own, not the rest of a line.
_COMMENT = re.compile(r'\s*#(?!\s*(?:"|lid \d))')

_TYPE_LETTER = {"Switch": "S", "Ca": "H", "Rt": "R"}


@reader("ibnetdiscover", suffixes=(".ibnetdiscover", ".topo", ".topofile"), sniff=is_ibnetdiscover)
def read(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """Output of ``ibnetdiscover``, with or without ``-g`` and ``-f``.

    Messages of the program and its libraries that were redirected into the file are skipped and
    reported as a `FormatWarning`. SHARP aggregation nodes and routers become auxiliary nodes.

    Parameters
    ----------
    rate
        Rate of cables whose lines do not state one.

    Raises
    ------
    InputError
        If a line is neither topology nor a message, or contradicts another line.
    """
    return _DiscoveryReader(file, rate).read(text)


class _DiscoveryReader:
    """Parser state between the lines of one file."""

    def __init__(self, file: str, rate: str):
        self.net = Netlist(file, rate)
        #: Key -> (value, line number), from the key lines since the last record.
        self.keys: dict[str, tuple[int, int]] = {}
        self.port_guid: int | None = None
        self.messages: list[tuple[int, str]] = []
        #: Lines in which words stand together that tabs separated.
        self.crowded: list[int] = []

    def read(self, text: str) -> Netlist:
        lines = rejoined(lines_of(text), _START, _is_complete, self.net.file)
        at = 0
        while at < len(lines):
            number, line = at + 1, lines[at]
            at += 1
            if len(line) > MAX_LINE:
                self.net.fail(f"the line is longer than {MAX_LINE} characters", number)
            if not self.take(number, line):
                at = self.take_message(lines, at)
        if self.keys:
            self.net.fail("the file ends within a record; it may be cut short", len(lines))
        warn_messages(self.net.file, self.messages)
        if self.crowded:
            warn(
                self.net.file,
                f"read without the blanks of {count_text(len(self.crowded), 'line')}, as after a "
                f"copy that lost tabs: line {few(self.crowded)}",
                kind="repaired", items=tuple(f"line {at}" for at in self.crowded),
            )  # fmt: skip
        return self.net

    def take(self, number: int, line: str) -> bool:
        """Parse a line; return False if it is not a line of topology, or contains a message."""
        match = PORT.fullmatch(line)
        if match:
            return self.take_port(number, match)
        match = HEADER.fullmatch(line)
        if match:
            return self.take_header(number, match)
        if MESSAGE.search(line):
            return False
        match = KEY.fullmatch(line)
        if match:
            self.take_key(number, match)
            return True
        return (
            not line
            or _COMMENT.match(line) is not None
            or any(form.fullmatch(line) for form in (GROUPING, _PROGRESS))
        )

    def take_key(self, number: int, match: re.Match[str]) -> None:
        key = match["key"]
        if key in self.keys:
            self.net.fail(f"{key} is given twice for one node", number)
        if match["port_guid"]:
            if key != "switchguid":
                self.net.fail(f"{key} does not allow a port GUID in parentheses", number)
            self.port_guid = int(match["port_guid"], 16)
        self.keys[key] = int(match["value"], 16), number

    def take_header(self, number: int, match: re.Match[str]) -> bool:
        node_type, node_id = match["type"], match["id"]
        if not match["gap"]:
            self.crowded.append(number)
        comment = HEADER_COMMENT.fullmatch(match["comment"] or '""')
        if not comment and MESSAGE.search(match.string):
            return False
        letter = _TYPE_LETTER.get(node_type)
        if letter is None or not is_guid_id(node_id) or node_id[0] != letter:
            self.net.fail(
                f"node id {node_id!r} of type {node_type} is not an ibnetdiscover id; expected for "
                f'example Switch 36 "S-0008f10500108c5c", Ca … "H-…" or Rt … "R-…" '
                f"(other ids may be in the ibsim format)",
                number,
            )
        guid = int(node_id[2:], 16)
        keys, port_guid = self.keys, self.port_guid
        self.keys, self.port_guid = {}, None
        for key in GUID_KEYS.values():
            if key not in keys:
                continue
            value, line = keys[key]
            if key != GUID_KEYS[node_type] or value != guid:
                self.net.fail(f"{key} {value:#x} does not match the record of {node_id}", line)
        if not comment:
            self.net.fail(
                f"malformed comment {shown(match['comment'])}; expected "
                f'# "description"{" base port 0 lid LID lmc LMC" * (node_type == "Switch")}',
                number,
            )
        vendor, device = keys.get("vendid", (0,))[0], keys.get("devid", (0,))[0]
        self.net.add_node(
            node_record(
                number, node_type, guid, comment["description"], int(match["ports"]),
                lid=int(comment["lid"] or -1), lmc=int(comment["lmc"] or 0), port_guid=port_guid,
                system_guid=keys.get("sysimgguid", (0,))[0], vendor_id=vendor, device_id=device,
            )
        )  # fmt: skip
        return True

    def take_port(self, number: int, match: re.Match[str]) -> bool:
        net = self.net
        port, guid, peer, peer_port, peer_guid, options, text = match.groups()
        comment = PORT_COMMENT.fullmatch(text if text is not None else '"" lid 0')
        if not comment and MESSAGE.search(match.string):
            return False
        if not net.nodes or self.keys:
            net.fail("a port line outside a record; expected a Switch, Ca or Rt line first", number)
        if peer_port is None or options:
            net.fail(
                'malformed port line; expected [port] "node id"[port] # "description" lid LID rate',
                number,
            )
        if not comment:
            net.fail(
                f'malformed comment {shown(text or "")}; expected # "description" lid LID rate',
                number,
            )
        if match.string[match.start("peer") - 2] in "])":
            self.crowded.append(number)
        lid, lmc, _, peer_lid, rate = comment.groups()
        own_lmc = int(lmc or 0)
        net.ports.append(
            PortRecord(
                number,
                len(net.nodes) - 1,
                int(port),
                peer,
                int(peer_port),
                net.rate(rate or "??", number),
                net.lid(int(lid), own_lmc, number) if lid else -1,
                own_lmc,
                int(guid, 16) if guid else None,
                net.lid(int(peer_lid), 0, number) if text is not None else -1,
                int(peer_guid, 16) if peer_guid else None,
            )
        )
        return True

    def take_message(self, lines: list[str], at: int) -> int:
        """Record the message in line `at` and return the last line used; lines count from 1.

        A message in the middle of a line splits that line in two: the second half is the next
        line that is not a message, unless this next line is complete in itself.
        """
        line = lines[at - 1]
        fatal = FATAL.search(line)
        if fatal:
            self.net.fail(
                f"ibnetdiscover failed and its output is incomplete: {line[fatal.start() :]}", at
            )
        message = MESSAGE.search(line)
        if not message:
            self.net.fail(
                f"expected a record of ibnetdiscover (Switch, Ca or Rt, then one line per port), "
                f"found {shown(line)}",
                at,
            )
        self.messages.append((at, line[message.start() :]))
        head, number = line[: message.start()], at
        if not head:
            return at
        while at < len(lines) and MESSAGE.match(lines[at]):
            self.messages.append((at + 1, lines[at]))
            at += 1
        rest = lines[at] if at < len(lines) else ""
        separate = any(form.fullmatch(rest) for form in (PORT, KEY, HEADER))
        joined = head.rstrip() if separate else head + rest
        if len(joined) > MAX_LINE or not self.take(number, joined):
            self.net.fail(f"expected a record of ibnetdiscover, found {shown(joined)}", number)
        return at if separate else at + 1


def _is_complete(line: str) -> bool:
    """Return whether a line is a whole header or port with its comment, without a message."""
    for form, comment in ((PORT, PORT_COMMENT), (HEADER, HEADER_COMMENT)):
        if match := form.fullmatch(line):
            whole = match["comment"] is None or comment.fullmatch(match["comment"])
            return bool(whole) and not MESSAGE.search(line)
    return False


@writer("ibnetdiscover", suffixes=(".ibnetdiscover", ".topo", ".topofile"))
def write(fabric: Fabric) -> str:
    """Output of ``ibnetdiscover`` for the fabric, which ibsim accepts too.

    Raises
    ------
    NotApplicable
        If a rate has no InfiniBand name, a node has more than 254 ports, or a description has more
        than 64 bytes or unprintable characters.
    """
    out = RecordWriter(fabric, "ibnetdiscover")
    first = fabric.num_switches if fabric.num_hosts else 0
    slot = int(fabric.port_offset[first])
    out.lines += [
        "#",
        "# Topology file: generated by weft",
        "#",
        f"# Initiated from node {int(fabric.node_guid[first]):016x} "
        f"port {int(fabric.port_guid[slot]):016x}",
    ]
    for node in range(fabric.num_nodes):
        key = GUID_KEYS[out.types[node]]
        guid = int(fabric.node_guid[node])
        system = int(fabric.system_guid[node])
        out.lines += [
            "",
            f"vendid={int(fabric.vendor_id[node]):#x}",
            f"devid={int(fabric.device_id[node]):#x}",
        ]
        if system:
            out.lines.append(f"sysimgguid={system:#x}")
        port_guid = f"({out.guids[node, 0]:x})" if fabric.node_kind[node] == NodeKind.SWITCH else ""
        out.lines.append(f"{key}={guid:#x}{port_guid}")
        out.record(node)
    return out.text()
