"""Measured rates as a linear function of the unknown rates of pairs, by the present routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, eye_array, hstack, vstack
from scipy.sparse.linalg import splu

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out


@dataclass(frozen=True, eq=False)
class Classes:
    """Endpoints that routes and jobs do not tell apart, and what they send or receive together."""

    #: int64 [host endpoints]: class of each endpoint, -1 for those without traffic or cable.
    of: NDArray[np.int64]
    #: int64 CSR: the endpoints of each class, and float64: the part of the class that each has.
    offset: NDArray[np.int64]
    endpoint: NDArray[np.int64]
    part: NDArray[np.float64]
    #: float64 [classes]: rate of the cables of the endpoints, NaN where one is not known.
    gbps: NDArray[np.float64]
    #: bool [groups, classes]: whether each class is in each group.
    member: NDArray[np.bool_]

    @classmethod
    def of_endpoints(
        cls,
        fabric: Fabric,
        gbps: NDArray[np.float64],
        member: NDArray[np.bool_],
        alone: NDArray[np.bool_],
    ) -> Classes:
        """Return the classes of endpoints at one row, in the same groups, with known rates or none.

        `gbps`, `alone` [host endpoints]: rate of the cable of each endpoint, and whether it is a
        class of its own. `member` [groups, host endpoints].
        """
        row = fabric.graph.destination_row[: len(gbps)]
        used = np.flatnonzero((row >= 0) & (gbps != 0))
        own = np.where(alone, np.arange(len(gbps)), np.where(np.isnan(gbps), -2, -1))
        key = np.vstack((row, own, member))[:, used]
        _, first, index, size = np.unique(
            key, axis=1, return_index=True, return_inverse=True, return_counts=True
        )
        of = np.full(len(gbps), -1)
        of[used] = index.ravel()
        rate = np.bincount(of[used], gbps[used], minlength=len(first)).astype(np.float64)
        endpoint = used[np.argsort(of[used], kind="stable")]
        part = gbps[endpoint] / rate[of[endpoint]]
        part = np.where(np.isnan(part), 1.0 / size[of[endpoint]], part)
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

    def endpoints_of(self, classes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the endpoints of classes, sorted."""
        return np.flatnonzero(np.isin(self.of, classes) & (self.of >= 0))


@dataclass(frozen=True, eq=False)
class PathRates:
    """Unknown rates (columns) of pairs of classes, and the measured rates (rows) that they add to.

    Rows are the classes that send, the classes that receive, and links between switches, as far as
    measured; of a link without traffic nothing is unknown.
    """

    sending: Classes
    receiving: Classes
    #: int64 [columns]: the group (the number of groups: none), and the classes of the pair, -1 for
    #: a column that is a pattern.
    group: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    #: float64 [columns]: the most that a pair can have, because no endpoint sends to itself.
    most_gbps: NDArray[np.float64]
    #: [rows, columns]: share of each unknown rate in each measured one.
    share: csr_array
    #: float64 [rows]: measured rate, above 0.
    gbps: NDArray[np.float64]
    #: int64 [links]: the row of each link, -1 for none.
    row_of_link: NDArray[np.int64]


def path_rates(
    fabric: Fabric,
    routes: Routes,
    link_gbps: NDArray[np.float64],
    groups: Sequence[NDArray[np.int64]],
    asked: NDArray[np.int64],
) -> PathRates:
    """Return the unknown rates of all pairs that jobs, or hosts of no job, can have.

    Hosts of a job exchange data with one another and with hosts of no job. Every port of a host
    sends and receives on its own; a LID of a port is as good as any other.

    Parameters
    ----------
    link_gbps
        float64 [links]: NaN where not known.
    groups
        Host numbers of each job.
    asked
        Links whose hosts are not joined with others.

    Raises
    ------
    NotApplicable
        If packets are sent via intermediates.
    """
    if routes.num_intermediates:
        raise NotApplicable(f"{routes.engine} sends via intermediates, which tables do not tell")
    ends = fabric.num_host_endpoints
    host = fabric.endpoint_node[:ends].astype(np.int64) - fabric.num_switches
    inward = fabric.graph.destination_link[:ends]
    outward = endpoint_out(fabric)[:ends]
    member = np.array([np.isin(host, each) for each in groups]).reshape(len(groups), ends)
    settled = routes.settled
    by_pair = isinstance(routes, PathRoutes)
    sides = [
        Classes.of_endpoints(
            fabric, np.where(link >= 0, link_gbps[link], np.nan), member, np.isin(link, asked) | own
        )
        for link, own in ((outward, by_pair), (inward, settled))
    ]
    sending, receiving = sides
    group, source, destination = _pairs(sending, receiving, len(groups))
    itself = (sending.size[source] == 1) & (receiving.size[destination] == 1)
    itself &= host[sending.first[source]] == host[receiving.first[destination]]
    group, source, destination = group[~itself], source[~itself], destination[~itself]

    flows_from, flows_to = sending.first[source], receiving.first[destination]
    inner = np.flatnonzero(fabric.forwards[fabric.link_from] & fabric.forwards[fabric.link_to])
    paths = _paths(fabric, routes, flows_from, flows_to)  # [links, columns]
    column = np.repeat(np.arange(len(source)), paths.shape[1] // max(len(source), 1))
    reached = np.diff(paths.indptr) > 0
    paths.sum_duplicates()
    known = inner[np.isfinite(link_gbps[inner])]
    idle = known[link_gbps[known] == 0]
    kept = reached & (csr_array(paths)[idle].sum(axis=0) == 0)
    column = column[kept]
    group, source, destination = group[column], source[column], destination[column]
    known = known[link_gbps[known] > 0]

    single = receiving.size[destination] == 1
    within = single & (sending.of[receiving.first[destination]] == source)
    own_rate = np.where(outward >= 0, link_gbps[outward], np.nan)[receiving.first[destination]]
    most = np.where(within, sending.gbps[source] - own_rate, np.inf)
    most = np.where(np.isnan(most), np.inf, np.maximum(most, 0.0))

    parts, rates = [], []
    row_of_link = np.full(fabric.num_links, -1)
    start = 0
    for side, index, link in ((sending, source, outward), (receiving, destination, inward)):
        finite = np.flatnonzero(np.isfinite(side.gbps))
        parts.append(_indicator(index, len(side.gbps))[finite])
        rates.append(side.gbps[finite])
        lone = side.size[finite] == 1
        row_of_link[link[side.first[finite[lone]]]] = start + np.flatnonzero(lone)
        start += len(finite)
    row_of_link[known] = start + np.arange(len(known))
    share = csr_array(vstack((*parts, csr_array(paths[:, kept])[known]), format="csr"))
    return PathRates(
        sending, receiving, group, source, destination, most, share,
        np.concatenate((*rates, link_gbps[known])), row_of_link,
    )  # fmt: skip


def _pairs(
    sending: Classes, receiving: Classes, groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return group, source class and destination class of all pairs."""
    found = []
    free_from, free_to = ~sending.member.any(axis=0), ~receiving.member.any(axis=0)
    for group in range(groups):
        mine, theirs = sending.member[group], receiving.member[group]
        found += [(group, mine, theirs | free_to), (group, free_from, theirs)]
    found.append((groups, free_from, free_to))
    lists = []
    for group, begin, end in found:
        pairs = np.array(np.nonzero(begin[:, None] & end))
        lists.append(np.vstack((np.full((1, pairs.shape[1]), group), pairs)))
    number, source, destination = np.concatenate(lists, axis=1)
    return number, source, destination


def _indicator(index: NDArray[np.int64], rows: int) -> csr_array:
    columns = np.arange(len(index))
    return csr_array((np.ones(len(index)), (index, columns)), shape=(rows, len(index)))


def _paths(
    fabric: Fabric, routes: Routes, sources: NDArray[np.int64], destinations: NDArray[np.int64]
) -> csc_array:
    """Return the share of each pair of endpoints on each link: [links, pairs << lmc]."""
    per_pair = 1 << routes.lmc
    start, end = (np.repeat(ends, per_pair).astype(np.int32) for ends in (sources, destinations))
    if isinstance(routes, CandidateRoutes):
        return _split_paths(fabric, routes, sources, destinations)
    lids = np.zeros(0, dtype=np.int32)
    if routes.lmc:
        lids = (end << routes.lmc) + np.tile(np.arange(per_pair, dtype=np.int32), len(sources))
    flows = EndpointFlows(start, end, lids, np.arange(len(end), dtype=np.int32), np.zeros(0))
    offset, link = routes.links(fabric, flows)
    return csc_array((np.ones(len(link)), link, offset), shape=(fabric.num_links, len(start)))


def _split_paths(
    fabric: Fabric,
    routes: CandidateRoutes,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
) -> csc_array:
    """Return the share of each pair on links, split equally over the candidates of every row.

    With the transition matrix T from rows to next rows, traffic of row r is found at the rows of
    column r of (1 - T)^-1.
    """
    graph = fabric.graph
    row, rows = graph.destination_row, graph.num_rows
    width = np.diff(routes.set_offset)
    parts: list[Any] = []
    order = np.argsort(row[destinations], kind="stable")
    targets, first = np.unique(row[destinations][order], return_index=True)
    for target, pairs in zip(targets, np.split(order, first[1:]), strict=True):
        line = routes.set_id[target].copy()
        line[target] = -1
        tails = np.flatnonzero(line >= 0)
        count = width[line[tails]]
        tail = np.repeat(tails, count)
        begin = np.repeat(routes.set_offset[line[tails]] - np.cumsum(count) + count, count)
        edge = routes.set_edge[begin + np.arange(len(tail))]
        share = np.repeat(1.0 / np.maximum(count, 1), count)
        step = csc_array((share, (graph.edge_row[edge], tail)), shape=(rows, rows))
        leave = csr_array((share, (graph.edge_link[edge], tail)), shape=(fabric.num_links, rows))
        starts, index = np.unique(row[sources[pairs]], return_inverse=True)
        here = np.zeros((rows, len(starts)))
        here[starts, np.arange(len(starts))] = 1.0
        amount = splu(csc_array(eye_array(rows) - step)).solve(here)
        there = (line[starts] >= 0) | (starts == target)
        parts.append(csc_array(leave @ csc_array(amount * there))[:, index])
    joined = csc_array(hstack(parts, format="csc")) if parts else csc_array((fabric.num_links, 0))
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    ends = [endpoint_out(fabric)[sources], graph.destination_link[destinations]]
    inside = csc_array(joined[:, back])
    reached = (np.diff(inside.indptr) > 0) | (row[sources] == row[destinations])
    columns = np.flatnonzero(reached)
    for link in ends:
        there = columns[link[columns] >= 0]
        inside = inside + csc_array((np.ones(len(there)), (link[there], there)), shape=inside.shape)
    return csc_array(inside)
