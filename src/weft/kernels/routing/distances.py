"""Hop distances between the rows of a fabric, along any path or along up*/down* paths."""

import numpy as np

from weft.kernels.cache import njit

#: Distances are 16 bits wide, so that a ring or a chain of any size that tables can hold fits.
UNREACHED = 65535


@njit(cache=True)
def bfs(edge_offset, edge_row, root, hops, queue):
    """Fill hops[r] with the links from row r to root; `UNREACHED` where there is no way.

    Cables work both ways, so a search from the root gives the distance to it. The first `tail`
    entries of the queue, which is returned, are the rows reached, nearest first.
    """
    hops[:] = UNREACHED
    hops[root] = 0
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        row = queue[head]
        head += 1
        further = hops[row] + 1
        if further >= UNREACHED:
            break
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if hops[other] == UNREACHED:
                hops[other] = further
                queue[tail] = other
                tail += 1
    return tail


@njit(cache=True)
def bfs_many(edge_offset, edge_row, roots, hops):
    """Fill hops[i, r], uint16, with the links from row r to row roots[i]."""
    queue = np.empty(len(edge_offset), dtype=np.int32)
    for i in range(len(roots)):
        bfs(edge_offset, edge_row, roots[i], hops[i], queue)


@njit(cache=True)
def updown(edge_offset, edge_row, edge_up, root, component_size, hops, down, queue):
    """Distances to root over legal paths, up*/down*, one path per row so that tables can hold it.

    edge_up[e] tells that edge e leads towards a root of the order. down[r] is 1 when the path of
    row r only goes down; a row above may step into r only then.

    Each row first gets the shortest legal path that a search from the target meets (of equals
    the down one), as OpenSM's does. That can leave rows without any; when it does, the search is
    made again so that every row that has a down path uses it, which connects whatever the order
    connects.
    """
    tail = _shortest_first(edge_offset, edge_row, edge_up, root, hops, down, queue)
    if tail < component_size:
        tail = _down_first(edge_offset, edge_row, edge_up, root, hops, down, queue)
    return tail


@njit(cache=True)
def _shortest_first(edge_offset, edge_row, edge_up, root, hops, down, queue):
    hops[:] = UNREACHED
    down[:] = 0
    hops[root] = 0
    down[root] = 1
    queue[0] = root
    start, tail = 0, 1
    while start < tail and hops[queue[start]] + 1 < UNREACHED:
        stop = tail
        for climbing in range(2):  # of equal paths the one that only goes down
            for q in range(start, stop):
                row = queue[q]
                if climbing == 0 and not down[row]:
                    continue
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    other = edge_row[e]
                    # The search crosses e from row to other, the packet from other to row.
                    if hops[other] == UNREACHED and edge_up[e] != climbing:
                        hops[other] = hops[row] + 1
                        down[other] = 1 - climbing
                        queue[tail] = other
                        tail += 1
        start = stop
    return tail


@njit(cache=True)
def _down_first(edge_offset, edge_row, edge_up, root, hops, down, queue):
    hops[:] = UNREACHED
    down[:] = 0
    hops[root] = 0
    down[root] = 1
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        row = queue[head]
        head += 1
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if edge_up[e] and hops[other] == UNREACHED and hops[row] + 1 < UNREACHED:
                hops[other] = hops[row] + 1
                down[other] = 1
                queue[tail] = other
                tail += 1
    # The rest goes up to the nearest of them: a search from sources of unequal distance.
    for distance in range(UNREACHED - 1):
        further = False
        q = 0
        while q < tail:
            row = queue[q]
            q += 1
            if hops[row] > distance:
                further = True
            elif hops[row] == distance:
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    other = edge_row[e]
                    if not edge_up[e] and hops[other] == UNREACHED:
                        hops[other] = distance + 1
                        queue[tail] = other
                        tail += 1
                        further = True
        if not further:
            break
    return tail


@njit(cache=True)
def next_edges(edge_offset, edge_row, edge_up, ordered, hops, down, rows, count, first, edges):
    """List, for each of the rows, the edges that a shortest (legal) path may leave by.

    Edges of row r are edges[first[r]:first[r + 1]] only when rows are 0..count-1 in that order;
    in general they are the run that first[r] and the returned counts tell, packed in the order of
    `rows`. With ordered False any edge to a row one hop nearer will do; with True edges must also
    keep to the order (see `updown`).
    """
    filled = 0
    for i in range(count):
        row = rows[i]
        first[i] = filled
        nearer = hops[row] - 1
        if hops[row] != 0 and hops[row] != UNREACHED:
            for e in range(edge_offset[row], edge_offset[row + 1]):
                other = edge_row[e]
                if hops[other] != nearer:
                    continue
                if ordered and (edge_up[e] == down[row] or (not edge_up[e] and not down[other])):
                    continue
                edges[filled] = e
                filled += 1
    first[count] = filled
    return filled
