"""Adapters: queue pairs send messages packet by packet, and messages arrive in their order."""

import numpy as np

from weft.kernels.lean import part_njit
from weft.kernels.packet.congestion_control import (
    NEXT_AT,
    NOTICE,
    has_notice,
    held_back,
    hold_back,
    notify,
    space,
)
from weft.kernels.packet.lanes import (
    choose_lane,
    credit_time,
    credits_now,
    credits_of,
    duration,
    rounded,
    send_back,
    span,
)
from weft.kernels.packet.layout import (
    ASKING,
    BYTES,
    CONGESTION,
    CONTROL,
    CREDIT_LATENCY,
    DELIVERED,
    DELIVERED_BYTES,
    HEADER,
    IN_FLIGHT,
    INJECTED_BYTES,
    LANES,
    LATENCY,
    LEVEL,
    LINE_HEAD,
    LINE_TAIL,
    MARKS,
    MEMORY_FREE,
    MTU,
    NEVER,
    NEXT,
    OP,
    OUT,
    OUT_LANE,
    REORDERS,
    SEQUENCE,
    SERIAL,
    SERIALS,
    SHORT,
    TURN_BYTES,
    VIA,
    WAY,
)
from weft.kernels.packet.queue import give_slot, mark, take_slot
from weft.kernels.program.events import ARRIVE, END, event, push_event
from weft.kernels.program.operations import DATA, NOTHING, PUT

# Columns of queue pairs, int32: the message being sent, the last one, the next in line.
FIRST = 0
LAST = 1
NEXT_IN_LINE = 2
#: Wire bytes that it has sent in its turn.
TAKEN = 3
PAIR_WIDTH = 4

# Columns of connections, int32: oldest message that has not arrived, the last one, packets sent,
# and packets that have arrived without a gap.
OLDEST = 0
NEWEST = 1
SENT = 2
WHOLE = 3
CONNECTION_WIDTH = 4

# Columns of connections whose packets may overtake each other, int64. In ps: when the packets that
# have arrived without a gap were all there, how long packets were kept, added up, and the longest.
# Then the first of the packets that are kept, their bytes, the most bytes kept at a time, and how
# many packets were kept.
WHOLE_AT = 0
KEPT = 1
LONGEST_KEPT = 2
HELD = 3
HELD_BYTES = 4
MOST_HELD = 5
OVERTOOK = 6
KEPT_WIDTH = 8

# Columns of operations, int64: bytes to send, packets to arrive, latest arrival, and when the next
# packet could leave with nothing in its way.
LEFT = 0
MISSING = 1
LATEST = 2
READY = 3
MESSAGE_WIDTH = 4


@part_njit()
def join(net, size, op, now):
    """A message, request or answer joins its queue pair."""
    pairs, connections, messages, next_sent, next_whole, sends = (
        net.pairs,
        net.connections,
        net.messages,
        net.next_sent,
        net.next_whole,
        net.sends,
    )
    pair_of, connection_of, route_of, route_link, route_lane = (
        net.pair_of,
        net.connection_of,
        net.route_of,
        net.route_link,
        net.route_lane,
    )
    if sends[op] == NOTHING:
        sends[op] = DATA
    left = size[op] if sends[op] == DATA else net.setting[CONTROL]
    messages[op, LEFT] = left
    messages[op, MISSING] = max((left + net.setting[MTU] - 1) // net.setting[MTU], 1)
    messages[op, LATEST] = now
    messages[op, READY] = now
    next_sent[op] = -1
    next_whole[op] = -1
    connection = np.int64(connection_of[op])
    if connections[connection, OLDEST] < 0:
        connections[connection, OLDEST] = op
    else:
        next_whole[connections[connection, NEWEST]] = op
    connections[connection, NEWEST] = op
    pair = np.int64(pair_of[op])
    if pairs[pair, FIRST] >= 0:
        next_sent[pairs[pair, LAST]] = op
        pairs[pair, LAST] = op
        return
    pairs[pair, FIRST] = op
    pairs[pair, LAST] = op
    if net.setting[CONGESTION] and held_back(net, pair, now):
        return
    route = np.int64(route_of[op])
    link, lane = np.int64(route_link[route]), np.int64(route_lane[route])
    line_up(net, link, lane, pair)
    mark(net, link)


@part_njit()
def line_up(net, link, lane, pair):
    """A queue pair goes to the end of the line of a lane."""
    row = net.lanes[link * net.setting[LANES] + lane]
    net.pairs[pair, NEXT_IN_LINE] = -1
    if row[LINE_HEAD] < 0:
        row[LINE_HEAD] = pair
        net.state[link, ASKING] |= np.int64(1) << lane
    else:
        net.pairs[row[LINE_TAIL], NEXT_IN_LINE] = pair
    row[LINE_TAIL] = pair


@part_njit()
def choose_pair(net, link, now):
    """Which lane an adapter's link serves at a time that it is free.

    Returns
    -------
    int: the queue pair, NOTICE or -1, with the lane in `pick[0]`; without one, when there may be
    one stands in `pick[1]`.
    """
    pairs, messages = net.pairs, net.messages
    count = net.setting[LANES]
    soon = np.int64(NEVER)
    candidates = np.int64(0)
    for lane in range(count):
        if not net.state[link, ASKING] >> lane & 1:
            continue
        row = net.lanes[link * count + lane]
        left = np.int64(0)
        if not has_notice(net, link, lane):
            left = messages[pairs[row[LINE_HEAD], FIRST], LEFT]
        needed = credits_of(net, min(left, net.setting[MTU]) + net.setting[HEADER])
        if credits_now(net, row, now) >= needed:
            candidates |= np.int64(1) << lane
            continue
        back = credit_time(net, row, needed)
        if back == NEVER:
            row[SHORT] = 1
        soon = min(soon, back)
    net.pick[1] = soon
    if not candidates:
        return np.int64(-1)
    picked = choose_lane(net, link, candidates)
    if picked < 0:
        return np.int64(-1)
    net.pick[0] = picked
    if has_notice(net, link, picked >> 1):
        return np.int64(NOTICE)
    return np.int64(net.lanes[link * count + (picked >> 1), LINE_HEAD])


@part_njit()
def can_send(net, pair):
    """When the next packet of a queue pair could leave if there were no others."""
    ready = net.messages[net.pairs[pair, FIRST], READY]
    if net.setting[CONGESTION]:
        return max(ready, net.paces[pair, NEXT_AT])
    return ready


@part_njit()
def inject(net, ranks, pair, link, lane, now):
    """Make the next packet of a queue pair, which then goes on or to the end of its line.

    Returns
    -------
    int: the slot.
    """
    slots = net.slots
    pairs, connections, messages, next_sent, _, sends = (
        net.pairs,
        net.connections,
        net.messages,
        net.next_sent,
        net.next_whole,
        net.sends,
    )
    connection_of, route_of, route_link, route_lane, route_way, route_level = (
        net.connection_of,
        net.route_of,
        net.route_link,
        net.route_lane,
        net.route_way,
        net.route_level,
    )
    op = np.int64(pairs[pair, FIRST])
    route = np.int64(route_of[op])
    payload = min(messages[op, LEFT], net.setting[MTU])
    connection = np.int64(connection_of[op])
    slot = take_slot(net)
    slots[slot, BYTES] = payload + net.setting[HEADER]
    slots[slot, OP] = op
    slots[slot, WAY] = route_way[route]
    slots[slot, SEQUENCE] = connections[connection, SENT]
    slots[slot, SERIAL] = net.number[SERIALS]
    slots[slot, LEVEL] = route_level[route]
    slots[slot, MARKS] = 0
    slots[slot, VIA] = -1
    slots[slot, OUT] = link
    slots[slot, OUT_LANE] = lane
    connections[connection, SENT] += 1
    net.number[SERIALS] += 1
    net.number[IN_FLIGHT] += 1
    net.number[INJECTED_BYTES] += payload + net.setting[HEADER]
    if sends[op] == DATA and ranks.left[op] < 0:
        ranks.left[op] = now
    messages[op, LEFT] -= payload
    # Out of the line, and if there is more to its front or, when the turn is over, its end.
    row = net.lanes[link * net.setting[LANES] + lane]
    row[LINE_HEAD] = pairs[pair, NEXT_IN_LINE]
    if row[LINE_HEAD] < 0:
        net.state[link, ASKING] &= ~(np.int64(1) << lane)
    if messages[op, LEFT] == 0:
        until = now + duration(net, link, payload + net.setting[HEADER])
        if sends[op] == DATA:
            _has_left(net, ranks, op, until)
        pairs[pair, FIRST] = next_sent[op]
    taken = pairs[pair, TAKEN] + payload + net.setting[HEADER]
    pairs[pair, TAKEN] = 0
    if net.setting[CONGESTION] and space(net, pair, op, link, payload + net.setting[HEADER], now):
        hold_back(net, pair, link)
    elif pairs[pair, FIRST] >= 0:
        following = np.int64(route_of[pairs[pair, FIRST]])
        on_link, on_lane = np.int64(route_link[following]), np.int64(route_lane[following])
        if taken < net.setting[TURN_BYTES] and on_link == link and on_lane == lane:
            pairs[pair, TAKEN] = taken
            _keep_turn(net, link, lane, pair)
        else:
            line_up(net, on_link, on_lane, pair)
            if on_link != link:
                mark(net, on_link)
    return slot


@part_njit()
def _keep_turn(net, link, lane, pair):
    """A queue pair stays the first in the line of a lane."""
    row = net.lanes[link * net.setting[LANES] + lane]
    net.pairs[pair, NEXT_IN_LINE] = row[LINE_HEAD]
    if row[LINE_HEAD] < 0:
        row[LINE_TAIL] = pair
        net.state[link, ASKING] |= np.int64(1) << lane
    row[LINE_HEAD] = pair


@part_njit()
def _has_left(net, ranks, op, until):
    """The last byte of a message leaves at a time; that may end its operation."""
    program = ranks.program
    if program.kind[op] != PUT and program.size_bytes[op] <= ranks.rules.eager_bytes:
        return
    if program.successor_offset[op + 1] == program.successor_offset[op]:
        # Nobody waits for it.
        ranks.ended[op] = until
        ranks.count.ended += 1
    else:
        push_event(ranks.heap, until, event(END, op))


@part_njit()
def deliver(net, ranks, slot, link, lane, now):
    """A packet begins to leave over the last link of its way."""
    slots = net.slots
    connections, messages = net.connections, net.messages
    connection_of = net.connection_of
    size, op = np.int64(slots[slot, BYTES]), np.int64(slots[slot, OP])
    takes = duration(net, link, size)
    arrival = now + span(net, link, LATENCY) + takes
    memory_gbps = net.memory[link]
    if memory_gbps > 0:
        writing = rounded(size, memory_gbps)
        begin = arrival - takes + max(takes - writing, 0)
        arrival = max(begin, net.state[link, MEMORY_FREE]) + writing
        net.state[link, MEMORY_FREE] = arrival
    needed = credits_of(net, size)
    if net.setting[CONGESTION] and slots[slot, MARKS] and notify(net, slot, link, arrival):
        send_back(net, link, lane, needed, arrival + span(net, link, CREDIT_LATENCY), now)
        return
    net.number[IN_FLIGHT] -= 1
    net.number[DELIVERED] += 1
    net.number[DELIVERED_BYTES] += size
    connection = np.int64(connection_of[op])
    keep = False
    if net.setting[REORDERS]:
        keep = _overtakes(net, connection, slot, arrival)
    if not keep:
        give_slot(net, slot)
    send_back(net, link, lane, needed, arrival + span(net, link, CREDIT_LATENCY), now)
    messages[op, MISSING] -= 1
    messages[op, LATEST] = max(messages[op, LATEST], arrival)
    if messages[op, MISSING] == 0 and connections[connection, OLDEST] == op:
        _whole(net, ranks, connection)


@part_njit()
def _overtakes(net, connection, slot, arrival):
    """Whether a packet came before one sent earlier, and has to be kept until that is there."""
    slots, kept = net.slots, net.kept[connection]
    row = net.connections[connection]
    if slots[slot, SEQUENCE] != row[WHOLE]:
        kept[OVERTOOK] += 1
        kept[HELD_BYTES] += slots[slot, BYTES]
        kept[MOST_HELD] = max(kept[MOST_HELD], kept[HELD_BYTES])
        before = np.int64(-1)
        after = np.int64(kept[HELD])
        while after >= 0 and slots[after, SEQUENCE] < slots[slot, SEQUENCE]:
            before = after
            after = np.int64(slots[after, NEXT])
        slots[slot, NEXT] = after
        if before < 0:
            kept[HELD] = slot
        else:
            slots[before, NEXT] = slot
        net.slot_time[slot] = arrival
        return True
    kept[WHOLE_AT] = max(kept[WHOLE_AT], arrival)
    row[WHOLE] += 1
    held = np.int64(kept[HELD])
    while held >= 0 and slots[held, SEQUENCE] == row[WHOLE]:
        row[WHOLE] += 1
        kept[HELD_BYTES] -= slots[held, BYTES]
        came = net.slot_time[held]
        kept[WHOLE_AT] = max(kept[WHOLE_AT], came)
        kept[KEPT] += kept[WHOLE_AT] - came
        kept[LONGEST_KEPT] = max(kept[LONGEST_KEPT], kept[WHOLE_AT] - came)
        after = np.int64(slots[held, NEXT])
        give_slot(net, held)
        held = after
    kept[HELD] = held
    return False


@part_njit()
def _whole(net, ranks, connection):
    """The oldest message of a connection is complete, and perhaps some that follow it."""
    connections, messages, next_whole, sends = (
        net.connections,
        net.messages,
        net.next_whole,
        net.sends,
    )
    kind = ranks.program.kind
    op = np.int64(connections[connection, OLDEST])
    while messages[op, MISSING] == 0:
        time = messages[op, LATEST] + ranks.rules.adapter_latency
        if sends[op] == DATA and kind[op] == PUT:
            # Nobody waits for it.
            ranks.arrived[op] = time
            ranks.count.arrived += 1
        else:
            push_event(ranks.heap, time, event(ARRIVE, op))
        after = np.int64(next_whole[op])
        connections[connection, OLDEST] = after
        if after < 0:
            return
        messages[after, LATEST] = max(messages[after, LATEST], messages[op, LATEST])
        op = after
