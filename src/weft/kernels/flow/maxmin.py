"""Max–min fair rates of flows over links, updated as flows start and end.

A link is *full* (a bottleneck) when its whole capacity is used. The *level* of a full link is the
rate of the fastest flows that cross it; these are the link's *own* flows. Rates are max–min fair
when every flow is an own flow of a full link. A flow that starts or ends affects only links and
flows at or above the lowest level that it changes, so links are revised in ascending order of
level. A link is revised only if the sum of its flows' rates no longer fits its level.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.records import counters

#: Sums over the flows of a link. Flows are active at a link unless they are slower than its level.
LINK = np.dtype(
    [
        ("rest", np.float64),  # capacity that flows slower than the level do not use, bytes/ns
        ("weight", np.float64),  # sum of the parts of the active flows' rates that cross the link
        ("active", np.float64),  # number of active flows
        ("level", np.float64),  # bytes/ns, infinite when the link is not full
    ],
    align=True,
)
#: Number of links in the queue, lowest bucket that may hold a link, leading bits of the keys of
#: bucket 0, and number of the last bucket.
QUEUE = counters("queued", "lowest", "base", "last_bucket")


class LinkQueue(NamedTuple):
    """Bucket queue of links, by key."""

    #: float64 [links], bytes/ns: lowest level that may change; and the same memory as int64.
    key: Any
    key_bits: Any
    #: int32 [links]: bucket of a link, -1 for none.
    bucket_of: Any
    #: int32 [buckets]: first link of a bucket, -1 for none.
    first: Any
    #: int32 [links]: neighbours in the list of a bucket, -1 for none.
    after: Any
    before: Any
    #: A QUEUE record.
    count: Any


#: Two levels are equal if their relative difference is at most this.
SAME = 1e-12
#: A flow is at or above a level if its rate times this factor is at least the level.
TIE = 1.0 + 1e-11
JUST_ABOVE = 1.0 + SAME

INFINITE = np.inf

#: Number of low bits of a level that do not affect its bucket; 256 buckets are left for each power
#: of two.
DIGITS = 44


@part_njit()
def bucket_of_level(queue, link):
    """Return the bucket of a link's key: the leading bits of the key, which keep the order."""
    digits = (queue.key_bits[link] >> DIGITS) - queue.count.base
    return min(max(digits, 0), queue.count.last_bucket)


@part_njit()
def queue_link(queue, link, level):
    """Put a link that is not queued into the bucket of a level."""
    queue.key[link] = level
    bucket = bucket_of_level(queue, link)
    head = queue.first[bucket]
    queue.bucket_of[link] = bucket
    queue.first[bucket] = link
    queue.after[link] = head
    queue.before[link] = -1
    if head >= 0:
        queue.before[head] = link
    queue.count.queued += 1
    queue.count.lowest = min(queue.count.lowest, bucket)


@part_njit()
def unqueue_link(queue, link):
    """Take a link out of its bucket."""
    follower, previous = queue.after[link], queue.before[link]
    if previous >= 0:
        queue.after[previous] = follower
    else:
        queue.first[queue.bucket_of[link]] = follower
    if follower >= 0:
        queue.before[follower] = previous
    queue.bucket_of[link] = -1
    queue.count.queued -= 1


@part_njit()
def lowest_bucket(queue):
    """Return the first bucket that is not empty; at least one link must be queued."""
    bucket = queue.count.lowest
    while queue.first[bucket] < 0:
        bucket += 1
    queue.count.lowest = bucket
    return bucket


@lean_njit()
def _put(heap_key, heap_link, index, size, level, link):
    """Write an entry at `index` of a heap of `size` entries, and restore the heap's order."""
    while index:
        parent = (index - 1) >> 1
        if heap_key[parent] <= level:
            break
        heap_key[index] = heap_key[parent]
        heap_link[index] = heap_link[parent]
        index = parent
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        if child + 1 < size and heap_key[child + 1] < heap_key[child]:
            child += 1
        if heap_key[child] >= level:
            break
        heap_key[index] = heap_key[child]
        heap_link[index] = heap_link[child]
        index = child
    heap_key[index] = level
    heap_link[index] = link


@lean_njit()
def fill_all(state):
    """Compute the rates of all flows from scratch, by filling one link after the other."""
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
    for index in range(count.dirty):
        state.is_dirty[state.dirty[index]] = False
    count.dirty = 0
    for index in range(count.touched):
        state.is_touched[touched[index]] = False
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
    # Links of one bucket are ordered by a heap, which is small unless many levels are nearly equal.
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
        # Listing the link's own flows first lets the processor prefetch the entries of these flows.
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
        for index in range(own_flows):
            flow = touched[index] >> shift
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


#: Largest budget of a revision, in sixteenths of the cost of filling all rates. The budget is
#: halved when a revision exceeds it.
MOST_PATIENCE = 32

#: Number of bits of an entry's index in its slot; end of the used part of the pool; numbers of
#: links to revise, of flows whose rate may have changed, of slots that have ever been in use, of
#: entries of all flows, and of fillings; and budget of a revision.
COUNT = counters("shift", "pool_end", "dirty", "touched", "slots", "entries", "filled", "patience")


class MaxMinState(NamedTuple):
    """Links and their flows. A flow has a slot, which has an entry for each link of the flow."""

    #: float64 [links], bytes/ns.
    capacity: Any
    #: int64 [routes + 1], int32 and float64: links of routes, and the part of a flow's rate that
    #: crosses each link; `route_share` is empty if all these parts are 1.
    route_offset: Any
    route_link: Any
    route_share: Any
    #: int32 [slots]: number of links of each flow, 0 for a slot without a flow.
    hops: Any
    #: int32, int32 and float64 [entries]: link of the entry, index of the entry in the link's list,
    #: and part of the flow's rate as in `route_share`.
    entry_link: Any
    entry_index: Any
    entry_share: Any
    #: int64, int32 and int32 [links]: start of a link's list in the pool, number of entries for
    #: which the list has room, and number of entries in the list.
    segment: Any
    room: Any
    members: Any
    #: int32: list of the entries of each link.
    pool: Any
    #: LINK [links].
    links: Any
    #: int32 and bool [links]: list of links to revise, and whether a link is on it.
    dirty: Any
    is_dirty: Any
    #: int32 and bool [slots]: list of flows whose rate may have changed, and whether a flow is on
    #: it.
    touched: Any
    is_touched: Any
    #: float64 [slots], bytes/ns: rate of each flow; infinite if it is not yet known.
    current: Any
    #: A `LinkQueue`.
    queue: Any
    #: float64 and int32 [links]: scratch heap of links by level.
    heap_key: Any
    heap_link: Any
    #: A COUNT record.
    count: Any


@part_njit()
def _note_dirty(state, link):
    """Put a link on the list of links to revise, unless it is listed."""
    if not state.is_dirty[link]:
        state.is_dirty[link] = True
        state.dirty[state.count.dirty] = link
        state.count.dirty += 1


@part_njit()
def _note_touched(state, flow):
    """Put a flow on the list of flows whose rate may have changed, unless it is listed."""
    if not state.is_touched[flow]:
        state.is_touched[flow] = True
        state.touched[state.count.touched] = flow
        state.count.touched += 1


@lean_njit()
def _rebuild_lists(state):
    """Rewrite the lists of entries of all links, and leave each list room to grow."""
    segment, room, members, count = state.segment, state.room, state.members, state.count
    end = 0
    for link in range(len(members)):
        segment[link] = end
        room[link] = 2 * members[link] + 2
        end += room[link]
        members[link] = 0
    count.pool_end = end
    for flow in range(count.slots):
        base = flow << count.shift
        for at in range(base, base + state.hops[flow]):
            link = state.entry_link[at]
            state.entry_index[at] = members[link]
            state.pool[segment[link] + members[link]] = at
            members[link] += 1


@lean_njit()
def maxmin_add(state, flow, route):
    """Start a flow on the links of a route; `maxmin_solve` computes its rate.

    `state`: a `MaxMinState`. `flow`: free slot. `route`: route of at least one link.
    """
    entry_link, entry_index = state.entry_link, state.entry_index
    segment, room, members, pool = state.segment, state.room, state.members, state.pool
    links, count = state.links, state.count
    weighted = len(state.route_share) > 0
    state.current[flow] = INFINITE
    count.slots = max(count.slots, flow + 1)
    _note_touched(state, flow)
    base = flow << count.shift
    first = state.route_offset[route]
    hops = state.route_offset[route + 1] - first
    rebuild = False
    for hop in range(hops):
        link = state.route_link[first + hop]
        entry_link[base + hop] = link
        share = 1.0
        if weighted:
            share = state.route_share[first + hop]
            state.entry_share[base + hop] = share
        links[link].weight += share
        links[link].active += 1.0
        _note_dirty(state, link)
        if not rebuild and members[link] == room[link]:
            larger = 2 * room[link] + 2
            rebuild = count.pool_end + larger > len(pool)
            if not rebuild:
                start = count.pool_end
                count.pool_end += larger
                old = segment[link]
                for index in range(members[link]):
                    pool[start + index] = pool[old + index]
                segment[link] = start
                room[link] = larger
        if not rebuild:
            entry_index[base + hop] = members[link]
            pool[segment[link] + members[link]] = base + hop
        # A rebuild allots room by `members`, which must therefore include the new entry already.
        members[link] += 1
    if hops < 1 << count.shift:
        entry_link[base + hops] = -1
    state.hops[flow] = hops
    count.entries += hops
    if rebuild:
        _rebuild_lists(state)


@lean_njit()
def maxmin_remove(state, flow):
    """End a flow; `maxmin_solve` computes the rates of the other flows.

    `state`: a `MaxMinState`. `flow`: slot of the flow.
    """
    entry_link, entry_index, entry_share = state.entry_link, state.entry_index, state.entry_share
    segment, members, pool = state.segment, state.members, state.pool
    links, count = state.links, state.count
    base = flow << count.shift
    rate = state.current[flow]
    for at in range(base, base + state.hops[flow]):
        link = entry_link[at]
        members[link] -= 1
        last = pool[segment[link] + members[link]]
        pool[segment[link] + entry_index[at]] = last
        entry_index[last] = entry_index[at]
        share = entry_share[at] if len(entry_share) else 1.0
        if rate * TIE >= links[link].level:
            links[link].weight -= share
            links[link].active -= 1.0
        else:
            links[link].rest += share * rate
        _note_dirty(state, link)
    count.entries -= state.hops[flow]
    state.hops[flow] = 0


@part_njit()
def _fitting(state, link):
    """Return the level that fits a link's flows, or a lower level; infinite if not full."""
    sums = state.links[link]
    if sums.active > 0.0:
        return max(sums.rest / sums.weight, 0.0)
    # Without active flows, a link is full only if the slower flows exceed its capacity.
    return INFINITE if sums.rest >= -SAME * state.capacity[link] else 0.0


@part_njit()
def _queue_revision(state, link):
    """Queue a link for revision by its level or, if lower, by the level that fits its flows."""
    queue = state.queue
    level = min(_fitting(state, link), state.links[link].level)
    if queue.bucket_of[link] < 0:
        if level < INFINITE:
            queue_link(queue, link, level)
    elif level < queue.key[link]:
        unqueue_link(queue, link)
        queue_link(queue, link, level)


@lean_njit()
def _add_up(state, link):
    """Compute the sums of a link again."""
    entry_share, pool, sums = state.entry_share, state.pool, state.links[link]
    rest = state.capacity[link]
    weight = 0.0
    active = 0.0
    start = state.segment[link]
    for entry in range(start, start + state.members[link]):
        rate = state.current[pool[entry] >> state.count.shift]
        share = entry_share[pool[entry]] if len(entry_share) else 1.0
        if rate * TIE < sums.level:
            rest -= share * rate
        else:
            weight += share
            active += 1.0
    sums.rest = rest
    sums.weight = weight
    sums.active = active


@part_njit()
def _is_held(state, flow, link, rate):
    """Return whether a link other than `link` limits a flow to its rate."""
    base = flow << state.count.shift
    for hop in range(base, base + (1 << state.count.shift)):
        other = state.entry_link[hop]
        if other < 0:
            break
        if other != link and state.links[other].level <= rate * TIE:
            return True
    return False


@part_njit()
def _release(state, flow, link, rate):
    """Give the rate of a flow back to its links other than `link`, and queue them for revision."""
    entry_link, entry_share, links = state.entry_link, state.entry_share, state.links
    base = flow << state.count.shift
    for hop in range(base, base + (1 << state.count.shift)):
        other = entry_link[hop]
        if other < 0:
            break
        if other == link:
            continue
        part = entry_share[hop] if len(entry_share) > 0 else 1.0
        links[other].rest += part * rate
        links[other].weight += part
        links[other].active += 1.0
        _queue_revision(state, other)


@lean_njit()
def _revise(state, budget, slack):
    """Revise links upwards from the lowest level that changed; return False if `budget` is used up.

    A level whose relative error is below `slack` is kept. The rates are written to `current`, and
    the flows whose rate may have changed are listed in `touched`.
    """
    capacity, entry_link, entry_share = state.capacity, state.entry_link, state.entry_share
    members, pool, current = state.members, state.pool, state.current
    links, queue, count = state.links, state.queue, state.count
    shift = count.shift
    longest = 1 << shift
    weighted = len(entry_share) > 0
    share = 1.0
    queue.count.lowest = queue.count.last_bucket
    for index in range(count.dirty):
        link = state.dirty[index]
        state.is_dirty[link] = False
        _queue_revision(state, link)
    count.dirty = 0
    while queue.count.queued:
        bucket = lowest_bucket(queue)
        link = queue.first[bucket]
        level = links[link].level
        fits = _fitting(state, link)
        lowest = min(fits, level)
        if lowest == INFINITE:
            unqueue_link(queue, link)
            continue
        if lowest > queue.key[link]:
            queue.key[link] = lowest
            if bucket_of_level(queue, link) > bucket:
                unqueue_link(queue, link)
                queue_link(queue, link, lowest)
                continue
        start = state.segment[link]
        end = start + members[link]
        budget -= members[link]
        if budget < 0:
            while queue.count.queued:
                unqueue_link(queue, queue.first[lowest_bucket(queue)])
            return False

        if fits > level * (1.0 + slack):
            # The link's own flows may become faster: release the flows that no other link limits.
            rest = capacity[link]
            weight = 0.0
            active = 0.0
            for entry in range(start, end):
                own = pool[entry]
                flow = own >> shift
                rate = current[flow]
                if weighted:
                    share = entry_share[own]
                if rate * TIE < level:
                    rest -= share * rate
                    continue
                if rate < INFINITE:
                    if _is_held(state, flow, link, rate):
                        rest -= share * rate
                        continue
                    current[flow] = INFINITE
                    _note_touched(state, flow)
                    budget -= longest
                    _release(state, flow, link, rate)
                weight += share
                active += 1.0
            links[link].rest = rest
            links[link].weight = weight
            links[link].active = active
            links[link].level = INFINITE
            unqueue_link(queue, link)
            if active:
                queue_link(queue, link, rest / weight)
            continue

        # Flows faster than the key must become slower, whatever limits them elsewhere.
        while True:
            rest = capacity[link]
            weight = 0.0
            above = queue.key[link] * JUST_ABOVE
            for entry in range(start, end):
                rate = current[pool[entry] >> shift]
                if weighted:
                    share = entry_share[pool[entry]]
                if rate > above or rate * TIE >= level:
                    weight += share
                else:
                    rest -= share * rate
            fits = rest / weight if weight else INFINITE
            if fits <= above or fits >= level:
                break
            queue.key[link] = fits
            if bucket_of_level(queue, link) > bucket:
                break
            budget -= end - start
        if fits > above and fits < level and weight:
            unqueue_link(queue, link)
            queue_link(queue, link, fits)
            continue
        if fits > level * (1.0 + slack):
            # The level may rise after all; rounding errors of the sums had hidden this.
            _add_up(state, link)
            continue
        unqueue_link(queue, link)
        if not weight:
            links[link].level = INFINITE
            continue
        if level == INFINITE or abs(fits - level) > slack * level:
            level = fits
        rest = capacity[link]
        weight = 0.0
        active = 0.0
        links[link].level = level
        for entry in range(start, end):
            own = pool[entry]
            flow = own >> shift
            rate = current[flow]
            if weighted:
                share = entry_share[own]
            if rate * TIE < level:
                rest -= share * rate
                continue
            weight += share
            active += 1.0
            if rate <= level * JUST_ABOVE:
                continue
            current[flow] = level
            _note_touched(state, flow)
            base = flow << shift
            budget -= longest
            for hop in range(base, base + longest):
                other = entry_link[hop]
                if other < 0:
                    break
                limit = links[other].level
                if other == link or level * TIE >= limit:
                    continue
                part = entry_share[hop] if weighted else 1.0
                if rate * TIE >= limit:
                    links[other].rest -= part * level
                    links[other].weight -= part
                    links[other].active -= 1.0
                else:
                    links[other].rest += part * (rate - level)
                # A link that is not full needs no revision: it only gains free capacity.
                if limit < INFINITE and queue.bucket_of[other] < 0:
                    _queue_revision(state, other)
        links[link].rest = rest
        links[link].weight = weight
        links[link].active = active
    return True


@lean_njit()
def maxmin_solve(state, rate, changed, slack):
    """Update rates to max–min fair rates after flows have started and ended.

    `state`: a `MaxMinState`. `rate`, float64 [slots], bytes/ns: rates of the last solution, updated
    for the slots in use. `changed`, int32 [slots], written: slots of new flows and of flows whose
    rate has changed. `slack`: relative error allowed for the level of a link; 0 is exact. Returns
    the number of slots in `changed`.
    """
    hops, touched, current, count = state.hops, state.touched, state.current, state.count
    for index in range(count.touched):
        rate[touched[index]] = 0.0
    news = 0
    if _revise(state, (count.patience * count.entries >> 4) + 1000, max(slack, SAME)):
        count.patience += count.patience < MOST_PATIENCE
    else:
        fill_all(state)
        count.filled += 1
        count.patience = max(count.patience >> 1, 1)
        for flow in range(count.slots):
            touched[flow] = flow
        count.touched = count.slots
    for index in range(count.touched):
        flow = touched[index]
        state.is_touched[flow] = False
        if hops[flow] and abs(current[flow] - rate[flow]) > SAME * current[flow]:
            rate[flow] = current[flow]
            changed[news] = flow
            news += 1
    count.touched = 0
    return news
