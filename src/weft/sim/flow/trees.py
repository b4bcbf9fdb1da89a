"""Routes of reductions in switches: trees of links on which a message has one rate."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.arrays import OUTSIDE, NodeKind
from weft.fabrics.formats.records import is_aggregation_node
from weft.routing.routes import CandidateRoutes, Routes
from weft.sim.flow.network import Network, lay_routes
from weft.workload import Workload

Ints = NDArray[Any]


def with_trees(
    fabric: Fabric, routes: Routes, workload: Workload, hosts: Ints, network: Network, **laying: Any
) -> tuple[Network, Ints]:
    """Add a route for each distinct tree of a workload; return the route of each tree number.

    A tree has the links of the paths from all members to the first one, and their reverses, each
    once: switches add up what arrives, and copy the result. It has no latency, which the messages
    by which members say that they are ready have had.

    Raises
    ------
    InputError
        If two members of a tree are on one host, or on one machine without a model.
    NotApplicable
        If routes have several paths, paths part and meet again, or a switch does not reduce.
    """
    if isinstance(routes, CandidateRoutes):
        raise NotApplicable(f"a reduction in switches needs one path; {routes.engine} has several")
    ops = np.flatnonzero(workload.tree >= 0)
    number = np.tile(workload.tree[ops].astype(np.int64), 2)
    rank = np.concatenate([workload.rank[ops], workload.peer[ops]])
    of, member = np.unique([number, rank], axis=1)
    host = hosts[member]
    one, other = np.split(hosts[rank], 2)
    if np.unique([of, host], axis=1).shape[1] < len(of) or not fabric.apart(one, other).all():
        raise InputError("two members of a reduction in switches are on one machine")
    distinct: dict[tuple[int, ...], int] = {}
    route = np.zeros(workload.tree.max() + 1, dtype=np.int32)
    groups = np.split(host, np.flatnonzero(np.diff(of)) + 1)
    for tree, members in zip(np.unique(of), groups, strict=True):
        index = distinct.setdefault(tuple(sorted(members.tolist())), len(distinct))
        route[tree] = network.num_routes + index
    trees = list(distinct)
    sources = np.concatenate([members[1:] for members in trees])
    roots = np.repeat([members[0] for members in trees], [len(members) - 1 for members in trees])
    paths = lay_routes(fabric, routes, sources, roots, **laying)
    able = _able(fabric)
    first = np.cumsum([0, *(len(members) - 1 for members in trees)])
    cuts = paths.route_offset[first]
    links = []
    for start, end in pairwise(cuts):
        up = np.unique(paths.route_link[start:end])
        _check(fabric, up, able)
        begin = paths.route_link[end - 1] ^ 1  # of the root; the first link is its adapter's
        rest = np.concatenate([up, up ^ 1])
        links.append(np.concatenate([[begin], rest[rest != begin]]).astype(np.int32))
    ends = network.route_offset[-1] + np.cumsum([len(each) for each in links])
    rate = [network.capacity_bytes_per_ns[each].min() for each in links]
    return replace(
        network,
        route_offset=np.append(network.route_offset, ends),
        route_link=np.concatenate([network.route_link, *links]),
        route_latency_ns=np.append(network.route_latency_ns, np.zeros(len(links))),
        route_rate_bytes_per_ns=np.append(network.route_rate_bytes_per_ns, rate),
        route_source=np.append(network.route_source, paths.route_destination[first[:-1]]),
        route_destination=np.append(network.route_destination, paths.route_source[first[:-1]]),
    ), route


def _able(fabric: Fabric) -> NDArray[np.bool_]:
    """Return which nodes reduce: switches with an aggregation node, or all if none is known."""
    able: NDArray[np.bool_] = fabric.node_kind == NodeKind.SWITCH
    if fabric.machine_model is not None:
        able &= fabric.adapter == OUTSIDE
    aggregation = [
        node
        for node in np.flatnonzero(fabric.node_kind == NodeKind.AUXILIARY).tolist()
        if is_aggregation_node(
            fabric.descriptions[node], int(fabric.vendor_id[node]), int(fabric.device_id[node])
        )
    ]
    if aggregation:
        beside = fabric.link_to[np.isin(fabric.link_from, aggregation)]
        able &= np.isin(np.arange(len(able)), beside)
    return able


def _check(fabric: Fabric, up: Ints, able: NDArray[np.bool_]) -> None:
    """Refuse links that are no tree, or meet where nothing reduces."""
    start, end = fabric.link_from[up], fabric.link_to[up]
    if len(np.unique(start)) < len(start):
        raise NotApplicable("paths of a reduction in switches part and meet again; expected a tree")
    cables = np.bincount(np.concatenate([start, end]), minlength=len(able))
    joins = np.flatnonzero(cables > 2)
    if not len(joins):  # two members: any switch of their path
        path = np.flatnonzero(cables == 2)
        joins = path[able[path]][:1] if able[path].any() else path[:1]
    for node in joins[~able[joins]][:1]:
        raise NotApplicable(
            f"paths of a reduction meet at {fabric.node_names[node]}, which does not reduce; "
            "expected a switch outside machines, with an aggregation node if the fabric has any"
        )
