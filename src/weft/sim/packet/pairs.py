"""Tables of pairs of whole numbers, used by lane arbitration and congestion control."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator


def _entries(value: Any) -> Any:
    """Return the entries of a table, which may be given as one text with commas."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


#: A table of pairs in a file: texts such as ``0:4``.
Entries = Annotated[tuple[str, ...], BeforeValidator(_entries)]


def pairs(given: Any, entry_is: str) -> tuple[tuple[int, int], ...]:
    """Return the entries of a table given as pairs or as text in OpenSM's form ``0:0,3:12``.

    `given`: pairs of whole numbers, or text. `entry_is`: name of an entry in messages: "a lane and
    a weight".
    """
    entries = given.split(",") if isinstance(given, str) else given
    if not isinstance(entries, Iterable) or isinstance(entries, bytes | dict | set):
        raise ValueError(f"expected entries, each {entry_is}")
    table = []
    for number, entry in enumerate(entries):
        parts = _parts(entry, text=isinstance(given, str))
        if len(parts) != 2 or not all(map(_is_whole, parts)):
            raise ValueError(f"entry {number} is {entry!r}; expected {entry_is}, two whole numbers")
        table.append((int(parts[0]), int(parts[1])))
    return tuple(table)


def _parts(entry: Any, *, text: bool) -> tuple[Any, ...]:
    """Return the parts of an entry; empty if the entry is malformed."""
    if text:
        parts = [part.strip() for part in entry.split(":")]
        valid = all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts)
        return tuple(map(int, parts)) if valid else ()
    return tuple(entry) if isinstance(entry, tuple | list | np.ndarray) else ()


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
