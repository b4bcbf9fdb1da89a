"""Readers of ibdiagnet2's tables of ports: ``.net_dump``, one per switch, and ``.net_dump_ext``.

A table has a heading that names its columns, and fields between colons. ``net_dump`` states the
other end of each cable by the label at the front of the device, such as ``1/5/1``, not by port
number; ``net_dump_ext`` states no other ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from weft.core.errors import InputError
from weft.fabrics import DEFAULT_RATE
from weft.fabrics.formats.format_registry import reader, warn_of
from weft.fabrics.formats.netlist import Netlist, PortRecord, Rate
from weft.fabrics.formats.records import node_record, shown
from weft.fabrics.formats.subnet_list import SPEEDS

_SWITCH = re.compile(r'"(?P<name>.{0,255})", [^,]{1,40}, 0x(?P<guid>[0-9a-fA-F]{1,16}), LID (\d+)')
#: Headings, in lower case and without the spaces.
_HEAD, _HEAD_EXT = "#:ib#:", "ty:#:"
_COLUMNS = ("ib#", "sta", "lwa", "lsa", "neighborguid", "n#", "nlid", "neighbordescription")
_COLUMNS_EXT = ("ty", "ib#", "guid", "lid", "lwa", "lsa", "nodedesc")
_GUID = re.compile(r"0x([0-9a-fA-F]{1,16})")
#: Type of a node in ``net_dump_ext`` -> in other formats.
_TYPES = {"SW": "Switch", "CA": "Ca", "HCA": "Ca", "RT": "Rt", "RTR": "Rt"}


def _squeezed(line: str) -> str:
    return re.sub(r"\s+", "", line).lower()


def _sniff(head: str) -> Callable[[str], bool]:
    """Return a function that tells whether a text has a heading of this beginning."""
    spaced = r"[^\S\n]*+".join(["", *map(re.escape, head)])
    pattern = re.compile(f"^{spaced}", re.MULTILINE | re.IGNORECASE)
    return lambda text: pattern.search(text, 0, 100_000) is not None


@dataclass
class TableLine:
    """One line of a table, with the text of each column by its name in lower case."""

    file: str
    number: int
    fields: dict[str, str]
    #: Name, GUID and LID of the switch of the table, of ``net_dump``.
    switch: tuple[str, int, int] = ("", 0, 0)

    def __getitem__(self, column: str) -> str:
        value = self.fields.get(column)
        if value is None:
            self.fail(f"the table has no column {column!r}")
        return "" if value in ("N/A", "NA") else value

    def guid(self, column: str) -> int:
        """Return a GUID."""
        match = _GUID.fullmatch(self[column])
        if match is None:
            self.fail(f"expected a GUID of hexadecimal digits, found {shown(self[column])}")
        return int(match[1], 16)

    def integer(self, column: str) -> int:
        """Return the number with which a field begins, as in ``10 (0xa)``."""
        match = re.match(r"\d{1,5}(?!\d)", self[column])
        if match is None:
            self.fail(f"expected a number in column {column}, found {shown(self[column])}")
        return int(match[0])

    def rate(self, net: Netlist) -> Rate:
        """Return the rate of a link."""
        speed = SPEEDS.get(self["lsa"].upper(), "?")
        return net.rate(f"{self['lwa'].lower() or '?'}{speed}", self.number)

    def fail(self, message: str) -> NoReturn:
        """Refuse the line."""
        raise InputError(message, file=self.file, line=self.number)


def table_lines(text: str, file: str, head: str, columns: tuple[str, ...]) -> Iterator[TableLine]:
    """Iterate over the lines of all tables whose heading begins with `head`."""
    names: list[str] = []
    switch = ("", 0, 0)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith('"') and (match := _SWITCH.fullmatch(line.strip())):
            switch, names = (match["name"], int(match["guid"], 16), int(match[3])), []
        elif ":" in line and _squeezed(line).startswith(head):
            names = [_squeezed(name) for name in line.split(":")]
            names = ["ib#" if name == "#ib" else name for name in names]
            if missing := [column for column in columns if column not in names]:
                raise InputError(f"the table has no column {missing[0]!r}", file=file, line=number)
        elif line.strip() and not line.lstrip().startswith("#"):
            fields = [part.strip() for part in line.split(":", max(len(names) - 1, 0))]
            # A last field with as many colons as a line has swallowed one.
            if not names or len(fields) != len(names) or fields[-1].count(":") >= len(names) - 1:
                raise InputError(
                    f"expected {len(names) or 'a heading with'} fields of a table of ports, found "
                    f"{shown(line.strip())}", file=file, line=number,
                )  # fmt: skip
            yield TableLine(file, number, dict(zip(names, fields, strict=True)), switch)


@reader("net-dump", suffixes=(".net_dump",), sniff=_sniff(_HEAD))
def read_net_dump(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """ibdiagnet2.net_dump: the ports of all switches, and the other ends of their cables.

    Parameters
    ----------
    rate
        Rate of cables whose lines do not state one, or the half of it that they lack.

    Raises
    ------
    InputError
        If a line is invalid or contradicts another; the message names file and line.
    """
    net = Netlist(file, rate, whole=False)
    lines = list(table_lines(text, file, _HEAD, _COLUMNS))
    port_of: dict[tuple[int, str], int] = {}
    most: dict[int, int] = {}
    for line in lines:
        guid, number = line.switch[1], line.integer("ib#")
        if not guid:
            line.fail("the table does not begin with the name and GUID of a switch")
        if port_of.setdefault((guid, line["#"]), number) != number:
            line.fail(f"two ports have the label {line['#']}")
        most[guid] = max(most.get(guid, 0), number)
    at_guid: dict[int, int] = {}
    for line in lines:
        name, guid, lid = line.switch
        if guid not in at_guid:
            at_guid[guid] = _add(net, line, "Switch", guid, name, most[guid], lid)
    lost = []
    for line in lines:
        if not line["neighborguid"]:
            continue
        far, label = line.guid("neighborguid"), line["n#"]
        plain = int(label) if re.fullmatch(r"\d{1,3}", label) else None  # of an adapter
        port = port_of.get((far, label)) if far in most else plain
        if port is None:
            lost.append(f"port {label!r} of {line['neighbordescription']}")
            continue
        if far not in at_guid:
            at_guid[far] = _add(net, line, "Ca", far, line["neighbordescription"])
        net.ports.append(
            PortRecord(
                line.number, at_guid[line.switch[1]], line.integer("ib#"),
                net.nodes[at_guid[far]].id, port, line.rate(net),
                peer_lid=line.integer("nlid") if line["nlid"] else -1,
            )
        )  # fmt: skip
    net.mirror()
    what = "to ports whose number the file does not tell"
    warn_of(file, lost, "cable", what, kind="unknown ports", severity="warning", lost=len(lost))
    return net


def _add(
    net: Netlist, line: TableLine, kind: str, guid: int, name: str, ports: int = 0, lid: int = -1
) -> int:
    """Add a node; `kind`: as in `kind_of`. Return its number."""
    net.add_node(node_record(line.number, kind, guid, name.strip('"'), ports, lid=lid))
    return len(net.nodes) - 1


@reader("net-dump-ext", suffixes=(".net_dump_ext",), sniff=_sniff(_HEAD_EXT))
def read_net_dump_ext(text: str, file: str) -> Netlist:
    """ibdiagnet2.net_dump_ext: rates, LIDs and names of all ports; cables come from other files.

    Raises
    ------
    InputError
        If a line is invalid; the message names file and line.
    """
    net = Netlist(file, whole=False)
    at_guid: dict[int, int] = {}
    for line in table_lines(text, file, _HEAD_EXT, _COLUMNS_EXT):
        guid, kind = line.guid("guid"), _TYPES.get(line["ty"].upper(), "")
        if not kind:
            line.fail(f"{shown(line['ty'])} is not a type of node; expected SW, CA or RTR")
        lid = net.lid(line.integer("lid") if line["lid"] else -1, 0, line.number)
        if guid not in at_guid:
            at_guid[guid] = _add(net, line, kind, guid, line["nodedesc"], lid=lid)
        number = line.integer("ib#")
        own = -1 if kind == "Switch" else lid
        net.ports.append(
            PortRecord(line.number, at_guid[guid], number, rate=line.rate(net), lid=own)
        )
    return net
