"""What a scenario does to the jobs that run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.advice.comparison import Comparison
from weft.advice.watch.traffic import PairTraffic, expected_traffic
from weft.advice.what_if.evaluate import WhatIf
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.words import few
from weft.fabrics import Fabric
from weft.report.comparison_data import PatternRun
from weft.sim.static.loads import inner_links, relative_loads

#: Name of the traffic of running jobs among patterns.
JOBS = "running jobs"


@dataclass(frozen=True, eq=False)
class JobTraffic:
    """What running jobs exchange if each of their hosts sends at its full rate."""

    #: Name of each job, and int64: its hosts.
    hosts: Mapping[str, NDArray[np.int64]]
    traffic: PairTraffic
    #: Jobs that the workload does not fit, with the reason.
    left: tuple[str, ...]

    @classmethod
    def of(
        cls, fabric: Fabric, hosts: Mapping[str, NDArray[np.int64]], workload: str = ""
    ) -> JobTraffic:
        """Return the traffic of jobs: all-to-all within each, or a workload.

        Raises
        ------
        InputError
            If no job sends anything, or the workload is unknown.
        """
        full = np.full(fabric.num_hosts, fabric.host_rate_gbps)
        traffic, left = expected_traffic(fabric, hosts, full, workload=workload)
        if not len(traffic.sources):
            raise InputError(
                f"no running job has traffic on {fabric.name}: each has less than two machines"
                + (f", or does not fit: {left[0]}" if left else "")
            )
        return cls(hosts, traffic, tuple(left))

    def runs(self, result: Comparison) -> tuple[PatternRun, ...]:
        """Return the loads of each outcome of a comparison.

        A load is the rate that a link would need, relative to its own; a flow is the full rate of
        a host.
        """
        fabric, runs = result.fabric, []
        for outcome in result.outcomes:
            if outcome.routes is None:
                continue
            loads = self.traffic.loads(fabric, outcome.routes)
            flows = loads.per_link / fabric.host_rate_gbps
            runs.append(
                PatternRun(
                    outcome.name, JOBS, flows, relative_loads(fabric, flows),
                    unrouted_share=float(loads.unrouted / loads.flows),
                    no_users="The hosts of a link are not listed for the traffic of jobs.",
                )
            )  # fmt: skip
        return tuple(runs)

    def sentences(self, result: WhatIf) -> list[str]:
        """Return which jobs lose machines, the loads of all, and which are not judged."""
        changed = result.changed
        lost = changed.lost_hosts
        hit = [name for name, hosts in self.hosts.items() if lost[hosts].any()]
        lines = []
        if hit:
            verb = "loses" if len(hit) == 1 else "lose"
            lines.append(f"{count_text(len(hit), 'running job')} {verb} machines: {few(hit)}.")
        peaks = [
            f"{_peak(fabric, run):.2f} ({name})"
            for fabric, runs, name in (
                (changed.before, result.before.runs, "now"),
                *((changed.after, [run], run.engine) for run in result.after.runs),
            )
            for run in runs
            if run.pattern == JOBS
        ]
        lines.append(
            "If each host of the running jobs sent at its full rate, the most loaded link between "
            f"switches would have to carry this multiple of its rate: {', '.join(peaks)}."
        )
        return lines + [f"Running job not judged: {text}." for text in self.left]


def _peak(fabric: Fabric, run: PatternRun) -> float:
    return float(run.load[inner_links(fabric)].max(initial=0.0))
