"""Ways by intermediates: Valiant's, and UGAL's choice between such a way and the straight one."""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.adaptive import load_at
from weft.kernels.packet.choice import DIRECT, STRAIGHT, THRESHOLD, UGAL, UNDECIDED, draw
from weft.kernels.packet.layout import CREDIT_BYTES, POLICY, SEED, SERIAL, VIA


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
        for at in range(net.set_offset[group], net.set_offset[group + 1]):
            least = min(least, load_at(net, slot, row, np.int64(at), now))
    return found, least


@part_njit()
def decide(net, slot, row, goal, now):
    """The intermediate that a packet makes for from its first switch, or STRAIGHT."""
    choice = net.choice
    own, other = choice.via[row], choice.via[goal]
    if own < 0 or other < 0 or own == other:
        return np.int64(STRAIGHT)
    serial = np.int64(net.slots[slot, SERIAL])
    via = drawn_via(net.setting[SEED], choice.via, len(choice.via_set), serial, row, goal)
    if net.setting[POLICY] != UGAL or not choice.numbers[DIRECT]:
        return via
    straight, around = np.int64(net.set_id[goal, row]), np.int64(choice.via_set[via, row])
    if straight < 0 or around < 0:
        return via
    near = np.int64(choice.links_to[goal, row])
    far = np.int64(choice.links_to_via[via, row])
    far += np.int64(choice.links_to[goal, choice.turns_on[via, row]])
    one, two = least_loads(net, slot, row, straight, around, now)
    more = (one * near - two * far) * net.setting[CREDIT_BYTES]
    return np.int64(STRAIGHT) if more <= choice.numbers[THRESHOLD] else via


@part_njit()
def makes_for(net, slot, row, goal, now):
    """The intermediate that a packet makes for from a row, or STRAIGHT; written into the packet."""
    via = np.int64(net.slots[slot, VIA])
    if via == UNDECIDED:
        via = decide(net, slot, row, goal, now)
        net.slots[slot, VIA] = via
    elif via >= 0 and net.choice.via[row] == via:
        via = np.int64(STRAIGHT)
        net.slots[slot, VIA] = via
    return via
