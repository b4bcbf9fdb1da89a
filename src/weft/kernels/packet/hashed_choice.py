"""Policies that know nothing of the network: hashes, draws, and flowlets that are kept together."""

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.choice import draw


@part_njit()
def ecmp(net, row, flow, several):
    """One candidate for all packets of a connection."""
    return draw(net.rules.seed, flow, row, several)


@part_njit()
def spray(net, slot, row, several):
    """A candidate for each packet."""
    return draw(net.rules.seed, np.int64(net.calendar.packets[slot].serial), row, several)


@part_njit()
def entry_of(choice, row, flow):
    """The `FLOWLET_ENTRY` of a row that a connection uses."""
    entries = choice.rules.entries
    place = row * entries + np.int64(splitmix64(np.uint64(flow)) % np.uint64(entries))
    return choice.flowlets[place]


@lean_njit(forceinline=True)
def place_of(candidates, first, several, edge):
    """Which candidate an edge is, -1 for none."""
    for at in range(several):
        if candidates[first + at].edge == edge:
            return np.int64(at)
    return np.int64(-1)


@part_njit()
def kept(net, entry, first, several, now):
    """The candidate of the flowlet before, -1 after a gap or when it is none."""
    if entry.time_ps < 0 or now - entry.time_ps > net.choice.rules.gap_ps:
        return np.int64(-1)
    return place_of(net.tables.candidates, first, several, entry.edge)


@part_njit()
def keep(net, entry, first, taken, now):
    """Write a packet's candidate into its flowlet's entry."""
    entry.edge = net.tables.candidates[first + taken].edge
    entry.time_ps = now


@part_njit()
def flowlet(net, slot, row, flow, first, several, now):
    """The candidate of the flowlet before; after a gap a new one is drawn."""
    entry = entry_of(net.choice, row, flow)
    taken = kept(net, entry, first, several, now)
    if taken < 0:
        taken = spray(net, slot, row, several)
    keep(net, entry, first, taken, now)
    return taken
