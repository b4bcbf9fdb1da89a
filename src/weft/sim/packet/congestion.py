"""Who waits for whom: circles of full buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InputError

#: Why the first packet of a buffer waits: values of ``why`` in snapshots.
NOTHING, BUSY, NO_CREDITS, PORT_BUSY, TOO_EARLY = range(5)
#: The same in words.
WHY_TEXT = ("", "link busy", "no credits", "input port busy", "cannot leave yet")

#: A buffer: directed link at whose far end it is, and lane.
Buffer = tuple[int, int]


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


def cycle_text(cycle: Sequence[Buffer], link_name: Callable[[int], str]) -> str:
    """A circle of buffers in words.

    Parameters
    ----------
    cycle
        As `deadlock_cycle` gives it, not empty.
    link_name
        Name of a directed link.
    """
    names = [f"{link_name(link)} lane {vl}" for link, vl in cycle]
    if len(names) == 1:
        return f"the buffer of {names[0]} waits for room in itself"
    waits = ", which waits for that of ".join(names)
    return (
        f"{len(names)} buffers wait for each other's room in a circle: that of {waits}, which "
        f"waits for the first"
    )


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
    found = [np.asarray(array) for array in arrays]
    shape = found[0].shape
    if len(shape) != 2 or any(array.shape != shape for array in found):
        shapes = ", ".join(str(array.shape) for array in found)
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
