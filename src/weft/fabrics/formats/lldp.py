"""Readers of what switches and hosts of an Ethernet fabric know of their neighbours (LLDP).

Each file is what one device sees, so a fabric is a folder of files. Ports have names there; they
get numbers when all files are known.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple, NoReturn

from weft.core.counts import counted
from weft.core.errors import STANDARD_INPUT, InputError
from weft.core.words import few, natural_key
from weft.fabrics import DEFAULT_RATE, NodeKind
from weft.fabrics.formats.format_registry import printable, reader, warn
from weft.fabrics.formats.hostlist import expand
from weft.fabrics.formats.netlist import MAX_PORTS, Netlist, NodeRecord, PortRecord

#: Rates of Ethernet in Gb/s, and the names of equal rates of InfiniBand.
_RATES = {
    10: "1xFDR10", 25: "1xEDR", 40: "4xFDR10", 50: "1xHDR", 100: "4xEDR", 200: "4xHDR",
    400: "4xNDR", 800: "4xXDR",
}  # fmt: skip
#: Operational MAU type, as in ``100GbaseCR4`` and ``10GigBaseLR``; slower ones have no G.
_SPEED = re.compile(r"(\d{1,4})(G?)(?:ig)?[Bb]ase")
_SUFFIX = re.compile(r"(?:\.(?:json0?|txt|log|out|lldp))+$", re.IGNORECASE)
_MAC = re.compile(r"[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5}")
_TABLE = re.compile(r"^[ \t]*LocalPort\s+RemoteDevice\s+RemotePortID\b", re.MULTILINE)
_FIRST_GUID = {NodeKind.HOST: 1 << 20, NodeKind.SWITCH: 1 << 32}

#: Name of a device, and one of its ports.
_Port = tuple[str, str]


class _Sight(NamedTuple):
    """A neighbour at a port of a device."""

    line: int | None
    port: str
    device: str
    #: Names by which its port may be known to itself, the most probable first.
    names: tuple[str, ...]
    forwards: bool
    gbps: int | None = None


@dataclass
class Neighbours:
    """What one device sees."""

    file: str
    device: str
    #: Whether the name is that of the file, of which a domain may be missing.
    from_file: bool
    hosts: frozenset[str]
    rate: str
    is_switch: bool = False
    seen: list[_Sight] = field(default_factory=list)

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Refuse the file with a message."""
        raise InputError(message, file=self.file, line=line)


@reader(
    "lldp", suffixes=(".lldp",),
    sniff=lambda text: re.match(r'\s*\{\s*"(?:lldp|local-chassis)"\s*:', text) is not None,
)  # fmt: skip
def read(
    text: str, file: str, *, device: str | None = None, hosts: str = "", rate: str = DEFAULT_RATE
) -> Neighbours:
    """Neighbours of a switch or host in an Ethernet fabric: ``lldpctl -f json`` or ``json0``.

    Give a folder with a file of each switch. A device is a switch if its neighbours say that it
    forwards (bridge or router, enabled), and a host otherwise. Ports are numbered from 1 in natural
    order of their names, or by their own numbers if all ports of the device have names such as
    ``swp7``. Cables of less than 10 Gb/s are left out.

    Parameters
    ----------
    device
        Name of the device of which this is the output. Default: the name that the file states
        (``local-chassis``), else that of the file without ``.json``, ``.txt`` or ``.lldp``.
    hosts
        Host list of devices that are hosts although they forward, such as those with containers.
    rate
        Rate of cables for which no file states one; 4xHDR stands for 200 Gb/s.

    Raises
    ------
    InputError
        If the text is not what lldpctl prints.
    """
    documents = list(_documents(text, file))
    net = _neighbours(file, device, hosts, rate)
    for each in documents:
        own = [name for name, _ in _chassis(each.get("local-chassis", {}), net)]
        if own and device is None:
            net.device, net.from_file = own[0], False
    for each in documents:
        for lldp in _all(each.get("lldp")):
            if not isinstance(lldp, dict) or lldp.keys() - {"interface"}:
                net.fail("expected a list of interfaces in lldp")
            for port, item in _entries(lldp.get("interface"), "chassis", net):
                before = len(net.seen)
                net.seen += [
                    _sight(net, port, item, name, chassis) for name, chassis in _chassis(item, net)
                ]
                if len(net.seen) == before:
                    net.fail(f"{port or 'an interface'} has no chassis")
    return net


@reader(
    "sonic-lldp", suffixes=(".lldp.txt",),
    sniff=lambda text: _TABLE.search(text[:100_000]) is not None,
)  # fmt: skip
def read_table(
    text: str, file: str, *, device: str | None = None, hosts: str = "", rate: str = DEFAULT_RATE
) -> Neighbours:
    """Neighbours of a SONiC switch: the table of ``show lldp table``.

    As for ``lldp``; the table has no rates. The management port ``eth0`` is left out.

    Parameters
    ----------
    device
        Name of the switch. Default: the name of the file without ``.txt``.
    hosts
        Host list of devices that are hosts although they forward.
    rate
        Rate of all cables for which no other file states one.

    Raises
    ------
    InputError
        If a row is invalid, or the number of rows is not the one that the table states.
    """
    net = _neighbours(file, device, hosts, rate)
    net.is_switch = True
    columns: list[slice] | None = None
    rows = total = managed = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if columns is None:
            if words and set(line) <= {"-", " "} and len(words) == 5:
                edges = [match.start() for match in re.finditer("-+", line)]
                columns = [slice(*pair) for pair in zip(edges, [*edges[1:], None], strict=True)]
        elif not words or (len(words) == 1 and set(words[0]) == {"-"}):
            continue
        elif line.startswith("Total entries displayed:"):
            total = number
            if words[-1] != str(rows):
                net.fail(f"states {words[-1]} entries, but lists {rows}", number)
        else:
            rows += 1
            managed += line.startswith("eth0 ")
            port, name, far, capability, text_of = (line[column].strip() for column in columns)
            if not port or not far:
                net.fail("expected a local port, a device and its port", number)
            if not name:
                net.fail(f"the neighbour at {port} has no name; use lldpctl -f json", number)
            if port != "eth0":
                names = (text_of, far) if _MAC.fullmatch(far) else (far, text_of)
                forwards = not {"R", "B"}.isdisjoint(capability)
                net.seen.append(_Sight(number, port, name, tuple(filter(None, names)), forwards))
    if columns is None:
        net.fail("has no line of dashes below the heading")
    if not total:
        net.fail("has no number of entries at the end; it may be cut short")
    if managed:
        warn(file, "left out: eth0, the port for management", kind="left out", lost=managed)
    return net


def _neighbours(file: str, device: str | None, hosts: str, rate: str) -> Neighbours:
    name = device or _SUFFIX.sub("", PurePath(file).name)
    if not device and (file in STANDARD_INPUT or file == "standard input"):
        raise InputError("give the device of which this is the output: lldp:device=NAME", file=file)
    return Neighbours(file, name, device is None, frozenset(expand(hosts) if hosts else ()), rate)


# -- JSON ------------------------------------------------------------------------------------------


def _documents(text: str, file: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text, one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while match := re.compile(r"\s*(?=\S)").match(text, at):
        try:
            found, at = decoder.raw_decode(text, match.end())
        except json.JSONDecodeError as error:
            raise InputError(
                f"is not valid JSON: {error.msg}", file=file, line=error.lineno
            ) from None
        except RecursionError:
            raise InputError("is nested too deeply", file=file) from None
        if not isinstance(found, dict) or not found.keys() & {"lldp", "local-chassis"}:
            raise InputError("expected the output of lldpctl -f json", file=file)
        yield found


def _all(value: Any) -> list[Any]:
    """Return the members of a list; json leaves out a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: Any) -> str:
    """Return a text, which json0 puts into a list of one object with a value."""
    first = next(iter(_all(value)), "")
    text = first.get("value", "") if isinstance(first, dict) else first
    return printable(str(text).strip())


def _entries(value: Any, key: str, net: Neighbours) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and contents of objects: json has ``{name: {…}}``, json0 ``{"name": …, …}``.

    `key`: key of the contents, by which an object without a name is known.
    """
    for item in _all(value):
        if isinstance(item, dict) and (key in item or "name" in item):
            yield _text(item.get("name")), item
        elif isinstance(item, dict) and all(isinstance(each, dict) for each in item.values()):
            yield from ((printable(name), each) for name, each in item.items())
        else:
            net.fail(f"expected an object with {key}, found {item!r:.40}")


def _chassis(item: Any, net: Neighbours) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and contents of each chassis; without a name, it is the text of its id."""
    for each in _all(item):
        if isinstance(each, dict):
            for name, chassis in _entries(each.get("chassis"), "id", net):
                yield name or _text(chassis.get("id")), chassis


def _sight(
    net: Neighbours, port: str, item: dict[str, Any], name: str, chassis: dict[str, Any]
) -> _Sight:
    far = next((each for each in _all(item.get("port")) if isinstance(each, dict)), {})
    names = [_text(far.get("id")), _text(far.get("descr"))]
    kind = next((each.get("type") for each in _all(far.get("id")) if isinstance(each, dict)), "")
    if kind == "mac":
        names.reverse()
    if not (port and name and any(names)):
        net.fail(f"expected a port and its neighbour with a port, found {port!r} and {name!r}")
    enabled = {
        each.get("type")
        for each in _all(chassis.get("capability"))
        if isinstance(each, dict) and each.get("enabled") in (True, "on", "yes")
    }
    negotiation = next(iter(_all(far.get("auto-negotiation"))), None)
    mau = _text(negotiation.get("current")) if isinstance(negotiation, dict) else ""
    speed = _SPEED.match(mau)
    gbps = None if speed is None else int(speed[1]) if speed[2] else 1
    forwards = bool(enabled & {"Bridge", "Router"})
    return _Sight(None, port, name, tuple(filter(None, names)), forwards, gbps)


# -- joining ---------------------------------------------------------------------------------------


def joined(files: Sequence[Neighbours]) -> Netlist:
    """Return the records of the fabric that several devices see."""
    folders = {str(PurePath(each.file).parent) for each in files}
    name = min(folders) if len(files) > len(folders) == 1 else few([each.file for each in files])
    rate = next((each.rate for each in files if each.rate != DEFAULT_RATE), DEFAULT_RATE)
    net = Netlist(name, rate, real_guids=False)
    seen = _by_device(files)
    hosts = frozenset().union(*(each.hosts for each in files))
    switches = {each.device for each in files if each.is_switch}
    switches |= {
        s.device for ports in seen.values() for all in ports.values() for s in all if s.forwards
    }
    cables = _cables(seen, net)
    if not cables:
        net.fail("no port has a neighbour")
    ports: dict[str, set[str]] = defaultdict(set)
    for name, port in cables:
        ports[name].add(port)
    numbers = {name: _numbers(names) for name, names in ports.items()}
    guid = dict(_FIRST_GUID)
    at = {}
    for number, name in enumerate(sorted(ports, key=natural_key)):
        kind = NodeKind.SWITCH if name in switches - hosts else NodeKind.HOST
        most = max(numbers[name].values())
        if most > MAX_PORTS:
            net.fail(f"{name} has {most} cabled ports; expected at most {MAX_PORTS}")
        net.add_node(NodeRecord(0, kind, most, name, guid[kind], name))
        guid[kind] += most + 1
        at[name] = number
    for (name, port), ((far, far_port), gbps) in cables.items():
        record = PortRecord(0, at[name], numbers[name][port], far, numbers[far][far_port])
        net.ports.append(
            record if gbps is None else record._replace(rate=net.rate(_RATES[gbps], 0))
        )
    return net


def _by_device(files: Sequence[Neighbours]) -> dict[str, dict[str, list[_Sight]]]:
    """Return what each port of each device sees; name devices as their neighbours do."""
    named = {sight.device for each in files for sight in each.seen}
    short: dict[str, list[str]] = defaultdict(list)
    for name in named:
        for dot in re.finditer(r"\.", name):
            short[name[: dot.start()]].append(name)
    seen: dict[str, dict[str, list[_Sight]]] = {}
    for each in files:
        if each.from_file and each.device not in named and len(short[each.device]) == 1:
            each.device = short[each.device][0]
        ports = seen.setdefault(each.device, {})
        for sight in each.seen:
            if sight not in (at := ports.setdefault(sight.port, [])):
                at.append(sight)
    return seen


def _cables(
    seen: dict[str, dict[str, list[_Sight]]], net: Netlist
) -> dict[_Port, tuple[_Port, int | None]]:
    """Return the other end and the rate of the cable at each port."""
    ends: dict[_Port, tuple[_Port, int | None]] = {}
    slow, several, odd = [], [], []
    for device in sorted(seen, key=natural_key):
        for port, sights in sorted(seen[device].items(), key=lambda item: natural_key(item[0])):
            far_ends = {_far(seen, device, sight): sight.gbps for sight in sights}
            known = [end for end in far_ends if _confirms(seen, end, (device, port))]
            if len(known or far_ends) > 1:
                several.append(f"{device} {port}")
                continue
            end = known[0] if known else next(iter(far_ends))
            gbps = far_ends[end]
            if gbps is not None and gbps not in _RATES:
                if gbps >= min(_RATES):
                    net.fail(f"{device} {port}: a rate of {gbps} Gb/s is not known")
                slow.append(f"{device} {port}")
                continue
            for here, there in (((device, port), end), (end, (device, port))):
                if ends.get(here, (there, None))[0] != there:
                    odd.append(f"{device} {port} to {' '.join(end)}")
                    break
            else:
                for here, there in (((device, port), end), (end, (device, port))):
                    ends[here] = there, _lower(gbps, ends.get(here, (there, None))[1])
    for items, what, severity in (
        (slow, "slower than 10 Gb/s, of a network for management", "note"),
        (several, "of ports with several neighbours", "warning"),
        (odd, "to a port that another cable uses", "warning"),
    ):
        if items:
            text = f"left out: {counted(items, 'cable', what)}"
            facts = {"items": tuple(items), "severity": severity, "lost": len(items)}
            warn(net.file, text, kind="left out", **facts)
    return ends


def _far(seen: dict[str, dict[str, list[_Sight]]], device: str, sight: _Sight) -> _Port:
    """Return the port that a sight is of, by the name that its own device has for it."""
    own = seen.get(sight.device, {})
    for name in sight.names:
        if name in own:
            return sight.device, name
    back = [
        port
        for port, sights in own.items()
        if any(each.device == device and sight.port in each.names for each in sights)
    ]
    return sight.device, back[0] if len(back) == 1 else sight.names[0]


def _confirms(seen: dict[str, dict[str, list[_Sight]]], end: _Port, here: _Port) -> bool:
    """Return whether the port at the other end sees this device."""
    sights = seen.get(end[0], {}).get(end[1], [])
    return any(each.device == here[0] for each in sights)


def _lower(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Return numbers of ports: their own if all have the same text in front, else by order."""
    ordered = sorted(names, key=natural_key)
    parts = [re.fullmatch(r"(.*?)([1-9]\d{0,2})", name, re.ASCII) for name in ordered]
    if all(parts) and len({part[1] for part in parts if part}) == 1:
        own = {name: int(part[2]) for name, part in zip(ordered, parts, strict=True) if part}
        if max(own.values()) <= MAX_PORTS:
            return own
    return {name: number for number, name in enumerate(ordered, 1)}
