"""The multipath study as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from weft.studies.claims import ClaimResult, Verdict
from weft.studies.multipath.evidence import PAPER, TIERS, plus_minus
from weft.studies.multipath.plots import STYLES

if TYPE_CHECKING:
    from weft.studies.multipath.study import StudyResult

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
    "between switches, each direction by itself. CV: standard deviation over mean; p90 in flows; "
    "used: share of links with load. Equal split: every flow in equal parts over all its paths."
)


def how(study: StudyResult) -> str:
    """One line: how the numbers were made."""
    given = study.parameters
    seeds = f"{given['seeds']} seeds"
    if study.partial:
        seeds = f"partial, interrupted: {study.partial}"
    return (
        f"{given['flows']} flows, {given['hash']} hash, {seeds} from "
        f"{given['first_seed']}; mean and 95 % interval (Student t)"
    )


def tier_verdict(claim: ClaimResult) -> Text:
    """What the tiers of directed links say of a claim: one verdict, or which tiers say what."""
    verdicts = {basis: claim.findings[basis].verdict for basis in TIERS}
    if len(set(verdicts.values())) == 1:
        return _verdict(next(iter(verdicts.values())))
    parts: list[Text] = []
    for verdict in (Verdict.FAILS, Verdict.UNDECIDED):
        bases = [basis for basis in TIERS if verdicts[basis] is verdict]
        if bases:
            parts.append(Text.assemble(_verdict(verdict), f" on {', '.join(bases)}"))
    if Verdict.HOLDS in verdicts.values():
        parts.append(Text("else holds"))
    return Text("; ").join(parts)


def _verdict(verdict: Verdict) -> Text:
    return Text(str(verdict), style=_COLOURS[verdict])


def claims_table(study: StudyResult) -> Table:
    """Each claim beside what was measured and whether it holds."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=False, padding=(0, 1), expand=True)
    table.add_column("section", ratio=7)
    table.add_column("the paper says", ratio=22)
    table.add_column("measured, on the paper's basis", ratio=40)
    table.add_column("verdict", ratio=10)
    table.add_column("per direction, by tier", ratio=17)
    for claim in study.claims:
        found = claim.findings[PAPER]
        table.add_row(
            claim.section,
            claim.says,
            Text(found.measured),
            _verdict(found.verdict),
            tier_verdict(claim),
        )
        table.add_row()
    return table


def sweep_tables(study: StudyResult) -> Iterator[Table]:
    """Mean and interval of CV, p90 and links used along each sweep, on two bases."""
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
    """How each claim was tested, and why it comes out as it does."""
    lines: list[RenderableType] = []
    for claim in study.claims:
        found = claim.findings[PAPER]
        head = Text.assemble((claim.says, "bold"), f" ({claim.section}): ", _verdict(found.verdict))
        lines += [
            head,
            Text(f"  test: {claim.test}"),
            Text(f"  closest: {found.deciding}"),
            Text(f"  {claim.comment}"),
            Text(""),
        ]
    return Group(*lines)


def parts(study: StudyResult) -> Iterator[RenderableType]:
    """Tables, claims and comments."""
    yield f"Multipath routing on fat trees (Kenzi 2026): {how(study)}\n"
    yield _LEGEND + "\n"
    yield from sweep_tables(study)
    yield "The paper's claims"
    yield claims_table(study)
    yield "How they were tested, and why\n"
    yield comments(study)
