"""Progress of a run, and how the function that watches it ends the run."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.errors import WeftError

#: Approximate time between two reports of progress, seconds.
REPORT_S = 0.2


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
