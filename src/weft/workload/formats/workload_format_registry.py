"""Registries of workload formats; reading and writing of workload files.

A module with one function per direction adds a format::

    @workload_reader("mine", suffixes=(".mine",), sniff=lambda text, path: text.startswith("mine"))
    def read(text: str, file: str) -> Workload: ...

    @workload_writer("mine", suffixes=(".mine",))
    def write(workload: Workload) -> str: ...

A reader of a binary format has the fact ``binary=True`` and takes bytes in place of the text; its
writer returns bytes. Further parameters of the function are the format's options. A reader raises
`InputError` with the file and line of an error, and records its assumptions in the workload's
notes; a writer raises `NotApplicable` if the format cannot express the workload.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.core.errors import InputError, NotApplicable, source_name
from weft.core.files import decoded, read_bytes, write_bytes, write_text
from weft.core.registry import Entry, Registry
from weft.fabrics.formats.format_registry import reader
from weft.fabrics.formats.signatures import signature
from weft.workload.matching import OperationError
from weft.workload.workload import Workload

#: Facts of a reader: `suffixes` of its files, and `sniff`, a function of text and path that returns
#: whether the file has the format. For a folder, the text is the list of its files. With the fact
#: `binary`, which is optional, `sniff` and the reader get the bytes of a file in place of its text.
workload_reader = Registry(
    "readable workload format",
    "weft.workload.formats",
    "weft.workload_readers",
    pipeline=("text", "file", "builder"),
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


def read_workload(path: str | Path, format: str | None = None, **options: Any) -> Workload:
    """Read a workload from a file, or from a folder with a file for each rank.

    `format`: the format, with options as in ``"tit:flops_per_s=2e10"``; if left out, it follows
    from the file name's suffix or the contents. `options`: options of the format. Every format has
    `ranks`, the number of ranks: required if the file does not determine this number, else compared
    with it. `builder` among them is the class of the builder, for readers that take one.
    """
    builder = options.pop("builder", None)
    chosen, given = (None, options) if format is None else workload_reader.parse(format, options)
    data = _listing(Path(path)) if os.path.isdir(path) else read_bytes(path)
    entry = chosen or _recognised(data, Path(path))
    binary = entry.facts.get("binary", False)
    text = data if isinstance(data, str) or binary else decoded(data, path)
    expected = None if "ranks" in entry.options else given.pop("ranks", None)
    bound = workload_reader.bind(entry, given)
    if builder is not None:
        bound["builder"] = builder
    workload: Workload = entry.function(text=text, file=source_name(path), **bound)
    if expected is not None and workload.num_ranks != int(expected):
        raise InputError(f"the file has {workload.num_ranks} ranks; expected {expected}", file=path)
    return workload


def write_workload(
    workload: Workload, path: str | Path, format: str | None = None, **options: Any
) -> None:
    """Write a workload to a file atomically.

    `path`: the file; an existing one is replaced when the new one is complete. `format`: name of
    the format; if left out, it follows from the file name's suffix.
    """
    entry = workload_writer.of_file(path, format)
    if len(workload.multicast):
        raise NotApplicable(f"the format {entry.name} has no hardware broadcasts and barriers")
    if len(workload.tree):
        raise NotApplicable(f"the format {entry.name} has no reductions in switches")
    written = entry.function(workload=workload, **workload_writer.bind(entry, options))
    if isinstance(written, bytes):
        write_bytes(path, written)
    else:
        write_text(path, written)


@contextmanager
def at_operation(file: str, place_of: Callable[[int, int], tuple[str, int]]) -> Iterator[None]:
    """Add file and line to errors of `WorkloadBuilder.build` that name an operation.

    `file`: the file that was read, for errors that name no operation. `place_of`: function that
    returns file and line of an operation, given its rank and its index in the rank's program.
    """
    try:
        yield
    except OperationError as error:
        where, line = place_of(*error.first)
        raise InputError(error.message, file=where, line=line) from None
    except InputError as error:
        raise InputError(error.message, file=file) from None


def _listing(folder: Path) -> str:
    try:
        names = [item.name for item in folder.iterdir() if item.is_file()]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=folder) from None
    names = [name for name in names if not name.startswith(".") and name.isprintable()]
    if not names:
        raise InputError("the folder has no files", file=folder)
    return "\n".join(sorted(names))


def _recognised(data: str | bytes, path: Path) -> Entry:
    by_suffix = workload_reader.of_suffix(path)
    binary = [entry for entry in workload_reader if entry.facts.get("binary")]
    if found := next((entry for entry in binary if entry.facts["sniff"](data, path)), None):
        return found
    if isinstance(data, bytes) and by_suffix and by_suffix[0] in binary:
        return by_suffix[0]
    text = decoded(data, path) if isinstance(data, bytes) else data
    readers = (entry for entry in workload_reader if entry not in binary)
    matching = [entry for entry in readers if entry.facts["sniff"](text, path)]
    if len(by_suffix) == 1 and (by_suffix[0] in matching or len(matching) != 1):
        return by_suffix[0]  # its reader reports errors
    if len(matching) == 1:
        return matching[0]
    if matching:
        could_be = " or ".join(entry.name for entry in matching)
        raise InputError(f"could be {could_be}; specify the format", file=path)
    fabric = next((f"a fabric ({each.name})" for each in reader if each.facts["sniff"](text)), "")
    other = signature(text)
    what = fabric or (other.name if other else "")
    known = ", ".join(workload_reader.names())
    raise InputError(
        f"is {what}, not a workload; weft reads {known}"
        if what
        else f"is not in a known workload format; weft reads {known}",
        file=path,
    )
