"""Base class of studies: text and files from parts, tables and figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import polars as pl
from rich.console import Console, RenderableType

from weft.core.columns import Column, write_table
from weft.core.files import make_folder, write_text, write_with

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Name of a table -> the table and its columns.
Tables = Mapping[str, tuple[pl.DataFrame, Mapping[str, Column]]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportedStudy(ABC):
    """Study with text, tables and figures."""

    #: Default line width of the text in characters.
    width: ClassVar[int] = 120
    #: What `asked` and `done` count.
    counted: ClassVar[str] = "runs"
    #: Name of a table -> its columns; the table is the attribute NAME_frame, or else NAME.
    columns: ClassVar[Mapping[str, Mapping[str, Column]]]

    #: All options, resolved.
    parameters: dict[str, Any]
    #: Number of runs that were requested, and of those completed before an interrupt.
    asked: int = 0
    done: int = 0
    #: Files written.
    files: tuple[Path, ...] = ()

    @property
    def partial(self) -> str:
        """Number of runs completed before an interrupt; empty if complete."""
        return f"{self.done} of {self.asked} {self.counted}" if self.done < self.asked else ""

    @abstractmethod
    def parts(self) -> Iterable[RenderableType]:
        """Return the parts of the text: claims with measured values, and tables."""

    @abstractmethod
    def figures(self) -> Iterable[tuple[str, Figure]]:
        """Return the figures (written as PNG), each with the name of its file."""

    def tables(self) -> Tables:
        """Return the tables that are written as Parquet and CSV."""
        return {
            name: (getattr(self, f"{name}_frame" if hasattr(self, f"{name}_frame") else name), each)
            for name, each in self.columns.items()
        }

    def text(self, width: int | None = None) -> str:
        """Return the paper's claims with measured values, and the tables, as plain text."""
        out = StringIO()
        console = Console(
            file=out, width=width or self.width, color_system=None, force_terminal=False,
            highlight=False,
        )  # fmt: skip
        for part in self.parts():
            console.print(part)
        if self.files:
            console.print(f"written to {self.files[0].parent}:", soft_wrap=True)
            console.print(", ".join(path.name for path in self.files))
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"

    def write(self, out: str | Path) -> tuple[Path, ...]:
        """Write tables, their description, figures and the text to a folder; return the files."""
        folder = make_folder(out)
        tables = {name: table for name, (table, _) in self.tables().items()}
        tables = {f"{name}.{form}": tables[name] for name in tables for form in ("parquet", "csv")}
        for name, table in {**tables, "columns.csv": self._meanings()}.items():
            write_table(table, folder / name)
        figures = {f"{name}.png": figure for name, figure in self.figures()}
        for name, figure in figures.items():
            write_with(folder / name, partial(figure.savefig, format="png"))
        write_text(folder / "report.txt", self.text())
        return tuple(folder / name for name in (*tables, "columns.csv", *figures, "report.txt"))

    def _meanings(self) -> pl.DataFrame:
        """Return the descriptions of the columns of all tables."""
        rows = [
            (name, column, about.unit, about.meaning)
            for name, (_, columns) in self.tables().items()
            for column, about in columns.items()
        ]
        return pl.DataFrame(rows, schema=["table", "column", "unit", "meaning"], orient="row")

    def written(self, out: str | Path | None) -> Self:
        """Write the files to a folder, if one is given; return the study with their paths."""
        return self if out is None else replace(self, files=self.write(out))
