"""Assignment of paths to lanes such that no lane's channel dependency graph has a cycle.

A lane keeps an order of all edges in which each of its dependencies leads forward (Pearce and Kelly
2006). A new dependency that leads backward needs a search only between its two edges: either it
closes a cycle, or the edges between them are reordered. Dependency ``k`` of edge ``e`` has number
``first_dependency[e] + k``, where k is the index of the second edge among those that leave e's
head. For each dependency, two words of bits mark the lanes that contain the dependency, and the
lanes in which it would close a cycle.

Most paths that a lane cannot accept are rejected without a search, by a bit matrix of the edges
that follow each edge. It is recomputed from time to time; an old matrix stays valid, because a lane
never loses a dependency.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.cache import njit
from weft.kernels.parts import parts

#: Largest size of all bit matrices. The first lanes, which are tried most often, have a matrix.
MOST_BYTES = 1 << 29

#: The bit matrix is recomputed after this many visits per edge of the fabric, or an eighth of its
#: words per edge if that is more, which take about as long as the computation.
COUNT_AFTER = 32

#: Result of `fit_paths` when the paths to a LID have a forwarding loop.
CIRCLE = -1

#: Result of `fit_paths` when the work exceeds the limit.
GAVE_UP = -2


class Dependencies(NamedTuple):
    """The dependencies of lanes, and work space."""

    #: uint16 [dependencies]: lanes that contain the dependency, and lanes in which it would close a
    #: cycle, as bits.
    held: Any
    barred: Any
    #: uint64 [lanes, edges, words]: the dependencies of each lane. Bit k of `after`: edge k of
    #: those that leave the edge's head follows it. Bit k of `before`: it follows the reverse of
    #: edge k of those that leave its tail.
    after: Any
    before: Any
    #: uint64 [lanes, edges, words]: bit f of row e means that edge f follows edge e, for as many
    #: lanes as `MOST_BYTES` allow.
    behind: Any
    #: int64 [lanes]: edges visited since the bit matrix of the lane was computed.
    effort: Any
    #: Work space: int32 [rows], uint8 [edges] and a bit of each position, zeros, and int32 [edges].
    fresh: Any
    mark: Any
    taken: Any
    later: Any
    earlier: Any
    room: Any


def no_dependencies(rows: int, first_dependency: Any, lanes: int) -> Any:
    """Return the parts of `Dependencies` of lanes without paths."""
    edges, dependencies = len(first_dependency) - 1, int(first_dependency[-1])
    words = (edges + 63) >> 6
    deep = min(lanes, MOST_BYTES // max(8 * edges * words, 1))
    held, barred = np.zeros((2, dependencies), dtype=np.uint16)
    widest = int(np.diff(first_dependency).max(initial=0))
    after, before = np.zeros((2, lanes, edges, (widest + 63) >> 6), dtype=np.uint64)
    behind, effort = np.zeros((deep, edges, words), np.uint64), np.zeros(lanes, dtype=np.int64)
    fresh, mark = np.empty(rows, dtype=np.int32), np.zeros(edges, dtype=np.uint8)
    taken = np.zeros((edges + 63) >> 6, dtype=np.uint64)
    lists = np.empty((3, edges + 1), dtype=np.int32)
    return parts(
        Dependencies(held, barred, after, before, behind, effort, fresh, mark, taken, *lists)
    )


@njit(cache=True)
def fit_paths(
    table, lids, graph, counts, groups, num_groups, max_work, enough, position, lane_of, lanes
):
    """Assign each path to the first lane that accepts all its dependencies without a cycle.

    - `table`: attribute of `weft.routing.routes.TableRoutes`.
    - `lids`, int32: LIDs whose paths are assigned, as indices in the table.
    - `counts`, uint8 [rows]: 1 where paths from the row need a lane.
    - `groups`, uint8 [lids, rows]: group of each path. Paths are assigned in the order of their
      groups, in a group in the order of LIDs, and for one LID from the row nearest to the
      destination to the farthest.
    - `max_work`, `enough`: give up when more than max_work edges have been visited and `enough`
      lanes are in use.
    - `position`, int32 [lanes, edges]: each edge's position in the order of each of at most 16
      lanes, initially any order, changed in place.
    - `lane_of`, uint8 [lids, rows]: filled with the lane of each path, the number of lanes if none
      accepts it.
    - `lanes`: parts of `Dependencies`.

    Returns `CIRCLE`, `GAVE_UP`, or the number of edges visited, a measure of the work.
    """
    row_base, edge_offset, edge_row = graph.row_base, graph.edge_offset, graph.edge_row
    first_dependency, held, barred = graph.first_dependency, lanes.held, lanes.barred
    rows, max_lanes = len(row_base) - 1, len(position)
    ahead = np.empty(rows, dtype=np.int32)
    order = np.empty(rows, dtype=np.int32)
    state = np.empty(rows, dtype=np.uint8)
    held_by = np.empty(rows, dtype=np.uint16)
    barred_from = np.empty(rows, dtype=np.uint16)
    everything = np.uint16((1 << max_lanes) - 1)
    work = np.int64(0)
    used = 0
    for group in range(num_groups):
        for i in range(len(lids)):
            count = _outwards(table[lids[i]], graph, counts, groups[i], group, ahead, state, order)
            if count == CIRCLE:
                return np.int64(CIRCLE)
            work += count
            if work > max_work and used >= enough:
                return np.int64(GAVE_UP)
            for j in range(count):
                row = order[j]
                edge = ahead[row]
                following = -1 if edge < 0 else ahead[edge_row[edge]]
                if following < 0:
                    held_by[row] = everything
                    barred_from[row] = 0
                    if counts[row] and groups[i, row] == group:
                        lane_of[i, row] = 0
                    continue
                nearer = edge_row[edge]
                wait = first_dependency[edge] + following - edge_offset[nearer]
                held_by[row] = held_by[nearer] & held[wait]
                barred_from[row] = barred_from[nearer] | barred[wait]
                if not counts[row] or groups[i, row] != group:
                    continue
                lane_of[i, row] = max_lanes
                for lane in range(max_lanes):
                    bit = np.uint16(1 << lane)
                    if held_by[row] & bit:
                        lane_of[i, row] = lane
                        break
                    if barred_from[row] & bit:
                        continue
                    visited = add_path(row, lane, ahead, graph, position[lane], lanes)
                    work += abs(visited)
                    if visited > 0:
                        lane_of[i, row] = lane
                        held_by[row] |= bit
                        break
                    barred_from[row] |= bit
                used = max(used, lane_of[i, row] + 1)
    return work


@njit(cache=True)
def _outwards(line, graph, counts, group_of, group, ahead, state, order):
    """List the rows on the paths of a group, nearest to the destination first; see `fit_paths`.

    ahead[row] becomes the edge by which a row sends, -1 if it sends to no row. Return the number
    of rows, or `CIRCLE`.
    """
    row_base, slot_edge, edge_row = graph.row_base, graph.slot_edge, graph.edge_row
    state[:] = 0
    count = 0
    top = len(order)
    for start in range(len(order)):
        if not counts[start] or group_of[start] != group:
            continue
        # New rows of the path are stacked at the end of the list, then moved in reverse order.
        row = start
        piled = top
        while state[row] == 0:
            state[row] = 1
            piled -= 1
            order[piled] = row
            slot = row_base[row] + line[row]
            ahead[row] = slot_edge[slot] if slot < row_base[row + 1] else -1
            if ahead[row] < 0:
                break
            row = edge_row[ahead[row]]
            if state[row] == 1:
                return CIRCLE
        for k in range(piled, top):
            moved = order[k]
            state[moved] = 2
            order[count] = moved
            count += 1
    return count


@njit(cache=True)
def add_path(row, lane, ahead, graph, position, lanes):
    """Add the path from a row to a lane, or leave the lane as it was.

    Return the number of edges visited, negative if the path does not fit. A dependency that
    closes a cycle by itself is barred from the lane for good. position, int32 [edges], is each
    edge's position in the lane's order.
    """
    held, barred, behind = lanes.held, lanes.barred, lanes.behind
    fresh, effort = lanes.fresh, lanes.effort
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    first_dependency = graph.first_dependency
    bit = np.uint16(1 << lane)
    added = 0
    work = 1
    edge = ahead[row]
    if lane < len(behind) and _follows(edge, ahead, edge_row, behind[lane]):
        return -1
    while True:
        nearer = edge_row[edge]
        following = ahead[nearer]
        if following < 0:
            break
        wait = first_dependency[edge] + following - edge_offset[nearer]
        if not held[wait] & bit:
            visited = insert_dependency(edge, following, lane, graph, position, lanes)
            work += abs(visited)
            if visited < 0:
                for k in range(added):
                    flip_dependency(fresh[k], ahead[edge_row[fresh[k]]], lane, graph, lanes)
                if added:
                    visited = insert_dependency(edge, following, lane, graph, position, lanes)
                    work += abs(visited)
                if visited < 0:
                    barred[wait] |= bit
                work = -work
                break
            flip_dependency(edge, following, lane, graph, lanes)
            fresh[added] = edge
            added += 1
        edge = following
    effort[lane] += abs(work)
    if lane < len(behind) and effort[lane] > max(COUNT_AFTER, behind.shape[2] >> 3) * len(edge_row):
        effort[lane] = 0
        _count_behind(graph, lanes.after[lane], position, lanes.room, behind[lane])
    return work


@njit(cache=True)
def _follows(edge, ahead, edge_row, behind):
    """Return whether an edge follows, in the bit matrix, a later edge of its own path."""
    word = edge >> 6
    bit = np.uint64(1) << np.uint64(edge & 63)
    following = ahead[edge_row[edge]]
    while following >= 0:
        if behind[following, word] & bit:
            return True
        following = ahead[edge_row[following]]
    return False


@njit(cache=True)
def _count_behind(graph, following, position, room, behind):
    """Set the bits of all edges that follow each edge in a lane, beginning with the last edge."""
    for edge in range(len(position)):
        room[position[edge]] = edge
    for at in range(len(position) - 1, -1, -1):
        edge = room[at]
        row = behind[edge]
        start = graph.edge_offset[graph.edge_row[edge]]
        for word in range(following.shape[1]):
            bits = following[edge, word]
            while bits:
                other = start + 64 * word + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                row[other >> 6] |= np.uint64(1) << np.uint64(other & 63)
                after = behind[other]
                for part in range(len(row)):
                    row[part] |= after[part]


@njit(cache=True)
def flip_dependency(edge, following, lane, graph, lanes):
    """Add a dependency to a lane that lacks it, or take it out of a lane that holds it."""
    start = graph.edge_offset[graph.edge_row[edge]]
    out, back = following - start, graph.edge_back[edge] - start
    lanes.held[graph.first_dependency[edge] + out] ^= np.uint16(1 << lane)
    lanes.after[lane, edge, out >> 6] ^= np.uint64(1) << np.uint64(out & 63)
    lanes.before[lane, following, back >> 6] ^= np.uint64(1) << np.uint64(back & 63)


@njit(cache=True)
def insert_dependency(tail, head, lane, graph, position, lanes):
    """Reorder the edges for a dependency of tail on head, unless it closes a cycle.

    The arguments are as in `add_path`. Return the number of edges visited, negative for a cycle.
    """
    mark, later, earlier = lanes.mark, lanes.later, lanes.earlier
    after, before = lanes.after[lane], lanes.before[lane]
    edge_offset, edge_row, edge_tail = graph.edge_offset, graph.edge_row, graph.edge_tail
    low, high = position[head], position[tail]
    if high < low:
        return 1
    # Edges that follow head, up to tail.
    count, at = 1, 0
    later[0] = head
    mark[head] = 1
    cycle = head == tail
    while at < count and not cycle:
        edge = later[at]
        at += 1
        start = edge_offset[edge_row[edge]]
        goal = tail - start if edge_tail[tail] == edge_row[edge] else -1
        for word in range(after.shape[1]):
            bits = after[edge, word]
            if goal >> 6 == word and bits >> np.uint64(goal & 63) & np.uint64(1):
                cycle = True
                bits &= (np.uint64(1) << np.uint64(goal & 63)) - np.uint64(1)
            while bits:
                other = start + 64 * word + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                if position[other] < high and not mark[other]:
                    mark[other] = 1
                    later[count] = other
                    count += 1
            if cycle:
                break
    for k in range(count):
        mark[later[k]] = 0
    if cycle:
        return -count
    # Edges that precede tail, down to head.
    prior, at = 1, 0
    earlier[0] = tail
    mark[tail] = 1
    while at < prior:
        edge = earlier[at]
        at += 1
        start = edge_offset[edge_tail[edge]]
        for word in range(before.shape[1]):
            bits = before[edge, word]
            while bits:
                other = graph.edge_back[start + 64 * word + lowest_bit(bits)]
                bits &= bits - np.uint64(1)
                if position[other] >= low and not mark[other]:
                    mark[other] = 1
                    earlier[prior] = other
                    prior += 1
    for k in range(prior):
        mark[earlier[k]] = 0
    _sort_by_position(earlier, prior, position, low, high, lanes)
    _sort_by_position(later, count, position, low, high, lanes)
    _reorder(position, earlier, prior, later, count, lanes.room)
    return count + prior


@njit(cache=True)
def _reorder(position, earlier, before, later, count, room):
    """Share out the positions of two sorted lists: first to `earlier`, then to `later`."""
    i = j = 0
    for k in range(before + count):
        if j == count or (i < before and position[earlier[i]] < position[later[j]]):
            room[k] = position[earlier[i]]
            i += 1
        else:
            room[k] = position[later[j]]
            j += 1
    for k in range(before):
        position[earlier[k]] = room[k]
    for k in range(count):
        position[later[k]] = room[before + k]


@njit(cache=True)
def _sort_by_position(edges, count, position, low, high, lanes):
    """Sort the first edges of a list by position; positions are `low` to `high`."""
    taken, room = lanes.taken, lanes.room
    if count * count <= 64 + (high - low >> 6):
        for k in range(1, count):
            edge = edges[k]
            at = position[edge]
            j = k
            while j > 0 and position[edges[j - 1]] > at:
                edges[j] = edges[j - 1]
                j -= 1
            edges[j] = edge
        return
    for k in range(count):
        at = position[edges[k]]
        room[at] = edges[k]
        taken[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    k = 0
    for word in range(low >> 6, (high >> 6) + 1):
        bits = taken[word]
        taken[word] = 0
        while bits:
            edges[k] = room[64 * word + lowest_bit(bits)]
            bits &= bits - np.uint64(1)
            k += 1


@njit(cache=True)
def order_edges(table, lids, graph, counts, position):
    """Order the edges so that the dependencies of all paths lead forward, as far as possible.

    `position`, int32 [edges]: filled with each edge's position in the order. `table`, `lids`,
    `counts`: as in `fit_paths`.

    Returns the number of edges on cycles or behind a cycle, which are last in the order; 0 if one
    lane suffices.
    """
    row_base, slot_edge, edge_offset = graph.row_base, graph.slot_edge, graph.edge_offset
    edge_row, first_dependency = graph.edge_row, graph.first_dependency
    rows = len(row_base) - 1
    edges = len(edge_row)
    held = np.zeros(first_dependency[edges], dtype=np.uint8)
    met = np.full(rows, -1, dtype=np.int32)
    for i in range(len(lids)):
        line = table[lids[i]]
        for start in range(rows):
            row = start
            before = -1
            while counts[start]:
                slot = row_base[row] + line[row]
                edge = slot_edge[slot] if slot < row_base[row + 1] else -1
                if edge < 0:
                    break
                if before >= 0:
                    held[first_dependency[before] + edge - edge_offset[row]] = 1
                if met[row] == i:
                    break
                met[row] = i
                before = edge
                row = edge_row[edge]
    waits = np.zeros(edges, dtype=np.int32)
    for edge in range(edges):
        start = edge_offset[edge_row[edge]]
        base = first_dependency[edge]
        for k in range(first_dependency[edge + 1] - base):
            waits[start + k] += held[base + k]
    queue = np.empty(edges, dtype=np.int32)
    position[:] = -1
    count = 0
    for edge in range(edges):
        if waits[edge] == 0:
            queue[count] = edge
            position[edge] = count
            count += 1
    at = 0
    while at < count:
        edge = queue[at]
        at += 1
        start = edge_offset[edge_row[edge]]
        base = first_dependency[edge]
        for k in range(first_dependency[edge + 1] - base):
            if held[base + k]:
                waits[start + k] -= 1
                if waits[start + k] == 0:
                    queue[count] = start + k
                    position[start + k] = count
                    count += 1
    left = edges - count
    for edge in range(edges):
        if position[edge] < 0:
            position[edge] = count
            count += 1
    return left
