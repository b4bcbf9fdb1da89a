"""Random bisections: half of the hosts sends to the other half, each flow to its own partner."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import GOLDEN, splitmix64


@njit(cache=True)
def random_matching(seed, sample, order):
    """Shuffle order (0..n-1 again first) by Fisher and Yates; a sample is its own sequence."""
    for i in range(len(order)):
        order[i] = i
    state = splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(sample))
    for i in range(len(order) - 1, 0, -1):
        state += GOLDEN
        j = np.int64(splitmix64(state) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]


@njit(cache=True)
def random_pairs(seed, first, endpoints, order, sources, destinations):
    """Fill sources[s, f] and destinations[s, f] with the flows of sample first + s.

    Flows of the second half, where there are as many, go back.
    """
    half = len(order) // 2
    for s in range(len(sources)):
        random_matching(seed, first + s, order)
        for f in range(half):
            a, b = endpoints[order[f]], endpoints[order[half + f]]
            sources[s, f], destinations[s, f] = a, b
            if sources.shape[1] > half:
                sources[s, half + f], destinations[s, half + f] = b, a


@njit(cache=True)
def mean_shares(offset, links, link_cost, loads, means):
    """Fill means[s] with the mean share of the injection rate that a flow of a sample gets.

    A flow gets the least of 1 / (load * link_cost) over its links, links[offset[f]:offset[f + 1]],
    and 0 without any. Flows of a sample follow one another. `loads` is 0 and will be again.
    link_cost is the injection rate over the link's.
    """
    flows = (len(offset) - 1) // len(means)
    for s in range(len(means)):
        first, last = s * flows, (s + 1) * flows
        for k in range(offset[first], offset[last]):
            loads[links[k]] += 1
        total = 0.0
        for f in range(first, last):
            if offset[f + 1] == offset[f]:
                continue
            worst = 0.0
            for k in range(offset[f], offset[f + 1]):
                worst = max(worst, loads[links[k]] * link_cost[links[k]])
            total += 1.0 / worst
        for k in range(offset[first], offset[last]):
            loads[links[k]] = 0
        means[s] = total / flows


@njit(cache=True)
def drawn_ways(
    set_id,
    set_offset,
    set_edge,
    via,
    via_set,
    direct,
    edge_row,
    edge_link,
    target_row,
    target_link,
    endpoint_out,
    seed,
    sample,
    sources,
    destinations,
):
    """Links of a sample's flows by a random candidate at every hop, as an ideal hash takes them.

    Returns
    -------
    tuple
        Offsets and links of the ways that go straight, and of those by a random intermediate.
        A flow has an empty run where it has no such way; one whose way by an intermediate does
        not arrive has neither.
    """
    flows = len(sources)
    limit = 2 * len(set_id) + 4
    scratch = np.empty(limit, dtype=np.int32)
    offset = np.zeros((2, flows + 1), dtype=np.int64)
    links = np.empty((2, 8 * flows + limit), dtype=np.int32)
    vias = len(via_set)
    sequence = splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(sample))
    for f in range(flows):
        for way in range(2):
            offset[way, f + 1] = offset[way, f]
        a, b = sources[f], destinations[f]
        if a < 0 or b < 0 or target_row[a] < 0 or target_row[b] < 0:
            continue
        start, goal = target_row[a], target_row[b]
        ends = 0
        if endpoint_out[a] >= 0:
            scratch[ends] = endpoint_out[a]
            ends += 1
        if target_link[b] >= 0:
            scratch[ends] = target_link[b]
            ends += 1
        state = splitmix64(sequence ^ np.uint64(f + 1))
        apart = vias > 0 and via[start] >= 0 and via[goal] >= 0 and via[start] != via[goal]
        for way in range(2):
            if not (apart if way else direct or not apart):
                continue
            v = np.int64(-1)
            if way:
                state = splitmix64(state)
                v = np.int64(state % np.uint64(vias - 2))
                v += v >= min(via[start], via[goal])
                v += v >= max(via[start], via[goal])
            row, count = start, ends
            while count < limit:
                if v >= 0 and via[row] == v:
                    v = -1
                if v < 0 and row == goal:
                    break
                choice = via_set[v, row] if v >= 0 else set_id[goal, row]
                if choice < 0:
                    break
                first = set_offset[choice]
                state = splitmix64(state)
                width = np.uint64(set_offset[choice + 1] - first)
                edge = set_edge[first + np.int64(state % width)]
                scratch[count] = edge_link[edge]
                count += 1
                row = edge_row[edge]
            if v >= 0 or row != goal:
                offset[0, f + 1] = offset[0, f]
                break
            if offset[way, f] + count > links.shape[1]:
                larger = np.empty((2, 2 * links.shape[1]), dtype=np.int32)
                for other in range(2):
                    for k in range(offset[other, f + 1]):
                        larger[other, k] = links[other, k]
                links = larger
            for k in range(count):
                links[way, offset[way, f] + k] = scratch[k]
            offset[way, f + 1] = offset[way, f] + count
    return offset[0], links[0], offset[1], links[1]


@njit(cache=True)
def least_loaded_ways(offset, links, other_offset, others, link_cost, loads):
    """Offsets and links of the way of each flow whose most loaded link would carry less.

    One flow after the other, the first way at equal; when all are there each chooses once more.
    `loads` is 0 and will be again.
    """
    flows = len(offset) - 1
    second = np.zeros(flows, dtype=np.bool_)
    for turn in range(2):
        for f in range(flows):
            if turn:
                _load(offset, links, other_offset, others, second[f], f, -1, loads)
            straight = 0.0
            for k in range(offset[f], offset[f + 1]):
                straight = max(straight, (loads[links[k]] + 1) * link_cost[links[k]])
            about = 0.0
            for k in range(other_offset[f], other_offset[f + 1]):
                about = max(about, (loads[others[k]] + 1) * link_cost[others[k]])
            none = offset[f] == offset[f + 1]
            second[f] = about > 0.0 and (none or about < straight)
            _load(offset, links, other_offset, others, second[f], f, 1, loads)
    start = np.zeros(flows + 1, dtype=np.int64)
    taken = np.empty(offset[flows] + other_offset[flows], dtype=np.int32)
    for f in range(flows):
        at, to, source = offset[f], offset[f + 1], links
        if second[f]:
            at, to, source = other_offset[f], other_offset[f + 1], others
        start[f + 1] = start[f]
        for k in range(at, to):
            loads[source[k]] = 0
            taken[start[f + 1]] = source[k]
            start[f + 1] += 1
    return start, taken


@njit(cache=True)
def _load(offset, links, other_offset, others, second, f, change, loads):
    """Change the loads of the links of a flow's first or second way."""
    if second:
        for k in range(other_offset[f], other_offset[f + 1]):
            loads[others[k]] += change
    else:
        for k in range(offset[f], offset[f + 1]):
            loads[links[k]] += change
