"""Reader of ``ibdiagnet2.db_csv`` and ``opensm-smdb.dump``: CSV tables between START and END lines.

Both have the same form; the names of columns differ in case, and only ibdiagnet2 states rates as
the codes of InfiniBand's PortInfo.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.units import LANE_RATE_GBPS, WIDTHS
from weft.core.words import few
from weft.fabrics import DEFAULT_RATE, NodeKind
from weft.fabrics.formats.format_registry import reader, warn, warn_of
from weft.fabrics.formats.netlist import Netlist, NodeRecord, PortRecord, Rate
from weft.fabrics.formats.records import node_record, shown

_SECTION = re.compile(r"(START|END)_([A-Z\d_]+)\s*")
_MARK = re.compile(r"^START_[A-Z\d_]+[ \t]*\r?$", re.MULTILINE)
_NODES, _PORTS, _LINKS = "NODES", "PORTS", "LINKS"
#: Section of the port counters, which `weft.counters` reads.
COUNTERS = "PM_INFO"
#: Known columns in lower case, those that are read first.
_COLUMNS = {
    _NODES: "nodedesc numports nodetype systemimageguid nodeguid portguid deviceid vendorid "
    "classversion baseversion partitioncap revision localportnum",
    _PORTS: "nodeguid portguid portnum lid lmc linkwidthactv linkspeedactv portphystate "
    "mkey gidprfx msmlid capmsk m_keyleaseperiod diagcode linkwidthsup linkwidthen localportnum "
    "linkspeeden mkeyprotbits linkdowndefstate portstate linkspeedsup vlarbhighcap vlhighlimit "
    "inittype vlcap msmsl nmtu filterrawoutb filterrawinb partenfoutb partenfinb opvls hoqlife "
    "vlstallcnt mtucap inittypereply vlarblowcap pkeyviolations mkeyviolations subntmo "
    "multicastpkeytrapsuppressionenabled clientreregister guidcap qkeyviolations maxcredithint "
    "overrunerrs localphyerror resptimevalue linkroundtriplatency oooslmask capmsk2 fecactv "
    "retransactv portlabel linkwidth linkspeed status timestamp",
    _LINKS: "nodeguid1 portnum1 nodeguid2 portnum2",
}
#: Lines between sections: comments, rules, and the lines of smdb's index, with names of sections.
_OUTSIDE = re.compile(r"\s*(?:#.*|[-=*]*|[A-Z][A-Z\d_]*\s*[,:].*)")
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")
_NUMBER = re.compile(r"-?\d{1,20}|0x[0-9a-fA-F]{1,16}", re.ASCII)
_ABSENT = ("", "N/A", "NA")
#: NodeType of InfiniBand's NodeInfo.
_TYPES = {1: "Ca", 2: "Switch", 3: "Rt"}
#: PortPhyState of a port whose rate is that of a link.
_LINK_UP = 5
#: Bit of LinkWidthActv -> width; bits 8 to 11 of LinkSpeedActv are LinkSpeedExtActive, bit 16 is
#: the vendor's FDR10, bit 24 is LinkSpeedExtActive2. Faster ones first, since the lower bits keep
#: the fastest speed that they can express.
_WIDTH = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_SPEED = {
    1 << 24: "XDR", 1 << 11: "NDR", 1 << 10: "HDR", 1 << 9: "EDR", 1 << 8: "FDR",
    1 << 16: "FDR10", 4: "QDR", 2: "DDR", 1: "SDR",
}  # fmt: skip


def is_db_csv(text: str) -> bool:
    """Return whether a text has a section in its first lines."""
    return _MARK.search(text, 0, 100_000) is not None


@dataclass
class CsvRow:
    """One line of a section."""

    section: CsvSection
    line: int
    fields: list[str]

    def text(self, column: str) -> str:
        """Return a field; empty if it is absent or not available."""
        at = self.section.columns.get(column.lower(), -1)
        value = self.fields[at] if at >= 0 else ""
        return "" if value in _ABSENT else value

    def number(self, column: str, absent: int = 0) -> int:
        """Return a decimal or hexadecimal number."""
        value = self.text(column)
        if not value:
            return absent
        if not _NUMBER.fullmatch(value):
            self.fail(f"{column} is {shown(value)}; expected a number")
        return int(value, 16 if value.startswith("0x") else 10)

    def guid(self, column: str) -> int:
        """Return a GUID."""
        value = self.text(column)
        if not _GUID.fullmatch(value):
            self.fail(
                f"{column} is {shown(value)}; expected a GUID of hexadecimal digits, as ibdiagnet2 "
                "wrote it"
            )
        return int(value, 16)

    def fail(self, message: str) -> NoReturn:
        """Refuse the line."""
        raise InputError(
            f"in section {self.section.name}, {message}", file=self.section.file, line=self.line
        )


@dataclass
class CsvSection:
    """The lines of a section, and the index of each column by its name in lower case."""

    name: str
    file: str
    line: int
    columns: dict[str, int] = field(default_factory=dict)
    #: Names of the columns as in the file.
    names: list[str] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)

    def rows(self, *required: str) -> Iterator[CsvRow]:
        """Iterate over the rows; `required` are columns without which it cannot be read."""
        for column in required:
            if column.lower() not in self.columns:
                raise InputError(
                    f"section {self.name} has no column {column}", file=self.file, line=self.line
                )
        for number, line in self.lines:
            yield CsvRow(self, number, self._fields(line, number))

    def _fields(self, line: str, number: int) -> list[str]:
        """Return the fields of a line; quotes and commas within a quoted field are kept."""
        parts = line.split(",")
        if '"' in line:
            parts = _joined(parts, len(parts) - len(self.columns))
        if len(parts) != len(self.columns):
            raise InputError(
                f"a line of section {self.name} has {count_text(len(parts), 'field')}, but "
                f"{count_text(len(self.columns), 'column')}", file=self.file, line=number,
            )  # fmt: skip
        return [part.strip() for part in parts]


def _joined(parts: list[str], surplus: int) -> list[str]:
    """Join the parts of quoted fields, without their quotes; `surplus`: commas within fields."""
    fields: list[str] = []
    start = -1
    for at, part in enumerate(map(str.strip, parts)):
        if start < 0 and part[:1] != '"':
            fields.append(part)
            continue
        start = at if start < 0 else start
        # A quote within a description does not end it while there are more commas than columns.
        if part[-1:] == '"' and (at > start or len(part) > 1) and not 0 < surplus > at - start:
            fields.append(",".join(parts[start : at + 1]).strip()[1:-1])
            surplus -= at - start
            start = -1
    return fields if start < 0 else [*fields, ",".join(parts[start:])]


def sections(text: str, file: str, wanted: Collection[str]) -> dict[str, CsvSection]:
    """Return the sections of a file by name, with the lines of those that are wanted.

    Raises
    ------
    InputError
        If a section has no end or no header, or there are two of one name.
    """
    found: dict[str, CsvSection] = {}
    now: CsvSection | None = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = _SECTION.fullmatch(line) if line[:1] in "SE" else None
        if mark is not None and (mark[1] == "START") == (now is not None):
            what = f"{now.name} has no end" if now else f"{mark[2]} has no beginning"
            raise InputError(f"section {what} before this line", file=file, line=number)
        if mark is not None and now is None:
            if mark[2] in found:
                raise InputError(f"section {mark[2]} occurs twice", file=file, line=number)
            now = found[mark[2]] = CsvSection(mark[2], file, number + 1)
        elif mark is not None:
            assert now is not None
            if mark[2] != now.name or not now.columns:
                raise InputError(
                    f"section {now.name} ends as {mark[2]}, with "
                    f"{count_text(len(now.columns), 'column')}", file=file, line=number,
                )  # fmt: skip
            now = None
        elif now is not None and not now.columns:
            now.names = [name.strip() for name in line.split(",")]
            now.columns = {name.lower(): at for at, name in enumerate(now.names)}
            if len(now.columns) < len(now.names):
                raise InputError(
                    f"two columns of section {now.name} have one name", file=file, line=number
                )
        elif now is not None and now.name in wanted and line.strip():
            now.lines.append((number, line))
        elif now is None and not _OUTSIDE.fullmatch(line):
            raise InputError(
                f"expected a section, found {shown(line.strip())} between sections", file=file,
                line=number,
            )  # fmt: skip
    if now is not None:
        raise InputError(
            f"section {now.name} has no end; the file may be cut short", file=file, line=now.line
        )
    return found


@reader("db-csv", suffixes=(".db_csv",), sniff=is_db_csv)
def read(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """ibdiagnet2.db_csv, or opensm-smdb.dump of NVIDIA's subnet manager: nodes, ports and cables.

    Parameters
    ----------
    rate
        Rate of cables whose ports do not state one, or the half of it that they lack.

    Raises
    ------
    InputError
        If a section is incomplete, a line is invalid or a GUID is not hexadecimal.
    """
    found = sections(text, file, _COLUMNS)
    if _NODES not in found:
        raise InputError("has no section NODES; the file may be cut short", file=file)
    net = Netlist(file, rate, whole=_LINKS in found and "numports" in found[_NODES].columns)
    for row in found[_NODES].rows("NodeGUID", "NodeType"):
        net.add_node(_node(row))
    at_guid = {node.guid: at for at, node in enumerate(net.nodes)}
    ports: dict[tuple[int, int], PortRecord] = {}
    strangers: list[str] = []
    if _PORTS in found:
        for row in found[_PORTS].rows("NodeGuid", "PortNum"):
            at = at_guid.get(row.guid("NodeGuid"), -1)
            if at < 0:
                strangers.append(f"{row.text('NodeGuid')} in line {row.line}")
            else:
                _add_port(net, ports, row, at)
    for row in found[_LINKS].rows(*_COLUMNS[_LINKS].split()) if _LINKS in found else ():
        _add_cable(net, ports, row, at_guid)
    net.ports = list(ports.values())
    net.mirror()
    _warn(file, found, strangers)
    return net


def _node(row: CsvRow) -> NodeRecord:
    guid, kind = row.guid("NodeGUID"), row.number("NodeType")
    if kind not in _TYPES:
        row.fail(f"NodeType is {kind}; expected 1, 2 or 3 (adapter, switch, router)")
    return node_record(
        row.line, _TYPES[kind], guid, row.text("NodeDesc"), row.number("NumPorts"),
        port_guid=row.guid("PortGUID") if kind == 2 and row.text("PortGUID") else None,
        system_guid=row.guid("SystemImageGUID") if row.text("SystemImageGUID") else 0,
        vendor_id=row.number("VendorID"), device_id=row.number("DeviceID"),
    )  # fmt: skip


def _add_port(net: Netlist, ports: dict[tuple[int, int], PortRecord], row: CsvRow, at: int) -> None:
    number, node = row.number("PortNum"), net.nodes[at]
    lmc = row.number("LMC")
    lid = net.lid(row.number("LID", -1), lmc, row.line)
    if node.kind == NodeKind.SWITCH and number == 0:
        node.lid, node.lmc = lid, lmc
        return
    if (at, number) in ports:
        row.fail(f"port {number} of {node.id} is listed twice")
    switch = node.kind == NodeKind.SWITCH
    guid = row.guid("PortGuid") if not switch and row.text("PortGuid") else None
    ports[at, number] = PortRecord(
        row.line, at, number, rate=_rate(row), lid=-1 if switch else lid, lmc=lmc, guid=guid
    )


def _rate(row: CsvRow) -> Rate:
    if row.number("PortPhyState", _LINK_UP) != _LINK_UP:
        return -1, -1
    width = _WIDTH.get(row.number("LinkWidthActv"), 0)
    code = row.number("LinkSpeedActv")
    speed = next((name for bit, name in _SPEED.items() if code & bit), "")
    return (
        WIDTHS.index(width) if width else -1,
        list(LANE_RATE_GBPS).index(speed) if speed else -1,
    )


def _add_cable(
    net: Netlist, ports: dict[tuple[int, int], PortRecord], row: CsvRow, at_guid: dict[int, int]
) -> None:
    ends = [(row.guid(f"NodeGuid{end}"), row.number(f"PortNum{end}")) for end in (1, 2)]
    for guid, _ in ends:
        if guid not in at_guid:
            row.fail(f"the cable leads to {guid:#018x}, which is not in section NODES")
    slots = [(at_guid[guid], port) for guid, port in ends]
    for slot, (far, far_port) in (slots, slots[::-1]):
        port = ports.get(slot) or PortRecord(row.line, *slot)
        peer = net.nodes[far].id, far_port
        if port.peer and (port.peer, port.peer_port) != peer:
            row.fail(
                f"port {slot[1]} of {net.nodes[slot[0]].id} leads to {port.peer}[{port.peer_port}] "
                "in another line"
            )
        ports[slot] = port._replace(line=row.line, peer=peer[0], peer_port=far_port)


def _warn(file: str, found: dict[str, CsvSection], strangers: list[str]) -> None:
    what = "of nodes that are not in section NODES"
    warn_of(file, strangers, "port", what, kind="unknown nodes")
    known = {*_COLUMNS, COUNTERS}
    names = [name for name in found if name not in known]
    names += [
        f"{each.name}.{column}"
        for each in found.values()
        if each.name in _COLUMNS
        for column in each.columns
        if column not in _COLUMNS[each.name].split()
    ]
    if names:
        count = sum("." not in name for name in names)
        columns = count_text(len(names) - count, "unknown column")
        warn(
            file,
            f"{count_text(count, 'section')} and {columns} that weft does not read: {few(names)}",
            kind="unread sections", items=tuple(names),
        )  # fmt: skip
