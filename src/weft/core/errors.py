"""Errors that a user can act on: what is wrong, where, and what was expected."""

from __future__ import annotations

from pathlib import Path

#: Names of standard input where a file to read is named.
STANDARD_INPUT = ("-", "/dev/stdin")


def source_name(file: str | Path) -> str:
    """A file that is read, as messages name it."""
    return "standard input" if str(file) in STANDARD_INPUT else str(file)


class WeftError(Exception):
    """Base of every error that weft raises on purpose; the command line exits with status 2."""


class InputError(WeftError):
    """Something that the user gave cannot be used.

    Parameters
    ----------
    message
        What is wrong and what was expected.
    file
        File in which it stands, when it came from a file.
    line
        Line in that file, counted from 1.
    """

    def __init__(self, message: str, *, file: str | Path | None = None, line: int | None = None):
        self.message = message
        self.file = None if file is None else source_name(file)
        self.line = line
        super().__init__(message)

    def __str__(self) -> str:
        where = [part for part in (self.file, self.line) if part is not None]
        return ":".join([*map(str, where), f" {self.message}"]) if where else self.message


class NotApplicable(WeftError):
    """An engine, pattern or format does not fit what it was given; the text is the reason."""


class UnroutedWarning(UserWarning):
    """Some of the flows given have no path and so load no link."""


class PluginWarning(UserWarning):
    """A module that another distribution announces cannot be loaded."""
