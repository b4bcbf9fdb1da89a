"""Edge colouring of bipartite multigraphs: Euler splits, and matchings at odd degrees.

The vertices are merged and split until all have at most D edges, and dummy edges make the graph
D-regular. If D is even, the graph is split into two of degree D / 2, which are coloured separately.
If D is odd, a perfect matching is removed first and gets a colour of its own
(Cole, Ost and Schirra 2001). Perfect matchings are found by random walks along alternating paths
(Goel, Kapralov and Khanna 2013), in O(n log n) expected steps for n vertices on each side.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import splitmix64


@njit(cache=True)
def colour_edges(left, right, colours, seed):
    """Colour edges so that each vertex has as few edges of one colour as possible.

    A vertex of degree d has at most ceil(d / colours) edges of any colour. With at least as many
    colours as the largest degree, the colouring is thus proper.

    `left`, `right`, int32 [edges]: the ends of each edge, numbered from 0 on either side.
    `colours`: number of colours, at least 1. `seed`, uint64: seed of the random walks. Any seed
    gives a colouring with these properties.

    Returns int32 [edges]: colour of each edge, from 0 to `colours` - 1.
    """
    count = len(left)
    result = np.zeros(count, dtype=np.int32)
    if count == 0 or colours == 1:
        return result
    degree = np.int64(colours)
    left_part, num_left = _equal_parts(left, degree)
    right_part, num_right = _equal_parts(right, degree)
    size = max(num_left, num_right)
    total = size * degree
    # Edges sorted by left vertex: vertex u has the positions from u * degree on.
    edge = np.full(total, -1, dtype=np.int32)
    head = np.empty(total, dtype=np.int32)
    used_left = np.zeros(size, dtype=np.int64)
    used_right = np.zeros(size, dtype=np.int64)
    for e in range(count):
        u = left_part[e]
        at = u * degree + used_left[u]
        used_left[u] += 1
        edge[at] = e
        head[at] = right_part[e]
        used_right[right_part[e]] += 1
    spare = 0
    for u in range(size):
        for at in range(u * degree + used_left[u], (u + 1) * degree):
            while used_right[spare] == degree:
                spare += 1
            used_right[spare] += 1
            head[at] = spare
    _colour_regular(edge, head, size, degree, seed, result)
    return result


@njit(cache=True)
def colour_groups(order, start, left, right, width, use_all, seed, colour):
    """Colour the flows of each group, with as few colours as possible but at most `width`.

    - `order`, `start`: int64 [flows] and int64 [groups + 1]: flows sorted by group; for each group
      the position of its first flow, followed by the number of flows.
    - `left`, `right`, int32 [flows]: the ends of each flow.
    - `width`: largest number of colours; if 0, as many as the largest degree of the vertices of a
      group.
    - `use_all`: whether to use `width` colours even if fewer suffice.
    - `seed`: as for `colour_edges`.
    - `colour`, int32 [flows], written.
    """
    for group in range(len(start) - 1):
        first, end = start[group], start[group + 1]
        if first == end:
            continue
        members = order[first:end]
        heads, tails = left[members], right[members]
        colours = max(np.bincount(heads).max(), np.bincount(tails).max())
        if width:
            colours = np.int64(width) if use_all else min(colours, np.int64(width))
        colour[members] = colour_edges(heads, tails, colours, seed)


@njit(cache=True)
def _equal_parts(end, degree):
    """Assign edges to vertices of at most `degree` edges, and count these vertices.

    A vertex with more edges is split into parts. All but the last part are full; vertices and last
    parts with few edges are merged.
    """
    count = len(end)
    total = 0
    for e in range(count):
        total = max(total, end[e] + 1)
    edges = np.zeros(total, dtype=np.int64)
    for e in range(count):
        edges[end[e]] += 1
    first = np.zeros(total, dtype=np.int64)
    last = np.zeros(total, dtype=np.int64)
    parts = np.int64(0)
    # The merged vertex with room, and its number of edges.
    merged, filled = np.int64(-1), degree
    for vertex in range(total):
        first[vertex] = parts
        parts += edges[vertex] // degree
        rest = edges[vertex] % degree
        if rest:
            if filled + rest > degree:
                merged, filled = parts, np.int64(0)
                parts += 1
            filled += rest
            last[vertex] = merged
    done = np.zeros(total, dtype=np.int64)
    part = np.empty(count, dtype=np.int32)
    for e in range(count):
        vertex = end[e]
        whole = done[vertex] // degree
        part[e] = first[vertex] + whole if whole < edges[vertex] // degree else last[vertex]
        done[vertex] += 1
    return part, parts


@njit(cache=True)
def _colour_regular(edge, head, size, degree, seed, result):
    """Colour a regular graph whose edges are sorted by left vertex; permute `edge` and `head`."""
    total = len(head)
    partner = np.empty(total, dtype=np.int32)
    second = np.empty(total, dtype=np.bool_)
    spare_edge = np.empty(total, dtype=np.int32)
    spare_head = np.empty(total, dtype=np.int32)
    pending = np.empty(size, dtype=np.int32)
    left_by = np.empty(size, dtype=np.int32)
    chosen = np.empty(size, dtype=np.int32)
    owner = np.empty(size, dtype=np.int32)
    # Subgraphs that are not coloured yet: first position, degree, and first colour.
    stack = np.empty((2 * 64, 3), dtype=np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, degree, 0
    depth = 1
    state = splitmix64(seed)
    while depth:
        depth -= 1
        begin, d, colour = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if d == 1:
            for at in range(begin, begin + size):
                if edge[at] >= 0:
                    result[edge[at]] = colour
            continue
        end = begin + size * d
        if d % 2:
            state = _match(head, begin, size, d, state, left_by, chosen, owner)
            to = begin
            for u in range(size):
                for at in range(begin + u * d, begin + (u + 1) * d):
                    if at != chosen[u]:
                        edge[to] = edge[at]
                        head[to] = head[at]
                        to += 1
                    elif edge[at] >= 0:
                        result[edge[at]] = colour
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = begin, d - 1, colour + 1
            depth += 1
            continue
        _split(head, begin, end, partner, second, pending)
        to, low = 0, begin
        for at in range(begin, end):
            if second[at]:
                spare_edge[to] = edge[at]
                spare_head[to] = head[at]
                to += 1
            else:
                edge[low] = edge[at]
                head[low] = head[at]
                low += 1
        for at in range(to):
            edge[low + at] = spare_edge[at]
            head[low + at] = spare_head[at]
        half = d // 2
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = begin, half, colour
        stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = low, half, colour + half
        depth += 2


@njit(cache=True)
def _split(head, begin, end, partner, second, pending):
    """Mark half of the edges of each vertex as `second`: every other edge of closed walks.

    At each vertex the edges are paired. A walk that leaves each vertex by the partner of the edge
    by which it arrived is closed and of even length.
    """
    pending[:] = -1
    for at in range(begin, end):
        other = pending[head[at]]
        if other < 0:
            pending[head[at]] = at
        else:
            partner[at] = other
            partner[other] = at
            pending[head[at]] = -1
        second[at] = False
    for start in range(begin, end, 2):
        # Both edges of a pair at a left vertex are marked together, or neither is.
        if second[start] or second[start + 1]:
            continue
        at = start
        while True:
            at = begin + ((at - begin) ^ 1)
            second[at] = True
            at = partner[at]
            if at == start:
                break


@njit(cache=True)
def _match(head, begin, size, degree, state, left_by, chosen, owner):
    """Find a perfect matching: the position `chosen` of an edge of each left vertex.

    `left_by` has the last edge by which a walk left each left vertex. A path along these edges does
    not contain the loops of the walk.
    """
    owner[:] = -1
    for start in range(size):
        u = start
        while True:
            state = splitmix64(state)
            at = begin + u * degree + np.int64(state % np.uint64(degree))
            v = head[at]
            if owner[v] == u:
                continue
            left_by[u] = at
            if owner[v] < 0:
                break
            u = owner[v]
        u = start
        while u >= 0:
            chosen[u] = left_by[u]
            v = head[chosen[u]]
            u, owner[v] = owner[v], u
    return state
