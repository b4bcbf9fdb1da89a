"""`write_simulation_page`: a run of the packet level as one self-contained HTML file.

A slider selects a time of the run; the drawing, the congestion trees and the timelines of ranks
show the state at that time. Like the page of a comparison, this page holds all its data and makes
no network requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from weft.core.errors import InputError
from weft.core.files import write_text
from weft.fabrics.rails import machine_facts
from weft.report.layout import layout
from weft.report.parts import drawing_facts, fabric_blob
from weft.report.render import render_page
from weft.report.simulation_data import (
    busiest_links,
    frames_blob,
    matrix_blob,
    moments,
    ranks_blob,
    trees_blob,
)
from weft.sim.packet.hot_spots import HotSpots, snapshots_of, trees_at

if TYPE_CHECKING:
    from weft.sim.common.replay import Replay
    from weft.sim.packet.result import PacketResult

SCRIPTS = (
    "common.js", "data.js", "view.js", "drawing.js", "chart.js", "panels.js", "app.js",
    "simulation_data.js", "simulation_drawing.js", "simulation_time.js", "simulation_matrix.js",
    "simulation_main.js",
)  # fmt: skip
#: Number of rows of the table of busiest links.
BUSIEST = 20
#: Number of rows of the tables of phases and of routing keys.
PHASES = 60


def write_simulation_page(result: PacketResult, path: str | Path) -> int:
    """Write a page that shows a run over time, atomically.

    Parameters
    ----------
    result
        A run with snapshots: ``simulate(..., snapshot_ns=...)``.
    path
        The HTML file.

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    InputError
        If the run has fewer than two snapshots, or the file cannot be written.
    """
    text = render_simulation(result)
    write_text(path, text)
    return len(text.encode("utf-8"))


def render_simulation(result: PacketResult, title: str = "") -> str:
    """Return the page as text; equal runs give equal text.

    `title`: heading. Default: the workload and the fabric.
    """
    fabric, shots = result.fabric, snapshots_of(result)
    matrix = result.congestion_matrix()
    if np.count_nonzero(shots.time_ps) < 2:
        raise InputError("a page needs at least two snapshots; choose a smaller snapshot_ns")
    drawing, shown = layout(fabric), moments(result)
    trees = [trees_at(result, int(at)) for at in shown.chosen]
    blobs = {
        "weft-fabric": fabric_blob(fabric, drawing),
        "weft-frames": frames_blob(result, shown),
        "weft-trees": trees_blob(result, shown, trees),
        "weft-ranks": ranks_blob(result, shown),
        "weft-matrix": matrix_blob(matrix),
    }
    inside = range(fabric.num_links, len(result.busy_ps))
    # The page opens at the snapshot with most buffers in congestion trees; traffic breaks ties.
    busy_ps = np.diff(shots.busy_ps[shown.chosen].sum(axis=1), prepend=0)
    use = busy_ps / (shown.end_ps - shown.begin_ps)
    stuck = [sum(map(len, each)) for each in trees]
    opening = max(range(len(trees)), key=lambda at: (stuck[at], use[at], -at))
    data = {
        **drawing_facts(fabric, drawing),
        "scopeIsAll": True,
        "lanes": result.num_vls,
        "endNs": float(result.makespan_ns),
        "firstFrame": opening,
        "strips": busiest_links(result),
        "insideNames": {link: result.link_name(link) for link in inside},
        "hostNames": fabric.host_names,
    }
    spots = HotSpots(result, 0, only=shown.chosen.tolist())
    return render_page(
        "simulation.html",
        ("style.css", "simulation.css"),
        SCRIPTS,
        data,
        blobs,
        title=title or title_of(result),
        facts=facts(result),
        partial=not result.complete,
        end=time_text(result.end_ps / 1e3),
        most_waits=_most_waits(matrix),
        links=_busiest(result),
        phases=_phases(result),
        keys=[] if result.keys is None else result.keys.keys[:PHASES],
        hot_spots=spots.text(most_trees=12, most_nodes=24),
        notes=[*_notes(result), *shown.notes],
    )


def title_of(result: Replay) -> str:
    """Return the workload and the fabric as a heading."""
    return f"{result.workload.name or 'Workload'} on {result.fabric.name}"


def facts(result: PacketResult) -> list[tuple[str, str]]:
    """Return summary figures as pairs of name and value."""
    work, ops = result.workload, result.workload.messages
    arrived = ops[result.arrived_ps[ops] >= 0]
    took = (result.arrived_ps[arrived] - result.posted_ps[arrived]) / 1e3
    size = int(work.size_bytes[arrived].sum())
    missing = f", {len(arrived):,} arrived" if len(arrived) < len(ops) else ""
    rows = [
        ("time", time_text(result.makespan_ns)),
        ("ranks", f"{work.num_ranks:,}"),
        *machine_facts(result.fabric),
        ("messages", f"{len(ops):,}" + missing),
        ("payload", size_text(size)),
        ("delivered", f"{size * 8 / result.makespan_ns:.4g} Gb/s" if result.makespan_ns else "–"),
    ]
    if len(took):
        latencies = map(time_text, (took.mean(), *np.percentile(took, [50, 99]), took.max()))
        rows.append(("message latency: mean, p50, p99, max", ", ".join(latencies)))
    rows.append(("packet-hops", f"{result.num_hops:,}"))
    for link in busiest_links(result, 1):
        share = result.busy_ps[link] / max(result.end_ps, 1)
        rows.append(("busiest link", f"{result.link_name(link)}, {share_text(share)}"))
    rows.append(("routes, policy", f"{result.engine}, {result.policy}"))
    rows.append(("lanes", f"{result.num_vls}"))
    return rows


def time_text(time_ns: float | None) -> str:
    """Return a time as text in a suitable unit; a dash for None: the run ended before it."""
    if time_ns is None:
        return "–"
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if time_ns >= factor:
            return f"{time_ns / factor:.4g} {unit}"
    return f"{time_ns:.4g} ns"


def size_text(size_bytes: int) -> str:
    """Return a size as text in a suitable binary unit."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes >= 1024**power:
            return f"{size_bytes / 1024**power:.4g} {unit}"
    return f"{size_bytes} B"


def share_text(share: float) -> str:
    """Return a share as text in percent."""
    return "under 0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def _busiest(result: PacketResult) -> list[dict[str, str]]:
    end = max(result.end_ps, 1)
    rows = []
    for link in busiest_links(result, BUSIEST):
        packets, wait = int(result.packets[link].sum()), int(result.wait_ps[link].sum())
        rows.append(
            {
                "link": str(link),
                "name": result.link_name(link),
                "use": share_text(result.busy_ps[link] / end),
                "bytes": size_text(int(result.wire_bytes[link].sum())),
                "packets": f"{packets:,}",
                "wait": time_text(float(f"{wait / 1e3 / packets:.3g}")) if packets else "–",
            }
        )
    return rows


def _most_waits(matrix: pl.DataFrame) -> dict[str, str]:
    """Return link and switch with the longest waits, and these waits; empty if nothing waits."""
    if matrix.is_empty() or not matrix["wait_ns"].max():
        return {}
    link, switch = (
        matrix.row(matrix[name].arg_max(), named=True) for name in ("wait_ns", "switch_wait_ns")
    )
    return {
        "link": link["name"],
        "link_wait": time_text(link["wait_ns"]),
        "number": str(link["link"]),
        "switch": switch["node_name"],
        "switch_wait": time_text(switch["switch_wait_ns"]),
    }


def _phases(result: PacketResult) -> list[dict[str, str]]:
    """Return the named phases of the workload, ordered by begin."""
    named = result.phases().filter(pl.col("phase") != "").sort("begin_ns", maintain_order=True)
    return [
        {
            "name": row["phase"],
            "begin": time_text(row["begin_ns"]),
            "span": time_text(row["span_ns"]),
            "messages": f"{row['messages']:,}",
            "size": size_text(row["size_bytes"]),
            "slowdown": "–" if row["mean_slowdown"] is None else f"{row['mean_slowdown']:.3g}",
        }
        for row in named.head(PHASES).iter_rows(named=True)
    ]


def _notes(result: PacketResult) -> list[str]:
    """Return notes on the hardware, options and snapshots of the run."""
    shots = snapshots_of(result)
    settings: dict[str, Any] = result.hardware.table()
    hardware = ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
    options = ", ".join(f"{key} {value}" for key, value in result.options.items())
    phases = sum(name != "" for name in result.workload.phase_names)
    keys = 0 if result.keys is None else len(result.keys)
    return [
        f"Hardware: {hardware}.",
        *([f"Options: {options}."] if options else []),
        f"{np.count_nonzero(shots.time_ps):,} snapshots after the start, the last at "
        f"{time_text(shots.time_ps[-1] / 1e3)}. Utilisation and waits cover the interval before a "
        "snapshot; buffers and congestion trees are those at the snapshot.",
        *(
            f"The first {PHASES} of {count:,} {name} are listed."
            for count, name in ((phases, "phases"), (keys, "routing keys"))
            if count > PHASES
        ),
    ]
