"""Reader of ibdm's topology files, lists of cables and system files.

A system of a topology file is a switch, an adapter or a chassis. What is inside a chassis, and how
its front panel is cabled to it, is in the system file (``.ibnl``) of its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.fabrics import DEFAULT_RATE, NodeKind
from weft.fabrics.formats.format_registry import reader, warn
from weft.fabrics.formats.netlist import MAX_PORTS, Netlist, NodeRecord, PortRecord
from weft.fabrics.formats.records import MAX_LINE, lines_of, shown
from weft.fabrics.formats.subnet_list import SPEEDS

#: Adapters among the types of ibdm's own system files.
_ADAPTERS = frozenset(
    """
    Cheetah Cougar Eagle Lion LionMini MHEA28-XT MHEH28 MHEL-CF128-T MHEL-CF256-T MHEL-CF512-T
    MHGH28 MHGS18-XT MHX-CE128-T MHX-CE256-T MHX-CE512-T MHXL-CF128-T MHXL-CF256-T MHXL-CF512-T
    MT23108 MT25204 MT25208 MT25218 MT25408 MTLP25208 MTPB23108
    """.split()  # noqa: SIM905
)
#: Ports of these, and of the switches that are one node with ports P1, P2, ….
_PORTS = dict.fromkeys(_ADAPTERS, 2) | {
    "Cheetah": 1, "MHGS18-XT": 1, "MT25204": 1, "Buffalo": 8, "MTS800": 8, "Reindeer": 24,
    "MTS2400": 24, "MTS2400-24": 24, "MTS3600": 36, "Shark": 36, "IS4": 36, "F464M": 36,
}  # fmt: skip
#: Ways to say in a topology file that a board is not there.
_REMOVED = ("R", "X", "Removed")
#: Most levels of boards in boards, and boards and nodes of a system.
_MAX_LEVELS, _MAX_PARTS = 8, 10_000
_FIRST_GUID = {NodeKind.HOST: 1 << 20, NodeKind.SWITCH: 1 << 32}

_ARROW = r"-(?:(\d{1,2})[xX]-)?(?:([\d.]{1,4})G-)?>"
_SYSTEM = re.compile(r"\s*([^/\s]+)\s+([^/\s]+)(?:\s+CFG:\s*(.*))?")
_PORT = re.compile(rf"\s+(\S+)\s+{_ARROW}\s+(\S+)\s+(\S+)\s+(\S+)\s*")
_CABLE = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S*P\d+)\s+(\S+)\s+(\S+)\s+(\S*P\d+)\s*")
_NUMBER = re.compile(r"P([1-9]\d{0,2})", re.ASCII)
_LINK = re.compile(rf"\s*(\S+)\s*{_ARROW}\s*(\S+)(?:\s+(\S+))?\s*")
_NODE = re.compile(r"\s*NODE\s+(SW|CA|HCA)\s+(\d{1,3})\s+\S+\s+(\S+)\s*", re.ASCII)

#: Index of a node, and one of its ports.
_End = tuple[int, int]


class _Cable(NamedTuple):
    line: int
    ends: tuple[tuple[str, str], tuple[str, str]]
    rate: str


@dataclass
class _System:
    """A system of a topology file."""

    type: str
    line: int
    boards: dict[str, str] = field(default_factory=dict)
    #: Names of the ports that cables use.
    used: dict[str, int] = field(default_factory=dict)


def is_ibdm(text: str) -> bool:
    """Return whether a text is a topology file or a list of cables of ibdm."""
    lines = [line for line in text[:10_000].splitlines() if line.strip() and line[0] != "#"]
    if not lines or len(lines[0]) > MAX_LINE:
        return False
    after = next((line for line in lines if line[0] in " \t"), "")
    in_sections = _SYSTEM.fullmatch(lines[0]) and _PORT.fullmatch(after[:MAX_LINE])
    return bool(in_sections or _CABLE.fullmatch(lines[0]))


@reader("ibdm", suffixes=(".topo", ".cables"), sniff=is_ibdm)
def read(text: str, file: str, *, systems: str | None = None, rate: str = DEFAULT_RATE) -> Netlist:
    """Topology file (``.topo``) or list of cables (``.cables``) of ibdm, without GUIDs and LIDs.

    A system whose ports are all named P1, P2 and so on is one node. It is an adapter if its type is
    one of ibdm's adapters, or if no system of the type has a section of its own or more than two
    cables; a `FormatWarning` names the types for which this is assumed. Any other system is a
    chassis, whose type must have a system file.

    Parameters
    ----------
    systems
        Folder with system files (``.ibnl``); Debian's libibdm1 has one, ``ibdm1.5.7/ibnl``.
    rate
        Rate of cables for which the file states none; ibdm itself takes 4xSDR.

    Raises
    ------
    InputError
        If a line is invalid or contradicts another, or a chassis has no system file.
    """
    found: dict[str, _System] = {}
    sections: set[str] = set()
    cables = list(_cables(text, file, found, sections))
    if not cables:
        raise InputError("lists no cable", file=file)
    net = Netlist(file, rate, real_guids=False)
    maker = _Maker(net, found, sections, _definitions(systems))
    ports = {name: maker.make(name, system) for name, system in found.items()}
    if maker.assumed:
        kinds = ", ".join(maker.assumed)
        warn(file, f"types without a system file are assumed to be one node: {kinds}")
    seen: set[tuple[_End, _End]] = set()
    for cable in cables:
        near, far = (_end(ports[name], name, port, cable, net) for name, port in cable.ends)
        if (near, far) not in seen:
            seen.add((near, far))
            maker.connect(near, far, cable.rate, cable.line)
    net.mirror()
    return net


def _end(ports: Mapping[str, _End], name: str, port: str, cable: _Cable, net: Netlist) -> _End:
    if port not in ports:
        net.fail(f"{name} has no port {port}", cable.line)
    return ports[port]


def _cables(
    text: str, file: str, found: dict[str, _System], sections: set[str]
) -> Iterator[_Cable]:
    """Yield all cables; add the systems, and the types of those that have a section."""
    here = ""

    def add(kind: str, name: str, line: int) -> _System:
        system = found.setdefault(name, _System(kind, line))
        if system.type != kind:
            message = f"{name} is of type {kind} here, but {system.type} in line {system.line}"
            raise InputError(message, file=file, line=line)
        return system

    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            here = ""
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(line) > MAX_LINE:
            raise InputError(f"has more than {MAX_LINE} characters", file=file, line=number)
        if match := _SYSTEM.fullmatch(line):
            here = match[2]
            system = add(match[1], here, number)
            sections.add(match[1])
            for part in filter(None, (match[3] or "").split(",")):
                board, equals, modifier = part.strip().partition("=")
                if not equals:
                    message = f"expected board=modifier after CFG:, found {shown(part)}"
                    raise InputError(message, file=file, line=number)
                system.boards[board] = modifier
        elif here and (match := _PORT.fullmatch(line)):
            port, width, speed, kind, name, far = match.groups()
            add(kind, name, number).used.setdefault(far, number)
            found[here].used.setdefault(port, number)
            yield _Cable(number, ((here, port), (name, far)), _rate(width, speed))
        elif not here and (match := _CABLE.fullmatch(line)):
            ends = ((match[2], match[3]), (match[5], match[6]))
            for kind, (name, port) in zip((match[1], match[4]), ends, strict=True):
                add(kind, name, number).used.setdefault(port, number)
            yield _Cable(number, ends, "")
        else:
            message = f"expected a system, or a port as in P1 -> TYPE NAME P2, found {shown(line)}"
            raise InputError(message, file=file, line=number)


def _rate(width: str | None, speed: str | None) -> str:
    """Return a rate of which a half may be unknown; an empty text if all of it is."""
    if width or speed:
        return f"{width or '?'}{'x' if width else ''}{SPEEDS.get(speed, speed) if speed else '???'}"
    return ""


# -- system files ----------------------------------------------------------------------------------


@dataclass
class _Board:
    """A board or whole system of a system file."""

    #: Name of a node or board in it -> kind and number of ports, or the name of a board.
    parts: dict[str, tuple[NodeKind, int] | str] = field(default_factory=dict)
    #: Name of a port -> name of a part, and its port.
    ports: dict[str, tuple[str, str]] = field(default_factory=dict)
    cables: list[tuple[str, str, str, str, str]] = field(default_factory=list)


class _Definition(NamedTuple):
    """A type of a system file, with the boards of this file."""

    file: Path
    top: _Board
    boards: dict[str, _Board]


def _definitions(folder: str | None) -> dict[str, _Definition]:
    """Return the types of all system files in a folder."""
    if folder is None:
        return {}
    files = sorted(Path(folder).glob("*.ibnl"))
    if not files:
        raise InputError("has no system file (.ibnl)", file=folder)
    return {name: each for file in files for name, each in _definitions_of(file).items()}


def _definitions_of(file: Path) -> dict[str, _Definition]:
    boards: dict[str, _Board] = {}
    types: dict[str, _Definition] = {}
    board, part = _Board(), ""
    for number, line in enumerate(lines_of(read_text(file)), 1):
        words = line.split()
        if not words or words[0][0] == "#":
            continue
        if words[0] in ("SYSTEM", "TOPSYSTEM"):
            board, part = _Board(), ""
            names = [name.strip() for name in "".join(words[1:]).split(",")]
            if words[0] == "SYSTEM":
                boards.update(dict.fromkeys(names, board))
            else:
                types.update(dict.fromkeys(names, _Definition(file, board, boards)))
        elif match := _NODE.fullmatch(line[:MAX_LINE]):
            part = match[3]
            kind = NodeKind.SWITCH if match[1] == "SW" else NodeKind.HOST
            board.parts[part] = kind, int(match[2])
        elif words[0] == "SUBSYSTEM" and len(words) == 3:
            part = words[2]
            board.parts[part] = words[1]
        elif part and (match := _LINK.fullmatch(line[:MAX_LINE])):
            port, width, speed, to, far = match.groups()
            if far is None:
                board.ports[to] = part, port
            else:
                board.cables.append((part, port, to, far, _rate(width, speed)))
        elif part or "=" not in line:
            message = f"expected SYSTEM, NODE, SUBSYSTEM or a port, found {shown(line)}"
            raise InputError(message, file=file, line=number)
    return types


class _Maker:
    """Adds the nodes of systems to the records."""

    def __init__(
        self,
        net: Netlist,
        found: Mapping[str, _System],
        sections: set[str],
        definitions: Mapping[str, _Definition],
    ):
        self.net, self.definitions = net, definitions
        self.guid = dict(_FIRST_GUID)
        self.kinds: dict[str, tuple[NodeKind, int]] = {}
        self.assumed: list[str] = []
        used: dict[str, int] = {}
        for system in found.values():
            numbers = [int(m[1]) for m in map(_NUMBER.fullmatch, system.used) if m]
            used[system.type] = max(used.get(system.type, 1), len(system.used), *numbers, 1)
        for name, ports in used.items():
            known = name in _PORTS
            host = name in _ADAPTERS if known else ports <= 2 and name not in sections
            self.kinds[name] = (NodeKind.HOST if host else NodeKind.SWITCH, _PORTS.get(name, ports))
            if not known and name not in definitions:
                self.assumed.append(f"{name} ({'adapter' if host else 'switch'} of {ports} ports)")

    def make(self, name: str, system: _System) -> dict[str, _End]:
        """Add a system; return the node and port behind each of its ports."""
        definition = self.definitions.get(system.type)
        if definition is not None:
            return _Chassis(self, name, system, definition).ports
        odd = [port for port in system.used if not _NUMBER.fullmatch(port)]
        if odd or system.boards:
            self.net.fail(
                f"{name} is a chassis of type {system.type}: give the folder of its system file, "
                f"as in --format ibdm:systems=FOLDER",
                system.used[odd[0]] if odd else system.line,
            )
        node = self.node(name, *self.kinds[system.type], system.line)
        return {port: (node, int(port[1:])) for port in system.used}

    def node(self, name: str, kind: NodeKind, ports: int, line: int, chassis: int = 0) -> int:
        guid = self.guid[kind]
        self.guid[kind] += min(ports, MAX_PORTS) + 1
        self.net.add_node(NodeRecord(line, kind, ports, name, guid, name, system_guid=chassis))
        return len(self.net.nodes) - 1

    def connect(self, near: _End, far: _End, rate: str, line: int) -> None:
        record = PortRecord(line, *near, self.net.nodes[far[0]].id, far[1])
        self.net.ports.append(record._replace(rate=self.net.rate(rate, line)) if rate else record)


class _Chassis:
    """The nodes of a system by its system file, and what is behind its ports."""

    def __init__(self, maker: _Maker, name: str, system: _System, definition: _Definition):
        self.net, self.name, self.system, self.definition = maker.net, name, system, definition
        #: Board or node at each path, such as ``leaf1/U1``; None if it was removed.
        self.parts: dict[str, _Board | tuple[NodeKind, int] | None] = {}
        self._collect(definition.top, "", 0)
        if absent := system.boards.keys() - self.parts.keys():
            self._fail(f"has no board {min(absent)}")
        kinds = {path: part for path, part in self.parts.items() if isinstance(part, tuple)}
        chassis = maker.guid[NodeKind.SWITCH] if len(kinds) > 1 else 0
        self.nodes = {
            path: maker.node(f"{name}/{path}" if chassis else name, *kind, system.line, chassis)
            for path, kind in kinds.items()
        }
        for path, board in [("", definition.top), *self.parts.items()]:
            for part, port, far_part, far_port, rate in (
                board.cables if isinstance(board, _Board) else ()
            ):
                near, far = (
                    self._end(f"{path}/{each}".lstrip("/"), number)
                    for each, number in ((part, port), (far_part, far_port))
                )
                # Boards of several kinds fit into a slot, and not all have all ports.
                if near and far:
                    maker.connect(near, far, rate, system.line)
        ends = {port: self._end(*inner) for port, inner in definition.top.ports.items()}
        self.ports = {port: end for port, end in ends.items() if end is not None}

    def _fail(self, what: str) -> NoReturn:
        where = f"{self.name} of type {self.system.type} in {self.definition.file}"
        self.net.fail(f"{where}: {what}", self.system.line)

    def _collect(self, board: _Board, path: str, level: int) -> None:
        if level > _MAX_LEVELS or len(self.parts) > _MAX_PARTS:
            self._fail("boards are nested too deeply, or too many")
        for name, part in board.parts.items():
            at = f"{path}{name}"
            if isinstance(part, tuple):
                self.parts[at] = part
                continue
            modifier = self.system.boards.get(at, "")
            master = f"{part}:{modifier}" if modifier else part
            inner = self.definition.boards.get(master)
            if modifier in _REMOVED:
                self.parts[at] = None
            elif inner is None:
                self._fail(f"no board {master} is defined")
            else:
                self.parts[at] = inner
                self._collect(inner, f"{at}/", level + 1)

    def _end(self, path: str, port: str) -> _End | None:
        """Return the node and port behind a port of a board or node; None if there is none."""
        while isinstance(board := self.parts.get(path), _Board) and port in board.ports:
            part, port = board.ports[port]
            path = f"{path}/{part}"
        if path not in self.nodes:
            return None
        if not port.isdecimal() or len(port) > 3:
            self._fail(f"{path} has no port {port}")
        return self.nodes[path], int(port)
