"""What a fabric lacks by comparison with itself: slow cables, missing cables, uneven uplinks.

Nothing here knows what was ordered. Each finding compares a part with its peers: the other cables
of the same two switches' ports, the switches with the same neighbours, the other leaf switches.
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

#: Things that a row names; more are counted.
NAMED = 6
#: Share of the peers that must agree on what is normal.
AGREE = 0.6

Ints = NDArray[np.int64]


def irregularities(fabric: Fabric) -> list[tuple[str, str]]:
    """Degraded cables, missing cables and uneven uplinks, as rows of name and value.

    Parameters
    ----------
    fabric
        Any fabric. Missing cables and uneven uplinks are looked for where switches stand in tiers
        by their distance from the hosts, with cables between neighbouring tiers alone; missing
        cables also on a torus or mesh.

    Returns
    -------
    list of tuple
        Nothing for a fabric without any.

    Notes
    -----
    - A cable is degraded when it is slower than most cables of its kind (between switches, or to
      hosts) at each of its switches.
    - Of switches on one tier that share at least half of their neighbours above, a cable is
      missing where one has fewer to a neighbour than most others have.
      A switch that lacks half of all that others have, or has as many in all, is not taken to
      miss any: its uplinks are uneven.
    - Uplinks of a leaf switch are uneven when it has fewer, to fewer switches, or less rate in
      all than most leaf switches, and missing or degraded cables do not explain it.
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


#: Slow cables that are exceptions however few switches there are.
_FEW_SLOW = 2


def slow_cables(fabric: Fabric) -> list[tuple[int, str]]:
    """Cables slower than most of their kind at both ends, with the rate of those.

    Rates of which more than half of the switches have a cable are not compared: they are meant, as
    those of slower cables between the groups of a dragonfly.

    Returns
    -------
    list of tuple
        Cable number, and the peers' rate as text.
    """
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    switch = fabric.node_kind == NodeKind.SWITCH
    between = switch[ends].all(axis=0)
    rate = fabric.cable_rate_gbps
    common = np.zeros((2, fabric.num_nodes))  # of cables to others, and between switches
    typical = np.full((2, fabric.num_nodes), -1, dtype=np.int64)  # a cable of that rate
    for kind in (0, 1):
        cables = np.flatnonzero(between == bool(kind))
        node = ends[:, cables].ravel()
        at = np.concatenate((cables, cables))
        # The most frequent rate of each node, the higher one of equals.
        order = np.lexsort((rate[at], node))
        node, at = node[order], at[order]
        new = np.concatenate(([True], (np.diff(node) != 0) | (np.diff(rate[at]) != 0)))
        start = np.flatnonzero(new) if len(node) else np.zeros(0, dtype=np.int64)
        count = np.diff(np.concatenate((start, [len(node)])))
        best = np.lexsort((rate[at[start]], count))  # later ones overwrite
        common[kind, node[start[best]]] = rate[at[start[best]]]
        typical[kind, node[start[best]]] = at[start[best]]
    found = []
    for cable in range(fabric.num_cables):
        kind = int(between[cable])
        judges = [node for node in ends[:, cable] if switch[node]]
        if judges and all(rate[cable] < common[kind, node] for node in judges):
            found.append((cable, int(typical[kind, judges[0]])))
    meant = _meant(fabric, between, np.array([cable for cable, _ in found], dtype=np.int64))
    return [
        (cable, _rate(fabric, peer))
        for cable, peer in found
        if (bool(between[cable]), float(rate[cable])) not in meant
    ]


def _meant(fabric: Fabric, between: NDArray[np.bool_], slow: Ints) -> set[tuple[bool, float]]:
    """Kinds and rates of slow cables that are no exception, but what most switches have."""
    meant = set()
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2])).astype(np.int64)
    rate = fabric.cable_rate_gbps
    for kind, value in {(bool(between[cable]), float(rate[cable])) for cable in slow}:
        alike = slow[(between[slow] == kind) & (rate[slow] == value)]
        having, with_one = (
            np.unique(ends[:, cables]) for cables in (np.flatnonzero(between == kind), alike)
        )
        switches = fabric.node_kind == NodeKind.SWITCH
        # One or two cables touch more than half of the switches of a small fabric.
        if len(alike) > _FEW_SLOW and 2 * switches[with_one].sum() > switches[having].sum():
            meant.add((kind, value))
    return meant


def missing_cables(fabric: Fabric, level: Ints) -> list[tuple[int, int, int, int]]:
    """Pairs of switches with fewer cables than the peers of the lower one have to the upper one.

    Parameters
    ----------
    fabric, level
        Tiers of the switches, int64 [switches].

    Returns
    -------
    list of tuple
        Lower and upper switch, how many cables they have, and how many are normal.
    """
    matrix = _cables_up(fabric, level)
    near = matrix.astype(bool).astype(np.int64)
    degree = np.asarray(near.sum(axis=1)).ravel()
    common = (near @ near.T).tocoo()
    # Peers share at least half of all neighbours above that either has.
    close = 2 * common.data * 2 >= degree[common.row] + degree[common.col]
    close &= level[common.row] == level[common.col]
    graph = csr_array(
        (np.ones(int(close.sum())), (common.row[close], common.col[close])), shape=matrix.shape
    )
    _, label = connected_components(graph, directed=False)
    found = []
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
        total, whole = counts.sum(axis=1), normal.sum()
        spread = (2 * total <= whole) & (total < whole - 1) | (total >= whole)
        less[spread] = False
        for place, column in zip(*np.nonzero(less), strict=True):
            found.append(
                (
                    int(members[place]),
                    int(above[column]),
                    int(counts[place, column]),
                    int(normal[column]),
                )
            )
    return found


def missing_steps(fabric: Fabric) -> list[tuple[int, int, int, int]]:
    """Neighbours on a torus or mesh without a cable, as `missing_cables` gives them."""
    try:
        tori = find_tori(fabric)
    except NotApplicable:
        return []
    node = fabric.graph.row_node
    found = []
    for torus in tori:
        links = links_of(fabric, torus.rows)
        joined = set(zip(links.low.tolist(), links.high.tolist(), strict=True))
        place = {tuple(at): row for row, at in enumerate(torus.coordinate.tolist())}
        for at, row in place.items():
            for d, (size, wrap) in enumerate(zip(torus.radix, torus.wraps, strict=True)):
                if at[d] == size - 1 and not (wrap and size > 2):
                    continue
                other = place.get((*at[:d], (at[d] + 1) % size, *at[d + 1 :]))
                if other is not None and (min(row, other), max(row, other)) not in joined:
                    ends = node[torus.rows[[row, other]]].tolist()
                    found.append((min(ends), max(ends), 0, 1))
    return found


def uneven_uplinks(fabric: Fabric, level: Ints) -> list[tuple[int, str]]:
    """Leaf switches whose uplinks are fewer, to fewer switches or slower than those of most.

    Returns
    -------
    list of tuple
        The switch, and what it has in words.
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
    found = []
    for leaf, mine in zip(leaves.tolist(), has, strict=True):
        less = np.flatnonzero((mine < normal) & agreed)
        if len(less):
            unit = ("uplinks", "switches above", "Gb/s")[less[0]]
            text = f"{fabric.node_names[leaf]}: {mine[less[0]]:g} of {normal[less[0]]:g} {unit}"
            found.append((leaf, text))
    return found


def _levels(fabric: Fabric) -> Ints | None:
    """Tiers from 1, or None where cables do not all join neighbouring tiers."""
    try:
        level = find_levels(fabric).astype(np.int64)
    except NotApplicable:
        return None
    return level if level.max(initial=0) > 1 else None


def _upward(fabric: Fabric, level: Ints) -> tuple[Ints, Ints, Ints]:
    """Lower switch, upper switch and number of each cable between tiers."""
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
    """Most frequent value of each column, the largest of equals."""
    result = []
    for column in values.T:
        kept, count = np.unique(column, return_counts=True)
        result.append(kept[len(kept) - 1 - int(np.argmax(count[::-1]))])
    return np.array(result, dtype=np.float64)


def _rate(fabric: Fabric, cable: int) -> str:
    return rate_text(float(fabric.cable_rate_gbps[cable]), int(fabric.cable_rate_code[cable]))


def _some(texts: Sequence[str]) -> str:
    """The first few, a line each, and how many more there are."""
    lines = list(texts[:NAMED])
    if len(texts) > NAMED:
        lines.append(f"and {len(texts) - NAMED:,} more")
    return "\n".join(lines)
