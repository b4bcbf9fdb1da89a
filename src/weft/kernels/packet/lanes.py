"""Credits of lanes, and which lane a link serves next."""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit, tiny_njit
from weft.kernels.packet.layout import (
    BACK_HEAD,
    BACK_TAIL,
    CREDIT_BYTES,
    CREDITS,
    DURATION,
    FREE_NOTES,
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
    NOTE_AFTER,
    NOTE_COUNT,
    NOTE_TIME,
    SHORT,
    SPAN,
    WAKE_AT,
    WAKES,
    WEIGHTED,
)
from weft.kernels.packet.queue import push, take_slot

#: Unit of the weights of lanes, and of the limit of high priority.
WEIGHT_BYTES = 64
LIMIT_BYTES = 4096
ENDLESS = 255


@lean_njit(forceinline=True)
def rounded(size_bytes, rate_gbps):
    """Duration of so many bytes at a rate, ps: rounded once, at least 1."""
    return max(np.int64(np.floor(8000.0 * size_bytes / rate_gbps + 0.5)), np.int64(1))


@tiny_njit()
def span(net, link, which):
    """A time of a link: which of its latencies, or the duration of a whole packet."""
    return net.spans[net.fixed[link, SPAN], which]


@part_njit()
def duration(net, link, wire_bytes):
    """Duration of a packet on a link, ps."""
    if wire_bytes == net.setting[MTU] + net.setting[HEADER]:
        return span(net, link, DURATION)
    return rounded(wire_bytes, net.rate[link])


@tiny_njit()
def credits_of(net, wire_bytes):
    """Credits that a packet takes."""
    if wire_bytes == net.setting[MTU] + net.setting[HEADER]:
        return net.setting[FULL_CREDITS]
    return (wire_bytes + net.setting[CREDIT_BYTES] - 1) // net.setting[CREDIT_BYTES]


@part_njit()
def wake(net, link, time):
    """See to it that a link is looked at again at a time, or before."""
    if net.state[link, WAKE_AT] <= time:
        return
    net.state[link, WAKE_AT] = time
    slot = take_slot(net)
    net.slots[slot, LINK] = link
    net.slots[slot, LANE] = WAKES
    push(net, slot, time)


@part_njit()
def credits_now(net, lane, now):
    """Credits of a lane, with those that have come back by now."""
    notes = net.notes
    head = np.int64(lane[BACK_HEAD])
    while head >= 0 and notes[head, NOTE_TIME] <= now:
        lane[CREDITS] += notes[head, NOTE_COUNT]
        net.free_note[net.number[FREE_NOTES]] = head
        net.number[FREE_NOTES] += 1
        head = notes[head, NOTE_AFTER]
    lane[BACK_HEAD] = head
    return np.int64(lane[CREDITS])


@part_njit()
def credit_time(net, lane, needed):
    """When a lane that is short will have so many credits; NEVER while nobody has sent them."""
    notes = net.notes
    have = np.int64(lane[CREDITS])
    note = np.int64(lane[BACK_HEAD])
    while note >= 0:
        have += notes[note, NOTE_COUNT]
        if have >= needed:
            return notes[note, NOTE_TIME]
        note = notes[note, NOTE_AFTER]
    return np.int64(NEVER)


@part_njit()
def send_back(net, link, lane, count, time, now):
    """Let credits be with the sender of a link at a time."""
    notes = net.notes
    row = net.lanes[link * net.setting[LANES] + lane]
    credits_now(net, row, now)
    net.number[FREE_NOTES] -= 1
    note = np.int64(net.free_note[net.number[FREE_NOTES]])
    notes[note, NOTE_TIME] = time
    notes[note, NOTE_COUNT] = count
    head = np.int64(row[BACK_HEAD])
    tail = np.int64(row[BACK_TAIL])
    if head < 0 or notes[tail, NOTE_TIME] <= time:
        notes[note, NOTE_AFTER] = -1
        if head < 0:
            row[BACK_HEAD] = note
        else:
            notes[tail, NOTE_AFTER] = note
        row[BACK_TAIL] = note
        if row[SHORT]:
            row[SHORT] = 0
            wake(net, link, time)
        return
    # Several packets leave a port at a time, and the later one may be the shorter.
    if notes[head, NOTE_TIME] > time:
        notes[note, NOTE_AFTER] = head
        row[BACK_HEAD] = note
    else:
        before = head
        while notes[notes[before, NOTE_AFTER], NOTE_TIME] <= time:
            before = notes[before, NOTE_AFTER]
        notes[note, NOTE_AFTER] = notes[before, NOTE_AFTER]
        notes[before, NOTE_AFTER] = note
    # Who waits for credits that came back first until now may go earlier.
    row[SHORT] = 0
    wake(net, link, time)


@lean_njit(forceinline=True)
def _holds(table, candidates):
    for entry in range(len(table)):
        if table[entry, 1] > 0 and candidates >> table[entry, 0] & 1:
            return True
    return False


@part_njit()
def choose_lane(net, link, candidates):
    """Pick a lane among those of a bit mask; -1 when none may send.

    Returns
    -------
    int: the lane, and whether it is of the high table or of none, as lane * 2 + high.
    """
    lanes = net.setting[LANES]
    if lanes == 1:
        return np.int64(0)
    serving = net.arbiter[link]
    if not net.setting[WEIGHTED]:
        lane = serving[LAST_LANE]
        for _ in range(lanes):
            lane = lane + 1 if lane + 1 < lanes else 0
            if candidates >> lane & 1:
                return np.int64(lane) * 2
        return np.int64(-1)
    high, low = net.high, net.low
    use_high = _holds(high, candidates)
    has_low = _holds(low, candidates)
    if use_high and has_low and net.setting[HIGH_LIMIT] != ENDLESS and serving[LIMIT_LEFT] <= 0:
        use_high = False
    if not use_high and not has_low:
        return np.int64(-1)
    table, at, left = (high, HIGH_AT, HIGH_LEFT) if use_high else (low, LOW_AT, LOW_LEFT)
    entry = np.int64(serving[at])
    if not (candidates >> table[entry, 0] & 1 and serving[left] > 0):
        while True:
            entry = entry + 1 if entry + 1 < len(table) else 0
            if candidates >> table[entry, 0] & 1 and table[entry, 1] > 0:
                break
        serving[at] = entry
        serving[left] = table[entry, 1]
    return np.int64(table[entry, 0]) * 2 + use_high


@part_njit()
def lane_served(net, link, picked, wire_bytes):
    """Write down that the lane that was picked has sent a packet."""
    if net.setting[LANES] == 1:
        return
    serving = net.arbiter[link]
    serving[LAST_LANE] = picked >> 1
    if not net.setting[WEIGHTED]:
        return
    units = (wire_bytes + WEIGHT_BYTES - 1) // WEIGHT_BYTES
    if picked & 1:
        serving[HIGH_LEFT] = max(serving[HIGH_LEFT] - units, 0)
        # Down to 0: without low priority it is never restored, and must not wrap around.
        serving[LIMIT_LEFT] = max(serving[LIMIT_LEFT] - wire_bytes, 0)
    else:
        serving[LOW_LEFT] = max(serving[LOW_LEFT] - units, 0)
        # A limit of 0 lets one packet pass.
        serving[LIMIT_LEFT] = max(net.setting[HIGH_LIMIT] * LIMIT_BYTES, 1)
