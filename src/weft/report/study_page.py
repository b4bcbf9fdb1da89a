"""`write_study_page`: a study as one self-contained HTML file.

The page has the question and the answer first, then tables and plots of the points of the study,
which filters restrict. Like the other pages, it holds all its data and makes no network requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.files import write_text
from weft.report.colours import themes
from weft.report.packing import packed
from weft.report.render import render_page
from weft.report.statistics import are_positive
from weft.report.study_data import StudyData
from weft.report.study_drawings import distributions, fabrics, matrices
from weft.report.study_summary import Summary, numeric_axes, summary
from weft.report.study_text import (
    Shown,
    answers,
    completeness,
    digits,
    question,
    ratio_text,
    runs_text,
    shown,
    verdict,
    warnings,
    with_ends,
)

SCRIPTS = ("common.js", "data.js", "app.js", "study_plots.js", "study_main.js")
#: Statistics of points in the page, columns of `Summary.points`.
STATISTICS = (
    "n", "deterministic", "mean", "ci95", "median", "min", "max", "ratio", "ratio_low",
    "ratio_high", "p",
)  # fmt: skip
#: Largest number of rows of the table of the best.
MOST_BEST = 200

METHOD = (
    "A point is a combination of values of all axes; its runs differ in their seeds. Only complete "
    "runs count. Runs between which nothing random differs are one run: deterministic. Latencies "
    "of runs that are saturated, deadlocked or cut off do not count.",
    "In the table of points, means are arithmetic, and ± is the half-width of their 95 % interval, "
    "by Student's distribution. The answers, the table of the best and the averages over axes have "
    "geometric means, whose ratios are the geometric means of the ratios, with 95 % intervals: "
    "arithmetic means and no ratios if a value is not positive.",
    "Significant: a two-sided t-test of the logarithms (of the values, if one is not positive) has "
    "a p-value of at most 0.05. The test is paired by seed if two seeds are common, Welch's if "
    "fewer are, and of one sample if the other side is deterministic. There is no test without "
    "repeated runs or without variation. The p-values of a measure are adjusted by Holm's method: "
    "over all points that are compared with the baseline, and, as the best is chosen from the same "
    "results, over all pairs of choices in the table of the best, and in that of averages.",
    "Averages are over the combinations in which all values have a result. A seed that lacks one "
    "of these is left out.",
)


def write_study_page(data: StudyData, path: str | Path) -> int:
    """Write a page that reports a study, atomically.

    Returns the size of the file in bytes.
    """
    text = render_study(data)
    write_text(path, text)
    return len(text.encode("utf-8"))


def render_study(data: StudyData) -> str:
    """Return the page as text; equal studies give equal text."""
    made = summary(data)
    scales = {measure.name: shown(made, measure) for measure in data.measures}
    pictures, notes = fabrics(made)
    blocks, more = matrices(made)
    links = distributions(made)
    directed = [measure.name for measure in data.measures if measure.better]
    texts = {"labels": made.labels, "notes": made.notes}
    blobs = {
        "weft-points": packed(_statistics(made), texts),
        "weft-runs": packed({}, _runs(made)),
        "weft-drawings": packed({}, {"links": links, "fabrics": pictures, "matrices": blocks}),
    }
    return render_page(
        "study.html",
        ("style.css", "study.css"),
        SCRIPTS,
        _facts(made, scales),
        blobs,
        title=data.title or "Study",
        facts=[
            ("command", f"weft {data.command}"),
            ("points", f"{len(made.labels):,}"),
            ("runs", f"{len(data.runs):,}"),
            ("complete", f"{int((data.runs['status'] == 'complete').sum()):,}"),
            ("seeds", f"{made.seeds:,}"),
            *([("weft", ", ".join(sorted(data.versions)))] if data.versions else []),
        ],
        notes=[*METHOD, *notes, *more],
        warnings=warnings(made),
        question=question(made),
        completeness=completeness(made),
        complete=not any(made.notes),
        answers=answers(made),
        best=_best_rows(made, scales),
        choices=_choices(made, scales),
        conditions=made.conditions,
        best_left_out=max(0, len(made.best) - MOST_BEST),
        effects=_effect_rows(made, scales),
        unfinished=made.unfinished.to_dicts(),
        axes=made.axes,
        measures=data.measures,
        scales=scales,
        baseline=data.baseline,
        has={"links": bool(links), "fabrics": bool(pictures), "matrices": bool(blocks)},
        numeric=numeric_axes(made.axes),
        cost=_cost(directed),
        directed=directed,
        experiment=data.experiment,
    )


def _facts(made: Summary, scales: dict[str, Shown]) -> dict[str, Any]:
    """Return what the scripts need beside the numbers."""
    data = made.data
    return {
        "title": data.title or "Study",
        "axes": [
            {
                "name": name, "values": values, "numeric": name in numeric_axes(made.axes),
                "condition": name in made.conditions, "baseline": data.baseline.get(name),
            }
            for name, values in made.axes.items()
        ],
        "measures": [
            {
                "name": measure.name, "better": measure.better, "meaning": measure.meaning,
                "label": scales[measure.name].label, "unit": scales[measure.name].unit,
                "factor": scales[measure.name].factor,
                "ratios": are_positive(made.values[measure.name]),
            }
            for measure in data.measures
        ],
        "statistics": STATISTICS,
        "hasBaseline": bool(data.baseline),
        "seeds": made.seeds,
        "colours": themes(line=("#dce1e7", "#2a323b")),
    }  # fmt: skip


def _cost(directed: list[str]) -> str:
    """Return the measure that is set against the main one at first: a cost, if there is one."""
    costs = (name for name in directed if name.startswith(("cost", "price", "total_cost")))
    return next(costs, directed[1] if len(directed) > 1 else "")


def _statistics(made: Summary) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {"at": made.at.astype(np.uint16).ravel()}
    for number, measure in enumerate(made.data.measures):
        part = made.points.filter(pl.col("measure") == measure.name)
        for name in STATISTICS:
            # Seven digits are more than any run's accuracy, and compress better.
            column = part[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
            arrays[f"{name}{number}"] = column.astype(np.float32)
    return arrays


def _runs(made: Summary) -> dict[str, Any]:
    """Return the table of runs, as columns."""
    data = made.data
    names = ["run", "seed", "status", "reason", *data.axes, *data.details]
    names += [measure.name for measure in data.measures]
    table = data.runs.select(names).with_columns(pl.col(pl.Float64).fill_nan(None))
    return {"columns": names, "values": [table[name].to_list() for name in names]}


def _choices(made: Summary, scales: dict[str, Shown]) -> dict[str, Any] | None:
    """Return a table with a row for each choice of a command with details, such as machines.

    It has the main measure and those of its unit under each condition, then the directed measures
    that all conditions share, and the details. There is none with repetitions.
    """
    data = made.data
    free = [axis for axis in data.axes if axis not in made.conditions]
    runs = data.runs.filter(pl.col("status") == "complete")
    details = [name for name in data.details if runs[name].count()]
    if not details or runs["seed"].n_unique() != 1:
        return None
    found = [each for each in data.measures if runs[each.name].count()]
    timed = [each.name for each in found if each.unit == data.measures[0].unit]
    groups = runs.group_by(free or pl.lit("the only one"), maintain_order=True)
    most = groups.agg(pl.col(each.name for each in found).drop_nulls().n_unique())
    fixed = [
        each.name
        for each in found
        if each.better and each.name not in timed and most[each.name].max() == 1
    ]
    unders = runs.select(made.conditions).unique(maintain_order=True).rows()
    columns = [(name, under) for under in unders or [()] for name in timed]
    columns += [(name, ()) for name in fixed]
    rows = []
    for choice, part in groups:
        cells = []
        for name, under in columns:
            same = [pl.col(axis) == at for axis, at in zip(made.conditions, under, strict=False)]
            known = part.filter(pl.lit(True), *same)[name].drop_nulls()
            cells.append(digits(known[0] / scales[name].factor if len(known) else None))
        texts = [part[name][0] or "–" for name in details]
        rows.append({"name": ", ".join(map(str, choice)), "cells": cells, "texts": texts})
    heads = [(scales[name].heading, ", ".join(under)) for name, under in columns]
    return {"free": ", ".join(free) or "choice", "heads": heads, "details": details, "rows": rows}


def _best_rows(made: Summary, scales: dict[str, Shown]) -> list[dict[str, Any]]:
    rows, main = [], made.best["measure"][0] if len(made.best) else ""
    for row in made.best.head(MOST_BEST).iter_rows(named=True):
        scale_of = scales[row["measure"]]
        under = row["under"] or ("average" if row["conditions"] != 1 else "")
        rows.append(
            {
                "measure": scale_of.label,
                "main": row["measure"] == main,
                "under": under,
                "best": row["best"],
                "equal": row["equal"],
                "value": with_ends(row, scale_of),
                "n": "–" if row["best"] is None else runs_text(row),
                "runner_up": row["runner_up"] or "–",
                "ratio": ratio_text(row),
                "verdict": "–" if row["runner_up"] is None else verdict(row),
                "left_out": row["left_out"],
                "excluded": row["excluded"],
            }
        )
    return rows


def _effect_rows(made: Summary, scales: dict[str, Shown]) -> list[dict[str, Any]]:
    number = {measure.name: at for at, measure in enumerate(made.data.measures)}
    return [
        {
            **row,
            "number": number[row["measure"]],
            "label": scales[row["measure"]].label,
            "text": with_ends(row, scales[row["measure"]]),
            "n": "–" if row["mean"] is None else runs_text(row),
            "ratio_text": "best" if row["best"] else ratio_text(row),
            "verdict": "–" if row["best"] or row["mean"] is None else verdict(row),
            "over": f"{row['combinations']} of {row['of']}",
        }
        for row in made.effects.iter_rows(named=True)
    ]
