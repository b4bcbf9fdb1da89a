"""Levels of the switches of a tree, found from the shape of the whole fabric.

Real trees have leaf switches whose hosts are off, hosts on switches above the leaves, small
switches that hang on others, and missing cables. So the level of a switch is not its distance from
the nearest host, but its depth below the top, and the top is where nearly all hosts are equally
near.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from weft.core.errors import NotApplicable
from weft.fabrics.fabric import Fabric
from weft.fabrics.graph import SwitchGraph

#: A top switch reaches such a share of the hosts within fewer hops than any other switch does. The
#: smaller shares are for several trees of similar size that a few cables join.
SHARES = ((0.9, 0.75, 0.6), (0.45, 0.3, 0.2))
#: A fabric is a tree if at most this share of the cables between switches does not connect
#: neighbouring levels, and at most this share of the hosts is not on the lowest level.
MAX_ODD_CABLES = 0.1
MAX_ODD_HOSTS = 0.25
#: Largest number of switches with hosts from which distances are computed.
MAX_SOURCES = 128

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def tree_levels(fabric: Fabric) -> Ints:
    """Return the level of each row of a tree, even if parts are missing, idle or added.

    `fabric`: any fabric. Names, labels and numbers are not used.

    Returns 1 for leaf switches, up to the number of levels. A switch that hangs on a switch of
    level l has level l - 1; below leaf switches, this is 0 or negative. Rows that reach no host
    have level 0.

    Raises `NotApplicable` if this is not a tree. The message names a cable within a level.

    The levels of each connected component are found in four steps. If the result is no tree by
    `MAX_ODD_CABLES` and `MAX_ODD_HOSTS`, steps 2 to 4 are repeated with smaller shares.

    1. If the hops to the nearest host make a regular tree, they are the levels less 1. A tree is
       regular if all cables connect neighbouring levels, and the switches of each level have
       equal numbers of hosts, of cables upwards and of cables downwards. But a leaf switch or a
       subtree without hosts makes the levels above its parents a mirror image of those below. So
       no switch just above the middle of the levels may have exactly the lower neighbours that
       are the upper neighbours of a switch just below the middle.
    2. Otherwise, for each share q in `SHARES`: let d be the smallest number of hops within which a
       switch reaches the share q of the hosts (of those at `MAX_SOURCES` evenly chosen switches if
       more have hosts). The top consists of the switches that reach the share q within d hops;
       a switch that is k hops from the top has level d + 1 - k.
    3. Of these levels, those with the fewest exceptions are taken, in a tie those with the fewest
       levels, then of the first share. An exception is a level, a cable that does not connect
       neighbouring levels, a host that is not at level 1, a switch without hosts whose neighbours
       are all one level higher, or a switch below the highest level whose neighbours are all one
       level lower.
    4. A switch with fewer hosts than usual (the median), whose neighbours are all one level
       higher, may be a top switch with missing cables. It is raised by two levels if its neighbours
       are more like those of a switch there than like those of a switch of its own level. Likeness
       is the number of common neighbours divided by the number of neighbours that either has,
       counting neighbours between the two levels. It must be more than 1/2, and more than with a
       switch of its own level; for a switch without hosts, equal is enough. A switch without hosts
       below leaf switches is raised in any case if it has several neighbours. Switches that may be
       raised themselves are not compared with. Switches that have only one neighbour do not count
       as neighbours here, and are raised with it.
    """
    graph = fabric.graph
    hosts = hosts_of_rows(fabric)
    if not hosts.any():
        raise NotApplicable("a tree needs a host that is cabled to a switch")
    near = graph.hops_from(np.flatnonzero(hosts)) + 1
    if _is_regular(graph, hosts, near):
        return near
    with_hosts = np.unique(graph.components[hosts > 0])
    inside = np.isin(graph.components, with_hosts)[graph.edge_tail]
    for shares in SHARES:
        level = np.zeros(graph.num_rows, dtype=np.int64)
        for label in with_hosts:
            part = np.flatnonzero(graph.components == label)
            level[part] = _below_top(graph, hosts, part, shares)[part]
        level = _raised(graph, hosts, level)
        odd_cables = np.mean(_is_odd(graph, level)[inside]) if inside.any() else 0.0
        if odd_cables <= MAX_ODD_CABLES and hosts[level != 1].sum() <= MAX_ODD_HOSTS * hosts.sum():
            return level
    tail, head = near[graph.edge_tail], near[graph.edge_row]
    within = np.flatnonzero((tail == head) & (tail > 0))
    if len(within):
        cable = fabric.cable_name(int(graph.edge_link[within[0]]) >> 1)
        raise NotApplicable(
            f"this is not a fat tree: {cable} connects two switches of level {tail[within[0]]}"
        )
    return near


def hosts_of_rows(fabric: Fabric) -> Ints:
    """Return the number of host ports at each row, judged or not, int64 [rows]."""
    fabric = fabric.whole
    rows = fabric.graph.destination_row[: fabric.num_host_endpoints]
    return np.bincount(rows[rows >= 0], minlength=fabric.graph.num_rows)


def _is_odd(graph: SwitchGraph, level: Ints) -> NDArray[np.bool_]:
    """Return whether each edge connects levels that are not neighbours."""
    odd: NDArray[np.bool_] = np.abs(level[graph.edge_tail] - level[graph.edge_row]) != 1
    return odd


def _is_regular(graph: SwitchGraph, hosts: Ints, level: Ints) -> bool:
    if (level < 1).any() or _is_odd(graph, level).any():
        return False
    up = level[graph.edge_tail] < level[graph.edge_row]
    counts = [np.bincount(graph.edge_tail[way], minlength=graph.num_rows) for way in (up, ~up)]
    kinds = np.unique(np.stack((level, hosts, *counts)), axis=1)
    if len(kinds[0]) > level.max():
        return False
    if level.max() % 2 == 0:
        return True
    # The leaf switches of an idle subtree below level `top` would be at level 2 * top - 1.
    top = (int(level.max()) + 1) // 2
    idle, used = (
        {heads.tobytes() for heads in np.split(near.indices, near.indptr[1:-1]) if len(heads)}
        for near in (graph.matrix(~up & (level[graph.edge_tail] == top + 1)),
                     graph.matrix(up & (level[graph.edge_tail] == top - 1)))
    )  # fmt: skip
    return idle.isdisjoint(used)


def _below_top(
    graph: SwitchGraph, hosts: Ints, part: NDArray[np.intp], shares: tuple[float, ...]
) -> Ints:
    """Return the levels of the rows of a component, by the distance from its top."""
    sources = part[hosts[part] > 0]
    if len(sources) > MAX_SOURCES:
        sources = sources[np.linspace(0, len(sources) - 1, MAX_SOURCES).astype(np.intp)]
    hops = graph.hops(sources.astype(np.int32))[:, part]
    order = np.argsort(hops, axis=0, kind="stable")
    reached = np.cumsum(hosts[sources][order], axis=0)
    hops = np.take_along_axis(hops, order, axis=0)
    inside = graph.components[graph.edge_tail] == graph.components[part[0]]
    best, fewest = np.ones(graph.num_rows, dtype=np.int64), (-1, 0)
    for share in shares if len(part) > 1 else ():
        enough = np.argmax(reached >= share * reached[-1] - 1e-9, axis=0)
        far = hops[enough, np.arange(len(part))].astype(np.int64)
        level = far.min() + 1 - graph.hops_from(part[far == far.min()])
        exceptions = int(np.count_nonzero(_is_odd(graph, level)[inside])) // 2
        exceptions += int(hosts[part][level[part] != 1].sum())
        exceptions += int(np.count_nonzero(_ends(graph, level, 1)[part] & (hosts[part] == 0)))
        tops = _ends(graph, level, -1)[part]
        exceptions += int(np.count_nonzero(tops & (level[part] < level[part].max())))
        span = int(np.ptp(level[part]))
        count = (exceptions + span, span)
        if fewest[0] < 0 or count < fewest:
            best, fewest = level, count
    return best


def _ends(graph: SwitchGraph, level: Ints, step: int, leaving: Any = slice(None)) -> Flags:
    """Return whether all neighbours of each row, along some edges, are `step` levels higher."""
    tail, head = graph.edge_tail[leaving], graph.edge_row[leaving]
    others = np.bincount(tail[level[head] != level[tail] + step], minlength=graph.num_rows)
    ends: Flags = (others == 0) & (np.diff(graph.edge_offset) > 0)
    return ends


def _raised(graph: SwitchGraph, hosts: Ints, level: Ints) -> Ints:
    """Return the levels after step 4 of `tree_levels`."""
    near = graph.matrix()
    hanging = np.diff(near.indptr) == 1
    usual = np.median(hosts[hosts > 0])
    bottoms = _ends(graph, level, 1, ~hanging[graph.edge_row])
    rows = np.flatnonzero(bottoms & (hosts < usual))
    upward = graph.matrix(level[graph.edge_tail] + 1 == level[graph.edge_row])
    ups = np.diff(upward.indptr)
    downs = np.bincount(upward.indices, minlength=graph.num_rows)
    # Rows that may be raised are not compared with one another.
    speaks = np.ones(graph.num_rows, dtype=np.int64)
    speaks[rows] = 0
    beside = _most_alike(upward[rows] @ upward.T, ups[rows], ups, speaks)
    above = _most_alike(upward[rows] @ upward, ups[rows], downs, speaks)
    most = np.maximum(beside, 0.5)
    idle = hosts[rows] == 0
    lost = idle & (level[rows] < 1) & ~hanging[rows]
    lift = np.zeros(graph.num_rows, dtype=np.int64)
    lift[rows[(above > most) | (idle & (above == most)) | lost]] = 2
    lift[hanging] = np.maximum(lift[hanging], lift[near.indices[near.indptr[:-1][hanging]]])
    return level + lift


def _most_alike(common: csr_array, mine: Ints, theirs: Ints, speaks: Ints) -> NDArray[np.float64]:
    """Return the largest likeness of each row of `common`, which counts common neighbours."""
    pairs = common.tocoo()
    row, other = pairs.coords
    likeness = speaks[other] * pairs.data / (mine[row] + theirs[other] - pairs.data)
    most = np.zeros(len(mine))
    np.maximum.at(most, row, likeness)
    return most
