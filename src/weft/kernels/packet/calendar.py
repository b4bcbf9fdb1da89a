"""Calendar queue of the packet level: events in the order of their times.

A slot is an `EVENT` and, unless that is a wake-up, its `PACKET`. A wheel of buckets holds the near
future as lists. The events of the present bucket are in a heap, which is small because buckets are
narrow; it is large only if very many events have the same time. The next bucket joins them when few
are left, so that its packets are in the cache when they are handled. Events beyond the wheel are in
another heap.
`calendar` is a `weft.kernels.packet.net.Calendar`; times are int64 ps.
"""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.heaps import sift_down, sift_up
from weft.kernels.lean import part_njit, tiny_njit
from weft.kernels.packet.records import NEVER
from weft.kernels.prefetch import prefetch

#: Buckets of the wheel.
BUCKETS = 8192
#: Number of events in the present bucket at which the next one joins it.
FEW = 3


@tiny_njit()
def take_slot(calendar):
    """Take a free slot; the caller must have checked that there is one."""
    calendar.state.free -= 1
    return np.int64(calendar.free[calendar.state.free])


@tiny_njit()
def give_slot(calendar, slot):
    """Free a slot. It is taken next, because it is still in the processor's cache."""
    calendar.free[calendar.state.free] = slot
    calendar.state.free += 1


@part_njit()
def push(calendar, slot, link, time):
    """Schedule a slot at a time, ps. `link`: see `EVENT.link`."""
    state, event = calendar.state, calendar.events[slot]
    event.time_ps = time
    event.link = link
    state.waiting += 1
    bucket = time >> state.shift
    ahead = bucket - state.bucket
    if 0 < ahead < BUCKETS:
        first, used = calendar.bucket_first, calendar.bucket_used
        index = bucket & (BUCKETS - 1)
        word = index >> 6
        bit = np.uint64(1) << np.uint64(index & 63)
        event.next = first[index] if used[word] & bit else -1
        used[word] |= bit
        first[index] = slot
        return
    item = max(link, ~link) << 32 | slot
    if ahead <= 0:
        _activate(calendar, time, item)
    else:
        state.far += 1
        sift_up(calendar.far_time, calendar.far_item, state.far - 1, time, item)


@part_njit()
def _activate(calendar, time, item):
    """Put an event on the heap of the present bucket."""
    calendar.state.active += 1
    sift_up(calendar.active_time, calendar.active_item, calendar.state.active - 1, time, item)


@part_njit()
def _next_bucket(calendar):
    """Advance to the next bucket with events, and move these to the heap."""
    state, used = calendar.state, calendar.bucket_used
    far_time, far_item = calendar.far_time, calendar.far_item
    index = (state.bucket + 1) & (BUCKETS - 1)
    word = index >> 6
    bits = used[word] >> np.uint64(index & 63) << np.uint64(index & 63)
    ahead = np.int64(NEVER)
    for _ in range((BUCKETS >> 6) + 1):
        if bits:
            used_bucket = (word << 6) + lowest_bit(bits)
            ahead = ((used_bucket - index) & (BUCKETS - 1)) + 1
            break
        word = (word + 1) & ((BUCKETS >> 6) - 1)
        bits = used[word]
    bucket = state.bucket + ahead
    if state.far:
        bucket = min(bucket, far_time[0] >> state.shift)
    state.bucket = bucket
    index = bucket & (BUCKETS - 1)
    word = index >> 6
    bit = np.uint64(1) << np.uint64(index & 63)
    if used[word] & bit:
        used[word] &= ~bit
        slot = np.int64(calendar.bucket_first[index])
        while slot >= 0:
            prefetch(calendar.packets, slot)
            event = calendar.events[slot]
            link = np.int64(event.link)
            _activate(calendar, event.time_ps, max(link, ~link) << 32 | slot)
            slot = np.int64(event.next)
    while state.far and far_time[0] >> state.shift == bucket:
        _activate(calendar, far_time[0], far_item[0])
        state.far -= 1
        sift_down(far_time, far_item, state.far)


@part_njit()
def next_time(calendar):
    """Return the time of the next event, ps; NEVER if there is no event."""
    state = calendar.state
    if state.active <= FEW:
        following = (state.bucket + 1) & (BUCKETS - 1)
        is_near = calendar.bucket_used[following >> 6] >> np.uint64(following & 63)
        if state.waiting == 0:
            return np.int64(NEVER)
        if is_near or state.active == 0:
            _next_bucket(calendar)
    return calendar.active_time[0]


@part_njit()
def pop(calendar):
    """Take the next event and return its slot; call `next_time` first."""
    state, slot = calendar.state, calendar.active_item[0] & np.int64(0xFFFFFFFF)
    state.active -= 1
    state.waiting -= 1
    sift_down(calendar.active_time, calendar.active_item, state.active)
    return slot


@part_njit()
def put_on_cable(net, link, slot):
    """Append a packet to the list of those on the cable of a link (with `RULES.is_watched`)."""
    cable = net.cables[link]
    net.calendar.packets[slot].next = -1
    if cable.first < 0:
        cable.first = slot
    else:
        net.calendar.packets[cable.last].next = slot
    cable.last = slot


@part_njit()
def mark(net, link):
    """Put a link on the heap of links that may have a packet to grant, ordered by number."""
    due, count, marked = net.due, net.count, net.topology.links[link]
    if not marked.is_due:
        marked.is_due = 1
        sift_up(due, due, count.due, link, link)  # a number is its own key
        count.due += 1


@part_njit()
def lowest_due(net):
    """Take the lowest link number from the heap of links that may have a packet to grant."""
    due, count = net.due, net.count
    link = due[0]
    net.topology.links[link].is_due = 0
    count.due -= 1
    sift_down(due, due, count.due)
    return link
