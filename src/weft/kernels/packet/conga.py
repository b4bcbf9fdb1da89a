"""CONGA: flowlets by the least congested uplink, as estimators near and feedback from far say.

A packet between two leaves is in a tunnel: its header names the leaf that it comes from, the uplink
that it took there (tag), the largest congestion of the links behind that one (CE), and one metric
of the other direction (feedback tag and metric). In trees of three levels the middle switches keep
such a tunnel of their own between them, inside the leaves'. `PACKET.via` and `policy_a` are the
leaves' tunnel, `policy_b` and `policy_c` that of the middle: the row that it comes from, -1 for
none, and a word of four bytes: tag, CE, feedback tag, feedback metric.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.choice import STRAIGHT, UNDECIDED, draw
from weft.kernels.packet.hashed_choice import ecmp, entry_of, keep, place_of
from weft.kernels.packet.lanes import kind_of

#: No feedback in a packet.
NO_TAG = 255

#: Below this an estimate is nothing, bytes.
NOTHING = 1.0


@lean_njit(forceinline=True)
def decayed(rules, estimate, until):
    """The bytes of an `ESTIMATE` after all ticks up to one; `rules` is a `CONGA_RULES`."""
    amount = estimate.amount_bytes
    left = rules.left
    for _ in range(until - estimate.tick):
        if amount < NOTHING:
            amount = 0.0
            break
        amount *= left
    estimate.amount_bytes = amount
    estimate.tick = until
    return amount


@lean_njit()
def congestion(rules, estimate, until, rate_gbps):
    """A link's metric: its estimate over that of a full link, in so many levels."""
    amount = decayed(rules, estimate, until)
    return min(np.int64(amount * rules.scale / rate_gbps), rules.levels - 1)


@lean_njit()
def aged(metric, heard, now, ageing):
    """A metric, halved for each time that has passed without news."""
    return np.int64(metric) >> min((now - heard) // ageing, np.int64(7))


@lean_njit()
def feedback(cells, base, uplinks, now, ageing):
    """Which metric a packet carries back: the next in turn, of those that have changed if any has.

    Parameters
    ----------
    cells, base, uplinks
        `CELL`, and place and number of those of the peer.
    now, ageing
        ps.

    Returns
    -------
    int: tag and metric, in the two upper bytes of a word.
    """
    last = np.int64(cells[base].last_fed)
    known = np.int64(NO_TAG)
    for step in range(1, uplinks + 1):
        tag = last + step
        while tag >= uplinks:
            tag -= uplinks
        if cells[base + tag].heard_from_ps < 0:
            continue
        if cells[base + tag].has_news:
            known = tag
            break
        if known == NO_TAG:
            known = tag
    if known == NO_TAG:
        return np.int64(NO_TAG) << 16
    cell = cells[base + known]
    cells[base].last_fed = known
    cell.has_news = 0
    return known << 16 | aged(cell.metric_from, cell.heard_from_ps, now, ageing) << 24


@lean_njit()
def learn(cells, base, word, now):
    """Take what a packet says at the end of its tunnel into the cells for the peer."""
    tag, seen = word & 0xFF, word >> 8 & 0xFF
    cell = cells[base + tag]
    if cell.heard_from_ps < 0 or cell.metric_from != seen:
        cell.has_news = 1
    cell.metric_from = seen
    cell.heard_from_ps = now
    told = word >> 16 & 0xFF
    if told != NO_TAG:
        cells[base + told].metric_to = word >> 24 & 0xFF
        cells[base + told].heard_to_ps = now


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
    over = net.topology.links[link]
    row = np.int64(over.tail_row)
    if row < 0 or over.head_row < 0:
        return
    packet, rules = net.calendar.packets[slot], net.choice.conga.rules
    estimate = net.choice.conga.estimates[link]
    until = now // rules.tick_ps
    estimate.amount_bytes = size + decayed(rules, estimate, until)
    level = congestion(rules, estimate, until, kind_of(net, link).rate_gbps)
    if packet.via != row:
        packet.policy_a = marked(np.int64(packet.policy_a), level)
    if packet.policy_b >= 0 and packet.policy_b != row:
        packet.policy_c = marked(np.int64(packet.policy_c), level)


@part_njit()
def conga_comes(net, slot, row, goal, now):
    """A packet comes to a switch: its tunnels may end here."""
    packet, conga = net.calendar.packets[slot], net.choice.conga
    if packet.via == UNDECIDED:
        packet.policy_b = -1
        return
    here = conga.rows[row]
    if packet.policy_b >= 0 and here.level == 1:
        peer = np.int64(conga.rows[packet.policy_b].pod)
        base = here.first_cell + peer * conga.rules.middle_uplinks
        learn(conga.cells, base, np.int64(packet.policy_c), now)
        packet.policy_b = -1
    if row == goal and packet.via >= 0:
        peer = np.int64(conga.rows[packet.via].leaf)
        base = here.first_cell + peer * conga.rules.leaf_uplinks
        learn(conga.cells, base, np.int64(packet.policy_a), now)
        packet.via = STRAIGHT


@part_njit()
def worst_of(net, candidate, base, now):
    """Congestion of an uplink and of the way behind it, whichever is more."""
    conga = net.choice.conga
    rules, link = conga.rules, np.int64(candidate.link)
    rate_gbps = kind_of(net, link).rate_gbps
    here = congestion(rules, conga.estimates[link], now // rules.tick_ps, rate_gbps)
    cell = conga.cells[base + conga.uplink[candidate.edge]]
    if cell.heard_to_ps < 0:
        return here
    return max(here, aged(cell.metric_to, cell.heard_to_ps, now, rules.ageing_ps))


@part_njit()
def least_congested(net, slot, row, entry, base, first, several, now):
    """The candidate whose link and way behind it are least congested.

    Among equal ones the one that the flowlet's entry holds, else one that is drawn.
    """
    least = np.int64(2**62)
    ties = np.int64(0)
    turn = np.int64(0)
    cached = np.int64(-1)
    for again in range(2):
        if again:
            if cached >= 0:
                return cached
            turn = draw(net.rules.seed, np.int64(net.calendar.packets[slot].serial), row, ties)
        for at in range(several):
            candidate = net.tables.candidates[first + at]
            worst = worst_of(net, candidate, base, now)
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
                if candidate.edge == entry.edge:
                    cached = np.int64(at)
    return np.int64(0)


@part_njit()
def conga(net, slot, row, flow, first, several, now):
    """The uplink of the flowlet; a new flowlet takes the least congested one. Downwards, a hash."""
    packet, candidates, kept = net.calendar.packets[slot], net.tables.candidates, net.choice.conga
    here, rules = kept.rows[row], kept.rules
    middle = here.level > 0
    if kept.uplink[candidates[first].edge] < 0 or (middle and not rules.middle_decides):
        return ecmp(net, row, flow, several)
    goal = kept.rows[net.tables.endpoints[packet.address].row]
    if middle:
        uplinks, peer = rules.middle_uplinks, np.int64(goal.pod)
    else:
        uplinks, peer = rules.leaf_uplinks, np.int64(goal.leaf)
    base = here.first_cell + peer * uplinks
    # An entry's age bit is cleared by packets and set at each tick; one that it finds set ends it.
    entry, gap = entry_of(net.choice, row, flow), net.choice.rules.gap_ps
    taken = np.int64(-1)
    if entry.time_ps >= 0 and now // gap - entry.time_ps // gap <= 1:
        taken = place_of(candidates, first, several, entry.edge)
    if taken < 0:
        taken = least_congested(net, slot, row, entry, base, first, several, now)
    keep(net, entry, first, taken, now)
    word = np.int64(kept.uplink[candidates[first + taken].edge])
    word |= feedback(kept.cells, base, uplinks, now, rules.ageing_ps)
    if middle:
        packet.policy_b = row
        packet.policy_c = word
    else:
        packet.via = row
        packet.policy_a = word
    return taken
