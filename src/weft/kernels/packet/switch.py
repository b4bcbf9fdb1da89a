"""Switches: packets queue for their links, and links grant them."""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.lean import part_njit, tiny_njit
from weft.kernels.packet.lanes import (
    choose_lane,
    credit_time,
    credits_now,
    credits_of,
    duration,
    send_back,
    span,
    wake,
)
from weft.kernels.packet.layout import (
    ASKING,
    BYTES,
    CREDIT_LATENCY,
    FREE_AT,
    HEAD_PORT,
    LANE,
    LANES,
    LINK,
    NEVER,
    NEXT,
    OUT,
    OUT_LANE,
    QUEUE,
    QUEUES,
    ROUTED,
    SHORT,
    SPEEDUP,
    TAIL_PORT,
    TAIL_ROW,
    TURN,
    VOQ,
    WORDS,
)
from weft.kernels.packet.queue import mark


@tiny_njit()
def queue_of(net, come, lane, out):
    """The queue of packets that came by a link on a lane and go on by another."""
    if not net.setting[VOQ]:
        return come * net.setting[LANES] + lane
    fixed = net.fixed
    return np.int64(fixed[come, QUEUE]) + lane * fixed[come, QUEUES] + fixed[out, TAIL_PORT]


@part_njit()
def _ask(net, slots, slot):
    """Let the first packet of a queue ask its link."""
    asked = net.asked
    out, lane = np.int64(slots[slot, OUT]), np.int64(slots[slot, LANE])
    port = np.int64(net.fixed[slots[slot, LINK], HEAD_PORT])
    place = (out * net.setting[LANES] + lane) * net.setting[WORDS] + (port >> 6)
    asked[place] |= np.uint64(1) << np.uint64(port & 63)
    net.state[out, ASKING] |= np.int64(1) << lane


@part_njit()
def _asks_no_more(net, out, lane, port):
    asked = net.asked
    base = (out * net.setting[LANES] + lane) * net.setting[WORDS]
    asked[base + (port >> 6)] &= ~(np.uint64(1) << np.uint64(port & 63))
    for word in range(net.setting[WORDS]):
        if asked[base + word]:
            return
    net.state[out, ASKING] &= ~(np.int64(1) << lane)


@part_njit()
def port_free(net, come):
    """When an input port can send another packet."""
    free = net.port_free
    speedup = net.setting[SPEEDUP]
    soonest = free[come * speedup]
    for place in range(1, speedup):
        soonest = min(soonest, free[come * speedup + place])
    return soonest


@part_njit()
def _occupy(net, come, until):
    free = net.port_free
    speedup = net.setting[SPEEDUP]
    first = come * speedup
    for place in range(come * speedup, (come + 1) * speedup):
        if free[place] < free[first]:
            first = place
    free[first] = until


@part_njit()
def _look(net, link, time, now):
    """See to it that a link is looked at when a packet could leave by it at a time."""
    time = max(time, net.state[link, FREE_AT])
    if time <= now:
        mark(net, link)
    else:
        wake(net, link, time)


@part_njit()
def enqueue(net, slot, now):
    """A routed packet joins its queue."""
    slots, slot_time = net.slots, net.slot_time
    head, tail = net.queue_head, net.queue_tail
    come, lane = np.int64(slots[slot, LINK]), np.int64(slots[slot, LANE])
    out, size = np.int64(slots[slot, OUT]), np.int64(slots[slot, BYTES])
    # Into a faster cable, no earlier than every byte is there in time.
    late = duration(net, come, size) - duration(net, out, size)
    slot_time[slot] = now + max(late, 0)
    net.lanes[out * net.setting[LANES] + slots[slot, OUT_LANE], ROUTED] += credits_of(net, size)
    slots[slot, NEXT] = -1
    if len(net.first_at):
        net.first_at[slot] = now
    queue = queue_of(net, come, lane, out)
    if head[queue] >= 0:
        slots[tail[queue], NEXT] = slot
        tail[queue] = slot
        return
    head[queue] = slot
    tail[queue] = slot
    _ask(net, slots, slot)
    _look(net, out, slot_time[slot], now)


@part_njit()
def choose_packet(net, link, now):
    """Which packet a link of a switch takes at a time that it is free.

    Returns
    -------
    int: the slot or -1, with the lane in `pick[0]`; without a packet, when there may be one stands
    in `pick[1]`.
    """
    slots, slot_time = net.slots, net.slot_time
    head, asked = net.queue_head, net.asked
    count, words = net.setting[LANES], net.setting[WORDS]
    row = np.int64(net.fixed[link, TAIL_ROW])
    into, base = net.into, net.row_base
    asking = np.uint64(net.state[link, ASKING])
    soon = np.int64(NEVER)
    candidates = np.int64(0)
    best_turn, best_slot = net.pick[2 : 2 + count], net.pick[2 + count : 2 + 2 * count]
    while asking:
        lane = lowest_bit(asking)
        asking &= asking - np.uint64(1)
        place = (link * count + lane) * words
        for word in range(words):
            bits = asked[place + word]
            while bits:
                port = (word << 6) + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                come = np.int64(into[base[row] + port])
                slot = np.int64(head[queue_of(net, come, lane, link)])
                out_lane = np.int64(slots[slot, OUT_LANE])
                turn = port * count + lane - net.lanes[link * count + out_lane, TURN] - 1
                if turn < 0:
                    turn += words * 64 * count
                seen = candidates >> out_lane & 1
                if seen and best_turn[out_lane] < turn:
                    continue
                at = max(slot_time[slot], port_free(net, come))
                needed = credits_of(net, np.int64(slots[slot, BYTES]))
                lane_row = net.lanes[link * count + out_lane]
                if credits_now(net, lane_row, now) < needed:
                    back = credit_time(net, lane_row, needed)
                    if back == NEVER:
                        lane_row[SHORT] = 1
                    at = max(at, back)
                if at > now:
                    soon = min(soon, at)
                    continue
                candidates |= np.int64(1) << out_lane
                best_turn[out_lane] = turn
                best_slot[out_lane] = slot
    net.pick[1] = soon
    if not candidates:
        return np.int64(-1)
    picked = choose_lane(net, link, candidates)
    if picked < 0:
        return np.int64(-1)
    net.pick[0] = picked
    return best_slot[picked >> 1]


@part_njit()
def take(net, slot, until, now):
    """Take a granted packet out of its queue and its buffer, which it has left at a time.

    The next of its queue asks its own link then.
    """
    slots = net.slots
    head = net.queue_head
    come, lane = np.int64(slots[slot, LINK]), np.int64(slots[slot, LANE])
    out, size = np.int64(slots[slot, OUT]), np.int64(slots[slot, BYTES])
    port = np.int64(net.fixed[come, HEAD_PORT])
    needed = credits_of(net, size)
    out_row = net.lanes[out * net.setting[LANES] + slots[slot, OUT_LANE]]
    out_row[ROUTED] -= needed
    out_row[TURN] = port * net.setting[LANES] + lane
    _occupy(net, come, until)
    queue = queue_of(net, come, lane, out)
    after = np.int64(slots[slot, NEXT])
    head[queue] = after
    same = after >= 0 and slots[after, OUT] == out
    if not same:
        _asks_no_more(net, out, lane, port)
    if after >= 0:
        if len(net.first_at):
            net.first_at[after] = now
        other = np.int64(slots[after, OUT])
        if not same:
            _ask(net, slots, after)
        time = max(net.slot_time[after], port_free(net, come))
        _look(net, other, time, now)
    send_back(net, come, lane, needed, until + span(net, come, CREDIT_LATENCY), now)
