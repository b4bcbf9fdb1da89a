"""`hops_text`: the hops of the packets of a traced message, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from weft.core.errors import InputError

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult


def hops_text(result: PacketResult, message: int | None = None, most: int = 200) -> str:
    """Return the hops of traced messages as a table, packet by packet.

    `result`: a run with traced messages: ``simulate(..., trace=[operation], level="packet")``.
    `message`: operation that sends the message; by default, all traced messages are shown. `most`:
    maximum number of listed hops of a message; the others are counted.

    Returns times of each hop in ns: when a packet could have left without contention, when it left,
    how long it waited, how much of this wait was behind other packets of its queue, and when its
    last byte left.
    """
    hops = result.hops()
    if message is not None:
        hops = hops.filter(pl.col("message") == message)
    if hops.is_empty():
        which = "any message" if message is None else f"operation {message}"
        raise InputError(f"there are no hops of {which}; expected a run with trace=[operation]")
    parts = [
        "\n".join(_message(result, int(op), rows, most))
        for (op,), rows in hops.group_by("message", maintain_order=True)
    ]
    return "\n\n".join(parts)


def _message(result: PacketResult, op: int, hops: pl.DataFrame, most: int) -> list[str]:
    work = result.workload
    hosts = result.fabric.host_names
    ends = [hosts[int(result.host[rank])] for rank in (work.rank[op], work.peer[op])]
    times = [
        f"{word} {at[op] / 1e3:,.3f}"
        for word, at in (
            ("posted", result.posted_ps),
            ("left", result.left_ps),
            ("arrived", result.arrived_ps),
        )
        if at[op] >= 0
    ]
    hops = hops.sort("packet", "left_ns", maintain_order=True)
    lines = [
        f"Operation {op}, {work.what(op)}: {work.size_bytes[op]:,} bytes from {ends[0]} to "
        f"{ends[1]}",
        f"  {', '.join(times)} ns; {hops['packet'].n_unique():,} packets, {len(hops):,} hops",
    ]
    waits = hops.group_by("name", maintain_order=True).agg(pl.col("wait_ns", "behind_ns").sum())
    total = float(waits["wait_ns"].sum())
    if total > 0:
        name, longest, _ = waits.row(int(np.argmax(waits["wait_ns"].to_numpy())))
        lines.append(
            f"  total wait {total:,.3f} ns, {longest / total:.0%} of it for {name}, "
            f"{float(waits['behind_ns'].sum()) / total:.0%} of it behind other packets of its queue"
        )
    heads = ("packet", "link", "lane", "ready", "left", "waited", "behind", "gone")
    rows = [
        (
            f"{row['packet']}",
            row["name"],
            f"{row['vl']}",
            *(f"{row[f'{key}_ns']:,.3f}" for key in ("ready", "left", "wait", "behind", "gone")),
        )
        for row in hops.head(most).iter_rows(named=True)
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = [
            text.ljust(width) if column == 1 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    if len(hops) > most:
        lines.append(f"  and {len(hops) - most:,} more hops")
    return lines
