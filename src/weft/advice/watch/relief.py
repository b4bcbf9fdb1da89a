"""What would relieve the most loaded cables: other routes, a repaired cable, or a moved job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.advice.alternatives import compare_in_place
from weft.advice.comparison import GAIN, change_to
from weft.advice.faults import Fault, faults
from weft.advice.watch.traffic import PairTraffic
from weft.core.counts import count_text
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.formats.hostlist import host_list
from weft.fabrics.variants import with_copies
from weft.routing.reroute import opensm_reroute
from weft.routing.routes import Routes, TableRoutes
from weft.routing.validation.validate import Validation
from weft.sim.static.loads import inner_links
from weft.workload.placement import place
from weft.workload.placement.placement_registry import allowed_hosts

#: Placements that are tried for a job on the machines that are free.
PLACEMENTS = ("linear", "block:order=most", "cyclic", "spread")

#: Kinds of changes, the cheapest first: repairs disturb no job, routes disturb all for a moment,
#: and a job that moves starts again.
_KINDS = ("cable", "engine", "job")


@dataclass(frozen=True, eq=False)
class Relief:
    """A change, and the predicted loads after it.

    Figures are the largest utilisation of a link between switches: now, after the change for the
    traffic measured, and the least and the largest of the latter over the estimates of the traffic.
    """

    #: cable: a repair; engine: other routes; job: other machines.
    kind: str
    change: str
    cost: str
    before: float
    after: float
    low: float
    high: float
    #: Link with the largest utilisation after the change.
    busiest: str
    #: Drawback (empty: none found).
    but: str = ""
    #: Host list of the machines of a job that moves.
    machines: str = ""
    #: Rate of each link after the change in Gb/s, float64 [links]; None for another fabric.
    loads: NDArray[np.float64] | None = field(default=None, repr=False)

    def cells(self) -> dict[str, str]:
        """Return the change as texts, by heading."""
        return {
            "change": self.change, "cost": self.cost, "now": f"{self.before:.0%}",
            "after": f"{self.after:.0%}", "interval": f"{self.low:.0%} to {self.high:.0%}",
            "helps": "yes" if self.helps else "no", "but": self.but,
        }  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return all but the loads as plain values for JSON."""
        kept = {name: value for name, value in vars(self).items() if name != "loads"}
        return kept | {"helps": self.helps}

    @property
    def helps(self) -> bool:
        """Whether all estimates of the traffic agree that the largest utilisation falls."""
        return self.high <= (1 - GAIN) * self.before


@dataclass(frozen=True, eq=False)
class ReliefCase:
    """What reliefs are computed from.

    Parameters
    ----------
    fabric, routes, checked
        The fabric, the tables in place, and what the validator says of them.
    estimates
        Estimates of the traffic; the first is that of the loads after a change, the others tell how
        much these depend on it.
    link_gbps
        float64 [links]: measured rates, NaN where not known.
    engine
        Engine of OpenSM that computed the tables; empty if not known.
    """

    fabric: Fabric
    routes: Routes
    checked: Validation
    estimates: tuple[PairTraffic, ...]
    link_gbps: NDArray[np.float64]
    engine: str = ""

    def relief(
        self, kind: str, change: str, cost: str, fabric: Fabric, routes: Routes, *,
        estimates: Sequence[PairTraffic] = (), but: str = "",
        rates: NDArray[np.float64] | None = None, machines: str = "",
    ) -> Relief:  # fmt: skip
        """Return the relief by other routes, traffic, or rates (Gb/s) of the links.

        The largest utilisation that was measured is scaled by the ratio of the predictions after
        and before the change, for each estimate. So what the estimates leave out counts, too.
        """
        inner = np.flatnonzero(inner_links(fabric))
        rate = fabric.link_rate_gbps if rates is None else rates
        loads = [each.loads(fabric, routes).per_link for each in estimates or self.estimates]
        busy = [(each / rate)[inner] for each in loads]
        after = [
            self.before * float(later.max()) / peak
            for later, peak in zip(busy, self._peaks, strict=True)
            if peak
        ] or [self.before]  # no estimate has traffic between switches
        busiest = fabric.link_name(int(inner[np.argmax(busy[0])]))
        return Relief(
            kind, change, cost, self.before, after[0], min(after), max(after), busiest, but,
            machines, loads[0] if fabric is self.fabric else None,
        )  # fmt: skip

    @cached_property
    def before(self) -> float:
        """Largest utilisation of a link between switches that was measured."""
        return float(np.nanmax((self.link_gbps / self.fabric.link_rate_gbps)[self._inner]))

    @cached_property
    def _peaks(self) -> list[float]:
        """The largest utilisation of a link between switches before a change, by each estimate."""
        loads = (each.loads(self.fabric, self.routes).per_link for each in self.estimates)
        return [float((each / self.fabric.link_rate_gbps)[self._inner].max()) for each in loads]

    @cached_property
    def _inner(self) -> NDArray[np.intp]:
        return np.flatnonzero(inner_links(self.fabric))


def reliefs(
    case: ReliefCase, jobs: Mapping[str, NDArray[np.int64]], culprits: Sequence[str]
) -> tuple[list[Relief], list[str]]:
    """Return the changes that were computed, and in words those that could not be.

    Those that help come first, and the cheapest of them first. `jobs`: hosts of each running job.
    `culprits`: jobs to move, the largest on the hot link first.
    """
    unjudged: list[str] = []
    found = [*_repairs(case, unjudged), *_engines(case), *_moves(case, jobs, culprits, unjudged)]
    found.sort(key=lambda r: (not r.helps, _KINDS.index(r.kind), bool(r.but), r.after))
    return found, unjudged


def _engines(case: ReliefCase) -> Iterator[Relief]:
    fabric = case.fabric
    compared = compare_in_place(fabric, case.routes, case.checked, valid=True)
    seen: list[Routes] = [case.routes]
    for outcome in compared.usable:
        assert outcome.routes is not None
        moved = [_entries(each, outcome.routes) for each in seen]
        if 0.0 in moved:
            continue  # the same tables under another name
        seen.append(outcome.routes)
        cost = "all tables are loaded anew"
        if not np.isnan(moved[0]):
            cost = f"{moved[0]:.0%} of the entries of the tables change"
        but = "clearly worse for other traffic" if compared.worse[outcome.name] else ""
        yield case.relief(
            "engine", change_to(fabric, outcome), cost, fabric, outcome.routes, but=but
        )


def _entries(old: Routes, new: Routes) -> float:
    """Return the share of entries that differ, NaN if the routes are not both of one LMC."""
    if isinstance(old, TableRoutes) and isinstance(new, TableRoutes) and old.lmc == new.lmc:
        return float((old.table != new.table).mean())
    return float("nan")


def _repairs(case: ReliefCase, unjudged: list[str]) -> Iterator[Relief]:
    """Yield the relief by each repair; `unjudged` gets those that cannot be computed, and why."""
    fabric = case.fabric
    for fault in faults(fabric):
        change = f"{fault.text}: repair"
        if fault.kind == "degraded cable" and fault.port is not None:
            slot = fabric.port_offset[fabric.find_node(fault.node)] + fault.port - 1
            link = int(fabric.port_link[slot])
            rates = fabric.link_rate_gbps.copy()
            rates[[link, link ^ 1]] += fault.lost_gbps or 0.0
            cost = "this cable is down for a moment"
            yield case.relief("cable", change, cost, fabric, case.routes, rates=rates)
        elif fault.kind == "missing cable":
            try:
                yield _replugged(case, fault, change)
            except (InputError, NotApplicable) as reason:
                unjudged.append(f"Not judged: {change}: {reason}.")


def _replugged(case: ReliefCase, fault: Fault, change: str) -> Relief:
    """Return the relief by a missing cable, with the tables of OpenSM's next sweep."""
    fabric = case.fabric
    if not isinstance(case.routes, TableRoutes) or not case.engine:
        raise NotApplicable("the engine of the tables is not known")
    if fault.peer_port is None or fault.port is None:
        raise NotApplicable("its ports are not known")
    ends = np.array([[fabric.find_node(name) for name in (fault.node, fault.peer or "")]])
    up = (fabric.link_from == ends[0, 0]) & (fabric.link_to < fabric.num_switches)
    whole = Fabric.of(
        with_copies(
            fabric, np.zeros(0, dtype=np.int64), [], np.flatnonzero(up)[:1] >> 1, ends,
            np.array([[fault.port, fault.peer_port]]),
        )
    )  # fmt: skip
    routes = opensm_reroute(fabric, case.routes, whole, case.engine)
    cost = f"a cable, and the tables of {case.engine} after the next sweep"
    return case.relief("cable", change, cost, whole, routes)


def _moves(
    case: ReliefCase,
    jobs: Mapping[str, NDArray[np.int64]],
    culprits: Sequence[str],
    unjudged: list[str],
) -> Iterator[Relief]:
    """Yield the best place on free machines for each of the culprits; `unjudged` as above."""
    fabric = case.fabric
    machine = fabric.machine_of_host
    busy = np.unique(machine[np.concatenate([*jobs.values(), np.zeros(0, dtype=np.int64)])])
    roles = np.array(fabric.roles)
    free = allowed_hosts(fabric)
    free = free[~np.isin(machine[free], busy)]
    for name in culprits:
        hosts = jobs[name]
        # Machines of another kind, such as storage, do not take jobs.
        alike = free[np.isin(roles[free], np.unique(roles[hosts]))]
        found = []
        for spec in PLACEMENTS if len(alike) >= len(hosts) else ():
            try:
                placed = place(fabric, len(hosts), spec, hosts=alike)
            except (InputError, NotApplicable):
                continue
            # A machine moves as a whole: the adapters of one to those of another.
            placed = placed[np.argsort(machine[placed], kind="stable")]
            order = hosts[np.argsort(machine[hosts], kind="stable")]
            sizes, theirs = (
                np.unique(machine[each], return_counts=True)[1] for each in (order, placed)
            )
            if not np.array_equal(sizes, theirs):
                continue
            to = dict(zip(order.tolist(), placed.tolist(), strict=True))
            names = dict.fromkeys(fabric.machine_names[host] for host in placed.tolist())
            found.append(
                case.relief(
                    "job", f"move job {name} to {count_text(len(names), 'free machine')}",
                    f"the job starts again on {count_text(len(sizes), 'machine')}",
                    fabric, case.routes, estimates=[each.moved(to) for each in case.estimates],
                    machines=host_list(names),
                )
            )  # fmt: skip
        if found:
            yield min(found, key=lambda relief: relief.after)
        else:
            free_text = count_text(len(np.unique(machine[alike])), "free machine")
            unjudged.append(f"Not judged: a move of job {name}: it does not fit on {free_text}.")
