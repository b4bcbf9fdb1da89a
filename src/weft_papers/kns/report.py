"""Result of the KNS study: text, tables and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
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
    titled_table,
    verdict_counts,
    verdict_text,
)
from weft_papers.claims import ClaimResult, headline, reason, spread_over, vote
from weft_papers.kns.benchmarks import METRICS
from weft_papers.kns.evidence import AXES, shown
from weft_papers.kns.frames import TABLES, choices_frame, claims_frame
from weft_papers.kns.machine import PAPER_ENGINES
from weft_papers.kns.plots import BEYOND, by_placement, figures
from weft_papers.kns.runs import PLACEMENTS
from weft_papers.reported_study import ReportedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def how(study: KnsStudy) -> str:
    """Return one line with the parameters of the study."""
    options = study.parameters
    tables = "OpenSM 3.3.23's tables" if options["engines"] == "opensm" else "weft's own tables"
    partial = f"partial, {study.partial}, interrupted: " if study.partial else ""
    last = options["seed"] + options["placements"] - 1
    seeds = f"seeds {options['seed']} to {last}" if last > options["seed"] else f"seed {last}"
    return (
        f"{partial}{options['level']} level, {tables}, random placements of {seeds}"
        f"{', larger sizes' if options['full'] else ''}"
    )


def _cell(result: ClaimResult | None) -> Text:
    """Return verdict, majority, range of the deciding values, and claimed range."""
    if result is None:
        return Text("–")
    voted = vote(result.findings)
    text = Text.assemble(verdict_text(voted.verdict), f"\n{voted}")
    low, high = spread_over(result)
    if low is not None and high is not None:
        first = headline(result).deciding
        text.append(f"\n{low:.3g}" + f" to {high:.3g}" * (f"{low:.3g}" != f"{high:.3g}"))
        bounds = [f"{bound:.3g}" for bound in first.wanted if math.isfinite(bound)]
        text.append(f" ({'≤ ' if first.wanted[0] == -math.inf else '≥ ' * (len(bounds) == 1)}")
        text.append(f"{' to '.join(bounds)})")
    return text


def _claim_rows(study: KnsStudy) -> Iterator[tuple[RenderableType, ...]]:
    """Yield section, statement, measured values, and a cell per number of ranks."""
    by_id = {ranks: {each.id: each for each in results} for ranks, results in study.claims.items()}
    for name in dict.fromkeys(each for claims in by_id.values() for each in claims):
        results = [claims.get(name) for claims in by_id.values()]
        first = next(each for each in results if each is not None)
        measured = Text(headline(first).measured)
        if reason(first):
            measured.append(f"\n{reason(first)}", style="italic")
        yield first.section, first.says, measured, *map(_cell, results)


def lanes_table(study: KnsStudy) -> Table:
    """Return table 2 of the paper with the lengths and loads of the paths."""
    table = titled_table(
        "Table 2: virtual lanes of each routing, and its paths between all hosts",
        ("network", "routing"), ("lanes", "mean links", "paths on the busiest cable"), ("notes",),
    )  # fmt: skip
    last = ""
    for row in study.lanes.iter_rows(named=True):
        table.add_row(
            row["network"] if row["network"] != last else "", row["engine"], str(row["lanes"]),
            f"{row['mean_links']:.2f}", str(row["busiest_cable"]), row["notes"],
        )  # fmt: skip
        last = row["network"]
    return table


def result_tables(study: KnsStudy) -> Iterator[Table]:
    """Yield tables of all metrics of the paper's routings, one per number of ranks per node."""
    for (ranks,), here in study.results.group_by("ranks_per_node", maintain_order=True):
        routings = [
            f"{network}\n{engine}"
            for network, engines in PAPER_ENGINES.items()
            for engine in engines
        ]
        table = titled_table(
            f"{ranks} rank(s) on each node", ("metric", "placement"), routings,
            collapse_padding=True,
        )  # fmt: skip
        values = by_placement(here)
        for metric in here["metric"].unique(maintain_order=True):
            unit = METRICS[metric].unit
            for placement in PLACEMENTS:
                cells = [
                    values.get((network, engine, placement, metric))
                    for network, engines in PAPER_ENGINES.items()
                    for engine in engines
                ]
                if any(cell is not None for cell in cells):
                    table.add_row(
                        f"{metric}{', ' if unit else ''}{unit}" if placement == "linear" else "",
                        placement,
                        *("–" if cell is None else shown(cell, 4) for cell in cells),
                    )
            table.add_section()
        yield table


def beyond_table(study: KnsStudy) -> Table | None:
    """Return a table of what is not in the paper: other cable orders, networks, hdor with lanes."""
    paper = {(network, engine) for network, them in PAPER_ENGINES.items() for engine in them}
    ranks = study.parameters["ranks_per_node"][0]
    values = by_placement(study.results.filter(pl.col("ranks_per_node") == ranks))
    rows = [pair for pair in dict.fromkeys(key[:2] for key in values) if pair not in paper]
    metrics = [name for name, _ in BEYOND if any(key[3] == name for key in values)]
    if not rows or not metrics:
        return None
    table = titled_table(
        "Beyond the paper (linear / random)", ("network", "routing"),
        [f"{metric},\n{METRICS[metric].unit}" for metric in metrics],
    )  # fmt: skip
    last = ""
    for network, engine in rows:
        cells = []
        for metric in metrics:
            pair = [values.get((network, engine, each, metric)) for each in PLACEMENTS]
            cells.append(" / ".join("–" if each is None else shown(each) for each in pair))
        table.add_row(network if network != last else "", engine, *cells)
        last = network
    return table


def _by_verdict(result: ClaimResult) -> Iterator[Text]:
    """Yield each verdict, with its deciding condition and the number of choices that give it."""
    every = result.findings
    for verdict in vote(every).counts:
        chosen = [choice for choice in every if every[choice].verdict is verdict]
        line = Text.assemble(f"  {len(chosen)} of {len(every)} ", verdict_text(verdict))
        if every[chosen[0]].conditions:
            line.append(f" ({every[chosen[0]].deciding})")
        yield line
        for axis in AXES if len(chosen) < len(every) else ():
            have, all_of = (
                Counter(getattr(choice, axis) for choice in those) for those in (chosen, every)
            )
            if len(all_of) > 1:
                counts = (f"{option} {have[option]} of {all_of[option]}" for option in all_of)
                yield Text(f"    {axis}: {', '.join(counts)}")


@dataclass(frozen=True, eq=False)
class KnsStudy(ReportedStudy):
    """Result of the study."""

    width = 150
    columns = TABLES

    #: Frames of `RESULT_COLUMNS`, `RUN_COLUMNS` and `LANE_COLUMNS`.
    results: pl.DataFrame
    runs: pl.DataFrame
    lanes: pl.DataFrame
    #: Ranks per node -> the paper's claims with the findings under every choice.
    claims: Mapping[int, tuple[ClaimResult, ...]]

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table of `CLAIM_COLUMNS` with one row per number of ranks and claim."""
        return claims_frame(self.claims)

    @property
    def choices_frame(self) -> pl.DataFrame:
        """Table of `CHOICE_COLUMNS` with one row per claim and choice."""
        return choices_frame(self.claims)

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts of the text: lanes, all metrics, and claims with measured values."""
        yield f"KNS on InfiniBand, on CELLIA's 36 nodes: {how(self)}\n"
        yield lanes_table(self)
        yield from result_tables(self)
        beyond = beyond_table(self)
        if beyond is not None:
            yield beyond
        headings = {
            "section": 8, "the paper says": 22,
            "measured for the headline choice (linear -> random)": 38,
            **{f"{ranks} per node: deciding value\n(claimed range)": 15 for ranks in self.claims},
        }  # fmt: skip
        comments = (
            explained(each, _by_verdict(each), where=f"; {ranks} per node")
            for ranks, results in self.claims.items()
            for each in results
        )
        yield from claim_parts(claims_table(headings, _claim_rows(self)), comments)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Return the figures with complete data."""
        first = self.parameters["ranks_per_node"][0]
        return figures(self.results, first, how(self))

    def __repr__(self) -> str:
        verdicts = verdict_counts(self.claims_frame["verdict"])
        return f"KnsStudy({self.parameters['level']} level: {verdicts or 'no claims'})"
