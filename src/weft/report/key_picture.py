"""`plot_key`: drawing of a routing key, with each flow's path in a colour for its class."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from weft.report.colours import LIGHT_SERIES
from weft.report.figure import NotebookFigure
from weft.report.labels import short_names
from weft.report.layout import layout
from weft.report.picture import cable_curves, plot_fabric
from weft.routing.routes.flows import EndpointFlows
from weft.sim.keys import RoutingKey

#: Largest number of flows that are drawn one by one; more are drawn as loads.
MOST_FLOWS = 60
#: Largest numbers of hosts and of flows for which the hosts are marked with the flow numbers.
MOST_HOSTS_NAMED, MOST_FLOWS_NAMED = 32, 20
#: Largest number of entries in a column of the legend.
_ROWS = 24
#: Points between the lines of flows on one cable.
_APART = 3.0
#: Colour of flows within a leaf switch.
_WITHIN = LIGHT_SERIES[-1]


def plot_key(
    key: RoutingKey, *, title: str | None = None, size_inches: tuple[float, float] = (12.0, 6.5)
) -> NotebookFigure:
    """Draw the paths of a key; if there are more than `MOST_FLOWS`, draw the loads of links.

    A dot marks the source of a flow, and a ring its destination; if there are few flows, the number
    of the flow is beside both. Flows on one cable, in either direction, are drawn side by side.

    `title`: heading; by default, what the key guarantees.
    """
    fabric = key.fabric
    if title is None:
        title = f"{fabric.name}, routing key {key.name}: {key.guarantee}"
    flow, offset, links = drawn_paths(key)
    if len(flow) > MOST_FLOWS:
        # The scale goes to 2 at least, so that a single flow does not look like the largest load.
        figure = plot_fabric(
            fabric, np.bincount(links, minlength=fabric.num_links), title=title, most=2.0,
            quantity="flows on a link", size_inches=size_inches,
            label_busiest=3 if key.worst > 1 else 0,
        )  # fmt: skip
        figure.axes[1].yaxis.set_major_locator(MaxNLocator(integer=True))
        return figure
    figure = plot_fabric(fabric, title=title, size_inches=size_inches)
    owner = np.repeat(np.arange(len(flow)), np.diff(offset))
    paints = _paints(key.num_colours)
    paint = [paints[colour] if colour >= 0 else _WITHIN for colour in key.colour[flow]]
    axes: Any = figure.axes[0]
    _draw_paths(axes, key, owner, links, paint)
    _mark_ends(axes, key, flow, paint)
    handles: list[Any] = [
        Line2D([], [], color=paints[colour], linewidth=2.5, label=label)
        for colour, label in enumerate(colour_labels(key))
    ]
    if np.any(key.colour[flow] < 0):
        handles.append(Line2D([], [], color=_WITHIN, linewidth=2.5, label="within a leaf switch"))
    common: dict[str, Any] = {"color": "#24292f", "linestyle": "none", "marker": "o"}
    handles.append(Line2D([], [], **common, markersize=4, label="source"))
    handles.append(Line2D([], [], **common, markersize=7, fillstyle="none", label="destination"))
    figure.legend(
        handles=handles, loc="outside right upper", frameon=False, fontsize=8,
        ncols=-(-len(handles) // _ROWS),
    )  # fmt: skip
    return figure


def drawn_paths(key: RoutingKey) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int32]]:
    """Return the flows that have a path of their own, and the links of these paths.

    Flows between the same two hosts share a path, and a flow within a host has none.

    Returns int64 [paths], the first flow of each path; and offsets, int [paths + 1], into the links
    of all paths.
    """
    moving = np.flatnonzero(key.endpoints[0] != key.endpoints[1])
    _, first = np.unique(key.endpoints[:, moving], axis=1, return_index=True)
    flow = np.sort(moving[first])
    ends = key.endpoints[:, flow]
    none = np.zeros(0, dtype=np.int32)
    flows = EndpointFlows(ends[0], ends[1], none, np.arange(len(flow), dtype=np.int32), np.zeros(0))
    return flow, *key.routes.links(key.fabric, flows)


def _draw_paths(
    axes: Any, key: RoutingKey, owner: NDArray[np.int64], links: NDArray[np.int32], paint: list[str]
) -> None:
    """Draw the links of flows, with those on one cable side by side."""
    curves = cable_curves(key.fabric, layout(key.fabric))
    cable = links >> 1
    order = np.lexsort((owner, links))
    sorted_cable = cable[order]
    count = np.bincount(cable, minlength=key.fabric.num_cables)
    place = np.arange(len(order)) - np.searchsorted(sorted_cable, sorted_cable)
    shift = place - (count[sorted_cable] - 1) / 2
    for each in np.unique(shift):
        mine = order[shift == each]
        points = ScaledTranslation(_APART * each / 72, 0.0, axes.figure.dpi_scale_trans)
        axes.add_collection(
            LineCollection(
                list(curves[cable[mine]]), colors=[paint[at] for at in owner[mine]], linewidths=1.6,
                capstyle="round", zorder=2, transform=axes.transData + points,
            ),
            autolim=False,
        )  # fmt: skip


def _mark_ends(axes: Any, key: RoutingKey, flow: NDArray[np.int64], paint: list[str]) -> None:
    """Mark the hosts of flows, and write the flows' numbers if there are few hosts."""
    fabric = key.fabric
    position = layout(fabric).position[fabric.num_switches :]
    small = fabric.num_hosts <= MOST_HOSTS_NAMED and len(flow) <= MOST_FLOWS_NAMED
    for ends, ring in ((key.sources[flow], False), (key.destinations[flow], True)):
        axes.scatter(
            *position[ends].T, s=(18, 55)[ring] if small else (8, 26)[ring], zorder=3,
            linewidths=1.4 * ring, facecolors="none" if ring else paint, edgecolors=paint,
        )  # fmt: skip
        for host in np.unique(ends) if small else ():
            mine = np.flatnonzero(ends == host)
            numbers = ",".join(str(number) for number in flow[mine] + 1)
            axes.annotate(
                f"→{numbers}" if ring else f"{numbers}→", position[host],
                xytext=(0, -18 if ring else -8), textcoords="offset points", ha="center", va="top",
                fontsize=7, color=paint[mine[0]], zorder=4, parse_math=False,
            )  # fmt: skip


def _paints(count: int) -> list[str]:
    """Return a number of different colours, those of charts if there are enough."""
    if count < len(LIGHT_SERIES):
        return list(LIGHT_SERIES[:count])
    some = matplotlib.colormaps["turbo"](np.linspace(0.04, 0.96, count))
    return [matplotlib.colors.to_hex(each) for each in some]


def colour_labels(key: RoutingKey) -> list[str]:
    """Return the label of each colour: its number, and its switch if there is only one."""
    names = short_names(key.fabric.node_names)
    first = np.atleast_2d(key.middle.T)[:1].reshape(-1)
    labels = []
    for colour in range(key.num_colours):
        switches = np.unique(first[key.colour == colour])
        only = f": {names[int(switches[0])]}" if len(switches) == 1 else ""
        labels.append(f"colour {colour}{only}")
    return labels
