"""Result of the QsNET study: text, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from rich.console import RenderableType
from rich.table import Table

from weft_papers.claim_report import (
    claims_by_choice,
    findings_frame,
    titled_table,
    verdict_counts,
)
from weft_papers.claims import ClaimResult, plus_minus
from weft_papers.qsnet.frames import TABLES
from weft_papers.qsnet.plots import figures
from weft_papers.qsnet.runs import CHOICES, MECHANISMS, PAPER
from weft_papers.reported_study import ReportedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def how(study: QsNetStudy) -> str:
    """Return one line with the parameters of the study."""
    options = study.parameters
    last = options["seed"] + options["seeds"] - 1
    partial = f"partial, {study.partial}, interrupted: " if study.partial else ""
    quick = ", quick" if options["quick"] else ""
    seeds = f"seeds {options['seed']} to {last}"
    return f"{partial}{seeds}{quick}; mean and 95 % interval (Student t)"


def printed_table(study: QsNetStudy) -> Table:
    """Return printed and measured numbers side by side."""
    table = titled_table(
        "Printed and measured; *: taken from the paper", ("section", "quantity"),
        ("printed", "measured"),
    )  # fmt: skip
    for row in study.printed.filter(choice=PAPER).iter_rows(named=True):
        low, high = row["printed_low"], row["printed_high"]
        printed = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        table.add_row(
            row["section"], row["quantity"], printed + "*" * row["given"],
            plus_minus(row["measured"], row["ci95"]),
        )  # fmt: skip
    return table


def variants_table(study: QsNetStudy, names: tuple[str, ...], title: str) -> Table:
    """Return printed numbers with the measured ones of several choices."""
    table = titled_table(title, ("quantity",), ("printed", *names), collapse_padding=True)
    varied = study.printed.filter(pl.col("choice").is_in(names) & (pl.col("choice") != PAPER))
    here = study.printed.filter(pl.col("quantity").is_in(varied["quantity"].implode()))
    for (quantity,), rows in here.group_by("quantity", maintain_order=True):
        values = {row["choice"]: row for row in rows.iter_rows(named=True)}
        low, high = rows["printed_low"][0], rows["printed_high"][0]
        table.add_row(
            str(quantity), f"{low:g}" if low == high else f"{low:g} to {high:g}",
            *(
                plus_minus(values[name]["measured"], values[name]["ci95"]) if name in values
                else "–"
                for name in names
            ),
        )  # fmt: skip
    return table


@dataclass(frozen=True, eq=False)
class QsNetStudy(ReportedStudy):
    """Result of the study."""

    width = 150
    columns = TABLES

    #: Frames of `RUN_COLUMNS`, `SUMMARY_COLUMNS`, `PRINTED_COLUMNS`, `NODE_COLUMNS` and
    #: `MATRIX_COLUMNS`.
    runs: pl.DataFrame
    summary: pl.DataFrame
    printed: pl.DataFrame
    nodes: pl.DataFrame
    matrices: pl.DataFrame
    #: The paper's claims with the findings under every choice.
    claims: tuple[ClaimResult, ...]

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table of `CHOICE_COLUMNS` with one row per claim and choice."""
        return findings_frame(self.columns["claims"], self.claims, "choice", "mean")

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts of the text: tables, and claims with measured values."""
        yield f"QsNET at the flit level: {how(self)}\n"
        if len(self.printed):
            yield printed_table(self)
        kinds = (
            (CHOICES, "Settings that the paper leaves open"),
            (MECHANISMS, "Changed mechanisms"),
        )
        for several, title in kinds:
            names = tuple(dict.fromkeys((PAPER, *several)))
            if len(self.printed.filter(pl.col("choice").is_in(names[1:]))):
                yield variants_table(self, names, title)
                yield (
                    "\n".join(f"  {name}: {choice.about}" for name, choice in several.items())
                    + "\n"
                )
        if self.claims:
            yield from claims_by_choice(self.claims)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return figures(self.summary, self.nodes, self.matrices, how(self))

    def __repr__(self) -> str:
        usual = self.claims_frame.filter(pl.col("choice") == PAPER)
        return f"QsNetStudy({verdict_counts(usual['verdict']) or 'no claims'})"
