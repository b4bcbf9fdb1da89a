"""Flowlets: bursts of packets that stay together."""

from __future__ import annotations

from weft.core.errors import InputError
from weft.core.units import Nanoseconds
from weft.kernels.packet import choice as kernel
from weft.sim.packet.network import picoseconds
from weft.sim.packet.policies.policy_registry import Policy, policy


@policy("flowlet")
def flowlet(*, gap: Nanoseconds = 10_000.0, entries: int = 4096) -> Policy:
    """Packets that follow each other closely take one candidate; after a gap it is drawn anew.

    Parameters
    ----------
    gap
        Longest time between packets of one flowlet.
    entries
        Flowlets that each node remembers.

    Notes
    -----
    Source: Vanini et al. 2017 (LetFlow), with the times of packets instead of an age bit.
    """
    if not 1 <= entries <= 2**20:
        raise InputError(f"entries must be 1 to {2**20}, not {entries}")
    if gap >= 1e12:
        raise InputError(f"gap must be below 1e12 ns, not {gap}")
    return Policy(
        kernel.FLOWLET,
        {"gap_ps": int(picoseconds(gap))},
        entries=entries,
        reorders=True,
    )
