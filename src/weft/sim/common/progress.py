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
    note
        What the run does to take less; empty if nothing.
    """

    level: str
    counts: Mapping[str, float]
    memory_bytes: int
    least_s: float
    most_s: float
    shortage: str
    note: str = ""

    def text(self) -> str:
        """Return time and memory in words."""
        note = f" ({self.note})" if self.note else ""
        span = clock_span(self.least_s, self.most_s)
        return f"{span}, {bytes_text(self.memory_bytes)} of memory{note}"

    def check(self) -> None:
        """Raise `OutOfMemory` if the run does not fit."""
        if self.shortage:
            raise OutOfMemory(self.shortage)


def rolled_note(window: float, ops: float) -> str:
    """Return that the rounds of a run are laid as they begin, in windows of so many operations."""
    return (
        f"rounds laid as they begin: about {window:,.0f} of {ops:,.0f} operations exist at a time"
    )
