"""Random bisections: half of the hosts sends to the other half, each flow to its own partner."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import GOLDEN, splitmix64
from weft.kernels.routes.walk import DELIVERED, path_links


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
def table_bisections(
    table,
    row_base,
    row_link,
    link_row,
    target_row,
    target_link,
    endpoint_out,
    no_path,
    endpoints,
    lmc,
    two_way,
    link_cost,
    seed,
    samples,
    means,
    lost,
):
    """Fill means[s] with the mean share of the injection rate that a flow of sample s gets.

    A flow gets the least of 1 / (load * link_cost) over its links, and 0 when it does not
    arrive (lost[s] counts those). link_cost is the injection rate over the link's. With an LMC,
    flow number f uses LID offset f mod 2^lmc.
    """
    hosts = len(endpoints)
    half = hosts // 2
    order = np.empty(hosts, dtype=np.int64)
    flows = 2 * half if two_way else half
    start = np.empty(flows + 1, dtype=np.int64)
    stored = np.empty(1024, dtype=np.int32)
    links = np.empty(len(row_base) + 1, dtype=np.int32)
    loads = np.zeros(len(link_row), dtype=np.int32)
    for sample in range(samples):
        random_matching(seed, sample, order)
        start[0] = 0
        lost[sample] = 0
        for f in range(flows):
            a, b = partners(order, endpoints, f)
            start[f + 1] = start[f]
            if a < 0 or b < 0:
                lost[sample] += 1
                continue
            lid = (b << lmc) + (f & ((1 << lmc) - 1))
            count, end = path_links(
                table,
                row_base,
                row_link,
                link_row,
                target_row,
                target_link,
                endpoint_out,
                no_path,
                a,
                b,
                lid,
                links,
            )
            if end != DELIVERED:
                lost[sample] += 1
                continue
            stored = _keep(links, count, start[f], stored, loads)
            start[f + 1] = start[f] + count
        means[sample] = mean_share(start, stored, flows, link_cost, loads)


@njit(cache=True)
def candidate_bisections(
    set_id,
    set_offset,
    set_edge,
    edge_row,
    edge_link,
    link_row,
    target_row,
    target_link,
    endpoint_out,
    endpoints,
    two_way,
    link_cost,
    seed,
    samples,
    means,
    lost,
):
    """As `table_bisections`, each flow taking a random candidate at every hop (an ideal hash)."""
    hosts = len(endpoints)
    half = hosts // 2
    order = np.empty(hosts, dtype=np.int64)
    flows = 2 * half if two_way else half
    start = np.empty(flows + 1, dtype=np.int64)
    stored = np.empty(1024, dtype=np.int32)
    links = np.empty(len(set_id) + 2, dtype=np.int32)
    loads = np.zeros(len(link_row), dtype=np.int32)
    for sample in range(samples):
        random_matching(seed, sample, order)
        sequence = splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(sample))
        start[0] = 0
        lost[sample] = 0
        for f in range(flows):
            a, b = partners(order, endpoints, f)
            start[f + 1] = start[f]
            if a < 0 or b < 0 or target_row[a] < 0 or target_row[b] < 0:
                lost[sample] += 1
                continue
            count = 0
            row = target_row[a]
            goal = target_row[b]
            if endpoint_out[a] >= 0:
                links[count] = endpoint_out[a]
                count += 1
            state = splitmix64(sequence ^ np.uint64(f + 1))
            while row != goal:
                choice = set_id[goal, row]
                if choice < 0 or count > len(set_id):
                    break
                width = set_offset[choice + 1] - set_offset[choice]
                state = splitmix64(state)
                edge = set_edge[set_offset[choice] + np.int64(state % np.uint64(width))]
                links[count] = edge_link[edge]
                count += 1
                row = edge_row[edge]
            if row != goal:
                lost[sample] += 1
                continue
            if target_link[b] >= 0:
                links[count] = target_link[b]
                count += 1
            stored = _keep(links, count, start[f], stored, loads)
            start[f + 1] = start[f] + count
        means[sample] = mean_share(start, stored, flows, link_cost, loads)


@njit(cache=True)
def path_bisections(
    pair,
    offset,
    edge,
    edge_link,
    target_link,
    endpoint_out,
    all_endpoints,
    endpoints,
    two_way,
    link_cost,
    seed,
    samples,
    means,
    lost,
):
    """As `table_bisections`, by source routes; pair number s * all_endpoints + d ascends."""
    hosts = len(endpoints)
    half = hosts // 2
    order = np.empty(hosts, dtype=np.int64)
    flows = 2 * half if two_way else half
    start = np.empty(flows + 1, dtype=np.int64)
    stored = np.empty(1024, dtype=np.int32)
    links = np.empty(2, dtype=np.int32)
    loads = np.zeros(len(link_cost), dtype=np.int32)
    for sample in range(samples):
        random_matching(seed, sample, order)
        start[0] = 0
        lost[sample] = 0
        for f in range(flows):
            a, b = partners(order, endpoints, f)
            start[f + 1] = start[f]
            key = np.int64(a) * all_endpoints + b
            p = np.searchsorted(pair, key)
            if a < 0 or b < 0 or p == len(pair) or pair[p] != key:
                lost[sample] += 1
                continue
            count = offset[p + 1] - offset[p]
            if count + 2 > len(links):
                links = np.empty(count + 2, dtype=np.int32)
            for k in range(count):
                links[k] = edge_link[edge[offset[p] + k]]
            if endpoint_out[a] >= 0:
                links[count] = endpoint_out[a]
                count += 1
            if target_link[b] >= 0:
                links[count] = target_link[b]
                count += 1
            stored = _keep(links, count, start[f], stored, loads)
            start[f + 1] = start[f] + count
        means[sample] = mean_share(start, stored, flows, link_cost, loads)


@njit(cache=True)
def _keep(links, count, at, stored, loads):
    """Store a flow's links from a place on and add it to their loads; returns the store, grown."""
    for k in range(count):
        loads[links[k]] += 1
    return store_links(links, count, at, stored)


@njit(cache=True)
def store_links(links, count, at, stored):
    """Store a flow's links from a place on; returns the store, grown when it was too small."""
    while at + count > len(stored):
        bigger = np.empty(2 * len(stored), dtype=np.int32)
        bigger[: len(stored)] = stored
        stored = bigger
    for k in range(count):
        stored[at + k] = links[k]
    return stored


@njit(cache=True)
def partners(order, endpoints, f):
    """Source and destination of a sample's flow; flows of the second half go back."""
    half = len(endpoints) // 2
    a = endpoints[order[f % half]]
    b = endpoints[order[half + f % half]]
    if f >= half:
        return b, a
    return a, b


@njit(cache=True)
def mean_share(start, stored, flows, link_cost, loads):
    """Mean over flows of the rate that the tightest link leaves; clears the loads again."""
    total = 0.0
    for f in range(flows):
        if start[f + 1] == start[f]:
            continue
        worst = 0.0
        for k in range(start[f], start[f + 1]):
            worst = max(worst, loads[stored[k]] * link_cost[stored[k]])
        total += 1.0 / worst
    for k in range(start[flows]):
        loads[stored[k]] = 0
    return total / flows
