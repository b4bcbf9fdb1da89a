"""Events of congestion control: notifications to send, notifications received, ends of delays."""

import numpy as np

from weft.kernels.lean import part_njit
from weft.kernels.packet.adapter import line_up
from weft.kernels.packet.calendar import give_slot, mark
from weft.kernels.packet.congestion_control import (
    NOTICE_ARRIVED,
    NOTICE_TO_SEND,
    line_up_notice,
    notified,
    rate_of,
)


@part_njit()
def _line_up_in_order(net, link, lane, pair, now):
    """Append a queue pair to a lane's queue; if delays end together, order them by number."""
    queue, pairs = net.lanes[link * net.rules.lanes + lane], net.adapters.pairs
    paces = net.control.paces
    last = np.int64(queue.last_pair)
    if queue.first_pair < 0 or last < pair or paces[last].next_at_ps != now:
        line_up(net, link, lane, pair)
        return
    before = np.int64(-1)
    after = np.int64(queue.first_pair)
    while paces[after].next_at_ps != now or after < pair:
        before = after
        after = np.int64(pairs[after].next)
    pairs[pair].next = after
    if before < 0:
        queue.first_pair = pair
    else:
        pairs[before].next = pair


@part_njit()
def happens(net, slot, now):
    """Handle an event of congestion control: NOTICE_TO_SEND, NOTICE_ARRIVED or DELAY_ENDS."""
    packet, adapters, paces = net.calendar.packets[slot], net.adapters, net.control.paces
    kind, op = np.int64(packet.lane), np.int64(packet.op)
    if kind == NOTICE_TO_SEND:
        mark(net, line_up_notice(net, slot))
        return
    give_slot(net.calendar, slot)
    if kind == NOTICE_ARRIVED:
        notified(net.control.settings, rate_of(net, op), now)
        paces[adapters.messages[op].pair].notifications += 1
        return
    pair = op
    first = np.int64(adapters.pairs[pair].first)
    if first < 0:
        return
    paces[pair].held_back_ps += now - paces[pair].since_ps
    route = adapters.routes[adapters.messages[first].route]
    link = np.int64(route.link)
    _line_up_in_order(net, link, np.int64(route.lane), pair, now)
    mark(net, link)
