"""Choices by how much each candidate has to send."""

from __future__ import annotations

from typing import Literal

from weft.core.errors import InputError
from weft.core.units import Nanoseconds
from weft.kernels.packet import choice as kernel
from weft.sim.packet.network import picoseconds
from weft.sim.packet.policies.policy_registry import Policy, policy

#: What loads are made of.
By = Literal["both", "queue", "credits"]

BY = {"both": kernel.BOTH, "queue": kernel.QUEUE, "credits": kernel.CREDITS}


@policy("adaptive")
def adaptive(*, by: By = "both", gap: Nanoseconds = 0.0, entries: int = 4096) -> Policy:
    """Each packet takes the candidate with the least to send, as its own switch sees it.

    Parameters
    ----------
    by
        What a candidate has to send: the ``queue`` of packets that wait here for its lane, the
        ``credits`` taken of that lane's next buffer, or ``both`` together.
    gap
        Packets of a connection that follow each other within this time keep together (InfiniBand's
        bounded adaptive routing); 0 lets each choose (free).
    entries
        With a gap: flowlets that each node remembers.

    Notes
    -----
    Source: Mellanox, "HowTo Configure Adaptive Routing and SHIELD" (free and bounded).
    """
    if not 1 <= entries <= 2**20:
        raise InputError(f"entries must be 1 to {2**20}, not {entries}")
    if gap >= 1e12:
        raise InputError(f"gap must be below 1e12 ns, not {gap}")
    return Policy(
        kernel.ADAPTIVE,
        {"by": BY[by], "gap_ps": int(picoseconds(gap))},
        entries=entries if gap > 0 else 0,
        reorders=True,
    )
