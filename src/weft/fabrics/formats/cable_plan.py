"""Reader of cable plans: CSV exports of spreadsheets, with one cable per row and named columns."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from weft.core.arguments import shown
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.core.units import parse_rate
from weft.core.words import few, split_quoted, unquoted
from weft.fabrics.builder import MAX_PORTS
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

_PORT = re.compile(r"(?:ib ?)?(?:port|p)? ?(?:1/)?(\d{1,5})", re.IGNORECASE | re.ASCII)
_BLADE = re.compile(r"blade ?(\d{1,3})[_ ]port (\d{1,2})/(\d{1,5})", re.IGNORECASE | re.ASCII)
_UNIT = re.compile(r"U? ?(\d{1,3})", re.IGNORECASE | re.ASCII)
_SPEED = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?([gm]?)(?:b(?:it)?(?:/s|ps))?", re.IGNORECASE)


class PlannedEnd(NamedTuple):
    """One end of a planned cable; `node` is the device, or ``chassis/L1/U1`` for a line card."""

    node: str
    port: int
    rack: str
    unit: int | None


class PlannedCable(NamedTuple):
    """A planned cable; `rate_gbps` is NaN where unknown, and nominal if `rate_code` is 0."""

    line: int
    ends: tuple[PlannedEnd, PlannedEnd]
    rate_gbps: float
    rate_code: int


@dataclass
class CablePlan:
    """The cables of a plan: each row is one of them, repeats one, or has a reason why it is not."""

    name: str
    rows: int = 0
    cables: list[PlannedCable] = field(default_factory=list)
    #: Line and reason of the rows that are not understood.
    refused: list[tuple[int, str]] = field(default_factory=list)
    #: Number of rows that repeat a cable, for example from its other end.
    repeated: int = 0
    #: Texts in the column of rates that are not understood.
    not_rates: set[str] = field(default_factory=set)


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
    return any(_header(text, separator, {}) for separator in _SEPARATORS)


def read_plan(text: str, file: str, named: Mapping[str, str]) -> CablePlan:
    """Read a cable plan.

    `named`: headers of columns with other names than those in `COLUMNS`.
    """
    headers = (_header(text, separator, named) for separator in _SEPARATORS)
    header = next((each for each in headers if each), None)
    if header is None:
        raise _without_header(text, file, named)
    plan = CablePlan(file)
    used: dict[tuple[str, int], tuple[int, tuple[str, int]]] = {}
    for line, row in header.rows(text, file):
        plan.rows += 1
        cable = _cable(row, line, plan.not_rates)
        if isinstance(cable, str):
            plan.refused.append((line, cable))
            continue
        a, b = ((end.node, end.port) for end in cable.ends)
        if a in used and used[a][1] == b:
            plan.repeated += 1
        elif taken := next((end for end in (a, b) if end in used), None):
            other = f"{taken[0]}[{taken[1]}] has another cable in line {used[taken][0]}"
            plan.refused.append((line, other))
        else:
            used[a], used[b] = (line, b), (line, a)
            plan.cables.append(cable)
    if not plan.cables:
        why = f"; line {plan.refused[0][0]}: {plan.refused[0][1]}" if plan.refused else ""
        raise InputError(f"has no row with a cable after its header{why}", file=file)
    return plan


class _Header(NamedTuple):
    separator: str
    number: int
    #: Column -> positions in a row; the first one with a text counts.
    places: Mapping[str, Sequence[int]]

    def rows(self, text: str, file: str) -> Iterator[tuple[int, dict[str, list[str]]]]:
        """Yield line and cells by column of each row that is not empty."""
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self.separator, strict=True)
        line = 1
        try:
            for number, row in enumerate(reader):
                cells = [" ".join(cell.split()) for cell in row]
                if number > self.number and any(cells):
                    yield (
                        line,
                        {
                            name: [cells[at] for at in places if at < len(cells) and cells[at]]
                            for name, places in self.places.items()
                        },
                    )
                line = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"is not valid CSV: {error}", file=file, line=line) from None


def _header(text: str, separator: str, named: Mapping[str, str]) -> _Header | None:
    for number, row in enumerate(_first_rows(text, separator)):
        places = _places(row, named)
        if all(places[name] for name in (*NEEDED, *named)):
            return _Header(separator, number, places)
    return None


def _first_rows(text: str, separator: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return list(islice(reader, _HEAD_ROWS))
    except csv.Error:
        return []


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
    rows = [row for separator in _SEPARATORS for row in _first_rows(text, separator)]
    fit = {at: sum(map(bool, _places(row, named).values())) for at, row in enumerate(rows)}
    best = rows[max(fit, key=lambda at: (fit[at], len(rows[at])))] if rows else []
    places = _places(best, named)
    lacking = [
        named.get(name, name) for name in {**dict.fromkeys(NEEDED), **named} if not places[name]
    ]
    heads = [shown(cell.strip()) for cell in best if cell.strip()]
    return InputError(
        f"has no column {' or '.join(map(repr, lacking))}; its first row has {few(heads, 12)}; "
        "name its columns with --columns, as in from_node=HEADER,from_port=HEADER",
        file=file,
    )


def _cable(row: Mapping[str, Sequence[str]], line: int, not_rates: set[str]) -> PlannedCable | str:
    """Return the cable of a row, or why it has none."""
    kind = "".join(row["link_type"][:1])
    if kind.lower() not in ("", "data"):
        return f"the link type {shown(kind)} is not Data"
    ends = []
    for end in ("from", "to"):
        texts = ("".join(row[f"{end}_{what}"][:1]) for what in ("node", "port"))
        known = _end(*texts)
        if isinstance(known, str):
            return known
        racks, units = row[f"{end}_rack"], [*row[f"{end}_unit"], *row[f"{end}_rack"]]
        rack = next((text for text in racks if not _UNIT.fullmatch(text)), "".join(racks[:1]))
        unit = next(filter(None, map(_UNIT.fullmatch, units)), None)
        ends.append(PlannedEnd(*known, rack, int(unit[1]) if unit else None))
    if ends[0][:2] == ends[1][:2]:
        return "both ends are one port"
    text = "".join(row["rate"][:1])
    rate = _rate(text)
    if rate is None:
        not_rates.add(text)
    return PlannedCable(line, (ends[0], ends[1]), *(rate or (math.nan, 0)))


def _end(node: str, text: str) -> tuple[str, int] | str:
    """Return device and port of one end of a cable, or why they are not understood."""
    if not node or not text:
        return f"has no {'port' if node else 'device'} at one end"
    if match := _PORT.fullmatch(text):
        port = int(match[1])
    elif match := _BLADE.fullmatch(text):
        node, port = f"{node}/L{int(match[1])}/U{int(match[2])}", int(match[3])
    else:
        device, slash, number = text.removeprefix(f"{node} ").partition("/")
        if not adapter_parts(f"{node} {device}") or (slash and not number.isdecimal()):
            return f"the port {shown(text)} is not understood"
        node, port = f"{node} {device}", int(number[:6] or 1)
    return (node, port) if 1 <= port <= MAX_PORTS else f"there is no port {port}"


def _rate(text: str) -> tuple[float, int] | None:
    match = _SPEED.fullmatch(text)
    if match is None:
        try:
            return parse_rate(text) if text else (math.nan, 0)
        except InputError:
            return None
    value = float(match[1])
    # NDT files state Mb/s.
    mega = match[2].lower() == "m" or (not match[2] and value >= 1000)
    return (value / 1000 if mega else value, 0) if value else None
