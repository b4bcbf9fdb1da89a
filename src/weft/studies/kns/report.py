"""Result of the KNS study: text, tables and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from weft.studies.claims import ClaimResult, Verdict, headline, reason, spread_over, vote
from weft.studies.kns.benchmarks import METRICS
from weft.studies.kns.evidence import AXES, shown
from weft.studies.kns.frames import (
    CHOICE_COLUMNS,
    CLAIM_COLUMNS,
    LANE_COLUMNS,
    RESULT_COLUMNS,
    RUN_COLUMNS,
    choices_frame,
    claims_frame,
)
from weft.studies.kns.machine import PAPER_ENGINES
from weft.studies.kns.plots import BEYOND, by_placement, figures
from weft.studies.kns.runs import PLACEMENTS
from weft.studies.reported_study import ReportedStudy, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {
    Verdict.HOLDS: "green", Verdict.CANNOT_TELL: "yellow", Verdict.UNDECIDED: "yellow",
    Verdict.FAILS: "red", Verdict.NOT_MEASURED: "dim",
}  # fmt: skip


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


def _verdict(verdict: Verdict) -> Text:
    return Text(str(verdict), style=_COLOURS[verdict])


def _cell(result: ClaimResult | None) -> Text:
    """Return verdict, majority, range of the deciding values, and claimed range."""
    if result is None:
        return Text("–")
    voted = vote(result.findings)
    text = Text.assemble(_verdict(voted.verdict), f"\n{voted}")
    low, high = spread_over(result)
    if low is not None and high is not None:
        first = headline(result).deciding
        text.append(f"\n{low:.3g}" + f" to {high:.3g}" * (f"{low:.3g}" != f"{high:.3g}"))
        bounds = [f"{bound:.3g}" for bound in first.wanted if math.isfinite(bound)]
        text.append(f" ({'≤ ' if first.wanted[0] == -math.inf else '≥ ' * (len(bounds) == 1)}")
        text.append(f"{' to '.join(bounds)})")
    return text


def claims_table(study: KnsStudy) -> Table:
    """Return a table of the claims with measured values and majority verdicts."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=False, padding=(0, 1), expand=True)
    table.add_column("section", ratio=8)
    table.add_column("the paper says", ratio=22)
    table.add_column("measured for the headline choice (linear -> random)", ratio=38)
    for ranks in study.claims:
        table.add_column(f"{ranks} per node: deciding value\n(claimed range)", ratio=15)
    by_id = {ranks: {each.id: each for each in results} for ranks, results in study.claims.items()}
    for name in dict.fromkeys(each for claims in by_id.values() for each in claims):
        results = [claims.get(name) for claims in by_id.values()]
        first = next(each for each in results if each is not None)
        measured = Text(headline(first).measured)
        if reason(first):
            measured.append(f"\n{reason(first)}", style="italic")
        table.add_row(first.section, first.says, measured, *map(_cell, results))
        table.add_row()
    return table


def lanes_table(study: KnsStudy) -> Table:
    """Return table 2 of the paper with the lengths and loads of the paths."""
    table = Table(
        title="Table 2: virtual lanes of each routing, and its paths between all hosts",
        box=box.SIMPLE_HEAD, title_justify="left",
    )  # fmt: skip
    for head in ("network", "routing"):
        table.add_column(head)
    for head in ("lanes", "mean links", "paths on the busiest cable"):
        table.add_column(head, justify="right")
    table.add_column("notes")
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
        table = Table(
            title=f"{ranks} rank(s) on each node", box=box.SIMPLE_HEAD, title_justify="left",
            padding=(0, 1), collapse_padding=True,
        )  # fmt: skip
        table.add_column("metric")
        table.add_column("placement")
        for network, engines in PAPER_ENGINES.items():
            for engine in engines:
                table.add_column(f"{network}\n{engine}", justify="right")
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
    table = Table(
        title="Beyond the paper (linear / random)", box=box.SIMPLE_HEAD, title_justify="left",
    )  # fmt: skip
    table.add_column("network")
    table.add_column("routing")
    for metric in metrics:
        table.add_column(f"{metric},\n{METRICS[metric].unit}", justify="right")
    last = ""
    for network, engine in rows:
        cells = []
        for metric in metrics:
            pair = [values.get((network, engine, each, metric)) for each in PLACEMENTS]
            cells.append(" / ".join("–" if each is None else shown(each) for each in pair))
        table.add_row(network if network != last else "", engine, *cells)
        last = network
    return table


def comments(study: KnsStudy) -> Group:
    """Return the test of each claim, the choices by verdict, and the explanation of the result."""
    lines: list[RenderableType] = []
    for ranks, results in study.claims.items():
        for result in results:
            lines.append(
                Text.assemble((result.says, "bold"), f" ({result.section}; {ranks} per node)")
            )
            lines.append(Text(f"  test: {result.test}"))
            lines += _by_verdict(result)
            lines += [Text(f"  {result.comment}"), Text("")]
    return Group(*lines)


def _by_verdict(result: ClaimResult) -> Iterator[Text]:
    """Yield each verdict, with its deciding condition and the number of choices that give it."""
    every = result.findings
    for verdict in vote(every).counts:
        chosen = [choice for choice in every if every[choice].verdict is verdict]
        line = Text.assemble(f"  {len(chosen)} of {len(every)} ", _verdict(verdict))
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
    """Result of the study.

    Parameters
    ----------
    parameters
        All options, resolved.
    results, runs, lanes
        Frames of `RESULT_COLUMNS`, `RUN_COLUMNS` and `LANE_COLUMNS`.
    claims
        Ranks per node -> the paper's claims with the findings under every choice.
    asked
        Number of requested runs; after an interrupt fewer runs are complete.
    files
        Files written.
    """

    width = 150

    parameters: dict[str, Any]
    results: pl.DataFrame
    runs: pl.DataFrame
    lanes: pl.DataFrame
    claims: Mapping[int, tuple[ClaimResult, ...]]
    asked: int

    @property
    def partial(self) -> str:
        """Number of runs completed before an interrupt; empty if complete."""
        done = self.runs.height
        return f"{done} of {self.asked} runs" if done < self.asked else ""

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
        yield "The paper's claims"
        yield claims_table(self)
        yield "Tests and explanations of the results\n"
        yield comments(self)

    def tables(self) -> Tables:
        """Return the tables that are written as Parquet and CSV."""
        return {
            "results": (self.results, RESULT_COLUMNS),
            "runs": (self.runs, RUN_COLUMNS),
            "lanes": (self.lanes, LANE_COLUMNS),
            "claims": (self.claims_frame, CLAIM_COLUMNS),
            "choices": (self.choices_frame, CHOICE_COLUMNS),
        }

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Return the figures with complete data."""
        first = self.parameters["ranks_per_node"][0]
        return figures(self.results, first, how(self))

    def __repr__(self) -> str:
        counts = self.claims_frame["verdict"].value_counts(sort=True)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.rows())
        return f"KnsStudy({self.parameters['level']} level: {verdicts or 'no claims'})"
