"""Packing of boxes and hosts into racks, and placement of the racks on the floor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from weft.advice.machine_room.equipment import Equipment, EquipmentGroup
from weft.advice.machine_room.room_options import UNIT_M, RoomLayout
from weft.core.errors import InputError
from weft.fabrics import NodeKind


@dataclass
class Section:
    """A section of a rack: boxes on top, hosts below them."""

    boxes: list[int] = field(default_factory=list)
    hosts: list[int] = field(default_factory=list)


Rack = list[Section]


@dataclass(frozen=True, eq=False)
class Placement:
    """Positions of nodes and racks.

    Racks are numbered row by row.
    """

    #: int32 [nodes]: rack, lowest U (from 1 at the bottom) and height in U; rack -1 for an
    #: auxiliary adapter without a cable.
    node_rack: NDArray[np.int32]
    node_unit: NDArray[np.int32]
    node_height: NDArray[np.int32]
    #: int32 [racks]: row, and position in the row, from 0.
    rack_row: NDArray[np.int32]
    rack_column: NDArray[np.int32]
    #: int32 [racks]: occupied units.
    rack_used: NDArray[np.int32]

    @property
    def num_racks(self) -> int:
        """Number of racks."""
        return len(self.rack_row)

    def route_m(self, gear: Equipment, layout: RoomLayout) -> NDArray[np.float64]:
        """Return the length of each cable from port to port, float64 [cables], slack included.

        Cables within a rack run vertically. Other cables run up to the tray, along and across the
        rows at right angles, and down.
        """
        links = gear.fabric.link_from.reshape(-1, 2)
        middle_m = (self.node_unit - 1 + self.node_height / 2) * UNIT_M
        a, b = links[:, 0], links[:, 1]
        rack_a, rack_b = self.node_rack[a], self.node_rack[b]
        along = np.abs(self.rack_column[rack_a] - self.rack_column[rack_b]) * layout.rack_pitch_m
        across = np.abs(self.rack_row[rack_a] - self.rack_row[rack_b]) * layout.row_spacing_m
        top_m = layout.rack_units * UNIT_M + layout.tray_m
        over = (top_m - middle_m[a]) + (top_m - middle_m[b]) + along + across
        within = np.abs(middle_m[a] - middle_m[b])
        length_m: NDArray[np.float64] = np.where(rack_a == rack_b, within, over) + layout.slack_m
        length_m[gear.inside] = 0.0
        return length_m


class Packer:
    """Packer of the equipment of a fabric into racks, within the limits of a layout."""

    def __init__(self, gear: Equipment, layout: RoomLayout):
        self._gear = gear
        self._layout = layout
        most = max((len(group.hosts) for group in gear.groups if group.box >= 0), default=0)
        self._leaves = layout.leaves
        if layout.leaves == "auto":
            self._leaves = "beside" if most <= 1 else "top"
        self._matrix = gear.unit_matrix()

    @property
    def leaves(self) -> str:
        """Location of switches with hosts: ``top``, ``beside`` or ``separate``."""
        return self._leaves

    def place(self, groups: Sequence[EquipmentGroup]) -> Placement:
        """Place the groups, in this order, and the other switches in racks."""
        core = self._gear.core
        if self._leaves == "separate":
            host_racks = self._host_racks([host for group in groups for host in group.hosts])
            core = [group.box for group in groups if group.box >= 0] + core
        else:
            rack = self._one_rack(groups, core)
            if rack is not None:
                return self._placed([(0, 0, rack)])
            host_racks = self._group_racks(groups)
        if not core:
            return self._placed(zip(*_grid(len(host_racks), self._layout), host_racks, strict=True))
        if self._layout.core == "row-ends":
            return self._with_row_ends(host_racks, core)
        return self._with_core_racks(host_racks, core)

    # -- racks ---------------------------------------------------------------------------------

    def _height(self, section: Section) -> int:
        layout = self._layout
        units = shared = 0
        for box in section.boxes:
            height = int(self._gear.box_units[box])
            if height > 1:
                units, shared = units + height, 0
            else:
                units += shared == 0
                shared = (shared + 1) % layout.switches_per_unit
        chassis = ceil(len(section.hosts) / layout.hosts_per_chassis)
        return units + chassis * layout.chassis_units

    def _fits(self, rack: Rack) -> bool:
        limit = self._layout.hosts_per_rack
        hosts = sum(len(section.hosts) for section in rack)
        height = sum(map(self._height, rack))
        return height <= self._layout.rack_units and (limit is None or hosts <= limit)

    def _joined(self, rack: Rack, group: EquipmentGroup) -> Rack:
        boxes = [group.box] if group.box >= 0 else []
        if self._leaves == "beside" or not rack:
            return [*rack, Section(boxes, list(group.hosts))]
        (section,) = rack
        return [Section(section.boxes + boxes, [*section.hosts, *group.hosts])]

    def _one_rack(self, groups: Sequence[EquipmentGroup], core: list[int]) -> Rack | None:
        """Return one rack with all equipment, switches without hosts on top; None if too high."""
        total = sum(len(group.hosts) for group in groups) + len(core)
        most = self._layout.rack_units * (
            self._layout.hosts_per_chassis + self._layout.switches_per_unit
        )
        if total > most:
            return None
        rack: Rack = []
        for group in groups:
            rack = self._joined(rack, group)
        if core:
            rack = [Section(core), *rack]
        return rack if self._fits(rack) else None

    def _group_racks(self, groups: Sequence[EquipmentGroup]) -> list[Rack]:
        racks: list[Rack] = []
        current: Rack = []
        for group in groups:
            joined = self._joined(current, group)
            if self._fits(joined):
                current = joined
                continue
            if current:
                racks.append(current)
            current = self._joined([], group)
            if not self._fits(current):
                racks += self._split(group)
                current = []
        return [*racks, current] if current else racks

    def _split(self, group: EquipmentGroup) -> list[Rack]:
        """Return the racks of a group too large for one rack; its switch is in the middle rack."""
        for count in range(2, len(group.hosts) + 1):
            parts = [part.tolist() for part in np.array_split(group.hosts, count)]
            racks = [[Section([], part)] for part in parts]
            if group.box >= 0:
                racks[count // 2][0].boxes.append(group.box)
            if all(map(self._fits, racks)):
                return racks
        # The switch alone fills a rack.
        return [[Section([group.box])], *self._host_racks(list(group.hosts))]

    def _host_racks(self, hosts: list[int]) -> list[Rack]:
        layout = self._layout
        most = layout.rack_units // layout.chassis_units * layout.hosts_per_chassis
        most = most if layout.hosts_per_rack is None else min(most, layout.hosts_per_rack)
        return [[Section([], hosts[at : at + most])] for at in range(0, len(hosts), most)]

    def _box_racks(self, boxes: Iterable[int]) -> list[Rack]:
        racks: list[Rack] = []
        for box in boxes:
            if racks and self._fits([Section([*racks[-1][0].boxes, box])]):
                racks[-1][0].boxes.append(box)
            else:
                racks.append([Section([box])])
        return racks

    # -- the floor -----------------------------------------------------------------------------

    def _with_core_racks(self, host_racks: list[Rack], core: list[int]) -> Placement:
        count = len(self._box_racks(core))
        while True:
            total = len(host_racks) + count
            rows, columns = _grid(total, self._layout)
            positions = self._core_positions(rows, columns, count)
            others = sorted(set(range(total)) - set(positions))
            centres = self._centres(host_racks, [float(position) for position in others], core)
            racks = self._box_racks(self._sorted(core, centres))
            if len(racks) <= count:
                break
            # In their final order, boxes of unequal height may need more racks than counted.
            count = len(racks)
        placed = list(zip(others + positions, host_racks + racks, strict=False))
        return self._placed(
            (rows[position], columns[position], rack)
            for position, rack in sorted(placed, key=lambda item: item[0])
        )

    def _core_positions(self, rows: list[int], columns: list[int], count: int) -> list[int]:
        if self._layout.core == "end":
            return list(range(len(rows) - count, len(rows)))
        x = np.array(columns) * self._layout.rack_pitch_m
        y = np.array(rows) * self._layout.row_spacing_m
        far = np.abs(x - np.median(x)) + np.abs(y - np.median(y))
        return sorted(np.argsort(np.round(far, 6), kind="stable")[:count].tolist())

    def _with_row_ends(self, host_racks: list[Rack], core: list[int]) -> Placement:
        layout = self._layout
        for ends in range(1, len(core) + 1):
            width = layout.racks_per_row or _per_row(len(host_racks), layout) + ends
            if width <= ends:
                break
            rows = max(ceil(len(host_racks) / (width - ends)), 1)
            host_row = [position // (width - ends) for position in range(len(host_racks))]
            centres = self._centres(host_racks, [float(row) for row in host_row], core)
            row_ends = self._fill_ends(core, centres, rows, ends)
            if row_ends is None:
                continue
            placed = [
                (row, position % (width - ends), rack)
                for position, (row, rack) in enumerate(zip(host_row, host_racks, strict=True))
            ]
            for row, racks in enumerate(row_ends):
                placed += [(row, width - ends + at, rack) for at, rack in enumerate(racks)]
            return self._placed(sorted(placed, key=lambda item: item[:2]))
        raise InputError(
            f"{len(core)} switches without hosts do not fit at the ends of rows of "
            f"{layout.racks_per_row} racks; increase racks_per_row, or set core to middle"
        )

    def _fill_ends(
        self, core: list[int], centres: NDArray[np.float64], rows: int, ends: int
    ) -> list[list[Rack]] | None:
        """Return the racks at the end of each row; None if they have no space for some box.

        Each box is in a row as near as possible to its entry in `centres`.
        """
        row_ends: list[list[Rack]] = [[] for _ in range(rows)]
        centre = dict(zip(core, np.nan_to_num(centres).tolist(), strict=True))
        for box in self._sorted(core, centres):
            row = centre[box]
            for near in sorted(range(rows), key=lambda other: (abs(other - row), other)):
                racks = row_ends[near]
                if racks and self._fits([Section([*racks[-1][0].boxes, box])]):
                    racks[-1][0].boxes.append(box)
                elif len(racks) < ends:
                    racks.append([Section([box])])
                else:
                    continue
                break
            else:
                return None
        return row_ends

    def _sorted(self, core: list[int], centre: NDArray[np.float64]) -> list[int]:
        return [core[at] for at in np.argsort(np.round(centre, 6), kind="stable").tolist()]

    def _centres(
        self, host_racks: list[Rack], number: list[float], core: list[int]
    ) -> NDArray[np.float64]:
        """Return for each core box the mean of the numbers of the racks that its cables lead to.

        `number` contains the number of each host rack: its position or its row. A box with hosts
        counts with the mean of the numbers of its hosts' racks. A box that is connected only to
        core boxes gets the mean of their centres. Boxes without a connection to hosts get NaN.
        """
        total = np.zeros(self._matrix.shape[0])
        count = np.zeros(len(total))
        for rack, value in zip(host_racks, number, strict=True):
            for section in rack:
                units = self._gear.node_unit[section.hosts]
                np.add.at(total, units, value)
                np.add.at(count, units, 1)
        mean = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
        wanted = np.isin(np.arange(len(mean)), core)
        while True:
            known = ~np.isnan(mean)
            weight = self._matrix @ known.astype(np.float64)
            new = ~known & wanted & (weight > 0)
            if not new.any():
                centres: NDArray[np.float64] = mean[core]
                return centres
            total = self._matrix @ np.where(known, mean, 0.0)
            mean[new] = total[new] / weight[new]

    # -- units ---------------------------------------------------------------------------------

    def _placed(self, placed: Iterable[tuple[int, int, Rack]]) -> Placement:
        """Assign units from the top of each rack downwards."""
        gear, layout = self._gear, self._layout
        nodes = gear.fabric.num_nodes
        rack_of = np.full(nodes, -1, dtype=np.int32)
        unit_of = np.zeros(nodes, dtype=np.int32)
        height_of = np.zeros(nodes, dtype=np.int32)
        rows, columns, used = [], [], []
        for number, (row, column, rack) in enumerate(placed):
            free = layout.rack_units
            for section in rack:
                shelves = chain(self._box_shelves(section.boxes), self._chassis(section.hosts))
                for height, members in shelves:
                    free -= height
                    rack_of[members], unit_of[members] = number, free + 1
                    height_of[members] = height
            rows.append(row)
            columns.append(column)
            used.append(layout.rack_units - free)
        # All adapters of a machine have the position of the first one.
        for values in (rack_of, unit_of, height_of):
            values[:] = values[gear.machine]
        # An auxiliary adapter is inside the node that it is cabled to.
        tail, head = gear.fabric.link_from, gear.fabric.link_to
        within = np.flatnonzero(gear.fabric.node_kind[tail] == NodeKind.AUXILIARY)
        for values in (rack_of, unit_of, height_of):
            values[tail[within]] = values[head[within]]
        return Placement(
            rack_of,
            unit_of,
            height_of,
            np.array(rows, dtype=np.int32),
            np.array(columns, dtype=np.int32),
            np.array(used, dtype=np.int32),
        )

    def _box_shelves(self, boxes: list[int]) -> list[tuple[int, list[int]]]:
        shelves: list[tuple[int, list[int]]] = []
        shared = 0
        for box in boxes:
            height = int(self._gear.box_units[box])
            if height == 1 and shared:
                shelves[-1][1].extend(self._gear.box_nodes[box])
            else:
                shelves.append((height, list(self._gear.box_nodes[box])))
            shared = 0 if height > 1 else (shared + 1) % self._layout.switches_per_unit
        return shelves

    def _chassis(self, hosts: list[int]) -> list[tuple[int, list[int]]]:
        each = self._layout.hosts_per_chassis
        return [
            (self._layout.chassis_units, hosts[at : at + each]) for at in range(0, len(hosts), each)
        ]


def _per_row(racks: int, layout: RoomLayout) -> int:
    """Return the number of racks per row for a total of `racks`."""
    if layout.racks_per_row is not None:
        return layout.racks_per_row
    pitch = max(layout.rack_pitch_m, 1e-3)
    square = sqrt(racks * max(layout.row_spacing_m, pitch) / pitch)
    rows = max(1, ceil(racks / max(1.0, ceil(square))))
    return max(1, ceil(racks / rows))


def _grid(racks: int, layout: RoomLayout) -> tuple[list[int], list[int]]:
    """Return row and column of each rack, row by row."""
    width = _per_row(racks, layout)
    return [at // width for at in range(racks)], [at % width for at in range(racks)]
