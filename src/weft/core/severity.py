"""Severities of findings, and which of them make a command fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

#: Worst first. An error is a fault that loses traffic or capacity now; a warning may be intended;
#: a note says what is not known or not checked.
Severity = Literal["error", "warning", "note"]
FailOn = Literal["error", "warning", "note", "never"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def fails(found: Iterable[Severity], fail_on: FailOn) -> bool:
    """Return whether any of the found severities is at least as bad as `fail_on`."""
    return fail_on != "never" and any(
        SEVERITIES.index(each) <= SEVERITIES.index(fail_on) for each in found
    )
