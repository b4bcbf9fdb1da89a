"""What the outputs of the programs of infiniband-diags share: messages, lines, rates, ports.

Some of these outputs name adapters by the GUID of a port and not by that of the node. `port_net`
makes the records of a file from its lines, one for each port.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

from weft.core.counts import count_text
from weft.fabrics.formats.format_registry import warn, warn_of
from weft.fabrics.formats.netlist import Netlist, PortRecord
from weft.fabrics.formats.records import MAX_LINE, lines_of, node_record, shown
from weft.fabrics.formats.session import rejoined

#: Messages of the programs and their libraries on standard error, which is often redirected into
#: the same file.
MESSAGE = re.compile(
    r"ibwarn: \[\d+\] "
    r"|(?:(?<![\w.+~/-])(?:[\w.+~-]*/)++)?(?:ibnetdisc|query_smp|chassis|ibnetdisc_cache)\.c:\d+; "
    r"|WARNING failed (?:line|to parse node name map|to open node name map)\b"
)
#: Last message when a program fails.
FATAL = re.compile(r"ibpanic: \[\d+\] |iberror: ")

#: Signalling rate of a lane in Gb/s, as the programs write it, and its name.
_SPEEDS = {
    2.5: "SDR", 5.0: "DDR", 10.0: "QDR", 14.0625: "FDR", 25.78125: "EDR", 53.125: "HDR",
    106.25: "NDR", 212.5: "XDR",
}  # fmt: skip
#: Words of the programs for a type of node.
TYPES = {
    "SW": "Switch", "Switch": "Switch", "CA": "Ca", "Ca": "Ca", "Channel Adapter": "Ca", "RT": "Rt",
    "Router": "Rt", "??": "Rt", "???": "Rt",
}  # fmt: skip


def rate_of(width: str, speed: str) -> str:
    """Return a rate such as ``4xEDR`` from a width ``4X`` and a speed ``25.78125 Gbps``."""
    lanes = re.fullmatch(r"(\d{1,2})X", width)
    gbps = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?) Gbps( \(FDR10\))?", speed)
    name = ("FDR10" if gbps[2] else _SPEEDS.get(float(gbps[1]))) if gbps else None
    return f"{lanes[1] + 'x' if lanes else '??'}{name or '???'}"


def has_line(start: str) -> Callable[[str], bool]:
    """Return a function that tells whether a line of a text begins with a pattern."""
    # Blanks stay in the line, so that a search in many empty lines takes linear time.
    start = start.replace(r"\s", r"[^\S\n]")
    form = re.compile(f"^(?:{start})", re.ASCII | re.MULTILINE)
    return lambda text: form.search(text) is not None


def entries(
    text: str, file: str, start: str, form: re.Pattern[str], expected: str
) -> Iterator[tuple[int, re.Match[str]]]:
    """Iterate over number and match of each line that is neither blank, comment nor message.

    `start`: pattern with which lines begin, in contrast to the rest of a line that was wrapped;
    empty if no line is as long as a terminal is wide.
    """
    net, messages = Netlist(file), []
    begin = re.compile(f"{start}|# |{MESSAGE.pattern}", re.ASCII)
    for number, line in enumerate(rejoined(lines_of(text), begin, form.fullmatch, file), 1):
        if len(line) > MAX_LINE:
            net.fail(f"the line is longer than {MAX_LINE} characters", number)
        if match := form.fullmatch(line):
            yield number, match
        elif FATAL.match(line):
            net.fail(f"the program failed and its output is incomplete: {line}", number)
        elif MESSAGE.match(line):
            messages.append((number, line))
        elif line and line[:2] not in ("#", "# "):
            net.fail(f"expected {expected}, found {shown(line)}", number)
    warn_messages(file, messages)


def warn_messages(file: str, messages: Sequence[tuple[int, str]]) -> None:
    """Warn of lines with messages."""
    if messages:
        first = "".join(f"\n  line {at}: {text}" for at, text in messages[:5])
        more = len(messages) - 5
        warn(
            file,
            f"{count_text(len(messages), 'line')} with messages of the program, not topology; "
            f"nodes that did not answer may be missing:{first}"
            + (f"\n  and {more} more" if more > 0 else ""),
            kind="messages", items=tuple(f"line {at}: {text}" for at, text in messages),
        )  # fmt: skip


class End(NamedTuple):
    """A port as a line names it.

    `lid`: of the port, or of its switch. `type`: as in records, or empty. `node`: the same for all
    ports of an adapter, None if the file does not tell.
    """

    guid: int
    port: int
    lid: int
    name: str = ""
    type: str = ""
    node: Hashable = None


class Row(NamedTuple):
    """A line: a port, and its rate and the port at the other end if it has a cable."""

    line: int
    end: End
    rate: str = "??"
    peer: End | None = None


def port_net(file: str, rate: str, rows: Sequence[Row], lost: Sequence[str] = ()) -> Netlist:
    """Return records from lines, one for each port, that name nodes by the GUIDs of their ports.

    All ports of a switch have one GUID. Ports of one name are those of one adapter if their GUIDs
    are one GUID + port number, as is usual. `rate`: of cables whose lines have none. `lost`: cables
    whose other end the file does not tell.
    """
    net = Netlist(file, rate, known_by="port")
    named: dict[int, list[tuple[int, End]]] = defaultdict(list)
    for row in rows:
        named[row.end.guid].append((row.line, row.end))
    own = set(named)
    first: dict[tuple[int, int], int] = {}
    for line, end, *_ in rows:
        if first.setdefault((end.guid, end.port), line) != line:
            net.fail(
                f"port {end.port} of {end.guid:#x} is listed twice; the first time in line "
                f"{first[end.guid, end.port]}",
                line,
            )
    for row in rows:
        if row.peer:
            named[row.peer.guid].append((row.line, row.peer))
    types = {guid: _type_of(net, each) for guid, each in named.items()}
    nodes: dict[Hashable, list[int]] = defaultdict(list)
    for guid, each in named.items():
        nodes[guid if types[guid] == "Switch" else _adapter(each)].append(guid)
    at: dict[int, int] = {}
    for guids in nodes.values():
        guids.sort(key=lambda guid: named[guid][0][1].port)
        ends = [each for guid in guids for each in named[guid]]
        name = next((end.name for _, end in ends if end.name), "")
        most = max(end.port for _, end in ends)
        at |= dict.fromkeys(guids, len(net.nodes))
        line, first_end = ends[0]
        net.add_node(node_record(line, types[guids[0]], guids[0], name, most, lid=first_end.lid))

    def adapter_port(end: End, line: int) -> tuple[int, int | None]:
        """Return LID and GUID of the port of an adapter."""
        if types[end.guid] == "Switch":
            return -1, None
        return net.lid(end.lid, 0, line), end.guid

    for line, end, text, peer in rows:
        own_lid, own_guid = adapter_port(end, line)
        port = PortRecord(line, at[end.guid], end.port, lid=own_lid, guid=own_guid)
        if peer:
            port = port._replace(
                peer=net.nodes[at[peer.guid]].id,
                peer_port=peer.port,
                rate=net.rate(text, line),
                peer_lid=net.lid(peer.lid, 0, line),
                peer_guid=adapter_port(peer, line)[1],
            )
        net.ports.append(port)
    absent = {at[guid] for guid in named} - {at[guid] for guid in own}
    net.mirror(absent)
    net.whole = not absent and not lost and any(row.peer for row in rows)
    warn_absent(net, absent)
    what = "left out, since the file does not tell the node at the other end"
    warn_of(file, lost, "cable", what, kind="lost cables", severity="warning", lost=len(lost))
    return net


def warn_absent(net: Netlist, absent: Collection[int]) -> None:
    """Warn of nodes that a file mentions without lines of their own."""
    names = [net.nodes[node].description or net.nodes[node].id for node in sorted(absent)]
    what = "without lines of their own, of which only the cables to other nodes are known"
    warn_of(net.file, names, "node", what, kind="incomplete", severity="warning")


def _type_of(net: Netlist, named: Sequence[tuple[int, End]]) -> str:
    """Return the type of the node of a port after checking that the lines agree about the port."""
    line, first = named[0]
    stated = next((end.type for _, end in named if end.type), "")
    found = stated or ("Switch" if len({end.port for _, end in named}) > 1 else "Ca")
    for at, end in named:
        if end.port < 1:
            net.fail(f"port {end.port} is not one of a cable; expected 1 or more", at)
        one_port = found == "Switch" or end.port == first.port
        if not one_port or end.lid != first.lid or end.type not in ("", found):
            net.fail(
                f"GUID {end.guid:#x} is that of port {end.port}, LID {end.lid}, of a "
                f"{end.type or found} here, but of port {first.port}, LID {first.lid}, of a "
                f"{first.type or found} in line {line}",
                at,
            )
    return found


def _adapter(named: Sequence[tuple[int, End]]) -> Hashable:
    """Return what the ports of one adapter have in common."""
    first = named[0][1]
    name = next((end.name for _, end in named if end.name), "")
    return (first.guid - first.port, name) if first.node is None else (first.node,)
