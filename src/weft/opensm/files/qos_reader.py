"""OpenSM's ``qos-policy.conf`` as a matrix: the service level that each pair of ports would get."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.core.words import few
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.format_registry import warn
from weft.opensm.files.ports import by_port_guid, port_guids
from weft.routes import NUM_SLS

_SECTIONS = {"port-groups": "port-group", "qos-levels": "qos-level"}
_SECTIONS["qos-match-rules"] = "qos-match-rule"
_GUIDS = re.compile(r"0[xX]([0-9a-fA-F]{1,16})(?:\s*-\s*0[xX]([0-9a-fA-F]{1,16}))?")
#: What a rule may ask that no pair of ports answers: the service, the partition.
_NOT_PORTS = {"qos-class", "service-id", "pkey"}
#: Entries that say nothing of service levels.
_PASSED = {
    "port-group": {"use"},
    "qos-level": {"use", "mtu-limit", "rate-limit", "packet-life", "path-bits", "pkey"},
    "qos-match-rule": {"use"},
}


@dataclass
class _Item:
    """A group, level or rule: its entries, each with its line."""

    kind: str
    line: int
    entries: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def one(self, key: str) -> tuple[str, int] | None:
        found = self.entries.get(key)
        return found[-1] if found else None


def read_qos_policy(fabric: Fabric, path: str | Path) -> NDArray[np.uint8]:
    """Service level of a plain path query between each two endpoints.

    Groups by port GUID and by node type are understood. Rules that ask for a service, a class or a
    partition cannot match a plain query and are left out, as is the section ``qos-ulps``, with a
    `FormatWarning`.

    Parameters
    ----------
    fabric
        What the ports are of.
    path
        The file.

    Returns
    -------
    NDArray
        uint8 [endpoints, endpoints], by source and destination.

    Raises
    ------
    InputError
        With file and line: a section that does not end, a group or level that is not there, a
        level without a service level, no level ``DEFAULT``, a GUID of no port, or a group by port
        name or partition in a rule that would count.
    """
    items, ulps = _items(read_text(path), str(path))
    return _Reader(fabric, items, str(path)).matrix(ulps)


def _items(text: str, file: str) -> tuple[list[_Item], int]:
    """Groups, levels and rules in order, and how many lines qos-ulps has."""
    items: list[_Item] = []
    section = ""
    opened = 0
    item: _Item | None = None
    ulps = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if section in ("qos-setup", "qos-ulps"):
            if line == f"end-{section}":
                section = ""
            else:
                ulps += section == "qos-ulps"
        elif not section:
            if line not in (*_SECTIONS, "qos-setup", "qos-ulps"):
                raise InputError(
                    f"expected a section such as qos-levels, found {line[:60]!r}",
                    file=file,
                    line=number,
                )
            section, opened = line, number
        elif item is None:
            if line == f"end-{section}":
                section = ""
            elif line == _SECTIONS[section]:
                item = _Item(line, number)
            else:
                raise InputError(
                    f"expected {_SECTIONS[section]} or end-{section}, found {line[:60]!r}",
                    file=file,
                    line=number,
                )
        elif line == f"end-{item.kind}":
            items.append(item)
            item = None
        else:
            key, colon, value = (part.strip() for part in line.partition(":"))
            if not colon:
                raise InputError(
                    f"expected 'keyword: value' or end-{item.kind}, found {line[:60]!r}",
                    file=file,
                    line=number,
                )
            item.entries.setdefault(key, []).append((value, number))
    if section:
        what, line_of = (item.kind, item.line) if item else (section, opened)
        raise InputError(f"{what} begins here and has no end", file=file, line=line_of)
    return items, ulps


class _Reader:
    def __init__(self, fabric: Fabric, items: list[_Item], file: str):
        self.fabric, self.items, self.file = fabric, items, file
        self.place = by_port_guid(fabric)
        self.sorted = np.sort(port_guids(fabric))

    def fail(self, message: str, line: int | None) -> InputError:
        return InputError(message, file=self.file, line=line)

    def matrix(self, ulps: int) -> NDArray[np.uint8]:
        count = self.fabric.num_endpoints
        groups = {self._name(i): i for i in self.items if i.kind == "port-group"}
        levels = {self._name(i): self._level(i) for i in self.items if i.kind == "qos-level"}
        if "DEFAULT" not in levels:
            raise self.fail("has no level called DEFAULT, which OpenSM demands", None)
        known: dict[str, NDArray[np.bool_]] = {}
        skipped = []
        rules = []
        for item in self.items:
            if item.kind != "qos-match-rule":
                self._check_keys(item, {"name"})
                continue
            self._check_keys(item, {"source", "destination", "qos-level-name", *_NOT_PORTS})
            said = item.one("qos-level-name")
            if said is None or said[0] not in levels:
                raise self.fail(
                    "a rule names no level" if said is None else f"there is no level {said[0]!r}",
                    item.line if said is None else said[1],
                )
            if _NOT_PORTS & set(item.entries):
                skipped.append(f"line {item.line}")
                continue
            source = self._ends(item, "source", groups, known)
            destination = self._ends(item, "destination", groups, known)
            rules.append((source, destination, levels[said[0]]))
        sls = np.full((count, count), levels["DEFAULT"], dtype=np.uint8)
        for source, destination, level in reversed(rules):  # the first that matches counts
            sls[source[:, None] & destination] = level
        if skipped:
            warn(
                self.file,
                f"{len(skipped)} rules ask for a service, class or partition and were left out: "
                + few(skipped),
            )
        if ulps:
            warn(self.file, f"{ulps} lines of qos-ulps are for services and were left out")
        return sls

    def _check_keys(self, item: _Item, more: set[str]) -> None:
        allowed = more | _PASSED[item.kind]
        if item.kind == "qos-level":
            allowed |= {"sl"}
        if item.kind == "port-group":
            allowed |= {"port-guid", "port-name", "pkey", "partition", "node-type"}
        for key, values in item.entries.items():
            if key not in allowed:
                raise self.fail(f"{key[:40]!r} is no keyword of a {item.kind}", values[0][1])

    def _name(self, item: _Item) -> str:
        said = item.one("name")
        if said is None or not said[0]:
            raise self.fail(f"a {item.kind} has no name", item.line)
        return said[0]

    def _level(self, item: _Item) -> int:
        said = item.one("sl")
        if said is None:
            raise self.fail(f"level {self._name(item)!r} has no sl", item.line)
        if not (said[0].isascii() and said[0].isdecimal() and int(said[0]) < NUM_SLS):
            raise self.fail(f"a service level is 0 to {NUM_SLS - 1}, not {said[0][:20]!r}", said[1])
        return int(said[0])

    def _ends(
        self, item: _Item, end: str, groups: dict[str, _Item], known: dict[str, NDArray[np.bool_]]
    ) -> NDArray[np.bool_]:
        """Which endpoints a rule is for, all where it does not say."""
        if end not in item.entries:
            return np.ones(self.fabric.num_endpoints, dtype=bool)
        found = np.zeros(self.fabric.num_endpoints, dtype=bool)
        for text, line in item.entries[end]:
            for name in (part.strip() for part in text.split(",")):
                if name not in groups:
                    raise self.fail(f"there is no port group {name[:40]!r}", line)
                if name not in known:
                    known[name] = self._members(groups[name])
                found |= known[name]
        return found

    def _members(self, group: _Item) -> NDArray[np.bool_]:
        fabric = self.fabric
        found = np.zeros(fabric.num_endpoints, dtype=bool)
        for key in ("port-name", "pkey", "partition"):
            if key in group.entries:
                raise self.fail(
                    f"a group by {key} cannot be resolved here; name its ports by port-guid",
                    group.entries[key][0][1],
                )
        for text, line in group.entries.get("node-type", []):
            for word in (part.strip().upper() for part in text.split(",")):
                if word == "ALL":
                    found[:] = True
                elif word == "CA":
                    found |= fabric.node_kind[fabric.endpoint_node] != NodeKind.SWITCH
                elif word not in ("SWITCH", "ROUTER", "SELF"):
                    raise self.fail(f"there is no node type {word[:20]!r}", line)
        for text, line in group.entries.get("port-guid", []):
            for part in (word.strip() for word in text.split(",")):
                match = _GUIDS.fullmatch(part)
                if match is None:
                    raise self.fail(f"expected a port GUID, found {part[:40]!r}", line)
                self._add(found, int(match[1], 16), match[2], line)
        return found

    def _add(self, found: NDArray[np.bool_], first: int, end: str | None, line: int) -> None:
        if end is None:
            if first not in self.place:
                raise self.fail(f"{first:#018x} is the GUID of no port of {self.fabric.name}", line)
            places = [self.place[first]]
        else:
            low = np.searchsorted(self.sorted, np.uint64(first), side="left")
            high = np.searchsorted(self.sorted, np.uint64(int(end, 16)), side="right")
            places = [self.place[int(guid)] for guid in self.sorted[low:high]]
        for place in places:
            if place < len(found):
                found[place] = True
