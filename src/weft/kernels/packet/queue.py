"""What is to come at the packet level: slots in the order of their times.

A wheel of buckets holds what comes soon, as lists; the bucket that time is in is a heap, small
because buckets are narrow, and large only where a great many things happen in one instant. What
lies beyond the wheel is in a heap of its own. Slots are packets and wake-ups alike.
"""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.heaps import sift_down, sift_up
from weft.kernels.lean import part_njit, tiny_njit
from weft.kernels.packet.layout import (
    ACTIVE,
    BUCKET,
    DIRTY,
    FAR,
    FREE_SLOTS,
    LINK,
    NEVER,
    NEXT,
    SHIFT,
    WAITING_EVENTS,
)

#: Buckets of the wheel.
BUCKETS = 8192


@tiny_njit()
def take_slot(net):
    """A slot that is free; the caller has seen to it that there is one."""
    net.number[FREE_SLOTS] -= 1
    return np.int64(net.free[net.number[FREE_SLOTS]])


@tiny_njit()
def give_slot(net, slot):
    """Give a slot back, to be taken first: it is still in the cache."""
    net.free[net.number[FREE_SLOTS]] = slot
    net.number[FREE_SLOTS] += 1


@part_njit()
def push(net, slot, time):
    """Let a slot come at a time."""
    slots, slot_time = net.slots, net.slot_time
    head, used, active_time, active_item, far_time, far_item = (
        net.bucket_head,
        net.bucket_used,
        net.active_time,
        net.active_item,
        net.far_time,
        net.far_item,
    )
    slot_time[slot] = time
    net.number[WAITING_EVENTS] += 1
    bucket = time >> net.setting[SHIFT]
    ahead = bucket - net.number[BUCKET]
    if 0 < ahead < BUCKETS:
        place = bucket & (BUCKETS - 1)
        word = place >> 6
        bit = np.uint64(1) << np.uint64(place & 63)
        slots[slot, NEXT] = head[place] if used[word] & bit else -1
        used[word] |= bit
        head[place] = slot
        return
    # The link decides among things of one time; a link has one at a time.
    item = np.int64(slots[slot, LINK]) << 32 | slot
    if ahead <= 0:
        net.number[ACTIVE] += 1
        sift_up(active_time, active_item, net.number[ACTIVE] - 1, time, item)
    else:
        net.number[FAR] += 1
        sift_up(far_time, far_item, net.number[FAR] - 1, time, item)


@part_njit()
def _turn(net):
    """Go on to the next bucket that holds something."""
    slots, slot_time = net.slots, net.slot_time
    head, used, active_time, active_item, far_time, far_item = (
        net.bucket_head,
        net.bucket_used,
        net.active_time,
        net.active_item,
        net.far_time,
        net.far_item,
    )
    place = (net.number[BUCKET] + 1) & (BUCKETS - 1)
    word = place >> 6
    bits = used[word] >> np.uint64(place & 63) << np.uint64(place & 63)
    ahead = np.int64(NEVER)
    for _ in range((BUCKETS >> 6) + 1):
        if bits:
            found = (word << 6) + lowest_bit(bits)
            ahead = ((found - place) & (BUCKETS - 1)) + 1
            break
        word = (word + 1) & ((BUCKETS >> 6) - 1)
        bits = used[word]
    bucket = net.number[BUCKET] + ahead
    if net.number[FAR]:
        bucket = min(bucket, far_time[0] >> net.setting[SHIFT])
    net.number[BUCKET] = bucket
    place = bucket & (BUCKETS - 1)
    word = place >> 6
    bit = np.uint64(1) << np.uint64(place & 63)
    if used[word] & bit:
        used[word] &= ~bit
        slot = np.int64(head[place])
        while slot >= 0:
            after = np.int64(slots[slot, NEXT])
            item = np.int64(slots[slot, LINK]) << 32 | slot
            net.number[ACTIVE] += 1
            sift_up(active_time, active_item, net.number[ACTIVE] - 1, slot_time[slot], item)
            slot = after
    while net.number[FAR] and far_time[0] >> net.setting[SHIFT] == bucket:
        net.number[ACTIVE] += 1
        sift_up(active_time, active_item, net.number[ACTIVE] - 1, far_time[0], far_item[0])
        net.number[FAR] -= 1
        size = net.number[FAR]
        sift_down(far_time, far_item, size, far_time[size], far_item[size])


@part_njit()
def next_time(net):
    """When the next slot comes; NEVER when none does."""
    if net.number[ACTIVE] == 0:
        if net.number[WAITING_EVENTS] == 0:
            return np.int64(NEVER)
        _turn(net)
    return net.active_time[0]


@part_njit()
def pop(net):
    """Take the slot that comes next, after `next_time` has found one."""
    active_time, active_item = net.active_time, net.active_item
    slot = active_item[0] & np.int64(0xFFFFFFFF)
    net.number[ACTIVE] -= 1
    net.number[WAITING_EVENTS] -= 1
    size = net.number[ACTIVE]
    sift_down(active_time, active_item, size, active_time[size], active_item[size])
    return slot


@part_njit()
def mark(net, link):
    """Remember that a link may have something to grant; lowest numbers come first."""
    if net.is_dirty[link]:
        return
    net.is_dirty[link] = 1
    place = net.number[DIRTY]
    net.number[DIRTY] += 1
    while place:
        parent = (place - 1) >> 1
        if net.dirty[parent] <= link:
            break
        net.dirty[place] = net.dirty[parent]
        place = parent
    net.dirty[place] = link


@part_njit()
def lowest_dirty(net):
    """Take the lowest of the links that were remembered."""
    link = np.int64(net.dirty[0])
    net.is_dirty[link] = 0
    net.number[DIRTY] -= 1
    size = net.number[DIRTY]
    last = net.dirty[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and net.dirty[child + 1] < net.dirty[child]:
            child += 1
        if net.dirty[child] >= last:
            break
        net.dirty[place] = net.dirty[child]
        place = child
    net.dirty[place] = last
    return link
