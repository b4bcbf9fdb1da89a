"""Policies that know nothing of the network: hashes, draws, and flowlets that are kept together."""

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.choice import ENTRIES, GAP, draw
from weft.kernels.packet.layout import SEED, SERIAL


@part_njit()
def ecmp(net, row, flow, several):
    """One candidate for all packets of a connection."""
    return draw(net.setting[SEED], flow, row, several)


@part_njit()
def spray(net, slot, row, several):
    """A candidate for each packet."""
    return draw(net.setting[SEED], np.int64(net.slots[slot, SERIAL]), row, several)


@lean_njit(forceinline=True)
def entry_of(choice, row, flow):
    """The entry of a node's flowlet table that a connection uses."""
    entries = choice.numbers[ENTRIES]
    return row * entries + np.int64(splitmix64(np.uint64(flow)) % np.uint64(entries))


@lean_njit(forceinline=True)
def place_of(set_edge, first, several, edge):
    """Which candidate an edge is, -1 for none."""
    for at in range(several):
        if set_edge[first + at] == edge:
            return np.int64(at)
    return np.int64(-1)


@part_njit()
def kept(net, entry, first, several, now):
    """The candidate of the flowlet before, -1 after a gap or when it is none."""
    last = net.choice.entry_time[entry]
    if last < 0 or now - last > net.choice.numbers[GAP]:
        return np.int64(-1)
    return place_of(net.set_edge, first, several, net.choice.entry_edge[entry])


@part_njit()
def keep(net, entry, first, taken, now):
    """Write a packet's candidate into its flowlet's entry."""
    net.choice.entry_edge[entry] = net.set_edge[first + taken]
    net.choice.entry_time[entry] = now


@part_njit()
def flowlet(net, slot, row, flow, first, several, now):
    """The candidate of the flowlet before; after a gap a new one is drawn."""
    entry = entry_of(net.choice, row, flow)
    taken = kept(net, entry, first, several, now)
    if taken < 0:
        taken = spray(net, slot, row, several)
    keep(net, entry, first, taken, now)
    return taken
