"""Table of the queue pairs that congestion control slowed down."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.kernels.program import operations as program
from weft.sim.packet.congestion_control import CongestionRecord
from weft.sim.packet.connections import Connections
from weft.workload import Workload

THROTTLING_COLUMNS: Mapping[str, Column] = {
    "queue_pair": Column(pl.Int32, "", "Queue pair (one direction)"),
    "source_host": Column(pl.Int32, "", "Sending host"),
    "destination_host": Column(pl.Int32, "", "Receiving host (null: several)"),
    "marked_packets": Column(pl.Int64, "", "Arrived packets with a mark (FECN)"),
    "notifications": Column(pl.Int64, "", "Notifications received for marked packets (BECN)"),
    "held_back_ns": Column(
        pl.Float64, "ns", "Time for which packets were ready but waited for an injection rate delay"
    ),
}


def throttling(
    record: CongestionRecord, connections: Connections, workload: Workload, host: NDArray[np.int32]
) -> pl.DataFrame:
    """Return one row for each queue pair that sends between hosts; see `THROTTLING_COLUMNS`.

    `host` [ranks]: host of each rank.
    """
    ops = np.flatnonzero(connections.route != program.LOCAL)
    pairs, first, index = np.unique(connections.pair[ops], return_index=True, return_inverse=True)
    target = host[workload.peer[ops]]
    several = np.zeros(len(pairs), dtype=bool)
    several[index[target != target[first][index]]] = True
    goals = [None if many else int(goal) for goal, many in zip(target[first], several, strict=True)]
    return frame(
        THROTTLING_COLUMNS,
        {
            "queue_pair": pairs,
            "source_host": host[workload.rank[ops[first]]],
            "destination_host": goals,
            "marked_packets": record.arrived[pairs],
            "notifications": record.notified[pairs],
            "held_back_ns": record.held_back_ps[pairs] / 1000,
        },
    )
