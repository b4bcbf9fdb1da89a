"""Output to narrow terminals and to terminals and files without UTF-8."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

#: Limits of the width of tables and help; below the lower one, words would be cut into letters.
LEAST_COLUMNS = 40
MOST_COLUMNS = 10_000

_NEAREST = str.maketrans(
    {"×": "x", "→": "->", "…": "...", "–": "-", "—": "-", "−": "-", "≤": "<=", "≥": ">=", "·": "*",
     "µ": "u", "α": "a", "β": "b", "⊕": "+"}
)  # fmt: skip


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by similar ASCII, or else by a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    given = error.object[error.start : error.end].translate(_NEAREST)
    plain = unicodedata.normalize("NFKD", given)
    kept = (letter for letter in plain if not unicodedata.combining(letter))
    return "".join(letter if letter.isascii() else "?" for letter in kept), error.end


codecs.register_error("weft-nearest", _nearest)


@contextmanager
def printable_output() -> Iterator[None]:
    """Make standard output and standard error accept all text, in any encoding and width."""
    kept = []
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            kept.append((stream, stream.errors))
            stream.reconfigure(errors="weft-nearest")
    columns = os.environ.pop("COLUMNS", None)
    wanted = int(columns) if columns is not None and columns.isdecimal() else 0
    width = wanted or shutil.get_terminal_size((LEAST_COLUMNS, 24)).columns
    usable = min(max(width, LEAST_COLUMNS), MOST_COLUMNS)
    if wanted or width != usable:
        os.environ["COLUMNS"] = str(usable)
    try:
        yield
    finally:
        for stream, errors in kept:
            stream.reconfigure(errors=errors)
        os.environ.pop("COLUMNS", None)
        if columns is not None:
            os.environ["COLUMNS"] = columns
