"""Figures 9 to 19 of the QsNET paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from weft_papers.figure_frame import with_panels
from weft_papers.qsnet.runs import IO_LOADS, KIB, MAPPINGS, OPTIMAL, OTHERS, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of Okabe and Ito 2008, and markers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#555555")
MARKERS = "os^Dvph"


def figures(
    summary: pl.DataFrame, nodes: pl.DataFrame, matrices: pl.DataFrame, notes: str
) -> Iterator[tuple[str, Figure]]:
    """Draw the figures that have data; yield each with its name."""
    usual = summary.filter(pl.col("choice") == PAPER)
    if len(usual.filter(pl.col("figure").is_in(["9", "10"]))):
        yield "figure-9-10", _pings(usual, notes)
    if len(usual.filter(figure="11")):
        yield "figure-11-12", _uniform(usual, notes)
    if len(usual.filter(figure="13")):
        yield "figure-13-14", _permutations(usual, notes)
    if len(matrices):
        yield "figure-15", _matrices(matrices, notes)
    if len(usual.filter(figure="16")):
        yield "figure-16", _hot_spot(usual, nodes, notes)
    if len(usual.filter(pl.col("figure").is_in(["17", "18"]))):
        yield "figure-17-18", _servers(usual, notes)
    if len(usual.filter(figure="19")):
        yield "figure-19", _jobs(usual, notes)


def _figure(title: str, notes: str, panels: Sequence[str]) -> tuple[Figure, list[Axes]]:
    return with_panels(title, notes, panels, (max(6.4, 4.4 * len(panels)), 4.6), 0.05)


def _panel(
    axes: Axes,
    lines: Iterable[tuple[str, pl.DataFrame]],
    x: str,
    label: str,
    printed: Sequence[float] = (),
    y: str = "mb_s",
) -> None:
    """Draw rows of the summary as lines with intervals, and printed numbers as dotted lines."""
    for number, (name, rows) in enumerate(lines):
        here = rows.sort(x)
        if len(here):
            axes.errorbar(
                here[x].to_list(), here[y].to_list(),
                yerr=here["ci95"].to_list() if y == "mb_s" else None, label=name, linestyle="-",
                color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)],
                markersize=4.5, linewidth=1.4, elinewidth=1, capsize=2,
            )  # fmt: skip
    for number, value in enumerate(printed):
        axes.axhline(
            value, color="#999999", linestyle=":", linewidth=1.3,
            label=None if number else "printed",
        )  # fmt: skip
    axes.set_xlabel(label)
    axes.set_ylabel("MB/s" if y == "mb_s" else "us")
    axes.set_ylim(bottom=0)
    if x == "size_bytes" and y == "mb_s":
        axes.set_xscale("log", base=2)
        ticks = {KIB: "1 Ki", 4 * KIB: "4 Ki", 16 * KIB: "16 Ki", 64 * KIB: "64 Ki"}
        axes.set_xticks([64, *ticks, 256 * KIB], ["64", *ticks.values(), "256 Ki"])
        axes.set_xlim(left=KIB / 2)
        axes.minorticks_off()
    axes.legend(fontsize=7.5, frameon=False)


def _pings(usual: pl.DataFrame, notes: str) -> Figure:
    figure, (one, late, both) = _figure(
        "Figures 9 and 10. Ping", notes, ["one way", "latency", "both ways"]
    )
    ping = usual.filter(figure="9", library="elan3lib").filter(pl.col("size_bytes") > 0)
    small = usual.filter((pl.col("figure") == "9") & (pl.col("size_bytes") <= 4 * KIB))
    for axes, rows, printed in (
        (one, ping, (335, 200)), (both, usual.filter(figure="10"), (280, 80))
    ):  # fmt: skip
        lines = [(f"{name} memory", rows.filter(memory=name.lower())) for name in ("Elan", "main")]
        _panel(axes, lines, "size_bytes", "message, bytes", printed)
    libraries = [(name, small.filter(library=name, memory="elan")) for name in ("elan3lib", "mpi")]
    _panel(late, libraries, "size_bytes", "message, bytes", (2.2, 2.4, 5.5), "time_us")
    one.set_xlim(left=48)
    return figure


def _uniform(usual: pl.DataFrame, notes: str) -> Figure:
    figure, (curve, scale, size) = _figure(
        "Figures 11 and 12. Uniform traffic", notes,
        ["accepted and offered load, messages of 16 KiB", "maximum bandwidth", "64 nodes"],
    )  # fmt: skip
    here = usual.filter(figure="11")
    loads = here.filter(pl.col("offered_mb_s").is_not_null())
    by_nodes = [(f"{nodes} nodes", loads.filter(nodes=nodes)) for nodes in (16, 32, 64)]
    _panel(curve, by_nodes, "offered_mb_s", "offered, MB/s")
    full = here.filter(pl.col("offered_mb_s").is_null())
    by_kind = [
        (f"{sizes} sizes, {times} times", full.filter(sizes=sizes, times=times))
        for sizes, times in here.select("sizes", "times").unique(maintain_order=True).iter_rows()
    ]
    _panel(scale, by_kind, "nodes", "nodes", (120,))
    by_size = [("exponential", usual.filter(figure="12"))]
    _panel(size, by_size, "size_bytes", "mean message, bytes")
    return figure


def _permutations(usual: pl.DataFrame, notes: str) -> Figure:
    figure, (curve, size) = _figure(
        "Figures 13 and 14. Permutations on 64 nodes", notes,
        ["accepted and offered load; right: maximum", "maximum bandwidth"],
    )  # fmt: skip
    filled = usual.with_columns(pl.col("offered_mb_s").fill_null(300.0))
    for axes, number, x, label in (
        (curve, "13", "offered_mb_s", "offered, MB/s"),
        (size, "14", "size_bytes", "mean message, bytes"),
    ):
        lines = [(name, filled.filter(figure=number, traffic=name)) for name in OPTIMAL + OTHERS]
        _panel(axes, lines, x, label, (280, 200, 165))
    return figure


def _matrices(matrices: pl.DataFrame, notes: str) -> Figure:
    """Draw each switch as a block: links from above, the switch, links from below."""
    names = matrices["traffic"].unique(maintain_order=True).to_list()
    figure, panels = _figure("Figure 15. Congestion matrices, shares in percent", notes, names)
    for axes, name in zip(panels, names, strict=True):
        here = matrices.filter(traffic=name)
        levels = int(here["level"].max())  # type: ignore[arg-type]
        columns = 1 + int(here["column"].max())  # type: ignore[arg-type]
        wide = len(here.filter(level=1, side="lower")) // columns
        cells = np.full((4 * levels - 1, (wide + 1) * columns), np.nan)
        for level, column, side in product(range(levels), range(columns), ("upper", "lower")):
            links = here.filter(level=level + 1, column=column, side=side)
            row, first = 4 * (levels - 1 - level), (wide + 1) * column
            shares = links["share"].to_numpy()
            cells[row + 2 * (side == "lower"), first : first + len(shares)] = shares
            if len(links):
                cells[row + 1, first : first + wide] = links["switch_share"][0]
        image = axes.imshow(100 * cells, cmap="YlOrRd", aspect="auto", vmin=0, vmax=100)
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.set_yticks(range(1, 4 * levels, 4), [f"level {levels - n}" for n in range(levels)])
    figure.colorbar(image, ax=panels, label="wait: above, of the switch, below (%)")
    return figure


def _hot_spot(usual: pl.DataFrame, nodes: pl.DataFrame, notes: str) -> Figure:
    figure, (total, each) = _figure(
        "Figure 16. Write hot spot", notes, ["bandwidth of the hot node", "64 nodes, each source"]
    )
    here = usual.filter(figure="16")
    kinds = [
        (f"{kind} sizes and times", here.filter(sizes=kind)) for kind in ("exponential", "uniform")
    ]
    _panel(total, kinds, "nodes", "nodes", (337, 310))
    for number, choice in enumerate((PAPER, "round robin")):
        rows = nodes.filter(choice=choice)
        each.plot(
            rows["node"].to_list(), rows["mb_s"].to_list(), linestyle="", markersize=4,
            marker=MARKERS[number], color=COLOURS[number], label=choice,
        )  # fmt: skip
    for low, high, value in ((1, 3, 8.0), (4, 15, 4.8), (16, 63, 4.3)):
        label = "printed" if low == 1 else None
        each.plot([low, high], [value, value], color="#999999", linestyle=":", label=label)
    each.set_yscale("log")
    each.set_xlabel("node")
    each.set_ylabel("MB/s")
    each.legend(fontsize=7.5, frameon=False)
    return figure


def _servers(usual: pl.DataFrame, notes: str) -> Figure:
    printed = {"clustered": (196, 320), "distributed": (234, 338)}
    figure, panels = _figure("Figures 17 and 18. Eight I/O nodes, 64 nodes", notes, list(printed))
    # What clients offer, for each I/O node; at the right the maximum.
    offered = pl.col("offered_mb_s").fill_null(400.0 * 8 / 56) * 56 / 8
    for axes, mapping in zip(panels, printed, strict=True):
        lines = [
            (f"{kind}, {'dedicated' if dedicated else 'shared'}",
             usual.filter(figure=name, mapping=mapping, dedicated=dedicated, write_share=1.0)
             .with_columns(offered))
            for name, kind in (("17", "random"), ("18", "deterministic"))
            for dedicated in (True, False)
        ]  # fmt: skip
        label = "offered to each I/O node, MB/s; right: maximum"
        _panel(axes, lines, "offered_mb_s", label, printed[mapping])
    return figure


def _jobs(usual: pl.DataFrame, notes: str) -> Figure:
    figure, panels = _figure(
        "Figure 19. Compute job beside an I/O job", notes, ["shared I/O nodes", "dedicated"]
    )
    for axes, dedicated in zip(panels, (False, True), strict=True):
        here = usual.filter(figure="19", dedicated=dedicated)
        lines = [(mapping, here.filter(mapping=mapping)) for mapping in MAPPINGS]
        _panel(axes, lines, "io_load", "load of the I/O job", (130,))
        axes.set_xticks([0.0, *IO_LOADS])
    return figure
