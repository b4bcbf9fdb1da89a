"""`RoomLayout`: the options of a cost plan, with their defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weft.core.errors import InputError
from weft.core.settings import Group, Number, Option, Settings, Whole

#: Height of a rack unit (EIA-310).
UNIT_M = 0.04445

#: Upper limit of every count, height and length in m.
MOST = 1_000_000

#: Default lengths in which cables are sold.
CABLE_LENGTHS_M = (0.5, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100)

#: Data rate of a physical lane in Gb/s, and length in m of the longest passive copper cable up to
#: that rate: typical catalogue limits for SDR, DDR, QDR, FDR10, FDR, EDR, HDR and NDR. The limits
#: differ between vendors, so a plan can set its own.
COPPER_LIMITS_M = (
    (2.0, 15.0),
    (4.0, 10.0),
    (8.0, 7.0),
    (10.0, 5.0),
    (14.0, 3.0),
    (25.0, 3.0),
    (50.0, 2.0),
    (100.0, 2.0),
    (math.inf, 1.0),
)

Count = Annotated[Whole, Field(ge=1, le=MOST)]
Metres = Annotated[Number, Field(ge=0, le=MOST)]
Leaves = Literal["auto", "top", "beside", "separate"]
Core = Literal["middle", "end", "row-ends"]
Order = Literal["shortest", "number", "coordinates", "coordinates-reversed", "cables"]


@dataclass(frozen=True)
class RoomLayout(Settings):
    """Options for racks, the location of equipment in racks, and the cabling between racks.

    Parameters
    ----------
    hosts_per_rack
        Largest number of hosts in a rack; by default limited only by the height of the rack.
    rack_units
        Height of a rack in U.
    chassis_units, hosts_per_chassis
        Height of a host chassis in U, and its number of hosts: 2 and 4 for four nodes in 2U.
    switch_units, ports_per_unit
        Height of a switch in U, and its largest number of ports per U; a switch with more ports is
        higher.
    switches_per_unit
        Number of 1U switches mounted side by side, such as 2 for half-width switches.
    leaves
        Location of the switches with hosts: ``top`` of the rack of their hosts, ``beside``
        (directly above their own hosts), or ``separate`` racks for all switches. ``auto`` is
        ``beside`` if no switch has more than one host, else ``top``.
    core
        Location of the racks for the other switches: in the ``middle`` of the floor, at its
        ``end``, or at the ``row-ends``, each switch near the mean of the rows that its cables lead
        to.
    racks_per_row
        Number of racks in a row; by default the floor is nearly square.
    rack_pitch_m, row_spacing_m
        Distance between adjacent racks in a row, and between adjacent rows.
    tray_m
        Height of the overhead tray above the racks.
    slack_m
        Spare length of every cable, both ends together, to reach the side of the rack.
    order
        Order of the switches with hosts along the racks: by node ``number``; by ``coordinates``
        (the first coordinate is the most significant); by ``coordinates-reversed`` (the last
        coordinate is the most significant); by ``cables`` (reverse Cuthill-McKee); or
        ``shortest``, which is the one of these orders with the least total cable length.
    cable_lengths_m
        Lengths in which cables are sold, ascending.
    copper_m
        Length of the longest copper cable at any rate; by default a typical limit for each rate.
    """

    GROUP: ClassVar[Group] = "room"

    hosts_per_rack: Annotated[Count | None, Option(usual="limited by height")] = None
    rack_units: Count = 42
    chassis_units: Count = 1
    hosts_per_chassis: Count = 1
    switch_units: Count = 1
    ports_per_unit: Count = 64
    switches_per_unit: Count = 1
    leaves: Leaves = "auto"
    core: Core = "middle"
    racks_per_row: Annotated[Count | None, Option(usual="nearly square floor")] = None
    rack_pitch_m: Metres = 0.6
    row_spacing_m: Metres = 2.1
    tray_m: Metres = 0.3
    slack_m: Metres = 0.4
    order: Order = "shortest"
    cable_lengths_m: tuple[float, ...] = CABLE_LENGTHS_M
    copper_m: Annotated[Metres | None, Option(usual="a typical limit for each rate")] = None

    def check(self) -> None:
        """Refuse lengths out of order, and equipment higher than a rack."""
        lengths = self.cable_lengths_m
        ascending = all(a < b for a, b in pairwise(lengths))
        if not lengths or not ascending or not 0 < lengths[0] <= lengths[-1] <= MOST:
            raise InputError(
                f"cable_lengths_m must be lengths above 0 m, at most {MOST:,} m, ascending",
                key="cable_lengths_m",
            )
        for name in ("chassis_units", "switch_units"):
            if getattr(self, name) > self.rack_units:
                raise InputError(
                    f"{name} is {getattr(self, name)}, more than a rack of {self.rack_units} U",
                    key=name,
                )
        if self.switches_per_unit > 1 and self.switch_units > 1:
            raise InputError(
                "switches_per_unit above 1 requires switch_units = 1", key="switches_per_unit"
            )

    def copper_limit_m(self, lane_gbps: float) -> float:
        """Return the length of the longest copper cable at a data rate per physical lane."""
        if self.copper_m is not None:
            return self.copper_m
        return next(limit for rate, limit in COPPER_LIMITS_M if lane_gbps <= rate)
