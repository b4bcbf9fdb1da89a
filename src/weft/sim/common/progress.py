"""What a run is expected to take, its progress, and how who watches it ends the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.core.arguments import bytes_text
from weft.core.errors import OutOfMemory, WeftError
from weft.core.words import clock_span

#: Approximate time between two reports of progress, seconds.
REPORT_S = 0.2
#: Expected seconds from which a run is announced, for which the wait for memory is measured.
TOLD_S = 5.0


class StopRun(Exception):
    """Exception that `progress` raises to stop a run; the result covers the time until then."""


class IncompleteRun(WeftError):
    """Error of a run that was stopped before all operations had ended; it has no result."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    ended: int
    operations: int
    #: Arrived messages, and all messages.
    arrived: int
    messages: int
    #: Simulated time.
    now_ns: float
    #: Share of all bytes that has been delivered, 0 to 1; None if not counted.
    delivered: float | None = None


@dataclass(frozen=True)
class Forecast:
    """Time and memory that a run is expected to take.

    Parameters
    ----------
    level
        Level of detail.
    counts
        What the run has to do, by the names of docs/scaling.md.
    memory_bytes
        Memory beyond what the process already has: for its fabric, routes and workload.
    least_s, most_s
        Range of the time. Nine of ten runs of the calibration are within it.
    shortage
        Why the run is refused, and what would fit; empty if it fits.
    """

    level: str
    counts: Mapping[str, float]
    memory_bytes: int
    least_s: float
    most_s: float
    shortage: str

    def text(self) -> str:
        """Return time and memory in words."""
        return f"{clock_span(self.least_s, self.most_s)}, {bytes_text(self.memory_bytes)} of memory"

    def check(self) -> None:
        """Raise `OutOfMemory` if the run does not fit."""
        if self.shortage:
            raise OutOfMemory(self.shortage)
