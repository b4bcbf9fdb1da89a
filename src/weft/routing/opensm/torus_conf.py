"""torus-2QoS.conf, which specifies the dimensions of a torus for OpenSM's torus-2QoS.

Each line has a keyword and its values; see torus-2QoS.conf(5). As in OpenSM, text after the values,
blank lines and lines that start with ``#`` are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.fabrics.formats.records import lines_of, shown

AXES = "xyz"
#: OpenSM's defaults.
PORTGROUP_MAX_PORTS = 16
MAX_CHANGES = 32

_RADIX = re.compile(r"(0[xX][0-9a-fA-F]{1,4}|\d{1,5})([mMtT]?)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|\d{1,20})", re.ASCII)
_LINK = re.compile(r"([xyz])([pm])_link")
_DATELINE = re.compile(r"([xyz])_dateline")


@dataclass(frozen=True)
class SeedLink:
    """A cable of a seed: from the seed's switch to a neighbour, both by node GUID."""

    tail_guid: int
    head_guid: int
    line: int = 0


@dataclass(frozen=True)
class TorusSeed:
    """A switch and some of its neighbours, which define the directions of the dimensions."""

    #: Links by direction, ``xp`` (up in x), ``xm`` (down in x), ``yp``…
    links: Mapping[str, SeedLink] = field(default_factory=dict)
    #: Coordinates of the origin relative to the seed's switch, in x, y and z.
    datelines: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class TorusConf:
    """Contents of a torus-2QoS.conf."""

    #: Number of switches in x, y and z; 1 for missing dimensions.
    radix: tuple[int, int, int]
    #: Whether each dimension is a ring; False for dimensions of two switches.
    wraps: tuple[bool, bool, bool]
    #: At least one seed; the first whose switches all exist is used.
    seeds: tuple[TorusSeed, ...]
    #: Maximum number of parallel cables between two switches. A switch can have this many adapters
    #: minus one, because its own port 0 counts as an adapter.
    portgroup_max_ports: int = PORTGROUP_MAX_PORTS
    #: Ports of a switch in the order in which their adapters are routed; other ports follow.
    port_order: tuple[int, ...] = ()
    #: Maximum number of changes of the torus that OpenSM reports.
    max_changes: int = MAX_CHANGES
    #: Name of the file, for error messages.
    file: str = ""


def read(path: str | Path) -> TorusConf:
    """Read a torus-2QoS.conf."""
    return parse(read_text(path), str(path))


def parse(text: str, file: str = "torus-2QoS.conf") -> TorusConf:
    """Parse the text of a torus-2QoS.conf."""
    return _Parser(file).parse(text)


class _Parser:
    def __init__(self, file: str) -> None:
        self.file = file
        self.line = 0
        self.radix: tuple[int, ...] = ()
        self.wraps: tuple[bool, ...] = ()
        self.links: list[dict[str, SeedLink]] = [{}]
        self.datelines: list[list[int]] = [[0, 0, 0]]
        self.starts = [0]
        self.most = PORTGROUP_MAX_PORTS
        self.order: tuple[int, ...] = ()
        self.changes = MAX_CHANGES

    def error(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, file=self.file, line=self.line if line is None else line)

    def parse(self, text: str) -> TorusConf:
        for number, line in enumerate(lines_of(text), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            self.line = number
            self.keyword(words[0], words[1:])
        if not self.radix:
            raise InputError("has no line 'torus x y z' or 'mesh x y z'", file=self.file)
        if len(self.links) > 1 and not self.links[0] and not any(self.datelines[0]):
            # A next_seed before the first seed starts the first seed.
            for parts in (self.links, self.datelines, self.starts):
                parts.pop(0)
        for links, start in zip(self.links, self.starts, strict=True):
            self.check_seed(links, start)
        x, y, z = self.radix
        return TorusConf(
            radix=(x, y, z),
            wraps=(self.wraps[0], self.wraps[1], self.wraps[2]),
            seeds=tuple(
                TorusSeed(links, (lines[0], lines[1], lines[2]))
                for links, lines in zip(self.links, self.datelines, strict=True)
            ),
            portgroup_max_ports=self.most,
            port_order=self.order,
            max_changes=self.changes,
            file=self.file,
        )

    def keyword(self, keyword: str, values: list[str]) -> None:
        if keyword in ("torus", "mesh"):
            self.shape(keyword, values)
            return
        if not self.radix:
            raise self.error(f"expected 'torus' or 'mesh' as first keyword, found {keyword!r}")
        if keyword == "next_seed":
            self.links.append({})
            self.datelines.append([0, 0, 0])
            self.starts.append(self.line)
        elif match := _LINK.fullmatch(keyword):
            self.link(match[1] + match[2], keyword, values)
        elif match := _DATELINE.fullmatch(keyword):
            axis = AXES.index(match[1])
            most = self.radix[axis] - 1
            self.datelines[-1][axis] = self.number(keyword, values, -most, most)
        elif keyword == "portgroup_max_ports":
            self.most = self.number(keyword, values, 1, 2**31 - 1)
        elif keyword == "max_changes":
            self.changes = self.number(keyword, values, 0, 2**31 - 1)
        elif keyword == "port_order":
            self.order = self.ports(values)
        else:
            raise self.error(
                f"unknown keyword {shown(keyword)}; expected torus, mesh, xp_link, xm_link, "
                "x_dateline (or y, z), next_seed, portgroup_max_ports, port_order or max_changes"
            )

    def shape(self, keyword: str, values: list[str]) -> None:
        if self.radix:
            raise self.error("there is already a line 'torus' or 'mesh'")
        sizes = [_RADIX.fullmatch(value) for value in values[:3]]
        if len(sizes) < 3 or not all(sizes):
            raise self.error(
                f"expected three radices after {keyword!r}, as in 'torus 4 5m 1', found "
                f"{shown(' '.join(values))}"
            )
        marks = [match[2].lower() for match in sizes if match]
        self.radix = tuple(_integer(match[1]) for match in sizes if match)
        if min(self.radix) < 1:
            raise self.error("a radix must be at least 1, also for missing dimensions")
        self.wraps = tuple(
            size > 2 and (mark or keyword[0]) == "t"
            for size, mark in zip(self.radix, marks, strict=True)
        )

    def link(self, direction: str, keyword: str, values: list[str]) -> None:
        guids = [value for value in values[:2] if _NUMBER.fullmatch(value)]
        if len(guids) < 2:
            raise self.error(
                f"expected two switch GUIDs after {keyword!r}, as in '{keyword} 0x200000 0x200001'"
            )
        tail, head = map(_integer, guids)
        if tail == head:
            raise self.error(f"{keyword} connects switch {tail:#x} to itself")
        links = self.links[-1]
        for other, link in links.items():
            if link.tail_guid != tail:
                raise self.error(
                    f"{keyword} starts at switch {tail:#x}, but {other}_link of the same seed in "
                    f"line {link.line} starts at {link.tail_guid:#x}"
                )
            if link.head_guid == head and other != direction:
                raise self.error(
                    f"{keyword} leads to switch {head:#x}, as {other}_link in line {link.line} does"
                )
        links[direction] = SeedLink(tail, head, self.line)

    def number(self, keyword: str, values: list[str], low: int, high: int) -> int:
        if not values or not _NUMBER.fullmatch(values[0]):
            raise self.error(f"expected a number after {keyword!r}")
        value = _integer(values[0])
        if not low <= value <= high:
            raise self.error(f"{keyword} must be {low} to {high}, not {value}")
        return value

    def ports(self, values: list[str]) -> tuple[int, ...]:
        ports: list[int] = []
        for value in values:
            if value.startswith("#"):
                break
            if not _NUMBER.fullmatch(value) or not 0 <= _integer(value) <= 254:
                raise self.error(f"port_order: {shown(value)} is not a port number of 0 to 254")
            if _integer(value) not in ports:
                ports.append(_integer(value))
        return tuple(ports)

    def check_seed(self, links: dict[str, SeedLink], start: int) -> None:
        line = max((link.line for link in links.values()), default=start or self.line)
        for axis, size, wrap in zip(AXES, self.radix, self.wraps, strict=True):
            signs = [sign for sign in "pm" if axis + sign in links]
            if size > 1 and not signs:
                raise self.error(
                    f"a seed has no {axis}p_link or {axis}m_link, but {axis} has radix {size}", line
                )
            if size == 4 and wrap and len(signs) < 2:
                raise self.error(
                    f"a seed has no {axis}{'m' if signs == ['p'] else 'p'}_link, but a ring of "
                    "four switches needs both directions",
                    line,
                )


def _integer(text: str) -> int:
    """Parse a number as in C: hexadecimal after 0x, octal after 0, else decimal."""
    digits = text.lstrip("+-")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if len(digits) > 1 and digits[0] == "0" else 10
    try:
        value = int(digits, base)
    except ValueError:
        value = int(digits, 10)
    return -value if text.startswith("-") else value


def write(conf: TorusConf) -> str:
    """Return the text of a torus-2QoS.conf."""
    rings = [size < 3 or wrap for size, wrap in zip(conf.radix, conf.wraps, strict=True)]
    keyword = "torus" if all(rings) or any(conf.wraps) else "mesh"
    sizes = [
        f"{size}{'m' if keyword == 'torus' and not ring else ''}"
        for size, ring in zip(conf.radix, rings, strict=True)
    ]
    lines = [f"{keyword} {' '.join(sizes)}"]
    if conf.portgroup_max_ports != PORTGROUP_MAX_PORTS:
        lines.append(f"portgroup_max_ports {conf.portgroup_max_ports}")
    if conf.port_order:
        lines.append(f"port_order {' '.join(map(str, conf.port_order))}")
    if conf.max_changes != MAX_CHANGES:
        lines.append(f"max_changes {conf.max_changes}")
    for number, seed in enumerate(conf.seeds):
        lines += ["", "next_seed", ""] if number else [""]
        lines += [
            f"{direction}_link {link.tail_guid:#018x} {link.head_guid:#018x}"
            for direction, link in sorted(seed.links.items(), key=lambda item: _order(item[0]))
        ]
        lines += [
            f"{axis}_dateline {shift}"
            for axis, shift in zip(AXES, seed.datelines, strict=True)
            if shift
        ]
    return "\n".join([*lines, ""])


def _order(direction: str) -> tuple[int, int]:
    return AXES.index(direction[0]), "pm".index(direction[1])
