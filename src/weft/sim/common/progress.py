"""Progress of a run, and how the function that watches it ends the run."""

from __future__ import annotations

from dataclasses import dataclass

#: Approximate time between two reports of progress, seconds.
REPORT_S = 0.2


class StopRun(Exception):
    """Exception that `progress` raises to stop a run; the result covers the time until then."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Parameters
    ----------
    ended, operations
        Ended operations, and all operations.
    arrived, messages
        Arrived messages, and all messages.
    now_ns
        Simulated time.
    delivered
        Share of all bytes that has been delivered, 0 to 1; None if not counted.
    """

    ended: int
    operations: int
    arrived: int
    messages: int
    now_ns: float
    delivered: float | None = None
