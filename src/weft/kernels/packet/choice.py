"""Functions that kernels of policies share: random draws, and lanes of candidates."""

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit, part_njit

# What sets a packet's next lane: its present lane, SL-to-VL tables by ports, or the candidate.
KEEP = 0
BY_PORTS = 1
BY_CANDIDATE = 2

# Values of `PACKET.via` that are not an intermediate: not decided yet, and a minimal path.
UNDECIDED = -1
DIRECT = -2


@lean_njit(forceinline=True)
def draw(seed, number, row, count):
    """Draw an index below `count`, as a hash of a seed, a number and a row.

    `seed`, `number`, `row`, `count`, int64. Returns int64.
    """
    mixed = splitmix64(np.uint64(number) ^ splitmix64(np.uint64(row) ^ splitmix64(np.uint64(seed))))
    return np.int64(mixed % np.uint64(count))


@part_njit()
def next_serial(net, link):
    """Return the number, for draws, of the next packet that an adapter injects on a link.

    It depends on nothing that happens elsewhere at the same time.
    """
    injecting = net.topology.links[link]
    number = injecting.injected * len(net.topology.links) + link
    injecting.injected += 1
    return number & 0x7FFFFFFF


@part_njit()
def lane_by_ports(net, slot, row, link):
    """Return the lane of a packet on an outgoing link, by the input and output port at a row."""
    packet, links, tables = net.calendar.packets[slot], net.topology.links, net.tables
    by = tables.lane_rows[row]
    entry = by.base + links[packet.link].head_port * by.ports + links[link].tail_port
    return np.int64(tables.lane_tables[tables.lane_index[entry], packet.level])


@part_njit()
def lane_of(net, slot, row, candidate):
    """Return the lane of a packet on the link of a candidate."""
    if net.rules.lane_kind == BY_CANDIDATE:
        return np.int64(candidate.lane)
    if net.rules.lane_kind == BY_PORTS:
        return lane_by_ports(net, slot, row, np.int64(candidate.link))
    return np.int64(net.calendar.packets[slot].lane)
