"""Port counters of ibdiagnet2: ``ibdiagnet2.pm``, and section PM_INFO of ``ibdiagnet2.db_csv``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame_of_rows
from weft.core.errors import InputError
from weft.core.files import read_text
from weft.fabrics import Fabric
from weft.fabrics.formats.db_csv import COUNTERS, is_db_csv, sections
from weft.fabrics.formats.records import numbered_lines, shown

_PORT = re.compile(r"Port=(\d{1,3}) Lid=\w+ GUID=0x([0-9a-fA-F]{1,16})\b.*", re.ASCII)
_VALUE = re.compile(r"([A-Za-z]\w{0,60})\s*=\s*(0x[0-9a-fA-F]{1,16}|\d{1,20}|-1|N/?A)", re.ASCII)
_RULE = re.compile(r"[-=*]{3,}")
#: Columns of PM_INFO that identify a port.
_KEYS = ("nodeguid", "portguid", "portnumber")

COUNTER_COLUMNS = {
    "guid": Column(pl.UInt64, "", "GUID of the node, or of the port as in a .pm file"),
    "port": Column(pl.Int64, "", "Number of the port"),
    "counter": Column(pl.String, "", "Name of the counter, in snake case"),
    "value": Column(pl.UInt64, "", "Value (null: the port does not have the counter)"),
}

_Row = tuple[int, int, str, int | None]


def read_counters(path: Path) -> pl.DataFrame:
    """Return a frame of `COUNTER_COLUMNS`, with a row for each port and counter; it may be empty.

    Raises
    ------
    InputError
        If a line is malformed, or a port occurs twice.
    """
    text = read_text(path)
    rows = _of_csv(text, str(path)) if is_db_csv(text) else _of_pm(path)
    frame = frame_of_rows(COUNTER_COLUMNS, list(rows))
    twice = frame.filter(frame.select("guid", "port", "counter").is_duplicated())
    if len(twice):
        guid, port, counter, _ = twice.row(0)
        raise InputError(f"{counter} of port {port} of {guid:#018x} occurs twice", file=path)
    return frame


def _of_pm(path: Path) -> Iterator[_Row]:
    guid = port = -1
    for number, line in numbered_lines(path):
        match, value = _PORT.fullmatch(line), _VALUE.fullmatch(line)
        if match:
            port, guid = int(match[1]), int(match[2], 16)
        elif value and guid >= 0:
            yield guid, port, _snake(value[1]), _number(value[2])
        elif not _RULE.fullmatch(line):
            raise InputError(
                f"expected a port or the value of a counter, found {shown(line)}", file=path,
                line=number,
            )  # fmt: skip


def _of_csv(text: str, file: str) -> Iterator[_Row]:
    found = sections(text, file, (COUNTERS,)).get(COUNTERS)
    if found is None:
        return
    names = [(name, _snake(name)) for name in found.names if name.lower() not in _KEYS]
    for row in found.rows("NodeGUID", "PortNumber"):
        guid, port = row.guid("NodeGUID"), row.number("PortNumber")
        for name, counter in names:
            text = row.text(name)
            if not _VALUE.fullmatch(f"a={text or 'NA'}"):
                row.fail(f"{name} is {shown(text)}; expected a number")
            yield guid, port, counter, _number(text or "NA")


def _number(text: str) -> int | None:
    """Return a value; None for NA and for -1, which some versions write instead."""
    if text[0] in "N-":
        return None
    value = int(text, 16 if text.startswith("0x") else 10)
    return value if value < 1 << 64 else None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name).lower()


def counted_slots(fabric: Fabric, frame: pl.DataFrame) -> NDArray[np.int64]:
    """Return the slot of the port of each row, -1 for ports that are not in the fabric."""
    slot_of = {}
    for node in range(fabric.num_nodes):
        base = int(fabric.port_offset[node])
        for port in range(1, int(fabric.num_ports[node]) + 1):
            own = int(fabric.port_guid[base + port - 1]), int(fabric.node_guid[node])
            slot_of.update({(guid, port): base + port - 1 for guid in own})
    keys = frame.select("guid", "port").iter_rows()
    return np.array([slot_of.get(key, -1) for key in keys], dtype=np.int64)
