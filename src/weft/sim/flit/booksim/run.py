"""A run of BookSim as settings of the flit level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.flit.router import Router
from weft.sim.flit.run import FlitTraffic, simulate_flits
from weft.sim.flit.traffic import Load


@dataclass(frozen=True)
class Channels:
    """Latencies of BookSim's channels, cycles."""

    #: Of the channels of each endpoint of a router, in both directions.
    hosts: tuple[int, ...] = (1,)
    #: Of channels between routers.
    routers: int = 1
    #: Of channels between groups of a dragonfly; 0 for other networks.
    groups: int = 0
    #: Routers of a row of the floor plan, and cycles for a step in a row and for one between rows,
    #: if latencies follow from the distance of routers.
    plan: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        between = f"{self.routers}" if not self.plan else "by distance"
        hosts = self.hosts[:1] if len(set(self.hosts)) == 1 else self.hosts
        text = f"{between} between routers, {'/'.join(map(str, hosts))} to and from endpoints"
        return text + (f", {self.groups} between groups" if self.groups else "")


@dataclass(frozen=True)
class BookSimRun:
    """A run of BookSim 2 as settings of the flit level.

    Parameters
    ----------
    file
        The configuration file.
    fabric
        Spec of the fabric.
    routing
        Name of the routing by coordinates, or of the engine of routes.
    router, load
        Settings of the routers, and the traffic.
    channels
        Latencies of BookSim's channels; `latencies` has those of links.
    notes
        Differences to a run of BookSim, each with the key that it is about.
    policy
        Policy of the engine's routes; None for a routing by coordinates.
    replaced
        Those of the notes that name a value without a counterpart, and what is used instead.
    """

    file: str
    fabric: str
    routing: str
    router: Router
    load: Load
    channels: Channels
    notes: tuple[str, ...]
    policy: str | None = None
    replaced: tuple[str, ...] = ()

    def simulate(self, **options: Any) -> FlitTraffic:
        """Simulate the run.

        Parameters
        ----------
        **options
            ``drain`` and ``progress``, as for `weft.simulate_flits`.

        Raises
        ------
        InputError, NotApplicable
            As `weft.simulate_flits`.
        """
        fabric = build(self.fabric)
        return simulate_flits(
            fabric, self.routes(fabric), load=self.load, router=self.router,
            latency=self.latencies(fabric), policy=self.policy, **options,
        )  # fmt: skip

    def routes(self, fabric: Fabric) -> str | Routes:
        """Return the name of the routing by coordinates, or the routes of the engine.

        Parameters
        ----------
        fabric
            The fabric, ``weft.fabric(run.fabric)``.
        """
        return self.routing if self.policy is None else route(fabric, self.routing)

    def latencies(self, fabric: Fabric) -> NDArray[np.int64]:
        """Return the latency of each link, cycles, for the flit level.

        A link to an endpoint takes a cycle more than BookSim's channel, which is the channel's
        register; those of other channels are a cycle of the router here.

        Parameters
        ----------
        fabric
            The fabric, ``weft.fabric(run.fabric)``.

        Returns
        -------
        ndarray
            int64 [links].
        """
        channels, switches = self.channels, fabric.num_switches
        tail, head = fabric.link_from.astype(np.int64), fabric.link_to.astype(np.int64)
        cycles = np.full(len(tail), channels.routers)
        if channels.groups:
            group = fabric.coordinates[:, 0]
            cycles[group[tail] != group[head]] = channels.groups
        if channels.plan:
            width, across, along = channels.plan
            ends = [np.divmod(node, width) for node in (tail, head)]
            (row, column), (other_row, other_column) = ends
            cycles = across * abs(column - other_column) + along * abs(row - other_row)
        for node, more in ((tail, 0), (head, 1)):
            host = node >= switches
            each = np.asarray(channels.hosts)
            cycles[host] = each[(node[host] - switches) % len(each)] + more
        return cycles.astype(np.int64)

    def describe(self) -> str:
        """Return the settings and the notes as text."""
        lines = [
            f"{self.file}",
            f"  fabric    {self.fabric}",
            f"  routing   {self.routing}" + (f", policy {self.policy}" if self.policy else ""),
            f"  channels  {self.channels}, cycles",
        ]
        for name, settings in (("routers", self.router), ("traffic", self.load)):
            table = settings.table()
            if name == "traffic":
                table["size"] = self.load.size_text
            texts = [f"{key}={value}" for key, value in table.items()]
            rows = [", ".join(texts[at : at + 5]) for at in range(0, len(texts), 5)]
            lines += [f"  {name if not at else '':<8}  {row}" for at, row in enumerate(rows)]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
