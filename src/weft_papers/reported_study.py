"""The skeleton of studies: claims and tables as text, files, and what is checked and counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import polars as pl
from rich.console import Console, RenderableType

from weft.core.arguments import whole_number
from weft.core.columns import Column, write_table
from weft.core.errors import InputError
from weft.core.files import make_folder, write_text, write_with
from weft.core.pool import check_processes
from weft.core.registry import wrong_name
from weft_papers.claim_report import claims_by_choice, findings_frame, verdict_counts
from weft_papers.claims import ClaimResult

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
    #: First words of the text.
    title: ClassVar[str] = ""
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

    def how(self) -> str:
        """Return one line with the parameters of the study."""
        return f"partial, {self.partial}, interrupted: " if self.partial else ""

    def parts(self) -> Iterable[RenderableType]:
        """Yield the parts of the text: tables, and claims with measured values."""
        yield f"{self.title}: {self.how()}\n"
        yield from self.result_parts()
        yield from self.claim_parts()

    def result_parts(self) -> Iterable[RenderableType]:
        """Return the parts of the text between its first line and the claims."""
        return ()

    def claim_parts(self) -> Iterable[RenderableType]:
        """Return the parts of the text on the paper's claims."""
        return ()

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


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ChoiceStudy(ReportedStudy):
    """Study whose claims are tested under choices that the paper leaves open.

    Its options are `seeds`, `figures`, `choices`, `quick` and `seed`; its points are runs of seed
    0, which are repeated with each seed.
    """

    width = 150

    #: The paper's claims with the findings under every choice, the headline choice first.
    claims: tuple[ClaimResult, ...]

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table with one row per claim and choice."""
        return findings_frame(self.columns["claims"], self.claims, "choice", "mean")

    def claim_parts(self) -> Iterable[RenderableType]:
        """Return the claims, each with its verdicts under all choices."""
        return claims_by_choice(self.claims) if self.claims else ()

    def how(self) -> str:
        """Return one line with the parameters of the study."""
        first, count = self.parameters["seed"], self.parameters["seeds"]
        quick = ", quick" if self.parameters["quick"] else ""
        return (
            f"{super().how()}seeds {first} to {first + count - 1}{self.fewer_seeds()}{quick}; "
            "mean and 95 % interval (Student t)"
        )

    def fewer_seeds(self) -> str:
        """Return a note on figures with fewer seeds."""
        return ""

    def __repr__(self) -> str:
        usual = self.claims_frame.unique("id", keep="first", maintain_order=True)
        return f"{type(self).__name__}({verdict_counts(usual['verdict']) or 'no claims'})"


def check_choice_study(
    seeds: int, figures: Sequence[str], known: Iterable[str], seed: int, processes: int | None
) -> None:
    """Check the options of a `ChoiceStudy`; `known` are the names of all figures."""
    if seeds < 2:
        raise InputError(f"an interval needs at least 2 seeds, not {seeds}")
    known = tuple(known)
    if not figures:
        raise InputError(f"expected one or more figures of {', '.join(known)}")
    for name in figures:
        if name not in known:
            raise InputError(wrong_name("unknown figure", name, known, "expected some of"))
    whole_number(seed, "the first seed")
    check_processes(processes)


def results_by_point(runs: Iterable[Any], measured: Iterable[Any]) -> dict[Any, list[Any]]:
    """Return run with seed 0 -> the results of its seeds, None for those that are missing."""
    known = {each.run: each for each in measured}
    points: dict[Any, list[Any]] = {}
    for run in runs:
        points.setdefault(replace(run, seed=0), []).append(known.get(run))
    return points
