"""The channel dependency graph.

Channels are (edge, VL) pairs, numbered ``edge * vls + vl``. Each dependency of a channel on a
channel that leaves its head is one bit, number ``(vl * degree + k) * vls + out_vl`` after
``first_bit[edge]``. Here ``degree`` is the number of edges that leave the head row, and k is the
index of the outgoing edge among them. Kernels take the graph as parts of `WaitGraph`.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.lean import lean_njit
from weft.kernels.routes.walk import edge_at


class WaitGraph(NamedTuple):
    """The channel dependency graph; kernels change `bits` and `used` in place."""

    #: Number of virtual lanes.
    vls: Any
    #: int64 [edges + 1]: number of the first bit of each edge.
    first_bit: Any
    #: uint8: the bits of all dependencies, eight in each element.
    bits: Any
    #: uint8 [edges * vls]: 1 for every channel that carries traffic.
    used: Any


class DependencyRoom(NamedTuple):
    """Work space of `table_dependencies`: the levels of a row for several LIDs share a line."""

    #: uint8 [destinations]: 1 if an endpoint is the only one of its start.
    alone: Any
    #: uint8 [LIDs at a time, rows of `sl`]; int64 [channels], 0.
    levels: Any
    seen: Any


class Lanes(NamedTuple):
    """Arrays of `weft.routing.routes.VirtualLanes`, which describes them."""

    tables: Any
    index: Any
    base: Any
    ports: Any


class Sets(NamedTuple):
    """Arrays of `weft.routing.routes.CandidateRoutes`, which describes them with the prefix set_.

    Those that a kernel does not need are None.
    """

    id: Any
    offset: Any
    edge: Any
    lane: Any = None
    #: VL of all edges if `lane` is empty.
    one_lane: Any = None
    via: Any = None
    via_set: Any = None
    turn_set: Any = None
    direct: Any = None


@njit(cache=True, inline="always")
def lane_of(row, port_in, port_out, sl, lanes):
    """Return the VL on which a packet of service level `sl` leaves a row."""
    if len(lanes.index) == 0:
        return lanes.tables[0, sl]
    return lanes.tables[lanes.index[lanes.base[row] + port_in * lanes.ports[row] + port_out], sl]


@njit(cache=True, inline="always")
def channel_of(sets, k, vls):
    """Return the channel of entry k of the edges of sets."""
    return np.int64(sets.edge[k]) * vls + (sets.lane[k] if len(sets.lane) else sets.one_lane)


@njit(cache=True, inline="always")
def _following(channel, graph, dependencies):
    """Return a channel's first bit, and the first channel that leaves its head and their number."""
    edge_offset, vls = graph.edge_offset, dependencies.vls
    edge = channel // vls
    head = graph.edge_row[edge]
    first = np.int64(edge_offset[head]) * vls
    count = edge_offset[head + 1] * vls - first
    return dependencies.first_bit[edge] + (channel % vls) * count, first, count


@njit(cache=True, inline="always")
def set_dependency(before, channel, graph, channels):
    """Set the dependency of channel `before` on `channel`, which leaves the head of `before`."""
    base, first, _ = _following(before, graph, channels)
    bit = base + channel - first
    channels.bits[bit >> 3] |= np.uint8(1 << (bit & 7))


@njit(cache=True)
def _same_paths(line, other, level_of, other_level_of, graph):
    """Return whether paths to two LIDs have the same edges and service levels from all rows."""
    for k in range(len(level_of)):
        if level_of[k] != other_level_of[k]:
            return False
    for row in range(len(line)):
        one, two = line[row], other[row]
        if one != two and edge_at(row, one, graph) != edge_at(row, two, graph):
            return False
    return True


@lean_njit()
def table_dependencies(
    table, lids, graph, edge_port_in, starts, sl, lmc, no_path, lanes, channels, room
):  # fmt: skip
    """Set the dependencies of the paths from each start to each listed LID.

    A path is followed up to the first channel that another path to the same LID on the same SL
    has used: from there on, both paths are the same. A LID whose paths are those of one shortly
    before, such as that of another adapter at the same row, adds no dependency.

    - `table`, `lmc`, `no_path`: uint8 or uint16 [all lids, rows], its LID mask control, and the
      port that means "no path".
    - `lids`, int32: LIDs, as indices in the table.
    - `edge_port_in`, int32 [edges]: port by which the edge enters the row at its head.
    - `starts`, int32 [3, starts]: row, port by which packets enter the row, and endpoint that sends
      these packets, -1 if several endpoints do. An endpoint sends nothing to itself.
    - `sl`: uint8 [1, 1], [1, lids] or [rows, lids]: service level of all paths, of the paths to
      each LID, or of the path from each row to each LID.
    - `lanes`, `channels`: parts of `Lanes` and `WaitGraph`.
    - `room`: parts of `DependencyRoom`.
    """
    edge_row, vls, used = graph.edge_row, channels.vls, channels.used
    alone, levels, seen = room.alone, room.levels, room.seen
    start_row, start_port, start_sender = starts[0], starts[1], starts[2]
    stamp = np.int64(0)
    per_row = sl.shape[0] > 1
    per_lid = sl.shape[1] > 1
    together = len(levels)
    for i in range(len(lids)):
        line, at = table[lids[i]], i % together
        if at == 0:
            for row in range(sl.shape[0]):
                for k in range(i, min(i + together, len(lids))):
                    levels[k - i, row] = sl[row, lids[k] if per_lid else 0]
        known = False
        # Paths of ties alternate between two directions.
        for back in range(1, min(at, 2) + 1):
            other = lids[i - back]
            if not known and alone[lids[i] >> lmc] + alone[other >> lmc] == 0:
                known = _same_paths(line, table[other], levels[at], levels[at - back], graph)
        if known:
            continue
        for s in range(len(start_row)):
            if start_sender[s] == lids[i] >> lmc:
                continue
            row = start_row[s]
            level = np.int64(levels[at, row if per_row else 0])
            mark = stamp + level + 1
            port_in = start_port[s]
            before = np.int64(-1)
            while True:
                port = line[row]
                edge = edge_at(row, port, graph)
                if port == no_path or edge < 0:
                    break
                channel = edge * vls + lane_of(row, port_in, port, level, lanes)
                used[channel] = 1
                if before >= 0:
                    set_dependency(before, channel, graph, channels)
                if seen[channel] == mark:
                    break
                seen[channel] = mark
                before = channel
                row = edge_row[edge]
                port_in = edge_port_in[edge]
        stamp += 16


@njit(cache=True)
def candidate_dependencies(sets, graph, source_rows, channels):
    """Set the dependencies of all paths that candidate sets allow between source rows.

    - `sets`, `channels`: parts of `Sets` and `WaitGraph`.
    - `source_rows`, int32: rows at which paths begin, and that they lead to.
    """
    edge_offset = graph.edge_offset
    rows = len(edge_offset) - 1
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    for t in range(len(source_rows)):
        g = source_rows[t]
        count = 0
        state[:] = 0
        for s in range(len(source_rows)):
            row = source_rows[s]
            if state[row] == 0:
                state[row] = 1
                order[count] = row
                count += 1
        follow_sets(sets.id[g], g, order, count, state, sets, graph, channels)


@njit(cache=True)
def follow_sets(line, g, order, count, state, sets, graph, channels):
    """Set the dependencies of all paths over the sets of one target from the rows order[:count].

    line[row] is the row's set, -1 where paths end; they also end at row g. state, uint8 [rows],
    must be 1 for the rows order[:count], else 0. For other arguments see `candidate_dependencies`.
    """
    edge_row, offset, edge = graph.edge_row, sets.offset, sets.edge
    vls, used = channels.vls, channels.used
    at = 0
    while at < count:
        row = order[at]
        at += 1
        if row == g or line[row] < 0:
            continue
        for k in range(offset[line[row]], offset[line[row] + 1]):
            channel = channel_of(sets, k, vls)
            used[channel] = 1
            other = edge_row[edge[k]]
            if state[other] == 0:
                state[other] = 1
                order[count] = other
                count += 1
            if other != g and line[other] >= 0:
                set_dependencies(channel, line[other], sets, graph, channels)


@njit(cache=True)
def set_dependencies(channel, choice, sets, graph, channels):
    """Set a channel's dependencies on the channels of the set `choice`, which leave its head."""
    for j in range(sets.offset[choice], sets.offset[choice + 1]):
        set_dependency(channel, channel_of(sets, j, channels.vls), graph, channels)


@njit(cache=True)
def strip_acyclic(graph, dependencies):
    """Remove channels on which no remaining channel depends, as long as there are any.

    `dependencies`: parts of `WaitGraph`.

    Returns uint8 [edges * vls]: 1 for each channel on a cycle or behind one; all 0 proves that the
    graph is acyclic.
    """
    used = dependencies.used
    channels = len(used)
    waiting = np.zeros(channels, dtype=np.int32)
    queue = np.empty(channels, dtype=np.int32)
    for channel in range(channels):
        if used[channel]:
            _visit(channel, graph, dependencies, waiting, 1, queue, 0)
    tail = 0
    stays = np.zeros(channels, dtype=np.uint8)
    for channel in range(channels):
        if used[channel]:
            if waiting[channel] == 0:
                queue[tail] = channel
                tail += 1
            else:
                stays[channel] = 1
    head = 0
    while head < tail:
        channel = queue[head]
        head += 1
        stays[channel] = 0
        tail = _visit(channel, graph, dependencies, waiting, -1, queue, tail)
    return stays


@njit(cache=True)
def _visit(channel, graph, dependencies, waiting, change, queue, tail):
    bits = dependencies.bits
    base, first, count = _following(channel, graph, dependencies)
    for k in range(count):
        bit = base + k
        if bits[bit >> 3] & np.uint8(1 << (bit & 7)):
            other = first + k
            waiting[other] += change
            if change < 0 and waiting[other] == 0:
                queue[tail] = other
                tail += 1
    return tail


@njit(cache=True)
def list_dependencies(graph, dependencies, keep, tails, heads):
    """List the dependencies among the kept channels.

    `dependencies`: parts of `WaitGraph`. `keep`, uint8 [edges * vls]: 1 for the channels to list.
    `tails`, `heads`, int32, filled as far as there is room: channel ``tails[i]`` depends on
    ``heads[i]``.

    Returns the number of dependencies, including those for which there is no room.
    """
    bits = dependencies.bits
    count = 0
    for channel in range(len(keep)):
        if not keep[channel]:
            continue
        base, first, width = _following(channel, graph, dependencies)
        for k in range(width):
            bit = base + k
            other = first + k
            if bits[bit >> 3] & np.uint8(1 << (bit & 7)) and keep[other]:
                if count < len(tails):
                    tails[count] = channel
                    heads[count] = other
                count += 1
    return count
