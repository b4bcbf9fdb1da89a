"""What congestion control waits for: notifications to send or hear, queue pairs that come back."""

import numpy as np

from weft.kernels.lean import inner_njit
from weft.kernels.packet.adapter import FIRST, NEXT_IN_LINE, line_up
from weft.kernels.packet.congestion_control import (
    HELD_BACK,
    NEXT_AT,
    NOTICE_DUE,
    NOTICE_HERE,
    NOTIFIED,
    SINCE,
    line_up_notice,
    notified,
    rate_of,
)
from weft.kernels.packet.layout import LANE, LANES, LINE_HEAD, LINE_TAIL, OP
from weft.kernels.packet.queue import give_slot, mark


@inner_njit()
def _line_up_in_order(net, link, lane, pair, now):
    """Join the end of a line, in order of numbers among those that come back now."""
    row, pairs = net.lanes[link * net.setting[LANES] + lane], net.pairs
    last = np.int64(row[LINE_TAIL])
    if row[LINE_HEAD] < 0 or last < pair or net.paces[last, NEXT_AT] != now:
        line_up(net, link, lane, pair)
        return
    before = np.int64(-1)
    after = np.int64(row[LINE_HEAD])
    while net.paces[after, NEXT_AT] != now or after < pair:
        before = after
        after = np.int64(pairs[after, NEXT_IN_LINE])
    pairs[pair, NEXT_IN_LINE] = after
    if before < 0:
        row[LINE_HEAD] = pair
    else:
        pairs[before, NEXT_IN_LINE] = pair


@inner_njit()
def happens(net, slot, now):
    """Something that congestion control waited for is there."""
    kind, op = net.slots[slot, LANE], np.int64(net.slots[slot, OP])
    if kind == NOTICE_DUE:
        mark(net, line_up_notice(net, slot))
        return
    give_slot(net, slot)
    if kind == NOTICE_HERE:
        notified(net.rules, net.rates[rate_of(net, op)], now)
        net.paces[net.pair_of[op], NOTIFIED] += 1
        return
    pair = op
    first = np.int64(net.pairs[pair, FIRST])
    if first < 0:
        return
    net.paces[pair, HELD_BACK] += now - net.paces[pair, SINCE]
    route = np.int64(net.route_of[first])
    link, lane = np.int64(net.route_link[route]), np.int64(net.route_lane[route])
    _line_up_in_order(net, link, lane, pair, now)
    mark(net, link)
