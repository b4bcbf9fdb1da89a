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
from weft_papers.claims import ClaimResult, Verdict, headline, vote

_COLOURS = {
    Verdict.HOLDS: "green", Verdict.CANNOT_TELL: "yellow", Verdict.UNDECIDED: "yellow",
    Verdict.FAILS: "red", Verdict.NOT_MEASURED: "dim",
}  # fmt: skip


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict in its colour."""
    return Text(str(verdict), style=_COLOURS[verdict])


def titled_table(title: str, *groups: Iterable[str], **options: Any) -> Table:
    """Return an empty table with a title.

    `groups`: groups of headings; the columns of successive groups are aligned left and right in
    turn.
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

    `where`: text to add after the section. `verdict`: verdict to add to the first line.
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


def claims_by_choice(claims: Sequence[ClaimResult]) -> Iterator[RenderableType]:
    """Yield the parts of a report on claims that are tested under several choices."""
    headings = {
        "section": 8, "the paper says": 22, "measured": 48, "verdict": 9, "of most choices": 12,
    }  # fmt: skip
    comments = (explained(each, _by_choice(each)) for each in claims)
    yield from claim_parts(claims_table(headings, map(_claim_row, claims)), comments)


def _claim_row(claim: ClaimResult) -> tuple[RenderableType, ...]:
    """Return section, statement, measured values, verdict, and verdict of most choices."""
    first, voted = headline(claim), vote(claim.findings)
    most = Text.assemble(verdict_text(voted.verdict), f"\n{voted}")
    return (
        claim.section, claim.says, Text(first.measured), verdict_text(first.verdict),
        most if len(claim.findings) > 1 else "",
    )  # fmt: skip


def _by_choice(claim: ClaimResult) -> Iterator[Text]:
    """Yield the verdict with each choice, and its deciding comparison."""
    for choice, finding in claim.findings.items():
        line = Text.assemble(f"  {choice}: ", verdict_text(finding.verdict))
        if finding.conditions:
            line.append(f"; closest: {finding.deciding}")
        yield line


#: Columns of `findings_frame` with the basis ``choice``.
CHOICE_COLUMNS = {
    "id": Column(pl.String, "", "Short name of the claim"),
    "section": Column(pl.String, "", "Section or figure of the paper"),
    "claim": Column(pl.String, "", "Statement of the paper (paraphrased)"),
    "test": Column(pl.String, "", "Test of the claim"),
    "choice": Column(pl.String, "", "Setting that the paper leaves open"),
    "verdict": Column(pl.String, "", "Verdict with this choice"),
    "majority": Column(pl.String, "", "Verdict of most choices"),
    "measured": Column(pl.String, "", "Measured values (mean ± 95 % half width)"),
    "deciding": Column(pl.String, "", "Comparison that fails or is closest to failing"),
    "mean": Column(pl.Float64, "", "Mean of the deciding comparison"),
    "ci95": Column(pl.Float64, "", "Half width of its 95 % interval"),
    "comparisons": Column(pl.Int64, "", "Number of comparisons"),
    "against": Column(pl.Int64, "", "Number of comparisons that do not hold or are undecided"),
    "comment": Column(pl.String, "", "Explanation of the result"),
}


def findings_frame(
    columns: Mapping[str, Column], claims: Iterable[ClaimResult], basis: str, mean: str
) -> pl.DataFrame:
    """Return one row per claim and basis.

    `columns`: columns of the frame; each must be one that this function can fill. `basis`, `mean`:
    names of two columns: the basis, and the mean of the deciding comparison.
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
