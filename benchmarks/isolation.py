"""Utilisation that isolated jobs cost: Jigsaw, LaaS and any free hosts, on 1,728 hosts.

Jobs of random sizes arrive in order; the first that does not fit waits until it does, while the
jobs that run leave in random order. The utilisation, hosts that jobs need over all hosts, is taken
when the first job is refused and at every later refusal.
"""

from __future__ import annotations

from time import perf_counter
from typing import Literal

import numpy as np

import weft
from weft.fabrics import Fabric
from weft.workload.isolation import Allocation, IsolatedJobs, Isolation

SPEC = "xgft:3;12,12,12;1,12,12"
#: Mean sizes of jobs, exponential and at most half of the hosts.
MEANS = (16, 64, 256)
SEEDS = 5
#: Refusals of each run; the first half, in which the tree fills up, counts only for the first.
REFUSALS = 400


class AnyHosts:
    """Jobs on any free hosts, such as random ones."""

    def __init__(self, hosts: int) -> None:
        self.free = hosts

    def find(self, count: int) -> Allocation | None:
        """Return an allocation that has a number of hosts."""
        return Allocation(tuple(range(count))) if count <= self.free else None

    def take(self, job: Allocation) -> None:
        """Use the hosts of a job."""
        self.free -= len(job.hosts)

    def release(self, job: Allocation) -> None:
        """Free the hosts of a job."""
        self.free += len(job.hosts)


def utilisation(
    fabric: Fabric, method: Isolation | Literal["random"], mean: float, seed: int, refusals: int
) -> tuple[float, float, float, float]:
    """Return shares of hosts: at the first refusal, later, and wasted; and seconds per search."""
    random = np.random.default_rng(seed)
    state: AnyHosts | IsolatedJobs = AnyHosts(fabric.num_hosts)
    if method != "random":
        state = IsolatedJobs(fabric, method)
    jobs: list[Allocation] = []
    used, wasted = [], []
    searches, spent = 0, 0.0
    while len(used) < refusals:
        count = min(1 + int(random.exponential(mean)), fabric.num_hosts // 2)
        while True:
            begin = perf_counter()
            job = state.find(count)
            spent += perf_counter() - begin
            searches += 1
            if job is not None:
                break
            hosts = sum(len(each.hosts) for each in jobs)
            wasted.append(sum(each.wasted for each in jobs) / fabric.num_hosts)
            used.append(hosts / fabric.num_hosts - wasted[-1])
            state.release(jobs.pop(int(random.integers(len(jobs)))))
        state.take(job)
        jobs.append(job)
    half = len(used) // 2
    return used[0], float(np.mean(used[half:])), float(np.mean(wasted[half:])), spent / searches


def main() -> None:
    """Print the utilisation with each method, as mean over the seeds."""
    fabric = weft.fabric(SPEC)
    print(f"{SPEC}, {SEEDS} seeds: utilisation, mean ± standard deviation")
    print("mean size  method  at first refusal  at later ones  wasted  search (ms)")
    for mean in MEANS:
        for method in ("random", "jigsaw", "laas"):
            rows = np.array(
                [utilisation(fabric, method, mean, seed, REFUSALS) for seed in range(SEEDS)]
            )
            first, later, wasted, seconds = rows.mean(axis=0)
            spread = rows.std(axis=0, ddof=1)
            print(
                f"{mean:9d}  {method:6s}  {first:8.3f} ± {spread[0]:.3f}  {later:7.3f} ± "
                f"{spread[1]:.3f}  {wasted:6.3f}  {seconds * 1e3:8.2f}"
            )


if __name__ == "__main__":
    main()
