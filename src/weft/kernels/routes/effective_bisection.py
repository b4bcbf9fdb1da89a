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
def draw_bisections(endpoints, seed, first, sources, destinations, states):
    """Draw samples from number `first` on: all of [samples, flows].

    Parameters
    ----------
    endpoints
        One of each host.
    sources, destinations
        int32, the flows between them; those of the second half go back.
    states
        uint64, where the random numbers of each flow begin.
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
    """Fill means[s] with the mean share of the injection rate that a flow of sample s gets.

    A flow gets the least of 1 / (load * link_cost) over its links, and 0 when it has none.
    link_cost is the injection rate over the link's. The runs of a sample's flows follow each
    other. A flow with a run in `about` too takes the one whose most loaded link would carry least,
    the first at equal: one flow after the other, and once more when all are there.
    """
    loads = np.zeros(len(link_cost), dtype=np.int32)
    # Of each flow: whether it takes the run in `about`, and which run that is.
    goes_about = np.zeros(flows, dtype=np.bool_)
    for sample in range(len(means)):
        first = sample * flows
        for turn in range(2 if len(about_offset) else 1):
            for f in range(flows):
                straight = link[offset[first + f] : offset[first + f + 1]]
                if len(about_offset):
                    other = about[about_offset[first + f] : about_offset[first + f + 1]]
                    if turn:
                        _add(loads, other if goes_about[f] else straight, -1)
                    least = _worst(loads, straight, link_cost, 1)
                    around = _worst(loads, other, link_cost, 1)
                    goes_about[f] = around > 0.0 and (len(straight) == 0 or around < least)
                    _add(loads, other if goes_about[f] else straight, 1)
                else:
                    _add(loads, straight, 1)
        total = 0.0
        for f in range(flows):
            taken = link[offset[first + f] : offset[first + f + 1]]
            if goes_about[f]:
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
    """The largest load times cost of some links, with `more` flows on each."""
    worst = 0.0
    for link in links:
        worst = max(worst, (loads[link] + more) * link_cost[link])
    return worst
