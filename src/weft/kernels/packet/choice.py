"""What policies of the packet level share: their numbers, what they keep, and draws."""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.records import record

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

# Where a packet makes for, in `PACKET.via`, besides the number of an intermediate: it has decided
# nothing yet, or goes straight.
UNDECIDED = -1
STRAIGHT = -2

# Values of `CHOICE_RULES.by`.
BOTH = 0
QUEUE = 1
CREDITS = 2

CHOICE_RULES = record(
    gap_ps="i8",  # that ends a flowlet
    entries="i8",  # flowlets that each row remembers
    by="i8",  # which loads are compared
    threshold_bytes="i8",  # times links: how much more straight ways may have to send
    chooses_straight="i8",  # whether packets may go straight, besides by intermediates
)

FLOWLET_ENTRY = record(
    time_ps="i8",  # of the last packet, -1 for none
    edge="i4",  # that it took
)

#: Of rows that are switches of a tree; see `conga`.
TREE_ROW = record(
    first_cell="i8",  # where its tables begin
    leaf="i4",  # number among leaves
    pod="i4",  # that it belongs to
    level="i1",  # from 0
)

CONGA_RULES = record(
    levels="i8",  # of a congestion metric
    tick_ps="i8",
    ageing_ps="i8",  # after which metrics are halved
    leaf_uplinks="i8",  # columns of the tables of leaves
    middle_uplinks="i8",  # and of those of middle switches
    middle_decides="i8",  # as leaves do
    left="f8",  # what a tick leaves of an estimate
    scale="f8",  # levels of the metric per byte and Gb/s
)

#: Cell of CONGA's tables, one for each peer and uplink.
CELL = record(
    heard_to_ps="i8",  # when the peer told of the way to it, -1 for never
    heard_from_ps="i8",  # when packets told of the way from it, -1 for never
    metric_to="u1",  # of the way to the peer, as it told
    metric_from="u1",  # of the way from the peer, as packets told
    has_news="u1",  # that has changed since it was last fed back
    last_fed="u1",  # in a peer's first cell: what was fed back last
)

#: Rate estimator of a link.
ESTIMATE = record(
    amount_bytes="f8",
    tick="i8",  # until which it is decayed
)

#: The way of a row to an intermediate.
TO_VIA = record(
    set="i4",  # of candidates, -1 for none
    turns_on="i4",  # row of the intermediate on which its packets turn
    links="u1",  # how many there are on the way
)


class Conga(NamedTuple):
    """What CONGA keeps.

    Parameters
    ----------
    rules
        One `CONGA_RULES`.
    rows, cells, estimates
        `TREE_ROW`, `CELL`, and `ESTIMATE` of links.
    uplink
        int16 [edges]: which uplink of its row each is, -1 for one that leads down.
    """

    rules: Any
    rows: Any
    cells: Any
    estimates: Any
    uplink: Any


class Detours(NamedTuple):
    """Ways by intermediates; see `weft.routes.CandidateRoutes`.

    Parameters
    ----------
    via
        int32 [rows]: the intermediate that each belongs to, -1 for none.
    to_via
        `TO_VIA` [intermediates, rows].
    links_to
        uint8 [rows, rows]: links to each target row, from each row.
    """

    via: Any
    to_via: Any
    links_to: Any


class Choice(NamedTuple):
    """What policies keep: arrays of one entry where a policy needs none.

    Parameters
    ----------
    rules
        One `CHOICE_RULES`.
    flowlets
        `FLOWLET_ENTRY` [rows * entries].
    conga, detours
        See there.
    """

    rules: Any
    flowlets: Any
    conga: Conga
    detours: Detours


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
