"""Exact bounds of the shares of jobs: one unknown for each pair of hosts, nothing joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array, csr_array, hstack

from weft import Fabric
from weft.routing.routes import Routes
from weft.sim.static.loads import link_loads


class Mixes:
    """All rates of pairs, of jobs or of no job, that give these loads (NaN where not known)."""

    def __init__(
        self, fabric: Fabric, routes: Routes, jobs: Sequence[np.ndarray], loads: np.ndarray
    ):
        ends = fabric.num_switches + np.arange(fabric.num_hosts)
        sends, receives = (
            np.bincount(side, loads, minlength=len(fabric.node_names))[ends] != 0
            for side in (fabric.link_from, fabric.link_to)
        )
        free = np.ones(fabric.num_hosts, dtype=bool)
        pairs = np.zeros((len(jobs) + 1, fabric.num_hosts, fabric.num_hosts), dtype=bool)
        for number, hosts in enumerate(jobs):
            free[hosts] = False
            pairs[number][np.ix_(hosts, hosts)] = True
        for number, hosts in enumerate(jobs):
            pairs[number][np.ix_(hosts, free)] = True
            pairs[number][np.ix_(free, hosts)] = True
        pairs[-1] = free[:, None] & free
        pairs &= sends[:, None] & receives & ~np.eye(fabric.num_hosts, dtype=bool)
        columns, self.job = [], []
        for job, source, destination in zip(*np.nonzero(pairs), strict=True):
            for offset in range(1 << routes.lmc):
                load = link_loads(fabric, routes, [source], [destination], lid_offset=offset)
                columns.append(csc_array(load.astype(float)[:, None]))
                self.job.append(job)
        self.jobs = len(jobs)
        self.matrix = csr_array(hstack(columns))
        known = np.flatnonzero(np.isfinite(loads))
        self.equal = {"A_eq": self.matrix[known], "b_eq": loads[known]}

    def least(self, link: int, weight: Sequence[float]) -> float:
        """Return the least of a weighted sum of the rates of jobs, and of no job, on a link."""
        cost = np.array(weight)[self.job] * self.matrix[[link]].toarray()[0]
        found = linprog(cost, **self.equal)
        assert found.status == 0, found.message
        return found.fun

    def bounds(self, link: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the most of each job, and of no job, on a link."""
        each = np.eye(self.jobs + 1)
        return (
            np.array([self.least(link, weight) for weight in each]),
            np.array([-self.least(link, -weight) for weight in each]),
        )

    def lead(self, link: int, first: int) -> float:
        """Return by how much a job at least exceeds every other on a link."""
        each = np.eye(self.jobs + 1)
        others = [other for other in range(self.jobs + 1) if other != first]
        return min(self.least(link, each[first] - each[other]) for other in others)
