"""Reference implementation of the packet level: next hops of packets, and lanes of links.

Functions have the form described in `tests.reference.packet_network`.
"""

from __future__ import annotations

import numpy as np

from tests.reference.packet_state import ADAPTIVE, ECMP, FLOWLET, PATHS, TABLES
from weft.kernels.hashing import splitmix64


def lane_between(net, row, port_in, port_out, sl):
    """Return the VL of a service level from port to port of a row; port 0 is the row itself."""
    table = 0
    if net.lanes_by_port == 1:
        table = net.lane_index[net.lane_base[row] + port_in * net.lane_ports[row] + port_out]
    return net.lane_table[table * 16 + sl]


def next_hop(net, x, time):
    """Return the link and lane of a packet's next hop [9]."""
    packet, link = net.c_packet[x], net.c_link[x]
    message, row = net.p_message[packet], net.head[link]
    goal, sl = net.msg_goal[message], net.msg_sl[message]
    if net.route_kind == TABLES:
        port = net.table[net.msg_path[message] * net.num_rows + row]
        out = net.row_link[net.row_base[row] + port]
    elif net.route_kind == PATHS:
        at = net.path_offset[net.msg_path[message]] + net.p_passed[packet]
        if at < net.path_offset[net.msg_path[message] + 1]:
            out = net.edge_link[net.path_edge[at]]
            net.p_passed[packet] += 1
        else:
            out = net.last_link[goal]
    elif net.last_row[goal] == row:
        out = net.last_link[goal]
        if net.own_lanes == 1:
            return out, net.c_lane[x]
    else:
        at = choose_candidate(net, x, row, time)
        out = net.edge_link[net.set_edge[at]]
        return out, candidate_lane(net, x, at)
    return out, lane_between(net, row, net.head_port[link], net.tail_port[out], sl)


def candidate_lane(net, x, at):
    """Return the lane of a packet that leaves by a candidate."""
    if net.own_lanes == 1:
        return net.set_lane[at]
    link, out = net.c_link[x], net.edge_link[net.set_edge[at]]
    sl = net.msg_sl[net.p_message[net.c_packet[x]]]
    return lane_between(net, net.head[link], net.head_port[link], net.tail_port[out], sl)


def draw(net, one, other, count):
    """Return a number below `count`, a hash of two numbers and the seed."""
    inner = np.uint64(splitmix64(net.seed))
    inner = np.uint64(splitmix64(np.uint64(other) ^ inner))
    return int(np.uint64(splitmix64(np.uint64(one) ^ inner)) % np.uint64(count))


def choose_candidate(net, x, row, time):
    """Return the index in `set_edge` of the candidate that the policy chooses."""
    packet = net.c_packet[x]
    message, number = net.p_message[packet], net.p_number[packet]
    row_goal = net.last_row[net.msg_goal[message]]
    chosen = net.set_id[row_goal * net.num_rows + row]
    assert chosen >= 0, "no candidate leads on"
    first, count = net.set_offset[chosen], net.set_offset[chosen + 1] - net.set_offset[chosen]
    if count == 1:
        # No choice: policies keep no state of such packets.
        return first
    if net.policy == ECMP:
        return first + draw(net, net.msg_name[message], row, count)
    if net.policy == FLOWLET:
        return flowlet(net, message, number, row, first, count, time)
    if net.policy == ADAPTIVE:
        return least_loaded(net, x, number, row, first, count)
    return first + draw(net, number, row, count)


def flowlet(net, message, number, row, first, count, time):
    """Return the candidate of a recent flowlet if it is in the set; else draw one."""
    qp = np.uint64(net.msg_name[message])
    entry = int(np.uint64(splitmix64(qp)) % np.uint64(net.entries)) + row * net.entries
    chosen_at = -1
    if net.flowlet_link[entry] >= 0 and time - net.flowlet_time[entry] <= net.gap:
        for at in range(first, first + count):
            if net.edge_link[net.set_edge[at]] == net.flowlet_link[entry]:
                chosen_at = at
    if chosen_at < 0:
        chosen_at = first + draw(net, number, row, count)
    net.flowlet_link[entry] = net.edge_link[net.set_edge[chosen_at]]
    net.flowlet_time[entry] = time
    return chosen_at


def load(net, x, at):
    """Return the used credits of a candidate's lane plus credits needed by packets routed there."""
    out = net.edge_link[net.set_edge[at]]
    index = out * net.num_vls + candidate_lane(net, x, at)
    return net.buffer_bytes // net.credit_bytes - net.credits[index] + net.wanted[index]


def least_loaded(net, x, number, row, first, count):
    """Return the candidate of least load; if several have it, draw one of them."""
    least, equal = load(net, x, first), 0
    for at in range(first, first + count):
        least = min(least, load(net, x, at))
    for at in range(first, first + count):
        if load(net, x, at) == least:
            equal += 1
    remaining = draw(net, number, row, equal)
    for at in range(first, first + count):
        if load(net, x, at) == least:
            if remaining == 0:
                return at
            remaining -= 1
    return first


# -- lanes of a link ------------------------------------------------------------------------------


def choose_lane(net, link):
    """Return the lane that a link serves among those marked in `among`, -1 for none [15]."""
    if net.weighted == 1:
        return choose_by_weight(net, link)
    for step in range(1, net.num_vls + 1):
        lane = (net.last_lane[link] + step) % net.num_vls
        if net.among[lane] == 1:
            return lane
    return -1


def has_any(net, lanes, weights):
    """Return whether a table has an entry with weight for one of the marked lanes."""
    for entry in range(len(lanes)):
        if weights[entry] > 0 and lanes[entry] < net.num_vls and net.among[lanes[entry]] == 1:
            return True
    return False


def choose_by_weight(net, link):
    high = has_any(net, net.high_lane, net.high_weight)
    low = has_any(net, net.low_lane, net.low_weight)
    if high and (net.high_limit < 0 or net.limit_left[link] > 0 or not low):
        return choose_entry(
            net, link, net.high_lane, net.high_weight, net.high_entry, net.high_left
        )
    if low:
        return choose_entry(net, link, net.low_lane, net.low_weight, net.low_entry, net.low_left)
    return -1


def choose_entry(net, link, lanes, weights, current, left):
    """Return the lane of the current or else next entry with a marked lane; update the entry."""
    entry = current[link]
    if left[link] > 0 and lanes[entry] < net.num_vls and net.among[lanes[entry]] == 1:
        return lanes[entry]
    for step in range(1, len(lanes) + 1):
        other = (entry + step) % len(lanes)
        if weights[other] > 0 and lanes[other] < net.num_vls and net.among[lanes[other]] == 1:
            current[link] = other
            left[link] = weights[other]
            return lanes[other]
    return -1


def use_lane(net, link, lane, num_bytes):
    """Account for a grant right after its lane was chosen, while `among` is still the same."""
    net.last_lane[link] = lane
    if net.weighted == 0:
        return
    high = has_any(net, net.high_lane, net.high_weight)
    low = has_any(net, net.low_lane, net.low_weight)
    units = -(-num_bytes // 64)
    if high and (net.high_limit < 0 or net.limit_left[link] > 0 or not low):
        net.high_left[link] = max(0, net.high_left[link] - units)
        net.limit_left[link] = max(0, net.limit_left[link] - num_bytes)
    else:
        net.low_left[link] = max(0, net.low_left[link] - units)
        net.limit_left[link] = net.high_limit
