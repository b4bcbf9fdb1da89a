"""Where a packet goes on from a node that switches: tables, source routes, or a policy's choice."""

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit
from weft.kernels.packet_lanes import load_of
from weft.kernels.packet_layout import (
    HEAD_PORT,
    HEAD_ROW,
    LANE,
    LANE_KIND,
    LANES,
    LEVEL,
    LINK,
    OUT,
    OUT_LANE,
    POLICY,
    ROUTE_KIND,
    SEED,
    SERIAL,
    TAIL_PORT,
    WAY,
)

# Kinds of routes: `WAY` is a LID, a place in the runs of links, or an endpoint.
TABLES = 0
RUNS = 1
CANDIDATES = 2

# How lanes are found: the packet keeps its own, tables by ports, or that of the candidate.
KEEP = 0
BY_PORTS = 1
BY_CANDIDATE = 2

# Policies.
ECMP = 1
SPRAY = 2
FLOWLET = 3
ADAPTIVE = 4

# Places of `numbers` of `choice`, those of the policy.
GAP = 0
ENTRIES = 1

#: Nothing leads on.
NO_WAY = -1


@lean_njit(forceinline=True)
def draw(seed, number, row, count):
    """A choice among so many, by a number and a row."""
    mixed = splitmix64(np.uint64(number) ^ splitmix64(np.uint64(row) ^ splitmix64(np.uint64(seed))))
    return np.int64(mixed % np.uint64(count))


@lean_njit(forceinline=True)
def _flowlet(setting, choice, ways, row, flow, serial, first, several, now):
    """Which candidate a flowlet takes: that of the one before, or after a gap a new one."""
    numbers, entry_edge, entry_time = choice[0], choice[1], choice[2]
    set_edge = ways[6]
    entries = numbers[ENTRIES]
    entry = row * entries + np.int64(splitmix64(np.uint64(flow)) % np.uint64(entries))
    taken = np.int64(-1)
    if entry_time[entry] >= 0 and now - entry_time[entry] <= numbers[GAP]:
        for at in range(several):
            if set_edge[first + at] == entry_edge[entry]:
                taken = at
                break
    if taken < 0:
        taken = draw(setting[SEED], serial, row, several)
        entry_edge[entry] = set_edge[first + taken]
    entry_time[entry] = now
    return taken


@lean_njit(forceinline=True)
def _least_loaded(setting, number, pool, lanes, ways, row, serial, own_lane, first, several, now):
    """The candidate that has least to send."""
    set_edge, set_lane, edge_link = ways[6], ways[7], ways[8]
    least = np.int64(2**62)
    ties = 0
    for at in range(several):
        link = np.int64(edge_link[set_edge[first + at]])
        lane = set_lane[first + at] if setting[LANE_KIND] == BY_CANDIDATE else own_lane
        load = load_of(setting, number, pool, lanes[link * setting[LANES] + lane], now)
        if load < least:
            least = load
            ties = 0
        ties += load == least
    turn = draw(setting[SEED], serial, row, ties)
    for at in range(several):
        link = np.int64(edge_link[set_edge[first + at]])
        lane = set_lane[first + at] if setting[LANE_KIND] == BY_CANDIDATE else own_lane
        load = load_of(setting, number, pool, lanes[link * setting[LANES] + lane], now)
        if load == least:
            if turn == 0:
                return at
            turn -= 1
    return 0


@lean_njit(forceinline=True)
def _among(setting, number, pool, lanes, ways, choice, slot, row, flow, first, several, now):
    """Which of the candidates a packet takes."""
    if several == 1:
        return 0
    slots = pool[0]
    policy, serial = setting[POLICY], np.int64(slots[slot, SERIAL])
    if policy == ECMP:
        return draw(setting[SEED], flow, row, several)
    if policy == SPRAY:
        return draw(setting[SEED], serial, row, several)
    if policy == FLOWLET:
        return _flowlet(setting, choice, ways, row, flow, serial, first, several, now)
    return _least_loaded(
        setting, number, pool, lanes, ways, row, serial, np.int64(slots[slot, LANE]), first,
        several, now,
    )  # fmt: skip


@lean_njit(forceinline=True)
def route(setting, number, network, pool, lanes, ways, choice, slot, flow, now):
    """Write into a packet where it goes on from the node that it came to.

    Parameters
    ----------
    ways
        Of tables: ports [lids, rows], and the links of ports (first port of each row, links); of
        runs: links; of candidates: set_id, set_offset, set_edge, lanes, link of each edge, the row
        that each endpoint hangs from and the last link to it; then the tables of lanes: VLs by SL,
        which table, first of a row, ports of a row.
    choice
        State of the policy.
    flow
        Connection that the packet belongs to.

    Returns
    -------
    bool: whether anything leads on.
    """
    slots = pool[0]
    come = np.int64(slots[slot, LINK])
    row = network[0][come, HEAD_ROW]
    lane = np.int64(slots[slot, LANE])
    way = np.int64(slots[slot, WAY])
    link = np.int64(NO_WAY)
    if setting[ROUTE_KIND] == TABLES:
        table, row_base, row_link = ways[0], ways[1], ways[2]
        port = np.int64(table[way, row])
        if row_base[row] + port < row_base[row + 1]:
            link = np.int64(row_link[row_base[row] + port])
    elif setting[ROUTE_KIND] == RUNS:
        link = np.int64(ways[3][way])
        slots[slot, WAY] = way + 1
    else:
        set_id, set_offset, set_edge, set_lane, edge_link = ways[4:9]
        goal = np.int64(ways[9][way])
        if goal == row:
            link = np.int64(ways[10][way])
        else:
            group = np.int64(set_id[goal, row])
            if group >= 0:
                first = np.int64(set_offset[group])
                several = np.int64(set_offset[group + 1]) - first
                at = first + _among(
                    setting, number, pool, lanes, ways, choice, slot, row, flow, first, several, now
                )
                link = np.int64(edge_link[set_edge[at]])
                if setting[LANE_KIND] == BY_CANDIDATE:
                    lane = np.int64(set_lane[at])
    if link < 0:
        return False
    if setting[LANE_KIND] == BY_PORTS:
        tables, index, base, ports = ways[11:15]
        entry = base[row] + network[0][come, HEAD_PORT] * ports[row] + network[0][link, TAIL_PORT]
        lane = np.int64(tables[index[entry], slots[slot, LEVEL]])
    slots[slot, OUT] = link
    slots[slot, OUT_LANE] = lane
    return True
