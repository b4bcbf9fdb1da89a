"""Congestion trees of a run at a snapshot or over an interval, as frames and as text."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.sim.packet.congestion_trees import (
    BUSY,
    CAUSES,
    NO_CREDITS,
    WHY_TEXT,
    Buffer,
    CongestionTree,
    congestion_trees,
    full_buffers,
)

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult
    from weft.sim.packet.snapshots import Snapshots

HOT_SPOT_COLUMNS: Mapping[str, Column] = {
    "tree": Column(pl.Int32, "", "Number of the tree, from 1"),
    "link": Column(pl.Int32, "", "Root of the tree: the directed link at which congestion begins"),
    "name": Column(pl.String, "", "Output port and input port of the root"),
    "cause": Column(pl.String, "", "link, receiver, credits, port or cycle; see `CAUSES`"),
    "weight": Column(
        pl.Float64, "", "Share of the time for which the tree exists (1 in a snapshot)"
    ),
    "utilisation": Column(pl.Float64, "", "Utilisation of the root (over the interval)"),
    "buffers": Column(pl.Int64, "", "Nodes (buffers that wait for the root, directly or not)"),
    "full": Column(pl.Int64, "", "Nodes into which no packet fits"),
    "depth": Column(pl.Int64, "", "Depth of the deepest node"),
    "hosts": Column(pl.Int64, "", "Hosts that cannot send because the next buffer is full"),
    "messages": Column(
        pl.Int64,
        "",
        "Messages of the `hosts` under way while the tree exists (posted, not arrived)",
    ),
    "elsewhere": Column(
        pl.Int64,
        "",
        "Number of the `messages` not to the host at which the root ends (null: no host there)",
    ),
    "wait_ns": Column(pl.Float64, "ns", "Total wait of packets sent on the root or into the nodes"),
}

NODE_COLUMNS: Mapping[str, Column] = {
    "tree": Column(pl.Int32, "", "Number of the tree, from 1"),
    "node": Column(pl.Int32, "", "Number in the tree (0: the root, a link; others: buffers)"),
    "parent": Column(pl.Int32, "", "Node that this node waits for (null: root)"),
    "depth": Column(pl.Int32, "", "Steps to the root"),
    "link": Column(pl.Int32, "", "Directed link (the buffer is at its far end)"),
    "name": Column(pl.String, "", "Output port and input port of the link"),
    "vl": Column(pl.Int32, "", "Virtual lane (null: root)"),
    "host": Column(pl.String, "", "Host whose adapter sends into the buffer (null: none)"),
    "why": Column(pl.String, "", "Most frequent reason of the wait (null: root)"),
    "full": Column(pl.Boolean, "", "No packet fits into the buffer (at least half of the time)"),
    "weight": Column(pl.Float64, "", "Share of the time for which the node is in the tree"),
    "held_share": Column(
        pl.Float64, "", "Share of the buffer's credits in use (end of the interval; null: root)"
    ),
    "wait_ns": Column(pl.Float64, "ns", "Total wait of packets sent on the link and lane"),
}

#: Key of the root, used in place of a (link, lane).
_ROOT: Buffer = (-1, -1)


class HotSpots:
    """Congestion trees of a run, at one snapshot or over several.

    Parameters
    ----------
    result
        A run with snapshots.
    begin_ns, end_ns
        By default, the last snapshot of the run is used; with only `end_ns`, the last snapshot up
        to that time. With `begin_ns`, all snapshots from `begin_ns` to `end_ns` are used, each
        weighted by the time since the previous snapshot. Trees with the same root are then merged,
        and a node's parent is the node that it waits for longest.
    only
        Numbers of the snapshots of the interval to use, ascending; all by default.

    Raises
    ------
    InputError
        If the run has no snapshots, or none in the interval.
    """

    def __init__(
        self,
        result: PacketResult,
        begin_ns: float | None = None,
        end_ns: float | None = None,
        *,
        only: Sequence[int] | None = None,
    ) -> None:
        shots = snapshots_of(result)
        time = shots.time_ps / 1e3
        last = len(time) if end_ns is None else int(np.searchsorted(time, end_ns, side="right"))
        first = last - 1 if begin_ns is None else int(np.searchsorted(time, begin_ns))
        if not 0 <= first < last:
            raise InputError(
                f"no snapshot in that interval; snapshots are from {time[0]:g} to {time[-1]:g} ns"
            )
        self.result = result
        #: Range of the snapshots in use; `last` is exclusive.
        self.first, self.last = first, last
        numbers = [n for n in only or range(first, last) if first <= n < last]
        self.trees = (
            trees_at(result, first) if begin_ns is None else summed_trees(result, numbers, first)
        )
        before = first - 1
        self._begin_ps = int(shots.time_ps[before]) if before >= 0 else 0
        self._end_ps = int(shots.time_ps[last - 1])
        self._wait_ps = shots.wait_ps[last - 1] - (shots.wait_ps[before] if before >= 0 else 0)
        self._busy_ps = shots.busy_ps[last - 1] - (shots.busy_ps[before] if before >= 0 else 0)
        self._held = shots.held[last - 1]
        self._sender, self._receiver = adapter_ends(result)

    def roots(self) -> pl.DataFrame:
        """Return one row for each tree; see `HOT_SPOT_COLUMNS`."""
        rows = [self._row(number, tree) for number, tree in enumerate(self.trees)]
        return frame(
            HOT_SPOT_COLUMNS, {key: [row[key] for row in rows] for key in HOT_SPOT_COLUMNS}
        )

    def nodes(self) -> pl.DataFrame:
        """Return one row for each node, tree by tree, roots first; see `NODE_COLUMNS`."""
        rows = [row for number, tree in enumerate(self.trees) for row in self._nodes(number, tree)]
        return frame(NODE_COLUMNS, {key: [row[key] for row in rows] for key in NODE_COLUMNS})

    def text(self, most_trees: int = 10, most_nodes: int = 60) -> str:
        """Return the trees as text, indented by depth.

        Parameters
        ----------
        most_trees, most_nodes
            Largest numbers of trees, and of nodes per tree, in the text; the text states how many
            are omitted.
        """
        if not self.trees:
            return "No congestion: no packet waits because of a full buffer."
        parts = [
            "\n".join(self._lines(number, tree, most_nodes))
            for number, tree in enumerate(self.trees[:most_trees])
        ]
        if len(self.trees) > most_trees:
            parts.append(f"And {_plural(len(self.trees) - most_trees, 'smaller hot spot')}.")
        return "\n\n".join(parts)

    # -- one tree -------------------------------------------------------------------------------

    def hosts(self, tree: CongestionTree) -> NDArray[np.int64]:
        """Return the hosts that cannot send because of this tree, ascending."""
        reached: NDArray[np.int64] = np.unique(self._sender[tree.link[tree.full]])
        return reached[reached >= 0]

    def _row(self, number: int, tree: CongestionTree) -> dict[str, Any]:
        result, work = self.result, self.result.workload
        hosts, ops = self.hosts(tree), self.result.workload.messages
        # Messages that are posted and have not arrived at the time of one of the tree's snapshots.
        posted, arrived = result.posted_ps[ops], result.arrived_ps[ops]
        times = snapshots_of(result).time_ps[list(tree.snapshots)]
        since = np.searchsorted(times, posted)
        until = np.where(arrived < 0, len(times), np.searchsorted(times, arrived))
        under_way = (posted >= 0) & (since < until)
        mine = ops[under_way & np.isin(result.host[work.rank[ops]], hosts)]
        receiver = int(self._receiver[tree.root])
        other = int(np.count_nonzero(result.host[work.peer[mine]] != receiver))
        span = self._end_ps - self._begin_ps
        return {
            "tree": number + 1,
            "link": tree.root,
            "name": result.link_names[tree.root],
            "cause": tree.cause,
            "weight": tree.root_weight,
            "utilisation": self._busy_ps[tree.root] / span if span else np.nan,
            "buffers": len(tree),
            "full": int(np.count_nonzero(tree.full)),
            "depth": tree.height,
            "hosts": len(hosts),
            "messages": len(mine),
            "elsewhere": other if receiver >= 0 else None,
            "wait_ns": float(self._wait_ps[tree.root].sum() + self._waits(tree).sum()) / 1e3,
        }

    def _waits(self, tree: CongestionTree) -> NDArray[np.int64]:
        """Return the waits of nodes in ps, int64 [nodes]; 0 for a node on the root link."""
        waits: NDArray[np.int64] = self._wait_ps[tree.link, tree.vl]
        return np.where(tree.link == tree.root, 0, waits)

    def _nodes(self, number: int, tree: CongestionTree) -> list[dict[str, Any]]:
        result = self.result
        credits = result.hardware.buffer_credits
        sender = self._sender
        common = {"tree": number + 1}
        rows: list[dict[str, Any]] = [
            common
            | {
                "node": 0,
                "parent": None,
                "depth": 0,
                "link": tree.root,
                "name": result.link_names[tree.root],
                "vl": None,
                "host": None,
                "why": None,
                "full": tree.cause != "link",
                "weight": tree.root_weight,
                "held_share": None,
                "wait_ns": float(self._wait_ps[tree.root].sum()) / 1e3,
            }
        ]
        for at in range(len(tree)):
            link, vl = int(tree.link[at]), int(tree.vl[at])
            rows.append(
                common
                | {
                    "node": at + 1,
                    "parent": int(tree.parent[at]) + 1,
                    "depth": int(tree.depth[at]),
                    "link": link,
                    "name": result.link_names[link],
                    "vl": vl,
                    "host": result.fabric.host_names[sender[link]] if sender[link] >= 0 else None,
                    "why": WHY_TEXT[tree.why[at]],
                    "full": bool(tree.full[at]),
                    "weight": float(tree.weight[at]),
                    "held_share": float(self._held[link, vl] / credits),
                    "wait_ns": float(self._wait_ps[link, vl]) / 1e3,
                }
            )
        return rows

    def _lines(self, number: int, tree: CongestionTree, most: int) -> list[str]:
        row = self._row(number, tree)
        several = self.last - self.first > 1
        head = f"Hot spot {number + 1}: {row['name']}"
        head += f", {_share(tree.root_weight)} of the time" if several else ""
        about = [f"{row['utilisation']:.0%} busy"] if row["utilisation"] is not None else []
        about += [
            f"{_plural(row['buffers'], 'buffer')}, {row['full']:,} of them full",
            f"{row['depth']} deep",
        ]
        if row["hosts"]:
            held = _plural(row["messages"], "message")
            about.append(f"{_plural(row['hosts'], 'host')} held up with {held}")
        if row["elsewhere"]:
            about.append(f"{row['elsewhere']} of them to other hosts")
        lines = [head, "  " + ", ".join(about)]
        if tree.cause != "link":
            lines.append(f"  {tree.cause}: {CAUSES[tree.cause]}")
        lanes = self.result.num_vls > 1
        order = depth_first(tree)
        for at in order[:most]:
            name = self.result.link_names[tree.link[at]]
            facts = [f"lane {tree.vl[at]}"] if lanes else []
            facts += [WHY_TEXT[tree.why[at]]]
            facts += ["full"] if tree.full[at] else []
            facts += [f"{_share(tree.weight[at])} of the time"] if several else []
            lines.append("  " * (int(tree.depth[at]) + 1) + f"{name}  {', '.join(facts)}")
        if len(order) > most:
            lines.append(f"    and {len(order) - most:,} more buffers")
        return lines


def snapshots_of(result: PacketResult) -> Snapshots:
    """Return the snapshots of a run."""
    if result.snapshots is None or not len(result.snapshots.time_ps):
        raise InputError("the run has no snapshots; give weft.simulate a snapshot_ns")
    return result.snapshots


def adapter_ends(result: PacketResult) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the host whose adapter each link begins at, and ends at: two int64 [links], or -1.

    The links inside hosts that forward follow the fabric's links: for each such host, the link from
    its adapter into its node, then the link back.
    """
    fabric = result.fabric
    links = len(result.busy_ps)
    ends = np.full((2, links), -1, dtype=np.int64)
    for side, node in ((0, fabric.link_from), (1, fabric.link_to)):
        adapter = ~fabric.forwards[node] & (node < fabric.num_switches + fabric.num_hosts)
        ends[side, : fabric.num_links] = np.where(adapter, node - fabric.num_switches, -1)
    inside = np.flatnonzero(fabric.forwards[fabric.host_nodes])
    into = fabric.num_links + 2 * np.arange(len(inside))
    if links > fabric.num_links:
        ends[0, into], ends[1, into + 1] = inside, inside
    return ends[0], ends[1]


def trees_at(result: PacketResult, snapshot: int) -> list[CongestionTree]:
    """Return the congestion trees of one snapshot; see `congestion_trees`.

    `snapshot`: number of the snapshot, from 0.
    """
    shots, hardware = snapshots_of(result), result.hardware
    state = (shots.wants[snapshot], shots.wants_vl[snapshot], shots.why[snapshot])
    if not ((state[2] == BUSY) | (state[2] == NO_CREDITS)).any():
        return []
    size = result.workload.size_bytes[result.workload.messages].max(initial=0)
    packet = hardware.credits_of(min(int(size), hardware.mtu_bytes) + hardware.header_bytes)
    full = full_buffers(*state, shots.held[snapshot], hardware.buffer_credits, packet)
    slow = adapter_ends(result)[1] >= 0
    if hardware.adapter_gbps is None:
        slow[:] = False
    else:
        rate = result.fabric.link_rate_gbps
        slow[: len(rate)] &= rate > hardware.adapter_gbps
        slow[len(rate) :] = False
    trees = congestion_trees(*state, full, slow)
    return [replace(tree, snapshots=(snapshot,)) for tree in trees]


def summed_trees(
    result: PacketResult, numbers: Sequence[int], first: int = 0
) -> list[CongestionTree]:
    """Return the congestion trees of several snapshots, merged by root, largest weight first.

    `numbers`: numbers of the snapshots, ascending. Each snapshot is weighted by the time since the
    previous snapshot of the list, the first one by the time since the snapshot before `first`,
    which is the first of the interval.
    """
    time = snapshots_of(result).time_ps.astype(np.float64)
    before = time[first - 1] if first else 0.0
    spans = np.diff(time[list(numbers)], prepend=before)
    spans = spans / spans.sum() if spans.sum() else np.full(len(spans), 1 / len(spans))
    by_root: dict[int, list[tuple[CongestionTree, float]]] = {}
    for at, span in zip(numbers, spans.tolist(), strict=True):
        for tree in trees_at(result, at):
            by_root.setdefault(tree.root, []).append((tree, span))
    trees = [_sum(trees) for _, trees in sorted(by_root.items())]
    return sorted(trees, key=lambda tree: -float(tree.weight.sum()))


def _sum(trees: Sequence[tuple[CongestionTree, float]]) -> CongestionTree:
    """Merge trees of one root; every node keeps its path of largest weight to the root."""
    edges: dict[Buffer, dict[Buffer, float]] = {}
    sums: dict[Buffer, dict[tuple[str, int], float]] = {}
    causes: dict[str, float] = {}
    for tree, span in trees:
        causes[tree.cause] = causes.get(tree.cause, 0.0) + span
        keys = list(zip(tree.link.tolist(), tree.vl.tolist(), strict=True))
        for at, key in enumerate(keys):
            out = edges.setdefault(_ROOT if tree.parent[at] < 0 else keys[tree.parent[at]], {})
            out[key] = out.get(key, 0.0) + span
            mine = sums.setdefault(key, {})
            for fact in (
                ("weight", 0),
                ("full", int(tree.full[at])),
                ("why", int(tree.why[at])),
                ("wants_vl", int(tree.wants_vl[at])),
            ):
                mine[fact] = mine.get(fact, 0.0) + span
    # A maximum spanning tree from the root, by Prim's algorithm.
    depth, above = {_ROOT: 0}, {}
    heap = [(-weight, key, _ROOT) for key, weight in edges[_ROOT].items()]
    heapq.heapify(heap)
    while heap:
        _, key, parent = heapq.heappop(heap)
        if key in depth:
            continue
        depth[key], above[key] = depth[parent] + 1, parent
        for child, weight in edges.get(key, {}).items():
            if child not in depth:
                heapq.heappush(heap, (-weight, child, key))
    order = sorted(above, key=lambda key: (depth[key], key))
    number = {_ROOT: -1} | {key: index for index, key in enumerate(order)}

    def mostly(key: Buffer, fact: str) -> int:
        shares = {value: weight for (name, value), weight in sums[key].items() if name == fact}
        return max(shares, key=lambda value: (shares[value], value))

    return CongestionTree(
        root=trees[0][0].root,
        cause=max(causes, key=lambda cause: (causes[cause], cause)),
        link=np.array([link for link, _ in order], dtype=np.int32),
        vl=np.array([vl for _, vl in order], dtype=np.int32),
        parent=np.array([number[above[key]] for key in order], dtype=np.int32),
        depth=np.array([depth[key] for key in order], dtype=np.int32),
        wants_vl=np.array([mostly(key, "wants_vl") for key in order], dtype=np.int32),
        why=np.array([mostly(key, "why") for key in order], dtype=np.uint8),
        full=np.array([bool(mostly(key, "full")) for key in order]),
        weight=np.array([sums[key]["weight", 0] for key in order]),
        root_weight=sum(causes.values()),
        snapshots=tuple(number for tree, _ in trees for number in tree.snapshots),
    )


def depth_first(tree: CongestionTree) -> list[int]:
    """Return the nodes of a tree in depth-first order, siblings by number."""
    children: dict[int, list[int]] = {}
    for at, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(at)
    order, stack = [], children.get(-1, [])[::-1]
    while stack:
        at = stack.pop()
        order.append(at)
        stack += children.get(at, [])[::-1]
    return order


def _plural(count: int, one: str) -> str:
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "under 1%"
