"""What policies of the packet level share: their numbers, what they keep, and draws."""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.layout import HEAD_PORT, LANE, LANE_KIND, LEVEL, LINK, TAIL_PORT

# Policies.
ECMP = 1
SPRAY = 2
FLOWLET = 3
ADAPTIVE = 4
CONGA = 5
VALIANT = 6
UGAL = 7

# How lanes are found: the packet keeps its own, tables by ports, or that of the candidate.
KEEP = 0
BY_PORTS = 1
BY_CANDIDATE = 2

# Where a packet makes for, in `VIA` of its slot, besides the number of an intermediate: it has
# decided nothing yet, or goes straight.
UNDECIDED = -1
STRAIGHT = -2

# -- places of `Choice.numbers`, int64

GAP = 0
ENTRIES = 1
#: Which loads are compared.
BY = 2
THRESHOLD = 3
DIRECT = 4
#: Levels of a congestion metric, time between two ticks, and after which metrics are halved.
QUANTA = 5
PERIOD = 6
AGEING = 7
#: Whether middle switches decide as leaves do, and columns of the tables of leaves and of those.
MIDDLE = 8
LEAF_UPLINKS = 9
MIDDLE_UPLINKS = 10
NUMBERS = 16

# -- places of `Choice.reals`, float64

#: What a tick leaves of an estimate, and levels of the metric per byte and Gb/s.
LEFT = 0
SCALE = 1
REALS = 2

# Values of `BY`.
BOTH = 0
QUEUE = 1
CREDITS = 2


class Choice(NamedTuple):
    """What policies keep: arrays by name, of a length of 1 where a policy needs none.

    Parameters
    ----------
    numbers, reals
        int64, float64: what was set, by place.
    entry_edge, entry_time
        int32, int64 [rows * entries]: flowlets, edge and time of the last packet, -1 for none.
    tree_level
        int8 [rows]: level in a tree, from 0.
    tree_leaf, tree_pod
        int32 [rows]: number of a leaf among leaves, and of the pod that a row belongs to.
    uplink
        int16 [edges]: which uplink of its row each is, -1 for one that leads down.
    table_base
        int64 [rows]: where the tables of a row begin.
    metric, heard
        uint8 [cells, 4], int64 [cells, 2]: CONGA's tables, see `packet_conga`.
    estimate, tick
        float64, int64 [links]: bytes of a rate estimator, and until which tick they are decayed.
    via, via_set
        int32 [rows], [intermediates, rows]: see `weft.routes.CandidateRoutes`.
    links_to, links_to_via
        uint8 [rows, rows], [intermediates, rows]: links from a row to each target row, and to each
        intermediate.
    turns_on
        int32 [intermediates, rows]: the row of an intermediate on which packets of a row turn.
    """

    numbers: Any
    reals: Any
    entry_edge: Any
    entry_time: Any
    tree_level: Any
    tree_leaf: Any
    tree_pod: Any
    uplink: Any
    table_base: Any
    metric: Any
    heard: Any
    estimate: Any
    tick: Any
    via: Any
    via_set: Any
    links_to: Any
    links_to_via: Any
    turns_on: Any


@lean_njit(forceinline=True)
def draw(seed, number, row, count):
    """A choice among so many, by a number and a row."""
    mixed = splitmix64(np.uint64(number) ^ splitmix64(np.uint64(row) ^ splitmix64(np.uint64(seed))))
    return np.int64(mixed % np.uint64(count))


@part_njit()
def lane_by_ports(net, slot, row, link):
    """Lane on which a packet leaves by a link, by the ports that it comes and goes by."""
    come = np.int64(net.slots[slot, LINK])
    entry = net.lane_base[row] + net.fixed[come, HEAD_PORT] * net.lane_ports[row]
    entry += net.fixed[link, TAIL_PORT]
    return np.int64(net.lane_tables[net.lane_index[entry], net.slots[slot, LEVEL]])


@part_njit()
def lane_of(net, slot, row, at, link):
    """Lane on which a packet leaves by a candidate, the one at a place of the sets' edges."""
    if net.setting[LANE_KIND] == BY_CANDIDATE:
        return np.int64(net.set_lane[at])
    if net.setting[LANE_KIND] == BY_PORTS:
        return lane_by_ports(net, slot, row, link)
    return np.int64(net.slots[slot, LANE])
