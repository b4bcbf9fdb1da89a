"""Switches: packets queue for their links, and links grant them."""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.lean import lean_njit
from weft.kernels.packet_lanes import (
    choose_lane,
    credit_time,
    credits_now,
    credits_of,
    duration,
    send_back,
    wake,
)
from weft.kernels.packet_layout import (
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
from weft.kernels.packet_queue import mark


@lean_njit(forceinline=True)
def queue_of(setting, network, come, lane, out):
    """The queue of packets that came by a link on a lane and go on by another."""
    fixed = network[0]
    queue = fixed[come, QUEUE] + lane * fixed[come, QUEUES]
    return queue + fixed[out, TAIL_PORT] if setting[VOQ] else queue


@lean_njit(forceinline=True)
def _ask(setting, network, queues, state, slots, slot):
    """Let the first packet of a queue ask its link."""
    asked = queues[2]
    out, lane = np.int64(slots[slot, OUT]), np.int64(slots[slot, LANE])
    port = network[0][slots[slot, LINK], HEAD_PORT]
    place = (out * setting[LANES] + lane) * setting[WORDS] + (port >> 6)
    asked[place] |= np.uint64(1) << np.uint64(port & 63)
    state[out, ASKING] |= np.int64(1) << lane


@lean_njit(forceinline=True)
def _asks_no_more(setting, queues, state, out, lane, port):
    asked = queues[2]
    base = (out * setting[LANES] + lane) * setting[WORDS]
    asked[base + (port >> 6)] &= ~(np.uint64(1) << np.uint64(port & 63))
    for word in range(setting[WORDS]):
        if asked[base + word]:
            return
    state[out, ASKING] &= ~(np.int64(1) << lane)


@lean_njit(forceinline=True)
def port_free(setting, queues, come):
    """When an input port can send another packet."""
    free = queues[3]
    speedup = setting[SPEEDUP]
    soonest = free[come * speedup]
    for place in range(1, speedup):
        soonest = min(soonest, free[come * speedup + place])
    return soonest


@lean_njit(forceinline=True)
def _occupy(setting, queues, come, until):
    free = queues[3]
    speedup = setting[SPEEDUP]
    first = come * speedup
    for place in range(come * speedup, (come + 1) * speedup):
        if free[place] < free[first]:
            first = place
    free[first] = until


@lean_njit(forceinline=True)
def _look(setting, number, pool, wheel, state, queues, dirty, is_dirty, link, time, now):
    """See to it that a link is looked at when a packet could leave by it at a time."""
    time = max(time, state[link, FREE_AT])
    if time <= now:
        mark(number, dirty, is_dirty, link)
    else:
        wake(setting, number, pool, wheel, state, link, time)


@lean_njit(forceinline=True)
def enqueue(
    setting, number, network, pool, wheel, state, lanes, queues, dirty, is_dirty, slot, now
):
    """A routed packet joins its queue."""
    slots, slot_time = pool[0], pool[1]
    head, tail = queues[0], queues[1]
    come, lane = np.int64(slots[slot, LINK]), np.int64(slots[slot, LANE])
    out, size = np.int64(slots[slot, OUT]), np.int64(slots[slot, BYTES])
    # Into a faster cable, no earlier than every byte is there in time.
    late = duration(setting, network, come, size) - duration(setting, network, out, size)
    slot_time[slot] = now + max(late, 0)
    lanes[out * setting[LANES] + slots[slot, OUT_LANE], ROUTED] += credits_of(setting, size)
    slots[slot, NEXT] = -1
    queue = queue_of(setting, network, come, lane, out)
    if head[queue] >= 0:
        slots[tail[queue], NEXT] = slot
        tail[queue] = slot
        return
    head[queue] = slot
    tail[queue] = slot
    _ask(setting, network, queues, state, slots, slot)
    _look(setting, number, pool, wheel, state, queues, dirty, is_dirty, out, slot_time[slot], now)


@lean_njit(forceinline=True)
def choose_packet(
    setting, number, network, pool, state, lanes, queues, arbiter, tables, pick, link, now
):
    """Which packet a link of a switch takes at a time that it is free.

    Returns
    -------
    int: the slot or -1, with the lane in `pick[0]`; without a packet, when there may be one stands
    in `pick[1]`.
    """
    slots, slot_time = pool[0], pool[1]
    head, asked = queues[0], queues[2]
    count, words = setting[LANES], setting[WORDS]
    row = network[0][link, TAIL_ROW]
    into, base = network[3], network[4]
    asking = np.uint64(state[link, ASKING])
    soon = np.int64(NEVER)
    candidates = np.int64(0)
    best_turn, best_slot = pick[2 : 2 + count], pick[2 + count : 2 + 2 * count]
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
                slot = np.int64(head[queue_of(setting, network, come, lane, link)])
                out_lane = np.int64(slots[slot, OUT_LANE])
                turn = port * count + lane - lanes[link * count + out_lane, TURN] - 1
                if turn < 0:
                    turn += words * 64 * count
                seen = candidates >> out_lane & 1
                if seen and best_turn[out_lane] < turn:
                    continue
                at = max(slot_time[slot], port_free(setting, queues, come))
                needed = credits_of(setting, np.int64(slots[slot, BYTES]))
                lane_row = lanes[link * count + out_lane]
                if credits_now(number, pool, lane_row, now) < needed:
                    back = credit_time(pool, lane_row, needed)
                    if back == NEVER:
                        lane_row[SHORT] = 1
                    at = max(at, back)
                if at > now:
                    soon = min(soon, at)
                    continue
                candidates |= np.int64(1) << out_lane
                best_turn[out_lane] = turn
                best_slot[out_lane] = slot
    pick[1] = soon
    if not candidates:
        return np.int64(-1)
    picked = choose_lane(setting, arbiter[link], tables, candidates)
    if picked < 0:
        return np.int64(-1)
    pick[0] = picked
    return best_slot[picked >> 1]


@lean_njit(forceinline=True)
def take(
    setting, number, network, pool, wheel, state, lanes, queues, dirty, is_dirty, slot, until, now
):
    """Take a granted packet out of its queue and its buffer, which it has left at a time.

    The next of its queue asks its own link then.
    """
    slots = pool[0]
    head = queues[0]
    come, lane = np.int64(slots[slot, LINK]), np.int64(slots[slot, LANE])
    out, size = np.int64(slots[slot, OUT]), np.int64(slots[slot, BYTES])
    port = network[0][come, HEAD_PORT]
    needed = credits_of(setting, size)
    out_row = lanes[out * setting[LANES] + slots[slot, OUT_LANE]]
    out_row[ROUTED] -= needed
    out_row[TURN] = port * setting[LANES] + lane
    _occupy(setting, queues, come, until)
    queue = queue_of(setting, network, come, lane, out)
    after = np.int64(slots[slot, NEXT])
    head[queue] = after
    same = after >= 0 and slots[after, OUT] == out
    if not same:
        _asks_no_more(setting, queues, state, out, lane, port)
    if after >= 0:
        other = np.int64(slots[after, OUT])
        if not same:
            _ask(setting, network, queues, state, slots, after)
        time = max(pool[1][after], port_free(setting, queues, come))
        _look(setting, number, pool, wheel, state, queues, dirty, is_dirty, other, time, now)
    send_back(
        setting, number, pool, wheel, state, lanes, come, lane, needed,
        until + network[0][come, CREDIT_LATENCY], now,
    )  # fmt: skip
