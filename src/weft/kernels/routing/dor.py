"""Dimension-order routing over shortest paths, and detection of the dimensions."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import UNREACHED, bfs


@njit(cache=True)
def dimension_tables(graph, edge_key, order, destination_port, num_endpoints, lmc, no_path, table):
    """Fill tables so that every row sends by the edge of lowest key that starts a shortest path.

    Parallel edges of one row and key share LIDs: each LID is assigned to the edge with the fewest
    LIDs so far. Of several such edges, those with the fewest other LIDs of the same destination
    are preferred, then the lowest port. Destinations are routed in the given order, once for each
    LID offset. LIDs of switches are not counted; all LIDs of a switch have the same path.

    - `edge_key`, int32 [edges]: the edge's number in the order of dimensions and directions.
    - `order`, int32: the destinations, in the order of routing.
    - `destination_port`, int32 [destinations]: output port at the destination's row; 0 if the
      destination is a row.
    - `num_endpoints`, `lmc`, `no_path`: destinations from num_endpoints on are switches; LID mask
      control; the port that means "no path".
    - `table`, uint8 or uint16 [lids, rows]: output ports, changed in place. Entries that start a
      shortest path stay, as OpenSM's do.
    """
    edge_offset, edge_row, edge_port = graph.edge_offset, graph.edge_row, graph.edge_port
    destination_row = graph.destination_row
    rows = len(edge_offset) - 1
    lids = 1 << lmc
    hops = np.empty(rows, dtype=np.uint16)
    queue = np.empty(rows, dtype=np.int32)
    behind = np.zeros(len(edge_row), dtype=np.int64)
    first = np.zeros(rows + 1, dtype=np.int32)
    edges = np.empty(len(edge_row), dtype=np.int32)
    for offset in range(lids):
        count = 0
        before = -1
        for d in order:
            weighs = d < num_endpoints
            if offset > 0 and not weighs:
                continue
            g = destination_row[d]
            if g != before:
                count = bfs(edge_offset, edge_row, g, hops, queue)
                _next_edges(graph, edge_key, hops, queue, count, first, edges)
                before = g
            line = table[(d << lmc) + offset]
            for row in range(rows):
                if hops[row] == UNREACHED:
                    line[row] = no_path
            line[g] = destination_port[d]
            for i in range(1, count):
                row = queue[i]
                best, start = -1, first[i]
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    if edge_port[e] == line[row] and hops[edge_row[e]] == hops[row] - 1:
                        best, start = e, first[i + 1]
                least = taken = 1 << 62
                for k in range(start, first[i + 1]):
                    e = edges[k]
                    again = 0
                    for other in range(offset):
                        again += table[(d << lmc) + other, row] == edge_port[e]
                    if behind[e] < least:
                        least = behind[e]
                        best = e
                        taken = min(taken, again)
                    elif behind[e] == least and again < taken:
                        taken = again
                        best = e
                line[row] = edge_port[best]
                if weighs:
                    behind[best] += 1
            if not weighs:
                for other in range(1, lids):
                    for row in range(rows):  # a slice would take seconds to compile
                        table[(d << lmc) + other, row] = line[row]


@njit(cache=True)
def _next_edges(graph, edge_key, hops, queue, count, first, edges):
    """List in edges[first[i]:first[i + 1]] the edges of lowest key from queue[i] to nearer rows."""
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    first[1] = 0
    for i in range(1, count):
        row = queue[i]
        near = hops[row] - 1
        key = -1
        stop = first[i]
        for e in range(edge_offset[row], edge_offset[row + 1]):
            if hops[edge_row[e]] != near:
                continue
            if key < 0 or edge_key[e] < key:
                key = edge_key[e]
                stop = first[i]
            if edge_key[e] == key:
                edges[stop] = e
                stop += 1
        first[i + 1] = stop


@njit(cache=True)
def _find(parent, e):
    while parent[e] != e:
        parent[e] = parent[parent[e]]
        e = parent[e]
    return e


@njit(cache=True)
def _join(parent, a, b):
    a, b = _find(parent, a), _find(parent, b)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@njit(cache=True)
def product_classes(edge_offset, edge_row, edge_tail, hops, parent):
    """Join the edges of a connected graph that belong to one factor of a Cartesian product.

    With d the distance, edges xy and uv are related if d(x, u) + d(y, v) differs from
    d(x, v) + d(y, u); it suffices to compare the edges of a spanning tree with all edges. Edges xy
    and xz are related if x is the only common neighbour of y and z. The classes are the transitive
    closure of both relations.

    `edge_offset`, `edge_row`, `edge_tail`: CSR with the tails of the edges; one edge for each pair
    of neighbours. `hops`, uint16 [rows, rows]: distances between rows. `parent`, int32 [edges],
    changed in place: the lowest edge in the class of each edge.
    """
    rows = len(edge_offset) - 1
    edges = len(edge_row)
    for e in range(edges):
        parent[e] = e
    # The spanning tree: each row's first edge towards row 0.
    for x in range(1, rows):
        tree = edge_offset[x]
        while hops[0, edge_row[tree]] + 1 != hops[0, x]:
            tree += 1
        y = edge_row[tree]
        for f in range(edges):
            u, v = edge_tail[f], edge_row[f]
            if np.int64(hops[x, u]) + hops[y, v] != np.int64(hops[x, v]) + hops[y, u]:
                _join(parent, tree, f)
    for x in range(rows):
        for e in range(edge_offset[x], edge_offset[x + 1]):
            for f in range(e + 1, edge_offset[x + 1]):
                y, z = edge_row[e], edge_row[f]
                common = 0
                for k in range(edge_offset[y], edge_offset[y + 1]):
                    if edge_row[k] != x and hops[edge_row[k], z] == 1:
                        common += 1
                        break
                if y == z or common == 0:
                    _join(parent, e, f)
    for e in range(edges):
        parent[e] = _find(parent, e)
