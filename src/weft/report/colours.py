"""Colours of loads (perceptually uniform, for the colour-blind too) and of series."""

from __future__ import annotations

import matplotlib
import numpy as np

#: Parts of matplotlib's inferno with contrast to a white and to a dark page, cold to hot.
LIGHT_PART = (0.88, 0.12)
DARK_PART = (0.22, 0.97)
#: Colour of links without load.
LIGHT_IDLE, DARK_IDLE = "#d3d7dc", "#3a4048"
#: Colours of series in a chart (Okabe and Ito 2008, without yellow), for light and dark pages.
LIGHT_SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b07d00", "#555d66")
DARK_SERIES = ("#56b4e9", "#ff8c42", "#2fc99a", "#e79ac4", "#8ab8ff", "#f0c24b", "#aab2bb")


def scale(part: tuple[float, float], steps: int = 64) -> list[str]:
    """Return colours from cold to hot as ``#rrggbb``."""
    colours = matplotlib.colormaps["inferno"](np.linspace(*part, steps))
    return [matplotlib.colors.to_hex(colour) for colour in colours]
