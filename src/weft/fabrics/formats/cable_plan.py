"""Reader of cable plans: CSV exports of spreadsheets, with one cable per row and named columns."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from weft.core.arguments import shown
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.core.units import parse_rate
from weft.core.words import few, split_quoted, unquoted
from weft.fabrics.builder import MAX_PORTS
from weft.fabrics.cabling import Cable, Cabling, Device, End, chip_name
from weft.fabrics.machines import adapter_parts

#: Column of a plan -> its headers in UFM's NDT files besides its own name, without blanks and
#: punctuation. The names are those of the list that `weft cost` writes.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "from_node": ("startdevice", "fieldsstartdevice"),
    "from_port": ("startport",),
    "from_rack": ("startdevicelocation", "rack"),
    "from_unit": ("uheight",),
    "to_node": ("enddevice",),
    "to_port": ("endport",),
    "to_rack": ("enddevicelocation",),
    "to_unit": ("uheight",),
    "rate": ("speed", "rategbps"),
    "link_type": (),
}
NEEDED = ("from_node", "from_port", "to_node", "to_port")
#: Separators of cells, in the order in which they are tried.
_SEPARATORS = ",;\t|"
#: Rows in which the header is searched.
_HEAD_ROWS = 50

_PORT = re.compile(r"(?:ib ?)?(?:port|p|swp)? ?(?:1/)?(\d{1,5})", re.IGNORECASE | re.ASCII)
_BLADE = re.compile(r"blade ?(\d{1,3})[_ ]port (\d{1,2})/(\d{1,5})", re.IGNORECASE | re.ASCII)
_GUID = re.compile(r"(?:0[xX]|[SHR]-)?([0-9a-fA-F]{16})", re.ASCII)
_UNIT = re.compile(r"U? ?(\d{1,3})", re.IGNORECASE | re.ASCII)
_SPEED = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?([gm]?)(?:b(?:it)?(?:/s|ps))?", re.IGNORECASE)


def parse_columns(text: str) -> dict[str, str]:
    """Return the header of each column from a text such as ``from_node=Device A,rate=Speed``."""
    named = {}
    for part in split_quoted(text, ","):
        name, equals, header = (each.strip() for each in part.partition("="))
        if name not in COLUMNS:
            raise InputError(
                f"--columns: a plan has no column {shown(name)}{did_you_mean(name, COLUMNS)}; "
                f"expected NAME=HEADER with the names {', '.join(COLUMNS)}"
            )
        if not equals or not header:
            raise InputError(f"--columns: expected a header, as in {name}=Device")
        named[name] = unquoted(header)
    return named


def is_plan(text: str) -> bool:
    """Return whether a text has a row with the headers that a plan needs."""
    return _start(text, {}) is not None


def read_plan(text: str, file: str, named: Mapping[str, str]) -> Cabling:
    """Read a cable plan.

    `named`: headers of columns with other names than those in `COLUMNS`.
    """
    start = _start(text, named)
    if start is None:
        raise _without_header(text, file, named)
    rows, places = start
    plan = Cabling(file, is_list=True)
    numbers: dict[str, int] = {}
    used: dict[End, tuple[int, End]] = {}
    line = rows.line_num + 1
    try:
        for row in rows:
            cells = [" ".join(cell.split()) for cell in row]
            if any(cells):
                plan.rows += 1
                _add_row(plan, line, _Row(cells, places), numbers, used)
            line = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"is not valid CSV: {error}", file=file, line=line) from None
    if not plan.cables:
        why = f"; line {plan.refused[0][0]}: {plan.refused[0][1]}" if plan.refused else ""
        raise InputError(f"has no row with a cable after its header{why}", file=file)
    return plan


def _start(text: str, named: Mapping[str, str]) -> tuple[Any, dict[str, Sequence[int]]] | None:
    """Return the rows after the header, and the positions of each column."""
    for separator in _SEPARATORS:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        with contextlib.suppress(csv.Error):
            for row in islice(rows, _HEAD_ROWS):
                places = _places(row, named)
                if all(places[name] for name in (*NEEDED, *named)):
                    return rows, places
    return None


class _Row(NamedTuple):
    cells: Sequence[str]
    places: Mapping[str, Sequence[int]]

    def texts(self, column: str) -> list[str]:
        """Return the texts in a column, which may be in several places; empty ones do not count."""
        places = self.places[column]
        return [self.cells[at] for at in places if at < len(self.cells) and self.cells[at]]

    def text(self, column: str) -> str:
        return "".join(self.texts(column)[:1])


def _add_row(
    plan: Cabling, line: int, row: _Row, numbers: dict[str, int], used: dict[End, tuple[int, End]]
) -> None:
    """Add the cable of a row, or the reason why it has none."""
    found = _ends(row)
    if isinstance(found, str):
        plan.refused.append((line, found))
        return
    a, b = ((_number(plan, numbers, device), port) for device, port in found)
    taken = next((end for end in (a, b) if end in used), None)
    if a in used and used[a][1] == b:
        plan.repeated += 1
    elif taken is not None:
        port = f"{plan.devices[taken[0]].name}[{taken[1]}]"
        plan.refused.append((line, f"{port} has another cable in line {used[taken][0]}"))
    elif a == b:
        plan.refused.append((line, "both ends are one port"))
    else:
        used[a], used[b] = (line, b), (line, a)
        plan.cables.append(Cable((a, b), *_rate(row.text("rate"), plan.not_rates), line))


def _number(plan: Cabling, numbers: dict[str, int], device: Device) -> int:
    """Return the number of a device, which is added to the plan if it is new."""
    number = numbers.setdefault(device.name, len(plan.devices))
    if number == len(plan.devices):
        plan.devices.append(device)
    known = plan.devices[number]
    unit = device.unit if known.unit is None else known.unit
    plan.devices[number] = known._replace(rack=known.rack or device.rack, unit=unit)
    return number


def _places(row: Sequence[str], named: Mapping[str, str]) -> dict[str, Sequence[int]]:
    plain = [re.sub("[^a-z0-9]", "", cell.lower()) for cell in row]
    exact = [cell.strip().lower() for cell in row]
    places: dict[str, Sequence[int]] = {}
    for name, aliases in COLUMNS.items():
        heads, wanted = plain, [name.replace("_", ""), *aliases]
        if name in named:
            heads, wanted = exact, [named[name].lower()]
        places[name] = [at for each in wanted for at, head in enumerate(heads) if head == each]
    # Of two columns with one header, the second is that of the other end.
    for what in ("node", "port", "rack", "unit"):
        both = places[f"from_{what}"]
        if both == places[f"to_{what}"]:
            places[f"from_{what}"], places[f"to_{what}"] = both[:1], both[1:2]
    return places


def _without_header(text: str, file: str, named: Mapping[str, str]) -> InputError:
    """Return the error of a file in which no row has the headers that are needed."""
    rows: list[list[str]] = []
    for separator in _SEPARATORS:
        with contextlib.suppress(csv.Error):
            lines = io.StringIO(text, newline="")
            rows += islice(csv.reader(lines, delimiter=separator), _HEAD_ROWS)
    fit = {at: sum(map(bool, _places(row, named).values())) for at, row in enumerate(rows)}
    best = rows[max(fit, key=lambda at: (fit[at], len(rows[at])))] if rows else []
    places = _places(best, named)
    lacking = [
        named.get(name, name) for name in {**dict.fromkeys(NEEDED), **named} if not places[name]
    ]
    heads = [shown(cell.strip()) for cell in best if cell.strip()]
    return InputError(
        f"has no column {' or '.join(map(repr, lacking))}; its header has {few(heads, 12)}; "
        "name its columns with --columns, as in from_node=HEADER,from_port=HEADER",
        file=file,
    )


def _ends(row: _Row) -> list[tuple[Device, int]] | str:
    """Return device and port of both ends of a row, or why they are not understood."""
    kind = row.text("link_type")
    if kind.lower() not in ("", "data"):
        return f"the link type {shown(kind)} is not Data"
    ends = []
    for end in ("from", "to"):
        known = _port(row.text(f"{end}_node"), row.text(f"{end}_port"))
        if isinstance(known, str):
            return known
        name, port = known
        racks = row.texts(f"{end}_rack")
        # Some sheets have the height in the column of the rack, and the rack in another one.
        heights = [text for text in racks if text[0] in "Uu" and _UNIT.fullmatch(text)]
        rack = next((text for text in racks if text not in heights), "")
        units = map(_UNIT.fullmatch, [*row.texts(f"{end}_unit"), *heights])
        unit = next((int(match[1]) for match in units if match), None)
        guid = _GUID.fullmatch(name)
        ends.append((Device(name, (name,), int(guid[1], 16) if guid else None, rack, unit), port))
    return ends


def _port(node: str, text: str) -> tuple[str, int] | str:
    """Return device and port of one end, or why they are not understood."""
    if not node or not text:
        return f"has no {'port' if node else 'device'} at one end"
    if match := _PORT.fullmatch(text):
        port = int(match[1])
    elif match := _BLADE.fullmatch(text):
        node, port = chip_name(node, f"L{match[1]}", match[2]), int(match[3])
    else:
        device, slash, number = text.removeprefix(f"{node} ").partition("/")
        if not adapter_parts(f"{node} {device}") or (slash and not number.isdecimal()):
            return f"the port {shown(text)} is not understood"
        node, port = f"{node} {device}", int(number[:6] or 1)
    return (node, port) if 1 <= port <= MAX_PORTS else f"there is no port {port}"


def _rate(text: str, not_rates: set[str]) -> tuple[float, int, bool]:
    """Return Gb/s (NaN if not known), code of the name, and whether it is a mere number."""
    match = _SPEED.fullmatch(text)
    if match and float(match[1]):
        value = float(match[1])
        # NDT files state Mb/s.
        mega = match[2].lower() == "m" or (not match[2] and value >= 1000)
        return (value / 1000 if mega else value), 0, True
    try:
        return *parse_rate(text), False
    except InputError:
        not_rates.update({text} - {""})
        return math.nan, 0, False
