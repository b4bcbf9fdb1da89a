"""CONGA: flowlets by congestion here and far, which leaves tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import InputError, NotApplicable
from weft.core.units import Nanoseconds
from weft.fabrics import Fabric
from weft.kernels.packet import choice as kernel
from weft.kernels.packet.records import one
from weft.kernels.routing.tree_descent import first_not_down
from weft.routes import CandidateRoutes
from weft.routing.structure.fat_tree import find_levels
from weft.sim.packet.network import picoseconds
from weft.sim.packet.policies.policy_registry import Policy, policy

#: What middle switches of three levels do.
Middle = Literal["conga", "ecmp"]

#: Levels of switches, and uplinks of one, that headers have room for.
_MOST_LEVELS = 3
_MOST_UPLINKS = 255


@policy("conga")
def conga(
    *,
    gap: Nanoseconds = 500_000.0,
    entries: int = 4096,
    alpha: float = 0.1,
    t_dre: Nanoseconds = 16_000.0,
    bits: int = 3,
    ageing: Nanoseconds = 10_000_000.0,
    middle: Middle = "conga",
) -> Policy:
    """Flowlets take the uplink with the least congestion, near as measured or far as told.

    In trees of two or three levels of switches; see docs/policies.md for every rule.

    Parameters
    ----------
    gap
        T_fl: time between two looks at the age bits of flowlets.
    entries
        Flowlets that each switch remembers.
    alpha, t_dre
        Part of a rate estimate that goes at each tick, and time between ticks. Their quotient is
        the time that the estimate looks back.
    bits
        Of a congestion metric.
    ageing
        Metrics that nothing was heard of for this time are halved, and again.
    middle
        What middle switches of three levels do: as leaves do (``conga``), or hashes (``ecmp``).

    Notes
    -----
    Source: Alizadeh et al. 2014, whose figures the defaults are but for the entries (65,536), and
    of t_dre / alpha the quotient; on three levels, Routing Keys.
    """
    if not 1 <= entries <= 2**20:
        raise InputError(f"entries must be 1 to {2**20}, not {entries}")
    if not 0 < alpha <= 1:
        raise InputError(f"alpha must be above 0 and at most 1, not {alpha}")
    if not 1 <= bits <= 7:
        raise InputError(f"bits must be 1 to 7, not {bits}")
    for name, value in (("gap", gap), ("t_dre", t_dre), ("ageing", ageing)):
        if not 0.001 <= value < 1e12:
            raise InputError(f"{name} must be 0.001 ns or more and below 1e12 ns, not {value}")
    tick_ps = int(picoseconds(t_dre))
    rules = one(kernel.CONGA_RULES)
    rules["levels"] = 1 << bits
    rules["tick_ps"] = tick_ps
    rules["ageing_ps"] = int(picoseconds(ageing))
    rules["middle_decides"] = middle == "conga"
    rules["left"] = 1 - alpha
    # Levels over what passes a link of 1 Gb/s in t_dre / alpha.
    rules["scale"] = (1 << bits) * 8000 * alpha / tick_ps
    return Policy(
        kernel.CONGA,
        {"gap_ps": int(picoseconds(gap))},
        entries=entries,
        reorders=True,
        watches=True,
        lay=partial(_lay, rules),
    )


def _lay(made: Any, fabric: Fabric, routes: CandidateRoutes) -> Mapping[str, Any]:
    """Levels, pods and uplinks of a tree, and room for its tables.

    Raises
    ------
    NotApplicable
        When the fabric is no tree of two or three levels, routes go up after they went down, or a
        middle switch cannot know whom it hears from.
    """
    graph = fabric.graph
    level = find_levels(fabric).astype(np.int64) - 1
    most = int(level.max())
    if not 1 <= most < _MOST_LEVELS:
        raise NotApplicable(
            f"policy conga is for trees of two or three levels of switches; {fabric.name} has "
            f"{most + 1}"
        )
    leaves = np.flatnonzero(level == 0)
    _check_up_down(fabric, routes, level, leaves)
    up = level[graph.edge_row] > level[graph.edge_tail]
    uplink = np.full(len(up), -1, dtype=np.int16)
    before = np.concatenate([[0], np.cumsum(up)])
    count = before[graph.edge_offset[1:]] - before[graph.edge_offset[:-1]]
    if count.max(initial=0) > _MOST_UPLINKS:
        raise NotApplicable(f"policy conga numbers up to {_MOST_UPLINKS} uplinks of a switch")
    uplink[up] = (before[:-1] - before[graph.edge_offset[graph.edge_tail]])[up]
    pod = _pods(fabric, level)
    if made["middle_decides"] and most == 2:
        _check_peers(fabric, level, pod)
    columns = [int(count[level == each].max(initial=0)) for each in (0, 1)]
    rules = made.copy()
    rules["leaf_uplinks"], rules["middle_uplinks"] = columns
    size = np.zeros(graph.num_rows, dtype=np.int64)
    size[level == 0] = len(leaves) * columns[0]
    if made["middle_decides"]:
        size[level == 1] = (int(pod.max()) + 1) * columns[1]
    rows = np.zeros(graph.num_rows, dtype=kernel.TREE_ROW)
    rows["first_cell"] = np.cumsum(size) - size
    rows["leaf"] = -1
    rows["leaf"][leaves] = np.arange(len(leaves))
    rows["pod"], rows["level"] = pod, level
    cells = np.zeros(max(int(size.sum()), 1), dtype=kernel.CELL)
    cells["heard_to_ps"] = cells["heard_from_ps"] = -1
    estimates = np.zeros(fabric.num_links, dtype=kernel.ESTIMATE)
    return {"conga": kernel.Conga(rules, rows, cells, estimates, uplink)}


def _pods(fabric: Fabric, level: NDArray[np.int64]) -> NDArray[np.int32]:
    """int32 [rows]: which part a switch is in when those of the third level are taken away."""
    graph = fabric.graph
    inside = (level[graph.edge_tail] < 2) & (level[graph.edge_row] < 2)
    shape = (graph.num_rows, graph.num_rows)
    joined = coo_array(
        (np.ones(int(inside.sum())), (graph.edge_tail[inside], graph.edge_row[inside])), shape
    )
    label = connected_components(joined, directed=False)[1]
    pod: NDArray[np.int32] = np.unique(label, return_inverse=True)[1].astype(np.int32)
    return pod


def _check_up_down(
    fabric: Fabric, routes: CandidateRoutes, level: NDArray[np.int64], leaves: NDArray[Any]
) -> None:
    """Refuse routes that go up again."""
    graph = fabric.graph
    row, goal = first_not_down(
        leaves, routes.set_id, routes.set_offset, routes.set_edge, graph.edge_row, level
    )
    if row >= 0:
        names = (fabric.node_names[graph.row_node[each]] for each in (row, goal))
        raise NotApplicable(
            "policy conga needs routes that go up and then down; the {} ones of {} go both ways, "
            "or up after down, at {} to {}".format(routes.engine, fabric.name, *names)
        )


def _check_peers(fabric: Fabric, level: NDArray[np.int64], pod: NDArray[np.int32]) -> None:
    """Refuse trees in which a middle switch reaches several switches of one pod by its uplinks.

    Feedback from a pod is then of the one that answers, and it would not know which it is.
    """
    graph = fabric.graph
    climbs = (level[graph.edge_tail] == 1) & (level[graph.edge_row] == 2)
    pairs = coo_array(
        (np.ones(int(climbs.sum())), (graph.edge_tail[climbs], graph.edge_row[climbs])),
        (graph.num_rows, graph.num_rows),
    ).tocsr()
    one, other = (pairs @ pairs.T).nonzero()
    apart = pod[one] != pod[other]
    one, other = one[apart], other[apart]
    key = one.astype(np.int64) * (int(pod.max()) + 1) + pod[other]
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(twice):
        at, first, second = (
            fabric.node_names[graph.row_node[int(row)]]
            for row in (one[order][twice[0]], *np.sort(other[order][twice[0] : twice[0] + 2]))
        )  # fmt: skip
        raise NotApplicable(
            f"policy conga in middle switches: {at} reaches both {first} and {second} of one pod, "
            "and could not tell whose feedback it hears; middle=ecmp leaves them to hashes"
        )
