"""Reading and writing of fabric files in any registered format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.core.errors import InputError, source_name
from weft.core.files import read_text, write_text
from weft.core.registry import Entry
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import reader, writer
from weft.fabrics.formats.node_name_map import parse_names, read_names, with_names
from weft.fabrics.formats.session import without_session
from weft.fabrics.formats.signatures import signature


def read_file(
    path: str | Path,
    format: str | None = None,
    names: str | Path | None = None,
    **options: Any,
) -> Fabric:
    """Read a fabric from a file.

    `format`: its format, with options as in ``"ibnetdiscover:rate=4xNDR"``; by default detected
    from the contents. `names`: a node-name-map file whose names become the labels.
    """
    named, given = (None, options) if format is None else reader.parse(format, options)
    text = without_session(read_text(path), source_name(path))
    entry = named or _sniffed(text, path)
    bound = reader.bind(entry, given)
    name_map = None if names is None else read_names(names)
    fabric: Fabric = entry.function(text=text, file=source_name(path), **bound)
    return fabric if name_map is None else with_names(fabric, name_map, str(names))


def _sniffed(text: str, path: str | Path) -> Entry:
    fitting = [entry for entry in reader if entry.facts["sniff"](text)]
    if len(fitting) > 1:
        by_name = [entry for entry in fitting if entry in reader.of_suffix(path)]
        fitting = by_name if len(by_name) == 1 else fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        could_be = " or ".join(entry.name for entry in fitting)
        raise InputError(f"could be {could_be}; specify the format", file=path)
    if other := signature(text):
        raise InputError(f"is {other.name}; {other.instead}", file=path)
    try:
        parse_names(text, str(path))
    except InputError:
        known = ", ".join(reader.names())
        raise InputError(
            f"is not in a format that weft reads; formats are {known}", file=path
        ) from None
    raise InputError("is a node-name-map; expected a file that describes a fabric", file=path)


def write_fabric(
    fabric: Fabric, path: str | Path, format: str | None = None, **options: Any
) -> None:
    """Write a fabric to a file; the file is either complete or not created.

    Parameters
    ----------
    fabric
        Fabric to write.
    path
        The file; an existing file is replaced once the new one is complete.
    format
        Name of the format; by default determined by the suffix of the file name.
    options
        Options of the format.

    Raises
    ------
    InputError
        If the format or an option is unknown or invalid, or the file cannot be written.
    NotApplicable
        If the format cannot hold the fabric.
    """
    entry = writer.of_file(path, format)
    text: str = entry.function(fabric=fabric, **writer.bind(entry, options))
    write_text(path, text)
