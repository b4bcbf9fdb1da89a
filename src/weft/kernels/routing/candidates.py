"""Sets of shortest-path edges per (target, row), each distinct set kept once."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.tables import search_from


@njit(cache=True)
def shortest_path_sets(graph, targets, edge_up, ordered, component_size, set_id, search):
    """Fill set_id[target, row] and return the CSR of the sets, offsets and edges.

    A set is found by a hash of its edges and compared edge by edge, so that equal sets, and only
    they, share a number. Sets are numbered in the order of first use.

    - `targets`, int32: target rows.
    - `edge_up`, uint8 [edges]; `ordered`; `component_size`, int32 [rows]: if `ordered`, only
      up*/down* paths count; see `weft.kernels.routing.distances.updown`.
    - `set_id`, int32 [rows, rows]: number of the set of each target and row, changed in place;
      unchanged where the row is the target or has no path to it.
    - `search`: parts of `weft.kernels.routing.distances.Search`.

    Returns int32 CSR over sets, as in `weft.routing.routes.CandidateRoutes`.
    """
    queue, first, edges = search.queue, search.first, search.edges
    offset = np.zeros(1024, dtype=np.int32)
    members = np.empty(4096, dtype=np.int32)
    sets = 0
    slots = np.full(4096, -1, dtype=np.int32)
    for i in range(len(targets)):
        g = targets[i]
        count = search_from(g, graph, edge_up, ordered, component_size[g], search)
        for q in range(1, count):
            start, stop = first[q], first[q + 1]
            slot = _find(slots, offset, members, edges, start, stop)
            if slots[slot] < 0:
                if sets + 2 > len(offset):
                    offset = _grown(offset)
                while offset[sets] + stop - start > len(members):
                    members = _grown(members)
                for k in range(start, stop):
                    members[offset[sets] + k - start] = edges[k]
                offset[sets + 1] = offset[sets] + stop - start
                slots[slot] = sets
                sets += 1
                if 2 * sets > len(slots):
                    slots = _rehashed(slots, sets, offset, members)
                    slot = _find(slots, offset, members, edges, start, stop)
            set_id[g, queue[q]] = slots[slot]
    return offset[: sets + 1].copy(), members[: offset[sets]].copy()


@njit(cache=True)
def _find(slots, offset, members, edges, start, stop):
    code = np.uint64(stop - start)
    for k in range(start, stop):
        code = (code ^ np.uint64(edges[k])) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    slot = np.int64(code & np.uint64(len(slots) - 1))
    while slots[slot] >= 0:
        s = slots[slot]
        if offset[s + 1] - offset[s] == stop - start:
            same = True
            for k in range(start, stop):
                if members[offset[s] + k - start] != edges[k]:
                    same = False
                    break
            if same:
                break
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@njit(cache=True)
def _grown(array):
    bigger = np.empty(2 * len(array), dtype=np.int32)
    for i in range(len(array)):  # a slice would take seconds to compile
        bigger[i] = array[i]
    return bigger


@njit(cache=True)
def _rehashed(slots, sets, offset, members):
    bigger = np.full(2 * len(slots), -1, dtype=np.int32)
    for s in range(sets):
        slot = _find(bigger, offset, members, members, offset[s], offset[s + 1])
        bigger[slot] = s
    return bigger
