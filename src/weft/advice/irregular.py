"""Irregularities of a fabric: slow cables, missing cables and uneven uplinks.

The design of the fabric is unknown. Each part is compared with its peers: the other cables of the
same switches, the switches with the same neighbours, the other leaf switches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, NodeKind, rate_text
from weft.routing.structure.fat_tree import find_levels
from weft.routing.structure.torus import find_tori, links_of

#: Number of findings that are listed in full; further ones are only counted.
NAMED = 6
#: Share of the peers that must have a value for it to be normal.
AGREE = 0.6

Ints = NDArray[np.int64]


def irregularities(fabric: Fabric) -> list[tuple[str, str]]:
    """Return degraded cables, missing cables and uneven uplinks, as pairs of name and value.

    Parameters
    ----------
    fabric
        Any fabric. The level of a switch is its distance from the nearest host. If all
        cables between switches connect neighbouring levels, missing cables and uneven uplinks are
        searched for. Otherwise, missing cables are searched for on a torus or mesh only.

    Returns
    -------
    list of tuple
        Number and list of the findings of each kind; empty for a regular fabric.

    Notes
    -----
    - A cable is degraded if it is slower than most cables of its kind (between switches, or to
      hosts) at each of its switches.
    - Peers are switches of one level that share at least half of their upper neighbours. A cable
      is missing if a switch has fewer cables to a neighbour than most of its peers have. If the
      switch has at least as many uplinks as its peers, or at most half as many (and at least two
      fewer), its uplinks are uneven instead.
    - Uplinks of a leaf switch are uneven if they are fewer, lead to fewer switches, or have a lower
      total rate than those of most leaf switches, unless missing or degraded cables explain this.
    """
    rows = []
    slow = slow_cables(fabric)
    if slow:
        text = [
            f"{fabric.cable_name(cable)} at {_rate(fabric, cable)}, not {peers}"
            for cable, peers in slow
        ]
        rows.append((f"degraded cables ({len(slow):,})", _some(text)))
    level = _levels(fabric)
    missing = missing_steps(fabric) if level is None else missing_cables(fabric, level)
    if missing:
        names = fabric.node_names
        text = [f"{names[a]} -- {names[b]}: {has} of {of}" for a, b, has, of in missing]
        count = sum(of - has for *_, has, of in missing)
        rows.append((f"missing cables ({count:,})", _some(text)))
    if level is None:
        return rows
    named = {a for a, *_ in missing}
    for cable, _ in slow:
        ends = fabric.link_from[2 * cable : 2 * cable + 2]
        if (ends < fabric.num_switches).all():
            named.update(ends.tolist())
    uneven = [text for leaf, text in uneven_uplinks(fabric, level) if leaf not in named]
    if uneven:
        rows.append((f"leaf switches with uneven uplinks ({len(uneven):,})", _some(uneven)))
    return rows


#: Number of slow cables that count as exceptions even in a small fabric.
_FEW_SLOW = 2


def slow_cables(fabric: Fabric) -> list[tuple[int, str]]:
    """Return cables that are slower than most of their kind at both ends, with the peers' rate.

    If more than half of the switches have slow cables of one rate, these cables are slower by
    design (such as those between the groups of a dragonfly) and are not reported.

    Returns
    -------
    list of tuple
        Cable number, and the peers' rate as text.
    """
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    switch = fabric.node_kind == NodeKind.SWITCH
    between = switch[ends].all(axis=0)
    rate = fabric.cable_rate_gbps
    common = np.zeros((2, fabric.num_nodes))  # rate [cables to hosts, between switches][node]
    typical = np.full((2, fabric.num_nodes), -1, dtype=np.int64)  # a cable with that rate
    for kind in (0, 1):
        cables = np.flatnonzero(between == bool(kind))
        node = ends[:, cables].ravel()
        at = np.concatenate((cables, cables))
        # The most frequent rate of each node; of equally frequent ones, the highest.
        order = np.lexsort((rate[at], node))
        node, at = node[order], at[order]
        new = np.concatenate(([True], (np.diff(node) != 0) | (np.diff(rate[at]) != 0)))
        start = np.flatnonzero(new) if len(node) else np.zeros(0, dtype=np.int64)
        count = np.diff(np.concatenate((start, [len(node)])))
        best = np.lexsort((rate[at[start]], count))  # later entries overwrite earlier ones
        common[kind, node[start[best]]] = rate[at[start[best]]]
        typical[kind, node[start[best]]] = at[start[best]]
    slow = []
    for cable in range(fabric.num_cables):
        kind = int(between[cable])
        switches = [node for node in ends[:, cable] if switch[node]]
        if switches and all(rate[cable] < common[kind, node] for node in switches):
            slow.append((cable, int(typical[kind, switches[0]])))
    designed = _by_design(fabric, between, np.array([cable for cable, _ in slow], dtype=np.int64))
    return [
        (cable, _rate(fabric, peer))
        for cable, peer in slow
        if (bool(between[cable]), float(rate[cable])) not in designed
    ]


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

    Parameters
    ----------
    fabric, level
        The fabric, and the levels of its switches, int64 [switches].

    Returns
    -------
    list of tuple
        Lower switch, upper switch, number of cables between them, and normal number.
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


def uneven_uplinks(fabric: Fabric, level: Ints) -> list[tuple[int, str]]:
    """Return leaf switches whose uplinks are fewer, lead to fewer switches, or are slower.

    Returns
    -------
    list of tuple
        Switch, and its uplinks in words.
    """
    leaves = np.flatnonzero(level == 1)
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
            text = f"{fabric.node_names[leaf]}: {mine[less[0]]:g} of {normal[less[0]]:g} {unit}"
            uneven.append((leaf, text))
    return uneven


def _levels(fabric: Fabric) -> Ints | None:
    """Return the levels of the switches; None for a single level or if a cable is within one."""
    try:
        level = find_levels(fabric).astype(np.int64)
    except NotApplicable:
        return None
    return level if level.max(initial=0) > 1 else None


def _upward(fabric: Fabric, level: Ints) -> tuple[Ints, Ints, Ints]:
    """Return lower switch, upper switch and number of each cable between levels."""
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    cables = np.flatnonzero((ends < fabric.num_switches).all(axis=0))
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


def _rate(fabric: Fabric, cable: int) -> str:
    return rate_text(float(fabric.cable_rate_gbps[cable]), int(fabric.cable_rate_code[cable]))


def _some(texts: Sequence[str]) -> str:
    """Return the first `NAMED` texts, one per line, and the number of the others."""
    lines = list(texts[:NAMED])
    if len(texts) > NAMED:
        lines.append(f"and {len(texts) - NAMED:,} more")
    return "\n".join(lines)
