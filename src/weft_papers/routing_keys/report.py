"""Result of the Routing Keys study: text, tables and figures."""

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
from weft_papers.claims import ClaimResult, plus_minus, show
from weft_papers.reported_study import ReportedStudy
from weft_papers.routing_keys.frames import TABLES
from weft_papers.routing_keys.plots import STYLES, figures
from weft_papers.routing_keys.runs import PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = {
    "6": "Figure 6: 216 hosts, 6 applications, mixed sizes",
    "7": "Figure 7: mixed sizes",
    "8": "Figure 8: messages of 32 KiB",
    "9": "Figure 9: equal amounts of data, by message size",
    "latency": "Latency of the scheduler; until a key is granted, NRK waits or has the base routes",
    "keys": "Kinds of keys",
    "lmc": "LMC: with ARK, a flow for which no LID is left takes the base routes",
    "placement": "Placement; isolated: as Jigsaw, with D-mod-K on the links of each application",
    "faults": "Missing cables, with base routes that allow them",
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
    methods = study.contention["method"].unique(maintain_order=True).to_list()
    labels = [STYLES[method][0] for method in methods]
    table = titled_table("Figure 4: flows on the most loaded link", (), ("hosts", *labels))
    for (hosts,), here in study.contention.group_by("hosts", maintain_order=True):
        values = (here.filter(pl.col("method") == each)["flows"].to_numpy() for each in methods)
        table.add_row(f"{hosts:,}", *(show(each.astype(float)) for each in values))
    return table


def time_tables(study: KeyStudy) -> Iterator[Table]:
    """Yield a table for each figure, with a row for each point and policy, and times in us."""
    usual = study.summary.filter(pl.col("choice") == PAPER)
    for (figure,), here in usual.group_by("figure", maintain_order=True):
        several = [name for name in _POINTS if here[name].n_unique() > 1]
        points = here.select(several).unique(maintain_order=True).rows() if several else [()]
        rival = "the base routes" if figure == "faults" else "D-mod-K"
        table = titled_table(
            f"{_TITLES[str(figure)]}; gain: time of {rival} over that of the policy",
            (), [_POINTS[name] for name in several], ("policy",), ("time, us", "gain"),
            collapse_padding=True,
        )  # fmt: skip
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


@dataclass(frozen=True, eq=False)
class KeyStudy(ReportedStudy):
    """Result of the study.

    Notes
    -----
    `asked` and `done` count each network of figure 4 as a run.
    """

    width = 150
    columns = TABLES

    #: Frames of `RUN_COLUMNS`, `SUMMARY_COLUMNS` and `CONTENTION_COLUMNS`.
    runs: pl.DataFrame
    summary: pl.DataFrame
    contention: pl.DataFrame
    #: The paper's claims with the findings under every choice.
    claims: tuple[ClaimResult, ...]

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table of `CHOICE_COLUMNS` with one row per claim and choice."""
        return findings_frame(self.columns["claims"], self.claims, "choice", "mean")

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts of the text: tables of the figures, and claims with measured values."""
        yield f"Routing Keys on folded Clos networks: {how(self)}\n"
        if len(self.contention):
            yield contention_table(self)
        yield from time_tables(self)
        if self.claims:
            yield from claims_by_choice(self.claims)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return figures(self.summary, self.contention, how(self))

    def __repr__(self) -> str:
        usual = self.claims_frame.filter(pl.col("choice") == PAPER)
        return f"KeyStudy({verdict_counts(usual['verdict']) or 'no claims'})"
