"""Progressive filling: max–min fair rates of all flows from nothing, link after link."""

from weft.kernels.flow.water_levels import (
    ACTIVE,
    DIRTY,
    INFINITE,
    JUST_ABOVE,
    LAST_BUCKET,
    LEVEL,
    LOWEST,
    QUEUED,
    REST,
    SHIFT,
    SLOTS,
    TIE,
    TOUCHED,
    WEIGHT,
    bucket_of_level,
    lowest_bucket,
    queue_link,
    unqueue_link,
)
from weft.kernels.lean import lean_njit


@lean_njit()
def _put(heap_key, heap_link, place, size, level, link):
    """Put an entry where one is missing in a heap, or replace one."""
    while place:
        parent = (place - 1) >> 1
        if heap_key[parent] <= level:
            break
        heap_key[place] = heap_key[parent]
        heap_link[place] = heap_link[parent]
        place = parent
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap_key[child + 1] < heap_key[child]:
            child += 1
        if heap_key[child] >= level:
            break
        heap_key[place] = heap_key[child]
        heap_link[place] = heap_link[child]
        place = child
    heap_key[place] = level
    heap_link[place] = link


@lean_njit()
def fill_all(state):
    """Rates of all flows from nothing, by filling one link after the other."""
    (
        capacity, _, _, _, flow_hops, flow_link, _, flow_share,
        segment, _, count, pool, number, dirty, is_dirty, touched, is_touched, current, links,
        key, key_bits, bucket_of, first, after, before, heap_key, heap_link,
    ) = state  # fmt: skip
    queue = (key, key_bits, bucket_of, first, after, before)
    shift = number[SHIFT]
    longest = 1 << shift
    weighted = len(flow_share) > 0
    share = 1.0
    for place in range(number[DIRTY]):
        is_dirty[dirty[place]] = False
    number[DIRTY] = 0
    for place in range(number[TOUCHED]):
        is_touched[touched[place]] = False
    number[TOUCHED] = 0
    for flow in range(number[SLOTS]):
        if flow_hops[flow]:
            current[flow] = INFINITE
    number[LOWEST] = number[LAST_BUCKET]
    for link in range(len(capacity)):
        at = 4 * link
        weight = float(count[link])
        if weighted:
            weight = 0.0
            for entry in range(segment[link], segment[link] + count[link]):
                weight += flow_share[pool[entry]]
        links[at + REST] = capacity[link]
        links[at + WEIGHT] = weight
        links[at + ACTIVE] = float(count[link])
        links[at + LEVEL] = INFINITE
        if count[link]:
            queue_link(queue, number, link, capacity[link] / weight)
    # Links of one bucket go through a heap, which is small unless many levels are nearly equal.
    size = 0
    bucket = 0
    while size or number[QUEUED]:
        if not size:
            bucket = lowest_bucket(queue, number)
            while first[bucket] >= 0:
                link = first[bucket]
                unqueue_link(queue, number, link)
                _put(heap_key, heap_link, size, size + 1, key[link], link)
                size += 1
        link = heap_link[0]
        at = 4 * link
        level = INFINITE
        if links[at + ACTIVE] > 0.0:
            level = max(links[at + REST] / links[at + WEIGHT], heap_key[0])
        if level > heap_key[0] * JUST_ABOVE:
            key[link] = level
            if level < INFINITE and bucket_of_level(key_bits, number, link) == bucket:
                _put(heap_key, heap_link, 0, size, level, link)
                continue
            if level < INFINITE:
                queue_link(queue, number, link, level)
            size -= 1
            if size:
                _put(heap_key, heap_link, 0, size, heap_key[size], heap_link[size])
            continue
        size -= 1
        if size:
            _put(heap_key, heap_link, 0, size, heap_key[size], heap_link[size])
        links[at + LEVEL] = level
        rest = links[at + REST]
        weight = links[at + WEIGHT]
        active = links[at + ACTIVE]
        # Listing its flows first lets the processor fetch many rows at once.
        own_flows = 0
        for entry in range(segment[link], segment[link] + count[link]):
            own = pool[entry]
            rate = current[own >> shift]
            touched[own_flows] = own
            own_flows += rate == INFINITE
            if rate < INFINITE and rate * TIE >= level:
                if weighted:
                    share = flow_share[own]
                rest += share * rate
                weight += share
                active += 1.0
        for place in range(own_flows):
            flow = touched[place] >> shift
            current[flow] = level
            base = flow << shift
            for hop in range(base, base + longest):
                other = flow_link[hop]
                if other < 0:
                    break
                part = flow_share[hop] if weighted else 1.0
                links[4 * other + REST] -= part * level
                links[4 * other + WEIGHT] -= part
                links[4 * other + ACTIVE] -= 1.0
        links[at + REST] = rest
        links[at + WEIGHT] = weight
        links[at + ACTIVE] = active
