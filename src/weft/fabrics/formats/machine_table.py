"""Reader of tables of machines, and of the nodes in Slurm's files.

A table is CSV with a row of column names: ``machine``, and ``adapter``, ``role`` or both. A row
with an adapter (its label or GUID) assigns it to a machine. A row without one gives a role to the
machines that a host list (``oss[1-4]``) or a pattern (``dgx*``) names. The nodes of
``topology.conf``, ``topology.yaml`` or ``slurm.conf`` compute.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.core.errors import InputError, in_file
from weft.core.files import read_text
from weft.core.registry import wrong_name
from weft.core.words import few
from weft.fabrics.arrays import NodeKind
from weft.fabrics.fabric import Fabric
from weft.fabrics.formats.format_registry import warn
from weft.fabrics.formats.hostlist import MAX_HOSTS, expand
from weft.fabrics.formats.slurm import is_topologies, parse_topologies
from weft.fabrics.roles import check_role

#: Nodes of slurm.conf.
_NODE_NAME = re.compile(r"\s*+NodeName\s*+=\s*+(\S+)", re.IGNORECASE)
_COLUMNS = ("machine", "adapter", "role")


@dataclass
class MachineTable:
    """Contents of a table of machines."""

    file: str
    #: Adapter -> its machine, and the line.
    machine: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: Adapter or machine -> role, and the line; patterns are apart, in the order of the file.
    adapter_role: dict[str, tuple[str, int]] = field(default_factory=dict)
    role: dict[str, tuple[str, int]] = field(default_factory=dict)
    patterns: dict[str, tuple[str, int]] = field(default_factory=dict)


def read_machines(path: str | Path) -> MachineTable:
    """Return the contents of a table of machines, or of the nodes of a file of Slurm."""
    table, text = MachineTable(str(path)), read_text(path)
    if is_topologies(text):
        for topology in parse_topologies(text, table.file):
            table.role |= dict.fromkeys(topology.nodes, ("compute", topology.line))
        return table
    if any(_NODE_NAME.match(line) for line in text.splitlines()):
        for number, line in enumerate(text.splitlines(), 1):
            nodes = _NODE_NAME.match(line)
            if nodes and nodes[1].upper() != "DEFAULT":
                with in_file(table.file, number):
                    _put_role(table, expand(nodes[1]), "compute", number)
        return table
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InputError("has only comments; expected machine,adapter,role", file=path)
    columns: list[str] = []
    for number, line in lines:
        with in_file(table.file, number):
            cells = _cells(line)
            if not columns:
                columns = _columns(cells)
                continue
            if len(cells) > len(columns):
                raise InputError(f"has {len(cells)} values; expected {','.join(columns)}")
            _put_row(table, dict(zip(columns, cells, strict=False)), number)
    return table


def _columns(cells: list[str]) -> list[str]:
    columns = [cell.lower() for cell in cells]
    for name in columns:
        if name not in _COLUMNS or columns.count(name) > 1:
            what = "column" if name not in _COLUMNS else "second column"
            raise InputError(wrong_name(f"unknown {what}", name, _COLUMNS))
    if "machine" not in columns or len(columns) < 2:
        raise InputError("expected the columns machine,adapter, machine,role, or all three")
    return columns


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}") from None


def _put_row(table: MachineTable, row: Mapping[str, str], line: int) -> None:
    machine, adapter, role = (row.get(name, "") for name in _COLUMNS)
    if not machine:
        raise InputError("names no machine")
    if role:
        check_role(role)
    if adapter:
        _put(table.machine, adapter, machine, line, "is in machine")
        if role:
            _put(table.adapter_role, adapter, role, line, "has role")
        return
    if not role:
        raise InputError(f"gives {machine} neither an adapter nor a role")
    if "*" in machine:
        _put(table.patterns, machine, role, line, "has role")
        return
    _put_role(table, expand(machine) if "[" in machine else [machine], role, line)


def _put_role(table: MachineTable, names: list[str], role: str, line: int) -> None:
    for name in names:
        _put(table.role, name, role, line, "has role")
    if len(table.role) > MAX_HOSTS:
        raise InputError(f"is the line after which the file has more than {MAX_HOSTS:,} names")


def _put(known: dict[str, tuple[str, int]], key: str, value: str, line: int, verb: str) -> None:
    before, first = known.setdefault(key, (value, line))
    if before != value:
        raise InputError(f"{key} {verb} {value} here and {before} in line {first}")


def with_machines(fabric: Fabric, table: MachineTable) -> Fabric:
    """Return the fabric with the machines and roles of a table.

    What the fabric lacks causes a `FormatWarning`.
    """
    machine, role = [""] * fabric.num_nodes, [""] * fabric.num_nodes
    unknown = []
    for adapter, (name, line) in table.machine.items():
        try:
            node = fabric.find_node(adapter)
        except InputError:
            unknown.append(adapter)
            continue
        with in_file(table.file, line):
            if fabric.node_kind[node] != NodeKind.HOST:
                raise InputError(f"{adapter} is not the adapter of a host")
            if machine[node] not in ("", name):
                raise InputError(f"{adapter} is in machine {name} here and in {machine[node]}, too")
        machine[node] = name
        role[node] = table.adapter_role.get(adapter, ("", 0))[0]
    grouped = replace(fabric, assigned=tuple(zip(machine, role, strict=True)))
    patterns = [(_pattern(text), given) for text, (given, _) in table.patterns.items()]
    used: set[str] = set()
    for name, hosts in _names(grouped):
        nodes = [fabric.num_switches + host for host in hosts]
        given = table.role.get(name, ("", 0))[0]
        used |= {name} if given else set()
        of_adapters = next(filter(None, (role[node] for node in nodes)), "")
        of_pattern = next((to for match, to in patterns if match.fullmatch(name)), "")
        for node in nodes:
            role[node] = of_adapters or given or of_pattern
    unknown += [name for name in table.role if name not in used]
    if unknown:
        warn(table.file, f"{fabric.name} does not have {len(unknown)} of its names: {few(unknown)}")
    return replace(fabric, assigned=tuple(zip(machine, role, strict=True)))


def _names(fabric: Fabric) -> Iterator[tuple[str, list[int]]]:
    """Yield the names of machines, and those of adapters where they differ, with the hosts."""
    yield from fabric.machines.items()
    for host, name in enumerate(fabric.host_names):
        if name not in fabric.machines:
            yield name, [host]


def _pattern(text: str) -> re.Pattern[str]:
    # Each star takes as little as possible and is not tried again: linear time.
    parts = [re.escape(part) for part in re.split(r"\*+", text)]
    middle = "".join(f"(?>.*?{part})" for part in parts[1:-1] if part)
    return re.compile(f"{parts[0]}{middle}.*{parts[-1]}", re.DOTALL)
