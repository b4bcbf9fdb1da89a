"""Texts and tables of a study's claims and their findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import polars as pl
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from weft.core.columns import Column, frame_of_rows
from weft.studies.claims import ClaimResult, Verdict, vote

_COLOURS = {
    Verdict.HOLDS: "green", Verdict.CANNOT_TELL: "yellow", Verdict.UNDECIDED: "yellow",
    Verdict.FAILS: "red", Verdict.NOT_MEASURED: "dim",
}  # fmt: skip


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict in its colour."""
    return Text(str(verdict), style=_COLOURS[verdict])


def titled_table(title: str, *groups: Iterable[str], **options: Any) -> Table:
    """Return an empty table with a title.

    Parameters
    ----------
    title
        Title, above the table.
    groups
        Groups of headings; the columns of successive groups are aligned left and right in turn.
    options
        Further options of the table.
    """
    table = Table(title=title, **{"box": box.SIMPLE_HEAD, "title_justify": "left", **options})
    for number, headings in enumerate(groups):
        for heading in headings:
            table.add_column(heading, justify="right" if number % 2 else "left")
    return table


def claims_table(headings: Mapping[str, int], rows: Iterable[Sequence[RenderableType]]) -> Table:
    """Return a table of claims over the whole width, divided by the ratios in `headings`."""
    table = Table(box=box.SIMPLE_HEAD, expand=True)
    for heading, ratio in headings.items():
        table.add_column(heading, ratio=ratio)
    for row in rows:
        table.add_row(*row)
        table.add_row()
    return table


def explained(
    claim: ClaimResult, findings: Iterable[Text], *, where: str = "", verdict: Verdict | None = None
) -> Iterator[Text]:
    """Yield the lines of a claim: its test, its findings, and the explanation of the result.

    Parameters
    ----------
    claim
        The claim.
    findings
        Lines on its findings.
    where
        Text to add after the section.
    verdict
        Verdict to add to the first line.
    """
    head = Text.assemble((claim.says, "bold"), f" ({claim.section}{where})")
    yield head if verdict is None else Text.assemble(head, ": ", verdict_text(verdict))
    yield Text(f"  test: {claim.test}")
    yield from findings
    if claim.comment:
        yield Text(f"  {claim.comment}")
    yield Text("")


def claim_parts(table: Table, comments: Iterable[Iterable[Text]]) -> Iterator[RenderableType]:
    """Yield the parts of a report on claims: their table, then tests and explanations."""
    yield "The paper's claims"
    yield table
    yield "Tests and explanations of the results\n"
    yield from chain.from_iterable(comments)


def findings_frame(
    columns: Mapping[str, Column], claims: Iterable[ClaimResult], basis: str, mean: str
) -> pl.DataFrame:
    """Return one row per claim and basis.

    Parameters
    ----------
    columns
        Columns of the frame; each must be one that this function can fill.
    claims
        Claims with their findings.
    basis, mean
        Names of two columns: the basis, and the mean of the deciding comparison.
    """
    rows = []
    for claim in claims:
        majority = str(vote(claim.findings).verdict)
        for name, each in claim.findings.items():
            worst = each.deciding if each.conditions else None
            row = {
                "id": claim.id, "section": claim.section, "claim": claim.says, "test": claim.test,
                basis: name, "verdict": str(each.verdict), "majority": majority,
                "measured": each.measured, "deciding": worst.label if worst else "",
                mean: worst.mean if worst else None, "ci95": worst.half if worst else None,
                "comparisons": each.comparisons, "against": len(each.against),
                "comment": claim.comment,
            }  # fmt: skip
            rows.append([row[column] for column in columns])
    return frame_of_rows(columns, rows)


def verdict_counts(verdicts: pl.Series) -> str:
    """Return the number of each verdict, in the order of their names."""
    return ", ".join(f"{count} {name}" for name, count in sorted(verdicts.value_counts().rows()))
