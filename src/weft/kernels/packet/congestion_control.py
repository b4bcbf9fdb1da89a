"""InfiniBand's congestion control: marks of switches, notifications, and rates of queue pairs.

`docs/congestion-control.md` has the rules. `net` is a `weft.kernels.packet.net.Net`; times are
int64 ps. `RULES.has_control` switches congestion control on.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.calendar import push, take_slot
from weft.kernels.packet.choice import draw, next_serial
from weft.kernels.packet.lanes import duration
from weft.kernels.records import record_type

# Marks: of a packet that met congestion on its path (FECN), and of a notification (BECN).
FECN = 1
BECN = 2

# Values of `PACKET.lane` for events of congestion control: a notification to send, a notification
# that has arrived, and the end of the delay of a queue pair (in `PACKET.op`).
NOTICE_TO_SEND = -2
NOTICE_ARRIVED = -3
DELAY_ENDS = -4

#: Value in place of a queue pair's number, for the first notification of a lane.
NOTICE = -2
#: `PACKET.sequence` of notifications.
NO_SEQUENCE = -1

# Ports that mark packets although they lack credits themselves.
HOST_PORTS = 1
ALL_PORTS = 2

#: Number of service levels.
LEVELS = 16

SETTINGS = record_type(
    threshold_credits="i8",  # routed credits above which a lane is congested, -1 for never
    smallest_bytes="i8",  # size on the wire of the smallest packet that is marked
    marking_rate="i8",  # mean number of unmarked packets between two marked packets
    victims="i8",  # ports that mark although they lack credits: 0, HOST_PORTS or ALL_PORTS
    increase="i8",  # added to a `RATE.index` by a notification
    limit="i8",  # highest `RATE.index`
    least="i8",  # lowest `RATE.index`
    timer_ps="i8",  # period after which a `RATE.index` falls by one
    by_level="i8",  # 1: one `RATE` per service level of a port; 0: one per queue pair
)

#: Entry of the table of delays. A packet of duration ``t`` delays the next packet by
#: ``(t >> shift) * multiplier``.
DELAY = record_type(shift="i8", multiplier="i8")

#: Delays of a queue pair.
PACE = record_type(
    next_at_ps="i8",  # earliest departure of the next packet
    since_ps="i8",  # time from which a message has waited for next_at_ps
    held_back_ps="i8",  # sum of these waits
    marked_packets="i8",  # marked packets that have arrived
    notifications="i8",  # notifications that have arrived back
)

RATE = record_type(
    index="i8",  # index into the table of delays
    began_ps="i8",  # start of the timer's present period
    highest="i8",  # largest `index` so far
)

#: Marks and notifications of a lane of a link.
MARKED_LANE = record_type(
    marked_packets="i8",  # packets marked as they departed
    first_notice="i4",  # queue of notifications to send
    last_notice="i4",
)


class Control(NamedTuple):
    """State of congestion control; in runs without congestion control, arrays have one record."""

    #: One `SETTINGS`.
    settings: Any
    #: `DELAY` of each index.
    table: Any
    #: `PACE` of each queue pair, `RATE` of each queue pair or of each service level of each link,
    #: and `MARKED_LANE` of each lane of each link.
    paces: Any
    rates: Any
    lanes: Any


@lean_njit(forceinline=True)
def settle(settings, rate, now):
    """Lower the index of a `RATE` by the number of timer periods that have passed."""
    if rate.index <= settings.least:
        return
    periods = (now - rate.began_ps) // settings.timer_ps
    if periods > 0:
        rate.index = max(rate.index - periods, settings.least)
        rate.began_ps += periods * settings.timer_ps


@lean_njit(forceinline=True)
def notified(settings, rate, now):
    """Raise the index of a `RATE` after a notification, and start the timer if it had stopped.

    `settings`, `rate`: one `SETTINGS`, and the `RATE` to change. `now`, int64, ps.
    """
    settle(settings, rate, now)
    if rate.index <= settings.least:
        rate.began_ps = now
    rate.index = min(rate.index + settings.increase, settings.limit)
    rate.highest = max(rate.highest, rate.index)


@lean_njit(forceinline=True)
def delay_of(settings, table, rate, lasts, now):
    """Return the injection rate delay after a packet.

    `settings`, `table`, `rate`: one `SETTINGS`, `DELAY` of each index, and a `RATE`, whose index
    the timer may lower. `lasts`, `now`: int64, ps: duration of the packet, and present time.
    Returns int64, ps.
    """
    settle(settings, rate, now)
    entry = table[rate.index]
    return (lasts >> entry.shift) * entry.multiplier


@part_njit()
def rate_of(net, op):
    """Return the `RATE` that limits an operation's packets."""
    message = net.adapters.messages[op]
    index = np.int64(message.pair)
    if net.control.settings.by_level:
        route = net.adapters.routes[message.route]
        index = np.int64(route.link) * LEVELS + route.level
    return net.control.rates[index]


@part_njit()
def space(net, pair, op, link, size, now):
    """Set when a queue pair that sends a packet of `size` bytes may send the next packet.

    Returns whether the queue pair must leave the queue of its lane until that time.
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
def is_delayed(net, pair, now):
    """Return whether a queue pair with a new message is still delayed."""
    pace = net.control.paces[pair]
    if pace.next_at_ps <= now:
        return False
    pace.since_ps = max(pace.since_ps, now)
    return True


@part_njit()
def delay_pair(net, pair, link):
    """Schedule the return of a queue pair to the queue of its lane when its delay ends."""
    slot = take_slot(net.calendar)
    event = net.calendar.packets[slot]
    event.lane = DELAY_ENDS
    event.op = pair
    push(net.calendar, slot, link, net.control.paces[pair].next_at_ps)


@part_njit()
def has_notice(net, index):
    """Return whether a notification waits on a lane, index ``link * lanes + lane``."""
    return net.rules.has_control and net.control.lanes[index].first_notice >= 0


@part_njit()
def mark_packet(net, slot, link, lane):
    """Mark a packet that a link of a switch has granted, if too many others wait for this link."""
    rules, settings, packet = net.rules, net.control.settings, net.calendar.packets[slot]
    threshold = settings.threshold_credits
    if threshold < 0 or packet.marks or packet.wire_bytes < settings.smallest_bytes:
        return
    index = link * rules.lanes + lane
    taken, by = net.lanes[index], net.topology.links[link]
    if taken.routed_credits <= threshold or not by.asking:
        # Without a request, no packet for this link is the first of its queue: all packets for
        # this link wait behind packets for other links.
        return
    if taken.credits < rules.full_packet_credits:
        # The cause is a full buffer at the far end; this port is a victim.
        to_host = by.head_row < 0
        if settings.victims != ALL_PORTS and not (settings.victims == HOST_PORTS and to_host):
            return
    if draw(rules.seed, np.int64(packet.serial), link, settings.marking_rate + 1) != 0:
        return
    packet.marks = FECN
    net.control.lanes[index].marked_packets += 1


@part_njit()
def notify(net, slot, link, arrival):
    """Handle a marked packet or a notification that begins to leave over its last link.

    Returns whether the packet was a notification, which ends at the adapter.
    """
    packet, count = net.calendar.packets[slot], net.count
    op = np.int64(packet.op)
    if packet.marks & BECN:
        count.in_flight -= 1
        count.delivered += 1
        count.delivered_bytes += packet.wire_bytes
        here = np.int64(slot)
        kind = NOTICE_ARRIVED
    else:
        net.control.paces[net.adapters.messages[op].pair].marked_packets += 1
        here = take_slot(net.calendar)
        kind = NOTICE_TO_SEND
    event = net.calendar.packets[here]
    event.time_ps = arrival
    event.lane = kind
    event.op = op
    push(net.calendar, here, link, arrival)
    return kind == NOTICE_ARRIVED


@part_njit()
def line_up_notice(net, slot):
    """Queue the notification for a message whose marked packet has arrived.

    Returns the link that the notification leaves by.
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
    queue = net.control.lanes[link * net.rules.lanes + lane]
    if queue.first_notice < 0:
        queue.first_notice = slot
    else:
        net.calendar.packets[queue.last_notice].next = slot
    queue.last_notice = slot
    net.topology.links[link].asking |= np.int64(1) << lane
    return link


@part_njit()
def send_notice(net, link, lane):
    """Inject the first notification of a lane.

    Returns the slot of its packet.
    """
    count = net.count
    index = link * net.rules.lanes + lane
    queue = net.control.lanes[index]
    slot = np.int64(queue.first_notice)
    packet = net.calendar.packets[slot]
    queue.first_notice = packet.next
    if queue.first_notice < 0 and net.lanes[index].first_pair < 0:
        net.topology.links[link].asking &= ~(np.int64(1) << lane)
    packet.serial = next_serial(net, link)
    count.injected += 1
    count.in_flight += 1
    count.injected_bytes += packet.wire_bytes
    return slot
