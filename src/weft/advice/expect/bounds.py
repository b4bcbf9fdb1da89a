"""What bounds a run: the resource that alone would take the longest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.advice.expect.programs import BenchmarkRun
from weft.core.counts import count_text
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.arrays import INSIDE, OUTSIDE
from weft.routing.routes import Routes
from weft.sim.flow.result import FlowResult
from weft.sim.simulate import simulate
from weft.workload.workload import Kind

#: Share of the time in which a link is busy, above which no other resource is examined.
_FULL = 0.9
#: Rate that takes no time.
_ENDLESS_GBPS = 1e9
#: Relative difference of times that are equal.
_EQUAL = 1e-6
#: Resources whose rate bounds, nearest the processor first.
RATES = ("memory of a machine", "scale-up", "PCIe", "adapter", "cable between switches")
#: All resources; the calculations of an algorithm are its steps.
RESOURCES = (*RATES, "latency", "overhead", "steps")


class Bound(NamedTuple):
    """What bounds a run."""

    #: One of `RESOURCES`.
    resource: str
    #: Which one: the busiest link and how many are as busy, or the number of messages one after the
    #: other.
    which: str
    #: Time that the run would take if all other resources were ideal, as a share of its time.
    share: float

    def text(self) -> str:
        """Return the resource, and which one it is."""
        return f"{self.resource} {self.which}".rstrip()


@dataclass(frozen=True, eq=False)
class Bounds:
    """What bounds runs on a fabric, at the flow level.

    A run is repeated with one resource as it is and all others ideal: endless rates, no latency, no
    overhead, calculations that take no time. The resource with the longest run bounds it; of equal
    ones, the first of `RESOURCES`. If a link is busy for nearly all of the run, it is its bound.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes.
    options
        Settings of runs at the flow level.
    """

    fabric: Fabric
    routes: Routes
    options: dict[str, Any]

    def of(self, program: BenchmarkRun, result: FlowResult) -> Bound:
        """Return what bounds a run, whose result is `result`."""
        use = result.links()["utilisation"].fill_null(0.0).to_numpy()
        busiest = {
            kind: int(np.flatnonzero(part)[use[part].argmax()])
            for kind, part in self._kinds.items()
            if use[part].max(initial=0.0) > 0
        }
        kind = max(busiest, key=lambda each: use[busiest[each]], default="")
        work, messages = program.workload, program.workload.messages
        if kind and use[busiest[kind]] >= _FULL:
            # Of equally busy links, the one nearest the processor.
            full = (1 - _EQUAL) * use[busiest[kind]]
            kind = next(each for each in busiest if use[busiest[each]] >= full)
            return Bound(kind, self._named(kind, use), float(use[busiest[kind]]))
        there = {"latency": True, **dict.fromkeys(busiest, True)}
        there["memory of a machine"] = bool((result.route[messages] < 0).any())
        known = (self.options.get(name) for name in ("overhead_ns", "host_parameters"))
        there["overhead"] = any(known)
        there["steps"] = bool(work.duration_ns[work.kind == Kind.CALC].any())
        alone = {each: self._alone(each, program) for each in RESOURCES if there.get(each)}
        most = (1 - _EQUAL) * max(alone.values())
        bound = next(each for each, time_ns in alone.items() if time_ns >= most)
        which = self._named(bound, use) if bound in busiest else ""
        if bound == "steps":
            which = "of the algorithm, such as reductions in a machine"
        if bound == "latency" and (routes := result.route[messages]).max() >= 0:
            typical = result.network.route_latency_ns[routes[routes >= 0]].mean()
            count = round(alone[bound] / float(typical))
            which = f"of {count} messages one after the other" * (count > 1)
        return Bound(bound, which, min(alone[bound] / float(result.makespan_ns), 1.0))

    def _named(self, kind: str, use: NDArray[np.float64]) -> str:
        """Return the name of the busiest link of a kind, and how many others are as busy."""
        of_kind = np.where(self._kinds[kind], use, 0.0)
        others = int((of_kind >= (1 - _EQUAL) * of_kind.max()).sum()) - 1
        name = self.fabric.link_name(int(of_kind.argmax()))
        return f"{name} or {count_text(others, 'link')} as busy" if others else name

    @cached_property
    def _kinds(self) -> dict[str, NDArray[np.bool_]]:
        """Links of each kind of `RATES`, bool [links]."""
        fabric = self.fabric
        inside, switch = fabric.adapter != OUTSIDE, fabric.node_kind == NodeKind.SWITCH
        ends = np.stack([fabric.link_from, fabric.link_to])
        within = inside[ends].all(axis=0)
        scale_up = within & (switch & (fabric.adapter == INSIDE))[ends].any(axis=0)
        between = (switch & ~inside)[ends].all(axis=0)
        return {
            "scale-up": scale_up, "PCIe": within & ~scale_up, "adapter": ~(within | between),
            "cable between switches": between,
        }  # fmt: skip

    @cached_property
    def _ideal(self) -> dict[str, Fabric]:
        """The fabric with endless rates of all links except those of a kind; "": of all links."""
        none = np.zeros(self.fabric.num_links, dtype=np.bool_)
        return {
            kind: replace(
                self.fabric,
                cable_rate_gbps=np.where(part[::2], self.fabric.cable_rate_gbps, _ENDLESS_GBPS),
            )
            for kind, part in {**self._kinds, "": none}.items()
        }

    def _alone(self, resource: str, program: BenchmarkRun) -> float:
        """Return the time of a run in which only this resource takes time."""
        work, options = program.workload, dict(self.options)
        if resource != "latency":
            options |= {"latency_ns": 0.0, "local_latency_ns": 0.0}
        if resource != "overhead":
            options["overhead_ns"] = 0.0
        if (hosts := options.get("host_parameters")) is not None:
            kept = {"latency": "adapter_latency_ns", "adapter": "adapter_gbps"}.get(resource)
            others = {"adapter_latency_ns", "adapter_gbps"} - {kept}
            options["host_parameters"] = hosts.model_copy(update=dict.fromkeys(others))
        if resource != "memory of a machine":
            options["local_gbps"] = _ENDLESS_GBPS
        if resource != "steps":
            work = replace(work, duration_ns=np.zeros_like(work.duration_ns))
        ideal = self._ideal.get(resource, self._ideal[""])
        result = simulate(ideal, self.routes, work, program.hosts, level="flow", **options)
        return float(result.makespan_ns)
