"""Output to narrow terminals and to terminals and files without UTF-8."""

from __future__ import annotations

import codecs
import io
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Limits of the width of tables and help; below the lower one, words would be cut into letters.
LEAST_COLUMNS = 40
MOST_COLUMNS = 10_000

_NEAREST = str.maketrans(
    {"×": "x", "→": "->", "…": "...", "–": "-", "—": "-", "−": "-", "≤": "<=", "≥": ">=", "·": "*",
     "µ": "u", "α": "a", "β": "b", "⊕": "+"}
)  # fmt: skip


#: Characters that change what a terminal shows or does, or the order of a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return a text in which control characters are written as Python writes them."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class _Plain:
    """A stream to which texts of files, stores and other machines may be printed as they are.

    Rich writes its own control sequences to the stream beneath.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


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
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            kept.append((name, stream, stream.errors))
            stream.reconfigure(errors="weft-nearest")
            setattr(sys, name, _Plain(stream))
    columns = os.environ.pop("COLUMNS", None)
    wanted = int(columns) if columns is not None and columns.isdecimal() else 0
    width = wanted or shutil.get_terminal_size((LEAST_COLUMNS, 24)).columns
    usable = min(max(width, LEAST_COLUMNS), MOST_COLUMNS)
    if wanted or width != usable:
        os.environ["COLUMNS"] = str(usable)
    try:
        yield
    finally:
        for name, stream, errors in kept:
            stream.reconfigure(errors=errors)
            setattr(sys, name, stream)
        os.environ.pop("COLUMNS", None)
        if columns is not None:
            os.environ["COLUMNS"] = columns
