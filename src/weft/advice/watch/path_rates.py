"""Measured rates as sums of unknown rates of pairs, by the present routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack, vstack

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.routes import PathRoutes, Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out
from weft.sim.static.loads import inner_links


@dataclass(frozen=True, eq=False)
class Classes:
    """Endpoints whose traffic is one unknown: at one row, in the same groups, all with a reading.

    Endpoints without traffic are in none.
    """

    #: int64 [host endpoints]: class of each endpoint, -1 for none.
    of: NDArray[np.int64]
    #: int64 CSR: endpoints of each class; and float64: the part that each has of the class's rate.
    offset: NDArray[np.int64]
    endpoint: NDArray[np.int64]
    part: NDArray[np.float64]
    #: float64 [classes]: rate, NaN where not known.
    gbps: NDArray[np.float64]
    #: bool [groups, classes]
    member: NDArray[np.bool_]

    @classmethod
    def of_endpoints(
        cls,
        row: NDArray[np.int32],
        gbps: NDArray[np.float64],
        member: NDArray[np.bool_],
        alone: NDArray[np.bool_],
    ) -> Classes:
        """Return the classes of endpoints.

        `row`, `gbps`, `alone` [host endpoints]: row of each endpoint, rate of its cable, and
        whether it is a class of its own. `member` [groups, host endpoints].
        """
        used = np.flatnonzero((row >= 0) & (gbps != 0))
        own = np.where(alone, np.arange(len(row)), np.where(np.isnan(gbps), -2, -1))
        key = np.vstack((row, own, member))[:, used]
        _, first, index, size = np.unique(
            key, axis=1, return_index=True, return_inverse=True, return_counts=True
        )
        of = np.full(len(row), -1)
        of[used] = index.ravel()
        rate = np.bincount(of[used], gbps[used], minlength=len(first)).astype(np.float64)
        endpoint = used[np.argsort(of[used], kind="stable")]
        part = gbps[endpoint] / rate[of[endpoint]]
        part = np.where(np.isnan(part), 1 / size[of[endpoint]], part)
        offset = np.concatenate(([0], np.cumsum(size)))
        return cls(of, offset, endpoint, part, rate, member[:, used[first]])

    @property
    def first(self) -> NDArray[np.int64]:
        """int64 [classes]: an endpoint of each class."""
        return self.endpoint[self.offset[:-1]]

    @property
    def size(self) -> NDArray[np.int64]:
        """int64 [classes]: number of endpoints of each class."""
        return np.diff(self.offset)


@dataclass(frozen=True, eq=False)
class PathRates:
    """Rates of pairs of classes, which are unknown, and measured rates, which are sums of them.

    Measured are what classes send, what classes receive, and links between rows. If a link carried
    nothing, there are no pairs whose path includes it.
    """

    sending: Classes
    receiving: Classes
    #: int64 [pairs]: group (the number of groups: none) and classes.
    group: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    #: float64 [pairs]: most that a pair can have, as no endpoint sends to itself.
    most_gbps: NDArray[np.float64]
    #: [rates, pairs]: share of each pair in each measured rate.
    share: csr_array
    #: float64 [rates]: measured rates, all above 0.
    gbps: NDArray[np.float64]
    #: int64 [links]: number of the measured rate of each link, -1 for none.
    rate_of_link: NDArray[np.int64]


def path_rates(
    fabric: Fabric,
    routes: Routes,
    link_gbps: NDArray[np.float64],
    groups: Sequence[NDArray[np.int64]],
    asked: NDArray[np.int64],
) -> PathRates:
    """Return all pairs that can have traffic, with their shares in the measured rates.

    Hosts of a group exchange data with one another and with hosts of no group. Every port of a host
    sends and receives on its own, to any LID of a destination.

    `link_gbps` [links]: measured rates, NaN where not known. `groups`: hosts of each group.
    `asked`: links; endpoints with such a cable are classes of their own.
    """
    if routes.num_intermediates:
        raise NotApplicable(
            f"{routes.engine} sends via intermediates, so that routes do not tell which pairs "
            "load a link"
        )
    count, graph = fabric.num_host_endpoints, fabric.graph
    host = fabric.endpoint_node[:count] - fabric.num_switches
    outward, inward = endpoint_out(fabric)[:count], graph.destination_link[:count]
    sent, received = (np.where(link >= 0, link_gbps[link], np.nan) for link in (outward, inward))
    member = np.array([np.isin(host, each) for each in groups]).reshape(len(groups), count)
    row = graph.destination_row[:count]
    # Tables look at the destination alone, source routes at both ends, candidates at rows.
    sending, receiving = (
        Classes.of_endpoints(row, gbps, member, np.isin(link, asked) | alone)
        for gbps, link, alone in (
            (sent, outward, isinstance(routes, PathRoutes)),
            (received, inward, routes.settled),
        )
    )
    group, source, destination = _pairs(sending, receiving, len(groups))
    start, end = sending.first[source], receiving.first[destination]
    single = (receiving.size == 1)[destination]
    other = ~single | (sending.size[source] > 1) | (host[start] != host[end])
    group, source, destination = (each[other] for each in (group, source, destination))
    start, end, single = start[other], end[other], single[other]

    paths = _paths(fabric, routes, start, end)
    pair = np.repeat(np.arange(len(start)), 1 << routes.lmc)
    inner = np.flatnonzero(inner_links(fabric))
    idle = inner[link_gbps[inner] == 0]
    measured = inner[link_gbps[inner] > 0]
    by_link = csr_array(paths)
    kept = (np.diff(paths.indptr) > 0) | (row[start] == row[end])[pair]
    kept &= by_link[idle].sum(axis=0) == 0
    pair = pair[kept]
    group, source, destination = group[pair], source[pair], destination[pair]
    within = single[pair] & (sending.of[end[pair]] == source)
    most = np.where(within, sending.gbps[source] - sent[end[pair]], np.inf)

    rate_of_link = np.full(fabric.num_links, -1)
    shares, rates, total = [by_link[measured][:, kept]], [link_gbps[measured]], len(measured)
    rate_of_link[measured] = np.arange(total)
    columns = np.arange(len(pair))
    for side, index, link in ((sending, source, outward), (receiving, destination, inward)):
        known = np.flatnonzero(np.isfinite(side.gbps))
        lone = np.flatnonzero(side.size[known] == 1)
        rate_of_link[link[side.first[known[lone]]]] = total + lone
        ones = csr_array((np.ones(len(pair)), (index, columns)), (len(side.gbps), len(pair)))
        shares.append(ones[known])
        rates.append(side.gbps[known])
        total += len(known)
    return PathRates(
        sending, receiving, group, source, destination,
        np.where(np.isnan(most), np.inf, np.maximum(most, 0)),
        csr_array(vstack(shares, format="csr")), np.concatenate(rates), rate_of_link,
    )  # fmt: skip


def _pairs(sending: Classes, receiving: Classes, groups: int) -> NDArray[np.int64]:
    """Return group, source class and destination class of all pairs, int64 [3, pairs]."""
    free_from, free_to = ~sending.member.any(axis=0), ~receiving.member.any(axis=0)
    found = [(groups, free_from, free_to)]
    for group, (mine, theirs) in enumerate(zip(sending.member, receiving.member, strict=True)):
        found += [(group, mine, theirs | free_to), (group, free_from, theirs)]
    lists = []
    for group, start, end in found:
        pairs: NDArray[np.int64] = np.argwhere(np.outer(start, end))
        lists.append(np.insert(pairs, 0, group, axis=1))
    return np.concatenate(lists).T


def _paths(
    fabric: Fabric, routes: Routes, start: NDArray[np.int64], end: NDArray[np.int64]
) -> csc_array:
    """Return the share of pairs of endpoints on links, [links, pairs and LID offsets]."""
    if routes.settled:
        lids = (np.arange(1 << routes.lmc) + (end << routes.lmc)[:, None]).ravel()
        start, end = (np.repeat(ends, 1 << routes.lmc) for ends in (start, end))
        flows = _flows(start, end, lids if routes.lmc else lids[:0])
        offset, link = routes.links(fabric, flows)
        return csc_array((np.ones(len(link)), link, offset), (fabric.num_links, len(start)))
    row, rows = fabric.graph.destination_row.astype(np.int64), fabric.graph.num_rows
    _, first, index = np.unique(
        row[start] * rows + row[end], return_index=True, return_inverse=True
    )
    loads = [csc_array((fabric.num_links, 0))]
    for one in first:
        flow = _flows(start[[one]], end[[one]], end[:0])
        loads.append(csc_array(routes.link_loads(fabric, flow)[0][:, None]))
    return csc_array(hstack(loads, format="csc"))[:, index]


def _flows(
    start: NDArray[np.int64], end: NDArray[np.int64], lids: NDArray[np.int64]
) -> EndpointFlows:
    begin, to, lid = (each.astype(np.int32) for each in (start, end, lids))
    return EndpointFlows(begin, to, lid, np.arange(len(begin), dtype=np.int32), np.zeros(0))
