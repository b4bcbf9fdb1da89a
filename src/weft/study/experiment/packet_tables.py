"""Tables and columns of an experiment at the packet level, besides those of all levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl

from weft.core.columns import Column
from weft.sim.common import replay
from weft.sim.common.congestion_matrix import CONGESTION_MATRIX_COLUMNS
from weft.sim.packet import result as packet
from weft.sim.packet.result import PacketResult
from weft.sim.packet.series import LINK_SERIES_COLUMNS, link_series

#: Columns that identify the message of a hop.
_SENDER = {name: replay.MESSAGE_COLUMNS[name] for name in ("source_rank", "destination_rank")} | {
    "number": Column(pl.Int64, "", "Index of the message among the messages of its source, from 0")
}
#: Table -> columns; hops need a trace, and series need snapshots.
COLUMNS: Mapping[str, Mapping[str, Column]] = {
    "links": packet.LINK_COLUMNS,
    "queues": packet.QUEUE_COLUMNS,
    "congestion": CONGESTION_MATRIX_COLUMNS,
    "hops": {**_SENDER, **packet.HOP_COLUMNS},
    "series": LINK_SERIES_COLUMNS,
}


def makers(result: PacketResult) -> dict[str, Callable[[], pl.DataFrame]]:
    """Return a function that makes the table, for each that the result has."""
    functions: dict[str, Callable[[], pl.DataFrame]] = {
        "queues": result.queues,
        "congestion": result.congestion_matrix,
    }
    if len(result.hop):
        functions["hops"] = lambda: _hops(result)
    if result.snapshots is not None and len(result.snapshots.time_ps):
        functions["series"] = lambda: link_series(result)
    return functions


def _hops(result: PacketResult) -> pl.DataFrame:
    """Return the hops with the ranks and the number of their message."""
    work, hops = result.workload, result.hops()
    sends = work.messages
    number = np.arange(len(sends)) - np.searchsorted(work.rank[sends], work.rank[sends])
    op = hops["message"].to_numpy()
    return hops.with_columns(
        pl.Series("source_rank", work.rank[op], pl.Int32),
        pl.Series("destination_rank", work.peer[op], pl.Int32),
        pl.Series("number", number[np.searchsorted(sends, op)], pl.Int64),
    )


def row(result: PacketResult) -> dict[str, Any]:
    """Return the packet columns of the table of runs."""
    reorders = result.reorders
    return {
        "end_ns": result.end_ps / 1000,
        "packets": result.conservation["injected_packets"],
        "in_flight_packets": result.conservation["in_flight_packets"],
        "packet_hops": result.num_hops,
        "skipped_hops": None if result.skipped is None else result.skipped.hops,
        "mean_wait_ns": (
            float(result.wait_ps.sum() / result.num_hops / 1000) if result.num_hops else None
        ),
        "early_packets": int(result.overtook.sum()) if reorders else None,
        "most_held_bytes": int(result.held_bytes.max(initial=0)) if reorders else None,
        "reordering_ns": float(result.kept_ps.sum() / 1000) if reorders else None,
    }
