"""Files that a running OpenSM writes: their kinds, and tables that may have errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from weft.core.counts import count_text, counted
from weft.core.errors import InputError
from weft.core.files import read_text
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.db_csv import is_db_csv
from weft.fabrics.formats.read_write import files_of, head_of
from weft.fabrics.formats.signatures import signature
from weft.fabrics.formats.subnet_list import is_subnet_list
from weft.routing.opensm.far import FarBlock, parse_far
from weft.routing.opensm.lft_form import repeat_own_lids
from weft.routing.opensm.lft_lines import NO_PATH, parse_dump
from weft.routing.opensm.lids import clash_summary, refuse_inside
from weft.routing.opensm.log_files import is_log_name, is_packed_log, logs_of
from weft.routing.opensm.ports import MAX_LID, by_port_guid, by_switch_guid, destination_name
from weft.routing.opensm.tables_folder import CONFIG, DUMP, GUID2LID, LFTS, POLICY, SUBNET
from weft.routing.routes import CandidateRoutes, TableRoutes
from weft.routing.routes.candidate_sets import grouped_routes

#: File names of OpenSM, ibdiagnet2 and weft by kind, in order of preference.
_NAMES = {
    "lfts": (DUMP, LFTS, "opensm.fdbs", "ibdiagnet2.fdbs"),
    "sl2vl": ("opensm-sl2vl.dump", "ibdiagnet2.slvl"),
    "guid2lid": (GUID2LID,),
    "subnet": (SUBNET,),
    "policy": (POLICY,),
    "config": (CONFIG,),
    "adaptive": ("ibdiagnet2.far",),
    "slurm": ("topology.conf", "topology.yaml"),
}


@dataclass(frozen=True)
class Dumps:
    """Paths of what is known of one subnet manager; None for missing files."""

    #: Forwarding tables, in any form of `weft.routing.opensm.lft_lines`.
    lfts: Path | None = None
    sl2vl: Path | None = None
    #: Logs, oldest first.
    logs: tuple[Path, ...] = ()
    guid2lid: Path | None = None
    subnet: Path | None = None
    policy: Path | None = None
    config: Path | None = None
    #: Adaptive routing tables, for `load_tables`, too.
    adaptive: Path | None = None
    #: Port counters, for `weft.counters.read`.
    counters: tuple[Path, ...] = ()
    #: A topology file of Slurm.
    slurm: Path | None = None
    #: Files of folders that are not taken, because a file of their kind was found before.
    others: tuple[Path, ...] = ()

    def files(self) -> list[Path]:
        """Return all files."""
        own: list[Path | None] = [getattr(self, kind) for kind in _NAMES]
        return [*(path for path in own if path is not None), *self.logs, *self.counters]


def find_dumps(paths: Iterable[Path]) -> Dumps:
    """Return the files of each kind.

    The kind of a file follows from its name, or else from its contents. Of several in one folder,
    the first is taken of OpenSM's names, then those of ibdiagnet2, then other names; files in the
    folder itself are preferred to those in folders within it.
    """
    files: dict[str, Path] = {}
    logs: tuple[Path, ...] = ()
    others: list[Path] = []
    counters: list[Path] = []
    for path in paths:
        if path.is_dir():
            logs = logs or logs_of(path.iterdir())
            here = [each for each in files_of(path) if each.stat().st_size]
            found = [
                (_rank(path, file, kind), kind, file) for file in here if (kind := _kind(file))
            ]
            for _, kind, file in sorted(found):
                if kind == "log":
                    logs = logs or logs_of(file.parent.iterdir()) or (file,)
                    others += [] if file in logs else [file]
                elif kind == "counters":
                    counters.append(file)
                elif files.setdefault(kind, file) != file:
                    others.append(file)
        else:
            kind = _kind(path) or _wrong(path)
            if kind == "log":
                if logs and path not in logs and not is_log_name(path):
                    raise InputError(f"is of the same kind as {logs[-1]}", file=path)
                logs = logs_of((*logs, path)) if is_log_name(path) else (path,)
                continue
            if kind == "counters":
                counters.append(path)
                continue
            if kind in files and not files[kind].samefile(path):
                raise InputError(f"is of the same kind as {files[kind]}", file=path)
            files[kind] = path
    # ibdiagnet2 writes the same counters to two files, one of which has all else, too.
    alone = [path for path in counters if not is_db_csv(head_of(path))]
    chosen = tuple(dict.fromkeys(alone or counters))
    return Dumps(**files, logs=logs, counters=chosen, others=tuple(others))


def _rank(folder: Path, file: Path, kind: str) -> tuple[int, int]:
    names = _NAMES.get(kind, ())
    place = names.index(file.name) if file.name in names else len(names)
    return len(file.relative_to(folder).parts), place


def _kind(path: Path) -> str:
    """Return the kind of a file; empty if it is of none."""
    for kind, names in _NAMES.items():
        if path.name in names and path.is_file():
            return kind
    if path.is_file() and (is_log_name(path) or is_packed_log(path)):
        return "log"
    text = head_of(path)
    if is_subnet_list(text):
        return "subnet"
    if is_db_csv(text):
        return "counters"
    known = signature(text)
    return known.kind if known else ""


def _wrong(path: Path) -> NoReturn:
    if known := signature(head_of(path)):
        raise InputError(f"is {known.name}; {known.instead}", file=path)
    raise InputError(
        "is in no format that weft reads; expected a fabric, or tables, lanes, LIDs, counters, a "
        "log or settings of a subnet manager",
        file=path,
    )


#: Kind, text, and the names of all that the text counts.
Problem = tuple[str, str, list[str]]


def _problem(kind: str, before: str, items: list[str], noun: str, what: str) -> list[Problem]:
    return [(kind, before + counted(items, noun, what), items)] if items else []


@dataclass
class DumpTables:
    """Tables of a dump, and their errors."""

    #: Routes without the invalid entries.
    routes: TableRoutes
    #: int32 [destinations]: base LID of each port in the dump, 0 for ports without an entry.
    base: NDArray[np.int32]
    #: Kind and text of each error, and the names of all that it counts.
    problems: list[Problem] = field(default_factory=list)
    #: Highest LID, if the dump does not tell its entries; else 0.
    untold: int = 0
    #: Of adaptive routing tables: output ports of each group of each switch, and int16 [lines of
    #: the table, switches]: number of the group, -1 for entries that are static.
    groups: list[dict[int, list[int]]] = field(default_factory=list)
    group_of: NDArray[np.int16] | None = None

    def candidates(self, fabric: Fabric) -> CandidateRoutes | None:
        """Return adaptive routes with the tables as fallback; None if all entries are static."""
        if self.group_of is None or not (self.group_of >= 0).any():
            return None
        return grouped_routes(fabric, self.routes, self.groups, self.group_of)

    def joined(self, fabric: Fabric) -> CandidateRoutes:
        """Return candidates with the port of the tables in each group.

        Packets that may not choose share lanes with those that do. If these candidates have no
        credit loop, neither have both together.
        """
        assert self.group_of is not None
        none = np.iinfo(self.routes.table.dtype).max
        groups, group_of = [], np.full_like(self.group_of, -1)
        for row, known in enumerate(self.groups):
            group = self.group_of[:, row].astype(np.int64)
            code = np.where(group >= 0, group * (none + 1) + self.routes.table[:, row], -1)
            pairs, number = np.unique(code, return_inverse=True)
            low = int(pairs[0] < 0)
            group_of[:, row] = number - low
            numbers, ports = np.divmod(pairs[low:], none + 1)
            groups.append({
                at: sorted({*known[of], *([port] if 0 < port < none else [])})
                for at, (of, port) in enumerate(zip(numbers.tolist(), ports.tolist(), strict=True))
            })  # fmt: skip
        return grouped_routes(fabric, self.routes, groups, group_of)


def load_tables(fabric: Fabric, path: Path, spans: dict[int, tuple[int, int]]) -> DumpTables:
    """Return the tables of a dump, or of adaptive routing tables, which may have errors.

    `spans`: first and last LID of each port GUID in another file, used for entries without a GUID.
    """
    refuse_inside(fabric)
    text = read_text(path)
    form = signature(text)
    parse = parse_far if form and form.kind == "adaptive" else parse_dump
    dump = parse(text, str(path))
    of_guid = by_port_guid(fabric)
    switch_of = by_switch_guid(fabric)
    problems: list[Problem] = []
    strangers = [block for block in dump.blocks if block.guid not in switch_of]
    if len(strangers) == len(dump.blocks):
        raise InputError(f"none of its switches is in {fabric.name}", file=path)
    named = [block.name or f"{block.guid:#018x}" for block in strangers]
    problems += _problem("stale", "tables of ", named, "switch", "not in the fabric")
    destination, lid_of, unknown = _keys(fabric, dump.keys, of_guid, spans)
    lids = [str(lid) for lid in sorted(unknown)]
    problems += _problem("stale", "entries for ", lids, "LID", "of ports not in the fabric")
    lmc, base = _lids(fabric, destination, lid_of)
    problems += _lid_problems(fabric, dump.keys, destination, lid_of, lmc)
    line_of_key = np.full(len(dump.keys), -1, dtype=np.int64)
    known = np.flatnonzero(destination >= 0)
    wide = destination[known] < fabric.num_endpoints
    offset = np.where(wide, lid_of[known] & ((1 << lmc) - 1), 0)
    line_of_key[known] = (destination[known] << lmc) + offset
    dtype = fabric.graph.port_dtype
    empty = np.iinfo(dtype).max
    table = np.full((fabric.num_destinations << lmc, fabric.graph.num_rows), empty, dtype=dtype)
    dead: list[str] = []
    seen = set()
    adaptive = _Groups(fabric, len(table)) if isinstance(dump.blocks[0], FarBlock) else None
    for block in dump.blocks:
        if block.guid not in switch_of:
            continue
        switch = switch_of[block.guid]
        if switch in seen:
            raise InputError(
                f"{fabric.node_names[switch]} has a second table", file=path, line=block.line
            )
        seen.add(switch)
        rows = line_of_key[np.array(block.keys, dtype=np.int64)]
        ports = np.array(block.ports, dtype=np.int64)
        if adaptive is not None:
            assert isinstance(block, FarBlock)
            adaptive.add(switch, block, rows)
        used = (rows >= 0) & (ports != NO_PATH)
        rows, ports = rows[used], ports[used]
        slots = fabric.port_offset[switch] + ports - 1
        exists = ports <= fabric.num_ports[switch]
        cabled = exists.copy()
        outer = np.flatnonzero(exists & (ports > 0))
        cabled[outer] = fabric.port_link[slots[outer]] >= 0
        dead += [fabric.port_name(switch, int(port)) for port in np.unique(ports[~cabled])]
        table[rows[exists], switch] = ports[exists]
    missing = [fabric.node_names[s] for s in range(fabric.num_switches) if s not in seen]
    if missing:
        text = f"{len(missing)} of {count_text(fabric.num_switches, 'switch')} without a table"
        problems.append(("no table", f"{text}: {few(missing)}", missing))
    problems += _problem("dead port", "entries send to ", dead, "port", "without a cable")
    repeat_own_lids(fabric, table)
    routes = TableRoutes("the tables", fabric.digest, table=table, lmc=lmc)
    if adaptive is None:
        return DumpTables(routes, base, problems, dump.untold)
    repeat_own_lids(fabric, adaptive.group_of)
    problems += adaptive.problems()
    return DumpTables(routes, base, problems, 0, adaptive.groups, adaptive.group_of)


class _Groups:
    """The groups of all switches, without ports and groups that do not exist."""

    def __init__(self, fabric: Fabric, lines: int):
        self.fabric = fabric
        self.groups: list[dict[int, list[int]]] = [{} for _ in range(fabric.graph.num_rows)]
        self.group_of = np.full((lines, fabric.graph.num_rows), -1, dtype=np.int16)
        self.dead: list[str] = []
        self.missing: list[str] = []

    def add(self, switch: int, block: FarBlock, rows: NDArray[np.int64]) -> None:
        """Add the groups of a switch; `rows`: line of the table of each entry, -1 for none."""
        fabric = self.fabric
        links = fabric.port_link[fabric.port_offset[switch] : fabric.port_offset[switch + 1]]
        cabled = set((np.flatnonzero(links >= 0) + 1).tolist())
        for number, ports in block.groups.items():
            self.groups[switch][number] = [port for port in ports if port in cabled]
            self.dead += [
                f"{port} of group {number} of {fabric.node_names[switch]}"
                for port in ports
                if port not in cabled
            ]
        group = np.array(block.group, dtype=np.int16)
        for number in np.setdiff1d(group, [-1, *(n for n, p in block.groups.items() if p)]):
            self.missing.append(f"{number} of {fabric.node_names[switch]}")
            group[group == number] = -1
        self.group_of[rows[rows >= 0], switch] = group[rows >= 0]

    def problems(self) -> list[Problem]:
        return [
            *_problem("dead port", "", self.dead, "port", "of groups without a cable"),
            *_problem("no group", "LIDs with ", self.missing, "group", "that have no ports"),
        ]


def _keys(
    fabric: Fabric,
    keys: list[tuple[int, int]],
    of_guid: dict[int, int],
    spans: dict[int, tuple[int, int]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], set[int]]:
    """Return the destination (-1 if unknown) and LID of each key, and the LIDs of unknown ports."""
    by_lid: dict[int, int] = {}
    for guid, (first, last) in spans.items():
        if guid in of_guid:
            by_lid.update(dict.fromkeys(range(first, last + 1), of_guid[guid]))
    for port, (lid, lmc) in enumerate(zip(fabric.lid.tolist(), fabric.lmc.tolist(), strict=True)):
        if lid:
            by_lid.update({lid + offset: port for offset in range(1 << lmc)})
    destination = np.full(len(keys), -1, dtype=np.int64)
    unknown = set()
    for number, (lid, guid) in enumerate(keys):
        port = of_guid.get(guid, -1) if guid >= 0 else by_lid.get(lid, -1)
        destination[number] = port
        if port < 0 and lid:
            unknown.add(lid)
    return destination, np.array([lid for lid, _ in keys], dtype=np.int64), unknown


def _lids(
    fabric: Fabric, destination: NDArray[np.int64], lid_of: NDArray[np.int64]
) -> tuple[int, NDArray[np.int32]]:
    """Return the LMC, and the base LID of each destination, 0 for destinations without a key."""
    base = np.zeros(fabric.num_destinations, dtype=np.int32)
    known = destination >= 0
    low = np.full(fabric.num_destinations, MAX_LID, dtype=np.int64)
    high = np.zeros(fabric.num_destinations, dtype=np.int64)
    np.minimum.at(low, destination[known], lid_of[known])
    np.maximum.at(high, destination[known], lid_of[known])
    named = high > 0
    base[named] = low[named]
    spread = (high - low)[: fabric.num_endpoints][named[: fabric.num_endpoints]]
    lmc = int(np.median(spread)).bit_length() if len(spread) else 0
    return min(lmc, 7), base


def _lid_problems(
    fabric: Fabric,
    keys: list[tuple[int, int]],
    destination: NDArray[np.int64],
    lid_of: NDArray[np.int64],
    lmc: int,
) -> list[Problem]:
    """Return errors: LIDs of two ports, and ports with LIDs in two ranges."""
    owner: dict[int, int] = {}
    shared = []
    for lid, guid in keys:
        if guid >= 0 and owner.setdefault(lid, guid) != guid:
            shared.append(f"LID {lid} of {owner[lid]:#018x} and {guid:#018x}")
    known = destination >= 0
    width = np.where(destination[known] < fabric.num_endpoints, lmc, 0)
    ranges = np.unique(np.stack((destination[known], lid_of[known] >> width)), axis=1)[0]
    split = np.unique(ranges[1:][ranges[1:] == ranges[:-1]])
    problems: list[Problem] = []
    if shared:
        problems.append(("LIDs", f"in the tables, {clash_summary(shared)}", shared))
    names = [destination_name(fabric, int(port)) for port in split]
    what = "with different LIDs in different tables"
    return problems + _problem("LIDs", "", names, "port", what)
