"""Exact bounds of the shares of jobs: one unknown for each pair of hosts, nothing joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from weft import Fabric
from weft.routing.routes import Routes
from weft.sim.static.loads import host_flows


class Mixes:
    """All rates of pairs, of jobs (list of hosts each) or of no job, that give these loads."""

    def __init__(
        self, fabric: Fabric, routes: Routes, jobs: Sequence[np.ndarray], loads: np.ndarray
    ):
        free = np.setdiff1d(np.arange(fabric.num_hosts), np.concatenate([*jobs, np.zeros(0, int)]))
        self.job, sources, destinations = [], [], []
        for number in range(len(jobs) + 1):
            for s in range(fabric.num_hosts):
                for d in range(fabric.num_hosts):
                    ends = [host in free for host in (s, d)]
                    mine = [number < len(jobs) and host in jobs[number] for host in (s, d)]
                    listed = any(mine) and all(a or b for a, b in zip(ends, mine, strict=True))
                    if s != d and (listed if number < len(jobs) else all(ends)):
                        self.job.append(number)
                        sources.append(s)
                        destinations.append(d)
        self.jobs, self.loads = len(jobs), loads
        self.matrix = np.zeros((fabric.num_links, len(sources)))
        offset, link = routes.links(fabric, host_flows(fabric, sources, destinations))
        for pair in range(len(sources)):
            self.matrix[link[offset[pair] : offset[pair + 1]], pair] = 1.0

    def least(self, link: int, weight: Sequence[float]) -> float:
        """Return the least of a weighted sum of the rates of jobs, and of no job, on a link."""
        cost = np.array(weight)[self.job] * self.matrix[link]
        found = linprog(cost, A_eq=self.matrix, b_eq=self.loads)
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
