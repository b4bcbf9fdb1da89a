"""The error of a trace file: which line and column, and what was expected there."""

from __future__ import annotations

from typing import NamedTuple

from weft.core.errors import InputError


class Place(NamedTuple):
    """Line and column in a file, both counted from 1."""

    line: int
    column: int


#: Of statements that no file holds.
NOWHERE = Place(0, 0)
#: Longest message, in characters: words of a file may be of any length.
_LONGEST = 500


class TraceError(InputError):
    """Something in a trace file cannot be used.

    Parameters
    ----------
    message
        What is wrong and what was expected.
    place
        Where it stands.
    file
        The file's name.

    Attributes
    ----------
    column
        Column in the line, counted from 1; None where nothing is at fault in particular.
    """

    def __init__(self, message: str, place: Place = NOWHERE, file: str | None = None):
        self.column = place.column or None
        self.reason = message
        where = f"column {place.column}: " if place.column else ""
        super().__init__(where + message, file=file, line=place.line or None)

    def in_file(self, file: str, text: str = "") -> TraceError:
        """The same error with the name of the file, and the line that it quotes."""
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
            return TraceError(f"{reason}; in {quoted!r}", Place(self.line, self.column), file)
        return TraceError(reason, Place(self.line or 0, self.column or 0), file)
