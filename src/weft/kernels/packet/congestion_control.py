"""InfiniBand's congestion control: marks of switches, notifications, and rates of queue pairs.

`docs/congestion-control.md` has the rules. All of it is skipped when `RULES.has_control` is not
set.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.calendar import push, take_slot
from weft.kernels.packet.choice import draw
from weft.kernels.packet.lanes import duration
from weft.kernels.records import record_type

# What a packet is marked with: congestion on its way (FECN), or that it is a notification (BECN).
FECN = 1
BECN = 2

# `PACKET.lane` of slots that are no packets yet, or no more: a notification to be sent, one that
# has arrived, and a queue pair, in `PACKET.op`, that comes back.
NOTICE_DUE = -2
NOTICE_HERE = -3
PAIR_BACK = -4

#: Instead of a queue pair: the first notification of the lane.
NOTICE = -2
#: Number of notifications in their connection.
NO_SEQUENCE = -1

# Ports that mark although they lack credits themselves.
HOST_PORTS = 1
ALL_PORTS = 2

#: Service levels of a port.
LEVELS = 16

SETTINGS = record_type(
    threshold_credits="i8",  # above which a lane is congested, -1 for never
    smallest_bytes="i8",  # of packets that are marked
    marking_rate="i8",  # packets that pass between two marked ones, in the mean
    victims="i8",  # which ports mark although they lack credits
    increase="i8",  # of an index by a notification
    limit="i8",  # highest index
    least="i8",  # lowest index
    timer_ps="i8",  # after which an index falls by one
    by_level="i8",  # an index for each service level of a port, instead of each queue pair
)

#: Entry of the table: a packet that takes ``t`` delays the next by ``(t >> shift) * multiplier``.
DELAY = record_type(shift="i8", multiplier="i8")

#: Of queue pairs.
PACE = record_type(
    next_at_ps="i8",  # when the next packet may begin
    since_ps="i8",  # since when something waits for that
    held_back_ps="i8",  # how long something has
    marked_packets="i8",  # that have arrived
    notifications="i8",  # that have come back
)

RATE = record_type(
    index="i8",  # into the table
    began_ps="i8",  # when the timer began its period
    highest="i8",  # index so far
)

#: Of lanes of links.
MARKED_LANE = record_type(
    marked_packets="i8",  # as they left
    first_notice="i4",  # line of notifications to be sent
    last_notice="i4",
)


class Control(NamedTuple):
    """Congestion control; arrays of one record where there is none.

    Parameters
    ----------
    settings
        One `SETTINGS`.
    table
        `DELAY` by index.
    paces, rates, lanes
        `PACE` of each queue pair, `RATE` of each of them or of 16 service levels of each link, and
        `MARKED_LANE` of each lane of each link.
    """

    settings: Any
    table: Any
    paces: Any
    rates: Any
    lanes: Any


@lean_njit(forceinline=True)
def settle(settings, rate, now):
    """Let the timer lower the index of a `RATE` as often as its periods have passed."""
    if rate.index <= settings.least:
        return
    periods = (now - rate.began_ps) // settings.timer_ps
    if periods > 0:
        rate.index = max(rate.index - periods, settings.least)
        rate.began_ps += periods * settings.timer_ps


@lean_njit(forceinline=True)
def notified(settings, rate, now):
    """A notification raises the index; the timer begins if it stood still."""
    settle(settings, rate, now)
    if rate.index <= settings.least:
        rate.began_ps = now
    rate.index = min(rate.index + settings.increase, settings.limit)
    rate.highest = max(rate.highest, rate.index)


@lean_njit(forceinline=True)
def delay_of(settings, table, rate, lasts, now):
    """Injection rate delay after a packet of a duration, ps."""
    settle(settings, rate, now)
    entry = table[rate.index]
    return (lasts >> entry.shift) * entry.multiplier


@part_njit()
def rate_of(net, op):
    """The `RATE` that an operation's packets obey."""
    message = net.adapters.messages[op]
    place = np.int64(message.pair)
    if net.control.settings.by_level:
        route = net.adapters.routes[message.route]
        place = np.int64(route.link) * LEVELS + route.level
    return net.control.rates[place]


@part_njit()
def space(net, pair, op, link, size, now):
    """Work out when a queue pair that sends a packet may send its next.

    Returns
    -------
    bool: whether it has to leave the line until then.
    """
    control = net.control
    lasts = duration(net, link, size)
    delay = delay_of(control.settings, control.table, rate_of(net, op), lasts, now)
    if delay == 0:
        return False
    control.paces[pair].next_at_ps = now + lasts + delay
    control.paces[pair].since_ps = now + lasts
    return True


@part_njit()
def held_back(net, pair, now):
    """Whether a queue pair that gets something to send has to wait for its time."""
    pace = net.control.paces[pair]
    if pace.next_at_ps <= now:
        return False
    pace.since_ps = max(pace.since_ps, now)
    return True


@part_njit()
def hold_back(net, pair, link):
    """Let a queue pair come back to its line at its time."""
    slot = take_slot(net.calendar)
    event = net.calendar.packets[slot]
    event.link = link
    event.lane = PAIR_BACK
    event.op = pair
    push(net.calendar, slot, net.control.paces[pair].next_at_ps)


@part_njit()
def has_notice(net, place):
    """Whether a notification waits to be sent on a lane of a link, ``link * lanes + lane``."""
    return net.rules.has_control and net.control.lanes[place].first_notice >= 0


@part_njit()
def mark_packet(net, slot, link, lane):
    """Mark a packet that a link of a switch has taken, if those that it leaves are too many."""
    rules, settings, packet = net.rules, net.control.settings, net.calendar.packets[slot]
    threshold = settings.threshold_credits
    if threshold < 0 or packet.marks or packet.wire_bytes < settings.smallest_bytes:
        return
    place = link * rules.lanes + lane
    taken, by = net.lanes[place], net.topology.links[link]
    if taken.routed_credits <= threshold or not by.asking:
        # Where no queue has one of them in front, it is not this link that they wait for.
        return
    if taken.credits < rules.whole_credits:
        # Full buffers further on are the cause; the port is their victim.
        to_host = by.head_row < 0
        if settings.victims != ALL_PORTS and not (settings.victims == HOST_PORTS and to_host):
            return
    if settings.marking_rate > 0:
        serial = np.int64(packet.serial)
        if draw(rules.seed, serial, link, settings.marking_rate + 1) != 0:
            return
    packet.marks = FECN
    net.control.lanes[place].marked_packets += 1


@part_njit()
def notify(net, slot, link, arrival):
    """A marked packet or a notification begins to leave over the last link of its way.

    Returns
    -------
    bool: whether it was a notification, which ends here.
    """
    packet, count = net.calendar.packets[slot], net.count
    op = np.int64(packet.op)
    if packet.marks & BECN:
        count.in_flight -= 1
        count.delivered += 1
        count.delivered_bytes += packet.wire_bytes
        here = np.int64(slot)
        kind = NOTICE_HERE
    else:
        net.control.paces[net.adapters.messages[op].pair].marked_packets += 1
        here = take_slot(net.calendar)
        kind = NOTICE_DUE
    event = net.calendar.packets[here]
    event.link = link
    event.lane = kind
    event.op = op
    push(net.calendar, here, arrival)
    return kind == NOTICE_HERE


@part_njit()
def line_up_notice(net, slot):
    """Make a notification of a message whose marked packet has arrived.

    Returns
    -------
    int: the link that it leaves by.
    """
    packet, routes = net.calendar.packets[slot], net.adapters.routes
    route = routes[routes[net.adapters.messages[packet.op].route].back]
    link, lane = np.int64(route.link), np.int64(route.lane)
    packet.wire_bytes = net.rules.header_bytes
    packet.address = route.address
    packet.level = route.level
    packet.sequence = NO_SEQUENCE
    packet.marks = BECN
    packet.via = -1
    packet.out_link = link
    packet.out_lane = lane
    packet.next = -1
    line = net.control.lanes[link * net.rules.lanes + lane]
    if line.first_notice < 0:
        line.first_notice = slot
    else:
        net.calendar.packets[line.last_notice].next = slot
    line.last_notice = slot
    net.topology.links[link].asking |= np.int64(1) << lane
    return link


@part_njit()
def send_notice(net, link, lane):
    """Take the first notification of a lane out of its line.

    Returns
    -------
    int: the slot.
    """
    count = net.count
    place = link * net.rules.lanes + lane
    line = net.control.lanes[place]
    slot = np.int64(line.first_notice)
    packet = net.calendar.packets[slot]
    line.first_notice = packet.next
    if line.first_notice < 0 and net.lanes[place].first_pair < 0:
        net.topology.links[link].asking &= ~(np.int64(1) << lane)
    packet.serial = count.serials
    count.serials += 1
    count.in_flight += 1
    count.injected_bytes += packet.wire_bytes
    return slot
