"""Names in options and messages: quoting, natural order, and lists shortened to a few names."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError

#: Number of names that a message prints; the others are counted.
FEW = 3
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
#: Text that needs no quotes in options, specs and host lists.
_BARE = re.compile(r"(?!0[xX])[\w./+-]+")


def clock_text(seconds: float) -> str:
    """Return a wall time as text: ``40 s``, ``3 min``, ``2.5 h``."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{int(seconds < 10 * size)}f} {unit}"
    return f"{seconds:.0f} s"


def clock_span(least_s: float, most_s: float) -> str:
    """Return a range of wall times as text: ``40 s to 3 min``, ``less than 1 s``."""
    if most_s < 1.0:
        return "less than 1 s"
    low = clock_text(least_s) if least_s >= 1.0 else "less than 1 s"
    high = clock_text(most_s)
    return low if low == high else f"{low} to {high}"


def few(items: Sequence[object], most: int = FEW) -> str:
    """Return the first items, comma-separated, and the number of the others."""
    more = len(items) - most
    return ", ".join(map(str, items[:most])) + (f" and {more:,} more" if more > 0 else "")


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts ``n2`` before ``n10``."""
    return tuple(
        # A longer number is larger; int() would refuse very long ones.
        (0, len(digits := part.lstrip("0")), digits) if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    )


def natural_rank(names: Sequence[str]) -> NDArray[np.int64]:
    """Return the index of each name in natural order; equal names keep their order."""
    order = sorted(range(len(names)), key=lambda at: natural_key(names[at]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank


def quoted(text: str) -> str:
    """Put a text in double quotes if options and host lists need them.

    Inside the quotes a double quote is doubled; no other character is special.
    """
    return text if _BARE.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def unquoted(text: str) -> str:
    """Remove the quotes of `quoted`, if there are any."""
    if not text.startswith('"'):
        return text
    match = _QUOTED.fullmatch(text)
    if match is None:
        raise InputError(f"{text}: expected nothing after the closing quote")
    return match[1].replace('""', '"')


def split_quoted(text: str, separators: str, *, opening: str = ",;=") -> list[str]:
    """Split a text at separators outside quotes; quotes are kept.

    `opening`: a quote opens at the start of the text and after one of these characters or of
    `separators`, with or without spaces between; elsewhere it is an ordinary character.
    """
    parts = []
    start = at = 0
    opens = True
    while at < len(text):
        if text[at] == '"' and opens:
            at = quote_end(text, at)
            opens = False
            continue
        if text[at] in separators:
            parts.append(text[start:at])
            start = at + 1
        opens = text[at] in opening or text[at] in separators or (opens and text[at].isspace())
        at += 1
    return [*parts, text[start:]]


def quote_end(text: str, start: int) -> int:
    """Return the index after the closing quote of the quote that opens at `start`."""
    match = _QUOTED.match(text, start)
    if match is None:
        raise InputError(f"{text}: the quote before {text[start + 1 : start + 21]!r} is not closed")
    return match.end()
