"""Irregularities of a fabric: slow cables, missing cables and uneven uplinks.

The design of the fabric is unknown. Each part is compared with its peers: the other cables of the
same switches, the switches with the same neighbours, the other leaf switches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, NodeKind, rate_text
from weft.fabrics.levels import hosts_of_rows, tree_levels
from weft.routing.structure.torus import find_tori, links_of

#: Share of the peers that must have a value for it to be normal.
AGREE = 0.6

Ints = NDArray[np.int64]


#: Number of slow cables that count as exceptions even in a small fabric.
_FEW_SLOW = 2


def slow_cables(fabric: Fabric) -> list[tuple[int, str]]:
    """Return cables that are slower than most of the same use at each switch, with the usual rate.

    Cables of a switch have the same use if they lead to adapters of one model, or to switches of
    one model and level. A cable that is the only one of its use at its switch is compared with
    those at all switches of this model, as is a cable in a tie. If more than half of the switches
    have slow cables of one rate, these cables are slower by design (such as those between the
    groups of a dragonfly) and are not reported.

    The rate is a text.
    """
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    is_switch = fabric.node_kind == NodeKind.SWITCH
    between = is_switch[ends].all(axis=0)
    level = fabric_levels(fabric)
    height = np.zeros(fabric.num_nodes, dtype=np.int64)
    if level is not None:
        height[: len(level)] = level
    _, model = np.unique(
        np.column_stack((is_switch, fabric.vendor_id, fabric.device_id,
                         np.where(is_switch, fabric.num_ports, 0))),
        axis=0, return_inverse=True,
    )  # fmt: skip
    node, far = ends.ravel(), ends[::-1].ravel()
    step = np.where(np.tile(between, 2), np.sign(height[far] - height[node]), 0)
    rate = np.tile(fabric.cable_rate_gbps, 2)
    here = _usual(np.column_stack((node, model[far], step)), rate)
    anywhere = _usual(np.column_stack((model[node], model[far], step)), rate)
    alone = here[1] == 1
    peer = np.where(alone, anywhere[0], here[0])
    # Where no majority at the switch is faster, such as in a tie, all switches decide.
    most_faster = np.maximum(here[2], anywhere[2]) >= AGREE
    slower = ((rate < rate[peer]) & most_faster) | ~is_switch[node]
    both = slower.reshape(2, -1).all(axis=0) & is_switch[ends].any(axis=0)
    slow = np.flatnonzero(both)
    of_end = peer.reshape(2, -1)[np.where(is_switch[ends[0]], 0, 1), np.arange(len(between))]
    designed = _by_design(fabric, between, slow)
    return [
        (cable, rate_of(fabric, int(of_end[cable]) % fabric.num_cables))
        for cable in slow.tolist()
        if (bool(between[cable]), float(fabric.cable_rate_gbps[cable])) not in designed
    ]


def _usual(group: Ints, rate: NDArray[np.float64]) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Return an entry with the most frequent rate of each entry's group, and the group's size.

    Of equally frequent rates, the highest counts. The third array has the share of the group that
    is faster than each entry.
    """
    _, number = np.unique(group, axis=0, return_inverse=True)
    order = np.lexsort((rate, number))
    new = np.diff(number[order], prepend=-1) != 0
    start = np.flatnonzero(new | (np.diff(rate[order], prepend=-1.0) != 0))
    count = np.diff(np.append(start, len(order)))
    usual = np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64)
    best = np.lexsort((rate[order[start]], count))  # later entries overwrite earlier ones
    usual[number[order[start[best]]]] = order[start[best]]
    size = np.bincount(number)
    faster = np.empty(len(order))
    faster[order] = np.repeat(size.cumsum()[number[order[start]]] - (start + count), count)
    return usual[number], size[number], faster / size[number]


def _by_design(fabric: Fabric, between: NDArray[np.bool_], slow: Ints) -> set[tuple[bool, float]]:
    """Return the kinds and rates of slow cables that more than half of the switches have."""
    designed = set()
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    rate = fabric.cable_rate_gbps
    for kind, value in {(bool(between[cable]), float(rate[cable])) for cable in slow}:
        alike = slow[(between[slow] == kind) & (rate[slow] == value)]
        having, with_one = (
            np.unique(ends[:, cables]) for cables in (np.flatnonzero(between == kind), alike)
        )
        switches = fabric.node_kind == NodeKind.SWITCH
        # In a small fabric one or two cables already touch more than half of the switches.
        if len(alike) > _FEW_SLOW and 2 * switches[with_one].sum() > switches[having].sum():
            designed.add((kind, value))
    return designed


def missing_cables(fabric: Fabric, level: Ints) -> list[tuple[int, int, int, int]]:
    """Return pairs of switches with fewer cables than the lower switch's peers have to the upper.

    `level` [switches]. A pair has its lower and upper switch, its number of cables, and the normal
    number.
    """
    matrix = _cables_up(fabric, level)
    near = matrix.astype(bool).astype(np.int64)
    degree = np.asarray(near.sum(axis=1)).ravel()
    common = (near @ near.T).tocoo()
    # Peers share at least half of the mean number of their upper neighbours.
    close = 2 * common.data * 2 >= degree[common.row] + degree[common.col]
    close &= level[common.row] == level[common.col]
    graph = csr_array(
        (np.ones(int(close.sum())), (common.row[close], common.col[close])), shape=matrix.shape
    )
    _, label = connected_components(graph, directed=False)
    missing = []
    for group in np.unique(label[degree > 0]):
        members = np.flatnonzero((label == group) & (degree > 0))
        if len(members) < 3:
            continue
        counts = matrix[members].toarray()
        above = np.flatnonzero(counts.any(axis=0))
        counts = counts[:, above]
        normal = _mode(counts)
        agreed = (counts == normal).mean(axis=0) >= AGREE
        less = (counts < normal) & agreed
        total, usual = counts.sum(axis=1), normal.sum()
        uneven = (2 * total <= usual) & (total < usual - 1) | (total >= usual)
        less[uneven] = False
        for index, column in zip(*np.nonzero(less), strict=True):
            missing.append(
                (
                    int(members[index]),
                    int(above[column]),
                    int(counts[index, column]),
                    int(normal[column]),
                )
            )
    return missing


def missing_steps(fabric: Fabric) -> list[tuple[int, int, int, int]]:
    """Return neighbours on a torus or mesh without a cable, in the form of `missing_cables`."""
    try:
        tori = find_tori(fabric)
    except NotApplicable:
        return []
    node = fabric.graph.row_node
    missing = []
    for torus in tori:
        links = links_of(fabric, torus.rows)
        cabled = set(zip(links.low.tolist(), links.high.tolist(), strict=True))
        row_at = {tuple(at): row for row, at in enumerate(torus.coordinate.tolist())}
        for at, row in row_at.items():
            for d, (size, wrap) in enumerate(zip(torus.radix, torus.wraps, strict=True)):
                if at[d] == size - 1 and not (wrap and size > 2):
                    continue
                other = row_at.get((*at[:d], (at[d] + 1) % size, *at[d + 1 :]))
                if other is not None and (min(row, other), max(row, other)) not in cabled:
                    ends = node[torus.rows[[row, other]]].tolist()
                    missing.append((min(ends), max(ends), 0, 1))
    return missing


def uneven_uplinks(fabric: Fabric, level: Ints) -> list[tuple[int, float, float, str]]:
    """Return leaf switches whose uplinks are fewer, lead to fewer switches, or are slower.

    Each has its number of uplinks, of switches above or of Gb/s; the normal value; and which of the
    three it is.
    """
    leaves = np.flatnonzero((level == 1) & (hosts_of_rows(fabric) > 0))
    if len(leaves) < 3:
        return []
    matrix = _cables_up(fabric, level)
    low, _, cables = _upward(fabric, level)
    gbps = np.bincount(low, weights=fabric.cable_rate_gbps[cables], minlength=len(level))
    has = np.column_stack((matrix.sum(axis=1), matrix.astype(bool).sum(axis=1), gbps))[leaves]
    normal = _mode(has)
    agreed = (has == normal).mean(axis=0) >= AGREE
    uneven = []
    for leaf, mine in zip(leaves.tolist(), has, strict=True):
        less = np.flatnonzero((mine < normal) & agreed)
        if len(less):
            unit = ("uplinks", "switches above", "Gb/s")[less[0]]
            uneven.append((leaf, float(mine[less[0]]), float(normal[less[0]]), unit))
    return uneven


def fabric_levels(fabric: Fabric) -> Ints | None:
    """Return the levels of the switches of a tree; None if there are not several."""
    try:
        level = tree_levels(fabric)
    except NotApplicable:
        return None
    forwarding_hosts = len(level) != fabric.num_switches
    return None if forwarding_hosts or level.max(initial=0) < 2 else level


def _upward(fabric: Fabric, level: Ints) -> tuple[Ints, Ints, Ints]:
    """Return lower switch, upper switch and number of each cable between neighbouring levels."""
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    cables = np.flatnonzero((ends < fabric.num_switches).all(axis=0))
    cables = cables[np.abs(np.diff(level[ends[:, cables]], axis=0)[0]) == 1]
    a, b = ends[:, cables]
    up = level[a] < level[b]
    return np.where(up, a, b), np.where(up, b, a), cables


def _cables_up(fabric: Fabric, level: Ints) -> csr_array:
    a, b, _ = _upward(fabric, level)
    size = (fabric.num_switches, fabric.num_switches)
    matrix = csr_array((np.ones(len(a), dtype=np.int64), (a, b)), shape=size)
    matrix.sum_duplicates()
    return matrix


def _mode(values: NDArray[np.number]) -> NDArray[np.float64]:
    """Return the most frequent value of each column; of equally frequent ones, the largest."""
    result = []
    for column in values.T:
        kept, count = np.unique(column, return_counts=True)
        result.append(kept[len(kept) - 1 - int(np.argmax(count[::-1]))])
    return np.array(result, dtype=np.float64)


def rate_of(fabric: Fabric, cable: int) -> str:
    """Return the rate of a cable as text, such as ``4xHDR``."""
    return rate_text(float(fabric.cable_rate_gbps[cable]), int(fabric.cable_rate_code[cable]))
