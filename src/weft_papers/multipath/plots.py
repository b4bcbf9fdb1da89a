"""Figures 1 to 7 of the multipath study, each on the paper's basis and per direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from weft.sim.static.multipath import Scheme
from weft_papers.figure_frame import banded, legend_below, with_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Scheme -> (label, colour, marker); colour-blind safe colours of Okabe and Ito (2008).
STYLES = {
    Scheme.ECMP.value: (Scheme.ECMP.label, "#D55E00", "o"),
    Scheme.FLOWLET.value: (Scheme.FLOWLET.label, "#E69F00", "s"),
    Scheme.E_ECMP.value: (Scheme.E_ECMP.label, "#0072B2", "^"),
    Scheme.FLOWLET_E_ECMP.value: (Scheme.FLOWLET_E_ECMP.label, "#009E73", "D"),
    "equal-split": ("equal split over all paths", "#555555", ""),
}

PANELS = {
    "cable": "as in the paper: cables, both directions\nadded, cables to hosts included",
    "directed": "links between switches,\neach direction separately",
}

_AXES = {"qps": "QPs of each flow", "epochs": "flowlet epochs", "k": "k, ports of a switch"}
_METRICS = {
    "cv": "CV of link load (std / mean)", "p90": "p90 of link load (flows)",
    "used": "share of links with load",
}  # fmt: skip

#: Number -> (sweep, metric, title).
SWEEP_FIGURES = {
    1: ("qps", "cv", "Load balance against QPs (k = 8, 20 epochs; hollow: 30 epochs)"),
    2: ("qps", "p90", "Tail load against QPs (k = 8, 20 epochs; hollow: 30 epochs)"),
    3: ("epochs", "cv", "Load balance against flowlet epochs (k = 8, 8 QPs)"),
    4: ("epochs", "p90", "Tail load against flowlet epochs (k = 8, 8 QPs)"),
    5: ("k", "cv", "Load balance against fat-tree size (8 QPs, 20 epochs)"),
    6: ("k", "used", "Links used against fat-tree size (8 QPs, 20 epochs)"),
}


def figures(summary: pl.DataFrame, cdf: pl.DataFrame, notes: str) -> Iterator[tuple[str, Figure]]:
    """Draw the figures; yield each with its name."""
    for number, (sweep, metric, title) in SWEEP_FIGURES.items():
        figure, panels = _figure(f"Figure {number}. {title}", notes)
        for basis, axes in panels.items():
            here = summary.filter(pl.col("basis") == basis, pl.col("metric") == metric)
            _draw_sweep(axes, here, sweep)
            axes.set_ylabel(_METRICS[metric])
            if sweep == "k":
                axes.set_ylim(bottom=0)
        legend_below(figure, panels["cable"], 5, 8.5)
        yield f"figure-{number}", figure
    figure, panels = _figure("Figure 7. Distribution of load (k = 8, 8 QPs, 20 epochs)", notes)
    for basis, axes in panels.items():
        _draw_cdf(axes, cdf.filter(pl.col("basis") == basis))
    legend_below(figure, panels["cable"], 5, 8.5)
    yield "figure-7", figure


def _figure(title: str, notes: str) -> tuple[Figure, dict[str, Axes]]:
    figure, panels = with_panels(title, notes, tuple(PANELS.values()), (9.6, 5.2), 0.1)
    return figure, dict(zip(PANELS, panels, strict=True))


def _draw_sweep(axes: Axes, summary: pl.DataFrame, sweep: str) -> None:
    for scheme, (label, colour, marker) in STYLES.items():
        x, mean, half = _line(summary, sweep, sweep, scheme)
        reference = scheme == "equal-split"
        banded(
            axes, x, mean, half, colour, 0.22, marker=marker, markersize=5, label=label,
            linestyle="--" if reference else "-", linewidth=1.2 if reference else 1.6,
            zorder=4 if reference else 3,
        )  # fmt: skip
        if sweep == "qps" and scheme in (Scheme.FLOWLET, Scheme.FLOWLET_E_ECMP):
            x, mean, _ = _line(summary, "qps-30", "qps", scheme)
            axes.plot(
                x, mean, color=colour, marker=marker, markersize=6.5, linestyle=":",
                markerfacecolor="none", linewidth=1, zorder=2,
            )  # fmt: skip
    ticks = summary.filter(pl.col("sweep") == sweep)[sweep].unique().sort().to_list()
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(_AXES[sweep])


def _line(
    summary: pl.DataFrame, sweep: str, column: str, scheme: str
) -> tuple[list[float], list[float], list[float]]:
    here = summary.filter(pl.col("sweep") == sweep, pl.col("scheme") == scheme).sort(column)
    return here[column].to_list(), here["mean"].to_list(), here["ci95"].to_list()


def _draw_cdf(axes: Axes, cdf: pl.DataFrame) -> None:
    for scheme, (label, colour, _) in STYLES.items():
        here = cdf.filter(pl.col("scheme") == scheme)
        reference = scheme == "equal-split"
        banded(
            axes, here["load"].to_numpy(), here["share"].to_numpy(), here["ci95"].to_numpy(),
            colour, 0.22, step="post", label=label, drawstyle="steps-post",
            linestyle="--" if reference else "-", linewidth=1.2 if reference else 1.6,
        )  # fmt: skip
    axes.set_xlabel("link load (flows)")
    axes.set_ylabel("share of links with at most this load")
    axes.set_ylim(0, 1.02)
    # Limit the x axis to loads at which the CDF is neither 0 nor 1.
    seen = cdf.filter(pl.col("share").is_between(0.0005, 0.9995))["load"]
    if len(seen):
        margin = 0.03 * (float(seen.max()) - float(seen.min()))  # type: ignore[arg-type]
        axes.set_xlim(float(seen.min()) - margin, float(seen.max()) + margin)  # type: ignore[arg-type]
