"""Forwarding tables in OpenSM's files, read for a fabric and written from routes.

Entries are interpreted as by OpenSM's ``-R file -U``. An entry with a port GUID is for that port,
independent of its present LIDs; the low bits of the entry's LID are the offset within the LMC. An
entry without a GUID is for the port that has the LID. If a switch is not in the file, OpenSM leaves
its table empty. OpenSM ignores tables of unknown switches, and after a malformed entry routes by
minhop, all without a message. `read_lfts` raises an error in these cases, except for unknown
switches: since they may have failed, it leaves out their tables with a warning. Entries that lead
to an unknown switch are kept, and the validator reports the unrouted pairs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.files import read_text
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import one_line, warn
from weft.routing.opensm.lft_form import LftForm, repeat_own_lids
from weft.routing.opensm.lft_lines import NO_PATH, Dump, LftBlock, parse_dump, untold_text
from weft.routing.opensm.lids import Lids, known_lids, predict_lids
from weft.routing.opensm.ports import (
    MAX_LMC,
    by_port_guid,
    by_switch_guid,
    check_lmc,
    destination_name,
    node_types,
    port_guids,
    refuse_forwarding_hosts,
)
from weft.routing.routes import TableRoutes

#: Forms of dumps that are kept: those of the present and of the previous cables.
_MOST_FORMS = 2


def read_lfts(
    fabric: Fabric, path: str | Path, *, lids: Lids | None = None, lmc: int | None = None
) -> TableRoutes:
    """Read routes from a dump of forwarding tables.

    `fabric`: fabric of the tables, with its LIDs if it has any. `path`: path of a file in a format
    of `weft.routing.opensm.lft_lines`. `lids`: LIDs for entries without a GUID; by default the
    fabric's LIDs, else the LIDs of entries with GUIDs, else the LIDs that OpenSM assigns
    (`predict_lids`). `lmc`: LMC; by default the LMC of the entries with GUIDs, else of `lids`, else
    of the fabric.

    Returns the routes. A switch has only one LID; its entry is repeated at all LID offsets.
    """
    refuse_forwarding_hosts(fabric)
    found = None if lids is None or lmc is None else _of_opensm(fabric, Path(path), lids, lmc)
    if found is not None:
        return found
    dump = parse_dump(read_text(path), str(path))
    return _Resolver(fabric, dump, str(path)).routes(lids, lmc)


def _of_opensm(fabric: Fabric, path: Path, lids: Lids, lmc: int) -> TableRoutes | None:
    """Read a dump that OpenSM wrote for known LIDs; None if it is any other file."""
    if not lids.base[fabric.num_endpoints :].all():
        return None
    try:
        found = lft_form(fabric, lids, lmc).read(path.read_bytes())
    except (InputError, NotApplicable, OSError):
        return None
    return found and replace(found, notes=(f"tables from {path}",))


class _Resolver:
    """Conversion of a dump to routes of a fabric."""

    def __init__(self, fabric: Fabric, dump: Dump, file: str):
        self.fabric, self.dump, self.file = fabric, dump, file
        self.switch = by_switch_guid(fabric)
        self.line = self._first_lines()
        #: Tables of the fabric's switches.
        self.blocks = [block for block in dump.blocks if block.guid in self.switch]
        #: Warnings about parts that are left out; they are issued only if there is no error.
        self.left_out: list[str] = []

    def _first_lines(self) -> dict[int, int]:
        """Return the number of the first line with each key."""
        lines: dict[int, int] = {}
        for block in self.dump.blocks:
            for key, line in zip(block.keys, block.lines, strict=True):
                lines.setdefault(key, line)
            if len(lines) == len(self.dump.keys):
                break
        return lines

    def fail(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, file=self.file, line=line)

    def routes(self, lids: Lids | None, lmc: int | None) -> TableRoutes:
        fabric = self.fabric
        self._check_switches()
        by_guid, ranges = self._rows_with_guids()
        lmc = self._lmc(ranges, lids, lmc)
        known = self._lid_map(ranges, lids, lmc)
        line_of_key = self._table_lines(by_guid, known, lmc)
        shape = (fabric.num_destinations << lmc, fabric.num_switches)
        dtype = fabric.graph.port_dtype
        table = np.full(shape, np.iinfo(dtype).max, dtype=dtype)
        for block in self.blocks:
            self._fill(table, block, line_of_key, lmc)
        repeat_own_lids(fabric, table)
        if self.dump.untold:
            self.left_out.append(untold_text(self.dump.untold))
        for text in self.left_out:
            warn(self.file, text)
        notes = (f"tables from {self.file}",)
        return TableRoutes("file", fabric.digest, table=table, lmc=lmc, notes=notes)

    def _check_switches(self) -> None:
        fabric, blocks = self.fabric, self.dump.blocks
        strangers = [block for block in blocks if block.guid not in self.switch]
        unknown = few([block.name or f"{block.guid:#018x}" for block in strangers])
        if len(strangers) == len(blocks):
            raise self.fail(f"none of its {len(blocks)} switches is in {fabric.name}: {unknown}")
        if strangers:
            self.left_out.append(
                f"{len(strangers)} switches are not in {fabric.name}; their tables were left out: "
                f"{unknown}"
            )
        seen: dict[int, int] = {}
        for block in self.blocks:
            switch = self.switch[block.guid]
            if seen.setdefault(switch, block.line) != block.line:
                raise self.fail(
                    f"{fabric.node_names[switch]} already has a table in line {seen[switch]}",
                    block.line,
                )
        missing = np.setdiff1d(np.arange(fabric.num_switches), list(seen))
        label = self.fabric.graph.components
        present = np.unique(label[list(seen)])
        lacking = missing[np.isin(label[missing], present)]
        if len(lacking):
            names = few([fabric.node_names[switch] for switch in lacking])
            others = f"; it has tables of unknown switches: {unknown}" if unknown else ""
            raise self.fail(
                f"has no table of {len(lacking)} of the {fabric.num_switches} switches of "
                f"{fabric.name}: {names}; OpenSM would leave their tables empty{others}"
            )
        if len(missing):
            names = few([fabric.node_names[switch] for switch in missing])
            self.left_out.append(
                f"has no table of {len(missing)} switches that are not connected to the others: "
                f"{names}"
            )

    def _rows_with_guids(self) -> tuple[dict[int, int], dict[int, list[int]]]:
        """Return the destination of each key with a GUID, and the LIDs of each destination."""
        of_guid = by_port_guid(self.fabric)
        destinations: dict[int, int] = {}
        holder: dict[int, int] = {}
        ranges: dict[int, list[int]] = {}
        strangers: set[int] = set()
        for key, (lid, guid) in enumerate(self.dump.keys):
            if guid < 0:
                continue
            line = self.line[key]
            if holder.setdefault(lid, guid) != guid:
                raise self.fail(
                    f"LID {lid} is of port {guid:#018x} here and of {holder[lid]:#018x} elsewhere",
                    line,
                )
            if guid not in of_guid:
                strangers.add(guid)
                continue
            destinations[key] = of_guid[guid]
            ranges.setdefault(of_guid[guid], []).append(lid)
        if strangers and not any(d < self.fabric.num_endpoints for d in destinations.values()):
            raise self.fail(f"none of its {len(strangers)} ports is in {self.fabric.name}")
        if strangers:
            self.left_out.append(
                f"{len(strangers)} ports are not in {self.fabric.name}; their entries were left "
                "out: " + few([f"{guid:#018x}" for guid in sorted(strangers)])
            )
        return destinations, ranges

    def _lmc(self, ranges: dict[int, list[int]], lids: Lids | None, lmc: int | None) -> int:
        adapters = {d: known for d, known in ranges.items() if d < self.fabric.num_endpoints}
        widest = max((max(known) - min(known) for known in adapters.values()), default=0)
        shown = widest.bit_length()
        for destination, known in adapters.items():
            if shown > MAX_LMC or (min(known) ^ max(known)) >> shown:
                at = next(d for d, f in adapters.items() if max(f) - min(f) == widest)
                if shown <= MAX_LMC:
                    at = destination
                raise self.fail(
                    f"{destination_name(self.fabric, at)} has LIDs {min(adapters[at])} to "
                    f"{max(adapters[at])}, which is not possible with any LMC"
                )
        if lmc is None:
            if adapters:
                return shown
            lmcs = lids.lmc if lids is not None else self.fabric.lmc
            return int(lmcs[: self.fabric.num_endpoints].max(initial=0))
        check_lmc(lmc)
        if shown > lmc:
            raise self.fail(f"has tables for LMC {shown}, not for lmc={lmc}")
        return lmc

    def _lid_map(
        self, ranges: dict[int, list[int]], lids: Lids | None, lmc: int
    ) -> dict[int, tuple[int, int]]:
        """Return the destination and LID offset of each LID, for entries without a GUID."""
        fabric = self.fabric
        if all(guid >= 0 for _, guid in self.dump.keys):
            return {}
        if lids is None and not fabric.lid.any() and ranges:
            width = {d: lmc if d < fabric.num_endpoints else 0 for d in ranges}
            return {
                lid: (d, lid & ((1 << width[d]) - 1))
                for d, known in ranges.items()
                for lid in known
            }
        if lids is None:
            lids = known_lids(fabric, lmc)
        lid_map: dict[int, tuple[int, int]] = {}
        for destination, (base, own) in enumerate(
            zip(lids.base.tolist(), lids.lmc.tolist(), strict=True)
        ):
            for offset in range(1 << min(own, lmc)) if base else ():
                first = lid_map.setdefault(base + offset, (destination, offset))
                if first[0] != destination:
                    raise InputError(
                        f"{fabric.name}: {destination_name(fabric, first[0])} and "
                        f"{destination_name(fabric, destination)} both have LID {base + offset}"
                    )
        return lid_map

    def _table_lines(
        self, by_guid: dict[int, int], known: dict[int, tuple[int, int]], lmc: int
    ) -> NDArray[np.int64]:
        """Return the first index in `TableRoutes.table` of each key, -1 for none: int64 [keys]."""
        table_line = np.full(len(self.dump.keys), -1, dtype=np.int64)
        leads = np.zeros(len(table_line), dtype=bool)
        for block in self.blocks:
            keys, ports = _arrays(block)
            leads[keys[ports != NO_PATH]] = True
        unknown = []
        for key, (lid, guid) in enumerate(self.dump.keys):
            if key in by_guid:
                destination = by_guid[key]
                wide = destination < self.fabric.num_endpoints
                offset = lid & ((1 << lmc) - 1) if wide else 0
            elif guid < 0 and lid in known:
                destination, offset = known[lid]
                offset = offset if destination < self.fabric.num_endpoints else 0
            else:
                if guid < 0 and leads[key]:
                    unknown.append(lid)
                continue
            table_line[key] = (destination << lmc) + offset
        if unknown:
            if not by_guid and not (table_line >= 0).any():
                raise self.fail(f"none of its {len(unknown)} LIDs is one of {self.fabric.name}")
            self.left_out.append(
                f"{len(unknown)} LIDs are not of a port of {self.fabric.name}; their entries were "
                "left out: " + few([str(lid) for lid in unknown])
            )
        return table_line

    def _fill(
        self, table: NDArray[Any], block: LftBlock, line_of_key: NDArray[np.int64], lmc: int
    ) -> None:
        fabric = self.fabric
        switch = self.switch[block.guid]
        name = fabric.node_names[switch]
        keys, ports = _arrays(block)
        rows = line_of_key[keys]

        def at(index: Any) -> tuple[int, str]:
            return block.lines[int(index)], f"LID {self.dump.keys[block.keys[int(index)]][0]}"

        absent = np.flatnonzero((ports > fabric.num_ports[switch]) & (ports != NO_PATH))
        if len(absent):
            line, lid = at(absent[0])
            raise self.fail(
                f"{lid} leaves {name} by port {ports[absent[0]]}, but {name} has ports 1 to "
                f"{fabric.num_ports[switch]}",
                line,
            )
        used = np.flatnonzero(rows >= 0)
        rows, ports = rows[used], ports[used]
        own = rows >> lmc == fabric.num_endpoints + switch
        wrong = np.flatnonzero((ports == 0) != own)
        wrong = wrong[(ports[wrong] != NO_PATH) | ~own[wrong]]
        if len(wrong):
            line, lid = at(used[wrong[0]])
            whose = destination_name(fabric, int(rows[wrong[0]] >> lmc))
            raise self.fail(
                f"{lid}, of {whose}, leaves {name} by port {ports[wrong[0]]}, but port 0 is only "
                f"for a switch's own LID; the LIDs are not those of {fabric.name}",
                line,
            )
        order = np.argsort(rows, kind="stable")
        twice = np.flatnonzero(rows[order][1:] == rows[order][:-1])
        if len(twice):
            first, (line, lid) = at(used[order[twice[0]]])[0], at(used[order[twice[0] + 1]])
            raise self.fail(
                f"{lid} already has an entry in the table of {name} in line {first}", line
            )
        table[rows, switch] = np.where(ports == NO_PATH, np.iinfo(table.dtype).max, ports)


def _arrays(block: LftBlock) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the key indices and the ports of a block's entries."""
    return np.array(block.keys, dtype=np.int32), np.array(block.ports, dtype=np.int32)


def lft_dump(fabric: Fabric, routes: TableRoutes, *, lids: Lids | None = None) -> str:
    """Return the text of `lft_bytes`."""
    return lft_bytes(fabric, routes, lids=lids).decode()


def lft_bytes(fabric: Fabric, routes: TableRoutes, *, lids: Lids | None = None) -> bytes:
    """Return routes in the format of OpenSM's dump, which OpenSM also reads with ``-U``.

    `routes`: tables; SLs are not part of the file. `lids`: LIDs of the ports, with the LMC of the
    routes; by default those that OpenSM assigns (`predict_lids`).

    Returns the dump, in UTF-8. Switches are in OpenSM's order, by GUID with reversed bytes. Entries
    have port GUIDs, which make them independent of the LIDs. Ports without a LID are left out.
    """
    routes.check(fabric)
    refuse_forwarding_hosts(fabric)
    wide = np.flatnonzero(fabric.num_ports[: fabric.num_switches] >= NO_PATH)
    if len(wide):
        raise NotApplicable(
            f"{fabric.node_names[wide[0]]} has {fabric.num_ports[wide[0]]} ports, but InfiniBand's "
            f"tables allow at most {NO_PATH - 1}"
        )
    if lids is None:
        lids = predict_lids(fabric, lmc=routes.lmc)
    return lft_form(fabric, lids, routes.lmc).written(routes)


#: The last forms, by digest of the fabric, LMC and LIDs.
_forms: dict[tuple[str, int, bytes, bytes], LftForm] = {}


def lft_form(fabric: Fabric, lids: Lids, lmc: int) -> LftForm:
    """Return the form of OpenSM's dumps for the LIDs of a fabric's ports."""
    key = (fabric.digest, lmc, lids.base.tobytes(), lids.lmc.tobytes())
    if key not in _forms:
        made = LftForm(fabric, lids.base, lmc, *_rows_by_lid(fabric, lmc, lids))
        while len(_forms) >= _MOST_FORMS:
            del _forms[next(iter(_forms))]
        _forms[key] = made
    return _forms[key]


def _rows_by_lid(
    fabric: Fabric, lmc: int, lids: Lids
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Return all LIDs, ascending; their first indices in `TableRoutes.table`; comments on ports."""
    base, width = lids.base.astype(np.int64), lids.lmc.astype(np.int64)
    adapters = np.flatnonzero(base[: fabric.num_endpoints])
    other = adapters[width[adapters] != lmc]
    if len(other):
        raise InputError(
            f"{destination_name(fabric, int(other[0]))} has LMC {width[other[0]]}, but the routes "
            f"are for LMC {lmc}"
        )
    destination = np.repeat(np.arange(len(base)), np.where(base > 0, 1 << width, 0))
    first = np.searchsorted(destination, np.arange(len(base)))
    offset = np.arange(len(destination)) - first[destination]
    order = np.argsort(base[destination] + offset, kind="stable")
    destination, offset = destination[order], offset[order]
    lid = base[destination] + offset
    twice = np.flatnonzero(lid[1:] == lid[:-1])
    if len(twice):
        pair = [destination_name(fabric, int(destination[twice[0] + i])) for i in (0, 1)]
        raise InputError(f"{pair[0]} and {pair[1]} both have LID {lid[twice[0]]}")
    nodes = np.concatenate((fabric.endpoint_node, np.arange(fabric.num_switches)))
    types = node_types(fabric)
    comments = [
        f"{types[node]} portguid 0x{guid:016x}: "
        f"'{one_line(fabric.descriptions[node], 'the description')}'"
        for node, guid in zip(nodes.tolist(), port_guids(fabric).tolist(), strict=True)
    ]
    return lid, (destination << lmc) + offset, [comments[d] for d in destination.tolist()]
