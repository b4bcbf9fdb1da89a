"""The loop of the flit level: endpoints and routers act cycle by cycle (docs/flit-level.md).

Nodes act on their own state only and reach others by mail that arrives at least `RULES.stride`
cycles later. So a node may act in that many cycles before the next node does, while its state is in
the cache, and the order of nodes is irrelevant. Only nodes with something to do are visited.
"""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.endpoints import acknowledgements, post_message, visit_endpoint
from weft.kernels.flit.lanes import ONE, bit, wake_at
from weft.kernels.flit.multicast import hopeless
from weft.kernels.flit.switch import visit_router
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.program.operations import next_start, program_events, start_ready

# Reasons for which the loop returns.
MORE = 0
DONE = 1
NO_PACKETS = 2
STUCK = 3

NEVER = 2**62


@part_njit()
def _programs(net, ranks, now):
    """Let the programs of ranks go on up to the present cycle."""
    until = now * net.rules.cycle_ps
    time = until
    while True:
        start_ready(ranks, time, time)
        for index in range(ranks.count.joining):
            op = np.int64(ranks.joining[index])
            post_message(net, ranks, op)
            wake_at(net, now, np.int64(net.messages[op].source))
        ranks.count.joining = 0
        time = next_start(ranks, np.int64(NEVER))
        if time > until:
            return
        program_events(ranks, time, time)


@part_njit()
def _quiet_until(net, ranks, now, until):
    """Return the cycle up to which nothing happens, given that no node has mail or work."""
    if ranks is None:
        return until
    time = next_start(ranks, np.int64(NEVER))
    if time == NEVER:
        return np.int64(NEVER)
    return max((time + net.rules.cycle_ps - 1) // net.rules.cycle_ps, now)


@part_njit()
def _awake(net, word, begin, end):
    """Return the bits of the nodes that have something to do in the cycles before `end`."""
    bits = net.active[word]
    for cycle in range(begin, end):
        bits |= net.mail.awake[(cycle & (net.rules.horizon - 1)) * len(net.active) + word]
    return bits


@part_njit()
def _visit(net, ranks, begin, end, node):
    """Let a node act in the cycles from `begin` to before `end` in which it has something to do."""
    ends, words = len(net.endpoints), len(net.active)
    word, mine = node >> 6, bit(node & 63)
    again = net.active[word] & mine != 0
    for cycle in range(begin, end):
        at_word = (cycle & (net.rules.horizon - 1)) * words + word
        if not again and not net.mail.awake[at_word] & mine:
            continue
        net.mail.awake[at_word] &= ~mine
        if node < ends:
            again = visit_endpoint(net, ranks, cycle, node)
        else:
            again = visit_router(net, cycle, node)
    if again:
        net.active[word] |= mine
    else:
        net.active[word] &= ~mine


@lean_njit()
def run(net, ranks, until):
    """Simulate up to a cycle.

    `net`: `weft.kernels.parts.StateParts` of a `FlitNet`, with `routes` hidden. `ranks`: None, or
    parts of a `weft.kernels.program.state.Ranks` with times in int64 ps.

    Returns MORE (at that cycle), DONE (all operations of `ranks` have ended and no packet is left),
    NO_PACKETS (more records of packets are needed), or STUCK (no flit can move, or only those of
    tests that cannot succeed, but there are packets or operations left).
    """
    rules, count = net.rules, net.count
    words = len(net.active)
    last_endpoint = (len(net.endpoints) - 1) >> 6
    needed = len(net.endpoints) * (rules.classes * rules.window + 1) * rules.stride
    quiet = 0
    while count.now < until:
        now = count.now
        if count.packets < needed:
            return NO_PACKETS
        if ranks is not None:
            _programs(net, ranks, now)
        if rules.circuits:
            acknowledgements(net, ranks, now)
            if hopeless(net.casts):
                return STUCK
        hops = count.hops
        end = min(now + rules.stride, until)
        visited = np.uint64(0)
        for word in range(words):
            bits = _awake(net, word, now, end)
            visited |= bits
            while bits:
                at = lowest_bit(bits)
                bits &= bits - ONE
                _visit(net, ranks, now, end, word * 64 + at)
                if word == last_endpoint and rules.stride > 1:
                    # An endpoint may have sent a flit that arrives before `end`.
                    bits = _awake(net, word, now, end) & ~(bit(at) | (bit(at) - ONE))
        if count.hops != hops:
            count.moved = now
        count.now = end
        if visited or count.acknowledging:
            quiet = 0
            if count.under_way and now - count.moved > rules.patience:
                return STUCK
            continue
        quiet += 1
        if quiet > rules.horizon:
            soonest = _quiet_until(net, ranks, end, until)
            if soonest == NEVER:
                over = ranks is None or ranks.count.ended == len(ranks.program.kind)
                return DONE if over and count.under_way == 0 else STUCK
            count.now = max(min(soonest, until), count.now)
            quiet = 0
    return MORE
