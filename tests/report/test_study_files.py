"""Tables and figures of a study as files, and the page as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import matplotlib.image
import polars as pl
import pytest
from tests.studies import FABRICS, MEASURES, study, with_failures, with_tables

from weft.core.errors import InputError
from weft.report import study_figures
from weft.report.matrix_picture import plot_congestion_matrix
from weft.report.study_data import StudyData
from weft.report.study_figures import DPI, WIDTHS, figures
from weft.report.study_files import LONG, latex_table, write_study_files
from weft.report.study_page import render_study, write_study_page
from weft.report.study_summary import summary


@pytest.fixture(scope="module")
def data() -> StudyData:
    """Return a small study that has every kind of figure."""
    axes = {"fabric": FABRICS[:2], "engine": ("minhop", "nue"), "load": ("0.3", "0.6")}
    return with_tables(study(axes, seeds=2, measures=(MEASURES[0], MEASURES[2])))


@pytest.fixture(scope="module")
def folder(data: StudyData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        # A sixth of the time; all formats are below.
        patch.delitem(study_figures.WIDTHS, "double")
        patch.setattr(study_figures, "FORMATS", ("png",))
        assert sorted(write_study_files(data, into)) == sorted(into.iterdir())
    return into


def test_tables_are_the_same_in_all_formats(data: StudyData, folder: Path) -> None:
    made = summary(data)
    for name, table in (("points", made.points), ("best", made.best), ("effects", made.effects)):
        assert pl.read_parquet(folder / f"{name}.parquet").equals(table)
        assert (folder / f"{name}.csv").read_text() == table.write_csv()
    assert pl.read_parquet(folder / "runs.parquet").equals(data.runs)
    text = (folder / "points-makespan_ns.tex").read_text()
    assert text.count(r"\\") == 1 + len(made.labels)
    mean = made.points["mean"][0] / 1e3
    assert re.search(rf"minhop & 0\.3 & 2 & {mean:.0f}\.?\d* \$\\pm\$", text)


def test_latex_is_escaped_and_long_tables_break() -> None:
    text = latex_table(["a_b", "50 %"], "lr", [("x & y", r"\z{}")], "two\nlines")
    assert text == (
        "% two lines\n\\begin{tabular}{lr}\n\\toprule\na\\_b & 50 \\% \\\\\n\\midrule\n"
        "x \\& y & \\textbackslash{}z\\{\\} \\\\\n\\bottomrule\n\\end{tabular}\n"
    )
    long = latex_table(["a"], "l", [("x",)] * (LONG + 1), "")
    assert long.count(r"\bottomrule") == 1
    assert long.index(r"\endfoot") < long.index("x")


def test_every_figure_has_the_width_of_a_column(folder: Path) -> None:
    pictures = {path.stem for path in folder.glob("*.png")}
    names = {name.rpartition("-")[0] for name in pictures}
    assert names == {
        "bars-makespan_ns", "bars-cost_usd", "curves-makespan_ns", "curves-cost_usd",
        "heat-makespan_ns", "heat-cost_usd", "pareto-cost_usd-makespan_ns", "links", "fabric",
        "congestion",
    }  # fmt: skip
    for name in pictures:
        width = WIDTHS["single"]
        image = matplotlib.image.imread(folder / f"{name}.png")
        assert image.shape[1] == pytest.approx(width * DPI, abs=1)


@pytest.mark.slow
def test_equal_studies_give_equal_files_in_all_formats(
    data: StudyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(*given: Any) -> Iterator[Any]:
        return (each for each in figures(*given) if each[0] == "links")

    monkeypatch.setattr(study_figures, "figures", one)
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
        study_figures.write_figures(summary(data), folder, data.measures[:1])
    first, second = (sorted(folder.iterdir()) for folder in folders)
    assert len(first) == 6
    for path, again in zip(first, second, strict=True):
        assert path.read_bytes() == again.read_bytes(), path.name
        assert b"Date" not in path.read_bytes()[:2000]
    for name, width in WIDTHS.items():
        assert (folders[0] / f"links-{name}.pdf").read_bytes().startswith(b"%PDF")
        assert f'width="{72 * width:g}pt"' in (folders[0] / f"links-{name}.svg").read_text()
    assert render_study(data) == render_study(data)


@pytest.mark.parametrize("axes", [{"fabric": FABRICS, "load": ("0.3", "0.5")}, {"fabric": FABRICS}])
def test_the_page_opens_with_a_table_of_choices_that_have_details(axes: dict[str, Any]) -> None:
    plain = study(axes, seeds=0)
    assert 'id="choices"' not in render_study(plain)
    runs = plain.runs.with_columns(routes=pl.concat_str(pl.lit("routes of "), "fabric"))
    text = render_study(replace(plain, runs=runs, details={"routes": "Routes"}))
    section = text[text.index('<section id="choices"') : text.index('<section id="best"')]
    first = runs.filter(fabric=FABRICS[0])["makespan_ns"] / 1000
    for time in first:
        assert f'<td class="number">{time:.1f}</td>' in section
    assert section.count(f"<td>routes of {escape(FABRICS[0])}</td>") == 1
    assert section.count("makespan (µs)</th>" if len(axes) == 1 else "makespan (µs)<small>") == len(
        axes.get("load", ("",))
    )
    assert 'id="plot-pareto"' in section
    assert text.count('id="plot-pareto"') == 1
    many = study(axes, seeds=2)
    runs = many.runs.with_columns(routes=pl.lit("x"))
    assert 'id="choices"' not in render_study(
        replace(many, runs=runs, details={"routes": "Routes"})
    )


def test_a_study_without_intervals_or_with_failures_has_figures() -> None:
    for case in (study(seeds=0), with_failures(study())):
        names = [name for name, _ in figures(summary(case), 3.5, case.measures[:1])]
        assert names == [
            "bars-makespan_ns", "curves-makespan_ns", "heat-makespan_ns",
            "pareto-cost_usd-makespan_ns",
        ]  # fmt: skip


def test_the_caption_of_a_narrow_matrix_is_inside(data: StudyData) -> None:
    matrix = data.table("key0", "congestion")
    assert matrix is not None
    figure = plot_congestion_matrix(matrix, size_inches=(3.5, 2.5))
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    assert box.x0 >= -0.02
    assert box.x1 <= 3.52


def test_nothing_is_written_for_a_study_without_runs(data: StudyData, tmp_path: Path) -> None:
    empty = replace(data, runs=data.runs.head(0))
    for write in (write_study_page, write_study_files):
        with pytest.raises(InputError, match="has no runs"):
            write(empty, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
