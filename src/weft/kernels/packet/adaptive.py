"""Adaptive choices: the candidate that has least to send, as its own node sees it."""

import numpy as np

from weft.kernels.lean import part_njit
from weft.kernels.packet.choice import CREDITS, QUEUE, draw, lane_of
from weft.kernels.packet.hashed_choice import entry_of, keep, kept
from weft.kernels.packet.lanes import credits_now


@part_njit()
def load_at(net, slot, row, at, now):
    """What a candidate has to send, in credits: packets that wait here, credits taken, or both."""
    candidate = net.tables.candidates[at]
    lane = net.lanes[candidate.link * net.rules.lanes + lane_of(net, slot, row, candidate)]
    by = net.choice.rules.by
    amount = np.int64(0)
    if by != CREDITS:
        amount += np.int64(lane.routed_credits)
    if by != QUEUE:
        amount += net.rules.buffer_credits - credits_now(net.credits, lane, now)
    return amount


@part_njit()
def least_loaded(net, slot, row, first, several, now):
    """The candidate with the least load, drawn among equal ones."""
    least = np.int64(2**62)
    ties = np.int64(0)
    loads = net.loads
    for at in range(several):
        amount = load_at(net, slot, row, first + at, now)
        loads[at] = amount
        if amount < least:
            least = amount
            ties = np.int64(1)
        elif amount == least:
            ties += 1
    turn = draw(net.rules.seed, np.int64(net.calendar.packets[slot].serial), row, ties)
    if ties == several:
        return turn
    for at in range(several):
        if loads[at] == least:
            if turn == 0:
                return np.int64(at)
            turn -= 1
    return np.int64(0)


@part_njit()
def adaptive(net, slot, row, flow, first, several, now):
    """The least loaded candidate: for each packet, or with a gap for each flowlet."""
    if net.choice.rules.gap_ps == 0:
        return least_loaded(net, slot, row, first, several, now)
    entry = entry_of(net.choice, row, flow)
    taken = kept(net, entry, first, several, now)
    if taken < 0:
        taken = least_loaded(net, slot, row, first, several, now)
    keep(net, entry, first, taken, now)
    return taken
