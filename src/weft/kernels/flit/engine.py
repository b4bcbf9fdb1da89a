"""The loop of the flit level: endpoints and routers act cycle by cycle (docs/flit-level.md).

Nodes act on their own state only and reach others by mail that arrives in later cycles, so the
order of the nodes within a cycle is irrelevant. Only nodes with something to do are visited.
"""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.endpoints import acknowledgements, post_message, visit_endpoint
from weft.kernels.flit.lanes import ONE, wake_at
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


def loop(route, enter, adaptive):
    """Return the loop with the kernels of a routing function compiled in.

    Parameters
    ----------
    route
        Kernel ``route(net, now, row, lane, packet, attempt)``. For the packet at the front of an
        input lane it writes `IN_LANE.out` (a lane of the output) and `IN_LANE.allowed`, and returns
        whether there is such a choice. If the packet gets no lane, it is called again with the next
        `attempt`, from 0, until it returns False, in every cycle.
    enter
        Kernel ``enter(net, now, endpoint, packet)``, called when an endpoint begins to send a
        packet.
    adaptive
        Whether the choice may change; otherwise `route` is called once for a packet and router.

    Returns
    -------
    kernel
        ``run(net, ranks, until)`` simulates up to a cycle and returns MORE (at that cycle), DONE
        (all operations of `ranks` have ended and no packet is left), NO_PACKETS (more records of
        packets are needed), or STUCK (no flit can move, but there are packets or operations left).
        `ranks` is None, or a `weft.kernels.program.state.Ranks` with times in int64 ps.
    """

    @lean_njit()
    def run(net, ranks, until):
        rules, count = net.rules, net.count
        words, ends = len(net.active), len(net.endpoints)
        needed = ends * (rules.classes * rules.window + 1)
        quiet = 0
        while count.now < until:
            now = count.now
            if count.packets < needed:
                return NO_PACKETS
            if ranks is not None:
                _programs(net, ranks, now)
            bucket = now & (rules.horizon - 1)
            if rules.circuits:
                acknowledgements(net, now)
            hops = count.hops
            visited = np.uint64(0)
            for word in range(words):
                at_word = bucket * words + word
                bits = net.active[word] | net.mail.awake[at_word]
                if not bits:
                    continue
                visited |= bits
                net.mail.awake[at_word] = 0
                active = np.uint64(0)
                while bits:
                    at = lowest_bit(bits)
                    bits &= bits - ONE
                    node = word * 64 + at
                    if node < ends:
                        again = visit_endpoint(net, ranks, now, node, enter)
                    else:
                        again = visit_router(net, now, node, route, adaptive)
                    active |= np.uint64(again) << np.uint64(at)
                net.active[word] = active
            if count.hops != hops:
                count.moved = now
            count.now = now + 1
            if visited:
                quiet = 0
                if count.under_way and now - count.moved > rules.patience:
                    return STUCK
                continue
            quiet += 1
            if quiet > rules.horizon:
                soonest = _quiet_until(net, ranks, now + 1, until)
                if soonest == NEVER:
                    over = ranks is None or ranks.count.ended == len(ranks.program.kind)
                    return DONE if over and count.under_way == 0 else STUCK
                count.now = max(min(soonest, until), count.now)
                quiet = 0
        return MORE

    return run
