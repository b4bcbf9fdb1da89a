"""InfiniBand's congestion control: marks of switches, notifications, and rates of queue pairs.

`docs/congestion-control.md` has the rules. All of it is skipped when `CONGESTION` is not set.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.choice import draw
from weft.kernels.packet.lanes import duration
from weft.kernels.packet.layout import (
    ASKING,
    BYTES,
    CONGESTION,
    CREDITS,
    DELIVERED,
    DELIVERED_BYTES,
    FULL_CREDITS,
    HEAD_ROW,
    HEADER,
    IN_FLIGHT,
    INJECTED_BYTES,
    LANE,
    LANES,
    LEVEL,
    LINE_HEAD,
    LINK,
    MARKS,
    NEXT,
    OP,
    OUT,
    OUT_LANE,
    ROUTED,
    SEED,
    SEQUENCE,
    SERIAL,
    SERIALS,
    VIA,
    WAY,
)
from weft.kernels.packet.queue import push, take_slot

# What a packet is marked with: congestion on its way (FECN), or that it is a notification (BECN).
FECN = 1
BECN = 2

# `LANE` of slots that are no packets yet, or no more: a notification to be sent, one that has
# arrived, and a queue pair that comes back.
NOTICE_DUE = -2
NOTICE_HERE = -3
PAIR_BACK = -4

#: Instead of a queue pair: the first notification of the lane.
NOTICE = -2
#: Number of notifications in their connection.
NO_SEQUENCE = -1

# Places of `Net.rules`.
THRESHOLD = 0
SMALLEST = 1
MARKING_RATE = 2
VICTIMS = 3
INCREASE = 4
LIMIT = 5
LEAST = 6
TIMER = 7
BY_LEVEL = 8
RULES = 9

# Ports that mark although they lack credits themselves.
HOST_PORTS = 1
ALL_PORTS = 2

# Columns of queue pairs, int64: when the next packet may begin, since when something waits for
# that, how long it has, marked packets that have arrived, notifications that have come back.
NEXT_AT = 0
SINCE = 1
HELD_BACK = 2
MARKED_PACKETS = 3
NOTIFIED = 4
PACE_WIDTH = 5

# Columns of rates, int64: index into the table, when the timer began its period, highest index.
INDEX = 0
BEGAN = 1
HIGHEST = 2
RATE_WIDTH = 3

#: Service levels of a port.
LEVELS = 16


@lean_njit(forceinline=True)
def settle(rules, rate, now):
    """Let the timer lower an index as often as its periods have passed."""
    if rate[INDEX] <= rules[LEAST]:
        return
    periods = (now - rate[BEGAN]) // rules[TIMER]
    if periods > 0:
        rate[INDEX] = max(rate[INDEX] - periods, rules[LEAST])
        rate[BEGAN] += periods * rules[TIMER]


@lean_njit(forceinline=True)
def notified(rules, rate, now):
    """A notification raises the index; the timer begins if it stood still."""
    settle(rules, rate, now)
    if rate[INDEX] <= rules[LEAST]:
        rate[BEGAN] = now
    rate[INDEX] = min(rate[INDEX] + rules[INCREASE], rules[LIMIT])
    rate[HIGHEST] = max(rate[HIGHEST], rate[INDEX])


@lean_njit(forceinline=True)
def delay_of(rules, cct, rate, lasts, now):
    """Injection rate delay after a packet of a duration, ps."""
    settle(rules, rate, now)
    index = rate[INDEX]
    return (lasts >> cct[index, 0]) * cct[index, 1]


@part_njit()
def rate_of(net, op):
    """The row of `Net.rates` that an operation's packets obey."""
    if not net.rules[BY_LEVEL]:
        return np.int64(net.pair_of[op])
    route = np.int64(net.route_of[op])
    return np.int64(net.route_link[route]) * LEVELS + net.route_level[route]


@part_njit()
def space(net, pair, op, link, size, now):
    """Work out when a queue pair that sends a packet may send its next.

    Returns
    -------
    bool: whether it has to leave the line until then.
    """
    lasts = duration(net, link, size)
    delay = delay_of(net.rules, net.cct, net.rates[rate_of(net, op)], lasts, now)
    if delay == 0:
        return False
    net.paces[pair, NEXT_AT] = now + lasts + delay
    net.paces[pair, SINCE] = now + lasts
    return True


@part_njit()
def held_back(net, pair, now):
    """Whether a queue pair that gets something to send has to wait for its time."""
    pace = net.paces[pair]
    if pace[NEXT_AT] <= now:
        return False
    pace[SINCE] = max(pace[SINCE], now)
    return True


@part_njit()
def hold_back(net, pair, link):
    """Let a queue pair come back to its line at its time."""
    slot = take_slot(net)
    net.slots[slot, LINK] = link
    net.slots[slot, LANE] = PAIR_BACK
    net.slots[slot, OP] = pair
    push(net, slot, net.paces[pair, NEXT_AT])


@part_njit()
def has_notice(net, link, lane):
    """Whether a notification waits to be sent on a lane of a link."""
    return net.setting[CONGESTION] and net.notices[link * net.setting[LANES] + lane, 0] >= 0


@part_njit()
def mark_packet(net, slot, link, lane):
    """Mark a packet that a link of a switch has taken, if those that it leaves are too many."""
    rules, slots = net.rules, net.slots
    size = np.int64(slots[slot, BYTES])
    if rules[THRESHOLD] < 0 or slots[slot, MARKS] or size < rules[SMALLEST]:
        return
    place = link * net.setting[LANES] + lane
    row = net.lanes[place]
    if row[ROUTED] <= rules[THRESHOLD] or not net.state[link, ASKING]:
        # Where no queue has one of them in front, it is not this link that they wait for.
        return
    if row[CREDITS] < net.setting[FULL_CREDITS]:
        # Full buffers further on are the cause; the port is their victim.
        to_host = net.fixed[link, HEAD_ROW] < 0
        if rules[VICTIMS] != ALL_PORTS and not (rules[VICTIMS] == HOST_PORTS and to_host):
            return
    if rules[MARKING_RATE] > 0:
        number = np.int64(slots[slot, SERIAL])
        if draw(net.setting[SEED], number, link, rules[MARKING_RATE] + 1) != 0:
            return
    slots[slot, MARKS] = FECN
    net.marked[place] += 1


@part_njit()
def notify(net, slot, link, arrival):
    """A marked packet or a notification begins to leave over the last link of its way.

    Returns
    -------
    bool: whether it was a notification, which ends here.
    """
    slots = net.slots
    op = np.int64(slots[slot, OP])
    if slots[slot, MARKS] & BECN:
        net.number[IN_FLIGHT] -= 1
        net.number[DELIVERED] += 1
        net.number[DELIVERED_BYTES] += slots[slot, BYTES]
        here = np.int64(slot)
        kind = NOTICE_HERE
    else:
        net.paces[net.pair_of[op], MARKED_PACKETS] += 1
        here = take_slot(net)
        kind = NOTICE_DUE
    slots[here, LINK] = link
    slots[here, LANE] = kind
    slots[here, OP] = op
    push(net, here, arrival)
    return kind == NOTICE_HERE


@part_njit()
def line_up_notice(net, slot):
    """Make a notification of a message whose marked packet has arrived.

    Returns
    -------
    int: the link that it leaves by.
    """
    slots = net.slots
    back = np.int64(net.back[net.route_of[slots[slot, OP]]])
    link, lane = np.int64(net.route_link[back]), np.int64(net.route_lane[back])
    slots[slot, BYTES] = net.setting[HEADER]
    slots[slot, WAY] = net.route_way[back]
    slots[slot, LEVEL] = net.route_level[back]
    slots[slot, SEQUENCE] = NO_SEQUENCE
    slots[slot, MARKS] = BECN
    slots[slot, VIA] = -1
    slots[slot, OUT] = link
    slots[slot, OUT_LANE] = lane
    slots[slot, NEXT] = -1
    line = net.notices[link * net.setting[LANES] + lane]
    if line[0] < 0:
        line[0] = slot
    else:
        slots[line[1], NEXT] = slot
    line[1] = slot
    net.state[link, ASKING] |= np.int64(1) << lane
    return link


@part_njit()
def send_notice(net, link, lane):
    """Take the first notification of a lane out of its line.

    Returns
    -------
    int: the slot.
    """
    slots, number = net.slots, net.number
    place = link * net.setting[LANES] + lane
    line = net.notices[place]
    slot = np.int64(line[0])
    line[0] = slots[slot, NEXT]
    if line[0] < 0 and net.lanes[place, LINE_HEAD] < 0:
        net.state[link, ASKING] &= ~(np.int64(1) << lane)
    slots[slot, SERIAL] = number[SERIALS]
    number[SERIALS] += 1
    number[IN_FLIGHT] += 1
    number[INJECTED_BYTES] += slots[slot, BYTES]
    return slot
