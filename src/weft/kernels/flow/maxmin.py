"""Max–min fair rates of flows over links, kept while flows come and go.

A link is *full* at a level when no flow that crosses it is faster than the level and all of its
capacity is used; the flows at the level are its *own*. Rates are max–min fair when every flow is
a full link's own. What came or went only matters to links and flows at or above the lowest level
that it changes, so links are revised in ascending order of level, each only if the sum of its
flows no longer fits its level.
"""

from weft.kernels.flow.maxmin_fill import fill_all
from weft.kernels.flow.water_levels import (
    ACTIVE,
    DIRTY,
    ENTRIES,
    FILLED,
    INFINITE,
    JUST_ABOVE,
    LAST_BUCKET,
    LEVEL,
    LOWEST,
    PATIENCE,
    POOL_END,
    QUEUED,
    REST,
    REVISED,
    SAME,
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

#: How much revising may cost, in sixteenths of filling all; less after it was in vain.
MOST_PATIENCE = 32


@lean_njit()
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


@lean_njit()
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
    if hops < 1 << number[SHIFT]:
        flow_link[base + hops] = -1
    flow_hops[flow] = hops
    number[ENTRIES] += hops
    if again:
        _lay_out_again(flow_hops, flow_link, flow_place, segment, room, count, pool, number)


@lean_njit()
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


@lean_njit(inline="always")
def _fitting(capacity, links, link):
    """Level that fits the flows of a link, or one below it; infinite when there is room for all."""
    at = 4 * link
    if links[at + ACTIVE] > 0.0:
        return max(links[at + REST] / links[at + WEIGHT], 0.0)
    # Without active flows only flows that are too fast for it can fill a link.
    return INFINITE if links[at + REST] >= -SAME * capacity[link] else 0.0


@lean_njit(inline="always")
def _offer(capacity, links, queue, number, link):
    """See to it that a link is revised no later than its sum or its level asks for."""
    level = min(_fitting(capacity, links, link), links[4 * link + LEVEL])
    if queue[2][link] < 0:
        if level < INFINITE:
            queue_link(queue, number, link, level)
    elif level < queue[0][link]:
        unqueue_link(queue, number, link)
        queue_link(queue, number, link, level)


@lean_njit()
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


@lean_njit()
def _revise(state, budget, slack):
    """Revise links from the lowest level that changed upwards; False when it takes too long.

    A level that is off by less than the part `slack` stays.

    The rates are in `current`, and the flows that have or had another one in `touched`.
    """
    (
        capacity, _, _, _, _, flow_link, _, flow_share,
        segment, _, count, pool, number, dirty, is_dirty, touched, is_touched, current, links,
        key, key_bits, bucket_of, first, after, before, _, _,
    ) = state  # fmt: skip
    queue = (key, key_bits, bucket_of, first, after, before)
    shift = number[SHIFT]
    longest = 1 << shift
    weighted = len(flow_share) > 0
    share = 1.0
    number[LOWEST] = number[LAST_BUCKET]
    for place in range(number[DIRTY]):
        is_dirty[dirty[place]] = False
        _offer(capacity, links, queue, number, dirty[place])
    number[DIRTY] = 0
    while number[QUEUED]:
        bucket = lowest_bucket(queue, number)
        link = first[bucket]
        at = 4 * link
        level = links[at + LEVEL]
        fits = _fitting(capacity, links, link)
        lowest = min(fits, level)
        if lowest == INFINITE:
            unqueue_link(queue, number, link)
            continue
        if lowest > key[link]:
            key[link] = lowest
            if bucket_of_level(key_bits, number, link) > bucket:
                unqueue_link(queue, number, link)
                queue_link(queue, number, link, lowest)
                continue
        start = segment[link]
        end = start + count[link]
        budget -= count[link]
        if budget < 0:
            while number[QUEUED]:
                unqueue_link(queue, number, first[lowest_bucket(queue, number)])
            return False

        if fits > level * (1.0 + slack):
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
                    base = flow << shift
                    held = False
                    for hop in range(base, base + longest):
                        other = flow_link[hop]
                        if other < 0:
                            break
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
                    budget -= longest
                    for hop in range(base, base + longest):
                        other = flow_link[hop]
                        if other < 0:
                            break
                        if other == link:
                            continue
                        part = flow_share[hop] if weighted else 1.0
                        links[4 * other + REST] += part * rate
                        links[4 * other + WEIGHT] += part
                        links[4 * other + ACTIVE] += 1.0
                        _offer(capacity, links, queue, number, other)
                weight += share
                active += 1.0
            links[at + REST] = rest
            links[at + WEIGHT] = weight
            links[at + ACTIVE] = active
            links[at + LEVEL] = INFINITE
            unqueue_link(queue, number, link)
            if active:
                queue_link(queue, number, link, rest / weight)
            continue

        # Flows above the key cannot stay so, whatever else holds them.
        while True:
            rest = capacity[link]
            weight = 0.0
            above = key[link] * JUST_ABOVE
            for entry in range(start, end):
                rate = current[pool[entry] >> shift]
                if weighted:
                    share = flow_share[pool[entry]]
                if rate > above or rate * TIE >= level:
                    weight += share
                else:
                    rest -= share * rate
            fits = rest / weight if weight else INFINITE
            if fits <= above or fits >= level:
                break
            key[link] = fits
            if bucket_of_level(key_bits, number, link) > bucket:
                break
            budget -= end - start
        if fits > above and fits < level and weight:
            unqueue_link(queue, number, link)
            queue_link(queue, number, link, fits)
            continue
        if fits > level * (1.0 + slack):
            # Only rounding hid it until now.
            _add_up(capacity, segment, count, pool, flow_share, current, links, link, shift)
            continue
        unqueue_link(queue, number, link)
        if not weight:
            links[at + LEVEL] = INFINITE
            continue
        if level == INFINITE or abs(fits - level) > slack * level:
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
            base = flow << shift
            budget -= longest
            for hop in range(base, base + longest):
                other = flow_link[hop]
                if other < 0:
                    break
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
                if limit < INFINITE and bucket_of[other] < 0:
                    _offer(capacity, links, queue, number, other)
        links[at + REST] = rest
        links[at + WEIGHT] = weight
        links[at + ACTIVE] = active
    return True


@lean_njit()
def maxmin_solve(state, rate, changed, slack):
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
    slack
        Part of it by which the level of a link may be off; 0 is exact.

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
    if _revise(state, (number[PATIENCE] * number[ENTRIES] >> 4) + 1000, max(slack, SAME)):
        number[REVISED] += 1
        number[PATIENCE] += number[PATIENCE] < MOST_PATIENCE
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
        fill_all(state)
        number[FILLED] += 1
        number[PATIENCE] = max(number[PATIENCE] >> 1, 1)
        for flow in range(number[SLOTS]):
            if not flow_hops[flow]:
                continue
            if abs(current[flow] - rate[flow]) > SAME * current[flow]:
                rate[flow] = current[flow]
                changed[news] = flow
                news += 1
    number[TOUCHED] = 0
    return news
