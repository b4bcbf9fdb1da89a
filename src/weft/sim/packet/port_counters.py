"""What counters of ports would have shown during a run of the packet level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.core.columns import frame
from weft.core.files import make_folder, write_text
from weft.counters.counters import COUNTER_COLUMNS, COUNTERS, Counters
from weft.counters.formats.perfquery import write
from weft.counters.ticks import tick_rules
from weft.counters.times import BEGIN, time_of, time_text
from weft.sim.packet.hot_spots import snapshots_of

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult

#: Bytes of a packet after what PortXmitData counts: its last checksum (VCRC).
_VCRC_BYTES = 2
#: Length of a tick where nothing tells that of the device.
_TICK_BYTES = 8.0


def port_counters(result: PacketResult, begin: str = BEGIN) -> Counters:
    """Return the counters that the ports would have shown during a run.

    Parameters
    ----------
    result
        A run of the packet level with snapshots.
    begin
        Date and time of day at which the run begins.

    Returns
    -------
    Counters
        A reading at the beginning, at each snapshot and at the end, of all ports with a cable.
        Packets and their bytes count at both ends of a cable when they begin to leave; data are all
        bytes of packets but the last 2 (VCRC), in whole words; all packets are unicast.
        PortXmitWait is the time for which a port was free and sent nothing for lack of credits or
        because of arbitration, in whole ticks of `weft.counters.ticks`, or else of 8 bytes. Times
        are rounded to ns. There are no errors.

    Raises
    ------
    InputError
        If the run has no snapshots, or `begin` is no time.
    """
    fabric, shots, start_ns = result.fabric, snapshots_of(result), time_of(begin).ns
    after = shots.time_ps > 0
    times = [0, *shots.time_ps[after].tolist()]
    ends = result.end_ps > times[-1]
    slots = np.flatnonzero(fabric.port_link >= 0)
    link = fabric.port_link[slots]

    def of_links(seen: NDArray[Any], total: NDArray[Any]) -> NDArray[np.int64]:
        """Return a counter of links at all times, int64 [times, links]."""
        parts = [np.zeros_like(total)[None], seen[after], *([total[None]] if ends else [])]
        values = np.concatenate(parts)[:, : fabric.num_links]
        return values.sum(axis=2) if values.ndim == 3 else values

    packets = of_links(shots.packets, result.packets)
    spare = min(_VCRC_BYTES, result.hardware.header_bytes)
    words = (of_links(shots.wire_bytes, result.wire_bytes) - spare * packets) // 4
    tick_bytes = np.where(np.isnan(known := tick_rules(fabric)[0]), _TICK_BYTES, known)[slots]
    blocked_ps = of_links(shots.blocked_ps, result.blocked_ps)[:, link]
    ticks = blocked_ps * fabric.link_rate_gbps[link] / 8000 / tick_bytes
    times_ns = start_ns + np.rint(np.array([*times, *[result.end_ps] * ends]) / 1000).astype(int)
    count = len(times_ns) * len(slots)
    data: dict[str, Any] = {name: [None] * count for name in COUNTER_COLUMNS}
    data |= {name: np.zeros(count, dtype=np.uint64) for name in COUNTERS}
    for way, end in (("xmit", link), ("rcv", link ^ 1)):
        data[f"port_{way}_data"] = words[:, end].ravel()
        data[f"port_{way}_pkts"] = data[f"port_unicast_{way}_pkts"] = packets[:, end].ravel()
    data |= {
        "port_xmit_wait": ticks.astype(np.int64).ravel(),
        "reading": np.repeat(times_ns, len(slots)), "time": np.repeat(times_ns, len(slots)),
        "slot": np.tile(slots, len(times_ns)), "narrow": np.zeros(count, dtype=bool),
        "tick_bytes": np.tile(tick_bytes, len(times_ns)),
    }  # fmt: skip
    return Counters(fabric, frame(COUNTER_COLUMNS, data))


def write_readings(counters: Counters, folder: str | Path) -> int:
    """Write a file for each reading to a folder, named by its time; return their number."""
    to = make_folder(folder)
    count = 0
    for time_ns, text in write(counters):
        write_text(to / f"{time_text(time_ns).replace(':', '-')}.perfquery", text)
        count += 1
    return count
