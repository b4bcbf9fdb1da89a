"""Result of the Routing Keys study: text, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from weft.studies.claims import ClaimResult, Verdict, headline, plus_minus, show, vote
from weft.studies.reported_study import ReportedStudy, Tables
from weft.studies.routing_keys.frames import (
    CLAIM_COLUMNS,
    CONTENTION_COLUMNS,
    RUN_COLUMNS,
    SUMMARY_COLUMNS,
    claims_frame,
)
from weft.studies.routing_keys.plots import STYLES, figures
from weft.studies.routing_keys.runs import PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {
    Verdict.HOLDS: "green", Verdict.CANNOT_TELL: "yellow", Verdict.UNDECIDED: "yellow",
    Verdict.FAILS: "red", Verdict.NOT_MEASURED: "dim",
}  # fmt: skip
_TITLES = {
    "6": "Figure 6: 216 hosts, 6 applications, mixed sizes",
    "7": "Figure 7: mixed sizes",
    "8": "Figure 8: messages of 32 KiB",
    "9": "Figure 9: the same data in messages of one size",
    "latency": "Latency of the scheduler: NRK until its key is granted",
    "keys": "Kinds of keys",
    "lmc": "LMC: ARK where a flow that finds no LID takes the base routes",
    "placement": "Placement; isolated: Jigsaw's, with D-mod-K on the links of each application",
    "faults": "Missing cables, over base routes that allow them",
}
#: Columns that tell the points of a figure apart, and their headings.
_POINTS = {
    "applications": "applications", "utilization": "utilization", "size_kib": "KiB",
    "missing": "missing cables", "base": "base routes", "placement": "placement",
}  # fmt: skip


def how(study: KeyStudy) -> str:
    """Return one line with the parameters of the study."""
    options = study.parameters
    last = options["seed"] + options["seeds"] - 1
    seeds = f"seeds {options['seed']} to {last}"
    if options["seeds"] > 5:
        seeds += f", {max(5, options['seeds'] // 2)} of them in figure 9"
    partial = f"partial, {study.partial}, interrupted: " if study.partial else ""
    quick = ", quick" if options["quick"] else ""
    return f"{partial}{seeds}{quick}; mean and 95 % interval (Student t)"


def contention_table(study: KeyStudy) -> Table:
    """Return figure 4 as a table."""
    table = Table(
        title="Figure 4: flows on the most loaded link", box=box.SIMPLE_HEAD, title_justify="left"
    )
    table.add_column("hosts", justify="right")
    methods = study.contention["method"].unique(maintain_order=True).to_list()
    for method in methods:
        table.add_column(STYLES[method][0], justify="right")
    for (hosts,), here in study.contention.group_by("hosts", maintain_order=True):
        values = (here.filter(pl.col("method") == each)["flows"].to_numpy() for each in methods)
        table.add_row(f"{hosts:,}", *(show(each.astype(float)) for each in values))
    return table


def time_tables(study: KeyStudy) -> Iterator[Table]:
    """Yield a table for each figure: a row per policy, a column per point, times in us."""
    usual = study.summary.filter(pl.col("choice") == PAPER)
    for (figure,), here in usual.group_by("figure", maintain_order=True):
        several = [name for name in _POINTS if here[name].n_unique() > 1]
        points = here.select(several).unique(maintain_order=True).rows() if several else [()]
        rival = "the base routes" if figure == "faults" else "D-mod-K"
        table = Table(
            title=f"{_TITLES[str(figure)]}; gain: time of {rival} over this one",
            box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1), collapse_padding=True,
        )  # fmt: skip
        for name in several:
            table.add_column(_POINTS[name], justify="right")
        table.add_column("policy")
        table.add_column("time, us", justify="right")
        table.add_column("gain", justify="right")
        for point in points:
            at = here
            for name, value in zip(several, point, strict=True):
                at = at.filter(pl.col(name).eq_missing(value))
            head = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in point]
            for row in at.iter_rows(named=True):
                label = STYLES[row["policy"]][0] if row["policy"] in STYLES else row["policy"]
                label = rival if row["policy"] == "dmodk" else label
                gain = row["ratio"]
                table.add_row(
                    *head, label, plus_minus(row["worst_us"], row["worst_ci95"]),
                    "–" if gain is None else plus_minus(gain, row["ratio_ci95"]),
                )  # fmt: skip
                head = [""] * len(head)
        yield table


def _verdict(verdict: Verdict) -> Text:
    return Text(str(verdict), style=_COLOURS[verdict])


def claims_table(study: KeyStudy) -> Table:
    """Return a table of the claims with measured values and verdicts."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=False, padding=(0, 1), expand=True)
    table.add_column("section", ratio=8)
    table.add_column("the paper says", ratio=22)
    table.add_column("measured", ratio=48)
    table.add_column("verdict", ratio=9)
    table.add_column("of most choices", ratio=12)
    for claim in study.claims:
        first, voted = headline(claim), vote(claim.findings)
        most = Text.assemble(_verdict(voted.verdict), f"\n{voted}")
        table.add_row(
            claim.section, claim.says, Text(first.measured), _verdict(first.verdict),
            most if len(claim.findings) > 1 else "",
        )  # fmt: skip
        table.add_row()
    return table


def comments(study: KeyStudy) -> Group:
    """Return the test of each claim, its deciding comparisons, and the explanation."""
    lines: list[RenderableType] = []
    for claim in study.claims:
        lines.append(Text.assemble((claim.says, "bold"), f" ({claim.section})"))
        lines.append(Text(f"  test: {claim.test}"))
        for choice, finding in claim.findings.items():
            line = Text.assemble(f"  {choice}: ", _verdict(finding.verdict))
            if finding.conditions:
                line.append(f"; closest: {finding.deciding}")
            lines.append(line)
        lines += [Text(f"  {claim.comment}")] * bool(claim.comment) + [Text("")]
    return Group(*lines)


@dataclass(frozen=True, eq=False)
class KeyStudy(ReportedStudy):
    """Result of the study.

    Parameters
    ----------
    parameters
        All options, resolved.
    runs, summary, contention
        Frames of `RUN_COLUMNS`, `SUMMARY_COLUMNS` and `CONTENTION_COLUMNS`.
    claims
        The paper's claims with the findings under every choice.
    asked
        Number of requested runs, those of figure 4 included.
    done
        Number of complete runs.
    files
        Files written.
    """

    width = 150

    parameters: dict[str, Any]
    runs: pl.DataFrame
    summary: pl.DataFrame
    contention: pl.DataFrame
    claims: tuple[ClaimResult, ...]
    asked: int
    done: int

    @property
    def partial(self) -> str:
        """Number of runs completed before an interrupt; empty if complete."""
        return f"{self.done} of {self.asked} runs" if self.done < self.asked else ""

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table of `CLAIM_COLUMNS` with one row per claim and choice."""
        return claims_frame(self.claims)

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts of the text: tables of the figures, and claims with measured values."""
        yield f"Routing Keys on folded Clos networks: {how(self)}\n"
        if len(self.contention):
            yield contention_table(self)
        yield from time_tables(self)
        if self.claims:
            yield "The paper's claims"
            yield claims_table(self)
            yield "Tests and explanations of the results\n"
            yield comments(self)

    def tables(self) -> Tables:
        """Return the tables that are written as Parquet and CSV."""
        return {
            "runs": (self.runs, RUN_COLUMNS),
            "summary": (self.summary, SUMMARY_COLUMNS),
            "contention": (self.contention, CONTENTION_COLUMNS),
            "claims": (self.claims_frame, CLAIM_COLUMNS),
        }

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return figures(self.summary, self.contention, how(self))

    def __repr__(self) -> str:
        counts = self.claims_frame.filter(pl.col("choice") == PAPER)["verdict"].value_counts()
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.rows()))
        return f"KeyStudy({verdicts or 'no claims'})"
