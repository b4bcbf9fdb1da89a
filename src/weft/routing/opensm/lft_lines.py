"""Parser of dumps of forwarding tables, independent of a fabric.

It reads OpenSM's ``opensm-lfts.dump`` and ``opensm.fdbs``, ``ibdiagnet2.fdbs``, the output of
``ibroute``, ``dump_fts`` and ``dump_lfts.sh`` with any options, and files written by hand for
OpenSM's ``-U``::

    Unicast lids [0-6] of switch Lid 2 guid 0x0000000000200000 ('SW1'):
    0x0001 001 # Channel Adapter portguid 0x0000000000100001: 'H1'
    0x0002 000 # Switch portguid 0x0000000000200000: 'SW1'
    6 lids dumped

The count in the last line is the highest LID in OpenSM's files, but the number of entries in files
of infiniband-diags.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics.formats.format_registry import warn, warn_of
from weft.fabrics.formats.records import shown
from weft.routing.opensm.ports import MAX_LID

_HEADER = re.compile(
    r"Unicast lids\b(?:\s*\[(?:0x)?0*-(?P<hex>0x)?(?P<last>[0-9a-fA-F]{1,5})\])?.*? guid "
    r"0x(?P<guid>[0-9a-fA-F]{1,16})(?:\s+(?P<name>.*?))?:?"
)
_OWN_LID = re.compile(r"switch Lid (0x[0-9a-fA-F]{1,4}|\d{1,5})\b")
_FDB_HEADER = re.compile(r"(?:osm_ucast_mgr_)?dump_ucast_routes: Switch 0x([0-9a-fA-F]{1,16})\b.*")
_PRIVATE = re.compile(r"PLFT_NUM: *(\d)\b.*")
_FOOTER = re.compile(r"(\d{1,6}) (valid )?lids dumped")
_LID = re.compile(r"0x([0-9a-fA-F]{1,4})")
_PORT = re.compile(r"\d{1,10}", re.ASCII)
_GUID = re.compile(r"portguid 0x([0-9a-fA-F]{1,16})(?:[:\s)]|$)")
#: Headings above the entries, and other headings of dump_lfts.sh and OpenSM.
_HEADINGS = re.compile(
    r"Lid\s+Out\s+Destination|Port\s+Info|LID\s+: Port : Hops : Optimal|File version: \d+"
)

#: Largest port number of an entry, which means "no path".
NO_PATH = 255
#: LIDs in a block of a table. ``dump_fts`` and ``ibroute`` of infiniband-diags 44 leave out the
#: highest LID of a subnet if it is a multiple: they round the number of blocks down.
DUMP_BLOCK = 64


@dataclass
class LftBlock:
    """Table of one switch: key (index in `Dump.keys`), port and line number of each entry."""

    guid: int
    name: str
    line: int
    #: LID of the switch, and highest LID of the table, from the heading; -1 if missing.
    lid: int
    last: int
    #: Whether the heading is that of infiniband-diags, in which the highest LID is hexadecimal.
    diags: bool = False
    keys: array[int] = field(default_factory=lambda: array("i"))
    ports: array[int] = field(default_factory=lambda: array("i"))
    lines: array[int] = field(default_factory=lambda: array("i"))
    closed: bool = False
    #: Number of the private table (pLFT) for some ports and lanes only; 0 for the table of all.
    private: int = 0


@dataclass
class Dump:
    """Contents of a file."""

    #: Tables, one per switch, in the order of the file.
    blocks: list[LftBlock]
    #: Distinct pairs of the LID and port GUID of an entry; the GUID is -1 if the entry has none.
    keys: list[tuple[int, int]]

    @property
    def untold(self) -> int:
        """The highest LID if its entries are left out, see `DUMP_BLOCK`; 0 if they are not."""
        last = max((block.last for block in self.blocks if block.diags), default=0)
        listed = max((lid for lid, _ in self.keys), default=0)
        return last if last > listed and last % DUMP_BLOCK == 0 else 0


def untold_text(lid: int) -> str:
    """Return why a dump does not tell the entries of its `Dump.untold`."""
    return (
        f"dump_fts and ibroute leave out the highest LID, {lid}, since it is a multiple of "
        f"{DUMP_BLOCK}; OpenSM's own opensm-lfts.dump has its entries"
    )


#: Number of characters that are split into lines at a time.
_CHUNK = 1 << 16


def _pieces(text: str) -> Iterator[list[str]]:
    """Yield the lines of a text, some at a time, since dumps can have hundreds of megabytes."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start + _CHUNK)
        end = len(text) if end < 0 else end
        yield text[start:end].split("\n")
        start = end + 1


class _Parser:
    def __init__(self, file: str):
        self.file = file
        self.blocks: list[LftBlock] = []
        self.keys: list[tuple[int, int]] = []
        self.number: dict[tuple[int, int], int] = {}
        #: Index of a key by the texts of its LID and comment; below, port number by its text.
        self.known: dict[tuple[str, str], int] = {}
        self.ports = {f"{port:03}": port for port in range(NO_PATH + 1)}
        self.strange: list[tuple[int, str]] = []
        #: Key index * 256 + port by the text of a line; most lines occur in several tables.
        self.rows: dict[str, int] = {}

    def fail(self, message: str, line: int) -> InputError:
        return InputError(message, file=self.file, line=line)

    def parse(self, text: str) -> Dump:
        number = 0
        for lines in _pieces(text):
            codes = np.fromiter(map(self.rows.get, lines, repeat(-1)), np.int64, len(lines))
            start = 0
            for new in np.flatnonzero(codes < 0).tolist():
                self._known_rows(codes[start:new], lines[start], number + start + 1)
                self._line(lines[new], number + new + 1)
                start = new + 1
            if start < len(lines):
                self._known_rows(codes[start:], lines[start], number + start + 1)
            number += len(lines)
        if not self.blocks:
            raise InputError(
                "is not a dump of forwarding tables; expected lines of OpenSM or ibroute such as "
                "'Unicast lids [0-6] of switch Lid 2 guid 0x0002c9020020d3c8:' and '0x0001 001'",
                file=self.file,
            )
        self._check_end(text, number)
        return Dump(without_private(self.blocks, self.file), self.keys)

    def _known_rows(self, codes: NDArray[np.int64], first: str, number: int) -> None:
        """Add entries whose lines are in `rows`; `number` is the first entry's line number."""
        if len(codes):
            block = self._block(first, number)
            block.keys.frombytes((codes >> 8).astype(np.intc).tobytes())
            block.ports.frombytes((codes & 255).astype(np.intc).tobytes())
            block.lines.frombytes(np.arange(number, number + len(codes), dtype=np.intc).tobytes())

    def _line(self, raw: str, number: int) -> None:
        line = raw.strip()
        if raw in self.rows:
            self._add(self.rows[raw], raw, number)
        elif line.startswith("0x"):
            self._row(line, raw, number)
        elif line and not line.startswith("#"):
            self._other(line, number)

    def _block(self, line: str, number: int) -> LftBlock:
        """Return the table that an entry belongs to."""
        if not self.blocks or self.blocks[-1].closed:
            raise self.fail(f"the entry {shown(line.strip())} belongs to no switch", number)
        return self.blocks[-1]

    def _row(self, line: str, raw: str, number: int) -> None:
        words = line.split(None, 2)
        lid, port = words[0], words[1] if len(words) > 1 else ""
        tail = words[2] if len(words) > 2 else ""
        if port == ":":  # opensm.fdbs
            port, _, tail = tail.partition(" ")
            if port == "UNREACHABLE":
                return
            tail = ""
        self._block(line, number)
        key = self.known.get((lid, tail), -1)
        if key < 0:
            key = self._key(lid, tail, line, number)
        value = self.ports.get(port, -1)
        if value < 0:
            if not (_PORT.fullmatch(port) and int(port) <= NO_PATH):
                raise self.fail(f"expected a LID and a port, found {shown(line)}", number)
            value = int(port)
        self.rows[raw] = key << 8 | value
        self._add(key << 8 | value, line, number)

    def _add(self, code: int, line: str, number: int) -> None:
        block = self._block(line, number)
        block.keys.append(code >> 8)
        block.ports.append(code & 255)
        block.lines.append(number)

    def _key(self, lid: str, tail: str, line: str, number: int) -> int:
        match = _LID.fullmatch(lid)
        guid = _GUID.search(tail)
        if match is None or (guid is None and "portguid" in tail.partition("'")[0]):
            raise self.fail(f"expected a LID and a port, found {shown(line)}", number)
        value = int(match[1], 16)
        if value > MAX_LID:
            raise self.fail(f"LID {value:#06x} is not a unicast LID; they end at 0xbfff", number)
        key = value, int(guid[1], 16) if guid else -1
        if key not in self.number:
            self.number[key] = len(self.keys)
            self.keys.append(key)
        self.known[lid, tail] = self.number[key]
        return self.number[key]

    def _other(self, line: str, number: int) -> None:
        if line.startswith("Unicast lids"):
            self._header(line, number)
        elif line.startswith(("dump_ucast_routes:", "osm_ucast_mgr_dump_ucast_routes:")):
            match = _FDB_HEADER.fullmatch(line)
            if match is None:
                raise self.fail(f"expected the GUID of a switch, found {shown(line)}", number)
            self.blocks.append(LftBlock(int(match[1], 16), "", number, -1, -1))
        elif line.startswith("Multicast mlids"):
            raise self.fail("is a dump of multicast tables; expected unicast tables", number)
        elif match := _FOOTER.fullmatch(line):
            self._footer(int(match[1]), bool(match[2]), number)
        elif self.blocks and (match := _PRIVATE.fullmatch(line)):
            if match[1] != "0":
                guid = self.blocks[-1].guid
                self.blocks.append(LftBlock(guid, "", number, -1, -1, private=int(match[1])))
        elif not _HEADINGS.fullmatch(line):
            self.strange.append((number, line))

    def _header(self, line: str, number: int) -> None:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise self.fail(
                f"expected the GUID of a switch, as in 'Unicast lids [0-6] of switch Lid 2 guid "
                f"0x0002c9020020d3c8:', found {shown(line)}",
                number,
            )
        own = _OWN_LID.search(line)
        last = -1
        if match["last"]:
            is_hex = match["hex"] or not match["last"].isdecimal()
            last = int(match["last"], 16 if is_hex else 10)
        name = (match["name"] or "").removeprefix("(").removesuffix(")").strip("'")
        guid = int(match["guid"], 16)
        lid = int(own[1], 0) if own else -1
        self.blocks.append(LftBlock(guid, name, number, lid, last, bool(match["hex"])))

    def _footer(self, count: int, valid: bool, number: int) -> None:
        if not self.blocks or self.blocks[-1].closed:
            raise self.fail("a count of entries belongs to no switch", number)
        block = self.blocks[-1]
        rows = len(block.keys)
        if count != rows and (valid or count != block.last):
            raise self.fail(
                f"the table of switch {block.guid:#018x} has {rows} entries, but its last line "
                f"says {count}; part of the file is missing",
                number,
            )
        block.closed = True

    def _check_end(self, text: str, number: int) -> None:
        """Refuse a file that was cut off; warn about lines that were ignored."""
        counted = sum(block.closed for block in self.blocks)
        cut = next((block for block in self.blocks if not block.closed), None)
        if counted and cut is not None:
            raise self.fail(
                f"the table of switch {cut.guid:#018x} that begins here has no end such as "
                "'6 lids dumped'; part of the file is missing",
                cut.line,
            )
        rows = self.blocks[-1].lines
        if len(rows) and rows[-1] == number:  # the last line has no line end
            raise self.fail("the file ends within a line; part of it is missing", number)
        if self.strange:
            line, first = self.strange[0]
            warn(
                self.file,
                f"{len(self.strange)} lines are not part of a table and were ignored, the first is "
                f"line {line}: {shown(first)}",
            )


B = TypeVar("B", bound=LftBlock)


def without_private(blocks: list[B], file: str) -> list[B]:
    """Return the tables for all ports; a `FormatWarning` counts the switches that have others."""
    others = sorted({f"{block.guid:#018x}" for block in blocks if block.private})
    what = "with private tables (pLFT) for some ports and lanes, of which only the first was read"
    warn_of(file, others, "switch", what, kind="private tables", severity="warning")
    return [block for block in blocks if not block.private]


def parse_dump(text: str, file: str) -> Dump:
    """Parse a dump.

    Lines outside tables, such as messages of the tools, are ignored with a `FormatWarning`.
    """
    return _Parser(file).parse(text)
