"""Rates by the contention-graph model over links, updated as flows start and end.

`docs/contention-model.md` derives the sharing model: penalties of the adapters' contention graph,
a fair level at every overloaded link inside the fabric, and back-pressure.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flow.contention_steps import added_penalty, demand, full_rate_penalty
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.records import counters

#: An adapter.
NODE = np.dtype(
    [
        ("sent", np.int32),  # number of flows that the adapter sends
        ("into", np.int32),  # number of flows that the adapter receives
        (
            "full",
            np.int32,
        ),  # number of received full-rate flows (their sender has no other flow)
        ("least", np.int32),  # smallest `sent` of the senders of received flows
        ("most", np.int32),  # largest `sent` of the senders of received flows
        ("full_total", np.int32),  # sum of `full` over the receivers of the sent flows
        ("full_most", np.int32),  # largest `full` of the receivers of the sent flows
        ("parallel", np.int32),  # scratch: number of received flows of one sender; 0 between uses
        ("asked", np.float64),  # sum of the demands of the received flows
        ("conflicts", np.float64),  # sum of c of the model over the sent flows
        ("slower", np.float64),  # largest rho' of the model among the received flows
        ("mark", np.int32),  # bits, see below
    ],
    align=True,
)
#: A flow.
FLOW = np.dtype(
    [
        ("route", np.int32),
        ("source", np.int32),  # adapter
        ("destination", np.int32),  # adapter
        ("sender", np.float64),  # rate of the sending adapter, bytes/ns
        ("own", np.float64),  # penalty of the adapters before back-pressure
        ("adapter", np.float64),  # penalty of the adapters with back-pressure
        ("top", np.float64),  # scratch: penalty of adapters and links before back-pressure
    ],
    align=True,
)
#: Number of bits of an entry's index in its slot, and lengths of the lists.
COUNT = counters("shift", "senders", "receivers", "links", "pending")

# Bits of `mark` of an adapter.
SENDS = 1  # on the list of senders: a flow that the adapter sends has started or ended
RECEIVES = 2  # on the list of receivers
CHANGED = 4  # a received flow has started or ended, or the counts of received flows have changed
TOUCHED = 8  # on the list of senders: penalties of sent flows may change
RENEWED = 16  # the number of sent flows has changed

#: Two values are equal if their relative difference is at most this.
SAME = 1e-12


class Lists(NamedTuple):
    """Doubly linked lists of items: int32, -1 for none; `head` [lists], the others [items]."""

    head: Any
    after: Any
    before: Any


class PenaltyState(NamedTuple):
    """Adapters, links and flows. A flow has a slot with an entry for each of its links."""

    #: A `contention_steps.Coefficients`.
    coefficients: Any
    #: float64 [links], bytes/ns.
    capacity: Any
    #: bool [links]: whether a link is inside the fabric, and so not in the contention graph.
    inner: Any
    #: float64 [links], bytes/ns: largest rate that a link gives a flow; infinite for a link that is
    #: not overloaded.
    level: Any
    #: int64 [routes + 1], int32 and float64: links of routes, and the part of a flow's rate that
    #: crosses each link; `route_share` is empty if all these parts are 1.
    route_offset: Any
    route_link: Any
    route_share: Any
    #: float64 [routes], bytes/ns: rates of the adapters at the ends.
    source_rate: Any
    destination_rate: Any
    #: NODE [adapters] and FLOW [slots].
    nodes: Any
    flows: Any
    #: `Lists`: flows by sender and by receiver, and entries by link.
    sent_by: Any
    received_by: Any
    entries_of: Any
    #: int32: lists of adapters, links and flows to update in the next solution.
    senders: Any
    receivers: Any
    links: Any
    pending: Any
    #: bool [links], [slots]: whether a link is in `links`, and whether a flow is in `pending`.
    is_listed: Any
    is_pending: Any
    #: A COUNT record.
    count: Any


@part_njit()
def note_sender(state, bit, node):
    """Put an adapter on the list of senders and set the bit, unless the bit is set already.

    `state`: a `PenaltyState`. `bit`: SENDS or TOUCHED.
    """
    if not state.nodes[node].mark & bit:
        state.nodes[node].mark |= bit
        state.senders[state.count.senders] = node
        state.count.senders += 1


@part_njit()
def note_receiver(state, bit, node):
    """Put an adapter on the list of receivers and set the bit, unless the bit is set already.

    `state`: a `PenaltyState`. `bit`: RECEIVES.
    """
    if not state.nodes[node].mark & bit:
        state.nodes[node].mark |= bit
        state.receivers[state.count.receivers] = node
        state.count.receivers += 1


@part_njit()
def _differs(a, b):
    return abs(a - b) > SAME * abs(b)


@part_njit()
def _put(lists, at, item):
    """Put an item at the front of a list."""
    first = lists.head[at]
    lists.after[item] = first
    lists.before[item] = -1
    if first >= 0:
        lists.before[first] = item
    lists.head[at] = item


@part_njit()
def _take(lists, at, item):
    """Remove an item from its list."""
    following, previous = lists.after[item], lists.before[item]
    if following >= 0:
        lists.before[following] = previous
    if previous >= 0:
        lists.after[previous] = following
    else:
        lists.head[at] = following


@part_njit()
def note_link(state, link):
    """Put a link on the list of links whose level must be computed again, unless it is listed.

    `state`: a `PenaltyState`. `link`: link inside the fabric.
    """
    if not state.is_listed[link]:
        state.is_listed[link] = True
        state.links[state.count.links] = link
        state.count.links += 1


@lean_njit()
def _note_links(state, flow):
    """Put the links inside the fabric that a flow crosses on the list of links."""
    route = state.flows[flow].route
    for at in range(state.route_offset[route], state.route_offset[route + 1]):
        link = state.route_link[at]
        if state.inner[link]:
            note_link(state, link)


@lean_njit()
def penalty_add(state, flow, route, source, destination):
    """Start a flow between two adapters; `penalty_solve` computes its rate.

    `state`: a `PenaltyState`. `flow`: free slot. `route`: route of at least one link. `source`,
    `destination`: sending and receiving adapter; the two must differ.
    """
    if not state.is_pending[flow]:
        state.is_pending[flow] = True
        state.pending[state.count.pending] = flow
        state.count.pending += 1
    started = state.flows[flow]
    started.route = route
    started.source = source
    started.destination = destination
    started.sender = state.source_rate[route]
    _put(state.sent_by, source, flow)
    _put(state.received_by, destination, flow)
    state.nodes[source].sent += 1
    state.nodes[destination].into += 1
    entry = flow << state.count.shift
    for at in range(state.route_offset[route], state.route_offset[route + 1]):
        link = state.route_link[at]
        if state.inner[link]:
            _put(state.entries_of, link, entry)
        entry += 1
    note_sender(state, SENDS, source)
    note_receiver(state, RECEIVES, destination)
    _note_links(state, flow)


@lean_njit()
def penalty_remove(state, flow, source, destination):
    """End a flow; `penalty_solve` computes the rates of the other flows.

    `state`: a `PenaltyState`. `flow`: slot of the flow. `source`, `destination`: its adapters.
    """
    _take(state.sent_by, source, flow)
    _take(state.received_by, destination, flow)
    state.nodes[source].sent -= 1
    state.nodes[destination].into -= 1
    route = state.flows[flow].route
    entry = flow << state.count.shift
    for at in range(state.route_offset[route], state.route_offset[route + 1]):
        link = state.route_link[at]
        if state.inner[link]:
            _take(state.entries_of, link, entry)
        entry += 1
    note_sender(state, SENDS, source)
    note_receiver(state, RECEIVES, destination)
    _note_links(state, flow)


@lean_njit()
def _count_receiver(state, d):
    """Count the flows into an adapter again; return whether any count has changed."""
    coefficients, nodes, flows, received_by = (
        state.coefficients, state.nodes, state.flows, state.received_by,
    )  # fmt: skip
    full, least, most, asked = 0, 1 << 30, 0, 0.0
    flow = received_by.head[d]
    while flow >= 0:
        out = nodes[flows[flow].source].sent
        full += out == 1
        least = min(least, out)
        most = max(most, out)
        asked += demand(coefficients, out)
        flow = received_by.after[flow]
    changed = (
        full != nodes[d].full or least != nodes[d].least or most != nodes[d].most
        or _differs(asked, nodes[d].asked)
    )  # fmt: skip
    nodes[d].full = full
    nodes[d].least = least
    nodes[d].most = most
    nodes[d].asked = asked
    return changed


@lean_njit()
def _count_sender(state, s):
    """Count the conflicts of sent flows; return whether conflicts with full-rate flows changed.

    The numbers of parallel flows stay in `parallel` until `_clear_parallel` resets them.
    """
    nodes, flows, sent_by = state.nodes, state.flows, state.sent_by
    total, most, conflicts = 0, 0, 0.0
    each = demand(state.coefficients, max(nodes[s].sent, 1))
    flow = sent_by.head[s]
    while flow >= 0:
        nodes[flows[flow].destination].parallel += 1
        flow = sent_by.after[flow]
    flow = sent_by.head[s]
    while flow >= 0:
        d = flows[flow].destination
        parallel = nodes[d].parallel
        if nodes[d].into > parallel:
            conflicts += max(0.0, nodes[d].asked - parallel * each)
        total += nodes[d].full
        most = max(most, nodes[d].full)
        flow = sent_by.after[flow]
    if nodes[s].sent <= 1:
        total = most = 0  # the adapter is a full-rate sender itself
    changed = total != nodes[s].full_total or most != nodes[s].full_most
    nodes[s].full_total = total
    nodes[s].full_most = most
    nodes[s].conflicts = conflicts
    return changed


@lean_njit()
def _clear_parallel(state, s):
    flow = state.sent_by.head[s]
    while flow >= 0:
        state.nodes[state.flows[flow].destination].parallel = 0
        flow = state.sent_by.after[flow]


@part_njit()
def _part(state, entry):
    """Return the part of a flow's rate that crosses the link of an entry."""
    if len(state.route_share) == 0:
        return 1.0
    shift = state.count.shift
    flow = entry >> shift
    at = state.route_offset[state.flows[flow].route] + entry - (flow << shift)
    return state.route_share[at]


@lean_njit()
def _level(state, link):
    """Return the largest rate that a link gives a flow; infinite if the link is not overloaded.

    A flow demands the rate `sender` / `adapter`; where routes split, each link gets a part of it.
    """
    capacity, flows, shift = state.capacity[link], state.flows, state.count.shift
    asked, weight = 0.0, 0.0
    entry = state.entries_of.head[link]
    while entry >= 0:
        flow = entry >> shift
        part = _part(state, entry)
        asked += part * flows[flow].sender / flows[flow].adapter
        weight += part
        entry = state.entries_of.after[entry]
    if asked <= capacity * (1.0 + SAME):
        return np.inf
    level = capacity / weight
    while True:
        left, weight = capacity, 0.0
        entry = state.entries_of.head[link]
        while entry >= 0:
            flow = entry >> shift
            part = _part(state, entry)
            wanted = flows[flow].sender / flows[flow].adapter
            if wanted <= level:
                left -= part * wanted
            else:
                weight += part
            entry = state.entries_of.after[entry]
        if weight == 0.0 or left <= level * weight * (1.0 + SAME):
            return level
        level = left / weight


@part_njit()
def _own(coefficients, out, added, sender, receiver):
    """Return the penalty of the adapters before back-pressure, relative to the sender's rate.

    The model assumes that all adapters have the same rate. If one end is faster, flows share that
    end without loss until they fill it. For example, two flows share without loss a receiver of
    twice their senders' rate, or a sender of twice their receivers' rate.
    """
    rate = min(sender, receiver)
    share = coefficients.out_offset + coefficients.out_weight * out
    share = max(share * rate / sender, min(share, 1.0))
    return max(1.0, share, (share + added) * rate / receiver) * sender / rate


@lean_njit()
def penalty_solve(state, rate, changed):
    """Update rates to the rates of the model after flows have started and ended.

    `state`: a `PenaltyState`. `rate`, float64 [slots], bytes/ns: rates of the last solution,
    updated for the slots in use. `changed`, int32 [slots], written: slots of new flows and of flows
    whose rate has changed. Returns the number of slots in `changed`.
    """
    coefficients, nodes, flows, count = state.coefficients, state.nodes, state.flows, state.count
    sent_by, received_by = state.sent_by, state.received_by
    senders, receivers, levels = state.senders, state.receivers, state.level
    shift = count.shift
    back = coefficients.back_pressure
    for index in range(count.pending):
        state.is_pending[state.pending[index]] = False
        rate[state.pending[index]] = 0.0
    count.pending = 0

    # Receivers of flows that started or ended, and receivers of all flows of a sender whose number
    # of flows has changed.
    for index in range(count.receivers):
        nodes[receivers[index]].mark |= CHANGED
    for index in range(count.senders):
        s = senders[index]
        nodes[s].mark |= TOUCHED | RENEWED
        flow = sent_by.head[s]
        while flow >= 0:
            note_receiver(state, RECEIVES, flows[flow].destination)
            flow = sent_by.after[flow]
    for index in range(count.receivers):
        d = receivers[index]
        if _count_receiver(state, d):
            nodes[d].mark |= CHANGED
        if nodes[d].mark & CHANGED:
            flow = received_by.head[d]
            while flow >= 0:
                note_sender(state, TOUCHED, flows[flow].source)
                flow = received_by.after[flow]
    # By rule (b), a sender's conflicts with full-rate senders affect these senders' penalties.
    for index in range(count.senders):
        s = senders[index]
        renewed = _count_sender(state, s)
        _clear_parallel(state, s)
        if renewed or nodes[s].mark & RENEWED:
            flow = sent_by.head[s]
            while flow >= 0:
                d = flows[flow].destination
                if not nodes[d].mark & CHANGED:
                    note_receiver(state, RECEIVES, d)
                    nodes[d].mark |= CHANGED
                flow = sent_by.after[flow]
    for index in range(count.receivers):
        d = receivers[index]
        if not nodes[d].mark & CHANGED or nodes[d].full != 1 or nodes[d].into < 2:
            continue
        slower, only = 0.0, -1
        flow = received_by.head[d]
        while flow >= 0:
            s = flows[flow].source
            out = nodes[s].sent
            if out == 1:
                only = s
            else:
                slower = max(
                    slower,
                    full_rate_penalty(
                        coefficients, out, 1, nodes[s].full_total, nodes[s].full_most
                    ),
                )
            flow = received_by.after[flow]
        if _differs(slower, nodes[d].slower):
            note_sender(state, TOUCHED, only)
        nodes[d].slower = slower
    for index in range(count.receivers):
        nodes[receivers[index]].mark &= ~(RECEIVES | CHANGED)
    count.receivers = 0

    # Penalties of the adapters, and the links whose demand changes with them.
    for index in range(count.senders):
        s = senders[index]
        out = nodes[s].sent
        each = demand(coefficients, max(out, 1))
        top = 1.0
        flow = sent_by.head[s]
        while flow >= 0:
            nodes[flows[flow].destination].parallel += 1
            flow = sent_by.after[flow]
        flow = sent_by.head[s]
        while flow >= 0:
            d = flows[flow].destination
            parallel = nodes[d].parallel
            added = added_penalty(
                coefficients, out, nodes[d].into - parallel,
                max(0.0, nodes[d].asked - parallel * each), nodes[s].conflicts, nodes[d].into,
                nodes[d].least, nodes[d].most, nodes[d].full, nodes[d].slower,
            )  # fmt: skip
            route = flows[flow].route
            own = _own(
                coefficients, out, added, state.source_rate[route], state.destination_rate[route]
            )
            flows[flow].own = own
            top = max(top, own)
            flow = sent_by.after[flow]
        flow = sent_by.head[s]
        while flow >= 0:
            nodes[flows[flow].destination].parallel = 0
            own = flows[flow].own
            own += back * (top - own)
            if _differs(own, flows[flow].adapter):
                flows[flow].adapter = own
                _note_links(state, flow)
            flow = sent_by.after[flow]
    for index in range(count.links):
        link = state.links[index]
        state.is_listed[link] = False
        level = _level(state, link)
        if level == levels[link]:
            continue
        if level < np.inf and not _differs(levels[link], level):
            continue
        levels[link] = level
        entry = state.entries_of.head[link]
        while entry >= 0:
            s = flows[entry >> shift].source
            note_sender(state, TOUCHED, s)
            entry = state.entries_of.after[entry]
    count.links = 0

    # Rates: the larger penalty of adapters and links, then back-pressure on all flows of a sender.
    news = 0
    for index in range(count.senders):
        s = senders[index]
        nodes[s].mark &= ~(SENDS | TOUCHED | RENEWED)
        top = 1.0
        flow = sent_by.head[s]
        while flow >= 0:
            own = flows[flow].own
            route = flows[flow].route
            for at in range(state.route_offset[route], state.route_offset[route + 1]):
                link = state.route_link[at]
                if state.inner[link]:
                    own = max(own, flows[flow].sender / levels[link])
            flows[flow].top = own
            top = max(top, own)
            flow = sent_by.after[flow]
        flow = sent_by.head[s]
        while flow >= 0:
            own = flows[flow].top
            now = flows[flow].sender / (own + back * (top - own))
            if _differs(rate[flow], now):
                rate[flow] = now
                changed[news] = flow
                news += 1
            flow = sent_by.after[flow]
    count.senders = 0
    return news
