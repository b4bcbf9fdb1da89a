"""Figures 4 and 6 to 9 of the Routing Keys paper, and a figure that it does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from weft_papers.claims import interval
from weft_papers.figure_frame import banded, legend_below, with_panels
from weft_papers.routing_keys.runs import PAPER, PAPERS, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Policy -> (label, colour of Okabe and Ito 2008, marker, line); NRK's variants share a colour.
STYLES: dict[str, tuple[str, str, str, str]] = {
    "dmodk": ("D-mod-K", "#D55E00", "o", "-"),
    "conga": ("CONGA", "#E69F00", "s", "-"),
    "ark": ("ARK", "#0072B2", "^", "-"),
    "ark-lowest": ("ARK, lowest first", "#0072B2", "v", ":"),
    "ark-all": ("ARK, all colours", "#0072B2", "<", "--"),
    "nrk": ("NRK shift, max", "#009E73", "D", "-"),
    "nrk-greedy": ("NRK shift, greedy colours", "#009E73", "1", ":"),
    "nrk-variance": ("NRK shift, variance", "#009E73", "d", "--"),
    "nrk-optimum": ("NRK optimum, max", "#009E73", "P", ":"),
    "nrk-optimum-variance": ("NRK optimum, variance", "#009E73", "X", "-."),
    "nrk-all": ("NRK, all colours", "#009E73", ">", "--"),
    "ecmp": ("ECMP", "#999999", "*", "-"),
    "adaptive": ("adaptive", "#56B4E9", "h", "-"),
    "spray": ("spray", "#CC79A7", "p", "-"),
    "dfsssp": ("DFSSSP", "#555555", "x", "-"),
    "sar": ("SAR", "#555555", "+", "--"),
    "hedera": ("global first fit", "#F0E442", "s", "--"),
}

_TITLES = {
    "6": "Mixed sizes, 6 applications of 36 ranks",
    "7": "Mixed sizes",
    "8": "Messages of 32 KiB",
    "9": "Equal amounts of data, by message size",
}


def figures(
    summary: pl.DataFrame, contention: pl.DataFrame, notes: str
) -> Iterator[tuple[str, Figure]]:
    """Draw the figures that have data; yield each with its name."""
    if len(contention):
        figure, (axes,) = _figure("Figure 4. Flows on the most loaded link", notes, [""])
        _draw_contention(axes, contention)
        legend_below(figure, axes, 4, 8)
        yield "figure-4", figure
    usual = summary.filter(pl.col("choice") == PAPER)
    for name, title in _TITLES.items():
        here = usual.filter(pl.col("figure") == name)
        if not len(here):
            continue
        counts = here["applications"].unique().sort().to_list()
        figure, panels = _figure(
            f"Figure {name}. {title}", notes, [f"{count} applications" for count in counts]
        )
        for count, axes in zip(counts, panels, strict=True):
            _draw(axes, here.filter(pl.col("applications") == count), name == "9")
        panels[0].set_ylabel("largest communication time, ms")
        legend_below(figure, panels[0], 4, 8)
        yield f"figure-{name}", figure
    here = usual.filter(pl.col("figure") == "latency")
    if len(here):
        utils = here["utilization"].unique().sort().to_list()
        figure, panels = _figure(
            "Latency of the scheduler", notes, [f"utilization {util:.0%}" for util in utils]
        )
        for util, axes in zip(utils, panels, strict=True):
            _draw_latency(axes, here.filter(pl.col("utilization") == util))
        panels[0].set_ylabel("largest communication time, ms")
        legend_below(figure, panels[0], 4, 8)
        yield "latency", figure


def _figure(title: str, notes: str, panels: Sequence[str]) -> tuple[Figure, list[Axes]]:
    return with_panels(title, notes, panels, (max(6.4, 3.8 * len(panels)), 5.2), 0.16)


def _line(
    axes: Axes, policy: str, x: Sequence[float], mean: Sequence[float], half: Sequence[float]
) -> None:
    label, colour, marker, line = STYLES[policy]
    banded(
        axes, x, mean, half, colour, 0.2, marker=marker, markersize=5, label=label, linestyle=line,
        linewidth=1.5,
    )  # fmt: skip


def _draw(axes: Axes, summary: pl.DataFrame, by_size: bool) -> None:
    column = "size_kib" if by_size else "utilization"
    # Policies that the paper does not have are drawn only for the small tree.
    small = summary["tree"].unique().to_list() == [SMALL]
    for policy in STYLES:
        here = summary.filter(pl.col("policy") == policy).sort(column)
        if not len(here) or not (policy in PAPERS or small):
            continue
        _line(
            axes, policy, here[column].to_list(), (here["worst_us"] / 1e3).to_list(),
            (here["worst_ci95"] / 1e3).to_list(),
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    if by_size:
        axes.set_xscale("log", base=2)
        ticks = summary["size_kib"].unique().sort().to_list()
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlabel("message size, KiB" if by_size else "utilization")


def _draw_contention(axes: Axes, contention: pl.DataFrame) -> None:
    for policy in contention["method"].unique(maintain_order=True):
        here = contention.filter(pl.col("method") == policy)
        hosts = here["hosts"].unique().sort().to_list()
        numbers = [
            interval(here.filter(pl.col("hosts") == size)["flows"].to_numpy().astype(float))
            for size in hosts
        ]
        _line(axes, policy, hosts, [float(m) for m, _ in numbers], [float(h) for _, h in numbers])
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("hosts")
    axes.set_ylabel("flows on the most loaded link between switches")


def _draw_latency(axes: Axes, summary: pl.DataFrame) -> None:
    rows = {row["policy"]: row for row in summary.iter_rows(named=True)}
    for before, line in (("wait", "-"), ("base", "--")):
        points = [
            (float(name.partition("latency=")[2].partition("us")[0]), row)
            for name, row in rows.items()
            if name.endswith(f"before={before}")
        ]
        axes.plot(
            [x for x, _ in points], [row["worst_us"] / 1e3 for _, row in points], marker="D",
            color=STYLES["nrk"][1], linestyle=line,
            label=f"NRK, {'wait for the key' if before == 'wait' else 'base routes until then'}",
        )  # fmt: skip
    for policy in ("dmodk", "ark"):
        if policy in rows:
            label, colour, _, _ = STYLES[policy]
            axes.axhline(rows[policy]["worst_us"] / 1e3, color=colour, label=label, linewidth=1.2)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=-0.2)
    axes.set_yscale("log")
    axes.set_xlabel("latency of the scheduler, us each way")
