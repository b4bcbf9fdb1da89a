"""Service levels in OpenSM's QoS files: a policy for pairs of ports, and SL to VL options.

OpenSM's ``-R file`` programs tables but no SLs. With ``-Q -Y qos-policy.conf`` OpenSM answers a
path query with the SL of the first match rule whose source and destination groups contain the two
ports. If no rule matches, it uses the SL of the qos-level ``DEFAULT``. Rules are for ports, so a
policy cannot express SLs that differ between the LIDs of one port.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.files import read_text
from weft.core.words import few
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.format_registry import warn
from weft.routing.opensm.ports import by_port_guid, port_guids
from weft.routing.routes import MAX_VLS, NUM_SLS, TableRoutes, VirtualLanes

_PER_LINE = 6


def endpoint_sls(fabric: Fabric, routes: TableRoutes) -> NDArray[np.uint8]:
    """Return the service level of each pair of endpoints, uint8 [sources, destinations]."""
    routes.check(fabric)
    sl = np.asarray(routes.sl, dtype=np.uint8)
    count, width = fabric.num_endpoints, 1 << routes.lmc
    rows = fabric.graph.destination_row[:count]
    if sl.ndim == 0:
        return np.full((count, count), sl, dtype=np.uint8)
    wide = width if sl.shape[-1] == fabric.num_destinations << routes.lmc else 1
    sl = sl[..., : count * wide].reshape(*sl.shape[:-1], count, wide)
    other = np.argwhere(sl != sl[..., :1])
    if len(other):
        node = fabric.endpoint_node[other[0][-2]]
        raise NotApplicable(
            f"the LIDs of {fabric.node_names[node]} have different service levels, but OpenSM's "
            "QoS policy distinguishes ports, not their LIDs"
        )
    sl = sl[..., 0]
    return np.broadcast_to(sl, (count, count)).copy() if sl.ndim == 1 else sl[rows]


def qos_policy(fabric: Fabric, routes: TableRoutes) -> str:
    """Return a ``qos-policy.conf`` with the service level of each pair of adapter ports.

    `routes`: routes; only `sl` is used.

    Returns the text of the file. Ports with the same service levels share a group. Pairs with the
    most common service level need no rule. Rules are grouped by source or by destination, whichever
    gives the shorter file.
    """
    sls = endpoint_sls(fabric, routes)
    default = int(np.bincount(sls.ravel(), minlength=NUM_SLS).argmax())
    by_source = _Policy(sls, default)
    by_destination = _Policy(np.ascontiguousarray(sls.T), default)
    transposed = by_destination.size < by_source.size
    return (by_destination if transposed else by_source).text(fabric, transposed)


class _Policy:
    """Rules for a matrix of service levels, grouped by the port of the matrix's first axis.

    Ports with equal service levels form a class. The rules that specify both ports of a pair are
    first; one such rule can apply to several classes. The rules after them specify only the port of
    the first axis, and give the service level of most pairs with a port of its class.
    """

    def __init__(self, sls: NDArray[np.uint8], default: int):
        self.default = default
        self.rules: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []
        if not sls.size:
            self.size = 0.0
            return
        vectors, label = np.unique(sls, axis=0, return_inverse=True)
        members = [np.flatnonzero(label.reshape(-1) == k).tolist() for k in range(len(vectors))]
        exact: dict[tuple[tuple[int, ...], int], list[int]] = {}
        rest: dict[int, list[int]] = {}
        for own, vector in zip(members, vectors, strict=True):
            common = int(np.bincount(vector, minlength=NUM_SLS).argmax())
            for level in np.setdiff1d(vector, common).tolist():
                others = tuple(np.flatnonzero(vector == level).tolist())
                exact.setdefault((others, level), []).extend(own)
            if common != default:
                rest.setdefault(common, []).extend(own)
        for (others, level), own in exact.items():
            self.rules.append((tuple(sorted(own)), others, level))
        for level, own in sorted(rest.items()):
            self.rules.append((tuple(sorted(own)), (), level))
        groups = {ports for rule in self.rules for ports in rule[:2]}
        self.size = 5 * len(self.rules) + sum(4 + len(ports) / _PER_LINE for ports in groups)

    def text(self, fabric: Fabric, transposed: bool) -> str:
        guids = port_guids(fabric).tolist()
        number: dict[tuple[int, ...], int] = {}
        for rule in self.rules:
            for ports in rule[:2]:
                if ports:
                    number.setdefault(ports, len(number) + 1)
        lines = []
        if number:
            lines.append("port-groups")
            for ports, group in number.items():
                lines += ["    port-group", f"        name: ports-{group}"]
                for start in range(0, len(ports), _PER_LINE):
                    some = (f"0x{guids[port]:016x}" for port in ports[start : start + _PER_LINE])
                    lines.append("        port-guid: " + ", ".join(some))
                lines.append("    end-port-group")
            lines += ["end-port-groups", ""]
        lines.append("qos-levels")
        used = {level for _, _, level in self.rules}
        for name, level in [("DEFAULT", self.default), *((f"SL{n}", n) for n in sorted(used))]:
            lines += ["    qos-level", f"        name: {name}", f"        sl: {level}"]
            lines.append("    end-qos-level")
        lines += ["end-qos-levels", ""]
        if self.rules:
            words = ("destination", "source") if transposed else ("source", "destination")
            lines.append("qos-match-rules")
            for own, others, level in self.rules:
                lines.append("    qos-match-rule")
                lines.append(f"        {words[0]}: ports-{number[own]}")
                if others:
                    lines.append(f"        {words[1]}: ports-{number[others]}")
                lines += [f"        qos-level-name: SL{level}", "    end-qos-match-rule"]
            lines += ["end-qos-match-rules", ""]
        return "\n".join(lines)


def qos_options(
    lanes: VirtualLanes | Sequence[int],
    *,
    max_vls: int | None = None,
    adapters: Sequence[int] | None = None,
    switches: Sequence[int] | None = None,
) -> str:
    """Return lines of ``opensm.conf`` that enable QoS and set the SL to VL tables of all ports.

    `lanes`: one table for all ports: lanes of routes, or a list of up to 16 VLs, one per SL; SLs
    beyond the end of the list use VL 0. `max_vls`: number of lanes in use, 1 to 15; by default as
    many as the tables need. `adapters`, `switches`: separate tables for adapters and for external
    ports of switches (``qos_ca_``, ``qos_swe_``).

    Returns lines with the options. Arbitration weights are equal for all lanes, while in OpenSM's
    defaults VL 0 has another priority than the other lanes.
    """
    if isinstance(lanes, VirtualLanes):
        if not lanes.is_uniform:
            raise NotApplicable(
                "the VL of a packet depends on its input and output port at a switch, but OpenSM's "
                "options have one table for all ports"
            )
        tables = {"": _table(lanes.tables[0].tolist())}
    else:
        tables = {"": _table(lanes)}
    if adapters is not None:
        tables["ca_"] = _table(adapters)
    if switches is not None:
        tables["swe_"] = _table(switches)
    needed = max(max(table) for table in tables.values()) + 1
    if max_vls is None:
        max_vls = needed
    if not needed <= max_vls <= MAX_VLS:
        raise InputError(f"max_vls must be {needed} to {MAX_VLS} for these tables, not {max_vls}")
    lines = ["qos TRUE"]
    for kind, table in tables.items():
        lines += [
            f"qos_{kind}max_vls {max_vls}",
            f"qos_{kind}high_limit 0",
            f"qos_{kind}vlarb_high {','.join(f'{vl}:0' for vl in range(max_vls))}",
            f"qos_{kind}vlarb_low {','.join(f'{vl}:4' for vl in range(max_vls))}",
            f"qos_{kind}sl2vl {','.join(map(str, table))}",
        ]
    return "\n".join([*lines, ""])


def _table(lanes: Sequence[int]) -> list[int]:
    table = [int(vl) for vl in lanes]
    if len(table) > NUM_SLS:
        raise InputError(f"a table has at most {NUM_SLS} service levels, not {len(table)}")
    for vl in table:
        if not 0 <= vl < MAX_VLS:
            raise InputError(f"a VL must be 0 to {MAX_VLS - 1}, not {vl}")
    return table + [0] * (NUM_SLS - len(table))


_SECTIONS = {"port-groups": "port-group", "qos-levels": "qos-level"}
_SECTIONS["qos-match-rules"] = "qos-match-rule"
_GUIDS = re.compile(r"0[xX]([0-9a-fA-F]{1,16})(?:\s*-\s*0[xX]([0-9a-fA-F]{1,16}))?")
#: Conditions of a rule that a query for a pair of ports does not meet: service and partition.
_NOT_PORTS = {"qos-class", "service-id", "pkey"}
#: Entries that do not affect service levels.
_PASSED = {
    "port-group": {"use"},
    "qos-level": {"use", "mtu-limit", "rate-limit", "packet-life", "path-bits", "pkey"},
    "qos-match-rule": {"use"},
}


@dataclass
class _Item:
    """A port group, qos-level or match rule: values of its entries and their lines by keyword."""

    kind: str
    line: int
    entries: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def one(self, key: str) -> tuple[str, int] | None:
        values = self.entries.get(key)
        return values[-1] if values else None


def read_qos_policy(fabric: Fabric, path: str | Path) -> NDArray[np.uint8]:
    """Return the service level of a path query for each pair of endpoints.

    The query specifies no service, class or partition. Rules for one of these cannot match the
    query and are left out with a `FormatWarning`, as is the section ``qos-ulps``. Port groups by
    port GUID and by node type are supported.

    Returns uint8 [source endpoints, destination endpoints].
    """
    items, ulps = _items(read_text(path), str(path))
    return _PolicyReader(fabric, items, str(path)).matrix(ulps)


def _items(text: str, file: str) -> tuple[list[_Item], int]:
    """Return port groups, qos-levels and rules in order, and the number of lines in qos-ulps."""
    items: list[_Item] = []
    section = ""
    opened = 0
    item: _Item | None = None
    ulps = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        wrong = partial(InputError, file=file, line=number)
        found = f"found {line[:60]!r}"
        if section in ("qos-setup", "qos-ulps"):
            if line == f"end-{section}":
                section = ""
            else:
                ulps += section == "qos-ulps"
        elif not section:
            if line not in (*_SECTIONS, "qos-setup", "qos-ulps"):
                raise wrong(f"expected a section such as qos-levels, {found}")
            section, opened = line, number
        elif item is None:
            if line == f"end-{section}":
                section = ""
            elif line == _SECTIONS[section]:
                item = _Item(line, number)
            else:
                raise wrong(f"expected {_SECTIONS[section]} or end-{section}, {found}")
        elif line == f"end-{item.kind}":
            items.append(item)
            item = None
        else:
            key, colon, value = (part.strip() for part in line.partition(":"))
            if not colon:
                raise wrong(f"expected 'keyword: value' or end-{item.kind}, {found}")
            item.entries.setdefault(key, []).append((value, number))
    if section:
        what, line_of = (item.kind, item.line) if item else (section, opened)
        raise InputError(f"{what} begins here and has no end", file=file, line=line_of)
    return items, ulps


class _PolicyReader:
    def __init__(self, fabric: Fabric, items: list[_Item], file: str):
        self.fabric, self.items, self.file = fabric, items, file
        self.destination = by_port_guid(fabric)
        self.sorted = np.sort(port_guids(fabric))

    def fail(self, message: str, line: int | None) -> InputError:
        return InputError(message, file=self.file, line=line)

    def matrix(self, ulps: int) -> NDArray[np.uint8]:
        count = self.fabric.num_endpoints
        groups = {self._name(i): i for i in self.items if i.kind == "port-group"}
        levels = {self._name(i): self._level(i) for i in self.items if i.kind == "qos-level"}
        if "DEFAULT" not in levels:
            raise self.fail("has no qos-level DEFAULT, which OpenSM requires", None)
        known: dict[str, NDArray[np.bool_]] = {}
        skipped = []
        rules = []
        for item in self.items:
            if item.kind != "qos-match-rule":
                self._check_keys(item, {"name"})
                continue
            self._check_keys(item, {"source", "destination", "qos-level-name", *_NOT_PORTS})
            name = item.one("qos-level-name")
            if name is None:
                raise self.fail("a rule has no qos-level-name", item.line)
            if name[0] not in levels:
                raise self.fail(f"there is no qos-level {name[0]!r}", name[1])
            if _NOT_PORTS & set(item.entries):
                skipped.append(f"line {item.line}")
                continue
            source = self._ends(item, "source", groups, known)
            destination = self._ends(item, "destination", groups, known)
            rules.append((source, destination, levels[name[0]]))
        sls = np.full((count, count), levels["DEFAULT"], dtype=np.uint8)
        for source, destination, level in reversed(rules):  # so that the first match is kept
            sls[source[:, None] & destination] = level
        if skipped:
            rules_of = "rules for a service, class or partition were left out"
            warn(self.file, f"{len(skipped)} {rules_of}: {few(skipped)}")
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
                raise self.fail(f"{key[:40]!r} is not a keyword of a {item.kind}", values[0][1])

    def _name(self, item: _Item) -> str:
        entry = item.one("name")
        if entry is None or not entry[0]:
            raise self.fail(f"a {item.kind} has no name", item.line)
        return entry[0]

    def _level(self, item: _Item) -> int:
        entry = item.one("sl")
        if entry is None:
            raise self.fail(f"qos-level {self._name(item)!r} has no sl", item.line)
        if not (re.fullmatch(r"\d{1,10}", entry[0], re.ASCII) and int(entry[0]) < NUM_SLS):
            raise self.fail(
                f"a service level must be 0 to {NUM_SLS - 1}, not {entry[0][:20]!r}", entry[1]
            )
        return int(entry[0])

    def _ends(
        self, item: _Item, end: str, groups: dict[str, _Item], known: dict[str, NDArray[np.bool_]]
    ) -> NDArray[np.bool_]:
        """Return the endpoints that an end of a rule matches, bool [endpoints]; by default all."""
        if end not in item.entries:
            return np.ones(self.fabric.num_endpoints, dtype=bool)
        matches = np.zeros(self.fabric.num_endpoints, dtype=bool)
        for text, line in item.entries[end]:
            for name in (part.strip() for part in text.split(",")):
                if name not in groups:
                    raise self.fail(f"there is no port group {name[:40]!r}", line)
                if name not in known:
                    known[name] = self._members(groups[name])
                matches |= known[name]
        return matches

    def _members(self, group: _Item) -> NDArray[np.bool_]:
        fabric = self.fabric
        members = np.zeros(fabric.num_endpoints, dtype=bool)
        for key in ("port-name", "pkey", "partition"):
            if key in group.entries:
                raise self.fail(
                    f"groups by {key} are not supported; specify the ports by port-guid",
                    group.entries[key][0][1],
                )
        for text, line in group.entries.get("node-type", []):
            for word in (part.strip().upper() for part in text.split(",")):
                if word == "ALL":
                    members[:] = True
                elif word == "CA":
                    members |= fabric.node_kind[fabric.endpoint_node] != NodeKind.SWITCH
                elif word not in ("SWITCH", "ROUTER", "SELF"):
                    raise self.fail(f"there is no node type {word[:20]!r}", line)
        for text, line in group.entries.get("port-guid", []):
            for part in (word.strip() for word in text.split(",")):
                match = _GUIDS.fullmatch(part)
                if match is None:
                    raise self.fail(f"expected a port GUID, found {part[:40]!r}", line)
                self._add(members, int(match[1], 16), match[2], line)
        return members

    def _add(self, members: NDArray[np.bool_], first: int, end: str | None, line: int) -> None:
        if end is None:
            if first not in self.destination:
                raise self.fail(f"{first:#018x} is not a port GUID of {self.fabric.name}", line)
            ports = [self.destination[first]]
        else:
            low = np.searchsorted(self.sorted, np.uint64(first), side="left")
            high = np.searchsorted(self.sorted, np.uint64(int(end, 16)), side="right")
            ports = [self.destination[int(guid)] for guid in self.sorted[low:high]]
        for port in ports:
            if port < len(members):
                members[port] = True
