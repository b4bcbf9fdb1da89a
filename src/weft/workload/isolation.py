"""Allocation of hosts and links so that no two jobs share a link between switches.

A job gets links of its own, on which any permutation of its hosts can be routed without contention.
In a tree with two or three levels of switches, a job has one of these shapes:

- the hosts of one leaf switch, without links between switches;
- in one pod (leaf switches below common second-level switches): leaves with n hosts each, and
  at most one *remainder leaf* with fewer. Each leaf has cables to the same n second-level switches,
  the remainder leaf to as many of them as it has hosts;
- in several pods: pods with L whole leaves each, and at most one *remainder pod* with fewer. In all
  pods, the cables lead to the same positions of second-level switches. From each of these, every
  pod has cables to the same L spines. The remainder pod has cables to as many of these as it has
  leaves of the job with a cable to that switch.

With ``jigsaw`` the remainder pod may have a remainder leaf: the idea of Smith and Lowenthal,
"Jigsaw", HPDC 2021; the order of the search is not theirs. With ``laas``, jobs in several pods are
rounded up to whole leaves, so that a leaf is like one host of a tree with one level less, as in the
authors' program for Zahavi et al., "Links as a Service", ANCS 2016. One detail differs: if only one
leaf is not the remainder, that program gives it as many cables as the remainder leaf has hosts,
and likewise for pods; here each leaf has a cable for each host.

Jobs share no link only if their routes use their own links, as those of `isolated_routes` do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.engines.source import check_pairs
from weft.routing.routes import PathRoutes
from weft.routing.structure.folded_clos import FoldedClos, find_folded_clos

Isolation = Literal["jigsaw", "laas"]

#: Free cables upwards of a leaf, or of each second-level switch of a pod; bit k is the k-th cable.
_Cables = tuple[int, ...]


@dataclass(frozen=True)
class Allocation:
    """Hosts and links of one job."""

    #: Hosts, leaf by leaf; the remainder leaf comes last.
    hosts: tuple[int, ...]
    #: How many of these hosts the job does not need.
    wasted: int = 0
    #: Second-level switches to which each leaf has a cable of the job, as bits.
    leaf_cables: dict[int, int] = field(default_factory=dict)
    #: Spines to which each second-level switch, by pod and position, has a cable, as bits.
    pod_cables: dict[tuple[int, int], int] = field(default_factory=dict)


class IsolatedJobs:
    """The hosts and cables of a tree that no job has yet.

    `fabric`: a complete tree with at most three levels of switches, without parallel cables and
    with at least as many cables upwards as downwards at each switch. `method`: ``jigsaw`` or
    ``laas``.
    """

    def __init__(self, fabric: Fabric, method: Isolation) -> None:
        clos = find_folded_clos(fabric)
        stages = clos.stages
        if len(stages) > 2 or not clos.complete or any(stage.parallel > 1 for stage in stages):
            raise NotApplicable(
                "isolated jobs need a complete tree with at most three levels of switches and one "
                "cable between two switches"
            )
        if (np.bincount(fabric.endpoint_node[: fabric.num_host_endpoints]) > 1).any():
            raise NotApplicable("isolated jobs need hosts with one port each")
        self.method = method
        cabled = np.flatnonzero(fabric.host_endpoint >= 0)
        #: Leaf switch of each host, -1 without a cable.
        self.leaf_of = np.full(fabric.num_hosts, -1)
        row = fabric.graph.destination_row[fabric.host_endpoint[cabled]]
        self.leaf_of[cabled] = clos.leaf_of_row[row]
        leaves = len(clos.leaf_row)
        pod = stages[1].subtree if len(stages) > 1 else np.zeros(leaves, dtype=np.int32)
        self.pod_of: list[int] = pod.tolist()
        self.leaves_of = [np.flatnonzero(pod == each).tolist() for each in range(pod.max() + 1)]
        #: Largest number of hosts of a leaf; a leaf with so many free hosts is whole.
        self.whole = int(np.bincount(self.leaf_of[cabled], minlength=leaves).max())
        widths = [stage.planes for stage in stages]
        most = [self.whole, max(map(len, self.leaves_of))][: len(widths)]
        if any(width < below for width, below in zip(widths, most, strict=True)):
            raise NotApplicable(
                "isolated jobs need a tree whose switches have as many cables upwards as downwards"
            )
        up = widths[0] if widths else 0
        spines = widths[1] if len(widths) > 1 else 0
        self.free: list[list[int]] = [[] for _ in range(leaves)]
        for host in cabled.tolist():
            self.free[self.leaf_of[host]].append(host)
        self.leaf_cables = [(1 << up) - 1] * leaves
        self.pod_cables = [[(1 << spines) - 1] * up for _ in self.leaves_of]

    def allow(self, hosts: NDArray[np.int32]) -> None:
        """Use only these hosts, in this order."""
        free = {host for leaf in self.free for host in leaf}
        self.free = [[] for _ in self.free]
        for host in hosts.tolist():
            if host in free:
                self.free[self.leaf_of[host]].append(host)

    def take(self, allocation: Allocation) -> None:
        """Mark the hosts and cables of an allocation as in use."""
        used = set(allocation.hosts)
        for leaf in {int(self.leaf_of[host]) for host in used}:
            self.free[leaf] = [host for host in self.free[leaf] if host not in used]
        self._flip(allocation)

    def release(self, allocation: Allocation) -> None:
        """Free the hosts and cables of an allocation."""
        for host in allocation.hosts:
            self.free[self.leaf_of[host]].append(host)
        for leaf in {int(self.leaf_of[host]) for host in allocation.hosts}:
            self.free[leaf].sort()
        self._flip(allocation)

    def _flip(self, allocation: Allocation) -> None:
        for leaf, cables in allocation.leaf_cables.items():
            self.leaf_cables[leaf] ^= cables
        for (pod, position), cables in allocation.pod_cables.items():
            self.pod_cables[pod][position] ^= cables

    def find(self, count: int) -> Allocation | None:
        """Return an allocation of a number of hosts, or None if there is none.

        Few leaves with many hosts of the job are preferred to many leaves with few, one pod to
        several pods, and leaves and pods with few free hosts to others.
        """
        for each in range(min(count, self.whole), 0, -1):
            for pod in sorted(range(len(self.leaves_of)), key=self._free_in):
                found = self._find_in_pod(pod, count, each)
                if found is not None:
                    return found
        whole, rest = divmod(count, self.whole)
        if self.method == "laas" and rest:
            whole, rest = whole + 1, 0
        for each in range(min(whole, max(map(len, self.leaves_of))), 0, -1):
            found = self._find_pods(count, *divmod(whole, each), each, rest)
            if found is not None:
                return found
        return None

    def adopt(self, hosts: ArrayLike) -> Allocation | None:
        """Return the allocation of a job on given hosts, or None if it cannot be isolated."""
        given = np.unique(np.asarray(hosts, dtype=np.int64))
        leaves, counts = np.unique(self.leaf_of[given], return_counts=True)
        count_of = dict(zip(leaves.tolist(), counts.tolist(), strict=True))
        pods = {self.pod_of[leaf] for leaf in count_of}
        if self.method == "laas" and len(pods) > 1:
            count_of = dict.fromkeys(count_of, self.whole)
        each = max(count_of.values())
        full = [leaf for leaf, number in count_of.items() if number == each]
        rest = [leaf for leaf, number in count_of.items() if number < each]
        if len(rest) > 1 or any(number > len(self.free[leaf]) for leaf, number in count_of.items()):
            return None
        chosen = {leaf: given[self.leaf_of[given] == leaf].tolist() for leaf in count_of}
        if len(pods) == 1:
            remainder = (rest[0], count_of[rest[0]]) if rest else None
            return self._pod_allocation(full, each, remainder, chosen)
        by_pod = {pod: [leaf for leaf in full if self.pod_of[leaf] == pod] for pod in pods}
        most = max(map(len, by_pod.values()))
        last = [pod for pod in pods if len(by_pod[pod]) < most]
        if each != self.whole or len(last) > 1 or (rest and last != [self.pod_of[rest[0]]]):
            return None
        if self.method == "laas":
            chosen = {leaf: self.free[leaf] for leaf in count_of}
        remainder_pod = None
        if last:
            leaf, number = (rest[0], count_of[rest[0]]) if rest else (-1, 0)
            remainder_pod = _RemainderPod(last[0], by_pod.pop(last[0]), leaf, number)
        found = self._pods_allocation(by_pod, most, remainder_pod, chosen)
        return found and replace(found, wasted=len(found.hosts) - len(given))

    def _free_in(self, pod: int) -> int:
        return sum(len(self.free[leaf]) for leaf in self.leaves_of[pod])

    def _find_in_pod(self, pod: int, count: int, each: int) -> Allocation | None:
        """Return an allocation in one pod with `each` hosts on each leaf but the remainder."""
        leaves, rest = divmod(count, each)
        order = sorted(self.leaves_of[pod], key=lambda leaf: len(self.free[leaf]))
        able = [leaf for leaf in order if len(self.free[leaf]) >= each]
        if len(able) < leaves or self._free_in(pod) < count:
            return None
        if leaves == 1 and not rest:
            return Allocation(tuple(self.free[able[0]][:each]))
        tried: set[int] = set()
        for last in order if rest else [-1]:
            cables = self.leaf_cables[last] if rest else 0
            # Of leaves with the same cables, the one with the fewest free hosts is tried.
            if rest and (len(self.free[last]) < rest or cables in tried):
                continue
            tried.add(cables)
            items: list[tuple[int, _Cables]] = [
                (leaf, (self.leaf_cables[leaf],)) for leaf in able if leaf != last
            ]
            full = _choose(items, leaves, lambda common: _both(common[0], each, cables, rest))  # noqa: B023
            if full is not None:
                chosen = {leaf: self.free[leaf][:each] for leaf in full}
                if rest:
                    chosen[last] = self.free[last][:rest]
                return self._pod_allocation(full, each, (last, rest) if rest else None, chosen)
        return None

    def _pod_allocation(
        self,
        full: list[int],
        each: int,
        remainder: tuple[int, int] | None,
        chosen: dict[int, list[int]],
    ) -> Allocation | None:
        """Return the allocation of leaves of one pod, or None if they lack common cables."""
        leaf, rest = remainder or (-1, 0)
        order = [*full, leaf] if remainder else full
        hosts = tuple(host for each in order for host in chosen[each])
        if len(order) == 1:
            return Allocation(hosts)
        common = _common([(self.leaf_cables[each],) for each in full])[0]
        own = self.leaf_cables[leaf] if remainder else 0
        if not _both(common, each, own, rest):
            return None
        part = _lowest(common & own, rest)
        cables = dict.fromkeys(full, part | _lowest(common & ~part, each - rest))
        return Allocation(hosts, 0, cables | ({leaf: part} if remainder else {}))

    def _whole_leaves(self, pod: int) -> list[int]:
        return [leaf for leaf in self.leaves_of[pod] if len(self.free[leaf]) == self.whole]

    def _find_pods(
        self, count: int, pods: int, left: int, each: int, rest: int
    ) -> Allocation | None:
        """Return an allocation of `pods` pods of `each` leaves, `left` leaves and `rest` hosts."""
        order = sorted(range(len(self.leaves_of)), key=lambda pod: len(self._whole_leaves(pod)))
        able = [pod for pod in order if len(self._whole_leaves(pod)) >= each]
        if len(able) < pods:
            return None
        for last in self._remainder_pods(order, left, rest):
            items = [
                (pod, tuple(self.pod_cables[pod]))
                for pod in able
                if last is None or pod != last.pod
            ]
            full = _choose(items, pods, lambda cut: self._positions(cut, each, last) is not None)  # noqa: B023
            if full is not None:
                by_pod = {pod: self._whole_leaves(pod)[:each] for pod in full}
                chosen = {leaf: self.free[leaf] for some in by_pod.values() for leaf in some}
                if last is not None:
                    chosen |= {leaf: self.free[leaf] for leaf in last.leaves}
                if last is not None and rest:
                    chosen[last.leaf] = self.free[last.leaf][:rest]
                found = self._pods_allocation(by_pod, each, last, chosen)
                return found and replace(found, wasted=len(found.hosts) - count)
        return None

    def _remainder_pods(
        self, order: list[int], left: int, rest: int
    ) -> list[_RemainderPod] | list[None]:
        """Return the possible remainder pods, with a remainder leaf for each set of cables."""
        if not left and not rest:
            return [None]
        result = []
        for pod in order:
            whole = self._whole_leaves(pod)
            if len(whole) < left:
                continue
            tried: set[int] = set()
            leaves = sorted(self.leaves_of[pod], key=lambda leaf: len(self.free[leaf]))
            for leaf in leaves if rest else [-1]:
                cables = self.leaf_cables[leaf] if rest else 0
                others = [each for each in whole if each != leaf][:left]
                if rest and (len(self.free[leaf]) < rest or cables in tried):
                    continue
                tried.add(cables)
                if len(others) == left:
                    result.append(_RemainderPod(pod, others, leaf, rest))
        return result

    def _positions(
        self, common: _Cables, each: int, last: _RemainderPod | None
    ) -> tuple[list[int], int] | None:
        """Return positions of second-level switches for all leaves, as many as a leaf has hosts.

        The first of them also serve the remainder leaf; their number is returned, too. Return None
        if too few positions have cables to common spines.
        """
        cables = [0] * len(common) if last is None else self.pod_cables[last.pod]
        left, rest = (0, 0) if last is None else (len(last.leaves), last.hosts)
        able = [
            position
            for position, (cut, own) in enumerate(zip(common, cables, strict=True))
            if _both(cut, each, own, left)
        ]
        serve = []
        if last is not None and rest:
            own_leaf = self.leaf_cables[last.leaf]
            serve = [
                position
                for position in able
                if own_leaf >> position & 1
                and (common[position] & cables[position]).bit_count() > left
            ]
        if len(able) < self.whole or len(serve) < rest:
            return None
        first = serve[:rest]
        more = [position for position in able if position not in first]
        return first + more[: self.whole - rest], rest

    def _pods_allocation(
        self,
        full: dict[int, list[int]],
        each: int,
        last: _RemainderPod | None,
        chosen: dict[int, list[int]],
    ) -> Allocation | None:
        """Return the allocation of whole leaves of several pods, or None without common cables."""
        common = _common([tuple(self.pod_cables[pod]) for pod in full])
        found = self._positions(common, each, last)
        if found is None:
            return None
        positions, serving = found
        leaves = [leaf for some in full.values() for leaf in some]
        leaves += [] if last is None else last.leaves
        cables = dict.fromkeys(leaves, sum(1 << position for position in positions))
        if last is not None and last.hosts:
            leaves = [*leaves, last.leaf]
            cables[last.leaf] = sum(1 << position for position in positions[:serving])
        upper: dict[tuple[int, int], int] = {}
        for at, position in enumerate(positions):
            part = 0
            if last is not None:
                below = len(last.leaves) + (at < serving)
                part = _lowest(common[position] & self.pod_cables[last.pod][position], below)
                upper[last.pod, position] = part
            spines = part | _lowest(common[position] & ~part, each - part.bit_count())
            upper |= {(pod, position): spines for pod in full}
        hosts = tuple(host for leaf in leaves for host in chosen[leaf])
        return Allocation(hosts, 0, cables, upper)


@dataclass(frozen=True)
class _RemainderPod:
    """The remainder pod: its whole leaves, its remainder leaf (or -1) and the hosts on it."""

    pod: int
    leaves: list[int]
    leaf: int
    hosts: int


def isolated_allocations(
    fabric: Fabric, jobs: Sequence[ArrayLike], method: Isolation = "jigsaw"
) -> list[Allocation]:
    """Return the hosts and links of jobs that were placed one after another by `isolated`.

    The hosts determine the links, because each job gets the lowest links that are free.

    `fabric`, `method`: as for `IsolatedJobs`.
    """
    state = IsolatedJobs(fabric, method)
    result = []
    for number, hosts in enumerate(jobs, 1):
        allocation = state.adopt(hosts)
        if allocation is None:
            raise NotApplicable(
                f"job {number} cannot be isolated by {method} on its hosts; place all jobs with "
                "placement isolated"
            )
        state.take(allocation)
        result.append(allocation)
    return result


def isolated_routes(
    fabric: Fabric, jobs: Sequence[ArrayLike], method: Isolation = "jigsaw"
) -> PathRoutes:
    """Return routes between the hosts of each job, on the links of that job only.

    They are D-mod-K on each job's own tree: the index of the destination at its leaf selects the
    second-level switch, and the index of that leaf in its pod selects the spine. Hosts of different
    jobs have no route.

    `fabric`, `jobs`, `method`: as for `isolated_allocations`.
    """
    check_pairs(fabric)
    clos = find_folded_clos(fabric)
    pair: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    length: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    edges: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    for job, hosts in zip(isolated_allocations(fabric, jobs, method), jobs, strict=True):
        used = np.unique(np.asarray(hosts, dtype=np.int64))
        endpoint = fabric.host_endpoint[used].astype(np.int64)
        leaf_of = clos.leaf_of_row[fabric.graph.destination_row[endpoint]]
        members = {int(leaf): endpoint[leaf_of == leaf] for leaf in np.unique(leaf_of)}
        tree = _JobTree(clos, job, list(members))
        for start, sources in members.items():
            for end, destinations in members.items():
                for index, destination in enumerate(destinations.tolist()):
                    path = tree.path(start, end, index)
                    others = sources[sources != destination]
                    pair.append(others * fabric.num_host_endpoints + destination)
                    length.append(np.full(len(others), len(path)))
                    edges.append(np.tile(np.array(path, dtype=np.int32), len(others)))
    pairs, counts = np.concatenate(pair), np.concatenate(length)
    order = np.argsort(pairs)
    first = np.cumsum(counts) - counts
    offset = np.concatenate(([0], np.cumsum(counts[order]))).astype(np.int64)
    line = np.repeat(first[order] - offset[:-1], counts[order]) + np.arange(offset[-1])
    return PathRoutes(
        engine=f"isolated:method={method}", fabric_digest=fabric.digest,
        pair=pairs[order], offset=offset, edge=np.concatenate(edges)[line],
    )  # fmt: skip


class _JobTree:
    """The cables of one job as a tree of its own."""

    def __init__(self, clos: FoldedClos, job: Allocation, leaves: list[int]) -> None:
        self.clos, self.job = clos, job
        stages = clos.stages
        pod = stages[1].subtree if len(stages) > 1 else np.zeros(len(clos.leaf_row), dtype=np.int32)
        self.pod_of: list[int] = pod.tolist()
        before: dict[int, int] = {}
        self.index: dict[int, int] = {}
        for leaf in leaves:
            self.index[leaf] = before.get(self.pod_of[leaf], 0)
            before[self.pod_of[leaf]] = self.index[leaf] + 1

    def path(self, start: int, end: int, index: int) -> list[int]:
        """Return the edges from a leaf to another one, for its destination with an index."""
        if start == end:
            return []
        job, stages, reverse = self.job, self.clos.stages, self.clos.reverse
        at = _bit(job.leaf_cables[start] & job.leaf_cables[end], index)
        lines = [(stages[0].edge[start, 0, at], stages[0].edge[end, 0, at])]
        pods = self.pod_of[start], self.pod_of[end]
        if pods[0] != pods[1]:
            common = job.pod_cables[pods[0], at] & job.pod_cables[pods[1], at]
            spine = _bit(common, self.index[end])
            lines.append((stages[1].edge[pods[0], at, spine], stages[1].edge[pods[1], at, spine]))
        up = [int(edge) for edge, _ in lines]
        return up + [int(reverse[edge]) for _, edge in reversed(lines)]


def _bit(cables: int, index: int) -> int:
    """Return the position of the set bit with an index, taken modulo the number of set bits."""
    for _ in range(index % cables.bit_count()):
        cables &= cables - 1
    return (cables & -cables).bit_length() - 1


def _lowest(cables: int, count: int) -> int:
    """Return the `count` lowest set bits of a number, as a number."""
    result = 0
    for _ in range(count):
        bit = cables & -cables
        result |= bit
        cables ^= bit
    return result


def _both(common: int, count: int, own: int, rest: int) -> bool:
    """Return whether there are `count` common cables, `rest` of which the remainder has too."""
    return common.bit_count() >= count and (common & own).bit_count() >= rest


def _common(cables: list[_Cables]) -> _Cables:
    """Return the cables that all items have."""
    result = cables[0]
    for each in cables[1:]:
        result = tuple(a & b for a, b in zip(result, each, strict=True))
    return result


def _choose(
    items: list[tuple[int, _Cables]], count: int, fits: Callable[[_Cables], bool]
) -> list[int] | None:
    """Return `count` items whose common cables fit, or None if there are none."""
    failed: set[tuple[int, int, _Cables]] = set()

    def extend(begin: int, chosen: list[int], common: _Cables) -> list[int] | None:
        if len(chosen) == count:
            return chosen
        state = (begin, len(chosen), common)
        if state in failed:
            return None
        for at in range(begin, len(items) - (count - len(chosen)) + 1):
            number, own = items[at]
            both = _common([common, own]) if chosen else own
            if fits(both):
                found = extend(at + 1, [*chosen, number], both)
                if found is not None:
                    return found
        failed.add(state)
        return None

    return extend(0, [], ())
