"""Tables reach every port of a host from all sending hosts, or the engine rejects the fabric."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.errors import NotApplicable
from weft.core.registry import Entry
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import engine, route
from weft.routing.engine_registry import never_deadlocks, sending_rows
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate


def with_second_ports(spec: str, shift: int, faults: int) -> Fabric:
    """Rebuild a fabric; every other host has a second cable, to the leaf `shift` leaves further."""
    like = load(spec)
    if faults:
        like = like.with_faults(cables=faults, seed=3)
    builder = FabricBuilder(f"{spec} with second ports")
    switches = builder.switches([like.node_names[node] for node in range(like.num_switches)])
    ends = np.column_stack((like.link_from, like.link_to))[::2]
    between = ends[(ends < like.num_switches).all(axis=1)]
    builder.connect(switches[between[:, 0]], switches[between[:, 1]])
    rows = like.graph.destination_row[like.host_endpoint]
    hosts = builder.hosts(
        [like.node_names[node] for node in like.endpoint_node[like.host_endpoint]]
    )
    leaves = np.unique(rows)
    builder.connect(hosts, switches[rows])
    second = leaves[(np.searchsorted(leaves, rows) + shift) % len(leaves)]
    builder.connect(hosts[::2], switches[second[::2]])
    return builder.fabric()


FABRICS = [
    ("xgft:2;4,4;1,4", 1, 0),
    ("xgft:3;3,3,3;1,2,2", 4, 2),
    ("torus:4x4", 3, 0),
    ("torus:4x4", 1, 3),
    ("kns:k=4,n=2", 1, 2),
    ("ring:5", 2, 2),
]

#: Options with which engines route fabrics that they reject by default.
MORE = {
    "ftree": ("ftree:pure=false",),
    "updn": ("updn:roots=center", "updn:roots=center;balance=opensm"),
    "dor": ("dor:dimensions=wiring",),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("spec", FABRICS, ids=lambda spec: f"{spec[0]}+{spec[1]}-{spec[2]}")
@pytest.mark.parametrize("entry", list(engine), ids=lambda entry: entry.name)
def test_all_ports_are_reached_or_the_engine_rejects_the_fabric(
    entry: Entry, spec: tuple[str, int, int]
) -> None:
    fabric = with_second_ports(*spec)
    theirs = entry.facts.get("as_opensm", entry.name)
    for name in dict.fromkeys((entry.name, theirs, *MORE.get(entry.name, ()))):
        try:
            routes = route(fabric, name)
        except NotApplicable:
            continue
        if not isinstance(routes, TableRoutes):
            continue
        assert not (never_deadlocks(name) and validate(fabric, routes).credit_loops)
        missing = missing_paths(fabric, routes)
        # OpenSM's own tables may lack paths; then a note says so.
        lost = any("without a path" in note for note in routes.notes)
        assert bool(missing) == lost, (name, missing[:3])
        assert not lost or "balance=opensm" in name


def missing_paths(fabric: Fabric, routes: TableRoutes) -> list[tuple[int, int]]:
    """Return pairs of sending row and host endpoint that cables connect but the tables do not."""
    graph, label = fabric.graph, fabric.graph.components
    unrouted = []
    for end in np.flatnonzero(graph.destination_row[: fabric.num_host_endpoints] >= 0).tolist():
        goal = graph.destination_row[end]
        for start in sending_rows(fabric)[label[sending_rows(fabric)] == label[goal]].tolist():
            row, steps = start, 0
            while row != goal and row >= 0 and steps <= graph.num_rows:
                port = int(routes.table[end << routes.lmc, row])
                slot = graph.row_base[row] + port
                row = (
                    -1
                    if slot >= graph.row_base[row + 1]
                    else int(graph.link_row[graph.row_link[slot]])
                )
                steps += 1
            if row != goal:
                unrouted.append((start, end))
    return unrouted
