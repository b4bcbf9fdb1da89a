"""Settings of the adapters of the flit level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from weft.core.errors import InputError
from weft.core.settings import Settings, Truth, Whole, parse_words, settings
from weft.sim.flit.router import MOST_LANES, Cycles

#: Longest turn of a message, packets, and longest time of ageing, cycles.
MOST_PACKETS, MOST_AGEING = 2**31 - 1, 2**30


@dataclass(frozen=True)
class Adapter(Settings):
    """Settings of all adapters; times are cycles.

    Parameters
    ----------
    window
        Packets that an adapter may be sending at a time, each on a virtual channel of its own; at
        most the router's `lanes`.
    turn_packets
        Packets that a message sends before the adapter turns to its next message.
    circuits
        Whether a packet holds its virtual channels until its data have been acknowledged.
    acknowledge_hop
        With circuits: time of an acknowledgement in each router, without the links.
    service
        With circuits: time for a packet that is sent or received.
    turnaround
        With circuits: further time between a packet that is sent and one that is received.
    ageing
        Time by which packets of high priority count as older, for arbiter ``age``.

    Raises
    ------
    InputError
        If a value is out of range, or values do not work together.
    """

    window: Annotated[Whole, Field(ge=1, le=MOST_LANES)] = 1
    turn_packets: Annotated[Whole, Field(ge=1, le=MOST_PACKETS)] = 1
    circuits: Truth = False
    acknowledge_hop: Cycles = 0
    service: Cycles = 0
    turnaround: Cycles = 0
    ageing: Annotated[Whole, Field(ge=0, le=MOST_AGEING)] = 0

    def check(self) -> None:
        """Refuse times of circuits without circuits."""
        for name in ("acknowledge_hop", "service", "turnaround"):
            if getattr(self, name) and not self.circuits:
                raise InputError(f"{name} goes with circuits")

    @property
    def held(self) -> Adapter | None:
        """The adapter if packets hold circuits; otherwise None."""
        return self if self.circuits else None


def parse_adapter(words: Iterable[str]) -> dict[str, str]:
    """Parse settings from words such as ``window=2,circuits=true``."""
    return parse_words(words, {item.key: item for item in settings(Adapter)}, "window=2")
