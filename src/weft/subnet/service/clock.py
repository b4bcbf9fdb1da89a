"""The clock of the service, which goes on when somebody sets the clock of the machine back."""

from __future__ import annotations

import time

#: Difference between clocks that is an adjustment rather than a delay, in ns.
_JUMP_NS = 2_000_000_000


class Clock:
    """Times of events, in ns since 1970: each is later than the one before.

    It follows the clock of the machine, and is ahead of it after that was set back.

    `last_ns`: time of the last event before.
    """

    def __init__(self, last_ns: int = 0) -> None:
        self._last_ns = last_ns
        self._steady_ns = time.monotonic_ns()
        self._looked_ns = (time.time_ns(), self._steady_ns)

    def now_ns(self) -> int:
        """Return the time of an event."""
        steady_ns = time.monotonic_ns()
        passed_ns = max(1, steady_ns - self._steady_ns)
        self._last_ns = max(time.time_ns(), self._last_ns + passed_ns)
        self._steady_ns = steady_ns
        return self._last_ns

    def problem(self) -> str:
        """Return how far it is ahead of the clock of the machine, in words; empty if it is not."""
        ahead_ns = self.now_ns() - time.time_ns()
        if ahead_ns < _JUMP_NS:
            return ""
        return (
            f"the clock of the machine is {ahead_ns / 1e9:.1f} s behind the last event; times "
            "continue from that event"
        )

    def jumped(self) -> bool:
        """Return whether the machine slept, or its clock was set forward, since the last call."""
        wall_ns, steady_ns = self._looked_ns
        self._looked_ns = time.time_ns(), time.monotonic_ns()
        ahead_ns = (self._looked_ns[0] - wall_ns) - (self._looked_ns[1] - steady_ns)
        return ahead_ns > _JUMP_NS
