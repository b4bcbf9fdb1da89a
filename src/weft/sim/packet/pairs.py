"""Tables of pairs of whole numbers, as those of lane arbitration and of congestion control."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator


def _entries(value: Any) -> Any:
    """Entries of a table, which may stand in one text with commas."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


#: A table of pairs in a file: texts such as ``0:4``.
Entries = Annotated[tuple[str, ...], BeforeValidator(_entries)]


def pairs(given: Any, entry_is: str) -> tuple[tuple[int, int], ...]:
    """Entries of a table, or text such as ``0:0,3:12``, as the subnet manager's options have it.

    Parameters
    ----------
    given
        Pairs of whole numbers, or text.
    entry_is
        What an entry is: "a lane and a weight".

    Raises
    ------
    ValueError
        Naming the entry, on what is no pair of whole numbers.
    """
    entries = given.split(",") if isinstance(given, str) else given
    if not isinstance(entries, Iterable) or isinstance(entries, bytes | dict | set):
        raise ValueError(f"expected entries, each {entry_is}")
    made = []
    for number, entry in enumerate(entries):
        parts = _parts(entry, text=isinstance(given, str))
        if len(parts) != 2 or not all(map(_is_whole, parts)):
            raise ValueError(f"entry {number} is {entry!r}; expected {entry_is}, two whole numbers")
        made.append((int(parts[0]), int(parts[1])))
    return tuple(made)


def _parts(entry: Any, *, text: bool) -> tuple[Any, ...]:
    """What an entry is made of; nothing when it is no entry."""
    if text:
        parts = [part.strip() for part in entry.split(":")]
        whole = all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts)
        return tuple(map(int, parts)) if whole else ()
    return tuple(entry) if isinstance(entry, tuple | list | np.ndarray) else ()


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
