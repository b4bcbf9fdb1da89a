"""`plot`: drawing of a fabric with its cables coloured by load."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric, LinkKind, NodeKind
from weft.report.colours import LIGHT_IDLE, LIGHT_PART, scale
from weft.report.figure import NotebookFigure
from weft.report.labels import short_names
from weft.report.layout import Layout, layout

#: Number of straight pieces of a bent cable.
PIECES = 16
#: Largest number of hosts that are drawn, with their cables.
MAX_HOSTS = 4000
#: Largest number of switches that are labelled.
MAX_NAMED = 48


def cable_curves(fabric: Fabric, drawing: Layout) -> NDArray[np.float64]:
    """Return the curve of each cable, float64 [cables, PIECES + 1, 2]."""
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2]))
    start, end = drawing.position[ends.min(axis=0)], drawing.position[ends.max(axis=0)]
    along = end - start
    left = np.stack((-along[:, 1], along[:, 0]), axis=1)
    control = (start + end) / 2 + drawing.bend[:, None] * left
    t = np.linspace(0.0, 1.0, PIECES + 1)[None, :, None]
    curve: NDArray[np.float64] = (
        (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * control[:, None] + t**2 * end[:, None]
    )
    return curve


def plot_fabric(
    fabric: Fabric,
    load: ArrayLike | None = None,
    *,
    title: str = "",
    quantity: str = "load (flows per fastest host cable)",
    label_busiest: int = 3,
    most: float = 0.0,
    size_inches: tuple[float, float] = (12.0, 6.5),
) -> NotebookFigure:
    """Draw a fabric; if `load` is given, colour each cable by its link of higher load.

    - `load`, float [links]: as `weft.link_loads` returns it; if None, all cables have one colour.
    - `title`: heading; empty for none.
    - `quantity`: name and unit of `load`, for the colour bar.
    - `label_busiest`: number of links to label, the most loaded first. Only links between switches
      are labelled; if there are none, other links are.
    - `most`: load of the last colour, unless the largest load exceeds it.
    """
    loads = np.zeros(fabric.num_links) if load is None else np.asarray(load, dtype=np.float64)
    if loads.shape != (fabric.num_links,) or not np.all(np.isfinite(loads)) or loads.min() < 0:
        raise InputError(
            f"load must be {fabric.num_links} finite numbers of at least 0, one per link"
        )
    drawing = layout(fabric)
    cable = loads.reshape(-1, 2).max(axis=1)
    adapter = fabric.node_kind != NodeKind.SWITCH
    hosts_shown = fabric.num_hosts <= MAX_HOSTS
    to_host = fabric.link_kind[0::2] != LinkKind.SWITCH_SWITCH
    shown = np.flatnonzero(hosts_shown | ~to_host | ~adapter.any())
    shown = shown[np.argsort(cable[shown], kind="stable")]

    figure = NotebookFigure(size_inches)
    axes = figure.add_subplot()
    axes.set_aspect("equal" if drawing.kind != "levels" else "auto")
    axes.axis("off")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold", parse_math=False)
    top = float(cable[shown].max(initial=most)) or 1.0
    colours = ListedColormap(scale(LIGHT_PART))
    curves = cable_curves(fabric, drawing)
    idle, shown = shown[cable[shown] == 0], shown[cable[shown] > 0]
    axes.add_collection(
        LineCollection(
            list(curves[idle]),
            colors=LIGHT_IDLE,
            zorder=0.9,
            linewidths=float(np.clip(900 / max(len(idle), 1), 0.15, 0.6)),
        )
    )
    lines = LineCollection(
        list(curves[shown]),
        cmap=colours,
        norm=Normalize(0.0, top),
        linewidths=_widths(cable[shown] / top, to_host[shown]),
        capstyle="round",
        zorder=1,
    )
    lines.set_array(cable[shown])
    axes.add_collection(lines)
    labels = short_names(fabric.node_names)
    _nodes(axes, fabric, drawing, hosts_shown, labels)
    _busiest(axes, fabric, curves, loads, to_host, label_busiest, labels)
    axes.autoscale_view()
    axes.margins(0.03)
    if load is not None:
        bar = figure.colorbar(lines, ax=axes, shrink=0.7, pad=0.01, aspect=30)
        bar.set_label(quantity)
        bar.outline.set_visible(False)
    return figure


def _widths(share: NDArray[np.float64], to_host: NDArray[np.bool_]) -> NDArray[np.float64]:
    thick = float(np.clip(45.0 / np.sqrt(max(len(share), 1)), 0.7, 3.2))
    # Routing does not change the load of cables to hosts: draw them thinner.
    return (0.2 * thick + thick * share**2) * np.where(to_host, 0.5, 1.0)


def _nodes(
    axes: Any, fabric: Fabric, drawing: Layout, hosts_shown: bool, labels: list[str]
) -> None:
    switch = fabric.node_kind == NodeKind.SWITCH
    at = drawing.position
    size = float(np.clip(1200 / max(int(switch.sum()), 1), 5, 60))
    axes.scatter(*at[switch].T, s=size, marker="s", c="#24292f", linewidths=0, zorder=3)
    if hosts_shown:
        size = float(np.clip(1500 / max(int((~switch).sum()), 1), 1.5, 14))
        axes.scatter(*at[~switch].T, s=size, c="#6b7480", linewidths=0, zorder=2.5)
    if switch.sum() <= MAX_NAMED:
        for node in np.flatnonzero(switch):
            axes.annotate(
                labels[node],
                at[node],
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color="#24292f",
                zorder=4,
                parse_math=False,
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
            )


def _busiest(
    axes: Any,
    fabric: Fabric,
    curves: NDArray[np.float64],
    loads: NDArray[np.float64],
    to_host: NDArray[np.bool_],
    count: int,
    labels: list[str],
) -> None:
    links = np.flatnonzero(~np.repeat(to_host, 2))
    if not len(links):
        links = np.arange(fabric.num_links)
    links = links[np.argsort(-loads[links], kind="stable")][:count]
    low, high = curves[..., 1].min(), curves[..., 1].max()
    upper = low + 0.7 * (high - low)  # labels of cables above this height are below them
    for index, link in enumerate(links[loads[links] > 0]):
        # Staggered, so that labels of neighbouring cables do not overlap.
        curve = curves[link >> 1]
        tail, head = (
            f"{labels[node]}[{port}]"
            for node, port in (
                (fabric.link_from[link], fabric.link_from_port[link]),
                (fabric.link_to[link], fabric.link_to_port[link]),
            )
        )
        axes.annotate(
            f"{tail} -> {head}  {loads[link]:.4g}",
            curve[PIECES // 2],
            xytext=(14, (26 + 20 * index) * (-1 if curve[PIECES // 2, 1] > upper else 1)),
            textcoords="offset points",
            fontsize=8,
            color="#1b1f24",
            zorder=5,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0.0, 0.5),
                "color": "#1b1f24",
                "linewidth": 0.8,
            },
            bbox={"boxstyle": "round,pad=0.3", "fc": "#fffbe6", "ec": "#1b1f24", "linewidth": 0.6},
        )
