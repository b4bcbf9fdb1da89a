"""How a machine room is laid out: the options of a cost plan, with their defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from weft.core.errors import InputError
from weft.core.settings import Number, Option, Settings, Whole

#: Height of a rack unit (EIA-310).
UNIT_M = 0.04445

#: Bound of every count, height and length in m, far beyond any machine room.
MOST = 1_000_000

#: Lengths that cables are sold in.
CABLE_LENGTHS_M = (0.5, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100)

#: (data rate of a lane in Gb/s, longest passive copper cable up to that rate). Typical catalogue
#: limits for SDR, DDR, QDR, FDR10, FDR, EDR, HDR and NDR; what a vendor supports decides, so every
#: plan may set its own.
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
class Layout(Settings):
    """Racks, what goes where in them, and how cables run between them.

    Parameters
    ----------
    hosts_per_rack
        Most hosts in a rack; left out, as many as fit.
    rack_units
        Height of a rack in U.
    chassis_units, hosts_per_chassis
        Height of a host chassis in U, and the hosts in one: 2 and 4 for four nodes in 2U.
    switch_units, ports_per_unit
        A switch is `switch_units` high, and higher when it has more than `ports_per_unit` ports
        for each U.
    switches_per_unit
        Switches of 1U that are mounted side by side, such as half-width ones.
    leaves
        Where the switches with hosts go: ``top`` of the rack of their hosts, ``beside`` (right
        above their own hosts, as a router beside its host), or ``separate`` racks for all
        switches. ``auto`` is ``beside`` where no switch has more than one host, else ``top``.
    core
        Where the racks for the other switches stand: in the ``middle`` of the floor, at its
        ``end``, or at the ``row-ends``, each switch in the row that most of its cables lead to.
    racks_per_row
        Racks in a row; left out, the floor comes out nearly square.
    rack_pitch_m, row_spacing_m
        From one rack to the next in a row, and from one row to the next.
    tray_m
        Height of the overhead tray above the racks.
    slack_m
        Spare length of every cable, both ends together, for the way to the side of the rack.
    order
        Order of the switches with hosts along the racks: by node ``number``, by ``coordinates``
        (first or, ``coordinates-reversed``, last one most significant), by who is cabled to whom
        (``cables``: reverse Cuthill-McKee), or whichever of them needs the ``shortest`` cables.
    cable_lengths_m
        Lengths that cables are bought in, ascending.
    copper_m
        Longest copper cable, whatever its rate; left out, a typical limit for each rate.
    """

    hosts_per_rack: Annotated[Count | None, Option(usual="as many as fit")] = None
    rack_units: Count = 42
    chassis_units: Count = 1
    hosts_per_chassis: Count = 1
    switch_units: Count = 1
    ports_per_unit: Count = 64
    switches_per_unit: Count = 1
    leaves: Leaves = "auto"
    core: Core = "middle"
    racks_per_row: Annotated[Count | None, Option(usual="what makes the floor square")] = None
    rack_pitch_m: Metres = 0.6
    row_spacing_m: Metres = 2.1
    tray_m: Metres = 0.3
    slack_m: Metres = 0.4
    order: Order = "shortest"
    cable_lengths_m: tuple[float, ...] = CABLE_LENGTHS_M
    copper_m: Annotated[Metres | None, Option(usual="a typical limit for each rate")] = None

    def check(self) -> None:
        """Refuse lengths out of order, and what is higher than a rack."""
        lengths = self.cable_lengths_m
        ascending = all(a < b for a, b in pairwise(lengths))
        if not lengths or not ascending or not 0 < lengths[0] <= lengths[-1] <= MOST:
            raise InputError(
                f"cable_lengths_m must be lengths above 0 m, at most {MOST:,} m, shortest first"
            )
        for name in ("chassis_units", "switch_units"):
            if getattr(self, name) > self.rack_units:
                raise InputError(
                    f"{name} is {getattr(self, name)}, more than a rack of {self.rack_units} U"
                )
        if self.switches_per_unit > 1 and self.switch_units > 1:
            raise InputError("only switches of 1U stand side by side: leave switch_units at 1")

    def copper_limit_m(self, lane_gbps: float) -> float:
        """Longest copper cable whose lanes run at a data rate."""
        if self.copper_m is not None:
            return self.copper_m
        return next(limit for rate, limit in COPPER_LIMITS_M if lane_gbps <= rate)
