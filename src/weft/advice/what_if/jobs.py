"""What a scenario does to the jobs that run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.advice.alternatives import IN_PLACE
from weft.advice.comparison import Comparison
from weft.advice.watch.traffic import PairTraffic, expected_traffic
from weft.advice.what_if.evaluate import SWEEP, WhatIf
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
        """Return which jobs lose machines and paths, the loads of all, and which are not judged."""
        changed = result.changed
        place = result.outcome(IN_PLACE)
        assert place is not None
        assert place.routes is not None
        gone = [name for name, hosts in self.hosts.items() if changed.lost_hosts[hosts].any()]
        lost = [
            name for name, hosts in self.hosts.items()
            if self._within(hosts[~changed.lost_hosts[hosts]])
            .loads(changed.after, place.routes).unrouted
        ]  # fmt: skip
        lines = [
            f"{count_text(len(names), 'running job')} {'loses' if len(names) == 1 else 'lose'} "
            f"{what}: {few(names)}."
            for names, what in (
                (gone, "machines"), (lost, "paths until OpenSM's next sweep")
            ) if names
        ]  # fmt: skip
        peaks = {
            run.engine: _peak(changed.after, run)
            for run in result.after.runs
            if run.pattern == JOBS
        }
        (now,) = (run for run in result.before.runs if run.pattern == JOBS)
        states = [("until OpenSM's next sweep", IN_PLACE), ("after it", SWEEP)]
        states += [
            (f"with {name} instead", name) for name in peaks if name not in (IN_PLACE, SWEEP)
        ]
        lines.append(
            "If each host of the running jobs sent at its full rate, the most loaded link between "
            f"switches would have to carry {_peak(changed.before, now):.2f} times its own rate now"
            + "".join(f", {peaks[name]:.2f} {text}" for text, name in states if name in peaks) + "."
        )  # fmt: skip
        return lines + [f"Running job not judged: {text}." for text in self.left]

    def _within(self, hosts: NDArray[np.int64]) -> PairTraffic:
        """Return the traffic among some hosts."""
        pairs = self.traffic
        sent = np.isin(pairs.sources, hosts) & np.isin(pairs.destinations, hosts)
        return PairTraffic(pairs.sources[sent], pairs.destinations[sent], pairs.gbps[sent])


def _peak(fabric: Fabric, run: PatternRun) -> float:
    return float(run.load[inner_links(fabric)].max(initial=0.0))
