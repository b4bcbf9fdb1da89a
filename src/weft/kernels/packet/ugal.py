"""Ways by intermediates: Valiant's, and UGAL's choice between such a way and the straight one."""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.adaptive import load_at
from weft.kernels.packet.choice import STRAIGHT, UGAL, UNDECIDED, draw


@lean_njit(forceinline=True)
def drawn_via(seed, via, vias, serial, row, goal):
    """An intermediate other than those of two rows."""
    low = min(via[row], via[goal])
    high = max(via[row], via[goal])
    # Draws at a row are of its own number; this one is of a number that no row has.
    drawn = draw(seed, serial, row + len(via), vias - 2)
    drawn += drawn >= low
    drawn += drawn >= high
    return drawn


@part_njit()
def least_loads(net, slot, row, straight, around, now):
    """The least load of the candidates of either of two sets."""
    found = np.int64(0)
    least = np.int64(2**62)
    for group in (straight, around):
        found = least
        least = np.int64(2**62)
        for at in range(net.tables.set_offset[group], net.tables.set_offset[group + 1]):
            least = min(least, load_at(net, slot, row, np.int64(at), now))
    return found, least


@part_njit()
def decide(net, slot, row, goal, now):
    """The intermediate that a packet makes for from its first switch, or STRAIGHT."""
    detours, rules = net.choice.detours, net.choice.rules
    own, other = detours.via[row], detours.via[goal]
    if own < 0 or other < 0 or own == other:
        return np.int64(STRAIGHT)
    serial = np.int64(net.calendar.packets[slot].serial)
    via = drawn_via(net.rules.seed, detours.via, len(detours.to_via), serial, row, goal)
    if net.rules.policy != UGAL or not rules.chooses_straight:
        return via
    detour = detours.to_via[via, row]
    straight, around = np.int64(net.tables.set_id[goal, row]), np.int64(detour.set)
    if straight < 0 or around < 0:
        return via
    near = np.int64(detours.links_to[goal, row])
    far = np.int64(detour.links) + detours.links_to[goal, detour.turns_on]
    one, two = least_loads(net, slot, row, straight, around, now)
    more = (one * near - two * far) * net.rules.credit_bytes
    return np.int64(STRAIGHT) if more <= rules.threshold_bytes else via


@part_njit()
def makes_for(net, slot, row, goal, now):
    """The intermediate that a packet makes for from a row, or STRAIGHT; written into the packet."""
    packet = net.calendar.packets[slot]
    via = np.int64(packet.via)
    if via == UNDECIDED:
        via = decide(net, slot, row, goal, now)
        packet.via = via
    elif via >= 0 and net.choice.detours.via[row] == via:
        via = np.int64(STRAIGHT)
        packet.via = via
    return via
