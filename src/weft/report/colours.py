"""Colours of loads (perceptually uniform, for the colour-blind too) and of series."""

from __future__ import annotations

from typing import Any

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


def themes(**more: tuple[str, str]) -> dict[str, dict[str, Any]]:
    """Return the colours of light and of dark pages by name; `more`: others of both."""
    common = {"ink": ("#1b2027", "#e5e9ee"), "muted": ("#59636e", "#9ba6b2"), **more}
    light = {"scale": scale(LIGHT_PART), "idle": LIGHT_IDLE, "series": LIGHT_SERIES}
    dark = {"scale": scale(DARK_PART), "idle": DARK_IDLE, "series": DARK_SERIES}
    light |= {"page": "#ffffff", **{name: pair[0] for name, pair in common.items()}}
    dark |= {"page": "#161b21", **{name: pair[1] for name, pair in common.items()}}
    return {"light": light, "dark": dark}


def scale(part: tuple[float, float], steps: int = 64) -> list[str]:
    """Return colours from cold to hot as ``#rrggbb``."""
    colours = matplotlib.colormaps["inferno"](np.linspace(*part, steps))
    return [matplotlib.colors.to_hex(colour) for colour in colours]


def ink_on(colour: Any) -> str:
    """Return black or white, whichever has more contrast to a colour (by WCAG 2, at least 4.5)."""
    parts = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in matplotlib.colors.to_rgb(colour)
    )
    luminance = sum(w * part for w, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
    return "white" if luminance < 0.179 else "black"
