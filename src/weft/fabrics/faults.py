"""Faults of a fabric: missing cables and switches, named or random, and slower cables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from weft.core.errors import InputError
from weft.core.settings import Called, Group, Option, Seed, Settings, pairs_of
from weft.core.units import Count
from weft.fabrics.fabric import Fabric

Port = Annotated[str, Called("port")]
#: Annotation of a table of ports and rates.
Rates = BeforeValidator(pairs_of("node[port]=RATE, such as leaf2[21]=1xHDR", last=True))


@dataclass(frozen=True)
class Faults(Settings):
    """Faults of a fabric.

    Parameters
    ----------
    cables
        Remove the cables in these ports, ``node[port]``.
    switches
        Remove these switches, by name or GUID.
    slow
        Set the rates of the cables in these ports, ``node[port]=RATE``.
    random_cables
        Remove this number, or share such as ``2%``, of random cables between switches. A share is
        rounded to the nearest number, and is at least one.
    random_switches
        Remove this number or share of random switches.
    seed
        Seed of the random faults.

    Raises
    ------
    InputError
        If a value is invalid, or a seed is given without random faults.
    """

    GROUP: ClassVar[Group] = "fabric"

    cables: Annotated[tuple[Port, ...], Option(flag="fail_cable")] = ()
    switches: Annotated[tuple[str, ...], Option(flag="fail_switch")] = ()
    slow: Annotated[Mapping[str, str], Rates, Option(flag="slow_cable")] = field(
        default_factory=dict
    )
    random_cables: Count = 0
    random_switches: Count = 0
    seed: Annotated[Seed, Option(flag="fault_seed")] = 0

    def check(self) -> None:
        """Refuse a seed without random faults."""
        if self.seed and not (self.random_cables or self.random_switches):
            raise InputError("seed requires random_cables or random_switches")

    def of(self, fabric: Fabric) -> Fabric:
        """Return the fabric with these faults.

        Raises
        ------
        InputError
            If a named cable or switch does not exist, or the fabric has fewer cables or switches
            than are to be removed.
        """
        if self.cables or self.switches:
            fabric = fabric.without(cables=self.cables, switches=self.switches)
        for port, rate in self.slow.items():
            fabric = fabric.degraded([port], rate)
        if self.random_cables or self.random_switches:
            fabric = fabric.with_faults(
                cables=self.random_cables, switches=self.random_switches, seed=self.seed
            )
        return fabric


NO_FAULTS = Faults()
