"""Data of the page of a simulation as blobs: frames over time, congestion trees and ranks.

Large runs are thinned for the browser; the page has notes on omitted data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.report.matrix_drawing import CELL, CENTRE, matrix_drawing
from weft.report.packing import packed
from weft.sim.packet.congestion_trees import CAUSES, CongestionTree
from weft.sim.packet.hot_spots import adapter_ends, snapshots_of
from weft.sim.packet.series import growth
from weft.sim.packet.timelines import STATES, rank_spans

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult

#: Maximum number of frames, and of values of one quantity (links x frames).
MAX_FRAMES, MAX_VALUES = 400, 6_000_000
#: Maximum number of nodes of all congestion trees, and of one tree.
MAX_TREE_NODES, MAX_NODES_OF_TREE = 400_000, 4_000
#: Maximum number of trees of one frame.
MAX_TREES = 30
#: Maximum number of drawn ranks, of their spans, and of messages.
MAX_RANKS, MAX_SPANS, MAX_MESSAGES = 256, 200_000, 20_000
#: Number of busiest links with a chart over time.
STRIPS = 8

#: Utilisations and occupancies are stored as one byte in units of 1/250; 255 means 1.02 or more.
PARTS = 250


@dataclass
class Moments:
    """Snapshots that the page shows (its frames), and the intervals before them."""

    #: int64 [frames]: indices of the snapshots.
    chosen: NDArray[np.int64]
    #: int64 [frames]: beginning of each interval, and time of the snapshot at its end.
    begin_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    #: int64 [active links]: links that carried or buffered packets.
    active: NDArray[np.int64]
    #: Notes on omitted data.
    notes: list[str] = field(default_factory=list)


def moments(result: PacketResult) -> Moments:
    """Choose the snapshots of the page."""
    shots = snapshots_of(result)
    later = np.flatnonzero(shots.time_ps > 0)
    total = len(later)
    ever = (shots.busy_ps[-1] > 0) | (shots.held > 0).any(axis=(0, 2))
    active = np.flatnonzero(ever)
    most = max(1, min(MAX_FRAMES, MAX_VALUES // max(len(active), 1)))
    chosen = later
    notes = []
    if total > most:
        # Choose snapshots closer together at times with more traffic.
        sent = np.diff(shots.busy_ps[later].sum(axis=1), prepend=0.0)
        weight = 0.25 / total + 0.75 * sent / max(sent.sum(), 1.0)
        chosen = later[_evenly(np.cumsum(weight), most)]
        notes.append(
            f"The page has {len(chosen):,} of {total:,} snapshots, closer together at times with "
            "more traffic. Utilisation and waits cover the whole time between them; buffers and "
            "congestion trees are those at the snapshots."
        )
    end = shots.time_ps[chosen]
    return Moments(chosen, np.concatenate(([0], end[:-1])), end, active, notes)


def frames_blob(result: PacketResult, shown: Moments) -> str:
    """Return utilisation, occupancy and waits of links in every frame."""
    shots, links = snapshots_of(result), shown.active
    span = np.maximum(shown.end_ps - shown.begin_ps, 1).astype(np.float64)[:, None]
    busy = growth(shots.busy_ps[np.ix_(shown.chosen, links)])
    wait = growth(shots.wait_ps[np.ix_(shown.chosen, links)].sum(axis=2)) / span
    lanes = shots.held[np.ix_(shown.chosen, links)] / result.hardware.buffer_credits
    to_hosts = np.flatnonzero(adapter_ends(result)[1] >= 0)
    delivered = growth(shots.wire_bytes[np.ix_(shown.chosen, to_hosts)].sum(axis=(1, 2)))
    return packed(
        {
            "endNs": shown.end_ps / 1e3,
            "active": links.astype(np.int32),
            "use": _parts(busy / span),
            "held": _parts(lanes.max(axis=2)),
            "waiting": wait.astype(np.float32).ravel(),
            "deliveredGbps": (delivered * 8e3 / span[:, 0]).astype(np.float32),
        },
        {},
    )


def trees_blob(
    result: PacketResult, shown: Moments, trees_of: Sequence[Sequence[CongestionTree]]
) -> str:
    """Return the congestion trees of every frame."""
    sender, receiver = adapter_ends(result)
    causes = list(CAUSES)
    per_tree = _nodes_per_tree(trees_of)
    counts = _Messages(result)
    names = (
        "root", "cause", "nodes", "full", "height", "hosts", "messages", "elsewhere", "kept"
    )  # fmt: skip
    rows: list[tuple[int, ...]] = []
    parts: list[CongestionTree] = []
    cut = 0
    for at, trees in enumerate(trees_of):
        counts.set_time(int(shown.end_ps[at]))
        for tree in trees[:MAX_TREES]:
            reached = np.unique(sender[tree.link[tree.full]])
            reached = reached[reached >= 0]
            messages, elsewhere = counts.of(reached, int(receiver[tree.root]))
            kept = min(len(tree), per_tree)
            cut += kept < len(tree)
            rows.append((
                tree.root, causes.index(tree.cause), len(tree), int(tree.full.sum()), tree.height,
                len(reached), messages, elsewhere, kept,
            ))  # fmt: skip
            parts.append(tree)
    if cut:
        shown.notes.append(
            f"Congestion trees are limited to the {per_tree:,} buffers nearest to the root; "
            f"{cut:,} trees are larger."
        )
    most = max(map(len, trees_of), default=0)
    if most > MAX_TREES:
        shown.notes.append(
            f"There are up to {most:,} congestion trees at a time; the page has the {MAX_TREES} "
            "with most buffers."
        )
    columns = np.array(rows, dtype=np.int32).reshape(-1, len(names)).T
    kept_of = columns[-1].tolist()

    def nodes(name: str) -> NDArray[Any]:
        pieces = [getattr(tree, name)[:kept] for tree, kept in zip(parts, kept_of, strict=True)]
        return np.concatenate([np.zeros(0, dtype=np.int32), *pieces])

    return packed(
        {
            "treeStart": _offsets([min(len(trees), MAX_TREES) for trees in trees_of]),
            "nodeStart": _offsets(kept_of),
            **dict(zip(names, columns, strict=True)),
            "nodeLink": nodes("link").astype(np.int32),
            "nodeParent": nodes("parent").astype(np.int32),
            "nodeVl": nodes("vl").astype(np.uint8),
            "nodeWhy": nodes("why").astype(np.uint8),
            "nodeFull": nodes("full").astype(np.uint8),
        },
        {"causes": causes, "causeTexts": list(CAUSES.values())},
    )


class _Messages:
    """Number of messages that are posted and have not arrived, by the host of the sender."""

    def __init__(self, result: PacketResult) -> None:
        work = result.workload
        ops = work.messages[result.posted_ps[work.messages] >= 0]
        self.posted = result.posted_ps[ops]
        arrived = result.arrived_ps[ops]
        self.arrived = np.where(arrived < 0, np.iinfo(np.int64).max, arrived)
        self.source, self.target = result.host[work.rank[ops]], result.host[work.peer[ops]]
        self.hosts = result.fabric.num_hosts
        self.set_time(0)

    def set_time(self, time_ps: int) -> None:
        """Set the time at which messages are counted."""
        now = (self.posted <= time_ps) & (self.arrived > time_ps)
        self.here = self.source[now], self.target[now]

    def of(self, hosts: NDArray[np.int64], receiver: int) -> tuple[int, int]:
        """Return the number of messages from these hosts, and how many are not for `receiver`.

        The second number is -1 if the receiver is unknown (-1).
        """
        among = np.zeros(self.hosts, dtype=bool)
        among[hosts] = True
        source, target = self.here
        mine = among[source]
        other = int(np.count_nonzero(target[mine] != receiver)) if receiver >= 0 else -1
        return int(np.count_nonzero(mine)), other


def ranks_blob(result: PacketResult, shown: Moments) -> str:
    """Return spans of ranks and messages between them."""
    work = result.workload
    ranks = np.arange(work.num_ranks)
    if work.num_ranks > MAX_RANKS:
        ranks = np.unique(np.linspace(0, work.num_ranks - 1, MAX_RANKS).round().astype(np.int64))
        shown.notes.append(
            f"The timelines of {len(ranks)} of {work.num_ranks:,} ranks are drawn, evenly chosen."
        )
    row = np.full(work.num_ranks, -1, dtype=np.int64)
    row[ranks] = np.arange(len(ranks))
    spans = rank_spans(result)
    rank, state = spans["rank"].to_numpy(), spans["state"].to_numpy()
    begin, end = spans["begin_ns"].to_numpy(), spans["end_ns"].to_numpy()
    keep = np.flatnonzero(row[rank] >= 0)
    if len(keep) > MAX_SPANS:
        longest = np.argsort(-(end - begin)[keep], kind="stable")[:MAX_SPANS]
        shortest = float((end - begin)[keep[longest[-1]]])
        shown.notes.append(
            f"The {MAX_SPANS:,} longest of {len(keep):,} spans of ranks are drawn, those of at "
            f"least {shortest:g} ns."
        )
        keep = np.sort(keep[longest])
    number = {name: index for index, name in enumerate(STATES)}
    ops = work.messages
    ops = ops[(row[work.rank[ops]] >= 0) & (row[work.peer[ops]] >= 0) & (result.left_ps[ops] >= 0)]
    if len(ops) > MAX_MESSAGES:
        took = np.where(result.arrived_ps[ops] >= 0, result.arrived_ps[ops], result.end_ps)
        slowest = np.argsort(result.posted_ps[ops] - took, kind="stable")[:MAX_MESSAGES]
        shown.notes.append(
            f"The {MAX_MESSAGES:,} slowest of {len(ops):,} messages between these ranks are drawn."
        )
        ops = np.sort(ops[slowest])
    return packed(
        {
            "rank": ranks.astype(np.int32),
            "host": result.host[ranks].astype(np.int32),
            "spanRow": row[rank[keep]].astype(np.int32),
            "spanState": np.array([number[name] for name in state[keep]], dtype=np.uint8),
            "spanBegin": begin[keep].astype(np.float32),
            "spanEnd": end[keep].astype(np.float32),
            "from": row[work.rank[ops]].astype(np.int32),
            "to": row[work.peer[ops]].astype(np.int32),
            "size": work.size_bytes[ops].astype(np.float64),
            "posted": (result.posted_ps[ops] / 1e3).astype(np.float32),
            "left": (result.left_ps[ops] / 1e3).astype(np.float32),
            "arrived": np.where(
                result.arrived_ps[ops] >= 0, result.arrived_ps[ops] / 1e3, -1
            ).astype(np.float32),
        },
        {"states": list(STATES)},
    )


def matrix_blob(matrix: pl.DataFrame) -> str:
    """Return the drawing of the congestion matrix and the waits of its links and switches."""
    drawn = matrix_drawing(matrix)
    places = {
        "x": drawn.x, "y": drawn.y, "width": drawn.width, "height": drawn.height,
        "centreY": drawn.centre_y, "switchWait": drawn.switch_wait_ns,
        "switchShare": drawn.switch_share, "cellX": drawn.cell_x, "cellY": drawn.cell_y,
        "cellWidth": drawn.cell_width, "wait": drawn.wait_ns, "share": drawn.share,
    }  # fmt: skip
    return packed(
        {
            "node": drawn.node,
            "link": drawn.link,
            "block": drawn.block,
            **{name: values.astype(np.float32) for name, values in places.items()},
        },
        {
            "size": drawn.size, "cell": CELL, "centre": CENTRE, "labels": drawn.labels,
            "notes": drawn.notes,
        },
    )  # fmt: skip


def busiest_links(result: PacketResult, count: int = STRIPS) -> list[int]:
    """Return the busiest links of the fabric, without idle ones; ties are ordered by number."""
    busy = result.busy_ps[: result.fabric.num_links]
    order = np.argsort(-busy, kind="stable")[:count]
    return [int(link) for link in order if busy[link] > 0]


def _nodes_per_tree(trees_of: Sequence[Sequence[CongestionTree]]) -> int:
    """Return the number of nodes per tree that the page can hold."""
    sizes = np.array([len(tree) for trees in trees_of for tree in trees[:MAX_TREES]])
    most = MAX_NODES_OF_TREE
    while most > 16 and np.minimum(sizes, most).sum() > MAX_TREE_NODES:
        most //= 2
    return most


def _evenly(weights: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return at most `most` indices, the last included, at even steps of cumulative weights."""
    chosen, count = np.array([len(weights) - 1]), most
    while count <= 64 * most:
        wanted = weights[-1] * (np.arange(1, count + 1) / count) * (1 - 1e-12)
        indices = np.unique(np.searchsorted(weights, wanted))
        if len(indices) > most:
            break
        chosen, count = indices, count * 5 // 4 + 1
    return chosen


def _parts(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return shares as bytes, in units of 1 / `PARTS`; positive shares become at least 1."""
    scaled = np.minimum(np.rint(values * PARTS), 255)
    return np.where(values > 0, np.maximum(scaled, 1), 0).astype(np.uint8).ravel()


def _offsets(counts: list[int]) -> NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int32)
