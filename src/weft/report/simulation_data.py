"""What the page of a simulation holds: frames in time, congestion trees and ranks, as blobs.

Large runs are thinned to what a browser takes well; whatever is left out is said in words, which
the page shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.report.packing import packed
from weft.sim.packet.congestion_trees import CAUSES, CongestionTree
from weft.sim.packet.hot_spots import adapter_ends, snapshots_of
from weft.sim.packet.timelines import STATES, rank_spans

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult

#: Moments that a page holds at most, and values of one quantity over links and moments.
MAX_FRAMES, MAX_VALUES = 400, 6_000_000
#: Nodes of all congestion trees together, and of one tree.
MAX_TREE_NODES, MAX_NODES_OF_TREE = 400_000, 4_000
#: Trees of one moment.
MAX_TREES = 30
#: Ranks whose time is drawn, spans of all of them, messages.
MAX_RANKS, MAX_SPANS, MAX_MESSAGES = 256, 200_000, 20_000
#: Busiest links whose load is drawn over time.
STRIPS = 8

#: Utilisations and occupancies are whole numbers of such parts; 255 stands for 1.02 and more.
PARTS = 250


@dataclass
class Moments:
    """Snapshots that the page shows, and the intervals that they close.

    Parameters
    ----------
    chosen
        int64 [frames]: their numbers.
    begin_ps, end_ps
        int64 [frames].
    active
        int64: links that carried or held anything.
    notes
        What was left out, in words.
    """

    chosen: NDArray[np.int64]
    begin_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    active: NDArray[np.int64]
    notes: list[str] = field(default_factory=list)


def moments(result: PacketResult) -> Moments:
    """Choose what the page shows of the snapshots."""
    shots = snapshots_of(result)
    later = np.flatnonzero(shots.time_ps > 0)
    total = len(later)
    ever = (shots.busy_ps[-1] > 0) | (shots.held > 0).any(axis=(0, 2))
    active = np.flatnonzero(ever)
    most = max(1, min(MAX_FRAMES, MAX_VALUES // max(len(active), 1)))
    chosen = later
    notes = []
    if total > most:
        # Closer together where more is sent: idle time says little.
        sent = np.diff(shots.busy_ps[later].sum(axis=1), prepend=0.0)
        weight = 0.25 / total + 0.75 * sent / max(sent.sum(), 1.0)
        chosen = later[_evenly(np.cumsum(weight), most)]
        notes.append(
            f"Of {total:,} snapshots the page has {len(chosen):,}, closer together where more is "
            "sent. Utilisation and waits are over all of the time between them; buffers and "
            "congestion trees are those of the moments shown."
        )
    end = shots.time_ps[chosen]
    return Moments(chosen, np.concatenate(([0], end[:-1])), end, active, notes)


def frames_blob(result: PacketResult, shown: Moments) -> str:
    """Utilisation, occupancy and waits of links at every moment."""
    shots, links = snapshots_of(result), shown.active
    span = np.maximum(shown.end_ps - shown.begin_ps, 1).astype(np.float64)[:, None]
    busy = _growth(shots.busy_ps[np.ix_(shown.chosen, links)])
    wait = _growth(shots.wait_ps[np.ix_(shown.chosen, links)].sum(axis=2)) / span
    lanes = shots.held[np.ix_(shown.chosen, links)] / result.hardware.buffer_credits
    receives = np.flatnonzero(adapter_ends(result)[1] >= 0)
    got = _growth(shots.wire_bytes[np.ix_(shown.chosen, receives)].sum(axis=(1, 2)))
    return packed(
        {
            "endNs": shown.end_ps / 1e3,
            "active": links.astype(np.int32),
            "use": _parts(busy / span),
            "held": _parts(lanes.max(axis=2)),
            "waiting": wait.astype(np.float32).ravel(),
            "deliveredGbps": (got * 8e3 / span[:, 0]).astype(np.float32),
        },
        {},
    )


def trees_blob(
    result: PacketResult, shown: Moments, found: Sequence[Sequence[CongestionTree]]
) -> str:
    """Congestion trees of every moment."""
    sender, receiver = adapter_ends(result)
    causes = list(CAUSES)
    per_tree = _nodes_per_tree(found)
    counts = _Messages(result)
    rows: dict[str, list[int]] = {
        key: []
        for key in ("root", "cause", "nodes", "full", "height", "hosts", "messages", "elsewhere",
                    "kept")
    }  # fmt: skip
    parts: list[CongestionTree] = []
    cut = 0
    for at, trees in enumerate(found):
        counts.look(int(shown.end_ps[at]))
        for tree in trees[:MAX_TREES]:
            reached = np.unique(sender[tree.link[tree.full]])
            reached = reached[reached >= 0]
            messages, elsewhere = counts.of(reached, int(receiver[tree.root]))
            kept = min(len(tree), per_tree)
            cut += kept < len(tree)
            values = (tree.root, causes.index(tree.cause), len(tree), int(tree.full.sum()),
                      tree.height, len(reached), messages, elsewhere, kept)  # fmt: skip
            for key, value in zip(rows, values, strict=True):
                rows[key].append(value)
            parts.append(tree)
    if cut:
        shown.notes.append(
            f"Of congestion trees with more than {per_tree:,} buffers those nearest to the root "
            f"are shown; {cut:,} trees are such."
        )
    most = max(map(len, found), default=0)
    if most > MAX_TREES:
        shown.notes.append(
            f"At one moment there are {most:,} congestion trees; the page has the {MAX_TREES} of "
            "most buffers of each moment."
        )
    kept_of = rows["kept"]

    def nodes(name: str) -> NDArray[Any]:
        pieces = [getattr(tree, name)[:kept] for tree, kept in zip(parts, kept_of, strict=True)]
        return np.concatenate([np.zeros(0, dtype=np.int32), *pieces])

    return packed(
        {
            "treeStart": _offsets([min(len(trees), MAX_TREES) for trees in found]),
            "nodeStart": _offsets(kept_of),
            **{key: np.array(values, dtype=np.int32) for key, values in rows.items()},
            "nodeLink": nodes("link").astype(np.int32),
            "nodeParent": nodes("parent").astype(np.int32),
            "nodeVl": nodes("vl").astype(np.uint8),
            "nodeWhy": nodes("why").astype(np.uint8),
            "nodeFull": nodes("full").astype(np.uint8),
        },
        {"causes": causes, "causeTexts": list(CAUSES.values())},
    )


class _Messages:
    """Counts messages that are posted and have not arrived, by host of the sender."""

    def __init__(self, result: PacketResult) -> None:
        work = result.workload
        ops = work.messages[result.posted_ps[work.messages] >= 0]
        self.posted = result.posted_ps[ops]
        arrived = result.arrived_ps[ops]
        self.arrived = np.where(arrived < 0, np.iinfo(np.int64).max, arrived)
        self.source, self.target = result.host[work.rank[ops]], result.host[work.peer[ops]]
        self.hosts = result.fabric.num_hosts
        self.look(0)

    def look(self, time_ps: int) -> None:
        """Choose the moment that is counted at."""
        now = (self.posted <= time_ps) & (self.arrived > time_ps)
        self.here = self.source[now], self.target[now]

    def of(self, hosts: NDArray[np.int64], receiver: int) -> tuple[int, int]:
        """How many from these hosts, and how many of them go elsewhere (-1 where unknown)."""
        among = np.zeros(self.hosts, dtype=bool)
        among[hosts] = True
        source, target = self.here
        mine = among[source]
        other = int(np.count_nonzero(target[mine] != receiver)) if receiver >= 0 else -1
        return int(np.count_nonzero(mine)), other


def ranks_blob(result: PacketResult, shown: Moments) -> str:
    """Spans of ranks and messages between them."""
    work = result.workload
    ranks = np.arange(work.num_ranks)
    if work.num_ranks > MAX_RANKS:
        ranks = np.unique(np.linspace(0, work.num_ranks - 1, MAX_RANKS).round().astype(np.int64))
        shown.notes.append(
            f"Of {work.num_ranks:,} ranks the time of {len(ranks)} is drawn, evenly chosen."
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
            f"Of {len(keep):,} spans of ranks the {MAX_SPANS:,} longest are drawn, those of "
            f"{shortest:g} ns and more."
        )
        keep = np.sort(keep[longest])
    number = {name: place for place, name in enumerate(STATES)}
    ops = work.messages
    ops = ops[(row[work.rank[ops]] >= 0) & (row[work.peer[ops]] >= 0) & (result.left_ps[ops] >= 0)]
    if len(ops) > MAX_MESSAGES:
        took = np.where(result.arrived_ps[ops] >= 0, result.arrived_ps[ops], result.end_ps)
        slowest = np.argsort(result.posted_ps[ops] - took, kind="stable")[:MAX_MESSAGES]
        shown.notes.append(
            f"Of {len(ops):,} messages between these ranks the {MAX_MESSAGES:,} that took longest "
            "are drawn."
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


def busiest_links(result: PacketResult, count: int = STRIPS) -> list[int]:
    """Links of the fabric that were busy longest, idle ones left out; ties by number."""
    busy = result.busy_ps[: result.fabric.num_links]
    order = np.argsort(-busy, kind="stable")[:count]
    return [int(link) for link in order if busy[link] > 0]


def _nodes_per_tree(found: Sequence[Sequence[CongestionTree]]) -> int:
    """How many nodes of each tree the page can hold."""
    sizes = np.array([len(tree) for trees in found for tree in trees[:MAX_TREES]])
    most = MAX_NODES_OF_TREE
    while most > 16 and np.minimum(sizes, most).sum() > MAX_TREE_NODES:
        most //= 2
    return most


def _evenly(course: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """At most so many places at which a rising course has gone up about evenly; the last is one."""
    found, count = np.array([len(course) - 1]), most
    while count <= 64 * most:
        wanted = course[-1] * (np.arange(1, count + 1) / count) * (1 - 1e-12)
        places = np.unique(np.searchsorted(course, wanted))
        if len(places) > most:
            break
        found, count = places, count * 5 // 4 + 1
    return found


def _parts(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Shares as bytes; what is there at all stays above 0."""
    scaled = np.minimum(np.rint(values * PARTS), 255)
    return np.where(values > 0, np.maximum(scaled, 1), 0).astype(np.uint8).ravel()


def _growth(counter: NDArray[Any]) -> NDArray[Any]:
    return np.diff(counter, axis=0, prepend=np.zeros_like(counter[:1]))


def _offsets(counts: list[int]) -> NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int32)
