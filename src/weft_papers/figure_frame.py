"""Frames of the studies' figures: title, note and panels in one style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def framed(title: str, notes: str, size: tuple[float, float], strip: float) -> Figure:
    """Return a figure without panels.

    Parameters
    ----------
    size
        Width and height in inches.
    strip
        Part of the height that is left free below the panels, for the note and a legend.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))  # type: ignore[union-attr, call-arg]
    figure.suptitle(title, fontsize=12)
    figure.text(0.5, 0.06 / size[1], notes, fontsize=7.5, color="#555555", ha="center", va="bottom")
    return figure


def with_panels(
    title: str, notes: str, panels: Sequence[str], size: tuple[float, float], strip: float
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side, each with its title, and the axes of the panels.

    Parameters
    ----------
    title, notes, size, strip
        As for `framed`.
    """
    figure = framed(title, notes, size, strip)
    drawn = list(figure.subplots(1, len(panels), squeeze=False)[0])
    for name, axes in zip(panels, drawn, strict=True):
        axes.set_title(name, fontsize=9.5)
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, drawn
