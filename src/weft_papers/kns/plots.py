"""Figures 9 to 17 of the KNS paper (KNS left, tree right), and a figure of other networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft_papers.figure_frame import framed
from weft_papers.kns.benchmarks import BENCHMARKS
from weft_papers.kns.machine import (
    ADAPTERS,
    DRAGONFLY,
    KNS,
    PAPER_ENGINES,
    SLOW_ADAPTERS,
    TREE,
    cabled,
)
from weft_papers.kns.runs import PLACEMENTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of Okabe and Ito (2008); hdor and ftree, each for one topology, share one.
COLOURS = {
    "updn": "#999999",
    "lash": "#E69F00",
    "dfsssp": "#56B4E9",
    "hdor": "#0072B2",
    "ftree": "#0072B2",
}
TITLES = {KNS: "KNS (6-ary 2-direct 1-indirect)", TREE: "slimmed fat tree"}

#: Number -> (title, metrics with the axis labels of their panels).
FIGURES: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "9": ("HPCC: ping-pong bandwidth", (
        ("pingpong-bandwidth-max", "maximum, GB/s"),
        ("pingpong-bandwidth-min", "minimum, GB/s"),
        ("pingpong-bandwidth-avg", "average, GB/s"),
    )),
    "10": ("HPCC: ping-pong latency", (
        ("pingpong-latency-max", "maximum, us"),
        ("pingpong-latency-min", "minimum, us"),
        ("pingpong-latency-avg", "average, us"),
    )),
    "11": ("HPCC: RandomAccess", (
        ("random-access-paced", "at the paper's pace, GUPS"),
        ("random-access", "messages alone, GUPS"),
    )),
    "12": ("HPCC: naturally ordered ring", (("natural-ring-latency", "latency, us"),)),
    "13": ("HPCC: randomly ordered rings", (("random-ring-latency", "latency, us"),)),
    "14": ("HPCC: PTRANS, the exchange alone", (("ptrans", "GB/s"),)),
    "15": ("HPCG", (
        ("hpcg", "GFLOPS, 0.85 per rank"),
        ("hpcg-waiting", "waiting time of the\nbusiest rank, %"),
    )),
    "16": ("Graph500", (
        ("graph500-paced", "processor time half\nof the paper's time, GTEPS"),
        ("graph500", "messages alone, GTEPS"),
    )),
    "17": ("Netgauge: effective bisection bandwidth", (("ebb", "GB/s per rank"),)),
    "rings": ("HPCC: ring bandwidth (not in the paper's figures)", (
        ("natural-ring-bandwidth", "natural order,\nGB/s per rank"),
        ("random-ring-bandwidth", "random order,\nGB/s per rank"),
    )),
}  # fmt: skip
#: Metrics for the comparison of networks beyond the paper, with the labels of their panels.
BEYOND = (
    ("pingpong-latency-avg", "ping-pong latency,\naverage, us"),
    ("random-ring-latency", "random ring\nlatency, us"),
    ("random-ring-bandwidth", "random ring\nbandwidth, GB/s"),
    ("ptrans", "PTRANS, GB/s"),
    ("graph500", "Graph500, GTEPS"),
    ("ebb", "ebb, GB/s"),
)
_BEYOND_ROWS = (
    (KNS, "hdor", "KNS, hdor"),
    (KNS, "hdor-2", "KNS, hdor on 2 lanes"),
    (KNS, "hdor-4", "KNS, hdor on 4 lanes"),
    (KNS, "hdor-8", "KNS, hdor on 8 lanes"),
    (KNS, "dfsssp-few", "KNS, dfsssp, lanes it needs"),
    (KNS, "dfsssp", "KNS, dfsssp on 8 lanes"),
    (ADAPTERS, "hdor", "KNS of adapters (0 ns), hdor"),
    (ADAPTERS, "hdor-8", "KNS of adapters (0 ns), 8 lanes"),
    (SLOW_ADAPTERS, "hdor", "KNS of adapters (100 ns), hdor"),
    (KNS, "lash", "KNS, lash"),
    (cabled(KNS, "in order"), "lash", "KNS cabled in order, lash"),
    (cabled(KNS, "in order"), "dfsssp", "KNS cabled in order, dfsssp"),
    (TREE, "ftree", "tree, ftree"),
    (TREE, "dfsssp-few", "tree, dfsssp on one lane"),
    (TREE, "dfsssp", "tree, dfsssp on 8 lanes"),
    (DRAGONFLY, "updn", "dragonfly, updn"),
    (DRAGONFLY, "lash", "dragonfly, lash"),
    (DRAGONFLY, "dfsssp", "dragonfly, dfsssp"),
)


def figures(results: pl.DataFrame, first: int, notes: str) -> Iterator[tuple[str, Figure]]:
    """Draw the figures whose data are complete; yield each with its name.

    The names have a suffix unless the number of ranks per node is `first`.
    """
    for ranks in results["ranks_per_node"].unique(maintain_order=True).to_list():
        here = results.filter(pl.col("ranks_per_node") == ranks)
        values = by_placement(here)
        suffix = "" if ranks == first else f"-{ranks}-ranks"
        line = f"{ranks} rank{'s' * (ranks > 1)} on each of 36 nodes; {notes}"
        for number, (title, panels) in FIGURES.items():
            if all(_complete(values, metric) for metric, _ in panels):
                head = f"Figure {number}. {title}" if number.isdigit() else title
                yield f"figure-{number}{suffix}", _bars(head, panels, values, line)
        rows = [row for row in _BEYOND_ROWS if all(
            (*row[:2], placement, metric) in values
            for metric, _ in BEYOND for placement in PLACEMENTS
        )]  # fmt: skip
        if any(row[0] == DRAGONFLY for row in rows):
            yield f"beyond{suffix}", _beyond(rows, values, line)


Values = Mapping[tuple[str, str, str, str], NDArray[np.float64]]


def by_placement(results: pl.DataFrame) -> Values:
    """Return (network, engine, placement, metric) -> values per seed, of headline variants."""
    lists: dict[tuple[str, str, str, str], list[float]] = {}
    for row in results.iter_rows(named=True):
        variants = BENCHMARKS[row["benchmark"]].variants_at(row["ranks_per_node"])
        if row["variant"] == next(iter(variants)):
            key = row["network"], row["engine"], row["placement"], row["metric"]
            lists.setdefault(key, []).append(row["value"])
    return {key: np.array(values) for key, values in lists.items()}


def _complete(values: Values, metric: str) -> bool:
    return all(
        (network, engine, placement, metric) in values
        for network, engines in PAPER_ENGINES.items()
        for engine, placement in product(engines, PLACEMENTS)
    )


def _bars(title: str, panels: Sequence[tuple[str, str]], values: Values, notes: str) -> Figure:
    height = 1.0 + 2.4 * len(panels)
    figure = framed(title, notes, (9.0, height), 0.28 / height)
    grid = figure.subplots(len(panels), 2, squeeze=False, sharey="row")
    for number, (row, (metric, label)) in enumerate(zip(grid, panels, strict=True)):
        for axes, (network, engines) in zip(row, PAPER_ENGINES.items(), strict=True):
            _groups(axes, {each: _means(values, network, each, metric) for each in engines})
            if number == 0:
                axes.set_title(TITLES[network], fontsize=10)
        row[0].set_ylabel(label, fontsize=9)
    for axes in grid[-1]:
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, fontsize=8.5, frameon=False,
            handlelength=1.2, columnspacing=1.2,
        )  # fmt: skip
    return figure


def _means(values: Values, network: str, engine: str, metric: str) -> list[float]:
    return [float(values[network, engine, placed, metric].mean()) for placed in PLACEMENTS]


def _groups(axes: Axes, bars: Mapping[str, Sequence[float]]) -> None:
    width = 0.8 / len(bars)
    top = max(map(max, bars.values()))
    for index, (engine, group) in enumerate(bars.items()):
        x = [centre - 0.4 + (index + 0.5) * width for centre in range(len(group))]
        axes.bar(x, group, width * 0.92, color=COLOURS[engine], label=engine)
        for xi, value in zip(x, group, strict=True):
            axes.text(
                xi, value, f"{value:.3g}", ha="center", va="bottom", fontsize=7, color="#333333"
            )
    axes.set_xticks(range(len(PLACEMENTS)), PLACEMENTS, fontsize=9)
    axes.set_ylim(0, max(axes.get_ylim()[1], 1.12 * top))
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


_NETWORK_COLOURS = {
    KNS: "#0072B2",
    cabled(KNS, "in order"): "#56B4E9",
    ADAPTERS: "#009E73",
    SLOW_ADAPTERS: "#009E73",
    TREE: "#D55E00",
    DRAGONFLY: "#CC79A7",
}


def _beyond(rows: Sequence[tuple[str, str, str]], values: Values, notes: str) -> Figure:
    title = "Beyond the paper: hdor with lanes, routing adapters, a dragonfly of 36 hosts"
    height = 1.6 + 0.32 * len(rows)
    figure = framed(title, notes, (11.5, height), 0.28 / height)
    grid = figure.subplots(1, len(BEYOND), sharey=True)
    for axes, (metric, label) in zip(grid, BEYOND, strict=True):
        for y, (network, engine, _) in enumerate(rows):
            linear, random = _means(values, network, engine, metric)
            colour = _NETWORK_COLOURS[network]
            axes.plot([linear, random], [y, y], color=colour, linewidth=1.2, alpha=0.6)
            axes.plot(
                [linear], [y], "o", color=colour, markersize=6,
                markerfacecolor="white", label="linear" if y == 0 else None,
            )  # fmt: skip
            axes.plot(
                [random], [y], "o", color=colour, markersize=4.5,
                label="random" if y == 0 else None,
            )  # fmt: skip
        axes.set_title(label, fontsize=8.5)
        axes.set_xlim(0, axes.get_xlim()[1] * 1.05)
        axes.grid(color="#E5E5E5", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_yticks(range(len(rows)), [label for _, _, label in rows], fontsize=8.5)
    grid[0].invert_yaxis()
    grid[0].legend(loc="lower left", fontsize=7.5, frameon=False)
    return figure
