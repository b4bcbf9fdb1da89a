"""What kernels of policies share: draws, and the lanes of candidates."""

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit, part_njit

# How lanes are found: the packet keeps its own, tables by ports, or that of the candidate.
KEEP = 0
BY_PORTS = 1
BY_CANDIDATE = 2

# In `PACKET.via`, besides the number of an intermediate: nothing is decided yet, or the packet goes
# straight.
UNDECIDED = -1
STRAIGHT = -2


@lean_njit(forceinline=True)
def draw(seed, number, row, count):
    """A choice among so many, by a number and a row."""
    mixed = splitmix64(np.uint64(number) ^ splitmix64(np.uint64(row) ^ splitmix64(np.uint64(seed))))
    return np.int64(mixed % np.uint64(count))


@part_njit()
def lane_by_ports(net, slot, row, link):
    """Lane on which a packet leaves by a link, by the ports that it comes and goes by."""
    packet, links, tables = net.calendar.packets[slot], net.topology.links, net.tables
    by = tables.lane_rows[row]
    entry = by.base + links[packet.link].head_port * by.ports + links[link].tail_port
    return np.int64(tables.lane_tables[tables.lane_index[entry], packet.level])


@part_njit()
def lane_of(net, slot, row, candidate):
    """Lane on which a packet leaves by a `CANDIDATE`."""
    if net.rules.lane_kind == BY_CANDIDATE:
        return np.int64(candidate.lane)
    if net.rules.lane_kind == BY_PORTS:
        return lane_by_ports(net, slot, row, np.int64(candidate.link))
    return np.int64(net.calendar.packets[slot].lane)
