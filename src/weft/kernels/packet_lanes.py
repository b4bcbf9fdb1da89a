"""Credits of lanes, and which lane a link serves next."""

import numpy as np

from weft.kernels.lean import lean_njit
from weft.kernels.packet_layout import (
    ASKING,
    BACK_HEAD,
    BACK_TAIL,
    BUFFER_CREDITS,
    BYTES,
    CREDIT_BYTES,
    CREDITS,
    DURATION,
    FULL_CREDITS,
    HEADER,
    HIGH_AT,
    HIGH_LEFT,
    HIGH_LIMIT,
    LANE,
    LANES,
    LAST_LANE,
    LIMIT_LEFT,
    LINK,
    LOW_AT,
    LOW_LEFT,
    MTU,
    NEVER,
    NEXT,
    ROUTED,
    SHORT,
    WAKE_AT,
    WAKES,
    WEIGHTED,
)
from weft.kernels.packet_queue import give_slot, push, take_slot

#: Unit of the weights of lanes, and of the limit of high priority.
WEIGHT_BYTES = 64
LIMIT_BYTES = 4096
ENDLESS = 255


@lean_njit(forceinline=True)
def rounded(size_bytes, rate_gbps):
    """Duration of so many bytes at a rate, ps: rounded once, at least 1."""
    return max(np.int64(np.floor(8000.0 * size_bytes / rate_gbps + 0.5)), np.int64(1))


@lean_njit(forceinline=True)
def duration(setting, network, link, wire_bytes):
    """Duration of a packet on a link, ps."""
    if wire_bytes == setting[MTU] + setting[HEADER]:
        return network[0][link, DURATION]
    return rounded(wire_bytes, network[1][link])


@lean_njit(forceinline=True)
def credits_of(setting, wire_bytes):
    """Credits that a packet takes."""
    if wire_bytes == setting[MTU] + setting[HEADER]:
        return setting[FULL_CREDITS]
    return (wire_bytes + setting[CREDIT_BYTES] - 1) // setting[CREDIT_BYTES]


@lean_njit(forceinline=True)
def wake(setting, number, pool, wheel, state, link, time):
    """See to it that a link is looked at again at a time, or before."""
    if state[link, WAKE_AT] <= time:
        return
    state[link, WAKE_AT] = time
    slot = take_slot(pool, number)
    pool[0][slot, LINK] = link
    pool[0][slot, LANE] = WAKES
    push(setting, number, pool, wheel, slot, time)


@lean_njit(forceinline=True)
def credits_now(number, pool, lane, now):
    """Credits of a lane, with those that have come back by now."""
    slots, slot_time = pool[0], pool[1]
    head = np.int64(lane[BACK_HEAD])
    while head >= 0 and slot_time[head] <= now:
        lane[CREDITS] += slots[head, BYTES]
        after = np.int64(slots[head, NEXT])
        give_slot(pool, number, head)
        head = after
    lane[BACK_HEAD] = head
    return np.int64(lane[CREDITS])


@lean_njit(forceinline=True)
def credit_time(pool, lane, needed):
    """When a lane that is short will have so many credits; NEVER while nobody has sent them."""
    slots, slot_time = pool[0], pool[1]
    have = np.int64(lane[CREDITS])
    slot = np.int64(lane[BACK_HEAD])
    while slot >= 0:
        have += slots[slot, BYTES]
        if have >= needed:
            return slot_time[slot]
        slot = np.int64(slots[slot, NEXT])
    return np.int64(NEVER)


@lean_njit(forceinline=True)
def send_back(setting, number, pool, wheel, state, lanes, link, lane, count, time, now):
    """Let credits be with the sender of a link at a time."""
    slots, slot_time = pool[0], pool[1]
    row = lanes[link * setting[LANES] + lane]
    credits_now(number, pool, row, now)
    slot = take_slot(pool, number)
    slots[slot, BYTES] = count
    slot_time[slot] = time
    head = np.int64(row[BACK_HEAD])
    if head < 0:
        slots[slot, NEXT] = -1
        row[BACK_HEAD] = slot
        row[BACK_TAIL] = slot
    elif slot_time[row[BACK_TAIL]] <= time:
        slots[slot, NEXT] = -1
        slots[row[BACK_TAIL], NEXT] = slot
        row[BACK_TAIL] = slot
    elif slot_time[head] > time:
        slots[slot, NEXT] = head
        row[BACK_HEAD] = slot
    else:
        # Several packets leave a port at a time, and the later one may be the shorter.
        before = head
        while slot_time[slots[before, NEXT]] <= time:
            before = np.int64(slots[before, NEXT])
        slots[slot, NEXT] = slots[before, NEXT]
        slots[before, NEXT] = slot
    if row[SHORT]:
        row[SHORT] = 0
        wake(setting, number, pool, wheel, state, link, time)


@lean_njit(forceinline=True)
def load_of(setting, number, pool, lane, now):
    """What the policy `adaptive` compares: credits taken, and those that routed packets need."""
    return setting[BUFFER_CREDITS] - credits_now(number, pool, lane, now) + lane[ROUTED]


@lean_njit(forceinline=True)
def _holds(table, candidates):
    for entry in range(len(table)):
        if table[entry, 1] > 0 and candidates >> table[entry, 0] & 1:
            return True
    return False


@lean_njit(forceinline=True)
def choose_lane(setting, arbiter, tables, candidates):
    """Pick a lane among those of a bit mask; -1 when none may send.

    Returns
    -------
    int: the lane, and whether it is of the high table or of none, as lane * 2 + high.
    """
    if not setting[WEIGHTED]:
        lanes = setting[LANES]
        lane = arbiter[LAST_LANE]
        for _ in range(lanes):
            lane = lane + 1 if lane + 1 < lanes else 0
            if candidates >> lane & 1:
                return np.int64(lane) * 2
        return np.int64(-1)
    high, low = tables
    use_high = _holds(high, candidates)
    has_low = _holds(low, candidates)
    if use_high and has_low and setting[HIGH_LIMIT] != ENDLESS and arbiter[LIMIT_LEFT] <= 0:
        use_high = False
    if not use_high and not has_low:
        return np.int64(-1)
    table, at, left = (high, HIGH_AT, HIGH_LEFT) if use_high else (low, LOW_AT, LOW_LEFT)
    entry = np.int64(arbiter[at])
    if not (candidates >> table[entry, 0] & 1 and arbiter[left] > 0):
        while True:
            entry = entry + 1 if entry + 1 < len(table) else 0
            if candidates >> table[entry, 0] & 1 and table[entry, 1] > 0:
                break
        arbiter[at] = entry
        arbiter[left] = table[entry, 1]
    return np.int64(table[entry, 0]) * 2 + use_high


@lean_njit(forceinline=True)
def lane_served(setting, arbiter, picked, wire_bytes):
    """Write down that the lane that was picked has sent a packet."""
    arbiter[LAST_LANE] = picked >> 1
    if not setting[WEIGHTED]:
        return
    units = (wire_bytes + WEIGHT_BYTES - 1) // WEIGHT_BYTES
    if picked & 1:
        arbiter[HIGH_LEFT] = max(arbiter[HIGH_LEFT] - units, 0)
        arbiter[LIMIT_LEFT] -= wire_bytes
    else:
        arbiter[LOW_LEFT] = max(arbiter[LOW_LEFT] - units, 0)
        # A limit of 0 lets one packet pass.
        arbiter[LIMIT_LEFT] = max(setting[HIGH_LIMIT] * LIMIT_BYTES, 1)


@lean_njit(forceinline=True)
def asks(state, link, lane):
    """A lane has something for a link."""
    state[link, ASKING] |= np.int64(1) << lane
