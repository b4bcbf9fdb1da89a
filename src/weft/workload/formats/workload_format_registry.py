"""The registries of workload formats, and reading and writing workloads in any of them.

A format is added by a file with one function per direction::

    @workload_reader("mine", suffixes=(".mine",), sniff=lambda text, path: text.startswith("mine"))
    def read(text: str, file: str) -> Workload: ...

    @workload_writer("mine", suffixes=(".mine",))
    def write(workload: Workload) -> str: ...

Further parameters of the function are the format's options. A reader raises `InputError` with the
file and line of what it cannot use, and puts what it assumed into the workload's notes; a writer
raises `NotApplicable` when the workload has something that the format cannot state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.core.errors import InputError, source_name
from weft.core.files import read_text, write_text
from weft.core.registry import Entry, Registry
from weft.workload.workload import Workload

#: Facts of a reader: `suffixes` of its files, and `sniff`, which tells from a text and the path
#: that it came from whether it is one. A folder is given to readers as the list of its files.
workload_reader = Registry(
    "readable workload format",
    "weft.workload.formats",
    "weft.workload_readers",
    pipeline=("text", "file"),
    facts=("suffixes", "sniff"),
)
#: Fact of a writer: `suffixes` of its files.
workload_writer = Registry(
    "writable workload format",
    "weft.workload.formats",
    "weft.workload_writers",
    pipeline=("workload",),
    facts=("suffixes",),
)

#: How `Workload.describe` names an operation.
_OPERATION = re.compile(r"operation (\d+) of rank (\d+)", re.ASCII)


def read_workload(path: str | Path, format: str | None = None, **options: Any) -> Workload:
    """Read a workload from a file, or from a folder with a file for each rank.

    Parameters
    ----------
    path
        The file or folder.
    format
        Name of its format; left out, the end of the file name tells, or else the contents.
    options
        Options of the format. Every format takes `ranks`: one that leaves their number open needs
        it, another must have as many.

    Raises
    ------
    InputError
        With file and line, when the file cannot be used.
    """
    named = None if format is None else workload_reader[format]
    text = _listing(Path(path)) if Path(path).is_dir() else read_text(path)
    entry = named or _recognised(text, Path(path))
    expected = None if "ranks" in entry.options else options.pop("ranks", None)
    bound = workload_reader.bind(entry, options)
    made: Workload = entry.function(text=text, file=source_name(path), **bound)
    if expected is not None and made.num_ranks != int(expected):
        raise InputError(f"has {made.num_ranks} ranks; expected {expected}", file=path)
    return made


def write_workload(
    workload: Workload, path: str | Path, format: str | None = None, **options: Any
) -> None:
    """Write a workload to a file, which is complete or not there at all.

    Parameters
    ----------
    workload
        What to write.
    path
        The file; an old one is replaced once the new one is complete.
    format
        Name of the format; left out, the end of the file name tells.
    options
        Options of the format.

    Raises
    ------
    InputError
        When the format is not known, an option does not fit, or the file cannot be written.
    NotApplicable
        When the format cannot state something of the workload.
    """
    entry = workload_writer.of_file(path, format)
    text: str = entry.function(workload=workload, **workload_writer.bind(entry, options))
    write_text(path, text)


@contextmanager
def at_operation(file: str, place_of: Callable[[int, int], tuple[str, int]]) -> Iterator[None]:
    """Give errors of `WorkloadBuilder.build` the file and line of the operation they name.

    Parameters
    ----------
    file
        The file that was read, for errors that name no operation.
    place_of
        File and line of an operation, given its rank and its place in the rank's program.
    """
    try:
        yield
    except InputError as error:
        named = _OPERATION.search(error.message)
        if named is None:
            raise InputError(error.message, file=file) from None
        where, line = place_of(int(named[2]), int(named[1]))
        raise InputError(error.message, file=where, line=line) from None


def _listing(folder: Path) -> str:
    try:
        names = [item.name for item in folder.iterdir() if item.is_file()]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=folder) from None
    names = [name for name in names if not name.startswith(".") and name.isprintable()]
    if not names:
        raise InputError("is a folder without files", file=folder)
    return "\n".join(sorted(names))


def _recognised(text: str, path: Path) -> Entry:
    named = workload_reader.of_suffix(path)
    fitting = [entry for entry in workload_reader if entry.facts["sniff"](text, path)]
    if len(named) == 1 and (named[0] in fitting or len(fitting) != 1):
        return named[0]  # what does not look like it is told by its reader what is wrong
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        could_be = " or ".join(entry.name for entry in fitting)
        raise InputError(f"could be {could_be}; name the format", file=path)
    known = ", ".join(workload_reader.names())
    raise InputError(f"is in no workload format that weft can read; it reads {known}", file=path)
