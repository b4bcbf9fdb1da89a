"""OpenSM's dump of the forwarding tables of ports with known LIDs, written and read at once.

Of two such dumps only ports differ, and which entries there are. So the lines of all LIDs are
written once, and of each table only the digits of ports: a fabric of 542 adapters with LMC 6 has
1.7 million lines.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes

#: Positions in a line of the digits of its LID and port: ``0x0040 001 # Channel Adapter ...``.
_LID_AT, _PORT_AT = range(2, 6), range(7, 10)
#: The three digits of each port, as text.
_DIGITS = np.array([list(f"{port:03}".encode()) for port in range(256)], dtype=np.uint8).T.copy()
_LINE_END, _ZERO = 10, 48


class LftForm:
    """The dumps of a fabric's tables for ports with given LIDs.

    `base`: base LIDs, 0 for ports without one. `lid`, `row`, `comments`: all LIDs, ascending; their
    lines in `TableRoutes.table`; and what a dump says of the ports.
    """

    def __init__(
        self,
        fabric: Fabric,
        base: NDArray[np.integer[Any]],
        lmc: int,
        lid: NDArray[np.int64],
        row: NDArray[np.int64],
        comments: list[str],
    ):
        self._fabric, self._lmc, self._row = fabric, lmc, row
        lines = [
            f"0x{value:04x} 000 # {text}\n".encode()
            for value, text in zip(lid.tolist(), comments, strict=True)
        ]
        self._lines = np.frombuffer(b"".join(lines), dtype=np.uint8)
        self._lengths = np.array([len(line) for line in lines], dtype=np.int64)
        last = int(lid.max(initial=0))
        #: Number of the line of a LID; -1 if no port has it.
        self._line_of = np.full(1 << 16, -1, dtype=np.int64)
        self._line_of[lid] = np.arange(len(lid))
        self._end = f"{last} lids dumped\n".encode()
        own = base[fabric.num_endpoints :].tolist()
        guids = fabric.node_guid[: fabric.num_switches]
        #: Switches in OpenSM's order, and the first line of the table of each.
        self._switches = {
            switch: f"Unicast lids [0-{last}] of switch Lid {own[switch]} guid "
            f"0x{guids[switch]:016x} ('{fabric.descriptions[switch]}'):\n".encode()
            for switch in np.argsort(guids.byteswap(), kind="stable").tolist()
            if own[switch]
        }
        #: Lines that the table of each switch had last, and their texts: tables of leaf switches
        #: have all lines, those of other switches all but some of their own.
        self._last: dict[int, NDArray[np.bool_]] = {}
        self._chosen = lru_cache(len(self._switches) + 1)(self._choose)

    def written(self, routes: TableRoutes) -> bytes:
        """Return the dump of tables; entries without a path have no line."""
        parts: list[bytes | memoryview] = []
        for switch, head in self._switches.items():
            column = routes.table[self._row, switch]
            there = column <= self._fabric.num_ports[switch]
            lines, starts = self._lines_of(there)
            _set_ports(lines, starts, column[there])
            parts += (head, lines.data, self._end)
        return b"".join(parts)

    def read(self, data: bytes) -> TableRoutes | None:
        """Return the tables in a dump; None if it is not exactly of this form."""
        fabric = self._fabric
        shape = (fabric.num_destinations << self._lmc, fabric.num_switches)
        dtype = fabric.graph.port_dtype
        table = np.full(shape, np.iinfo(dtype).max, dtype=dtype)
        at = 0
        for switch, head in self._switches.items():
            end = data.find(self._end, at + len(head))
            if end < 0 or not data.startswith(head, at):
                return None
            block = np.frombuffer(data, np.uint8, end - at - len(head), at + len(head))
            found = self._entries(block, switch)
            if found is None:
                return None
            rows, ports = found
            table[rows, switch] = ports
            at = end + len(self._end)
        repeat_own_lids(fabric, table)
        if at < len(data):
            return None
        return TableRoutes("file", fabric.digest, table=table, lmc=self._lmc)

    def _lines_of(self, there: NDArray[np.bool_]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return a copy of some lines, and where each begins."""
        lines, starts = self._chosen(there.tobytes())
        return lines.copy(), starts

    def _choose(self, there: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        chosen = np.frombuffer(there, dtype=np.bool_)
        lengths = self._lengths[chosen]
        return self._lines[np.repeat(chosen, self._lengths)], np.cumsum(lengths) - lengths

    def _entries(
        self, block: NDArray[np.uint8], switch: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int16]] | None:
        """Return the lines in `TableRoutes.table` and ports of the entries of a switch."""
        last = self._last.get(switch)
        found = None if last is None else self._ports(block, switch, last)
        if found is None and (there := self._there(block)) is not None:
            found = self._ports(block, switch, there)
            self._last[switch] = there
        return found

    def _ports(
        self, block: NDArray[np.uint8], switch: int, there: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int16]] | None:
        """Return what `_entries` does if the table has exactly the given lines."""
        expected, starts = self._lines_of(there)
        if len(expected) != len(block):
            return None
        hundreds, tens, ones = (block[starts + at].astype(np.int16) - _ZERO for at in _PORT_AT)
        ports = hundreds * 100 + tens * 10 + ones
        if ((ports < 0) | (ports > self._fabric.num_ports[switch])).any():
            return None
        _set_ports(expected, starts, ports)
        rows = self._row[there]
        own = rows >> self._lmc == self._fabric.num_endpoints + switch
        right = np.array_equal(expected, block) and np.array_equal(ports == 0, own)
        return (rows, ports) if right else None

    def _there(self, block: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
        """Return which lines the table of a switch seems to have."""
        ends = np.flatnonzero(block == _LINE_END)
        starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
        if len(ends) and (ends - starts).min() <= _PORT_AT[-1]:
            return None
        lid = np.zeros(len(starts), dtype=np.int64)
        for at in _LID_AT:
            digit = block[starts + at].astype(np.int64)
            lid = lid << 4 | (digit - np.where(digit > ord("9"), ord("a") - 10, _ZERO)) & 15
        lines = self._line_of[lid]
        there = np.zeros(len(self._lengths), dtype=np.bool_)
        there[lines[lines >= 0]] = True
        return there


def repeat_own_lids(fabric: Fabric, table: NDArray[np.integer[Any]]) -> None:
    """Repeat the entries for a switch, which has one LID, at all LID offsets."""
    lines = len(table) // fabric.num_destinations
    own = table[fabric.num_endpoints * lines :].reshape(fabric.num_switches, lines, -1)
    own[:, 1:] = own[:, :1]


def _set_ports(
    lines: NDArray[np.uint8], starts: NDArray[np.int64], ports: NDArray[np.integer[Any]]
) -> None:
    for at, digits in zip(_PORT_AT, _DIGITS, strict=True):
        lines[starts + at] = digits[ports]
