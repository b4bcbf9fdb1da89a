"""Measured points and predictions by size, one picture for each operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from weft_papers.accuracy.tables import error, label
from weft_papers.figure_frame import legend_below, with_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Way -> colour (Okabe and Ito 2008) and line.
_LINES = {
    "flow": ("#0072B2", "-"), "packet": ("#56B4E9", ":"), "fitted": ("#009E73", "-"),
    "rule": ("#D55E00", "--"),
}  # fmt: skip


def figures(points: pl.DataFrame) -> Iterator[tuple[str, Figure]]:
    """Draw the points of each machine and operation; yield each with its name."""
    for (system, operation), its in points.group_by("system", "operation", maintain_order=True):
        groups = list(its.group_by("each", "nodes", "library", maintain_order=True))
        titles = [
            (f"{nodes} × {each} ranks" if each > 1 else f"{nodes} machines")
            + f", {library}" * bool(library)
            for (each, nodes, library), _ in groups
        ]
        name = label(str(system))
        title = f"{operation} on {name}: time predicted by time measured"
        notes = "grey: within 10 and 20 %, and the range of samples if there are several"
        figure, panels = with_panels(title, notes, titles, (max(8, 3.1 * len(groups)), 4), 0.15)
        for axes, (_, rows) in zip(panels, groups, strict=True):
            if axes is not panels[0]:
                axes.sharey(panels[0])
            _panel(axes, rows.sort("size_bytes"))
        low, high = panels[0].get_ylim()  # that of all panels
        panels[0].set_ylim(min(low, 0.45), max(high, 2.2))
        legend_below(figure, panels[0], 6, 8)
        yield f"{name}-{operation}", figure


def _panel(axes: Axes, rows: pl.DataFrame) -> None:
    """Draw the ratio of predicted and measured times by size; measured is 1."""
    size = rows["size_bytes"].clip(1)
    axes.axhspan(0.8, 1 / 0.8, color="#EEEEEE", zorder=0)
    axes.axhspan(0.9, 1 / 0.9, color="#DDDDDD", zorder=0)
    axes.axhline(1, color="black", linewidth=0.8)
    if rows["least"].null_count() < len(rows):
        ends = rows.select(pl.col("least", "most") / pl.col("value"))
        axes.fill_between(size, ends["least"], ends["most"], color="#999999", alpha=0.35,
                          linewidth=0, label="samples")  # fmt: skip
    for way, (colour, line) in _LINES.items():
        ratio = rows.select(1 + error(way) / 100).to_series()
        if ratio.null_count() < len(ratio):
            axes.plot(size, ratio, line, color=colour, marker=".", markersize=4, label=way)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:.3g}")
    axes.set_xlabel("size in bytes")
