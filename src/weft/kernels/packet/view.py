"""What is in the buffers at a moment, for whoever looks at a run from outside."""

import numpy as np

from weft.kernels.lean import lean_njit
from weft.kernels.packet.lanes import credits_now, credits_of
from weft.kernels.packet.layout import (
    BUFFER_CREDITS,
    BYTES,
    FREE_AT,
    HEAD_ROW,
    LANES,
    NOW,
    OUT,
    OUT_LANE,
    QUEUE,
    QUEUES,
)
from weft.kernels.packet.switch import port_free

# Why the first packet of a buffer does not leave.
NOTHING_WAITS = 0
LINK_BUSY = 1
NO_CREDITS = 2
PORT_BUSY = 3
NOT_YET = 4


@lean_njit()
def look(net, held, wants, wants_lane, why):
    """Write down what each buffer holds and what its first packet waits for.

    Parameters
    ----------
    net
        A `Net`.
    held, wants, wants_lane, why
        int32, int32, int8 and uint8 [links, lanes], written; see `weft.sim.packet.Snapshots`.
    """
    slots, slot_time = net.slots, net.slot_time
    head = net.queue_head
    now = net.number[NOW]
    count = net.setting[LANES]
    for link in range(len(net.state)):
        for lane in range(count):
            row = net.lanes[link * count + lane]
            held[link, lane] = net.setting[BUFFER_CREDITS] - credits_now(net, row, now)
            wants[link, lane] = -1
            wants_lane[link, lane] = -1
            why[link, lane] = NOTHING_WAITS
            if net.fixed[link, HEAD_ROW] < 0:
                continue
            first = np.int64(net.fixed[link, QUEUE]) + lane * net.fixed[link, QUEUES]
            longest = np.int64(-1)
            for queue in range(first, first + net.fixed[link, QUEUES]):
                slot = np.int64(head[queue])
                if slot >= 0 and (longest < 0 or slot_time[slot] < slot_time[longest]):
                    longest = slot
            if longest < 0:
                continue
            out, out_lane = np.int64(slots[longest, OUT]), np.int64(slots[longest, OUT_LANE])
            wants[link, lane] = out
            wants_lane[link, lane] = out_lane
            needed = credits_of(net, np.int64(slots[longest, BYTES]))
            if slot_time[longest] > now:
                why[link, lane] = NOT_YET
            elif credits_now(net, net.lanes[out * count + out_lane], now) < needed:
                why[link, lane] = NO_CREDITS
            elif net.state[out, FREE_AT] > now:
                why[link, lane] = LINK_BUSY
            else:
                why[link, lane] = PORT_BUSY if port_free(net, link) > now else LINK_BUSY
