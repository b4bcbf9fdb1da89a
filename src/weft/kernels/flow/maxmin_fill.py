"""Progressive filling: max–min fair rates of all flows from nothing, link after link."""

from weft.kernels.flow.water_levels import (
    INFINITE,
    JUST_ABOVE,
    TIE,
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
    capacity, hops, entry_link, entry_share = (
        state.capacity, state.hops, state.entry_link, state.entry_share,
    )  # fmt: skip
    segment, members, pool = state.segment, state.members, state.pool
    touched, current, links = state.touched, state.current, state.links
    heap_key, heap_link = state.heap_key, state.heap_link
    queue, count = state.queue, state.count
    shift = count.shift
    longest = 1 << shift
    weighted = len(entry_share) > 0
    share = 1.0
    for place in range(count.dirty):
        state.is_dirty[state.dirty[place]] = False
    count.dirty = 0
    for place in range(count.touched):
        state.is_touched[touched[place]] = False
    count.touched = 0
    for flow in range(count.slots):
        if hops[flow]:
            current[flow] = INFINITE
    queue.count.lowest = queue.count.last_bucket
    for link in range(len(capacity)):
        weight = float(members[link])
        if weighted:
            weight = 0.0
            for entry in range(segment[link], segment[link] + members[link]):
                weight += entry_share[pool[entry]]
        links[link].rest = capacity[link]
        links[link].weight = weight
        links[link].active = float(members[link])
        links[link].level = INFINITE
        if members[link]:
            queue_link(queue, link, capacity[link] / weight)
    # Links of one bucket go through a heap, which is small unless many levels are nearly equal.
    size = 0
    bucket = 0
    while size or queue.count.queued:
        if not size:
            bucket = lowest_bucket(queue)
            while queue.first[bucket] >= 0:
                link = queue.first[bucket]
                unqueue_link(queue, link)
                _put(heap_key, heap_link, size, size + 1, queue.key[link], link)
                size += 1
        link = heap_link[0]
        level = INFINITE
        if links[link].active > 0.0:
            level = max(links[link].rest / links[link].weight, heap_key[0])
        if level > heap_key[0] * JUST_ABOVE:
            queue.key[link] = level
            if level < INFINITE and bucket_of_level(queue, link) == bucket:
                _put(heap_key, heap_link, 0, size, level, link)
                continue
            if level < INFINITE:
                queue_link(queue, link, level)
            size -= 1
            if size:
                _put(heap_key, heap_link, 0, size, heap_key[size], heap_link[size])
            continue
        size -= 1
        if size:
            _put(heap_key, heap_link, 0, size, heap_key[size], heap_link[size])
        links[link].level = level
        rest = links[link].rest
        weight = links[link].weight
        active = links[link].active
        # Listing its flows first lets the processor fetch many rows at once.
        own_flows = 0
        for entry in range(segment[link], segment[link] + members[link]):
            own = pool[entry]
            rate = current[own >> shift]
            touched[own_flows] = own
            own_flows += rate == INFINITE
            if rate < INFINITE and rate * TIE >= level:
                if weighted:
                    share = entry_share[own]
                rest += share * rate
                weight += share
                active += 1.0
        for place in range(own_flows):
            flow = touched[place] >> shift
            current[flow] = level
            base = flow << shift
            for hop in range(base, base + longest):
                other = entry_link[hop]
                if other < 0:
                    break
                part = entry_share[hop] if weighted else 1.0
                links[other].rest -= part * level
                links[other].weight -= part
                links[other].active -= 1.0
        links[link].rest = rest
        links[link].weight = weight
        links[link].active = active
