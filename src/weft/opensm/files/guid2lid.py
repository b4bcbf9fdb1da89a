"""OpenSM's memory of LIDs: ``guid2lid`` in its cache folder, read and written.

A line per port, with an empty line behind each: the port's GUID, its first and its last LID,
``0x0002c9020020d3c9 0x0004 0x0007``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from weft.core.errors import InputError
from weft.core.files import read_text

_ENTRY = re.compile(r"0[xX]([0-9a-fA-F]{1,16})\s+0[xX]([0-9a-fA-F]{1,4})\s+0[xX]([0-9a-fA-F]{1,4})")


def read_guid2lid(path: str | Path) -> dict[int, tuple[int, int]]:
    """First and last LID by port GUID.

    Raises
    ------
    InputError
        With file and line, on a line that is none of it, or a GUID that stands there twice.
    """
    found: dict[int, tuple[int, int]] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        match = _ENTRY.fullmatch(line.strip())
        if match is None:
            shown = line.strip() if len(line.strip()) <= 60 else line.strip()[:57] + "..."
            raise InputError(
                "expected a port GUID and its first and last LID, as in 0x0002c9020020d3c9 0x0004 "
                f"0x0007, found {shown!r}",
                file=path,
                line=number,
            )
        guid, first, last = (int(part, 16) for part in match.groups())
        if lines.setdefault(guid, number) != number:
            raise InputError(
                f"{guid:#018x} stands in line {lines[guid]} already", file=path, line=number
            )
        found[guid] = first, last
    return found


def guid2lid(lids: Mapping[int, tuple[int, int]]) -> str:
    """The file of the first and last LID by port GUID, in the order given."""
    return "".join(f"{guid:#018x} {a:#06x} {b:#06x}\n\n" for guid, (a, b) in lids.items())
