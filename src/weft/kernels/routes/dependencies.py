"""The channel dependency graph: which (directed link, VL) waits for which.

Channels are (edge, VL) pairs, numbered ``edge * vls + vl``. The dependencies of a channel on the
channels that leave its head are a run of bits: bit ``(vl * degree + k) * vls + out_vl`` past
``first_bit[edge]``, k being the number of the outgoing edge among those of the head row.
"""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True, inline="always")
def lane_of(row, port_in, port_out, sl, vl_tables, vl_index, vl_base, vl_ports):
    """VL on which a packet of a service level leaves a row."""
    if len(vl_index) == 0:
        return vl_tables[0, sl]
    return vl_tables[vl_index[vl_base[row] + port_in * vl_ports[row] + port_out], sl]


@njit(cache=True, inline="always")
def set_dependency(before, channel, edge_offset, edge_row, vls, first_bit, bits):
    """Set the bit that says: channel `before` waits for `channel`, which leaves its head."""
    head = edge_row[before // vls]
    first = np.int64(edge_offset[head])
    degree = edge_offset[head + 1] - first
    bit = first_bit[before // vls] + (before % vls) * degree * vls + channel - first * vls
    bits[bit >> 3] |= np.uint8(1 << (bit & 7))


@njit(cache=True)
def table_dependencies(
    table, lids, row_base, row_link, edge_of_link, edge_offset, edge_row, edge_port_in, start_row,
    start_port, start_sender, sl, lmc, no_path, vl_tables, vl_index, vl_base, vl_ports, vls,
    first_bit, bits, used,
):  # fmt: skip
    """Set the bit of every dependency of the paths from each start to each listed LID.

    sl is [1, 1], [1, lids] or [rows, lids]. start_sender[s] is the destination that alone sends
    from start s, which sends nothing to itself, or -1 for several. used[channel] becomes 1 for
    every channel that carries traffic. A path is followed until it meets one already followed to
    the same LID on the same SL: the rest is the same.
    """
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
                    set_dependency(before, channel, edge_offset, edge_row, vls, first_bit, bits)
                if seen[channel] == mark:
                    break
                seen[channel] = mark
                before = channel
                row = edge_row[edge]
                port_in = edge_port_in[edge]
        stamp += 16


@njit(cache=True)
def candidate_dependencies(
    set_id, set_offset, set_edge, set_lane, targets, edge_offset, edge_row, source_rows, lane, vls,
    first_bit, bits, used,
):  # fmt: skip
    """Set the bits of all ways that the candidate sets allow from any source row.

    set_lane goes with set_edge, or is empty when all ride on `lane`.
    """
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
            set_id[g], g, order, count, state, set_offset, set_edge, set_lane, edge_offset,
            edge_row, lane, vls, first_bit, bits, used,
        )  # fmt: skip


@njit(cache=True)
def follow_sets(
    line, g, order, count, state, set_offset, set_edge, set_lane, edge_offset, edge_row, lane, vls,
    first_bit, bits, used,
):  # fmt: skip
    """Set the bits of all ways by the sets of one target, from the rows in order[:count] on.

    line[row] is the row's set, -1 where ways end; they end on row g, too. state[row] is 1 for the
    rows in order.
    """
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
                set_waits(
                    channel, line[other], set_offset, set_edge, set_lane, edge_offset, edge_row,
                    lane, vls, first_bit, bits,
                )  # fmt: skip


@njit(cache=True)
def set_waits(
    channel, choice, set_offset, set_edge, set_lane, edge_offset, edge_row, lane, vls, first_bit,
    bits,
):  # fmt: skip
    """Set the bits that say: a channel waits for those of a set, which leave its head."""
    for j in range(set_offset[choice], set_offset[choice + 1]):
        following = np.int64(set_edge[j]) * vls + (set_lane[j] if len(set_lane) else lane)
        set_dependency(channel, following, edge_offset, edge_row, vls, first_bit, bits)


@njit(cache=True)
def strip_acyclic(edge_offset, edge_row, vls, first_bit, bits, used):
    """Take away channels that nothing left waits on, again and again; return what stays.

    The result is 1 for each channel that is on a cycle or behind one; all 0 proves the graph
    acyclic.
    """
    channels = len(edge_row) * vls
    waiting = np.zeros(channels, dtype=np.int32)
    queue = np.empty(channels, dtype=np.int32)
    for channel in range(channels):
        if used[channel]:
            _visit(channel, edge_offset, edge_row, vls, first_bit, bits, waiting, 1, queue, 0)
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
        tail = _visit(
            channel, edge_offset, edge_row, vls, first_bit, bits, waiting, -1, queue, tail
        )
    return stays


@njit(cache=True)
def _visit(channel, edge_offset, edge_row, vls, first_bit, bits, waiting, change, queue, tail):
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
def list_dependencies(edge_offset, edge_row, vls, first_bit, bits, keep, tails, heads):
    """List the dependencies among the kept channels as far as there is room; return how many."""
    found = 0
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
                if found < len(tails):
                    tails[found] = channel
                    heads[found] = other
                found += 1
    return found
