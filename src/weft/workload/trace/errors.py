"""The error of a trace file, with line, column and what was expected."""

from __future__ import annotations

from typing import NamedTuple

from weft.core.errors import InputError


class FilePosition(NamedTuple):
    """Line and column in a file, both counted from 1."""

    line: int
    column: int


#: Place of statements that are not in a file.
NOWHERE = FilePosition(0, 0)
#: Largest number of characters of an error message; words of a file may have any length.
_LONGEST = 500


class TraceError(InputError):
    """An error in a trace file.

    `place`: line and column of the error.

    `column` counts from 1; None if unknown.
    """

    def __init__(self, message: str, place: FilePosition = NOWHERE, file: str | None = None):
        self.column = place.column or None
        self.reason = message
        where = f"column {place.column}: " if place.column else ""
        super().__init__(where + message, file=file, line=place.line or None)

    def in_file(self, file: str, text: str = "") -> TraceError:
        """Return the same error with the name of the file and a quote of the line."""
        if self.file is not None:
            return self
        reason = self.reason
        if len(reason) > _LONGEST:
            reason = reason[: _LONGEST // 2] + "..." + reason[-_LONGEST // 2 :]
        lines = text.split("\n")
        if self.line is not None and self.column and 0 < self.line <= len(lines):
            quoted = " ".join(lines[self.line - 1].split())
            if len(quoted) > 100:
                quoted = quoted[:97] + "..."
            return TraceError(
                f"{reason}; in {quoted!r}", FilePosition(self.line, self.column), file
            )
        return TraceError(reason, FilePosition(self.line or 0, self.column or 0), file)
