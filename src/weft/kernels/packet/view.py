"""Snapshots of the buffers during a run."""

import numpy as np

from weft.kernels.lean import lean_njit
from weft.kernels.packet.lanes import credits_now, credits_of
from weft.kernels.packet.switch import port_free

# Reasons why the packet that has waited longest in a buffer does not leave.
NOTHING_WAITS = 0
LINK_BUSY = 1
NO_CREDITS = 2
PORT_BUSY = 3
NOT_YET = 4


@lean_njit()
def look(net, tails, heads, held, wants, wants_lane, why):
    """Write how full each buffer is, and what the packet that has waited longest in it waits for.

    Each part of the fabric writes what it knows: how full the buffers are into which it sends, and
    what waits in its own.

    `net`: StateParts of a `weft.kernels.packet.net.Net`. `tails`, `heads`, int32 [links]: parts
    that send on each link, and that its packets reach. `held`, `wants`, `wants_lane`, `why`, int32,
    int32, int8 and uint8 [links, lanes], written: credits taken by packets in the buffer; and
    output link, output lane and reason to wait of the packet that has waited longest. See
    `weft.sim.packet.Snapshots`.
    """
    packets, rules, now = net.calendar.packets, net.rules, net.count.now_ps
    count = rules.lanes
    for link in range(len(net.topology.links)):
        into = net.topology.links[link]
        for lane in range(count):
            if tails[link] == net.count.part:
                taken = credits_now(net.credits, net.lanes[link * count + lane], now)
                held[link, lane] = max(rules.buffer_credits - taken, np.int64(0))
            if heads[link] != net.count.part:
                continue
            wants[link, lane] = -1
            wants_lane[link, lane] = -1
            why[link, lane] = NOTHING_WAITS
            if into.head_row < 0:
                continue
            first = np.int64(into.first_queue) + lane * into.queues
            longest = np.int64(-1)
            for queue in range(first, first + into.queues):
                slot = np.int64(net.queues[queue].first)
                if slot >= 0 and (longest < 0 or packets[slot].time_ps < packets[longest].time_ps):
                    longest = slot
            if longest < 0:
                continue
            packet = packets[longest]
            out, out_lane = np.int64(packet.out_link), np.int64(packet.out_lane)
            wants[link, lane] = out
            wants_lane[link, lane] = out_lane
            needed = credits_of(rules, np.int64(packet.wire_bytes))
            if packet.time_ps > now:
                why[link, lane] = NOT_YET
            elif credits_now(net.credits, net.lanes[out * count + out_lane], now) < needed:
                why[link, lane] = NO_CREDITS
            elif net.topology.links[out].free_at_ps > now:
                why[link, lane] = LINK_BUSY
            else:
                why[link, lane] = PORT_BUSY if port_free(net, link) > now else LINK_BUSY
