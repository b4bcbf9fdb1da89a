"""Result of the multipath study: text, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from weft_papers.claim_report import (
    claim_parts,
    claims_table,
    explained,
    findings_frame,
    titled_table,
    verdict_counts,
    verdict_text,
)
from weft_papers.claims import ClaimResult, Verdict, plus_minus
from weft_papers.multipath.evidence import PAPER, TIERS
from weft_papers.multipath.frames import TABLES
from weft_papers.multipath.plots import STYLES, figures
from weft_papers.reported_study import ReportedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SWEEPS = {
    "qps": ("qps", "QPs, at k = 8 and 20 epochs"),
    "qps-30": ("qps", "QPs, at k = 8 and 30 epochs"),
    "epochs": ("epochs", "flowlet epochs, at k = 8 and 8 QPs"),
    "k": ("k", "fat-tree size k, at 8 QPs and 20 epochs"),
}
_LOADS = (("cv", "CV"), ("p90", "p90"))
_SHOWN = {
    "qps": _LOADS,
    "qps-30": _LOADS,
    "epochs": _LOADS,
    "k": (*_LOADS, ("used", "used")),
}
_BASES = {"cable": "cables", "directed": "directions"}
_LEGEND = (
    "cables: the paper's basis, both directions added, cables to hosts included; directions: links "
    "between switches, each direction separately. CV: standard deviation over mean; p90 in flows; "
    "used: share of links with load. Equal split: every flow is split equally over all its paths."
)


def how(study: StudyResult) -> str:
    """Return one line with the parameters of the study."""
    parameters = study.parameters
    seeds = f"{parameters['seeds']} seeds"
    if study.partial:
        seeds = f"partial, interrupted: {study.partial}"
    return (
        f"{parameters['flows']} flows, {parameters['hash']} hash, {seeds} from "
        f"{parameters['first_seed']}; mean and 95 % interval (Student t)"
    )


def tier_verdict(claim: ClaimResult) -> Text:
    """Return the verdict on the tiers of directed links, by tier if the verdicts differ."""
    verdicts = {basis: claim.findings[basis].verdict for basis in TIERS}
    if len(set(verdicts.values())) == 1:
        return verdict_text(next(iter(verdicts.values())))
    parts: list[Text] = []
    for verdict in (Verdict.FAILS, Verdict.UNDECIDED):
        bases = [basis for basis in TIERS if verdicts[basis] is verdict]
        if bases:
            parts.append(Text.assemble(verdict_text(verdict), f" on {', '.join(bases)}"))
    if Verdict.HOLDS in verdicts.values():
        parts.append(Text("otherwise holds"))
    return Text("; ").join(parts)


def sweep_tables(study: StudyResult) -> Iterator[Table]:
    """Yield tables of CV, p90 and used share along each sweep, on two bases."""
    for sweep, (column, title) in _SWEEPS.items():
        labels = [label.replace(" over all paths", "") for label, _, _ in STYLES.values()]
        table = titled_table(
            title, ("metric", "loads of"), (column, *labels), collapse_padding=True
        )
        for metric, name in _SHOWN[sweep]:
            for basis, of in _BASES.items():
                here = study.summary.filter(
                    pl.col("sweep") == sweep, pl.col("basis") == basis, pl.col("metric") == metric
                )
                head = (name, of)
                for x, rows in here.group_by(column, maintain_order=True):
                    cells = {row["scheme"]: row for row in rows.iter_rows(named=True)}
                    table.add_row(
                        *head,
                        str(x[0]),
                        *(
                            plus_minus(cells[scheme]["mean"], cells[scheme]["ci95"])
                            for scheme in STYLES
                        ),
                    )
                    head = ("", "")
                table.add_section()
        yield table


@dataclass(frozen=True, eq=False)
class StudyResult(ReportedStudy):
    """Result of the study."""

    counted = "seeds"
    columns = TABLES

    #: Frames of `RUN_COLUMNS`, `SUMMARY_COLUMNS` and `CDF_COLUMNS`.
    runs: pl.DataFrame
    summary: pl.DataFrame
    cdf: pl.DataFrame
    #: The paper's claims with the findings on them.
    claims: tuple[ClaimResult, ...]

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table of `CLAIM_COLUMNS` with one row per claim and basis."""
        return findings_frame(self.columns["claims"], self.claims, "basis", "difference")

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts of the text: tables of the sweeps, and claims with measured values."""
        yield f"Multipath routing on fat trees (Kenzi 2026): {how(self)}\n"
        yield _LEGEND + "\n"
        yield from sweep_tables(self)
        headings = {
            "section": 7, "the paper says": 22, "measured, on the paper's basis": 40,
            "verdict": 10, "per direction, by tier": 17,
        }  # fmt: skip
        rows = [
            (
                claim.section, claim.says, Text(claim.findings[PAPER].measured),
                verdict_text(claim.findings[PAPER].verdict), tier_verdict(claim),
            )
            for claim in self.claims
        ]  # fmt: skip
        comments = (
            explained(claim, [Text(f"  deciding: {finding.deciding}")], verdict=finding.verdict)
            for claim in self.claims
            for finding in [claim.findings[PAPER]]
        )
        yield from claim_parts(claims_table(headings, rows), comments)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return figures(self.summary, self.cdf, how(self))

    def __repr__(self) -> str:
        counts = verdict_counts(self.claims_frame.filter(pl.col("basis") == PAPER)["verdict"])
        return f"StudyResult(multipath-ecmp, {self.parameters['hash']} hash: {counts})"
