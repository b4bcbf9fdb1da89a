"""CONGA: flowlets by the least congested uplink, as estimators near and feedback from far say.

A packet between two leaves is in a tunnel: its header names the leaf that it comes from, the uplink
that it took there (tag), the largest congestion of the links behind that one (CE), and one metric
of the other direction (feedback tag and metric). In trees of three levels the middle switches keep
such a tunnel of their own between them, inside the leaves'. In a packet's slot `VIA` and `POLICY_A`
are the leaves' tunnel, `POLICY_B` and `POLICY_C` that of the middle: the row that it comes from, -1
for none, and a word of four bytes: tag, CE, feedback tag, feedback metric.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.choice import (
    AGEING,
    GAP,
    LEAF_UPLINKS,
    LEFT,
    MIDDLE,
    MIDDLE_UPLINKS,
    PERIOD,
    QUANTA,
    SCALE,
    STRAIGHT,
    UNDECIDED,
    draw,
)
from weft.kernels.packet.hashed_choice import ecmp, entry_of, keep, place_of
from weft.kernels.packet.layout import (
    HEAD_ROW,
    POLICY_A,
    POLICY_B,
    POLICY_C,
    SEED,
    SERIAL,
    TAIL_ROW,
    VIA,
    WAY,
)

#: No feedback in a packet.
NO_TAG = 255

# Columns of the tables' cells, one for each peer and uplink. Metric of the way to the peer, heard
# from it, with the time; metric of the way from the peer, seen in packets, with the time; whether
# that has changed since it was last fed back; and, in a peer's first cell, what was fed back last.
TO = 0
FROM = 1
NEWS = 2
LAST_FED = 3
CELL_WIDTH = 4

#: Below this an estimate is nothing, bytes.
NOTHING = 1.0


@lean_njit(forceinline=True)
def decayed(choice, link, until):
    """A link's estimate after all ticks up to one."""
    amount = choice.estimate[link]
    left = choice.reals[LEFT]
    for _ in range(until - choice.tick[link]):
        if amount < NOTHING:
            amount = 0.0
            break
        amount *= left
    choice.estimate[link] = amount
    choice.tick[link] = until
    return amount


@lean_njit()
def congestion(choice, link, until, rate_gbps):
    """A link's metric: its estimate over that of a full link, in so many levels."""
    amount = decayed(choice, link, until)
    return min(np.int64(amount * choice.reals[SCALE] / rate_gbps), choice.numbers[QUANTA] - 1)


@lean_njit()
def aged(metric, heard, now, ageing):
    """A metric, halved for each time that has passed without news."""
    return np.int64(metric) >> min((now - heard) // ageing, np.int64(7))


@lean_njit()
def feedback(metric, heard, base, uplinks, now, ageing):
    """Which metric a packet carries back: the next in turn, of those that have changed if any has.

    Returns
    -------
    int: tag and metric, in the two upper bytes of a word.
    """
    last = np.int64(metric[base, LAST_FED])
    known = np.int64(NO_TAG)
    for step in range(1, uplinks + 1):
        tag = last + step
        while tag >= uplinks:
            tag -= uplinks
        if heard[base + tag, FROM] < 0:
            continue
        if metric[base + tag, NEWS]:
            known = tag
            break
        if known == NO_TAG:
            known = tag
    if known == NO_TAG:
        return np.int64(NO_TAG) << 16
    metric[base, LAST_FED] = known
    metric[base + known, NEWS] = 0
    value = aged(metric[base + known, FROM], heard[base + known, FROM], now, ageing)
    return known << 16 | value << 24


@lean_njit()
def learn(metric, heard, base, word, now):
    """Take what a packet says at the end of its tunnel into the tables for the peer."""
    tag, seen = word & 0xFF, word >> 8 & 0xFF
    cell = base + tag
    if heard[cell, FROM] < 0 or metric[cell, FROM] != seen:
        metric[cell, NEWS] = 1
    metric[cell, FROM] = seen
    heard[cell, FROM] = now
    told = word >> 16 & 0xFF
    if told != NO_TAG:
        metric[base + told, TO] = word >> 24 & 0xFF
        heard[base + told, TO] = now


@lean_njit()
def marked(word, level):
    """A header whose CE is at least so much."""
    seen = word >> 8 & 0xFF
    return word if seen >= level else (word & ~np.int64(0xFF00)) | level << 8


@part_njit()
def conga_sent(net, slot, link, size, now):
    """A switch has sent a packet over a link: estimate its rate, mark tunnels that began before.

    Links to hosts are none of CONGA's.
    """
    row = np.int64(net.fixed[link, TAIL_ROW])
    if row < 0 or net.fixed[link, HEAD_ROW] < 0:
        return
    slots, choice = net.slots, net.choice
    until = now // choice.numbers[PERIOD]
    choice.estimate[link] = size + decayed(choice, link, until)
    level = congestion(choice, link, until, net.rate[link])
    if slots[slot, VIA] != row:
        slots[slot, POLICY_A] = marked(np.int64(slots[slot, POLICY_A]), level)
    if slots[slot, POLICY_B] >= 0 and slots[slot, POLICY_B] != row:
        slots[slot, POLICY_C] = marked(np.int64(slots[slot, POLICY_C]), level)


@part_njit()
def conga_comes(net, slot, row, goal, now):
    """A packet comes to a switch: its tunnels may end here."""
    slots, choice = net.slots, net.choice
    if slots[slot, VIA] == UNDECIDED:
        slots[slot, POLICY_B] = -1
        return
    if slots[slot, POLICY_B] >= 0 and choice.tree_level[row] == 1:
        peer = np.int64(choice.tree_pod[slots[slot, POLICY_B]])
        base = choice.table_base[row] + peer * choice.numbers[MIDDLE_UPLINKS]
        learn(choice.metric, choice.heard, base, np.int64(slots[slot, POLICY_C]), now)
        slots[slot, POLICY_B] = -1
    if row == goal and slots[slot, VIA] >= 0:
        peer = np.int64(choice.tree_leaf[slots[slot, VIA]])
        base = choice.table_base[row] + peer * choice.numbers[LEAF_UPLINKS]
        learn(choice.metric, choice.heard, base, np.int64(slots[slot, POLICY_A]), now)
        slots[slot, VIA] = STRAIGHT


@lean_njit()
def worst_of(choice, edge, link, base, rate_gbps, now):
    """Congestion of an uplink and of the way behind it, whichever is more."""
    numbers = choice.numbers
    here = congestion(choice, link, now // numbers[PERIOD], rate_gbps)
    cell = base + choice.uplink[edge]
    if choice.heard[cell, TO] < 0:
        return here
    return max(here, aged(choice.metric[cell, TO], choice.heard[cell, TO], now, numbers[AGEING]))


@part_njit()
def least_congested(net, slot, row, entry, base, first, several, now):
    """The candidate whose link and way behind it are least congested.

    Among equal ones the one that the flowlet's entry holds, else one that is drawn.
    """
    choice = net.choice
    least = np.int64(2**62)
    ties = np.int64(0)
    turn = np.int64(0)
    cached = np.int64(-1)
    for again in range(2):
        if again:
            if cached >= 0:
                return cached
            turn = draw(net.setting[SEED], np.int64(net.slots[slot, SERIAL]), row, ties)
        for at in range(several):
            edge = np.int64(net.set_edge[first + at])
            link = np.int64(net.edge_link[edge])
            worst = worst_of(choice, edge, link, base, net.rate[link], now)
            if again:
                if worst == least:
                    if turn == 0:
                        return np.int64(at)
                    turn -= 1
                continue
            if worst < least:
                least = worst
                ties = 0
                cached = np.int64(-1)
            if worst == least:
                ties += 1
                if edge == choice.entry_edge[entry]:
                    cached = np.int64(at)
    return np.int64(0)


@part_njit()
def conga(net, slot, row, flow, first, several, now):
    """The uplink of the flowlet; a new flowlet takes the least congested one. Downwards, a hash."""
    slots, choice = net.slots, net.choice
    numbers = choice.numbers
    middle = choice.tree_level[row] > 0
    if choice.uplink[net.set_edge[first]] < 0 or (middle and not numbers[MIDDLE]):
        return ecmp(net, row, flow, several)
    goal = np.int64(net.goal_row[slots[slot, WAY]])
    if middle:
        uplinks, peer = numbers[MIDDLE_UPLINKS], np.int64(choice.tree_pod[goal])
    else:
        uplinks, peer = numbers[LEAF_UPLINKS], np.int64(choice.tree_leaf[goal])
    base = choice.table_base[row] + peer * uplinks
    # An entry's age bit is cleared by packets and set at each tick; one that it finds set ends it.
    entry = entry_of(choice, row, flow)
    last = choice.entry_time[entry]
    taken = np.int64(-1)
    if last >= 0 and now // numbers[GAP] - last // numbers[GAP] <= 1:
        taken = place_of(net.set_edge, first, several, choice.entry_edge[entry])
    if taken < 0:
        taken = least_congested(net, slot, row, entry, base, first, several, now)
    keep(net, entry, first, taken, now)
    word = np.int64(choice.uplink[net.set_edge[first + taken]])
    word |= feedback(choice.metric, choice.heard, base, uplinks, now, numbers[AGEING])
    if middle:
        slots[slot, POLICY_B] = row
        slots[slot, POLICY_C] = word
    else:
        slots[slot, VIA] = row
        slots[slot, POLICY_A] = word
    return taken
