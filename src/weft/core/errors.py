"""Errors and warnings for users: what is wrong, where, and what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Names of standard input as a file to read.
STANDARD_INPUT = ("-", "/dev/stdin")


def source_name(file: str | Path) -> str:
    """Return the name of an input file in messages."""
    return "standard input" if str(file) in STANDARD_INPUT else str(file)


class WeftError(Exception):
    """Base of every error that weft raises on purpose; the command line exits with status 2."""


class InputError(WeftError):
    """Invalid input of the user.

    Parameters
    ----------
    message
        What is wrong and what was expected.
    file
        File with the wrong input, if it is from a file.
    line
        Line in that file, counted from 1.
    key
        Argument, setting or key of the file that is wrong, if it is one of them.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        key: str = "",
    ):
        self.message, self.key = message, key
        self.file = None if file is None else source_name(file)
        self.line = line
        super().__init__(message)

    def __str__(self) -> str:
        where = [part for part in (self.file, self.line) if part is not None]
        return ":".join([*map(str, where), f" {self.message}"]) if where else self.message


@contextmanager
def in_file(file: str | Path, line: int | None = None) -> Iterator[None]:
    """Name the file, and the line, in errors about its contents."""
    try:
        yield
    except InputError as error:
        raise InputError(error.message, file=file, line=line) from None


class NotApplicable(WeftError):
    """Error of an engine, pattern or format that does not support its input, with the reason.

    Parameters
    ----------
    message
        What does not support which input, and why.
    reason
        Why, for callers that say the rest themselves. Default: the message.
    """

    def __init__(self, message: str = "", reason: str = ""):
        self.reason = reason or message
        super().__init__(message)


class OutOfMemory(NotApplicable, MemoryError):
    """Refusal of a computation that needs more memory than is free; it has not begun."""


class UnroutedWarning(UserWarning):
    """Warning that some flows have no path and so load no link."""


class PluginWarning(UserWarning):
    """Warning that a plug-in of another distribution cannot be loaded."""
