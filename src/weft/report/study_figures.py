"""Figures of a study at the widths of a paper's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap

from weft.core.columns import Measure
from weft.report.colours import LIGHT_PART, LIGHT_SERIES, ink_on, scale
from weft.report.figure import NotebookFigure
from weft.report.matrix_picture import plot_congestion_matrix
from weft.report.picture import plot_fabric
from weft.report.statistics import Array, are_positive, averaged, pareto_front
from weft.report.study_drawings import LOADS, by_link, distributions, first_runs, load_of
from weft.report.study_summary import Summary, grouped, numeric_axes
from weft.report.study_text import digits, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Width of a single and of a double column, inches.
WIDTHS = {"single": 3.5, "double": 7.16}
FORMATS = ("pdf", "svg", "png")
#: Dots per inch of PNG files.
DPI = 300
#: Largest numbers of bars, curves and distributions in a figure.
MOST_BARS, MOST_CURVES, MOST_STEPS = 40, 12, 8
MARKERS = ("o", "s", "^", "D", "v", "P", "*")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1.5)))
_INK, _MUTED, _LINE = "#1b2027", "#59636e", "#dce1e7"
_STYLE: Any = {
    "font.size": 7.5, "axes.labelsize": 7.5, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 6.5, "axes.edgecolor": _MUTED, "axes.linewidth": 0.6, "text.color": _INK,
    "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "lines.linewidth": 1.2, "lines.markersize": 4,
    # Text stays text, and equal figures give equal files.
    "pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "weft",
    "text.parse_math": False, "axes.formatter.use_mathtext": False,
}  # fmt: skip


def write_figures(made: Summary, folder: Path, measures: tuple[Measure, ...]) -> list[Path]:
    """Write every figure that a study has, in both widths and all `FORMATS`.

    `folder`: an existing folder.
    """
    written = []
    with matplotlib.rc_context(_STYLE):
        for column, width in WIDTHS.items():
            for name, figure in figures(made, width, measures):
                # The formats share one layout, which takes as long as drawing.
                figure.draw_without_rendering()
                figure.set_layout_engine("none")
                for kind in FORMATS:
                    path = folder / f"{name}-{column}.{kind}"
                    figure.write(path, dpi=DPI, format=kind)
                    written.append(path)
    return written


def figures(
    made: Summary, width: float, measures: tuple[Measure, ...]
) -> Iterator[tuple[str, NotebookFigure]]:
    """Yield names and figures of a width in inches."""
    axis = next(iter(numeric_axes(made.axes)), "")
    for measure in measures:
        if not np.isfinite(_column(made, measure, "mean")).any():
            continue
        yield f"bars-{measure.name}", _bars(made, measure, width)
        if axis:
            yield f"curves-{measure.name}", _curves(made, measure, axis, width)
        if len(made.axes) > 1:
            yield f"heat-{measure.name}", _heat(made, measure, width)
    directed = [measure for measure in made.data.measures if measure.better]
    costs = [measure for measure in directed if "cost" in measure.name]
    for cost in costs:
        for measure in (each for each in directed if each in measures and each not in costs):
            found = _pareto(made, cost, measure, width)
            if found is not None:
                yield f"pareto-{cost.name}-{measure.name}", found
    links = distributions(made)
    if links:
        yield "links", _steps(made, links, width)
    yield from _pictures(made, width)


def _column(made: Summary, measure: Measure, name: str) -> Array:
    part = made.points.filter(measure=measure.name)
    values: Array = part[name].fill_null(np.nan).to_numpy() / shown(made, measure).factor
    return values


def _figure(width: float, height: float) -> tuple[NotebookFigure, Axes]:
    figure = NotebookFigure((width, height))
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    return figure, axes


def _legend(figure: NotebookFigure, axes: Axes, width: float) -> None:
    """Put the legend below the axes, in as many columns as its labels leave room for."""
    handles, labels = axes.get_legend_handles_labels()
    room = max(1, int(width / (0.45 + 0.052 * max(map(len, labels)))))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(room, len(labels)), frameon=False,
        handlelength=3.2, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def _style(number: int) -> dict[str, Any]:
    again = number // len(LIGHT_SERIES)
    return {
        "color": LIGHT_SERIES[number % len(LIGHT_SERIES)],
        "marker": MARKERS[(number + 2 * again) % len(MARKERS)],
        "linestyle": _DASHES[(number + again) % len(_DASHES)],
    }


def _bars(made: Summary, measure: Measure, width: float) -> NotebookFigure:
    mean, half = (_column(made, measure, name) for name in ("mean", "ci95"))
    keys = mean if measure.better != "higher" else -mean
    condition, _ = grouped(made, made.conditions)
    order = np.lexsort((keys, condition))
    order = order[np.isfinite(mean[order])]
    drawn = order[:MOST_BARS][::-1]
    figure, axes = _figure(width, 0.55 + 0.16 * len(drawn))
    axes.barh(
        np.arange(len(drawn)), mean[drawn], color="#7fb8d9", edgecolor=LIGHT_SERIES[0],
        linewidth=0.5, height=0.7,
    )  # fmt: skip
    known = np.isfinite(half[drawn])
    axes.errorbar(
        mean[drawn][known], np.arange(len(drawn))[known], xerr=half[drawn][known], fmt="none",
        ecolor=_INK, elinewidth=0.8, capsize=1.6,
    )  # fmt: skip
    names = [made.labels[point] or "all runs" for point in drawn]
    axes.set_yticks(np.arange(len(drawn)), names, fontsize=6.5)
    axes.set_ylim(-0.6, len(drawn) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=_LINE, linewidth=0.5)
    more = f"; the first {len(drawn)} of {len(order)}" if len(order) > len(drawn) else ""
    axes.set_xlabel(shown(made, measure).heading + more)
    return figure


def _curves(made: Summary, measure: Measure, axis: str, width: float) -> NotebookFigure:
    mean, half = (_column(made, measure, name) for name in ("mean", "ci95"))
    group, names = grouped(made, [name for name in made.axes if name != axis])
    value = np.array([float(text) for text in made.axes[axis]])
    x = value[made.at[:, list(made.axes).index(axis)]]
    known = np.isfinite(mean)
    drawn = [number for number in range(len(names)) if (known & (group == number)).any()]
    rows = -(-min(len(drawn), MOST_CURVES) // (1 if width < 5 else 2))
    figure, axes = _figure(width, 2.2 + 0.135 * rows)
    for number, curve in enumerate(drawn[:MOST_CURVES]):
        here = np.flatnonzero(known & (group == curve))
        here = here[np.argsort(x[here], kind="stable")]
        axes.errorbar(
            x[here], mean[here], yerr=np.nan_to_num(half[here]), **_style(number), elinewidth=0.7,
            capsize=1.5, label=names[curve] or "all runs",
        )  # fmt: skip
    low, high = float(mean[known].min()), float(mean[known].max())
    if low > 0 and high > 30 * low:
        axes.set_yscale("log")
    elif low >= 0:
        axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=_LINE, linewidth=0.5)
    more = f" (the first {MOST_CURVES} of {len(drawn)} curves)" if len(drawn) > MOST_CURVES else ""
    axes.set_xlabel(axis + more)
    axes.set_ylabel(shown(made, measure).heading)
    _legend(figure, axes, width)
    return figure


def _heat(made: Summary, measure: Measure, width: float) -> NotebookFigure:
    """Draw the averages over the first two choices, or axes."""
    free = [name for name in made.axes if name not in made.conditions]
    pair = (free if len(free) > 1 else list(made.axes))[:2]
    rows, columns = (made.axes[name] for name in pair)
    at = made.at[:, [list(made.axes).index(name) for name in pair]]
    cells = np.full((len(rows), len(columns)), np.nan)
    cells[at[:, 0], at[:, 1]] = _over(made, measure, pair)[grouped(made, pair)[0]]
    whole = np.isfinite(cells)  # others are not comparable
    figure, axes = _figure(width, 0.95 + 0.24 * len(rows))
    axes.spines[:].set_visible(False)
    colours = ListedColormap(scale(LIGHT_PART))
    image = axes.pcolormesh(
        np.ma.masked_where(~whole, cells), cmap=colours, edgecolors="white", linewidth=0.8
    )
    low, high = (float(cells[whole].min()), float(cells[whole].max())) if whole.any() else (0, 1)
    for row, column in np.ndindex(cells.shape):
        share = (cells[row, column] - low) / (high - low or 1)
        text = digits(float(cells[row, column])) if whole[row, column] else "–"
        ink = ink_on(colours(share)) if whole[row, column] else _INK
        axes.text(
            column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6.5,
            color=ink,
        )  # fmt: skip
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    slanted = max(map(len, columns)) * 0.055 * len(columns) > 0.6 * width
    axes.set_xticks(
        np.arange(len(columns)) + 0.5, columns, rotation=30 if slanted else 0,
        ha="right" if slanted else "center",
    )  # fmt: skip
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.set_xlabel(pair[1])
    axes.set_ylabel(pair[0])
    bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=18)
    bar.outline.set_visible(False)
    bar.set_label(shown(made, measure).heading)
    return figure


def _pareto(made: Summary, cost: Measure, measure: Measure, width: float) -> NotebookFigure | None:
    """Draw choices by cost and a measure, on average over the conditions."""
    free = [name for name in made.axes if name not in made.conditions]
    choice, names = grouped(made, free)
    x, y = (_over(made, each, free) for each in (cost, measure))
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < 2:
        return None
    front = pareto_front(x, y, cost.better == "lower", measure.better == "lower")
    group, groups = grouped(made, free[:1])
    of = np.zeros(len(names), dtype=np.int64)
    of[choice] = group
    if len(groups) > len(MARKERS):
        of[:], groups = 0, [""]
    figure, axes = _figure(width, 2.5 if width < 5 else 3.0)
    for number, name in enumerate(groups):
        style = _style(number) | {"linestyle": ""}
        for filled in (False, True):
            here = known & (of == number) & (front == filled)
            face = style["color"] if filled else "white"
            axes.plot(x[here], y[here], **style, markerfacecolor=face, markersize=5)
        axes.plot([], [], **style, label=name)
    line = np.flatnonzero(front)
    line = line[np.argsort(x[line], kind="stable")]
    axes.plot(
        x[line], y[line], color=_INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1,
        drawstyle="steps-post" if cost.better == "lower" else "steps-pre",
    )  # fmt: skip
    axes.margins(0.08)
    axes.grid(color=_LINE, linewidth=0.5)
    left = int((~known).sum())
    more = f"; {left} of {len(names)} choices lack runs that count" if left else ""
    axes.set_xlabel(f"{shown(made, cost).heading}, {cost.better} is better{more}")
    axes.set_ylabel(f"{shown(made, measure).heading}, {measure.better} is better")
    if len(groups) > 1:
        _legend(figure, axes, width)
    return figure


def _over(made: Summary, measure: Measure, axes: Sequence[str]) -> Array:
    """Return the average for each group of values of some axes, NaN for one that lacks points."""
    group, names = grouped(made, axes)
    rest, others = grouped(made, [name for name in made.axes if name not in axes])
    cube = np.full((len(names), len(others), 1), np.nan)
    cube[group, rest, 0] = _column(made, measure, "mean")
    whole = np.isfinite(cube).all(axis=(1, 2))
    result = np.full(len(names), np.nan)
    result[whole] = averaged(cube[whole], are_positive(made.values[measure.name]))[0][:, 0]
    return result


def _steps(made: Summary, links: dict[str, Any], width: float) -> NotebookFigure:
    points = list(links["curves"])[:MOST_STEPS]
    figure, axes = _figure(width, 2.2 + 0.135 * len(points) / (1 if width < 5 else 2))
    for number, point in enumerate(points):
        curve = links["curves"][point]
        x, y = np.array([0.0, *curve["x"]]), np.array([0.0, *curve["y"]])
        at = int(np.searchsorted(y, (number + 1) / (len(points) + 1)))
        axes.plot(
            x, y, **_style(number), drawstyle="steps-post", markevery=[at],
            label=made.labels[point] or "all runs",
        )  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.01)
    axes.grid(axis="y", color=_LINE, linewidth=0.5)
    unit = f" ({links['unit']})" if links["unit"] else ""
    more = len(links["curves"])
    first = f"; the first {MOST_STEPS} of {more} points" if more > MOST_STEPS else ""
    axes.set_xlabel(f"{links['name']}{unit} of links{first}")
    axes.set_ylabel("share of links")
    _legend(figure, axes, width)
    return figure


def _pictures(made: Summary, width: float) -> Iterator[tuple[str, NotebookFigure]]:
    """Yield the fabric by load and the congestion matrix of the first point that has them."""
    for _, key, links in first_runs(made, "links"):
        fabric, found = made.data.fabric(key), load_of(links)
        if fabric is None or found is None:
            continue
        name, unit = LOADS[found[0]]
        picture = plot_fabric(
            fabric, by_link(fabric, links, found[1]), quantity=f"{name} ({unit})" if unit else name,
            label_busiest=0, size_inches=(width, 0.6 * width),
        )  # fmt: skip
        yield "fabric", picture
        break
    for _, _, matrix in first_runs(made, "congestion"):
        yield "congestion", plot_congestion_matrix(matrix, size_inches=(width, 0.72 * width))
        break
