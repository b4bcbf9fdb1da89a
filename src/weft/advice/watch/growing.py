"""Errors that grew between readings, ranked by what their cables are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.columns import Column, frame_of_rows
from weft.counters.rates import Rates
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.static.all_to_all import loads_between_machines

GROWING_COLUMNS: Mapping[str, Column] = {
    "cable": Column(pl.String, "", "Both ports of the cable"),
    "errors": Column(pl.Int64, "", "Symbol and link errors of both ports (null: not known)"),
    "discards": Column(pl.Int64, "", "Packets that both ports discarded (null: not known)"),
    "link_downs": Column(pl.Int64, "", "Times that the link went down (null: not known)"),
    "gbps": Column(pl.Float64, "Gb/s", "Measured rate of both directions (null: not known)"),
    "pairs": Column(
        pl.Int64,
        "pairs",
        "Ordered pairs of hosts that lose their path if the cable is pulled (null: routes are "
        "adaptive)",
    ),
    "detour": Column(
        pl.Boolean, "", "Whether other cables connect its ends, so that new tables restore them"
    ),
}
_COUNTS = ("errors", "discards", "link_downs")


def growing(fabric: Fabric, series: Sequence[Rates], routes: Routes) -> pl.DataFrame:
    """Return the cables with errors in any interval, as a frame of `GROWING_COLUMNS`.

    Those that carry the most traffic in the last interval are first, then those of most pairs, then
    those of most errors. Cables without a port in the fabric are left out.
    """
    every = pl.concat([each.frame.select("slot", *_COUNTS) for each in series])
    link = fabric.port_link[every["slot"].to_numpy()]
    counted = (
        every.with_columns(pl.Series("number", link >> 1))
        .filter(pl.Series(link >= 0))
        .group_by("number", maintain_order=True)
        # Null if all values are.
        .agg(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in _COUNTS)
        .filter(pl.sum_horizontal(_COUNTS) > 0)
    )
    if counted.is_empty():
        return frame_of_rows(GROWING_COLUMNS, [])
    # Switches that route adaptively send around a cable that is pulled.
    pairs = loads_between_machines(fabric, routes).per_link if routes.settled else None
    gbps = series[-1].link_gbps.reshape(-1, 2)
    rows = []
    for cable, *counts in counted.iter_rows():
        known = gbps[cable][~np.isnan(gbps[cable])]
        rows.append((
            fabric.cable_name(cable), *counts, float(known.sum()) if len(known) else None,
            None if pairs is None else round(float(pairs[2 * cable : 2 * cable + 2].sum())),
            _has_detour(fabric, cable),
        ))  # fmt: skip
    return frame_of_rows(GROWING_COLUMNS, rows).sort(
        ["gbps", "pairs", "errors", "cable"], descending=[True, True, True, False], nulls_last=True
    )


def _has_detour(fabric: Fabric, cable: int) -> bool:
    kept = np.arange(fabric.num_links) >> 1 != cable
    ends = fabric.link_from[kept], fabric.link_to[kept]
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(fabric.num_nodes,) * 2)
    _, part = connected_components(graph, directed=False)
    return bool(part[fabric.link_from[2 * cable]] == part[fabric.link_to[2 * cable]])
