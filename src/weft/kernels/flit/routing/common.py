"""What routing functions share: lanes of a packet's class, loads of outputs, draws."""

import numpy as np

from weft.kernels.hashing import splitmix64
from weft.kernels.lean import part_njit


@part_njit()
def lanes_of(net, packet, first, count):
    """Return the bits of lanes `first` onwards of a packet's class."""
    bits = ((np.uint64(1) << np.uint64(count)) - np.uint64(1)) << np.uint64(first)
    return np.uint32(bits << np.uint64(net.packets[packet].kind * net.rules.class_lanes))


@part_njit()
def choose(net, lane, output, allowed):
    """Let the packet at the front of an input lane use some lanes of an output."""
    here = net.in_lanes[lane]
    here.out = output << net.rules.lane_shift
    here.allowed = allowed


@part_njit()
def load_of(net, output):
    """Return the flits that are in an output's queues, on its link and in the buffer behind it."""
    rules = net.rules
    total = np.int64(0)
    for lane in range(output << rules.lane_shift, (output << rules.lane_shift) + rules.lanes):
        total += rules.buffer - net.out_lanes[lane].credits
        if rules.output_buffer:
            total += net.queues[lane].count
    return total


@part_njit()
def below(number, count):
    """Return a whole number below `count` from 64 random bits."""
    return np.int64(((number >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


@part_njit()
def draw(net, packet, count):
    """Draw a whole number below `count` for a packet at its present router."""
    return below(splitmix64(net.packets[packet].key ^ np.uint64(net.packets[packet].hops)), count)


@part_njit()
def nothing(net, now, endpoint, packet):
    """Do nothing when an endpoint begins to send a packet."""
