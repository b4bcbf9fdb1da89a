"""OpenSM's dump of the forwarding tables of ports with known LIDs, written and read at once.

Of two such dumps only ports differ, and which entries there are. So the lines of all LIDs are
written once, and of each table only the digits of ports: a fabric of 542 adapters with LMC 6 has
1.7 million lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.routes import TableRoutes

#: Positions in a line of the digits of its LID and port: ``0x0040 001 # Channel Adapter ...``.
_LID_AT, _PORT_AT = np.arange(2, 6), np.arange(7, 10)
#: Values of the digits of a port.
_HUNDREDS = np.array([100, 10, 1])
_LINE_END, _ZERO = 10, 48


class LftForm:
    """The dumps of a fabric's tables for ports with given LIDs.

    Parameters
    ----------
    fabric
        The fabric.
    base
        Base LIDs, 0 for ports without one.
    lmc
        LMC of the tables.
    lid, row, comments
        All LIDs, ascending; their lines in `TableRoutes.table`; and what a dump says of the ports.
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

    def written(self, routes: TableRoutes) -> bytes:
        """Return the dump of tables; entries without a path have no line."""
        parts: list[bytes] = []
        for switch, head in self._switches.items():
            column = routes.table[self._row, switch]
            there = column <= self._fabric.num_ports[switch]
            lines, starts = self._lines_of(there)
            ports = column[there].astype(np.int64)[:, None] // _HUNDREDS % 10
            lines[starts[:, None] + _PORT_AT] = ports + _ZERO
            parts += (head, lines.tobytes(), self._end)
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
        own = table[fabric.num_endpoints << self._lmc :].reshape(fabric.num_switches, -1, shape[1])
        own[:, 1:] = own[:, :1]
        if at < len(data):
            return None
        return TableRoutes("file", fabric.digest, table=table, lmc=self._lmc)

    def _lines_of(self, there: NDArray[np.bool_]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return a copy of some lines, and where each begins."""
        lengths = self._lengths[there]
        lines = self._lines if there.all() else self._lines[np.repeat(there, self._lengths)]
        return lines.copy(), np.cumsum(lengths) - lengths

    def _entries(
        self, block: NDArray[np.uint8], switch: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the lines in `TableRoutes.table` and ports of the entries of a switch."""
        ends = np.flatnonzero(block == _LINE_END)
        starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
        if len(ends) and (ends - starts).min() <= _PORT_AT[-1]:
            return None
        digits = block[starts[:, None] + _LID_AT].astype(np.int64)
        values = digits - np.where(digits > ord("9"), ord("a") - 10, _ZERO)
        ports = block[starts[:, None] + _PORT_AT].astype(np.int64) - _ZERO
        if ((values < 0) | (values > 15)).any() or ((ports < 0) | (ports > 9)).any():
            return None
        lines = self._line_of[values @ np.array([4096, 256, 16, 1])]
        if (lines < 0).any() or (np.diff(lines) <= 0).any():
            return None
        there = np.zeros(len(self._lengths), dtype=np.bool_)
        there[lines] = True
        expected, places = self._lines_of(there)
        if len(expected) != len(block) or not np.array_equal(places, starts):
            return None
        expected[starts[:, None] + _PORT_AT] = ports + _ZERO
        port = ports @ _HUNDREDS
        rows = self._row[lines]
        own = rows >> self._lmc == self._fabric.num_endpoints + switch
        right = np.array_equal(expected, block) and (port <= self._fabric.num_ports[switch]).all()
        return (rows, port) if right and np.array_equal(port == 0, own) else None
