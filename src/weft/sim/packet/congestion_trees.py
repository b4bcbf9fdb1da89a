"""Congestion trees and deadlock cycles of one state of the buffers.

At its far end, each directed link has one buffer per lane, named (link, lane). The first packet of
a buffer waits to enter another buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import any_numbers
from weft.core.errors import InputError
from weft.kernels.packet import view

#: Reasons why the first packet of a buffer waits: values of ``why`` in snapshots.
NOTHING, BUSY, NO_CREDITS = view.NOTHING_WAITS, view.LINK_BUSY, view.NO_CREDITS
#: The reasons as text.
WHY_TEXT = ("", "link busy", "no credits", "input port busy", "cannot leave yet")

#: A buffer: the directed link at whose far end it is, and its lane.
Buffer = tuple[int, int]

#: Causes of congestion at the root of a tree.
CAUSES = {
    "link": "the link is saturated, and the buffer at its far end has room",
    "receiver": "the adapter at the link's far end writes to memory more slowly than the link "
    "delivers",
    "credits": "the buffer at the link's far end is full, but nothing waits in it: the buffer is "
    "too small for the round trip of credits",
    "port": "the buffer at the link's far end is full but drains: its first packet waits for the "
    "previous one to leave the port, or for the switch latency",
    "cycle": "the buffer at the link's far end waits in a cycle for itself",
}


@dataclass(frozen=True, eq=False)
class CongestionTree:
    """Buffers that wait, directly or through full buffers, for one link.

    Nodes are buffers whose first packet waits for the root, or waits to enter the full buffer of
    another node. A link into the full buffer of a node cannot send.
    """

    #: Directed link at which congestion begins.
    root: int
    #: One of `CAUSES`.
    cause: str
    #: int32 [nodes]: the buffer of each node, ordered by depth, link and lane.
    link: NDArray[np.int32]
    vl: NDArray[np.int32]
    #: int32 [nodes]: the node that the first packet of each node waits to enter, -1 if the packet
    #: waits for the root.
    parent: NDArray[np.int32]
    #: int32 [nodes]: 1 for nodes that wait for the root.
    depth: NDArray[np.int32]
    #: int32 [nodes]: the lane of the first packet on its output link.
    wants_vl: NDArray[np.int32]
    #: uint8 [nodes]: reason of the wait; see `WHY_TEXT`.
    why: NDArray[np.uint8]
    #: bool [nodes]: no packet fits into the buffer, so its link cannot send. Over an interval: the
    #: buffer is full for at least half of the time for which it is in the tree.
    full: NDArray[np.bool_]
    #: float64 [nodes]: share of the time for which the node is in the tree, 1 in one snapshot.
    weight: NDArray[np.float64]
    #: Share of the time for which the tree exists.
    root_weight: float = 1.0
    #: Numbers of the snapshots with this tree; empty if unknown.
    snapshots: tuple[int, ...] = ()

    @property
    def height(self) -> int:
        """Depth of the deepest node."""
        return int(self.depth[-1])

    def __len__(self) -> int:
        return len(self.link)


def full_buffers(
    wants: ArrayLike,
    wants_vl: ArrayLike,
    why: ArrayLike,
    held: ArrayLike,
    buffer_credits: int,
    packet_credits: int,
) -> NDArray[np.bool_]:
    """Return the buffers into which no packet fits, bool [links, vls].

    `wants`, `wants_vl`, `why`: as in `deadlock_cycle`. A buffer is full if a packet waits for its
    credits. `held`, int [links, vls]: credits in use of each buffer. `packet_credits`: credits of
    the largest packet: a buffer with fewer free credits counts as full.
    """
    where, lane, reason, taken = _checked(wants, wants_vl, why, held)
    full = np.asarray(taken > buffer_credits - packet_credits)
    short = _next_buffer(where, lane, reason == NO_CREDITS)
    full.ravel()[short[short >= 0]] = True
    return full


def congestion_trees(
    wants: ArrayLike,
    wants_vl: ArrayLike,
    why: ArrayLike,
    full: ArrayLike,
    slow_end: ArrayLike,
) -> list[CongestionTree]:
    """Find the congestion trees, from the links at which congestion begins.

    A link is a root if packets wait for it, unless the reason is a full buffer at its far end whose
    first packet waits for another link. Trees without a full buffer are queues, not congestion, and
    are left out.

    `wants`, `wants_vl`, `why`: as in `deadlock_cycle`. `full`, bool [links, vls]: as returned by
    `full_buffers`. `slow_end`, bool [links]: whether the link ends at an adapter that is slower
    than the link.

    Returns trees in descending order of the number of nodes, then by root.
    """
    where, lane, reason, filled = _checked(wants, wants_vl, why, full)
    lanes = where.shape[1]
    after = _next_buffer(where, lane, (reason == BUSY) | (reason == NO_CREDITS))
    passes = filled.ravel() & (after >= 0)
    waiting = np.flatnonzero(after >= 0)
    in_cycle = np.zeros(len(after), dtype=bool)
    for cycle in cycles_of(np.where(passes, after, -1)):
        in_cycle[cycle[0]], passes[cycle[0]] = True, False
    # From the roots outwards: a buffer belongs to the tree of the buffer that it waits for.
    root = np.full(len(after), -1, dtype=np.int64)
    depth = np.zeros(len(after), dtype=np.int32)
    to = after[waiting]
    new = waiting[~passes[to]]
    root[new], depth[new] = after[new] // lanes, 1
    while len(new):
        new = waiting[passes[to] & (root[waiting] < 0) & (root[to] >= 0)]
        root[new], depth[new] = root[after[new]], depth[after[new]] + 1
    trees = []
    order = waiting[np.lexsort((waiting, depth[waiting], root[waiting]))]
    starts = np.flatnonzero(np.diff(root[order], prepend=-2))
    index = np.zeros(len(after), dtype=np.int32)
    for nodes in np.split(order, starts[1:]):
        if not filled.ravel()[nodes].any():
            continue
        index[nodes] = np.arange(len(nodes))
        first = depth[nodes] == 1
        queues = np.unique(after[nodes[first]])
        trees.append(
            CongestionTree(
                root=int(root[nodes[0]]),
                cause=_cause(queues, filled, reason, in_cycle, np.asarray(slow_end)),
                link=(nodes // lanes).astype(np.int32),
                vl=(nodes % lanes).astype(np.int32),
                # The first buffer of a cycle is a node of the tree whose root is the buffer's link.
                parent=np.where(first, np.int32(-1), index[after[nodes]]),
                depth=depth[nodes],
                wants_vl=(after[nodes] % lanes).astype(np.int32),
                why=reason.ravel()[nodes].astype(np.uint8),
                full=filled.ravel()[nodes],
                weight=np.ones(len(nodes)),
            )
        )
    return sorted(trees, key=lambda tree: (-len(tree), tree.root))


def _cause(
    queues: NDArray[np.int64],
    full: NDArray[np.bool_],
    why: NDArray[Any],
    in_cycle: NDArray[np.bool_],
    slow_end: NDArray[np.bool_],
) -> str:
    """Return the cause, one of `CAUSES`, for the lanes of a link that packets wait for."""
    if in_cycle[queues].any():
        return "cycle"
    if not full.ravel()[queues].all():
        return "link"
    if slow_end[queues[0] // full.shape[1]]:
        return "receiver"
    return "port" if (why.ravel()[queues] != NOTHING).any() else "credits"


def deadlock_cycle(wants: ArrayLike, wants_vl: ArrayLike, why: ArrayLike) -> list[Buffer]:
    """Find a cycle of buffers in which each buffer waits for credits of the next one.

    `wants`, int [links, vls]: output link that the first packet of the buffer at the far end of
    each link waits for, -1 if nothing waits. `wants_vl`, int [links, vls]: lane of that packet on
    the output link. `why`, int [links, vls]: reason of the wait; only lack of credits (2) can be
    part of a cycle.

    Returns the shortest cycle, beginning at its lowest buffer; of several shortest cycles, the one
    with the lowest buffer. Empty if there is no cycle.
    """
    where, lane, reason = _checked(wants, wants_vl, why)
    lanes = where.shape[1]
    cycles = cycles_of(_next_buffer(where, lane, reason == NO_CREDITS))
    if not cycles:
        return []
    shortest = min(cycles, key=lambda cycle: (len(cycle), cycle[0]))
    return [(at // lanes, at % lanes) for at in shortest]


def cycles_of(after: NDArray[np.int64]) -> list[list[int]]:
    """Return all cycles of a graph with at most one outgoing edge for each node.

    `after` [nodes]: end of the outgoing edge, -1 for none.

    Each cycle begins at its lowest node and follows the edges; cycles are sorted by that node.
    """
    follow = after.tolist()
    seen = [0] * len(follow)
    cycles = []
    for start in np.flatnonzero(after >= 0).tolist():
        walk, at = [], start
        while at >= 0 and not seen[at]:
            seen[at] = start + 1
            walk.append(at)
            at = follow[at]
        # A walk that returns to itself contains a new cycle; a walk that reaches an earlier walk
        # does not.
        if at >= 0 and seen[at] == start + 1:
            cycle = walk[walk.index(at) :]
            lowest = cycle.index(min(cycle))
            cycles.append(cycle[lowest:] + cycle[:lowest])
    return sorted(cycles)


def _checked(*arrays: ArrayLike) -> list[NDArray[Any]]:
    """Return the arrays after checking that all have the same shape [links, vls]."""
    checked = [any_numbers(array, "the state of buffers", "iub", (None, None)) for array in arrays]
    shapes = [array.shape for array in checked]
    if len(set(shapes)) > 1:
        raise InputError(
            f"the state of buffers needs arrays of one shape [links, vls], not {shapes}"
        )
    return checked


def _next_buffer(
    wants: NDArray[Any], wants_vl: NDArray[Any], waits: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the buffer that each buffer waits to enter, int64 [links * vls], -1 for none."""
    links, lanes = wants.shape
    link, lane = wants.astype(np.int64), wants_vl.astype(np.int64)
    wrong = waits & ((link < 0) | (link >= links) | (lane < 0) | (lane >= lanes))
    if wrong.any():
        at = np.argwhere(wrong)[0]
        raise InputError(
            f"the buffer of link {at[0]}, lane {at[1]} waits for link {link[tuple(at)]}, lane "
            f"{lane[tuple(at)]}; there are {links} links of {lanes} lanes"
        )
    after: NDArray[np.int64] = np.where(waits, link * lanes + lane, -1).ravel()
    return after
