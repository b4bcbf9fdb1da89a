"""Max–min fair rates of flows over links, kept while flows come and go."""

from numba import njit

# Places of `number`.
SHIFT = 0
POOL_END = 1
DIRTY = 2
PENDING = 3

#: Levels that differ by less than this part are the same.
SAME = 1e-12


@njit(cache=True)
def _lay_out_again(flow_hops, flow_link, flow_place, segment, room, count, pool, number):
    """Write every link's segment anew, each with room to grow."""
    shift = number[SHIFT]
    end = 0
    for link in range(len(count)):
        segment[link] = end
        room[link] = 2 * count[link] + 2
        end += room[link]
        count[link] = 0
    number[POOL_END] = end
    for flow in range(len(flow_hops)):
        base = flow << shift
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
        segment, room, count, pool, number, dirty, is_dirty, pending, is_pending,
    ) = state[:17]  # fmt: skip
    if not is_pending[flow]:
        is_pending[flow] = True
        pending[number[PENDING]] = flow
        number[PENDING] += 1
    base = flow << number[SHIFT]
    first = route_offset[route]
    hops = route_offset[route + 1] - first
    again = False
    for hop in range(hops):
        link = route_link[first + hop]
        flow_link[base + hop] = link
        if len(route_share):
            flow_share[base + hop] = route_share[first + hop]
        if not is_dirty[link]:
            is_dirty[link] = True
            dirty[number[DIRTY]] = link
            number[DIRTY] += 1
        if again:
            count[link] += 1
            continue
        if count[link] == room[link]:
            larger = 2 * room[link] + 2
            if number[POOL_END] + larger > len(pool):
                # The counts of this flow's links are those that the new layout needs.
                again = True
                count[link] += 1
                continue
            start = number[POOL_END]
            number[POOL_END] += larger
            old = segment[link]
            for place in range(count[link]):
                pool[start + place] = pool[old + place]
            segment[link] = start
            room[link] = larger
        flow_place[base + hop] = count[link]
        pool[segment[link] + count[link]] = base + hop
        count[link] += 1
    flow_hops[flow] = hops
    if again:
        _lay_out_again(flow_hops, flow_link, flow_place, segment, room, count, pool, number)


@njit(cache=True)
def maxmin_remove(state, flow):
    """A flow leaves its links; the others' rates come with the next solution."""
    (
        _, _, _, _, flow_hops, flow_link, flow_place, _,
        segment, _, count, pool, number, dirty, is_dirty,
    ) = state[:15]  # fmt: skip
    base = flow << number[SHIFT]
    for at in range(base, base + flow_hops[flow]):
        link = flow_link[at]
        count[link] -= 1
        last = pool[segment[link] + count[link]]
        pool[segment[link] + flow_place[at]] = last
        flow_place[last] = flow_place[at]
        if not is_dirty[link]:
            is_dirty[link] = True
            dirty[number[DIRTY]] = link
            number[DIRTY] += 1
    flow_hops[flow] = 0


@njit(cache=True, inline="always")
def _sift_up(heap_key, heap_link, place, key, link):
    while place:
        parent = (place - 1) >> 1
        if heap_key[parent] <= key:
            break
        heap_key[place] = heap_key[parent]
        heap_link[place] = heap_link[parent]
        place = parent
    heap_key[place] = key
    heap_link[place] = link


@njit(cache=True, inline="always")
def _sift_down(heap_key, heap_link, size, key, link):
    """Put an entry in place of the top."""
    place = 0
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
        place = child
    heap_key[place] = key
    heap_link[place] = link


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
    (
        capacity, _, _, _, flow_hops, flow_link, _, flow_share,
        segment, _, count, pool, number, dirty, is_dirty, pending, is_pending,
        rest, weight, active, heap_key, heap_link, done,
    ) = state  # fmt: skip
    shift = number[SHIFT]
    weighted = len(flow_share) > 0
    for place in range(number[PENDING]):
        is_pending[pending[place]] = False
        rate[pending[place]] = 0.0
    number[PENDING] = 0

    # Everything that shares a link, directly or through others, with what came or went.
    reached = number[DIRTY]
    place = 0
    while place < reached:
        link = dirty[place]
        place += 1
        start = segment[link]
        for entry in range(start, start + count[link]):
            flow = pool[entry] >> shift
            if done[flow]:
                continue
            done[flow] = True
            base = flow << shift
            for at in range(base, base + flow_hops[flow]):
                other = flow_link[at]
                if not is_dirty[other]:
                    is_dirty[other] = True
                    dirty[reached] = other
                    reached += 1
    number[DIRTY] = 0

    size = 0
    for place in range(reached):
        link = dirty[place]
        is_dirty[link] = False
        rest[link] = capacity[link]
        active[link] = count[link]
        if not count[link]:
            continue
        total = float(count[link])
        if weighted:
            total = 0.0
            for entry in range(segment[link], segment[link] + count[link]):
                total += flow_share[pool[entry]]
        weight[link] = total
        _sift_up(heap_key, heap_link, size, rest[link] / total, link)
        size += 1

    news = 0
    while size:
        key = heap_key[0]
        link = heap_link[0]
        if active[link]:
            level = max(rest[link], 0.0) / weight[link]
            if level > key * (1.0 + SAME):
                _sift_down(heap_key, heap_link, size, level, link)
                continue
        size -= 1
        _sift_down(heap_key, heap_link, size, heap_key[size], heap_link[size])
        if not active[link]:
            continue
        for entry in range(segment[link], segment[link] + count[link]):
            flow = pool[entry] >> shift
            if not done[flow]:
                continue
            done[flow] = False
            if abs(rate[flow] - level) > SAME * level:
                rate[flow] = level
                changed[news] = flow
                news += 1
            base = flow << shift
            for at in range(base, base + flow_hops[flow]):
                other = flow_link[at]
                share = flow_share[at] if weighted else 1.0
                rest[other] -= share * level
                weight[other] -= share
                active[other] -= 1
    return news
