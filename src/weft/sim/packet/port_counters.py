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
        A run of the packet level.
    begin
        Date and time of day at which the run begins.

    Returns
    -------
    Counters
        A reading at the beginning, at each snapshot if the run has any, and at the end, of all
        ports with a cable.
        Packets and their bytes count at both ends of a cable when they begin to leave; data are all
        bytes of packets but the last 2 (VCRC), in whole words; all packets are unicast.
        PortXmitWait is the time for which a port was free and sent nothing for lack of credits or
        because of arbitration, in whole ticks of `weft.counters.ticks`, or else of 8 bytes. Times
        are rounded to ns. There are no errors.

    Raises
    ------
    InputError
        If `begin` is no time.
    """
    fabric, shots, start_ns = result.fabric, result.snapshots, time_of(begin).ns
    end_ns = max(round(result.end_ps / 1000), 1)
    seen_ns, between = np.unique(
        [] if shots is None else np.rint(shots.time_ps / 1000).astype(int), return_index=True
    )
    inside = (seen_ns > 0) & (seen_ns < end_ns)
    between = between[inside]
    times_ns = start_ns + np.array([0, *seen_ns[inside], end_ns], dtype=np.int64)
    slots = np.flatnonzero(fabric.port_link >= 0)
    link = fabric.port_link[slots]

    def of_links(name: str) -> NDArray[np.int64]:
        """Return a counter of links at all times, int64 [times, links]."""
        total = getattr(result, name)[None]
        seen = total[:0] if shots is None else getattr(shots, name)[between]
        values = np.concatenate([0 * total, seen, total])[:, : fabric.num_links]
        return values.sum(axis=2) if values.ndim == 3 else values

    packets = of_links("packets")
    spare = min(_VCRC_BYTES, result.hardware.header_bytes)
    words = (of_links("wire_bytes") - spare * packets) // 4
    tick_bytes = np.where(np.isnan(known := tick_rules(fabric)[0]), _TICK_BYTES, known)[slots]
    blocked_ps = of_links("blocked_ps")[:, link]
    ticks = blocked_ps * fabric.link_rate_gbps[link] / 8000 / tick_bytes
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
