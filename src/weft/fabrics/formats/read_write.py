"""Reading and writing of fabric files in any registered format."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.core.errors import STANDARD_INPUT, InputError, source_name
from weft.core.files import read_text, write_text
from weft.core.registry import Entry
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import reader, warn_of, writer
from weft.fabrics.formats.lldp import Neighbours, joined
from weft.fabrics.formats.merge import merged
from weft.fabrics.formats.netlist import Netlist
from weft.fabrics.formats.node_name_map import parse_names, read_names, with_names
from weft.fabrics.formats.session import without_session
from weft.fabrics.formats.signatures import signature

#: Most files of a folder, and levels of folders in it, that are looked at.
MOST_FILES, _MOST_LEVELS = 5_000, 3
#: What OpenSM's guid2lid and guid2mkey have after a GUID.
_NUMBERS = re.compile(r"0x[0-9a-fA-F]{1,16}(?: 0x[0-9a-fA-F]{1,16})?")
#: Bytes by which the content of a file of a folder is recognised, and of the largest that is read.
_HEAD_BYTES, _MOST_BYTES = 100_000, 1 << 30


def read_file(
    path: str | Path,
    format: str | None = None,
    names: str | Path | None = None,
    also: Sequence[str | Path] = (),
    **options: Any,
) -> Fabric:
    """Read a fabric from a file or folder.

    Of a folder, all files are read that describe a fabric or names of its nodes, and merged.

    `format`: its format, with options as in ``"ibnetdiscover:rate=4xNDR"``; by default detected
    from the contents. `names`: a node-name-map file whose names become the labels. `also`: files
    and folders with more about the same fabric, which are merged by GUID and port.
    """
    found = Sources(names)
    for each in (path, *also):
        before = len(found.files)
        others = found.take(each, format, options) if each is path else found.take(each)
        if before == len(found.files):
            holds = f"holds {few(others)}" if others else "has no files"
            raise InputError(f"no file describes a fabric; the folder {holds}", file=each)
        what = f"that {'describes' if len(others) == 1 else 'describe'} no fabric"
        warn_of(str(each), others, "file", what, kind="other files")
    return found.fabric()


class Sources:
    """What is read so far: records of fabrics, fabrics of formats without, and files of names.

    `names`: a node-name-map file.
    """

    def __init__(self, names: str | Path | None = None) -> None:
        #: Files that were read.
        self.files: list[str | Path] = []
        self._read_as: list[Netlist | Neighbours | Fabric] = []
        self._names: list[str | Path] = [] if names is None else [names]

    @property
    def describe_cables(self) -> bool:
        """Whether a file other than those of names was read."""
        return bool(self._read_as)

    def _read(
        self, path: str | Path, entry: Entry | None, given: Mapping[str, Any], guess: bool = False
    ) -> None:
        """Read a file in a format, by default detected from the contents.

        `guess`: detect the format anyhow; the options are for files of the format that is given.
        """
        text = without_session(read_text(path), source_name(path))
        found = _sniffed(text, path) if guess or entry is None else entry
        bound = reader.bind(found, given if entry in (None, found) else {})
        self._read_as.append(found.function(text=text, file=source_name(path), **bound))
        self.files.append(path)

    def take(
        self,
        path: str | Path,
        format: str | None = None,
        options: Mapping[str, Any] | None = None,
        without: Collection[Path] = (),
    ) -> list[str]:
        """Read a file, or all files of a folder that describe a fabric or names.

        `format`: format of the file. Files of a folder may have others; its `options` are for those
        that have this one. `without`: files of the folder to leave out. Returns the other files of
        the folder, and what they are.
        """
        named, given = (
            (None, options or {}) if format is None else reader.parse(format, options or {})
        )
        if str(path) in STANDARD_INPUT or not os.path.isdir(path):
            if named is None and os.path.isfile(path) and _only_names(head_of(Path(path))):
                self._names.append(path)
                self.files.append(path)
            else:
                self._read(path, named, given)
            return []
        others: list[str] = []
        for file in files_of(Path(path), warns=True):
            if file in without:
                continue
            if what := other_content(file):
                others.append(f"{file.relative_to(path)} ({what})")
            elif _is_names(head_of(file)):
                self._names.append(file)
                self.files.append(file)
            else:
                self._read(file, named, given, guess=True)
        return others

    def fabric(self) -> Fabric:
        """Return the fabric that all files describe."""
        whole = [each for each in self._read_as if isinstance(each, Fabric)]
        nets = [each for each in self._read_as if isinstance(each, Netlist)]
        if neighbours := [each for each in self._read_as if isinstance(each, Neighbours)]:
            nets.append(joined(neighbours))
        if whole and (nets or len(whole) > 1):
            raise InputError(
                "is in a format that cannot be merged with other files; give it alone",
                file=whole[0].name,
            )
        if not whole and not nets:
            raise InputError(
                "is a node-name-map; expected a file that describes a fabric", file=self._names[0]
            )
        fabric = whole[0] if whole else merged(nets).fabric()
        named: dict[int, tuple[str, str]] = {}
        for file in self._names:
            names = read_names(file)
            first = {
                guid: named.setdefault(guid, (name.text, str(file))) for guid, name in names.items()
            }
            differ = [guid for guid in names if names[guid].text != first[guid][0]]
            items = [f"{names[guid].text!r} and {first[guid][0]!r}" for guid in differ]
            what = "to the names of files before it, which hold"
            warn_of(str(file), items, "contradiction", what, kind="contradiction of names")
            names = {guid: name for guid, name in names.items() if guid not in differ}
            fabric = with_names(fabric, names, str(file)) if names else fabric
        return fabric


def files_of(folder: Path, warns: bool = False) -> list[Path]:
    """Return the files in a folder and its folders, in order of their names; no hidden ones.

    `warns`: issue a `FormatWarning` about folders that are too deep.
    """

    def refuse(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror}", file=error.filename)

    found: list[Path] = []
    deep: list[str] = []
    for at, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(each for each in folders if each[0] != ".")
        if len(Path(at).relative_to(folder).parts) >= _MOST_LEVELS:
            deep += [os.path.join(at, each) for each in folders]
            folders.clear()
        found += [Path(at, name) for name in sorted(names) if name[0] != "."]
        if len(found) > MOST_FILES:
            raise InputError(f"has more than {MOST_FILES:,} files", file=folder)
    if warns:
        warn_of(str(folder), deep, "folder", "too deep to be searched", kind="other files")
    return [each for each in found if each.is_file()]


def head_of(file: Path) -> str:
    """Return the first characters of a file, by which its format is recognised."""
    try:
        with file.open("rb") as stream:
            return stream.read(_HEAD_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None


def other_content(file: Path) -> str:
    """Return what a file is if it describes neither a fabric nor names; else an empty text."""
    head = head_of(file)
    if not head.strip():
        return "empty"
    if "\0" in head or head.count("\ufffd") > 1:
        return "not text"
    if any(entry.facts["sniff"](head) for entry in reader):
        return "too large" if file.stat().st_size > _MOST_BYTES else ""
    if _is_names(head):
        return ""
    known = signature(head)
    return known.name if known else "unknown"


def _only_names(head: str) -> bool:
    """Return whether a file has names, and is in no format of fabrics."""
    return not any(entry.facts["sniff"](head) for entry in reader) and _is_names(head)


def _is_names(head: str) -> bool:
    """Return whether the complete lines of a head are those of a node-name-map."""
    try:
        names = parse_names(head[: head.rfind("\n") + 1] or head, "")
    except InputError:
        return False
    numbers = all(_NUMBERS.fullmatch(name.text) for name in names.values())
    return not numbers and signature(head) is None  # such as one line of a dump of lanes


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
