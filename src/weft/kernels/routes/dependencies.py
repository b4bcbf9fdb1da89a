"""The channel dependency graph.

Channels are (edge, VL) pairs, numbered ``edge * vls + vl``. Each dependency of a channel on a
channel that leaves its head is one bit, number ``(vl * degree + k) * vls + out_vl`` after
``first_bit[edge]``. Here ``degree`` is the number of edges that leave the head row, and k is the
index of the outgoing edge among them. The kernels share these arguments:

vls
    Number of virtual lanes.
first_bit, bits
    int64 [edges + 1]: number of the first bit of each edge; uint8: the bits of all dependencies,
    eight in each element.
used
    uint8 [edges * vls]: 1 for every channel that carries traffic.
vl_tables, vl_index, vl_base, vl_ports
    tables, index, base and ports of `weft.routing.routes.VirtualLanes`.
"""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True, inline="always")
def lane_of(row, port_in, port_out, sl, vl_tables, vl_index, vl_base, vl_ports):
    """Return the VL on which a packet of service level `sl` leaves a row."""
    if len(vl_index) == 0:
        return vl_tables[0, sl]
    return vl_tables[vl_index[vl_base[row] + port_in * vl_ports[row] + port_out], sl]


@njit(cache=True, inline="always")
def set_dependency(before, channel, graph, vls, first_bit, bits):
    """Set the dependency of channel `before` on `channel`, which leaves the head of `before`."""
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    head = edge_row[before // vls]
    first = np.int64(edge_offset[head])
    degree = edge_offset[head + 1] - first
    bit = first_bit[before // vls] + (before % vls) * degree * vls + channel - first * vls
    bits[bit >> 3] |= np.uint8(1 << (bit & 7))


@njit(cache=True)
def table_dependencies(
    table, lids, graph, edge_port_in, start_row, start_port, start_sender, sl, lmc, no_path,
    vl_tables, vl_index, vl_base, vl_ports, vls, first_bit, bits, used,
):  # fmt: skip
    """Set the dependencies of the paths from each start to each listed LID.

    A path is followed up to the first channel that another path to the same LID on the same SL
    has used: from there on, both paths are the same.

    - `table`, `lmc`, `no_path`: uint8 or uint16 [all lids, rows], its LID mask control, and the
      port that means "no path".
    - `lids`, int32: LIDs, as indices in the table.
    - `edge_port_in`, int32 [edges]: port by which the edge enters the row at its head.
    - `start_row`, `start_port`, `start_sender`, int32 [starts]: row, port by which packets enter
      the row, and endpoint that sends these packets, -1 if several endpoints do. An endpoint sends
      nothing to itself.
    - `sl`: uint8 [1, 1], [1, lids] or [rows, lids]: service level of all paths, of the paths to
      each LID, or of the path from each row to each LID.
    - `vl_tables`, `vl_index`, `vl_base`, `vl_ports`, `vls`, `first_bit`, `bits`, `used`: see the
      module; bits and used are changed in place.
    """
    row_base, row_link, edge_of_link = graph.row_base, graph.row_link, graph.edge_of_link
    edge_row = graph.edge_row
    seen = np.zeros(len(edge_row) * vls, dtype=np.int64)
    stamp = np.int64(0)
    per_row = sl.shape[0] > 1
    per_lid = sl.shape[1] > 1
    for i in range(len(lids)):
        line = table[lids[i]]
        column = lids[i] if per_lid else 0
        for s in range(len(start_row)):
            if start_sender[s] == lids[i] >> lmc:
                continue
            row = start_row[s]
            level = sl[row if per_row else 0, column]
            mark = stamp + level + 1
            port_in = start_port[s]
            before = np.int64(-1)
            while True:
                port = line[row]
                if port == no_path or row_base[row] + port >= row_base[row + 1]:
                    break
                link = row_link[row_base[row] + port]
                if link < 0:
                    break
                edge = edge_of_link[link]
                if edge < 0:
                    break
                lane = lane_of(row, port_in, port, level, vl_tables, vl_index, vl_base, vl_ports)
                channel = np.int64(edge) * vls + lane
                used[channel] = 1
                if before >= 0:
                    set_dependency(before, channel, graph, vls, first_bit, bits)
                if seen[channel] == mark:
                    break
                seen[channel] = mark
                before = channel
                row = edge_row[edge]
                port_in = edge_port_in[edge]
        stamp += 16


@njit(cache=True)
def candidate_dependencies(
    set_id, set_offset, set_edge, set_lane, targets, graph, source_rows, lane, vls, first_bit, bits,
    used,
):  # fmt: skip
    """Set the dependencies of all paths that the candidate sets allow from the source rows.

    - `set_id`, `set_offset`, `set_edge`, `set_lane`: attributes of
      `weft.routing.routes.CandidateRoutes`.
    - `targets`, `source_rows`, int32: rows that paths lead to, and rows at which paths begin.
    - `lane`: VL of all edges if set_lane is empty.
    - `vls`, `first_bit`, `bits`, `used`: see the module; bits and used are changed in place.
    """
    edge_offset = graph.edge_offset
    rows = len(edge_offset) - 1
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    for t in range(len(targets)):
        g = targets[t]
        count = 0
        state[:] = 0
        for s in range(len(source_rows)):
            row = source_rows[s]
            if state[row] == 0:
                state[row] = 1
                order[count] = row
                count += 1
        follow_sets(
            set_id[g], g, order, count, state, set_offset, set_edge, set_lane, graph, lane, vls,
            first_bit, bits, used,
        )  # fmt: skip


@njit(cache=True)
def follow_sets(
    line, g, order, count, state, set_offset, set_edge, set_lane, graph, lane, vls, first_bit, bits,
    used,
):  # fmt: skip
    """Set the dependencies of all paths over the sets of one target from the rows order[:count].

    line[row] is the row's set, -1 where paths end; they also end at row g. state, uint8 [rows],
    must be 1 for the rows order[:count], else 0. For other arguments see `candidate_dependencies`.
    """
    edge_row = graph.edge_row
    at = 0
    while at < count:
        row = order[at]
        at += 1
        if row == g or line[row] < 0:
            continue
        for k in range(set_offset[line[row]], set_offset[line[row] + 1]):
            e = set_edge[k]
            channel = np.int64(e) * vls + (set_lane[k] if len(set_lane) else lane)
            used[channel] = 1
            other = edge_row[e]
            if state[other] == 0:
                state[other] = 1
                order[count] = other
                count += 1
            if other != g and line[other] >= 0:
                set_dependencies(
                    channel, line[other], set_offset, set_edge, set_lane, graph, lane, vls,
                    first_bit, bits,
                )  # fmt: skip


@njit(cache=True)
def set_dependencies(
    channel, choice, set_offset, set_edge, set_lane, graph, lane, vls, first_bit, bits
):
    """Set a channel's dependencies on the channels of the set `choice`, which leave its head."""
    for j in range(set_offset[choice], set_offset[choice + 1]):
        following = np.int64(set_edge[j]) * vls + (set_lane[j] if len(set_lane) else lane)
        set_dependency(channel, following, graph, vls, first_bit, bits)


@njit(cache=True)
def strip_acyclic(graph, vls, first_bit, bits, used):
    """Remove channels on which no remaining channel depends, as long as there are any.

    `vls`, `first_bit`, `bits`, `used`: see the module.

    Returns uint8 [edges * vls]: 1 for each channel on a cycle or behind one; all 0 proves that the
    graph is acyclic.
    """
    edge_row = graph.edge_row
    channels = len(edge_row) * vls
    waiting = np.zeros(channels, dtype=np.int32)
    queue = np.empty(channels, dtype=np.int32)
    for channel in range(channels):
        if used[channel]:
            _visit(channel, graph, vls, first_bit, bits, waiting, 1, queue, 0)
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
        tail = _visit(channel, graph, vls, first_bit, bits, waiting, -1, queue, tail)
    return stays


@njit(cache=True)
def _visit(channel, graph, vls, first_bit, bits, waiting, change, queue, tail):
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    edge = channel // vls
    head_row = edge_row[edge]
    first = edge_offset[head_row]
    degree = edge_offset[head_row + 1] - first
    base = first_bit[edge] + (channel % vls) * degree * vls
    for k in range(degree * vls):
        bit = base + k
        if bits[bit >> 3] & np.uint8(1 << (bit & 7)):
            other = first * vls + k
            waiting[other] += change
            if change < 0 and waiting[other] == 0:
                queue[tail] = other
                tail += 1
    return tail


@njit(cache=True)
def list_dependencies(graph, vls, first_bit, bits, keep, tails, heads):
    """List the dependencies among the kept channels.

    `vls`, `first_bit`, `bits`: see the module. `keep`, uint8 [edges * vls]: 1 for the channels to
    list. `tails`, `heads`, int32, filled as far as there is room: channel ``tails[i]`` depends on
    ``heads[i]``.

    Returns the number of dependencies, including those for which there is no room.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    count = 0
    for channel in range(len(keep)):
        if not keep[channel]:
            continue
        edge = channel // vls
        head_row = edge_row[edge]
        first = edge_offset[head_row]
        degree = edge_offset[head_row + 1] - first
        base = first_bit[edge] + (channel % vls) * degree * vls
        for k in range(degree * vls):
            bit = base + k
            other = first * vls + k
            if bits[bit >> 3] & np.uint8(1 << (bit & 7)) and keep[other]:
                if count < len(tails):
                    tails[count] = channel
                    heads[count] = other
                count += 1
    return count
