"""The KNS study as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from weft.papers.kns_benchmarks import METRICS
from weft.papers.kns_evidence import ClaimResult, Finding, Verdict
from weft.papers.kns_machine import PAPER_ENGINES
from weft.papers.kns_plots import BEYOND
from weft.papers.kns_runs import PLACEMENTS

if TYPE_CHECKING:
    from weft.papers.kns_infiniband import KnsStudy

_COLOURS = {
    Verdict.HOLDS: "green", Verdict.CANNOT_TELL: "yellow", Verdict.FAILS: "red",
    Verdict.NOT_MEASURED: "dim",
}  # fmt: skip


def how(study: KnsStudy) -> str:
    """One line: how the numbers were made."""
    given = study.parameters
    tables = "OpenSM 3.3.23's tables" if given["engines"] == "opensm" else "weft's own tables"
    partial = f"partial, {study.partial}, interrupted: " if study.partial else ""
    return (
        f"{partial}{given['level']} level, {tables}, random placement of seed {given['seed']}"
        f"{', larger sizes' if given['full'] else ''}"
    )


def _verdict(finding: Finding | None) -> Text:
    if finding is None:
        return Text("–")
    return Text(str(finding.verdict), style=_COLOURS[finding.verdict])


def claims_table(study: KnsStudy) -> Table:
    """Each claim beside what was measured and whether it holds, by basis."""
    bases = list(dict.fromkeys(basis for each in study.claims for basis in each.findings))
    table = Table(box=box.SIMPLE_HEAD, show_lines=False, padding=(0, 1), expand=True)
    table.add_column("section", ratio=8)
    table.add_column("the paper says", ratio=22)
    table.add_column("measured on the first basis (linear -> random)", ratio=40)
    for basis in bases:
        table.add_column(str(basis), ratio=9)
    for result in study.claims:
        first = next(iter(result.findings.values()))
        table.add_row(
            result.claim.section,
            result.claim.says,
            Text(first.measured),
            *(_verdict(result.findings.get(basis)) for basis in bases),
        )
        table.add_row()
    return table


def lanes_table(study: KnsStudy) -> Table:
    """Table 2 of the paper, and what the ways are like."""
    table = Table(
        title="Table 2: virtual lanes that each routing uses, and its ways between all hosts",
        box=box.SIMPLE_HEAD, title_justify="left",
    )  # fmt: skip
    for head in ("network", "routing"):
        table.add_column(head)
    for head in ("lanes", "mean links", "ways on the busiest cable"):
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
    """Every metric of the paper's routings, a table for each number of ranks of a node."""
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
        values = {
            (row["metric"], row["placement"], row["network"], row["engine"]): row["value"]
            for row in here.iter_rows(named=True)
        }
        for metric in here["metric"].unique(maintain_order=True):
            unit = METRICS[metric].unit
            for placement in PLACEMENTS:
                cells = [
                    values.get((metric, placement, network, engine))
                    for network, engines in PAPER_ENGINES.items()
                    for engine in engines
                ]
                if any(cell is not None for cell in cells):
                    table.add_row(
                        f"{metric}{', ' if unit else ''}{unit}" if placement == "linear" else "",
                        placement,
                        *("–" if cell is None else f"{cell:.4g}" for cell in cells),
                    )
            table.add_section()
        yield table


def beyond_table(study: KnsStudy) -> Table | None:
    """What the paper does not have: cables in no order, other networks, hdor with lanes."""
    paper = {(network, engine) for network, them in PAPER_ENGINES.items() for engine in them}
    values = {
        (row["network"], row["engine"], row["metric"], row["placement"]): row["value"]
        for row in study.results.filter(
            pl.col("ranks_per_node") == study.parameters["ranks_per_node"][0]
        ).iter_rows(named=True)
    }
    rows = [pair for pair in dict.fromkeys(key[:2] for key in values) if pair not in paper]
    metrics = [name for name, _ in BEYOND if any(key[2] == name for key in values)]
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
            found = [values.get((network, engine, metric, each)) for each in PLACEMENTS]
            cells.append(" / ".join("–" if each is None else f"{each:.3g}" for each in found))
        table.add_row(network if network != last else "", engine, *cells)
        last = network
    return table


def comments(study: KnsStudy) -> Group:
    """How each claim was tested, and why it comes out as it does."""
    lines: list[RenderableType] = []
    for result in study.claims:
        lines.append(Text.assemble((result.claim.says, "bold"), f" ({result.claim.section})"))
        lines.append(Text(f"  test: {result.claim.test}"))
        lines += _why(result)
        lines.append(Text(""))
    return Group(*lines)


def _why(result: ClaimResult) -> Iterator[Text]:
    said = ""
    for basis, finding in result.findings.items():
        head = Text.assemble(f"  {basis}: ", _verdict(finding))
        if finding.conditions:
            met = len(finding.conditions) - len(finding.against)
            head.append(f" ({met} of {len(finding.conditions)} met; furthest: {finding.worst})")
        yield head
        if result.comments[basis] != said:
            said = result.comments[basis]
            yield Text(f"  {said}")


def parts(study: KnsStudy) -> Iterator[RenderableType]:
    """Tables, claims and comments."""
    yield f"KNS on InfiniBand, on CELLIA's 36 nodes: {how(study)}\n"
    yield lanes_table(study)
    yield from result_tables(study)
    beyond = beyond_table(study)
    if beyond is not None:
        yield beyond
    yield "The paper's claims"
    yield claims_table(study)
    yield "How they were tested, and why\n"
    yield comments(study)
