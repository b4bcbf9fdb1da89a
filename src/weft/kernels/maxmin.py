"""Max–min fair rates of flows over links, kept while flows come and go.

A link is *full* at a level when no flow that crosses it is faster than the level and all of its
capacity is used; the flows at the level are its *own*. Rates are max–min fair when every flow is
a full link's own. What came or went only matters to links and flows at or above the lowest level
that it changes, so links are revised in ascending order of level, each only if the sum of its
flows no longer fits its level.
"""

import numpy as np
from numba import njit

# Places of `number`.
SHIFT = 0
POOL_END = 1
DIRTY = 2
TOUCHED = 3
SLOTS = 4
ENTRIES = 5
FULL = 6
REVISED = 7

# Of each link, in `links`, four numbers in a row. Flows slower than the level hold what they use;
# all others, and those without a rate, are active.
REST = 0  # capacity that no holding flow uses
WEIGHT = 1  # parts of the active flows' rates that cross the link, added up
ACTIVE = 2  # how many flows are active
LEVEL = 3  # infinite when the link is not full

#: Levels that differ by less than this part are the same.
SAME = 1e-12
#: A flow slower than a level by less than this part is at the level.
TIE = 1.0 + 1e-11
JUST_ABOVE = 1.0 + SAME

INFINITE = np.inf


@njit(cache=True)
def _lay_out_again(flow_hops, flow_link, flow_place, segment, room, count, pool, number):
    """Write every link's list of flows anew, each with room to grow."""
    end = 0
    for link in range(len(count)):
        segment[link] = end
        room[link] = 2 * count[link] + 2
        end += room[link]
        count[link] = 0
    number[POOL_END] = end
    for flow in range(number[SLOTS]):
        base = flow << number[SHIFT]
        for at in range(base, base + flow_hops[flow]):
            link = flow_link[at]
            flow_place[at] = count[link]
            pool[segment[link] + count[link]] = at
            count[link] += 1


@njit(cache=True)
def maxmin_add(state, flow, route):
    """A flow starts to use the links of a route; its rate comes with the next solution.

    Parameters
    ----------
    state
        Of `weft.sim.flow.maxmin.maxmin_state`.
    flow
        Slot that no flow uses now.
    route
        Route of at least one link.
    """
    (
        _, route_offset, route_link, route_share, flow_hops, flow_link, flow_place, flow_share,
        segment, room, count, pool, number, dirty, is_dirty, touched, is_touched, current, links,
    ) = state[:19]  # fmt: skip
    current[flow] = INFINITE
    number[SLOTS] = max(number[SLOTS], flow + 1)
    if not is_touched[flow]:
        is_touched[flow] = True
        touched[number[TOUCHED]] = flow
        number[TOUCHED] += 1
    base = flow << number[SHIFT]
    first = route_offset[route]
    hops = route_offset[route + 1] - first
    again = False
    for hop in range(hops):
        link = route_link[first + hop]
        flow_link[base + hop] = link
        share = 1.0
        if len(route_share):
            share = route_share[first + hop]
            flow_share[base + hop] = share
        links[4 * link + WEIGHT] += share
        links[4 * link + ACTIVE] += 1.0
        if not is_dirty[link]:
            is_dirty[link] = True
            dirty[number[DIRTY]] = link
            number[DIRTY] += 1
        if not again and count[link] == room[link]:
            larger = 2 * room[link] + 2
            again = number[POOL_END] + larger > len(pool)
            if not again:
                start = number[POOL_END]
                number[POOL_END] += larger
                old = segment[link]
                for place in range(count[link]):
                    pool[start + place] = pool[old + place]
                segment[link] = start
                room[link] = larger
        if not again:
            flow_place[base + hop] = count[link]
            pool[segment[link] + count[link]] = base + hop
        # The new layout needs the counts of links that are not in the old one any more.
        count[link] += 1
    flow_hops[flow] = hops
    number[ENTRIES] += hops
    if again:
        _lay_out_again(flow_hops, flow_link, flow_place, segment, room, count, pool, number)


@njit(cache=True)
def maxmin_remove(state, flow):
    """A flow leaves its links; the others' rates come with the next solution."""
    (
        _, _, _, _, flow_hops, flow_link, flow_place, flow_share,
        segment, _, count, pool, number, dirty, is_dirty, _, _, current, links,
    ) = state[:19]  # fmt: skip
    base = flow << number[SHIFT]
    rate = current[flow]
    for at in range(base, base + flow_hops[flow]):
        link = flow_link[at]
        count[link] -= 1
        last = pool[segment[link] + count[link]]
        pool[segment[link] + flow_place[at]] = last
        flow_place[last] = flow_place[at]
        share = flow_share[at] if len(flow_share) else 1.0
        if rate * TIE >= links[4 * link + LEVEL]:
            links[4 * link + WEIGHT] -= share
            links[4 * link + ACTIVE] -= 1.0
        else:
            links[4 * link + REST] += share * rate
        if not is_dirty[link]:
            is_dirty[link] = True
            dirty[number[DIRTY]] = link
            number[DIRTY] += 1
    number[ENTRIES] -= flow_hops[flow]
    flow_hops[flow] = 0


@njit(cache=True)
def _put(heap_key, heap_link, heap_place, place, size, key, link):
    """Put an entry where one is missing, or replace one, and restore the order of the heap."""
    while place:
        parent = (place - 1) >> 1
        if heap_key[parent] <= key:
            break
        heap_key[place] = heap_key[parent]
        heap_link[place] = heap_link[parent]
        heap_place[heap_link[place]] = place
        place = parent
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap_key[child + 1] < heap_key[child]:
            child += 1
        if heap_key[child] >= key:
            break
        heap_key[place] = heap_key[child]
        heap_link[place] = heap_link[child]
        heap_place[heap_link[place]] = place
        place = child
    heap_key[place] = key
    heap_link[place] = link
    heap_place[link] = place


@njit(cache=True)
def _take(heap_key, heap_link, heap_place, place, size):
    """Remove an entry of a heap; return what is left of its size."""
    heap_place[heap_link[place]] = -1
    size -= 1
    if place < size:
        _put(heap_key, heap_link, heap_place, place, size, heap_key[size], heap_link[size])
    return size


@njit(cache=True)
def _fitting(capacity, links, link):
    """Level that fits the flows of a link, or one below it; infinite when there is room for all."""
    at = 4 * link
    if links[at + ACTIVE] > 0.0:
        return max(links[at + REST] / links[at + WEIGHT], 0.0)
    # Without active flows only flows that are too fast for it can fill a link.
    return INFINITE if links[at + REST] >= -SAME * capacity[link] else 0.0


@njit(cache=True)
def _offer(capacity, links, heap_key, heap_link, heap_place, size, link):
    """See to it that a link is revised no later than its sum or its level asks for."""
    key = min(_fitting(capacity, links, link), links[4 * link + LEVEL])
    place = heap_place[link]
    if place < 0:
        if key < INFINITE:
            _put(heap_key, heap_link, heap_place, size, size + 1, key, link)
            size += 1
    elif key < heap_key[place]:
        _put(heap_key, heap_link, heap_place, place, size, key, link)
    return size


@njit(cache=True)
def _add_up(capacity, segment, count, pool, flow_share, current, links, link, shift):
    """Add up anew what holds and what is active at a link."""
    rest = capacity[link]
    weight = 0.0
    active = 0.0
    for entry in range(segment[link], segment[link] + count[link]):
        rate = current[pool[entry] >> shift]
        share = flow_share[pool[entry]] if len(flow_share) else 1.0
        if rate * TIE < links[4 * link + LEVEL]:
            rest -= share * rate
        else:
            weight += share
            active += 1.0
    links[4 * link + REST] = rest
    links[4 * link + WEIGHT] = weight
    links[4 * link + ACTIVE] = active


@njit(cache=True)
def _revise(state, budget):
    """Revise links from the lowest level that changed upwards; False when it takes too long.

    The rates are in `current`, and the flows that have or had another one in `touched`.
    """
    (
        capacity, _, _, _, flow_hops, flow_link, _, flow_share,
        segment, _, count, pool, number, dirty, is_dirty, touched, is_touched, current, links,
        heap_key, heap_link, heap_place,
    ) = state  # fmt: skip
    shift = number[SHIFT]
    weighted = len(flow_share) > 0
    share = 1.0
    size = 0
    for place in range(number[DIRTY]):
        is_dirty[dirty[place]] = False
        size = _offer(capacity, links, heap_key, heap_link, heap_place, size, dirty[place])
    number[DIRTY] = 0
    while size:
        key = heap_key[0]
        link = heap_link[0]
        at = 4 * link
        level = links[at + LEVEL]
        fits = _fitting(capacity, links, link)
        lowest = min(fits, level)
        if lowest == INFINITE:
            size = _take(heap_key, heap_link, heap_place, 0, size)
            continue
        if lowest > key * JUST_ABOVE:
            _put(heap_key, heap_link, heap_place, 0, size, lowest, link)
            continue
        start = segment[link]
        end = start + count[link]
        budget -= count[link]
        if budget < 0:
            for place in range(size):
                heap_place[heap_link[place]] = -1
            return False

        if fits > level * JUST_ABOVE:
            # Its own flows may be faster: from here on nothing but other links holds them.
            rest = capacity[link]
            weight = 0.0
            active = 0.0
            for entry in range(start, end):
                own = pool[entry]
                flow = own >> shift
                rate = current[flow]
                if weighted:
                    share = flow_share[own]
                if rate * TIE < level:
                    rest -= share * rate
                    continue
                if rate < INFINITE:
                    first = flow << shift
                    last = first + flow_hops[flow]
                    held = False
                    for hop in range(first, last):
                        other = flow_link[hop]
                        if other != link and links[4 * other + LEVEL] <= rate * TIE:
                            held = True
                            break
                    if held:
                        rest -= share * rate
                        continue
                    current[flow] = INFINITE
                    if not is_touched[flow]:
                        is_touched[flow] = True
                        touched[number[TOUCHED]] = flow
                        number[TOUCHED] += 1
                    budget -= last - first
                    for hop in range(first, last):
                        other = flow_link[hop]
                        if other == link:
                            continue
                        part = flow_share[hop] if weighted else 1.0
                        links[4 * other + REST] += part * rate
                        links[4 * other + WEIGHT] += part
                        links[4 * other + ACTIVE] += 1.0
                        size = _offer(capacity, links, heap_key, heap_link, heap_place, size, other)
                weight += share
                active += 1.0
            links[at + REST] = rest
            links[at + WEIGHT] = weight
            links[at + ACTIVE] = active
            links[at + LEVEL] = INFINITE
            place = heap_place[link]
            if active:
                _put(heap_key, heap_link, heap_place, place, size, rest / weight, link)
            else:
                size = _take(heap_key, heap_link, heap_place, place, size)
            continue

        # Flows above the key cannot stay so, whatever else holds them.
        rest = capacity[link]
        weight = 0.0
        for entry in range(start, end):
            rate = current[pool[entry] >> shift]
            if weighted:
                share = flow_share[pool[entry]]
            if rate > key * JUST_ABOVE or rate * TIE >= level:
                weight += share
            else:
                rest -= share * rate
        if weight == 0.0:
            links[at + LEVEL] = INFINITE
            size = _take(heap_key, heap_link, heap_place, 0, size)
            continue
        fits = rest / weight
        if fits > key * JUST_ABOVE and fits < level:
            _put(heap_key, heap_link, heap_place, 0, size, fits, link)
            continue
        if fits > level * JUST_ABOVE:
            # Only rounding hid it until now.
            _add_up(capacity, segment, count, pool, flow_share, current, links, link, shift)
            continue
        size = _take(heap_key, heap_link, heap_place, 0, size)
        if level == INFINITE or abs(fits - level) > SAME * level:
            level = fits
        rest = capacity[link]
        weight = 0.0
        active = 0.0
        links[at + LEVEL] = level
        for entry in range(start, end):
            own = pool[entry]
            flow = own >> shift
            rate = current[flow]
            if weighted:
                share = flow_share[own]
            if rate * TIE < level:
                rest -= share * rate
                continue
            weight += share
            active += 1.0
            if rate <= level * JUST_ABOVE:
                continue
            current[flow] = level
            if not is_touched[flow]:
                is_touched[flow] = True
                touched[number[TOUCHED]] = flow
                number[TOUCHED] += 1
            first = flow << shift
            last = first + flow_hops[flow]
            budget -= last - first
            for hop in range(first, last):
                other = flow_link[hop]
                beside = 4 * other
                limit = links[beside + LEVEL]
                if other == link or level * TIE >= limit:
                    continue
                part = flow_share[hop] if weighted else 1.0
                if rate * TIE >= limit:
                    links[beside + REST] -= part * level
                    links[beside + WEIGHT] -= part
                    links[beside + ACTIVE] -= 1.0
                else:
                    links[beside + REST] += part * (rate - level)
                # A link that is not full has only more room now.
                if limit < INFINITE and heap_place[other] < 0:
                    size = _offer(capacity, links, heap_key, heap_link, heap_place, size, other)
        links[at + REST] = rest
        links[at + WEIGHT] = weight
        links[at + ACTIVE] = active
    return True


@njit(cache=True)
def _fill(state):
    """Rates of all flows from nothing, by filling one link after the other."""
    (
        capacity, _, _, _, flow_hops, flow_link, _, flow_share,
        segment, _, count, pool, number, dirty, is_dirty, _, _, current, links,
        heap_key, heap_link, heap_place,
    ) = state  # fmt: skip
    shift = number[SHIFT]
    weighted = len(flow_share) > 0
    share = 1.0
    for place in range(number[DIRTY]):
        is_dirty[dirty[place]] = False
    number[DIRTY] = 0
    for flow in range(number[SLOTS]):
        if flow_hops[flow]:
            current[flow] = INFINITE
    size = 0
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
            _put(
                heap_key, heap_link, heap_place, size, size + 1, capacity[link] / weight, link
            )  # fmt: skip
            size += 1
    while size:
        key = heap_key[0]
        link = heap_link[0]
        at = 4 * link
        if links[at + ACTIVE] == 0.0:
            size = _take(heap_key, heap_link, heap_place, 0, size)
            continue
        level = links[at + REST] / links[at + WEIGHT]
        if level > key * JUST_ABOVE:
            _put(heap_key, heap_link, heap_place, 0, size, level, link)
            continue
        size = _take(heap_key, heap_link, heap_place, 0, size)
        links[at + LEVEL] = level
        for entry in range(segment[link], segment[link] + count[link]):
            own = pool[entry]
            flow = own >> shift
            rate = current[flow]
            if weighted:
                share = flow_share[own]
            if rate < INFINITE:
                if rate * TIE >= level:
                    links[at + REST] += share * rate
                    links[at + WEIGHT] += share
                    links[at + ACTIVE] += 1.0
                continue
            current[flow] = level
            first = flow << shift
            for hop in range(first, first + flow_hops[flow]):
                other = flow_link[hop]
                if other == link:
                    continue
                part = flow_share[hop] if weighted else 1.0
                links[4 * other + REST] -= part * level
                links[4 * other + WEIGHT] -= part
                links[4 * other + ACTIVE] -= 1.0


@njit(cache=True)
def maxmin_solve(state, rate, changed):
    """Bring rates to the max–min fair ones after flows came and went.

    Parameters
    ----------
    state
        Of `weft.sim.flow.maxmin.maxmin_state`.
    rate
        float64 [slots], bytes/ns; holds what the last solution wrote, and is brought up to date
        for the slots in use.
    changed
        int32 [slots]; receives the slots whose rate changed, and those added since.

    Returns
    -------
    int
        How many slots `changed` lists.
    """
    flow_hops = state[4]
    number = state[12]
    touched = state[15]
    is_touched = state[16]
    current = state[17]
    for place in range(number[TOUCHED]):
        rate[touched[place]] = 0.0
    news = 0
    if _revise(state, number[ENTRIES] // 2 + 1000):
        number[REVISED] += 1
        for place in range(number[TOUCHED]):
            flow = touched[place]
            is_touched[flow] = False
            if not flow_hops[flow]:
                continue
            if abs(current[flow] - rate[flow]) > SAME * current[flow]:
                rate[flow] = current[flow]
                changed[news] = flow
                news += 1
    else:
        _fill(state)
        number[FULL] += 1
        for place in range(number[TOUCHED]):
            is_touched[touched[place]] = False
        for flow in range(number[SLOTS]):
            if not flow_hops[flow]:
                continue
            if abs(current[flow] - rate[flow]) > SAME * current[flow]:
                rate[flow] = current[flow]
                changed[news] = flow
                news += 1
    number[TOUCHED] = 0
    return news
