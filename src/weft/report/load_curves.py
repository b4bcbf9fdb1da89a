"""Load-latency curves: mean and tail latency, and accepted load, over offered load."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from weft.core.errors import InputError
from weft.report.colours import LIGHT_SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weft.report.figure import NotebookFigure

#: Suffixes of figure files.
SUFFIXES = (".png", ".svg", ".pdf")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#555d66"
#: Columns that distinguish curves, in the order of labels.
_AXES = (
    "fabric", "engine", "routing", "policy", "pattern", "size_bytes", "size", "reply", "hardware",
    "router", "level", "rate_gbps",
)  # fmt: skip
#: Those that a title leaves out.
_UNTITLED = ("reply", "level", "rate_gbps")
_USUAL = (None, "deterministic", "usual")
#: Letters in a line of the title.
MOST_LETTERS = 110
#: Number of curves per row of the legend.
_IN_A_ROW = 2


def load_curves(
    sweeps: pl.DataFrame | Sequence[pl.DataFrame], labels: Sequence[str] | None = None
) -> NotebookFigure:
    """Return a figure of the curves of one or more sweeps.

    Over the measured offered load, the left panel shows latency (the mean with its 95 % interval as
    a solid line, the 99th percentile dashed), and the right panel accepted load. A latency curve
    rises to the top at the first saturated point, whose latency depends on the length of the run.

    `sweeps`: frames of `weft.sim.sweep.SWEEP_COLUMNS`, or of
    `weft.sim.sweep.flits.TRAFFIC_COLUMNS`; every combination of fabric, engine or routing, policy,
    pattern, size, hardware, routers, level and rate is a curve. Rows without a result are left out.
    `labels`: labels of the curves, in order. Default: the values that distinguish them.
    """
    from matplotlib.lines import Line2D

    from weft.report.figure import NotebookFigure

    frames = [sweeps] if isinstance(sweeps, pl.DataFrame) else list(sweeps)
    rows, unit = _drawn(pl.concat(frames)) if frames else (None, "")
    if rows is None or rows.is_empty():
        raise InputError("nothing to draw: no run has a result")
    curves = rows.partition_by(*_axes(rows), maintain_order=True)
    names = _labels(curves) if labels is None else list(labels)
    if len(names) != len(curves):
        raise InputError(f"expected {len(curves)} labels, one per curve, not {len(names)}")

    figure = NotebookFigure((10.4, 5.4))
    lines = -(-len(curves) // _IN_A_ROW)
    strip = 0.045 * lines + 0.06
    # Reserve a strip below the panels for the legend and the note.
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))  # type: ignore[union-attr, call-arg]
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    known = rows.filter(~pl.col("saturated"))
    top = _draw_limits(left, known if len(known) else rows)
    ends = max(float(rows["offered_load"].max()), 0.1) * 1.04  # type: ignore[arg-type]
    for number, curve in enumerate(curves):
        colour = LIGHT_SERIES[number % len(LIGHT_SERIES)]
        marker = _MARKERS[number % len(_MARKERS)]
        data = curve.sort("offered_load")
        _draw_latency(left, data, top, colour, marker)
        _draw_accepted(right, data, colour, marker)
    right.plot([0, ends], [0, ends], color=_GREY, linewidth=0.9, linestyle=":", zorder=1)
    left.set_ylabel(f"latency ({unit})")
    right.set_ylabel("accepted load")
    right.set_ylim(0, ends)
    rate = rows["rate_gbps"].unique().to_list() if "rate_gbps" in rows.columns else []
    of = f" (of {rate[0]:g} Gb/s)" if len(rate) == 1 else ""
    of = " (flits per cycle and endpoint)" if unit == "cycles" else of
    for axes in (left, right):
        axes.set_xlabel(f"offered load{of}")
        axes.set_xlim(0, ends)
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(textwrap.fill(_title(rows), MOST_LETTERS), fontsize=12)
    handles = [
        Line2D(
            [], [], color=LIGHT_SERIES[i % len(LIGHT_SERIES)], marker=_MARKERS[i % len(_MARKERS)],
            markersize=5, linewidth=1.6, label=name,
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    figure.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 0.045), ncols=_IN_A_ROW,
        fontsize=9, frameon=False,
    )  # fmt: skip
    figure.text(
        0.5, 0.012,
        "solid: mean with its 95 % interval; dashed: 99th percentile; dotted, hollow: saturated",
        fontsize=8, color=_GREY, ha="center", va="bottom",
    )  # fmt: skip
    return figure


def write_load_curves(
    sweeps: pl.DataFrame | Sequence[pl.DataFrame],
    path: str | Path,
    labels: Sequence[str] | None = None,
) -> None:
    """Draw curves to a PNG, SVG or PDF file.

    `sweeps`, `labels`: as for `load_curves`.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    load_curves(sweeps, labels).write(path, dpi=130, format=suffix[1:])


def _drawn(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return rows with the columns `mean`, `half`, `tail` and `saturated`; and the unit of time."""
    cycles = "latency_mean_cycles" in rows.columns
    unit, scale = ("cycles", 1.0) if cycles else ("ns", 1e3)
    names = {"mean": "latency_mean", "half": "latency_ci95", "tail": "latency_p99"}
    rows = rows.with_columns(
        **{name: pl.col(f"{column}_{unit}") / scale for name, column in names.items()}
    )
    if cycles:
        rows = rows.with_columns(saturated=~pl.col("settled"))
    known = pl.col("offered_load").is_not_null() & pl.col("mean").is_not_null()
    return rows.filter(known), "cycles" if cycles else "us"


def _axes(rows: pl.DataFrame) -> list[str]:
    return [name for name in _AXES if name in rows.columns]


def _draw_limits(axes: Axes, rows: pl.DataFrame) -> float:
    """Scale the axis of latency to the unsaturated points; return its upper limit."""
    low = float(rows["mean"].min())  # type: ignore[arg-type]
    tails = rows.select(pl.max_horizontal("mean", "tail").max()).item()
    top = max(float(tails) * 1.5, 4 * low)
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if top / low < 50:
        steps = [m * 10.0**e for e in range(-3, 7) for m in (1, 2, 5)]
        axes.set_yticks([step for step in steps if low / 1.3 <= step <= top])
        axes.minorticks_off()
    return top


def _draw_latency(axes: Axes, data: pl.DataFrame, top: float, colour: str, marker: str) -> None:
    steady = data.filter(~pl.col("saturated"))
    x = steady["offered_load"].to_numpy()
    mean = steady["mean"].to_numpy()
    half = steady["half"].fill_null(0.0).to_numpy()
    axes.plot(x, mean, color=colour, marker=marker, markersize=4.5, linewidth=1.6, zorder=3)
    axes.fill_between(
        x, np.maximum(mean - half, mean / 100), mean + half, color=colour, alpha=0.2, linewidth=0
    )
    tail = steady["tail"].fill_null(np.nan).to_numpy()
    axes.plot(x, tail, color=colour, linewidth=1.0, linestyle=(0, (4, 2)), zorder=2)
    past = data.filter(pl.col("saturated"))
    if len(past):
        first = float(past["offered_load"][0])
        if len(x) and x[-1] < first:
            axes.plot(
                [x[-1], first], [mean[-1], top], color=colour, linewidth=1.2,
                linestyle=(0, (1, 1.5)), zorder=2,
            )  # fmt: skip
        axes.plot(
            [first], [top], color=colour, marker=marker, markersize=6, markerfacecolor="white",
            clip_on=False, zorder=4,
        )  # fmt: skip


def _draw_accepted(axes: Axes, data: pl.DataFrame, colour: str, marker: str) -> None:
    x, y = data["offered_load"].to_numpy(), data["accepted_load"].to_numpy()
    past = data["saturated"].to_numpy()
    axes.plot(x, y, color=colour, linewidth=1.6, zorder=3)
    axes.plot(x[~past], y[~past], color=colour, marker=marker, markersize=4.5, linestyle="")
    axes.plot(
        x[past], y[past], color=colour, marker=marker, markersize=5.5, markerfacecolor="white",
        linestyle="", zorder=4,
    )  # fmt: skip


def _distinct(rows: pl.DataFrame, name: str) -> list[Any]:
    return rows[name].unique(maintain_order=True).to_list()


def _labels(curves: Sequence[pl.DataFrame]) -> list[str]:
    """Return the values that distinguish the curves, or else fabric and engine."""
    rows = pl.concat(curves)
    varying = [name for name in _axes(rows) if len(_distinct(rows, name)) > 1]
    varying = varying or ["fabric", "engine", "routing"]
    return [
        ", ".join(
            _text(name, curve[name][0])
            for name in varying
            # A curve has either of these.
            if name not in ("engine", "routing") or curve[name][0] is not None
        )
        for curve in curves
    ]


def _title(rows: pl.DataFrame) -> str:
    """Return the values that all curves have in common, without defaults."""
    named = [name for name in _axes(rows) if name not in _UNTITLED]
    common = [name for name in named if len(_distinct(rows, name)) == 1]
    values = [(name, rows[name][0]) for name in common if rows[name][0] not in _USUAL]
    return ", ".join(_text(name, value) for name, value in values)


def _text(name: str, value: Any) -> str:
    if name == "size_bytes":
        return f"messages of {value:,} B"
    if name == "size":
        return f"packets of {value} flit{'s' * (value != '1')}"
    if name == "reply":
        return f"replies of {value:,} flits" if value else "no replies"
    if name == "rate_gbps":
        return f"{value:g} Gb/s"
    if name in ("hardware", "router"):
        return f"default {name}" if value in _USUAL else str(value)
    if name == "routing":
        return f"routing {value}"
    return "-" if value is None else str(value)
