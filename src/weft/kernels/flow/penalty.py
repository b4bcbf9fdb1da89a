"""Rates by the contention-graph model over links, kept while flows come and go.

`docs/contention-model.md` derives the law: penalties of the adapters' contention graph, a fair
level at every link inside the fabric that is asked for more than it carries, and back-pressure.
"""

import numpy as np

from weft.kernels.flow.contention_steps import added_penalty, demand, full_rate_penalty
from weft.kernels.lean import lean_njit

# Places of `number`.
SHIFT = 0
SENDERS = 1
RECEIVERS = 2
LINKS = 3
PENDING = 4

# Rows of `node`: whole numbers of each adapter.
OUT = 0  # flows that it sends
INTO = 1  # flows that it receives
FULL = 2  # flows into it whose sender sends nothing else
LEAST = 3  # fewest and most flows that a sender to it sends
MOST = 4
FULL_TOTAL = 5  # full-rate flows at the receivers of its flows: all, and most at one
FULL_MOST = 6
PARALLEL = 7  # scratch: flows of one sender into it; 0 between uses
OUT_HEAD = 8  # first of the lists of flows that it sends and receives
IN_HEAD = 9
# Rows of `amount`: what c and rho' of the model sum up to.
ASKED = 0
CONFLICTS = 1
SLOWER = 2
# Rows of `flow_int`.
ROUTE = 0
SOURCE = 1
DESTINATION = 2
OUT_NEXT = 3
OUT_BACK = 4
IN_NEXT = 5
IN_BACK = 6
# Rows of `flow_float`.
SENDER = 0  # rate of the sending adapter, bytes/ns; penalties are what it is divided by
OWN = 1  # penalty of the adapters before back-pressure
ADAPTER = 2  # and with it
TOP = 3  # scratch: penalty with links, before back-pressure
# Bits of `mark`.
SENDS = 1
RECEIVES = 2
CHANGED = 4
TOUCHED = 8
RENEWED = 16

#: Values that differ by less than this part are the same.
SAME = 1e-12


@lean_njit(inline="always")
def _note(mark, bit, listed, node, number, place):
    """Put a node on a list, once."""
    if not mark[node] & bit:
        mark[node] |= bit
        listed[number[place]] = node
        number[place] += 1


@lean_njit(inline="always")
def _differs(a, b):
    return abs(a - b) > SAME * abs(b)


@lean_njit(inline="always")
def _put(node, flow_int, head, after, before, at, flow):
    """Put a flow on one of an adapter's lists."""
    first = node[head, at]
    flow_int[after, flow] = first
    flow_int[before, flow] = -1
    if first >= 0:
        flow_int[before, first] = flow
    node[head, at] = flow


@lean_njit(inline="always")
def _take(node, flow_int, head, after, before, at, flow):
    """Take a flow from one of an adapter's lists."""
    following, previous = flow_int[after, flow], flow_int[before, flow]
    if following >= 0:
        flow_int[before, following] = previous
    if previous >= 0:
        flow_int[after, previous] = following
    else:
        node[head, at] = following


@lean_njit()
def _note_links(state, flow):
    """The links inside the fabric that a flow crosses must be shared anew."""
    _, route_offset, route_link, _, inner, _, _, flow_int = state[:8]
    number, link_mark, links = state[13:16]
    route = flow_int[ROUTE, flow]
    for at in range(route_offset[route], route_offset[route + 1]):
        link = route_link[at]
        if inner[link] and not link_mark[link]:
            link_mark[link] = True
            links[number[LINKS]] = link
            number[LINKS] += 1


@lean_njit()
def penalty_add(state, flow, route, source, destination):
    """A flow starts between two adapters; its rate comes with the next solution.

    Parameters
    ----------
    state
        Of `weft.contention.penalty_state.penalty_state`.
    flow
        Slot that no flow uses now.
    route
        Route of at least one link.
    source, destination
        Adapters that send and receive, of those that the state was made for; not the same.
    """
    (
        _, route_offset, route_link, _, inner, route_ends, node, flow_int, flow_float, entry_next,
        entry_back, link_head, mark, number, _, _, senders, receivers, pending, is_pending,
    ) = state[:20]  # fmt: skip
    if not is_pending[flow]:
        is_pending[flow] = True
        pending[number[PENDING]] = flow
        number[PENDING] += 1
    flow_int[ROUTE, flow] = route
    flow_int[SOURCE, flow] = source
    flow_int[DESTINATION, flow] = destination
    flow_float[SENDER, flow] = route_ends[0, route]
    _put(node, flow_int, OUT_HEAD, OUT_NEXT, OUT_BACK, source, flow)
    _put(node, flow_int, IN_HEAD, IN_NEXT, IN_BACK, destination, flow)
    node[OUT, source] += 1
    node[INTO, destination] += 1
    entry = flow << number[SHIFT]
    for at in range(route_offset[route], route_offset[route + 1]):
        link = route_link[at]
        if inner[link]:
            first = link_head[link]
            entry_next[entry] = first
            entry_back[entry] = -1
            if first >= 0:
                entry_back[first] = entry
            link_head[link] = entry
        entry += 1
    _note(mark, SENDS, senders, source, number, SENDERS)
    _note(mark, RECEIVES, receivers, destination, number, RECEIVERS)
    _note_links(state, flow)


@lean_njit()
def penalty_remove(state, flow, source, destination):
    """A flow ends; the others' rates come with the next solution."""
    (
        _, route_offset, route_link, _, inner, _, node, flow_int, _, entry_next,
        entry_back, link_head, mark, number, _, _, senders, receivers,
    ) = state[:18]  # fmt: skip
    _take(node, flow_int, OUT_HEAD, OUT_NEXT, OUT_BACK, source, flow)
    _take(node, flow_int, IN_HEAD, IN_NEXT, IN_BACK, destination, flow)
    node[OUT, source] -= 1
    node[INTO, destination] -= 1
    route = flow_int[ROUTE, flow]
    entry = flow << number[SHIFT]
    for at in range(route_offset[route], route_offset[route + 1]):
        link = route_link[at]
        if inner[link]:
            after, before = entry_next[entry], entry_back[entry]
            if after >= 0:
                entry_back[after] = before
            if before >= 0:
                entry_next[before] = after
            else:
                link_head[link] = after
        entry += 1
    _note(mark, SENDS, senders, source, number, SENDERS)
    _note(mark, RECEIVES, receivers, destination, number, RECEIVERS)
    _note_links(state, flow)


@lean_njit()
def _count_receiver(coefficients, node, amount, flow_int, d):
    """Count the flows into an adapter by their senders; return whether a count changed."""
    full, least, most, asked = 0, 1 << 30, 0, 0.0
    flow = node[IN_HEAD, d]
    while flow >= 0:
        out = node[OUT, flow_int[SOURCE, flow]]
        full += out == 1
        least = min(least, out)
        most = max(most, out)
        asked += demand(coefficients, out)
        flow = flow_int[IN_NEXT, flow]
    changed = (
        full != node[FULL, d] or least != node[LEAST, d] or most != node[MOST, d]
        or _differs(asked, amount[ASKED, d])
    )  # fmt: skip
    node[FULL, d] = full
    node[LEAST, d] = least
    node[MOST, d] = most
    amount[ASKED, d] = asked
    return changed


@lean_njit()
def _count_sender(coefficients, node, amount, flow_int, s):
    """Count the conflicts of an adapter's flows; return whether those with full-rate ones changed.

    Leaves the numbers of parallel flows in PARALLEL; `_clear_parallel` takes them back.
    """
    total, most, conflicts = 0, 0, 0.0
    each = demand(coefficients, max(node[OUT, s], 1))
    flow = node[OUT_HEAD, s]
    while flow >= 0:
        node[PARALLEL, flow_int[DESTINATION, flow]] += 1
        flow = flow_int[OUT_NEXT, flow]
    flow = node[OUT_HEAD, s]
    while flow >= 0:
        d = flow_int[DESTINATION, flow]
        parallel = node[PARALLEL, d]
        if node[INTO, d] > parallel:
            conflicts += max(0.0, amount[ASKED, d] - parallel * each)
        total += node[FULL, d]
        most = max(most, node[FULL, d])
        flow = flow_int[OUT_NEXT, flow]
    if node[OUT, s] <= 1:
        total = most = 0  # it is a full-rate sender itself
    changed = total != node[FULL_TOTAL, s] or most != node[FULL_MOST, s]
    node[FULL_TOTAL, s] = total
    node[FULL_MOST, s] = most
    amount[CONFLICTS, s] = conflicts
    return changed


@lean_njit()
def _clear_parallel(node, flow_int, s):
    flow = node[OUT_HEAD, s]
    while flow >= 0:
        node[PARALLEL, flow_int[DESTINATION, flow]] = 0
        flow = flow_int[OUT_NEXT, flow]


@lean_njit(inline="always")
def _part(entry, shift, flow_int, route_offset, route_share):
    """Share of its flow that an entry carries over its link."""
    if len(route_share) == 0:
        return 1.0
    flow = entry >> shift
    return route_share[route_offset[flow_int[ROUTE, flow]] + entry - (flow << shift)]


@lean_njit()
def _level(capacity, head, entry_next, shift, flow_int, flow_float, route_offset, route_share):
    """The rate above which a link cuts its flows; infinite when it carries what it is asked for.

    What is asked for is `SENDER` / `ADAPTER`, or its share where routes split.
    """
    asked, weight = 0.0, 0.0
    entry = head
    while entry >= 0:
        flow = entry >> shift
        part = _part(entry, shift, flow_int, route_offset, route_share)
        asked += part * flow_float[SENDER, flow] / flow_float[ADAPTER, flow]
        weight += part
        entry = entry_next[entry]
    if asked <= capacity * (1.0 + SAME):
        return np.inf
    level = capacity / weight
    while True:
        left, weight = capacity, 0.0
        entry = head
        while entry >= 0:
            flow = entry >> shift
            part = _part(entry, shift, flow_int, route_offset, route_share)
            wanted = flow_float[SENDER, flow] / flow_float[ADAPTER, flow]
            if wanted <= level:
                left -= part * wanted
            else:
                weight += part
            entry = entry_next[entry]
        if weight == 0.0 or left <= level * weight * (1.0 + SAME):
            return level
        level = left / weight


@lean_njit(inline="always")
def _own(coefficients, out, added, sender, receiver):
    """Penalty of the adapters before back-pressure, over the rate of the sender.

    The model has adapters of one speed. Where one end is faster than the other, its share is that
    of as many flows as it takes to fill it: a receiver twice as fast as its senders is shared by
    two without loss, and so is a sender by two slow receivers.
    """
    rate = min(sender, receiver)
    share = coefficients[0] + coefficients[1] * out
    share = max(share * rate / sender, min(share, 1.0))
    return max(1.0, share, (share + added) * rate / receiver) * sender / rate


@lean_njit()
def penalty_solve(state, rate, changed):
    """Bring rates to those of the model after flows came and went.

    Parameters
    ----------
    state
        Of `weft.contention.penalty_state.penalty_state`.
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
        capacity, route_offset, route_link, route_share, inner, route_ends, node, flow_int,
        flow_float, entry_next, _, link_head, mark, number, link_mark, links, senders, receivers,
        pending, is_pending, coefficients, amount, link_level,
    ) = state  # fmt: skip
    shift = number[SHIFT]
    back = coefficients[6]
    for place in range(number[PENDING]):
        is_pending[pending[place]] = False
        rate[pending[place]] = 0.0
    number[PENDING] = 0

    # Receivers: those of flows that came or went, and of all flows of a sender whose number of
    # flows did.
    for place in range(number[RECEIVERS]):
        mark[receivers[place]] |= CHANGED
    for place in range(number[SENDERS]):
        s = senders[place]
        mark[s] |= TOUCHED | RENEWED
        flow = node[OUT_HEAD, s]
        while flow >= 0:
            _note(mark, RECEIVES, receivers, flow_int[DESTINATION, flow], number, RECEIVERS)
            flow = flow_int[OUT_NEXT, flow]
    for place in range(number[RECEIVERS]):
        d = receivers[place]
        if _count_receiver(coefficients, node, amount, flow_int, d):
            mark[d] |= CHANGED
        if mark[d] & CHANGED:
            flow = node[IN_HEAD, d]
            while flow >= 0:
                _note(mark, TOUCHED, senders, flow_int[SOURCE, flow], number, SENDERS)
                flow = flow_int[IN_NEXT, flow]
    # Conflicts with full-rate senders decide, over rule (b), about the flows of those.
    for place in range(number[SENDERS]):
        s = senders[place]
        renewed = _count_sender(coefficients, node, amount, flow_int, s)
        _clear_parallel(node, flow_int, s)
        if renewed or mark[s] & RENEWED:
            flow = node[OUT_HEAD, s]
            while flow >= 0:
                d = flow_int[DESTINATION, flow]
                if not mark[d] & CHANGED:
                    _note(mark, RECEIVES, receivers, d, number, RECEIVERS)
                    mark[d] |= CHANGED
                flow = flow_int[OUT_NEXT, flow]
    for place in range(number[RECEIVERS]):
        d = receivers[place]
        if not mark[d] & CHANGED or node[FULL, d] != 1 or node[INTO, d] < 2:
            continue
        slower, only = 0.0, -1
        flow = node[IN_HEAD, d]
        while flow >= 0:
            s = flow_int[SOURCE, flow]
            out = node[OUT, s]
            if out == 1:
                only = s
            else:
                slower = max(
                    slower,
                    full_rate_penalty(
                        coefficients, out, 1, node[FULL_TOTAL, s], node[FULL_MOST, s]
                    ),
                )
            flow = flow_int[IN_NEXT, flow]
        if _differs(slower, amount[SLOWER, d]):
            _note(mark, TOUCHED, senders, only, number, SENDERS)
        amount[SLOWER, d] = slower
    for place in range(number[RECEIVERS]):
        mark[receivers[place]] &= ~(RECEIVES | CHANGED)
    number[RECEIVERS] = 0

    # Penalties of the adapters, and the links that are now asked for more or less.
    for place in range(number[SENDERS]):
        s = senders[place]
        out = node[OUT, s]
        each = demand(coefficients, max(out, 1))
        top = 1.0
        flow = node[OUT_HEAD, s]
        while flow >= 0:
            node[PARALLEL, flow_int[DESTINATION, flow]] += 1
            flow = flow_int[OUT_NEXT, flow]
        flow = node[OUT_HEAD, s]
        while flow >= 0:
            d = flow_int[DESTINATION, flow]
            parallel = node[PARALLEL, d]
            added = added_penalty(
                coefficients, out, node[INTO, d] - parallel,
                max(0.0, amount[ASKED, d] - parallel * each), amount[CONFLICTS, s], node[INTO, d],
                node[LEAST, d], node[MOST, d], node[FULL, d], amount[SLOWER, d],
            )  # fmt: skip
            route = flow_int[ROUTE, flow]
            own = _own(coefficients, out, added, route_ends[0, route], route_ends[1, route])
            flow_float[OWN, flow] = own
            top = max(top, own)
            flow = flow_int[OUT_NEXT, flow]
        flow = node[OUT_HEAD, s]
        while flow >= 0:
            node[PARALLEL, flow_int[DESTINATION, flow]] = 0
            own = flow_float[OWN, flow]
            own += back * (top - own)
            if _differs(own, flow_float[ADAPTER, flow]):
                flow_float[ADAPTER, flow] = own
                _note_links(state, flow)
            flow = flow_int[OUT_NEXT, flow]
    for place in range(number[LINKS]):
        link = links[place]
        link_mark[link] = False
        level = _level(
            capacity[link], link_head[link], entry_next, shift, flow_int, flow_float,
            route_offset, route_share,
        )  # fmt: skip
        if level == link_level[link]:
            continue
        if level < np.inf and not _differs(link_level[link], level):
            continue
        link_level[link] = level
        entry = link_head[link]
        while entry >= 0:
            s = flow_int[SOURCE, entry >> shift]
            _note(mark, TOUCHED, senders, s, number, SENDERS)
            entry = entry_next[entry]
    number[LINKS] = 0

    # Rates: what adapters and links leave, and back-pressure on everything a sender sends.
    news = 0
    for place in range(number[SENDERS]):
        s = senders[place]
        mark[s] &= ~(SENDS | TOUCHED | RENEWED)
        top = 1.0
        flow = node[OUT_HEAD, s]
        while flow >= 0:
            own = flow_float[OWN, flow]
            route = flow_int[ROUTE, flow]
            for at in range(route_offset[route], route_offset[route + 1]):
                link = route_link[at]
                if inner[link]:
                    own = max(own, flow_float[SENDER, flow] / link_level[link])
            flow_float[TOP, flow] = own
            top = max(top, own)
            flow = flow_int[OUT_NEXT, flow]
        flow = node[OUT_HEAD, s]
        while flow >= 0:
            own = flow_float[TOP, flow]
            now = flow_float[SENDER, flow] / (own + back * (top - own))
            if _differs(rate[flow], now):
                rate[flow] = now
                changed[news] = flow
                news += 1
            flow = flow_int[OUT_NEXT, flow]
    number[SENDERS] = 0
    return news
