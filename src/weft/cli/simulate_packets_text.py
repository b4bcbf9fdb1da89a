"""Output of `weft simulate` for a single run of the packet or flit level, besides its times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.cli.common import as_number, as_share
from weft.study.experiment.run_level import duration

if TYPE_CHECKING:
    from weft.sim.flit.workloads import FlitResult
    from weft.sim.packet.result import PacketResult

#: Number of links, queues and hops of traced messages that are printed; files have all of them.
LINKS, QUEUES, HOPS = 8, 8, 60
#: Number of printed congestion trees, of printed buffers per tree, and of searched snapshots.
TREES, BUFFERS, SNAPSHOTS = 3, 12, 200

_IN_PART = "Deadlock in a part of the fabric: full buffers wait for each other in a cycle"

_Form = Callable[[Any], str]


def packet_details(out: Console, result: PacketResult, frames: Mapping[str, pl.DataFrame]) -> None:
    """Print busiest links and queues, reordering, conservation, hot spots and traced messages.

    `frames`: tables of the run: `links`, `queues` and, if messages are traced, `hops`.
    """
    links = frames["links"].filter(pl.col("packets") > 0)
    if not len(links):
        out.print("No link carries a packet.")
    else:
        _table(
            out, "Busiest links",
            links.sort(["utilisation", "link"], descending=[True, False], nulls_last=True)
            .head(LINKS).to_dicts(),
            {
                "name": ("link", str), "rate_gbps": ("rate", lambda rate: f"{rate:g} Gb/s"),
                "packets": ("packets", as_number), "wire_bytes": ("wire bytes", as_number),
                "utilisation": ("busy", as_share), "mean_wait_ns": ("mean wait", duration),
            },
        )  # fmt: skip
    waits = frames["queues"].with_columns(wait_ns=pl.col("packets") * pl.col("mean_wait_ns"))
    waits = waits.filter(pl.col("wait_ns") > 0)
    if len(waits):
        _table(
            out, "Longest waits",
            waits.sort(["wait_ns", "link", "vl"], descending=[True, False, False])
            .head(QUEUES).to_dicts(),
            {
                "name": ("queue for link", str), "vl": ("VL", str),
                "packets": ("packets", as_number), "mean_wait_ns": ("mean wait", duration),
                "wait_ns": ("total wait", duration),
            },
        )  # fmt: skip
    for line in packet_lines(result):
        out.print(escape(line), soft_wrap=True)
    if result.snapshots is not None:
        _hot_spots(out, result)
    if "hops" in frames:
        from weft.report.hops import hops_text

        out.print(escape(hops_text(result, most=HOPS)), soft_wrap=True)


def flit_details(out: Console, result: FlitResult, frames: Mapping[str, pl.DataFrame]) -> None:
    """Print the busiest links, the longest waits and the resolved routers of a run."""
    shown: dict[str, tuple[str, _Form]] = {
        "name": ("link", str), "rate_gbps": ("rate", lambda rate: f"{rate:g} Gb/s"),
        "flits": ("flits", as_number), "utilisation": ("busy", as_share),
        "wait_ns": ("total wait", duration),
    }  # fmt: skip
    for title, column, most in (
        ("Busiest links", "utilisation", LINKS), ("Longest waits", "wait_ns", QUEUES),
    ):  # fmt: skip
        top = frames["links"].filter(pl.col(column) > 0)
        top = top.sort([column, "link"], descending=[True, False], nulls_last=True).head(most)
        if len(top):
            _table(out, title, top.to_dicts(), shown)
    if not result.flit_hops:
        out.print("No link carries a flit.")
    out.print(
        f"Flits: {result.flit_hops:,} flit-hops; a cycle is {result.cycle_ns:g} ns; buffers hold "
        f"{result.router.buffer} flits of each virtual channel.",
        soft_wrap=True,
    )
    if result.deadlock:
        out.print(escape(f"{_IN_PART}: {result.deadlock}."), soft_wrap=True)


def packet_lines(result: PacketResult) -> list[str]:
    """Return lines on packets, their waits, reordering, congestion control and conservation."""
    kept = result.conservation
    hops, wait = result.num_hops, int(result.wait_ps.sum())
    mean = f"; mean wait per hop {duration(wait / hops / 1e3)}" if hops else ""
    lines = [f"Packets: {kept['injected_packets']:,} in {hops:,} packet-hops{mean}."]
    if result.threads > 1 or result.fewer_threads:
        why = f", because {result.fewer_threads}" if result.fewer_threads else ""
        lines.append(f"Threads: {result.threads}{why}.")
    if result.skipped is not None:
        lines.append(f"{result.skipped.text(hops)}.")
    if result.reorders:
        early = int(result.overtook.sum())
        reordering_ns = int(result.kept_ps.sum()) / max(early, 1) / 1e3
        lines.append(
            f"Reordering: {early:,} packets arrived before a packet sent earlier; receivers "
            f"kept them for {duration(reordering_ns)} on average, and kept at most "
            f"{int(result.held_bytes.max(initial=0)):,} B for one queue of a pair of ranks."
        )
    if result.congestion is not None:
        done = result.congestion
        lines.append(
            f"Congestion control: {int(done.marked.sum()):,} packets marked, "
            f"{int(done.notified.sum()):,} notifications; queue pairs held back for "
            f"{duration(int(done.held_back_ps.sum()) / 1e3)} in all."
        )
    if result.deadlock:
        lines.append(f"{_IN_PART}: {result.deadlock}.")
    lines.append(
        f"Conservation: {kept['injected_packets']:,} packets injected = "
        f"{kept['delivered_packets']:,} delivered + {kept['in_flight_packets']:,} in flight; "
        f"{kept['credits']:,} credits conserved."
    )
    return lines


def _hot_spots(out: Console, result: PacketResult) -> None:
    shots = result.snapshots
    assert shots is not None
    from weft.sim.packet.hot_spots import HotSpots

    if not len(shots.time_ps):
        out.print("No snapshot: the run ends before the first one.")
        return
    count = len(shots.time_ps)
    only = range(0, count, -(-count // SNAPSHOTS))
    # The interval doubles during a run that would take too many snapshots.
    interval = duration(float(np.diff(shots.time_ps, prepend=0).max()) / 1e3)
    searched = f", {len(only):,} of them searched" if len(only) < count else ""
    out.print(f"Congestion over {count:,} snapshots {interval} apart{searched}:")
    out.print(escape(HotSpots(result, 0, only=only).text(TREES, BUFFERS)), soft_wrap=True)


def _table(
    out: Console,
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, tuple[str, _Form]],
) -> None:
    table = Table(title=title, title_justify="left")
    for name, (heading, _) in columns.items():
        text = name == "name"
        table.add_column(
            heading, justify="left" if text else "right", overflow="fold", no_wrap=not text
        )
    for row in rows:
        table.add_row(
            *(
                "" if row[name] is None else escape(form(row[name]))
                for name, (_, form) in columns.items()
            )
        )
    out.print(table)
