"""Ways into lanes so that no lane's channel dependency graph has a cycle.

A lane keeps an order of all edges in which every dependency it holds goes forward (Pearce and
Kelly 2006). A dependency that goes backward needs a search between its two ends only: it closes a
cycle, or those edges are put in order anew. Dependency ``k`` of edge ``e`` is number
``first_wait[e] + k``, k being the number of the outgoing edge among those of the row at its head;
what lanes hold it, or can no longer take it, are two words of bits.

Most ways that a lane cannot take are told at once by bits of what followed what when they were last
counted, every so often: a lane only ever gains dependencies, so what closed a cycle then does now.
"""

import numpy as np

from weft.kernels.cache import njit

#: Most edges for which the bits of what follows what are kept, up to 8 MB a lane.
MOST_COUNTED = 8192

#: What follows what is counted anew when a lane has looked at this many times its edges; it takes
#: about as long as that.
COUNT_AFTER = 32

#: What `fit_ways` returns when a line of the table sends packets round for ever.
CIRCLE = -1

#: What it returns when the work is more than it may be.
GAVE_UP = -2


@njit(cache=True)
def fit_ways(
    table, lids, row_base, slot_edge, edge_offset, edge_row, edge_tail, edge_back, first_wait,
    counts, groups, num_groups, max_lanes, max_work, enough, place, lane_of,
):  # fmt: skip
    """Give each way the first lane that takes all its dependencies without a cycle.

    Parameters
    ----------
    table, row_base, slot_edge, edge_offset, edge_row, edge_tail
        As in `TableRoutes` and `SwitchGraph`.
    lids
        Lines of the table to serve.
    edge_back
        int32 [edges]: the edge back over the same cable.
    first_wait
        int64 [edges + 1], see the module.
    counts
        uint8 [rows]: 1 where the ways from a row count.
    groups
        uint8 [lids, rows]: ways of group 0 are served first, then those of 1, and so on below
        num_groups; within a group by LID, and nearest to the destination first.
    max_lanes
        At most 16.
    max_work
        Edges to look at before giving up,
    enough
        when so many lanes are in use by then or later.
    place
        int32 [max_lanes, edges]: an order of the edges to begin with, for each lane; changed.
    lane_of
        uint8 [lids, rows]: the lane of each way, `max_lanes` when none takes it; filled.

    Returns
    -------
    int
        `CIRCLE`, `GAVE_UP`, or how many edges were looked at, a measure of the work done.
    """
    rows = len(row_base) - 1
    edges = len(edge_row)
    held = np.zeros(first_wait[edges], dtype=np.uint16)
    barred = np.zeros(first_wait[edges], dtype=np.uint16)
    ahead = np.empty(rows, dtype=np.int32)
    order = np.empty(rows, dtype=np.int32)
    state = np.empty(rows, dtype=np.uint8)
    held_by = np.empty(rows, dtype=np.uint16)
    barred_from = np.empty(rows, dtype=np.uint16)
    fresh = np.empty(rows, dtype=np.int64)
    mark = np.zeros(edges, dtype=np.uint8)
    later = np.empty(edges, dtype=np.int32)
    earlier = np.empty(edges, dtype=np.int32)
    room = np.empty(edges, dtype=np.int32)
    behind = empty_behind(max_lanes, edges)
    effort = np.zeros(max_lanes, dtype=np.int64)
    everything = np.uint16((1 << max_lanes) - 1)
    work = np.int64(0)
    used = 0
    for group in range(num_groups):
        for i in range(len(lids)):
            count = _outwards(
                table[lids[i]], row_base, slot_edge, edge_row, counts, groups[i], group,
                ahead, state, order,
            )  # fmt: skip
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
                wait = first_wait[edge] + following - edge_offset[nearer]
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
                    looked = take_way(
                        row, lane, ahead, edge_offset, edge_row, edge_tail, edge_back, first_wait,
                        held, barred, place[lane], fresh, mark, later, earlier, room,
                        behind, effort,
                    )  # fmt: skip
                    work += abs(looked)
                    if looked > 0:
                        lane_of[i, row] = lane
                        held_by[row] |= bit
                        break
                    barred_from[row] |= bit
                used = max(used, lane_of[i, row] + 1)
    return work


@njit(cache=True)
def _outwards(line, row_base, slot_edge, edge_row, counts, group_of, group, ahead, state, order):
    """List the rows on the ways of a group nearest the destination first; see `fit_ways`.

    ahead[row] becomes the edge by which a row sends, -1 when it sends to no row.
    """
    state[:] = 0
    count = 0
    top = len(order)
    for start in range(len(order)):
        if not counts[start] or group_of[start] != group:
            continue
        # Rows of the way not met before are piled up at the end of the list, then turned over.
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
def empty_behind(lanes, edges):
    """Room for the bits of what follows what: bit f of row e of a lane, f to be met after e."""
    if edges > MOST_COUNTED:
        return np.zeros((lanes, 0, 0), dtype=np.uint64)
    return np.zeros((lanes, edges, (edges + 63) >> 6), dtype=np.uint64)


@njit(cache=True)
def take_way(
    row, lane, ahead, edge_offset, edge_row, edge_tail, edge_back, first_wait,
    held, barred, place, fresh, mark, later, earlier, room, behind, effort,
):  # fmt: skip
    """Add the way from a row to a lane, or leave the lane as it was.

    Returns how many edges were looked at, negative when the way does not fit. A dependency that
    alone closes a cycle is barred from the lane for good.
    """
    bit = np.uint16(1 << lane)
    added = 0
    work = 1
    edge = ahead[row]
    if behind.shape[1] and _follows(edge, ahead, edge_row, behind[lane]):
        return -1
    while True:
        nearer = edge_row[edge]
        following = ahead[nearer]
        if following < 0:
            break
        wait = first_wait[edge] + following - edge_offset[nearer]
        if not held[wait] & bit:
            looked = insert_wait(
                edge, following, bit, edge_offset, edge_row, edge_tail, edge_back, first_wait,
                held, place, mark, later, earlier, room,
            )  # fmt: skip
            work += abs(looked)
            if looked < 0:
                for k in range(added):
                    held[fresh[k]] &= ~bit
                if added:
                    looked = insert_wait(
                        edge, following, bit, edge_offset, edge_row, edge_tail, edge_back,
                        first_wait, held, place, mark, later, earlier, room,
                    )  # fmt: skip
                    work += abs(looked)
                if looked < 0:
                    barred[wait] |= bit
                work = -work
                break
            held[wait] |= bit
            fresh[added] = wait
            added += 1
        edge = following
    effort[lane] += abs(work)
    if behind.shape[1] and effort[lane] > COUNT_AFTER * len(edge_row):
        effort[lane] = 0
        _count_behind(bit, edge_offset, edge_row, first_wait, held, place, room, behind[lane])
    return work


@njit(cache=True)
def _follows(edge, ahead, edge_row, behind):
    """Tell whether an edge was seen to follow one that its own way leads to."""
    word = edge >> 6
    bit = np.uint64(1) << np.uint64(edge & 63)
    following = ahead[edge_row[edge]]
    while following >= 0:
        if behind[following, word] & bit:
            return True
        following = ahead[edge_row[following]]
    return False


@njit(cache=True)
def _count_behind(bit, edge_offset, edge_row, first_wait, held, place, room, behind):
    """Set the bits of all edges that follow each in a lane, last edges first."""
    for edge in range(len(place)):
        room[place[edge]] = edge
    for at in range(len(place) - 1, -1, -1):
        edge = room[at]
        row = behind[edge]
        start = edge_offset[edge_row[edge]]
        base = first_wait[edge]
        for k in range(first_wait[edge + 1] - base):
            if held[base + k] & bit:
                other = start + k
                row[other >> 6] |= np.uint64(1) << np.uint64(other & 63)
                after = behind[other]
                for word in range(len(row)):
                    row[word] |= after[word]


@njit(cache=True)
def insert_wait(
    tail, head, bit, edge_offset, edge_row, edge_tail, edge_back, first_wait,
    held, place, mark, later, earlier, room,
):  # fmt: skip
    """Put a dependency of tail on head in order; returns edges looked at, negative for a cycle."""
    low, high = place[head], place[tail]
    if high < low:
        return 1
    # Everything behind head as far as tail.
    count, at = 1, 0
    later[0] = head
    mark[head] = 1
    cycle = head == tail
    while at < count and not cycle:
        edge = later[at]
        at += 1
        start = edge_offset[edge_row[edge]]
        base = first_wait[edge]
        for k in range(first_wait[edge + 1] - base):
            if held[base + k] & bit:
                other = start + k
                if other == tail:
                    cycle = True
                    break
                if not mark[other] and place[other] < high:
                    mark[other] = 1
                    later[count] = other
                    count += 1
    for k in range(count):
        mark[later[k]] = 0
    if cycle:
        return -count
    # Everything before tail as far as head.
    before, at = 1, 0
    earlier[0] = tail
    mark[tail] = 1
    while at < before:
        edge = earlier[at]
        at += 1
        row = edge_tail[edge]
        for out in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_back[out]
            if mark[other] or place[other] < low:
                continue
            if held[first_wait[other] + edge - edge_offset[row]] & bit:
                mark[other] = 1
                earlier[before] = other
                before += 1
    for k in range(before):
        mark[earlier[k]] = 0
    _reorder(place, earlier, before, later, count, room)
    return count + before


@njit(cache=True)
def _reorder(place, earlier, before, later, count, room):
    """Give the places that both sets have together to the earlier ones first."""
    _sort_by_place(earlier, before, place)
    _sort_by_place(later, count, place)
    i = j = 0
    for k in range(before + count):
        if j == count or (i < before and place[earlier[i]] < place[later[j]]):
            room[k] = place[earlier[i]]
            i += 1
        else:
            room[k] = place[later[j]]
            j += 1
    for k in range(before):
        place[earlier[k]] = room[k]
    for k in range(count):
        place[later[k]] = room[before + k]


@njit(cache=True)
def _sort_by_place(edges, count, place):
    """Sort the first edges of a list by their place (a heap: no allocation, no worst case)."""
    for start in range(count // 2 - 1, -1, -1):
        _sift(edges, start, count, place)
    for end in range(count - 1, 0, -1):
        edges[0], edges[end] = edges[end], edges[0]
        _sift(edges, 0, end, place)


@njit(cache=True)
def _sift(edges, root, count, place):
    while True:
        child = 2 * root + 1
        if child >= count:
            return
        if child + 1 < count and place[edges[child + 1]] > place[edges[child]]:
            child += 1
        if place[edges[root]] >= place[edges[child]]:
            return
        edges[root], edges[child] = edges[child], edges[root]
        root = child


@njit(cache=True)
def order_edges(
    table, lids, row_base, slot_edge, edge_offset, edge_row, first_wait, counts, place,
):  # fmt: skip
    """Order the edges so that the dependencies of all ways go forward, as far as that can be.

    place[edge] is filled with the position of each edge; arguments as for `fit_ways`. Returns how
    many edges are on cycles or behind one, which come last: 0 when one lane will do.
    """
    rows = len(row_base) - 1
    edges = len(edge_row)
    held = np.zeros(first_wait[edges], dtype=np.uint8)
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
                    held[first_wait[before] + edge - edge_offset[row]] = 1
                if met[row] == i:
                    break
                met[row] = i
                before = edge
                row = edge_row[edge]
    waits = np.zeros(edges, dtype=np.int32)
    for edge in range(edges):
        start = edge_offset[edge_row[edge]]
        base = first_wait[edge]
        for k in range(first_wait[edge + 1] - base):
            waits[start + k] += held[base + k]
    queue = np.empty(edges, dtype=np.int32)
    place[:] = -1
    count = 0
    for edge in range(edges):
        if waits[edge] == 0:
            queue[count] = edge
            place[edge] = count
            count += 1
    at = 0
    while at < count:
        edge = queue[at]
        at += 1
        start = edge_offset[edge_row[edge]]
        base = first_wait[edge]
        for k in range(first_wait[edge + 1] - base):
            if held[base + k]:
                waits[start + k] -= 1
                if waits[start + k] == 0:
                    queue[count] = start + k
                    place[start + k] = count
                    count += 1
    left = edges - count
    for edge in range(edges):
        if place[edge] < 0:
            place[edge] = count
            count += 1
    return left
