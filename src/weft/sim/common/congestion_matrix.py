"""`congestion_matrix`: where packets wait, as a table of switches by level and of links.

The matrix is that of Petrini, Frachtenberg, Hoisie and Coll, "Performance Evaluation of the
Quadrics Interconnection Network" (2003), section 5.4: a block for each switch with the waits of
packets by the link over which they came in, from above on the upper side and from below on the
lower side, and their sum in the centre.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import finite_numbers
from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.words import natural_rank
from weft.fabrics import Fabric, NodeKind
from weft.routing.tree_levels import found_levels, labelled_levels

#: Sides of a block.
SIDES = ("upper", "lower")

#: Columns of `congestion_matrix`, one row for each link into a switch.
CONGESTION_MATRIX_COLUMNS: Mapping[str, Column] = {
    "level": Column(
        pl.Int32, "", "Level of the switch, from 1 at the hosts (null: the fabric has no levels)"
    ),
    "column": Column(
        pl.Int32, "", "Position of the switch in its level, in natural order of names, from 0"
    ),
    "node": Column(pl.Int32, "", "Switch, or host that forwards, at the far end of the link"),
    "node_name": Column(pl.String, "", "Name of the switch"),
    "side": Column(
        pl.String,
        "",
        "lower: the link comes from a lower level or from an adapter; upper: from another switch",
    ),
    "port": Column(pl.Int32, "", "Input port of the switch (0: from the adapter inside a host)"),
    "link": Column(pl.Int32, "", "Directed link (as in `Fabric.links`; links inside hosts follow)"),
    "name": Column(pl.String, "", "Output port and input port of the link"),
    "wait_ns": Column(pl.Float64, "ns", "Total wait in the switch of packets from the link"),
    "share": Column(pl.Float64, "", "wait_ns over that of the most loaded link (0: no waits)"),
    "switch_wait_ns": Column(pl.Float64, "ns", "Sum of wait_ns of the switch"),
    "switch_share": Column(
        pl.Float64, "", "switch_wait_ns over that of the most loaded switch (0: no waits)"
    ),
}
#: Columns of waits.
WAITS = ("wait_ns", "switch_wait_ns")


class WithCongestionMatrix:
    """Congestion matrix of a result, whose class defines `fabric` and `_waits_ns`."""

    fabric: Fabric

    def link_name(self, link: int) -> str:
        """Return the name of a directed link."""
        return self.fabric.link_name(link)

    @property
    def link_names(self) -> NDArray[np.object_]:
        """Names of all directed links of the run."""
        return self.fabric.link_names

    def _waits_ns(self) -> NDArray[np.float64]:
        """Return `wait_ns` of `congestion_matrix`."""
        raise TypeError(f"{type(self).__name__} does not define _waits_ns")

    def congestion_matrix(self) -> pl.DataFrame:
        """Return where packets wait: one row for each link into a switch.

        See `weft.sim.common.congestion_matrix.CONGESTION_MATRIX_COLUMNS`.

        The wait of a packet in a switch is assigned to the link over which it came in. Waits in
        adapters are excluded; those of packets that are still in a buffer when a run is stopped are
        included at the flit level only.
        """
        return congestion_matrix(self.fabric, self._waits_ns(), self.link_names)


def congestion_matrix(
    fabric: Fabric, wait_ns: ArrayLike, link_names: NDArray[np.object_] | None = None
) -> pl.DataFrame:
    """Return the congestion matrix of a run.

    Levels are those of the fabric or, without labels, distances from the nearest host. In a fabric
    without levels, all switches are in one row: waits and their shares do not depend on levels, so
    the matrix still shows the congested switches and links.

    `wait_ns`, float [links]: total wait of packets that came over each link, in the buffer at its
    far end. The links inside hosts that forward may follow: for each such host, the link from its
    adapter, then the link back. `link_names`: names of the links. Default: `Fabric.link_names`, for
    an array without links inside hosts.

    Returns columns of `CONGESTION_MATRIX_COLUMNS`: blocks from the highest level down, by column;
    in a block, the upper side first, then by port. Links of auxiliary adapters, which carry no
    packets, are left out.
    """
    graph, wait = fabric.graph, finite_numbers(wait_ns, "wait_ns")
    forwarding = np.flatnonzero(graph.row_node >= fabric.num_switches)
    inside = len(wait) - fabric.num_links
    if inside not in (0, 2 * len(forwarding)):
        more = f" (or {fabric.num_links + 2 * len(forwarding):,})" if len(forwarding) else ""
        raise InputError(
            f"wait_ns has {len(wait):,} numbers; expected {fabric.num_links:,}{more}, one per link"
        )
    level, column = _places(fabric)
    link = np.flatnonzero(
        (graph.link_row >= 0) & (fabric.node_kind[fabric.link_from] != NodeKind.AUXILIARY)
    )
    row, tail = graph.link_row[link], graph.node_row[fabric.link_from[link]]
    port = fabric.link_to_port[link]
    if inside:
        link = np.concatenate([link, np.arange(fabric.num_links, len(wait), 2)])
        row = np.concatenate([row, forwarding])
        tail = np.concatenate([tail, np.full(len(forwarding), -1)])
        port = np.concatenate([port, np.zeros(len(forwarding), dtype=port.dtype)])
    height = np.ones(graph.num_rows, dtype=np.int64) if level is None else level
    lower = (tail < 0) | (height[tail] < height[row])
    order = np.lexsort((port, lower, column[row], -height[row]))
    link, row, lower, port = link[order], row[order], lower[order], port[order]
    mine = wait[link]
    total = np.bincount(row, weights=mine, minlength=graph.num_rows)
    names = fabric.node_names
    node = graph.row_node[row]
    return frame(
        CONGESTION_MATRIX_COLUMNS,
        {
            "level": [None] * len(row) if level is None else height[row],
            "column": column[row],
            "node": node,
            "node_name": [names[each] for each in node.tolist()],
            "side": np.array(SIDES)[lower.astype(np.int64)],
            "port": port,
            "link": link,
            "name": (fabric.link_names if link_names is None else link_names)[link].tolist(),
            "wait_ns": mine,
            "share": mine / (mine.max(initial=0.0) or 1.0),
            "switch_wait_ns": total[row],
            "switch_share": total[row] / (total.max(initial=0.0) or 1.0),
        },
    )


def _places(fabric: Fabric) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Return level and column of each row, int64 [rows]; no levels if the fabric has none."""
    levels = labelled_levels(fabric) or found_levels(fabric)
    level = None if levels is None else levels.level
    rows = fabric.graph.row_node
    group = np.zeros(len(rows), dtype=np.int64) if level is None else level
    order = np.lexsort((natural_rank([fabric.node_names[node] for node in rows]), group))
    _, start, count = np.unique(group[order], return_index=True, return_counts=True)
    column = np.empty(len(rows), dtype=np.int64)
    column[order] = np.arange(len(rows)) - np.repeat(start, count)
    return level, column
