"""Random bisections: half of the hosts send to the other half, each host to its own partner."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import GOLDEN, splitmix64


@njit(cache=True)
def random_matching(seed, sample, order):
    """Fill `order` with a random permutation (Fisher-Yates) that `seed` and `sample` determine."""
    for i in range(len(order)):
        order[i] = i
    state = splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(sample))
    for i in range(len(order) - 1, 0, -1):
        state += GOLDEN
        j = np.int64(splitmix64(state) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]


@njit(cache=True)
def draw_bisections(endpoints, seed, first, sources, destinations, states):
    """Draw random bisections.

    `endpoints`, int32 [hosts]: one endpoint of each host. `seed`, `first`: seed, and number of the
    first sample. `sources`, `destinations`, int32 [samples, flows]: filled with the endpoints of
    each flow. The flows after the first hosts // 2 are the reverse of these first flows. `states`,
    uint64 [samples, flows]: filled with the initial random state of each flow.
    """
    half = len(endpoints) // 2
    order = np.empty(len(endpoints), dtype=np.int64)
    for sample in range(len(sources)):
        random_matching(seed, first + sample, order)
        sequence = splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(first + sample))
        for f in range(sources.shape[1]):
            a, b = endpoints[order[f % half]], endpoints[order[half + f % half]]
            sources[sample, f], destinations[sample, f] = (a, b) if f < half else (b, a)
            states[sample, f] = splitmix64(sequence ^ np.uint64(f + 1))


@njit(cache=True)
def mean_shares(offset, link, about_offset, about, link_cost, flows, means):
    """Fill the mean share of the injection rate that the flows of each sample get.

    The share of a flow is the least 1 / (load * link_cost) of its links, 0 if it has no links. A
    flow that has a detour takes the path whose largest load * link_cost is smaller, or the direct
    path if both are equal. The paths of the flows are chosen one after the other, and then a second
    time.

    - `offset`, `link`: int64 [samples * flows + 1] and int32, CSR: the links of each flow's direct
      path.
    - `about_offset`, `about`: likewise, the links of each flow's path via an intermediate (its
      detour); empty if no flow has a detour.
    - `link_cost`, float64 [links]: injection rate divided by the link's rate.
    - `flows`: number of flows per sample.
    - `means`, float64 [samples]: filled with the mean share of each sample, 0 to 1.
    """
    loads = np.zeros(len(link_cost), dtype=np.int32)
    # Whether each flow takes its detour.
    takes_detour = np.zeros(flows, dtype=np.bool_)
    for sample in range(len(means)):
        first = sample * flows
        for round_ in range(2 if len(about_offset) else 1):
            for f in range(flows):
                minimal = link[offset[first + f] : offset[first + f + 1]]
                if len(about_offset):
                    other = about[about_offset[first + f] : about_offset[first + f + 1]]
                    if round_:
                        _add(loads, other if takes_detour[f] else minimal, -1)
                    least = _worst(loads, minimal, link_cost, 1)
                    around = _worst(loads, other, link_cost, 1)
                    takes_detour[f] = around > 0.0 and (len(minimal) == 0 or around < least)
                    _add(loads, other if takes_detour[f] else minimal, 1)
                else:
                    _add(loads, minimal, 1)
        total = 0.0
        for f in range(flows):
            taken = link[offset[first + f] : offset[first + f + 1]]
            if takes_detour[f]:
                taken = about[about_offset[first + f] : about_offset[first + f + 1]]
            if len(taken):
                total += 1.0 / _worst(loads, taken, link_cost, 0)
        means[sample] = total / flows
        loads[:] = 0


@njit(cache=True)
def _add(loads, links, count):
    for link in links:
        loads[link] += count


@njit(cache=True)
def _worst(loads, links, link_cost, more):
    """Return the largest load times cost of some links, with `more` flows added to each."""
    worst = 0.0
    for link in links:
        worst = max(worst, (loads[link] + more) * link_cost[link])
    return worst
