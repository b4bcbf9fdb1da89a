"""`write_study_files`: tables and figures of a study, for papers and for further analysis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from weft.core.columns import Measure, write_table
from weft.core.files import make_folder, write_text
from weft.report.study_data import StudyData
from weft.report.study_figures import write_figures
from weft.report.study_summary import Summary, summary
from weft.report.study_text import number_text, ratio_text, shown, verdict, with_ends, with_interval

#: Number of measures, from the first on, of which figures and tables for papers are written; those
#: without a better direction are not among them.
MOST_MEASURES = 3
#: Whether a difference is significant, as text.
_MARKS = {None: "–", True: "yes", False: "no"}
#: Rows from which a LaTeX table may break across pages.
LONG = 40
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "_": r"\_", "%": r"\%", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "·": r"$\cdot$", "µ": r"$\mu$", "–": "--", "−": "$-$", "<": r"\textless{}",
    ">": r"\textgreater{}", "\n": " ",
}  # fmt: skip


def write_study_files(data: StudyData, folder: str | Path) -> list[Path]:
    """Write the tables of a study as Parquet, CSV and LaTeX, and its figures.

    LaTeX tables need the packages booktabs and longtable. Figures are as wide as a single (3.5 in)
    or a double column (7.16 in), as PDF, SVG and PNG.

    `folder`: the folder; it is created if it does not exist.
    """
    made, into = summary(data), make_folder(folder)
    tables = {
        "points": made.points, "best": made.best, "effects": made.effects,
        "unfinished": made.unfinished, "runs": data.runs,
    }  # fmt: skip
    written = []
    for name, table in tables.items():
        for suffix in ("parquet", "csv"):
            written.append(into / f"{name}.{suffix}")
            write_table(table, written[-1])
    directed = tuple(measure for measure in data.measures if measure.better)
    measures = (directed or data.measures)[:MOST_MEASURES]
    texts = {"best": _best(made)}
    for measure in measures:
        texts[f"points-{measure.name}"] = _points(made, measure)
    for name, text in texts.items():
        written.append(into / f"{name}.tex")
        write_text(written[-1], text)
    return [*written, *write_figures(made, into, measures)]


def latex(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def latex_table(
    headings: Sequence[str], alignment: str, rows: Iterable[Sequence[str]], caption: str
) -> str:
    """Return a table with rules of booktabs; from `LONG` rows on, a longtable.

    `alignment`: a letter for each column: l, r or c. `caption`: comment at the head of the file.
    """
    listed = [" & ".join(map(latex, row)) + r" \\" for row in rows]
    head = " & ".join(map(latex, headings)) + r" \\"
    kind = "longtable" if len(listed) > LONG else "tabular"
    comment = " ".join(caption.split())
    lines = [f"% {comment}", f"\\begin{{{kind}}}{{{alignment}}}", r"\toprule", head, r"\midrule"]
    if kind == "longtable":
        lines += [r"\endhead", r"\bottomrule", r"\endfoot"]
    end = [] if kind == "longtable" else [r"\bottomrule"]
    return "\n".join([*lines, *listed, *end, f"\\end{{{kind}}}", ""])


def _best(made: Summary) -> str:
    scales = {measure.name: shown(made, measure) for measure in made.data.measures}
    rows = [
        (
            scales[row["measure"]].label, row["under"] or ("average" if made.conditions else "all"),
            row["best"] or "–", with_ends(row, scales[row["measure"]]),
            row["runner_up"] or "–", ratio_text(row),
            "–" if row["runner_up"] is None else verdict(row),
        )
        for row in made.best.iter_rows(named=True)
    ]  # fmt: skip
    headings = ("measure", "under", "best", "geometric mean", "next", "next / best", "significant")
    return latex_table(headings, "lllrlrl", rows, f"Best by each measure: {made.data.title}")


def _points(made: Summary, measure: Measure) -> str:
    scale, baseline = shown(made, measure), bool(made.data.baseline)
    rows = []
    for row in made.points.filter(pl.col("measure") == measure.name).iter_rows(named=True):
        against = (ratio_text(row), _MARKS[row["significant"]]) if baseline else ()
        plain = scale._replace(unit="")
        value = with_interval(row["mean"], row["ci95"], plain)
        spread = (number_text(row[key], plain) for key in ("median", "min", "max"))
        rows.append((*(row[axis] for axis in made.axes), str(row["n"]), value, *spread, *against))
    more = ("ratio", "significant") if baseline else ()
    headings = (*made.axes, "n", scale.heading, "median", "min", "max", *more)
    align = "l" * len(made.axes) + "rrrrr" + ("rl" if baseline else "")
    return latex_table(headings, align, rows, f"{scale.heading}, mean and 95 % interval")
