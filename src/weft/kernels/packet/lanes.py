"""Credits of lanes, and the arbitration between the lanes of a link.

`net` is a `weft.kernels.packet.net.Net`, `credits` its `Credits`, `lane` a `LANE`; times are
int64 ps.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit, tiny_njit
from weft.kernels.packet.calendar import push, take_slot
from weft.kernels.packet.records import NEVER

#: Units of the weights of lanes and of the limit of high priority, and the value for no limit.
WEIGHT_BYTES = 64
LIMIT_BYTES = 4096
ENDLESS = 255


@lean_njit(forceinline=True)
def rounded(size_bytes, rate_gbps):
    """Return the duration of a transfer, rounded to whole ps and at least 1 ps.

    `size_bytes`, int64. `rate_gbps`, float64, Gbit/s. Returns int64, ps.
    """
    return max(np.int64(np.floor(8000.0 * size_bytes / rate_gbps + 0.5)), np.int64(1))


@tiny_njit()
def kind_of(net, link):
    """Return the `KIND` of a link."""
    return net.topology.kinds[net.topology.links[link].kind]


@part_njit()
def duration(net, link, wire_bytes):
    """Return the duration of a packet on a link, ps."""
    kind = kind_of(net, link)
    if wire_bytes == net.rules.full_packet_bytes:
        return kind.full_packet_ps
    return rounded(wire_bytes, kind.rate_gbps)


@tiny_njit()
def credits_of(rules, wire_bytes):
    """Return the number of credits that a packet takes."""
    if wire_bytes == rules.full_packet_bytes:
        return rules.full_packet_credits
    return (wire_bytes + rules.credit_bytes - 1) // rules.credit_bytes


@part_njit()
def wake(net, link, time):
    """Schedule a wake-up of a link at a time, ps, unless one is scheduled earlier."""
    woken = net.topology.links[link]
    if woken.wake_at_ps <= time:
        return
    woken.wake_at_ps = time
    push(net.calendar, take_slot(net.calendar), ~link, time)


@part_njit()
def credits_now(credits, lane, now):
    """Return the credits of a lane, including those that have returned by now."""
    returns = credits.returns
    first = np.int64(lane.first_return)
    while first >= 0 and returns[first].time_ps <= now:
        back = returns[first]
        lane.credits += back.credits
        credits.free[credits.state.free] = first
        credits.state.free += 1
        first = np.int64(back.next)
    lane.first_return = first
    return np.int64(lane.credits)


@part_njit()
def credit_time(credits, lane, needed):
    """Return when a lane will have the credits needed; NEVER if no return is scheduled."""
    have = np.int64(lane.credits)
    index = np.int64(lane.first_return)
    while index >= 0:
        back = credits.returns[index]
        have += back.credits
        if have >= needed:
            return back.time_ps
        index = np.int64(back.next)
    return np.int64(NEVER)


@part_njit()
def send_back(net, link, lane_number, count, time, now):
    """Send back `count` credits of a lane, to arrive at the sender of the link at `time`."""
    credits, returns = net.credits, net.credits.returns
    lane = net.lanes[link * net.rules.lanes + lane_number]
    credits_now(credits, lane, now)
    credits.state.free -= 1
    index = np.int64(credits.free[credits.state.free])
    back = returns[index]
    back.time_ps = time
    back.credits = count
    first, last = np.int64(lane.first_return), np.int64(lane.last_return)
    if first < 0 or returns[first].time_ps > time:
        back.next = first
        lane.first_return = index
    else:
        # With a speedup, packets leave an input port in parallel. A later grant may end earlier.
        before = last if returns[last].time_ps <= time else first
        while returns[before].next >= 0 and returns[returns[before].next].time_ps <= time:
            before = np.int64(returns[before].next)
        back.next = returns[before].next
        returns[before].next = index
    if back.next < 0:
        lane.last_return = index
    if lane.is_short or back.next >= 0:  # a packet that waits for a later return may leave earlier
        lane.is_short = 0
        wake(net, link, time)


@lean_njit(forceinline=True)
def _holds(table, candidates):
    for index in range(len(table)):
        entry = table[index]
        if entry.weight > 0 and candidates >> entry.lane & 1:
            return True
    return False


@lean_njit(forceinline=True)
def _next_entry(table, entry, left, candidates):
    """Return the entry to serve next, and the rest of its weight, in units of 64 bytes."""
    if candidates >> table[entry].lane & 1 and left > 0:
        return entry, left
    while True:
        entry = entry + 1 if entry + 1 < len(table) else np.int64(0)
        if candidates >> table[entry].lane & 1 and table[entry].weight > 0:
            return entry, table[entry].weight


@part_njit()
def choose_lane(arbitration, rules, link, candidates):
    """Choose a lane for the next packet of a link.

    `arbitration`: a `weft.kernels.packet.net.Arbitration`. `rules`: one `RULES`. `link`, int64.
    `candidates`, int64: bit mask of the lanes that can send.

    Returns int64: lane * 2, plus 1 if from the high table; -1 if no lane may send.
    """
    lanes = rules.lanes
    if lanes == 1:
        return np.int64(0)
    serving = arbitration.arbiters[link]
    if not rules.is_weighted:
        lane = np.int64(serving.last_lane)
        for _ in range(lanes):
            lane = lane + 1 if lane + 1 < lanes else np.int64(0)
            if candidates >> lane & 1:
                return lane * 2
        return np.int64(-1)
    high, low = arbitration.high, arbitration.low
    use_high = _holds(high, candidates)
    has_low = _holds(low, candidates)
    if use_high and has_low and rules.high_limit != ENDLESS and serving.limit_left <= 0:
        use_high = False
    if use_high:
        entry, left = _next_entry(
            high, np.int64(serving.high_entry), np.int64(serving.high_left), candidates
        )
        serving.high_entry = entry
        serving.high_left = left
        return high[entry].lane * 2 + 1
    if has_low:
        entry, left = _next_entry(
            low, np.int64(serving.low_entry), np.int64(serving.low_left), candidates
        )
        serving.low_entry = entry
        serving.low_left = left
        return low[entry].lane * 2
    return np.int64(-1)


@part_njit()
def lane_served(arbitration, rules, link, picked, wire_bytes):
    """Update lane arbitration after a packet; `picked`: the result of `choose_lane`."""
    if rules.lanes == 1:
        return
    serving = arbitration.arbiters[link]
    serving.last_lane = picked >> 1
    if not rules.is_weighted:
        return
    units = (wire_bytes + WEIGHT_BYTES - 1) // WEIGHT_BYTES
    if picked & 1:
        serving.high_left = max(serving.high_left - units, 0)
        # Not below 0: without low-priority traffic the limit is never reset and would underflow.
        serving.limit_left = max(serving.limit_left - wire_bytes, 0)
    else:
        serving.low_left = max(serving.low_left - units, 0)
        # A limit of 0 allows one packet.
        serving.limit_left = max(rules.high_limit * LIMIT_BYTES, 1)
