"""Output of studies: the question, the answer, and a table of the best by each measure."""

from __future__ import annotations

import textwrap

import polars as pl
from rich.console import Console
from rich.markup import escape as without_markup
from rich.table import Table

from weft.cli.output import emit, plain
from weft.report.study_summary import Summary
from weft.report.study_text import (
    answers,
    completeness,
    question,
    ratio_text,
    shown,
    verdict,
    warnings,
    with_ends,
)

#: Number of rows of a table that are printed; files have all of them.
MOST_ROWS = 40
#: Number of characters of a reason that are printed; the page and the files have all of them.
MOST_LETTERS = 160


def escape(text: str) -> str:
    """Return a text of a store as Rich prints it: without markup and control characters."""
    return without_markup(plain(text))


def show_study(made: Summary, out: Console) -> None:
    """Print the answer of a study, and the runs without a result."""
    emit(
        question=question(made), answers=["".join(each) for each in answers(made)],
        warnings=warnings(made),
        points=made.points, best=made.best, effects=made.effects, unfinished=made.unfinished,
    )  # fmt: skip
    out.print(escape(made.data.title or "Study"), style="bold", soft_wrap=True)
    found = answers(made)
    for head, best, tail in found[:1]:
        out.print(f"{escape(head)}[bold]{escape(best)}[/bold]{escape(tail)}")
    for warning in warnings(made):
        out.print(escape(warning), style="red")
    out.print(escape(question(made)))
    out.print(escape(completeness(made)), style=None if not any(made.notes) else "red")
    if len(found) > 1:
        others = made.best["measure"].unique(maintain_order=True)[1:]
        out.print(f"Other measures (--measure NAME): {escape(', '.join(others))}.")
    if made.best.height > len(found):  # there are conditions
        out.print(_best_table(made))
    if not made.unfinished.is_empty():
        out.print(_unfinished_table(made))


def _best_table(made: Summary) -> Table:
    # The main measure: a terminal is too small for all.
    main = made.best["measure"][0]
    rows = made.best.filter(pl.col("measure") == main)
    scale = shown(made, next(each for each in made.data.measures if each.name == main))
    table = Table(title=f"Best {scale.label}", title_justify="left", caption_justify="left")
    for name in ("under", "best", "mean (95 %)", "next", "next / best", "significant"):
        right = name in ("mean (95 %)", "next / best")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows.head(MOST_ROWS).iter_rows(named=True):
        cells = (
            row["under"] or "average",
            "no choice has all results" if row["best"] is None else row["best"],
            with_ends(row, scale),
            row["runner_up"] or "–",
            ratio_text(row),
            "–" if row["runner_up"] is None else verdict(row),
        )
        table.add_row(*map(escape, cells))
    hidden = [f"{rows.height - MOST_ROWS:,} more rows"] * (rows.height > MOST_ROWS)
    hidden += ["the other measures"] * (made.best.height > rows.height)
    if hidden:
        table.caption = f"{' and '.join(hidden)}: weft report with --out, or --measure NAME"
    return table


def _unfinished_table(made: Summary) -> Table:
    table = Table(title="Runs without a complete result", title_justify="left")
    for name in ("status", "runs", "reason", "common to them"):
        table.add_column(name, justify="right" if name == "runs" else "left", overflow="fold")
    for row in made.unfinished.head(MOST_ROWS).iter_rows(named=True):
        more = f" (and {row['others']} similar)" if row["others"] else ""
        table.add_row(
            escape(row["status"]),
            f"{row['runs']:,}",
            escape(
                (textwrap.shorten(row["reason"], MOST_LETTERS, placeholder=" ...") or "–") + more
            ),
            escape(row["where"] or "–"),
        )
    if made.unfinished.height > MOST_ROWS:
        table.caption = f"{made.unfinished.height - MOST_ROWS:,} more rows are in the report."
    return table
