"""`Candidate`: hosts of all roles, with their names, loads and measured bandwidths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.advice.io_nodes.loads import SiteLoads

#: Name of the placement that the local search finds.
SEARCH = "search"
#: Placement of a compute job that has no choice of hosts.
ALL = "all"


@dataclass(frozen=True)
class Figures:
    """Aggregate bandwidths of a run, in Gb/s."""

    #: Of each job alone.
    io_alone: float
    compute_alone: float
    #: Of each job when both run.
    io: float
    compute: float
    #: Product of the last two in each repetition; the bandwidths are means over repetitions.
    scores: tuple[float, ...]

    @property
    def interference(self) -> float:
        """Share of its bandwidth that the compute job loses to I/O; below 0 for a gain."""
        return 1 - self.compute / self.compute_alone

    @property
    def score(self) -> float:
        """Mean of `scores`."""
        return float(np.mean(self.scores))


@dataclass(frozen=True, eq=False)
class Candidate:
    """Hosts for all roles, with their figures."""

    #: Names of the placements of I/O nodes and of the compute job that give these hosts.
    placements: tuple[str, ...]
    compute_placements: tuple[str, ...]
    #: Static figures, and the hosts (`loads.site`).
    loads: SiteLoads
    #: Bandwidths at the flow level and at the confirming level; None if not run.
    flow: Figures | None = None
    confirmed: Figures | None = None

    @property
    def stage(self) -> int:
        """Number of levels with runs: 0 to 2."""
        return (self.flow is not None) + (self.confirmed is not None)

    @property
    def figures(self) -> Figures | None:
        """Figures of the most detailed level that was run."""
        return self.confirmed or self.flow

    @property
    def score(self) -> float:
        """Score of `figures`; without a run, the bandwidth of a client in the worst case."""
        return self.loads.client_gbps if self.figures is None else self.figures.score

    @property
    def by_rule(self) -> bool:
        """Whether a rule gives these hosts, not random draws or the search."""
        return any(name != SEARCH and not name.startswith("random") for name in self.placements)

    @property
    def name(self) -> str:
        """Simplest placement, and that of the compute job if there are several."""
        first, second = self.placements[0], self.compute_placements[0]
        return first if second == ALL else f"{first} with the compute job {second}"

    def hosts(self, role: str = "io") -> list[str]:
        """Return the names of the machines of a role: ``io``, ``clients`` or ``compute``."""
        names = self.loads.fabric.machine_names
        return list(dict.fromkeys(names[host] for host in getattr(self.loads.site, role)))
