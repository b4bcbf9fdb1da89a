"""The registry of papers, and what every study of one gives back.

A study is added by a file with one function::

    @paper("multipath-ecmp")
    def multipath_ecmp(*, seeds: int = 30, out: Path | None = None) -> Study: ...

With `out` it writes its figures and tables there and says which; its options are its parameters.
After a KeyboardInterrupt it returns what is known, or raises it where that is nothing.
`weft.studies.reported_study.ReportedStudy` makes text and files of parts, tables and figures.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

import polars as pl

from weft.core.columns import Column
from weft.core.errors import InputError
from weft.core.registry import Registry

paper = Registry("paper", "weft.studies", "weft.papers")


class Study(Protocol):
    """What a paper's function returns."""

    #: Files written, in the order of writing; empty without an output folder.
    files: tuple[Path, ...]
    #: How much there is, such as "12 of 600 runs", where an interrupt ended the study; else empty.
    partial: str

    def text(self) -> str:
        """The paper's claims beside what was measured, and the tables, as plain text."""
        ...


def output_folder(out: str | Path) -> Path:
    """The folder to write to, made when it does not exist.

    Raises
    ------
    InputError
        When it cannot be made or is no folder.
    """
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the output folder: {error.strerror}", file=out) from None
    return folder


def write_tables(
    folder: Path, tables: Mapping[str, tuple[pl.DataFrame, Mapping[str, Column]]]
) -> list[Path]:
    """Write each table as Parquet and CSV, and what their columns mean as ``columns.csv``.

    Parameters
    ----------
    folder
        Where to.
    tables
        Name -> frame and its columns.

    Returns
    -------
    The files, in the order of writing.
    """
    files = []
    for name, (data, _) in tables.items():
        files.append(write_whole(folder / f"{name}.parquet", data.write_parquet))
        files.append(write_whole(folder / f"{name}.csv", data.write_csv))
    described = pl.DataFrame(
        [
            (name, column, about.unit, about.meaning)
            for name, (_, columns) in tables.items()
            for column, about in columns.items()
        ],
        schema=["table", "column", "unit", "meaning"],
        orient="row",
    )
    return [*files, write_whole(folder / "columns.csv", described.write_csv)]


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Write a file under a temporary name and give it its own once it is complete.

    Raises
    ------
    InputError
        When the folder cannot be written to; no part of the file is left behind.
    """
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as handle:
            write(handle)
        # mkstemp gives the file to its owner alone; ask for what open() would have given.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True) if temporary else None
        raise InputError(f"cannot be written: {error.strerror}", file=path) from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True) if temporary else None
        raise
    return path
