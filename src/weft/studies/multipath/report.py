"""Result of the multipath study: text, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from weft.core.columns import frame_of_rows
from weft.studies.claims import ClaimResult, Verdict, plus_minus
from weft.studies.multipath.evidence import PAPER, TIERS
from weft.studies.multipath.frames import CDF_COLUMNS, CLAIM_COLUMNS, RUN_COLUMNS, SUMMARY_COLUMNS
from weft.studies.multipath.plots import STYLES, figures
from weft.studies.reported_study import ReportedStudy, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {Verdict.HOLDS: "green", Verdict.UNDECIDED: "yellow", Verdict.FAILS: "red"}

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
        return _verdict(next(iter(verdicts.values())))
    parts: list[Text] = []
    for verdict in (Verdict.FAILS, Verdict.UNDECIDED):
        bases = [basis for basis in TIERS if verdicts[basis] is verdict]
        if bases:
            parts.append(Text.assemble(_verdict(verdict), f" on {', '.join(bases)}"))
    if Verdict.HOLDS in verdicts.values():
        parts.append(Text("otherwise holds"))
    return Text("; ").join(parts)


def _verdict(verdict: Verdict) -> Text:
    return Text(str(verdict), style=_COLOURS[verdict])


def claims_table(study: StudyResult) -> Table:
    """Return a table of the claims with measured values and verdicts."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=False, padding=(0, 1), expand=True)
    table.add_column("section", ratio=7)
    table.add_column("the paper says", ratio=22)
    table.add_column("measured, on the paper's basis", ratio=40)
    table.add_column("verdict", ratio=10)
    table.add_column("per direction, by tier", ratio=17)
    for claim in study.claims:
        finding = claim.findings[PAPER]
        table.add_row(
            claim.section,
            claim.says,
            Text(finding.measured),
            _verdict(finding.verdict),
            tier_verdict(claim),
        )
        table.add_row()
    return table


def sweep_tables(study: StudyResult) -> Iterator[Table]:
    """Yield tables of CV, p90 and used share along each sweep, on two bases."""
    for sweep, (column, title) in _SWEEPS.items():
        table = Table(
            title=title,
            box=box.SIMPLE_HEAD,
            title_justify="left",
            padding=(0, 1),
            collapse_padding=True,
        )
        table.add_column("metric")
        table.add_column("loads of")
        table.add_column(column, justify="right")
        for label, _, _ in STYLES.values():
            table.add_column(label.replace(" over all paths", ""), justify="right")
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


def comments(study: StudyResult) -> Group:
    """Return the test of each claim and the explanation of its result."""
    lines: list[RenderableType] = []
    for claim in study.claims:
        finding = claim.findings[PAPER]
        head = Text.assemble(
            (claim.says, "bold"), f" ({claim.section}): ", _verdict(finding.verdict)
        )
        lines += [
            head,
            Text(f"  test: {claim.test}"),
            Text(f"  deciding: {finding.deciding}"),
            Text(f"  {claim.comment}"),
            Text(""),
        ]
    return Group(*lines)


@dataclass(frozen=True, eq=False)
class StudyResult(ReportedStudy):
    """Result of the study.

    Parameters
    ----------
    parameters
        All options, resolved.
    runs, summary, cdf
        Frames of `RUN_COLUMNS`, `SUMMARY_COLUMNS` and `CDF_COLUMNS`.
    claims
        The paper's claims with the findings on them.
    seeds
        Seeds with complete measurements; fewer than requested after an interrupt.
    files
        Files written.
    """

    parameters: dict[str, Any]
    runs: pl.DataFrame
    summary: pl.DataFrame
    cdf: pl.DataFrame
    claims: tuple[ClaimResult, ...]
    seeds: tuple[int, ...]

    @property
    def partial(self) -> str:
        """Number of seeds completed before an interrupt; empty if complete."""
        done, requested = len(self.seeds), self.parameters["seeds"]
        return f"{done} of {requested} seeds" if done < requested else ""

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table of `CLAIM_COLUMNS` with one row per claim and basis."""
        return frame_of_rows(
            CLAIM_COLUMNS,
            [
                (
                    claim.id, claim.section, claim.says, claim.test, basis, str(each.verdict),
                    each.measured, each.deciding.label, each.deciding.mean, each.deciding.half,
                    each.comparisons, len(each.against), claim.comment,
                )
                for claim in self.claims
                for basis, each in claim.findings.items()
            ],
        )  # fmt: skip

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts of the text: tables of the sweeps, and claims with measured values."""
        yield f"Multipath routing on fat trees (Kenzi 2026): {how(self)}\n"
        yield _LEGEND + "\n"
        yield from sweep_tables(self)
        yield "The paper's claims"
        yield claims_table(self)
        yield "Tests and explanations of the results\n"
        yield comments(self)

    def tables(self) -> Tables:
        """Return the tables that are written as Parquet and CSV."""
        return {
            "runs": (self.runs, RUN_COLUMNS),
            "summary": (self.summary, SUMMARY_COLUMNS),
            "cdf": (self.cdf, CDF_COLUMNS),
            "claims": (self.claims_frame, CLAIM_COLUMNS),
        }

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return figures(self.summary, self.cdf, how(self))

    def __repr__(self) -> str:
        counts = self.claims_frame.filter(pl.col("basis") == "cable")["verdict"].value_counts()
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.rows()))
        return f"StudyResult(multipath-ecmp, {self.parameters['hash']} hash: {verdicts})"
