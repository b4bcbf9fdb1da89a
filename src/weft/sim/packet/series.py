"""Utilisation, waits and buffers of a run over time, from its snapshots, as tidy frames.

Each snapshot after time 0 ends an interval that begins at the previous snapshot or at time 0.
Packets, their bytes and their waits count in the interval in which the packets began to leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_numbers
from weft.core.columns import Column, frame
from weft.sim.common.replay import ratio
from weft.sim.packet.congestion_trees import WHY_TEXT
from weft.sim.packet.hot_spots import snapshots_of
from weft.sim.packet.snapshots import Snapshots

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult

_INTERVAL: dict[str, Column] = {
    "begin_ns": Column(pl.Float64, "ns", "Start of the interval (the previous snapshot, or 0)"),
    "end_ns": Column(pl.Float64, "ns", "End of the interval (the snapshot)"),
}
_TRAFFIC: dict[str, Column] = {
    "wire_bytes": Column(
        pl.Int64, "B", "Bytes of packets that left in the interval (headers included)"
    ),
    "throughput_gbps": Column(pl.Float64, "Gb/s", "Bytes that left in the interval / its length"),
    "wait_ns": Column(
        pl.Float64,
        "ns",
        "Total wait of packets that left in the interval (from the time at which only other "
        "packets delayed them to their departure)",
    ),
    "waiting": Column(
        pl.Float64, "packets", "Mean number of waiting packets (total wait / interval)"
    ),
}

#: Columns of `link_series`, one row for each interval and directed link.
LINK_SERIES_COLUMNS: Mapping[str, Column] = _INTERVAL | {
    "link": Column(pl.Int32, "", "Directed link (links inside forwarding hosts are last)"),
    "name": Column(pl.String, "", "Output port and input port of the link"),
    "utilisation": Column(
        pl.Float64, "", "Part of the interval for which the link carried packets"
    ),
    **_TRAFFIC,
    "held_share": Column(
        pl.Float64,
        "",
        "Share in use of the credits of all buffers at the link's far end (end of the interval)",
    ),
}

#: Columns of `cable_series`, one row for each interval and cable.
CABLE_SERIES_COLUMNS: Mapping[str, Column] = _INTERVAL | {
    "cable": Column(pl.Int32, "", "Cable c (links 2c and 2c + 1)"),
    "name": Column(pl.String, "", "Both ports of the cable"),
    "utilisation": Column(
        pl.Float64, "", "Utilisation of the direction that is busier in the interval"
    ),
    "forth": Column(pl.Float64, "", "Utilisation of link 2c"),
    "back": Column(pl.Float64, "", "Utilisation of link 2c + 1"),
    **_TRAFFIC,
    "held_share": Column(
        pl.Float64,
        "",
        "Share of credits in use at the fuller end of the cable when the interval ends",
    ),
}

#: Columns of `queue_series`, one row for each interval, directed link and lane.
QUEUE_SERIES_COLUMNS: Mapping[str, Column] = _INTERVAL | {
    "link": Column(pl.Int32, "", "Directed link"),
    "name": Column(pl.String, "", "Output port and input port of the link"),
    "vl": Column(pl.Int32, "", "Virtual lane"),
    **_TRAFFIC,
    "held_credits": Column(
        pl.Int64, "", "Credits in use of the buffer at the link's far end (end of the interval)"
    ),
    "held_share": Column(pl.Float64, "", "`held_credits` / credits of the buffer"),
    "wants_link": Column(
        pl.Int32, "", "Output link that the buffer's first packet waits for (null: none waits)"
    ),
    "wants_vl": Column(pl.Int32, "", "Virtual lane on `wants_link` (null: none waits)"),
    "why": Column(pl.String, "", "Reason of the wait (null: none waits)"),
}


def link_series(result: PacketResult, links: ArrayLike | None = None) -> pl.DataFrame:
    """Return a table of directed links over time.

    Parameters
    ----------
    result
        A run with snapshots.
    links
        Directed links to list; all by default.

    Returns
    -------
    polars.DataFrame
        Columns of `LINK_SERIES_COLUMNS`, ordered by time, then as in `links`.

    Raises
    ------
    InputError
        If the run has no snapshots, or a link does not exist.
    """
    chosen = _links(result, links)
    return _series(result, LINK_SERIES_COLUMNS, chosen, chosen[:, None], result.link_names[chosen])


def cable_series(result: PacketResult, cables: ArrayLike | None = None) -> pl.DataFrame:
    """Return a table of cables over time, both directions together.

    Parameters
    ----------
    result
        A run with snapshots.
    cables
        Cables to list; all by default.

    Returns
    -------
    polars.DataFrame
        Columns of `CABLE_SERIES_COLUMNS`, ordered by time, then as in `cables`.

    Raises
    ------
    InputError
        If the run has no snapshots, or a cable does not exist.
    """
    chosen = _numbers(cables, result.fabric.num_cables, "cable")
    both = np.stack((2 * chosen, 2 * chosen + 1), axis=1)
    names = [result.fabric.cable_name(int(cable)) for cable in chosen]
    return _series(result, CABLE_SERIES_COLUMNS, chosen, both, np.array(names, dtype=np.object_))


def _series(
    result: PacketResult,
    columns: Mapping[str, Column],
    chosen: NDArray[np.int64],
    links: NDArray[np.int64],
    names: NDArray[np.object_],
) -> pl.DataFrame:
    """Return a table over time of links or cables with these numbers; `links` [chosen, ways]."""
    shots = _after_start(result)
    times, room = len(shots.time_ps), result.num_vls * result.hardware.buffer_credits
    begin, end, span = _intervals(result, len(chosen))
    busy = growth(shots.busy_ps[:, links]).reshape(-1, links.shape[1]) / 1e3
    use = np.stack([ratio(way, span) for way in busy.T], axis=1)
    wire = growth(shots.wire_bytes[:, links].sum(axis=(2, 3))).ravel()
    wait = growth(shots.wait_ps[:, links].sum(axis=(2, 3))).ravel() / 1e3
    number = np.tile(chosen.astype(np.int32), times)
    data = {
        "begin_ns": begin,
        "end_ns": end,
        "link": number,
        "cable": number,
        "name": pl.Series(np.tile(names, times).tolist(), dtype=pl.String),
        "utilisation": use.max(axis=1),
        "forth": use[:, 0],
        "back": use[:, -1],
        **_traffic(wire, wait, span),
        "held_share": (shots.held[:, links].sum(axis=3).max(axis=2) / room).ravel(),
    }
    return frame(columns, {name: data[name] for name in columns})


def queue_series(result: PacketResult, links: ArrayLike | None = None) -> pl.DataFrame:
    """Return a table of the lanes of links over time, with the buffer at the far end of each lane.

    Parameters
    ----------
    result
        A run with snapshots.
    links
        Directed links to list; all by default.

    Returns
    -------
    polars.DataFrame
        Columns of `QUEUE_SERIES_COLUMNS`, ordered by time, then as in `links`, then by lane.

    Raises
    ------
    InputError
        If the run has no snapshots, or a link does not exist.
    """
    chosen = _links(result, links)
    shots, lanes = _after_start(result), result.num_vls
    begin, end, span = _intervals(result, len(chosen) * lanes)
    held = shots.held[:, chosen].ravel().astype(np.int64)
    wants = shots.wants[:, chosen].ravel()
    lane = shots.wants_vl[:, chosen].ravel().astype(np.int32)
    waits = pl.Series(wants >= 0)
    words = pl.Series(WHY_TEXT, dtype=pl.String).gather(
        shots.why[:, chosen].ravel().astype(np.int64)
    )
    return frame(
        QUEUE_SERIES_COLUMNS,
        {
            "begin_ns": begin,
            "end_ns": end,
            "link": np.tile(np.repeat(chosen.astype(np.int32), lanes), len(shots.time_ps)),
            "name": pl.Series(
                np.tile(result.link_names[np.repeat(chosen, lanes)], len(shots.time_ps)).tolist(),
                dtype=pl.String,
            ),
            "vl": np.tile(np.arange(lanes, dtype=np.int32), len(chosen) * len(shots.time_ps)),
            **_traffic(
                growth(shots.wire_bytes[:, chosen]).ravel(),
                growth(shots.wait_ps[:, chosen]).ravel() / 1e3,
                span,
            ),
            "held_credits": held,
            "held_share": held / result.hardware.buffer_credits,
            "wants_link": _where(waits, pl.Series(wants, dtype=pl.Int32)),
            "wants_vl": _where(waits, pl.Series(lane, dtype=pl.Int32)),
            "why": _where(waits, words),
        },
    )


def _after_start(result: PacketResult) -> Snapshots:
    """Return the snapshots after time 0: each is the end of an interval."""
    shots = snapshots_of(result)
    later = shots.time_ps > 0
    return Snapshots(**{each.name: getattr(shots, each.name)[later] for each in fields(Snapshots)})


def _where(there: pl.Series, values: pl.Series) -> pl.Series:
    """Return the values, null where the mask is false."""
    return values.zip_with(there, pl.Series([None], dtype=values.dtype))


def _traffic(
    wire: NDArray[np.int64], wait: NDArray[np.float64], span: NDArray[np.float64]
) -> dict[str, Any]:
    return {
        "wire_bytes": wire,
        "throughput_gbps": ratio(wire * 8.0, span),
        "wait_ns": wait,
        "waiting": ratio(wait, span),
    }


def _links(result: PacketResult, links: ArrayLike | None) -> NDArray[np.int64]:
    return _numbers(links, len(result.busy_ps), "link")


def _numbers(given: ArrayLike | None, count: int, what: str) -> NDArray[np.int64]:
    if given is None:
        return np.arange(count, dtype=np.int64)
    listed: ArrayLike = [int(given)] if isinstance(given, int | np.integer) else given
    return whole_numbers(listed, f"{what}s", low=0, high=count - 1)


def _intervals(
    result: PacketResult, rows: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return start, end and length of the intervals in ns, each repeated for `rows` rows."""
    end = _after_start(result).time_ps / 1e3
    begin = np.concatenate(([0.0], end))[:-1]
    return np.repeat(begin, rows), np.repeat(end, rows), np.repeat(end - begin, rows)


def growth(counter: NDArray[Any]) -> NDArray[Any]:
    """Return the increase of a counter in each interval; the counter is 0 at the start."""
    return np.diff(counter, axis=0, prepend=np.zeros_like(counter[:1]))
