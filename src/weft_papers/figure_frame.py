"""What the figures of all studies share: title, note, panels, legend, and means with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike


def framed(title: str, notes: str, size: tuple[float, float], strip: float) -> Figure:
    """Return a figure without panels, drawn without a display.

    `notes`: line under the figure: the parameters of the study. `size`: width and height in inches.
    `strip`: part of the height that is left free below the panels, for the note and a legend.
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

    The other parameters are those of `framed`.
    """
    figure = framed(title, notes, size, strip)
    drawn = list(figure.subplots(1, len(panels), squeeze=False)[0])
    for name, axes in zip(panels, drawn, strict=True):
        axes.set_title(name, fontsize=9.5)
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, drawn


def legend_below(figure: Figure, axes: Axes, columns: int, fontsize: float) -> None:
    """Add one legend for all panels, with the labels of the given one."""
    figure.legend(
        *axes.get_legend_handles_labels(), loc="lower center", bbox_to_anchor=(0.5, 0.045),
        ncols=columns, fontsize=fontsize, frameon=False,
    )  # fmt: skip


def banded(
    axes: Axes, x: ArrayLike, mean: ArrayLike, half: ArrayLike, color: str, alpha: float,
    step: Any = None, **style: Any,
) -> None:  # fmt: skip
    """Draw a line of means with a band of the half widths of their intervals."""
    axes.plot(x, mean, color=color, **style)
    low, high = np.subtract(mean, half), np.add(mean, half)
    axes.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0, step=step)
