"""`plot_congestion_matrix`: the congestion matrix of a run, as a picture for a paper."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import polars as pl
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap, Normalize
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.report.colours import LIGHT_IDLE, LIGHT_PART, ink_on, scale
from weft.report.figure import NotebookFigure, corners
from weft.report.matrix_drawing import (
    CELL,
    CENTRE,
    GAP,
    LEVEL_GAP,
    LEVEL_SHARE,
    MatrixDrawing,
    matrix_drawing,
)
from weft.sim.common.congestion_matrix import CONGESTION_MATRIX_COLUMNS

#: Width of a narrow cell in a figure of automatic size, and limits of the figure's width, inches.
CELL_INCHES, LEAST_INCHES, MOST_INCHES = 0.17, 6.0, 18.0
#: Width of a narrow cell from which it holds its number, has gaps, and is drawn at all, inches.
NUMBER_INCHES, SPACED_INCHES, DRAWN_INCHES = 0.12, 0.04, 0.01
#: Height of the colour bar and of the caption, inches.
BAR_INCHES = 0.9
#: Letters of the caption that fit into an inch.
LETTERS_PER_INCH = 16
#: Number of cells from which a PDF or SVG file holds them as pixels.
MANY_CELLS = 20_000
_MUTED = "#59636e"


def plot_congestion_matrix(
    matrix: pl.DataFrame, *, title: str = "", size_inches: tuple[float, float] | None = None
) -> NotebookFigure:
    """Draw a congestion matrix: darker cells and blocks are more congested.

    Cells of links and of switches hold their share in percent, if there is room. If there is no
    room for single cells, one cell is drawn for all links of a side, in the colour of the most
    loaded one.

    `matrix`: columns of `weft.sim.common.congestion_matrix.CONGESTION_MATRIX_COLUMNS`, as
    `PacketResult.congestion_matrix` returns them. `title`: heading; empty for none. `size_inches`:
    width and height. Default: as the cells need, within `LEAST_INCHES` and `MOST_INCHES`.
    """
    missing = [name for name in CONGESTION_MATRIX_COLUMNS if name not in matrix.columns]
    if missing:
        raise InputError(f"this table is no congestion matrix: column {missing[0]} is missing")
    if matrix.is_empty():
        raise InputError("nothing to draw: the fabric has no link into a switch")
    drawing = matrix_drawing(matrix)
    wide, high = drawing.size
    if size_inches is None:
        inches = float(np.clip(CELL_INCHES * (wide + 2 * GAP), LEAST_INCHES, MOST_INCHES))
        head = 0.4 if title else 0.0
        size_inches = inches, inches * (high + GAP) / (wide + 2 * GAP) + BAR_INCHES + head
    figure = NotebookFigure(size_inches)
    axes = figure.add_subplot()
    axes.set_xlim(-GAP, wide + GAP)
    axes.set_ylim(-high - GAP, 0)
    axes.set_aspect("equal")
    axes.axis("off")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold", parse_math=False)
    unit = min(size_inches[0] / (wide + 2 * GAP), (size_inches[1] - BAR_INCHES) / (high + GAP))
    colours = ListedColormap(scale(LIGHT_PART)).with_extremes(under=LIGHT_IDLE)
    boxes, share = _cells(drawing, merged=unit < DRAWN_INCHES)
    cells = PolyCollection(
        _corners(boxes), cmap=colours, norm=Normalize(0.0, 1.0),
        edgecolors="white" if unit >= SPACED_INCHES else "none", linewidths=min(0.5, 4 * unit),
        rasterized=len(share) > MANY_CELLS,
    )  # fmt: skip
    # A share of 0 has the colour of idle links.
    cells.set_array(np.where(share > 0, share, -1.0))
    axes.add_collection(cells)
    frames = _corners((drawing.x, drawing.y, drawing.width, drawing.height))
    width = float(np.clip(8 * unit, 0.1, 0.7))
    axes.add_collection(
        PolyCollection(frames, facecolors="none", edgecolors=_MUTED, linewidths=width)
    )
    if unit >= NUMBER_INCHES:
        _numbers(axes, boxes, share, 72 * unit)
    points = min(10.0, 29 * unit * max(LEVEL_GAP, LEVEL_SHARE * wide))
    for text, x, y in drawing.labels:
        axes.annotate(text, (x, y), fontsize=points, color=_MUTED, va="bottom")
    bar = figure.colorbar(
        cells, ax=axes, location="bottom", shrink=min(1.0, 6 / size_inches[0]), pad=0.02, aspect=40
    )
    caption = (
        "wait, share of the most loaded link or switch (%); grey: none",
        "upper side: links from above; lower side: from below; centre: the switch",
    )
    room = max(20, int(LETTERS_PER_INCH * size_inches[0]))
    bar.set_label("\n".join(textwrap.fill(line, room) for line in caption), fontsize=8)
    bar.ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    bar.outline.set_visible(False)
    if drawing.notes:
        figure.text(0.01, 0.005, " ".join(drawing.notes), fontsize=7, color=_MUTED)
    return figure


_Boxes = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _cells(drawing: MatrixDrawing, *, merged: bool) -> tuple[_Boxes, NDArray[np.float64]]:
    """Return left, upper end, width and height of the cells, and their shares.

    The cells of switches follow those of links. If `merged`, the cells of a side are one.
    """
    x, y, width, share = drawing.cell_x, drawing.cell_y, drawing.cell_width, drawing.share
    height = np.full(len(x), CELL)
    if merged:
        below = y < drawing.centre_y[drawing.block]
        side, block = np.unique(2 * drawing.block + below, return_inverse=True)
        most = np.zeros(len(side))
        np.maximum.at(most, block, share)
        owner, low = np.divmod(side, 2)
        x, width, share = drawing.x[owner], drawing.width[owner], most
        centre, end = drawing.centre_y[owner], (drawing.y - drawing.height)[owner]
        y = np.where(low, centre - CENTRE, drawing.y[owner])
        height = y - np.where(low, end, centre)
    boxes = (
        np.concatenate([x, drawing.x]), np.concatenate([y, drawing.centre_y]),
        np.concatenate([width, drawing.width]),
        np.concatenate([height, np.full(len(drawing.x), CENTRE)]),
    )  # fmt: skip
    return boxes, np.concatenate([share, drawing.switch_share])


def _corners(boxes: _Boxes) -> list[NDArray[np.float64]]:
    x, y, width, height = boxes
    return corners(x, x + width, y, y - height)


def percent(share: float) -> str:
    """Return a share as the number of a cell."""
    return "<1" if 0 < share < 0.005 else f"{100 * share:.0f}"


def _numbers(axes: Any, boxes: _Boxes, share: NDArray[np.float64], unit_points: float) -> None:
    """Write shares in percent into the cells."""
    colours = scale(LIGHT_PART)
    for x, y, width, height, value in zip(*boxes, share, strict=True):
        at = colours[min(int(value * len(colours)), len(colours) - 1)] if value > 0 else LIGHT_IDLE
        axes.text(
            x + width / 2, y - height / 2, percent(value),
            ha="center", va="center_baseline", clip_on=True,
            fontsize=min(9.0, 0.5 * unit_points * (1.3 if height == CENTRE else 1.0)),
            weight="bold" if height == CENTRE else "normal", color=ink_on(at),
        )  # fmt: skip
