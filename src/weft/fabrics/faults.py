"""What to break in a fabric: named cables and switches, slower cables, and random ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator

from weft.core.errors import InputError
from weft.core.settings import Option, Seed, Settings, pairs_of
from weft.fabrics.fabric import Fabric

_RATES = pairs_of("node[port]=RATE, such as leaf2[21]=1xHDR", last=True)


@dataclass(frozen=True)
class Faults(Settings):
    """What to break in a fabric.

    Parameters
    ----------
    cables
        Pull the cables in these ports, ``node[port]``.
    switches
        Take out these switches, by name or GUID.
    slow
        Run the cables in these ports at other rates, ``node[port]=RATE``.
    random_cables
        Pull so many random cables between switches.
    random_switches
        Take out so many random switches.
    seed
        Seed of the random faults.

    Raises
    ------
    InputError
        On a value that cannot be, or a seed without anything random.
    """

    cables: Annotated[tuple[str, ...], Option(flag="fail_cable")] = ()
    switches: Annotated[tuple[str, ...], Option(flag="fail_switch")] = ()
    slow: Annotated[Mapping[str, str], BeforeValidator(_RATES), Option(flag="slow_cable")] = field(
        default_factory=dict
    )
    random_cables: Seed = 0
    random_switches: Seed = 0
    seed: Annotated[Seed, Option(flag="fault_seed")] = 0

    def check(self) -> None:
        """Refuse a seed of nothing."""
        if self.seed and not (self.random_cables or self.random_switches):
            raise InputError("seed goes with random_cables or random_switches")

    def of(self, fabric: Fabric) -> Fabric:
        """The fabric with these faults.

        Raises
        ------
        InputError
            When something of it does not exist.
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
