"""Comparison pages for tests of the report, from real routes and loads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.report.comparison_data import EngineVerdict, LinkUsers, Page, PatternRun
from weft.routing import route
from weft.routing.routes import Routes, TableRoutes
from weft.sim.static.loads import flow_loads, host_flows, link_users

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def pairs_of(pattern: str, hosts: int) -> Pairs:
    """Return the pairs of a pattern that is simple enough to define directly."""
    if pattern == "all-to-all":
        source, destination = np.divmod(np.arange(hosts * hosts), hosts)
        apart = source != destination
        return source[apart], destination[apart]
    if pattern == "shift":
        return np.arange(hosts), (np.arange(hosts) + hosts // 2) % hosts
    assert pattern == "incast"
    return np.arange(1, hosts), np.zeros(hosts - 1, dtype=np.int64)


def run_of(
    fabric: Fabric, routes: Routes, pattern: str, *, listed: int | None = None
) -> PatternRun:
    """Return loads of one engine under one pattern, with the users of every loaded link."""
    source, destination = pairs_of(pattern, fabric.num_hosts)
    flows = host_flows(fabric, source, destination)
    loads = flow_loads(fabric, routes, flows)
    load = loads.per_link * (fabric.host_rate_gbps / fabric.link_rate_gbps)
    users = {}
    if isinstance(routes, TableRoutes):
        links = np.flatnonzero(load > 0)
        links = np.sort(links[np.argsort(-load[links], kind="stable")][:listed])
        through = link_users(fabric, routes, flows, links)
        node = fabric.host_nodes
        users = {
            int(link): LinkUsers.of(node[source[f]], node[destination[f]], np.ones(len(f), int))
            for link, f in zip(links, through, strict=True)
        }
    return PatternRun(
        engine=routes.engine,
        pattern=pattern,
        flows=loads.per_link.astype(np.float64),
        load=load.astype(np.float64),
        users=users,
        unrouted_share=loads.unrouted / max(loads.flows, 1),
        no_users="" if users else f"{routes.engine} does not fix the path of a flow.",
    )


def comparison_page(
    fabric: Fabric,
    engines: Sequence[str] = ("minhop", "updn", "ecmp"),
    patterns: Sequence[str] = ("all-to-all", "shift"),
    *,
    title: str = "",
    listed: int | None = None,
) -> Page:
    """Return a page of real analyses, with ``bit-reversal`` as a pattern that does not fit."""
    verdicts, runs = [], []
    for name in engines:
        try:
            routes = route(fabric, name)
        except NotApplicable as reason:
            verdicts.append(EngineVerdict(name, f"the {name} engine", refusal=str(reason)))
            continue
        mine = [run_of(fabric, routes, pattern, listed=listed) for pattern in patterns]
        runs += mine
        verdicts.append(
            EngineVerdict(
                name,
                f"the {name} engine",
                ok=True,
                findings=routes.notes,
                cells={"max_load": f"{mine[0].load.max():.1f}"} if mine else {},
            )
        )
    verdicts.sort(key=lambda verdict: bool(verdict.refusal))
    return Page(
        fabric=fabric,
        title=title or f"Routing engines on {fabric.name}",
        facts=(("hosts", str(fabric.num_hosts)), ("switches", str(fabric.num_switches))),
        columns={"engine": "its name", "max_load": "all-to-all: the busiest link's load [flows]"},
        engines=tuple(verdicts),
        patterns={name: f"the {name} pattern" for name in patterns}
        | {"bit-reversal": "needs a power of two of hosts"},
        runs=tuple(runs),
        notes=("made for a test",),
    )
