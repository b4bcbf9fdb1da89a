"""Lanes of OpenSM's dfsssp: a search for cycles of dependencies, and moves to the next lane."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.records import record_type
from weft.kernels.routes.walk import edge_at

#: States of an edge in the search.
_NEW, _OPEN, _DONE = 0, 1, 2

#: An edge of a lane: its children and parent in OpenSM's tree of edges, its first dependency, its
#: state, and the edge before it in the search; -1 for none.
EDGE = record_type(
    used="i4", left="i4", right="i4", parent="i4", first="i4", state="i4", before="i4"
)
#: A dependency: the edge that it leads to, the next one of the same edge, the paths that use it
#: and those that left it, and its first and last entry in the list of paths.
DEPENDENCY = record_type(target="i4", next="i4", first="i4", last="i4", paths="i8", left="i8")
#: An entry in the list of paths of a dependency: row, line of the table, and the next entry.
PATH = record_type(row="i4", line="i4", next="i4")


@njit(cache=True)
def _insert(edges, key, root, edge):
    """Insert an edge into the lane's tree; return the root."""
    edges[edge].used = 1
    if root < 0:
        return edge
    at = root
    while True:
        below = edges[at].left if key[edge] < key[at] else edges[at].right
        if below < 0:
            break
        at = below
    if key[edge] < key[at]:
        edges[at].left = edge
    else:
        edges[at].right = edge
    edges[edge].parent = at
    return root


@njit(cache=True)
def _find(edges, dependencies, edge, target):
    """Return the dependency of an edge on a target and the last of the edge's list, -1 if none."""
    last = -1
    k = edges[edge].first
    while k >= 0:
        if dependencies[k].target == target:
            return k, last
        last = k
        k = dependencies[k].next
    return -1, last


@njit(cache=True)
def _add(edges, dependencies, paths, count, key, table, graph, row, line, weight):
    """Add a path to a lane; `count` holds its root and its numbers of dependencies and entries."""
    before = -1
    at = row
    while True:
        edge = edge_at(at, table[line, at], graph)
        if edge < 0:
            return
        if not edges[edge].used:
            count[0] = _insert(edges, key, count[0], edge)
        if before >= 0:
            k, last = _find(edges, dependencies, before, edge)
            if k < 0:
                k = count[1]
                count[1] += 1
                dependencies[k].target = edge
                dependencies[k].next = dependencies[k].first = dependencies[k].last = -1
                dependencies[k].paths = dependencies[k].left = 0
                if last < 0:
                    edges[before].first = k
                else:
                    dependencies[last].next = k
            entry = count[2]
            count[2] += 1
            paths[entry].row = row
            paths[entry].line = line
            paths[entry].next = -1
            if dependencies[k].first < 0:
                dependencies[k].first = entry
            else:
                paths[dependencies[k].last].next = entry
            dependencies[k].last = entry
            dependencies[k].paths += weight
        before = edge
        at = graph.edge_row[edge]


@njit(cache=True)
def _remove(edges, dependencies, table, graph, row, line, weight):
    """Count a path as having left the dependencies of a lane."""
    before = -1
    at = row
    while True:
        edge = edge_at(at, table[line, at], graph)
        if edge < 0:
            return
        if before >= 0:
            k, _ = _find(edges, dependencies, before, edge)
            if k >= 0:
                dependencies[k].left += weight
        before = edge
        at = graph.edge_row[edge]


@njit(cache=True)
def _next_new(edges, root):
    """Return the first new edge of the tree (an edge, its left and then its right part), or -1."""
    at = root
    while at >= 0:
        if edges[at].state == _NEW:
            return at
        if edges[at].left >= 0:
            at = edges[at].left
            continue
        if edges[at].right >= 0:
            at = edges[at].right
            continue
        while True:
            parent = edges[at].parent
            if parent < 0:
                return -1
            if edges[parent].left == at and edges[parent].right >= 0:
                at = edges[parent].right
                break
            at = parent
    return -1


@njit(cache=True)
def _cycle(edges, dependencies, root, start):
    """Search depth first; return an edge of a cycle, whose edges are open, or -1."""
    at = start
    while at >= 0:
        edges[at].state = _OPEN
        following = -1
        k = edges[at].first
        while k >= 0:
            target = dependencies[k].target
            if edges[target].state == _NEW:
                following = target
                break
            if edges[target].state == _OPEN:
                return target
            k = dependencies[k].next
        if following >= 0:
            edges[following].before = at
            at = following
            continue
        edges[at].state = _DONE
        k = edges[at].first
        while k >= 0:
            dependencies[k].first = dependencies[k].last = -1
            dependencies[k].paths = dependencies[k].left = 0
            k = dependencies[k].next
        if edges[at].before >= 0:
            before = edges[at].before
            edges[at].before = -1
            at = before
        else:
            at = _next_new(edges, root)
    return -1


@njit(cache=True)
def _weakest(edges, dependencies, cycle):
    """Take the dependency of fewest paths out of a cycle and make its edges new; return it."""
    weakest = owner = -1
    at = cycle
    while True:
        k = edges[at].first
        while k >= 0 and edges[dependencies[k].target].state != _OPEN:
            k = dependencies[k].next
        if weakest < 0 or (
            dependencies[k].paths - dependencies[k].left
            < dependencies[weakest].paths - dependencies[weakest].left
        ):
            weakest, owner = k, at
        if at != cycle:
            edges[at].state = _NEW
        at = dependencies[k].target
        if at == cycle:
            break
    edges[cycle].state = _NEW
    if edges[owner].first == weakest:
        edges[owner].first = dependencies[weakest].next
    else:
        k = edges[owner].first
        while dependencies[k].next != weakest:
            k = dependencies[k].next
        dependencies[k].next = dependencies[weakest].next
    return weakest


@njit(cache=True)
def dfsssp_lanes(
    graph, key, sources, source_weight, lines, most_dependencies, most_entries, available, table,
    lane,
):  # fmt: skip
    """Assign lanes to paths as OpenSM's dfsssp does; return the number of lanes that it needs.

    All paths start in lane 0. In each lane, dependencies are searched for cycles, and the paths of
    the dependency of a cycle that fewest paths use move to the next lane.

    - `key`, int64 [edges]: LID of the tail, then port: the order of edges in OpenSM's tree.
    - `sources`, `source_weight`: the rows with adapters in OpenSM's order, and the number of LIDs
      at each, int64 [rows].
    - `lines`: lines of the table in OpenSM's order.
    - `most_dependencies`, `most_entries`: bounds of the numbers of pairs of consecutive edges, and
      of such pairs in all paths.
    - `available`: number of lanes; one more is returned if they do not suffice.
    - `table`, uint8 or uint16 [lines, rows]: output ports.
    - `lane`, uint8 [rows, lines]: zeros, changed in place to the lane of each path.
    """
    edge_row = graph.edge_row
    number = len(edge_row)
    edges = np.zeros(number, dtype=EDGE)
    others = np.zeros(number, dtype=EDGE)
    dependencies = np.zeros(most_dependencies, dtype=DEPENDENCY)
    more = np.zeros(most_dependencies, dtype=DEPENDENCY)
    paths = np.zeros(most_entries, dtype=PATH)
    room = np.zeros(most_entries, dtype=PATH)
    count = np.zeros(3, dtype=np.int64)
    _clear(others, count)
    for line in lines:
        for row in sources:
            _add(others, more, room, count, key, table, graph, row, line, source_weight[row])
    needed = 1
    for here in range(available):
        edges, others = others, edges
        dependencies, more = more, dependencies
        paths, room = room, paths
        root = count[0]
        _clear(others, count)
        start = root
        while start >= 0:
            start = _cycle(edges, dependencies, root, start)
            if start < 0:
                break
            needed = here + 2
            if needed > available:
                break
            entry = dependencies[_weakest(edges, dependencies, start)].first
            while entry >= 0:
                row, line = paths[entry].row, paths[entry].line
                entry = paths[entry].next
                if lane[row, line] != here:
                    continue
                weight = source_weight[row]
                _remove(edges, dependencies, table, graph, row, line, weight)
                _add(others, more, room, count, key, table, graph, row, line, weight)
                lane[row, line] = here + 1
        if needed < here + 2:
            break
    return needed


@njit(cache=True)
def _clear(edges, count):
    for e in range(len(edges)):
        edges[e].used = edges[e].state = 0
        edges[e].left = edges[e].right = edges[e].parent = -1
        edges[e].first = edges[e].before = -1
    count[0] = -1
    count[1] = count[2] = 0
