"""Flowlets: bursts of packets that stay together."""

from __future__ import annotations

from weft.errors import InputError
from weft.kernels import packet_route as kernel
from weft.sim.packet.policies.base import Policy, numbers, policy
from weft.units import Nanoseconds


@policy("flowlet")
def flowlet(*, gap: Nanoseconds = 10_000.0, entries: int = 4096) -> Policy:
    """Packets that follow each other closely take one candidate; after a gap it is drawn anew.

    Parameters
    ----------
    gap
        Longest time between packets of one flowlet.
    entries
        Flowlets that each node remembers.
    """
    if not 1 <= entries <= 2**20:
        raise InputError(f"entries must be 1 to {2**20}, not {entries}")
    return Policy(
        kernel.FLOWLET,
        numbers(GAP=round(gap * 1000), ENTRIES=entries),
        entries=entries,
        reorders=True,
    )
