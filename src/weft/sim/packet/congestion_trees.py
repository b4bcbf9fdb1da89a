"""Who waits for whom in one state of the buffers: congestion trees, and the circle of a deadlock.

A buffer is at the far end of a directed link, one for each lane, and is numbered like the queue
that sends into it: (link, lane). The first packet of a buffer waits to enter another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import any_numbers
from weft.core.errors import InputError
from weft.kernels.packet import view

#: Why the first packet of a buffer waits: values of ``why`` in snapshots.
NOTHING, BUSY, NO_CREDITS = view.NOTHING_WAITS, view.LINK_BUSY, view.NO_CREDITS
#: The same in words.
WHY_TEXT = ("", "link busy", "no credits", "input port busy", "cannot leave yet")

#: A buffer: directed link at whose far end it is, and lane.
Buffer = tuple[int, int]

#: Why a tree has its root where it is.
CAUSES = {
    "link": "as many packets want the link as it can carry, or more; there is room at its far end",
    "receiver": "the adapter at the link's far end writes to memory more slowly than the link "
    "brings",
    "credits": "the buffer at the link's far end is full, but nothing waits in it: it is too small "
    "for the time that credits take to come back",
    "port": "the buffer at the link's far end is full but empties: its first packet waits for the "
    "one before to have left, or until it may leave",
    "circle": "the buffer at the link's far end waits for one that waits for it",
}


@dataclass(frozen=True, eq=False)
class CongestionTree:
    """What waits for one link, in the buffers before it and in those before full ones.

    Nodes are buffers whose first packet waits: for the root, or to enter the buffer of another
    node, which is full. A node that is full itself has its link's sender wait in turn.

    Parameters
    ----------
    root
        Directed link at which the waiting begins.
    cause
        One of `CAUSES`.
    link, vl
        int32 [nodes]: the buffer of each node, ordered by depth, link and lane.
    parent
        int32 [nodes]: the node whose buffer it waits to enter, -1 where it waits for the root.
    depth
        int32 [nodes]: 1 for those that wait for the root.
    wants_vl
        int32 [nodes]: the lane on which its first packet wants to leave.
    why
        uint8 [nodes]: why that waits; see `WHY_TEXT`.
    full
        bool [nodes]: no packet fits into it, so the sender of its link waits. Over an interval:
        for at least half of the time that it is in the tree.
    weight
        float64 [nodes]: share of the time that the node is in the tree, 1 in a single snapshot.
    root_weight
        Share of the time that the tree is there.
    snapshots
        Numbers of the snapshots at which it is there; empty where that is not known.
    """

    root: int
    cause: str
    link: NDArray[np.int32]
    vl: NDArray[np.int32]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    wants_vl: NDArray[np.int32]
    why: NDArray[np.uint8]
    full: NDArray[np.bool_]
    weight: NDArray[np.float64]
    root_weight: float = 1.0
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
    """Buffers into which no packet fits, bool [links, vls].

    Parameters
    ----------
    wants, wants_vl, why
        As for `deadlock_cycle`. A buffer for whose credits something waits is full.
    held
        int [links, vls]: credits taken of each buffer.
    buffer_credits
        Credits that each has.
    packet_credits
        Credits of the largest packet: with fewer left, a buffer counts as full.
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
    """Find what waits for what, from the links at which the waiting begins.

    A link is a root when packets wait for it and no full buffer at its far end, whose first packet
    waits for yet another link, is the reason. Waiting without a full buffer is a queue and no
    congestion: such trees are left out.

    Parameters
    ----------
    wants, wants_vl, why
        As for `deadlock_cycle`.
    full
        bool [links, vls], such as `full_buffers` gives.
    slow_end
        bool [links]: the link ends in an adapter that is slower than it.

    Returns
    -------
    list of CongestionTree
        Most nodes first, then by root.

    Raises
    ------
    InputError
        When the arrays do not have one shape of two dimensions, or name no buffer.
    """
    where, lane, reason, filled = _checked(wants, wants_vl, why, full)
    lanes = where.shape[1]
    after = _next_buffer(where, lane, (reason == BUSY) | (reason == NO_CREDITS))
    passes = filled.ravel() & (after >= 0)
    waiting = np.flatnonzero(after >= 0)
    in_circle = np.zeros(len(after), dtype=bool)
    for circle in circles(np.where(passes, after, -1)):
        in_circle[circle[0]], passes[circle[0]] = True, False
    # Node by node from the roots: a buffer belongs to the tree of the one that it waits for.
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
    place = np.zeros(len(after), dtype=np.int32)
    for nodes in np.split(order, starts[1:]):
        if not filled.ravel()[nodes].any():
            continue
        place[nodes] = np.arange(len(nodes))
        first = depth[nodes] == 1
        queues = np.unique(after[nodes[first]])
        trees.append(
            CongestionTree(
                root=int(root[nodes[0]]),
                cause=_cause(queues, filled, reason, in_circle, np.asarray(slow_end)),
                link=(nodes // lanes).astype(np.int32),
                vl=(nodes % lanes).astype(np.int32),
                # A circle's first buffer is the root and, at the other end, a node.
                parent=np.where(first, np.int32(-1), place[after[nodes]]),
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
    in_circle: NDArray[np.bool_],
    slow_end: NDArray[np.bool_],
) -> str:
    """Why packets wait for a link; of its lanes those are asked for which some do."""
    if in_circle[queues].any():
        return "circle"
    if not full.ravel()[queues].all():
        return "link"
    if slow_end[queues[0] // full.shape[1]]:
        return "receiver"
    return "port" if (why.ravel()[queues] != NOTHING).any() else "credits"


def deadlock_cycle(wants: ArrayLike, wants_vl: ArrayLike, why: ArrayLike) -> list[Buffer]:
    """Find buffers each of which waits for credits of the next, in a circle.

    Parameters
    ----------
    wants
        int [links, vls]: link by which the first packet of the buffer at the far end of each link
        wants to leave, -1 where nothing waits.
    wants_vl
        int [links, vls]: on which lane.
    why
        int [links, vls]: why it waits; only those that lack credits (2) can be part of a circle.

    Returns
    -------
    list of (link, vl)
        Empty when there is no circle. The first is the one of the lowest number; of several
        circles it is the shortest, of those the one of the lowest number.

    Raises
    ------
    InputError
        When the arrays do not have one shape of two dimensions, or name no buffer.
    """
    where, lane, reason = _checked(wants, wants_vl, why)
    lanes = where.shape[1]
    found = circles(_next_buffer(where, lane, reason == NO_CREDITS))
    if not found:
        return []
    shortest = min(found, key=lambda circle: (len(circle), circle[0]))
    return [(at // lanes, at % lanes) for at in shortest]


def circles(after: NDArray[np.int64]) -> list[list[int]]:
    """All circles of a graph in which at most one edge leaves each node.

    Parameters
    ----------
    after
        int64 [nodes]: where the edge goes, -1 where none leaves.

    Returns
    -------
    list of list of int
        Each begins with its lowest node and follows the edges; by lowest node.
    """
    follow = after.tolist()
    seen = [0] * len(follow)
    found = []
    for start in np.flatnonzero(after >= 0).tolist():
        way, at = [], start
        while at >= 0 and not seen[at]:
            seen[at] = start + 1
            way.append(at)
            at = follow[at]
        # A walk that meets itself has found a circle; one that meets an earlier walk has not.
        if at >= 0 and seen[at] == start + 1:
            circle = way[way.index(at) :]
            lowest = circle.index(min(circle))
            found.append(circle[lowest:] + circle[:lowest])
    return sorted(found)


def _checked(*arrays: ArrayLike) -> list[NDArray[Any]]:
    """The arrays, of one shape [links, vls]."""
    found = [any_numbers(array, "the state of buffers", "iub", (None, None)) for array in arrays]
    shapes = [array.shape for array in found]
    if len(set(shapes)) > 1:
        raise InputError(
            f"the state of buffers needs arrays of one shape [links, vls], not {shapes}"
        )
    return found


def _next_buffer(
    wants: NDArray[Any], wants_vl: NDArray[Any], waits: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """int64 [links * vls]: the buffer that each waits to enter, -1 where it waits for none."""
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
